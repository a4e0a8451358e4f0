"""src/generated.rs: clap arguments, resolved sections, and the tables of refused flags."""

import json

from table import ENGINE_SECTIONS, SECTIONS, Flag, Table

HEADINGS = {
    "model": "Model",
    "cache": "KV cache",
    "scheduler": "Scheduler",
    "execution": "Execution",
    "observability": "Observability",
    "frontend": "Frontend",
    "link": "Engine link",
}

HEADER = """//! Generated from `flags.toml` by `generate.py`; do not edit.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::parse;
use crate::secret::Secret;
use crate::{FlagError, RefusedFlag, ScaledEnv};
"""


def _camel(text: str) -> str:
    return "".join(part.capitalize() for part in text.replace("-", "_").split("_"))


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _doc(text: str) -> str:
    return text if text.endswith(".") else text + "."


def _is_signed(flag: Flag) -> bool:
    return flag.type == "int" and flag.min is not None and flag.min < 0


def _scalar(flag: Flag) -> str:
    if flag.type == "choice":
        return _camel(flag.name)
    if _is_signed(flag):
        return "i64"
    return {"string": "String", "secret": "Secret", "int": "u64", "float": "f64", "bool": "bool"}[flag.type]


def _resolved_type(flag: Flag) -> str:
    if flag.list:
        return f"Vec<{_scalar(flag)}>"
    return f"Option<{_scalar(flag)}>" if flag.optional else _scalar(flag)


def _value_parser(flag: Flag) -> str:
    if flag.choices and flag.type == "int":
        return f"|text: &str| parse::int_of(text, &{flag.choices!r})"
    if flag.type == "int":
        kind = "human_int" if flag.human else "signed_int" if _is_signed(flag) else "int"
        if flag.auto:
            return f"|text: &str| parse::auto_or(text, |text| parse::{kind}(text, {flag.min}, {flag.max}))"
        return f"|text: &str| parse::{kind}(text, {flag.min}, {flag.max})"
    if flag.type == "float":
        low = flag.above if flag.above is not None else flag.min
        bound = "Above" if flag.above is not None else "From"
        return f"|text: &str| parse::float(text, parse::Low::{bound}({low!r}), {flag.max!r})"
    if flag.type == "bool":
        return "clap::builder::BoolishValueParser::new()"
    return ""


def _enum(flag: Flag) -> list[str]:
    name = _camel(flag.name)
    lines = [f"/// Values of `--{flag.name}`."]
    lines += ["#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]"]
    lines += [f"pub enum {name} {{"]
    for choice in flag.choices:
        aliases = [other for other, target in flag.aliases.items() if target == choice]
        extra = f", aliases = {json.dumps(aliases)}" if aliases else ""
        if choice == flag.default:
            lines += ["    #[default]"]
        lines += [f"    #[value(name = {_quote(choice)}{extra})]", f"    #[serde(rename = {_quote(choice)})]"]
        lines += [f"    {_camel(choice)},"]
    lines += ["}", "", f"impl {name} {{", "    /// The value as it is written on the command line."]
    lines += ["    pub fn as_str(self) -> &'static str {", "        match self {"]
    lines += [f"            Self::{_camel(choice)} => {_quote(choice)}," for choice in flag.choices]
    lines += ["        }", "    }", "}", ""]
    return lines


def _argument(flag: Flag) -> list[str]:
    heading = f"help_heading = {_quote(HEADINGS[flag.section])}"
    help_text = flag.help + (f" [{flag.unit}]" if flag.unit else "")
    lines = [f"    /// {_doc(flag.help)}"]
    if flag.positional:
        lines += [
            f'    #[arg(value_name = {_quote(flag.name.upper())}, env = "{flag.env_name}", help = {_quote(help_text + f" [default: {flag.default}]")})]'
        ]
        lines += [f"    pub {flag.field_name}: Option<String>,"]
        lines += [
            "    /// The same, as a flag.",
            f'    #[arg(id = "{flag.name}-flag", long = "{flag.name}", value_name = {_quote(flag.name.upper())}, hide = true)]',
        ]
        lines += [f"    pub {flag.field_name}_flag: Option<String>,"]
        return lines
    parts = [f'long = "{flag.name}"', f'env = "{flag.env_name}"', heading]
    if flag.type == "bool":
        state = "on" if flag.default else "off"
        help_text += f" [default: {state}; --{flag.negative_name} turns it off]"
        parts += [
            "hide_possible_values = true",
            "num_args = 0..=1",
            "require_equals = true",
            'default_missing_value = "true"',
            'value_name = "BOOL"',
        ]
        parts += [f'overrides_with = "{flag.field_name}_off"', f"value_parser = {_value_parser(flag)}"]
        lines += [f"    #[arg({', '.join(parts)}, help = {_quote(help_text)})]"]
        lines += [f"    pub {flag.field_name}: Option<bool>,"]
        lines += [f"    /// Turns `--{flag.name}` off."]
        lines += [
            f'    #[arg(long = "{flag.negative_name}", overrides_with = "{flag.field_name}", hide = true)]'
        ]
        lines += [f"    pub {flag.field_name}_off: bool,"]
        return lines
    if parser := _value_parser(flag):
        parts += [f"value_parser = {parser}"]
    if flag.type == "choice":
        parts += ["ignore_case = true", "value_enum"]
    if flag.type == "secret":
        parts += ["hide_env_values = true"]
    if flag.list and flag.many:
        parts += ["num_args = 1.."]
    if not flag.optional and not flag.list:
        parts += [f"default_value = {_quote(str(flag.default))}"]
    if flag.range_text and flag.type != "choice":
        help_text += f" [{flag.range_text}]"
    parts += [f"help = {_quote(help_text)}"]
    if flag.type in ("int", "float"):
        parts += ["allow_negative_numbers = true"]
        parts += [f'value_name = "{(flag.unit or "number").upper()}"']
    lines += [f"    #[arg({', '.join(parts)})]"]
    # A parsed `auto` is an inner None; clap needs the alias so that it does not read Option<Option<_>> as "value optional".
    kind = "Option<parse::Auto>" if flag.auto else _resolved_type(flag)
    lines += [f"    pub {flag.field_name}: {kind},"]
    return lines


