from __future__ import annotations

import numpy as np
import pytest

from coterie.report.pictures import draw_svg
from coterie.report.plots import bars, colour, histogram, iterations, marker, principal_axes, profile, scatter, verbatim

RANDOM = np.random.RandomState(0)


def test_a_hundred_clusters_look_different():
    assert len({(colour(j), marker(j)) for j in range(100)}) == 100


def test_principal_axes_by_hand():
    """Points on a line through (1, 2, 3), with a little spread across it."""
    along = np.array([-2.0, -1, 0, 1, 2])
    values = (
        np.array([1.0, 2, 3]) + along[:, None] * [3, 0, -4] + np.array([0.1, -0.1, 0, -0.1, 0.1])[:, None] * [0, 1, 0]
    )
    middle, axes, explained = principal_axes(values)
    np.testing.assert_allclose(middle, [1, 2, 3])
    np.testing.assert_allclose(axes[0], [-0.6, 0, 0.8], atol=1e-12)
    np.testing.assert_allclose(axes[1], [0, 1, 0], atol=1e-12)
    assert explained.sum() == pytest.approx(1)
    assert explained[0] > 0.99


def test_principal_axes_of_rows_that_are_all_alike():
    _, _, explained = principal_axes(np.ones((4, 3)))
    assert explained.sum() == 0


@pytest.mark.parametrize(("clusters", "columns"), [(1, 2), (3, 3), (10, 24), (11, 4), (40, 60)])
def test_profiles_of_any_size(clusters, columns):
    names = [f"column ${l}$ with a long name" for l in range(columns)]
    drawn = profile(RANDOM.uniform(0, 1, (clusters, columns)), range(clusters), names)
    lines = drawn.axes[0].get_lines()
    assert len(lines) == (clusters if clusters <= 10 and columns <= 24 else 0)
    assert draw_svg(drawn)


def test_scatter_draws_every_row_and_known_centres():
    points, labels = RANDOM.normal(size=(30, 2)), np.repeat([-1, 0, 2], 10)
    drawn = scatter(points, labels, np.array([[0.0, 0], [1, 1]]), [0, 1], "x", "y")
    sizes = [len(one.get_offsets()) for one in drawn.axes[0].collections]
    assert sum(sizes) == 30 + 2 * 2  # a centre is drawn twice: its halo, and itself
    names = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert names == ["closed", "0", "1", "2"]


def test_names_are_drawn_as_they_are():
    drawn = scatter(np.zeros((2, 2)), np.zeros(2, int), None, [], "a$b$", "<c>")
    assert drawn.axes[0].get_xlabel() == verbatim("a$b$")
    assert draw_svg(histogram(np.zeros(2), np.zeros(2, int), [], [], "$x_"))


def test_histogram_counts_every_row():
    drawn = histogram(RANDOM.normal(size=50), np.repeat([0, 1], 25), [0.5], [1], "x")
    tops = [patch.get_height() for patch in drawn.axes[0].patches]
    assert sum(tops) == 50


@pytest.mark.parametrize("count", [1, 60, 61, 300])
def test_there_are_as_many_bars_as_iterations(count):
    """However many iterations there are, each has its bar: work below, waiting on top."""
    drawn = iterations([1.0] * count, [0.5] * count, first=3)
    work, wait = drawn.axes[0].containers
    assert len(work) == len(wait) == count
    assert {bar.get_height() for bar in work} == {1.0}
    assert {(bar.get_y(), bar.get_height()) for bar in wait} == {(1.0, 0.5)}
    assert [round(bar.get_center()[0]) for bar in work] == list(range(3, 3 + count))
    assert draw_svg(drawn)


def test_bars_are_named_from_the_top():
    drawn = bars(["a", "b"], [2, 1], ["2 kB", "1 kB"], "bytes")
    assert drawn.axes[0].yaxis_inverted()
    assert draw_svg(drawn)
