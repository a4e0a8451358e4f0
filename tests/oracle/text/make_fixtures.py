"""Writes the fixtures of the text layer with transformers as the oracle.

    python tests/oracle/text/make_fixtures.py SMOLLM2.gguf tests/oracle/text/fixtures

Needs transformers, tokenizers, gguf and numpy. Tiny vocabularies are trained on the spot, written as
GGUF metadata and read back through transformers' own GGUF conversion. Where that conversion is known to
leave out what a file declares, `declared` puts it back the way the model's published tokenizer has it.
"""

import hashlib
import importlib.metadata
import json
import random
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import transformers.utils.chat_template_utils as chat_utils
from conversations import TOOLS, conversation
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torture import torture_strings
from transformers import AutoTokenizer

HERE = Path(__file__).parent
MAX_IDS = 400
FROZEN = datetime(2025, 3, 9, 7, 5, 1)
BYTE_LEVEL_NAMES = [
    "default",
    "gpt-2",
    "smollm",
    "starcoder",
    "llama-bpe",
    "qwen2",
    "qwen35",
    "tekken",
    "gpt-4o",
    "falcon",
]
CONTROL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<file_sep>"]


def versions() -> dict[str, str]:
    """The libraries that made the fixtures."""
    return {
        name: importlib.metadata.version(name) for name in ("transformers", "tokenizers", "jinja2", "gguf")
    }


def packed(ids: list[int]) -> Any:
    """Ids as a list; of a very long one the count, the head and a position-weighted checksum."""
    if len(ids) <= MAX_IDS:
        return ids
    checksum = sum((place + 1) * token for place, token in enumerate(ids)) % 2**32
    return {"count": len(ids), "head": ids[:20], "checksum": checksum}


def training_texts() -> list[str]:
    return [text for text in torture_strings() if len(text) < 400]


def byte_level_vocab() -> dict[str, Any]:
    """A byte-level vocabulary whose merges cross words, so that each way of cutting text shows."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=1500,
        special_tokens=[*CONTROL_TOKENS, "<think>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    trained.train_from_iterator(training_texts() * 2, trainer)
    model = json.loads(trained.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    types = [3 if token in CONTROL_TOKENS else 4 if token == "<think>" else 1 for token in tokens]
    return {
        "model": "gpt2",
        "tokens": tokens,
        "token_types": types,
        "merges": [" ".join(m) for m in model["merges"]],
    }


def sentencepiece_vocab() -> dict[str, Any]:
    """A vocabulary of the SentencePiece kind: byte tokens, pieces with scores, no merges."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first")
    trainer = trainers.BpeTrainer(vocab_size=1200, limit_alphabet=220, show_progress=False)
    trained.train_from_iterator(training_texts(), trainer)
    vocab = trained.get_vocab()
    pieces = sorted((piece for piece in vocab if "<" not in piece), key=vocab.__getitem__)
    alphabet = [piece for piece in pieces if len(piece) == 1]
    merged = [piece for piece in pieces if len(piece) > 1]
    merged += [m for m in ("▁▁", "▁▁▁▁", "<think>") if m not in merged]
    tokens = ["<unk>", "<s>", "</s>", *[f"<0x{byte:02X}>" for byte in range(256)], *merged, *alphabet]
    scores = [0.0] * 259 + [-float(rank) for rank in range(len(tokens) - 259)]
    kinds = {"<unk>": 2, "<s>": 3, "</s>": 3, "<think>": 4}
    types = [6 if 3 <= place < 259 else kinds.get(token, 1) for place, token in enumerate(tokens)]
    return {"model": "llama", "tokens": tokens, "token_types": types, "scores": scores}


