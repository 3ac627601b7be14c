"""Gradients of views, first and second, by the definition of a transpose.

A view f is linear, so its gradient is the transpose: for any u and w, <f(u), w> = <u, f'(w)>. The
second gradient, taken with respect to w, gives f(u) back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import shmtensor

LINEAR: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    "alias": ((2, 3), shmtensor.alias),
    "as_strided": ((3, 4), lambda t: t.as_strided((2, 2), (3, 2), 1)),
    "as_strided_overlapping": ((6,), lambda t: t.as_strided((3, 3), (1, 1))),
    "as_strided_of_expanded": ((3, 1), lambda t: t.expand(3, 4).as_strided((3,), (1,))),
    "as_strided_scatter_source": (
        (2,),
        lambda t: shmtensor.zeros(6, dtype=t.dtype).as_strided_scatter(t * 2, (2,), (3,), 1),
    ),
    "chunk": ((5,), lambda t: t.chunk(2)[1]),
    "diagonal": ((3, 4), lambda t: t.diagonal(1)),
    "diagonal_scatter": ((3, 3), lambda t: t.diagonal_scatter(t[0] * 3)),
    "expand": ((3, 1), lambda t: t.expand(2, 3, 4)),
    "flatten": ((2, 3, 2), lambda t: t.flatten(1)),
    "movedim": ((2, 3, 4), lambda t: t.movedim(0, 2)),
    "narrow": ((4, 3), lambda t: t.narrow(0, 1, 2)),
    "permute": ((2, 3, 4), lambda t: t.permute(2, 0, 1)),
    "reshape_copy": ((2, 3), lambda t: t.t().reshape(6)),
    "select": ((2, 3), lambda t: t.select(1, -1)),
    "select_scatter": ((2, 3), lambda t: t.select_scatter(t[1] * 2, 0, 0)),
    "slice": ((7, 2), lambda t: t[1:6:2]),
    "slice_scatter": ((4, 2), lambda t: t.slice_scatter(t[:2] * 2, 0, 1, 4, 2)),
    "split": ((5, 2), lambda t: t.split([2, 3])[1]),
    "squeeze": ((2, 1, 3), lambda t: t.squeeze()),
    "squeeze_dim": ((2, 1, 3), lambda t: t.squeeze(1)),
    "t": ((2, 3), lambda t: t.t()),
    "transpose": ((2, 3, 4), lambda t: t.transpose(0, -1)),
    "unbind": ((3, 2), lambda t: t.unbind()[1]),
    "unflatten": ((2, 6), lambda t: t.unflatten(1, (2, 3))),
    "unfold": ((7, 2), lambda t: t.unfold(0, 3, 2)),
    "unsqueeze": ((2, 3), lambda t: t.unsqueeze(-2)),
    "view": ((2, 6), lambda t: t.view(3, 4)),
    "view_as_complex": ((3, 2), lambda t: shmtensor.view_as_real(shmtensor.view_as_complex(t))),
}


def random(*sizes: int) -> Any:
    return shmtensor.rand(sizes, dtype=shmtensor.float64)


@pytest.mark.parametrize("name", sorted(LINEAR))
def test_gradient_is_the_transpose(name: str) -> None:
    sizes, function = LINEAR[name]
    x = random(*sizes).requires_grad_()
    u = random(*sizes)
    result = function(x)
    weights = random(*result.shape).requires_grad_()
    (gradient,) = shmtensor.autograd.grad((result * weights).sum(), x, create_graph=True)
    assert gradient.shape == x.shape
    expected = (function(u) * weights).sum().item()
    assert (gradient * u).sum().item() == pytest.approx(expected, rel=1e-12)
    (gradient * u).sum().backward()
    assert weights.grad.flatten().tolist() == pytest.approx(function(u).flatten().tolist())


@pytest.mark.check
@pytest.mark.parametrize(
    ("change", "back"),
    [
        (lambda t: t.t_(), lambda t: t.t()),
        (lambda t: t.transpose_(0, 1), lambda t: t.t()),
        (lambda t: t.unsqueeze_(0), lambda t: t[0]),
        (lambda t: t.unsqueeze_(0).squeeze_(), lambda t: t),
        (lambda t: t.swapaxes_(0, 1), lambda t: t.t()),
    ],
)
def test_in_place_geometry_change_is_recorded(
    change: Callable[[Any], Any], back: Callable[[Any], Any]
) -> None:
    x = random(2, 3).requires_grad_()
    y = change(x * 2)
    weights = random(*y.shape)
    (y * weights).sum().backward()
    assert x.grad.tolist() == (back(weights) * 2).tolist()


@pytest.mark.check
def test_write_through_a_view_reaches_the_gradient_of_its_base() -> None:
    x = random(2, 3).requires_grad_()
    y = x * 1
    y[0].mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [[3.0] * 3, [1.0] * 3]


def test_detached_tensor_shares_version_but_no_history() -> None:
    x = random(3).requires_grad_()
    y = x * 2
    detached = y.detach()
    assert not detached.requires_grad
    assert detached._base is None
    view = detached.view(-1)
    assert view._base is detached
    view.add_(1)
    assert y._version == detached._version == 1
    assert not view.requires_grad
