"""A driver that plays scheduler for one runner: naive block allocation, any chunking, plans sent through
bytes.
"""

import importlib.util
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import pytest

import vllm_rs
from vllm_rs.exec.backend import StepLimits
from vllm_rs.exec.runner import ModelRunner
from vllm_rs.exec.step import StepArrays
from vllm_rs.models.loader import build_model
from vllm_rs.sched.plan import NewRequest, PreviousToken, ScheduledRow, StepPlan, StepResult, TokenLogprobs
from vllm_rs.wire import SamplingParams

HAS_TORCH = importlib.util.find_spec("torch") is not None
HAS_CPU = importlib.util.find_spec("vllm_rs._cpu") is not None
BACKENDS = [
    pytest.param("torch", marks=pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")),
    pytest.param("cpu", marks=pytest.mark.skipif(not HAS_CPU, reason="the kernels are not built")),
]


def make_backend(name, dtype="float32", threads=1, isa="auto"):
    if name == "torch":
        from vllm_rs.exec.torch_backend import TorchBackend

        return TorchBackend(dtype, dtype)
    from vllm_rs.exec.cpu_backend import CpuBackend

    return CpuBackend(dtype, dtype, threads, isa)


@dataclass
class Request:
    prompt: list[int]
    params: SamplingParams = field(default_factory=lambda: SamplingParams(temperature=0.0))
    seed: int = 0
    num_tokens: int = 8
    prefix_blocks: list[int] = field(default_factory=list)
    """Full blocks that hold the start of the prompt already."""
    output: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprobs] = field(default_factory=list)
    num_computed: int = 0
    blocks: list[int] = field(default_factory=list)
    slot: int = -1


