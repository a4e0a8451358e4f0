"""The default model's tokenizer and template, through the bindings, against transformers."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from conversations import conversation
from torture import torture_strings

from vllm_rs import _rust

FIXTURE = Path(__file__).parent / "fixtures" / "smollm2.json"


@pytest.fixture(scope="module")
def fixture() -> dict[str, Any]:
    return json.loads(FIXTURE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def tokenizer(smollm2_path: Path) -> _rust.Tokenizer:
    return _rust.Tokenizer.open(str(smollm2_path))


def same(ids: list[int], expected: Any) -> bool:
    """Compares with a list, or with the count, head and checksum of a very long one."""
    if isinstance(expected, list):
        return ids == expected
    checksum = sum((place + 1) * token for place, token in enumerate(ids)) % 2**32
    return [len(ids), ids[:20], checksum] == [expected["count"], expected["head"], expected["checksum"]]


def test_torture_strings_give_the_oracles_ids(tokenizer: _rust.Tokenizer, fixture: dict[str, Any]):
    texts = torture_strings()
    expected = fixture["case"]["ids"]
    assert len(texts) == len(expected) >= 300
    batch = tokenizer.encode_batch(texts, False)
    assert [text for text, ids, want in zip(texts, batch, expected, strict=True) if not same(ids, want)] == []
    assert [tokenizer.decode(ids, False) for ids in batch] == texts


def test_random_tokens_decode_as_the_oracle_decodes_them(tokenizer: _rust.Tokenizer, fixture: dict[str, Any]):
    for sample in fixture["case"]["decode"]:
        assert tokenizer.decode(sample["ids"], sample["skip"]) == sample["text"]
        processor = _rust.OutputProcessor(tokenizer, [], [], skip_special_tokens=sample["skip"])
        deltas = [processor.push([token])[0] for token in sample["ids"]]
        assert "".join(deltas) + processor.finish() == sample["text"]


@pytest.mark.covers("ENG-17")
def test_a_thousand_conversations_give_the_oracles_ids(tokenizer: _rust.Tokenizer, fixture: dict[str, Any]):
    digests = []
    for seed in range(len(fixture["conversation_digests"])):
        text = tokenizer.apply_chat_template(json.dumps(conversation(seed)))
        ids = tokenizer.encode(text, add_special_tokens=False)
        digests.append(hashlib.sha256(json.dumps(ids).encode()).hexdigest()[:16])
    assert digests == fixture["conversation_digests"]
    assert len(digests) == 1000
