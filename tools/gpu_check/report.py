"""The Markdown of a run, from nothing but report.json: ready for docs/benchmarks.md."""

import textwrap

from bench.tables import number, table

# Microseconds a step that the kernels and their graph were designed for, on an H200; sampling
# included, 250 cached tokens on average.
AIMED_AT_US = {"luna": {1: 120, 30: 160, 64: 200}, "smollm2": {1: 400, 30: 460, 64: 540}}
# What the lesson says of an RTX 4090 and PyTorch, Luna's shape: the total of batch 1, whose steps are
# a 500th of it, and a step of batch 64. By batch and whether there is a cache: s, ms.
PUBLISHED = {(1, False): (0.75, 1.5), (1, True): (0.61, 1.22),
             (64, False): (None, 21.8), (64, True): (None, 2.7)}  # fmt: skip
TITLES = {"luna-tiny": "luna-tiny", "luna": "Luna's shape", "smollm2": "SmolLM2-135M"}
WAYS = {"greedy": "", "sampled": ", temperature 0.8, top-p 0.95",
        "serial": ", kernels that do not overlap"}  # fmt: skip
LIMITS = (
    ("graph_node_us", "from one kernel of a graph to the next, one small block, µs"),
    ("wide_graph_node_us", "the same, a block on every multiprocessor, µs"),
    ("stream_kernel_us", "from one kernel to the next, launched one by one, µs"),
    ("graph_launch_us", "launching a graph, the host's part, µs"),
    ("graph_round_trip_us", "a graph of one kernel until the host knows, µs"),
    ("step_round_trip_us", "the same with 4 KiB copied in and out, µs"),
    ("copy_within_gb_s", "copying within the device (bytes read and written), GB/s"),
    ("copy_in_gb_s", "from page-locked memory to the device, GB/s"),
    ("copy_out_gb_s", "back, GB/s"),
)


def _section(results: dict, name: str) -> dict:
    return results["sections"].get(name, {}).get("data", {})


def _title(row: dict) -> str:
    random = ", random weights" if row["path"].startswith("dummy:") else ""
    return TITLES.get(row["model"], row["model"]) + random


def _machine(results: dict) -> list[str]:
    device, versions, host = results["device"], results["versions"], results["machine"]
    parts = [f"{results['day']}, {device.get('name', 'no GPU')}"]
    if "compute_capability" in device:
        parts.append(f"compute capability {device['compute_capability']}, "
                     f"{device['multiprocessors']} multiprocessors, "
                     f"{device.get('memory_bytes', 0) / 2**30:.0f} GiB")  # fmt: skip
    parts.append(f"{host['cores']} cores of {host['cpu']}")
    told = [f"{name} {versions[key]}" for key, name in
            (("driver", "driver"), ("cuda", "CUDA runtime"), ("nvcc", "nvcc:"),
             ("torch", "PyTorch"), ("commit", "commit")) if versions.get(key)]  # fmt: skip
    text = "; ".join(parts) + ". " + ", ".join(told) + "."
    return [*textwrap.wrap(text, 100), "", "    ./dev gpu", ""]


def _limits(results: dict) -> list[str]:
    found = _section(results, "limits")
    if not found:
        return []
    rows = [[name, number(found[key])] for key, name in LIMITS if key in found]
    return [*table(["the device at most", ""], rows), ""]


def _proof(results: dict) -> list[str]:
    rows = []
    for suite in _section(results, "tests").get("suites", []):
        wrong = [f"{len(suite[key])} {name}" for key, name in
                 (("failed", "failed"), ("crashed", "crashed"), ("not_run", "not run"))
                 if suite[key]]  # fmt: skip
        told = ", ".join([f"{suite['passed']} passed", *wrong, f"{suite['skipped']} skipped"])
        rows.append([f"{suite['name']} on the device", told])
    for row in _section(results, "sanitizer").get("rows", []):
        errors = "no summary" if row["errors"] is None else f"{row['errors']} errors"
        rows.append([f"compute-sanitizer {row['check']}, {row['weights']}", errors])
    return [*table(["proof", ""], rows), ""] if rows else []


def _greedy(results: dict) -> list[str]:
    rows = []
    for row in _section(results, "greedy").get("rows", []):
        for prompt in row["prompts"]:
            first = prompt["first_difference"]
            parts = [prompt["generated"], prompt["read_in_chunks"]]
            largest = max((part["largest_logprob_difference"] or 0.0) for part in parts)
            read = prompt["read_in_chunks"]
            rows.append([TITLES.get(row["model"], row["model"]), row["weights"],
                         str(prompt["prompt_tokens"]), str(prompt["tokens"]),
                         "none" if first is None else str(first),
                         number(prompt.get("margin")), f"{largest:.2g}",
                         f"{read['same_choice']} of {read['places']}"])  # fmt: skip
    if not rows:
        return []
    head = ["model", "weights", "prompt tokens", "greedy tokens", "first other than the CPU's",
            "the CPU's margin there, nats", "largest difference of a log-probability",
            "same choice, reading the CPU's text"]  # fmt: skip
    return ["### Words, beside the CPU's", "", *table(head, rows), ""]


