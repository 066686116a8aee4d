"""Scaled dot-product attention, fused against the products and softmax written out."""

import math

CAUSAL = ((8, 6, 256, 64), (1, 8, 512, 64), (12, 4, 64, 32), (1, 8, 2048, 64))      # B, H, T, D


def written_out(lib, q, k, v, causal):
    """softmax(q k' / sqrt(D)) v, the scores in memory."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if causal is not None:
        scores = scores.masked_fill(causal, float("-inf"))
    return lib.F.softmax(scores, dim=-1) @ v


def build_for(shape, causal, backward):
    def build(lib):
        q, k, v = (lib.tensor(*shape, grad=backward) for _ in range(3))
        T = shape[2]
        mask = lib.torch.ones(T, T).triu(1) > 0 if causal else None

        def forward():
            if lib.peer == "unfused":
                return written_out(lib, q, k, v, mask)
            return lib.F.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return lib.backward(forward, [q, k, v]) if backward else forward

    return build


def cases(case):
    def add(name, shape, causal, backward, **options):
        B, H, T, D = shape
        build = build_for(shape, causal, backward)
        flops = 4 * B * H * T * T * D * (0.5 if causal else 1) * (3 if backward else 1)
        case(name, "x".join(map(str, shape)), {"minidl": build, "torch": build, "unfused": build},
             flops=flops, bytes=4 * B * H * T * D * (12 if backward else 4), grad=backward,
             **options)

    add("heads", (1, 8, 512, 64), False, False, quick=True)
    for shape in CAUSAL:
        add("causal", shape, True, False)
        add("causal f+b", shape, True, True, quick=shape[2] <= 256)


if __name__ == "__main__":
    from script import run

    run(__file__)
