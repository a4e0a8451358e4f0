"""engine/vllm_rs/config_sections.py: the frozen sections that `vllm_rs.config` decodes."""

import textwrap
from typing import Any

from table import ENGINE_SECTIONS, Flag, Table

HEADER = '''"""Configuration sections: generated from frontend-rs/flags/flags.toml by generate.py; do not edit.

`vllm_rs.config.EngineConfig` holds one of each and decodes them strictly.
"""

from typing import Annotated, Literal, NamedTuple

import msgspec


class RefusedKeyword(NamedTuple):
    """A keyword of vLLM that we know and lack."""

    instead: str
    accepts: tuple[str, ...]
    """Values that ask for what happens anyway."""
'''


def _type(flag: Flag) -> str:
    if flag.type == "choice" or flag.choices:
        base = f"Literal[{', '.join(repr(choice) for choice in flag.choices)}]"
    elif flag.type in ("int", "float"):
        bounds = []
        if flag.above is not None:
            bounds.append(f"gt={flag.above!r}")
        elif flag.min is not None:
            bounds.append(f"ge={flag.min!r}")
        bounds.append(f"le={flag.max!r}")
        base = f"Annotated[{flag.type}, msgspec.Meta({', '.join(bounds)})]"
    else:
        base = {"string": "str", "secret": "str", "bool": "bool"}[flag.type]
    if flag.list:
        return f"list[{base}]"
    return f"{base} | None" if flag.optional else base


def _default(flag: Flag) -> Any:
    return [] if flag.list else flag.default


def class_name(section: str) -> str:
    """ModelConfig for model, and so on."""
    return f"{section.capitalize()}Config"


def _doc(flag: Flag) -> str:
    text = flag.help.rstrip(".") + (f" [{flag.unit}]" if flag.unit else "") + "."
    lines = textwrap.wrap(f'"""{text}"""', width=110, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)


def emit(table: Table) -> str:
    """The whole module."""
    lines = [HEADER.rstrip("\n")]
    for section in ENGINE_SECTIONS:
        lines += ["", ""]
        lines += [
            f"class {class_name(section)}(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):"
        ]
        lines += [f'    """The section `{section}`."""', ""]
        for flag in table.section(section):
            lines += [f"    {flag.field_name}: {_type(flag)} = {_default(flag)!r}", _doc(flag)]
    lines += ["", ""]
    lines += ["SECTION_OF_FIELD: dict[str, str] = {"]
    for section in ENGINE_SECTIONS:
        lines += [f'    "{flag.field_name}": "{section}",' for flag in table.section(section)]
    lines += ["}", '"""Which section holds a field; field names are unique over sections."""', ""]
    lines += ["ALLOWED_VALUES: dict[str, str] = {"]
    lines += [
        f'    "{flag.field_name}": {flag.range_text!r},'
        for flag in table.flags
        if flag.range_text and flag.section in ENGINE_SECTIONS
    ]
    lines += ["}", '"""What a field may be, in words."""', ""]
    lines += ["SPELLINGS: dict[str, dict[str, str]] = {"]
    lines += [f'    "{flag.field_name}": {flag.aliases!r},' for flag in table.flags if flag.aliases]
    lines += ["}", '"""Other spellings of a choice."""', ""]
    lines += ["INTERNAL_FIELDS: frozenset[str] = frozenset("]
    lines += [f"    {sorted(flag.field_name for flag in table.flags if flag.internal)!r}", ")"]
    lines += ['"""Filled in by `serve`, never by a user."""', ""]
    lines += ["REFUSED_KEYWORDS: dict[str, RefusedKeyword] = {"]
    for refused in table.refused:
        name = refused.name.replace("-", "_")
        lines += [f'    "{name}": RefusedKeyword({refused.instead!r}, {tuple(refused.accepts)!r}),']
    lines += ["}", '"""Keywords of vLLM that we know and lack."""', ""]
    return "\n".join(lines)
