"""Each of the five layers, built over a fake of the layer below it."""

import importlib.util
from collections import Counter

import numpy as np
import pytest

from vllm_rs._rust import Tokenizer
from vllm_rs.config import EngineConfig
from vllm_rs.core.engine_core import EngineCore
from vllm_rs.core.fake_executor import FakeExecutor, next_token
from vllm_rs.exec.backend import StepLimits
from vllm_rs.exec.runner import ModelRunner
from vllm_rs.kv.manager import KVCacheManager
from vllm_rs.models.loader import CheckpointLoader, build_model
from vllm_rs.models.memory_source import random_source
from vllm_rs.offline.llm_engine import LLMEngine
from vllm_rs.offline.sampling_params import SamplingParams as OfflineParams
from vllm_rs.sched.commit import commit_step
from vllm_rs.sched.limits import SchedulerLimits
from vllm_rs.sched.plan import NewRequest, RowResult, ScheduledRow, StepPlan, StepResult
from vllm_rs.sched.request import Request
from vllm_rs.sched.scheduler import Scheduler
from vllm_rs.wire import EngineCoreOutput, EngineCoreRequest, FinishReason, SamplingParams

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 61,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}


def wire_request(name, prompt, **params):
    return EngineCoreRequest(name, list(prompt), None, SamplingParams(**params), None, 0.0)


class ScriptedCore:
    """The engine layer as the entry points see it: answers each request with the tokens it was given."""

    max_model_len = 512

    def __init__(self, answer):
        self._answer = answer
        self._pending = []

    def add_request(self, request):
        for index, token in enumerate(self._answer):
            reason = FinishReason.LENGTH if index + 1 == len(self._answer) else None
            self._pending.append(EngineCoreOutput(request.request_id, [token], finish_reason=reason))

    def abort_requests(self, request_ids):
        self._pending = [output for output in self._pending if output.request_id not in request_ids]

    def poll(self, timeout_s):
        return [self._pending.pop(0)] if self._pending else []

    def shutdown(self):
        self._pending = []


@pytest.mark.covers("ARCH-01")
def test_entry_points_over_a_scripted_engine(smollm2_path, monkeypatch):
    answer = Tokenizer.open(str(smollm2_path)).encode(" of Paris", add_special_tokens=False)
    monkeypatch.setattr("vllm_rs.offline.llm_engine.connect", lambda config, place: ScriptedCore(answer))
    engine = LLMEngine(EngineConfig().with_model_path(str(smollm2_path)))
    engine.add_request("A", "The city", OfflineParams(max_tokens=9))
    texts = []
    while engine.has_unfinished_requests():
        texts += [output.outputs[0].text for output in engine.step()]
    assert texts[-1] == " of Paris"
    assert len(texts) == len(answer)


@pytest.mark.covers("ARCH-01", "EXEC-01")
def test_engine_over_a_fake_executor():
    executor = FakeExecutor()
    core = EngineCore(executor, EngineConfig.from_keywords(max_num_batched_tokens=64, max_num_seqs=4))
    prompt = list(range(100))
    core.add_request(wire_request("A", prompt, max_tokens=3, seed=5))
    tokens = []
    while core.has_work:
        tokens += [
            token
            for message in core.step().values()
            for one in message.outputs
            for token in one.new_token_ids
        ]
    history = list(prompt)
    for _ in range(3):
        history.append(next_token(history, 5, executor.vocab_size))
    assert tokens == history[100:]
    assert [plan.num_tokens for plan in executor.steps] == [64, 36, 1, 1]


