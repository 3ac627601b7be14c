"""Recurrent networks and a transformer on sequences; LBFGS; packed sequences."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class RNNModel(nn.Module):
    def __init__(self, kind, ntoken=20, ninp=16, nhid=16):
        super().__init__()
        self.encoder = nn.Embedding(ntoken, ninp)
        if kind in ("LSTM", "GRU"):
            self.rnn = getattr(nn, kind)(ninp, nhid, 2)
        else:
            self.rnn = nn.RNN(ninp, nhid, 2, nonlinearity=kind)
        self.decoder = nn.Linear(nhid, ntoken)

    def forward(self, x, hidden):
        output, hidden = self.rnn(self.encoder(x), hidden)
        return F.log_softmax(self.decoder(output).view(-1, 20), dim=1), hidden


class TransformerModel(nn.Transformer):
    def __init__(self, ntoken=20, ninp=16):
        super().__init__(
            d_model=ninp, nhead=2, dim_feedforward=32, num_encoder_layers=1, dropout=0.0
        )
        self.input_emb = nn.Embedding(ntoken, ninp)
        self.decoder = nn.Linear(ninp, ntoken)

    def forward(self, src):
        mask = torch.log(torch.tril(torch.ones(len(src), len(src))))
        src = self.input_emb(src) * math.sqrt(16)
        return F.log_softmax(self.decoder(self.encoder(src, mask=mask)).view(-1, 20), dim=-1)


def repackage(h):
    return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage(v) for v in h)


def train(model, data, is_recurrent):
    hidden = None
    for i in range(0, 60, 10):
        x, y = data[i : i + 10], data[i + 1 : i + 11].reshape(-1)
        model.zero_grad()
        if is_recurrent:
            hidden = repackage(hidden) if hidden is not None else None
            output, hidden = model(x, hidden)
        else:
            output = model(x)
        loss = nn.NLLLoss()(output, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            if p.grad is not None:
                p.data.add_(p.grad, alpha=-0.5)
    return loss.item()


class Sine(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTMCell(1, 8)
        self.linear = nn.Linear(8, 1)

    def forward(self, x):
        h = torch.zeros(x.size(0), 8, dtype=torch.double)
        c = torch.zeros(x.size(0), 8, dtype=torch.double)
        outputs = []
        for part in x.split(1, dim=1):
            h, c = self.lstm(part, (h, c))
            outputs.append(self.linear(h))
        return torch.cat(outputs, dim=1)


if __name__ == "__main__":
    torch.manual_seed(0)
    text = torch.randint(0, 20, (80, 4))
    for kind in ("LSTM", "GRU", "tanh", "relu"):
        print(kind, f"{train(RNNModel(kind), text, True):.4f}")
    print("transformer", f"{train(TransformerModel(), text, False):.4f}")
    wave = torch.sin(torch.arange(0, 20, dtype=torch.double) / 3)[None] + torch.zeros(3, 1).double()
    seq = Sine().double()
    optimizer = torch.optim.LBFGS(seq.parameters(), lr=0.8, max_iter=5)

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(seq(wave[:, :-1]), wave[:, 1:])
        loss.backward()
        return loss

    print("sine", f"{optimizer.step(closure).item():.5f} {closure().item():.5f}")
    ragged = [torch.randn(n, 3) for n in (5, 2, 4)]
    packed = pack_padded_sequence(pad_sequence(ragged), [5, 2, 4], enforce_sorted=False)
    out, lengths = pad_packed_sequence(nn.GRU(3, 4)(packed)[0])
    print("packed", f"{out.sum().item():.4f}", lengths.tolist())
