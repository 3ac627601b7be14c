"""The hooks of `distributed.algorithms.ddp_comm_hooks`, and averages of parameters.

The right gradients are averages of what each rank has by itself, rounded as the hook sends them.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from ranks import run

import shmtensor as T
from shmtensor import distributed as dist
from shmtensor import nn
from shmtensor.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks,
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
)
from shmtensor.distributed.algorithms.model_averaging import averagers, utils
from shmtensor.distributed.optim import PostLocalSGDOptimizer
from shmtensor.nn.parallel import DistributedDataParallel


def _net() -> Any:
    T.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2))


def _batch(rank: int) -> Any:
    return T.randn(6, 5, generator=T.Generator().manual_seed(rank))


def _own(rank: int) -> list[Any]:
    """The gradients of a rank by itself."""
    net = _net()
    net(_batch(rank)).square().mean().backward()
    return [p.grad for p in net.parameters()]


def _reduced(rank: int, hook: Any, state: Any = None) -> list[Any]:
    """The gradients that a hook leaves."""
    model = DistributedDataParallel(_net(), bucket_cap_mb=1e-4)
    model.register_comm_hook(state, hook)
    model(_batch(rank)).square().mean().backward()
    return [p.grad for p in model.parameters()]


def _averages(rank: int, size: int) -> None:
    own = [_own(each) for each in range(size)]
    for hook, dtype in (
        (default_hooks.allreduce_hook, T.float32),
        (default_hooks.fp16_compress_hook, T.float16),
        (default_hooks.bf16_compress_hook, T.bfloat16),
    ):
        for group in (None, dist.group.WORLD):
            found = _reduced(rank, hook, group)
            for i, grad in enumerate(found):
                parts = [(each[i].to(dtype) / size) for each in own]
                right = parts[0] + parts[1]
                assert right.dtype == dtype and grad.dtype == T.float32
                assert T.equal(grad, right.to(T.float32))


@pytest.mark.check
def test_gradients_are_averaged_as_numbers_of_the_dtype() -> None:
    run(2, _averages)


def _wrapped(rank: int, size: int) -> None:
    seen = []

    def inner(state: str, bucket: Any) -> Any:
        assert all(g.dtype == bucket.buffer().dtype for g in bucket.gradients())
        assert [g.shape for g in bucket.gradients()] == [p.shape for p in bucket.parameters()]
        seen.append((state, bucket.buffer().dtype))
        return default_hooks.allreduce_hook(None, bucket)

    for wrapper, plain, dtype in (
        (default_hooks.fp16_compress_wrapper, default_hooks.fp16_compress_hook, T.float16),
        (default_hooks.bf16_compress_wrapper, default_hooks.bf16_compress_hook, T.bfloat16),
    ):
        seen.clear()
        found = _reduced(rank, wrapper(inner), "state")
        assert set(seen) == {("state", dtype)}
        for grad, right in zip(found, _reduced(rank, plain), strict=True):
            assert T.equal(grad, right)


def test_a_hook_in_another_sees_narrow_gradients() -> None:
    run(2, _wrapped)


def _set(rank: int, size: int) -> None:
    def hook(state: None, bucket: Any) -> Any:
        bucket.set_buffer(T.full_like(bucket.buffer(), rank))
        assert all(bool((g == rank).all()) for g in bucket.gradients())
        return default_hooks.allreduce_hook(None, bucket)

    model = DistributedDataParallel(_net())
    model.register_comm_hook(None, hook)
    for _ in range(2):
        model(_batch(rank)).square().mean().backward()
        assert all(bool(p.grad.eq((size - 1) / 2).all()) for p in model.parameters())


def test_a_hook_replaces_the_buffer_of_one_backward() -> None:
    run(2, _set)


def _each_its_own(rank: int, size: int) -> None:
    for grad, right in zip(_reduced(rank, debugging_hooks.noop_hook), _own(rank), strict=True):
        assert T.equal(grad, right)


def test_a_hook_that_does_nothing() -> None:
    run(2, _each_its_own)


def _local(rank: int, size: int) -> None:
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    own = [_own(each) for each in range(size)]
    means = {
        ranks: [sum(own[r][i] for r in ranks) / len(ranks) for i in range(4)]
        for ranks in ((0, 1), (2, 3), (0, 1, 2, 3))
    }
    mine = (0, 1) if rank < 2 else (2, 3)
    for subgroup, averages, later in (
        (pairs[rank // 2], True, means[mine]),
        (None, True, means[0, 1, 2, 3]),
        (pairs[rank // 2], False, own[rank]),
    ):
        model = DistributedDataParallel(_net(), bucket_cap_mb=1e-4)
        state = post_localSGD_hook.PostLocalSGDState(None, subgroup, 2, averages)
        model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
        for step in range(4):
            model.zero_grad()
            model(_batch(rank)).square().mean().backward()
            right = means[0, 1, 2, 3] if step < 2 else later
            for p, expected in zip(model.parameters(), right, strict=True):
                T.testing.assert_close(p.grad, expected)
        assert state.iter == 2


def test_gradients_of_subgroups_are_averaged_later() -> None:
    run(4, _local)


def _averages_parameters(rank: int, size: int) -> None:
    net = nn.Linear(2, 2)
    values = [float(rank), float(rank + 10)]
    with T.no_grad():
        net.weight.fill_(values[0])
        net.bias.fill_(values[1])
    net.weight.grad = T.zeros(2, 2)
    optimizer = PostLocalSGDOptimizer(
        T.optim.SGD(net.parameters(), lr=1.0),
        averagers.PeriodicModelAverager(period=2, warmup_steps=1),
    )
    found = []
    for _ in range(4):
        with T.no_grad():
            net.weight.fill_(values[0])
        optimizer.step()
        found.append(float(net.weight[0, 0]))
    mean = (size - 1) / 2
    assert found == [values[0], mean, values[0], mean]
    assert bool((net.bias == values[1]).all()), "without a gradient it stays"
    saved = optimizer.state_dict()
    assert saved["step"] == 4 and repr(optimizer) == repr(optimizer.optim)
    optimizer.averager.step = 0
    optimizer.load_state_dict(saved)
    assert optimizer.averager.step == 4
    with pytest.warns(UserWarning, match="does not contain a step counter"):
        optimizer.load_state_dict(optimizer.optim.state_dict())
    assert optimizer.averager.step == 0
    optimizer.zero_grad()
    assert net.weight.grad is None
    half = T.full((2,), float(rank), dtype=T.float16)
    whole = T.full((1, 2), float(rank), dtype=T.float64)
    utils.average_parameters([half, whole], None)
    assert half.tolist() == [mean] * 2 and whole.tolist() == [[mean] * 2]
    assert half.dtype == T.float16 and whole.dtype == T.float64
    utils.average_parameters([], None)
    with pytest.raises(NotImplementedError, match="of type <class 'int'> is not supported"):
        utils.get_params_to_average([3])  # type: ignore[list-item]


def test_parameters_are_averaged_now_and_then() -> None:
    run(2, _averages_parameters)


def _refuses(rank: int, size: int) -> None:
    for arguments, text in (
        ({"period": 0}, "``period`` must be a positive value, got 0"),
        ({"period": 2, "warmup_steps": -1}, "non-negative number, got -1"),
    ):
        with pytest.raises(ValueError, match=text):
            averagers.PeriodicModelAverager(**arguments)
    with pytest.warns(UserWarning, match="When period is 1"):
        averagers.PeriodicModelAverager(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        averagers.PeriodicModelAverager(2)


def test_refusals() -> None:
    run(1, _refuses)
    with pytest.raises(ValueError, match="group"):
        averagers.PeriodicModelAverager(2)  # no group
    with pytest.raises(NotImplementedError, match="no hook sends factors"):
        powerSGD_hook.PowerSGDState(None, 1)
    with pytest.raises(NotImplementedError, match="no hook sends factors"):
        powerSGD_hook.powerSGD_hook(None, None)
