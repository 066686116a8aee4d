"""minidl against PyTorch's own sample, reference and error inputs (see torch_oracle.py).

MINIDL_ALL_SAMPLES=1 runs every sample instead of a spread of them. Run the file itself for a table:
`python tests/ops/test_torch_samples.py [name ...]`.
"""

import sys
from collections import Counter

import pytest

pytest.importorskip("torch", reason="torch is not installed: nothing to compare with")
pytest.importorskip("expecttest", reason="torch's sample inputs need the package expecttest")
import torch_oracle as oracle

OPS = oracle.covered()
IDS = [op.name + ("-" + op.variant_test_name if op.variant_test_name else "") for op in OPS]


def text(failures):
    return f"{len(failures)} samples\n" + "\n".join(failures[:8])


@pytest.mark.parametrize("op", OPS, ids=IDS)
def test_samples(op):
    failures = oracle.run(op)
    assert not failures, text(failures)


@pytest.mark.parametrize("op", [op for op in OPS if op.error_inputs_func is not None],
                         ids=[i for i, op in zip(IDS, OPS, strict=True)
                              if op.error_inputs_func is not None])
def test_error_inputs(op):
    failures = oracle.run_errors(op)
    assert not failures, text(failures)


def test_oracle_sees_a_wrong_number(monkeypatch):
    """The comparison itself can fail: a sum that is off by a little is noticed."""
    right = oracle.md.sum
    monkeypatch.setattr(oracle.md, "sum", lambda *a, **k: right(*a, **k) + 1)
    op = next(op for op in OPS if op.name == "sum")
    assert oracle.run(op)


def table(names):
    """Print how every op fares: equal, declined, skipped, failed."""
    total = Counter()
    for name, op in zip(IDS, OPS, strict=True):
        if names and op.name not in names:
            continue
        tally = Counter()
        failures = oracle.run(op, tally) + oracle.run_errors(op, tally)
        plain = {k: v for k, v in tally.items() if not k.startswith("declined:")}
        total.update(plain)
        print(f"{name:42}", "  ".join(f"{k} {v}" for k, v in sorted(plain.items())), flush=True)
        for line in failures[:4 if len(names) != 1 else 40]:
            print("    ", line[:400])
        if len(names) == 1:
            for k, v in tally.items():
                if k.startswith("declined:"):
                    print("    ", v, k)
    print("total", dict(total))


if __name__ == "__main__":
    table(sys.argv[1:])
