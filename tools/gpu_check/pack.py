"""A build to carry to a machine that has a GPU and neither compiler nor packages: the programs, the
libraries they load that not every system has, and what they were built from."""

import json
import os
import pathlib
import re
import shutil
import subprocess

from gpu_check.sections import Failure

# Of every system, and bound to its C library or its loader; or the driver's own.
SYSTEM = re.compile(r"(ld-linux-[\w-]+|lib(c|m|mvec|dl|rt|pthread|resolv|gcc_s|stdc\+\+|cuda|"
                    r"nvidia-[\w-]+))\.so")  # fmt: skip
MANIFEST = "manifest.json"


def libraries(told: str) -> dict[str, str]:
    """Name and path of what `ldd` told, without the system's. Failure where one is missing."""
    found = {}
    for line in told.splitlines():
        name, arrow, path = line.strip().partition(" => ")
        if not arrow or SYSTEM.match(name):
            continue
        if path.startswith("not found"):
            raise Failure(f"{name} is not found, and a program of ours needs it")
        found[name] = path.split(" (")[0]
    return found


def make(binaries: pathlib.Path, names: tuple[str, ...], target: pathlib.Path,
         versions: dict) -> int:  # fmt: skip
    """Makes `target` anew; returns its bytes."""
    if target.exists() and not (target / MANIFEST).exists():
        raise Failure(f"{target} is there and no pack; it is left alone")
    shutil.rmtree(target, ignore_errors=True)
    (target / "bin").mkdir(parents=True)
    (target / "lib").mkdir()
    (target / MANIFEST).write_text(json.dumps(versions, indent=1), encoding="utf-8")
    for name in names:
        copy = target / "bin" / name
        shutil.copy2(binaries / name, copy)
        if shutil.which("strip"):
            subprocess.run(["strip", str(copy)], check=True)
        told = subprocess.run(["ldd", str(copy)], check=True, capture_output=True, text=True)
        for library, path in libraries(told.stdout).items():
            shutil.copy2(os.path.realpath(path), target / "lib" / library)
    return sum(path.stat().st_size for path in target.rglob("*") if path.is_file())


def use(packed: pathlib.Path) -> dict:
    """From now on programs find their libraries there; what they were built from."""
    try:
        versions = json.loads((packed / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Failure(f"--packed {packed}: {error}") from error
    before = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, (str(packed / "lib"), before)))
    return versions
