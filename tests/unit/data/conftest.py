import pytest

import ranking.data.readers
from ranking.registry.manager import Registry, Source


@pytest.fixture(scope="session")
def registry():
    """The built-in readers only, whatever else is installed."""
    return Registry(
        [Source("readers", "ranking-kit", "0", lambda: ranking.data.readers)], disabled=[]
    )


@pytest.fixture
def write(tmp_path):
    """Write a file of text or bytes, in folders if need be."""

    def write(content, name="data.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
