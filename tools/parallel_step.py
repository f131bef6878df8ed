"""Forward and backward passes of one step, spread over threads that each take what is next.

PyTorch's own CPU threads split every operation evenly and wait for the slowest, which is slow on a
machine that has other work. Here each thread runs whole micro-batches on a core of its own.
"""

import concurrent.futures
import copy
import queue

import torch


class ParallelStep:
    """Owns one replica per extra thread; replicas share the weights of `model`, not gradients."""

    def __init__(self, model: torch.nn.Module, loss_of, threads: int):
        self._loss_of = loss_of
        self._replicas = [model] + [self._share(model) for _ in range(threads - 1)]
        self._pool = concurrent.futures.ThreadPoolExecutor(
            threads, initializer=torch.set_num_threads, initargs=(1,))

    @staticmethod
    def _share(model: torch.nn.Module) -> torch.nn.Module:
        replica = copy.deepcopy(model)
        for own, shared in zip(replica.parameters(), model.parameters()):
            own.data = shared.data
        return replica

    def run(self, ids: torch.Tensor, micro_rows: int) -> float:
        """Leaves the gradient of the mean loss in the model's parameters; returns that loss.

        ids [rows, length]; rows must be a multiple of `micro_rows`.
        """
        parts = queue.SimpleQueue()
        pieces = ids.split(micro_rows)
        for piece in pieces:
            parts.put(piece)
        futures = [self._pool.submit(self._work, replica, parts, len(pieces))
                   for replica in self._replicas]
        loss = sum(future.result() for future in futures)
        self._collect()
        return loss

    def _work(self, model: torch.nn.Module, parts: queue.SimpleQueue, count: int) -> float:
        total = 0.0
        while True:
            try:
                ids = parts.get_nowait()
            except queue.Empty:
                return total
            loss = self._loss_of(model, ids) / count
            loss.backward()
            total += loss.item()

    @torch.no_grad()
    def _collect(self):
        first = self._replicas[0]
        for replica in self._replicas[1:]:
            for target, part in zip(first.parameters(), replica.parameters()):
                if part.grad is None:
                    continue
                target.grad = part.grad if target.grad is None else target.grad + part.grad
                part.grad = None
