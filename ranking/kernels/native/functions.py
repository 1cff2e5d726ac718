"""C functions of a plugin: their addresses, and the Python references that own them.

``ranking/native.h``, in `include_dir()`, says what each function computes. Plugins provide them in
a capsule or by their addresses; :mod:`ranking.kernels.native.parts` builds losses and regularizers
on them.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import ranking
from ranking.kernels.contract import NativeCall

NATIVE_ABI: Final = 1
"""RANKING_NATIVE_ABI of the header."""


def include_dir() -> Path:
    """Return the folder of the C header, for ``#include "ranking/native.h"``."""
    return Path(ranking.__file__).parent / "include"


class _Head(ctypes.Structure):
    """The first fields of every struct of the header."""

    _fields_ = (("abi", ctypes.c_uint32), ("size", ctypes.c_uint32))


@dataclasses.dataclass(frozen=True, eq=False)
class NativeFunctions:
    """Addresses of C functions and of their context, and the Python references that own them.

    Attributes
    ----------
    plugin : str
        Their owner in messages, such as ``"loss 'smooth-hinge' of ranking-smooth 0.1"``.
    context : int
        The address that is passed back with every call; 0 is NULL.
    keep : tuple
        References that must live as long as the addresses are used.
    """

    plugin: str
    context: int
    keep: tuple[object, ...] = dataclasses.field(repr=False)

    capsule_name: ClassVar[str]
    may_be_null: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def from_capsule(cls, capsule: object, plugin: str) -> Self:
        """Read a capsule of the header, and hold a reference to it; refuse anything else."""
        address = _pointer(capsule, cls.capsule_name, plugin)
        head = _Head.from_address(address)
        if head.abi != NATIVE_ABI:
            raise TypeError(
                f"{plugin} was built for version {head.abi} of ranking's native interface, and "
                f"this is version {NATIVE_ABI}; build it against the header of this installation, "
                "which `python -m ranking --include` finds."
            )
        names = cls._function_names()
        layout = _layout(names)
        if head.size < ctypes.sizeof(layout):
            raise TypeError(
                f"{plugin} has a struct of {head.size} bytes, and {cls.capsule_name!r} has "
                f"{ctypes.sizeof(layout)}; set its size to sizeof the struct."
            )
        struct: Any = layout.from_address(address)
        functions = {name: getattr(struct, name) or 0 for name in names}
        return cls._create(functions, struct.context or 0, (capsule,), plugin)

    @classmethod
    def _create(
        cls,
        functions: Mapping[str, object],
        context: object,
        keep: tuple[object, ...],
        plugin: str,
    ) -> Self:
        """Create an instance from addresses, or from owners of an ``address``."""
        addresses: dict[str, int] = {}
        for name, function in functions.items():
            address = getattr(function, "address", function)
            if not isinstance(address, int) or isinstance(address, bool):
                raise TypeError(
                    f"{plugin} has {name}={function!r}; give the function's address: an int, or "
                    "anything that has it as .address, such as a cfunc of numba."
                )
            if address <= 0 and (address < 0 or name not in cls.may_be_null):
                raise TypeError(f"{plugin} has no function {name} (its address is {address}).")
            addresses[name] = address
        if not isinstance(context, int) or context < 0:
            raise TypeError(
                f"{plugin} has context={context!r}; give an address as an int, or 0 for none, and "
                "a reference to its owner in keep."
            )
        owners = [function for function in functions.values() if not isinstance(function, int)]
        create: Any = cls
        instance: Self = create(plugin=plugin, context=context, keep=(*keep, *owners), **addresses)
        return instance

    @classmethod
    def _function_names(cls) -> tuple[str, ...]:
        known = {field.name for field in dataclasses.fields(NativeFunctions)}
        return tuple(f.name for f in dataclasses.fields(cls) if f.name not in known)

    def call(self, name: str) -> NativeCall:
        """Return the addresses of a function and of the context, as kernels take them."""
        return NativeCall(getattr(self, name), self.context)


@dataclasses.dataclass(frozen=True, eq=False)
class PairwiseFunctions(NativeFunctions):
    """A loss of a margin: `ranking_pair_loss` of the header."""

    capsule_name: ClassVar[str] = "ranking.pair_loss"

    value: int
    slope: int

    @classmethod
    def from_addresses(
        cls,
        *,
        value: object,
        slope: object,
        context: int = 0,
        keep: tuple[object, ...] = (),
        plugin: str = "a native loss",
    ) -> Self:
        """Take functions by their addresses; `keep` holds references to their owners."""
        return cls._create({"value": value, "slope": slope}, context, keep, plugin)


@dataclasses.dataclass(frozen=True, eq=False)
class ListwiseFunctions(NativeFunctions):
    """A loss of a list: `ranking_list_loss` of the header."""

    capsule_name: ClassVar[str] = "ranking.list_loss"

    value: int
    slopes: int

    @classmethod
    def from_addresses(
        cls,
        *,
        value: object,
        slopes: object,
        context: int = 0,
        keep: tuple[object, ...] = (),
        plugin: str = "a native loss",
    ) -> Self:
        """Take functions by their addresses; `keep` holds references to their owners."""
        return cls._create({"value": value, "slopes": slopes}, context, keep, plugin)


@dataclasses.dataclass(frozen=True, eq=False)
class RowFunctions(NativeFunctions):
    """A penalty of a row: `ranking_row_regularizer` of the header; maximize may be 0."""

    capsule_name: ClassVar[str] = "ranking.row_regularizer"
    may_be_null: ClassVar[frozenset[str]] = frozenset({"maximize"})

    penalty: int
    prox: int
    maximize: int

    @classmethod
    def from_addresses(
        cls,
        *,
        penalty: object,
        prox: object,
        maximize: object = 0,
        context: int = 0,
        keep: tuple[object, ...] = (),
        plugin: str = "a native regularizer",
    ) -> Self:
        """Take functions by their addresses; `keep` holds references to their owners."""
        functions = {"penalty": penalty, "prox": prox, "maximize": maximize}
        return cls._create(functions, context, keep, plugin)


def _layout(names: tuple[str, ...]) -> type[ctypes.Structure]:
    """Return the struct of the header that has these functions."""
    pointers = [(name, ctypes.c_void_p) for name in (*names, "context")]
    return type("Layout", (_Head,), {"_fields_": pointers})


def _pointer(capsule: object, expected: str, plugin: str) -> int:
    """Return the pointer of a capsule of this name."""
    if type(capsule).__name__ != "PyCapsule":
        raise TypeError(
            f"{plugin} returned a {type(capsule).__name__}; expected a capsule named "
            f"{expected!r}, or the functions by their addresses."
        )
    api = ctypes.pythonapi
    get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    name = get_name(capsule)
    if name != expected.encode():
        actual = "no name" if name is None else f"the name {name.decode(errors='replace')!r}"
        raise TypeError(f"{plugin} returned a capsule with {actual}; expected {expected!r}.")
    get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", api)
    )
    address: int = get_pointer(capsule, name)
    return address
