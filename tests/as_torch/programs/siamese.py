"""Pairs of images, images made larger, layers that learn one by one, and a polynomial."""

import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim


class SuperResolution(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, (5, 5), (1, 1), (2, 2))
        self.conv2 = nn.Conv2d(16, factor**2, (3, 3), (1, 1), (1, 1))
        self.pixel_shuffle = nn.PixelShuffle(factor)
        nn.init.orthogonal_(self.conv1.weight, nn.init.calculate_gain("relu"))
        nn.init.orthogonal_(self.conv2.weight)

    def forward(self, x):
        return self.pixel_shuffle(self.conv2(F.relu(self.conv1(x))))


def super_resolution():
    model = SuperResolution(2)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    target = torch.rand(4, 1, 16, 16)
    for _ in range(10):
        loss = nn.MSELoss()(model(F.avg_pool2d(target, 2)), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"larger {loss.item():.5f}")


def siamese():
    trunk = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    head = nn.Sequential(nn.Linear(2 * 4 * 36, 16), nn.ReLU(inplace=True), nn.Linear(16, 1))
    optimizer = optim.Adadelta(itertools.chain(trunk.parameters(), head.parameters()), lr=0.5)
    a, b = torch.rand(16, 1, 8, 8), torch.rand(16, 1, 8, 8)
    same = (torch.arange(16) % 2).float()
    b[same == 1] = a[same == 1]
    for _ in range(10):
        optimizer.zero_grad()
        output = torch.sigmoid(head(torch.cat((trunk(a), trunk(b)), 1)))
        loss = nn.BCELoss()(output.squeeze(), same)
        loss.backward()
        optimizer.step()
    print(f"pairs {loss.item():.5f}")


class Layer(nn.Linear):
    def __init__(self, i, o):
        super().__init__(i, o)
        self.relu = nn.ReLU()
        self.opt = optim.Adam(self.parameters(), lr=0.02)

    def forward(self, x):
        direction = x / (x.norm(2, 1, keepdim=True) + 1e-4)
        return self.relu(torch.mm(direction, self.weight.T) + self.bias.unsqueeze(0))

    def learn(self, pos, neg):
        for _ in range(10):
            g_pos = self.forward(pos).pow(2).mean(1)
            g_neg = self.forward(neg).pow(2).mean(1)
            loss = torch.log(1 + torch.exp(torch.cat([-g_pos + 1.5, g_neg - 1.5]))).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return self.forward(pos).detach(), self.forward(neg).detach(), loss.item()


def polynomial():
    weight, bias = torch.randn(4, 1) * 5, torch.randn(1) * 5
    fc = nn.Linear(4, 1)
    for step in itertools.count(1):
        x = torch.randn(32).unsqueeze(1)
        x = torch.cat([x**i for i in range(1, 5)], 1)
        fc.zero_grad()
        output = F.smooth_l1_loss(fc(x), x.mm(weight) + bias.item())
        output.backward()
        for param in fc.parameters():
            param.data.add_(-0.1 * param.grad)
        if output.item() < 1.0:
            return step
    return None


if __name__ == "__main__":
    torch.manual_seed(0)
    super_resolution()
    siamese()
    pos, neg = torch.rand(32, 16), torch.randn(32, 16)
    for layer in (Layer(16, 16), Layer(16, 8)):
        pos, neg, loss = layer.learn(pos, neg)
        print(f"layer {loss:.5f}")
    print("polynomial", 1 < polynomial() < 5000)
