"""What an installation must be able to do: run alone, away from the tree, by test_sdist.py."""

import minidl as md
from minidl import nn

md.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 1))
optimizer = md.optim.AdamW(model.parameters(), lr=0.01)
x = md.randn(64, 8)
y = x[:, :1] * x[:, 1:2]
losses = []
for _ in range(200):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0] / 2, losses
q = md.randn(1, 2, 5, 8, requires_grad=True)
nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
assert q.grad.shape == q.shape
md.show_config()
print("trained, from", md.__file__)
