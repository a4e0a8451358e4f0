"""What the engine writes about its steps, and that writing it never holds a step up."""

import logging
import os
import re
import threading

import pytest

from vllm_rs.config import EngineConfig
from vllm_rs.core.engine_core import EngineCore
from vllm_rs.core.fake_executor import FakeExecutor
from vllm_rs.core.logs import MAX_QUEUED_RECORDS, TRACE, BackgroundHandler, JsonFormatter, TextFormatter
from vllm_rs.wire import EngineCoreRequest, SamplingParams


@pytest.fixture
def core():
    return EngineCore(FakeExecutor(), EngineConfig.from_keywords(max_num_batched_tokens=64, max_num_seqs=4))


def request(name, prompt=(1, 2, 3), **params):
    return EngineCoreRequest(name, list(prompt), None, SamplingParams(**params), None, 0.0)


def run(core):
    while core.has_work:
        core.step()


@pytest.fixture
def step_lines(caplog):
    """Messages of the step log while a test runs."""
    caplog.set_level(TRACE, logger="vllm_rs.step")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "vllm_rs.step"]


@pytest.mark.covers("ENG-01")
def test_every_step_logs_its_three_phases_in_order_and_no_step_is_missing(core, step_lines):
    for index in range(3):
        core.add_request(request(f"r{index}", [index] * 90, max_tokens=3 + index))
    run(core)
    phases = [
        re.match(r"step (\d+) (scheduling|execution|output processing): ", line) for line in step_lines()
    ]
    seen = [(int(match[1]), match[2]) for match in phases if match]
    num_steps = core.scheduler.counters.num_steps
    assert seen == [
        (step, phase)
        for step in range(num_steps)
        for phase in ("scheduling", "execution", "output processing")
    ]
    assert num_steps >= 5


def test_the_scheduling_line_names_who_runs_on_how_many_tokens(core, step_lines):
    core.add_request(request("long", range(100), max_tokens=3))
    core.step()
    core.add_request(request("short", max_tokens=3))
    run(core)
    lines = [line for line in step_lines() if "scheduling" in line]
    assert "1 rows, 64 tokens, rows [long:64]" in lines[0]
    assert "rows [long:36 short:3]" in lines[1]
    assert "rows [long:1 short:1]" in lines[2]
    assert "kv slots 128 allocated 25 unused" in lines[1], "7 and 1 blocks hold 100 and 3 tokens"


def test_at_trace_the_dump_has_tokens_and_block_tables(core, step_lines):
    core.add_request(request("A", range(5, 25), max_tokens=2))
    run(core)
    dump = [line for line in step_lines() if " row A" in line]
    assert f"step 0 row A: from 0, tokens {list(range(5, 25))}, sampled rows 1, block table [[0, 1]]" in dump
    assert len(dump) == 2


@pytest.fixture
def stuck_logger():
    """A logger whose sink blocks in its first write until the test is over."""
    release = threading.Event()

    class Stuck(logging.Handler):
        def emit(self, record):
            release.wait()

    logger = logging.getLogger("vllm_rs.stuck_sink_test")
    handler = BackgroundHandler(Stuck())
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.DEBUG)
    yield logger, handler
    release.set()
    logger.handlers = []


def test_a_stuck_sink_costs_lines_and_no_waiting(stuck_logger):
    logger, handler = stuck_logger
    for number in range(2 * MAX_QUEUED_RECORDS):
        logger.info("line %d", number)
    assert handler.num_dropped >= MAX_QUEUED_RECORDS - 1


def test_lines_arrive_in_order_before_a_flush_returns():
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w") as stream:
        sink = logging.StreamHandler(stream)
        sink.setFormatter(TextFormatter())
        handler = BackgroundHandler(sink)
        for number in range(50):
            handler.emit(logging.LogRecord("vllm_rs.x", logging.INFO, "f", 1, "line %d", (number,), None))
        handler.flush()
        lines = os.read(read_end, 1 << 16).decode().splitlines()
    os.close(read_end)
    assert [line.split("x: ")[1] for line in lines] == [f"line {number}" for number in range(50)]
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z  INFO engine vllm_rs.x: line 0$", lines[0])


def test_json_lines_are_one_object_each():
    record = logging.LogRecord("vllm_rs.x", logging.WARNING, "f", 1, "say %s", ('"hi"\n',), None)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert '"level":"warning"' in line
