"""Print what an iteration of the alternating half-steps costs, in every kernel and in SciPy.

    [RANKING_BENCH_PROFILE=full] python -P asv_benchmarks/alternating_report.py [--kernel NAME]
        [--repeats N] [--part iteration|density|week] [--width D ...]

Three parts. `iteration`: both half-steps with dense embeddings of d = 100, next to SciPy's product,
NumPy's threshold and norm; bytes moved (as if no cache kept any), and their rate as a share of that
of a copy. `density`: one half-step with sparse embeddings next to one with the same as dense ones;
the threshold makes the output as sparse as the input. `week`: one iteration at the
shape of a week of clicks, d = 1000, and the most memory that this process has held.

Seconds are of the clock, and of the processor in brackets; the least of the repeats, in which
the ways are interleaved.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.common import KERNELS, PROFILE, kernel_or_skip
from benchmarks.half_steps import Embeddings, Sides, make_embeddings, make_sparse

from ranking.kernels.kernel import Kernel

SIZE = {"fast": 20_000, "full": 200_000}[PROFILE]
WEEK = {"fast": (21_000, 20_000), "full": (210_000, 200_000)}[PROFILE]
ROW_LENGTH, WEEK_COLUMN_LENGTH = 25.0, 27.1
WIDTH, WEEK_WIDTH = 100, 1000
DENSITIES = (0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
COPIED = {"fast": 1 << 26, "full": 1 << 28}[PROFILE]
THREADS = (1, 2)

Times = dict[str, tuple[float, float]]


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201


def measure(ways: dict[str, Callable[[], object]], repeats: int) -> Times:
    """Return the least seconds, of the clock and of the processor, of each way."""
    best: Times = dict.fromkeys(ways, (np.inf, np.inf))
    for _ in range(repeats):
        for name, way in ways.items():
            clock, processor = time.perf_counter(), time.process_time()
            way()
            spent = time.perf_counter() - clock, time.process_time() - processor
            best[name] = min(best[name][0], spent[0]), min(best[name][1], spent[1])
    return best


def copy_rate(threads: int, repeats: int) -> float:
    """Return the bytes read and written in a second by copies of memory."""
    source = np.ones((threads, COPIED // 8 // threads))
    buffer = np.zeros_like(source)
    with ThreadPoolExecutor(threads) as pool:
        times = measure({"": lambda: list(pool.map(np.copyto, buffer, source))}, 2 * repeats)
    return 2 * source.nbytes / times[""][0]


def report_iteration(kernels: list[Kernel], repeats: int) -> None:
    """Print an iteration with dense embeddings next to SciPy's."""
    sides, embeddings = Sides.make((SIZE, SIZE), ROW_LENGTH), make_embeddings(SIZE, WIDTH)
    ways = {"scipy": partial(sides.iterate_scipy, embeddings)}
    for kernel in kernels:
        for threads in THREADS:
            way = partial(sides.iterate, kernel, embeddings, threads)
            ways[f"{kernel.name} {threads}"] = way
    copies = {threads: copy_rate(threads, repeats) for threads in THREADS}
    times, moved = measure(ways, repeats), sides.bytes_moved(WIDTH)
    rates = " / ".join(f"{rate / 1e9:.1f}" for rate in copies.values())
    say(
        f"iteration, M {SIZE} x {SIZE}, {sides.rows.nnz} non-zeros, d = {WIDTH}: "
        f"{moved / 1e9:.2f} GB moved; copies {rates} GB/s"
    )
    for name, (clock, processor) in times.items():
        threads = int(name.split()[-1]) if " " in name else 1
        alone = times[name.rsplit(" ", 1)[0] + " 1"] if threads > 1 else times[name]
        say(
            f"  {name:10}{clock:8.3f} s ({processor:.3f}){moved / clock / 1e9:7.1f} GB/s"
            f"{moved / clock / copies[threads]:7.0%} of copy"
            f"{times['scipy'][0] / clock:7.2f} x SciPy ({times['scipy'][1] / processor:.2f})"
            + (f"{alone[0] / clock:7.2f} x one thread" if threads > 1 else "")
        )


