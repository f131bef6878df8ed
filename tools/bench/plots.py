"""Plots of a run, as PNG files beside the report."""

import pathlib

import matplotlib

matplotlib.use("Agg")  # no display

from matplotlib import pyplot, ticker  # noqa: E402

from bench import targets  # noqa: E402

# Okabe and Ito's palette, told apart with any kind of colour vision; marks differ too.
LUNA = {"color": "#0072B2", "marker": "o"}
PEER = {"color": "#D55E00", "marker": "s"}
BATCH_COLORS = ("#0072B2", "#E69F00", "#009E73")
SIDES = (("luna", "Luna", LUNA), ("peer", "llama-server", PEER))
SIZE = (10.5, 7.5)


def _logarithmic(axis) -> None:
    """Ticks at round numbers, written plainly; more of them where the values are close together."""
    low, high = axis.get_view_interval()
    subs = (1, 1.5, 2, 3, 4, 5, 7) if high < 8 * low else (1, 2, 5)
    axis.set_major_locator(ticker.LogLocator(subs=subs, numticks=9))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_locator(ticker.NullLocator())


def _axes(axes, title: str, x: str, y: str, ticks: list[int] | None, log_y: bool = True) -> None:
    """`ticks`: of a scale of powers of two; none: a logarithmic scale that fits the values."""
    axes.set_title(title, fontsize=11, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if ticks is None:
        axes.set_xscale("log")
        _logarithmic(axes.xaxis)
    else:
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks)
        axes.xaxis.set_major_formatter(ticker.ScalarFormatter())
        axes.xaxis.set_minor_locator(ticker.NullLocator())
    if log_y:
        axes.set_yscale("log")
        _logarithmic(axes.yaxis)
    else:
        axes.set_ylim(bottom=0)
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _line(axes, xs: list, ys: list, label: str, style: dict, dashed: bool = False) -> None:
    if xs:
        axes.plot(xs, ys, label=label, linewidth=1.8, markersize=5,
                  linestyle="--" if dashed else "-", **style)  # fmt: skip


def _finish(figure, title: str, path: pathlib.Path) -> str:
    figure.suptitle(title, fontsize=13, x=0.02, ha="left")
    figure.tight_layout(rect=(0, 0, 1, 0.97))
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return path.name


def _machine_name(results: dict) -> str:
    told = results["machine"]
    return f"{told['cpu']}, {told['cores']} cores, {results['peaks']['path']}"


def _clients_plot(results: dict, model: str, path: pathlib.Path) -> str | None:
    """Tokens/s, first token and gaps against the number of clients; and the whole distribution."""
    cells = [c for c in results["cells"] if c["model"] == model and c["is_main"]]
    counts = sorted({cell["clients"] for cell in cells})
    if not counts:
        return None
    figure, grid = pyplot.subplots(2, 2, figsize=SIZE)
    speed, first, gaps, curve = grid.flat
    for name, label, style in SIDES:
        own = sorted((c for c in cells if c["server"] == name), key=lambda c: c["clients"])
        xs = [cell["clients"] for cell in own]
        _line(speed, xs, [c["figures"]["tokens_per_s"] for c in own], label, style)
        _line(first, xs, [c["figures"]["ttft"]["p99"] for c in own], label, style)
        for key, dashed in (("p50", False), ("p99", True)):
            _line(gaps, xs, [c["figures"]["itl"][key] for c in own], f"{label}, {key}", style,
                  dashed)  # fmt: skip
        _distribution(curve, results, model, name, label, style, _usual(counts))
    _axes(speed, "Speed", "clients at the same time", "tokens/s", counts)
    _axes(first, "First token, p99", "clients at the same time", "ms", counts)
    _axes(gaps, "Between tokens", "clients at the same time", "ms", counts)
    _axes(curve, f"All gaps between tokens, {_usual(counts)} clients", "ms",
          "percent that are no longer", None, log_y=False)  # fmt: skip
    for axes in grid.flat:
        axes.legend(fontsize=9, framealpha=0.8, edgecolor="none")
    title = f"{results['models'][model]['title']}  ({_machine_name(results)})"
    return _finish(figure, title, path)


def _usual(counts: list[int]) -> int:
    """A class, where it was measured."""
    return 30 if 30 in counts else counts[-1]


def _distribution(axes, results: dict, model: str, server: str, label: str, style: dict,
                  clients: int) -> None:  # fmt: skip
    cell = targets.main_cell(results["cells"], model, server, clients)
    if cell is not None and cell["figures"]["itl_curve"]:
        curve = cell["figures"]["itl_curve"]
        axes.plot(curve, range(len(curve)), label=label, linewidth=1.8, color=style["color"])


def _growth_plot(results: dict, model: str, path: pathlib.Path) -> str | None:
    measured = results["growth"].get(model)
    if measured is None:
        return None
    figure, grid = pyplot.subplots(2, 2, figsize=SIZE)
    step, speed, context, threads = grid.flat
    rows = measured["batch"]
    batches = [row["batch"] for row in rows]
    cached = rows[0]["context"]
    _line(step, batches, [row["median_step_ms"] for row in rows], "", LUNA)
    _axes(step, f"A step against the batch, {cached} cached tokens", "batch", "ms", batches)
    _line(speed, batches, [row["tokens_per_s"] for row in rows], "", LUNA)
    _axes(speed, f"Speed against the batch, {cached} cached tokens", "batch", "tokens/s", batches)
    rows = measured["context"]
    contexts = [row["context"] for row in rows]
    _line(context, contexts, [row["median_step_ms"] for row in rows], "", LUNA)
    _axes(context, f"A step against the cached tokens, batch {rows[0]['batch']}",
          "cached tokens of each sequence", "ms", contexts, log_y=False)  # fmt: skip
    # In proportion is a straight line here; the first points stand too close for numbers.
    context.set_xscale("linear")
    context.set_xlim(0, 1.04 * contexts[-1])
    context.set_xticks([tokens for tokens in contexts if tokens > contexts[-1] / 10])
    counts = sorted({row["threads"] for row in measured["threads"]})
    for color, batch in zip(BATCH_COLORS, sorted({row["batch"] for row in measured["threads"]})):
        rows = [row for row in measured["threads"] if row["batch"] == batch]
        alone = rows[0]["median_step_ms"]
        _line(threads, [row["threads"] for row in rows],
              [alone / row["median_step_ms"] for row in rows], f"batch {batch}",
              {"color": color, "marker": "o"})  # fmt: skip
    threads.plot(counts, counts, color="#999999", linewidth=1, linestyle=":", label="in proportion")
    _axes(threads, "How much faster with more threads", "threads", "times one thread", counts,
          log_y=False)  # fmt: skip
    threads.legend(fontsize=9, framealpha=0.8, edgecolor="none")
    title = f"{results['models'][model]['title']}: the backend alone, {measured['numerics']}"
    return _finish(figure, title, path)


def draw(results: dict, out: pathlib.Path) -> dict[str, list[str]]:
    """Names of the files by model, in the order in which a report shows them."""
    pictures = {}
    for model in results["models"]:
        drawn = [_clients_plot(results, model, out / f"{model}-clients.png"),
                 _growth_plot(results, model, out / f"{model}-growth.png")]  # fmt: skip
        pictures[model] = [name for name in drawn if name]
    return pictures
