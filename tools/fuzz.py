"""Mutate data files, model files and checkpoints, and check that they are read or refused.

Every input is either accepted or refused with an error of `ranking`; anything else (another
exception, a crash, more than five seconds of processor time) is a failure, whose input is kept. The
same seed gives the same inputs. A forked worker takes thousands of inputs; the parent watches it,
so that a crash, a hang (also in compiled code) and the use of too much memory are seen, and goes on
behind it.

The targets "kernels" are differential: random small problems, and mutated judged lists, on which
all kernels must give the same bits or the same error.

    python tools/fuzz.py --seconds 60
    python tools/fuzz.py --inputs 1000000 --seed 7 --keep failures
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import inspect
import json
import mmap
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import NamedTuple

# The folder of a script is not searched under PYTHONSAFEPATH.
sys.path.insert(0, str(Path(__file__).parent))
from fuzzing.kernels import kernel_targets
from fuzzing.models import checkpoint_targets, model_targets
from fuzzing.mutations import mutate
from fuzzing.readers import reader_targets, setting_targets
from fuzzing.serving import serve_targets
from fuzzing.target import Target

from ranking import RankingError

LIMIT = 5
"""Seconds of processor time after which an input counts as a hang."""

PATIENCE = 60
"""Seconds after which it counts as one if it waits; other programs may keep the processors busy."""

MEMORY = 2 << 30
"""Bytes that a worker may use more than its parent."""

GROWTH = 512 << 10
"""Kilobytes by which one input may raise the peak memory of its worker."""

BATCH = 5000
"""Inputs per forked worker."""


def one_round(targets: list[Target]) -> list[Target]:
    """Return every target as often as its weight says, mixed, in an order that is always equal."""
    targets = [target for target in targets for _ in range(target.weight)]
    random.Random(0).shuffle(targets)  # noqa: S311
    return targets


class Hang(Exception):  # noqa: N818
    """An input took too long."""


def _alarm(*_: object) -> None:
    raise Hang


class Worker(NamedTuple):
    """What a forked worker shares with its parent: a round of targets and the input in work."""

    targets: list[Target]
    seed: int
    folder: Path
    current: mmap.mmap

    def input(self, number: int) -> tuple[Target, bytes]:
        """Return the target and the content of an input."""
        target = self.targets[number % len(self.targets)]
        draw = random.Random(f"{self.seed} {number}")  # noqa: S311
        return target, mutate(target.content, draw)

    def run(self, numbers: range) -> dict[str, int]:
        """Run some inputs in this process and count the outcomes by target."""
        signal.signal(signal.SIGALRM, _alarm)
        signal.signal(signal.SIGPROF, _alarm)
        counts: Counter[str] = Counter()
        peak = peak_memory()
        for number in numbers:
            target, content = self.input(number)
            path = self.folder / target.file
            path.write_bytes(content)
            self.current[:8] = number.to_bytes(8, "little")
            signal.setitimer(signal.ITIMER_PROF, LIMIT)
            signal.alarm(PATIENCE)
            try:
                target.run(path)
                counts[f"{target.name}: accepted"] += 1
            except RankingError:
                counts[f"{target.name}: refused"] += 1
            except BaseException as error:
                counts[self.failure(number, f"{type(error).__name__}: {str(error)[:200]}")] += 1
            finally:
                signal.alarm(0)
                signal.setitimer(signal.ITIMER_PROF, 0)
            before, peak = peak, peak_memory()
            if peak - before > GROWTH:
                counts[self.failure(number, f"it took {(peak - before) >> 10} MB")] += 1
        return counts

    def failure(self, number: int, reason: str) -> str:
        """Report an input that failed, and return the line that counts it."""
        name = self.targets[number % len(self.targets)].name
        line = f"FAILED {number} {name}: {reason}"
        print(line, flush=True)  # noqa: T201
        return line

    def fork(self, numbers: range) -> Counter[str]:
        """Run some inputs in forked workers, a new one behind each that crashes or hangs."""
        counts: Counter[str] = Counter()
        result = self.folder / "counts"
        while numbers:
            result.unlink(missing_ok=True)
            self.current[:8] = numbers.start.to_bytes(8, "little")
            child = os.fork()
            if child == 0:
                with contextlib.suppress(BaseException):
                    limit_memory()
                    result.write_text(json.dumps(self.run(numbers)))
                os._exit(0)
            status = self.watch(child)
            if status == 0 and result.exists():
                return counts + Counter(json.loads(result.read_text()))
            stopped = int.from_bytes(self.current[:8], "little")
            counts[self.failure(stopped, f"the process ended with status {status}")] += 1
            # What the worker had counted before is lost; those inputs are run again, alone.
            if stopped > numbers.start:
                counts += self.fork(range(numbers.start, stopped))
            numbers = range(stopped + 1, numbers.stop)
        return counts

    def watch(self, child: int) -> int:
        """Wait for a worker; kill it if one input takes too long, also in compiled code."""
        seen, since = bytes(8), time.monotonic()
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return status
            now = self.current[:8]
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > PATIENCE + 3:  # the alarm had its chance
                os.kill(child, signal.SIGKILL)
            time.sleep(0.05)


def peak_memory() -> int:
    """Return the largest resident size of this process so far, in kilobytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def limit_memory() -> None:
    """Bound the memory of this process, so that an input that wants much is seen."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * mmap.PAGESIZE + MEMORY,) * 2)


def memory_folder() -> Path | None:
    """Return a folder in memory, if there is one: on a disk, replacing files takes most time."""
    folder = Path("/dev/shm")  # noqa: S108
    return folder if os.access(folder, os.W_OK) else None


def keep(worker: Worker, failed: list[str], folder: Path) -> None:
    """Write the inputs that failed, to become seeds of regression tests."""
    folder.mkdir(parents=True, exist_ok=True)
    for line in failed:
        number = int(line.split()[1])
        target, content = worker.input(number)
        (folder / f"{number}-{target.file}").write_bytes(content)


def report(counts: Counter[str], targets: list[Target]) -> None:
    """Print how many inputs each target accepted and refused."""
    for target in targets:
        accepted, refused = (counts[f"{target.name}: {word}"] for word in ("accepted", "refused"))
        print(f"  {target.name:28} {accepted:9,} accepted {refused:9,} refused")  # noqa: T201


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--inputs", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="number of the first input")
    parser.add_argument("--only", default="", help="regular expression of targets")
    parser.add_argument("--keep", type=Path, default=None, help="folder for inputs that failed")
    return parser.parse_args()


def main() -> int:
    """Run inputs until the time or the number is over; return 1 if any failed."""
    options = parse()
    warnings.simplefilter("ignore")
    os.environ["RANKING_TRACEBACK"] = "1"  # the command line hides no defect
    inspect.signature = functools.cache(inspect.signature)  # the registry asks for each part
    counts: Counter[str] = Counter()
    number = options.start
    last = None if options.inputs is None else options.start + options.inputs
    with tempfile.TemporaryDirectory(dir=memory_folder()) as name, mmap.mmap(-1, 8) as current:
        folder = Path(name)
        every = [
            *(*reader_targets(), *setting_targets()),
            *(*model_targets(folder), *checkpoint_targets(folder), *kernel_targets()),
            *serve_targets(folder),
        ]
        targets = [target for target in every if re.search(options.only, target.name)]
        for target in targets:  # imports and caches, before the first fork
            path = folder / target.file
            path.write_bytes(target.content)
            with contextlib.suppress(RankingError):
                target.run(path)
        begin = time.monotonic()
        worker = Worker(one_round(targets), options.seed, folder, current)
        batch = BATCH if last is not None else 500
        while number < last if last is not None else time.monotonic() - begin < options.seconds:
            stop = number + batch if last is None else min(number + batch, last)
            counts += worker.fork(range(number, stop))
            number = stop
            if number % (20 * BATCH) == 0:
                print(f"{number:,} inputs, {time.monotonic() - begin:.0f} s", flush=True)  # noqa: T201
                report(counts, targets)
        failed = [line for line in counts if line.startswith("FAILED")]
        accepted = sum(n for line, n in counts.items() if line.endswith(": accepted"))
        print(  # noqa: T201
            f"{number - options.start} inputs over {len(targets)} targets in "
            f"{time.monotonic() - begin:.0f} s: {accepted} accepted, "
            f"{number - options.start - accepted - len(failed)} refused, {len(failed)} failed"
        )
        report(counts, targets)
        if options.keep is not None and failed:
            keep(worker, failed, options.keep)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
