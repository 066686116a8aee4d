"""Saving and loading a model: minidl's safetensors files against numbers as JSON text.

The models are those of the page the project started from. md.save waits until the file is on the
disk (fsync), which torch.save and safetensors' save_file do not.
"""

SIZES = {"5K,768,6": (5000, 128, 6, 12, 768), "10K,1024,12": (10000, 128, 12, 16, 1024)}
QUICK = {"65,128,4": (65, 64, 4, 4, 128)}
ENDINGS = {"torch": "pt", "json": "json"}


def path(lib):
    return lib.path(f"model.{ENDINGS.get(lib.peer, 'safetensors')}")


def saving(size):
    """call(): save a state_dict with the peer's own function."""
    def build(lib):
        file = path(lib)
        if lib.peer == "safetensors":
            from safetensors.numpy import save_file

            tensors = {name: lib.array(*shape) for name, shape in shapes(size).items()}
            return lambda: save_file(tensors, file)
        if not hasattr(lib.torch, "save"):
            raise NotImplementedError("this minidl has no md.save")
        state = lib.script("gpt")["GPT"](*size).state_dict()
        options = {"json_lists": True} if lib.peer == "json" else {}
        return lambda: lib.torch.save(state, file, **options)

    return build


def loading(size, **options):
    """call(): load what saving wrote."""
    def build(lib):
        saving(size)(lib)()
        file = path(lib)
        if lib.peer == "safetensors":
            from safetensors.numpy import load_file

            return lambda: load_file(file)
        mine = options if lib.peer in ("minidl", "torch") else {}
        return lambda: lib.torch.load(file, **mine)

    return build


def shapes(size):
    """Names and shapes of the model's parameters."""
    vocab, context, layers, _, width = size
    found = {"tokens": (vocab, width), "positions": (context, width), "head": (vocab, width)}
    for i in range(layers):
        found |= {f"{i}.qkv": (3 * width, width), f"{i}.proj": (width, width),
                  f"{i}.up": (4 * width, width), f"{i}.down": (width, 4 * width)}
    return found


def cases(case):
    for label, size in (QUICK | SIZES).items():
        n, quick = sum(rows * columns for rows, columns in shapes(size).values()), label in QUICK
        others = {"torch", "safetensors", "json"}
        for name, build, peers in (("save", saving(size), others), ("load", loading(size), others),
                                   ("load mapped", loading(size, mmap=True), {"torch"})):
            case(name, label, dict.fromkeys(["minidl", *sorted(peers)], build), items=4 * n,
                 unit="GB/s", quick=quick, threads=1, rounds=0 if quick else 1)


if __name__ == "__main__":
    from script import run

    run(__file__)
