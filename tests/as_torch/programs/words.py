"""A language model of words: five kinds of networks, saved whole and read under a list."""

import io
import math

import torch
from torch import nn

TEXT = (
    "a program is a list of steps and a step is a line of text . a line of text has words . "
    "the words of a line are read one after another , and each word depends on those before it . "
    "a model of words guesses the next word from the words before it , and is told what it was . "
) * 4
WORDS = sorted(set(TEXT.split()))
IDS = torch.tensor([WORDS.index(word) for word in TEXT.split()])
STEPS, BATCH = 12, 4


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(len(WORDS), 16)
        if kind in ("LSTM", "GRU"):
            self.rnn = getattr(nn, kind)(16, 16, 2, dropout=0.2)
        else:
            self.rnn = nn.RNN(16, 16, 2, nonlinearity=kind[4:].lower(), dropout=0.2)
        self.decoder = nn.Linear(16, len(WORDS))
        self.decoder.weight = self.encoder.weight  # tied
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, x, hidden=None):
        out, hidden = self.rnn(self.drop(self.encoder(x)), hidden)
        logits = self.decoder(self.drop(out)).view(-1, len(WORDS))
        return nn.functional.log_softmax(logits, dim=1), hidden


class Attending(nn.Transformer):
    def __init__(self):
        super().__init__(16, 2, num_encoder_layers=2, num_decoder_layers=0, dim_feedforward=32)
        self.input_emb = nn.Embedding(len(WORDS), 16)
        self.decoder = nn.Linear(16, len(WORDS))

    def forward(self, x, hidden=None):
        mask = torch.log(torch.tril(torch.ones(len(x), len(x))))
        out = self.encoder(self.input_emb(x) * math.sqrt(16), mask=mask)
        return nn.functional.log_softmax(self.decoder(out).view(-1, len(WORDS)), dim=-1), None


def repackage(hidden):
    if hidden is None or isinstance(hidden, torch.Tensor):
        return hidden if hidden is None else hidden.detach()
    return tuple(repackage(h) for h in hidden)


data = IDS.narrow(0, 0, len(IDS) // BATCH * BATCH).view(BATCH, -1).t().contiguous()
for kind in ("RNN_TANH", "RNN_RELU", "LSTM", "GRU", "Transformer"):
    torch.manual_seed(1)
    model = Attending() if kind == "Transformer" else Recurrent(kind)
    hidden, loss_of = None, nn.NLLLoss()
    for start in range(0, len(data) - 1, STEPS):
        steps = min(STEPS, len(data) - 1 - start)
        x, target = data[start : start + steps], data[start + 1 : start + 1 + steps].view(-1)
        model.zero_grad()
        out, hidden = model(x, repackage(hidden))
        loss = loss_of(out, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            if p.grad is not None:
                p.data.add_(p.grad, alpha=-1.0)
    print(kind, f"{loss.item():.5f}")
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    allowed = {type(part) for part in model.modules()} | {torch.nn.functional.relu}
    with torch.serialization.safe_globals([*allowed]):
        model = torch.load(file).eval()
    torch.manual_seed(2)
    x, hidden, said = torch.randint(len(WORDS), (1, 1)), None, []
    with torch.no_grad():
        for _ in range(8):
            out, hidden = model(x, hidden)
            word = torch.multinomial(out[-1].exp(), 1)[0]
            said.append(WORDS[word])
            x = torch.cat([x, word.view(1, 1)]) if kind == "Transformer" else x.fill_(word)
    print(*said)
