"""`Kernel`: the functions of an implementation, by family and with checked arguments."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from ranking.errors import KernelUnavailableError
from ranking.kernels.alternating import AlternatingKernel
from ranking.kernels.bilinear import BilinearKernel
from ranking.kernels.contract import FAMILIES, Implementations
from ranking.kernels.domination import DominationKernel
from ranking.kernels.factored import FactoredKernel
from ranking.kernels.item_item import ItemItemKernel
from ranking.kernels.letor import LetorKernel
from ranking.kernels.linear import LinearKernel
from ranking.kernels.listwise import ListwiseKernel
from ranking.kernels.metrics import MetricsKernel
from ranking.kernels.native.calls import NativeKernel
from ranking.kernels.pairwise_lists import PairwiseListsKernel
from ranking.kernels.random import RandomKernel
from ranking.kernels.sampling import SamplingKernel
from ranking.kernels.shared_lists import SharedListsKernel


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One implementation of the contract, safe to call with any arguments.

    There is one attribute per family, such as ``kernel.random`` or ``kernel.domination``, whose
    methods check their arguments and then call the implementation of that family.

    Attributes
    ----------
    name : str
        As it is registered.
    implementations : dict
        Family name to implementation; see :mod:`ranking.kernels.contract`.
    version : str
        Of the distribution that brings it; recorded in model files.
    description : mapping
        The kernel's self-description; see :mod:`ranking.kernels.contract`.
    fallback : Kernel, optional
        Serves the families, and the functions of a family, that `implementations` leaves out.
    """

    name: str
    implementations: Implementations = dataclasses.field(repr=False)
    version: str
    description: Mapping[str, Any] = dataclasses.field(repr=False)
    fallback: Kernel | None = None

    def __post_init__(self) -> None:
        """Refuse families that do not exist, and missing ones that no fallback serves."""
        unknown = sorted(set(self.implementations) - set(FAMILIES))
        if unknown:
            raise KernelUnavailableError(
                f"kernel {self.name!r} has unknown families {unknown}; there are {list(FAMILIES)}."
            )
        missing = [family for family in FAMILIES if family not in self.implementations]
        if missing and self.fallback is None:
            raise KernelUnavailableError(
                f"kernel {self.name!r} does not implement {missing}; give it a fallback, such as "
                "ranking.kernels.builtin.cython_kernel()."
            )

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        """Pickle by name: compiled functions cannot be pickled."""
        from ranking.kernels.select import get_kernel

        return get_kernel, (self.name,)

    def describe(self) -> dict[str, Any]:
        """Return the self-description, and which kernel serves each family."""
        return {**self.description, "families": self.families()}

    def families(self) -> dict[str, str]:
        """Return the name of the kernel that serves each family."""
        return {family: self._server(family).name for family in FAMILIES}

    def _server(self, family: str) -> Kernel:
        if family in self.implementations or self.fallback is None:
            return self
        return self.fallback._server(family)

    def _functions(self, family: str) -> Any:
        """Return the functions of a family; those that are left out are the fallback's."""
        server = self._server(family)
        own: Any = server.implementations[family]  # type: ignore[literal-required]
        if server.fallback is None:
            return own
        return Inheriting(own, server.fallback._functions(family))

    @functools.cached_property
    def random(self) -> RandomKernel:
        """Random numbers, sums and the exponential."""
        return RandomKernel(self._functions("random"))

    @functools.cached_property
    def shared_lists(self) -> SharedListsKernel:
        """Lists that share their sampled negatives."""
        return SharedListsKernel(self._functions("shared_lists"))

    @functools.cached_property
    def linear(self) -> LinearKernel:
        """Scores of the linear model."""
        return LinearKernel(self._functions("linear"))

    @functools.cached_property
    def domination(self) -> DominationKernel:
        """The domination loss and its coordinate descent."""
        return DominationKernel(self._functions("domination"))

    @functools.cached_property
    def pairwise_lists(self) -> PairwiseListsKernel:
        """Pairwise losses over judged lists, and Newton steps on them."""
        return PairwiseListsKernel(self._functions("pairwise_lists"))

    @functools.cached_property
    def metrics(self) -> MetricsKernel:
        """Ranks and measures of ranked lists."""
        return MetricsKernel(self._functions("metrics"))

    @functools.cached_property
    def letor(self) -> LetorKernel:
        """Parsing of LETOR text."""
        return LetorKernel(self._functions("letor"))

    @functools.cached_property
    def sampling(self) -> SamplingKernel:
        """Sampling of triplets."""
        return SamplingKernel(self._functions("sampling"))

    @functools.cached_property
    def bilinear(self) -> BilinearKernel:
        """The bilinear model."""
        return BilinearKernel(self._functions("bilinear"))

    @functools.cached_property
    def factored(self) -> FactoredKernel:
        """The factored model."""
        return FactoredKernel(self._functions("factored"))

    @functools.cached_property
    def alternating(self) -> AlternatingKernel:
        """Half-steps of the alternating solver."""
        return AlternatingKernel(self._functions("alternating"))

    @functools.cached_property
    def item_item(self) -> ItemItemKernel:
        """Columns of item-item weights."""
        return ItemItemKernel(self._functions("item_item"))

    @functools.cached_property
    def listwise(self) -> ListwiseKernel:
        """Losses of sampled lists."""
        return ListwiseKernel(self._functions("listwise"))

    @functools.cached_property
    def native(self) -> NativeKernel:
        """Calls of a plugin's C functions."""
        return NativeKernel(self._functions("native"))


class Inheriting:
    """The functions of a family, those that are left out from another implementation."""

    def __init__(self, own: Any, inherited: Any) -> None:
        self.own, self.inherited = own, inherited

    def __getattr__(self, name: str) -> Any:
        """Return a function, and keep it."""
        function = getattr(self.own if hasattr(self.own, name) else self.inherited, name)
        setattr(self, name, function)
        return function
