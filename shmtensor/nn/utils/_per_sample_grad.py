"""Gradients of each sample in one backward pass, which are not offered in this form.

Source:
    torch.nn.utils._per_sample_grad.
"""

from __future__ import annotations

from typing import Any, NoReturn

from shmtensor._core._not_offered import not_offered

__all__: list[str] = []


def call_for_per_sample_grads(
    module: Any,
    *,
    batch_size: int | None = None,
    loss_reduction: str = "sum",
    batch_first: bool = True,
) -> NoReturn:
    """Make a module whose backward pass writes ``grad_sample`` of its parameters.

    Raises:
        NotImplementedError: Always.
    """
    raise not_offered(
        "call_for_per_sample_grads(): parameters have no grad_sample here; "
        "func.vmap(func.grad(loss)) with func.functional_call computes gradients of each sample"
    )
