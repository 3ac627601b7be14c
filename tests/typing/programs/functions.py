"""Functions of the user's own, transforms, hooks, custom operators."""

from __future__ import annotations

from typing import Any

from typing_extensions import assert_type

import shmtensor as torch
from shmtensor import Tensor, func
from shmtensor.autograd.function import FunctionCtx


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        ctx.save_for_backward(x)
        return x * factor

    @staticmethod
    def backward(ctx: FunctionCtx, *grads: Any) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        assert_type(x, Tensor)
        assert_type(ctx.needs_input_grad, tuple[bool, ...])
        return grads[0] * ctx.factor, None


@torch.library.custom_op("typing::shift", mutates_args=())
def shift(x: Tensor, by: float) -> Tensor:
    return x + by


def loss(w: Tensor) -> Tensor:
    return (w**2).sum()


@torch.no_grad()
def frozen(x: Tensor) -> Tensor:
    return x * 2


def main() -> None:
    w = torch.ones(3, requires_grad=True)
    handle = w.register_hook(lambda grad: grad * 2)
    Scaled.apply(w, 3.0).sum().backward()
    handle.remove()
    (gradient,) = torch.autograd.grad(loss(w), w)
    assert_type(gradient, Tensor)
    assert_type(torch.autograd.grad(loss(w), w, allow_unused=True), tuple[Tensor | None, ...])
    assert_type(frozen(w), Tensor)
    node = loss(w).grad_fn
    assert node is not None
    assert_type(node.name(), str)
    print(w.grad, gradient, node.next_functions, func.grad(loss)(w), func.vmap(loss)(w))
    print(shift(w, 1.0), func.jacrev(loss)(w))
    with torch.enable_grad(), torch.autograd.set_detect_anomaly(False):
        print(torch.is_grad_enabled())


if __name__ == "__main__":
    main()
