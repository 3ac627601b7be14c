"""Bool tensors with bytes other than 0 and 1, as ``view(torch.bool)`` makes: all count as true."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import shmtensor as T

BYTES = [0, 2, 255, 1, 0, 4, 128, 0, 3]
TRUTH = [value != 0 for value in BYTES]
N = len(BYTES)


def seen(step: int = 1) -> T.Tensor:
    """The bytes as bools; with *step*, every so many of a wider tensor."""
    wide = T.zeros(step * N, dtype=T.uint8)
    wide[::step] = T.tensor(BYTES, dtype=T.uint8)
    return wide.view(T.bool)[::step]


OPERATORS: dict[str, Callable[[T.Tensor], object]] = {
    "tolist": lambda a: a.tolist(),
    "text": repr,
    "clone": lambda a: a.clone().tolist(),
    "cast": lambda a: a.to(T.int32).tolist(),
    "and": lambda a: (a & a.flip(0)).tolist(),
    "or": lambda a: (a | a.flip(0)).tolist(),
    "xor": lambda a: (a ^ a.flip(0)).tolist(),
    "not": lambda a: (~a).tolist(),
    "logical_not": lambda a: a.logical_not().tolist(),
    "logical_and": lambda a: T.logical_and(a, a.flip(0)).tolist(),
    "eq": lambda a: T.eq(a, a.flip(0)).tolist(),
    "equal": lambda a: a.equal(T.tensor(TRUTH)),
    "add": lambda a: (a + a).tolist(),
    "sum": lambda a: a.sum().item(),
    "prod": lambda a: a[1:4].prod().item(),
    "count_nonzero": lambda a: a.count_nonzero().item(),
    "any": lambda a: [a.any().item(), a[:1].any().item()],
    "all": lambda a: [a.all().item(), a[1:4].all().item()],
    "amax": lambda a: [a.amax().item(), a[7:8].amax().item()],
    "cumsum": lambda a: a.cumsum(0).tolist(),
    "cummax": lambda a: a.cummax(0).values.tolist(),
    "nonzero": lambda a: a.nonzero().flatten().tolist(),
    "index": lambda a: T.arange(N)[a].tolist(),
    "masked_select": lambda a: T.arange(N).masked_select(a).tolist(),
    "masked_fill": lambda a: T.arange(N).masked_fill(a, -1).tolist(),
    "masked_scatter": lambda a: T.arange(N).masked_scatter(a, -T.arange(N)).tolist(),
    "where": lambda a: T.where(a, 1, 2).tolist(),
    "scatter_add": lambda a: a.scatter_add(0, T.tensor([0]), a[1:2]).tolist(),
    "diff": lambda a: a.diff().tolist(),
    "cat": lambda a: T.cat([a, a]).tolist(),
}


@pytest.mark.check
@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("name", OPERATORS)
def test_any_byte_but_zero_is_true(name: str, step: int) -> None:
    operator = OPERATORS[name]
    assert operator(seen(step)) == operator(T.tensor(TRUTH))
