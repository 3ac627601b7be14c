"""Training steps of typical networks, compared with torch's.

Run ``python benchmarks/bench_training.py [--threads N]`` where torch is installed. A step takes the
gradients of a loss over one batch and lets SGD with momentum move the parameters. One thread: CPU
time; more: wall time. Samples of both sides in turn; ``--only TEXT`` picks networks by name.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from measure import Call, compare, print_table

import shmtensor


def multilayer(lib: Any, hidden: int, batch: int) -> Call:
    """A perceptron with two hidden layers over 784 numbers."""
    nn = lib.nn
    net = nn.Sequential(
        nn.Linear(784, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, 10),
    )
    return _step(lib, net, lib.randn(batch, 784), lib.randint(0, 10, (batch,)))


def digits(lib: Any) -> Call:
    """Two convolutions over 64 images of 28 x 28."""
    nn = lib.nn
    net = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 49, 10)),
    )
    return _step(lib, net, lib.randn(64, 1, 28, 28), lib.randint(0, 10, (64,)))


def residual(lib: Any) -> Call:
    """Three residual blocks over 32 images of 3 x 32 x 32."""
    nn = lib.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, channels: int, out: int, stride: int) -> None:
            super().__init__()
            self.way = nn.Sequential(
                *(nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)),
                *(nn.ReLU(), nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)),
            )
            same = stride == 1 and channels == out
            self.past = nn.Identity() if same else nn.Conv2d(channels, out, 1, stride, bias=False)

        def forward(self, x: Any) -> Any:
            return nn.functional.relu(self.way(x) + self.past(x))

    net = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
        *(Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)),
    )
    return _step(lib, net, lib.randn(32, 3, 32, 32), lib.randint(0, 10, (32,)))


def _words(lib: Any, length: int, batch: int, middle: Any, width: int, out: int) -> Call:
    class Model(lib.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = lib.nn.Embedding(1000, width)
            self.middle = middle
            self.out = lib.nn.Linear(out, 1000)

        def forward(self, x: Any) -> Any:
            found = self.middle(self.embedding(x))
            return self.out(found[0] if isinstance(found, tuple) else found).flatten(0, 1)

    words, targets = lib.randint(0, 1000, (batch, length)), lib.randint(0, 1000, (batch * length,))
    return _step(lib, Model(), words, targets)


def transformer(lib: Any) -> Call:
    """Two layers of attention of width 128 over 8 rows of 64 words."""
    layers = [lib.nn.TransformerEncoderLayer(128, 4, 512, 0.0, batch_first=True) for _ in range(2)]
    return _words(lib, 64, 8, lib.nn.Sequential(*layers), 128, 128)


def recurrent(lib: Any, kind: str) -> Call:
    """A recurrent layer of width 128 over 16 rows of 32 words."""
    return _words(lib, 32, 16, getattr(lib.nn, kind)(64, 128, batch_first=True), 64, 128)


def autoencoder(lib: Any) -> Call:
    """Convolutions and transposed ones over 16 images of 3 x 64 x 64."""
    nn = lib.nn
    net = nn.Sequential(
        *(nn.Conv2d(3, 16, 4, 2, 1), nn.GELU(), nn.Conv2d(16, 32, 4, 2, 1), nn.GELU()),
        *(nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.GELU(), nn.ConvTranspose2d(16, 3, 4, 2, 1)),
        nn.Sigmoid(),
    )
    x = lib.rand(16, 3, 64, 64)
    return _step(lib, net, x, x, nn.functional.mse_loss)


def factorisation(lib: Any) -> Call:
    """Gradients of 256 products of 64 numbers, looked up among 50 000."""
    table = lib.randn(50_000, 64, requires_grad=True)
    rows, columns = (lib.randint(0, 50_000, (256,)) for _ in range(2))

    def step() -> None:
        ((table[rows] * table[columns]).sum(1) - 1).square().mean().backward()

    return step


def advantages(lib: Any) -> Call:
    """128 steps back through 16 games: many operators on few numbers."""
    rewards, values = lib.rand(128, 16), lib.rand(129, 16)

    def step() -> None:
        advantage, found = lib.zeros(16), []
        for t in range(127, -1, -1):
            gain = rewards[t] + 0.99 * values[t + 1] - values[t]
            advantage = gain + 0.99 * 0.95 * advantage
            found.append(advantage)
        lib.stack(found)

    return step


def _step(lib: Any, net: Any, x: Any, y: Any, loss: Any = None) -> Call:
    loss = loss or lib.nn.functional.cross_entropy
    optimiser = lib.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)

    def step() -> None:
        optimiser.zero_grad()
        loss(net(x), y).backward()
        optimiser.step()

    return step


NETWORKS: dict[str, Callable[[Any], Call]] = {
    "perceptron of 32, batch 16": lambda lib: multilayer(lib, 32, 16),
    "perceptron of 256, batch 64": lambda lib: multilayer(lib, 256, 64),
    "perceptron of 1024, batch 256": lambda lib: multilayer(lib, 1024, 256),
    "convolutions, digits": digits,
    "residual blocks": residual,
    "transformer": transformer,
    "LSTM": lambda lib: recurrent(lib, "LSTM"),
    "GRU": lambda lib: recurrent(lib, "GRU"),
    "autoencoder": autoencoder,
    "matrix factorisation": factorisation,
    "advantages": advantages,
}


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--samples", type=int, default=9)
    parser.add_argument("--only", default="", help="only networks whose name contains this")
    arguments = parser.parse_args()
    results = []
    for name, network in NETWORKS.items():
        if arguments.only not in name:
            continue
        sides = []
        for lib in (shmtensor, torch):
            lib.set_num_threads(arguments.threads)
            lib.manual_seed(0)
            sides.append(network(lib))
        wall = arguments.threads > 1
        results.append(compare(name, *sides, samples=arguments.samples, sample_ms=50.0, wall=wall))
    print_table(results)


if __name__ == "__main__":
    main()
