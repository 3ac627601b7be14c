"""The parts of ``vmap``: checking dimensions, wrapping inputs, unwrapping outputs, chunks.

Source:
    torch._functorch.vmap.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import shmtensor
from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor._functorch._levels import batched_parts, vmap_level
from shmtensor.utils._pytree import (
    TreeSpec,
    _broadcast_to_and_flatten,
    tree_flatten,
    tree_map_,
    tree_unflatten,
)

__all__ = [
    "in_dims_t",
    "out_dims_t",
    "restore_vmap",
    "unwrap_batched",
    "vmap_impl",
    "wrap_batched",
]

in_dims_t: TypeAlias = int | tuple[Any, ...]
out_dims_t: TypeAlias = int | tuple[int, ...]


def get_name(func: Callable[..., Any]) -> str:
    """Return what messages call a function."""
    if hasattr(func, "__name__"):
        return str(func.__name__)
    if isinstance(func, functools.partial):
        return f"functools.partial({get_name(func.func)}, ...)"
    return repr(func)


def _check_int_or_none(x: Any, func: Callable[..., Any], out_dims: Any) -> None:
    if isinstance(x, int) or x is None:
        return
    raise ValueError(
        f"vmap({get_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a "
        "python collection of ints representing where in the outputs the vmapped dimension should "
        "appear."
    )


def _check_out_dims_is_int_or_int_pytree(out_dims: Any, func: Callable[..., Any]) -> None:
    if isinstance(out_dims, int):
        return
    tree_map_(lambda x: _check_int_or_none(x, func, out_dims), out_dims)


def _check_randomness_arg(randomness: str) -> None:
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )


def _validate_and_get_batch_size(in_dims: list[Any], args: list[Any]) -> int:
    sizes = [arg.size(dim) for dim, arg in zip(in_dims, args, strict=True) if dim is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return int(sizes[0])


def _checked_dim(func: Callable[..., Any], in_dims: Any, arg: Any, dim: Any) -> int | None:
    """Return where the batch of one argument is, counted from the front; raise what is wrong."""
    head = f"vmap({get_name(func)}, in_dims={in_dims}, ...)(<inputs>): "
    if not isinstance(dim, int) and dim is not None:
        raise ValueError(
            f"{head}Got in_dim={dim} for an input but in_dim must be either an integer dimension "
            "or None."
        )
    if dim is None:
        return None
    if not isinstance(arg, Tensor):
        raise ValueError(
            f"{head}Got in_dim={dim} for an input but the input is of type {type(arg)}. We cannot "
            "vmap over non-Tensor arguments, please use None as the respective in_dim"
        )
    if not -arg.dim() <= dim < arg.dim():
        raise ValueError(
            f"{head}Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
            f"{arg.dim()} so expected in_dim to satisfy -{arg.dim()} <= in_dim < {arg.dim()}."
        )
    return dim % arg.dim()


def _process_batched_inputs(
    in_dims: Any, args: tuple[Any, ...], func: Callable[..., Any]
) -> tuple[int, list[Any], list[Any], TreeSpec]:
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"vmap({get_name(func)}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be "
            "int or a (potentially nested) tuple matching the structure of inputs, got: "
            f"{type(in_dims)}."
        )
    if len(args) == 0:
        raise ValueError(
            f"vmap({get_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or "
            "you are trying to vmap over a function with no inputs. The latter is unsupported."
        )
    flat_args, spec = tree_flatten(args)
    flat_dims = _broadcast_to_and_flatten(in_dims, spec)
    if flat_dims is None:
        raise ValueError(
            f"vmap({get_name(func)}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible "
            f"with the structure of `inputs`. in_dims has structure {tree_flatten(in_dims)[1]} but "
            f"inputs has structure {spec}."
        )
    dims = [
        _checked_dim(func, in_dims, arg, dim) for arg, dim in zip(flat_args, flat_dims, strict=True)
    ]
    return _validate_and_get_batch_size(dims, flat_args), dims, flat_args, spec


def _create_batched_inputs(
    flat_in_dims: list[Any], flat_args: list[Any], level: int, args_spec: TreeSpec
) -> Any:
    batched = [
        arg if dim is None else _C._add_batch_dim(arg, dim, level)
        for dim, arg in zip(flat_in_dims, flat_args, strict=True)
    ]
    return tree_unflatten(batched, args_spec)


def _is_batched_at(output: Any, level: int) -> bool:
    parts = batched_parts(output) if isinstance(output, Tensor) else None
    return parts is not None and parts[2] == level and parts[1] is not None


def _maybe_remove_batch_dim(
    name: str, output: Any, level: int, batch_size: int, out_dim: int | None
) -> Any:
    if out_dim is None:
        if _is_batched_at(output, level):
            raise ValueError(
                f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
            )
        parts = batched_parts(output) if isinstance(output, Tensor) else None
        return parts[0] if parts is not None and parts[2] == level else output
    if not isinstance(output, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(output)}. Did "
            "you mean to set out_dims= to None for output?"
        )
    return _C._remove_batch_dim(output, level, batch_size, out_dim)


def _flat_out_dims(outputs: Any, spec: TreeSpec, out_dims: Any, func: Callable[..., Any]) -> Any:
    def incompatible() -> ValueError:
        return ValueError(
            f"vmap({get_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not "
            "compatible with the structure of `outputs`. out_dims has structure "
            f"{tree_flatten(out_dims)[1]} but outputs has structure {spec}."
        )

    if not isinstance(outputs, Tensor):
        flat = _broadcast_to_and_flatten(out_dims, spec)
        if flat is None:
            raise incompatible()
        return flat
    if isinstance(out_dims, int):
        return [out_dims]
    if isinstance(out_dims, tuple) and len(out_dims) == 1:
        return list(out_dims)
    if out_dims is None:
        return [None]
    raise incompatible()


def _unwrap_batched(
    batched_outputs: Any,
    out_dims: Any,
    vmap_level: int,
    batch_size: int,
    func: Callable[..., Any],
) -> Any:
    flat, spec = tree_flatten(batched_outputs)
    dims = _flat_out_dims(batched_outputs, spec, out_dims, func)
    name = get_name(func)
    return tree_unflatten(
        [
            _maybe_remove_batch_dim(name, output, vmap_level, batch_size, dim)
            for output, dim in zip(flat, dims, strict=True)
        ],
        spec,
    )


def _flat_vmap(
    func: Callable[..., Any],
    batch_size: int,
    flat_in_dims: list[Any],
    flat_args: list[Any],
    args_spec: TreeSpec,
    out_dims: Any,
    randomness: str,
    **kwargs: Any,
) -> Any:
    with vmap_level(batch_size, randomness) as level:
        inputs = _create_batched_inputs(flat_in_dims, flat_args, level, args_spec)
        outputs = func(*inputs, **kwargs)
        return _unwrap_batched(outputs, out_dims, level, batch_size, func)


def _chunk_sizes(total: int, chunk_size: int) -> list[int]:
    full, rest = divmod(total, chunk_size)
    return [chunk_size] * full + ([rest] if rest else [])


def _chunks(flat_args: list[Any], flat_in_dims: list[Any], sizes: list[int]) -> Iterator[list[Any]]:
    """The arguments of each chunk: slices of those with a batch, the others as they are."""
    start = 0
    for size in sizes:
        yield [
            arg if dim is None else arg.narrow(dim, start, size)
            for arg, dim in zip(flat_args, flat_in_dims, strict=True)
        ]
        start += size


def _chunked_vmap(
    func: Callable[..., Any],
    flat_in_dims: list[Any],
    chunks: Iterator[list[Any]],
    sizes: list[int],
    args_spec: TreeSpec,
    out_dims: Any,
    randomness: str,
    **kwargs: Any,
) -> Any:
    state = shmtensor.get_rng_state() if randomness == "same" else None
    parts: list[list[Any]] = []
    spec: TreeSpec | None = None
    for args, size in zip(chunks, sizes, strict=True):
        if state is not None:
            shmtensor.set_rng_state(state)
        outputs = _flat_vmap(
            func, size, flat_in_dims, args, args_spec, out_dims, randomness, **kwargs
        )
        flat, spec = tree_flatten(outputs)
        parts.append(flat)
    assert spec is not None
    dims = _flat_out_dims(tree_unflatten(parts[0], spec), spec, out_dims, func)
    joined = [
        outputs[0] if dim is None else shmtensor.cat(outputs, dim=dim)
        for outputs, dim in zip(zip(*parts, strict=True), dims, strict=True)
    ]
    return tree_unflatten(joined, spec)


def vmap_impl(
    func: Callable[..., Any],
    in_dims: Any,
    out_dims: Any,
    randomness: str,
    chunk_size: int | None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Call *func* once for all examples; `vmap` has the arguments."""
    _check_out_dims_is_int_or_int_pytree(out_dims, func)
    batch_size, dims, flat_args, spec = _process_batched_inputs(in_dims, args, func)
    if chunk_size is not None and batch_size > chunk_size:
        sizes = _chunk_sizes(batch_size, chunk_size)
        chunks = _chunks(flat_args, dims, sizes)
        return _chunked_vmap(func, dims, chunks, sizes, spec, out_dims, randomness, **kwargs)
    return _flat_vmap(func, batch_size, dims, flat_args, spec, out_dims, randomness, **kwargs)


