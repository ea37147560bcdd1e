"""The paper's example: its points, what is concluded from them, and the page that compares."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from coterie.report import example as paper
from coterie.report.paper import describe_runs
from coterie.simulation import demo
from tests.report.examples import assert_follows_the_screen
from tests.report.paper_example import broken, drawn, filled, secure_run


@pytest.fixture(scope="module")
def example():
    return filled()


@pytest.fixture(scope="module")
def page():
    return drawn(True)


class Elements(HTMLParser):
    """Every start tag with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def words(html):
    return re.sub(r"\s+", " ", re.sub(r"<style>.*?</style>|<[^>]+>", " ", html, flags=re.DOTALL))


# -- the points and what is concluded ---------------------------------------------------------------------------------


def test_the_points_are_the_paper_s():
    points, blob, bobs = demo.make_points()
    assert points.shape == (400, 2)
    assert bobs.sum() == (~bobs).sum() == 200
    assert np.bincount(blob).tolist() == [100] * 4
    for b, mean in enumerate(demo.MEANS):
        assert np.abs(points[blob == b].mean(axis=0) - mean).max() < 0.4
        assert np.abs(points[blob == b].std(axis=0) - 1).max() < 0.25
    assert np.bincount(blob[~bobs], minlength=4).tolist() == list(demo.ALICES)
    (low, high), _ = demo.BOUNDS
    assert low < points.min() < points.max() < high
    assert np.array_equal(points, demo.make_points()[0])


def test_alice_alone_gets_it_wrong_and_all_points_together_right(example):
    def right(labels):
        return int((paper.match_clusters(labels, example.blob)[labels] == example.blob).sum())

    assert right(example.pooled.labels) == 400
    assert right(example.by_rows.labels) < 300
    assert right(example.by_columns.labels) < 300
    assert right(example.tested_by_bob) < 300


def test_clusters_are_named_so_that_most_points_are_right():
    """By hand: cluster 0 is mostly blob 2, cluster 2 blob 0; cluster 3 has one point, of blob 0, and is left with 3."""
    labels = np.array([0, 0, 0, 1, 2, 2, 3])
    blob = np.array([2, 2, 1, 1, 0, 0, 0])
    assert paper.match_clusters(labels, blob).tolist() == [2, 1, 0, 3]


def test_the_paper_s_table():
    """By hand, at k = 4 and 16."""
    rounds = {key: (row.rounds(4), row.rounds(16)) for key, row in paper.ALGORITHMS.items()}
    assert rounds == {
        "ElementWiseMatMul": (2, 2),
        "MatDist": (2, 2),
        "LabelSamples": (16, 40),
        "SHK secret": (158, 182),
        "SHK revealed": (28, 52),
        "SVK": (36, 144),
    }


# -- the comparison ---------------------------------------------------------------------------------------------------


def test_agreement_counts_labels_and_measures_centres():
    reference = paper.Found(np.array([0, 1, 1]), np.array([[0.0, 1.0], [2.0, 3.0]]))
    shifted = paper.Found(np.array([0, 1, 1]), reference.centers + np.array([[0, 0], [0, 0.0005]]))
    far = paper.Found(reference.labels, reference.centers + np.array([[0.002, 0], [0, 0]]))
    other = paper.Found(np.array([0, 1, 0]), reference.centers)
    assert paper.compare(shifted, reference) == (3, 3, pytest.approx(0.0005))
    assert paper.compare(shifted, reference).holds
    assert not paper.compare(far, reference).holds
    assert paper.compare(other, reference) == (2, 3, 0)
    assert not paper.compare(other, reference).holds


def test_clusters_are_not_renamed_to_make_them_agree():
    reference = paper.Found(np.array([0, 1]), np.array([[0.0], [1.0]]))
    assert not paper.compare(paper.Found(np.array([1, 0]), np.array([[1.0], [0.0]])), reference).holds


def test_an_example_holds_only_if_every_run_agrees():
    assert filled().holds
    assert not broken().holds
    nothing = filled()
    nothing.runs = []
    assert not nothing.holds


# -- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_stands_alone(page):
    html, _ = page
    for tag, attributes in Elements(html).found:
        assert tag not in ("script", "iframe", "object", "embed", "audio", "video"), tag
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            assert attributes.get(name, "#").startswith(("data:", "#")), (tag, attributes[name][:60])
    assert not re.search(r"url\((?!data:)|@import", html)


def test_every_picture_says_in_words_what_it_shows(page):
    html, files = page
    images = [attributes for tag, attributes in Elements(html).found if tag == "img"]
    assert len(images) == len(files)
    assert all(len(one["alt"]) > 40 for one in images)
    assert len({one["alt"] for one in images}) == len(images)


def test_every_figure_of_the_paper_is_a_file(page):
    _, files = page
    for figure in ("1", "2a", "2b", "3a", "3b", "3c", "4a", "4b", "4c", "4d", "6"):
        assert any(name.startswith(f"figure-{figure}-") and name.endswith(".svg") for name in files), figure
    assert all(content.startswith(b"<svg ") for content in files.values())


def test_algorithms_are_explained_before_they_are_used(page):
    text = words(page[0])
    for name, meaning in paper.MEANINGS.items():
        assert text.index(f"{name} {meaning[:20]}") == text.index(name)


def test_figures_follow_the_screen(page):
    _, files = page
    assert_follows_the_screen(list(files.values()))
    assert all(b"<title>" in content for content in files.values())


def test_links_within_the_page_lead_somewhere(page):
    found = Elements(page[0]).found
    ids = {attributes["id"] for _, attributes in found if "id" in attributes}
    assert {a["href"][1:] for tag, a in found if tag == "a" and a["href"].startswith("#")} <= ids


def test_the_page_says_that_the_results_are_the_same_and_by_what_numbers(page):
    text = words(page[0])
    assert "The secure results are the centralised result." in text
    assert "2 of 2" in text
    assert "400 of 400 labels equal, centres at most 1.0e-05 apart" in text
    assert 'class="bad"' not in page[0]


def test_the_page_says_so_if_a_result_differs():
    html, _ = drawn(False)
    text = words(html)
    assert "A secure result differs from the centralised result." in text
    assert "The secure results are the centralised result." not in text
    assert "1 of 2" in text
    assert "399 of 400" in text
    assert '<span class="bad">differs</span>' in html


def test_rounds_are_those_that_were_counted(page):
    text = words(page[0])
    assert "SHK-means, sizes secret 4 158 104 94 104 94" in text
    assert "SVK-means 2 18 102 92 102 92" in text
    assert "MatDist 2 2 2 1 – –" in text
    assert "10 rounds at k = 4" in text
    assert "both are the same number" not in text, "here dealing does count"


def test_the_log_is_told_with_the_names_of_the_parties(page):
    text = words(page[0])
    assert "Everybody, the helper included, learnt one bit" in text
    assert "(in iterations 1 to 2)" in text
    assert re.search(r"Alice learnt the cluster of each row of which it holds values: 200 rows", text)
    assert "P1" not in text


def test_families_that_disclose_different_things_are_told_apart(example):
    found = example.runs[0].found
    alike = filled()
    alike.runs = [secure_run(found), secure_run(found, protocol="securenn")]
    assert [name for name, _ in describe_runs(alike)] == ["SHK-means by rows"]
    alike.runs[1] = secure_run(found, protocol="securenn", log=[])
    assert [name for name, _ in describe_runs(alike)] == ["SHK-means by rows, onetime", "SHK-means by rows, securenn"]
