"""Adam with decoupled weight decay."""

from __future__ import annotations

from typing import Any

from shmtensor._core._tensor import Tensor
from shmtensor.optim.adam import Adam, adam
from shmtensor.optim.optimizer import ParamsT

__all__ = ["AdamW", "adamw"]


class AdamW(Adam):
    """``Adam`` with weight decay that shrinks the parameters and stays out of the moments.

    Args:
        params: Parameters or groups.
        lr: Step size; a number or a tensor of one element.
        betas: Decay rates of the moments; both numbers or both tensors of one element.
        eps: Added to the root.
        weight_decay: Each step multiplies the parameters by ``1 - lr * weight_decay``.
        amsgrad: Divide by the largest second moment so far.
        maximize: Climb instead.
        foreach: Taken for torch's sake; the result does not depend on it.
        capturable: Refused in ``step``: no device here captures steps.
        differentiable: Record the update in the graph.
        fused: Do a step of a group of float parameters in one call in any case, halves
            included; their steps then compute in float32 throughout.

    Raises:
        ValueError: An option is out of its range; a tensor *lr* or tensor *betas* with *foreach*.
        RuntimeError: *fused* with *foreach* or *differentiable*.

    Source:
        torch.optim.AdamW; Loshchilov, Hutter, "Decoupled weight decay regularization", 2019.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # States that were saved before the option existed do not say it.
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


def adamw(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """Do one step of ``AdamW`` on lists of tensors, in place: ``adam`` with decoupled decay.

    The arguments are those of ``shmtensor.optim.adam.adam``.

    Source:
        torch.optim.adamw.adamw.
    """
    adam(
        params,
        grads,
        exp_avgs,
        exp_avg_sqs,
        max_exp_avg_sqs,
        state_steps,
        foreach=foreach,
        capturable=capturable,
        differentiable=differentiable,
        fused=fused,
        grad_scale=grad_scale,
        found_inf=found_inf,
        has_complex=has_complex,
        decoupled_weight_decay=True,
        amsgrad=amsgrad,
        beta1=beta1,
        beta2=beta2,
        lr=lr,
        weight_decay=weight_decay,
        eps=eps,
        maximize=maximize,
    )
