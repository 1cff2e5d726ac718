import pytest

import ranking.metrics
from ranking.registry.manager import Registry, Source


@pytest.fixture(scope="session")
def registry():
    """The built-in metrics only, whatever else is installed."""
    return Registry([Source("metrics", "ranking-kit", "0", lambda: ranking.metrics)], disabled=[])
