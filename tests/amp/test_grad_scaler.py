"""`amp.GradScaler`: scaling, skipped steps, the scale over time, its state and its errors."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
from same_as_torch import differences

import shmtensor as T
from shmtensor import nn
from shmtensor.amp import GradScaler


def trained(m: Any, losses: list[float]) -> Any:
    """What a scaler says after steps whose losses are multiplied so."""
    layer = m.nn.Linear(2, 1, bias=False)
    with m.no_grad():
        layer.weight.fill_(0.5)
    optimizer = m.optim.SGD(layer.parameters(), lr=0.1)
    scaler = m.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    said = []
    for factor in losses:
        optimizer.zero_grad()
        scaler.scale(layer(m.ones(1, 2)).sum() * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        said.append((scaler.get_scale(), scaler.state_dict()["_growth_tracker"]))
    return said, layer.weight.tolist()


EXPRESSIONS = """
m.amp.GradScaler('cpu').state_dict()
m.amp.GradScaler('cuda').state_dict()
m.amp.GradScaler('cuda').get_scale()
m.amp.GradScaler('cuda').is_enabled()
m.cuda.amp.GradScaler().is_enabled()
m.cpu.amp.GradScaler().is_enabled()
m.GradScaler('cpu').get_scale()
m.amp.GradScaler('cpu', growth_factor=1.0)
m.amp.GradScaler('cpu', backoff_factor=1.0)
m.amp.GradScaler('cpu').scale([m.ones(1), (m.ones(2),)])
m.amp.GradScaler('cpu').scale(3)
m.amp.GradScaler('cpu', enabled=False).scale(m.ones(1))
m.amp.GradScaler('cpu').update()
m.amp.GradScaler('cpu').load_state_dict({})
m.amp.GradScaler('cpu', enabled=False).load_state_dict({})
trained(m, [1, 1, 1, 1, 1])
trained(m, [1, inf, 1, 1, nan, 1])
"""


@pytest.mark.check
def test_outcomes_are_torch_s() -> None:
    assert differences(EXPRESSIONS, {"trained": trained, "inf": math.inf, "nan": math.nan}) == []


def parts() -> tuple[nn.Linear, T.optim.SGD, GradScaler]:
    layer = nn.Linear(2, 1, bias=False)
    with T.no_grad():
        layer.weight.fill_(1.0)
    return layer, T.optim.SGD(layer.parameters(), lr=0.5), GradScaler("cpu", init_scale=4.0)


def test_gradients_are_scaled_and_scaled_back() -> None:
    layer, optimizer, scaler = parts()
    scaler.scale(layer(T.ones(1, 2)).sum()).backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.tolist() == [[4, 4]]
    scaler.unscale_(optimizer)
    assert layer.weight.grad.tolist() == [[1, 1]]
    scaler.step(optimizer)
    assert layer.weight.tolist() == [[0.5, 0.5]]


def test_a_step_with_an_infinity_is_left_out_and_the_scale_shrinks() -> None:
    layer, optimizer, scaler = parts()
    scaler.scale(layer(T.ones(1, 2)).sum() * math.inf).backward()
    assert scaler.step(optimizer) is None
    scaler.update()
    assert layer.weight.tolist() == [[1, 1]]
    assert scaler.get_scale() == 2


def test_the_order_of_calls_is_checked() -> None:
    layer, optimizer, scaler = parts()
    for call in (scaler.step, scaler.unscale_):
        with pytest.raises(AssertionError, match="_scale is None"):
            call(optimizer)
    scaler.scale(layer(T.ones(1, 2)).sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called since the last update"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="called after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
        scaler.step(optimizer, closure=lambda: 0)


def test_steps_without_gradients_and_half_gradients_are_refused() -> None:
    _, optimizer, scaler = parts()
    scaler.scale(T.ones(1))
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        scaler.step(optimizer)
    half = nn.Linear(2, 1).half()
    half(T.ones(1, 2).half()).sum().backward()
    with pytest.raises(ValueError, match="unscale FP16 gradients"):
        scaler.unscale_(T.optim.SGD(half.parameters(), lr=0.1))


@pytest.mark.check
def test_the_scale_can_be_given() -> None:
    layer, optimizer, scaler = parts()
    scaler.scale(layer(T.ones(1, 2)).sum()).backward()
    scaler.step(optimizer)
    scaler.update(16.0)
    assert scaler.get_scale() == 16
    scaler.update(T.tensor(3.0))
    assert scaler.get_scale() == 3
    with pytest.raises(AssertionError, match="new_scale should be a float"):
        scaler.update(T.tensor([5]))


def test_a_scale_does_not_grow_beyond_float32() -> None:
    layer, optimizer, scaler = parts()
    scaler = GradScaler("cpu", init_scale=2.0**127, growth_interval=1)
    scaler.scale(T.zeros(1))
    layer(T.ones(1, 2)).sum().backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**127


def test_its_state_travels() -> None:
    layer, optimizer, scaler = parts()
    scaler.scale(layer(T.ones(1, 2)).sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(AssertionError, match="may only be pickled"):
        pickle.dumps(scaler)
    scaler.step(optimizer)
    scaler.update()
    copy = pickle.loads(pickle.dumps(scaler))
    other = GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert copy.state_dict() == other.state_dict() == scaler.state_dict()
    assert scaler.state_dict()["_growth_tracker"] == 1


def test_switched_off_it_steps_plainly() -> None:
    layer, optimizer, _ = parts()
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = GradScaler("cuda")
    scaler.scale(layer(T.ones(1, 2)).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert layer.weight.tolist() == [[0.5, 0.5]]
    assert scaler.get_scale() == 1


def test_scale_takes_any_iterable() -> None:
    scaler = T.amp.GradScaler("cpu", init_scale=4.0)
    scaled = scaler.scale(t for t in (T.ones(1), [T.full((1,), 2.0)]))
    assert [each.item() for each in (lambda a, b: (a, *b))(*scaled)] == [4.0, 8.0]
