"""Programs: where they are, and running them within a limit, all that they say kept in one log."""

import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

from gpu_check.sections import Failure

CUDA_DIRECTORIES = ("/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda")
TAIL_LINES = 12


@dataclasses.dataclass(frozen=True)
class Done:
    code: int | None  # None: stopped at its limit
    output: str  # both streams
    seconds: float

    def tail(self) -> str:
        lines = [line for line in self.output.splitlines() if line.strip()]
        return "\n".join(lines[-TAIL_LINES:])

    def why(self) -> str:
        """How it ended, where that was not well."""
        if self.code is None:
            return f"was stopped after {self.seconds:.0f} s"
        return f"ended by signal {-self.code}" if self.code < 0 else f"exit {self.code}"


class Commands:
    """May be used from several threads."""

    def __init__(self, directory: pathlib.Path, log: pathlib.Path):
        self.directory = directory
        self.log = log
        self.lock = threading.Lock()
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("", encoding="utf-8")

    def run(self, command: list[str], limit: float, env: dict[str, str] | None = None) -> Done:
        """`env`: besides what the environment has. With all of its children, it ends at `limit`."""
        start = time.monotonic()
        process = subprocess.Popen(command, cwd=self.directory, env={**os.environ, **(env or {})},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
        stopped = False
        try:
            output, _ = process.communicate(timeout=max(1.0, limit))
        except subprocess.TimeoutExpired:
            stopped = True
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        done = Done(None if stopped else process.returncode,
                    output.decode("utf-8", errors="replace"), time.monotonic() - start)  # fmt: skip
        self.note(f"$ {' '.join(command)}\n{done.output}"
                  f"# {done.seconds:.1f} s, {'well' if done.code == 0 else done.why()}")  # fmt: skip
        return done

    def must(self, command: list[str], limit: float, env: dict[str, str] | None = None) -> Done:
        done = self.run(command, limit, env)
        if done.code != 0:
            raise Failure(f"{pathlib.Path(command[0]).name} {done.why()}:\n{done.tail()}")
        return done

    def note(self, text: str) -> None:
        with self.lock, self.log.open("a", encoding="utf-8") as log:
            log.write(text.rstrip("\n") + "\n\n")


def find_cuda_tool(name: str) -> str | None:
    """nvcc, compute-sanitizer, cuobjdump: on PATH, beside CUDACXX, or where CUDA is installed."""
    on_path = shutil.which(name)
    if on_path:
        return on_path
    directories = [pathlib.Path(os.environ["CUDACXX"]).parent] if "CUDACXX" in os.environ else []
    roots = [os.environ[key] for key in ("CUDA_HOME", "CUDA_PATH") if key in os.environ]
    for root in [*roots, *CUDA_DIRECTORIES]:
        directories += [pathlib.Path(root) / "bin", pathlib.Path(root) / name]
    for directory in directories:
        if os.access(directory / name, os.X_OK) and (directory / name).is_file():
            return str(directory / name)
    return None


def first_line(command: list[str], containing: str = "") -> str | None:
    """Of what a program prints about itself; None where it is not there or says nothing of it."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20,
                              stdin=subprocess.DEVNULL)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = [line.strip() for line in done.stdout.splitlines() if containing in line]
    return lines[0] if done.returncode == 0 and lines and lines[0] else None
