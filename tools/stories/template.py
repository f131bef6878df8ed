"""Reads plot files and fills their sentences.

A plot file is plain text:

    # a comment
    avoid = winter | night            openings and traits with these tags do not fit
    thing = a red scarf | a small bell                 one slot
    fear ; cave = the dark ; a cave | water ; a river  slots chosen together
    spot1 & spot2 = the pond | the mill | the hill     slots that must differ
    == loss                           a beat; one of its lines is chosen
    {day} {hero:은} {thing:을} [잃어버렸어요|잃고 말았어요].
    == search 60                      a beat that is told in 60 % of the stories
    ...
    --                                a new paragraph starts with the next beat

In a line, `[a|b]` is a choice and `{slot}` or `{slot:form}` a filled slot; what the forms are is up
to the language.
"""

import dataclasses
import pathlib
import random
import re

_SLOT = re.compile(r"\{([A-Za-z0-9_.]+)(?::([^}]+))?\}")
_CHOICE = re.compile(r"\[([^\[\]]*)\]")


@dataclasses.dataclass
class Beat:
    name: str
    percent: int
    lines: list
    new_paragraph: bool


@dataclasses.dataclass
class Plot:
    name: str
    avoid: frozenset
    slots: list  # (names, how, options): how is ";" chosen together, "&" all different, "" single
    beats: list


def split_options(text: str) -> list:
    return [part.strip() for part in text.split("|")]


def _read_slot(left: str, right: str):
    options = split_options(right)
    if ";" in left:
        names = [name.strip() for name in left.split(";")]
        rows = [[field.strip() for field in option.split(";")] for option in options]
        for row in rows:
            if len(row) != len(names):
                raise ValueError(f"slot '{left.strip()}' has {len(names)} names, option {row} "
                                 f"has {len(row)} fields")
        return names, ";", rows
    if "&" in left:
        return [name.strip() for name in left.split("&")], "&", options
    return [left.strip()], "", options


def parse_plot(name: str, text: str) -> Plot:
    plot = Plot(name, frozenset(), [], [])
    new_paragraph = False
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if line == "--":
            new_paragraph = True
        elif line.startswith("=="):
            fields = line[2:].split()
            percent = int(fields[1]) if len(fields) > 1 else 100
            plot.beats.append(Beat(fields[0], percent, [], new_paragraph))
            new_paragraph = False
        elif plot.beats:
            plot.beats[-1].lines.append(line)
        elif "=" in line:
            left, right = line.split("=", 1)
            if left.strip() == "avoid":
                plot.avoid = frozenset(split_options(right))
            else:
                plot.slots.append(_read_slot(left, right))
        else:
            raise ValueError(f"plot '{name}' line {number}: '{line}' is neither a slot nor a beat")
    for beat in plot.beats:
        if not beat.lines:
            raise ValueError(f"plot '{name}': beat '{beat.name}' has no lines")
    return plot


def read_plot(path: pathlib.Path) -> Plot:
    return parse_plot(path.stem, path.read_text(encoding="utf-8"))


def draw_slots(plot: Plot, rng: random.Random) -> dict:
    """One value for every slot of the plot."""
    values = {}
    for names, how, options in plot.slots:
        if how == ";":
            values.update(zip(names, rng.choice(options)))
        else:
            values.update(zip(names, rng.sample(options, len(names))))
    return values


def fill(line: str, values: dict, inflect, rng: random.Random) -> str:
    """The line with its choices made and its slots filled.

    `inflect(value, form)` gives the form of a value that the template asks for. A value may hold
    slots itself.
    """
    while _CHOICE.search(line):
        line = _CHOICE.sub(lambda match: rng.choice(match.group(1).split("|")), line)

    def slot(match):
        name, form = match.group(1), match.group(2)
        if name not in values:
            raise ValueError(f"line '{line}' asks for slot '{name}', which is not defined")
        value = values[name]
        if "{" in value or "[" in value:
            value = fill(value, values, inflect, rng)
        return inflect(value, form) if form else value

    return _SLOT.sub(slot, line)
