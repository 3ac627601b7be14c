"""Comparing derivatives with finite differences."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from shmtensor import _C
from shmtensor.autograd import forward_ad
from shmtensor.autograd._gradcheck_parts import (
    check_batched_backward,
    check_batched_forward,
    compare_directions,
    compare_forward_directions,
    is_differentiable,
    outputs_of,
)
from shmtensor.autograd._run import grad
from shmtensor.autograd.grad_mode import enable_grad
from shmtensor.errors import ShmTensorError

__all__ = ["GradcheckError", "get_numerical_jacobian", "gradcheck", "gradgradcheck"]


class GradcheckError(ShmTensorError, RuntimeError):
    """A derivative does not agree with finite differences."""


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _difference(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    x: Any,
    place: tuple[int, ...],
    step: complex,
) -> list[Any]:
    """Change of the outputs, flat, with the element of *x* at *place*: central differences."""
    before = x[place].item()
    x[place] = before + step
    high = [y.detach().reshape(-1).clone() for y in outputs_of(function, inputs)]
    x[place] = before - step
    low = [y.detach().reshape(-1).clone() for y in outputs_of(function, inputs)]
    x[place] = before
    return [(h - lo) / (2 * abs(step)) for h, lo in zip(high, low, strict=True)]


def get_numerical_jacobian(
    function: Callable[..., Any], inputs: Sequence[Any], eps: float = 1e-6
) -> list[list[Any]]:
    """Compute central differences: per input that requires grad, a list of columns.

    Each column stands for an element of the input, in row-major order, and holds per output its
    flat change; it is a pair: of the changes along the real axis, and along the imaginary one
    (None for real inputs).
    """
    table = []
    for x in inputs:
        if not is_differentiable(x):
            continue
        data = x.data  # its changes are not noticed by saved tensors
        columns: list[Any] = []
        for place in itertools.product(*map(range, x.shape)):
            real = _difference(function, inputs, data, place, eps)
            imaginary = eps * 1j
            imag = _difference(function, inputs, data, place, imaginary) if x.is_complex() else None
            columns.append((real, imag))
        table.append(columns)
    return table


def _analytical(
    outputs: Sequence[Any], inputs: Sequence[Any], i: int, j: int, unit: Any
) -> list[Any]:
    """Gradients of one element of output *i*, flat, per differentiable input."""
    y = outputs[i]
    seed = y.detach().new_zeros(y.numel())
    seed[j] = unit
    wanted = [x for x in inputs if is_differentiable(x)]
    found = grad(
        y, wanted, seed.view(y.shape), retain_graph=True, create_graph=False, allow_unused=True
    )
    pairs = zip(found, wanted, strict=True)
    return [x.detach().new_zeros(x.numel()) if g is None else g.reshape(-1) for g, x in pairs]


def _real_products(unit: complex, changes: Sequence[Any]) -> Any:
    """Rows of Re(conj(unit) * change): what gradients seeded with *unit* (1 or i) measure."""
    rows = _C.stack(list(changes))
    if rows.is_complex():
        return rows.imag if unit == 1j else rows.real
    return rows


def _expected(columns: Sequence[Any], i: int, unit: complex) -> Any:
    """What gradients of output *i* should be by the columns of one input: (inputs, outputs)."""
    want = _real_products(unit, [real[i] for real, _ in columns])
    if columns[0][1] is None:
        return want
    return _C.complex(want, _real_products(unit, [imag[i] for _, imag in columns]))


def _compare(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    eps: float,
    atol: float,
    rtol: float,
) -> str:
    """The first disagreement, or an empty text."""
    numerical = get_numerical_jacobian(function, inputs, eps)
    if not any(y.requires_grad for y in outputs):
        parts = (part for columns in numerical for pair in columns for part in pair if part)
        moves = any(change.count_nonzero().item() for part in parts for change in part)
        return "Numerical gradient for function expected to be zero" if moves else ""
    for i, y in enumerate(outputs):
        if not y.requires_grad or y.numel() == 0:
            continue
        for unit in [1.0, 1j] if y.is_complex() else [1.0]:
            rows = [_analytical(outputs, inputs, i, j, unit) for j in range(y.numel())]
            for n, columns in enumerate(numerical):
                if not columns:
                    continue
                got = _C.stack([row[n].detach() for row in rows])
                want = _expected(columns, i, unit).t().to(got.dtype)
                wrong = ~((got - want).abs() <= atol + rtol * want.abs())
                if wrong.any():
                    j, k = wrong.nonzero()[0].tolist()
                    return (
                        f"Jacobian mismatch for output {i} with respect to input {n},\n"
                        f"element {j} by element {k}: numerical:{want[j, k].item()}\n"
                        f"analytical:{got[j, k].item()}"
                    )
    return ""


def _tangents(
    function: Callable[..., Any], inputs: Sequence[Any], n: int, place: tuple[int, ...], unit: Any
) -> list[Any]:
    """Tangents of the outputs, flat, for a unit tangent of one element of input *n*."""
    with forward_ad.dual_level():
        args = list(inputs)
        seed = inputs[n].detach().new_zeros(inputs[n].shape)
        seed[place] = unit
        args[n] = forward_ad.make_dual(inputs[n].detach().requires_grad_(), seed)
        made = [forward_ad.unpack_dual(y) for y in outputs_of(function, args)]
        zeros = [y.primal.detach().new_zeros(y.primal.shape) for y in made]
        pairs = zip(made, zeros, strict=True)
        return [(z if y.tangent is None else y.tangent.detach()).reshape(-1) for y, z in pairs]


def _compare_forward(
    function: Callable[..., Any], inputs: Sequence[Any], eps: float, atol: float, rtol: float
) -> str:
    """The first disagreement of forward mode, or an empty text."""
    numerical = get_numerical_jacobian(function, inputs, eps)
    places = [n for n, x in enumerate(inputs) if is_differentiable(x)]
    for number, (n, columns) in enumerate(zip(places, numerical, strict=True)):
        elements = itertools.product(*map(range, inputs[n].shape))
        for k, (place, changes) in enumerate(zip(elements, columns, strict=True)):
            for unit, expected in zip((1.0, 1j), changes, strict=True):
                if expected is None:
                    continue
                found = _tangents(function, inputs, n, place, unit)
                for i, (got, want) in enumerate(zip(found, expected, strict=True)):
                    wrong = ~((got - want).abs() <= atol + rtol * want.abs())
                    if wrong.any():
                        j = int(wrong.nonzero()[0].item())
                        return (
                            f"Jacobian computed with forward mode mismatch for output {i} with "
                            f"respect to input {number},\nelement {j} by element {k}: "
                            f"numerical:{want[j].item()}\nanalytical:{got[j].item()}"
                        )
    return ""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the derivatives of *func* with central differences.

    Args:
        func: Takes tensors, returns a tensor or a tuple.
        inputs: A tensor or a sequence; those that require grad (float64 or complex128, as
            differences need) are checked.
        eps: The step.
        atol: Tolerated absolute difference.
        rtol: Tolerated relative difference.
        raise_exception: Raise, instead of returning False.
        nondet_tol: Tolerated difference between two runs of backward.
        check_undefined_grad: Check that undefined gradients give undefined or zero gradients.
        check_grad_dtypes: Check that gradients have their input's dtype.
        check_batched_grad: Check that backward under vmap gives the same.
        check_batched_forward_grad: Check that forward mode under vmap gives the same.
        check_forward_ad: Check forward mode.
        check_backward_ad: Check backward.
        fast_mode: Compare products of the Jacobian with one random vector on each side, instead of
            all its elements: two calls of *func* per input, however many elements it has.
        masked: Accepted.

    Returns:
        True when all agree.

    Raises:
        GradcheckError: They do not, and *raise_exception*.
        AssertionError: There is nothing to check, or only *check_batched_forward_grad* is given.
        ValueError: No input requires grad.
        RuntimeError: Elements of an input that requires grad share memory.

    Source:
        torch.autograd.gradcheck.gradcheck.
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError(
            "Expected at least one of check_forward_ad or check_backward_ad to be True"
        )
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError(
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
        )
    xs = _tuple(inputs)
    if not any(is_differentiable(x) for x in xs):
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them "
            "have requires_grad=True."
        )
    for i, x in enumerate(xs):
        if is_differentiable(x) and x.dtype not in (_C.float64, _C.complex128):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or "
                "complex. This check will likely fail if all the inputs are not of double "
                "precision floating point or complex.",
                stacklevel=2,
            )
        if is_differentiable(x) and any(
            n > 1 and step == 0 for n, step in zip(x.shape, x.stride(), strict=True)
        ):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs "
                "that are non-overlapping to be able to compute the numerical gradients correctly. "
                "Call contiguous() on the input first."
            )
    with enable_grad():
        outputs = outputs_of(func, xs)
        problem = ""
        if check_forward_ad:
            forward = compare_forward_directions if fast_mode else _compare_forward
            problem = forward(func, xs, eps, atol, rtol)
        if not problem and check_batched_forward_grad:
            problem = check_batched_forward(func, xs)
        if not problem and check_backward_ad:
            backward = compare_directions if fast_mode else _compare
            problem = backward(func, xs, outputs, eps, atol, rtol)
        if not problem and check_backward_ad and check_batched_grad:
            problem = check_batched_backward(xs, outputs)
        if not problem and check_backward_ad:
            problem = _check_repeat(outputs, xs, nondet_tol)
        if not problem and check_backward_ad and check_undefined_grad:
            problem = _check_undefined(outputs, xs)
        if not problem and check_backward_ad and check_grad_dtypes:
            problem = _check_dtypes(outputs, xs)
    if problem and raise_exception:
        raise GradcheckError(problem)
    return not problem


def _check_repeat(outputs: Sequence[Any], inputs: Sequence[Any], tolerance: float) -> str:
    for i, y in enumerate(outputs):
        if not y.requires_grad or y.numel() == 0:
            continue
        first, again = (_analytical(outputs, inputs, i, 0, 1.0) for _ in range(2))
        for a, b in zip(first, again, strict=True):
            if a.numel() and not (a - b).abs().max().item() <= tolerance:
                return (
                    f"Backward is not reentrant, i.e., running backward with same input and "
                    f"grad_output multiple times gives different values, although analytical "
                    f"gradient matches numerical gradient.The tolerance for nondeterminism was "
                    f"{tolerance}."
                )
    return ""


def _check_undefined(outputs: Sequence[Any], inputs: Sequence[Any]) -> str:
    ys = [y for y in outputs if y.requires_grad]
    wanted = [x for x in inputs if is_differentiable(x)]
    if not ys or not any(y.grad_fn is not None for y in ys):
        return ""
    zeros = [y.detach().new_zeros(y.shape) for y in ys]
    for g in grad(ys, wanted, zeros, retain_graph=True, allow_unused=True):
        if g is not None and g.numel() and g.abs().max().item() != 0:
            return "Expected zero gradients to give zero gradients"
    return ""


def _check_dtypes(outputs: Sequence[Any], inputs: Sequence[Any]) -> str:
    ys = [y for y in outputs if y.requires_grad]
    wanted = [x for x in inputs if is_differentiable(x)]
    ones = [y.detach().new_ones(y.shape) for y in ys]
    found = grad(ys, wanted, ones, retain_graph=True, allow_unused=True)
    for i, (g, x) in enumerate(zip(found, wanted, strict=True)):
        if g is not None and g.dtype != x.dtype:
            return f"Gradient {i} has dtype {g.dtype}, its input {x.dtype}"
    return ""


def _told_apart(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs themselves; one that comes again is a view, with a gradient of its own."""
    seen: set[int] = set()
    result = []
    for x in inputs:
        result.append(x.view_as(x) if id(x) in seen and is_differentiable(x) else x)
        seen.add(id(x))
    return tuple(result)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare the second derivatives of *func* with central differences of the first.

    Args:
        func: As in `gradcheck`.
        inputs: As in `gradcheck`.
        grad_outputs: What the outputs' gradients start with; random by default.
        eps: As in `gradcheck`.
        atol: As in `gradcheck`.
        rtol: As in `gradcheck`.
        gen_non_contig_grad_outputs: Accepted.
        raise_exception: Raise, instead of returning False.
        nondet_tol: As in `gradcheck`.
        check_undefined_grad: As in `gradcheck`.
        check_grad_dtypes: As in `gradcheck`.
        check_batched_grad: As in `gradcheck`.
        check_fwd_over_rev: Check forward mode of the first derivative.
        check_rev_over_rev: Check backward of it.
        fast_mode: As in `gradcheck`.
        masked: Accepted.

    Returns:
        True when all agree.

    Raises:
        GradcheckError: They do not, and *raise_exception*.
        AssertionError: There is nothing to check, or *check_undefined_grad* without
            *check_rev_over_rev*.

    Source:
        torch.autograd.gradcheck.gradgradcheck.
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError(
            "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
        )
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError(
            "Setting check_undefined_grad=True requires check_rev_over_rev to be True"
        )
    xs = _tuple(inputs)
    if grad_outputs is None:
        with enable_grad():
            ys = outputs_of(func, xs)
        seeds = tuple(_C.randn(tuple(y.shape), dtype=y.dtype).requires_grad_() for y in ys)
    else:
        seeds = _tuple(grad_outputs)
    count = len(xs)

    def first_derivative(*args: Any) -> tuple[Any, ...]:
        inner, outer = args[:count], args[count:]
        with enable_grad():
            inner = _told_apart(inner)
            results = outputs_of(func, inner)
            pairs = [(y, g) for y, g in zip(results, outer, strict=True) if y.requires_grad]
            wanted = [x for x in inner if is_differentiable(x)]
            found = grad(
                [y for y, _ in pairs],
                wanted,
                [g for _, g in pairs],
                create_graph=True,
                allow_unused=True,
            )
        return tuple(
            x.detach().new_zeros(x.shape) if g is None else g
            for g, x in zip(found, wanted, strict=True)
        )

    return gradcheck(
        first_derivative,
        xs + seeds,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=False,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
    )
