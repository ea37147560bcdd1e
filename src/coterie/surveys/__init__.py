"""A look at columns before a study: how many values are missing, means and quantiles on a public grid, in secret."""

from coterie.surveys.found import ColumnFound, describe_columns
from coterie.surveys.program import Surveyed, take_survey
from coterie.surveys.tally import tally_values
from coterie.surveys.task import DEFAULT_CELLS, DEFAULT_QUANTILES, SurveyTask, check_survey_rules, parts_of_quantiles

__all__ = [
    "DEFAULT_CELLS",
    "DEFAULT_QUANTILES",
    "ColumnFound",
    "SurveyTask",
    "Surveyed",
    "check_survey_rules",
    "describe_columns",
    "parts_of_quantiles",
    "take_survey",
    "tally_values",
]
