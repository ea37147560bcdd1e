"""What only channels in memory do."""

import numpy as np
import pytest

from coterie.errors import PeerLost
from coterie.transport import memory_channels
from tests.support import world


def test_a_peer_that_is_silent_too_long_is_lost():
    _, one, _ = memory_channels(world(2), patience=0.05)
    with pytest.raises(PeerLost, match="silent") as caught:
        one.receive(2, np.uint64, (1,))
    assert caught.value.peer == "P2"


def test_what_arrives_cannot_be_written_to():
    _, one, two = memory_channels(world(2))
    one.send(2, np.zeros(3, np.uint64))
    array, _ = two.receive(1, np.uint64, (3,))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
