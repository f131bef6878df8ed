"""The targets, and what a run reached of them."""

import dataclasses
import json
import pathlib

from bench import figures

FILE = pathlib.Path(__file__).with_name("targets.json")


@dataclasses.dataclass(frozen=True)
class Reached:
    name: str
    target: float
    floor: float | None  # what the machine's limits would allow
    value: float | None  # None: not measured in this run
    met: bool | None


def load() -> dict:
    return json.loads(FILE.read_text(encoding="utf-8"))


def main_cell(cells: list[dict], model: str, server: str, clients: int) -> dict | None:
    for cell in cells:
        if cell["is_main"] and (cell["model"], cell["server"], cell["clients"]) == (
                model, server, clients):  # fmt: skip
            return cell
    return None


def _luna_cell(cells: list[dict], row: dict) -> dict | None:
    """Luna's in the wanted format; the fastest for "best"."""
    fitting = [cell for cell in cells
               if cell["server"] == "luna" and cell["model"] == row["model"]
               and cell["clients"] == row["clients"]
               and row["format"] in ("best", cell["weights"])]  # fmt: skip
    return max(fitting, key=lambda cell: cell["figures"]["tokens_per_s"], default=None)


def _prefill(results: dict, row: dict) -> float | None:
    growth = results["growth"].get(row["model"], {"prefill": []})
    for measured in growth["prefill"]:
        if measured["tokens"] == 512:
            return measured["tokens_per_s"]
    return None


def value_of(results: dict, row: dict) -> float | None:
    """What the run reached in a row of targets.json."""
    cells = results["cells"]
    if row["figure"] == "prefill_512":
        return _prefill(results, row)
    if row["figure"] == "peer_ratio":
        both = [main_cell(cells, row["model"], name, row["clients"]) for name in ("luna", "peer")]
        if None in both:
            return None
        return figures.ratio(*(cell["figures"]["tokens_per_s"] for cell in both))
    cell = _luna_cell(cells, row)
    if cell is None:
        return None
    measured = cell["figures"]
    if row["figure"] == "ttft_p99":
        return measured["ttft"]["p99"]
    if row["figure"] == "itl_p99_over_p50":
        return figures.ratio(measured["itl"]["p99"], measured["itl"]["p50"])
    return measured[row["figure"]]


def reached(results: dict, kind: str) -> list[Reached]:
    """The rows that have a target for this kind of machine."""
    rows = []
    for row in load()["rows"]:
        if kind not in row:
            continue
        goal, value = row[kind]["target"], value_of(results, row)
        met = None
        if value is not None:
            met = value <= goal if row.get("lower_is_better") else value >= goal
        rows.append(Reached(row["name"], goal, row[kind].get("floor"), value, met))
    return rows
