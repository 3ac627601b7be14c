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
        which = f"value at index {i}" if several else f"given {what}"
        raise TypeError(
            f"The {what} given to {function} must be either a Tensor or a tuple of Tensors but the "
            f"{which} has type {type(item)}."
        )
    return several, items


def _fresh_inputs(inputs: Sequence[Any], create_graph: bool) -> tuple[Any, ...]:
    """Inputs that the function can be differentiated in, apart from what they are made of."""
    return tuple(
        x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_()
        for x in inputs
    )


def _detached(values: Any, create_graph: bool) -> Any:
    if isinstance(values, tuple):
        return tuple(_detached(v, create_graph) for v in values)
    return values if create_graph else values.detach()


def _outputs(
    func: Callable[..., Any], xs: tuple[Any, ...], strict: bool, name: str
) -> tuple[bool, tuple[Any, ...]]:
    """(are a tuple, as a tuple); *strict* refuses those that are not recorded."""
    many, ys = _as_tuple(func(*xs), "outputs of the user-provided function", name)
    for i, y in enumerate(ys):
        if strict and not y.requires_grad:
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients. The "
                "outputs must be computed in a differentiable manner from the input when running "
                "in strict mode."
            )
    return many, ys


def _output_of_one_element(
    func: Callable[..., Any], xs: tuple[Any, ...], strict: bool, name: str
) -> Any:
    several, ys = _outputs(func, xs, strict, name)
    if several:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if ys[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element"
        )
    return ys[0]


def _vectors(
    v: Any, values: Sequence[Any], several: bool, create_graph: bool, name: str
) -> tuple[Any, ...]:
    """*v* as a tuple with the shapes of *values*."""
    vectors = _as_tuple(v, "v", name)[1]
    if len(vectors) != len(values):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(values)} but got {len(vectors)}."
            if several
            else "The given v should contain a single Tensor."
        )
    for i, (vector, value) in enumerate(zip(vectors, values, strict=True)):
        if vector.shape != value.shape:
            where = f"Entry {i} in " if several else ""
            raise RuntimeError(
                f"{where}v has invalid size: should be {value.shape} but got {vector.shape}."
            )
    return tuple(_detached(vector, create_graph) for vector in vectors)


def _vectors_like_inputs(
    v: Any, xs: Sequence[Any], several: bool, create_graph: bool, name: str
) -> tuple[Any, ...]:
    if v is not None:
        return _vectors(v, xs, several, create_graph, name)
    if len(xs) != 1 or xs[0].numel() != 1:
        raise RuntimeError(
            "The vector v can only be None if the input to the user-provided function is a single "
            "Tensor with a single element."
        )
    return (xs[0].detach().new_ones(xs[0].shape),)


def _gradients(
    outputs: Sequence[Any], inputs: Sequence[Any], vectors: Sequence[Any] | None, create: bool
) -> tuple[Any, ...]:
    """Gradients, None where an input does not matter."""
    wanted = [
        (y, None if vectors is None else vectors[i])
        for i, y in enumerate(outputs)
        if y is not None and y.requires_grad
    ]
    if not wanted:
        return (None,) * len(inputs)
    return tuple(
        grad(
            [y for y, _ in wanted],
            list(inputs),
            None if vectors is None else [v for _, v in wanted],
            retain_graph=True,
            create_graph=create,
            allow_unused=True,
        )
    )


def _independent_of(i: int | str, what: str = "output") -> str:
    return f"The {what} of the user-provided function is independent of input {i}. This is not "


_MODE = "allowed in strict mode"


def _filled(
    found: Sequence[Any], like: Sequence[Any], strict: bool, create: bool, missing: str, what: str
) -> tuple[Any, ...]:
    """*found* with zeros for what is missing; *strict* refuses it, by the text *missing*.

    Recorded gradients, of *what*, must depend on the inputs too.
    """
    for i, gradient in enumerate(found if strict else ()):
        if gradient is None:
            raise RuntimeError(missing.format(i=i))
        if create and not gradient.requires_grad:
            raise RuntimeError(_independent_of(i, what) + f"{_MODE} when create_graph=True.")
    return tuple(
        x.detach().new_zeros(x.shape) if g is None else g for g, x in zip(found, like, strict=True)
    )


