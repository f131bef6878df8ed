"""The sections of a run: in which order, within which time, and what became of each."""

import dataclasses
import time
from collections.abc import Callable


class Unavailable(Exception):
    """What a section needs is not here; the message says what."""


class Failure(Exception):
    """Something is wrong; the message says what."""


class NoDevice(Exception):
    """There is nothing to check: no section behind this one can do anything."""


@dataclasses.dataclass
class Section:
    """`notes` say what was left out and why, `failures` what is wrong."""

    name: str
    status: str = "skipped"  # ok, failed, skipped
    seconds: float = 0.0
    notes: list[str] = dataclasses.field(default_factory=list)
    failures: list[str] = dataclasses.field(default_factory=list)
    data: dict = dataclasses.field(default_factory=dict)
    is_last: bool = False  # it makes no sense to go on


class Budget:
    """Time for the whole run, from when this is made."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic):
        self.seconds = seconds
        self.clock = clock
        self.start = clock()

    def elapsed(self) -> float:
        return self.clock() - self.start

    def left(self) -> float:
        return self.seconds - self.elapsed()


class Deadline:
    """Of one section: its own, or the budget's if that is earlier."""

    def __init__(self, budget: Budget, seconds: float):
        self.budget = budget
        self.end = budget.elapsed() + min(seconds, budget.left())

    def left(self) -> float:
        return self.end - self.budget.elapsed()


@dataclasses.dataclass(frozen=True)
class Step:
    """A section to come. It is not begun with less than `least` seconds left, and gets `most`."""

    name: str
    least: float
    most: float
    run: Callable[[Section, Deadline], None]


def _do(step: Step, budget: Budget, skip: set[str]) -> Section:
    section = Section(step.name)
    start = budget.elapsed()
    if step.name in skip:
        section.notes.append("left out, as asked")
        return section
    if budget.left() < step.least:
        section.notes.append(f"left out: {max(0, budget.left()):.0f} s of the budget were left, "
                             f"and it wants {step.least:.0f}")  # fmt: skip
        return section
    try:
        step.run(section, Deadline(budget, step.most))
    except Unavailable as why:
        section.notes.append(str(why))
    except (Failure, NoDevice) as why:
        section.failures.append(str(why))
        section.is_last = isinstance(why, NoDevice)
    section.seconds = budget.elapsed() - start
    if section.failures:
        section.status = "failed"
    elif section.data:
        section.status = "ok"
    return section


def run(steps: list[Step], budget: Budget, skip: set[str],
        on_begin: Callable[[Step], None], on_end: Callable[[Section], None]) -> None:  # fmt: skip
    """In their order, up to one that finds NoDevice."""
    for step in steps:
        on_begin(step)
        section = _do(step, budget, skip)
        on_end(section)
        if section.is_last:
            return