def _decode(row: dict, batch: int, in_flight: int) -> dict | None:
    found = [one for one in row["decode"] if (one["batch"], one["in_flight"]) == (batch, in_flight)]
    return found[0] if found else None


def _step_cell(row: dict, batch: int) -> str:
    cells = [_decode(row, batch, in_flight) for in_flight in (2, 1)]
    return " / ".join(number(cell["step_us"]) if cell else "-" for cell in cells)


def _steps(results: dict) -> list[str]:
    rows = _section(results, "steps").get("rows", [])
    if not rows:
        return []
    batches = sorted({one["batch"] for row in rows for one in row["decode"]})
    cells = []
    for row in rows:
        cells.append([f"{_title(row)}, {row['weights']}, KV {row['kv']}{WAYS[row['way']]}",
                      *(_step_cell(row, batch) for batch in batches),
                      number(row["prefill_ms"]), number(row["prefill_tokens_per_s"])])  # fmt: skip
    for model, aims in AIMED_AT_US.items():
        cells.append([f"aimed at on an H200: {TITLES[model]}",
                      *(number(aims.get(batch)) for batch in batches), "-", "-"])  # fmt: skip
    cached = rows[0]["decode"][0]["mean_cached"] if rows[0]["decode"] else 0
    head = ["", *(f"batch {batch}" for batch in batches),
            f"prefill of {rows[0]['prefill_tokens']}, ms", "tokens/s"]  # fmt: skip
    text = (f"Microseconds a step, the median, {number(cached)} cached tokens on average, sampling "
            f"included: with two steps in flight, as the engine does, / with one.")  # fmt: skip
    return ["### A step alone", "", *textwrap.wrap(text, 100), "", *table(head, cells), ""]


def _serve(results: dict) -> list[str]:
    rows = [[f"{_title(row)}, {row['weights']}, KV {row['kv']}", str(row["clients"]),
             str(row["tokens"]), f"{number(row['tokens_per_s'])} "
             f"({number(row['best_tokens_per_s'])})",
             *(f"{number(row[key]['p50'])} / {number(row[key]['p99'])}"
               for key in ("ttft_ms", "itl_ms"))]
            for row in _section(results, "serve").get("rows", [])]  # fmt: skip
    if not rows:
        return []
    head = ["", "clients", "tokens each", "tokens/s, median (best)", "first token p50 / p99, ms",
            "between tokens p50 / p99, ms"]  # fmt: skip
    return ["### Over gRPC, end to end", "", *table(head, rows), ""]


def _lesson(results: dict) -> list[str]:
    sources: dict[str, dict] = {}
    for name, section in (("Luna", "lesson"), ("PyTorch eager", "torch")):
        for row in _section(results, section).get("rows", []):
            sources.setdefault(f"{name}, {row['weights']}", {})[row["batch"], row["kv_cache"]] = (
                row["total_s"], row["step_ms"])  # fmt: skip
    if not sources:
        return []
    sources["published: RTX 4090, PyTorch"] = PUBLISHED
    rows = []
    for batch, kv_cache in PUBLISHED:
        cells = [source.get((batch, kv_cache)) for source in sources.values()]
        rows.append([str(batch), "yes" if kv_cache else "no",
                     *(f"{number(cell[0])} / {number(cell[1])}" if cell else "-"
                       for cell in cells)])  # fmt: skip
    return ["### The lesson: 500 tokens with and without a KV cache", "",
            "Luna's shape; seconds in all / milliseconds a step. Luna over gRPC, PyTorch in a loop.",
            "", *table(["batch", "KV cache", *sources], rows), ""]  # fmt: skip


def _left_out(results: dict) -> list[str]:
    lines = []
    for name, section in results["sections"].items():
        for kind in ("failures", "notes"):
            for text in section[kind]:
                first, *rest = text.splitlines() or [""]
                word = "**failed**: " if kind == "failures" else ""
                lines.append(f"- {name}: {word}{first}{' ...' if rest else ''}")
    return ["### What is wrong, and what was left out", "", *lines, ""] if lines else []


def render(results: dict) -> str:
    lines = ["## On a GPU", "", *_machine(results), *_limits(results), *_steps(results),
             *_serve(results), *_lesson(results), *_greedy(results), *_proof(results),
             *_left_out(results)]  # fmt: skip
    return "\n".join(lines)
