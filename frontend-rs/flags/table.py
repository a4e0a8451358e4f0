"""Read and check flags.toml: the one table every generated file comes from."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ENGINE_SECTIONS = ("model", "cache", "scheduler", "execution", "observability", "link")
SECTIONS = (*ENGINE_SECTIONS, "frontend")
TYPES = ("string", "secret", "int", "float", "bool", "choice")


class TableError(Exception):
    """The table contradicts itself; the message names the entry."""


@dataclass(frozen=True)
class EnvScaled:
    """An environment variable that sets a flag in another unit."""

    name: str
    factor: int
    unit: str


@dataclass(frozen=True)
class Flag:
    """One row of the table."""

    name: str
    section: str
    type: str
    help: str
    readers: list[str]
    default: Any = None
    min: float | None = None
    max: float | None = None
    above: float | None = None
    choices: list[Any] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    list: bool = False
    many: bool = False
    human: bool = False
    auto: bool = False
    positional: bool = False
    internal: bool = False
    env: str = ""
    env_scaled: EnvScaled | None = None
    negative: str = ""
    unit: str = ""

    @property
    def field_name(self) -> str:
        """Snake case, as in code and JSON."""
        return self.name.replace("-", "_")

    @property
    def env_name(self) -> str:
        """The environment twin."""
        return self.env or f"VLLM_RS_{self.field_name.upper()}"

    @property
    def negative_name(self) -> str:
        """The spelling that turns a bool off."""
        return self.negative or f"no-{self.name}"

    @property
    def optional(self) -> bool:
        """Absent unless given."""
        return self.default is None and not self.list

    @property
    def range_text(self) -> str:
        """What values are allowed, in words; empty when anything is."""
        if self.choices:
            return "one of " + ", ".join(str(choice) for choice in self.choices)
        if self.above is not None:
            return f"above {self.above:g}, at most {self.max:g}"
        if self.type == "int" and self.min is not None:
            return f"{self.min} to {self.max}"
        if self.min is not None:
            return f"{self.min:g} to {self.max:g}"
        return ""


@dataclass(frozen=True)
class Refused:
    """A vLLM flag that we know and do not have."""

    name: str
    instead: str
    accepts: list[str] = field(default_factory=list)
    switch: bool = False


@dataclass(frozen=True)
class EnvVariable:
    """An environment variable without a flag."""

    name: str
    help: str
    readers: list[str]


@dataclass(frozen=True)
class Table:
    """The whole table."""

    flags: list[Flag]
    short: dict[str, str]
    refused: list[Refused]
    env: list[EnvVariable]

    def section(self, name: str) -> list[Flag]:
        """The flags of one section, in table order."""
        return [flag for flag in self.flags if flag.section == name]


def load(path: Path) -> Table:
    """Read and check the table."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    flags = []
    for row in data["flag"]:
        scaled = row.pop("env_scaled", None)
        flags.append(Flag(**row, env_scaled=EnvScaled(**scaled) if scaled else None))
    table = Table(
        flags=flags,
        short=data["short"],
        refused=[Refused(**row) for row in data["refused"]],
        env=[EnvVariable(**row) for row in data["env"]],
    )
    _check(table)
    return table


def _check(table: Table) -> None:
    names = [flag.name for flag in table.flags] + [refused.name for refused in table.refused]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise TableError(f"declared twice: {sorted(repeated)}")
    for flag in table.flags:
        if flag.section not in SECTIONS or flag.type not in TYPES or not flag.readers:
            raise TableError(f"{flag.name}: unknown section or type, or no readers")
        if flag.type == "choice" and flag.default not in flag.choices:
            raise TableError(f"{flag.name}: default {flag.default!r} is not a choice")
        if flag.type in ("int", "float") and not flag.choices and flag.max is None:
            raise TableError(f"{flag.name}: a number needs bounds")
        if flag.type == "bool" and flag.default is None:
            raise TableError(f"{flag.name}: a bool needs a default")
    for short, name in table.short.items():
        if name not in names:
            raise TableError(f"short form {short} points to the unknown flag {name}")
