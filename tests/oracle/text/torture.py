"""Strings that tokenizers get wrong: scripts, joiners, marks, spaces, control characters, look-alikes.

The list is the same wherever it is made: no randomness beyond a seeded generator.
"""

import random

SENTENCES = [
    "The capital of France is Paris.",
    "The quick brown fox jumps over the lazy dog!",
    "I'm sure they've said we'll see it'd work; don't, can't, O'Neil's, IT'S, 'TIS",
    "Zażółć gęślą jaźń. Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Ünïcödé naïve façade Größe Straße ŒUVRE ﬁ ﬂ ﬃ",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. ΠΡΌΣΩΠΟ",
    "שלום עולם! מה שלומך היום? עִבְרִית מְנֻקֶּדֶת",
    "مرحبا بالعالم! كيف حالك اليوم؟ الْعَرَبِيَّةُ ١٢٣٤",
    "یہ اردو ہے۔ فارسی: سلام دنیا! می‌خواهم",
    "नमस्ते दुनिया। क्षत्रिय श्री हिन्दी १२३",
    "বাংলা ভাষা ১২৩। தமிழ் மொழி ௧௨௩ తెలుగు ಕನ್ನಡ മലയാളം ගුජරාති ગુજરાતી ਪੰਜਾਬੀ ଓଡ଼ିଆ",
    "สวัสดีชาวโลก ภาษาไทยไม่มีช่องว่าง ๑๒๓",
    "ສະບາຍດີ ខ្មែរ မြန်မာ བོད་སྐད་ ཀ་ཁ་ག་ང་",
    "你好，世界！今天天气怎么样？我喜歡繁體字。",
    "こんにちは世界！カタカナ ひらがな ｶﾀｶﾅ 日本語のテスト。",
    "안녕하세요 세계! 한국어 테스트 ㄱㄴㄷ",
    "𠜎𠜱𠝹𠱓 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟘𝟙𝟚 𐍈 𓀀 𒀀 𐤀",
    "ქართული ენა ᲥᲐᲠᲗᲣᲚᲘ Հայերեն አማርኛ ᐃᓄᒃᑎᑐᑦ ᏣᎳᎩ ⴰⵎⴰⵣⵉⵖ ߒߞߏ",
    "Tiếng Việt: Trăm năm trong cõi người ta",
    "Türkçe: İıĞğŞş IĞDIR  Íslenska: Þð Ææ",
    "👩‍👩‍👧‍👦 family, 👍🏽 skin, 🇫🇷🇩🇪🇯🇵 flags, ❤️‍🔥, 🏴󠁧󠁢󠁥󠁮󠁧󠁿, 1️⃣ #️⃣, 🧑🏿‍🚀",
    "😀😃😄😁 😆 😅text😂between🤣",
    "e\u0301 e\u0300\u0323 a\u0308\u0304 "
    "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319 n\u0303",
    "\u1112\u1161\u11ab\u1100\u1173\u11af \u0e33 \u0f73 \u0344",
    "½ ⅓ ² ³ ₄ Ⅷ ⅷ ① ⑳ 一二三 〇 ٣ ۳ ३ ௩ 𝟛",
    "∑∫√∞≠≤≥±×÷∂∇∈∉∪∩ α+β=γ x²+y²=z² ℝⁿ→ℂ",
    "“quotes” ‘single’ „low“ «guillemets» … — – ‐ ‑ ‒ • · ° § ¶ † ‡ € £ ¥ ₹ ₿ ¢",
    "snake_case camelCase PascalCase kebab-case SCREAMING_SNAKE dotted.path.name",
    "https://example.com/path?query=1&other=a%20b#frag user@example.org C:\\dir\\file.txt /usr/bin/env",
]

CODE = [
    "def f(x: int) -> str:\n    if x > 10:\n        return f'{x:04d}'\n    return \"\"\n",
    "for (int i = 0; i < n; ++i) {\n\tsum += a[i] * b[i];\n}\r\n",
    'fn main() {\n    println!("{:?}", vec![1, 2, 3]);\n}\n\n\n',
    "SELECT * FROM t WHERE a = 'b' AND c <> 3; -- comment",
    '<div class="a b">\n  <p>&amp; &lt; &#39;</p>\n</div>',
    '{"key": [1, 2.5e-3, null, true], "nested": {"a": "\\u00e9\\n"}}',
    "#!/bin/bash\nset -euo pipefail\ncat <<'EOF' | sed 's/a/b/g' > /dev/null 2>&1\nEOF\n",
    "if x:\n    pass\nelif y:\n        1\n            22\n                333\n",
    "a = b  # two spaces\n\n\n\n    c = d\t\t# tabs\n \n  \n",
    "x^=y; a&&b||!c; p->q; *ptr++; i<<=2; a?b:c; //comment/*block*/ ... ;;; ==== ---- ****",
    "\\begin{align} \\frac{a}{b} &= \\sqrt{2} \\\\ \\end{align} $x_{i,j}^{2}$",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n- item\n  - sub\n1. one\n```py\ncode\n```\n> quote",
]

