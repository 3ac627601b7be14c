"""peft: LoRA on a small GPT-2."""

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(vocab_size=50, n_positions=32, n_embd=32, n_layer=2, n_head=2)
model = get_peft_model(
    GPT2LMHeadModel(config),
    LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True),
)
trained, total = model.get_nb_trainable_parameters()
print(trained, total)
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2)
tokens = torch.randint(50, (4, 16))
for _ in range(4):
    loss = model(input_ids=tokens, labels=tokens).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
model.eval()
with torch.no_grad():
    before = model(input_ids=tokens).logits
    after = model.merge_and_unload()(input_ids=tokens).logits
print(f"{before.abs().mean().item():.5f}", torch.allclose(before, after, atol=1e-5))
