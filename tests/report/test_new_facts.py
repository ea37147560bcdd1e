"""What a report shows of standardised columns, of several numbers of clusters, and of how good clusters are."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from coterie.report import plots
from coterie.report.agreed import show_agreement
from coterie.report.blocks import Bullets, Grid, Image, Paragraph, Tiles
from coterie.report.clusters import show_clusters
from coterie.report.cost import show_course
from coterie.report.facts import ColumnFacts, Facts, facts_of
from coterie.report.glossary import explain_option
from coterie.report.page import render_block
from coterie.report.pictures import draw_svg
from coterie.report.trust import promises_of, show_disclosures
from coterie.report.views import READING, draw_measures
from coterie.report.write import write_report
from coterie.sharing import Disclosure
from tests.report.examples import (
    LABELS,
    NAMES,
    OPTIONS,
    PARTICIPANTS,
    VALUES,
    assert_stands_alone,
    by_hand,
    facts_of_small_run,
    small_run,
    table,
)

SEVERAL = {
    **OPTIONS,
    "scale": "standard",
    "scales": "revealed",
    "chosen": "2, 3, 4",
    "choose": "calinski-harabasz",
    "measures": "revealed",
}
MEASURES = {2: 310.25, 3: 290.5, 4: 275.125}


def several(**more: Any) -> Facts:
    """Two clusters, chosen of two to four, on standardised columns."""
    columns = [
        ColumnFacts("iron", 0, 10, deviation=2.5),
        ColumnFacts("zinc", -1, 1, weight=0.25, deviation=0.125),
        ColumnFacts("salt", 0, 1000, capped=True),
    ]
    given = {"options": dict(SEVERAL), "columns": columns, "k_measures": MEASURES, "silhouette": 0.625}
    return by_hand(**{**given, "calinski_harabasz": 310.25, **more})


def grid_of_columns(facts: Facts) -> Grid:
    (found,) = (block for block in show_agreement(facts) if isinstance(block, Grid) and "Columns" in block.caption)
    return found


def words_of(facts: Facts) -> str:
    said = []
    for block in show_clusters(facts, None, None, "own rows"):
        said += [block.text] if isinstance(block, Paragraph) else block.sentences if isinstance(block, Bullets) else []
    return " ".join(said)


# -- columns -------------------------------------------------------------------------------------------------


def test_columns_show_weights_and_standard_deviations():
    found = grid_of_columns(several())
    assert list(found.head) == ["column", "from", "to", "counts for", "standard deviation"]
    assert [list(row) for row in found.rows] == [
        ["iron", "0", "10", "1", "2.500"],
        ["zinc", "-1", "1", "0.25", "0.1250"],
        ["salt", "0", "1000", "1", "too small for its range"],
    ]
    assert set(found.numeric) == {1, 2, 3, 4}
    assert list(grid_of_columns(by_hand()).head) == ["column", "from", "to"]


def test_capped_columns_are_named_with_a_remedy():
    (said,) = (block.text for block in show_agreement(several()) if isinstance(block, Paragraph))
    little = "salt varies so little, for its agreed range, that it weighs less than it should."
    assert said == f"{little} Agree on tighter bounds."
    two = [ColumnFacts("iron", 0, 10, capped=True), ColumnFacts("zinc", -1, 1), ColumnFacts("salt", 0, 9, capped=True)]
    (said,) = (block.text for block in show_agreement(several(columns=two)) if isinstance(block, Paragraph))
    assert said.startswith(
        "iron and salt vary so little, for their agreed ranges, that they weigh less than they should"
    )
    assert not [block for block in show_agreement(by_hand()) if isinstance(block, Paragraph)]


def test_a_range_that_is_not_known_is_a_dash():
    columns = [ColumnFacts("iron", 0, 10, "alice", deviation=2.5), ColumnFacts("zinc", math.nan, math.nan, "bob")]
    found = grid_of_columns(by_hand(columns=columns, range_name="range in the data"))
    assert found.caption == "Columns and their ranges in the data"
    assert [list(row) for row in found.rows][1] == ["zinc", None, None, None, "bob"]
    assert "nan" not in render_block(found)


@pytest.mark.parametrize("weights", [None, {"a": 2, "b": 0.5}])
@pytest.mark.parametrize("partition", ["horizontal", "mixed"])
def test_standard_deviations_of_a_run(partition, weights):
    """As the data have them, to 12 bits, whatever columns count for."""
    facts = _small(1, partition, scale="standard", column_weights=None if weights is None else _frozen(weights))
    for l, column in enumerate(facts.columns):
        assert column.deviation == pytest.approx(table()[:, l].std(), rel=2**-10)
    given = [1.0] * 4 if weights is None else [1, 0.25, 0.5, 0.5]
    assert [column.weight for column in facts.columns] == pytest.approx(given)
    assert facts.options["scale"] == "standard"
    assert facts.options["scales"] == "revealed"
    helper = _small(0, partition, scale="standard", column_weights=None if weights is None else _frozen(weights))
    assert all(column.deviation is None for column in helper.columns)


class _frozen(dict):  # type: ignore[type-arg]
    """A dict that small runs can be told apart by."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


