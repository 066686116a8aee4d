"""A GPT as a PyTorch user writes it; bench/libraries.py runs it with minidl as well."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x, cache=None, start=0):
        B, T, C = x.shape
        q, k, v = self.qkv(x).split(C, dim=2)
        q = q.view(B, T, self.heads, C // self.heads).transpose(1, 2)       # [B, H, T, D]
        k = k.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        v = v.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        if cache is not None:
            keys, values = cache
            keys[:, :, start : start + T] = k
            values[:, :, start : start + T] = v
            k, v = keys[:, :, : start + T], values[:, :, : start + T]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
        return self.proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 4 * width)
        self.proj = nn.Linear(4 * width, width)

    def forward(self, x, cache=None, start=0):
        x = x + self.attn(self.ln_1(x), cache, start)
        return x + self.proj(F.gelu(self.fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self, vocab, context, layers, heads, width):
        super().__init__()
        self.layers, self.heads, self.width = layers, heads, width
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, index, caches=None, start=0):
        positions = torch.arange(start, start + index.shape[1])
        x = self.tokens(index) + self.positions(positions)
        for i, block in enumerate(self.blocks):
            x = block(x, caches[i] if caches is not None else None, start)
        return self.head(self.ln(x))


def trainer(model, x, y):
    """step(): one step of training on a batch of token numbers x and their successors y."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)

    def step():
        logits = model(x)
        loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return step


@torch.no_grad()
def generate(model, prompt, n):
    """Greedy decoding of n tokens after prompt [B, T], keys and values kept in caches."""
    B, T = prompt.shape
    shape = (B, model.heads, T + n, model.width // model.heads)
    caches = [(torch.empty(shape), torch.empty(shape)) for _ in range(model.layers)]
    out, step, start = prompt, prompt, 0
    for _ in range(n):
        logits = model(step, caches, start)
        start += step.shape[1]
        step = logits[:, -1].argmax(dim=-1, keepdim=True)
        out = torch.cat([out, step], dim=1)
    return out
