"""Policy gradient with a critic, and processes that train one model in place."""

import torch
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine = nn.Linear(4, 16)
        self.action_head = nn.Linear(16, 2)
        self.value_head = nn.Linear(16, 1)

    def forward(self, x):
        x = F.relu(self.affine(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


def episode(model, optimizer):
    state, log_probs, values, rewards = torch.zeros(4), [], [], []
    for _ in range(30):
        probs, value = model(state)
        m = Categorical(probs)
        action = m.sample()
        log_probs.append(m.log_prob(action))
        values.append(value)
        rewards.append(1.0 if action.item() == 1 else 0.0)
        state = torch.roll(state, 1) * 0.5 + torch.tensor([float(action.item()), 0, 0, 1])
    returns, total = [], 0.0
    for r in rewards[::-1]:
        total = r + 0.9 * total
        returns.insert(0, total)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    losses = []
    for log_prob, value, target in zip(log_probs, values, returns, strict=True):
        losses.append(-log_prob * (target - value.item()))
        losses.append(F.smooth_l1_loss(value, target.view(1)))
    optimizer.zero_grad()
    loss = torch.stack([part.sum() for part in losses]).sum()
    loss.backward()
    optimizer.step()
    return sum(rewards)


def train(rank, model):
    torch.manual_seed(rank)
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    for _ in range(20):
        episode(model, optimizer)


if __name__ == "__main__":
    torch.manual_seed(0)
    alone = Policy()
    optimizer = optim.Adam(alone.parameters(), lr=3e-2)
    gained = [episode(alone, optimizer) for _ in range(30)]
    print("alone", gained[-1] >= 25)
    model = Policy()
    model.share_memory()
    before = [p.clone() for p in model.parameters()]
    workers = [mp.get_context("spawn").Process(target=train, args=(r, model)) for r in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    changed = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    print("together", all(changed), [worker.exitcode for worker in workers])