NUMBERS = [
    "0",
    "7",
    "42",
    "123",
    "1234",
    "12345",
    "1234567890",
    "3.14159",
    "-1.5e-10",
    "1,234,567.89",
    "0x1F4A9",
    "2024-02-29T23:59:59Z",
    "+1 (555) 010-9999",
    "1 2  3   4    5",
    "  12",
    "   3",
    "\t4",
    "\n5",
    "x  6  y",
    "10\n 20\n  30\n   40",
    "100%",
    "$99.99",
    "v1.2.3-rc4",
    "१२३४५",
    "٠١٢٣٤٥٦٧٨٩",
    "½½½",
    "²²²",
    "ⅣⅣ",
    "1a2b3c",
    "a1 b22 c333 d4444",
]

SPACES = [
    "",
    " ",
    "  ",
    "   ",
    " " * 7,
    " " * 16,
    " " * 33,
    "\n",
    "\n\n",
    "\n\n\n",
    "\t",
    "\t\t",
    "\r",
    "\r\n",
    "\r\n\r\n",
    " \n",
    "\n ",
    " \n \n ",
    "\t \t ",
    "a ",
    " a",
    "  a",
    "a  b",
    "a   b",
    "a\nb",
    "a \nb",
    "a\n b",
    "a \n b",
    "a\t b",
    "a\r\nb",
    "  leading",
    "trailing  ",
    "trailing\n",
    " \t\n mixed \n\t ",
    "a\u00a0b",
    "a\u2003b",
    "a\u3000b",
    "\u00a0\u00a0",
    "\u2028x\u2029y",
    "\u200b\u200b",
    "a\u200bb",
    "a\u200d\u200cb",
    "\ufeffbom",
    "a\u00adb",
    "x\u0085y",
    "x\u000by\u000cz",
    "\u1680\u180e",
    ". . .",
    " .",
    " ,",
    "( a )",
]

CONTROL = [
    "a\u0000b",
    "\u0001\u0002\u0003",
    "\u0007bell",
    "\u001b[31mred\u001b[0m",
    "\u007f",
    "\u0080\u009f",
    "\ufffd",
]
CONTROL += [
    "\ufffe",
    "\uffff",
    "\U0010ffff",
    "\ue000\uf8ff",
    "\U000f0000",
    "\u202eabc\u202c",
    "\u2066rtl\u2069",
]
CONTROL += [
    "\u0600\u06dd",
    "\u0b95\u0bcd\u0bb7",
    "\ufdfa",
    "\u0378",
    "\U0001f9ff\U0001fa00",
    "\u034f",
    "\ufe0f",
]

SPECIAL_LOOKALIKES = [
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "<|endoftext|>",
    "<|endoftext|><|endoftext|>",
    "a<|im_end|>b",
    " <|im_end|> ",
    "  <|im_start|>  x",
    "<|im_start|",
    "|im_start|>",
    "<|im_ start|>",
    "<|IM_START|>",
    "<<|im_end|>>",
    "<|im_start|><|im_end|>",
    "<repo_name>a/b<file_sep>c",
    "<filename>x.py<gh_stars>10",
    "<s>",
    "</s>",
    "<unk>",
    "<s>hello</s>",
    "a<s>b</s>c",
    " <s> a </s> ",
    "<pad><mask>[CLS][SEP][MASK][UNK][PAD]",
    "<0x0A><0x41>",
    "▁",
    "▁▁▁",
    "a▁b",
    "Ġ Ċ ĉ Ģ ł",
    "<think>thought</think>answer",
    "<think>",
    " <think> x </think>\n",
    "<tool_call>{}</tool_call>",
    "[INST] x [/INST]",
    "<|user|><|assistant|>",
    "<|eot_id|><|start_header_id|>",
    "<issue_start><jupyter_code>1<empty_output>",
]


def _mixtures(count: int) -> list[str]:
    """Fragments of everything, glued at random places with a fixed seed."""
    rng = random.Random(20240229)
    pool = SENTENCES + CODE + NUMBERS + [s for s in SPACES if s] + CONTROL + SPECIAL_LOOKALIKES
    mixtures = []
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(1, 6)):
            text = rng.choice(pool)
            start = rng.randrange(len(text))
            parts.append(text[start : start + rng.randint(1, 24)])
        mixtures.append(rng.choice(["", " ", "  ", "\n"]).join(parts))
    return mixtures


def _random_codepoints(count: int) -> list[str]:
    rng = random.Random(7)
    ranges = [(0x20, 0x7E), (0xA0, 0x24F), (0x370, 0x5FF), (0x900, 0xDFF), (0x1E00, 0x2BFF), (0x3040, 0x9FFF)]
    ranges += [(0xAC00, 0xD7A3), (0xF900, 0xFFFF), (0x10000, 0x1FBFF), (0x20000, 0x2A6DF)]
    made = []
    for _ in range(count):
        made.append("".join(chr(rng.randint(*rng.choice(ranges))) for _ in range(rng.randint(1, 20))))
    return made


def torture_strings() -> list[str]:
    """At least 300 strings, none with a lone surrogate, without repeats."""
    long = [
        "ab " * 700,
        "a" * 1500,
        "你" * 500,
        " " * 900,
        "9" * 600,
        "é😀" * 250,
        "\n" * 400,
        "<|im_end|>" * 60,
    ]
    strings = SENTENCES + CODE + NUMBERS + SPACES + CONTROL + SPECIAL_LOOKALIKES
    strings += _mixtures(110) + _random_codepoints(40) + long
    return list(dict.fromkeys(strings))