def write_gguf(path: Path, vocab: dict[str, Any], pre: str | None, special: dict[str, int]) -> None:
    """A GGUF file with this vocabulary and one tiny tensor."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(vocab["tokens"]))
    writer.add_tokenizer_model(vocab["model"])
    if pre is not None:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(vocab["tokens"])
    writer.add_token_types(vocab["token_types"])
    if "scores" in vocab:
        writer.add_token_scores(vocab["scores"])
    if "merges" in vocab:
        writer.add_token_merges(vocab["merges"])
    for role, token in special.items():
        getattr(writer, f"add_{role}_token_id")(token)
    writer.add_tensor("token_embd.weight", np.zeros((len(vocab["tokens"]), 32), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def declared(tokenizer: Any, pre: str | None) -> Any:
    """Puts back what transformers' GGUF conversion leaves out of these models' tokenizers."""
    backend = tokenizer.backend_tokenizer
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if pre in ("smollm", "starcoder"):
        digits = pre_tokenizers.Digits(individual_digits=True)
        backend.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    if pre == "falcon":
        marks = pre_tokenizers.Split(Regex(r"[\p{P}\$\+<=>\^~\|`]+"), "isolated")
        threes = pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")
        backend.pre_tokenizer = pre_tokenizers.Sequence([marks, byte_level, threes])
    if pre in ("llama-bpe", "tekken"):
        backend.model.ignore_merges = True
    return tokenizer


def decode_samples(tokenizer: Any, vocab_size: int, seed: int, raw_ids: range) -> list[dict[str, Any]]:
    """Random ids, many of them from `raw_ids`, the tokens that write bytes."""
    rng = random.Random(seed)
    samples = []
    for _ in range(120):
        share = rng.choice([0.0, 0.5, 0.9])
        count = rng.randint(1, 24)
        ids = [
            rng.choice(raw_ids) if rng.random() < share else rng.randrange(vocab_size) for _ in range(count)
        ]
        if rng.random() < 0.3:
            at = rng.randint(0, len(ids))
            ids[at:at] = tokenizer.encode(
                rng.choice(["你好世界", "😀👍🏽", "é ñ", " שלום "]), add_special_tokens=False
            )
        skip = rng.random() < 0.5
        text = tokenizer.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
        samples.append({"ids": ids, "skip": skip, "text": text})
    return samples


def tokenizer_case(name: str, tokenizer: Any, vocab_size: int, raw_ids: range) -> dict[str, Any]:
    ids = [packed(tokenizer.encode(text, add_special_tokens=False)) for text in torture_strings()]
    return {"name": name, "ids": ids, "decode": decode_samples(tokenizer, vocab_size, 11, raw_ids)}


def tiny_gguf_cases(folder: Path) -> dict[str, Any]:
    """Both GGUF vocabularies and what the oracle makes of the torture strings with each."""
    byte_level, sentencepiece = byte_level_vocab(), sentencepiece_vocab()
    special = {"bos": 1, "eos": 2, "unk": 0}
    cases = []
    for pre in BYTE_LEVEL_NAMES:
        write_gguf(folder / f"{pre}.gguf", byte_level, pre, special)
        tokenizer = declared(AutoTokenizer.from_pretrained(folder, gguf_file=f"{pre}.gguf"), pre)
        cases.append(tokenizer_case(pre, tokenizer, len(byte_level["tokens"]), range(6, 262)))
    write_gguf(folder / "spm.gguf", sentencepiece, None, special)
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file="spm.gguf")
    spm = tokenizer_case("spm", tokenizer, len(sentencepiece["tokens"]), range(3, 259))
    return {
        "special": special,
        "byte_level": byte_level,
        "sentencepiece": sentencepiece,
        "cases": [*cases, spm],
    }


def folder_cases(out: Path, byte_level: dict[str, Any]) -> list[dict[str, Any]]:
    """Folders with a tokenizer.json: byte-level with a begin token, and Unigram with Metaspace."""
    merges = [tuple(merge.split(" ")) for merge in byte_level["merges"]]
    vocab = {token: place for place, token in enumerate(byte_level["tokens"])}
    bpe = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.add_special_tokens(CONTROL_TOKENS[:3])
    bpe.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", vocab["<|im_start|>"])]
    )
    bpe.enable_truncation(max_length=5)
    unigram = Tokenizer(models.Unigram())
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    unigram.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=600, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False
    )
    unigram.train_from_iterator([text for text in training_texts() if text.isascii()], trainer)
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    end = {"content": "<|im_end|>", **flags}
    cases = []
    for name, tokenizer, config in (
        ("hf_byte_level", bpe, {"bos_token": "<|im_start|>", "eos_token": {"__type": "AddedToken", **end}}),
        ("hf_unigram", unigram, {"eos_token": "</s>", "unk_token": "<unk>"}),
    ):
        target = out / name
        target.mkdir(exist_ok=True)
        tokenizer.save(str(target / "tokenizer.json"), pretty=False)
        config |= {"tokenizer_class": "PreTrainedTokenizerFast"}
        if name == "hf_byte_level":
            config["added_tokens_decoder"] = {"3": {"content": "<repo_name>", **flags}}
        (target / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        oracle = AutoTokenizer.from_pretrained(target)
        case = tokenizer_case(name, oracle, tokenizer.get_vocab_size(), range(6, 200))
        case["with_special"] = oracle.encode("hello world")
        cases.append(case)
    return cases


def frozen_clock() -> None:
    class Frozen(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> "Frozen":
            return cls(FROZEN.year, FROZEN.month, FROZEN.day, FROZEN.hour, FROZEN.minute, FROZEN.second)

    chat_utils.datetime = Frozen


def chat_cases(templates: dict[str, str]) -> list[dict[str, Any]]:
    """Conversations through each template: the text, or the words of `raise_exception`."""
    special = {"bos_token": "<|begin|>", "eos_token": "<|eos|>"}
    cases = []
    for name, template in templates.items():
        for seed in range(60):
            messages = conversation(
                seed * 7 + len(name), with_tools=name not in ("smollm2", "parts", "corners")
            )
            if name == "parts":
                messages = [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in messages]
            tools = TOOLS if seed % 3 == 0 and name not in ("smollm2", "parts", "corners") else None
            kwargs: dict[str, Any] = (
                {"enable_thinking": False} if name == "qwen_like" and seed % 4 == 0 else {}
            )
            generate = seed % 5 != 0
            proceed = not generate and messages[-1]["role"] == "assistant" and bool(messages[-1]["content"])
            case = {"template": name, "messages": messages, "tools": tools, "kwargs": kwargs}
            case |= {"add_generation_prompt": generate, "continue_final_message": proceed}
            try:
                rendered, _ = chat_utils.render_jinja_template(
                    [messages],
                    tools=tools,
                    chat_template=template,
                    add_generation_prompt=generate,
                    continue_final_message=proceed,
                    **special,
                    **kwargs,
                )
                case["text"] = rendered[0]
            except Exception as error:
                case["error"] = str(error)
            cases.append(case)
    return cases


def smollm2_cases(path: Path) -> dict[str, Any]:
    """The default model: ids of the torture strings, and a digest of 1,000 rendered conversations."""
    plain = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    plain_ids = [plain.encode(text, add_special_tokens=False) for text in torture_strings()]
    tokenizer = declared(plain, "smollm")
    case = tokenizer_case("smollm2", tokenizer, len(tokenizer), range(17, 273))
    ids = [tokenizer.encode(text, add_special_tokens=False) for text in torture_strings()]
    case["differs_without_digit_split"] = [
        n for n, (a, b) in enumerate(zip(ids, plain_ids, strict=True)) if a != b
    ]
    digests = []
    for seed in range(1000):
        messages = conversation(seed)
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        prompt_ids = tokenizer.encode(text, add_special_tokens=False)
        digests.append(hashlib.sha256(json.dumps(prompt_ids).encode()).hexdigest()[:16])
    return {"versions": versions(), "case": case, "conversation_digests": digests}, tokenizer.chat_template


def write(path: Path, content: Any) -> None:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    path.write_text(text + "\n", encoding="utf-8")
    print(f"{path.name}: {len(text) / 1024:.0f} KiB")


def main(smollm2: Path, out: Path) -> None:
    frozen_clock()
    out.mkdir(exist_ok=True)
    write(out / "torture.json", torture_strings())
    with tempfile.TemporaryDirectory() as folder:
        tiny = tiny_gguf_cases(Path(folder))
    folders = folder_cases(out, tiny["byte_level"])
    write(out / "tokenizers.json", {"versions": versions(), **tiny, "folders": folders})
    fixture, smollm2_template = smollm2_cases(smollm2)
    write(out / "smollm2.json", fixture)
    templates = {"smollm2": smollm2_template}
    templates |= {
        path.stem: path.read_text(encoding="utf-8") for path in sorted((HERE / "templates").glob("*.jinja"))
    }
    cases = chat_cases(templates)
    write(out / "chat.json", {"versions": versions(), "templates": templates, "cases": cases})
    print(len(cases), "chat cases,", sum("error" in case for case in cases), "with an error")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
