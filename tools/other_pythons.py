"""Run the tests on newer Python interpreters than this one, with wheels that were built before.

Debian's unstable suite carries several versions of CPython. `prepare` unpacks them and a C compiler
into a folder; nothing is installed on the machine, and apt works with state of its own. `test`
installs the wheels in a virtual environment of one version and runs pytest there, in a chroot. Both
need root on Debian.

    python tools/other_pythons.py prepare build/pythons
    python tools/other_pythons.py test build/pythons 3.14 --wheels dist -- tests/unit -q
    python tools/other_pythons.py test build/pythons 3.13 --wheels dist --with 'numpy==2.1.*' -- -q
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
VERSIONS = ("3.13", "3.14")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
TOOLS = "bash coreutils grep sed make gcc g++ git libc6-dev libc-bin libgomp1 ca-certificates"
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9)}
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


def run(*command: str | Path, **options: object) -> None:
    """Run a command; a failure ends the program with its exit code."""
    done = subprocess.run([str(word) for word in command], **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}")


def mirror() -> str:
    """Return the address that this machine takes Debian's packages from."""
    for source in Path("/etc/apt").rglob("*.sources"):
        for line in source.read_text().splitlines():
            if line.startswith("URIs:"):
                return line.split()[1]
    return "http://deb.debian.org/debian"


def download(folder: Path, suite: str, packages: list[str]) -> Path:
    """Download packages and all that they depend on; return the folder of the .deb files."""
    state = folder / "apt"
    archives = state / "archives"
    for path in (archives / "partial", state / "lists" / "partial"):
        path.mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    (state / "suite.list").write_text(f"deb [signed-by={KEYRING}] {mirror()} {suite} main\n")
    settings = {
        "Dir::State": state,
        "Dir::State::status": state / "status",
        "Dir::State::lists": state / "lists",
        "Dir::Cache": state,
        "Dir::Cache::archives": archives,
        "Dir::Etc::sourcelist": state / "suite.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",
    }
    options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    run("apt-get", "-qq", *options, "update")
    run("apt-get", "-qq", *options, "install", "--yes", "--download-only", *packages)
    return archives


def prepare(folder: Path, suite: str) -> None:
    """Unpack the interpreters and a compiler below FOLDER/root."""
    root = folder / "root"
    packages = TOOLS.split() + [f"python{v}-{kind}" for v in VERSIONS for kind in ("venv", "dev")]
    archives = download(folder, suite, packages)
    for name in ("bin", "sbin", "lib", "lib64"):  # /bin is /usr/bin, and so on
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (root / name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")
    for package in sorted(archives.glob("*.deb")):
        with subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE
        ) as archive:
            run("tar", "-x", "--keep-directory-symlink", "-C", root, stdin=archive.stdout)
    for name in ("dev/shm", "proc", "tmp", "root"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("dev/shm", "tmp"):
        (root / name).chmod(0o1777)
    for name, numbers in DEVICES.items():
        if not (root / "dev" / name).exists():
            os.mknod(root / "dev" / name, 0o020666, os.makedev(*numbers))
    if not (root / "bin" / "sh").exists():
        (root / "bin" / "sh").symlink_to("bash")
    for name in ("resolv.conf", "hosts", "pip.conf", CERTIFICATES.removeprefix("/etc/")):
        if (Path("/etc") / name).exists():
            (root / "etc" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path("/etc") / name, root / "etc" / name)
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
    (root / "etc" / "group").write_text("root:x:0:\n")
    run("chroot", root, "/sbin/ldconfig")


def inside(root: Path, *command: str, directory: str = "/root") -> int:
    """Run a command in the folder as its root, with a /proc that goes when the command ends."""
    variables = {
        "HOME": "/root",
        "PATH": "/usr/bin:/usr/sbin",
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
        "PIP_CERT": CERTIFICATES,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "RANKING_REQUIRE_KERNELS": "cython,rust",
    }
    script = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
    words = [f"{key}={value}" for key, value in variables.items()]
    # The shell ignores interrupts for what runs in the background; the tests need them.
    clean = ["/usr/bin/env", "-i", "--default-signal=INT", "-C", directory, *words]
    return subprocess.call(
        ["unshare", "--mount", "--fork", "sh", "-c", script, str(root), *clean, *command]
    )


def install(root: Path, version: str, wheels: Path, others: list[str]) -> str:
    """Make an environment with the wheels and what the tests need; return its path inside."""
    environment = f"/venv-{version}" + "".join(f"-{one}" for one in others).translate(
        str.maketrans("", "", "=*<>~! ")
    )
    inside(root, f"python{version}", "-m", "venv", "--clear", environment)
    shutil.rmtree(root / "wheels", ignore_errors=True)
    (root / "wheels").mkdir()
    for wheel in wheels.glob("*.whl"):
        shutil.copy(wheel, root / "wheels")
    python = f"{environment}/bin/python"
    pip = [python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    names = [f"/wheels/{wheel.name}" for wheel in wheels.glob("*.whl")]
    if inside(root, *pip, "--upgrade", "pip") or inside(root, *pip, *names, *others):
        sys.exit("the wheels cannot be installed")
    groups = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["dependency-groups"]
    for requirement in groups["test"]:  # one by one: some have no wheel for a new interpreter yet
        if inside(root, *pip, requirement, *others):
            print(f"left out: {requirement}", flush=True)  # noqa: T201
    return environment


def test(folder: Path, version: str, wheels: Path, others: list[str], arguments: list[str]) -> int:
    """Run pytest on one interpreter with these wheels; return its exit code."""
    root = folder / "root"
    environment = install(root, version, wheels, others)
    # The tests of what is committed, without the packages: those come from the wheels.
    source = root / f"source-{version}"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir()
    with subprocess.Popen(
        ["git", "-C", REPOSITORY, "archive", "HEAD"], stdout=subprocess.PIPE
    ) as archive:
        run("tar", "-x", "-C", source, stdin=archive.stdout)
    python = f"{environment}/bin/python"
    inside(root, python, "-m", "pip", "list", "--format=freeze")
    path = f"PATH={environment}/bin:/usr/bin:/usr/sbin"
    command = ["/usr/bin/env", path, python, "-P", "-m", "pytest"]
    return inside(root, *command, *arguments, directory=f"/source-{version}")


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("prepare")
    one.add_argument("folder", type=Path)
    one.add_argument("--suite", default="sid")
    two = commands.add_parser("test")
    two.add_argument("folder", type=Path)
    two.add_argument("version", choices=VERSIONS)
    two.add_argument("--wheels", type=Path, required=True)
    two.add_argument("--with", dest="others", action="append", default=[], metavar="REQUIREMENT")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])  # the others are for pytest
    folder = options.folder.resolve()
    if options.command == "prepare":
        prepare(folder, options.suite)
        return 0
    wheels = options.wheels.resolve()
    return test(folder, options.version, wheels, options.others, words[end + 1 :])


if __name__ == "__main__":
    sys.exit(main())
