"""Jacobians and Hessians: products with all rows of a standard basis at once.

Source:
    torch.func.jacrev, jacfwd and hessian.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor._functorch._argnums import checked_argnums, replace_args, slice_argnums
from shmtensor._functorch._levels import batched_parts
from shmtensor._functorch.eager_transforms import pullback, push_forward
from shmtensor._functorch.utils import argnums_t
from shmtensor._functorch.vmap import _check_randomness_arg, vmap_impl
from shmtensor.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

__all__ = ["hessian", "jacfwd", "jacrev"]


def _standard_basis(leaves: list[Tensor]) -> tuple[Tensor, ...]:
    """For each tensor [N, *shape], so that the N rows of all together are a standard basis."""
    numels = [leaf.numel() for leaf in leaves]
    total = sum(numels)
    chunks = []
    start = 0
    for leaf, n in zip(leaves, numels, strict=True):
        chunk = leaf.new_zeros(total, n) if batched_parts(leaf) is None else None
        if chunk is None:
            chunk = shmtensor.zeros(total, n, dtype=leaf.dtype)
        chunk[start : start + n].fill_diagonal_(1)
        chunks.append(chunk.view(total, *leaf.shape))
        start += n
    return tuple(chunks)


def _refuse_complex(tree: Any, what: str, role: str) -> None:
    for i, leaf in enumerate(tree_flatten(tree)[0]):
        if isinstance(leaf, Tensor) and leaf.is_complex():
            raise RuntimeError(
                f"{what}: Expected all {role} to be real but received complex tensor at flattened "
                f"input idx: {i}"
            )


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of *func*, a row at a time, all rows at once.

    Args:
        func: Returns tensors or trees of them; with *has_aux* a pair of that and any tree.
        argnums: Which inputs to differentiate: one number, or a tuple.
        has_aux: *func* returns something beside its outputs.
        chunk_size: Rows that are computed at a time; None: all.

    Returns:
        A function that gives, for each output and each input, a tensor whose shape is that of the
        output and then that of the input; in the form of the outputs, and in each place of it in
        the form of the input or a tuple of such. With *has_aux* a pair.

    Raises:
        ValueError: *chunk_size* is not positive, or an input to differentiate is no tensor.
        RuntimeError: Inputs or outputs are complex, or outputs are no tensors.

    Source:
        torch.func.jacrev.
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args: Any) -> Any:
        _refuse_complex(args, "jacrev", "inputs")
        numbers = checked_argnums(argnums, len(args))
        chosen = slice_argnums(args, argnums)
        flat_primals, primal_spec = tree_flatten(chosen)

        def of_chosen(*primals: Any) -> Any:
            return func(*replace_args(args, primals, numbers))

        output, vjp_fn, aux, _ = pullback(of_chosen, chosen, has_aux, "vjp(f, *primals)")
        flat, spec = tree_flatten(output)
        _refuse_complex(output, "jacrev", "outputs")

        def rows(*cotangents: Tensor) -> tuple[Tensor, ...]:
            return tuple(tree_flatten(vjp_fn(tree_unflatten(list(cotangents), spec)))[0])

        basis = _standard_basis(flat)
        found = vmap_impl(rows, 0, 0, "error", chunk_size, *basis)
        numels = [leaf.numel() for leaf in flat]
        by_input = [
            [
                part.reshape((*leaf.shape, *primal.shape))
                for part, leaf in zip(rows_of.split(numels), flat, strict=True)
            ]
            for rows_of, primal in zip(found, flat_primals, strict=True)
        ]
        by_output = []
        for i in range(len(flat)):
            tree = tree_unflatten([parts[i] for parts in by_input], primal_spec)
            by_output.append(tree[0] if isinstance(argnums, int) else tree)
        result = tree_unflatten(by_output, spec)
        return (result, aux) if has_aux else result

    return wrapper


def jacfwd(
    func: Callable[..., Any],
    argnums: argnums_t = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of *func*, a column at a time, all at once.

    Args:
        func: As for `jacrev`.
        argnums: As for `jacrev`.
        has_aux: As for `jacrev`.
        randomness: As `vmap` takes it, which calls *func* once for all columns.

    Returns:
        A function, as `jacrev` returns it.

    Raises:
        RuntimeError: As `jacrev`.

    Source:
        torch.func.jacfwd.
    """

    @functools.wraps(func)
    def wrapper(*args: Any) -> Any:
        _check_randomness_arg(randomness)
        _refuse_complex(args, "jacfwd", "inputs")
        numbers = checked_argnums(argnums, len(args))
        chosen = slice_argnums(args, argnums)
        flat_primals, primal_spec = tree_flatten(chosen)

        def of_chosen(*primals: Any) -> Any:
            return func(*replace_args(args, primals, numbers))

        spec: TreeSpec | None = None

        def columns(*tangents: Tensor) -> tuple[Any, Any]:
            nonlocal spec
            given = tree_unflatten(list(tangents), primal_spec)
            output, products, aux = push_forward(
                of_chosen, chosen, given, has_aux, "jvp(f, primals, tangents)"
            )
            _refuse_complex(output, "jacfwd", "outputs")
            flat, spec = tree_flatten(products)
            return tuple(flat), aux

        basis = _standard_basis(flat_primals)
        found, aux = vmap_impl(columns, 0, (0, None), randomness, None, *basis)
        assert spec is not None
        numels = [primal.numel() for primal in flat_primals]
        by_output = []
        for columns_of in found:
            last = columns_of.movedim(0, -1)
            parts = [
                part.reshape((*columns_of.shape[1:], *primal.shape))
                for part, primal in zip(last.split(numels, -1), flat_primals, strict=True)
            ]
            tree = tree_unflatten(parts, primal_spec)
            by_output.append(tree[0] if isinstance(argnums, int) else tree)
        result = tree_unflatten(by_output, spec)
        return (result, aux) if has_aux else result

    return wrapper


def hessian(func: Callable[..., Any], argnums: argnums_t = 0) -> Callable[..., Any]:
    """Return a function that computes the second derivatives of *func*.

    Args:
        func: As for `jacrev`.
        argnums: Which inputs to differentiate, twice.

    Returns:
        The `jacfwd` of the `jacrev` of *func*.

    Source:
        torch.func.hessian.
    """
    return jacfwd(jacrev(func, argnums), argnums)