class Driver:
    """Holds one runner with a KV cache whose blocks are handed out in a shuffled order."""

    def __init__(
        self,
        source,
        backend="cpu",
        dtype="float32",
        *,
        threads=1,
        block_size=16,
        num_blocks=512,
        max_tokens=256,
        max_sequences=64,
        max_logit_rows=None,
        max_model_len=None,
        eager=False,
        shuffle=0,
        isa="auto",
    ):
        model = build_model(source, max_model_len)
        limits = StepLimits(max_tokens, max_logit_rows or max_tokens, max_sequences, model.max_model_len)
        self.runner = ModelRunner(
            lambda: make_backend(backend, dtype, threads, isa),
            limits,
            enforce_eager=eager or backend == "torch",
        )
        self.runner.init_device()
        self.runner.load_model(model, source)
        self.runner.profile_run()
        self.runner.allocate_kv_cache(num_blocks, block_size)
        self.runner.warm_up()
        self.block_size = block_size
        self.max_tokens = max_tokens
        self.free_blocks = np.random.default_rng(shuffle).permutation(num_blocks).tolist()
        self.free_slots = list(range(max_sequences))
        self.freed: list[int] = []
        self.step_id = 0

    def execute(self, plan: StepPlan) -> StepResult:
        plan = msgspec.msgpack.decode(msgspec.msgpack.encode(plan), type=StepPlan)
        result = self.runner.execute(plan)
        return msgspec.msgpack.decode(msgspec.msgpack.encode(result), type=StepResult)

    def generate(self, requests, chunk=None, budget=None, release=True, previous_tokens=False):
        """Run to the end; every waiting token of every request that fits the budget goes into each step."""
        waiting, budget = list(requests), min(budget or self.max_tokens, self.max_tokens)
        entered: set[int] = set()
        last_rows: dict[int, int] = {}
        while waiting:
            self.step_id += 1
            plan = StepPlan(self.step_id, freed_slots=self.freed)
            self.freed = []
            active, left = [], budget
            for request in waiting:
                known = request.prompt + request.output
                first = request.num_computed
                if id(request) not in entered:
                    first = request.num_computed = len(request.prefix_blocks) * self.block_size
                count = min(len(known) - first, chunk or left, left)
                if count < 1 or (request.slot < 0 and not self.free_slots):
                    continue
                left -= count
                self._add_row(
                    plan, request, known, first, count, entered, last_rows if previous_tokens else {}
                )
                active.append(request)
            result = self.execute(plan)
            last_rows = {id(request): row for row, request in enumerate(active)}
            for request, row, scheduled in zip(active, result.rows, plan.rows, strict=True):
                assert row.num_nonfinite_logits == 0
                request.num_computed += len(scheduled.token_ids)
                request.output += row.token_ids
                request.logprobs += row.logprobs or []
                for part in row.prompt_logprobs:
                    entries = zip(*(array.tolist() for array in part.arrays()), strict=True)
                    request.prompt_logprobs += [TokenLogprobs(*entry) for entry in entries]
                if len(request.output) >= request.num_tokens:
                    waiting.remove(request)
                    self.release(request, blocks=release)
        return requests

    def _add_row(self, plan, request, known, first, count, entered, last_rows):
        needed = -(-(first + count) // self.block_size) - len(request.prefix_blocks) - len(request.blocks)
        new_blocks = [self.free_blocks.pop() for _ in range(max(0, needed))]
        request.blocks += new_blocks
        complete = first + count == len(known)
        row = ScheduledRow(0, first, known[first : first + count], num_sampled_rows=int(complete))
        if request.params.prompt_logprobs is not None:
            row.num_prompt_logprob_rows = max(0, min(first + count, len(request.prompt) - 1) - first)
        if id(request) not in entered:
            entered.add(id(request))
            request.slot = self.free_slots.pop()
            blocks = [request.prefix_blocks + request.blocks]
            known_output = list(request.output)
            plan.new_requests.append(
                NewRequest(
                    f"r{request.slot}",
                    request.slot,
                    request.prompt,
                    known_output,
                    request.params,
                    request.seed,
                    blocks,
                    first,
                )
            )
        elif new_blocks:
            row.new_block_ids = [new_blocks]
        if count == 1 and id(request) in last_rows and request.output:
            row.token_ids = [PreviousToken(last_rows[id(request)])]
        row.slot = request.slot
        plan.rows.append(row)

    def release(self, request, blocks=True):
        self.freed.append(request.slot)
        self.free_slots.append(request.slot)
        request.slot = -1
        if blocks:
            self.free_blocks += request.blocks

    def logits(self, tokens, chunk=None):
        """Teacher-forced logits after every token [len(tokens), vocab], run in chunks over a fresh block
        table.
        """
        count = -(-len(tokens) // self.block_size)
        blocks = [self.free_blocks.pop() for _ in range(count)]
        table = np.array([blocks], np.int32)
        chunk = min(chunk or self.max_tokens, self.max_tokens)
        out = []
        for first in range(0, len(tokens), chunk):
            ids = np.array(tokens[first : first + chunk], np.int32)
            positions = np.arange(first, first + len(ids), dtype=np.int32)
            rows = np.arange(len(ids), dtype=np.int32)
            step = StepArrays(
                ids, positions, np.array([0, len(ids)], np.int32), (table,), rows, np.zeros_like(rows)
            )
            self.runner.backend.forward(step)
            out.append(self.runner.backend.logits().copy())
        self.free_blocks += blocks
        return np.concatenate(out)


LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 131,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}


@pytest.fixture
def run_python():
    """Runs code in a fresh interpreter that finds the same package; returns its standard output."""
    package_root = str(Path(vllm_rs.__file__).parents[1])

    def run(code):
        path = os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": path}
        command = [sys.executable, "-c", textwrap.dedent(code)]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    return run


@pytest.fixture
def llama_config():
    return dict(LLAMA)


def pytest_generate_tests(metafunc):
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", BACKENDS)


@pytest.fixture(scope="session")
def exec_driver():
    """This module, for tests that are given it from elsewhere too."""
    return sys.modules[__name__]
