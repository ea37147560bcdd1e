"""Plans and what they will cost. Public, and the same at every party."""

from coterie.planning.forecasts import Forecast, forecast
from coterie.planning.plan import Plan, check_plan, planned
from coterie.planning.sketch import even_layout, sketch

__all__ = ["Forecast", "Plan", "check_plan", "even_layout", "forecast", "planned", "sketch"]
