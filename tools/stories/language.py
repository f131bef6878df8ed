"""The two languages: how a character is called and how a filled slot bends."""

import re

from . import korean

_VOWELS = "aeiou"


class Korean:
    code = "ko"

    @staticmethod
    def inflect(value: str, form: str) -> str:
        """`value` with the particle `form`; particles that never change are simply appended."""
        if form in korean.PARTICLES:
            return korean.attach(value, form)
        return value + form

    @staticmethod
    def hero(name: str, kind: str, trait: str, gender: str) -> dict:
        """Slots of a main character. A name that ends in a consonant gets the friendly -이."""
        ends_in_consonant = korean.final_consonant(name) != 0
        shown = name + "이" if ends_in_consonant else name
        human = kind in ("소녀", "소년", "아이")
        return {
            "": shown,
            ".call": korean.attach(name, "아"),
            ".kind": kind,
            ".trait": trait,
            ".count": "한 명" if human else "한 마리",
            ".intro": f"{shown}라는 {trait} {kind}",
            ".full": f"{kind} {shown}",
        }

    @staticmethod
    def finish(text: str, formal: bool) -> str:
        return korean.formal(text) if formal else text


class English:
    code = "en"

    @staticmethod
    def inflect(value: str, form: str) -> str:
        if form == "a":
            return ("an " if value[0].lower() in _VOWELS else "a ") + value
        if form == "s":
            return value + "'s"
        raise ValueError(f"unknown form '{form}' of '{value}'; known: a, s")

    @staticmethod
    def hero(name: str, kind: str, trait: str, gender: str) -> dict:
        girl = gender == "girl"
        return {
            "": name,
            ".he": "she" if girl else "he",
            ".He": "She" if girl else "He",
            ".him": "her" if girl else "him",
            ".his": "her" if girl else "his",
            ".kind": kind,
            ".trait": trait,
            ".intro": f"{trait} {kind} named {name}",
            ".full": f"{name} the {kind}",
        }

    @staticmethod
    def finish(text: str, formal: bool) -> str:
        """Capitals at the start of every sentence and of every speech."""
        del formal
        text = re.sub(r"(^|\n|[.!?] )([a-z])", lambda m: m.group(1) + m.group(2).upper(), text)
        return re.sub(r'(^|[ \n])"([a-z])', lambda m: m.group(1) + '"' + m.group(2).upper(), text)
