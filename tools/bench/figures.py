"""Arithmetic over what the load clients wrote: one file for each round, one cell for all rounds of
one server with one number of clients."""

import dataclasses
import statistics


@dataclasses.dataclass(frozen=True)
class Percentiles:
    """Medians over the rounds of each round's percentile, in milliseconds."""

    mean: float
    p50: float
    p99: float


@dataclasses.dataclass(frozen=True)
class Figures:
    tokens_per_s: float  # the median of the rounds
    best_tokens_per_s: float
    ttft: Percentiles
    itl: Percentiles
    itl_curve: list[float]  # [101] milliseconds by percent, the median of the rounds for each
    cpu_ms_per_token: float | None  # the server's, all of its threads
    outside_share: float | None  # of the server's CPU time, what was not the forward pass
    client_cpu_share: float | None  # of one core, what the load client took
    others_cpu: float  # cores that other processes kept busy meanwhile, the worst round's
    errors: int


def median(values: list[float]) -> float:
    return statistics.median(values) if values else 0.0


def _percentiles(rounds: list[dict], key: str) -> Percentiles:
    def of(name: str) -> float:
        return median([r["load"][key][name] for r in rounds if r["load"][key]["count"] > 0])

    return Percentiles(of("mean"), of("p50"), of("p99"))


def _curve(rounds: list[dict]) -> list[float]:
    curves = [r["load"]["itl_percentiles_ms"] for r in rounds]
    return [median(list(values)) for values in zip(*[c for c in curves if c])]


def outside_share(cpu: dict[str, list[float]], compute_threads: int) -> float | None:
    """The share of CPU time outside the forward pass, from the seconds of each thread by its name.

    The threads that bear the server's own name are the workers of the forward pass and the engine
    thread, which is one of them and schedules besides; the work of a step is divided evenly. So the
    forward pass took what its workers took, times the number of them all, and the rest is outside:
    scheduling, messages, the network. Waiting at a barrier counts as the pass. None where there are
    no workers to tell it from.
    """
    shared = sorted(cpu.get("luna-server", []), reverse=True)[:compute_threads]
    total = sum(sum(seconds) for seconds in cpu.values())
    if len(shared) < compute_threads or compute_threads < 2 or total <= 0:
        return None
    workers = shared[1:]
    if min(workers) <= 0:
        return None  # steps so small that the engine thread computed them alone
    forward = compute_threads * sum(workers) / len(workers)
    return max(0.0, 1 - forward / total)


def of_rounds(rounds: list[dict], compute_threads: int) -> Figures:
    """`rounds` as servers.measure gives them; at least one."""
    rates = [r["load"]["tokens_per_s"]["median"] for r in rounds]
    tokens = sum(r["load"]["max_tokens"] * r["load"]["requests"] for r in rounds)
    spent = sum(sum(sum(seconds) for seconds in r["server_cpu_s"].values()) for r in rounds)
    shares = [outside_share(r["server_cpu_s"], compute_threads) for r in rounds]
    known = [share for share in shares if share is not None]
    return Figures(
        tokens_per_s=median(rates),
        best_tokens_per_s=max(rates),
        ttft=_percentiles(rounds, "ttft_ms"),
        itl=_percentiles(rounds, "itl_ms"),
        itl_curve=_curve(rounds),
        cpu_ms_per_token=1e3 * spent / tokens if tokens else None,
        outside_share=median(known) if known else None,
        client_cpu_share=median([r["client_cpu_s"] / r["wall_s"] for r in rounds]),
        others_cpu=max(r["others_cpu_s"] / r["wall_s"] for r in rounds),
        errors=sum(r["load"]["errors"] for r in rounds),
    )


def ratio(ours: float | None, theirs: float | None) -> float | None:
    """Ours over theirs; None where either is missing."""
    return ours / theirs if ours and theirs else None


def share_of_floor(floor_ms: float | None, step_ms: float) -> float | None:
    """1 is a step that takes no longer than its floor."""
    return floor_ms / step_ms if floor_ms and step_ms > 0 else None
