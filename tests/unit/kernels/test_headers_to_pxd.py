"""The translation of C headers to declarations for Cython."""

from __future__ import annotations

import runpy
from pathlib import Path

TOOL = Path(__file__).parents[3] / "tools" / "headers_to_pxd.py"

HEADER = """\
/* A comment with a prototype: int no(void); */
#ifndef SMALL_H
#define SMALL_H
#define LONG(x) \\
    no(x)
enum { FIRST, SECOND = 2, THIRD };
typedef struct {
    const double *values;
    int64_t size;
} small_row;
typedef struct small_store small_store;
typedef double (*small_function)(double, const void *);
int64_t small_count(const small_row *row, int64_t from,
                    double lambda);
small_store *small_new(void);
LANES_INLINE double small_square(double x)
{
    return x * x;
}
static int private_count(void);
#endif
"""

EXPECTED = """\
enum:
    FIRST
    SECOND
    THIRD
ctypedef struct small_row:
    const double *values
    int64_t size
ctypedef struct small_store:
    pass
ctypedef double (*small_function)(double, const void *) noexcept
int64_t small_count(const small_row *row, int64_t from_, double lambda_) noexcept
small_store *small_new() noexcept
double small_square(double x) noexcept
"""


def test_declarations_of_a_header(tmp_path: Path) -> None:
    header, output = tmp_path / "small.h", tmp_path / "small.pxd"
    header.write_text(HEADER)
    runpy.run_path(str(TOOL))["main"]([str(header)], str(output))
    preamble, _, rest = output.read_text().partition('cdef extern from "small.h" nogil:\n')
    assert "cimport int32_t" in preamble
    assert rest == "".join(f"    {line}\n" for line in EXPECTED.splitlines())


def test_functions_of_the_arena_are_declared() -> None:
    header = TOOL.parents[1] / "ranking" / "kernels" / "cython" / "src" / "arena.h"
    lines = list(runpy.run_path(str(TOOL))["declarations"](header.read_text(encoding="utf-8")))
    functions = [line.split("(")[0].split()[-1].lstrip("*") for line in lines if "(" in line]
    expected = ["arena_alloc", "arena_calloc", "arena_own", "arena_free", "buffer_reserve"]
    assert functions == expected
