"""Adam for sparse gradients."""

from __future__ import annotations

from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.optim._sparse_step import Rows
from shmtensor.optim._tools import _new_scalar, _to_scalar
from shmtensor.optim.optimizer import Optimizer

__all__ = ["SparseAdam", "sparse_adam"]


class SparseAdam(Optimizer):
    """Adam that leaves alone what has no gradient: neither parameters nor moments change there.

    Args:
        params: Tensors, or parameter groups. They are dense; their gradients are sparse.
        lr: Step size, positive.
        betas: Decay of the running means of the gradient and of its square, in [0, 1).
        eps: Added to the root of the second mean.
        maximize: Go up instead of down.

    Raises:
        ValueError: A number is out of range, or a parameter is sparse.

    Source:
        torch.optim.SparseAdam; Kingma and Ba, "Adam", 2015.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i in range(2):
            if not 0.0 <= betas[i] < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {betas[i]}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        sparse: list[list[int]] = []
        complexes: list[list[int]] = []
        for number, group in enumerate(self.param_groups):
            sparse += [[number, i] for i, p in enumerate(group["params"]) if p.is_sparse]
            complexes += [[number, i] for i, p in enumerate(group["params"]) if p.is_complex()]
        if sparse:
            raise ValueError(
                f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors"
            )
        if complexes:
            raise ValueError(
                f"Complex params at indices {complexes}: SparseAdam does not support complex "
                "parameters"
            )

    def _init_state(self, group: dict[str, Any], param: Tensor) -> None:
        state = self.state[param]
        if state:
            return
        state["step"] = 0
        state["exp_avg"] = shmtensor.zeros_like(param.detach())
        state["exp_avg_sq"] = shmtensor.zeros_like(param.detach())

    def share_memory(self, *, exact: bool = False) -> None:
        """Make the state now and move all of it to shared memory; see ``Optimizer.share_memory``.

        The counters of steps, which are numbers until then, become tensors.
        """
        for group in self.param_groups:
            for param in group["params"]:
                self._init_state(group, param)
                state = self.state[param]
                if not isinstance(state["step"], Tensor):
                    state["step"] = _new_scalar(state["step"])
        super().share_memory(exact=exact)

    def step(self, closure: Any = None) -> Any:
        """Change every parameter that has a gradient; see ``Optimizer.step``.

        Raises:
            RuntimeError: A gradient is dense.
        """
        loss = self._loss_of(closure)
        with shmtensor.no_grad():
            for group in self.param_groups:
                self._step_group(group)
        return loss

    def _step_group(self, group: dict[str, Any]) -> None:
        params = [p for p in group["params"] if p.grad is not None]
        for param in params:
            if not param.grad.is_sparse:
                raise RuntimeError(
                    "SparseAdam does not support dense gradients, please consider Adam instead"
                )
        for param in params:
            self._init_state(group, param)
            self.state[param]["step"] += 1
        states = [self.state[param] for param in params]
        beta1, beta2 = group["betas"]
        sparse_adam(
            params,
            [param.grad for param in params],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [int(state["step"]) for state in states],
            eps=group["eps"],
            beta1=beta1,
            beta2=beta2,
            lr=_to_scalar(group["lr"]),
            maximize=group["maximize"],
        )


def sparse_adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[int],
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float,
    maximize: bool,
) -> None:
    """Do one step of ``SparseAdam`` on lists of tensors, in place.

    Args:
        params: What is changed.
        grads: A sparse gradient for each.
        exp_avgs: A running mean of gradients for each.
        exp_avg_sqs: A running mean of squared gradients for each.
        state_steps: The number of this step for each.
        eps: See ``SparseAdam``, as all that follow.
        beta1: The first of ``betas``.
        beta2: The second.
        lr: See there.
        maximize: See there.

    Source:
        torch.optim._functional.sparse_adam.
    """
    for param, grad, mean, square, step in zip(
        params, grads, exp_avgs, exp_avg_sqs, state_steps, strict=True
    ):
        rows = Rows(-grad if maximize else grad)
        if rows.values.numel() == 0:
            continue
        old_mean, old_square = rows.of(mean), rows.of(square)
        mean_change = rows.values.sub(old_mean).mul_(1 - beta1)
        square_change = rows.values.pow(2).sub_(old_square).mul_(1 - beta2)
        rows.add_to(mean, mean_change)
        rows.add_to(square, square_change)
        root = square_change.add_(old_square).sqrt_().add_(eps)
        size = lr * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        rows.add_to(param, mean_change.add_(old_mean).div_(root).mul_(-size))
