"""Teach a small transformer to add numbers of three digits, and see it add pairs it never saw.

What you learn here: a task becomes a transformer's job once it is written as a row of tokens; a
loss on some of the tokens only (targets of -100 do not count); and how much the order of the
tokens matters. A sum is worked out from its last digit on, because carries go to the left. So the
answer is written backwards: "457+668=" is continued with "5211". Each digit then depends on two
digits of the numbers and on one carry, which a small model finds out quickly. With --forward
the answer is written as usual: try how much harder that is.

    python examples/addition_transformer.py
    python examples/addition_transformer.py --steps 400      # a quick look
    python examples/addition_transformer.py --forward        # the harder order
"""

import argparse
import time

import numpy as np

import minidl as md
from minidl.models import GPT, GPTConfig
from minidl.nn import functional as F

DIGITS = 3
LETTERS = "0123456789+="
QUESTION = 2 * DIGITS + 2           # tokens of "457+668="
ANSWER = DIGITS + 1                 # tokens of "1125"


def digits(numbers, count):
    """The digits of numbers [N], leading zeros included: [N, count]."""
    return numbers[:, None] // 10 ** np.arange(count - 1, -1, -1) % 10


def write_down(a, b, backwards):
    """Rows of tokens "457+668=5211": [N, QUESTION + ANSWER]."""
    signs = np.full((2, len(a), 1), [[[LETTERS.index("+")]], [[LETTERS.index("=")]]])
    answer = digits(a + b, ANSWER)
    if backwards:
        answer = answer[:, ::-1]
    return np.concatenate([digits(a, DIGITS), signs[0], digits(b, DIGITS), signs[1], answer], 1)


def loss_of(model, rows):
    """Predict each token of the answer from all before it; the question itself is no target."""
    targets = rows[:, 1:].copy()
    targets[:, : QUESTION - 1] = -100
    logits = model(md.from_numpy(rows[:, :-1].copy()))                      # [N, T, V]
    return F.cross_entropy(logits.reshape(-1, len(LETTERS)), md.from_numpy(targets.reshape(-1)))


def answers(model, rows):
    """What the model writes after the questions, the likeliest token each time: [N, ANSWER]."""
    found = md.generate.generate(model, rows[:, :QUESTION].tolist(), ANSWER, temperature=0)
    return np.array(found)


def share_right(model, rows):
    """How many of the answers are right in all their digits, as a share."""
    return (answers(model, rows) == rows[:, QUESTION:]).all(1).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--forward", action="store_true", help="write the answer as usual")
    parser.add_argument("--test", type=int, default=10_000, help="pairs never trained on")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    md.manual_seed(args.seed)

    # All million pairs of numbers in random order; the last ones are never trained on.
    rng = np.random.default_rng(args.seed)
    a, b = np.divmod(rng.permutation(10 ** (2 * DIGITS)), 10**DIGITS)
    rows = write_down(a, b, backwards=not args.forward)
    train, test = rows[: -args.test], rows[-args.test :]

    config = GPTConfig(len(LETTERS), QUESTION + ANSWER, layers=2, heads=4, width=64)
    model = GPT(config)
    optimizer = md.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.99), weight_decay=0.1)
    schedule = md.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=3e-3, total_steps=args.steps, pct_start=0.1)
    print(f"{model.num_parameters():,} parameters, {len(train):,} pairs to learn from")
    start = time.perf_counter()
    for step in range(1, args.steps + 1):
        # Small batches and many steps: the model needs the steps to find out about carries.
        loss = loss_of(model, train[rng.integers(0, len(train), 128)])
        optimizer.zero_grad()
        loss.backward()
        md.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 200 == 0 or step == args.steps:
            right, seconds = share_right(model, test[:500]), time.perf_counter() - start
            print(f"step {step:5d}  loss {loss.item():.4f}  right {right:6.1%}  {seconds:3.0f} s",
                  flush=True)

    print(f"\nof {len(test):,} pairs it never saw {share_right(model, test):.2%} are right; some:")
    for row, answer in zip(test[:5], answers(model, test[:5]), strict=True):
        written = "".join(str(digit) for digit in answer[:: 1 if args.forward else -1])
        print("".join(LETTERS[i] for i in row[:QUESTION]), written, sep="")


if __name__ == "__main__":
    main()
