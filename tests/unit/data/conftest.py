import pytest

import ranking.data.readers
from ranking.registry import Registry
from ranking.registry.manager import Source


@pytest.fixture(scope="session")
def registry():
    """The built-in readers only, whatever else is installed."""
    return Registry([Source("readers", "ranking", "0", lambda: ranking.data.readers)], disabled=[])
