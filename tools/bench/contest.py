"""One run of the benchmark: which servers run at the same time, and in which order they work."""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import sys

from bench import figures, growth, machine, servers, shape, work

WARM_UP_TOKENS = 8


@dataclasses.dataclass
class Contestant:
    server: servers.Server
    weights: str
    kv: str
    is_main: bool  # Luna as it comes, and the peer with the same file
    rounds: list[dict] = dataclasses.field(default_factory=list)


def without_twins(contestants: list[Contestant]) -> list[Contestant]:
    """A format that Luna takes anyway is measured once, as the main one."""
    mains = {c.weights for c in contestants if c.server.name == "luna" and c.is_main}
    return [c for c in contestants
            if c.server.name != "luna" or c.is_main or c.weights not in mains]  # fmt: skip


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


def find_peer(path: str | None) -> servers.PeerProgram | None:
    if path == "none":
        return None
    found = shutil.which(path or "llama-server")
    if found is None and path:
        raise servers.ServerError(f"--peer {path}: no such program")
    return servers.PeerProgram(found) if found else None


class Contest:
    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.peer = find_peer(options.peer)
        self.threads = machine.threads()
        self.made = options.out / "models"
        self.logs = options.out / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        say("measuring the machine")
        self.results = {
            "machine": machine.describe(), "peaks": machine.peaks(options.binaries),
            "load_average": machine.load_average(),
            "peer": self.peer.version if self.peer else None,
            "luna_arguments": options.luna_arg, "rounds": options.rounds,
            "models": {}, "cells": [], "growth": {}, "skipped": [], "failures": [],
        }  # fmt: skip

    def run(self, models: pathlib.Path) -> dict:
        """The results; they are also in results.json, which grows with each model."""
        if self.peer is None:
            self.results["skipped"].append("the peer: no llama-server on PATH and none given")
        for model in self.options.models:
            found = work.find(model, models, self.made)
            if found is None:
                say(f"skipping {model.title}: no models/{model.file}")
                self.results["skipped"].append(f"{model.title}: models/{model.file} is not there")
                continue
            self.results["models"][model.key] = {
                "title": model.title, "file_format": found.format,
                **dataclasses.asdict(found.shape)}  # fmt: skip
            self._run_model(found)
            if not self.options.quick and model.key != "gemma3":
                self._sweep(found)
            text = json.dumps(self.results, indent=1)
            (self.options.out / "results.json").write_text(text, encoding="utf-8")
        return self.results

    def _sweep(self, found: work.Found) -> None:
        say(f"{found.model.title}: how cost grows")
        try:
            self.results["growth"][found.model.key] = growth.sweep(
                self.options.binaries, found, self.threads, [], self.logs / "growth.json")
        except (subprocess.CalledProcessError, OSError) as error:
            self._failed(f"{found.model.title}, growth: {error}")

    def _failed(self, why: str) -> None:
        say(why)
        self.results["failures"].append(why)

    def _start_luna(self, found: work.Found, name: str, extra: list[str]) -> servers.Server:
        return servers.start_luna(self.options.binaries, str(found.path), self.threads,
                                  [*self.options.luna_arg, *extra],
                                  self.logs / f"{found.model.key}-luna-{name}.log")  # fmt: skip

    def _run_model(self, found: work.Found) -> None:
        say(f"{found.model.title}: starting Luna")
        with contextlib.ExitStack() as stack:
            lunas = []
            formats = () if self.options.quick else found.model.luna_formats
            for name in ("default", *formats):
                extra = [] if name == "default" else ["--weights", name]
                try:
                    server = stack.enter_context(self._start_luna(found, name, extra))
                    lunas.append((name, server))
                except servers.ServerError as error:
                    self._failed(f"{found.model.title}, Luna {name}: {error}")
            for clients in self.options.clients:
                self._run_clients(found, clients, lunas)

    def _peer_files(self, found: work.Found, with_formats: bool) -> list[tuple[str, pathlib.Path]]:
        files = [(found.format, found.path)]
        quantizer = work.quantizer_of(self.peer.path)
        if not with_formats or quantizer is None:
            return files
        # Of the two formats of 16 bits the one that the machine multiplies.
        unused = "f16" if "avx512_bf16" in self.results["machine"]["flags"] else "bf16"
        for name in found.model.peer_formats:
            path = work.quantized(found, name, quantizer, self.made) if name != unused else None
            files += [(name, path)] if path else []
        return files

    def _start_peers(self, found: work.Found, clients: int, with_formats: bool,
                     stack: contextlib.ExitStack) -> list[Contestant]:  # fmt: skip
        contestants = []
        context = work.needed_context(found, clients)
        for name, path in self._peer_files(found, with_formats):
            arguments = self.peer.arguments(str(path), clients, context, self.threads)
            try:
                server = stack.enter_context(self.peer.start(
                    [*arguments, *self.options.peer_arg],
                    self.logs / f"{found.model.key}-peer-{name}.log"))  # fmt: skip
                contestants.append(Contestant(server, name, "f16", is_main=path == found.path))
            except servers.ServerError as error:
                self._failed(f"{found.model.title}, peer {name}: {error}")
        return contestants

    def _run_clients(self, found: work.Found, clients: int,
                     lunas: list[tuple[str, servers.Server]]) -> None:  # fmt: skip
        with_formats = clients in work.FORMAT_CLIENTS and not self.options.quick
        contestants = [Contestant(server, "", "", is_main=name == "default")
                       for name, server in lunas if name == "default" or with_formats]  # fmt: skip
        with contextlib.ExitStack() as stack:
            if self.peer:
                contestants += self._start_peers(found, clients, with_formats, stack)
            tokens = found.model.tokens(clients)
            for number in range(-1, self.options.rounds):
                for contestant in list(contestants):
                    self._run_round(found, contestant, clients, tokens, number, contestants)
                if number < 0:
                    contestants = without_twins(contestants)
        for contestant in contestants:
            self._add_cell(found, contestant, clients, tokens)

    def _run_round(self, found: work.Found, contestant: Contestant, clients: int, tokens: int,
                   number: int, contestants: list[Contestant]) -> None:  # fmt: skip
        """Round -1 warms up."""
        try:
            measured = servers.measure(
                self.options.binaries, contestant.server, found.shape, clients,
                work.PROMPT_TOKENS, tokens if number >= 0 else WARM_UP_TOKENS, number + 2,
                self.logs / "round.json")  # fmt: skip
        except servers.ServerError as error:
            self._failed(f"{found.model.title}, {clients} clients: {error}")
            contestants.remove(contestant)
            return
        if number >= 0:
            contestant.rounds.append(measured)
            rate = measured["load"]["tokens_per_s"]["median"]
            say(f"{found.model.key}, {clients} clients, {contestant.server.name} "
                f"{contestant.weights}: {rate:,.0f} tokens/s")  # fmt: skip
            return
        told = re.match(r"weights (\w+), KV (\w+)", measured["load"].get("numerics", ""))
        if told:
            contestant.weights, contestant.kv = told.groups()

    def _add_cell(self, found: work.Found, contestant: Contestant, clients: int,
                  tokens: int) -> None:  # fmt: skip
        if not contestant.rounds:
            return
        threads = self.threads if contestant.server.name == "luna" else 0
        measured = figures.of_rounds(contestant.rounds, threads)
        floor = shape.floor_ms(
            found.shape, machine.of_all_threads(self.results["peaks"]),
            machine.last_cache(self.results["machine"]), contestant.weights, contestant.kv, clients,
            work.mean_cached(found, clients))  # fmt: skip
        command = [pathlib.Path(part).name if part.startswith("/") else part
                   for part in contestant.server.command]  # fmt: skip
        self.results["cells"].append({
            "model": found.model.key, "server": contestant.server.name,
            "weights": contestant.weights, "kv": contestant.kv, "is_main": contestant.is_main,
            "clients": clients, "tokens": tokens, "prompt_tokens": work.PROMPT_TOKENS,
            "command": " ".join(command), "figures": dataclasses.asdict(measured),
            "floor_ms": floor,
            "share_of_floor": figures.share_of_floor(floor, measured.itl.mean),
            "rounds": contestant.rounds})  # fmt: skip
