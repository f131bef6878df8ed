#!/usr/bin/env python3
"""Measures Luna end to end and, where there is one, llama-server beside it, on the same work.

Writes results.json, report.md and plots. All rounds of one model and number of clients are run in
turn, one of each server after the other, so that what else happens on the machine meets both.
"""

import argparse
import json
import pathlib
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from bench import contest, plots, report, servers, work  # noqa: E402

QUICK_CLIENTS = (1, 30)


def numbers(text: str) -> tuple[int, ...]:
    found = tuple(int(part) for part in text.split(","))
    if min(found) < 1:
        raise ValueError(text)
    return found


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.splitlines()[0])
    keys = [model.key for model in work.MODELS]
    parser.add_argument("--models", default=",".join(keys), help="of them (default: %(default)s)")
    parser.add_argument("--clients", type=numbers, help="at the same time (default: 1,2,...,64)")
    parser.add_argument("--rounds", type=int, help="that count (default: 3; 2 with --quick)")
    parser.add_argument("--tokens", type=int,
                        help="for each client (default: fewer for slower models)")  # fmt: skip
    parser.add_argument("--peer", metavar="PATH", help="llama-server (default: on PATH); none: off")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "bench")
    parser.add_argument("--quick", action="store_true", help="two minutes: Luna's shape, 1 and 30")
    parser.add_argument("--luna-arg", action="append", default=[], metavar="ARG",
                        help="an argument for luna-server: --luna-arg=--threads=1")  # fmt: skip
    parser.add_argument("--peer-arg", action="append", default=[], metavar="ARG",
                        help="an argument for llama-server")  # fmt: skip
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--render", type=pathlib.Path, metavar="RESULTS",
                        help="measure nothing; write the report of these again")  # fmt: skip
    options = parser.parse_args(arguments)
    if options.quick:
        options.models = "luna"
    options.clients = options.clients or (QUICK_CLIENTS if options.quick else work.CLIENTS)
    options.rounds = options.rounds or (2 if options.quick else 3)
    wanted = options.models.split(",")
    unknown = set(wanted) - set(keys)
    if unknown:
        parser.error(f"--models {', '.join(sorted(unknown))}: there are {', '.join(keys)}")
    options.out = options.out.resolve()
    options.models = [model.with_tokens(options.tokens) if options.tokens else model
                      for model in work.MODELS if model.key in wanted]  # fmt: skip
    return options


def write(results: dict, out: pathlib.Path) -> None:
    pictures = plots.draw(results, out)
    (out / "report.md").write_text(report.render(results, pictures), encoding="utf-8")
    contest.say(f"the report is {out / 'report.md'}")


def main() -> int:
    options = parse(sys.argv[1:])
    # As Ctrl-C: servers are stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if options.render:
        write(json.loads(options.render.read_text(encoding="utf-8")), options.out)
        return 0
    try:
        results = contest.Contest(options).run(ROOT / "models")
    except (servers.ServerError, subprocess.CalledProcessError, OSError) as error:
        contest.say(str(error))
        return 1
    write(results, options.out)
    return 1 if results["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
