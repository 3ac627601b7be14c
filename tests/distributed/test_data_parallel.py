"""`DistributedDataParallel`, against one process with the whole batch."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from ranks import run

import shmtensor as T
from shmtensor import distributed as dist
from shmtensor import nn
from shmtensor.nn.parallel import DistributedDataParallel
from shmtensor.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    """Two branches, of which one can be left out."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 8)
        self.b = nn.Linear(6, 8)
        self.out = nn.Linear(8, 3)

    def forward(self, x: Any, both: bool = True) -> Any:
        """Call the branches."""
        h = self.a(x)
        return self.out(T.tanh(h + self.b(x) if both else h))


def _batch(size: int) -> Any:
    return T.randn(4 * size, 6, generator=T.Generator().manual_seed(7))


def _loss(model: Any, x: Any, both: bool = True) -> Any:
    return model(x, both).square().mean()


def _whole(state: Any, size: int, steps: int) -> list[Any]:
    """What one process has after training with the whole batches."""
    model = Net()
    model.load_state_dict(state)
    optimizer = T.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        _loss(model, _batch(size)).backward()
        optimizer.step()
    return [p.detach() for p in model.parameters()]


def _trains(rank: int, size: int, bucket: float) -> list[bytes]:
    T.manual_seed(rank)  # rank 0's parameters count
    model = DistributedDataParallel(Net(), bucket_cap_mb=bucket)
    state = {k.removeprefix("module."): v.clone() for k, v in model.state_dict().items()}
    assert all(name.startswith("module.") for name in model.state_dict())
    assert len(model.reducer.buckets) == (1 if bucket > 1 else 6)
    optimizer = T.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    for _ in range(5):
        optimizer.zero_grad()
        _loss(model, _batch(size)[4 * rank : 4 * rank + 4]).backward()
        optimizer.step()
    for p, q in zip(model.parameters(), _whole(state, size, 5), strict=True):
        T.testing.assert_close(p.detach(), q, rtol=1e-5, atol=1e-6)
    return [p.detach().numpy().tobytes() for p in model.parameters()]


@pytest.mark.check
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("bucket", [25, 1e-6])
def test_training_equals_one_process(size: int, bucket: float) -> None:
    first, *others = run(size, _trains, bucket)
    assert all(other == first for other in others)


def _no_sync(rank: int, size: int) -> None:
    model = DistributedDataParallel(Net())
    x = _batch(size)[4 * rank : 4 * rank + 4]
    with model.no_sync():
        _loss(model, x).backward()
    local = model.module.a.weight.grad.clone()
    every = [T.empty_like(local) for _ in range(size)]
    dist.all_gather(every, local)
    assert not T.equal(every[0], every[1])
    _loss(model, x).backward()  # adds, and reduces the sum
    expected = sum(every) / size * 2
    T.testing.assert_close(model.module.a.weight.grad, expected)


def test_gradients_add_up_without_sync() -> None:
    run(2, _no_sync)


def _unused(rank: int, size: int) -> None:
    model = DistributedDataParallel(Net(), find_unused_parameters=True)
    _loss(model, _batch(size)[:4], both=False).backward()
    assert model.module.b.weight.grad is None  # used nowhere
    _loss(model, _batch(size)[:4], both=rank == 1).backward()
    grad = model.module.b.weight.grad
    assert grad is not None and grad.abs().sum() > 0
    every = [T.empty_like(grad) for _ in range(size)]
    dist.all_gather(every, grad)
    assert T.equal(every[0], every[1])


def test_parameters_without_gradients() -> None:
    run(2, _unused)


def _unfinished(rank: int, size: int) -> None:
    model = DistributedDataParallel(Net())
    _loss(model, _batch(size), both=False).backward()
    with pytest.raises(RuntimeError, match=r"finished reduction.*2 parameters had no gradient"):
        model(_batch(size))


def test_an_unfinished_reduction_is_reported() -> None:
    run(2, _unfinished)


