"""Recognise handwritten digits with a network of two layers.

What you learn here: a dataset and a loader that shuffles and makes batches, a classifier with
cross-entropy, dropout and the difference between train() and eval(), and why the accuracy is
measured on images that were not trained on.

The images are the 1,797 of scikit-learn, 8 x 8 pixels each (`pip install scikit-learn`). Where
it is not installed, printed digits with noise stand in for them, and the accuracy says nothing
about handwriting.

    python examples/digits_mlp.py
"""

import argparse

import numpy as np

import minidl as md
from minidl import nn
from minidl.data import DataLoader, TensorDataset

# Three columns by five rows of a printed digit, from 0 to 9.
FONT = ["111101101101111", "010110010010111", "111001111100111", "111001111001111",
        "101101111001001", "111100111001111", "111100111101111", "111001010010010",
        "111101111101111", "111101111001111"]


def load_digits(rng):
    """Images [N, 64] from 0 to 1, their digits [N], and where they come from."""
    try:
        from sklearn import datasets
    except ImportError:
        images, labels = print_digits(rng, 1797)
        source = "printed digits with noise (pip install scikit-learn for handwritten ones)"
    else:
        images, labels = datasets.load_digits(return_X_y=True)
        images, source = images / 16, "handwritten digits of scikit-learn"
    order = rng.permutation(len(images))
    return images[order].astype(np.float32), labels[order].astype(np.int64), source


def print_digits(rng, count):
    """Digits of the font near the middle of 8 x 8 pixels, with noise over them."""
    labels = rng.integers(0, 10, count)
    images = rng.normal(0, 0.3, (count, 8, 8))
    for image, label in zip(images, labels, strict=True):
        top, left = 1, rng.integers(2, 4)
        image[top : top + 5, left : left + 3] += np.array(list(FONT[label]), float).reshape(5, 3)
    return images.clip(0, 1).reshape(count, 64), labels


def accuracy(model, images, labels):
    """The share of images whose likeliest class is theirs."""
    model.eval()                        # dropout off: every unit takes part
    with md.no_grad():
        right = model(images).argmax(1) == labels
    model.train()
    return right.float().mean().item()


def show(image, text):
    """An image of 64 pixels in characters, the darker the denser."""
    print(text)
    for row in image.reshape(8, 8):
        print("   ", "".join(" .:-=+*#%@"[int(pixel * 9)] * 2 for pixel in row))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    md.manual_seed(args.seed)

    images, labels, source = load_digits(np.random.default_rng(args.seed))
    x, y = md.from_numpy(images), md.from_numpy(labels)
    x_test, y_test = x[:360], y[:360]
    loader = DataLoader(TensorDataset(x[360:], y[360:]), batch_size=32, shuffle=True)
    print(f"{len(x) - 360} images to learn, 360 to test: {source}")

    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10))
    optimizer = md.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        total = 0.0
        for images_now, labels_now in loader:
            loss = loss_fn(model(images_now), labels_now)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        if epoch % 5 == 4 or epoch == args.epochs - 1:
            print(f"epoch {epoch + 1:3d}  loss {total / len(loader):.4f}  "
                  f"test accuracy {accuracy(model, x_test, y_test):.1%}")

    model.eval()
    with md.no_grad():
        p = model(x_test).softmax(1)
    guesses, truth = p.argmax(1).tolist(), y_test.tolist()
    for i in [i for i in range(360) if guesses[i] != truth[i]][:2]:
        show(images[i], f"\ntaken for a {guesses[i]} (p = {p[i, guesses[i]].item():.2f}), "
                        f"but it is a {truth[i]}")


if __name__ == "__main__":
    main()
