"""Derivatives of functions as a whole: products with the Jacobian and Hessian, and these matrices.

Forward products (``jvp``) are made of two backward runs: the product with the transposed Jacobian
is linear in its vector, and its own derivative in that vector is the product wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shmtensor import _C
from shmtensor.autograd import forward_ad
from shmtensor.autograd._run import grad
from shmtensor.autograd.grad_mode import enable_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _as_tuple(value: Any, what: str, function: str) -> tuple[bool, tuple[Any, ...]]:
    """(was a tuple, as a tuple) of tensors."""
    several = isinstance(value, tuple)
    items = value if several else (value,)
    for i, item in enumerate(items):
        if isinstance(item, _C._TensorBase):
            continue
        where = f"Value at index {i}" if several else "The value"
        raise TypeError(
            f"The {what} given to {function} must be either a Tensor or a tuple of Tensors but "
            f"{where.lower()} has type {type(item)}."
        )
    return several, items


def _fresh_inputs(inputs: Sequence[Any], create_graph: bool) -> tuple[Any, ...]:
    """Inputs that the function can be differentiated in, apart from what they are made of."""
    if create_graph:
        return tuple(
            x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in inputs
        )
    return tuple(x.detach().requires_grad_() for x in inputs)


def _detached(values: Any, create_graph: bool) -> Any:
    if isinstance(values, tuple):
        return tuple(_detached(v, create_graph) for v in values)
    return values if create_graph else values.detach()


def _run(
    func: Callable[..., Any], inputs: Any, create_graph: bool, name: str
) -> tuple[bool, tuple[Any, ...], bool, tuple[Any, ...]]:
    several, plain = _as_tuple(inputs, "inputs", name)
    xs = _fresh_inputs(plain, create_graph)
    outputs = func(*xs)
    many, ys = _as_tuple(outputs, "outputs of the user-provided function", name)
    return several, xs, many, ys


def _check_strict(values: Sequence[Any], what: str) -> None:
    for i, value in enumerate(values):
        if value is None or not value.requires_grad:
            raise RuntimeError(
                f"Output {i} of the user-provided function is independent of the input{what}. This "
                "is not allowed in strict mode."
            )


def _check_like(vectors: Sequence[Any], values: Sequence[Any], what: str) -> None:
    if len(vectors) != len(values):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(values)} but got {len(vectors)}."
        )
    for i, (v, value) in enumerate(zip(vectors, values, strict=True)):
        if v.shape != value.shape:
            raise RuntimeError(
                f"v has invalid size: {what} {i} has shape {tuple(value.shape)} but v has "
                f"{tuple(v.shape)}."
            )


def _vectors(v: Any, values: Sequence[Any], what: str, name: str) -> tuple[Any, ...]:
    if v is None:
        if len(values) != 1 or values[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if the user-provided function has a single {what} "
                "with a single element."
            )
        return (values[0].detach().new_ones(values[0].shape),)
    _, vectors = _as_tuple(v, "v", name)
    _check_like(vectors, values, what)
    return vectors


def _gradients(
    outputs: Sequence[Any], inputs: Sequence[Any], vectors: Sequence[Any] | None, create: bool
) -> tuple[Any, ...]:
    """Gradients, zeros where an input does not matter."""
    wanted = [
        (y, None if vectors is None else vectors[i])
        for i, y in enumerate(outputs)
        if y.requires_grad
    ]
    if not wanted:
        return tuple(x.detach().new_zeros(x.shape) for x in inputs)
    found = grad(
        [y for y, _ in wanted],
        list(inputs),
        None if vectors is None else [v for _, v in wanted],
        retain_graph=True,
        create_graph=create,
        allow_unused=True,
    )
    pairs = zip(found, inputs, strict=True)
    return tuple(x.detach().new_zeros(x.shape) if g is None else g for g, x in pairs)


def _shaped(values: tuple[Any, ...], several: bool) -> Any:
    return values if several else values[0]


def vjp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Compute the product of a vector and the Jacobian of *func* at *inputs*.

    Args:
        func: Takes and returns tensors or tuples of them.
        inputs: A tensor or a tuple.
        v: Of the shapes of the outputs; may be None for a single number.
        create_graph: Record, so that the results can be differentiated.
        strict: Raise when an output does not depend on the inputs.

    Returns:
        The outputs, and the product in the shapes of *inputs*.

    Source:
        torch.autograd.functional.vjp.
    """
    with enable_grad():
        several, xs, many, ys = _run(func, inputs, create_graph, "vjp")
        if strict:
            _check_strict(ys, "")
        products = _gradients(ys, xs, _vectors(v, ys, "output", "vjp"), create_graph)
    outputs = _detached(_shaped(ys, many), create_graph)
    return outputs, _detached(_shaped(products, several), create_graph)


def jvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Compute the product of the Jacobian of *func* at *inputs* and a vector.

    Args:
        func: Takes and returns tensors or tuples of them.
        inputs: A tensor or a tuple.
        v: Of the shapes of *inputs*; may be None for a single number.
        create_graph: Record, so that the results can be differentiated.
        strict: Raise when an output does not depend on the inputs.

    Returns:
        The outputs, and the product in the shapes of the outputs.

    Source:
        torch.autograd.functional.jvp.
    """
    with enable_grad():
        _, xs, many, ys = _run(func, inputs, create_graph, "jvp")
        if strict:
            _check_strict(ys, "")
        vectors = _vectors(v, xs, "input", "jvp")
        dummies = tuple(y.detach().new_zeros(y.shape).requires_grad_() for y in ys)
        transposed = _gradients(ys, xs, dummies, True)
        products = _gradients(transposed, dummies, vectors, create_graph)
    outputs = _detached(_shaped(ys, many), create_graph)
    return outputs, _detached(_shaped(products, many), create_graph)


def _jacobian_of(ys: Sequence[Any], xs: Sequence[Any], create: bool, strict: bool) -> Any:
    """Per output, per input: a tensor of shape ``(*output, *input)``."""
    rows = []
    for i, y in enumerate(ys):
        columns: list[list[Any]] = [[] for _ in xs]
        for element in y.reshape(-1).unbind():
            found: Sequence[Any] = [None] * len(xs)
            if element.requires_grad:
                found = grad(
                    element, list(xs), retain_graph=True, create_graph=create, allow_unused=True
                )
            for k, (x, g) in enumerate(zip(xs, found, strict=True)):
                if g is None and strict:
                    raise RuntimeError(
                        f"Output {i} of the user-provided function is independent of input {k}. "
                        "This is not allowed in strict mode."
                    )
                columns[k].append(x.detach().new_zeros(x.shape) if g is None else g)
        rows.append(
            tuple(
                _C.stack(column).view(tuple(y.shape) + tuple(x.shape))
                if column
                else x.detach().new_zeros(tuple(y.shape) + tuple(x.shape))
                for x, column in zip(xs, columns, strict=True)
            )
        )
    return tuple(rows)


def _check_forward(create_graph: bool, strict: bool, vectorize: bool) -> None:
    where = "torch.autograd.functional.jacobian"
    advice = 'or `strategy="reverse-mode"`.'
    together = 'and `strategy="forward-mode"` are not supported together (yet).'
    if strict:
        raise RuntimeError(
            f"{where}: `strict=True` {together} Please either set `strict=False` {advice}"
        )
    if create_graph:
        raise NotImplementedError(
            f"{where}: `create_graph=True` {together} Please either set `create_graph=False` "
            f"{advice}"
        )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only "
            "implemented for `vectorize=True`."
        )


def _forward_columns(func: Callable[..., Any], xs: tuple[Any, ...], n: int) -> tuple[bool, Any]:
    """By each element of input *n*: the tangents of the outputs."""
    columns = []
    for k in range(max(xs[n].numel(), 1)):
        with forward_ad.dual_level():
            seed = xs[n].new_zeros(xs[n].numel())
            seed[k : k + 1] = 1
            args = list(xs)
            args[n] = forward_ad.make_dual(xs[n], seed.view(xs[n].shape))
            many, ys = _as_tuple(func(*args), "outputs of the user-provided function", "jacobian")
            made = [forward_ad.unpack_dual(y) for y in ys]
            columns.append([y.new_zeros(y.shape) if t is None else t.detach() for y, t in made])
    return many, columns


def _forward_jacobian(func: Callable[..., Any], inputs: Any) -> Any:
    several, plain = _as_tuple(inputs, "inputs", "jacobian")
    xs = tuple(x.detach() for x in plain)
    table = []  # per input, per output
    for n, x in enumerate(xs):
        many, columns = _forward_columns(func, xs, n)
        ys = zip(*columns, strict=True)
        table.append(
            [
                _C.stack(by, -1)[..., : x.numel()].reshape(tuple(by[0].shape) + tuple(x.shape))
                for by in ys
            ]
        )
    rows = tuple(tuple(row) for row in zip(*table, strict=True))
    return _shaped(tuple(_shaped(row, several) for row in rows), many)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Compute the Jacobian of *func* at *inputs*.

    Args:
        func: Takes and returns tensors or tuples of them.
        inputs: A tensor or a tuple.
        create_graph: Record, so that the result can be differentiated.
        strict: Raise when an output does not depend on an input.
        vectorize: Accepted; rows are computed one by one.
        strategy: ``"reverse-mode"``: by backward, a row for each element of the outputs.
            ``"forward-mode"``: with tangents, a column for each element of the inputs; it needs
            *vectorize*, and goes with neither *strict* nor *create_graph*.

    Returns:
        A tensor of shape ``(*output, *input)``; a tuple per output and per input where there are
        several.

    Source:
        torch.autograd.functional.jacobian.
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your '
            'function has more outputs than inputs, "forward-mode" tends to be more performant. '
            'Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        _check_forward(create_graph, strict, vectorize)
        return _forward_jacobian(func, inputs)
    if strict and vectorize:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not "
            "supported together. Please either set `strict=False` or `vectorize=False`."
        )
    with enable_grad():
        several, xs, many, ys = _run(func, inputs, create_graph, "jacobian")
        rows = _jacobian_of(ys, xs, create_graph, strict)
    rows = _detached(rows, create_graph)
    shaped = tuple(_shaped(row, several) for row in rows)
    return _shaped(shaped, many)


def _gradient_function(
    func: Callable[..., Any], name: str, strict: bool
) -> Callable[..., tuple[Any, ...]]:
    """The gradient of a function with one number as output, itself differentiable."""

    def gradient(*xs: Any) -> tuple[Any, ...]:
        _, ys = _as_tuple(func(*xs), "outputs of the user-provided function", name)
        if len(ys) != 1 or ys[0].numel() != 1:
            raise RuntimeError(
                "The Tensor returned by the function given to "
                f"{name} should contain a single element"
            )
        if strict:
            _check_strict(ys, "")
        return _gradients(tuple(y.reshape(()) for y in ys), xs, None, True)

    return gradient


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Compute the Hessian of *func*, which returns one number, at *inputs*.

    Args:
        func: Takes tensors, returns a tensor with one element.
        inputs: A tensor or a tuple.
        create_graph: Record, so that the result can be differentiated.
        strict: Raise when the output does not depend on an input.
        vectorize: Accepted; rows are computed one by one.
        outer_jacobian_strategy: As *strategy* of `jacobian`.

    Returns:
        A tensor of shape ``(*input, *input)``; a tuple of tuples for several inputs.

    Source:
        torch.autograd.functional.hessian.
    """
    several, _ = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    gradient = _gradient_function(func, "hessian", strict)

    def first(*xs: Any) -> Any:
        with enable_grad():
            # Under forward mode the inputs are dual tensors; nobody needs their gradient yet.
            leaves = tuple(x if x.requires_grad else x.requires_grad_() for x in xs)
            return _shaped(gradient(*leaves), several)

    return jacobian(
        first,
        inputs,
        create_graph=create_graph,
        strict=strict,
        vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )


def vhp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Compute the product of a vector and the Hessian of *func*, which returns one number.

    Args:
        func: Takes tensors, returns a tensor with one element.
        inputs: A tensor or a tuple.
        v: Of the shapes of *inputs*.
        create_graph: Record, so that the results can be differentiated.
        strict: Raise when the output does not depend on the inputs.

    Returns:
        The output, and the product in the shapes of *inputs*.

    Source:
        torch.autograd.functional.vhp.
    """
    with enable_grad():
        several, plain = _as_tuple(inputs, "inputs", "vhp")
        xs = _fresh_inputs(plain, create_graph)
        output = func(*xs)
        gradient = _gradient_function(lambda *_: output, "vhp", strict)(*xs)
        products = _gradients(gradient, xs, _vectors(v, xs, "input", "vhp"), create_graph)
    return _detached(output, create_graph), _detached(_shaped(products, several), create_graph)


def hvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Compute the product of the Hessian of *func*, which returns one number, and a vector.

    The Hessian is symmetric, so this is `vhp`, which says what the arguments are.

    Returns:
        The output, and the product in the shapes of *inputs*.

    Source:
        torch.autograd.functional.hvp.
    """
    return vhp(func, inputs, v, create_graph, strict)
