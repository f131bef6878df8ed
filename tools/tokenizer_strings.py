"""The strings that every tokenizer is compared on: the same ones each time, from a seed."""

import random
import unicodedata

SEED = 20240601

KOREAN = """옛날 옛적에 작은 마을에 토끼 한 마리가 살았습니다 하늘이 파랗고 바람은 시원했어요 친구와 함께
달렸다 깊은 숲속 반짝이는 별빛 달님이 웃으며 말했다 괜찮아 우리는 집으로 갔지 뷁 쀍 똠방각하 값싼 닭볶음탕
읽다 앉아 삶은 여덟 넓은 핥다 없애다 훑어보다""".split()
ENGLISH = """once upon a time there was little girl who didn't like rain she'd say I'll go home they've said
it's we're I'm you'd DON'T IT'S We'LL internationalization antidisestablishmentarianism naive resume the
a quick brown fox jumps over lazy dog tokenizer HTTPServer snake_case camelCase""".split()
OTHERS = """これは日本語の文章です 漢字 カタカナ 中文分词测试 繁體中文 Привет мир Ещё Ελληνικά العربية
עברית हिन्दी ไทย தமிழ் Việt Nam Çığ straße naïve café Łódź Ðoð ﬁne ﬃ Ⅷ ½ ² ١٢٣ ०१२ ㄱㅏㄴ ㅋㅋㅋ ㅠㅠ ㆍ""".split()
EMOJI = ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇰🇷", "🇺🇸🇰🇷", "❤️", "✈️", "1️⃣", "🧑🏿‍🚀", "🫠", "☕", "™️"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n ", "\t\t", "\u00a0", "\u3000", "\u2003",
          "\u200b", "\ufeff", "\u0085", "\u2028", "\u180e", "        ", "\n\n\n\n"]  # fmt: skip
CODE = ["def f(x):\n    return x ** 2\n", "for (int i = 0; i < n; ++i) {\n\t\tsum += a[i];\n}\n",
        "<div class=\"a\"><b>굵게</b></div>", "SELECT * FROM t WHERE id=42;", "a->b::c<T&&>()", "x!=y||!z",
        "# 주석\nprint('안녕')\n", "{\"key\": [1, 2.5e-3, null]}", "https://example.com/a?b=c&d=%20#e",
        "\\frac{a}{b}", "$ ls -la | grep '^d'", "0x1F 0b1010 1_000_000 3.14159"]  # fmt: skip
SPECIAL_LOOKALIKES = [
    "<|endoftext|>", "<|im_start|>user", "<|im_end|>", "<|im_end|>\n<|im_start|>assistant\n", "<s>",
    "</s>", "<unk>", "<pad>", "<bos>", "<eos>", "<start_of_turn>model", "<end_of_turn>",
    "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>system<|end_header_id|>", "[INST] x [/INST]",
    "<<SYS>>", "<0x0A>", "<0xEA>", "<|im_end", "|im_end|>", "<|endoftext|", "▁", "▁▁hello▁", "Ġhello",
    "Ċ", "<unused0>", "<table><tr><td>1</td></tr></table>", "<repo_name>x<file_sep>", "[multimodal]",
]  # fmt: skip
LONE_JAMO = [chr(c) for c in (*range(0x3131, 0x318F), *range(0x1100, 0x1113), *range(0x1161, 0x1176),
                              *range(0x11A8, 0x11C3))]  # fmt: skip


def assigned(code_point: int) -> bool:
    """Assigned in Unicode 14 and earlier, of which all references agree."""
    return unicodedata.category(chr(code_point)) not in ("Cn", "Cs", "Co")


