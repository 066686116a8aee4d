"""Fine-tune a model with LoRA: train small adapters beside frozen weights, then merge them.

What you learn here: replacing layers of a finished model, freezing parameters, training the few
that are left, and that a merged model is again an ordinary one. A linear layer y = W x becomes
y = W x + B A x, where A and B are narrow matrices of `rank` rows and columns: W stays as it is,
only A and B are trained, and in the end W + B A takes the place of W at no cost.

A small GPT first learns Python code, then its adapters learn English: the texts behind Python's
help(). Watch both losses: the adapters learn the new text, and taking them off brings the old
model back.

    python examples/finetune_lora.py
    python examples/finetune_lora.py --steps 60      # a quick look
"""

import argparse
import math
from itertools import islice
from pydoc_data.topics import topics

import minidl as md
from minidl import nn
from minidl.data import DataLoader, TokenDataset
from minidl.models import GPT, GPTConfig

# ---- LoRA, in sixty lines


class LoRALinear(nn.Module):
    """y = base(x) + scale * B A x, with A (rank, in) and B (out, rank); base is frozen.

    A starts random and B as zeros: at first nothing changes, and B gets a gradient at once.
    """

    def __init__(self, base, rank=8, alpha=16.0):
        super().__init__()
        self.base = base
        self.scale = alpha / rank
        self.A = nn.Parameter(md.randn(rank, base.in_features) / math.sqrt(base.in_features))
        self.B = nn.Parameter(md.zeros(base.out_features, rank))

    def forward(self, x):
        # Two narrow products instead of a wide one: B A is never written out while training.
        return self.base(x) + nn.functional.linear(x @ self.A.T, self.B) * self.scale

    def merged(self):
        """The base layer, with the adapter added to its weight."""
        with md.no_grad():
            self.base.weight += self.scale * (self.B @ self.A)
        return self.base


def add_lora(model, rank=8, names=("qkv", "proj", "up", "down")):
    """Freeze a model and put an adapter around each linear layer of these names."""
    model.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in names and isinstance(child, nn.Linear):
                setattr(module, name, LoRALinear(child, rank))
    return model


def remove_lora(model, merge):
    """Take the adapters off again, and keep what they learned if `merge`."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, LoRALinear):
                setattr(module, name, child.merged() if merge else child.base)
    model.requires_grad_(True)
    return model


def lora_state(model):
    """The adapters alone, to save: a small file beside the large one of the model."""
    return {name: p for name, p in model.state_dict().items() if name.endswith((".A", ".B"))}


# ---- and its use


def loaders(text, tokenizer, context):
    """Batches to train on, shuffled; and, always the same, of the text's last tenth to validate."""
    ids = md.tensor(tokenizer.encode(text))
    cut = len(ids) * 9 // 10
    return (DataLoader(TokenDataset(ids[:cut], context, stride=1), batch_size=12, shuffle=True),
            DataLoader(TokenDataset(ids[cut:], context), batch_size=12))


def train(model, loader, steps, lr):
    """Train what requires a gradient."""
    optimizer = md.optim.AdamW(md.optim.decay_groups(model, 0.1), lr=lr, betas=(0.9, 0.99))
    schedule = md.optim.lr_scheduler.WarmupCosineLR(optimizer, steps // 10, steps, eta_min=lr / 10)
    for x, y in islice(loader, steps):
        _, loss = model(x, targets=y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()


@md.no_grad()
def evaluate(model, loader, batches=10):
    losses = [model(x, targets=y)[1].item() for x, y in islice(loader, batches)]
    return sum(losses) / len(losses)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=450, help="for each of the two trainings")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    md.manual_seed(args.seed)

    english = "\n".join(topics.values())[:400_000]
    code = md.text.load_corpus(max_bytes=800_000)
    tokenizer = md.text.CharTokenizer(code + english, byte_fallback=False)
    code_train, code_val = loaders(code, tokenizer, 64)
    english_train, english_val = loaders(english, tokenizer, 64)

    model = GPT(GPTConfig(tokenizer.vocab_size, context=64, layers=4, heads=4, width=128))

    def show(what):
        print(f"{what:28s} loss on code {evaluate(model, code_val):.3f}, "
              f"on English {evaluate(model, english_val):.3f}", flush=True)

    train(model, code_train, args.steps, lr=1e-3)
    show("trained on code:")

    add_lora(model, args.rank)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    whole = model.num_parameters() - trained
    print(f"adapters of rank {args.rank}: {trained:,} numbers to train beside {whole:,} frozen "
          f"ones ({trained / whole:.1%})")
    show("adapters, not yet trained:")
    train(model, english_train, args.steps, lr=5e-3)
    show("adapters trained on English:")

    x, _ = next(iter(english_val))
    with md.no_grad():
        before = model(x)
        adapters = {name: p.clone() for name, p in lora_state(model).items()}
        remove_lora(model, merge=False)
        show("adapters taken off:")
        add_lora(model, args.rank).load_state_dict(adapters, strict=False)
        remove_lora(model, merge=True)
        show("adapters merged:")
        difference = (model(x) - before).abs().max().item()
    print(f"largest difference of a logit, merged or beside: {difference:.1e}\n\na sample:\n")
    print("The", md.generate.generate(model, ["The "], 200, tokenizer=tokenizer, temperature=0.7,
                                      seed=args.seed)[0])


if __name__ == "__main__":
    main()
