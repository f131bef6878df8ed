"""How the cost of a step grows with the batch, the cached tokens and the threads.

Of the backend alone, without scheduler or server.
"""

import json
import pathlib
import subprocess

from bench.work import Found

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
CONTEXTS = (32, 64, 128, 256, 512, 1024, 2048)
CACHED = 250  # where the batch or the threads vary
CONTEXT_BATCH = 8  # where the cached tokens vary
THREAD_BATCHES = (1, 8, 30)
STEPS = 40  # of a measurement at most: they need room in the context
PASSES = 3  # the quickest of each point counts: what else happens on a machine only adds


def thread_counts(most: int) -> list[int]:
    """1, 2, 4, ... and all."""
    counts = []
    count = 1
    while count < most:
        counts.append(count)
        count *= 2
    return [*counts, most]


def quickest(passes: list[dict]) -> dict:
    """Of the same run, measured several times: the quickest of each point."""
    best = dict(passes[0])
    best["decode"] = [min(rows, key=lambda row: row["median_step_ms"])
                      for rows in zip(*[one["decode"] for one in passes])]  # fmt: skip
    best["prefill"] = [min(rows, key=lambda row: row["ms"])
                       for rows in zip(*[one["prefill"] for one in passes])]  # fmt: skip
    return best


def _run(binaries: pathlib.Path, found: Found, threads: int, batches: list[int],
         contexts: list[int], extra: list[str], out: pathlib.Path) -> dict:  # fmt: skip
    def listed(numbers: list[int]) -> str:
        return ",".join(str(number) for number in numbers)

    command = [str(binaries / "luna-backend-bench"), str(found.path), "--threads", str(threads),
               "--batches", listed(batches), "--contexts", listed(contexts), "--json", str(out),
               *extra]  # fmt: skip
    passes = []
    for _ in range(PASSES):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        passes.append(json.loads(out.read_text(encoding="utf-8")))
    return quickest(passes)


def sweep(binaries: pathlib.Path, found: Found, threads: int, extra: list[str],
          out: pathlib.Path) -> dict:  # fmt: skip
    """`extra` are options of luna-backend-bench."""
    longest = found.shape.context - STEPS
    contexts = [context for context in CONTEXTS if context <= longest]
    # The last point of a model whose context ends between two.
    if contexts[-1] != CONTEXTS[-1]:
        contexts.append(longest)
    by_threads = []
    for count in thread_counts(threads):
        run = _run(binaries, found, count, list(THREAD_BATCHES), [CACHED], extra, out)
        by_threads += [{**row, "threads": count} for row in run["decode"]]
    batch = _run(binaries, found, threads, list(BATCHES), [CACHED], extra, out)
    context = _run(binaries, found, threads, [CONTEXT_BATCH], contexts, extra, out)
    return {"numerics": batch["numerics"], "prefill": batch["prefill"], "batch": batch["decode"],
            "context": context["decode"], "threads": by_threads}  # fmt: skip
