"""How many floating point operations products and convolutions take, by module and operator.

A product of ``(M, K)`` and ``(K, N)`` counts ``2 M K N``. Operators without a formula count
nothing: next to these they cost little.

Source:
    torch.utils.flop_counter.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

from shmtensor._core._ops import OpOverload, OpOverloadPacket
from shmtensor._core._tensor import Tensor
from shmtensor.utils._python_dispatch import TorchDispatchMode
from shmtensor.utils.module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "flop_registry", "register_flop_formula"]

Sizes = Sequence[int]
Formula = Callable[..., int]

#: The name of an operator, without overload -> its formula.
flop_registry: dict[str, Formula] = {}


def _name(target: Any) -> str:
    if isinstance(target, OpOverload):
        return target.overloadpacket._name
    if isinstance(target, OpOverloadPacket):
        return target._name
    return str(target)


def register_flop_formula(
    targets: Any, get_raw: bool = False
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Decorate a function that says how many operations an operator takes.

    Args:
        targets: The operator, such as ``shmtensor.ops.aten.mm``, its name, or several.
        get_raw: Give the function the arguments and ``out_val``; else it gets sizes in the place of
            tensors, and ``out_shape``.
    """
    several = targets if isinstance(targets, (list, tuple)) else [targets]

    def register(function: Callable[..., int]) -> Callable[..., int]:
        formula = function if get_raw else _of_sizes(function)
        for target in several:
            flop_registry[_name(target)] = formula
        return function

    return register


def _sizes(value: Any) -> Any:
    if isinstance(value, Tensor):
        return tuple(value.shape)
    if isinstance(value, (tuple, list)):
        return type(value)(_sizes(each) for each in value)
    return value


