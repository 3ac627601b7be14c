"""Transforms that differentiate: ``vjp``, ``jvp``, ``linearize``; and ``functionalize``.

Source:
    torch._functorch.eager_transforms.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor._functorch._argnums import checked_argnums, replace_args, slice_argnums
from shmtensor._functorch._differentiate import Differentiated, differentiated
from shmtensor._functorch._levels import batched_parts, forward_level
from shmtensor._functorch.utils import argnums_t
from shmtensor.utils._pytree import (
    TreeSpec,
    tree_flatten,
    tree_map,
    tree_unflatten,
    treespec_pprint,
)

__all__ = [
    "debug_unwrap",
    "functionalize",
    "grad_and_value_impl",
    "grad_impl",
    "jvp",
    "linearize",
    "pullback",
    "push_forward",
    "vjp",
]


def _with_inputs(level: Differentiated, tree: Any) -> Any:
    def as_input(leaf: Any) -> Tensor:
        if not isinstance(leaf, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
        return level.input(leaf)

    return tree_map(as_input, tree)


def _split_aux(output: Any, has_aux: bool, what: str) -> tuple[Any, Any]:
    if not has_aux:
        return output, None
    if not (isinstance(output, tuple) and len(output) == 2):
        raise RuntimeError(
            f"{what}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return output[0], output[1]


# --- grad ----------------------------------------------------------------------------------------


def _checked_value(output: Any) -> Tensor:
    name = "grad_and_value(f)(*args)"
    if not isinstance(output, Tensor):
        raise RuntimeError(f"{name}: Expected f(*args) to return a Tensor, got {type(output)}")
    if output.dim() != 0:
        raise RuntimeError(
            f"{name}: Expected f(*args) to return a scalar Tensor, got tensor with {output.dim()} "
            "dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
        )
    return output


def grad_and_value_impl(
    func: Callable[..., Any],
    argnums: argnums_t,
    has_aux: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, Any]:
    """Compute what `grad_and_value` returns."""
    checked_argnums(argnums, len(args))
    with differentiated() as level:
        chosen = _with_inputs(level, slice_argnums(args, argnums))
        output = func(*replace_args(args, chosen, argnums), **kwargs)
        output, aux = _split_aux(output, has_aux, "grad_and_value(f)(*args)")
        value = _checked_value(output)
        create = level.outer_mode and value.requires_grad and level.reaches_outside([value])
        found = level.gradients([value], None, retain_graph=create, create_graph=create)
        result = tree_unflatten(found, tree_flatten(chosen)[1])
        value = level.release(value)
        aux = tree_map(level.release, aux)
    if isinstance(argnums, int):
        result = result[0]
    return result, (value, aux) if has_aux else value


def grad_impl(
    func: Callable[..., Any],
    argnums: argnums_t,
    has_aux: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Compute what `grad` returns."""
    gradients, value = grad_and_value_impl(func, argnums, has_aux, args, kwargs)
    return (gradients, value[1]) if has_aux else gradients


# --- vjp -----------------------------------------------------------------------------------------


def _only_tensors(what: str, flat: list[Any]) -> None:
    if not flat or (len(flat) == 1 and flat[0] is None):
        raise RuntimeError(
            f"{what}: Expected f to be a function that has non-empty output (got output = {flat})"
        )
    for leaf in flat:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"{what}: expected f(*primals) to return only tensors, got unsupported type "
                f"{type(leaf)}"
            )


def _without_text(spec: TreeSpec) -> str:
    return treespec_pprint(spec)


