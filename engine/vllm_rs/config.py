"""The engine's resolved configuration: strict decoding, and errors that name the flag.

The sections are generated from the one flags table, frontend-rs/flags/flags.toml.
"""

import difflib
import re
from typing import Any, Self

import msgspec

from vllm_rs.config_sections import (
    ALLOWED_VALUES,
    INTERNAL_FIELDS,
    REFUSED_KEYWORDS,
    SECTION_OF_FIELD,
    SPELLINGS,
    CacheConfig,
    ExecutionConfig,
    LinkConfig,
    ModelConfig,
    ObservabilityConfig,
    SchedulerConfig,
)
from vllm_rs.errors import VllmRsError

__all__ = [
    "CacheConfig",
    "ConfigError",
    "EngineConfig",
    "ExecutionConfig",
    "LinkConfig",
    "ModelConfig",
    "ObservabilityConfig",
    "SchedulerConfig",
]


class ConfigError(VllmRsError, ValueError):
    """A setting that cannot be used. The message names the flag, what is allowed and what was given."""

    kind = "ConfigError"


class EngineConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything the engine is told."""

    model: ModelConfig = ModelConfig()
    cache: CacheConfig = CacheConfig()
    scheduler: SchedulerConfig = SchedulerConfig()
    execution: ExecutionConfig = ExecutionConfig()
    observability: ObservabilityConfig = ObservabilityConfig()
    link: LinkConfig = LinkConfig()

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """Decode the one line of JSON that `serve` writes to the engine's standard input."""
        try:
            data = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise ConfigError(f"configuration is not JSON: {error}") from None
        return cls._convert(data)

    @classmethod
    def from_keywords(cls, **keywords: Any) -> Self:
        """Sort the keywords of `LLM()` into sections. None means "not given"."""
        sections: dict[str, dict[str, Any]] = {}
        for name, value in keywords.items():
            section = SECTION_OF_FIELD.get(name)
            if section is None or name in INTERNAL_FIELDS:
                _refuse_keyword(name, value)
            elif value is not None:
                sections.setdefault(section, {})[name] = _canonical(name, value)
        return cls._convert(sections)

    @classmethod
    def _convert(cls, data: Any) -> Self:
        try:
            resolved = msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            raise ConfigError(_explain(str(error), data)) from None
        _check_together(resolved)
        return resolved

    def with_model_path(self, path: str) -> Self:
        """The same configuration with the model resolved to a local file or folder."""
        return msgspec.structs.replace(self, model=msgspec.structs.replace(self.model, model_path=path))

    def to_json(self) -> bytes:
        """One line of JSON that `from_json` reads back."""
        return msgspec.json.encode(self)


def _check_together(config: EngineConfig) -> None:
    """Rules that one field's own bounds cannot say."""
    if config.model.trust_remote_code:
        raise ConfigError(
            "--trust-remote-code is refused: code from a model repository is never run. "
            "The supported architectures work without it; leave the flag out"
        )
    if config.model.dtype == "float16" and config.execution.device == "cpu":
        raise ConfigError("--dtype float16 is not supported on CPU; use bfloat16 or float32")
    tokens, requests = config.scheduler.max_num_batched_tokens, config.scheduler.max_num_seqs
    if tokens < requests:
        raise ConfigError(
            f"--max-num-batched-tokens {tokens} is below --max-num-seqs {requests}: every running request "
            "needs one token per step; raise the first or lower the second"
        )
    if config.scheduler.decode_latency_target_ms is not None and not config.scheduler.enable_chunked_prefill:
        raise ConfigError(
            "--decode-latency-target-ms cuts prompts into chunks: "
            "it cannot go with --no-enable-chunked-prefill"
        )


def _canonical(name: str, value: Any) -> Any:
    if name == "served_model_name" and isinstance(value, str):
        return [value]
    if name in SPELLINGS and isinstance(value, str):
        return SPELLINGS[name].get(value, value)
    return value


def _refuse_keyword(name: str, value: Any) -> None:
    """Raise, unless the value asks for what happens anyway."""
    refused = REFUSED_KEYWORDS.get(name)
    if refused is not None:
        if value is None or value is False or str(value) in refused.accepts:
            return
        raise ConfigError(
            f"{name}={value!r} is known from vLLM and not supported; instead: {refused.instead}"
        )
    near = difflib.get_close_matches(name, SECTION_OF_FIELD.keys() - INTERNAL_FIELDS, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ConfigError(f"unknown keyword {name}{hint}")


def _explain(message: str, data: Any) -> str:
    """Turn msgspec's path into the flag's name, with what is allowed and what was given."""
    what, _, path = message.partition(" - at `$")
    section, _, field = path.rstrip("`").lstrip(".").partition(".")
    unknown = re.search(r"unknown field `([^`]*)`", what)
    if unknown:
        return f"configuration has the unknown field {section + '.' if section else ''}{unknown.group(1)}"
    field = re.split(r"[.\[]", field)[0]
    if not field:
        return f"configuration{' section ' + section if section else ''}: {what}"
    allowed = ALLOWED_VALUES.get(field) or what.removeprefix("Expected ").replace("`", "")
    return f"--{field.replace('_', '-')}: expected {allowed}, got {data[section][field]!r}"
