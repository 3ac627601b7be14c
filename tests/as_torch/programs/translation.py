"""A translator: encoder and decoder with masks for padding and for the future, greedy decoding."""

import math
import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

torch.set_default_dtype(torch.float64)
PAD, BOS, EOS, FIRST, SIZE = 0, 1, 2, 3, 20
random.seed(0)
PAIRS = []
for _ in range(64):
    words = [random.randrange(FIRST, SIZE) for _ in range(random.randrange(2, 8))]
    PAIRS.append((words, [FIRST + (w * 7) % (SIZE - FIRST) for w in reversed(words)]))


def collate(batch):
    sides = []
    for side in zip(*batch, strict=True):
        rows = [
            torch.cat((torch.tensor([BOS]), torch.tensor(w), torch.tensor([EOS]))) for w in side
        ]
        sides.append(pad_sequence(rows, padding_value=PAD))
    return sides


class Positions(nn.Module):
    def __init__(self, width, longest=50):
        super().__init__()
        rates = torch.exp(-torch.arange(0, width, 2) * math.log(10000) / width)
        places = torch.arange(0, longest).reshape(longest, 1)
        table = torch.zeros((longest, width))
        table[:, 0::2], table[:, 1::2] = torch.sin(places * rates), torch.cos(places * rates)
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("table", table.unsqueeze(-2))

    def forward(self, x):
        return self.dropout(x + self.table[: x.size(0)])


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Embedding(SIZE, 32), nn.Embedding(SIZE, 32)
        self.positions = Positions(32)
        self.transformer = nn.Transformer(32, 4, 2, 2, 64, 0.1)
        self.ff = nn.Linear(32, SIZE)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def forward(self, source, target, masks):
        out = self.transformer(
            self.positions(self.source(source)),
            self.positions(self.target(target)),
            masks[0],
            masks[1],
            None,
            masks[2],
            masks[3],
            masks[2],
        )
        return self.ff(out)

    def encode(self, source, mask):
        return self.transformer.encoder(self.positions(self.source(source)), mask)

    def decode(self, target, memory, mask):
        return self.transformer.decoder(self.positions(self.target(target)), memory, mask)


def future(size):
    mask = (torch.triu(torch.ones((size, size))) == 1).transpose(0, 1)
    return mask.float().masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, 0.0)


def masks_of(source, target):
    n = len(source)
    return (
        torch.zeros((n, n)).type(torch.bool),
        future(len(target)).isinf(),
        (source == PAD).transpose(0, 1),
        (target == PAD).transpose(0, 1),
    )


torch.manual_seed(0)
model = Translator()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
loss_of = nn.CrossEntropyLoss(ignore_index=PAD)
for _ in range(4):
    total = 0.0
    for source, target in DataLoader(PAIRS, batch_size=16, collate_fn=collate):
        logits = model(source, target[:-1], masks_of(source, target[:-1]))
        optimizer.zero_grad()
        loss = loss_of(logits.reshape(-1, SIZE), target[1:].reshape(-1))
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"{total:.5f}")
model.eval()
with torch.no_grad():
    source = collate(PAIRS[:1])[0]
    memory = model.encode(source, torch.zeros(len(source), len(source)).bool())
    said = torch.ones(1, 1).fill_(BOS).type(torch.long)
    for _ in range(8):
        out = model.decode(said, memory, future(said.size(0)).type(torch.bool)).transpose(0, 1)
        word = torch.max(model.ff(out[:, -1]), dim=1)[1].item()
        said = torch.cat([said, torch.ones(1, 1).type_as(source.data).fill_(word)], dim=0)
        if word == EOS:
            break
    print(said.flatten().tolist(), f"{memory.abs().sum().item():.4f}")