def _small(rank: int, partition: str, **options: Any) -> Facts:
    return facts_of_small_run(rank, partition, **options)


@pytest.mark.parametrize("options", [{"scales": "secret"}, {"centers": "shared"}])
def test_secret_scales_are_not_in_the_facts(options):
    facts = _small(1, "horizontal", scale="standard", **options)
    assert all(column.deviation is None for column in facts.columns)
    assert facts.options["scales"] == "secret"
    told = promises_of(facts)
    assert not [one for one in told.openings if one.what == "scales"]
    assert any("keeps a share of what columns weigh" in line for line in told.nobody)


# -- several numbers of clusters -----------------------------------------------------------------------------


@pytest.mark.parametrize("choose", READING)
def test_measures_are_drawn_and_put_into_words(choose):
    facts = several(options={**SEVERAL, "choose": choose})
    drawn = draw_measures(facts)
    name, reading = READING[choose]
    assert drawn.alt == f"The {name} over the number of clusters: 310.2 for 2, 290.5 for 3, 275.1 for 4. Chosen: 2."
    assert drawn.caption == f"The {name} of each number of clusters that was tried. {reading}"
    assert drawn.svg.startswith(b"<svg ")


def test_a_curve_has_a_point_for_each_number_and_marks_the_chosen():
    drawn = plots.curve(MEASURES, 3, "mean silhouette")
    axes = drawn.axes[0]
    line, mark = axes.get_lines()
    assert (list(line.get_xdata()), list(line.get_ydata())) == (list(MEASURES), list(MEASURES.values()))
    assert (list(mark.get_xdata()), list(mark.get_ydata())) == ([3], [290.5])
    assert [text.get_text() for text in axes.texts] == ["chosen"]
    assert axes.get_ylabel() == "mean silhouette"
    assert list(axes.get_xticks()) == [2, 3, 4]
    assert draw_svg(plots.curve({k: 1.0 / k for k in range(2, 41)}, 2, "y"))


def test_measures_that_are_not_told():
    """Where clusters do not pass the output rules: the curve has a gap, and words say why; or there is no curve."""
    drawn = draw_measures(several(k_measures={2: 310.25, 3: math.nan, 4: math.nan}))
    assert "310.2 for 2. Chosen: 2. It is not told for 3 and 4: a cluster does not pass the output rules." in drawn.alt
    assert drawn.caption.endswith("It is not told for 3 and 4: a cluster does not pass the output rules.")
    assert draw_svg(plots.curve({2: math.nan, 3: 1.0}, 2, "y"))
    none = several(k_measures={2: math.nan, 3: math.nan}, inertia=None, calinski_harabasz=None)
    assert "What numbers of clusters come to is not told" in words_of(none)
    shown = [part for part in show_clusters(none, None, None, "own rows") if isinstance(part, Image)]
    assert not any("number of clusters" in image.alt for image in shown)


