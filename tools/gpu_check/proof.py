"""What proves the GPU backend: it builds, it has a device, its tests pass there, it says what the CPU
says, and no kernel touches what it must not."""

import json
import os
import pathlib
import re
import time

from gpu_check import commands, gtest
from gpu_check.house import KV, SERIAL, House, cores
from gpu_check.sections import Deadline, Failure, NoDevice, Section, Unavailable

PRESET = "cuda"
TARGETS = ("luna-server", "luna", "luna_backend_test", "luna_backend_cuda_test",
           "luna-backend-bench", "luna-greedy-compare", "luna-device-limits")  # fmt: skip
GIB_A_COMPILER = 1.5

# Test programs, the tests that a device has a part in, and the processes that share them.
SUITES = (
    ("luna_backend_test", "*cuda*:*ParityTest*", 4),
    ("luna_backend_cuda_test", "*ProductTest*:*ResidualTest*:*AttentionTest*:*Sampling*", 2),
)

# Nats by which log-probabilities may differ from the CPU's, which rounds elsewhere. Where the two
# choose differently, the CPU's first two candidates may be twice as far apart.
TOLERANCE = {"f32": 1e-3, "bf16": 0.25}

SANITIZED = ("--prefills", "40", "--batches", "3", "--contexts", "20", "--steps", "2")
FOUND = 99  # the sanitizer's exit status where it found something


# --- build ----------------------------------------------------------------------------------------

def _jobs() -> int:
    pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(cores(), int(pages / 2**30 / GIB_A_COMPILER)))


def build(house: House, section: Section, deadline: Deadline) -> None:
    if house.options.packed:
        section.notes.append(f"built elsewhere: {house.options.packed}")
        return
    nvcc = commands.find_cuda_tool("nvcc")
    if nvcc is None:
        raise Unavailable("no nvcc (CUDACXX names it): nothing was built; programs that are in "
                          f"{house.binaries} are taken as they are")  # fmt: skip
    house.versions["nvcc"] = commands.first_line([nvcc, "--version"], "release")
    configure = ["cmake", "--preset", PRESET]
    if house.options.architectures:
        configure.append(f"-DLUNA_CUDA_ARCHITECTURES={house.options.architectures}")
    start = time.monotonic()
    house.built = False
    try:
        house.commands.must(configure, deadline.left(), {"CUDACXX": nvcc})
        house.commands.must(["cmake", "--build", f"build/{PRESET}", "-j", str(_jobs()), "--target",
                             *TARGETS], deadline.left())  # fmt: skip
    except OSError as error:
        raise Failure(f"no cmake: {error}") from error
    house.built = True
    section.data = {"preset": PRESET, "seconds": time.monotonic() - start, "jobs": _jobs()}


# --- device ---------------------------------------------------------------------------------------

def driver_version() -> str | None:
    told = commands.first_line(["nvidia-smi", "--query-gpu=driver_version",
                                "--format=csv,noheader"])  # fmt: skip
    if told:
        return told
    version = pathlib.Path("/proc/driver/nvidia/version")
    text = version.read_text(encoding="utf-8") if version.exists() else ""
    found = re.search(r"Kernel Module[^0-9]*([0-9.]+)", text)
    return found.group(1) if found else None