def _resolve(flag: Flag) -> str:
    name = flag.field_name
    if flag.internal:
        default = "None" if flag.optional else str(flag.default)
        return f"{name}: {default}"
    if flag.positional:
        return f"{name}: parse::positional({_quote(flag.name)}, self.{name}, self.{name}_flag, {_quote(flag.default)})?"
    if flag.type == "bool":
        return f"{name}: parse::switch(self.{name}, self.{name}_off, {str(flag.default).lower()})"
    if flag.list and flag.type == "string":
        return f"{name}: parse::list({_quote(flag.name)}, self.{name})?"
    if flag.auto:
        return f"{name}: self.{name}.and_then(parse::Auto::value)"
    return f"{name}: self.{name}"


def _default_value(flag: Flag) -> str:
    if flag.list:
        return "Vec::new()"
    if flag.optional:
        return "None"
    if flag.type == "string":
        return f"{_quote(flag.default)}.to_owned()"
    if flag.type == "choice":
        return f"{_camel(flag.name)}::{_camel(flag.default)}"
    if flag.type == "int":
        return f"{flag.default:_}"
    return str(flag.default).lower()


def _section(table: Table, section: str) -> list[str]:
    name = f"{_camel(section)}Config"
    flags = table.section(section)
    lines = [f"/// The section `{section}`, resolved."]
    lines += [
        "#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]",
        "#[serde(deny_unknown_fields, default)]",
    ]
    if sum(flag.type == "bool" for flag in flags) > 3:
        lines += ['#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]']
    lines += [f"pub struct {name} {{"]
    for flag in flags:
        lines += [f"    /// {_doc(flag.help)}" + (f" [{flag.unit}]" if flag.unit else "")]
        lines += [f"    pub {flag.field_name}: {_resolved_type(flag)},"]
    lines += ["}", "", f"impl Default for {name} {{", "    fn default() -> Self {", "        Self {"]
    lines += [f"            {flag.field_name}: {_default_value(flag)}," for flag in flags]
    lines += ["        }", "    }", "}", ""]
    return lines


def _config(table: Table) -> list[str]:
    lines = ["/// Every section, resolved. What the engine is told is `engine_json`.", ""]
    lines[1:] = ["#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]", "pub struct Config {"]
    for section in SECTIONS:
        lines += [f"    /// The section `{section}`.", f"    pub {section}: {_camel(section)}Config,"]
    lines += ["}", "", "/// The sections the engine receives.", "pub const ENGINE_SECTIONS: &[&str] = &["]
    lines += [f"    {_quote(section)}," for section in ENGINE_SECTIONS]
    lines += ["];", ""]
    lines += ["impl ServeArgs {", "    /// Defaults, environment and flags become one value per field."]
    lines += ["    pub fn resolve(self) -> Result<Config, FlagError> {", "        Ok(Config {"]
    for section in SECTIONS:
        lines += [f"            {section}: {_camel(section)}Config {{"]
        lines += [f"                {_resolve(flag)}," for flag in table.section(section)]
        lines += ["            },"]
    lines += ["        })", "    }", "}", ""]
    return lines


def emit(table: Table) -> str:
    """The whole file, before rustfmt."""
    lines = [HEADER]
    for flag in table.flags:
        if flag.type == "choice":
            lines += _enum(flag)
    lines += ["/// Flags of `vllm-rs serve`.", "#[derive(Args, Clone, Debug, Default)]"]
    lines += [
        '#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]',
        "pub struct ServeArgs {",
    ]
    for flag in table.flags:
        if not flag.internal:
            lines += _argument(flag)
    lines += ["}", ""]
    for section in SECTIONS:
        lines += _section(table, section)
    lines += _config(table)
    lines += ["/// Every flag of the table, with its section.", "pub const FLAGS: &[(&str, &str)] = &["]
    lines += [
        f"    ({_quote(flag.name)}, {_quote(flag.section)})," for flag in table.flags if not flag.internal
    ]
    lines += [
        "];",
        "",
        "/// Spellings of vLLM that stand for a long flag.",
        "pub const SHORT: &[(&str, &str)] = &[",
    ]
    lines += [f"    ({_quote(short)}, {_quote(name)})," for short, name in table.short.items()]
    lines += ["];", "", "/// Environment variables that set a flag in another unit."]
    lines += ["pub const SCALED_ENV: &[ScaledEnv] = &["]
    for flag in table.flags:
        if flag.env_scaled:
            scaled = flag.env_scaled
            lines += [
                f"    ScaledEnv {{ name: {_quote(scaled.name)}, flag: {_quote(flag.name)}, own_env: {_quote(flag.env_name)}, factor: {scaled.factor:_}, unit: {_quote(scaled.unit)} }},"
            ]
    lines += [
        "];",
        "",
        "/// vLLM flags that we know and do not have.",
        "pub const REFUSED: &[RefusedFlag] = &[",
    ]
    for refused in table.refused:
        accepts = ", ".join(_quote(value) for value in refused.accepts)
        lines += [
            f"    RefusedFlag {{ name: {_quote(refused.name)}, accepts: &[{accepts}], switch: {str(refused.switch).lower()}, instead: {_quote(refused.instead)} }},"
        ]
    lines += ["];", ""]
    return "\n".join(lines)
