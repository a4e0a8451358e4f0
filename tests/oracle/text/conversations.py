"""Conversations at random, the same on every machine."""

import random
from typing import Any

from torture import CODE, NUMBERS, SENTENCES, SPECIAL_LOOKALIKES

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Current weather; <units> are \"metric\" & 'imperial' – é",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "City\nname"},
                    "days": {"type": "integer", "default": 1, "minimum": 0.5, "maximum": 1e20},
                },
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    },
    {"type": "function", "function": {"name": "noop", "parameters": {"type": "object", "properties": {}}}},
]


def _text(rng: random.Random) -> str:
    pool = SENTENCES + CODE + NUMBERS + SPECIAL_LOOKALIKES
    text = rng.choice(["", " ", "\n"]).join(rng.choice(pool) for _ in range(rng.randint(1, 2)))
    return rng.choice(["", "", " ", "\n"]) + text[: rng.randint(1, 160)] + rng.choice(["", "", " ", "\n\n"])


def _tool_turn(rng: random.Random, index: int) -> list[dict[str, Any]]:
    arguments: dict[str, Any] = {"city": rng.choice(["Zürich", 'a "b"', "東京"]), "days": rng.randint(0, 9)}
    if rng.random() < 0.3:
        arguments["ratio"] = rng.choice([0.1, 1.0, 1e-7, 2.5e20])
    call = {
        "id": f"call{index:05d}",
        "type": "function",
        "function": {"name": "get_weather", "arguments": arguments},
    }
    answer = rng.choice(['{"t": 21.5}', "sunny ☀️", _text(rng)])
    return [
        {"role": "assistant", "content": rng.choice(["", _text(rng)]), "tool_calls": [call]},
        {"role": "tool", "content": answer, "tool_call_id": call["id"], "name": "get_weather"},
    ]


def conversation(seed: int, with_tools: bool = False) -> list[dict[str, Any]]:
    """Messages with string contents: perhaps a system message, then alternating turns, often valid."""
    rng = random.Random(seed)
    messages: list[dict[str, Any]] = []
    if rng.random() < 0.5:
        messages.append({"role": "system", "content": _text(rng)})
    for turn in range(rng.randint(1, 4)):
        messages.append({"role": "user", "content": _text(rng)})
        if with_tools and rng.random() < 0.5:
            messages += _tool_turn(rng, seed * 10 + turn)
        if turn < 3 and rng.random() < 0.8:
            messages.append({"role": "assistant", "content": _text(rng)})
    if rng.random() < 0.1:
        rng.shuffle(messages)
    return messages
