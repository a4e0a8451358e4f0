"""Typed errors of the engine. Each names the field or flag at fault, the limit and the value given.

`kind` and `hint` are what the parent process shows (`{"event":"error","kind":…,"message":…,"hint":…}`), so
they are stable words, not class internals.
"""


class VllmRsError(Exception):
    """Base of all errors raised on purpose by this package."""

    kind = "EngineError"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class WireError(VllmRsError):
    """Bytes on a socket that do not follow the EngineCore protocol."""

    kind = "WireError"


class RequestError(VllmRsError):
    """A request that is well formed but cannot be served: names the field, what is allowed, and what was
    given.
    """

    kind = "RequestError"

    def __init__(self, field: str, limit: str, value: object) -> None:
        given = repr(value)
        super().__init__(
            f"{field} must be {limit}, got {given if len(given) <= 200 else given[:200] + '...'}"
        )
        self.field = field
        self.limit = limit
        self.value = value


class MemoryBudgetError(VllmRsError):
    """The KV cache asked for does not fit. `flag` and `fitting_value` say what would."""

    kind = "MemoryError"

    def __init__(self, message: str, *, flag: str, fitting_value: int) -> None:
        super().__init__(message, hint=f"set {flag} to {fitting_value}")
        self.flag = flag
        self.fitting_value = fitting_value


class ModelError(VllmRsError):
    """A model that cannot be loaded or is not supported."""

    kind = "ModelError"


class UtilityError(VllmRsError):
    """A utility call that failed, with the reason the caller sees."""

    kind = "UtilityError"


class InvariantError(VllmRsError):
    """Book-keeping that contradicts itself: a bug of ours, fatal for the engine."""

    kind = "InvariantError"


class EngineDeadError(VllmRsError):
    """The engine failed before, with the error that is this one's cause, and runs no further step."""

    kind = "EngineDeadError"
