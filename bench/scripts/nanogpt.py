"""nanoGPT's recipe for a CPU as a PyTorch user writes it: no biases, a tied head, two groups of
weight decay, warm-up and cosine, clipping, AdamW. The names of the weights are minidl's."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)        # [B, H, T, D]
        return self.proj(y.transpose(1, 2).contiguous().view(B, T, C))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, bias=False)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, bias=False)
        self.ffn = FeedForward(width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ffn(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocab_size, context, layers, heads, width):
        super().__init__()
        self.token = nn.Embedding(vocab_size, width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width, bias=False)
        self.head = nn.Linear(width, vocab_size, bias=False)
        self.head.weight = self.token.weight

    def forward(self, index, targets):
        x = self.token(index) + self.position(torch.arange(index.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def make_optimizer(model, recipe):
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay},
              {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe.lr, betas=(0.9, recipe.beta2))


def rate(step, recipe):
    """The learning rate of a step, counted from 0."""
    if step < recipe.warmup:
        return recipe.lr * (step + 1) / (recipe.warmup + 1)
    share = (step - recipe.warmup) / (recipe.steps - recipe.warmup)
    return recipe.min_lr + (1 + math.cos(math.pi * share)) / 2 * (recipe.lr - recipe.min_lr)


@torch.no_grad()
def evaluate(model, batches):
    model.eval()
    losses = [(model(x, y).item(), y.numel()) for x, y in batches]
    model.train()
    return sum(loss * n for loss, n in losses) / sum(n for _, n in losses)


def train(model, batches, val_batches, recipe):
    """Yields after each step, evaluations included in it."""
    optimizer = make_optimizer(model, recipe)
    for step, (x, y) in zip(range(recipe.steps), batches, strict=False):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, recipe)
        loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimizer.step()
        if not math.isfinite(loss.item()):
            raise ArithmeticError(f"the loss is {loss.item()}")
        if (step + 1) % recipe.eval_every == 0:
            evaluate(model, val_batches())
        yield
