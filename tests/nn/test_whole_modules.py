"""Modules that are saved whole: torch's as ours, ours as torch's.

Not covered: what a file may name (storage/test_checkpoint_files), weights (test_weights_of_torch).
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor
from shmtensor import nn

MODULES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "convolutions": (
        lambda nn: nn.Sequential(
            *(nn.Conv2d(1, 2, 3, padding=(1, 2), padding_mode="reflect"), nn.BatchNorm2d(2)),
            *(nn.ReLU(), nn.Dropout(0.1), nn.Conv2d(2, 2, (5, 3), padding="same")),
            nn.ConvTranspose2d(2, 1, 2),
        ),
        (1, 1, 6, 6),
    ),
    "lstm": (lambda nn: nn.LSTM(3, 4, 2, bidirectional=True), (5, 1, 3)),
    "gru": (lambda nn: nn.GRU(3, 4, bias=False), (5, 1, 3)),
    "encoder": (
        lambda nn: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(4, 2, 8, activation=nn.functional.gelu), 2
        ),
        (3, 1, 4),
    ),
    "mlp": (
        lambda nn: nn.Sequential(
            *(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.ModuleList([nn.Identity()])[0]),
            nn.Unflatten(1, (2, 2)),
        ),
        (2, 3),
    ),
}


def file_of(lib: Any, module: Any) -> io.BytesIO:
    file = io.BytesIO()
    lib.save(module, file)
    file.seek(0)
    return file


def first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("name", MODULES)
def test_a_module_comes_back_from_a_file(name: str) -> None:
    make, shape = MODULES[name]
    module = make(nn).eval()
    again = shmtensor.load(file_of(shmtensor, module), weights_only=False)
    x = shmtensor.randn(shape)
    assert repr(again) == repr(module)
    assert shmtensor.equal(first(again(x)), first(module(x)))


@pytest.mark.parametrize("name", MODULES)
def test_each_package_reads_the_modules_of_the_other(name: str) -> None:
    torch = pytest.importorskip("torch")
    make, shape = MODULES[name]
    ours = make(nn).eval()
    theirs = torch.load(file_of(shmtensor, ours), weights_only=False)
    assert type(theirs).__module__.startswith("torch.nn.")
    assert repr(theirs) == repr(ours)
    again = shmtensor.load(file_of(torch, theirs), weights_only=False)
    x = torch.randn(shape)
    want = first(theirs(x)).detach().numpy()
    for module in (ours, again):
        found = first(module(shmtensor.from_numpy(x.numpy()))).detach().numpy()
        assert abs(found - want).max() < 1e-5


@pytest.mark.check
def test_files_of_torch_are_read_when_our_class_is_allowed() -> None:
    torch = pytest.importorskip("torch")
    file = file_of(torch, torch.nn.Linear(2, 1))
    with shmtensor.serialization.safe_globals([nn.Linear]):
        assert type(shmtensor.load(file)) is nn.Linear


def test_recurrent_layers_name_their_weights_as_torch_does() -> None:
    layer = nn.GRU(3, 4, 2, bidirectional=True)
    assert layer._flat_weights_names == [name for name, _ in layer.named_parameters()]
    assert all(a is b for a, b in zip(layer._flat_weights, layer.parameters(), strict=True))
    assert layer._all_weights[1] == [
        f"{p}_l0_reverse" for p in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    ]