def test_ticks_of_many_numbers_do_not_touch():
    drawn = plots.curve({k: 1.0 / k for k in range(2, 41)}, 2, "y")
    assert len(drawn.axes[0].get_xticks()) <= 20


@pytest.mark.parametrize("chosen", [2, 4, 6])
def test_the_word_stays_inside_the_picture(chosen):
    """Whichever number is chosen, with the highest value or not."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    drawn = plots.curve({k: 100.0 - (k - chosen) ** 2 for k in range(2, 7)}, chosen, "y")
    canvas = FigureCanvasAgg(drawn)
    canvas.draw()
    box = drawn.axes[0].texts[0].get_window_extent(canvas.get_renderer())
    width, height = canvas.get_width_height()
    assert box.x0 >= 0
    assert box.x1 <= width
    assert box.y0 >= 0
    assert box.y1 <= height


def test_clusters_say_what_they_were_chosen_from():
    parts = show_clusters(several(), None, None, "own rows")
    assert words_of(several()).startswith("2 clusters were chosen, of 2, 3 or 4.")
    assert [type(part) for part in parts[:5]] == [Tiles, Paragraph, Grid, Bullets, Image]
    secret = several(k_measures={}, options={**SEVERAL, "measures": "secret"})
    shown = [part for part in show_clusters(secret, None, None, "own rows") if isinstance(part, Image)]
    assert not any("number of clusters" in image.alt for image in shown)
    assert words_of(secret).startswith("2 clusters were chosen, of 2, 3 or 4.")


def test_promises_are_those_of_the_run():
    told = promises_of(several())
    assert {"measures of k", "chosen k", "scales", "capped columns", "silhouette"} <= {
        one.what for one in told.openings
    }
    assert not {"inertia", "scatter"} & {one.what for one in told.openings}
    (line,) = (line for line in told.nobody if "not chosen" in line)
    assert line == "The centres and labels of the numbers of clusters that are not chosen."
    secret = promises_of(several(options={**SEVERAL, "measures": "secret", "quality": "none"}))
    assert not {"measures of k", "inertia", "scatter", "silhouette"} & {one.what for one in secret.openings}
    assert any(line.endswith("that are not chosen, and how good they are.") for line in secret.nobody)
    single = promises_of(by_hand(options={**OPTIONS, "quality": "inertia"}))
    assert not {"scatter", "silhouette", "chosen k"} & {one.what for one in single.openings}


def test_the_helper_is_said_to_learn_the_choice():
    helped = [line for line in promises_of(several()).assumptions if "depot" in line]
    assert helped[0].endswith("nothing from the parties but the stop bit and the number of clusters that is chosen.")
    (options,) = (
        block for block in show_agreement(several()) if isinstance(block, Grid) and block.caption == "Options"
    )
    meanings = {row[0]: row[2] for row in options.rows}
    assert meanings["protocol"].endswith("but the stop bit and the number of clusters that is chosen")
    (options,) = (
        block for block in show_agreement(by_hand()) if isinstance(block, Grid) and block.caption == "Options"
    )
    assert {row[0]: row[2] for row in options.rows}["protocol"].endswith("nothing but the stop bit")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("scale", "standard"),
        ("scales", "revealed"),
        ("scales", "secret"),
        ("choose", "calinski-harabasz"),
        ("choose", "silhouette"),
        ("measures", "revealed"),
        ("measures", "secret"),
        ("quality", "none"),
        ("quality", "inertia, silhouette"),
        ("chosen", "2, 3"),
    ],
)
def test_new_options_have_meanings(option, value):
    assert explain_option(option, value)


# -- how good clusters are -----------------------------------------------------------------------------------


def test_quality_in_words():
    said = words_of(several(inertia=12.5, silhouette=0.625, calinski_harabasz=310.25))
    assert "The inertia is 12.5" in said
    assert "added up, in standard deviations, squared" in said
    assert "in the units of the columns, squared" in words_of(by_hand())
    assert "The mean silhouette is 0.62: 1 where rows lie on their centres, 0 where another is as close." in said
    assert "The Calinski-Harabasz index is 310.2" in said
    none = words_of(several(inertia=None, silhouette=None, calinski_harabasz=None))
    assert not any(word in none for word in ("inertia", "silhouette", "Calinski"))


@pytest.mark.parametrize("quality", [(), ("inertia",), ("silhouette",), ("calinski-harabasz",)])
def test_quality_of_a_run(quality):
    facts = _small(1, "horizontal", quality=quality)
    wanted = {*quality, *(["inertia"] if "calinski-harabasz" in quality else [])}
    known = {"inertia": facts.inertia, "silhouette": facts.silhouette, "calinski-harabasz": facts.calinski_harabasz}
    assert {name for name, value in known.items() if value is not None} == wanted
    assert facts.options["quality"] == (", ".join(quality) or "none")
    assert facts.quality == list(quality)
    told = {one.what for one in promises_of(facts).openings}
    logged = {entry.what for entry in facts.disclosures}
    assert logged == told


def test_why_a_run_stopped():
    """The tolerance is a part of the columns' variance."""
    said = show_course(by_hand())[0].text
    assert "at most the agreed part, 0.0001, of the columns' mean variance" in said
    assert "With several starts" not in said
    assert "With several starts, this is the most that one of them took." in show_course(several())[0].text


