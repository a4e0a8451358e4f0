"""Starting our binary and vLLM's as one pair of frontend and engine."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

START_LIMIT_S = 420.0
MODEL_LEN_TOKENS = 4096
NAME = "smollm2"

# The CPU wheel is published under another name than the one that parts of vLLM look up.
_SITE_CUSTOMIZE = """
import importlib.metadata as metadata
_version = metadata.version
metadata.version = lambda name: "0.32.0+cpu" if name == "vllm" else _version(name)
"""


def free_port() -> int:
    """A TCP port nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], limit_s: float, what: str) -> None:
    """Poll a condition that other processes bring about."""
    deadline = time.monotonic() + limit_s
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit_s} s: {what}")
        pause.wait(0.5)


@dataclass(frozen=True)
class Peers:
    """Where vLLM and the model are."""

    folder: Path
    scratch: Path

    @property
    def model(self) -> Path:
        """The model folder that both sides load."""
        return self.folder / "hf"

    def vllm(self, *arguments: str) -> tuple[list[str], dict[str, str]]:
        """Command and environment of `vllm serve`."""
        shim = self.scratch / "shim"
        shim.mkdir(exist_ok=True)
        (shim / "sitecustomize.py").write_text(_SITE_CUSTOMIZE)
        environment = dict(os.environ)
        environment.pop("VLLM_RS_PEERS", None)
        environment |= {
            "PYTHONPATH": str(shim),
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
        }
        openmp = self.folder / "vllm-venv" / "lib" / "libiomp5.so"
        if openmp.exists():
            environment["LD_PRELOAD"] = str(openmp)
        python = self.folder / "vllm-venv" / "bin" / "python"
        command = [str(python), "-m", "vllm.entrypoints.cli.main", "serve", *self._flags(*arguments)]
        return command, environment

    def ours(self, binary: Path, *arguments: str) -> tuple[list[str], dict[str, str]]:
        """Command and environment of `vllm-rs serve`."""
        environment = {"VLLM_RS_PYTHON": sys.executable} | os.environ
        return [str(binary), "serve", *self._flags(*arguments)], environment

    def _flags(self, *arguments: str) -> list[str]:
        return [
            str(self.model),
            "--served-model-name",
            NAME,
            "--max-model-len",
            str(MODEL_LEN_TOKENS),
            # The answer asked for is a near tie, which bfloat16 decides either way.
            "--dtype",
            "float32",
            *arguments,
        ]


@contextlib.contextmanager
def running(command: list[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own; the group is killed on the way out."""
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_ready(url: str, processes: dict[Path, subprocess.Popen[bytes]]) -> None:
    """Until /health answers 200; a process that ends meanwhile fails the test with its log."""

    def healthy() -> bool:
        for log, process in processes.items():
            if process.poll() is not None:
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
                raise AssertionError(f"{process.args!r} ended with {process.returncode}:\n{tail}")
        try:
            return httpx.get(url + "/health", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    wait_until(healthy, START_LIMIT_S, f"{url}/health")
