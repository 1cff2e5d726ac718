"""Print the reading of one LETOR file in every kernel next to scikit-learn, as ratios in one run.

    python -P asv_benchmarks/reading_report.py 500

The argument is the size of the file in megabytes: 136 features of six digits, 120 rows a query. It
is written to the folder of temporary files and removed. Each reader runs in a process of its own,
interleaved, best of several; processor time is next to the clock, as other programs disturb it
less. Memory is the most that the process needed beyond what it had before it read.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 3
READERS = [("scikit-learn", 1)] + [(name, n) for name in ("cython", "rust") for n in (1, 2)]


def write(path: Path, megabytes: int) -> None:
    """Write a file of at least this size."""
    values = np.random.default_rng(0).random((2000, 136))
    rows = [" ".join(f"{k}:{v:.6f}" for k, v in enumerate(x, 1)) for x in values]
    with path.open("w") as stream:
        row = 0
        while stream.tell() < megabytes * 10**6:
            stream.writelines(
                f"{i % 5} qid:{i // 120} {rows[i % 2000]}\n" for i in range(row, row + 2000)
            )
            row += 2000


def measure(path: str, reader: str, threads: int) -> dict[str, float]:
    """Read once; return seconds, processor seconds, and memory as a share of the result's."""
    # Imported here, as each process needs one of them and memory is measured.
    if reader == "scikit-learn":
        from sklearn.datasets import load_svmlight_file

        def read() -> int:
            features, grades, qids = load_svmlight_file(path, query_id=True)
            arrays = (features.data, features.indices, features.indptr, grades, qids)
            return sum(array.nbytes for array in arrays)
    else:
        from ranking import get_kernel
        from ranking.data.readers.letor import Letor

        letor = Letor(kernel=get_kernel(reader), threads=threads)

        def read() -> int:
            data = letor.read(Path(path))
            return int(data.features.nbytes + data.grades.nbytes)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    clock, processor = time.perf_counter(), time.process_time()
    size = read()
    return {
        "clock": time.perf_counter() - clock,
        "processor": time.process_time() - processor,
        "memory": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / size,
    }


def main(megabytes: int) -> None:
    """Measure and print."""
    best: dict[tuple[str, int], dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "letor.txt"
        write(path, megabytes)
        size = path.stat().st_size / 10**6
        for _ in range(ROUNDS):
            for reader, threads in READERS:
                command = [sys.executable, "-P", __file__, str(path), reader, str(threads)]
                done: dict[str, Any] = json.loads(subprocess.check_output(command))
                known = best.setdefault((reader, threads), done)
                best[reader, threads] = {key: min(known[key], done[key]) for key in done}
    baseline = best["scikit-learn", 1]
    lines = ["reader        threads  seconds  MB/s  ratio  processor s  ratio  memory / result"]
    for (reader, threads), result in best.items():
        lines.append(
            f"{reader:12}  {threads:7}  {result['clock']:7.2f}  {size / result['clock']:4.0f}"
            f"  {baseline['clock'] / result['clock']:5.1f}  {result['processor']:11.2f}"
            f"  {baseline['processor'] / result['processor']:5.1f}  {result['memory']:15.2f}"
        )
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(int(sys.argv[1]))
    else:
        json.dump(measure(sys.argv[1], sys.argv[2], int(sys.argv[3])), sys.stdout)
