"""Small things that several optimizers need; not part of the interface.

Some have torch's private names, because optimizers that others have written import them from
``optim.optimizer``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import shmtensor
from shmtensor import _C
from shmtensor._core._tensor import Tensor

_L: TypeAlias = list[Tensor]
_Lists4: TypeAlias = tuple[_L, _L, _L, _L]
_Lists5: TypeAlias = tuple[_L, _L, _L, _L, _L]
_Lists6: TypeAlias = tuple[_L, _L, _L, _L, _L, _L]
_F = TypeVar("_F", bound=Callable[..., Any])

# The devices on which torch can capture a step in a graph; none of them is the CPU.
_CAPTURABLE_DEVICES = ["cuda", "xpu", "hpu", "privateuseone"]
_FUSED_DEVICES = ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


def _use_grad_for_differentiable(func: _F) -> _F:
    """Let a ``step`` record what it does if, and only if, the optimizer is differentiable."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with shmtensor.set_grad_enabled(bool(args[0].defaults["differentiable"])):
            return func(*args, **kwargs)

    return cast("_F", wrapper)


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """The types of devices whose optimizers a graph can hold, under torch's names; none is here."""
    return ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if supports_xla else [])]


def _get_value(x: Any) -> Any:
    """The number in a tensor; a number itself."""
    return x.item() if isinstance(x, Tensor) else x


def _to_scalar(x: Any) -> Any:
    """A tensor of one element without its dims, so that it broadcasts as a number does."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _get_scalar_dtype(is_fused: bool | None = None) -> shmtensor.dtype:
    """The dtype of counters of steps."""
    if not is_fused and shmtensor.get_default_dtype() == shmtensor.float64:
        return shmtensor.float64
    return shmtensor.float32


def _new_scalar(value: float = 0.0, is_fused: bool | None = None) -> Tensor:
    """A tensor without dims for a counter or another number that belongs to a parameter."""
    return shmtensor.tensor(value, dtype=_get_scalar_dtype(is_fused))


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Replace complex tensors in lists of equal length by their parts, in place."""
    for i, param in enumerate(params):
        if param.is_complex():
            params[i] = shmtensor.view_as_real(param)
            for tensors in state_and_grads:
                tensors[i] = shmtensor.view_as_real(tensors[i])


def _as_real(params: list[Tensor], *others: list[Tensor]) -> list[list[Tensor]]:
    """The lists with complex tensors replaced by their parts; an empty list stays empty."""
    lists = [list(tensors) for tensors in (params, *others)]
    _view_as_real(*(tensors for tensors in lists if tensors))
    return lists


def _default_to_fused_or_foreach(
    params: Sequence[Tensor | None], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Whether torch would take its fused and its foreach implementation for *params*.

    On a CPU the second is never the default, and the first only where a program asks for it.
    """
    fused = (
        use_fused
        and not differentiable
        and all(p is None or (p.is_floating_point() and p.is_cpu) for p in params)
    )
    return fused, False


def _device_dtype_check_for_fused(p: Tensor) -> None:
    """Raise unless *p* is a parameter that the fused operators take."""
    if not (p.is_cpu and p.is_floating_point()):
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of supported "
            f"devices: {_FUSED_DEVICES} but {p.dtype} and {p.device.type}"
        )


def _check_fused_option(
    optimizer: Any, fused: bool | None, foreach: bool | None, differentiable: bool
) -> None:
    """Raise of options that exclude one another; prepare *optimizer* for a ``GradScaler``."""
    if not fused:
        return
    if differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    optimizer._step_supports_amp_scaling = True


def _check_scaling(fused: bool | None, grad_scale: object, found_inf: object) -> None:
    """Raise if a gradient scaler's tensors come where only fused steps use them."""
    if not fused and (grad_scale is not None or found_inf is not None):
        raise AssertionError("Expected grad_scale and found_inf to be None")


def _check_steps(state_steps: Sequence[Any]) -> None:
    """Raise unless all counters are tensors, as they are since torch 1.12."""
    if not all(isinstance(step, Tensor) for step in state_steps):
        raise RuntimeError(
            "API has changed, `state_steps` argument must contain a list of singleton tensors"
        )


def _check_lr(lr: Any, text: str = "Invalid learning rate: {}", *, nan: bool = False) -> None:
    """Raise unless *lr* is a number that is not negative, or a tensor of one element.

    Args:
        lr: A learning rate.
        text: What is said, with a place for the value.
        nan: Whether NaN passes.
    """
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if lr < 0.0 if nan else not 0.0 <= lr:  # noqa: SIM300 - see below
        raise ValueError(text.format(lr))


def _check_not_negative(value: Any, text: str) -> None:
    """Raise ``ValueError`` of *text*, which has a place for the value, unless it is >= 0."""
    if not 0.0 <= value:  # noqa: SIM300 - what has no order is refused in torch's words
        raise ValueError(text.format(value))


def _check_betas(betas: Any) -> None:
    """Raise unless both decay rates are in [0, 1)."""
    for i in (0, 1):
        if not 0.0 <= betas[i] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {betas[i]}")


def _check_adam_options(lr: Any, betas: Any, eps: Any, weight_decay: Any) -> None:
    """Raise unless the options of ``Adam`` and what is derived from it are in their ranges."""
    _check_lr(lr)
    _check_not_negative(eps, "Invalid epsilon value: {}")
    _check_betas(betas)
    _check_not_negative(weight_decay, "Invalid weight_decay value: {}")


def _refuse_capturable(
    capturable: bool,
    foreach: bool | None,
    params: Sequence[Tensor],
    what: str = "params and state_steps",
    xla: tuple[bool, bool] = (True, False),
) -> None:
    """Raise if a step should be captured in a graph: no device here can.

    Args:
        capturable: The option.
        foreach: The option; torch lists its devices with or without "xla" by it.
        params: What is stepped on; nothing is refused if it is empty.
        what: The tensors that are named.
        xla: Whether "xla" is in the list, without and with foreach.
    """
    if capturable and params:
        devices = _CAPTURABLE_DEVICES + (["xla"] if xla[bool(foreach)] else [])
        raise AssertionError(f"If capturable=True, {what} must be on supported devices: {devices}.")


def _refuse_foreach_autograd(foreach: bool | None, differentiable: bool, params: object) -> None:
    """Raise if torch's foreach operators, which record nothing, are asked to be recorded."""
    if foreach and differentiable and params:
        raise AssertionError("_foreach ops don't support autograd")


def _in_one_call(params: list[Tensor], *options: Any) -> bool:
    """Whether a step can be one call.

    Nothing is recorded, all *options* are numbers, and no class of *params* answers operators: it
    wants to see those of the step.
    """
    return not (
        shmtensor.is_grad_enabled()
        or any(isinstance(o, Tensor) for o in options)
        or _C._has_answered(params)
    )


def _quotient(a: Any, b: Any) -> Any:
    """``a / b``, rounded as torch rounds a number over a tensor."""
    return b.reciprocal() * a if isinstance(b, Tensor) and not isinstance(a, Tensor) else a / b


def _add_scaled(grad: Tensor, param: Tensor, weight: Any) -> Tensor:
    """``grad + weight * param``; the weight may be a tensor, and may require a gradient."""
    if isinstance(weight, Tensor) and weight.requires_grad:
        return grad + param.clone() * weight  # the parameter changes
    return grad.add(param, alpha=weight)
