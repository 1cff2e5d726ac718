"""`Part`: the base class of models, losses, regularizers, solvers and other plugins."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any, ClassVar, Self

from ranking.contracts.parameters import violations
from ranking.errors import PartError


@dataclasses.dataclass
class Part:
    """A dataclass whose fields are its hyper-parameters.

    Subclasses are dataclasses too. `get_params` and `set_params` follow scikit-learn, so that
    ``clone`` and ``GridSearchCV(..., {"regularizer__strength": ...})`` reach inside a ranker.
    Ranges are declared with the fields, by the functions of :mod:`ranking.contracts.parameters`.

    Attributes
    ----------
    name : str
        The name under which the part is registered, as on the command line.
    is_native : bool
        Whether kernels call C functions of the part instead of its Python methods.
    """

    name: ClassVar[str] = ""
    is_native: ClassVar[bool] = False

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the hyper-parameters by name."""
        return {name: getattr(self, name) for name in self.parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Set hyper-parameters by name."""
        known = self.parameter_names()
        for key, value in params.items():
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise ValueError(
                    f"{type(self).__name__} has no parameter {key!r}; its parameters are "
                    f"{', '.join(known) or 'none'}.{hint}"
                )
            setattr(self, key, value)
        self.__post_init__()
        return self

    @classmethod
    def parameter_names(cls) -> list[str]:
        """Return the names of the hyper-parameters."""
        return [field.name for field in dataclasses.fields(cls) if field.init]

    def __post_init__(self) -> None:
        """Check the hyper-parameters against their constraints, then call `_setup`."""
        for parameter, constraint in violations(self).items():
            raise PartError(
                f"{self.name or type(self).__name__} has {parameter}="
                f"{getattr(self, parameter)!r}; it must be {constraint.describe()}."
            )
        self._setup()

    def _setup(self) -> None:
        """Check parameters that depend on each other and derive private state; for subclasses.

        Called after construction and after `set_params`. Raise `PartError` for a bad combination.
        """

    def spec(self) -> str:
        """Return the part as on the command line: ``name:key=value,key=value``."""
        idle = self.idle()
        params = ",".join(
            f"{key}={value}" for key, value in self.get_params().items() if key not in idle
        )
        return f"{self.name}:{params}" if params else self.name

    def auto_values(self, problem: Any) -> dict[str, Any]:
        """Return the value that a `TrainingProblem` leads to, for each parameter that is "auto"."""
        return {}

    def idle(self) -> set[str]:
        """Return the parameters without effect at the values of the others; `spec` omits them."""
        return set()
