"""Networks whose weights torch made: they load from its files, and train as torch trains them.

Not covered: the files themselves (storage/test_checkpoint_files), single modules (test_torch).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shmtensor
from shmtensor import optim
from shmtensor.utils import safetensors

torch = pytest.importorskip("torch")

_N_STEPS = 20


def multilayer(lib: Any) -> Any:
    nn = lib.nn
    return nn.Sequential(
        *(nn.Linear(20, 32), nn.LayerNorm(32), nn.Tanh(), nn.Linear(32, 32), nn.GELU()),
        nn.Linear(32, 5),
    )


def residual(lib: Any) -> Any:
    nn = lib.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, channels: int, out: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(out)
            self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(out)
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

        def forward(self, x: Any) -> Any:
            y = self.bn2(self.conv2(nn.functional.relu(self.bn1(self.conv1(x)))))
            return nn.functional.relu(y + self.downsample(x))

    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)),
        *(Block(8, 8, 1), Block(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        nn.Linear(16, 5),
    )


def recurrent(lib: Any) -> Any:
    class Model(lib.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = lib.nn.Embedding(50, 12)
            self.rnn = lib.nn.LSTM(12, 16, num_layers=2, bidirectional=True, batch_first=True)
            self.out = lib.nn.Linear(32, 5)

        def forward(self, x: Any) -> Any:
            return self.out(self.rnn(self.embedding(x))[0].mean(1))

    return Model()


def transformer(lib: Any) -> Any:
    class Model(lib.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = lib.nn.Embedding(50, 16)
            layer = lib.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
            self.encoder = lib.nn.TransformerEncoder(layer, 2)
            self.out = lib.nn.Linear(16, 5)

        def forward(self, x: Any) -> Any:
            return self.out(self.encoder(self.embedding(x)).mean(1))

    return Model()


def _numbers() -> Any:
    return torch.randn(16, 20)


def _images() -> Any:
    return torch.randn(8, 3, 16, 16)


def _words() -> Any:
    return torch.randint(0, 50, (8, 12))


MODELS: dict[str, tuple[Callable[[Any], Any], Callable[[], Any]]] = {
    "multilayer": (multilayer, _numbers),
    "residual": (residual, _images),
    "recurrent": (recurrent, _words),
    "transformer": (transformer, _words),
}
OPTIMISERS: dict[str, dict[str, float]] = {
    "SGD": {"lr": 0.05, "momentum": 0.9},
    "Adam": {"lr": 1e-3},
    "AdamW": {"lr": 1e-3},
}


def _read(kind: str, module: Any, folder: Path) -> Any:
    """Return the state of torch's *module* by way of a file."""
    path = folder / f"weights.{kind}"
    if kind == "pt":
        torch.save(module.state_dict(), path)
        return shmtensor.load(path)
    files = pytest.importorskip("safetensors.torch")
    files.save_file(module.state_dict(), path)
    return safetensors.load_file(path)


def _losses(lib: Any, net: Any, optimiser: Any, x: Any, y: Any) -> list[float]:
    found = []
    for _ in range(_N_STEPS):
        optimiser.zero_grad()
        loss = lib.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("kind", ["pt", "safetensors"])
@pytest.mark.parametrize("name", MODELS)
def test_weights_of_torch_give_its_outputs(name: str, kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, batch = MODELS[name]
    theirs, ours = make(torch), make(shmtensor)
    ours.load_state_dict(_read(kind, theirs, tmp_path))
    x = batch()
    for mode in (True, False):
        expected = theirs.train(mode)(x).detach().numpy()
        found = ours.train(mode)(shmtensor.from_numpy(x.numpy())).detach().numpy()
        assert abs(found - expected).max() <= 1e-5


@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("name", MODELS)
def test_training_goes_as_torch_s(name: str, optimiser: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, batch = MODELS[name]
    theirs, ours = make(torch), make(shmtensor)
    ours.load_state_dict(_read("pt", theirs, tmp_path))
    x, y = batch(), torch.randint(0, 5, (len(batch()),))
    options = OPTIMISERS[optimiser]
    expected = _losses(
        torch, theirs, getattr(torch.optim, optimiser)(theirs.parameters(), **options), x, y
    )
    found = _losses(
        shmtensor,
        ours,
        getattr(optim, optimiser)(ours.parameters(), **options),
        *(shmtensor.from_numpy(t.numpy()) for t in (x, y)),
    )
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)
