"""The servers under measurement, and their load clients; each is a process of its own."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

from bench import machine
from bench.shape import Shape

START_SECONDS = 120
ROUND_SECONDS = 1800  # no round takes so long but one that hangs
LUNA_NAME = "luna-server"


class ServerError(Exception):
    """A server or a load client that failed, with the end of what it said."""


def _tail(log: pathlib.Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-15:])


class Server:
    """A running server. `name` is luna or peer; `weights` and `kv` are formats of shape.py."""

    def __init__(self, name: str, command: list[str], log: pathlib.Path):
        self.name = name
        self.command = command
        self.address = ""
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as out:
            # In a session of its own: Ctrl-C is for the benchmark, which stops its servers itself.
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=out,
                                            stdout=subprocess.PIPE if name == "luna" else out,
                                            start_new_session=True)  # fmt: skip

    def fail(self, why: str) -> ServerError:
        self.stop()
        return ServerError(f"{' '.join(self.command)}: {why}\n{_tail(self.log)}")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def threads(self) -> dict[int, tuple[str, float]]:
        """Name and CPU seconds of each thread, by its id."""
        found = {}
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                name = (task / "comm").read_text(encoding="utf-8", errors="replace").strip()
                nanoseconds = int((task / "schedstat").read_text().split()[0])
            except OSError:
                continue  # the thread ended
            found[int(task.name)] = (name, nanoseconds / 1e9)
        return found


def cpu_between(before: dict[int, tuple[str, float]],
                after: dict[int, tuple[str, float]]) -> dict[str, list[float]]:  # fmt: skip
    """CPU seconds of the threads of each name."""
    spent: dict[str, list[float]] = {}
    for thread, (name, seconds) in after.items():
        spent.setdefault(name, []).append(seconds - before.get(thread, (name, 0.0))[1])
    return spent


@contextlib.contextmanager
def _killed_after(process: subprocess.Popen, seconds: float) -> Iterator[None]:
    """A process that hangs does not hang the benchmark: whoever waits sees that it ended."""

    def kill() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)  # and leaves its status to whoever waits

    timer = threading.Timer(seconds, kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def start_luna(binaries: pathlib.Path, model: str, threads: int, extra: list[str],
               log: pathlib.Path, seconds: float = START_SECONDS) -> Server:  # fmt: skip
    command = [str(binaries / LUNA_NAME), "--model", model, "--listen", "127.0.0.1:0",
               "--threads", str(threads), "--kv-cache-bytes", "2G", "--log-level", "warn",
               *extra]  # fmt: skip
    server = Server("luna", command, log)
    with _killed_after(server.process, seconds):
        for line in server.process.stdout:
            ready = re.match(rb"ready grpc=(\S+)", line)
            if ready:
                server.address = ready.group(1).decode()
                return server
    raise server.fail(f"it ended, or {seconds:.0f} s did, before it was ready")


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class PeerProgram:
    """llama-server as it is installed; which options it has depends on its age."""

    def __init__(self, path: str):
        self.path = path
        asked = subprocess.run([path, "--help"], capture_output=True, text=True, errors="replace")
        self.help = asked.stdout + asked.stderr
        told = subprocess.run([path, "--version"], capture_output=True, text=True, errors="replace")
        lines = (told.stdout + told.stderr).splitlines()
        self.version = next((line for line in lines if "version" in line), "unknown version")

    def _flag(self, *names: str, value: str | None = None) -> list[str]:
        """The first of `names` that it knows, or nothing."""
        for name in names:
            if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", self.help):
                return [name] if value is None else [name, value]
        return []

    def arguments(self, model: str, clients: int, context: int, threads: int) -> list[str]:
        """Its best settings for so many clients of `context` tokens each.

        A slot for each client, each with a cache of its own; all cores; sizes of batches and the
        choice about flash attention as it comes. Off is what would cost and is not asked for: the
        page, the log, the endpoint that tells of slots, the store of former prompts.
        """
        return ["-m", model, "-np", str(clients), "-c", str(clients * context), "-t", str(threads),
                *self._flag("--no-kv-unified"), *self._flag("--no-ui", "--no-webui"),
                *self._flag("--no-slots"), *self._flag("--cache-ram", value="0"),
                *self._flag("--log-verbosity", value="1")]  # fmt: skip

    def start(self, arguments: list[str], log: pathlib.Path) -> Server:
        port = _free_port()
        command = [self.path, "--host", "127.0.0.1", "--port", str(port), *arguments]
        server = Server("peer", command, log)
        server.address = f"127.0.0.1:{port}"
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if server.process.poll() is not None:
                raise server.fail(f"it ended with {server.process.returncode}")
            try:
                with urllib.request.urlopen(f"http://{server.address}/health", timeout=5):
                    return server
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.1)
        raise server.fail(f"not ready after {START_SECONDS} s")


def load_command(binaries: pathlib.Path, server: Server, shape: Shape | None) -> list[str]:
    if server.name == "luna":
        return [str(binaries / "luna"), "bench", "--server", server.address]
    ends = [part for end in shape.end_ids for part in ("--end-id", str(end))]
    return [str(binaries / "luna-peer-load"), "--server", server.address, "--vocab-size",
            str(shape.vocab_size), *ends]  # fmt: skip


def measure(binaries: pathlib.Path, server: Server, shape: Shape | None, clients: int,
            prompt_tokens: int, max_tokens: int, seed: int, out: pathlib.Path,
            seconds: float = ROUND_SECONDS) -> dict:  # fmt: skip
    """One round: what the load client wrote, and the CPU time of both sides. Luna needs no shape."""
    command = load_command(binaries, server, shape) + [
        "--clients", str(clients), "--prompt-tokens", str(prompt_tokens), "--max-tokens",
        str(max_tokens), "--rounds", "1", "--warmup", "0", "--seed", str(seed), "--json",
        str(out)]  # fmt: skip
    before, busy, start = server.threads(), machine.busy_seconds(), time.monotonic()
    with out.with_suffix(".log").open("wb") as log:
        client = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            with _killed_after(client, seconds):
                _, status, usage = os.wait4(client.pid, 0)
        except BaseException:
            client.kill()  # a server would wait for its requests
            raise
        client.returncode = os.waitstatus_to_exitcode(status)
    wall, after = time.monotonic() - start, server.threads()
    busy = machine.busy_seconds() - busy
    if client.returncode != 0:
        said = _tail(out.with_suffix(".log"))
        raise ServerError(f"{' '.join(command)}: exit {client.returncode}\n{said}\n"
                          f"{server.name} said:\n{_tail(server.log)}")  # fmt: skip
    own, client_cpu = cpu_between(before, after), usage.ru_utime + usage.ru_stime
    others = busy - client_cpu - sum(sum(seconds) for seconds in own.values())
    return {"load": json.loads(out.read_text(encoding="utf-8")), "wall_s": wall,
            "client_cpu_s": client_cpu, "server_cpu_s": own,
            "others_cpu_s": max(0.0, others)}  # fmt: skip
