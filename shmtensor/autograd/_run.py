"""``backward`` and ``grad``: the two ways into the engine."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

from shmtensor import _C
from shmtensor._core._overridable import Handed, overridable, with_defaults
from shmtensor._core._tensor import Tensor

__all__ = ["backward", "grad"]

_Tensors = Any


def _is_edge(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) >= 2 and isinstance(value[0], _C.Node)


def _tuple(value: _Tensors) -> tuple[Any, ...]:
    # An object that answers calls stands for one tensor, even if it can be iterated.
    alone = isinstance(value, _C._TensorBase) or hasattr(type(value), "__torch_function__")
    return (value,) if alone or _is_edge(value) else tuple(value)


def _inputs_tuple(name: str, inputs: _Tensors) -> tuple[Any, ...]:
    """The tensors of *inputs*, which may be a dict."""
    if type(inputs) is dict:
        return tuple(inputs.values())
    is_one = hasattr(type(inputs), "__torch_function__")
    if isinstance(inputs, Mapping) and not is_one:
        raise TypeError(
            f"`inputs` argument to `{name}()` must be a dict, not {type(inputs).__name__}. Other "
            "Mapping types are not supported."
        )
    return _tuple(inputs)


def _hand_backward_over(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handed:
    (tensors,), named = with_defaults(function, args, kwargs)
    roots = _tuple(tensors)
    old_name = named.pop("grad_variables")
    if named["grad_tensors"] is None:
        named["grad_tensors"] = old_name
    if named["inputs"] is not None:
        named["inputs"] = _inputs_tuple("backward", named["inputs"])
    return (*roots, *(named["inputs"] or ())), (roots,), named


@overridable(hand_over=_hand_backward_over)
def backward(
    tensors: _Tensors,
    grad_tensors: _Tensors | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: _Tensors | None = None,
    inputs: _Tensors | None = None,
) -> None:
    """Add the gradients of *tensors* to the ``.grad`` of the graph's leaves.

    Args:
        tensors: One tensor or several, which require grad, or edges of the graph
            (`graph.GradientEdge`).
        grad_tensors: For each the gradient it starts with, of its shape; None stands for 1 where
            the tensor has one element.
        retain_graph: Keep saved tensors for another run; by default as *create_graph*.
        create_graph: Record the run itself, for higher derivatives.
        grad_variables: The old name of *grad_tensors*.
        inputs: Only these tensors, or the leaves of these edges, get their ``.grad``; also a dict
            of them.

    Raises:
        RuntimeError: A tensor does not require grad, a gradient is missing or of another shape,
            saved tensors were freed or changed in place.

    Source:
        torch.autograd.backward.
    """
    if _C._level_count() > 0:
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use "
            "functorch.grad or functorch.vjp instead or call backward() outside of functorch "
            "transforms."
        )
    if grad_variables is not None:
        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.",
            FutureWarning,
            stacklevel=2,
        )
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                "`backward()`. Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    given_inputs = None if inputs is None else _inputs_tuple("backward", inputs)
    if given_inputs is not None and not given_inputs:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    keep = create_graph if retain_graph is None else retain_graph
    roots = _tuple(tensors)
    if not roots:
        return
    grads = None if grad_tensors is None else _tuple(grad_tensors)
    _C._run_backward(roots, grads, bool(keep), bool(create_graph), given_inputs, True, True)


def _hand_grad_over(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handed:
    (outputs, inputs), named = with_defaults(function, args, kwargs)
    if type(inputs) is dict:  # the function itself asks again, with the tensors alone
        return (), (outputs, inputs), named
    roots, wanted = _tuple(outputs), _inputs_tuple("grad", inputs)
    if named["allow_unused"] is None:
        named["allow_unused"] = named["materialize_grads"]
    return (*roots, *wanted), (roots, wanted), named


@overload
def grad(
    outputs: _Tensors,
    inputs: dict[str, Tensor],
    grad_outputs: _Tensors | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> dict[str, Tensor]: ...
@overload
def grad(
    outputs: _Tensors,
    inputs: _Tensors,
    grad_outputs: _Tensors | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: Literal[False] | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]: ...
@overload
def grad(
    outputs: _Tensors,
    inputs: _Tensors,
    grad_outputs: _Tensors | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]: ...
@overridable(hand_over=_hand_grad_over)
def grad(
    outputs: _Tensors,
    inputs: _Tensors,
    grad_outputs: _Tensors | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Return the gradients of *outputs* with respect to *inputs*.

    Args:
        outputs: One tensor or several, or edges of the graph.
        inputs: Return gradients of these tensors or edges; also a dict of tensors.
        grad_outputs: For each output the gradient it starts with; None stands for 1 where the
            output has one element.
        retain_graph: Keep saved tensors for another run; by default as *create_graph*.
        create_graph: Record the run itself, for higher derivatives.
        only_inputs: Kept for compatibility; must be true.
        allow_unused: Return None for inputs that no output depends on, instead of raising. By
            default as *materialize_grads*.
        is_grads_batched: The first dimension of each *grad_outputs* counts independent runs; the
            results are stacked.
        materialize_grads: Return zeros for inputs that no output depends on.

    Returns:
        One tensor per input, of its shape; by name if *inputs* is a dict.

    Raises:
        RuntimeError: An input was not used, does not require grad, or backward fails.
        TypeError: *inputs* is a mapping other than a dict.
        ValueError: *materialize_grads* without *allow_unused*.

    Source:
        torch.autograd.grad.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    if type(inputs) is dict:
        found = grad(
            outputs,
            tuple(inputs.values()),
            grad_outputs,
            retain_graph,
            create_graph,
            only_inputs,
            allow_unused,
            is_grads_batched,
            materialize_grads,
        )
        return dict(zip(inputs, found, strict=True))
    if allow_unused is None:
        allow_unused = materialize_grads
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To "
            "accumulate gradient for other parts of the graph, please use "
            "torch.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    roots, wanted = _tuple(outputs), _inputs_tuple("grad", inputs)
    if not wanted:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    grads = None if grad_outputs is None else _tuple(grad_outputs)
    keep = bool(create_graph if retain_graph is None else retain_graph)
    run = _grad_batched if is_grads_batched else _grad_once
    if materialize_grads and any(_is_edge(item) for item in wanted):
        raise RuntimeError(
            "materialize_grads cannot be used when the given input is a GradientEdge"
        )
    results = run(roots, wanted, grads, keep, bool(create_graph), bool(allow_unused))
    if not materialize_grads:
        return results
    filled = []
    for result, tensor in zip(results, wanted, strict=True):
        filled.append(_zeros_like(tensor, create_graph) if result is None else result)
    return tuple(filled)


def _zeros_like(tensor: Any, requires_grad: bool) -> Any:
    return tensor.new_zeros(tensor.shape).requires_grad_(requires_grad)


def _grad_once(
    roots: Sequence[Any],
    wanted: Sequence[Any],
    grads: Sequence[Any] | None,
    keep: bool,
    create: bool,
    allow_unused: bool,
) -> tuple[Any, ...]:
    results: tuple[Any, ...] = _C._run_backward(
        roots, grads, keep, create, wanted, allow_unused, False
    )
    return results


def _grad_batched(
    roots: Sequence[Any],
    wanted: Sequence[Any],
    grads: Sequence[Any] | None,
    keep: bool,
    create: bool,
    allow_unused: bool,
) -> tuple[Any, ...]:
    if grads is None:
        raise RuntimeError("is_grads_batched=True needs grad_outputs with a batch dimension")
    counts = {len(g) for g in grads if g is not None}
    if len(counts) != 1:
        raise RuntimeError(
            f"If `is_grads_batched=True`, all grad_outputs must have the same batch size, got "
            f"{sorted(counts)}"
        )
    count = counts.pop()
    rows = []
    for i in range(count):
        one = tuple(None if g is None else g[i] for g in grads)
        last = i == count - 1
        rows.append(_grad_once(roots, wanted, one, keep or not last, create, allow_unused))
    stacked = []
    for column in zip(*rows, strict=True):
        stacked.append(None if column[0] is None else _C.stack(list(column)))
    return tuple(stacked)
