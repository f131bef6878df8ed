"""What machine this is and what it can do at most."""

import datetime
import json
import os
import pathlib
import subprocess

# What decides the code path, in the kernel's spelling.
FLAGS = ("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16",
         "amx_int8")  # fmt: skip


def _cpu_fields() -> dict[str, str]:
    """Of the first processor in /proc/cpuinfo."""
    fields = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if not line.strip():
            break
        key, _, value = line.partition(":")
        fields[key.strip()] = value.strip()
    return fields


def _cache_bytes() -> dict[str, int]:
    """Of the first core: L2, L3."""
    sizes = {}
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = ((index / name).read_text().strip()
                                 for name in ("level", "type", "size"))  # fmt: skip
        except OSError:
            continue
        if kind != "Instruction" and level != "1":
            sizes[f"L{level}"] = int(size.rstrip("K")) * 1024
    return sizes


def last_cache(machine: dict) -> int:
    """Bytes of the last level; 0 where the system does not tell."""
    return max(machine["cache_bytes"].values(), default=0)


def threads() -> int:
    return len(os.sched_getaffinity(0))


def describe() -> dict:
    fields = _cpu_fields()
    present = set(fields.get("flags", "").split())
    return {
        "cpu": fields.get("model name", "unknown"),
        "family": f"{fields.get('cpu family', '?')}/{fields.get('model', '?')}",
        "cores": threads(),
        "flags": [flag for flag in FLAGS if flag in present],
        "cache_bytes": _cache_bytes(),
        "ram_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "day": datetime.date.today().isoformat(),
    }


def kind(machine: dict) -> str:
    """The column of targets.json."""
    flags = machine["flags"]
    if "avx512_vnni" in flags and "avx512_bf16" in flags:
        return "avx512"
    return "avx2" if "avx2" in flags else "other"


def peaks(binaries: pathlib.Path) -> dict:
    """What luna-machine-peaks prints."""
    done = subprocess.run([binaries / "luna-machine-peaks"], capture_output=True, check=True)
    return json.loads(done.stdout)


def of_all_threads(measured: dict) -> dict[str, float | None]:
    return measured["peaks"][-1]


def busy_seconds() -> float:
    """CPU time that all processes together have taken since the machine started, and time that the
    host took from it (steal)."""
    line = pathlib.Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0]
    user, nice, system, _, _, irq, softirq, steal = (int(text) for text in line.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def load_average() -> float:
    return os.getloadavg()[0]
