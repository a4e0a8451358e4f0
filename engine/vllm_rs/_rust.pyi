"""The Rust half of the package: model files, text, and model names.

Everything here releases the interpreter during long work and may be used from any thread.
"""

from collections.abc import Callable
from typing import Any, Literal, final

from typing_extensions import Buffer

__all__ = [
    "ChatTemplateError",
    "ModelFileError",
    "ModelFiles",
    "ModelResolveError",
    "OutputProcessor",
    "TensorView",
    "Tokenizer",
    "TokenizerError",
    "build_info",
    "resolve_model",
]

class ModelFileError(ValueError):
    """A model file is missing, malformed or unusable; the message names the file and the fault."""

class TokenizerError(ValueError):
    """A tokenizer cannot be built or used."""

class ChatTemplateError(ValueError):
    """A conversation cannot become a prompt; the message names the field or the template line."""

class ModelResolveError(RuntimeError):
    """A model name leads to no local files: unknown name, no network, no space, ..."""

@final
class ModelFiles:
    """A model on disk: its configuration and its tensors, mapped and read on demand."""

    @staticmethod
    def open(path: str) -> ModelFiles:
        """Open a folder with config.json and safetensors files, or a .gguf file (or a folder with one).

        Raises ModelFileError.
        """

    @property
    def path(self) -> str:
        """The folder or the GGUF file."""

    @property
    def format(self) -> Literal["gguf", "safetensors"]:
        """How the weights are stored."""

    @property
    def config(self) -> dict[str, Any]:
        """Content of config.json, as a new dict; GGUF metadata is mapped to the same names."""

    @property
    def generation_config(self) -> dict[str, Any]:
        """Content of generation_config.json, as a new dict; empty where there is none."""

    @property
    def total_bytes(self) -> int:
        """Bytes of all tensors as stored."""

    def tensor_names(self) -> list[str]:
        """Hugging Face names of all tensors; names that have none stay as the file has them."""

    def tensor(self, name: str) -> TensorView:
        """Look up a tensor; its bytes are not copied. Raises ModelFileError naming the nearest name."""

    def read_f32(self, name: str, out: Buffer) -> None:
        """Convert a tensor of any type to float32 in the model's row order, on all cores.

        `out` is a writable, C-contiguous float32 buffer with one value per element. The row order that
        llama.cpp gives query and key projections is undone.
        """

    def read_bf16(self, name: str, out: Buffer) -> None:
        """As read_f32, to bfloat16 bits rounded to nearest even; `out` is a uint16 buffer."""

@final
class TensorView:
    """A tensor as it lies in its file. As a buffer: its read-only bytes, at any alignment."""

    @property
    def name(self) -> str:
        """The name it was asked for by."""

    @property
    def dtype(self) -> str:
        """Element type: "F32", "F16", "BF16", "Q4_1", "Q8_0", ..."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Row-major shape in elements; [out_features, in_features] for a linear layer."""

    @property
    def nbytes(self) -> int:
        """Length of the bytes."""

    @property
    def interleaved_heads(self) -> int | None:
        """For query and key projections of a llama GGUF: heads whose rows the bytes interleave.

        Row 2 i + j of a head in the bytes is row j * (head_dim / 2) + i of the model; read_f32 and
        read_bf16 undo this, users of the raw bytes must. None everywhere else.
        """

    def __buffer__(self, flags: int, /) -> memoryview:
        """The bytes, read-only; valid as long as a view exists."""

@final
class Tokenizer:
    """A model's tokenizer and chat template."""

    @staticmethod
    def open(path: str) -> Tokenizer:
        """Open the tokenizer of the model at `path`, a path as for ModelFiles. Raises TokenizerError."""

    @property
    def vocab_size(self) -> int:
        """One past the largest token id; a model's output layer may be wider."""

    @property
    def bos_token_id(self) -> int | None:
        """The begin-of-sequence token."""

    @property
    def eos_token_ids(self) -> list[int]:
        """The tokens that end an answer, as far as the tokenizer knows."""

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Turn text into token ids; special tokens written out in the text are recognised."""

    def encode_batch(self, texts: list[str], add_special_tokens: bool = True) -> list[list[int]]:
        """Encode several texts, in parallel where that pays."""

    def decode(self, token_ids: list[int], skip_special_tokens: bool = True) -> str:
        """Turn token ids into text; ids outside the vocabulary write nothing."""

    def token_text(self, token_id: int) -> str:
        """Show one token by itself; a piece of a character shows as U+FFFD."""

    def id_to_token(self, token_id: int) -> str | None:
        """Look up the vocabulary's own spelling of a token, such as "Ġhello"."""

    def token_to_id(self, token: str) -> int | None:
        """Look up a token in the vocabulary's own spelling."""

    def apply_chat_template(
        self,
        messages_json: str,
        *,
        tools_json: str | None = None,
        chat_template: str | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        kwargs_json: str | None = None,
    ) -> str:
        """Render a conversation to the text of a prompt; encode it with add_special_tokens=False.

        `messages_json` is the JSON list of the chat API, `tools_json` a JSON list of tools,
        `kwargs_json` a JSON object of further template variables; `chat_template` is a template's text
        or path, the model's own where None. Raises ChatTemplateError.
        """

@final
class OutputProcessor:
    """One answer's way from token ids to text: detokenisation, then stop strings."""

    def __new__(
        cls,
        tokenizer: Tokenizer,
        prompt_token_ids: list[int],
        stop: list[str],
        include_stop_str_in_output: bool = False,
        skip_special_tokens: bool = True,
        spaces_between_special_tokens: bool = True,
        min_tokens: int = 0,
    ) -> OutputProcessor: ...
    def push(self, token_ids: list[int]) -> tuple[str, str | None]:
        """Take the next tokens; return the new text that is safe to show and the stop string met, if any."""

    def finish(self) -> str:
        """End the answer; return what was held back."""

    @property
    def text(self) -> str:
        """The whole text given out so far."""

def resolve_model(
    name: str,
    download_dir: str | None = None,
    revision: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> str:
    """Find or fetch the model `name`: a local path, the built-in name "smollm2", or a hub id "org/name".

    `progress(done_bytes, total_bytes)` is called while bytes arrive; where it raises, the download stops.
    Returns the path for ModelFiles and Tokenizer. Raises ModelResolveError.
    """

def build_info() -> dict[str, str]:
    """What was built: version, build_id, profile."""
