"""Small GPT-2 and BERT of transformers: training and greedy generation."""

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    logging,
)

logging.set_verbosity_error()
torch.manual_seed(0)
small = {"vocab_size": 100, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
gpt = GPT2LMHeadModel(GPT2Config(n_positions=32, n_embd=32, n_layer=2, n_head=2, **small))
bert = BertForSequenceClassification(
    BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
    )
)
words = torch.randint(3, 100, (4, 16))
for model, labels in ((gpt, words), (bert, torch.tensor([0, 1, 0, 1]))):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(5):
        loss = model(words, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(type(model).__name__, f"{loss.item():.5f}")
gpt.eval()
print(*gpt.generate(words[:1, :4], max_new_tokens=6, do_sample=False)[0].tolist())
