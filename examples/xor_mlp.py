"""The smallest network that needs a hidden layer: exclusive or.

What you learn here: tensors, a module, a loss, `backward()` and an optimizer, which is all there
is to training; everything larger repeats these lines. No straight line separates the points where
XOR is 1 from those where it is 0, so a linear layer alone cannot learn it; two of them with a
bend (tanh) between can.

    python examples/xor_mlp.py
"""

import argparse

import minidl as md
from minidl import nn


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    md.manual_seed(args.seed)

    # The whole truth table is the data: four inputs of two numbers, and what is to come out.
    x = md.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])         # [4, 2]
    y = md.tensor([[0.0], [1.0], [1.0], [0.0]])                             # [4, 1]

    # Two numbers in, eight hidden ones, one out: the logit of the answer being 1. A logit is any
    # number; a sigmoid makes a probability of it, which the loss does itself, more precisely.
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    loss_fn = nn.BCEWithLogitsLoss()
    optimizer = md.optim.AdamW(model.parameters(), lr=0.05)

    for step in range(args.steps):
        loss = loss_fn(model(x), y)     # forward: how wrong is the model now?
        optimizer.zero_grad()           # gradients add up, so forget those of the last step
        loss.backward()                 # backward: d loss / d parameter, for each of them
        optimizer.step()                # move each parameter a little against its gradient
        if (step + 1) % 100 == 0:
            print(f"step {step + 1:4d}  loss {loss.item():.4f}")

    with md.no_grad():                  # nothing to differentiate when asking only
        p = model(x).sigmoid()
    print("\n a  b   p(a xor b)")
    for (a, b), answer in zip(x.tolist(), p[:, 0].tolist(), strict=True):
        print(f" {a:.0f}  {b:.0f}   {answer:.3f}")


if __name__ == "__main__":
    main()