def _buffers(rank: int, size: int) -> None:
    model = DistributedDataParallel(nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)))
    for _ in range(2):
        model(_batch(size)[4 * rank : 4 * rank + 4]).sum().backward()
    with T.no_grad():
        model(_batch(size)[:4])  # takes rank 0's buffers, then all do the same
    mean = model.module[1].running_mean  # type: ignore[index]
    every = [T.empty_like(mean) for _ in range(size)]
    dist.all_gather(every, mean)
    assert T.equal(every[0], every[1])


def test_buffers_are_those_of_rank_0() -> None:
    run(2, _buffers)


def _differs(rank: int, size: int) -> str:
    try:
        DistributedDataParallel(nn.Linear(2 + rank, 2))
    except RuntimeError as error:
        return str(error)
    return "fine"


@pytest.mark.check
def test_modules_that_differ() -> None:
    answers = run(2, _differs)
    assert "weight has shape (2, 3)" in answers[1] and "(2, 2)" in answers[1]


def _hook(rank: int, size: int) -> None:
    model = DistributedDataParallel(Net())
    seen = []

    def hook(state: list[int], bucket: Any) -> Any:
        state.append(bucket.index())
        assert bucket.is_last() and len(bucket.gradients()) == len(bucket.parameters()) == 6
        work = dist.all_reduce(bucket.buffer(), dist.ReduceOp.AVG, async_op=True)
        assert work is not None
        return work.get_future()

    model.register_comm_hook(seen, hook)
    with pytest.raises(RuntimeError, match="only be called once"):
        model.register_comm_hook(seen, hook)
    x = _batch(size)[4 * rank : 4 * rank + 4]
    _loss(model, x).backward()
    plain = DistributedDataParallel(Net(), init_sync=False)
    plain.load_state_dict(model.state_dict())
    _loss(plain, x).backward()
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        T.testing.assert_close(p.grad, q.grad)
    assert seen == [0]


def test_a_hook_reduces() -> None:
    run(2, _hook)


def _refusals(rank: int, size: int) -> None:
    with pytest.raises(RuntimeError, match="not needed when a module doesn't have any parameter"):
        DistributedDataParallel(nn.ReLU())
    with pytest.raises(ValueError, match="devices"):
        DistributedDataParallel(Net(), device_ids=[0])
    with pytest.raises(NotImplementedError, match="mixed_precision"):
        DistributedDataParallel(Net(), mixed_precision=object())
    model = DistributedDataParallel(nn.Linear(2, 2))
    weight = model.module.weight
    weight.register_hook(lambda grad: grad.to_sparse())
    with pytest.raises(RuntimeError, match="not the weight of an Embedding"):
        model(T.ones(1, 2)).sum().backward()


def test_what_is_refused() -> None:
    run(1, _refusals)
    with pytest.raises(ValueError, match="init_process_group"):
        DistributedDataParallel(Net())


def _sampler(rank: int, size: int) -> list[int]:
    return list(DistributedSampler(range(11), shuffle=False))


def test_a_sampler_asks_the_group() -> None:
    assert run(2, _sampler) == [[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 0]]


# nn stands below distributed, which gives itself to it when it is loaded.
_WITHOUT_GROUP = """
import sys
from shmtensor import nn
from shmtensor.nn.parallel import DistributedDataParallel
from shmtensor.utils.data.distributed import DistributedSampler


def refused():
    for make in (lambda: DistributedDataParallel(nn.Linear(1, 1)), lambda: DistributedSampler([1])):
        try:
            make()
        except ValueError as error:
            assert str(error).startswith("Default process group has not been initialized"), error
        else:
            raise AssertionError("made without a group")


assert "shmtensor.distributed" not in sys.modules
refused()
import shmtensor.distributed
refused()
"""


def test_without_a_group_it_is_refused_whether_distributed_is_loaded_or_not() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_GROUP], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