def _of_sizes(function: Callable[..., int]) -> Formula:
    def formula(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        named = {name: _sizes(value) for name, value in kwargs.items()}
        return function(*map(_sizes, args), out_shape=_sizes(out_val), **named)

    return formula


# --- formulas ------------------------------------------------------------------------------------


@register_flop_formula("mm")
def mm_flop(a: Sizes, b: Sizes, *rest: Any, out_shape: Any = None, **options: Any) -> int:
    """Count a product of matrices."""
    return 2 * a[0] * a[1] * b[1]


@register_flop_formula(["addmm", "addmm_"])
def addmm_flop(self: Any, a: Sizes, b: Sizes, *rest: Any, **options: Any) -> int:
    """Count a product of matrices that is added."""
    return mm_flop(a, b)


@register_flop_formula("bmm")
def bmm_flop(a: Sizes, b: Sizes, *rest: Any, **options: Any) -> int:
    """Count a batch of products."""
    return a[0] * mm_flop(a[1:], b[1:])


@register_flop_formula(["baddbmm", "baddbmm_", "addbmm", "addbmm_"])
def baddbmm_flop(self: Any, a: Sizes, b: Sizes, *rest: Any, **options: Any) -> int:
    """Count a batch of products that is added."""
    return bmm_flop(a, b)


@register_flop_formula("matmul")
def matmul_flop(a: Sizes, b: Sizes, *rest: Any, out_shape: Any = None, **options: Any) -> int:
    """Count a product of any dims; with a vector it is none of matrices, and counts nothing."""
    if len(a) < 2 or len(b) < 2:
        return 0
    size: int = math.prod(out_shape)
    return 2 * size * a[-1]


@register_flop_formula("inner")
def inner_flop(a: Sizes, b: Sizes, *rest: Any, out_shape: Any = None, **options: Any) -> int:
    """Count a product along the last dims."""
    size: int = math.prod(out_shape)
    return 2 * size * a[-1] if len(a) > 1 and len(b) > 1 else 0


@register_flop_formula("tensordot")
def tensordot_flop(
    a: Sizes, b: Sizes, dims_a: Sizes, dims_b: Sizes, *rest: Any, out_shape: Any, **options: Any
) -> int:
    """Count a product along some dims."""
    size: int = math.prod(out_shape)
    return 2 * size * math.prod(a[d] for d in dims_a)


@register_flop_formula(["linalg_multi_dot", "chain_matmul"])
def multi_dot_flop(matrices: Sequence[Sizes], *rest: Any, **options: Any) -> int:
    """Count a chain of products in the cheapest order."""
    sizes = [matrix if len(matrix) > 1 else (1, *matrix) for matrix in matrices]
    edges = [*(rows for rows, _ in sizes), sizes[-1][1]]
    costs = {(i, i + 1): 0 for i in range(len(sizes))}
    for length in range(2, len(sizes) + 1):
        for start in range(len(sizes) - length + 1):
            end = start + length
            costs[start, end] = min(
                costs[start, k] + costs[k, end] + 2 * edges[start] * edges[k] * edges[end]
                for k in range(start + 1, end)
            )
    return costs[0, len(sizes)]


@register_flop_formula("linear")
def linear_flop(input: Sizes, weight: Sizes, *rest: Any, **options: Any) -> int:
    """Count a product with a transposed matrix."""
    return 2 * math.prod(input) * (weight[0] if len(weight) > 1 else 1)


def conv_flop_count(input: Sizes, weight: Sizes, output: Sizes, transposed: bool = False) -> int:
    """Count a convolution: each element of the output, or of the input of a transposed one, takes
    a product with a filter.
    """
    positions = (input if transposed else output)[2:]
    return 2 * input[0] * math.prod(positions) * math.prod(weight)


@register_flop_formula(["conv1d", "conv2d", "conv3d"])
def conv_flop(input: Sizes, weight: Sizes, *rest: Any, out_shape: Any, **options: Any) -> int:
    """Count a convolution."""
    batched = len(input) == len(weight)
    grown = (input, out_shape) if batched else ((1, *input), (1, *out_shape))
    return conv_flop_count(grown[0], weight, grown[1])


@register_flop_formula(["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"])
def conv_transpose_flop(
    input: Sizes, weight: Sizes, *rest: Any, out_shape: Any, **options: Any
) -> int:
    """Count a transposed convolution."""
    grown = input if len(input) == len(weight) else (1, *input)
    return conv_flop_count(grown, weight, out_shape, True)


@register_flop_formula(["convolution", "_convolution"])
def convolution_flop(
    input: Sizes,
    weight: Sizes,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    *rest: Any,
    out_shape: Any,
    **options: Any,
) -> int:
    """Count a convolution of either kind."""
    return conv_flop_count(input, weight, out_shape, transposed)


@register_flop_formula(["convolution_backward", "_conv_backward"])
def convolution_backward_flop(
    grad: Sizes, input: Sizes, weight: Sizes, *rest: Any, out_shape: Any, **options: Any
) -> int:
    """Count the gradients of a convolution: a convolution each for the input's and the weight's."""
    transposed = next((each for each in rest if isinstance(each, bool)), False)
    each = conv_flop_count(input, weight, grad, transposed)
    wanted = [shape for shape in out_shape[:2] if shape is not None]
    return each * len(wanted)


@register_flop_formula("scaled_dot_product_attention")
def sdpa_flop(query: Sizes, key: Sizes, value: Sizes, *rest: Any, **options: Any) -> int:
    """Count attention: the product of queries and keys, and that with the values."""
    *batch, length, width = query
    return 2 * math.prod(batch) * length * key[-2] * (width + value[-1])


@register_flop_formula("_scaled_dot_product_flash_attention_for_cpu_backward")
def sdpa_backward_flop(
    grad: Sizes, query: Sizes, key: Sizes, value: Sizes, *rest: Any, **options: Any
) -> int:
    """Count the gradients of attention: five products, the weights' own among them."""
    *batch, length, width = query
    return 2 * math.prod(batch) * length * key[-2] * (3 * width + 2 * value[-1])


@register_flop_formula("_mm_mat1_backward")
def mat1_backward_flop(grad: Sizes, mat2: Sizes, *rest: Any, **options: Any) -> int:
    """Count the gradient of a product's first matrix."""
    return 2 * math.prod(grad) * mat2[0]


@register_flop_formula("_mm_mat2_backward")
def mat2_backward_flop(grad: Sizes, mat1: Sizes, *rest: Any, **options: Any) -> int:
    """Count the gradient of a product's second matrix."""
    return 2 * math.prod(grad) * mat1[-1]


@register_flop_formula("einsum")
def einsum_flop(equation: str, operands: Any, *rest: Any, **options: Any) -> int:
    """Count an einsum of two operands as one product; of more, one after another."""
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    if "..." in equation or len(terms) != len(operands):
        return 0
    sizes = {
        label: size
        for term, shape in zip(terms, operands, strict=True)
        for label, size in zip(term, shape, strict=True)
    }
    result = equation.replace(" ", "").partition("->")[2]
    total, left = 0, set(terms[0])
    for at in range(1, len(terms)):
        both = left | set(terms[at])
        total += 2 * math.prod(sizes[label] for label in both)
        later = set(result).union(*map(set, terms[at + 1 :]))
        left = both & later
    return total


# --- counting ------------------------------------------------------------------------------------


class _Counter(TorchDispatchMode):
    def __init__(self, owner: FlopCounterMode) -> None:
        self._owner = owner

    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self._owner._count(func, args, kwargs, result)
        return result


class FlopCounterMode:
    """A context that counts the floating point operations of what runs in it.

    Args:
        mods: Accepted; every module is counted by its name.
        depth: How many levels of modules the table shows.
        display: Print the table at the end.
        custom_mapping: More formulas, by operator; as `register_flop_formula` takes them.

    Examples:
        >>> with FlopCounterMode(display=False) as counter:
        ...     model(inputs).sum().backward()
        >>> counter.get_total_flops()  # doctest: +SKIP

    Source:
        torch.utils.flop_counter.FlopCounterMode.
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.depth = depth
        self.display = display
        self.mod_tracker = ModuleTracker()
        self._formulas = dict(flop_registry)
        for target, function in (custom_mapping or {}).items():
            raw = getattr(function, "_get_raw", False)
            self._formulas[_name(target)] = function if raw else _of_sizes(function)
        self._mode = _Counter(self)

    def _count(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        name = _name(func)
        formula = self._formulas.get(name)
        if formula is None:
            return
        flops = formula(*args, **kwargs, out_val=result)
        if not flops:
            return
        for module in self.mod_tracker.parents:
            self.flop_counts[module][func.overloadpacket] += flops

    def get_total_flops(self) -> int:
        """Return the operations of all that ran."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Return the operations by module, ``"Global"`` for all, and by operator."""
        return {module: dict(counts) for module, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Return the counts as a table.

        Args:
            depth: How many levels of modules; that of the context when left out.
        """
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        modules = sorted(
            name for name in self.flop_counts if name != "Global" and name.count(".") < depth
        )
        # One module that has all says it as well as a line for the whole.
        if not modules or total != sum(
            sum(self.flop_counts[name].values()) for name in modules if "." not in name
        ):
            modules = ["Global", *modules]
        rows = []
        for module in modules:
            counts = self.flop_counts[module]
            rows.append((module, *_shown(sum(counts.values()), total)))
            rows += [(f"- {_shown_name(op)}", *_shown(n, total)) for op, n in counts.items()]
        return _table(("Module", "FLOP", "% Total"), rows)

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self._mode.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._mode.__exit__(exc_type, exc, trace)
        self.mod_tracker.__exit__(exc_type, exc, trace)
        if self.display:
            print(self.get_table())


def _shown_name(op: Any) -> str:
    return f"aten.{_name(op)}" if "::" not in _name(op) else _name(op).replace("::", ".")


def _shown(n: int, total: int) -> tuple[str, str]:
    """A number in the thousands of the total, and its share of that."""
    if not total:
        return str(n), "0%"
    suffixes = ("", "K", "M", "B", "T", "P")
    power = 0
    while total >= 1000 ** (power + 1) and power < len(suffixes) - 1:
        power += 1
    text = str(n) if power == 0 else f"{n / 1000**power:.3f}{suffixes[power]}"
    return text, f"{n / total:.2%}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rows = list(rows)
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    widths = [widths[0], *(width + 2 for width in widths[1:])]
    aligned = [
        "  ".join(
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (head, *rows)
    ]
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([aligned[0], rule, *aligned[1:]])
