"""A Llama as a PyTorch user writes it; bench/generate.py holds minidl's own against it."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * self.size, bias=False)
        self.proj = nn.Linear(width, width, bias=False)

    def forward(self, x, cos, sin, cache, start):
        B, T, C = x.shape
        x = self.qkv(x).view(B, T, self.heads + 2 * self.kv_heads, self.size).transpose(1, 2)
        q, k, v = x.split([self.heads, self.kv_heads, self.kv_heads], dim=1)    # [B, H, T, D]
        q, k = turn(q, cos, sin), turn(k, cos, sin)
        keys, values = cache
        keys[:, :, start : start + T] = k
        values[:, :, start : start + T] = v
        y = F.scaled_dot_product_attention(q, keys[:, :, : start + T], values[:, :, : start + T],
                                           is_causal=T > 1, enable_gqa=True)
        return self.proj(y.transpose(1, 2).contiguous().view(B, T, C))


def turn(x, cos, sin):
    """Rotary positions of x [B, H, T, D] by cos and sin [T, D/2]."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class Block(nn.Module):
    def __init__(self, width, heads, kv_heads, hidden):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.attn = Attention(width, heads, kv_heads)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, cos, sin, cache, start):
        x = x + self.attn(self.norm1(x), cos, sin, cache, start)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, vocab, context, layers, heads, kv_heads, width, hidden):
        super().__init__()
        self.layers, self.kv_heads, self.size = layers, kv_heads, width // heads
        self.tokens = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList([Block(width, heads, kv_heads, hidden)
                                     for _ in range(layers)])
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, vocab, bias=False)
        angles = torch.outer(torch.arange(context).float(),
                             10000.0 ** (-torch.arange(0, self.size, 2) / self.size))
        self.cos, self.sin = angles.cos(), angles.sin()

    def forward(self, index, caches, start):
        end = start + index.shape[1]
        cos, sin = self.cos[start:end], self.sin[start:end]
        x = self.tokens(index)
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, cos, sin, cache, start)
        return self.head(self.norm(x))


@torch.no_grad()
def generate(model, prompt, n):
    """Greedy decoding of n tokens after prompt [B, T], keys and values kept in caches."""
    B, T = prompt.shape
    shape = (B, model.kv_heads, T + n, model.size)
    caches = [(torch.empty(shape), torch.empty(shape)) for _ in range(model.layers)]
    out, step, start = prompt, prompt, 0
    for _ in range(n):
        logits = model(step, caches, start)
        start += step.shape[1]
        step = logits[:, -1].argmax(dim=-1, keepdim=True)
        out = torch.cat([out, step], dim=1)
    return out
