"""The Markdown report of a run, from nothing but its results."""

import textwrap

from bench import figures, machine, shape, targets, work
from bench.tables import number, percent, table, times

PEAK_ROWS = (
    ("f32_gflops", "f32 products, GFLOP/s"), ("bf16_gflops", "bf16 dot products, GFLOP/s"),
    ("int8_gops", "int8 dot products, GOP/s"), ("ram_gb_s", "reading RAM, GB/s"),
    ("read_24mb_gb_s", "reading 24 MB, GB/s"),
)  # fmt: skip


# Cores that others may take before a run is called disturbed.
DISTURBING_CORES = 0.1


def _cell(results: dict, model: str, server: str, clients: int) -> dict | None:
    return targets.main_cell(results["cells"], model, server, clients)


def _clients(results: dict, model: str) -> list[int]:
    return sorted({c["clients"] for c in results["cells"] if c["model"] == model and c["is_main"]})


def _machine(results: dict) -> list[str]:
    told = results["machine"]
    caches = ", ".join(f"{name} {size / 2**20:.3g} MiB"
                       for name, size in told["cache_bytes"].items())  # fmt: skip
    measured = results["peaks"]["peaks"]
    head = ["at most", *(f"{p['threads']} thread{'s' * (p['threads'] > 1)}" for p in measured)]
    rows = [[name, *(number(peaks[key]) for peaks in measured)] for key, name in PEAK_ROWS]
    return [
        "## The machine", "",
        f"{told['cpu']} (family/model {told['family']}), {told['cores']} cores, {caches}, "
        f"{told['ram_bytes'] / 2**30:.0f} GiB of RAM; {', '.join(told['flags']) or 'no AVX2'}. "
        f"{told['day']}, load average {results['load_average']:.1f} when the run began.", "",
        *table(head, rows), "",
    ]  # fmt: skip


def _others(results: dict) -> list[str]:
    """How far the figures are to be trusted."""
    taken = sorted(cell["figures"]["others_cpu"] for cell in results["cells"])
    if not taken:
        return []
    middle, worst = figures.median(taken), taken[-1]
    lines = [f"Other processes kept {number(middle)} of the cores busy in the median of the runs "
             f"below, {number(worst)} in the worst."]  # fmt: skip
    if middle > DISTURBING_CORES:
        lines.append("**That is too much: the figures say little about either server.** Threads "
                     "that wait for one another by spinning lose far more than the share of the "
                     "cores that others take.")  # fmt: skip
    return [*textwrap.wrap(" ".join(lines), 100), ""]


def _speed(measured: dict | None) -> str:
    if measured is None:
        return "-"
    return f"{number(measured['tokens_per_s'])} ({number(measured['best_tokens_per_s'])})"


def _pair(measured: dict | None, key: str) -> str:
    if measured is None or measured[key]["p50"] == 0:
        return "-"
    return f"{number(measured[key]['p50'])} / {number(measured[key]['p99'])}"


def _format(results: dict, model: str, server: str) -> str:
    for cell in results["cells"]:
        if cell["is_main"] and (cell["model"], cell["server"]) == (model, server):
            return f" {cell['weights']}"
    return ""


def _end_to_end(results: dict, model: str) -> list[str]:
    rows = []
    for clients in _clients(results, model):
        luna, peer = (_cell(results, model, name, clients) for name in ("luna", "peer"))
        ours = luna["figures"] if luna else None
        theirs = peer["figures"] if peer else None
        rate = figures.ratio(ours and ours["tokens_per_s"], theirs and theirs["tokens_per_s"])
        rows.append([str(clients), str((luna or peer)["tokens"]), _speed(ours), _speed(theirs),
                     times(rate), _pair(ours, "ttft"), _pair(theirs, "ttft"), _pair(ours, "itl"),
                     _pair(theirs, "itl")])  # fmt: skip
    head = ["clients", "tokens each", f"Luna{_format(results, model, 'luna')}, tokens/s",
            f"peer{_format(results, model, 'peer')}, tokens/s", "Luna / peer",
            "first token p50 / p99, ms: Luna", "peer", "between tokens p50 / p99, ms: Luna",
            "peer"]  # fmt: skip
    return table(head, rows)


def _steps(results: dict, model: str) -> list[str]:
    rows = []
    for clients in _clients(results, model):
        for server in ("luna", "peer"):
            cell = _cell(results, model, server, clients)
            if cell is None:
                continue
            measured = cell["figures"]
            rows.append([str(clients), "Luna" if server == "luna" else "peer",
                         f"{cell['weights']}, KV {cell['kv']}", number(measured["itl"]["mean"]),
                         number(cell["floor_ms"]), percent(cell["share_of_floor"]),
                         number(measured["cpu_ms_per_token"]),
                         percent(measured["outside_share"]),
                         percent(measured["client_cpu_share"])])  # fmt: skip
    head = ["clients", "server", "format", "step, ms", "floor, ms", "floor / step",
            "server CPU a token, ms", "of it outside the forward pass",
            "load client, of a core"]  # fmt: skip
    return table(head, rows)


