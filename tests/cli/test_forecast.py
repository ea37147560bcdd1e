"""`coterie forecast`: what it says is what the channel counts."""

from __future__ import annotations

import json
from itertools import product

import msgspec
import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.cli.app import main
from coterie.cli.forecast import Study, draw_forecast, forecast_links
from coterie.data import gather, split
from coterie.errors import InputError
from coterie.parameters import prepare_fit
from coterie.planning import even_layout, forecast, planned, sketch
from coterie.transport.links import LINKS

X = np.random.RandomState(0).uniform(-1, 1, (300, 5))
SHAPES = [
    ("horizontal", "secret", "private"),
    ("horizontal", "revealed", "private"),
    ("vertical", "secret", "private"),
    ("mixed", "secret", "private"),
    ("vertical", "secret", "revealed"),
]


def ended(*arguments):
    with pytest.raises(SystemExit) as exit_:
        main(["forecast", *map(str, arguments)] if arguments[0] != "--json" else [*map(str, arguments)])
    return exit_.value.code


def study(**changes):
    fields = {
        "rows": 1000,
        "columns": 4,
        "clusters": 4,
        "parties": 2,
        "partition": "horizontal",
        "counts": "secret",
        "labels": "private",
        "bounds": (-1.0, 1.0),
        "iterations": 10,
    }
    return Study(**(fields | changes))


@pytest.mark.parametrize(("shape", "p"), list(product(SHAPES, (2, 3))))
def test_rounds_and_bytes_are_those_of_a_fit(shape, p):
    """From sizes alone: no data, no start."""
    partition, counts, labels = shape
    options = {"partition": partition, "counts": counts, "labels": labels}
    model = SecureKMeans(3, n_parties=p, bounds=[(-1, 1)] * 5, tol=0.01, random_state=1, **options).fit(X)
    assert model.n_iter_ < model.max_iter
    said = forecast_links(study(rows=300, columns=5, clusters=3, parties=p, iterations=model.n_iter_, **options))[
        "loopback"
    ]
    assert said.bytes_sent == model.traffic_.bytes_sent
    assert said.rounds == model.traffic_.rounds
    assert said.rounds_per_iteration == model.traffic_.rounds_per_iteration


@pytest.mark.parametrize(("k", "plan"), list(product((1, 2, 7), ("auto", {"block_rows": 128, "lanes": 2}))))
def test_svk_means_costs_what_is_forecast_however_it_is_cut_up_and_ended(k, plan):
    for max_iter in (3, 300):
        model = SecureKMeans(
            k, partition="vertical", labels="revealed", max_iter=max_iter, tol=0.05, plan=plan, init=X[:k]
        ).fit(X)
        table = gather(split(X, "vertical", 2), "vertical", ["P1", "P2"])
        task = prepare_fit(model, table).task
        ended_by = "max_iter" if model.n_iter_ == max_iter else "stop"
        said = forecast(task, 2, model.n_iter_, LINKS["loopback"], ended_by)
        assert said.bytes_sent == model.traffic_.bytes_sent
        assert said.rounds == model.traffic_.rounds


@pytest.mark.parametrize(("partition", "p"), list(product(("horizontal", "vertical", "mixed"), (2, 3, 5))))
def test_data_are_taken_to_lie_as_a_fit_splits_them(partition, p):
    x = X[:17]
    names = [f"P{j + 1}" for j in range(p)]
    assert even_layout(partition, 17, 5, p) == gather(split(x, partition, p), partition, names).layout


def test_time_grows_with_the_distance_with_rows_and_with_iterations():
    few = forecast_links(study())
    assert few["loopback"].seconds < few["lan"].seconds < few["wan"].seconds
    for name, one in few.items():
        assert one.seconds >= 10 * one.seconds_per_iteration
        more = forecast_links(study(iterations=20))[name]
        assert more.seconds - one.seconds == pytest.approx(10 * one.seconds_per_iteration)
        assert forecast_links(study(rows=100_000))[name].seconds > one.seconds


def test_labels_that_are_revealed_cost_less():
    private, revealed = (
        forecast_links(study(partition="vertical", labels=one))["wan"] for one in ("private", "revealed")
    )
    assert sum(revealed.bytes_per_iteration.values()) < sum(private.bytes_per_iteration.values())


