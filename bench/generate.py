"""Greedy decoding with cached keys and values, one sequence: nano, base, and a GPT-2 of 124M.

GPT and Llama are minidl's own models and md.generate, against a PyTorch script of the same model
with its own cache. The rows "script" run that script with both libraries.
"""

SIZES = {       # vocab, context, layers, heads, width; prompt and new tokens
    "nano": ((65, 128, 4, 4, 128), 16, 64),
    "base": ((65, 256, 6, 6, 384), 16, 64),
    "124M": ((50257, 1024, 12, 12, 768), 16, 16),
}


def script_for(size, prompt, n):
    def build(lib):
        script = lib.script("gpt")
        model = script["GPT"](*size)
        start = lib.integers(size[0], 1, prompt)
        return lambda: script["generate"](model, start, n)

    return build


def own_for(kind, size, prompt, n):
    """minidl's own GPT or Llama, the latter with half as many heads for keys and values."""
    vocab, context, layers, heads, width = size
    hidden = -(-width * 8 // 3 // 64) * 64
    own = {"vocab_size": vocab, "context": context, "layers": layers, "heads": heads,
           "width": width}
    if kind == "llama":
        size = (vocab, context, layers, heads, heads // 2, width, hidden)
        own |= {"kv_heads": heads // 2, "hidden": hidden}
    name = {"gpt": "GPT", "llama": "Llama"}[kind]

    def build(lib):
        start = lib.integers(vocab, 1, prompt)
        if lib.peer == "minidl":
            models, generate = lib.torch.models, lib.torch.generate.generate
            model = getattr(models, name)(getattr(models, f"{name}Config")(**own))
            tokens = start.tolist()
            return lambda: generate(model, tokens, n, temperature=0)
        script = lib.script(kind)
        model = script[name](*size)
        model.head.weight = model.tokens.weight             # as minidl's own
        return lambda: script["generate"](model, start, n)

    return build


def cases(case):
    for name, (size, prompt, n) in SIZES.items():
        vocab, _, layers, _, width = size
        weights = 12 * layers * width**2 + vocab * width
        shape = f"{prompt} + {n} tokens"
        work = {"items": n, "unit": "tok/s", "flops": 2 * weights * (prompt + n),
                "bytes": 4 * weights * n}
        case(f"{name} GPT", shape, own_for("gpt", size, prompt, n), quick=name == "nano", **work)
        if name != "124M":
            case(f"{name} Llama", shape, own_for("llama", size, prompt, n), **work)
            case(f"{name} script", shape, script_for(size, prompt, n), **work)


if __name__ == "__main__":
    from script import run

    run(__file__)