class Generator:
    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def words(self, source: list[str], low: int = 1, high: int = 12) -> str:
        return " ".join(self.random.choices(source, k=self.random.randint(low, high)))

    def hangul(self) -> str:
        count = self.random.randint(1, 20)
        return "".join(chr(self.random.randint(0xAC00, 0xD7A3)) for _ in range(count))

    def decomposed(self) -> str:
        text = self.random.choice([self.words(KOREAN), self.hangul(), self.words(OTHERS)])
        return unicodedata.normalize("NFD", text)

    def half_decomposed(self) -> str:
        return "".join(
            unicodedata.normalize("NFD", c) if self.random.random() < 0.5 else c
            for c in self.words(KOREAN + OTHERS)
        )

    def jamo(self) -> str:
        return "".join(self.random.choices(LONE_JAMO + [" "], k=self.random.randint(1, 16)))

    def digits(self) -> str:
        numerals = "0123456789" * 3 + "٣५๗²½Ⅳ①㊿"
        text = "".join(self.random.choices(numerals, k=self.random.randint(1, 14)))
        return self.random.choice(["", " ", "  ", "$", "a", "값 ", "\n"]) + text + self.random.choice(
            ["", " ", "원", ".5", ",000", "  x", "'s"])  # fmt: skip

    def spaces(self) -> str:
        out = []
        for _ in range(self.random.randint(1, 6)):
            out.append(self.random.choice(SPACES) * self.random.choice([1, 1, 2, 3, 7, 33]))
            out.append(self.random.choice(["", "a", "글", "5", ".", "'s", "\u0301"]))
        return "".join(out)

    def controls(self) -> str:
        pool = [chr(c) for c in (*range(0, 32), *range(127, 160))] + ["a", "가", " ", "\u200d", "\u202e"]
        return "".join(self.random.choices(pool, k=self.random.randint(1, 20)))

    def marks(self) -> str:
        marks = [chr(c) for c in range(0x300, 0x345)]
        return "".join(
            self.random.choice("aeou가ᄀṩ") + "".join(self.random.choices(marks, k=self.random.randint(0, 4)))
            for _ in range(self.random.randint(1, 6))
        )

    def random_unicode(self) -> str:
        limit = self.random.choice([0x250, 0x3000, 0x10000, 0x20000])
        out = []
        while len(out) < self.random.randint(1, 24):
            code_point = self.random.randrange(limit)
            if assigned(code_point):
                out.append(chr(code_point))
        return "".join(out)

    def apostrophes(self) -> str:
        suffixes = ["'s", "'S", "'t", "'RE", "'ll", "'Ll", "'ſ", "’s", "'x", "''s", "'", "'ve", "'D"]
        return "".join(
            self.random.choice(["he", "글", "1", " ", "", "_"]) + self.random.choice(suffixes)
            for _ in range(self.random.randint(1, 6))
        )

    def mixed(self) -> str:
        pools = [KOREAN, ENGLISH, OTHERS, EMOJI, CODE, SPECIAL_LOOKALIKES]
        out = []
        for _ in range(self.random.randint(2, 10)):
            out.append(self.random.choice(self.random.choice(pools)))
            out.append(self.random.choice(SPACES + [" "] * 15 + [""] * 10))
        return "".join(out)


def strings() -> list[str]:
    make = Generator(SEED)
    fixed = ["", " ", "a", "가", *SPACES, *EMOJI, *CODE, *SPECIAL_LOOKALIKES, *KOREAN, *OTHERS, *LONE_JAMO]
    fixed += ["a" * 300, "가" * 120, " " * 200, "\n" * 100, "ab" * 150, "=" * 130, "\u0301" * 40, "1" * 90]
    kinds = [
        (make.hangul, 120), (make.decomposed, 180), (make.half_decomposed, 80), (make.jamo, 100),
        (make.digits, 180), (make.spaces, 200), (make.controls, 100), (make.marks, 80),
        (make.random_unicode, 250), (make.apostrophes, 100), (make.mixed, 350),
        (lambda: make.words(KOREAN), 100), (lambda: make.words(ENGLISH), 100),
        (lambda: make.words(EMOJI), 60), (lambda: "".join(make.random.choices(EMOJI, k=5)), 40),
    ]  # fmt: skip
    unique = dict.fromkeys(fixed)
    for kind, count in kinds:
        for _ in range(count):
            unique[kind()] = None
    return list(unique)
