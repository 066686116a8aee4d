"""DataLoader: batches in order or shuffled, made here or in worker processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minidl.errors import ArgumentError
from minidl.ops.generator import Generator, chosen
from minidl_kernels import HOST

from .collate import default_collate
from .shuffle import permuted

AHEAD = 64  # batches whose shuffle is computed at once: NumPy's cost of a call, shared


class DataLoader:
    """Batches of a dataset. Each ``for`` is an epoch, with a shuffle of its own.

    The shuffle is a formula of a seed, drawn once from ``generator``, the epoch and the position:
    ``state_dict()`` is four numbers, and a loaded loader goes on with the next batch, exactly and
    at once, also in the middle of an epoch. With ``num_workers`` the batches are made
    ``prefetch_factor`` per worker ahead, in processes of ``multiprocessing_context`` ("fork",
    "spawn", "forkserver"); they are the same and in the same order as without.

    >>> loader = md.data.DataLoader(md.data.TensorDataset(md.arange(5)), batch_size=2)
    >>> [batch[0].tolist() for batch in loader]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        drop_last: bool = False,
        multiprocessing_context: str | None = None,
        generator: Generator | None = None,
        prefetch_factor: int = 2,
    ) -> None:
        if batch_size < 1 or num_workers < 0 or prefetch_factor < 1:
            raise ArgumentError(
                "DataLoader: batch_size and prefetch_factor must be at least 1 and num_workers "
                f"at least 0, got {batch_size}, {prefetch_factor} and {num_workers}"
            )
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.num_workers = num_workers
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.multiprocessing_context = multiprocessing_context
        self.prefetch_factor = prefetch_factor
        self.seed = int(HOST.bits64(1, *chosen(generator).reserve(1, 2))[0]) >> 1
        self.epoch = 0
        self._position = 0  # batches of this epoch that were handed out
        self._resumed = False
        self._newest: object = None

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        n = len(self.dataset)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def indices(self, epoch: int, start: int = 0) -> Iterator[np.ndarray]:
        """The samples of each batch of an epoch, int64, from batch ``start`` on."""
        n, size, batches = len(self.dataset), self.batch_size, len(self)
        for first in range(start, batches, AHEAD):
            last = min(first + AHEAD, batches)
            places = np.arange(first * size, min(last * size, n))
            some = permuted(places, n, self.seed, epoch) if self.shuffle else places
            for i in range(0, len(some), size):
                yield some[i : i + size]

    def __iter__(self) -> Iterator[Any]:
        if self._position and not self._resumed:  # the last epoch was left before its end
            self.epoch, self._position = self.epoch + 1, 0
        self._resumed = False
        mine = self._newest = object()
        return self._epoch(mine, self.epoch, self._position)

    def _epoch(self, mine: object, epoch: int, start: int) -> Iterator[Any]:
        batches = self.indices(epoch, start)
        made = self._in_workers(batches) if self.num_workers else self._here(batches)
        for done, batch in enumerate(made, start + 1):
            if self._newest is mine:
                self._position = done
            yield batch
        if self._newest is mine:
            self.epoch, self._position = epoch + 1, 0

    def _here(self, batches: Iterator[np.ndarray]) -> Iterator[Any]:
        for indices in batches:
            yield fetch(self.dataset, self.collate_fn, indices)

    def _in_workers(self, batches: Iterator[np.ndarray]) -> Iterator[Any]:
        import multiprocessing
        from concurrent.futures import Future, ProcessPoolExecutor
        from concurrent.futures.process import BrokenProcessPool

        context = multiprocessing.get_context(self.multiprocessing_context)
        pool = ProcessPoolExecutor(
            self.num_workers, context, _start_worker, (self.dataset, self.collate_fn)
        )
        waiting: deque[Future[Any]] = deque()
        try:
            for indices in batches:
                waiting.append(pool.submit(_fetch_in_worker, indices))
                if len(waiting) > self.num_workers * self.prefetch_factor:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise RuntimeError(
                "DataLoader: a worker process ended before its batch was made: it was killed, or "
                "could not start (a script that spawns needs `if __name__ == '__main__':`)"
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def state_dict(self) -> dict[str, int]:
        """The seed and the next batch to hand out.

        >>> loader = md.data.DataLoader(md.data.TensorDataset(md.arange(5)), shuffle=True)
        >>> loader.state_dict()["position"]
        0
        """
        over = self._position >= len(self)
        epoch, position = (self.epoch + 1, 0) if over else (self.epoch, self._position)
        samples = len(self.dataset)
        return {"seed": self.seed, "epoch": epoch, "position": position, "samples": samples}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Go on with the batch after the last that the saved loader had handed out."""
        missing = {"seed", "epoch", "position", "samples"} - set(state_dict)
        if missing:
            raise ArgumentError(
                f"DataLoader: this is not the state of a loader, {sorted(missing)} is missing"
            )
        if state_dict["samples"] != len(self.dataset):
            raise ArgumentError(
                f"DataLoader: the state is that of a dataset of {state_dict['samples']} samples, "
                f"this one has {len(self.dataset)}"
            )
        self.seed, self.epoch = state_dict["seed"], state_dict["epoch"]
        self._position = state_dict["position"]
        self._resumed = True
        self._newest = None


def fetch(dataset: Any, collate_fn: Callable[[list[Any]], Any] | None, indices: np.ndarray) -> Any:
    """A batch: by the dataset itself when it can, else sample by sample."""
    if collate_fn is None and hasattr(dataset, "batch"):
        return dataset.batch(indices)
    return (collate_fn or default_collate)([dataset[i] for i in indices.tolist()])


_worker: tuple[Any, Any] = (None, None)


def _start_worker(dataset: Any, collate_fn: Callable[[list[Any]], Any] | None) -> None:
    global _worker
    _worker = dataset, collate_fn
    HOST.threads.set_num_threads(1)  # the cores are taken by the other workers and the training


def _fetch_in_worker(indices: np.ndarray) -> Any:
    return fetch(*_worker, indices)
