"""The Rust half of the package: model files, text, and model names.

Everything here releases the interpreter during long work and may be used from any thread.
"""

from typing import Any, Literal, final

from typing_extensions import Buffer

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

def build_info() -> dict[str, str]:
    """What was built: version, build_id, profile."""
