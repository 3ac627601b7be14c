"""Contexts that allow changes of saved tensors, or forbid packing them.

What packing itself does is in test_hooks.py.
"""

from __future__ import annotations

import threading

import pytest

import shmtensor as st
from shmtensor.autograd.graph import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)


def ones() -> st.Tensor:
    return st.ones(2, 3, requires_grad=True)


@pytest.mark.check
def test_saved_values_are_those_before_a_change() -> None:
    a = ones()
    with allow_mutation_on_saved_tensors():
        b = a.clone()
        squares = (b**2).sum()
        b.mul_(3.0)
        cubes = (b**3).sum()
        b.zero_()
        (squares + cubes).backward()
    assert a.grad.tolist() == [[2.0 + 3 * 3 * 9.0] * 3] * 2


def test_a_change_through_a_view_or_out_counts() -> None:
    a = ones()
    with allow_mutation_on_saved_tensors():
        b = a.detach().clone()
        product = (a * b).sum()
        b.view(6)[1:].zero_()
        other = (a * b).sum()
        st.add(st.ones(2, 3), 1, out=b)
        (product + other).backward()
    assert a.grad.tolist() == [[2.0, 1.0, 1.0], [1.0, 1.0, 1.0]]


def test_without_a_change_nothing_is_copied() -> None:
    a = ones()
    with allow_mutation_on_saved_tensors() as context:
        (a * a).sum().backward()
        kept = context.pack(a)
        context.before_change(st.zeros(3))
        assert kept.tensor is a
        context.before_change(a[0])
        assert kept.tensor is not a and st.equal(kept.tensor, a)
    assert a.grad.tolist() == [[2.0] * 3] * 2


@pytest.mark.check
def test_graphs_end_with_the_context_or_when_it_is_cleared() -> None:
    a = ones()
    with allow_mutation_on_saved_tensors() as context:
        cleared, late = (a * a).sum(), None
        context.clear()
        with pytest.raises(AssertionError, match="Trying to backward outside"):
            cleared.backward()
        late = (a * a).sum()
    with pytest.raises(AssertionError, match="Trying to backward outside"):
        late.backward()


def test_outside_and_for_graphs_made_before_changes_are_errors() -> None:
    a = ones()
    b = a.clone()
    squares = (b**2).sum()
    with allow_mutation_on_saved_tensors(), pytest.raises(RuntimeError, match="cannot be nested"):
        allow_mutation_on_saved_tensors().__enter__()
    with allow_mutation_on_saved_tensors():
        b.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squares.backward()


def test_packing_can_be_forbidden() -> None:
    seen = []
    with disable_saved_tensors_hooks("no packing"):
        with pytest.raises(RuntimeError, match="no packing"), save_on_cpu():
            pass
        with (
            disable_saved_tensors_hooks("inner"),
            pytest.raises(RuntimeError, match="inner"),
            save_on_cpu(),
        ):
            pass
        with pytest.raises(RuntimeError, match="no packing"), save_on_cpu():
            pass
        thread = threading.Thread(target=lambda: seen.append(save_on_cpu().__enter__()))
        thread.start()
        thread.join()
    assert seen == [None]  # the context is that thread's
    with save_on_cpu():
        (ones() * 2).sum().backward()


def test_packing_cannot_be_forbidden_where_it_has_begun() -> None:
    with (
        saved_tensors_hooks(lambda t: t, lambda t: t),
        pytest.raises(RuntimeError, match="too late"),
        disable_saved_tensors_hooks("too late"),
    ):
        pass
    with disable_saved_tensors_hooks("again"):
        pass
