"""A short run of the HTTP fuzzer; `fuzz_http.py COUNT` runs a long one."""

import asyncio

from .fuzz_http import fuzz
from .serving import MockServer


def test_mutated_requests_end_in_success_or_a_declared_error(server: MockServer) -> None:
    findings = asyncio.run(fuzz(server.url, 1500, seed=1))
    assert not findings.faults, "\n".join(findings.faults[:10])
    assert set(findings.statuses) >= {200, 400}
    assert server.metric("vllm_rs:requests_running") == 0
