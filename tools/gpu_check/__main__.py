#!/usr/bin/env python3
"""Builds the GPU backend, proves it on the GPU that is here, and measures it, within eight minutes.

Writes report.json and report.md, and all that was said into log.txt. Each section says what it could
not do; without a GPU that Luna can use, the run ends behind the build.
"""

import argparse
import dataclasses
import json
import pathlib
import signal
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from bench import machine  # noqa: E402
from gpu_check import measure, pack, proof, report, sections  # noqa: E402
from gpu_check.commands import first_line  # noqa: E402
from gpu_check.house import House  # noqa: E402

# In order; the least seconds with which each is begun, the most it gets.
PLAN = (
    ("build", proof.build, 1, 3600), ("device", proof.device, 1, 60),
    ("limits", measure.limits, 5, 40), ("tests", proof.tests, 20, 120),
    ("greedy", proof.greedy, 15, 80), ("sanitizer", proof.sanitizer, 15, 75),
    ("steps", measure.steps, 10, 75), ("serve", measure.serve, 15, 75),
    ("lesson", measure.lesson, 15, 60), ("torch", measure.torch, 20, 90),
)  # fmt: skip
NAMES = [name for name, *_ in PLAN]
FAILED, NO_DEVICE = 1, 2  # exit status


def names(text: str) -> list[str]:
    found = text.split(",")
    unknown = set(found) - set(NAMES)
    if unknown:
        raise argparse.ArgumentTypeError(
            f"{', '.join(sorted(unknown))}: there are {', '.join(NAMES)}")  # fmt: skip
    return found


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--skip", type=names, action="extend", default=[], metavar="SECTION,...",
                        help=f"of {', '.join(NAMES)}")  # fmt: skip
    parser.add_argument("--minutes", type=float, default=8.0,
                        help="for all of it; what no longer fits is left out (default: 8)")  # fmt: skip
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "gpu_check")
    parser.add_argument("--architectures", metavar="LIST",
                        help="to build kernels for, as CMake names them: 90-real saves two thirds "
                        "of that time on an H100 or H200 (default: all that Luna has)")  # fmt: skip
    parser.add_argument("--torch-python", metavar="PATH",
                        help="an interpreter that has PyTorch (default: looked for)")  # fmt: skip
    parser.add_argument("--pack", type=pathlib.Path, metavar="DIR",
                        help="only build, and make DIR: programs and libraries for a machine with "
                        "a GPU that cannot build")  # fmt: skip
    parser.add_argument("--packed", type=pathlib.Path, metavar="DIR",
                        help="build nothing; take what --pack made")  # fmt: skip
    parser.add_argument("--render", type=pathlib.Path, metavar="REPORT_JSON",
                        help="only write the table of this again")  # fmt: skip
    options = parser.parse_args(arguments)
    for name in ("out", "pack", "packed"):
        path = getattr(options, name)
        setattr(options, name, path.resolve() if path else None)
    options.binaries = options.packed / "bin" if options.packed else ROOT / "build/cuda/bin"
    return options


class Progress:
    """A line on standard error, with the seconds so far."""

    def __init__(self, budget: sections.Budget):
        self.budget = budget

    def __call__(self, text: str) -> None:
        print(f"gpu_check: [{self.budget.elapsed():4.0f} s] {text}", file=sys.stderr, flush=True)

    def begin(self, step: sections.Step) -> None:
        self(f"{step.name} ...")

    def end(self, section: sections.Section) -> None:
        self(f"{section.name}: {section.status}, {section.seconds:.0f} s")
        for text in [*section.failures, *section.notes]:
            self(f"{section.name}: {text.splitlines()[0] if text else ''}")


def commit() -> str | None:
    return first_line(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"])


def result_of(house: House, budget: sections.Budget, done: list[sections.Section]) -> dict:
    told = machine.describe()
    return {
        "day": told["day"], "machine": told, "device": house.device, "versions": house.versions,
        "budget_s": budget.seconds, "seconds": budget.elapsed(),
        "sections": {section.name: {key: value for key, value in vars(section).items()
                                    if key not in ("name", "is_last")} for section in done},
    }  # fmt: skip


def write(results: dict, out: pathlib.Path) -> None:
    text = json.dumps(results, indent=1, ensure_ascii=False)
    (out / "report.json").write_text(text + "\n", encoding="utf-8")
    (out / "report.md").write_text(report.render(results), encoding="utf-8")


def check(options: argparse.Namespace) -> int:
    budget = sections.Budget(60 * options.minutes)
    say = Progress(budget)
    house = House(options, ROOT)
    house.versions["commit"] = commit()
    if options.packed:
        house.versions.update(pack.use(options.packed))
    plan = [sections.Step(name, least, most,
                          lambda section, deadline, run=run: run(house, section, deadline))
            for name, run, least, most in PLAN]  # fmt: skip
    done: list[sections.Section] = []

    def end(section: sections.Section) -> None:
        done.append(section)
        say.end(section)
        if section.name == "device":
            house.versions["cuda"] = house.device.get("runtime_cuda")
        write(result_of(house, budget, done), options.out)

    sections.run(plan, budget, set(options.skip), say.begin, end)
    last = done[-1]
    if last.is_last:
        print(f"gpu_check: {last.failures[0]}", file=sys.stderr)
        return NO_DEVICE
    failed = [section.name for section in done if section.status == "failed"]
    say(f"{options.out / 'report.md'}" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return FAILED if failed else 0


def make_pack(options: argparse.Namespace) -> int:
    budget = sections.Budget(3600)
    say = Progress(budget)
    house = House(options, ROOT)
    house.versions["commit"] = commit()
    section = sections.Section("build")
    try:
        proof.build(house, section, sections.Deadline(budget, budget.seconds))
        size = pack.make(house.binaries, proof.TARGETS, options.pack, house.versions)
    except (sections.Failure, sections.Unavailable) as why:
        say(str(why))
        return FAILED
    inside = options.pack.is_relative_to(ROOT)
    place = options.pack.relative_to(ROOT) if inside else options.pack
    say(f"{place}: {size / 2**20:.0f} MiB; with this source tree, on the other machine: "
        f"python3 tools/gpu_check --packed {place}")  # fmt: skip
    return 0


def main() -> int:
    options = parse(sys.argv[1:])
    # As Ctrl-C: what was started is stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    options.out.mkdir(parents=True, exist_ok=True)
    if options.render:
        results = json.loads(options.render.read_text(encoding="utf-8"))
        (options.out / "report.md").write_text(report.render(results), encoding="utf-8")
        return 0
    with tempfile.TemporaryDirectory(prefix="gpu_check.") as scratch:
        options.scratch = pathlib.Path(scratch)
        try:
            return make_pack(options) if options.pack else check(options)
        except sections.Failure as why:
            print(f"gpu_check: {why}", file=sys.stderr)
            return FAILED


if __name__ == "__main__":
    sys.exit(main())