def pullback(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    has_aux: bool,
    what: str,
    also: Sequence[Tensor] = (),
) -> tuple[Any, Callable[..., Any], Any, list[Tensor]]:
    """The outputs, the function of cotangents, what *func* returns beside, and the inputs."""
    with differentiated(also) as level:
        inputs = _with_inputs(level, primals)
        output = func(*inputs)
        output, aux = _split_aux(output, has_aux, what)
        flat, spec = tree_flatten(output)
        _only_tensors(what, flat)
        for leaf in flat:
            if not (leaf.is_floating_point() or leaf.is_complex()):
                raise RuntimeError(
                    "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got "
                    f"Tensor with dtype {leaf.dtype}"
                )
        released = tree_unflatten([level.release(leaf) for leaf in flat], spec)
        aux = tree_map(level.release, aux)
    input_spec = tree_flatten(inputs)[1]
    single = len(primals) == 1

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        flat_cotangents, cotangent_spec = tree_flatten(cotangents)
        if spec != cotangent_spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {_without_text(cotangent_spec)}, primal "
                f"output: {_without_text(spec)}"
            )
        found = level.gradients(
            flat, flat_cotangents, retain_graph=retain_graph, create_graph=create_graph
        )
        result = tree_unflatten(found, input_spec)
        return result if not single else (result[0],)

    return released, vjp_fn, aux, level.inputs


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Compute *func*, and return a function for products of cotangents with its Jacobian.

    Args:
        func: Takes *primals*, returns tensors or trees of them; with *has_aux* a pair of that and
            any tree.
        *primals: Inputs; all tensors among them are differentiated.
        has_aux: *func* returns something beside its outputs.

    Returns:
        The outputs and ``vjp_fn``, which takes cotangents in the form of the outputs and returns
        a tuple in the form of the primals; with *has_aux* also what *func* returned beside.

    Raises:
        RuntimeError: *func* returns something else than tensors, or nothing.

    Source:
        torch.func.vjp.
    """
    output, vjp_fn, aux, _ = pullback(func, primals, has_aux, "vjp(f, *primals)")
    return (output, vjp_fn, aux) if has_aux else (output, vjp_fn)


# --- jvp -----------------------------------------------------------------------------------------


def _outside_inference() -> contextlib.AbstractContextManager[Any]:
    """Views that are not tracked would lose tangents: forward mode leaves inference mode."""
    if not shmtensor.is_inference_mode_enabled():
        return contextlib.nullcontext()
    stack = contextlib.ExitStack()
    stack.enter_context(shmtensor.inference_mode(False))
    stack.enter_context(shmtensor.no_grad())
    return stack


def _check_differentiable(name: str, value: Tensor) -> None:
    if not (value.is_floating_point() or value.is_complex()):
        raise ValueError(f"Expected {name} to be floating point or complex, but got: {value.dtype}")


def _dual(primal: Tensor, tangent: Tensor, level: int) -> Tensor:
    _check_differentiable("primal", primal)
    _check_differentiable("tangent", tangent)
    dual: Tensor = _C._make_dual(primal, tangent, level)
    return dual


def push_forward(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: Any,
    has_aux: bool,
    what: str,
    strict: bool = False,
) -> tuple[Any, Any, Any]:
    """The outputs, their tangents, and what *func* returns beside.

    Args:
        func: As for `jvp`.
        primals: As for `jvp`.
        tangents: As for `jvp`; both have been checked.
        has_aux: As for `jvp`.
        what: Begins messages.
        strict: An output without a tangent is refused; otherwise it gets zeros.
    """
    flat_primals, spec = tree_flatten(primals)
    with _outside_inference(), forward_level() as level:
        duals = [
            _dual(primal, tangent, level)
            for primal, tangent in zip(flat_primals, tree_flatten(tangents)[0], strict=True)
        ]
        output, aux = _split_aux(func(*tree_unflatten(duals, spec)), has_aux, what)
        flat, output_spec = tree_flatten(output)
        _only_tensors(what, flat)
        found = [_C._tangent_at(leaf, level) for leaf in flat]
        if strict and any(tangent is None for tangent in found):
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the "
                "inputs. This is not allowed with strict=True."
            )
        found = [
            shmtensor.zeros_like(leaf) if tangent is None else tangent
            for leaf, tangent in zip(flat, found, strict=True)
        ]
    return output, tree_unflatten(found, output_spec), aux


def _checked_tangents(what: str, primals: Any, tangents: Any) -> None:
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{what}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    flat_primals, spec = tree_flatten(primals)
    flat_tangents, tangent_spec = tree_flatten(tangents)
    if spec != tangent_spec:
        raise RuntimeError(
            f"{what}: Expected primals and tangents to have the same python structure. For "
            "example, if primals is a tuple of 3 tensors, tangents also must be. Got primals with "
            f"structure {spec} and tangents with structure {tangent_spec}"
        )
    for name, flat in (("primals", flat_primals), ("tangents", flat_tangents)):
        if not flat:
            raise RuntimeError(f"{what}: Expected {name} to contain at least one Tensor.")
        for leaf in flat:
            if not isinstance(leaf, Tensor):
                raise RuntimeError(
                    f"{what}: Expected {name} to only contain Tensors, got {type(leaf)}"
                )


def jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """Compute *func* and the product of its Jacobian with *tangents*, by forward mode.

    Tangents are computed together with the values, also inside of ``no_grad``. If *func* changes a
    primal in place, its tangent is changed too.

    Args:
        func: Takes *primals*, returns tensors or trees of them; with *has_aux* a pair of that and
            any tree.
        primals: A tuple of inputs.
        tangents: As *primals*, with tensors of the same shapes.
        strict: Refuse an output that does not depend on the inputs. Otherwise it has a tangent of
            zeros.
        has_aux: *func* returns something beside its outputs.

    Returns:
        The outputs and their tangents; with *has_aux* also what *func* returned beside.

    Raises:
        RuntimeError: *primals* is not a tuple, *tangents* have another form or shape, or *func*
            returns something else than tensors.
        ValueError: A primal or tangent is neither floating point nor complex.
        NotImplementedError: An operator, or the ``jvp`` of a Function, is missing.

    Source:
        torch.func.jvp.
    """
    what = "jvp(f, primals, tangents)"
    _checked_tangents(what, primals, tangents)
    output, tangent, aux = push_forward(func, primals, tangents, has_aux, what, strict)
    return (output, tangent, aux) if has_aux else (output, tangent)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Compute *func*, and return its Jacobian as a function of tangents.

    The function that is returned calls *func* again, for copies of the primals as they are now and
    with the random numbers of now. Many tangents at once are cheaper than one after the other:
    ``vmap`` the function.

    Args:
        func: Takes *primals*, returns tensors or trees of them.
        *primals: Inputs.

    Returns:
        The outputs, and a function that takes tangents as it would take primals.

    Raises:
        RuntimeError: *func* returns something else than tensors; or, by the function, tangents
            do not fit the primals.
        ValueError: A primal is neither floating point nor complex.

    Source:
        torch.func.linearize.
    """
    what = "linearize(f, *primals)"
    flat_primals, spec = tree_flatten(primals)
    if not flat_primals:
        raise RuntimeError(f"{what}: Expected primals to contain at least one Tensor.")
    for leaf in flat_primals:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"{what}: Expected primals to only contain Tensors, got {type(leaf)}"
            )
        _check_differentiable("primal", leaf)
    kept = [leaf.clone() for leaf in flat_primals]
    state = shmtensor.get_rng_state()
    output = func(*primals)
    flat = tree_flatten(output)[0]
    _only_tensors(what, flat)

    def jvp_fn(*tangents: Any) -> Any:
        flat, tangent_spec = tree_flatten(tangents)
        if tangent_spec != spec:
            raise RuntimeError(
                f"Expected the tangents {tangent_spec} to have the same argspec as the primals "
                f"{spec}"
            )
        for i, (leaf, primal) in enumerate(zip(flat, kept, strict=True)):
            for name, own, wanted in (
                ("shape", leaf.shape, primal.shape),
                ("dtype", leaf.dtype, primal.dtype),
            ):
                if own != wanted:
                    raise RuntimeError(
                        f"tangent:{i} with {name} {own} in flattened pytree doesn't match the "
                        f"{name} {wanted} of the corresponding primal."
                    )
        again = tree_unflatten([leaf.clone() for leaf in kept], spec)
        with shmtensor.random.fork_rng():
            shmtensor.set_rng_state(state)
            return push_forward(func, again, tangents, False, what)[1]

    return output, jvp_fn


# --- the rest ------------------------------------------------------------------------------------


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return *func*: there is no tracer here for which in-place operators would have to go.

    Args:
        func: Any function.
        remove: ``"mutations"`` or ``"mutations_and_views"``.

    Returns:
        *func* itself. Its results are the same as those of a function without in-place operators.

    Raises:
        RuntimeError: *remove* is neither of the two.

    Source:
        torch.func.functionalize.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            "functionalize(f, remove='mutations'): received invalid argument for kwarg: remove="
            f"{remove}. Valid options are: remove='mutations' or remove='mutations_and_views'."
        )
    return func


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """Return the tensor of all examples that a tensor under vmap stands for.

    For looking at values while a function runs; what is done with the result belongs to no
    transform.

    Args:
        tensor: Any tensor.
        recurse: Go down through all levels, not one.

    Raises:
        ValueError: *tensor* is none.

    Source:
        torch.func.debug_unwrap.
    """
    if not isinstance(tensor, Tensor):
        raise ValueError(f"Expected torch.Tensor but got {type(tensor)}")
    while (parts := batched_parts(tensor)) is not None:
        tensor = parts[0]
        if not recurse:
            break
    return tensor
