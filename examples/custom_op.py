"""Write an operation of your own, with its gradient, and have the gradient checked.

What you learn here: `autograd.Function` with `forward` and `backward`, what `ctx` is for,
`gradcheck`, which compares your formula with finite differences, and using the result in a layer
that trains. The operation is squared ReLU, y = max(0, x)^2, whose gradient is 2 max(0, x).

You need this rarely: a function made of minidl's operations has its gradient already. It pays
where the gradient has a simpler formula than the steps of the computation, or where less should be
kept in memory for it; both are true here.

    python examples/custom_op.py
"""

import argparse

import minidl as md
from minidl import nn
from minidl.autograd import Function, gradcheck


class SquaredReLU(Function):
    """y = max(0, x)^2."""

    @staticmethod
    def forward(ctx, x):
        positive = x.clamp(min=0)
        ctx.save_for_backward(positive)     # all that the gradient needs; x itself may go
        return positive * positive

    @staticmethod
    def backward(ctx, g):
        # g is d loss / d y. The chain rule: d loss / d x = g * dy/dx.
        (positive,) = ctx.saved_tensors
        return g * 2 * positive


class Forgetful(SquaredReLU):
    """The same with a mistake in the gradient, to see it found."""

    @staticmethod
    def backward(ctx, g):
        (positive,) = ctx.saved_tensors
        return g * positive


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    args = parser.parse_args()
    md.manual_seed(0)

    # Finite differences need float64: in float32 the rounding would be larger than the step.
    x = md.randn(5, 3, dtype=md.float64, requires_grad=True)
    print("gradcheck of SquaredReLU:", gradcheck(SquaredReLU.apply, (x,)))
    try:
        gradcheck(Forgetful.apply, (x,))
    except md.errors.GradientError as error:
        print("gradcheck of a wrong one:", str(error).splitlines()[0])

    # The same gradient as from the tape, where the operation is written out.
    ours, = md.autograd.grad(SquaredReLU.apply(x).sum(), x)
    tape, = md.autograd.grad((x.relu() ** 2).sum(), x)
    print("largest difference to the tape's gradient:", (ours - tape).abs().max().item())

    class Layer(nn.Module):
        """In a module it is a function like any other."""

        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(1, 32), nn.Linear(32, 1)

        def forward(self, x):
            return self.down(SquaredReLU.apply(self.up(x)))

    points = md.linspace(-3, 3, 128).reshape(-1, 1)
    model = Layer()
    optimizer = md.optim.AdamW(model.parameters(), lr=1e-2)
    print("\nlearning sin(x) with it:")
    for step in range(args.steps):
        loss = nn.functional.mse_loss(model(points), points.sin())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in (0, args.steps - 1) or (step + 1) % 100 == 0:
            print(f"step {step + 1:4d}  mean squared error {loss.item():.5f}")


if __name__ == "__main__":
    main()
