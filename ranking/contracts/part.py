"""`Part`: what models, losses, regularizers and solvers have in common."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self


@dataclasses.dataclass
class Part:
    """A dataclass whose fields are its hyper-parameters.

    Subclasses are dataclasses too. `get_params` and `set_params` follow scikit-learn, so that
    ``clone`` and ``GridSearchCV(..., {"regularizer__strength": ...})`` reach inside a ranker.

    Attributes
    ----------
    name : str
        The name under which the part is registered, as on the command line.
    """

    name: ClassVar[str] = ""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the hyper-parameters by name."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Set hyper-parameters by name."""
        known = self._names()
        for key, value in params.items():
            if key not in known:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {key!r}; it has {sorted(known)}."
                )
            setattr(self, key, value)
        self.__post_init__()
        return self

    @classmethod
    def _names(cls) -> list[str]:
        return [field.name for field in dataclasses.fields(cls) if field.init]

    def __post_init__(self) -> None:
        """Check the hyper-parameters; subclasses raise `PartError` for a bad one."""

    def spec(self) -> str:
        """Spell the part as on the command line: ``name:key=value,key=value``."""
        idle = self.idle()
        told = self.get_params().items()
        params = ",".join(f"{key}={value}" for key, value in told if key not in idle)
        return f"{self.name}:{params}" if params else self.name

    def idle(self) -> set[str]:
        """Return the parameters that have no effect as the others are; `spec` leaves them out."""
        return set()
