"""Collectives that return tensors, their derivatives, Join, and state dicts of groups."""

from __future__ import annotations

from typing import Any

import pytest
from ranks import run

import shmtensor as T
from shmtensor import distributed as dist
from shmtensor import nn, optim
from shmtensor.distributed import _functional_collectives as values
from shmtensor.distributed import nn as with_derivative
from shmtensor.distributed.algorithms import Join, Joinable, JoinHook
from shmtensor.distributed.checkpoint import state_dict


def _values(rank: int, size: int) -> list[Any]:
    x = T.arange(4.0).view(2, 2) + 10 * rank
    return [
        values.all_reduce(x, "sum").tolist(),
        values.all_reduce(x, "max", dist.group.WORLD).tolist(),
        values.broadcast(x, 1).tolist(),
        values.all_gather_tensor(x, 1).tolist(),
        values.reduce_scatter_tensor(x, "sum", 0).tolist(),
        values.wait_tensor(values.all_to_all_single(x, None, None)).tolist(),
        x.tolist(),
    ]


@pytest.mark.check
def test_functional_collectives_return_new_tensors():
    first, second = run(2, _values)
    assert first[0] == second[0] == [[10, 12], [14, 16]]
    assert first[1] == second[1] == first[2] == second[2] == [[10, 11], [12, 13]]
    assert first[3] == second[3] == [[0, 1, 10, 11], [2, 3, 12, 13]]
    assert (first[4], second[4]) == ([[10, 12]], [[14, 16]])
    assert (first[5], second[5]) == ([[0, 1], [10, 11]], [[2, 3], [12, 13]])
    assert (first[6], second[6]) == ([[0, 1], [2, 3]], [[10, 11], [12, 13]])


def _derivative(rank: int, size: int, name: str) -> tuple[list[float], list[float]]:
    """The gradient on this rank, and that of the sum over all ranks by differences."""
    x = T.tensor([1.0, -2.0, 3.0, 0.5]) * (rank + 1)
    x = x.double().requires_grad_()
    weight = T.tensor([2.0, 1.0, -1.0, 4.0]).double() * (rank + 2)

    def loss(x: Any) -> Any:
        rows = weight.view(2, 2)
        halves = [x[:2], x[2:]]
        if name == "all_reduce":
            return (with_derivative.all_reduce(x) * weight).sum()
        if name == "broadcast":
            return (with_derivative.broadcast(x, 1) * weight).sum()
        if name == "reduce":
            result = with_derivative.reduce(x, 1)
            return (result * weight).sum() if rank == 1 else result.sum() * 0
        if name == "all_gather":
            parts = with_derivative.all_gather(x)
            return sum(((i + 1) * part * weight).sum() for i, part in enumerate(parts))
        if name == "gather":
            parts = with_derivative.gather(x, 1)
            return sum(((i + 1) * part * weight).sum() for i, part in enumerate(parts))
        if name == "reduce_scatter":
            return (with_derivative.reduce_scatter(x[:2], halves) * rows[0]).sum()
        if name == "scatter":
            return (with_derivative.scatter(halves, 1) * rows[0]).sum()
        if name == "all_to_all":
            parts = with_derivative.all_to_all(halves, halves)
            return sum((part * row).sum() for part, row in zip(parts, rows, strict=True))
        assert name == "all_to_all_single"
        return (with_derivative.all_to_all_single(x, x) * weight).sum()

    loss(x).backward()
    assert x.grad is not None
    numerical = []
    for other in range(size):
        for i in range(4):
            ends = []
            for step in (1e-3, -1e-3):
                moved = x.detach().clone()
                if rank == other:
                    moved[i] += step
                with T.no_grad():
                    total = loss(moved).reshape(1)
                dist.all_reduce(total)
                ends.append(total.item())
            if rank == other:
                numerical.append((ends[0] - ends[1]) / 2e-3)
    return x.grad.tolist(), numerical


@pytest.mark.parametrize(
    "name",
    [
        *("all_reduce", "broadcast", "reduce", "all_gather", "gather", "reduce_scatter"),
        *("scatter", "all_to_all", "all_to_all_single"),
    ],
)
def test_gradients_are_those_of_the_sum_over_all_ranks(name: str):
    for grad, numerical in run(2, _derivative, name):
        assert grad == pytest.approx(numerical, rel=1e-6, abs=1e-6)


