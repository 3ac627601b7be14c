"""Writes to expanded tensors, where several elements share one memory location."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import shmtensor as T

SHARED = "more than one element of the written-to tensor refers to a single memory location"


def rows(n: int = 3) -> T.Tensor:
    """One row of ones, *n* times."""
    return T.ones(1, 3).expand(n, 3)


@pytest.mark.check
def test_triangles_of_one_matrix_for_a_whole_batch() -> None:
    x = T.ones(1, 3, 3)
    batch = x.expand(2, 3, 3)
    assert batch.triu_(1) is batch
    assert x[0].tolist() == [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    assert T.ones(1, 2, 3, 3).expand(4, 2, 3, 3).tril_(1)[3, 1].tolist() == [
        [1, 1, 0],
        [1, 1, 1],
        [1, 1, 1],
    ]
    with pytest.raises(RuntimeError, match=SHARED):
        rows().triu_()


def test_a_place_is_filled_when_any_of_its_elements_is_chosen() -> None:
    x = rows()
    mask = T.tensor([[True, False, False], [False, False, False], [True, False, True]])
    with pytest.warns(UserWarning, match="masked_fill_ on expanded tensors is deprecated"):
        x.masked_fill_(mask, 2)
    assert x.tolist() == [[2, 1, 2]] * 3
    with pytest.warns(UserWarning, match="expanded"):
        x.masked_fill_(T.tensor([False, True, False]), T.tensor(5.0))
    assert x.tolist() == [[2, 5, 2]] * 3


def test_lines_of_an_expanded_tensor_are_filled() -> None:
    x = rows()
    with pytest.warns(UserWarning, match="index_fill_ on expanded tensors is deprecated"):
        x.index_fill_(0, T.tensor([1]), 2)
    assert x.tolist() == [[2, 2, 2]] * 3
    with pytest.warns(UserWarning, match="index_fill_ on expanded"):
        x.index_fill_(1, T.tensor([0, 2]), 7)
    assert x.tolist() == [[7, 2, 7]] * 3
    with pytest.warns(UserWarning, match="expanded"), pytest.raises(IndexError):
        x.index_fill_(0, T.tensor([3]), 2)


@pytest.mark.check
def test_values_put_into_an_expanded_tensor_are_warned_of() -> None:
    x = rows()
    with pytest.warns(UserWarning, match="index_put_ on expanded tensors is deprecated"):
        x.index_put_((T.tensor([0]),), T.tensor([4.0, 5.0, 6.0]))
    assert x.tolist() == [[4, 5, 6]] * 3


@pytest.mark.parametrize(
    "call",
    [
        lambda: rows().add_(1),
        lambda: rows().index_add_(0, T.tensor([0]), T.ones(1, 3)),
        lambda: rows().scatter_(0, T.tensor([[0]]), T.ones(1, 1)),
        lambda: rows().addmm_(T.ones(3, 3), T.ones(3, 3)),
        lambda: T.ones(1, 3, 3).expand(2, 3, 3).baddbmm_(T.ones(2, 3, 3), T.ones(2, 3, 3)),
        lambda: T.ones(1).expand(3).addmv_(T.ones(3, 3), T.ones(3)),
        lambda: T.sum(T.ones(3, 3), 0, out=T.ones(1).expand(3)),
        lambda: rows().apply_(lambda x: x + 1),
    ],
)
def test_values_that_depend_on_the_order_of_writing_are_refused(
    call: Callable[[], T.Tensor],
) -> None:
    with pytest.raises(RuntimeError, match=SHARED):
        call()


@pytest.mark.parametrize("function", [T.cumsum, T.cumprod, T.logcumsumexp])
def test_running_values_are_not_written_over_others(function: Callable[..., T.Tensor]) -> None:
    x = T.arange(6.0)
    with pytest.raises(RuntimeError, match="some elements of the input tensor"):
        function(x[1:], 0, out=x[:-1])
    assert function(x, 0, out=x[:]).tolist() == function(T.arange(6.0), 0).tolist()