def _check_gradient(gradient: Sequence[Any], strict: bool) -> None:
    """Refuse a gradient that cannot be differentiated in all inputs."""
    for i, part in enumerate(gradient if strict else ()):
        if part is None:
            raise RuntimeError(_independent_of(i) + f"{_MODE}.")
        if not part.requires_grad:
            raise RuntimeError(
                "While computing the hessian, found that the jacobian of the user-provided "
                f"function with respect to input {i} is independent of the input. This is not "
                f"{_MODE}. You should ensure that your function is twice differentiable and that "
                "the jacobian depends on the inputs (this would be violated by a linear function "
                "for example)."
            )


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
        strict: Raise when an output is not computed from the inputs, or no output from one of
            them; with *create_graph* also when the product does not depend on one.

    Returns:
        The outputs, and the product in the shapes of *inputs*.

    Source:
        torch.autograd.functional.vjp.
    """
    with enable_grad():
        several, plain = _as_tuple(inputs, "inputs", "vjp")
        xs = _fresh_inputs(plain, create_graph)
        many, ys = _outputs(func, xs, strict, "vjp")
        if v is not None:
            vectors = _vectors(v, ys, many, create_graph, "vjp")
        elif len(ys) == 1 and ys[0].numel() == 1:
            vectors = (ys[0].detach().new_ones(ys[0].shape),)
        else:
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns a single "
                "Tensor with a single element."
            )
        found = _gradients(ys, xs, vectors, create_graph)
    missing = _independent_of("{i}") + f"{_MODE}."
    products = _filled(found, xs, strict, create_graph, missing, "jacobian")
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
        strict: As for `vjp`.

    Returns:
        The outputs, and the product in the shapes of the outputs.

    Source:
        torch.autograd.functional.jvp.
    """
    with enable_grad():
        several, plain = _as_tuple(inputs, "inputs", "jvp")
        xs = _fresh_inputs(plain, create_graph)
        vectors = _vectors_like_inputs(v, xs, several, create_graph, "jvp")
        many, ys = _outputs(func, xs, strict, "jvp")
        dummies = tuple(y.detach().new_zeros(y.shape).requires_grad_() for y in ys)
        transposed = _gradients(ys, xs, dummies, True)
        for i, part in enumerate(transposed if strict else ()):
            if part is None:
                raise RuntimeError(_independent_of(i) + f"{_MODE}.")
            if not part.requires_grad:
                raise RuntimeError(
                    f"The gradient with respect to input {i} is independent of the inputs of the "
                    f"user-provided function. This is not {_MODE}."
                )
        found = _gradients(transposed, dummies, vectors, create_graph)
    missing = (
        "The gradient with respect to the input is independent of entry {i} in the grad_outputs "
        f"when using the double backward trick to compute forward mode gradients. This is not "
        f"{_MODE}."
    )
    products = _filled(found, ys, strict, create_graph, missing, "jacobian")
    outputs = _detached(_shaped(ys, many), create_graph)
    return outputs, _detached(_shaped(products, many), create_graph)


def _jacobian_of(ys: Sequence[Any], xs: Sequence[Any], create: bool, strict: bool) -> Any:
    """Per output, per input: a tensor of shape ``(*output, *input)``."""
    rows = []
    for i, y in enumerate(ys):
        columns: list[list[Any]] = [[] for _ in xs]
        for element in y.reshape(-1).unbind():
            found = _gradients([element], xs, None, create)
            for k, (x, g) in enumerate(zip(xs, found, strict=True)):
                if g is None and strict:
                    raise RuntimeError(
                        f"Output {i} of the user-provided function is independent of input {k}. "
                        f"This is not {_MODE}."
                    )
                if strict and create and not g.requires_grad:
                    raise RuntimeError(
                        _independent_of(i, "jacobian") + f"{_MODE} when create_graph=True."
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
    if create_graph:
        raise NotImplementedError(
            f"{where}: `create_graph=True` {together} Please either set `create_graph=False` "
            f"{advice}"
        )
    if strict:
        raise RuntimeError(
            f"{where}: `strict=True` {together} Please either set `strict=False` {advice}"
        )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is"
            "only implemented for `vectorize=True`."
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
    with enable_grad():
        several, plain = _as_tuple(inputs, "inputs", "jacobian")
        xs = _fresh_inputs(plain, create_graph)
        many, ys = _outputs(func, xs, strict, "jacobian")
        if strict and vectorize:
            raise RuntimeError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not "
                "supported together. Please either set `strict=False` or `vectorize=False`."
            )
        rows = _jacobian_of(ys, xs, create_graph, strict)
    rows = _detached(rows, create_graph)
    shaped = tuple(_shaped(row, several) for row in rows)
    return _shaped(shaped, many)


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

    def first(*xs: Any) -> Any:
        with enable_grad():
            # Under forward mode the inputs are dual tensors; nobody needs their gradient yet.
            leaves = tuple(x if x.requires_grad else x.requires_grad_() for x in xs)
            output = _output_of_one_element(func, leaves, strict, "hessian")
            gradient = _gradients((output.reshape(()),), leaves, None, True)
            found = _filled(gradient, leaves, False, True, "", "")
            _check_gradient(found, strict)
            return _shaped(found, several)

    return jacobian(
        first,
        inputs,
        create_graph=create_graph,
        strict=strict,
        vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )


def _hessian_product(
    func: Callable[..., Any],
    inputs: Any,
    v: Any,
    create_graph: bool,
    strict: bool,
    missing: str,
    name: str,
) -> tuple[Any, Any]:
    with enable_grad():
        several, plain = _as_tuple(inputs, "inputs", name)
        xs = _fresh_inputs(plain, create_graph)
        vectors = _vectors_like_inputs(v, xs, several, create_graph, name)
        output = _output_of_one_element(func, xs, strict, name)
        gradient = _gradients((output.reshape(()),), xs, None, True)
        _check_gradient(gradient, strict)
        found = _gradients(gradient, xs, vectors, create_graph)
    products = _filled(found, xs, strict, create_graph, missing, "hessian")
    return _detached(output, create_graph), _detached(_shaped(products, several), create_graph)


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
        strict: Raise when the gradient does not depend on one of the inputs.

    Returns:
        The output, and the product in the shapes of *inputs*.

    Source:
        torch.autograd.functional.vhp.
    """
    missing = _independent_of("{i}", "jacobian") + f"{_MODE}."
    return _hessian_product(func, inputs, v, create_graph, strict, missing, "vhp")


def hvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Compute the product of the Hessian of *func*, which returns one number, and a vector.

    The Hessian is symmetric, so this computes what `vhp` does, which says what the arguments are.

    Returns:
        The output, and the product in the shapes of *inputs*.

    Source:
        torch.autograd.functional.hvp.
    """
    missing = (
        "The hessian of the user-provided function is independent of entry {i} in the "
        f"grad_jacobian. This is not {_MODE} as it prevents from using the double backward trick "
        "to replace forward mode AD."
    )
    return _hessian_product(func, inputs, v, create_graph, strict, missing, "hvp")
