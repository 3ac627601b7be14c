"""x_transformers, vector_quantize_pytorch, entmax, lion_pytorch and ema_pytorch."""

import torch
from ema_pytorch import EMA
from entmax import entmax15, sparsemax
from lion_pytorch import Lion
from vector_quantize_pytorch import FSQ, VectorQuantize
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

torch.manual_seed(0)
model = AutoregressiveWrapper(
    TransformerWrapper(
        num_tokens=40,
        max_seq_len=32,
        attn_layers=Decoder(dim=32, depth=2, heads=2, rotary_pos_emb=True, ff_glu=True),
    )
)
optimizer = Lion(model.parameters(), lr=1e-4)
average = EMA(model, beta=0.9, update_every=1, update_after_step=0)
tokens = torch.randint(40, (2, 17))
for _ in range(4):
    loss = model(tokens)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update()
    print(f"{loss.item():.6f}")
print(f"{average(tokens).item():.6f}")
print(model.generate(tokens[:, :4], 5, temperature=0.0).tolist())
x = torch.randn(2, 12, 8, requires_grad=True)
print(
    f"{entmax15(x, -1).square().sum().item():.6f}", f"{sparsemax(x, -1).square().sum().item():.6f}"
)
entmax15(x, -1).square().sum().backward()
print(f"{x.grad.abs().sum().item():.6f}")
quantizer = VectorQuantize(dim=8, codebook_size=16, decay=0.8, commitment_weight=1.0)
for _ in range(3):
    found, index, loss = quantizer(x.detach())
    print(index.sum().item(), f"{loss.item():.6f}")
print(FSQ([5, 5, 5, 5, 5, 5, 5, 5][:4] * 2)(x.detach())[1].sum().item())
