"""`DistributedDataParallel.join` and `ZeroRedundancyOptimizer`, against one process."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest
from ranks import run

import shmtensor as T
from shmtensor import distributed as dist
from shmtensor import nn, optim
from shmtensor.distributed.algorithms import Join, Joinable
from shmtensor.distributed.optim import ZeroRedundancyOptimizer
from shmtensor.nn.parallel import DistributedDataParallel

N_BATCHES = (2, 5, 3)


class Net(nn.Module):
    """Two branches, one of which can be left out, and statistics of its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 8, bias=False)  # its gradient would be rounding, before a norm
        self.norm = nn.BatchNorm1d(8)
        self.b = nn.Linear(8, 3)
        self.other = nn.Linear(6, 3)

    def forward(self, x: Any, both: bool = True) -> Any:
        """Call the branches."""
        y = self.b(T.tanh(self.norm(self.a(x))))
        return y + self.other(x) if both else y


def batch(rank: int, i: int) -> Any:
    return T.randn(4, 6, generator=T.Generator().manual_seed(100 * rank + i))


def loss_of(model: Any, rank: int, i: int, both: bool) -> Any:
    return model(batch(rank, i), both).square().mean()


def flat(model: Any) -> Any:
    return T.cat([p.detach().reshape(-1) for p in model.parameters()])


def expected(state: Any, size: int, divides_by_all: bool, both: bool) -> Any:
    """What a process has that adds the gradients of the ranks which still have batches."""
    model = Net()
    model.load_state_dict(state)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    for i in range(max(N_BATCHES[:size])):
        ranks = [rank for rank in range(size) if i < N_BATCHES[rank]]
        optimizer.zero_grad()
        for rank in ranks:
            each = copy.deepcopy(model)
            each.zero_grad()
            loss_of(each, rank, i, both).backward()
            for p, q in zip(model.parameters(), each.parameters(), strict=True):
                if q.grad is not None:
                    part = q.grad / (size if divides_by_all else len(ranks))
                    p.grad = part if p.grad is None else p.grad + part
        optimizer.step()
    return flat(model)


def trains(rank: int, size: int, divides_by_all: bool, both: bool, zero: bool) -> Any:
    T.manual_seed(0)
    model = DistributedDataParallel(Net(), find_unused_parameters=not both, bucket_cap_mb=1e-4)
    state = copy.deepcopy(model.module.state_dict())
    kind: Any = ZeroRedundancyOptimizer if zero else optim.Adam
    options = {"optimizer_class": optim.Adam} if zero else {}
    optimizer = kind(model.parameters(), lr=0.01, **options)
    joined: list[Any] = [model, optimizer] if zero else [model]
    with Join(joined, divide_by_initial_world_size=divides_by_all):
        for i in range(N_BATCHES[rank]):
            optimizer.zero_grad()
            loss_of(model, rank, i, both).backward()
            optimizer.step()
    T.testing.assert_close(flat(model), expected(state, size, divides_by_all, both))
    assert model.module.norm.num_batches_tracked == max(N_BATCHES[:size])
    assert model.reducer.divisor == size
    result = flat(model).numpy().tobytes(), model.module.norm.running_mean.numpy().tobytes()
    loss_of(model, rank, 0, True).backward()  # out of it, all is as before
    return result


@pytest.mark.check
@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("divides_by_all", [True, False])
@pytest.mark.parametrize("zero", [False, True], ids=["each", "zero"])
def test_ranks_without_batches_shadow_the_others(divides_by_all: bool, both: bool, zero: bool):
    answers = run(3, trains, divides_by_all, both, zero)
    assert len(set(answers)) == 1


def ends_early(rank: int, size: int) -> int:
    model = DistributedDataParallel(nn.Linear(2, 2))
    assert isinstance(model, Joinable)
    steps = 0

    def train() -> None:
        nonlocal steps
        with model.join(throw_on_early_termination=True):
            for _ in range(N_BATCHES[rank]):
                model(T.ones(1, 2)).sum().backward()
                steps += 1

    with pytest.raises(RuntimeError, match="exhausted"):
        train()
    assert not model._join_config.enable
    return steps


def test_all_ranks_can_end_with_the_first():
    assert run(2, ends_early) == [2, 2]


def is_off(rank: int, size: int) -> bool:
    model = DistributedDataParallel(nn.Linear(2, 2))
    with model.join(enable=False):
        for _ in range(3):
            model(T.full((1, 2), 1.0 + rank)).sum().backward()
    return bool(model.module.weight.grad[0, 0] == 3 * 1.5)


def test_a_join_that_is_off_does_nothing():
    assert run(2, is_off) == [True, True]


# --- optimizers in parts -----------------------------------------------------------------------


def model_of_groups(lr: float) -> tuple[Any, list[dict[str, Any]]]:
    T.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 30), nn.Tanh(), nn.Linear(30, 4), nn.Linear(4, 2))
    first = {"params": list(model[0].parameters()), "lr": 3 * lr, "weight_decay": 0.1}
    return model, [first, {"params": list(model[2:].parameters())}]


