"""GoogleTest programs: which tests there are, and running them so that a crash costs one test."""

import concurrent.futures
import dataclasses
import pathlib
import re

from gpu_check.commands import Commands
from gpu_check.sections import Deadline, Failure

LINE = re.compile(r"\[\s*(RUN|OK|FAILED|SKIPPED)\s*\] ([^\s,]+)")
END = re.compile(r"^\[=+\] \d+ tests? from .* ran\.", re.MULTILINE)
MOST_CRASHES = 5  # of one process after the other


@dataclasses.dataclass
class Results:
    passed: list[str] = dataclasses.field(default_factory=list)
    failed: list[str] = dataclasses.field(default_factory=list)
    skipped: list[str] = dataclasses.field(default_factory=list)
    crashed: list[str] = dataclasses.field(default_factory=list)  # ended their process
    not_run: list[str] = dataclasses.field(default_factory=list)

    def add(self, other: "Results") -> None:
        for field in dataclasses.fields(self):
            getattr(self, field.name).extend(getattr(other, field.name))


def read_list(output: str) -> list[str]:
    """Names from --gtest_list_tests."""
    names, suite = [], ""
    for line in output.splitlines():
        text = line.split("#")[0].rstrip()
        if text.startswith("  "):
            names.append(suite + text.strip())
        elif text.endswith("."):
            suite = text
    return names


def read_run(output: str) -> tuple[Results, str | None]:
    """What became of the tests, and the one that was running when the process ended."""
    end = END.search(output)
    results, open_test = Results(), None
    into = {"OK": results.passed, "FAILED": results.failed, "SKIPPED": results.skipped}
    for word, name in LINE.findall(output[: end.start()] if end else output):
        if word == "RUN":
            open_test = name
        elif name == open_test:  # not what a test prints of its own
            into[word].append(name)
            open_test = None
    return results, None if end else open_test


def _run_shard(commands: Commands, program: pathlib.Path, names: list[str],
               env: dict[str, str], deadline: Deadline) -> Results:  # fmt: skip
    results, left = Results(), list(names)
    while left and len(results.crashed) <= MOST_CRASHES and deadline.left() > 1:
        done = commands.run([str(program), f"--gtest_filter={':'.join(left)}"],
                            deadline.left(), env)  # fmt: skip
        found, running = read_run(done.output)
        results.add(found)
        seen = {*found.passed, *found.failed, *found.skipped}
        if done.code is not None and running:
            results.crashed.append(running)
            seen.add(running)
        elif done.code not in (0, 1, None):
            results.crashed.append(f"{program.name}, outside of its tests")
        if not seen or done.code is None:
            break
        left = [name for name in left if name not in seen]
    done_with = {*results.passed, *results.failed, *results.skipped, *results.crashed}
    results.not_run = [name for name in names if name not in done_with]
    return results


def run(commands: Commands, program: pathlib.Path, pattern: str, shards: int,
        env: dict[str, str], deadline: Deadline) -> Results:  # fmt: skip
    """The tests of `pattern`, in `shards` processes at a time."""
    listed = commands.must([str(program), "--gtest_list_tests", f"--gtest_filter={pattern}"],
                           deadline.left(), env)  # fmt: skip
    names = read_list(listed.output)
    if not names:
        raise Failure(f"{program.name} has no test that is called {pattern}")
    parts = [names[i::shards] for i in range(shards) if names[i::shards]]
    results = Results()
    with concurrent.futures.ThreadPoolExecutor(len(parts)) as pool:
        for part in pool.map(
            lambda part: _run_shard(commands, program, part, env, deadline), parts):  # fmt: skip
            results.add(part)
    return results
