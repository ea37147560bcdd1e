"""Rows of different organisations that belong together, found by their ids: see docs/matching.md."""

from coterie.matching.costs import SLOT_BYTES, MatchingCost, cost_of_matching
from coterie.matching.pairing import count_slots, draw_words, find_common, find_twins, place
from coterie.matching.patchwork import lay_out
from coterie.matching.tags import KEY_BYTES, TAG_BYTES, IdRule, Tags, make_tags, normalise, sort_tags

#: Why it is disclosed which ids match, or how many.
MATCHING = "the run is about the rows that all parties hold"
PLACING = "rows that all parties hold are put into the same slots"

__all__ = [
    "KEY_BYTES",
    "MATCHING",
    "PLACING",
    "SLOT_BYTES",
    "TAG_BYTES",
    "IdRule",
    "MatchingCost",
    "Tags",
    "cost_of_matching",
    "count_slots",
    "draw_words",
    "find_common",
    "find_twins",
    "lay_out",
    "make_tags",
    "normalise",
    "place",
    "sort_tags",
]
