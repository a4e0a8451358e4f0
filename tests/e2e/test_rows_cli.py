"""The command line: vLLM's module, addresses and names, what is refused."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from vllm_rs.config import ConfigError
from vllm_rs.models.registry import get_supported_archs

from .serving import Server, free_port, wait_until


class ModuleServer(Server):
    """A server started as vLLM's is: by its Python module, with the model as a flag."""

    def __init__(self, binary: Path, *flags: str, log: Path) -> None:
        super().__init__(binary, log=log)
        module = [sys.executable, "-m", "vllm_rs.entrypoints.openai.api_server"]
        self._command = [*module, "--model", "smollm2", "--port", str(self.port), *flags]


@pytest.mark.covers("CLI-03")
def test_the_module_takes_the_flags_of_serve(
    vllm_rs_binary: Path, smollm2_path: Path, repo_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(repo_root / "engine"))
    monkeypatch.setenv("PATH", f"{vllm_rs_binary.parent}:{os.environ['PATH']}")
    flags = ["--served-model-name", "mine", "--max-model-len", "1024", "--dtype", "float32"]
    with ModuleServer(vllm_rs_binary, *flags, log=tmp_path / "log") as server:
        model = httpx.get(server.url + "/v1/models", timeout=10).json()["data"][0]
        assert (model["id"], model["max_model_len"]) == ("mine", 1024)
        body = {"model": "mine", "prompt": "The capital of France is", "max_tokens": 1, "temperature": 0}
        answer = httpx.post(server.url + "/v1/completions", json=body, timeout=60).json()
        assert answer["choices"][0]["text"] == " Paris"
    helps = [
        subprocess.run([*start, "--help"], capture_output=True, text=True, check=True, timeout=30).stdout
        for start in (
            [vllm_rs_binary, "serve"],
            [sys.executable, "-m", "vllm_rs.entrypoints.openai.api_server"],
        )
    ]
    assert helps[0] == helps[1]


@pytest.mark.covers("CLI-04")
def test_model_host_port_and_names(vllm_rs_binary: Path, smollm2_path: Path, tmp_path: Path) -> None:
    names = ["--mock", "--served-model-name", "one", "two"]
    host = "127.0.0.2"
    server = Server(vllm_rs_binary, *names, "--host", host, log=tmp_path / "log")
    elsewhere, server.url = server.url, f"http://{host}:{server.port}"
    with server:
        for name in ("one", "two"):
            body = {"model": name, "prompt": "a", "max_tokens": 1}
            answer = httpx.post(server.url + "/v1/completions", json=body, timeout=30)
            assert answer.json()["model"] == name
        body["model"] = "smollm2"
        assert httpx.post(server.url + "/v1/completions", json=body, timeout=30).status_code == 404
        with pytest.raises(httpx.ConnectError):
            httpx.get(elsewhere + "/health", timeout=5)

    # Without --port it is 8000: listening there, or refused because somebody else does.
    log = tmp_path / "default.log"
    command = [vllm_rs_binary, "serve", "--model", "smollm2", "--mock"]
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
    try:
        said = lambda: "8000" in log.read_text() or process.poll() is not None  # noqa: E731
        wait_until(said, 30, "an address")
    finally:
        process.terminate()
        process.wait(20)
    assert "127.0.0.1:8000" in log.read_text()


@pytest.mark.covers("MODEL-13")
def test_remote_code_is_parsed_and_always_refused(vllm_rs_binary: Path, tiny_llama: Path) -> None:
    from vllm_rs import LLM

    serve = [vllm_rs_binary, "serve", str(tiny_llama), "--port", str(free_port()), "--trust-remote-code"]
    refused = subprocess.run(serve, capture_output=True, text=True, timeout=30)
    assert refused.returncode != 0
    with pytest.raises(ConfigError) as error:
        LLM(str(tiny_llama), trust_remote_code=True)
    for told in (refused.stderr, str(error.value)):
        assert "trust-remote-code" in told
        assert "code from a model repository is never run" in told
        assert "supported architectures work without it" in told
        assert len(told.strip().splitlines()) == 1
    with LLM(str(tiny_llama), trust_remote_code=False) as llm:
        assert llm.generate("a")[0].finished


@pytest.mark.covers("MODEL-02")
def test_architectures_are_listed_and_an_unknown_one_is_refused(
    vllm_rs_binary: Path, tiny_llama: Path, repo_root: Path, tmp_path: Path
) -> None:
    known = get_supported_archs()
    doctor = subprocess.run(
        [vllm_rs_binary, "doctor"], capture_output=True, text=True, check=True, timeout=60
    )
    listed = re.search(r"^ +architectures +(.*)$", doctor.stdout, re.M)
    assert listed
    assert listed[1].split() == known
    documented = re.search(
        r"^Llama-family architectures \((.*?)\)", (repo_root / "README.md").read_text(), re.M
    )
    assert documented
    assert sorted(re.findall(r"`(\w+)`", documented[1])) == known

    for file in tiny_llama.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace("LlamaForCausalLM", "LlamaForCausalML"))
    serve = [vllm_rs_binary, "serve", str(tmp_path), "--port", str(free_port())]
    ended = subprocess.run(serve, capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0
    told = [line for line in ended.stderr.splitlines() if line.startswith("vllm-rs: ")]
    assert len(told) == 1
    assert "LlamaForCausalML is not supported; near matches: LlamaForCausalLM" in told[0]
