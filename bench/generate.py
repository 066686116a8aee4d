"""Greedy decoding with cached keys and values, one sequence: nano, base, and a GPT-2 of 124M."""

SIZES = {       # vocab, context, layers, heads, width; prompt and new tokens
    "nano": ((65, 128, 4, 4, 128), 16, 64),
    "base": ((65, 256, 6, 6, 384), 16, 64),
    "124M": ((50257, 1024, 12, 12, 768), 16, 16),
}


def build_for(size, prompt, n):
    def build(lib):
        script = lib.script("gpt")
        model = script["GPT"](*size)
        if size[0] == 50257:
            model.head.weight = model.tokens.weight         # as GPT-2 does
        start = lib.integers(size[0], 1, prompt)
        return lambda: script["generate"](model, start, n)

    return build


def cases(case):
    for name, (size, prompt, n) in SIZES.items():
        vocab, _, layers, _, width = size
        weights = 12 * layers * width**2 + vocab * width
        case(name, f"{prompt} + {n} tokens", build_for(size, prompt, n), items=n, unit="tok/s",
             flops=2 * weights * (prompt + n), bytes=4 * weights * n, quick=name == "nano")


if __name__ == "__main__":
    from script import run

    run(__file__)
