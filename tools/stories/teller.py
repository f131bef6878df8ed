"""Tells stories: casts characters, picks an opening and a plot, and fills every beat."""

import dataclasses
import pathlib
import random

from . import language, template

_FRAME = "frame"
_LISTS = ("words", "traits", "openings", "frame")
_INVENTED_NAME_PERCENT = 25
_DETAIL_PERCENT = 45
_CLOSE_PERCENT = 45


@dataclasses.dataclass
class Opening:
    weight: int
    kind: str  # "where": who lived there; "when": what somebody was doing
    tag: str
    text: str


@dataclasses.dataclass
class Story:
    text: str
    language: str
    plot: str
    opening: str
    hero: str
    friend: str
    cast: dict = dataclasses.field(repr=False)  # the hero's slots, for a sequel


def _rows(path: pathlib.Path) -> list:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


class Teller:
    """Stories in one language. `tell` depends on its random generator alone."""

    def __init__(self, code: str):
        self._language = {"ko": language.Korean, "en": language.English}[code]
        folder = pathlib.Path(__file__).parent / code
        self._words = {}
        for row in _rows(folder / "words.txt"):
            name, options = row.split("=", 1)
            self._words[name.strip()] = template.split_options(options)
        self._traits = [[f.strip() for f in row.split(";")] for row in _rows(folder / "traits.txt")]
        self._openings = []
        for row in _rows(folder / "openings.txt"):
            weight, kind, tag, text = (field.strip() for field in row.split(";"))
            self._openings.append(Opening(int(weight), kind, tag, text))
        self._frame = template.read_plot(folder / "frame.txt")
        self._frame_beats = {beat.name: beat for beat in self._frame.beats}
        self.plots = [template.read_plot(path) for path in sorted(folder.glob("*.txt"))
                      if path.stem not in _LISTS]

    @property
    def openings(self) -> list:
        return [opening.text for opening in self._openings]

    def tell(self, rng: random.Random, sequel_of: Story | None = None) -> Story:
        """One story; with `sequel_of`, another day of the same hero."""
        if sequel_of is None:
            weights = [opening.weight for opening in self._openings]
            opening = rng.choices(self._openings, weights)[0]
        else:
            opening = Opening(1, "sequel", "day", "")
        hero, trait_tag, detail = self._cast_hero(rng)
        if sequel_of is not None:
            hero = sequel_of.cast
        plot = rng.choice([plot for plot in self.plots if opening.tag not in plot.avoid
                           and trait_tag not in plot.avoid])
        values, friend = self._cast_others(hero, rng)
        values["opening"] = opening.text
        values.update(self._time_slots(opening, rng))
        values.update(template.draw_slots(plot, rng))
        text = self._compose(opening, plot, detail if sequel_of is None else "", values, rng)
        formal = rng.random() < 0.5
        return Story(self._language.finish(text, formal), self._language.code, plot.name,
                     opening.text, hero[""], friend[""], hero)

    def _name(self, gender: str, rng: random.Random) -> str:
        words = self._words
        invented = rng.randrange(100) < _INVENTED_NAME_PERCENT
        if not invented:
            return rng.choice(words.get(gender + "s") or words["names"])
        last = words.get("syllables_" + gender) or words["syllables_last"]
        name = ""
        while not name or name in words["not_names"]:
            name = rng.choice(words["syllables_first"]) + rng.choice(last)
        return name

    def _gender(self, kind: str, rng: random.Random) -> str:
        known = {"girl": "girl", "boy": "boy"}
        return known.get(kind) or rng.choice(("girl", "boy"))

    def _cast_hero(self, rng: random.Random):
        kind = rng.choice(self._words["hero_kinds"])
        trait, detail, tag = rng.choice(self._traits)
        gender = self._gender(kind, rng)
        return self._language.hero(self._name(gender, rng), kind, trait, gender), tag, detail

    def _cast_others(self, hero: dict, rng: random.Random):
        kind = rng.choice([k for k in self._words["friend_kinds"] if k != hero[".kind"]])
        gender = self._gender(kind, rng)
        name = self._name(gender, rng)
        while name[0] == hero[""][0]:  # so that the two are easy to tell apart
            name = self._name(gender, rng)
        friend = self._language.hero(name, kind, "", gender)
        values = {"hero" + key: value for key, value in hero.items()}
        values.update({"friend" + key: value for key, value in friend.items()})
        values["elder"] = rng.choice(self._words["elders"])
        values["little"] = rng.choice(self._words["littles"])
        return values, friend

    def _time_slots(self, opening: Opening, rng: random.Random) -> dict:
        """How the first event follows the opening: a new day, or the moment we are in."""
        values = template.draw_slots(self._frame, rng)
        moment = "where" if opening.kind == "where" else "when"
        values["day"] = values["day_" + moment]
        values["winter"] = values["winter_" + moment]
        values["night"] = values["night_now" if opening.tag == "night" else "night_" + moment]
        return values

    def _compose(self, opening, plot, detail: str, values: dict, rng: random.Random) -> str:
        """The whole text: opening, plot and perhaps a closing line, in paragraphs."""
        first = opening.kind
        if first == "when":
            special = "when_" + opening.tag
            first = special if special in self._frame_beats else "when_day"
        lines = [rng.choice(self._frame_beats[first].lines)]
        if detail and opening.kind == "where" and rng.randrange(100) < _DETAIL_PERCENT:
            lines.append(detail)
        paragraphs = [lines]
        for beat in plot.beats:
            if beat.new_paragraph:
                paragraphs.append([])
            if rng.randrange(100) < beat.percent:
                paragraphs[-1].append(rng.choice(beat.lines))
        if rng.randrange(100) < _CLOSE_PERCENT:
            paragraphs[-1].append(rng.choice(self._frame_beats["close"].lines))
        filled = [" ".join(self._fill(line, values, rng) for line in lines)
                  for lines in paragraphs if lines]
        return "\n".join(filled)

    def _fill(self, line: str, values: dict, rng: random.Random) -> str:
        return template.fill(line, values, self._language.inflect, rng)
