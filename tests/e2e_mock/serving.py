"""Starting and watching a `vllm-rs serve` process whose engine is the mock."""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

START_LIMIT_S = 30.0

# Stands in for the engine's Python: waits for the gate, then becomes the mock engine.
ENGINE_SCRIPT = """#!{python}
import json, os, sys, time
config = json.loads(os.read(0, 1 << 20))
gate = os.environ.get("MOCK_GATE")
while gate and not os.path.exists(gate):
    time.sleep(0.01)
print(json.dumps({{"event": "stage", "stage": "load_model", "elapsed_s": 0.0}}), flush=True)
os.execv({binary!r}, [{binary!r}, "mock-engine", "--until-stdin-ends",
    "--handshake-address", config["link"]["handshake_address"], *os.environ["MOCK_FLAGS"].split()])
"""


def write_engine_script(folder: Path, binary: Path) -> Path:
    """A program to set as `VLLM_RS_PYTHON`, so that the server owns a mock engine as a child process."""
    script = folder / "engine"
    script.write_text(ENGINE_SCRIPT.format(python=sys.executable, binary=str(binary)))
    script.chmod(0o755)
    return script


class MockServer:
    """One server process on a port that it picks itself. Leaving the context kills what is left."""

    def __init__(
        self,
        binary: Path,
        model: Path,
        *flags: str,
        log: Path,
        engine_script: Path | None = None,
        gate: str = "",
    ) -> None:
        mock = [flag for flag in flags if flag.startswith("--mock-")]
        own = [flag for flag in flags if not flag.startswith("--mock-")]
        own += ["--mock", *mock] if engine_script is None else []
        self.command = [str(binary), "serve", str(model), "--served-model-name", "tiny", "--port", "0", *own]
        self.log = log
        self.environment = dict(os.environ)
        if engine_script:
            bare = " ".join(flag.replace("--mock-", "--", 1) for flag in mock)
            self.environment |= {"VLLM_RS_PYTHON": str(engine_script), "MOCK_FLAGS": bare, "MOCK_GATE": gate}

    def start(self) -> Self:
        """Start the process and wait until it listens; it may not be ready yet."""
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=self.log.open("wb"), env=self.environment
        )
        self.url = self._wait_for_line(r"listening.*\burl[=\":]+([^\s\"]+)")
        return self

    def _wait_for_line(self, pattern: str) -> str:
        found = None

        def seen() -> bool:
            nonlocal found
            plain = re.sub(r"\x1b\[[0-9;]*m", "", self.log.read_text())
            found = re.search(pattern, plain)
            return found is not None or self.process.poll() is not None

        wait_until(seen, START_LIMIT_S, pattern)
        assert found, f"the server ended at start:\n{self.log.read_text()}"
        return str(found[1])

    def wait_ready(self) -> Self:
        """Wait until /ready answers 200."""
        wait_until(lambda: self.status("/ready") == 200, START_LIMIT_S, "ready")
        return self

    def __enter__(self) -> Self:
        return self.start().wait_ready()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def status(self, path: str) -> int:
        """HTTP status of a GET, 0 when nobody answers."""
        try:
            return httpx.get(self.url + path, timeout=5).status_code
        except httpx.TransportError:
            return 0

    def metric(self, name: str) -> float:
        """Sum of all samples of one metric."""
        lines = httpx.get(self.url + "/metrics", timeout=5).text.splitlines()
        values = [
            float(line.rsplit(" ", 1)[1]) for line in lines if re.match(re.escape(name) + r"[{ ]", line)
        ]
        assert values, f"no sample of {name}"
        return sum(values)

    def engine_pid(self) -> int:
        """Process id of the engine that the server owns now."""
        found = []
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += [int(pid) for pid in (task / "children").read_text().split()]
        assert len(found) == 1, f"expected one engine, found {found}"
        return found[0]

    def rss_bytes(self) -> int:
        """Resident memory of the server process."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )

    def terminate(self, limit_s: float) -> int:
        """Ask the server to end; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(limit_s)


def wait_until(condition, limit_s: float, what: str) -> None:  # type: ignore[no-untyped-def]
    """Poll a condition that another process brings about; fails naming it when the limit passes."""
    import time

    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit_s} s: {what}"
        select.select([], [], [], 0.01)


def events(response: httpx.Response) -> list[str]:
    """The data of each server-sent event until the end."""
    return [line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: ")]