def restore_vmap(
    func: Callable[..., Any], in_dims: Any, batch_size: int, randomness: str
) -> Callable[..., tuple[Any, Any]]:
    """Return a function that vmaps *func* over arguments with these batch dimensions.

    Args:
        func: Takes and returns trees.
        in_dims: A tree as its arguments, with None for what has no batch.
        batch_size: Examples.
        randomness: As `vmap` takes it.

    Returns:
        A function that gives the outputs with their batch and, in a tree of the same form, where
        that is (None for outputs without).
    """

    @functools.wraps(func)
    def inner(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        with vmap_level(batch_size, randomness) as level:
            outputs = func(*wrap_batched(args, in_dims, level), **kwargs)
            return unwrap_batched(outputs, level)

    return inner


def wrap_batched(args: Any, bdims: Any, level: int) -> Any:
    """Return *args* with batched tensors where *bdims* says a dimension."""
    flat, spec = tree_flatten(args)
    dims = _broadcast_to_and_flatten(bdims, spec)
    if dims is None:
        raise ValueError(f"in_dims {bdims} do not fit arguments with the structure {spec}")
    return _create_batched_inputs(dims, flat, level, spec)


def unwrap_batched(args: Any, level: int) -> tuple[Any, Any]:
    """Return what batched tensors of *level* stand for, and their batch dimensions."""
    flat, spec = tree_flatten(args)
    values, dims = [], []
    for arg in flat:
        parts = batched_parts(arg) if isinstance(arg, Tensor) else None
        here = parts is not None and parts[2] == level
        values.append(parts[0] if parts is not None and here else arg)
        dims.append(parts[1] if parts is not None and here else None)
    return tree_unflatten(values, spec), tree_unflatten(dims, spec)


#: Names that libraries import from here.
_add_batch_dim = _C._add_batch_dim
_remove_batch_dim = _C._remove_batch_dim
_get_name = get_name
