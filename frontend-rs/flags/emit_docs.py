"""docs/flags.md: the reference page of every flag, its environment twin and who reads it."""

from table import SECTIONS, Flag, Table

TITLES = {
    "model": "Model",
    "cache": "KV cache",
    "scheduler": "Scheduler",
    "execution": "Execution",
    "observability": "Observability",
    "frontend": "Frontend",
    "link": "Engine link",
}
ORDER = ("model", "frontend", "scheduler", "cache", "execution", "observability", "link")

INTRO = """# Flags of `vllm-rs serve`

Generated from `frontend-rs/flags/flags.toml`; do not edit. A flag wins over its environment twin, the twin over the
default. Underscores may stand for dashes, and `--flag=value` for `--flag value`. The fields of every section but
*Frontend* and *Engine link* are also keywords of `vllm_rs.LLM`, in snake case.
"""


def _spelling(flag: Flag) -> str:
    name = f"`--{flag.name}`"
    if flag.positional:
        name = f"`{flag.name.upper()}` (positional), {name}"
    return f"{name}, `--{flag.negative_name}`" if flag.type == "bool" else name


def _default(flag: Flag) -> str:
    if flag.list or flag.default is None:
        return "–"
    if flag.type == "bool":
        return "on" if flag.default else "off"
    return f"`{flag.default}`" + (f" {flag.unit}" if flag.unit else "")


def _allowed(flag: Flag) -> str:
    text = flag.range_text or {"string": "text", "secret": "text", "bool": "on, off"}.get(flag.type, "")
    if flag.list:
        text += "; repeatable"
    if flag.human:
        text += "; 4k = 4,000, 4K = 4,096"
    if flag.auto:
        text += "; `auto`"
    if flag.aliases:
        text += "; also " + ", ".join(f"`{other}`" for other in flag.aliases)
    return text


def _env(flag: Flag) -> str:
    text = f"`{flag.env_name}`"
    return text + (f", `{flag.env_scaled.name}` ({flag.env_scaled.unit})" if flag.env_scaled else "")


def emit(table: Table) -> str:
    """The whole page."""
    assert set(ORDER) == set(SECTIONS)
    lines = [INTRO]
    for section in ORDER:
        lines += [f"## {TITLES[section]}", ""]
        lines += [
            "| flag | default | allowed | environment | read by | what it does |",
            "|---|---|---|---|---|---|",
        ]
        for flag in table.section(section):
            if flag.internal:
                continue
            cells = (
                _spelling(flag),
                _default(flag),
                _allowed(flag),
                _env(flag),
                ", ".join(flag.readers),
                flag.help,
            )
            lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"]
        lines += [""]
    lines += [
        "## Environment variables without a flag",
        "",
        "| variable | read by | what it does |",
        "|---|---|---|",
    ]
    lines += [f"| `{row.name}` | {', '.join(row.readers)} | {row.help} |" for row in table.env]
    lines += ["", "## vLLM flags that are refused by name", ""]
    lines += ["A value in the middle column asks for what happens anyway, so it is taken and ignored.", ""]
    lines += ["| flag | accepted | what to use instead |", "|---|---|---|"]
    for refused in table.refused:
        accepted = ", ".join(f"`{value}`" for value in refused.accepts) or "–"
        lines += [f"| `--{refused.name}` | {accepted} | {refused.instead} |"]
    lines += [
        "",
        "Short forms: " + ", ".join(f"`{short}` = `--{name}`" for short, name in table.short.items()) + ".",
    ]
    return "\n".join(lines) + "\n"
