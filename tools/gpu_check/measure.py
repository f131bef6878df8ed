"""What a machine with a GPU is measured for: its limits, a step alone, the server over gRPC, the lesson
about the KV cache, and PyTorch beside it."""

import json
import os
import pathlib
import shutil
import sys

from bench import figures, servers
from gpu_check.house import FORMATS, KV, SERIAL, House, Model, cores
from gpu_check.sections import Deadline, Failure, Section, Unavailable

BATCHES = (1, 8, 30, 64)
PREFILL = 512
# 64 steps from 218 cached tokens on have 250 cached on average.
CACHED, STEPS, ROUNDS = 218, 64, 5
SAMPLED = ("--temperature", "0.8", "--top-p", "0.95")
SAMPLED_BATCHES = (1, 64)

CLIENTS = (1, 30, 64)
PROMPT_TOKENS = 32
TOKENS = {"luna": 400, "smollm2": 200}  # of a client
SERVED_ROUNDS = 2
WARM_UP_TOKENS = 8

# The lesson: text from almost nothing, with and without a cache of keys and values.
LESSON_PROMPT, LESSON_TOKENS = 8, 500
LESSON_BATCHES = (1, 64)
LESSON_FORMATS = ("bf16", "f32")
# Without a cache a step computes whole texts, and all of them at once.
LESSON_STEP_TOKENS = 64 * 512

TORCH = pathlib.Path(__file__).with_name("torch_gpt2.py")
NO_TORCH = 3  # its exit status without PyTorch, or without a device for it


def limits(house: House, section: Section, deadline: Deadline) -> None:
    done = house.commands.must([str(house.program("luna-device-limits"))], deadline.left())
    section.data = json.loads(done.output)["limits"]


# --- a step alone ---------------------------------------------------------------------------------

def _listed(numbers: tuple[int, ...]) -> str:
    return ",".join(str(number) for number in numbers)


def step_row(model: Model, weights: str, way: str, measured: dict) -> dict:
    """Microseconds, from what luna-backend-bench wrote."""
    prefill = measured["prefill"][0]
    return {
        "model": model.key, "path": model.path, "weights": weights, "kv": KV[weights],
        "way": way, "numerics": measured["numerics"], "ready_s": measured["ready_s"],
        "prefill_tokens": prefill["tokens"], "prefill_ms": prefill["ms"],
        "prefill_tokens_per_s": prefill["tokens_per_s"],
        "decode": [{"batch": row["batch"], "in_flight": row["in_flight"],
                    "mean_cached": row["mean_cached"], "step_us": 1e3 * row["median_step_ms"],
                    "mean_step_us": 1e3 * row["step_ms"],
                    "launch_us": 1e3 * row["median_launch_ms"],
                    "tokens_per_s": row["tokens_per_s"]} for row in measured["decode"]],
    }  # fmt: skip


def steps(house: House, section: Section, deadline: Deadline) -> None:
    section.data["rows"] = []
    work = [(model, weights, "greedy") for model in house.shapes() for weights in FORMATS]
    work += [(house.shapes()[0], "bf16", way) for way in ("sampled", "serial")]
    for model, weights, way in work:
        sampled = way == "sampled"
        arguments = [
            model.path, "--backend", "cuda", "--weights", weights, "--kv-dtype", KV[weights],
            "--prefills", str(PREFILL), "--chunk", str(PREFILL), "--contexts", str(CACHED),
            "--batches", _listed(SAMPLED_BATCHES if sampled else BATCHES), "--steps", str(STEPS),
            "--rounds", str(ROUNDS), *(SAMPLED if sampled else ())]  # fmt: skip
        try:
            measured = house.run_json("luna-backend-bench", arguments, deadline,
                                      SERIAL if way == "serial" else None)
        except Failure as why:
            section.failures.append(f"{model.key}, {weights}, {way}: {why}")
            continue
        section.data["rows"].append(step_row(model, weights, way, measured))


# --- the server -----------------------------------------------------------------------------------

def _serve(house: House, model: Model, weights: str, extra: list[str],
           deadline: Deadline) -> servers.Server:  # fmt: skip
    house.program("luna")
    house.program(servers.LUNA_NAME)
    return servers.start_luna(
        house.binaries, model.path, cores(),
        ["--backend", "cuda", "--weights", weights, "--kv-dtype", KV[weights], *extra],
        house.scratch / "server.log", seconds=deadline.left())  # fmt: skip


def _rounds(house: House, server: servers.Server, clients: int, prompt: int, tokens: int,
            rounds: int, deadline: Deadline) -> list[dict]:  # fmt: skip
    """What the load client wrote of each round; a short one before does not count."""
    measured = []
    for number in range(rounds + 1):
        one = servers.measure(house.binaries, server, None, clients, prompt,
                              tokens if number else WARM_UP_TOKENS, number + 1,
                              house.scratch / "round.json", seconds=deadline.left())  # fmt: skip
        if number:
            measured.append(one)
    return measured


