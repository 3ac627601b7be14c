"""L-BFGS: a quasi-Newton method with the memory of a few steps."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.optim._line_search import strong_wolfe
from shmtensor.optim._tools import _check_lr, _to_scalar
from shmtensor.optim.optimizer import Optimizer, ParamsT

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Steps by the curvature along the last steps.

    All parameters are one vector, so there is one group. ``step`` needs a closure that computes
    the loss and its gradients again, and calls it many times.

    Args:
        params: Parameters, or one group.
        lr: Step size; a number or a tensor of one element.
        max_iter: Iterations of one ``step``, at most.
        max_eval: Calls of the closure in one ``step``, at most (``None``: 1.25 * *max_iter*).
        tolerance_grad: ``step`` ends when no element of the gradient is larger.
        tolerance_change: ``step`` ends when neither the loss nor a parameter changes by more.
        history_size: Steps that are remembered; each takes twice the parameters' memory.
        line_search_fn: ``None``, or "strong_wolfe" to search for a step size.

    Raises:
        ValueError: A negative *lr*; more than one group.

    Source:
        torch.optim.LBFGS; Nocedal, Wright, "Numerical optimization", 2nd edition, algorithms 7.4
        and 7.5; Schmidt, "minFunc".
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        _check_lr(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]
        self._numel_cache: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_params": self._params, "_numel_cache": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._params = self.param_groups[0]["params"]

    def _numel(self) -> int:
        """The length of the vector of all parameters; a complex number counts twice."""
        if self._numel_cache is None:
            self._numel_cache = sum(p.numel() * (1 + p.is_complex()) for p in self._params)
        return self._numel_cache

    def _gather_flat_grad(self) -> Tensor:
        """The gradients of all parameters as one vector; zeros where there is none."""
        parts = []
        for param in self._params:
            grad = param.grad
            if grad is None:
                grad = param.new_zeros(param.shape)
            elif grad.is_sparse:
                grad = grad.to_dense()
            if grad.is_complex():
                grad = shmtensor.view_as_real(grad)
            parts.append(grad.reshape(-1))
        return shmtensor.cat(parts, 0)

    def _add_grad(self, step_size: Any, update: Tensor) -> None:
        """Add *step_size* times the vector *update* to the parameters."""
        offset = 0
        for param in self._params:
            if param.is_complex():
                param = shmtensor.view_as_real(param)
            n = param.numel()
            param.add_(update[offset : offset + n].view_as(param), alpha=step_size)
            offset += n

    def _clone_param(self) -> list[Tensor]:
        return [p.clone(memory_format=shmtensor.contiguous_format) for p in self._params]

    def _set_param(self, params_data: list[Tensor]) -> None:
        for param, data in zip(self._params, params_data, strict=True):
            param.copy_(data)

    def _directional_evaluate(
        self, closure: Callable[[], Any], x: list[Tensor], t: Any, d: Tensor
    ) -> tuple[float, Tensor]:
        """Loss and gradient at ``x + t * d``; the parameters are *x* again afterwards."""
        self._add_grad(t, d)
        loss = float(closure())
        flat_grad = self._gather_flat_grad()
        self._set_param(x)
        return loss, flat_grad

    def share_memory(self, *, exact: bool = False) -> None:
        """Refused: the history is a list that grows, which processes cannot share."""
        raise RuntimeError(
            "LBFGS.share_memory(): the history of LBFGS is a list that grows, and cannot be shared"
        )

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Iterate until a tolerance or a limit is reached.

        Args:
            closure: Computes the loss and its gradients.

        Returns:
            The loss before the first iteration.
        """
        with shmtensor.no_grad():
            return self._iterate(lambda: self._loss_of(closure))

    def _iterate(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        lr = _to_scalar(group["lr"])
        max_iter = group["max_iter"]
        tolerance_change = group["tolerance_change"]
        line_search_fn = group["line_search_fn"]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        first_loss = closure()
        loss = float(first_loss)
        n_evals = 1
        state["func_evals"] += 1
        grad = self._gather_flat_grad()

        def is_flat() -> bool:
            return bool(grad.abs().max() <= group["tolerance_grad"])

        if is_flat():
            return first_loss
        direction, t = state.get("d"), state.get("t")
        previous_grad, previous_loss = state.get("prev_flat_grad"), state.get("prev_loss")
        for n_iter in range(1, max_iter + 1):
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                direction = grad.neg()
                state["old_dirs"], state["old_stps"], state["ro"] = [], [], []
                state["H_diag"] = 1
                t = min(1.0, 1.0 / grad.abs().sum()) * lr
            else:
                _remember(state, group["history_size"], grad.sub(previous_grad), direction.mul(t))
                direction = _direction(state, group["history_size"], grad)
                t = lr
            if previous_grad is None:
                previous_grad = grad.clone(memory_format=shmtensor.contiguous_format)
            else:
                previous_grad.copy_(grad)
            previous_loss = loss

            slope = grad.dot(direction)
            if slope > -tolerance_change:
                break
            n_new_evals = 0
            if line_search_fn is not None:
                if line_search_fn != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                loss, grad, t, n_new_evals = strong_wolfe(
                    functools.partial(self._directional_evaluate, closure, self._clone_param()),
                    t,
                    direction,
                    loss,
                    grad,
                    slope,
                    max_evals=group["max_eval"] - n_evals,
                )
                self._add_grad(t, direction)
            else:
                self._add_grad(t, direction)
                if n_iter != max_iter:
                    loss = float(closure())
                    grad = self._gather_flat_grad()
                    n_new_evals = 1
            n_evals += n_new_evals
            state["func_evals"] += n_new_evals
            if (
                n_iter == max_iter
                or n_evals >= group["max_eval"]
                or is_flat()
                or direction.mul(t).abs().max() <= tolerance_change
                or abs(loss - previous_loss) < tolerance_change
            ):
                break
        state["d"], state["t"] = direction, t
        state["prev_flat_grad"], state["prev_loss"] = previous_grad, previous_loss
        return first_loss


def _remember(state: dict[str, Any], history_size: int, change: Tensor, step: Tensor) -> None:
    """Add the last step and the gradient's change along it, if the loss curves upwards."""
    curvature = change.dot(step)
    if not curvature > 1e-10:  # not a number, perhaps
        return
    history = state["old_dirs"], state["old_stps"], state["ro"]
    if len(state["old_dirs"]) == history_size:
        for entries in history:
            entries.pop(0)
    for entries, entry in zip(history, (change, step, 1.0 / curvature), strict=True):
        entries.append(entry)
    state["H_diag"] = curvature / change.dot(change)


def _direction(state: dict[str, Any], history_size: int, grad: Tensor) -> Tensor:
    """The negative gradient times the remembered inverse of the Hessian (two loops)."""
    history = list(zip(state["old_dirs"], state["old_stps"], state["ro"], strict=True))
    factors = state.setdefault("al", [None] * history_size)
    q = grad.neg()
    for i, (change, step, inverse) in reversed(list(enumerate(history))):
        factors[i] = step.dot(q) * inverse
        q.add_(change, alpha=-factors[i])
    direction = q.mul(state["H_diag"])
    for i, (change, step, inverse) in enumerate(history):
        direction.add_(step, alpha=factors[i] - change.dot(direction) * inverse)
    return direction
