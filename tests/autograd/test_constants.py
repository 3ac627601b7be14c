"""Arguments that count as constants: where torch has no derivative, they must not require one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import shmtensor
import shmtensor.nn.functional as F
from shmtensor import Tensor

X, P, Y = shmtensor.rand(3, 4), shmtensor.rand(3, 4), shmtensor.tensor([0, 1, 2])
IMAGES, PLANES = shmtensor.rand(3, 4, 2, 2), shmtensor.zeros(3, 2, 2, dtype=shmtensor.int64)
STATES = shmtensor.rand(4)
#: The function and the argument that the message names, the constant's shape, and the call.
CALLS: list[tuple[str, str, tuple[int, ...], Callable[[Tensor], Tensor]]] = [
    ("multi_margin_loss", "weight", (4,), lambda c: F.multi_margin_loss(X, Y, weight=c)),
    ("nll_loss_forward", "weight", (4,), lambda c: F.nll_loss(X, Y, weight=c)),
    ("nll_loss2d_forward", "weight", (4,), lambda c: F.nll_loss(IMAGES, PLANES, weight=c)),
    ("nll_loss_forward", "weight", (4,), lambda c: F.cross_entropy(X, Y, weight=c)),
    ("binary_cross_entropy", "weight", (4,), lambda c: F.binary_cross_entropy(P, P, weight=c)),
    (
        "binary_cross_entropy_with_logits",
        "weight",
        (3, 4),
        lambda c: F.binary_cross_entropy_with_logits(X, P, weight=c),
    ),
    (
        "binary_cross_entropy_with_logits",
        "pos_weight",
        (4,),
        lambda c: F.binary_cross_entropy_with_logits(X, P, pos_weight=c),
    ),
    ("soft_margin_loss", "target", (3, 4), lambda c: F.soft_margin_loss(X, c)),
    ("native_batch_norm", "running_mean", (4,), lambda c: F.batch_norm(X, c, STATES)),
    ("native_batch_norm", "running_var", (4,), lambda c: F.batch_norm(X, STATES, c)),
    ("linalg_pinv", "atol", (1,), lambda c: shmtensor.linalg.pinv(X[:, :3], atol=c[0])),
    ("linalg_pinv", "rtol", (1,), lambda c: shmtensor.linalg.pinv(X[:, :3], rtol=c[0])),
]


@pytest.mark.check
@pytest.mark.parametrize("needs_input", [False, True])
@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]}-{call[1]}")
def test_constant_that_requires_grad_is_refused(
    call: tuple[str, str, tuple[int, ...], Callable[[Tensor], Tensor]], needs_input: bool
) -> None:
    name, argument, shape, function = call
    constant = shmtensor.rand(shape, requires_grad=True)
    X.requires_grad_(needs_input)
    try:
        with pytest.raises(RuntimeError) as caught:
            function(constant)
        with shmtensor.no_grad():
            assert not function(constant).requires_grad
        assert function(constant.detach()).requires_grad == (needs_input and name not in UNUSED)
    finally:
        X.requires_grad_(False)
    assert str(caught.value) == (
        f"The function '{name}' is not differentiable with respect to argument '{argument}'. "
        "This input cannot have requires_grad True."
    )


#: Calls above that do not use X.
UNUSED = ("nll_loss2d_forward", "binary_cross_entropy")
