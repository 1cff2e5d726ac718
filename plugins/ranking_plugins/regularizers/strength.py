"""The check that penalties with a strength share."""

import math
import numbers

from ranking.errors import PartError


def check_strength(name: str, strength: object) -> None:
    """Refuse a strength that is not a finite number, or is negative."""
    if not isinstance(strength, numbers.Real) or not 0.0 <= float(strength) < math.inf:
        raise PartError(
            f"regularizer {name!r} has strength {strength!r}; it must be a finite number >= 0, "
            f"such as {name}:strength=0.01."
        )


def check_limit(name: str, limit: object) -> None:
    """Refuse a largest norm that is not a finite number above 0."""
    if not isinstance(limit, numbers.Real) or not 0.0 < float(limit) < math.inf:
        raise PartError(
            f"regularizer {name!r} has limit {limit!r}; it must be a finite number > 0, such as "
            f"{name}:limit=1."
        )
