"""A model, a dataset, a loader, an optimizer with a schedule, a checkpoint."""

from __future__ import annotations

import io
from collections.abc import Iterator

from typing_extensions import assert_type

import shmtensor as torch
import shmtensor.nn.functional as F
from shmtensor import Tensor, nn, optim
from shmtensor.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, random_split


class Pairs(Dataset[tuple[Tensor, int]]):
    def __init__(self, n: int) -> None:
        self.points = torch.randn(n, 4)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.points[index], index % 2


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(4))


class Net(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(width, 2)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        hidden: Tensor = self.layers(x)
        return self.head(hidden) * scale


def layers(x: Tensor) -> None:
    assert_type(nn.Linear(4, 2)(x), Tensor)
    assert_type(nn.Linear(4, 2).weight, nn.Parameter)
    assert_type(nn.Embedding(5, 2)(torch.tensor([1, 2])), Tensor)
    assert_type(nn.CrossEntropyLoss()(x, torch.tensor([0, 1])), Tensor)
    assert_type(Net()(x), Tensor)
    assert_type(Net()(x, scale=2.0), Tensor)
    assert_type(Net().to("cpu").eval(), Net)
    assert_type(nn.MultiheadAttention(4, 2)(x, x, x)[0], Tensor)
    assert_type(list(Net().parameters()), list[nn.Parameter])
    assert_type(F.cross_entropy(x, torch.tensor([0, 1])), Tensor)
    assert_type(F.relu(x), Tensor)


@torch.no_grad()
def accuracy(model: Net, data: DataLoader[tuple[Tensor, int]]) -> float:
    right = torch.zeros(())
    for points, labels in data:
        right += (model(points).argmax(1) == labels).sum()
    return right.item()


def main() -> None:
    torch.manual_seed(0)
    layers(torch.randn(2, 4))
    data = Pairs(16)
    train, test = random_split(data, [12, 4])
    loader = DataLoader(train, batch_size=4, shuffle=True)
    assert_type(loader, DataLoader[tuple[Tensor, int]])
    assert_type(TensorDataset(data.points)[0], tuple[Tensor, ...])
    model = Net()
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    schedule = optim.lr_scheduler.StepLR(optimizer, step_size=1)
    for _epoch in range(2):
        for points, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(points), labels)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            assert_type(norm, Tensor)
            optimizer.step()
        schedule.step()
    assert_type(accuracy(model, DataLoader(test, batch_size=4)), float)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    model.load_state_dict(torch.load(file))
    print(schedule.get_last_lr(), list(DataLoader(Stream(), batch_size=2)))
    fast = torch.compile(model)
    assert_type(fast, Net)


if __name__ == "__main__":
    main()
