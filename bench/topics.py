"""The topics, and what a case of one is.

A topic is a module of this package with a docstring and one or both of two functions.
`cases(case)` names what to time, by calling case(...) once for each; nothing is built until a
worker process asks for it. `rows(session)` measures by itself and yields finished rows, for what is
not the time of a call.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass

TOPICS = (
    "matmul", "batched_matmul", "linear", "elementwise", "gelu", "softmax", "layer_norm",
    "cross_entropy", "embedding", "attention", "multi_head_attention", "dropout", "optimizer",
    "op_overhead", "mlp_step", "train_step", "trainer", "nanogpt", "generate", "threads",
    "memory", "serialization", "startup",
)


@dataclass(frozen=True)
class Case:
    """One thing to time: builders by peer, and the work that one call does."""

    name: str
    shape: str
    builders: dict[str, Callable]   # peer -> build(lib) -> call()
    flops: float = 0                # of one call
    bytes: float = 0                # that one call has to move between memory and the processor
    items: float = 0                # what the throughput counts when it is not FLOPs
    unit: str = "GEl/s"             # of items; "tok/s" and "steps/s" are not in billions
    grad: bool = False              # record a graph; otherwise every library runs under no_grad
    threads: int = 0                # run on this number of threads only
    quick: bool = False             # part of --quick
    rounds: int = 0                 # at most so many; with 1, for what takes minutes, no warm-up


def load(topic):
    return importlib.import_module(f"bench.{topic}")


def cases(topic):
    """The cases of a topic, in order; a worker finds its case by the place in this list."""
    found = []

    def case(name, shape, builders, **options):
        if callable(builders):
            builders = {"minidl": builders, "torch": builders}
        found.append(Case(name, shape, builders, **options))

    load(topic).cases(case)
    return found
