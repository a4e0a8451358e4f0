"""Prompts that are equal to the last token run side by side in a small cache."""

import pytest


@pytest.mark.parametrize("num_copies", [2, 3])
@pytest.mark.parametrize("length", range(528, 1104, 16))
def test_whole_blocks_end_in_a_token_that_is_computed(harness, length, num_copies):
    """A prompt between two chunks may take over everything but its last token."""
    h = harness(num_blocks=256, max_num_batched_tokens=512, max_model_len=1104)
    prompt = [token % 997 for token in range(length)]
    for copy in range(num_copies):
        h.add(f"{copy}", prompt, max_tokens=3)
    while h.scheduler.requests:
        assert h.step(), f"stuck: {h.scheduler.running}"
    for copy in range(num_copies):
        assert h.tokens(f"{copy}") == h.expected(prompt, 3)


@pytest.mark.parametrize("length", [959, 960, 961])
def test_a_prompt_taken_over_whole_still_computes_its_last_token(harness, length):
    h = harness(num_blocks=136, max_num_seqs=64, max_num_batched_tokens=512, max_model_len=1024)
    for first_token in range(4):
        prompt = [first_token] + [7] * (length - 1)
        names = [f"{first_token}/{copy}" for copy in range(4)]
        for name in names:
            h.add(name, prompt, max_tokens=1)
        while h.scheduler.requests:
            assert h.step(), f"stuck: {h.scheduler.running}"
        for name in names:
            assert h.tokens(name) == h.expected(prompt, 1)
