"""A plugin in Cython builds with isolation against our wheels, as `pip install` builds it.

The build environment gets `ranking-kit` from a folder of wheels, and everything else from the
package index. On the index `ranking` is another project, so the templates must not ask for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from ranking_cli.main import cli

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "plugin"))
from test_new_plugin import wheel  # noqa: E402

CHECK = """
import sys
sys.path.insert(0, sys.argv[1])
from ranking.testing import check_loss
from ranking_rounded_hinge.loss import RoundedHingeLoss
check_loss(RoundedHingeLoss(width=0.5))
"""


def pip(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pip with the package index of this machine, and with build isolation."""
    unwanted = ("PIP_NO_INDEX", "PIP_NO_DEPS", "PIP_NO_BUILD_ISOLATION", "PYTHONPATH")
    inherited = {key: value for key, value in os.environ.items() if key not in unwanted}
    return subprocess.run(
        [sys.executable, "-m", "pip", *map(str, words), "--disable-pip-version-check"],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of `ranking-kit`."""
    folder = tmp_path_factory.mktemp("wheels")
    reached = pip("download", "-q", "--no-deps", "--retries", "0", "-d", folder, "setuptools>=77")
    if reached.returncode != 0:
        pytest.skip("the package index cannot be reached, and an isolated build needs it")
    path = wheel("ranking-kit", folder, ROOT)
    if path.parent != folder:
        (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_cython_plugin_builds_with_isolation(wheels: Path, tmp_path: Path):
    source = tmp_path / "plugin"
    words = ["new-plugin", "rounded-hinge", "--kind", "loss", "--native", "cython"]
    assert CliRunner().invoke(cli, [*words, "-o", str(source)]).exit_code == 0
    links = f"{os.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()
    built = pip("wheel", "-q", "--no-deps", "-w", tmp_path, source, PIP_FIND_LINKS=links)
    assert built.returncode == 0, built.stderr
    (made,) = tmp_path.glob("ranking_rounded_hinge-*.whl")
    folder = tmp_path / "installed"
    with zipfile.ZipFile(made) as archive:
        archive.extractall(folder)
    assert list(folder.glob("ranking_rounded_hinge/_native*.so"))
    metadata = next(folder.glob("*.dist-info/METADATA")).read_text()
    assert "Requires-Dist: ranking-kit\n" in metadata
    subprocess.run([sys.executable, "-P", "-c", CHECK, str(folder)], check=True, cwd=tmp_path)
