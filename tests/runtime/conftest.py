import pytest

from tests.transport.network import nothing_left


@pytest.fixture(autouse=True)
def tidy():
    """Whatever becomes of a run, no thread, pipe or socket outlives it."""
    with nothing_left():
        yield
