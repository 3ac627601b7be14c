"""Derivatives and second derivatives against central differences along random directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from ops.spec import kinds
from ops.spec.arguments import Case, T, arguments, seed_of, tensor
from ops.spec.cases import called, cases
from ops.spec.entries import REFUSALS, call, flat, outs_of

import shmtensor as st
from codegen.spec.model import OperatorEntry

STEP = 1e-6
TOLERANCE = 2e-5


class Problem:
    """One case as a function of its differentiable tensors."""

    def __init__(self, entry: OperatorEntry, one: Case, dtype: str) -> None:
        self.entry, self.one, self.dtype = entry, one, dtype
        self.places: list[int] = []
        self.values: list[np.ndarray] = []
        self.shaped: list[str] = []
        names = _names_of_tensors(entry, one)

        def look(a: T, i: int) -> None:
            differentiable = a.dtype_for(dtype) in ("float64", "complex128")
            if differentiable and _has_gradient(entry, names[i]):
                self.places.append(i)
                self.values.append(a.values(dtype, seed_of(entry.name, i)))
                self.shaped.append(a.shaped.__name__ if a.shaped else "")

        one.map(look)

    def inputs(self, values: Sequence[np.ndarray]) -> list[Any]:
        """Leaves with these values."""
        return [tensor(v, str(v.dtype)).requires_grad_() for v in values]

    def arguments(self, inputs: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        """What the operator is called with when its differentiable tensors are these."""
        given = dict(zip(self.places, inputs, strict=True))

        def place(a: T, i: int) -> Any:
            if i in given:
                return given[i]
            return tensor(
                a.values(self.dtype, seed_of(self.entry.name, i)), a.dtype_for(self.dtype)
            )

        args, kwargs = self.one.map(place)
        return arguments(self.entry.name, Case(tuple(args), kwargs), self.dtype)

    def outputs(self, inputs: list[Any]) -> list[Any]:
        """The differentiable results."""
        # Operators that write into an argument get a copy that has a history.
        written = bool(self.entry.schema.written)
        args, named = self.arguments([x.clone() for x in inputs] if written else inputs)
        result = flat(call(self.entry, args, {**named, **outs_of(self.entry)}))
        some = kinds.RESULTS.get(self.entry.name)
        if self.dtype == "complex128":
            some = kinds.COMPLEX_RESULTS.get(self.entry.name, some)
        if some is not None:
            result = [result[k] for k in some]
        return [t for t in result if isinstance(t, st.Tensor) and t.requires_grad]

    def direction(self, k: int, rng: np.random.Generator) -> np.ndarray:
        """A random change of value *k* that stays in the operator's domain."""
        shape, kind = self.values[k].shape, self.values[k].dtype.kind
        made = rng.normal(size=shape)
        if kind == "c":
            made = made + 1j * rng.normal(size=shape)
        if self.shaped[k] in kinds.SYMMETRIC:
            return (made + np.conj(np.swapaxes(made, -1, -2))) / 2
        if self.shaped[k] in kinds.TRIANGULAR:
            half = np.tril(made, -1) if self.shaped[k] == "_lower" else np.triu(made, 1)
            return half + np.diag(np.diag(made).real)  # a Cholesky factor's diagonal is real
        return made


def _names_of_tensors(entry: OperatorEntry, one: Case) -> list[str]:
    found: list[str] = []
    names = [a.name for a in entry.schema.arguments]
    for name, value in [*zip(names, one.args, strict=False), *one.kwargs.items()]:
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, T):
                found.append(name)
    return found


def _has_gradient(entry: OperatorEntry, argument: str) -> bool:
    if argument in kinds.NO_GRADIENT.get(entry.name, ()):
        return False
    given = {name for derivative in entry.derivatives for name in derivative.arguments}
    return not entry.derivatives or argument in given


def _array(t: Any) -> np.ndarray:
    return np.array(t.detach().resolve_conj().resolve_neg().numpy())


def _product(weights: list[np.ndarray], values: list[Any]) -> float:
    return float(sum(np.real(np.vdot(w, _array(v))) for w, v in zip(weights, values, strict=True)))


def _weights(values: list[Any], rng: np.random.Generator) -> list[np.ndarray]:
    made = []
    for v in values:
        w = rng.normal(size=tuple(v.shape))
        made.append(w + 1j * rng.normal(size=w.shape) if v.is_complex() else w)
    return made


def _tensors(weights: list[np.ndarray], like: list[Any]) -> list[Any]:
    return [tensor(w, str(t.dtype).rpartition(".")[2]) for w, t in zip(weights, like, strict=True)]


def _gradients(
    problem: Problem, inputs: list[Any], weights: list[np.ndarray], *, graph: bool = False
) -> list[Any]:
    outputs = problem.outputs(inputs)
    grads = st.autograd.grad(
        outputs, inputs, _tensors(weights, outputs), create_graph=graph, allow_unused=True
    )
    return [st.zeros_like(x) if g is None else g for g, x in zip(grads, inputs, strict=True)]


