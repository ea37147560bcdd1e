"""Types that several threads use for the first time at once."""

import subprocess
import sys

# New types in every round, as at the start of a process; msgspec's own `convert` crashes here within a few rounds.
RACE = """
import sys, threading
import msgspec
from coterie.typed import convert

sys.setswitchinterval(1e-6)
for _ in range(100):
    inner = msgspec.defstruct("Inner", [("a", int), ("b", str)])
    outer = msgspec.defstruct("Outer", [(f"f{i}", dict[str, tuple[inner, int | None]]) for i in range(30)])
    value = {f"f{i}": {"x": [{"a": 1, "b": "s"}, None]} for i in range(30)}
    made, start = [], threading.Barrier(6)

    def work():
        start.wait()
        made.append(convert(value, outer))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 6 and all(one == made[0] for one in made)
"""


def test_threads_that_meet_a_type_at_once():
    ended = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
