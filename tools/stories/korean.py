"""Korean particles that depend on the final consonant of the word before them."""

_FIRST_SYLLABLE = 0xAC00
_LAST_SYLLABLE = 0xD7A3
_FINALS = 28
_RIEUL = 8
_SSANG_SIOT = 20

# Particle as written in a template: (after a consonant, after a vowel).
PARTICLES = {
    "은": ("은", "는"),
    "이": ("이", "가"),
    "을": ("을", "를"),
    "과": ("과", "와"),
    "으로": ("으로", "로"),
    "아": ("아", "야"),
    "이라": ("이라", "라"),
    "이라는": ("이라는", "라는"),
    "이라면": ("이라면", "라면"),
    "이랑": ("이랑", "랑"),
    "이었": ("이었", "였"),
    "이에요": ("이에요", "예요"),
    "이야": ("이야", "야"),
    "이나": ("이나", "나"),
}


def final_consonant(word: str) -> int:
    """Index of the final consonant of the last syllable; 0 if it ends in a vowel.

    Raises ValueError if the word does not end in a Hangul syllable, because then the particle
    cannot be known.
    """
    code = ord(word[-1]) if word else 0
    if not _FIRST_SYLLABLE <= code <= _LAST_SYLLABLE:
        raise ValueError(f"'{word}' does not end in a Hangul syllable")
    return (code - _FIRST_SYLLABLE) % _FINALS


def attach(word: str, particle: str) -> str:
    """`word` with the right form of `particle` (a key of PARTICLES)."""
    if particle not in PARTICLES:
        raise ValueError(f"unknown particle '{particle}'; known: {', '.join(PARTICLES)}")
    final = final_consonant(word)
    # ㄹ behaves like a vowel before (으)로: "길로", not "길으로".
    after_vowel = final == 0 or (particle == "으로" and final == _RIEUL)
    return word + PARTICLES[particle][1 if after_vowel else 0]


def formal(text: str) -> str:
    """Narration in -습니다 style from narration in past tense -어요 style.

    Only sentence ends of the form -ㅆ어요 change, which is regular; what stands in double quotes
    is speech and stays.
    """
    parts = text.split('"')
    for i in range(0, len(parts), 2):
        parts[i] = _formal_narration(parts[i])
    return '"'.join(parts)


def _formal_narration(text: str) -> str:
    pieces = text.split("어요")
    out = [pieces[0]]
    for piece in pieces[1:]:
        before = out[-1][-1:]
        past = before != "" and _is_past(before)
        out.append(("습니다" if past else "어요") + piece)
    return "".join(out)


def _is_past(syllable: str) -> bool:
    code = ord(syllable)
    in_range = _FIRST_SYLLABLE <= code <= _LAST_SYLLABLE
    return in_range and (code - _FIRST_SYLLABLE) % _FINALS == _SSANG_SIOT