def steps(model: Any, optimizer: Any, n: int) -> None:
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for i in range(n):
        optimizer.zero_grad()
        model(batch(9, i)).square().mean().backward()
        optimizer.step()
        schedule.step()


def in_parts(rank: int, size: int, kind: Any) -> Any:
    whole, groups = model_of_groups(0.01)
    reference = kind(groups, lr=0.01)
    model, groups = model_of_groups(0.01)
    optimizer = ZeroRedundancyOptimizer(groups, kind, lr=0.01)
    steps(whole, reference, 4)
    steps(model, optimizer, 4)
    assert T.equal(flat(model), flat(whole))
    n_own = sum(len(group["params"]) for group in optimizer.optim.param_groups)
    assert n_own < 6 and len(optimizer.optim.state) == n_own
    with pytest.raises(RuntimeError, match="consolidate_state_dict"):
        optimizer.state_dict()
    optimizer.consolidate_state_dict(to=1)
    states: list[Any] = [None]
    if rank == 1:
        states = [optimizer.state_dict()]
        T.testing.assert_close(states[0]["state"], reference.state_dict()["state"])
        assert states[0]["param_groups"] == reference.state_dict()["param_groups"]
    else:
        with pytest.raises(RuntimeError, match="not been consolidated on this rank"):
            optimizer.state_dict()
    dist.broadcast_object_list(states, src=1)
    again = ZeroRedundancyOptimizer(model_of_groups(0.5)[1], kind, lr=0.5)
    parameters = [p for group in again.param_groups for p in group["params"]]
    with T.no_grad():
        for p, q in zip(parameters, model.parameters(), strict=True):
            p.copy_(q)
    again.load_state_dict(states[0])
    assert again.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]
    for p, q, r in zip(parameters, model.parameters(), whole.parameters(), strict=True):
        p.grad, q.grad, r.grad = (T.ones_like(p) for _ in range(3))
    for each in (again, optimizer, reference):
        each.step()
    assert T.equal(T.cat([p.detach().reshape(-1) for p in parameters]), flat(whole))
    return n_own


@pytest.mark.check
@pytest.mark.parametrize("kind", [partial(optim.SGD, momentum=0.9), optim.Adam, optim.RMSprop])
def test_ranks_hold_parts_of_the_state(kind: Any):
    assert sum(run(2, in_parts, kind)) == 6


def more_ranks_than_parameters(rank: int, size: int) -> Any:
    model = nn.Linear(3, 2, bias=False)
    with T.no_grad():
        model.weight.fill_(1)
    optimizer = ZeroRedundancyOptimizer(model.named_parameters(), optim.Adam, lr=0.5)
    model(T.ones(1, 3)).sum().backward()
    calls: list[int] = []
    assert optimizer.step(lambda: calls.append(1) or 7) == 7  # type: ignore[func-returns-value]
    extra = nn.Parameter(T.ones(2))
    optimizer.add_param_group({"params": [("extra", extra)], "lr": 0.25})
    extra.grad = T.ones(2)
    optimizer.step()
    assert calls == [1] and optimizer.param_groups[1]["lr"] == 0.25
    return flat(model).tolist() + extra.tolist()


def test_ranks_may_own_nothing():
    first, second, third = run(3, more_ranks_than_parameters)
    assert first == second == third
    assert first == pytest.approx([0.0] * 6 + [0.75] * 2, abs=1e-4)


def refusals(rank: int, size: int) -> None:
    with pytest.raises(NotImplementedError, match="overlap_with_ddp"):
        ZeroRedundancyOptimizer([nn.Parameter(T.ones(1))], optim.SGD, overlap_with_ddp=True)
    with pytest.raises(ValueError, match="empty parameter list"):
        ZeroRedundancyOptimizer([], optim.SGD, lr=0.1)
    if rank == 1:
        with pytest.raises(ValueError, match=r"rank 1 has the parameters \[\[\(\(2,\)"):
            ZeroRedundancyOptimizer([nn.Parameter(T.ones(1 + rank))], optim.SGD, lr=0.1)
    else:
        ZeroRedundancyOptimizer([nn.Parameter(T.ones(1 + rank))], optim.SGD, lr=0.1)
    optimizer = ZeroRedundancyOptimizer([nn.Parameter(T.ones(1))], optim.SGD, lr=0.1)
    state = optim.SGD([nn.Parameter(T.ones(1)), nn.Parameter(T.ones(1))], lr=0.1).state_dict()
    with pytest.raises(ValueError, match="doesn't match the size"):
        optimizer.load_state_dict(state)


def test_what_is_refused():
    run(2, refusals)
    with pytest.raises(ValueError, match="init_process_group"):
        ZeroRedundancyOptimizer([nn.Parameter(T.ones(1))], optim.SGD, lr=0.1)
