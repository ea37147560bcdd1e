"""Plans: how a run is cut up. Public, and the same at every party."""

from coterie.planning.plan import Plan, make_plan

__all__ = ["Plan", "make_plan"]