def _formats(results: dict, model: str) -> list[str]:
    """Where number formats other than the main ones were measured."""
    cells = [cell for cell in results["cells"] if cell["model"] == model]
    counts = sorted({cell["clients"] for cell in cells if not cell["is_main"]})
    if not counts:
        return []
    lines = ["### Number formats", "", "Tokens/s, median (best).", ""]
    names = sorted({(c["server"], c["weights"]) for c in cells if c["clients"] in counts})
    rows = []
    for server, weights in names:
        row = [f"{'Luna' if server == 'luna' else 'peer'}, {weights}"]
        for clients in counts:
            found = [c for c in cells if (c["server"], c["weights"], c["clients"]) == (
                server, weights, clients)]  # fmt: skip
            row.append(_speed(found[0]["figures"]) if found else "-")
        rows.append(row)
    best = ["best Luna / best peer"]
    for clients in counts:
        top = {name: max((c["figures"]["tokens_per_s"] for c in cells
                          if (c["server"], c["clients"]) == (name, clients)), default=None)
               for name in ("luna", "peer")}  # fmt: skip
        best.append(times(figures.ratio(top["luna"], top["peer"])))
    head = ["server, weights", *(f"{clients} client{'s' * (clients > 1)}" for clients in counts)]
    return [*lines, *table(head, [*rows, best]), "",
            "A format compares only with its quality: what each costs is not measured here.",
            ""]  # fmt: skip


def _growth(results: dict, model: str) -> list[str]:
    measured = results["growth"].get(model)
    if measured is None:
        return []

    def rows_of(key: str, names: dict[str, str]) -> list[str]:
        """`names`: what a row of the results calls a column, and its head."""
        rows = [[*(str(row[name]) for name in names), number(row["median_step_ms"]),
                 number(row["tokens_per_s"])] for row in measured[key]]  # fmt: skip
        return [*table([*names.values(), "step, ms", "tokens/s"], rows), ""]

    prefill = ", ".join(f"{row['tokens']} tokens at {number(row['tokens_per_s'])} tokens/s"
                        for row in measured["prefill"])  # fmt: skip
    return ["### How cost grows", "",
            f"The backend alone, {measured['numerics']}. Prefill: {prefill}.", "",
            *rows_of("batch", {"batch": "batch", "context": "cached tokens"}),
            *rows_of("context", {"context": "cached tokens", "batch": "batch"}),
            *rows_of("threads", {"threads": "threads", "batch": "batch",
                                 "context": "cached tokens"})]  # fmt: skip


def _model(results: dict, model: str, pictures: dict[str, list[str]]) -> list[str]:
    told = results["models"][model]
    lines = [f"## {told['title']}", "",
             f"{told['products'] / 1e6:.1f} M products a token; {told['kv_values']:,} values of KV "
             f"cache a token; the file's weights are {told['file_format']}.", ""]  # fmt: skip
    lines += [*_end_to_end(results, model), ""]
    lines += [line for name in pictures.get(model, []) for line in (f"![{name}]({name})", "")]
    lines += ["### The step and its floor", "", *_steps(results, model), ""]
    lines += _formats(results, model) + _growth(results, model)
    commands = [cell["command"] for cell in results["cells"]
                if cell["model"] == model and cell["is_main"]
                and cell["clients"] == _clients(results, model)[-1]]  # fmt: skip
    return [*lines, "Commands, for the most clients:", "",
            *(f"    {command}" for command in commands), ""]  # fmt: skip


def _targets(results: dict) -> list[str]:
    kind = machine.kind(results["machine"])
    rows = [[row.name, number(row.value) if row.value is not None else "not measured",
             number(row.target), number(row.floor) if row.floor else "-",
             "-" if row.met is None else "yes" if row.met else "no"]
            for row in targets.reached(results, kind)]  # fmt: skip
    if not rows:
        return []
    return ["## Targets", "", f"For machines like {targets.load()['kinds'][kind]}.", "",
            *table(["", "reached", "target", "floor allows", "met"], rows), ""]  # fmt: skip


def _method(results: dict) -> list[str]:
    peer = results["peer"] or "none"
    text = (
        f"Peer: {peer}. Servers and load clients are processes of their own on the same cores, "
        f"over loopback: gRPC for Luna, streaming HTTP for the peer. Greedy, end tokens ignored; "
        f"prompts of {work.PROMPT_TOKENS} random token ids, the same ones for both, and no prompt "
        f"twice; all clients of a round start together. {results['rounds']} rounds of each server, "
        f"in turn, after a short one that does not count. Speeds are the median round and, in "
        f"brackets, the best; percentiles are the medians of the rounds' percentiles; gaps between "
        f"tokens are taken once every client has its first. The peer gets as many slots as there "
        f"are clients and its own defaults for batch sizes, flash attention and KV format. A step "
        f"is the mean gap between tokens."
    )
    floor = shape.__doc__.split("\n\n")
    return ["## How it was measured", "", *textwrap.wrap(text, 100), "", *floor[1].splitlines(), "",
            floor[2], "", *floor[3].strip().splitlines(), "",
            *textwrap.wrap(" ".join(figures.outside_share.__doc__.split()), 100), ""]  # fmt: skip


def render(results: dict, pictures: dict[str, list[str]]) -> str:
    """`pictures`: names of the plots' files by model."""
    lines = ["# Benchmark", "", *_machine(results), *_others(results)]
    for model in results["models"]:
        if _clients(results, model):
            lines += _model(results, model, pictures)
    lines += _targets(results) + _method(results)
    for title, key in (("Skipped", "skipped"), ("Failed", "failures")):
        if results[key]:
            first_lines = [text.splitlines()[0] for text in results[key]]
            lines += [f"## {title}", "", *(f"- {line}" for line in first_lines), ""]
    return "\n".join(lines)
