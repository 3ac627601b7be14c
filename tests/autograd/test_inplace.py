"""In-place changes under recording: rebased history, views, versions, and what is forbidden."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor.autograd import Function, gradcheck, gradgradcheck


def leaf(*values: float) -> st.Tensor:
    return st.tensor([float(v) for v in values], requires_grad=True)


@pytest.mark.check
def test_inplace_on_leaf_raises() -> None:
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in"):
        leaf(1, 2).add_(1)


def test_inplace_on_view_of_leaf_raises() -> None:
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        leaf(1, 2)[0].add_(1)


def test_inplace_copy_into_leaf_raises() -> None:
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf(1, 2).copy_(st.ones(2))


def test_inplace_on_leaf_without_recording_is_fine() -> None:
    x = leaf(1, 2)
    with st.no_grad():
        x.add_(1)
    assert x.tolist() == [2, 3]
    assert x.is_leaf
    assert x._version == 1


def test_inplace_on_result_extends_history() -> None:
    x = leaf(1, 2)
    y = x * 3
    y.mul_(2)
    y.add_(1)
    assert y.grad_fn.name() == "AddBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [6, 6]


def test_inplace_on_plain_tensor_makes_it_part_of_graph() -> None:
    x = leaf(1, 2)
    y = st.ones(2)
    y.mul_(x)
    assert y.requires_grad
    assert not y.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_inplace_needing_old_self_saves_it() -> None:
    x = leaf(2, 3)
    y = x * 1
    y.pow_(2)
    y.sum().backward()
    assert x.grad.tolist() == [4, 6]


def test_inplace_with_itself_and_its_views() -> None:
    x = leaf(2, 3)
    y = x * 1
    y.mul_(y)
    y[0].mul_(y[1])
    y.sum().backward()
    assert x.grad.tolist() == [36, 30]


def test_inplace_result_saved_by_its_own_node() -> None:
    x = leaf(0.0, 1.0)
    y = x * 1
    y.exp_()
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([1, 2.7182817])


def test_inplace_on_a_quotient_leaves_gradients_of_both_operands() -> None:
    a, b = leaf(6, -3), leaf(2, 4)
    (a / b).add_(1).sum().backward()  # neither gradient needs the quotient
    assert a.grad.tolist() == [0.5, 0.25]
    assert b.grad.tolist() == [-1.5, 0.1875]


def test_inplace_changes_saved_input_raises_with_versions() -> None:
    x = leaf(1, 2)
    y = x * 2
    z = y * y
    y.add_(1)
    with pytest.raises(
        RuntimeError,
        match=r"modified by an inplace operation: \[torch.FloatTensor \[2\]\], which is output 0 "
        r"of Add, is at version 1; expected version 0 instead",
    ):
        z.sum().backward()


def test_inplace_changes_saved_output_raises() -> None:
    y = leaf(1, 2).exp()
    y.add_(1)
    with pytest.raises(
        RuntimeError, match=r"modified by an inplace operation.*version 1; expected"
    ):
        y.sum().backward()


def test_inplace_through_detached_alias_is_noticed() -> None:
    x, w = leaf(1, 2), leaf(3, 4)
    y = x * w
    x.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_inplace_through_data_is_not_noticed() -> None:
    x, w = leaf(1, 2), leaf(3, 4)
    y = x * w
    x.data.zero_()
    y.sum().backward()
    assert w.grad.tolist() == [0, 0]


def test_inplace_on_view_changes_history_of_base() -> None:
    x = leaf(1, 2, 3)
    base = x * 2
    view = base[:2]
    view.mul_(10)
    assert type(base.grad_fn).__name__ == "CopySlices"
    assert view.grad_fn.name() == "AsStridedBackward0"
    base.sum().backward()
    assert x.grad.tolist() == [20, 20, 2]


def test_inplace_on_view_of_plain_base() -> None:
    x = leaf(5, 6)
    base = st.zeros(4)
    base[1:3].copy_(x)
    assert base.requires_grad
    (base * st.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [2, 3]


def test_inplace_on_base_renews_history_of_view() -> None:
    x = leaf(1, 2)
    base = x * 2
    view = base[1]
    base.mul_(3)
    assert view.grad_fn.name() == "AsStridedBackward0"
    view.backward()
    assert x.grad.tolist() == [0, 6]


@pytest.mark.check
def test_inplace_on_base_gives_plain_view_a_history() -> None:
    x = leaf(1, 2)
    base = st.ones(2)
    view = base[0]
    base.mul_(x)
    assert view.requires_grad
    assert not view.is_leaf
    view.backward()
    assert x.grad.tolist() == [1, 0]


def test_inplace_on_one_view_is_seen_by_another() -> None:
    x = leaf(1, 2, 3)
    base = x * 1
    a, b = base[:2], base[1:]
    a.mul_(5)
    b.sum().backward()
    assert x.grad.tolist() == [0, 5, 1]


def test_inplace_chain_on_views_of_views() -> None:
    x = st.ones(2, 3, requires_grad=True)
    base = x * 1
    row = base[0]
    row[1:].mul_(7)
    row.add_(1)
    base.sum().backward()
    assert x.grad.tolist() == [[1, 7, 7], [1, 1, 1]]


def test_inplace_fill_on_view_stops_gradient_there() -> None:
    x = leaf(1, 2, 3)
    base = x * 2
    base[1] = 0
    base.sum().backward()
    assert x.grad.tolist() == [2, 0, 2]


def test_inplace_assignment_of_tensor_sends_gradient() -> None:
    x, w = leaf(1, 2, 3), leaf(9)
    base = x * 2
    base[2:] = w
    base.sum().backward()
    assert x.grad.tolist() == [2, 2, 0]
    assert w.grad.tolist() == [1]


def test_inplace_on_view_twice_differentiable() -> None:
    x = leaf(2.0, 3.0)
    base = x * x
    base[0].mul_(x[1])
    (g,) = st.autograd.grad(base.sum(), x, create_graph=True)
    assert g.tolist() == [12, 10]
    (h,) = st.autograd.grad(g.sum(), x)
    assert h.tolist() == [10, 6]


def test_view_made_without_recording_cannot_be_changed() -> None:
    y = leaf(1, 2) * 2
    with st.no_grad():
        view = y[0]
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode and is being mod"):
        view.add_(1)


CHANGES = {
    "its base": lambda y, view: y.mul_(2),
    "itself, unrecorded": lambda y, view: st.no_grad()(view.mul_)(2),
    "another view": lambda y, view: y[1:].mul_(2),
}
USES = {
    "operator": lambda view: view * 2,
    "grad_fn": lambda view: view.grad_fn,
    "is_leaf": lambda view: view.is_leaf,
    "requires_grad_": lambda view: view.requires_grad_(False),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_view_made_without_recording_has_no_part_in_a_graph_once_changed(
    change: Any, use: Any
) -> None:
    y = leaf(1, 2) * 2
    with st.no_grad():
        view = y[0:1]
    change(y, view)
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode and its base or an"):
        use(view)
    assert view.tolist() in ([2.0], [4.0])
    with st.no_grad():
        assert not (view * 2).requires_grad
    y.sum().backward()


def test_view_made_before_its_base_had_a_history_has_none() -> None:
    x = st.ones(2)
    with st.no_grad():
        view = x[0:1]
    x.mul_(leaf(3, 4))
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode and its base or an"):
        _ = view * 2


def test_one_of_several_views_has_no_part_in_a_graph_once_its_base_changed() -> None:
    y = leaf(1, 2) * 2
    first, _ = y.split(1)
    y.mul_(2)
    text = "Output 0 of Split is a view and its base or another view of its base has been"
    with pytest.raises(RuntimeError, match=text):
        first.sum()


def test_view_made_without_recording_requires_grad_but_has_no_history() -> None:
    y = leaf(1, 2) * 2
    with st.no_grad():
        view = y[0]
    assert view.requires_grad
    assert view.is_leaf
    assert (view * 2).grad_fn.next_functions == ((None, 0), (None, 0))


def test_view_made_in_inference_mode_cannot_be_changed() -> None:
    y = leaf(1, 2) * 2
    with st.inference_mode():
        view = y[0]
    with pytest.raises(RuntimeError, match="A view was created in inference mode and is being"):
        view.add_(1)


class Halves(Function):
    @staticmethod
    def forward(ctx: Any, a: st.Tensor) -> Any:
        return a[:1], a[1:]

    @staticmethod
    def backward(ctx: Any, g: st.Tensor, h: st.Tensor) -> Any:
        return st.cat([g, h])


def test_one_of_several_views_cannot_be_changed() -> None:
    y = st.ones(2, requires_grad=True) * 2
    _, second = Halves.apply(y)
    assert second.output_nr == 1
    with pytest.raises(RuntimeError, match="Output 1 of Halves is a view and is being modified in"):
        second.add_(1)


def test_unbound_view_cannot_be_changed() -> None:
    y = st.ones(2, 2, requires_grad=True) * 2
    first, _ = y.unbind()
    with pytest.raises(RuntimeError, match="Output 0 of Unbind is a view and is being modified in"):
        first.add_(1)


def test_view_of_detached_tensor_is_a_tensor_of_its_own_history() -> None:
    x, w = leaf(1, 2), leaf(3, 4)
    y = x * 1
    d = y.detach()
    d[0].mul_(w[0])
    assert d.requires_grad
    assert y.grad_fn.name() == "MulBackward0"
    assert y._version == d._version


def test_base_and_version_of_views() -> None:
    x = st.zeros(4)
    v = x[1:][1:]
    assert v._base is x
    v.add_(1)
    assert x._version == v._version == 1
    assert x._base is None


def test_inplace_with_views_leaves_no_nodes() -> None:
    from shmtensor._boundary.autograd import live_nodes

    before = live_nodes()
    x = leaf(1, 2, 3)
    base = x * 2
    base[0].exp_()
    base[1:].tanh_()
    del base
    assert live_nodes() == before


@pytest.mark.parametrize(
    "change",
    [
        lambda x, y: x.ldexp_(y),
        lambda x, y: x.polygamma_(2).mul_(y),
        lambda x, y: x.addr_(y[0], y[1], beta=2, alpha=3),
        lambda x, y: x.mvlgamma_(2).mul_(y),
    ],
)
def test_inplace_forms_of_several_operators_have_gradients_and_no_circles(change: Any) -> None:
    """Circles would show as blocks that the module leaves."""
    gradients = []
    for recorded in (True, False):
        y = (st.arange(4.0, dtype=st.float64).reshape(2, 2) + 2).requires_grad_()
        x = st.full((2, 2), 2.5, dtype=st.float64, requires_grad=recorded)
        (change(x.clone(), y) ** 2).sum().backward()
        gradients.append(y.grad.tolist())
        assert (x.grad is not None) is recorded
    assert gradients[0] == gradients[1]


@pytest.mark.parametrize(
    "name", ["exp_", "sigmoid_", "tanh_", "sqrt_", "tan_", "relu_", "reciprocal_", "expm1_"]
)
def test_second_derivative_through_a_changed_view(name: str) -> None:
    # These save their result, whose history is the base's.
    def function(x: st.Tensor) -> st.Tensor:
        whole = x.clone()
        getattr(whole[:, 1:], name)()
        return whole * x

    x = st.tensor([[0.5, 0.3, 0.9], [0.7, 0.2, 0.4]], dtype=st.float64, requires_grad=True)
    assert gradcheck(function, (x,))
    assert gradgradcheck(function, (x,))


def test_second_derivative_through_changed_parts_of_complex_numbers() -> None:
    def function(x: st.Tensor) -> st.Tensor:
        whole = x * (1 + 2j)
        whole.t()[1:].real.exp_()
        return st.view_as_real(whole)

    x = st.tensor([[0.5, 0.3], [0.7, 0.2]], dtype=st.float64, requires_grad=True)
    assert gradgradcheck(function, (x,))


def test_node_of_a_copy_has_torchs_name() -> None:
    x = st.ones(2, requires_grad=True)
    y = st.zeros(2).copy_(x)
    assert y.grad_fn.name() == "CopyBackwards"


@pytest.mark.parametrize(
    ("size", "stride", "offset", "expected"),
    [
        ([2, 2], [1, 1], None, [[1.0, 2.0, 1.0], [0.0, 0.0, 0.0]]),
        ([2, 3], [1, 2], None, [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]),
        ([2, 3], [0, 1], 2, [[0.0, 0.0, 2.0], [2.0, 2.0, 0.0]]),
        ([3], [2], 1, [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]),
    ],
)
def test_gradients_flow_through_another_geometry(
    size: list[int], stride: list[int], offset: int | None, expected: list[list[float]]
) -> None:
    x = st.arange(6.0).reshape(2, 3).requires_grad_()
    y = x * 1
    assert y.as_strided_(size, stride, offset) is y
    assert y.grad_fn.name() == "AsStridedBackward1"
    weights = st.arange(1.0, y.numel() + 1).reshape(size)
    (y * weights).sum().backward()
    z = x.detach().requires_grad_()
    (z.clone().as_strided(size, stride, offset) * weights).sum().backward()
    assert st.equal(x.grad, z.grad)
    x.grad = None
    (x * 1).as_strided_(size, stride, offset).sum().backward()
    assert x.grad.tolist() == expected


def test_leaf_that_requires_grad_keeps_its_geometry() -> None:
    x = st.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.as_strided_([2], [1])


@pytest.mark.parametrize(
    ("change", "want"),
    [
        (lambda z: z.view(3, 2).t_(), [1, 2, 3, 4, 5, 6]),
        (lambda z: z.view(3, 2).t_().mul_(2), [2, 4, 6, 8, 10, 12]),
        (lambda z: z.view(3, 2).transpose_(0, 1)[0].mul_(2), [2, 2, 6, 4, 10, 6]),
        (lambda z: z.view(3, 2).swapaxes_(0, 1).mul_(2), [2, 4, 6, 8, 10, 12]),
        (lambda z: z[:1].squeeze_().mul_(2), [2, 4, 6, 4, 5, 6]),
        (lambda z: z.view(3, 1, 2).squeeze_(1).mul_(2), [2, 4, 6, 8, 10, 12]),
        (lambda z: z[0].unsqueeze_(0).mul_(3), [3, 6, 9, 4, 5, 6]),
        (lambda z: z.view(3, 2).as_strided_((2, 2), (1, 2)).mul_(2), [2, 4, 6, 8, 5, 6]),
        (lambda z: (z.view(3, 2).t_(), z.mul_(2)), [2, 4, 6, 8, 10, 12]),
    ],
)
def test_views_that_change_their_geometry_in_place(change: Any, want: list[int]) -> None:
    start = st.arange(6.0).reshape(2, 3).requires_grad_()
    z = start * 1
    change(z)
    (z * st.arange(1.0, 7.0).reshape(2, 3)).sum().backward()
    assert start.grad.reshape(-1).tolist() == want


def test_the_history_of_a_view_that_changed_its_geometry() -> None:
    start = st.arange(6.0).reshape(2, 3).requires_grad_()
    view = (start * 1).view(3, 2)
    view.t_()
    (view * st.arange(1.0, 7.0).reshape(2, 3)).sum().backward()
    assert start.grad.tolist() == [[1, 4, 2], [5, 3, 6]]
