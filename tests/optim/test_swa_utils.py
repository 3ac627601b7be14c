"""Averages of models, their batch normalization, and the schedule for their end of training."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import shmtensor
from shmtensor import nn
from shmtensor.optim import SGD
from shmtensor.optim.swa_utils import (
    SWALR,
    AveragedModel,
    get_ema_avg_fn,
    get_ema_multi_avg_fn,
    get_swa_avg_fn,
    get_swa_multi_avg_fn,
    update_bn,
)


def _layer(value: float, lib: Any = shmtensor) -> Any:
    layer = lib.nn.Linear(2, 1)
    with lib.no_grad():
        layer.weight.fill_(value)
        layer.bias.fill_(2 * value)
    return layer


def _averages(lib: Any, values: list[float], **options: Any) -> list[float]:
    layer = _layer(0.0, lib)
    model = lib.optim.swa_utils.AveragedModel(layer, **options)
    found = []
    for value in values:
        with lib.no_grad():
            layer.weight.fill_(value)
        model.update_parameters(layer)
        found.append(model.module.weight[0, 0].item())
    assert model.n_averaged == len(values)
    return found


@pytest.mark.check
def test_weights_are_equal_without_a_function() -> None:
    assert _averages(shmtensor, [3.0, 5.0, 10.0]) == pytest.approx([3.0, 4.0, 6.0])


@pytest.mark.parametrize(
    "options",
    [
        {"avg_fn": get_ema_avg_fn(0.5)},
        {"multi_avg_fn": get_ema_multi_avg_fn(0.5)},
        {"avg_fn": lambda average, value, n: (average + value) / 2},
    ],
)
def test_moving_averages(options: dict[str, Any]) -> None:
    assert _averages(shmtensor, [4.0, 8.0, 2.0], **options) == pytest.approx([4.0, 6.0, 4.0])


@pytest.mark.parametrize(
    "options", [{"avg_fn": get_swa_avg_fn()}, {"multi_avg_fn": get_swa_multi_avg_fn()}]
)
def test_functions_of_equal_weights(options: dict[str, Any]) -> None:
    assert _averages(shmtensor, [3.0, 5.0, 10.0], **options) == pytest.approx([3.0, 4.0, 6.0])


def test_the_model_is_a_copy_that_can_be_called_and_saved() -> None:
    layer = _layer(1.0)
    model = AveragedModel(layer, device="cpu")
    model.update_parameters(layer)
    assert model.module is not layer
    assert model(shmtensor.ones(1, 2)).item() == 4.0
    assert list(model.state_dict()) == ["n_averaged", "module.weight", "module.bias"]
    assert copy.deepcopy(model).n_averaged == 1
    assert all(p.requires_grad for p in model.parameters())


def test_buffers_are_copied_or_averaged() -> None:
    norm = nn.BatchNorm1d(2)
    copied, averaged = AveragedModel(norm), AveragedModel(norm, use_buffers=True)
    for value in (2.0, 4.0):
        norm.running_mean.fill_(value)
        norm.num_batches_tracked += 1
        copied.update_parameters(norm)
        averaged.update_parameters(norm)
    assert copied.module.running_mean.tolist() == [4.0, 4.0]
    assert averaged.module.running_mean.tolist() == [3.0, 3.0]
    assert averaged.module.num_batches_tracked.item() == 1
    several = AveragedModel(norm, multi_avg_fn=get_swa_multi_avg_fn(), use_buffers=True)
    several.update_parameters(norm)
    norm.running_mean.fill_(8.0)
    several.update_parameters(norm)
    assert several.module.running_mean.tolist() == [6.0, 6.0]


@pytest.mark.check
def test_refusals() -> None:
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
        AveragedModel(_layer(1.0), avg_fn=get_swa_avg_fn(), multi_avg_fn=get_swa_multi_avg_fn())
    for make in (get_ema_avg_fn, get_ema_multi_avg_fn):
        with pytest.raises(ValueError, match=r"Invalid decay value 1.5 provided.*\[0,1\] range"):
            make(1.5)
    optimizer = SGD(_layer(1.0).parameters())
    with pytest.raises(ValueError, match="must be one of 'cos' or 'linear', instead got x"):
        SWALR(optimizer, 0.1, anneal_strategy="x")
    with pytest.raises(ValueError, match="anneal_epochs must be equal or greater than 0, got -1"):
        SWALR(optimizer, 0.1, anneal_epochs=-1)
    with pytest.raises(ValueError, match="swa_lr has 2 values, param_groups has 1"):
        SWALR(optimizer, [0.1, 0.2])


@pytest.mark.parametrize("batch_of", [lambda x: x, lambda x: (x, 1), lambda x: [x, 1]])
def test_update_bn_takes_the_mean_over_all_batches(batch_of: Any) -> None:
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout())
    model.eval()
    model[0].running_mean.fill_(100.0)
    x = shmtensor.arange(8.0).reshape(4, 2)
    update_bn([batch_of(x * k) for k in (1, 2, 6)], model, device="cpu")
    assert model[0].running_mean.tolist() == pytest.approx([9.0, 12.0])
    assert model[0].num_batches_tracked.item() == 3
    assert model[0].momentum == 0.1
    assert not model.training


def test_update_bn_leaves_models_without_batch_normalization_alone() -> None:
    layer = _layer(1.0)
    update_bn(iter(lambda: pytest.fail("no batch is needed"), None), layer)
    assert layer.training


@pytest.mark.parametrize("strategy", ["cos", "linear"])
def test_swalr_goes_to_its_rate_and_stays(strategy: str) -> None:
    optimizer = SGD(_layer(1.0).parameters(), lr=0.1)
    schedule = SWALR(optimizer, 0.5, anneal_epochs=4, anneal_strategy=strategy)
    found = []
    for _ in range(6):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    middle = 0.3 if strategy == "linear" else 0.1 + 0.4 * 0.5
    assert found[0] == 0.1
    assert found[2] == pytest.approx(middle)
    assert found[4:] == pytest.approx([0.5, 0.5])
    assert "anneal_func" not in schedule.state_dict()
    twin = SWALR(SGD(_layer(1.0).parameters()), 0.5, anneal_strategy="cos")
    twin.load_state_dict(schedule.state_dict())
    assert twin.anneal_func(0.25) == schedule.anneal_func(0.25)


def test_swalr_without_epochs_is_there_at_once() -> None:
    optimizer = SGD(_layer(1.0).parameters(), lr=0.1)
    SWALR(optimizer, 0.5, anneal_epochs=0)
    assert optimizer.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize("name", ["", "get_ema_avg_fn", "get_swa_avg_fn"])
@pytest.mark.parametrize("use_buffers", [False, True])
def test_averages_are_those_of_torch(name: str, use_buffers: bool) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for lib in (shmtensor, torch):
        functions = lib.optim.swa_utils
        options = {"avg_fn": getattr(functions, name)()} if name else {}
        net = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.BatchNorm1d(2))
        with lib.no_grad():
            for p in net.parameters():
                p.fill_(0.5)
        model = functions.AveragedModel(net, use_buffers=use_buffers, **options)
        x = lib.arange(8.0).reshape(4, 2)
        for k in range(4):
            net(x * (k + 1))
            model.update_parameters(net)
        found.append({key: value.tolist() for key, value in model.state_dict().items()})
    assert list(found[0]) == list(found[1])
    for key, value in found[0].items():
        assert shmtensor.allclose(shmtensor.tensor(value), shmtensor.tensor(found[1][key])), key