def test_a_least_size_costs_a_comparison_at_the_end():
    task = planned(sketch(even_layout("horizontal", 500, 3, 2), 3), 2, "auto")
    free, least = (
        forecast(msgspec.structs.replace(task, least=least), 2, 5, LINKS["loopback"], "stop") for least in (1, 10)
    )
    assert free.rounds < least.rounds
    assert free.rounds_per_iteration == least.rounds_per_iteration


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_table_says_it_for_every_link(capsys):
    assert ended("-n", 10_000, "-d", 2, "-k", 4, "--iterations", 7) == 0
    out = capsys.readouterr().out
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    said = forecast_links(study(rows=10_000, columns=2, iterations=7))
    rounds = [str(said[name].rounds_per_iteration) for name in ("loopback", "lan", "wan")]
    assert lines["rounds, an iteration"].split()[-3:] == rounds
    assert "time, 7 iterations" in lines
    assert "100 Mbit/s" in lines["bandwidth"]
    assert "40 ms" in lines["round trip"]
    assert "10,000 rows, 2 columns, 4 clusters, 2 parties, horizontal, sizes secret, labels private" in out
    assert "…" not in out


def test_machines_get_every_number(capsys):
    assert ended("--json", "forecast", "-n", 1000, "-d", 4, "-k", 4, "--iterations", 10) == 0
    events = {event["event"]: event for event in map(json.loads, capsys.readouterr().out.splitlines())}
    found = forecast_links(study()).items()
    assert events["forecast"]["links"] == {name: msgspec.to_builtins(one) for name, one in found}
    assert events["study"]["rows"] == 1000


def test_the_plot_is_a_picture(tmp_path, capsys):
    path = tmp_path / "plot.png"
    assert ended("-n", 1000, "-d", 2, "-k", 3, "--plot", path) == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    assert str(path) in capsys.readouterr().out
    assert [one.name for one in tmp_path.iterdir()] == ["plot.png"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--partition", "mixed"], "mixed"), (["--centers", "shared", "--restarts", 3], "centres shared, 3 starts")],
)
def test_securenn_is_forecast_as_well(arguments, said, capsys):
    assert ended("-n", 1000, "-d", 4, "-k", 4, "--protocol", "securenn", *arguments) == 0
    assert said in capsys.readouterr().out


def test_shared_centres_and_starts_cost_what_a_fit_takes():
    """Of three points, k-means++ draws each once: every start stops after one iteration."""
    x = np.tile(X[:3], (100, 1))
    model = SecureKMeans(3, bounds=[(-1, 1)] * 5, n_init=3, random_state=1, centers="shared").fit(x)
    assert model.n_iter_ == 1
    sizes = {"rows": 300, "columns": 5, "clusters": 3, "iterations": 1}
    said = forecast_links(study(**sizes, centers="shared", restarts=3))["loopback"]
    assert (said.bytes_sent, said.rounds) == (model.traffic_.bytes_sent, model.traffic_.rounds)


@pytest.mark.parametrize(("parties", "said"), [(2, "the third server sends, in all"), (3, "3 parties, horizontal")])
def test_falcon_is_forecast_with_who_takes_part(parties, said, capsys):
    assert ended("-n", 1000, "-d", 4, "-k", 4, "--protocol", "falcon", "--parties", parties) == 0
    out = capsys.readouterr().out
    assert said in out
    assert "helper" not in out
    assert ("server" in out) == (parties == 2)


@pytest.mark.parametrize("protocol", ["onetime", "securenn", "falcon"])
def test_the_plot_is_for_every_protocol(protocol):
    assert len(draw_forecast(study(protocol=protocol)).axes) == 4


def test_the_plot_goes_over_rows_and_clusters():
    drawn = draw_forecast(study())
    (time_by_rows, time_by_clusters), (bytes_by_rows, _) = np.array(drawn.axes).reshape(2, 2)
    for axes in (time_by_rows, time_by_clusters, bytes_by_rows):
        assert [line.get_label() for line in axes.lines[:3]] == ["one machine", "LAN", "WAN"]
    assert 1000 in time_by_rows.lines[0].get_xdata()
    assert 4 in time_by_clusters.lines[0].get_xdata()
    wan = dict(zip(time_by_rows.lines[2].get_xdata(), time_by_rows.lines[2].get_ydata()))
    assert wan[1000] == forecast_links(study())["wan"].seconds


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--restarts", 0], "restarts"),
        (["--labels", "revealed"], "vertical"),
        (["-k", 2000], "clusters"),
        (["--partition", "vertical", "--parties", 5], "columns"),
        (["--bounds", "0..1"], "low:high"),
        (["--bounds", "2:1"], "low before high"),
        (["--plot", "plot.jpg"], "PNG"),
        (["-n", 10**9], "rows"),
        (["--parties", 300], "255"),
        (["--iterations", 0], "iterations"),
        (["--plot", "/no/such/folder/plot.png"], "cannot be written"),
    ],
)
def test_what_cannot_be_forecast_is_refused_in_words(arguments, word, capsys):
    given = ["-n", 1000, "-d", 4, "-k", 4, *arguments]
    assert ended(*given) == 2
    assert word in capsys.readouterr().err


def test_a_range_without_end_is_refused():
    with pytest.raises(InputError, match="finite"):
        forecast_links(study(bounds=(0.0, float("inf"))))
