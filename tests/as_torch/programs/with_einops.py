"""einops, on tensors and as layers."""

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce

torch.manual_seed(0)
x = torch.randn(2, 3, 8, 8, requires_grad=True)
patches = rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4)
print(*patches.shape, f"{patches[1, 2].sum().item():.4f}")
print(f"{reduce(x, 'b c h w -> b c', 'max').sum().item():.4f}")
print(*repeat(x, "b c h w -> b (r c) h w", r=2).shape)
print(f"{einsum(x, x, 'b c h w, b c h w -> b').sum().item():.3f}")
packed, shapes = pack([x[:, 0], x], "b * h w")
print(
    *packed.shape, *(part.shape[1] for part in unpack(packed, shapes, "b * h w") if part.dim() > 3)
)
net = torch.nn.Sequential(
    EinMix("b c h w -> b d h w", weight_shape="c d", bias_shape="d", c=3, d=5),
    Reduce("b c (h 2) (w 2) -> b c h w", "mean"),
    Rearrange("b c h w -> b (c h w)"),
    torch.nn.Linear(80, 4),
)
loss = net(x).square().sum()
loss.backward()
print(f"{loss.item():.4f} {x.grad.abs().sum().item():.4f}")
