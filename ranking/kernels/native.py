"""The door of the native loops: a plugin's C functions, over arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ranking.kernels._old_contract import NO_CALL, Call, Features, Floats, Ints, PairForm
from ranking.kernels.door import FLOATS, check_array, check_pointer, checked_threads
from ranking.native import ListFunctions, PairFunctions, RowFunctions

if TYPE_CHECKING:
    from ranking.kernels.kernel import Kernel


def checked_form(form: PairForm, functions: PairFunctions | None) -> tuple[int, Call]:
    """Return the form of a loss, and where its slope is if that is not inlined."""
    if PairForm(form) != PairForm.NATIVE:
        if functions is not None:
            raise ValueError(f"form {PairForm(form).name} is inlined; leave the functions out.")
        return int(form), NO_CALL
    if not isinstance(functions, PairFunctions):
        raise TypeError(f"form NATIVE needs PairFunctions, not {type(functions).__name__}.")
    return int(form), functions.call("slope")


def pair_values(
    kernel: Kernel, functions: PairFunctions, margins: Floats, threads: int = 1
) -> Floats:
    """Return the loss of each margin."""
    return _pairs(kernel, functions.call("value"), margins, threads)


def pair_slopes(
    kernel: Kernel, functions: PairFunctions, margins: Floats, threads: int = 1
) -> Floats:
    """Return its derivative."""
    return _pairs(kernel, functions.call("slope"), margins, threads)


def _pairs(kernel: Kernel, call: Call, margins: Floats, threads: int) -> Floats:
    check_array("margins", margins, ("float64",), (None,))
    out = np.empty(margins.size)
    kernel.loops.native_pairs(call, margins, out, checked_threads(threads))
    return out


def list_values(
    kernel: Kernel,
    functions: ListFunctions,
    list_ptr: Ints,
    scores: Floats,
    grades: Floats,
    threads: int = 1,
) -> Floats:
    """Return the loss of each list; list i has the scores list_ptr[i] to list_ptr[i + 1]."""
    _check_lists(list_ptr, scores, grades)
    out = np.empty(list_ptr.size - 1)
    kernel.loops.native_list_values(
        functions.call("value"), list_ptr, scores, grades, out, checked_threads(threads)
    )
    return out


def list_slopes(
    kernel: Kernel,
    functions: ListFunctions,
    list_ptr: Ints,
    scores: Floats,
    grades: Floats,
    threads: int = 1,
) -> Floats:
    """Return the derivative of its list's loss with respect to each score."""
    _check_lists(list_ptr, scores, grades)
    out = np.zeros(scores.size)
    kernel.loops.native_list_slopes(
        functions.call("slopes"), list_ptr, scores, grades, out, checked_threads(threads)
    )
    return out


def row_penalties(
    kernel: Kernel, functions: RowFunctions, matrix: Features, threads: int = 1
) -> Floats:
    """Return the penalty of each row."""
    check_array("matrix", matrix, FLOATS, (None, None))
    out = np.empty(matrix.shape[0])
    kernel.loops.native_penalties(functions.call("penalty"), matrix, out, checked_threads(threads))
    return out


def prox_rows(
    kernel: Kernel,
    functions: RowFunctions,
    matrix: Features,
    step: float,
    width: int | None = None,
    threads: int = 1,
) -> None:
    """Take the prox of each row in place, of its first `width` numbers if they are not all."""
    kernel.loops.native_prox(
        functions.call("prox"),
        matrix,
        _checked_width(matrix, width),
        float(step),
        checked_threads(threads),
    )


def maximize_rows(
    kernel: Kernel,
    functions: RowFunctions,
    matrix: Features,
    width: int | None = None,
    threads: int = 1,
) -> None:
    """Take the maximum for each row in place, of its first `width` numbers if not all."""
    if not functions.maximize:
        raise TypeError(f"{functions.plugin} has no function maximize.")
    kernel.loops.native_maximize(
        functions.call("maximize"),
        matrix,
        _checked_width(matrix, width),
        checked_threads(threads),
    )


def _check_lists(list_ptr: Ints, scores: Floats, grades: Floats) -> None:
    check_array("scores", scores, ("float64",), (None,))
    check_array("grades", grades, ("float64",), (scores.size,))
    check_array("list_ptr", list_ptr, ("int64",), (None,))
    check_pointer("list_ptr", list_ptr, ("int64",), list_ptr.size - 1, scores.size)


def _checked_width(matrix: Features, width: int | None) -> int:
    check_array("matrix", matrix, FLOATS, (None, None), writeable=True)
    chosen = matrix.shape[1] if width is None else width
    if not 0 <= chosen <= matrix.shape[1]:
        raise ValueError(f"width is {chosen}; rows have {matrix.shape[1]} numbers.")
    return int(chosen)
