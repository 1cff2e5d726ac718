"""Compare the asv timings of two builds side by side, interleaved, in processor time.

Each build is a Python interpreter and the ``asv_benchmarks`` folder written for it::

    python tools/compare_builds.py OLD/.venv/bin/python OLD/asv_benchmarks \
        NEW/.venv/bin/python NEW/asv_benchmarks -m factored -m bilinear

One process per build stays alive; both run the same benchmark in turns, and the minimum of the
processor times counts, so that load on the machine disturbs both alike. Benchmarks and parameters
that only one build has are left out. Parameters are compared by position; benchmarks with more
than one thread are left out, since processor time is not what threads are for.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FOLDER = "benchmarks"


def write(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def cases(module: str) -> dict[str, tuple[type, str, tuple[Any, ...]]]:
    """Return class, method and parameters of each timing of a module, by a printable name."""
    result = {}
    for name, kind in vars(importlib.import_module(f"{FOLDER}.{module}")).items():
        if not isinstance(kind, type) or not kind.__module__.endswith(f".{module}"):
            continue
        params = getattr(kind, "params", ())
        if params and not isinstance(params[0], (list, tuple)):
            params = (params,)
        names = getattr(kind, "param_names", ())
        for values in itertools.product(*params):
            if dict(zip(names, values, strict=False)).get("threads", 1) != 1:
                continue
            for method in (item for item in dir(kind) if item.startswith("time_")):
                text = ", ".join(map(str, values))
                result[f"{module}.{name}.{method}({text})"] = (kind, method, values)
    return result


def serve(modules: list[str]) -> None:
    """Answer requests on standard input: prepare a case, or time one call of it."""
    sys.path.insert(0, str(Path.cwd()))
    known = {name: case for module in modules for name, case in cases(module).items()}
    write(json.dumps(list(known)))
    benchmark, method, values = None, "", ()
    caches: dict[type, Any] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for line in sys.stdin:
            request = json.loads(line)
            answer: float | str = 0.0
            try:
                if request:
                    kind, method, values = known[request]
                    benchmark = kind()
                    if hasattr(kind, "setup_cache"):
                        if kind not in caches:
                            caches[kind] = benchmark.setup_cache()
                        values = (caches[kind], *values)
                    benchmark.setup(*values)
                else:
                    start = time.process_time()
                    getattr(benchmark, method)(*values)
                    answer = time.process_time() - start
            except Exception as error:  # the other build goes on without this case
                answer = f"{type(error).__name__}: {error}"
            write(json.dumps(answer))


class Build:
    """A process that runs the benchmarks of one build."""

    def __init__(self, python: str, folder: str, modules: list[str]) -> None:
        script = str(Path(__file__).resolve())
        self.process = subprocess.Popen(
            [str(Path(python).absolute()), script, "--serve", *modules],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.names: list[str] = self._read()

    def _read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a build ended early; its messages are above.")
        return json.loads(line)

    def ask(self, request: str) -> Any:
        """Prepare a case, or with an empty request return the seconds of one call."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._read()


def compare(
    old: Build, new: Build, name: str, seconds: float, rounds: int
) -> tuple[float, float] | str:
    """Return the minimal times of a case, calls of both builds taken in turns.

    Each round prepares the case again, because the addresses of its arrays change the times.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(1, rounds + 1):
        for build in (old, new):
            problem = build.ask(name)
            if isinstance(problem, str):
                return problem
        end = time.monotonic() + seconds / rounds
        while time.monotonic() < end or len(times[0]) < 5 * number:
            for build, list_ in zip((old, new), times, strict=True):
                value = build.ask("")
                if isinstance(value, str):
                    return value
                list_.append(value)
    return min(times[0]), min(times[1])


def main() -> None:
    """Compare two builds and print one line per timing."""
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for side in ("old", "new"):
        parser.add_argument(f"{side}_python")
        parser.add_argument(f"{side}_folder")
    parser.add_argument("-m", "--module", action="append", required=True)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--seconds", type=float, default=4.0, help="per timing")
    parser.add_argument("--rounds", type=int, default=3, help="preparations of each timing")
    options = parser.parse_args()
    old = Build(options.old_python, options.old_folder, options.module)
    new = Build(options.new_python, options.new_folder, options.module)
    for name in (name for name in new.names if name in old.names and options.only in name):
        result = compare(old, new, name, options.seconds, options.rounds)
        if isinstance(result, str):
            write(f"{'-':>6}  {name}: {result}")
        else:
            before, after = (1e3 * value for value in result)
            ratio = after / before if before else float("nan")
            write(f"{ratio:6.3f}  {name}: {before:.3f} -> {after:.3f} ms")


if __name__ == "__main__":
    main()