@pytest.mark.covers("ARCH-01")
def test_scheduler_over_results_made_by_hand():
    limits = SchedulerLimits(
        max_num_seqs=2, max_num_batched_tokens=32, max_model_len=128, check_integrity=True
    )
    scheduler = Scheduler(limits, KVCacheManager(8, 16))
    wire = wire_request("A", range(40), max_tokens=2)
    params = wire.sampling_params
    scheduler.add(Request(wire, params, wire.prompt_token_ids, seed=0, max_model_len=128, block_size=16))
    emitted = []
    while scheduler.has_work:
        plan = scheduler.schedule()
        rows = [RowResult([7] if row.num_sampled_rows else []) for row in plan.rows]
        for outputs in commit_step(scheduler, StepResult(plan.step_id, rows)).values():
            emitted += [token for output in outputs for token in output.new_token_ids]
    assert emitted == [7, 7]


class FakeBackend:
    """A device without arithmetic: every sampled token is the number of tokens its sequence has."""

    name, compute_dtype, kv_dtype = "fake", "float32", "float32"
    weights_bytes = workspace_bytes = 0

    def __init__(self):
        self.sampler = self
        self.steps = []

    def pack_linear(self, weight, bias):
        return weight.shape

    def pack_vector(self, values):
        return values.shape

    def build(self, model, limits):
        self.model = model

    def allocate_kv_cache(self, specs, num_blocks, block_size):
        self.num_layers = len(specs)

    def set_slot(self, slot, **sampling):
        pass

    def clear_slot(self, slot):
        pass

    def append(self, slot, token_ids):
        pass

    def forward(self, step, *, eager=False):
        self.steps.append(step)

    def sample(self, logit_indices, slots, positions):
        self.token_ids = positions.astype(np.int32)
        self.logprobs = [None] * len(positions)
        self.num_nonfinite = self.exhausted = np.zeros(len(positions), np.int32)
        return self

    def shutdown(self):
        pass


@pytest.mark.covers("ARCH-01")
def test_executor_over_a_fake_device():
    source = random_source(LLAMA)
    model = build_model(source, None)
    runner = ModelRunner(FakeBackend, StepLimits(32, 4, 4, 128))
    runner.init_device()
    runner.load_model(model, source)
    runner.profile_run()
    runner.allocate_kv_cache(8, 16)
    runner.warm_up()
    new = NewRequest("A", 0, [5, 6, 7], [], SamplingParams(temperature=0.0), 0, [[3]], 0)
    first = runner.execute(StepPlan(1, [], [new], [ScheduledRow(0, 0, [5, 6, 7], num_sampled_rows=1)]))
    second = runner.execute(StepPlan(2, [], [], [ScheduledRow(0, 3, [3], num_sampled_rows=1)]))
    assert [result.rows[0].token_ids for result in (first, second)] == [[3], [4]]
    assert runner.backend.steps[-1].block_tables[0].tolist() == [[3]]
    assert runner.backend.num_layers == 3


class CallRecorder:
    """`Ops` and `Packer` that compute nothing and count what a model asks for."""

    compute_dtype = "float32"

    def __init__(self):
        self.calls = Counter()

    def __getattr__(self, name):
        def call(*args, **keywords):
            self.calls[name] += 1
            return name

        return call


@pytest.mark.covers("ARCH-01")
def test_model_over_recorded_operations():
    source = random_source(LLAMA)
    model, recorder = build_model(source, None), CallRecorder()
    model.load_weights(CheckpointLoader(source, recorder))
    recorder.calls.clear()
    model.forward(recorder)
    assert recorder.calls["paged_attention"] == recorder.calls["rope_kv_write"] == 3
    assert recorder.calls["silu_mul"] == 3
    assert recorder.calls["embedding"] == recorder.calls["logits"] == 1
    assert recorder.calls["linear"] == 3 * 4, "qkv, o, gate and up, down"


@pytest.mark.covers("ARCH-01")
def test_layers_meet_only_at_their_interfaces(repo_root):
    path = repo_root / "tests" / "house" / "test_import_direction.py"
    spec = importlib.util.spec_from_file_location("import_direction", path)
    rules = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rules)
    rules.test_python_imports_point_down(repo_root)
    rules.test_crates_depend_downwards(repo_root)
