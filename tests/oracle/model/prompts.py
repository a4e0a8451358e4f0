"""The 100 prompts of the SmolLM2 oracle: languages, code, long, one character, repeated. Own text, kept
deterministic.
"""

CHAT = [
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "Explain photosynthesis to a child.",
    "List three uses of a paper clip.",
    "Who wrote Hamlet?",
    "Give me a recipe for pancakes.",
    "What is 17 times 23?",
    "Translate 'good morning' into Spanish, French and German.",
    "Summarise the plot of a story about a lost dog.",
    "How do I reverse a list in Python?",
    "What causes the seasons?",
    "Name five animals that live in the desert.",
    "Why is the sky blue?",
    "Write a limerick about a cat.",
    "What is the difference between a virus and a bacterium?",
    "Tell me a joke about computers.",
    "How many legs do eight spiders have?",
    "Describe the taste of a lemon.",
    "What is a black hole?",
    "Write a short thank-you note to a teacher.",
    "How does a bicycle stay upright?",
    "Give one argument for and one against school uniforms.",
    "What should I pack for a weekend in the mountains?",
    "Define the word 'serendipity'.",
    "Who are you?",
]

LANGUAGES = [
    "El río cruza la ciudad y los niños juegan en la orilla cuando",
    "La bibliothèque ouvre à neuf heures, mais ce matin la porte",
    "Der alte Leuchtturm steht seit hundert Jahren auf dem Felsen und",
    "Il treno per Roma parte dal terzo binario, tra pochi minuti",
    "O mercado da vila vende peixe fresco, laranjas e pão quente;",
    "Старый мост через реку построили ещё до войны, и теперь",
    "春天来了,公园里的花都开了,孩子们",
    "昨日は雨が降っていたので、図書館で本を",
    "오늘 아침에 시장에 가서 사과와 배를",
    "تقع المدينة القديمة على ضفة النهر وفيها",
    "पहाड़ों पर बर्फ गिर रही है और गाँव के लोग",
    "Το καράβι έφυγε από το λιμάνι νωρίς το πρωί και",
    "Stary zegar na wieży wybił dwunastą, a potem",
    "Köyün yaşlı fırıncısı her sabah erkenden kalkar ve",
    "Mvua ilinyesha usiku kucha na asubuhi watoto",
    "Con tàu rời bến lúc bình minh, mang theo",
    "ספינה קטנה יצאה מן הנמל עם",
    "De molen draait langzaam terwijl de wind",
    "Den gamle fiskaren rodde ut i dimman för att",
    "Emoji test: 🙂🙃🚀🌍 and then e\u0301 versus é, plus \u200bzero width",
]

CODE = [
    "def fibonacci(n):\n    if n < 2:\n        return n\n",
    "fn main() {\n    let mut total = 0u64;\n    for i in 0..10 {\n",
    "#include <vector>\n\nstd::vector<int> sorted(std::vector<int> v) {\n",
    "SELECT name, COUNT(*) FROM orders JOIN customers ON",
    "<html>\n  <head><title>Hello</title></head>\n  <body>\n",
    "const fetchJson = async (url) => {\n  const response =",
    '{"name": "widget", "price": 9.99, "tags": ["a", "b"], "stock": ',
    'for f in *.txt; do\n  wc -l "$f"\ndone | sort -n |',
    "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n",
    "import numpy as np\n\nx = np.linspace(0, 1, 11)\ny = np.sin(x)\n",
    'package main\n\nimport "fmt"\n\nfunc main() {\n\tfmt.Println(',
    "public static int gcd(int a, int b) {\n    while (b != 0) {\n",
    "\\begin{equation}\n  E = mc^2\n\\end{equation}\nwhere",
    "server:\n  host: 127.0.0.1\n  port: 8000\nlogging:\n",
    "^(\\d{4})-(\\d{2})-(\\d{2})$ matches",
]

ONE_CHARACTER = ["a", "Z", "7", " ", "\n", ".", "?", "é", "中", "{"]

REPEATED = [
    "the " * 60,
    "ab" * 80,
    "1 2 3 " * 40,
    "\n" * 30,
    "na na na na hey hey " * 10,
    "0" * 100,
    "- item\n" * 30,
    "repeat after me: repeat after me: " * 8,
    "= " * 90,
    "yes no " * 50,
]

SENTENCES = [
    "The committee met on Tuesday to discuss the new harbour wall.",
    "Mrs. Alder, who had kept the records since 1962, brought three boxes of maps.",
    "Nobody could agree on how high the water had risen in the great storm.",
    "A student from the university measured the marks on the old pier "
    "and wrote the numbers in a blue notebook.",
    "The engineer said that concrete would last sixty years, stone perhaps two hundred.",
    "Outside, the gulls argued over a crust of bread while the ferry unloaded its passengers.",
    "It was decided, after a long silence, that the question should be put to the town.",
    "The baker offered his shop for the vote because it was warm and everyone knew the way.",
    "By noon the line reached the church, and the rain had started again.",
    "When the papers were counted, stone had won by eleven votes.",
    "The quarry, closed for decades, would need a new road and two strong winches.",
    "Children were told to stay away from the edge, and so of course they went there every day.",
    "In the margins of the oldest map someone had drawn a whale wearing a crown.",
]

STARTS = [
    "Once upon a time, in a village by the sea,",
    "The three laws of thermodynamics state that",
    "Dear Sir or Madam, I am writing to complain about",
    "In 1969, humans first",
    "To make a good cup of tea, first",
    "The stock market fell sharply on Monday after",
    "Chapter 1\n\nIt was a dark night, and",
    "Q: What is the boiling point of water?\nA:",
    "The recipe calls for 2 cups of flour, 1 cup of sugar, and",
    "Monday, Tuesday, Wednesday,",
]


def long_text(start: int, sentences: int) -> str:
    """Plain prose of the given number of sentences (about 17 tokens each)."""
    picked = [SENTENCES[(start + i * 5) % len(SENTENCES)] for i in range(sentences)]
    return " ".join(picked)


LONG = [long_text(i, n) for i, n in enumerate([8, 12, 16, 20, 24, 28, 30, 32, 34, 36])]

RAW = LANGUAGES + CODE + ONE_CHARACTER + REPEATED + STARTS + LONG
"""Continued as they are; CHAT goes through the chat template."""