# -- the page ------------------------------------------------------------------------------------------------


def test_a_page_with_everything(tmp_path):
    entries = [
        Disclosure("measures of k", ("alice", "bob"), "the result of the study"),
        Disclosure("chosen k", tuple(NAMES), "everybody goes on with the number of clusters that is chosen"),
        Disclosure("capped columns", ("alice", "bob"), "the result of the study"),
        Disclosure("scales", ("alice", "bob"), "the result of the study"),
        Disclosure("scatter", ("alice", "bob"), "the result of the study"),
        Disclosure("silhouette", ("alice", "bob"), "the result of the study"),
    ]
    facts = several(disclosures=entries)
    write_report(tmp_path / "report.html", facts, VALUES, LABELS)
    page = assert_stands_alone((tmp_path / "report.html").read_text())
    for words in (
        "alice and bob learnt how good the clusters are for each number of clusters that was tried, one number each.",
        "Everybody, the helper included, learnt the number of clusters that was chosen.",
        "alice and bob learnt the standard deviation of each column over all parties' rows.",
        "alice and bob learnt one bit a column: whether it varies too little for its range",
        "alice and bob learnt the inertia of a single cluster",
        "alice and bob learnt the mean silhouette of all rows",
    ):
        assert words in page.text
    alternatives = [image["alt"] for image in page.all("img")]
    assert all(alternatives)
    assert any("over the number of clusters" in (one or "") for one in alternatives)
    assert len(show_disclosures(facts)[1].rows) == len(entries)


def test_facts_of_a_choice_travel_as_json():
    facts = several()
    assert msgspec.json.decode(msgspec.json.encode(facts), type=Facts) == facts


def test_facts_of_the_chosen_number():
    """Of a task whose number was chosen, with the numbers of the others beside it."""
    task, outcomes = small_run("horizontal")
    outcome = msgspec.structs.replace(outcomes[1], k_measures={2: 3.0, 3: 2.0}, scatter=100.0, inertia=10.0)
    facts = facts_of(task, outcome, 1, PARTICIPANTS, {"chosen": "2, 3", "choose": "silhouette"}, title="t")
    assert facts.k_measures == {2: 3.0, 3: 2.0}
    assert facts.calinski_harabasz == pytest.approx((100 - 10) / 10 * (20 - 2))
    assert np.isfinite(facts.calinski_harabasz)
