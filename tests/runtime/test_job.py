"""Packages between processes: fields and arrays come back as they were."""

from __future__ import annotations

import io

import msgspec
import numpy as np
import pytest

from coterie.clustering import Layout, Outcome
from coterie.errors import CoterieError
from coterie.protocols.metric import Metric
from coterie.runtime.job import (
    Job,
    Report,
    do,
    read_job,
    read_package,
    report_of,
    write_job,
    write_package,
    write_report,
)
from coterie.runtime.threads import run_threads
from coterie.sharing import Disclosure
from coterie.transport import Stamp, Tally, Traffic
from tests.runtime.tasks import TABLE, jobs, task
from tests.support import world

ARRAYS = {
    "words": np.array([0, 2**64 - 1], np.uint64),
    "signed": np.array([[-1, 2], [3, -(2**63)]]),
    "bytes": np.arange(5, dtype=np.uint8),
    "mask": np.array([True, False]),
    "labels": np.array([1, 2], np.int32),
    "empty": np.zeros((0, 3), np.int64),
    "empty within": np.zeros((2, 0, 4), np.uint64),
    "transposed": np.arange(6).reshape(2, 3).T,
    "strided": np.arange(10, dtype=np.uint64)[::-3],
}


def same(left, right):
    """The same value, arrays with the same type and shape in the same places."""
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and np.array_equal(left, right)
    if isinstance(left, msgspec.Struct):
        return type(left) is type(right) and all(
            same(getattr(left, name), getattr(right, name)) for name in left.__struct_fields__
        )
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(value, right[name]) for name, value in left.items())
    return left == right


def package_again(fields, arrays):
    stream = io.BytesIO()
    write_package(stream, fields, arrays)
    stream.seek(0)
    return read_package(stream)


def job_again(job):
    stream = io.BytesIO()
    write_job(stream, job)
    stream.seek(0)
    return read_job(stream)


def report_again(report):
    stream = io.BytesIO()
    write_report(stream, report)
    stream.seek(0)
    return report_of(*read_package(stream))


def test_a_package_by_hand():
    stream = io.BytesIO()
    write_package(stream, {"a": 1}, {"x": np.array([7], np.uint8)})
    header = msgspec.msgpack.encode({"fields": {"a": 1}, "arrays": [["x", "|u1", [1]]]})
    assert stream.getvalue() == len(header).to_bytes(8, "little") + header + b"\x07"


def test_fields_come_back():
    fields = {"text": "é", "number": -1.5, "nothing": None, "raw": b"\0\xff", "list": [1, {"two": [3]}], "big": 2**63}
    assert package_again(fields, {}) == (fields, {})


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_comes_back(name):
    _, arrays = package_again({}, {name: ARRAYS[name]})
    assert same(arrays, {name: ARRAYS[name]})


def test_all_arrays_come_back_and_absent_ones_are_left_out():
    _, arrays = package_again({}, ARRAYS | {"absent": None})
    assert same(arrays, ARRAYS)


def test_arrays_that_come_back_can_be_written_to():
    """Jobs are worked on in place."""
    _, arrays = package_again({}, {"x": np.arange(3)})
    arrays["x"][0] = 9
    assert arrays["x"].tolist() == [9, 1, 2]


def test_packages_follow_each_other_and_the_stream_ends():
    stream = io.BytesIO()
    write_package(stream, {"n": 1}, {"x": ARRAYS["signed"]})
    write_package(stream, {"n": 2}, {})
    stream.seek(0)
    assert [read_package(stream)[0] for _ in range(2)] == [{"n": 1}, {"n": 2}]
    assert read_package(stream) is None
    assert read_job(stream) is None


def test_no_class_travels():
    """Only what msgspec and a NumPy type string can say: an array of objects does not."""
    with pytest.raises((TypeError, ValueError)):
        package_again({}, {"x": np.array([object()], dtype=object)})


KEPT = {"words": np.arange(6, dtype=np.uint64).reshape(3, 2)}
JOBS = {
    "helper": Job(task()),
    "party": Job(task(), block=TABLE[:5]),
    "no rows": Job(task(), block=np.zeros((0, 2), np.int64)),
    "prediction": Job(task(), block=TABLE, predicting=True, centers=TABLE[:3]),
    "prediction of shares": Job(task(centers="shared"), block=TABLE, predicting=True, kept_centers=KEPT),
    "weighted prediction": Job(
        task(metric=Metric()), block=TABLE, predicting=True, centers=TABLE[:3], weights=TABLE[:1]
    ),
    "of shares of weights": Job(
        task(metric=Metric(), scales="secret"), block=TABLE, predicting=True, centers=TABLE[:3], kept_weights=KEPT
    ),
    "a choice": Job(task(clusters=3, choices=(2, 3), seeds=(b"a", b"b"), starts=(), schedules=((2,), (3,)))),
    "given centres": Job(task(starts=(), centers_given=((1, 2), (3, 4), (-5, 6)))),
    "options": Job(task(counts="revealed", labels="revealed", max_iter=7, tol=0.0, block_rows=3, lanes=2)),
    "vertical": Job(task(layout=Layout("vertical", 12, 2, columns=((0,), (1,))))),
    "mixed": Job(task(layout=Layout("mixed", 12, 2, owners=bytes([1, 2] * 12)))),
}


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_a_job_comes_back(job):
    assert same(job_again(job), job)


DISCLOSURE = Disclosure("labels", ("P1",), "the result", None, "rows 0..4")
TRAFFIC = Traffic(3, 4, 1, 2, 5, {"P1": 600}, {"Square": Tally(1, 2, 3, 4, 5)}, [Stamp(0, 0), Stamp(1, 2)])
REPORTS = {
    "helper": Report(Outcome(n_iter=3, disclosures=[DISCLOSURE], traffic=TRAFFIC), {}),
    "party": Report(
        Outcome(
            n_iter=4,
            center_columns=[0, 1],
            centers=TABLE[:3],
            rows=np.array([True, False]),
            labels=np.array([2]),
            counts=np.array([4, 4, 4]),
            inertia=0.5,
            silhouette=0.25,
            scatter=2.5,
            chosen=3,
            k_measures={2: 1.5, 3: 2.0},
            traffic=TRAFFIC,
            scales=np.array([7, 0]),
            capped=np.array([False, True]),
        ),
        {"labels": KEPT, "centers": KEPT},
    ),
    "a party with no rows": Report(
        Outcome(rows=np.zeros(12, np.bool_), labels=np.zeros(0, np.int64), traffic=TRAFFIC), {}
    ),
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_a_report_comes_back(report):
    assert same(report_again(report), report)


@pytest.mark.parametrize("centers", ["revealed", "shared"])
def test_the_reports_of_a_run_come_back(centers):
    given = jobs(centers=centers)
    for report in run_threads(world(2), lambda me: do(me, given[me.rank])):
        assert same(report_again(report), report)


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (7, 1), (6, 2), (8, 2), (7, 3), (14,)], ids=str)
def test_a_block_of_another_shape_than_agreed_is_refused(shape):
    """P2 is to hold seven rows of two columns. None of these may pass for that, not even by repeating itself."""
    given = [*jobs()[:2], Job(task(), block=np.ones(shape, np.int64))]
    with pytest.raises(CoterieError) as caught:
        run_threads(world(2), lambda me: do(me, given[me.rank]))
    assert caught.value.party == "P2"
