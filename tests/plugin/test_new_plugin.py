"""`ranking new-plugin`: what it writes installs, passes its tests, trains and evaluates at once.

The environment is new: `ranking-kit` and `ranking-kit-rust` are installed in it from wheels,
without this checkout on the path. Dependencies and build tools are linked from the environment of
the tests, so that nothing is downloaded.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import make_judged, make_tastes, write_letor

from ranking.data.writers import write
from ranking_cli.main import cli

ROOT = Path(__file__).parents[2]
KINDS = ("loss", "regularizer", "solver", "metric", "reader")
PACKAGES = [(kind, "") for kind in KINDS] + [
    (kind, native) for kind in ("loss", "regularizer") for native in ("cython", "rust", "numba")
]


def run(*words: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command without anything of this process's environment that could help it."""
    variables = {
        k: v for k, v in os.environ.items() if not k.startswith(("RANKING_", "PYTHON", "PIP_"))
    }
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**variables, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done


def wheel(name: str, folder: Path, source: Path) -> Path:
    """Return the wheel of a distribution: of its installed files, or built if it is editable.

    The folder RANKING_WHEELS, if it is set, has wheels that were built before.
    """
    value = os.environ.get("RANKING_WHEELS")
    if value:
        (result,) = Path(value).glob(f"{name.replace('-', '_')}-*.whl")
        return result
    distribution = metadata.distribution(name)
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        build = ("-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder)
        fast = ("-Csetup-args=-Doptimization=0",) if source == ROOT else ()
        run(sys.executable, *build, *fast, source, cwd=folder, PATH=beside)
        (result,) = folder.glob(f"{name.replace('-', '_')}-*.whl")
        return result
    info = f"{name.replace('-', '_')}-{distribution.version}.dist-info"
    tag = (distribution.read_text("WHEEL") or "").partition("Tag: ")[2].split()[0]
    path = folder / f"{name.replace('-', '_')}-{distribution.version}-{tag}.whl"
    left_out = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    with zipfile.ZipFile(path, "w") as archive:
        for file in distribution.files or ():
            if ".." in file.parts or file.suffix == ".pyc" or file.name in left_out:
                continue
            content = Path(str(distribution.locate_file(file))).read_bytes()
            archive.writestr(str(file), content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            rows.writerow((str(file), f"sha256={digest.decode()}", len(content)))
        rows.writerow((f"{info}/RECORD", "", ""))
        archive.writestr(f"{info}/RECORD", record.getvalue())
    return path


class Fresh:
    """A virtual environment with the wheels, and data to train on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder / "env", with_pip=False, symlinks=True)
        self.bin = folder / "env" / "bin"
        here = Path(sysconfig.get_path("purelib"))
        there = self.bin.parent / here.relative_to(Path(sysconfig.get_path("data")))
        for path in here.iterdir():
            ours = path.name.lower().startswith(
                ("ranking", "_ranking", "__editable__", "__pycache")
            )
            if not ours and path.suffix != ".pth":
                (there / path.name).symlink_to(path)
        for tool in ("maturin",):
            program = shutil.which(tool, path=str(Path(sys.executable).parent))
            if program:
                (self.bin / tool).symlink_to(program)
        self.wheels = [wheel("ranking-kit", folder, ROOT)]
        if shutil.which("cargo"):
            self.wheels.append(wheel("ranking-kit-rust", folder, ROOT / "rust"))
        self.pip(*self.wheels)
        write(make_tastes(0, 30, 40), "tsv", folder / "clicks.tsv")
        write_letor(folder / "train.txt", make_judged(0))

    def __call__(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        # Two packages in Rust then share what they depend on.
        target = str(self.folder / "target")
        here = self.folder
        return run(self.bin / words[0], *words[1:], cwd=here, PATH=path, CARGO_TARGET_DIR=target)

    def pip(self, *words: str | Path) -> None:
        how = ("-q", "--no-deps", "--no-index", "--no-build-isolation")
        self("python", "-P", "-m", "pip", "install", *how, *words)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    return Fresh(tmp_path_factory.mktemp("fresh"))


def words_for(kind: str, part: str) -> dict[str, list[str]]:
    """What to train and to evaluate with, such that the part is used."""
    clicks = ["clicks.tsv", "--solver", "sgd:max_steps=5000", "--model", "factored:dimensions=4"]
    judged = ["train.txt", "--loss", "domination"]
    return {
        "loss": {"train": [*clicks, "--loss", f"{part}:width=0.5"], "metrics": ["auc"]},
        "regularizer": {
            "train": [*clicks, "--loss", "warp", "--regularizer", f"{part}:limit=0.4"],
            "metrics": ["auc"],
        },
        "solver": {"train": [*judged, "--solver", part]},
        "metric": {"train": judged, "metrics": [f"{part}@3"]},
        "reader": {"train": ["rows.jsonl", "--reader", part, "--loss", "domination"]},
    }[kind]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "native"), PACKAGES)
def test_from_nothing_to_a_trained_model(fresh: Fresh, kind: str, native: str):
    if native == "rust" and shutil.which("cargo") is None:
        pytest.skip("cargo was not found: install Rust (rustup)")
    part = f"my-{native}-{kind}" if native else f"my-{kind}"
    folder = fresh.folder / f"ranking-{part}"
    choice = ("--native", native) if native else ()
    fresh("ranking", "new-plugin", part, "--kind", kind, *choice)
    fresh.pip(folder)
    listed = [
        json.loads(line)
        for line in fresh("ranking", "plugins", "--format", "jsonl").stdout.splitlines()
    ]
    assert [row["name"] for row in listed if row["origin"] == f"ranking-{part}"] == [part]
    fresh("python", "-P", "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", folder)
    rows = '{"query": %d, "grade": %d, "features": [%g, 1]}\n'
    lines = [rows % (q, g, g + 0.1 * q) for q in range(4) for g in range(3)]
    (fresh.folder / "rows.jsonl").write_text("".join(lines))
    words = words_for(kind, part)
    data, *rest = words["train"]
    trained = fresh("ranking", "train", data, *rest, "-o", f"{part}.safetensors").stderr
    assert part in trained or kind == "metric"
    metrics = ",".join(words.get("metrics", ["map"]))
    reader = ("--reader", part) if kind == "reader" else ()
    measured = ("eval", f"{part}.safetensors", data, *reader, "--metrics", metrics)
    values = fresh("ranking", *measured, "--format", "jsonl").stdout.splitlines()
    value = json.loads(values[-1])["metrics"][metrics]
    assert value > 0.75
    if kind in ("loss", "regularizer", "solver"):
        header = (fresh.folder / f"{part}.safetensors").read_bytes()[:10000]
        assert f"ranking-{part}".encode() in header


CHECK = """
import sys
sys.path.insert(0, sys.argv[1])
from ranking.testing import check_loss
from ranking_rounded_hinge.loss import RoundedHingeLoss
check_loss(RoundedHingeLoss(width=0.5))
"""


def isolated_pip(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pip with the package index of this machine, and with build isolation."""
    unwanted = ("PIP_NO_INDEX", "PIP_NO_DEPS", "PIP_NO_BUILD_ISOLATION", "PYTHONPATH")
    inherited = {key: value for key, value in os.environ.items() if key not in unwanted}
    return subprocess.run(
        [sys.executable, "-m", "pip", *map(str, words), "--disable-pip-version-check"],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_cython_plugin_builds_with_isolation(fresh: Fresh, tmp_path: Path):
    """The build environment gets `ranking-kit` from our wheel, and the rest from the index.

    On the index `ranking` is another project, so the templates must not ask for it.
    """
    links = tmp_path / "wheels"
    download = ("download", "-q", "--no-deps", "--retries", "0", "-d", links, "setuptools>=77")
    if isolated_pip(*download).returncode != 0:
        pytest.skip("the package index cannot be reached, and an isolated build needs it")
    (links / fresh.wheels[0].name).symlink_to(fresh.wheels[0])
    source = tmp_path / "plugin"
    words = ["new-plugin", "rounded-hinge", "--kind", "loss", "--native", "cython"]
    assert CliRunner().invoke(cli, [*words, "-o", str(source)]).exit_code == 0
    find = f"{os.environ.get('PIP_FIND_LINKS', '')} {links}".strip()
    process = isolated_pip("wheel", "-q", "--no-deps", "-w", tmp_path, source, PIP_FIND_LINKS=find)
    assert process.returncode == 0, process.stderr
    (wheel,) = tmp_path.glob("ranking_rounded_hinge-*.whl")
    folder = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    assert list(folder.glob("ranking_rounded_hinge/_native*.so"))
    description = next(folder.glob("*.dist-info/METADATA")).read_text()
    assert "Requires-Dist: ranking-kit\n" in description
    subprocess.run([sys.executable, "-P", "-c", CHECK, str(folder)], check=True, cwd=tmp_path)


@pytest.mark.parametrize(("kind", "native"), PACKAGES)
@pytest.mark.parametrize("name", ["a", "a23456789-b23456789-c234"])
def test_generated_files_pass_the_linters(tmp_path: Path, name: str, kind: str, native: str):
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent))
    if ruff is None:
        pytest.skip("ruff is not installed beside this Python")
    words = ["new-plugin", name, "--kind", kind, "-o", str(tmp_path / "made")]
    done = CliRunner().invoke(cli, [*words, *(("--native", native) if native else ())])
    assert done.exit_code == 0, done.output
    run(ruff, "check", "--no-cache", tmp_path / "made", cwd=tmp_path / "made")
    run(ruff, "format", "--no-cache", "--check", tmp_path / "made", cwd=tmp_path / "made")
    for path in (tmp_path / "made").rglob("*"):
        assert path.is_dir() or "$" not in path.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["My-Loss", "--kind", "loss"], "the name 'My-Loss' does not work"),
        (["my_loss", "--kind", "loss"], "with hyphens between"),
        (["../loss", "--kind", "loss"], "does not work"),
        (["a" * 25, "--kind", "loss"], "at most 24"),
        (["hinge", "--kind", "loss"], "there is a loss 'hinge' already, of ranking-kit"),
        (["rust", "--kind", "loss"], "ranking-rust is a package of this project"),
        (["fine", "--kind", "metric", "--native", "rust"], "a metric is written in Python"),
        (["fine", "--kind", "kernel"], "'kernel' is not one of"),
        (["fine"], "Missing option '--kind'"),
    ],
)
def test_invalid_arguments_are_refused_and_nothing_is_written(
    tmp_path, monkeypatch, words, message
):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["new-plugin", *words])
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(cli, ["new-plugin", "ranking-fine", "--kind", "loss"]).exit_code == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = CliRunner().invoke(cli, ["new-plugin", "fine", "--kind", "metric"])
    assert done.exit_code == 2
    assert "ranking-fine exists already" in done.output
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
