"""`ShardedGradScaler`: all ranks leave out the steps that one of them cannot make."""

from __future__ import annotations

import pytest
from ranks import run

import shmtensor as T
from shmtensor.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler


def _infinity_on_one_rank(rank: int, size: int) -> None:
    weight = T.ones(2, requires_grad=True)
    optimizer = T.optim.SGD([weight], lr=0.5)
    scaler = ShardedGradScaler("cpu", init_scale=4.0)
    for factor, after in ((float("inf") if rank == 1 else 1.0, 1.0), (1.0, 0.5)):
        optimizer.zero_grad()
        scaler.scale((weight * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == 2.0 and weight.tolist() == [after, after]


def _rank_without_gradients(rank: int, size: int) -> None:
    weight = T.ones(2, requires_grad=True)
    optimizer = T.optim.SGD([weight], lr=0.5)
    scaler = ShardedGradScaler("cpu", init_scale=4.0)
    loss = scaler.scale(weight.sum())
    if rank == 0:
        loss.backward()
        assert weight.grad is not None
        weight.grad[0] = float("nan")
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0 and weight.tolist() == [1.0, 1.0]


@pytest.mark.check
@pytest.mark.parametrize("body", [_infinity_on_one_rank, _rank_without_gradients])
def test_ranks_agree(body: object) -> None:
    run(2, body)


def test_dtypes_of_losses_and_gradients() -> None:
    scaler = ShardedGradScaler("cpu", init_scale=4.0)
    losses = [T.ones(2, dtype=T.float16), (T.ones(1, dtype=T.bfloat16),)]
    half, (brain,) = scaler.scale(losses)
    assert (half.dtype, half.tolist(), brain.dtype) == (T.float16, [4.0, 4.0], T.bfloat16)
    assert scaler.scale(T.ones(1, dtype=T.float16)).dtype is T.float16
    off = ShardedGradScaler("cpu", enabled=False)
    assert off.scale(losses) is losses


def _half_gradients(rank: int, size: int) -> None:
    weight = T.ones(2, dtype=T.float16, requires_grad=True)
    optimizer = T.optim.SGD([weight], lr=0.5)
    scaler = ShardedGradScaler("cpu", init_scale=4.0)
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    assert weight.grad is not None and weight.grad.tolist() == [1.0, 1.0]


def test_gradients_of_float16() -> None:
    run(2, _half_gradients)