def keeping(sides: Sides, source: sp.csr_array, density: float) -> float:
    """Return a threshold that leaves about so many of the numbers of the first rows."""
    part = sides.rows[: 1 << 11] @ source
    absent = 1.0 - part.nnz / np.prod(part.shape)
    share = max(0.0, 1.0 - density - absent) / max(1.0 - absent, 1e-9)
    return float(np.quantile(np.abs(part.data), share)) if part.nnz else 0.0


def report_density(kernels: list[Kernel], repeats: int, width: int) -> None:
    """Print sparse next to dense half-steps by density."""
    sides = Sides.make((SIZE, SIZE), ROW_LENGTH)
    say(f"density, one half-step, d = {width}, one thread")
    for density in DENSITIES:
        source = make_sparse((SIZE, width), density * width, seed=1)
        true = source.nnz / np.prod(source.shape)
        dense = np.zeros((SIZE, -(-width // 8) * 8), np.float32)
        dense[:, :width] = source.toarray()
        cut = keeping(sides, source, true)
        for kernel in kernels:
            ways = {
                "sparse": partial(sides.half_step, kernel, source, 1, cut),
                "dense": partial(sides.half_step, kernel, dense, 1, cut),
            }
            times = measure(ways, repeats)
            output = sides.half_step(kernel, source, 1, cut)
            say(
                f"  {kernel.name:8} {true:7.2%} in {output.nnz / np.prod(output.shape):7.2%} out"
                f"   sparse {times['sparse'][0]:.3f} s ({times['sparse'][1]:.3f})"
                f"   dense {times['dense'][0]:.3f} s ({times['dense'][1]:.3f})"
                f"   {times['dense'][1] / times['sparse'][1]:5.2f} x"
                f"   memory {nbytes(source) / nbytes(dense):.2f} of dense"
            )


def nbytes(embeddings: Embeddings) -> int:
    """Return the bytes that embeddings take."""
    if isinstance(embeddings, sp.csr_array):
        return int(embeddings.data.nbytes + embeddings.indices.nbytes + embeddings.indptr.nbytes)
    return int(embeddings.nbytes)


def report_week(kernels: list[Kernel]) -> None:
    """Print one iteration at the shape of a week of clicks."""
    sides = Sides.make(WEEK, WEEK_COLUMN_LENGTH * WEEK[1] / WEEK[0])
    embeddings = make_embeddings(WEEK[1], WEEK_WIDTH)
    moved = sides.bytes_moved(WEEK_WIDTH)
    say(f"week, M {WEEK[0]} x {WEEK[1]}, {sides.rows.nnz} non-zeros, d = {WEEK_WIDTH}")
    for kernel in kernels:
        for threads in THREADS:
            way = partial(sides.iterate, kernel, embeddings, threads)
            clock, processor = measure({"": way}, 2)[""]
            say(
                f"  {kernel.name} {threads}: {clock:.2f} s ({processor:.2f}) an iteration, "
                f"{moved / clock / 1e9:.1f} GB/s, ten {10 * clock:.0f} s"
            )
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    say(f"  most memory {most:.1f} GiB")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernel", choices=KERNELS, help="only this kernel")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--part", choices=["iteration", "density", "week"])
    parser.add_argument("--width", type=int, nargs="*", help="d of the part `density`")
    options = parser.parse_args()
    kernels = [kernel_or_skip(name) for name in KERNELS if options.kernel in (None, name)]
    if options.part in (None, "iteration"):
        report_iteration(kernels, options.repeats)
    if options.part in (None, "density"):
        for width in options.width or (WIDTH, WEEK_WIDTH):
            report_density(kernels, options.repeats, width)
    if options.part in (None, "week"):
        report_week(kernels)


if __name__ == "__main__":
    main()