def _of_one_rank(rank: int, size: int) -> tuple[str, list[list[float]], list[float]]:
    """What gather and scatter to and from rank 1 give, when rank 0 has no finite number."""
    x = T.tensor([[2.0, 3.0], [4.0, 5.0]] if rank else [[T.nan, T.inf], [-T.inf, T.nan]])
    gathered = [part.tolist() for part in with_derivative.gather(x, 1)]
    scattered = with_derivative.scatter([x[0], x[1]], 1).tolist()
    # No number is finite in the gradients of what rank 0 has got, either.
    x.requires_grad_()
    factor = T.tensor(1.0 if rank else T.inf)
    sum((part * factor).sum() for part in with_derivative.gather(x, 1)).backward()
    (with_derivative.scatter([x[0], x[1]], 1) * 2).sum().backward()
    assert x.grad is not None
    return str(gathered), x.grad.tolist(), scattered


@pytest.mark.check
def test_what_other_ranks_have_does_not_matter():
    first, second = run(2, _of_one_rank)
    assert first[0] == str([[[0.0, 0.0], [0.0, 0.0]]] * 2)
    assert second[0] == "[[[nan, inf], [-inf, nan]], [[2.0, 3.0], [4.0, 5.0]]]"
    assert (first[1], second[1]) == ([[1.0, 1.0], [1.0, 1.0]], [[3.0, 3.0], [3.0, 3.0]])
    assert (first[2], second[2]) == ([2.0, 3.0], [4.0, 5.0])


class _Counter(Joinable):
    """Adds up, over all ranks, how many take part in an iteration."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []
        self.ended: list[bool] = []

    def iterate(self) -> None:
        Join.notify_join_context(self)
        self.reduce(1)

    def reduce(self, here: int) -> None:
        count = T.tensor([here])
        dist.all_reduce(count)
        self.seen.append(int(count))

    def join_hook(self, **kwargs: Any) -> JoinHook:
        counter = self

        class Hook(JoinHook):
            def main_hook(self) -> None:
                counter.reduce(0)

            def post_hook(self, is_last_joiner: bool) -> None:
                counter.ended.append(is_last_joiner)

        return Hook()

    @property
    def join_device(self) -> Any:
        return T.device("cpu")

    @property
    def join_process_group(self) -> Any:
        return dist.group.WORLD


def _join(rank: int, size: int, throws: bool) -> Any:
    counter = _Counter()
    try:
        with Join([counter], throw_on_early_termination=throws):
            for _ in range(2 + 2 * rank):
                counter.iterate()
    except RuntimeError as error:
        return str(error)
    return counter.seen, counter.ended


def test_join_repeats_the_collectives_of_ranks_with_more_batches():
    first, second = run(2, _join, False)
    assert first == ([2, 2, 1, 1], [False])
    assert second == ([2, 2, 1, 1], [True])


@pytest.mark.check
def test_join_can_end_the_loops_of_all_ranks():
    first, second = run(2, _join, True)
    assert "exhausted" in first
    assert "exhausted" in second


def test_join_outside_of_a_group_checks_its_arguments():
    with pytest.raises(ValueError, match="at least one"):
        Join([])
    assert Join.notify_join_context(_Counter()) is None


def test_state_dicts_name_parameters_and_come_back():
    def make() -> tuple[Any, Any]:
        T.manual_seed(0)
        model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
        groups = [{"params": model[1].parameters(), "lr": 0.5}, {"params": model[0].parameters()}]
        return model, optim.Adam(groups, lr=0.1)

    model, optimizer = make()
    model(T.ones(1, 2)).sum().backward()
    optimizer.step()
    state = state_dict.get_optimizer_state_dict(model, optimizer)
    assert set(state["state"]) == {name for name, _ in model.named_parameters()}
    assert state["param_groups"][0]["params"] == ["1.weight", "1.bias"]
    other, its_optimizer = make()
    found = state_dict.set_model_state_dict(other, state_dict.get_model_state_dict(model))
    assert found.missing_keys == []
    state_dict.set_optimizer_state_dict(other, its_optimizer, state)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert T.equal(a, b)
        assert T.equal(optimizer.state[a]["exp_avg"], its_optimizer.state[b]["exp_avg"])
    assert [group["lr"] for group in its_optimizer.param_groups] == [0.5, 0.1]
    model[0].weight.requires_grad_(False)
    options = state_dict.StateDictOptions(ignore_frozen_params=True)
    assert "0.weight" not in state_dict.get_model_state_dict(model, options=options)
