import pytest

from tests.transport.network import nothing_left


@pytest.fixture(autouse=True)
def tidy():
    """Whatever a test does to channels, no thread and no socket outlives it."""
    with nothing_left():
        yield