def _each_server(house: House, section: Section, deadline: Deadline,
                 work: list[tuple[Model, str, list[str]]], measure) -> None:  # fmt: skip
    """Starts one server after the other; what fails is said, and the next one's turn comes."""
    for model, weights, extra in work:
        where = " ".join([model.key, weights, *extra])
        if deadline.left() < 5:
            section.notes.append(f"{where}: no time was left")
            continue
        try:
            with _serve(house, model, weights, extra, deadline) as server:
                measure(model, weights, extra, server)
        except servers.ServerError as why:
            section.failures.append(f"{where}: {why}")
        house.commands.note(f"server, {where}:\n" +
                            (house.scratch / "server.log").read_text(errors="replace"))  # fmt: skip


def serve(house: House, section: Section, deadline: Deadline) -> None:
    luna, smollm2 = house.shapes()
    rows = section.data["rows"] = []

    def measure(model: Model, weights: str, _: list[str], server: servers.Server) -> None:
        for clients in CLIENTS:
            tokens = TOKENS[model.key]
            rounds = _rounds(house, server, clients, PROMPT_TOKENS, tokens, SERVED_ROUNDS,
                             deadline)  # fmt: skip
            told = figures.of_rounds(rounds, 0)
            rows.append({
                "model": model.key, "path": model.path, "weights": weights, "kv": KV[weights],
                "numerics": rounds[0]["load"]["numerics"], "clients": clients, "tokens": tokens,
                "prompt_tokens": PROMPT_TOKENS, "tokens_per_s": told.tokens_per_s,
                "best_tokens_per_s": told.best_tokens_per_s, "errors": told.errors,
                "ttft_ms": vars(told.ttft), "itl_ms": vars(told.itl),
                "server_cpu_ms_per_token": told.cpu_ms_per_token})  # fmt: skip

    _each_server(house, section, deadline,
                 [(luna, "bf16", []), (luna, "f32", []), (luna, "int8", []), (smollm2, "bf16", []),
                  (smollm2, "int8", [])], measure)  # fmt: skip


# --- the lesson -----------------------------------------------------------------------------------

def lesson_row(weights: str, kv_cache: bool, batch: int, rates: list[float]) -> dict:
    """From the tokens a second of each round: the quickest."""
    seconds = batch * LESSON_TOKENS / max(rates)
    return {"weights": weights, "kv_cache": kv_cache, "batch": batch, "tokens": LESSON_TOKENS,
            "total_s": seconds, "step_ms": 1e3 * seconds / LESSON_TOKENS}  # fmt: skip


def lesson(house: House, section: Section, deadline: Deadline) -> None:
    luna = house.shapes()[0]
    rows = section.data["rows"] = []
    without = ["--no-kv-cache", "--max-batch-tokens", str(LESSON_STEP_TOKENS)]

    def measure(_: Model, weights: str, extra: list[str], server: servers.Server) -> None:
        for batch in LESSON_BATCHES:
            rounds = _rounds(house, server, batch, LESSON_PROMPT, LESSON_TOKENS, 2, deadline)
            rates = [one["load"]["tokens_per_s"]["best"] for one in rounds]
            rows.append(lesson_row(weights, not extra, batch, rates))

    _each_server(house, section, deadline,
                 [(luna, weights, extra) for weights in LESSON_FORMATS for extra in ([], without)],
                 measure)  # fmt: skip


# --- PyTorch --------------------------------------------------------------------------------------

def torch_pythons(house: House) -> list[str]:
    """Interpreters that may have PyTorch, the likeliest first."""
    if house.options.torch_python:
        return [house.options.torch_python]
    environment = os.environ.get("VIRTUAL_ENV")
    candidates = [f"{environment}/bin/python"] if environment else []
    candidates += [shutil.which("python3"), str(house.root / ".venv/bin/python"), sys.executable]
    there = [path for path in candidates if path and pathlib.Path(path).exists()]
    return list(dict.fromkeys(there))


def json_lines(output: str) -> list[dict]:
    """Those lines that are objects; a process that was stopped may leave half a line."""
    rows = []
    for line in output.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def torch(house: House, section: Section, deadline: Deadline) -> None:
    said = []
    for python in torch_pythons(house):
        # Libraries that came with Luna's programs are not for it.
        done = house.commands.run([python, str(TORCH), "--tokens", str(LESSON_TOKENS), "--prompt",
                                   str(LESSON_PROMPT), "--batches", _listed(LESSON_BATCHES)],
                                  deadline.left(), {"LD_LIBRARY_PATH": house.system_libraries})
        if done.code == NO_TORCH:
            said.append(f"{python}: {done.tail().splitlines()[-1]}")
            continue
        told = json_lines(done.output)
        rows = [row for row in told if "batch" in row]
        house.versions.update(row for part in told for row in part.get("versions", {}).items())
        if rows:
            section.data = {"python": python, "rows": rows}
        if done.code is None:
            section.notes.append(f"PyTorch {done.why()}")
        elif done.code != 0:
            raise Failure(f"{python} {TORCH.name} {done.why()}:\n{done.tail()}")
        return
    raise Unavailable("no PyTorch that sees the GPU: " + ("; ".join(said) or "no python3"))
