"""Environment variables are parsed strictly: a bad value stops the start with the variable's name."""

import pytest

from vllm_rs import env
from vllm_rs.config import ConfigError


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("TRUE", True), ("0", False), ("", False), ("off", False)]
)
def test_switches_take_the_usual_words(text: str, value: bool):
    assert env.check_invariants({"VLLM_RS_CHECK_INVARIANTS": text}) is value


def test_a_bad_switch_is_refused_by_name():
    with pytest.raises(ConfigError, match=r"VLLM_RS_CHECK_INVARIANTS.*'maybe'"):
        env.check_invariants({"VLLM_RS_CHECK_INVARIANTS": "maybe"})
    assert env.check_invariants({}) is False
