"""Reading typed fields of a config.json: every bad value is named, none stops the reading of the next."""

import math
from collections.abc import Mapping
from typing import Any

_LARGEST_INT = 1 << 31


class FieldReader:
    """Takes fields of one JSON object; what is wrong goes to `problems` and a harmless value is returned."""

    def __init__(self, values: Mapping[str, Any], problems: list[str], prefix: str = "") -> None:
        self._values = values
        self._problems = problems
        self._prefix = prefix

    def _complain(self, name: str, limit: str, value: object) -> None:
        given = "it is missing" if value is None else f"got {value!r}"
        self._problems.append(f"{self._prefix}{name} must be {limit}, {given}")

    def integer(
        self, name: str, default: int | None = None, at_least: int = 1, at_most: int = _LARGEST_INT
    ) -> int:
        """A whole number in [at_least, at_most]; required when `default` is None."""
        value = self._values.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not at_least <= value <= at_most:
            self._complain(name, f"a whole number from {at_least} to {at_most}", value)
            return default if default is not None else at_least
        return value

    def number(self, name: str, default: float | None, above: float) -> float:
        """A finite number greater than `above`; required when `default` is None."""
        value = self._values.get(name)
        if value is None and default is not None:
            return default
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
            or value <= above
        ):
            self._complain(name, f"a finite number above {above}", value)
            return default if default is not None else above + 1.0
        return float(value)

    def optional_number(self, name: str, above: float) -> float | None:
        """A finite number greater than `above`, or nothing."""
        return None if self._values.get(name) is None else self.number(name, None, above)

    def flag(self, name: str, default: bool) -> bool:
        """true or false."""
        value = self._values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self._complain(name, "true or false", value)
            return default
        return value

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        """One of the allowed words."""
        value = self._values.get(name)
        if value is None:
            return default
        if value not in allowed:
            self._complain(name, f"one of {', '.join(allowed)}", value)
            return default
        return str(value)

    def numbers(self, name: str, length: int) -> tuple[float, ...]:
        """A list of `length` finite positive numbers."""
        value = self._values.get(name)
        good = isinstance(value, list) and len(value) == length
        if not good or not all(
            isinstance(v, int | float) and math.isfinite(v) and v > 0 for v in value or ()
        ):
            self._complain(name, f"a list of {length} positive numbers", value)
            return (1.0,) * length
        return tuple(float(v) for v in value or ())
