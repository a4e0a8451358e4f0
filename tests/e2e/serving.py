"""A real `vllm-rs serve` process for a test: start it, wait until ready, read its processes and metrics."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

START_LIMIT_S = 120.0


def free_port() -> int:
    """A TCP port nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], limit_s: float, what: str) -> None:
    """Poll a condition that another process brings about; fails naming it when the limit passes."""
    deadline = time.monotonic() + limit_s
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit_s} s: {what}")
        pause.wait(0.02)


def children(pid: int) -> list[int]:
    """Direct children of a process."""
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        direct = [int(child) for child in text.split()]
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                direct += [int(child) for child in (task / "children").read_text().split()]
        return sorted(set(direct))
    return []


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Server:
    """One server process. Use as a context manager; leaving it kills what is left."""

    def __init__(self, binary: Path, *flags: str, log: Path, model: str = "smollm2") -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log
        self._binary = binary
        self._command = [str(binary), "serve", model, "--port", str(self.port), *flags]

    def __enter__(self) -> "Server":
        with self.log.open("wb") as sink:
            self.process = subprocess.Popen(
                self._command, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL, start_new_session=True
            )
        wait_until(self.is_ready_or_dead, START_LIMIT_S, "server ready")
        assert self.process.poll() is None, f"the server ended at start:\n{self.log.read_text()}"
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()

    def is_ready_or_dead(self) -> bool:
        """Whether waiting for readiness is over."""
        return self.process.poll() is not None or self.status("/ready") == 200

    def status(self, path: str) -> int:
        """HTTP status of a GET, 0 when nobody answers."""
        try:
            return httpx.get(self.url + path, timeout=5).status_code
        except httpx.TransportError:
            return 0

    def engine_pid(self) -> int:
        """Process id of the engine that the server owns now."""
        found = [pid for pid in children(self.process.pid) if alive(pid)]
        assert len(found) == 1, f"expected one engine process, found {found}"
        return found[0]

    def metrics(self) -> dict[str, float]:
        """Every sample of /metrics, keyed by name and labels as printed."""
        samples = {}
        for line in httpx.get(self.url + "/metrics", timeout=5).text.splitlines():
            match = re.match(r"^([a-zA-Z_:][^\s]*(?:\{.*\})?) (\S+)$", line)
            if match and not line.startswith("#"):
                samples[match[1]] = float(match[2])
        return samples

    def metric(self, name: str) -> float:
        """Sum of all samples of one metric over its labels."""
        values = [value for key, value in self.metrics().items() if key == name or key.startswith(name + "{")]
        assert values, f"no sample of {name}"
        return sum(values)


def sse_events(response: httpx.Response) -> Iterator[str]:
    """The data of each server-sent event."""
    for line in response.iter_lines():
        if line.startswith("data: "):
            yield line.removeprefix("data: ")
