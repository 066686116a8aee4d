"""A training step of GPT: forward, cross-entropy, backward, clipping at 1.0, AdamW.

The model is bench/scripts/gpt.py, the plain script a PyTorch user writes; minidl runs the same
text with its imports changed.
"""

SIZES = {       # vocab, context, layers, heads, width, batch
    "tiny": (65, 32, 2, 2, 64, 4),
    "nano": (65, 64, 4, 4, 128, 12),
    "base": (65, 256, 6, 6, 384, 8),
    "wide": (5000, 128, 6, 12, 768, 2),
}


def build_for(vocab, context, layers, heads, width, batch):
    def build(lib):
        script = lib.script("gpt")
        model = script["GPT"](vocab, context, layers, heads, width)
        x, y = lib.integers(vocab, batch, context), lib.integers(vocab, batch, context)
        if lib.peer == "compile":
            model = lib.torch.compile(model)
        return script["trainer"](model, x, y)

    return build


def flops(vocab, context, layers, heads, width, batch):
    """Of the matrix products: 2 a weight and token forward, 4 backward; half the scores."""
    weights = layers * 12 * width**2 + width * vocab
    return 6 * batch * context * (weights + layers * context * width)


def cases(case):
    for name, size in SIZES.items():
        build = build_for(*size)
        case(name, ",".join(map(str, size)), {"minidl": build, "torch": build, "compile": build},
             flops=flops(*size), grad=True, quick=name in ("tiny", "nano"))


if __name__ == "__main__":
    from script import run

    run(__file__)