def _moved(problem: Problem, steps: list[np.ndarray], by: float) -> list[Any]:
    return problem.inputs([v + by * s for v, s in zip(problem.values, steps, strict=True)])


def _agree(found: float, expected: float, scale: float, what: str) -> None:
    assert abs(found - expected) <= TOLERANCE * max(scale, abs(expected), 1.0), (
        f"{what}: {found} by the derivative, {expected} by differences"
    )


def check_first(problem: Problem, rng: np.random.Generator) -> list[np.ndarray] | None:
    """Compare the first derivative; gives the weights of the outputs, None without derivative."""
    inputs = problem.inputs(problem.values)
    outputs = problem.outputs(inputs) if inputs else []
    if not outputs:
        return None
    weights = _weights(outputs, rng)
    grads = _gradients(problem, inputs, weights)
    for k in range(len(inputs)):
        steps = [np.zeros_like(v) for v in problem.values]
        steps[k] = problem.direction(k, rng)
        high = _product(weights, problem.outputs(_moved(problem, steps, STEP)))
        low = _product(weights, problem.outputs(_moved(problem, steps, -STEP)))
        found = _product([steps[k]], [grads[k]])
        _agree(found, (high - low) / (2 * STEP), abs(high) * 1e-3, f"argument {k}")
    return weights


def check_second(problem: Problem, weights: list[np.ndarray], rng: np.random.Generator) -> None:
    """Compare the derivative of the gradient."""
    inputs = problem.inputs(problem.values)
    grads = _gradients(problem, inputs, weights, graph=True)
    if not any(g.requires_grad for g in grads):
        return
    kept = [g for g in grads if g.requires_grad]
    chosen = [g.requires_grad for g in grads]
    second = _weights(kept, rng)
    found = st.autograd.grad(kept, inputs, _tensors(second, kept), allow_unused=True)
    steps = [problem.direction(k, rng) for k in range(len(inputs))]

    def at(by: float) -> float:
        moved = _gradients(problem, _moved(problem, steps, by), weights)
        return _product(second, [g for g, c in zip(moved, chosen, strict=True) if c])

    high, low = at(STEP), at(-STEP)
    total = sum(_product([s], [g]) for s, g in zip(steps, found, strict=True) if g is not None)
    _agree(float(total), (high - low) / (2 * STEP), abs(high) * 1e-3, "second derivative")


def _is_differentiable(entry: OperatorEntry) -> bool:
    if "nondifferentiable" in entry.tags or any(a.is_out for a in entry.schema.arguments):
        return False
    if (
        "random" in entry.tags
        or entry.name in kinds.UNDEFINED
        or entry.name in kinds.NO_DIFFERENCES
    ):
        return False  # the gradient is of the numbers drawn, or there is none
    return bool(entry.derivatives) or entry.composite is not None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "entry", [e for e in called() if _is_differentiable(e)], ids=lambda e: e.name
)
def test_gradient(entry: OperatorEntry) -> None:
    recorded = False
    # What only derivatives call gets complex numbers from those.
    dtypes = ("float64", "complex128") if entry.variants else ("float64",)
    for one in cases(entry)[: kinds.GRADIENT_CASES.get(entry.name)]:
        for dtype in dtypes:
            rng = np.random.default_rng(seed_of(entry.name, 99))
            try:
                problem = Problem(entry, one, dtype)
                problem.outputs(problem.inputs(problem.values))
            except REFUSALS:
                continue
            weights = check_first(problem, rng)
            recorded = recorded or weights is not None
            # The others' raises: tests/autograd/test_constant_gradients.py.
            has_second = entry.double_backward in ("", "zero")
            if weights is not None and has_second:
                check_second(problem, weights, rng)
    assert recorded or not entry.derivatives, "nothing was recorded"


def _records_nothing(entry: OperatorEntry) -> bool:
    return "nondifferentiable" in entry.tags and not entry.schema.written


@pytest.mark.parametrize(
    "entry", [e for e in called() if _records_nothing(e)], ids=lambda e: e.name
)
def test_nondifferentiable(entry: OperatorEntry) -> None:
    for one in cases(entry):
        args, kwargs = arguments(entry.name, one, "float64")
        leaves = [a.requires_grad_() for a in args if _is_floating(a)]
        try:
            results = flat(call(entry, args, kwargs))
        except REFUSALS:
            continue
        made = [r for r in results if not any(r is leaf for leaf in leaves)]
        assert not any(isinstance(r, st.Tensor) and r.requires_grad for r in made), one


def _is_floating(a: Any) -> bool:
    return isinstance(a, st.Tensor) and a.is_floating_point() and a.is_leaf