def device(house: House, section: Section, deadline: Deadline) -> None:
    house.versions["driver"] = driver_version()
    try:
        program = house.program("luna-device-limits")
    except Unavailable as why:
        name = commands.first_line(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
        if name is None:
            raise NoDevice("no usable CUDA device: nvidia-smi finds none, and Luna's own check was "
                           "not built") from why  # fmt: skip
        house.device = section.data = {"name": name}
        section.notes.append(str(why))
        return
    done = house.commands.run([str(program), "--device"], deadline.left())
    if done.code != 0:
        raise NoDevice(done.output.strip().splitlines()[-1] if done.output.strip() and
                       done.code is not None else f"{program.name} {done.why()}")  # fmt: skip
    house.device = section.data = json.loads(done.output)["device"]


# --- tests ----------------------------------------------------------------------------------------

def tests(house: House, section: Section, deadline: Deadline) -> None:
    section.data["suites"] = []
    for name, pattern, shards in SUITES:
        start = time.monotonic()
        results = gtest.run(house.commands, house.program(name), pattern, shards,
                            {"LUNA_TEST_DEVICE": "cuda"}, deadline)  # fmt: skip
        section.data["suites"].append({
            "name": name, "pattern": pattern, "passed": len(results.passed),
            "skipped": len(results.skipped), "failed": results.failed, "crashed": results.crashed,
            "not_run": results.not_run, "seconds": time.monotonic() - start})  # fmt: skip
        for what, of in (("failed", results.failed), ("crashed", results.crashed),
                         ("not run in time", results.not_run)):  # fmt: skip
            if of:
                section.failures.append(f"{name}: {len(of)} {what}, the first is {of[0]}")


# --- greedy texts ---------------------------------------------------------------------------------

def greedy_failures(row: dict) -> list[str]:
    """What of a row of luna-greedy-compare is more than rounding."""
    tolerance = TOLERANCE[row["weights"]]
    found = []
    for number, prompt in enumerate(row["prompts"], start=1):
        where = f"{row['model']}, {row['weights']}, prompt {number}"
        for part in ("generated", "read_in_chunks"):
            agreement = prompt[part]
            differs = agreement["largest_logprob_difference"]
            if differs is None or not differs <= tolerance:
                found.append(f"{where}, {part}: log-probabilities differ by {differs} nats; "
                             f"rounding explains {tolerance}")  # fmt: skip
            margin = agreement["largest_margin_where_choices_differ"]
            if margin is None or not margin <= 2 * tolerance:
                found.append(f"{where}, {part}: another choice where the CPU's was {margin} nats "
                             f"ahead")  # fmt: skip
    return found


def greedy(house: House, section: Section, deadline: Deadline) -> None:
    rows = []
    for model in house.texts():
        for weights in TOLERANCE:
            arguments = [model.path, "--weights", weights, "--kv-dtype", KV[weights]]
            try:
                row = house.run_json("luna-greedy-compare", arguments, deadline)
                row = {**row, "model": model.key, "weights": weights}
                rows.append(row)
                section.failures += greedy_failures(row)
                # The same to the last digit, or a kernel does not wait for the one before it.
                serial = house.run_json("luna-greedy-compare", arguments, deadline, SERIAL)
                row["same_without_overlap"] = serial["prompts"] == row["prompts"]
                if not row["same_without_overlap"]:
                    raise Failure("the words or their log-probabilities depend on whether "
                                  "kernels overlap")  # fmt: skip
            except Failure as why:
                section.failures.append(f"{model.key}, {weights}: {why}")
    if len(house.texts()) == 2:
        section.notes.append("SmolLM2 is not there (./dev model smollm2-135m fetches it)")
    section.data = {"rows": rows, "tolerance_nats": TOLERANCE} if rows else {}


# --- compute-sanitizer ----------------------------------------------------------------------------

def sanitizer_errors(output: str) -> int | None:
    """As the summary says; None without one."""
    found = re.search(r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)", output)
    return int(found.group(1) or found.group(2)) if found else None


def sanitizer(house: House, section: Section, deadline: Deadline) -> None:
    tool = commands.find_cuda_tool("compute-sanitizer")
    if tool is None:
        raise Unavailable("no compute-sanitizer (it comes with CUDA's toolkit)")
    program = house.program("luna-backend-bench")
    rows = []
    for check, weights in [(check, weights) for weights in ("bf16", "f32", "int8")
                           for check in ("memcheck", "racecheck")]:  # fmt: skip
        if deadline.left() < 10:
            section.notes.append(f"{check}, {weights}: no time was left")
            continue
        done = house.commands.run(
            [tool, "--tool", check, "--error-exitcode", str(FOUND), str(program), "dummy:luna",
             "--backend", "cuda", "--weights", weights, "--kv-dtype", KV[weights], *SANITIZED],
            deadline.left())  # fmt: skip
        errors = sanitizer_errors(done.output)
        if done.code is None:
            section.notes.append(f"{check}, {weights}: {done.why()}")
        elif "not supported" in done.output and errors is None:
            raise Unavailable(f"compute-sanitizer does not work here: {done.tail()}")
        else:
            rows.append({"check": check, "weights": weights, "errors": errors,
                         "seconds": done.seconds})  # fmt: skip
        if done.code not in (0, None):
            section.failures.append(f"{check}, {weights}: {errors if errors else 'no'} errors "
                                    f"found, {done.why()}:\n{done.tail()}")  # fmt: skip
    section.data = {"rows": rows} if rows else {}
