"""What `__torch_function__` gets is what torch gives it: the same calls are made in both.

The calls are those of torch's own table, and of what it has no entry for: operators with all kinds
of operands, accesses, items, conversions. That every function asks at all, without torch as well,
is in test_override_table.py.
"""

from __future__ import annotations

import contextlib
import inspect
import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import shmtensor
from shmtensor import distributed

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")

#: Entries of torch's table that get something else here, and why.
DIFFERENT = {
    **dict.fromkeys(
        ["torch.addmm", "torch.baddbmm", "torch.bmm"],
        "out_dtype is no argument here: torch has it for GPUs",
    ),
    **dict.fromkeys(
        ["torch.split_copy", "torch.split_with_sizes_copy", "torch.unbind_copy"],
        "the same function, found in the module functional first",
    ),
    **dict.fromkeys(
        [
            f"torch.Tensor.__r{name}__"
            for name in (
                "add and floordiv lshift matmul mod mul or pow rshift sub truediv xor".split()
            )
        ],
        "called with a tensor it is Python's own method around `other + self`; x + y is the same",
    ),
}


# --- calls, and what they hand over --------------------------------------------------------------

Handed = tuple[str, str, str, tuple[str, ...]]


class Library:
    """One of the two, with classes that note what they get."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.calls: list[tuple[Any, Any, Any, Any]] = []

        def note(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> int:
            self.calls.append((func, types, args, kwargs))
            return 7

        asked = {"__torch_function__": classmethod(note)}
        self.duck = type("Duck", (), asked)
        self.sub = type("Sub", (library.Tensor,), asked)
        self.other = type("Other", (library.Tensor,), asked)

    def values(self) -> dict[str, Any]:
        ones = self.library.ones
        return {
            "plain": ones(5),
            "sub": ones(5).as_subclass(self.sub),
            "other": ones(5).as_subclass(self.other),
            "child": ones(5).as_subclass(type("Child", (self.sub,), {})),
            "one": self.library.tensor(1).as_subclass(self.sub),
            "positions": self.library.tensor([0, 1]).as_subclass(self.sub),
            "duck": self.duck(),
            "number": 3,
            "text": "a",
            "nothing": None,
        }

    def handed_over(self, call: Callable[[Any, dict[str, Any]], Any]) -> list[Handed]:
        """What is handed over, in order, in texts that both libraries share."""
        values = self.values()
        self.calls.clear()
        with contextlib.suppress(
            Exception
        ):  # answers are no tensors, so that many calls go on to fail
            call(self.library, values)
        handed = [
            (
                self._name(func),
                self._text(tuple(args), values),
                self._text(dict(kwargs or {}), values),
                tuple(kind.__name__ for kind in types),
            )
            for func, types, args, kwargs in self.calls
        ]
        self.calls.clear()  # what they hold is not to outlive the test
        return handed

    def _name(self, func: Any) -> str:
        name = self.library.overrides.resolve_name(func) or getattr(func, "__name__", str(func))
        return str(name).replace("shmtensor", "torch")

    def _text(self, value: Any, values: dict[str, Any]) -> str:
        for name, known in values.items():
            if known is value and known is not None:
                return name
        if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
            inside = ", ".join(self._text(item, values) for item in value)
            return f"[{inside}]" if isinstance(value, list) else f"({inside})"
        if isinstance(value, dict):
            pairs = sorted((key, self._text(item, values)) for key, item in value.items())
            return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
        if isinstance(value, self.library.Tensor):
            return "tensor"
        if type(value) in (self.duck, self.sub):
            return type(value).__name__
        if "RedOpType" in repr(value):
            return "operation"
        if callable(value):
            return "callable"
        return repr(value).replace("shmtensor", "torch")


BOTH = [Library(shmtensor), Library(torch)]


def both(call: Callable[[Any, dict[str, Any]], Any]) -> tuple[list[Handed], list[Handed]]:
    ours, theirs = (library.handed_over(call) for library in BOTH)
    return ours, theirs


# --- the table -----------------------------------------------------------------------------------

VALUES: dict[str, Any] = {
    "Scalar": 3.5,
    "bool": False,
    "Dimname": "a",
    "DimnameList": ["a"],
    "SymInt": 0,
    "double": 1.0,
    "ArrayRef<double>": [1.0, 1.0],
    **dict.fromkeys(["Generator", "MemoryFormat", "TensorOptions", "Layout", "Device"]),
}
LISTS = ("TensorList", "ITensorListRef", "c10::List<::std::optional<Tensor>>")


class Asked:
    """Stands for an object that answers, of the library that is called."""


def argument_of(parameter: dict[str, Any]) -> Any:
    """An argument for a parameter of an operator of torch's, of its type."""
    kind = parameter["simple_type"].removesuffix("?")
    if kind == "Tensor":
        return Asked()
    if kind in LISTS:
        return [Asked(), Asked()]
    if kind in ("IntArrayRef", "SymIntArrayRef"):
        size = parameter.get("size", 2)
        return 1 if size == 1 else [1] * size
    if kind == "ScalarType":
        return "float32"
    if kind.startswith(("int", "float")):
        return 0 if kind.startswith("int") else 1.0
    return "" if "string" in kind else VALUES[kind]


def calls_of(name: str, function: Any, stand_in: Any) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Arguments for a function of torch's table: as its operator has them, or its stand-in."""
    from torch.testing._internal.generated.annotated_fn_args import annotated_args

    known = annotated_args.get(function)
    by_name = {"upper": True} if "linalg_solve_triangular" in function.__name__ else {}
    if known is not None:
        named = {p["name"]: argument_of(p) for p in known if p.get("is_kwarg_only") == "True"}
        yield [argument_of(p) for p in known if p.get("is_kwarg_only") != "True"], by_name | named
        return
    parameters = inspect.getfullargspec(stand_in)
    defaults = parameters.defaults or ()
    n = len(parameters.args) - len(defaults)
    needed = [Asked() for _ in range(n)] + [Asked(), Asked()] * bool(parameters.varargs)
    yield needed, by_name
    is_operator = ".__" in name or parameters.varargs
    by_default = dict(zip(parameters.args[n:], defaults, strict=True))
    plain = {k: v for k, v in by_default.items() if v is None or isinstance(v, int | float | str)}
    if plain and not is_operator:
        yield needed, plain


def table_entries() -> dict[str, tuple[Any, Any]]:
    entries = {}
    for function, stand_in in torch.overrides.get_testing_overrides().items():
        name = torch.overrides.resolve_name(function)
        if name is not None:
            entries[name] = (function, stand_in)
    return entries


def of_library(name: str, library: Any) -> Any:
    found = library
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found


def call_with(name: str, args: list[Any], kwargs: dict[str, Any]) -> Callable[..., Any]:
    is_method = name.startswith("torch.Tensor.")

    def call(library: Any, values: dict[str, Any]) -> Any:
        made: list[Any] = []

        def real(value: Any) -> Any:
            if isinstance(value, list):
                return [real(item) for item in value]
            if value == "float32":
                return library.float32
            if not isinstance(value, Asked):
                return value
            made.append(values["sub"] if is_method and not made else values["duck"])
            if is_method:
                made[-1] = library.ones(5).as_subclass(type(values["sub"]))
                values[f"argument {len(made)}"] = made[-1]
            return made[-1]

        return of_library(name, library)(
            *[real(value) for value in args], **{key: real(value) for key, value in kwargs.items()}
        )

    return call


@pytest.mark.check
def test_table_of_torch_is_handed_over_as_in_torch() -> None:
    different, compared = {}, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (function, stand_in) in table_entries().items():
            try:
                of_library(name, shmtensor)
            except AttributeError:
                continue  # namespaces.md says what is not here
            for args, kwargs in calls_of(name, function, stand_in):
                ours, theirs = both(call_with(name, args, kwargs))
                compared += 1
                if theirs and ours[:1] != theirs[:1]:
                    different[name] = (ours[:1], theirs[:1])
    assert compared > 1300
    assert {name: what for name, what in different.items() if name not in DIFFERENT} == {}
    assert set(DIFFERENT) == set(different)


# --- operators -----------------------------------------------------------------------------------

OPERATORS = """
    add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift eq ne lt le gt ge
    iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor ilshift irshift
""".split()
OPERANDS = ["plain", "sub", "other", "child", "duck", "number", "text", "nothing"]
TENSORS = {"plain", "sub", "other", "child"}
ANSWERING = {"sub", "other", "child", "duck"}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_hand_over_as_in_torch(name: str) -> None:
    function = getattr(operator, name)
    for x in OPERANDS:
        for y in OPERANDS:
            if {x, y} & TENSORS and {x, y} & ANSWERING:
                ours, theirs = both(lambda _, v, pair=(x, y): function(*map(v.get, pair)))
                assert ours == theirs, (x, y)


@pytest.mark.parametrize("name", ["add", "sub", "pow", "matmul", "iadd", "isub", "ipow", "imul"])
@pytest.mark.parametrize("operand", ["text", "nothing", "list"])
@pytest.mark.parametrize("tensor", ["plain", "sub"])
def test_operators_refuse_what_is_no_operand(name: str, operand: str, tensor: str) -> None:
    symbol = {"add": r"\+", "sub": "-", "pow": r"\*\*", "matmul": "@", "mul": r"\*"}
    sign = symbol[name.removeprefix("i")] + "=" * name.startswith("i")
    values = {"list": [1.0], **BOTH[0].values()}
    if tensor == "sub":  # of a class that leaves its calls as they are
        values["sub"] = shmtensor.ones(5).as_subclass(type("Sub", (shmtensor.Tensor,), {}))
    with pytest.raises(TypeError, match=rf"^unsupported operand type\(s\) for {sign}.*: '"):
        getattr(operator, name)(values[tensor], values[operand])


def test_in_place_addition_leaves_the_rest_to_the_other_operand() -> None:
    class Adds:
        def __radd__(self, other: Any) -> str:
            return "added"

    class Own(shmtensor.Tensor):
        def __add__(self, other: Any) -> str:  # type: ignore[override]
            return "own"

    assert operator.iadd(shmtensor.ones(2), Adds()) == "added"
    assert operator.iadd(shmtensor.ones(2).as_subclass(Own), "text") == "own"


# --- the rest ------------------------------------------------------------------------------------

CALLS = """
    m.alpha_dropout(input=duck, p=0.5, train=False)
    m.feature_alpha_dropout(duck, 0.5, True)
    m.rrelu(duck, training=True, generator=None)
    m.native_channel_shuffle(duck, 2)
    m.nn.functional.channel_shuffle(duck, 2)
    m.nn.functional.pad(sub, (1, 2))
    m.nn.functional.pad(sub, (1, 2), value=1.0)
    m.nn.functional.l1_loss(sub, plain)
    m.nn.functional.dropout(plain, duck)
    m.nn.functional.softmax(plain, duck)
    m.nn.functional.layer_norm(plain, duck)
    m.nn.init.uniform_(plain, duck)
    m.split(sub, 2)
    m.split(sub, 2, 0)
    m.split(sub, [2, 3], dim=0)
    sub.split(2)
    sub.split([2, 3], dim=-1)
    sub.stft(4, hop_length=1)
    sub.stft(4, 1, 4)
    sub.istft(4, 1)
    sub.is_pinned()
    sub.dim_order()
    sub.__array__()
    sub.__array__("float64")
    dir(sub)
    m.unravel_index(sub, (2, 3))
    m.chain_matmul(sub, plain)
    m.result_type(sub, 1)
    m.result_type(plain, sub)
    m.functional.norm(sub, 2, 0)
    m.ones(1).expand(one)
    m.ones(1).expand(2, one)
    m.ones(1).reshape([one, 1])
    m.ones(3, 2).permute(one, 0)
    m.ones(3, 2).repeat(one, 2)
    m.ones(3, 2).chunk(one)
    m.ones(3, 2).softmax(one)
    sub[0]
    sub[one]
    plain[positions]
    plain[duck]
    plain[(0, duck)]
    plain[one:]
    operator.setitem(plain, 0, sub)
    operator.setitem(plain, positions, 1)
    operator.setitem(sub, None, plain)
    setattr(plain, "data", sub)
    setattr(sub, "grad", None)
    setattr(sub, "requires_grad", True)
    m.cat([plain, sub])
    m.stack((sub, plain))
    m.cat([plain], out=sub)
    m.max(m.ones(2, 2), 0, out=(sub, positions))
    m.add(plain, 1, alpha=one)
    m.clamp(plain, one)
    plain.fill_(one)
    m.full((2,), one)
    m.tensordot(sub, plain, dims=([0], [0]))
    m.einsum("i,i", sub, plain)
    m.meshgrid(sub, plain, indexing="ij")
    m.cartesian_prod(sub, plain)
    m.block_diag(sub, plain)
    1 in sub
    one + 0 if one else 1
    int(one)
    float(one)
    f"{one}"
    range(one)
    [1, 2, 3][one]
    sub.backward(None, True)
    sub.register_hook(len)
    sub.is_shared()
    sub.__dlpack__(stream=None)
    sub.new_tensor([1])
    sub.type()
    sub.tolist()
    sub.numpy()
    sub.norm(2, 0)
    sub.unique(True)
"""


@pytest.mark.parametrize("call", [line.strip() for line in CALLS.strip().splitlines()])
def test_call_hands_over_as_in_torch(call: str) -> None:
    ours, theirs = both(
        lambda library, values: eval(call, {"operator": operator, "m": library, **values})
    )
    assert ours == theirs


COLLECTIVES = """
    broadcast all_reduce reduce all_reduce_coalesced all_gather gather scatter reduce_scatter
    all_to_all_single all_to_all isend irecv send recv
""".split()


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_hand_over_as_in_torch(name: str) -> None:
    from torch import distributed as collectives_of_torch

    assert distributed is not None
    function = getattr(collectives_of_torch, name)
    parameters = inspect.signature(function).parameters.values()
    n = sum(parameter.default is parameter.empty for parameter in parameters)
    ours, theirs = both(
        lambda library, values: getattr(library.distributed, name)(*[values["duck"]] * n)
    )
    assert len(ours) == 1
    assert ours[0][1:] == theirs[0][1:]
    assert ours[0][0].rpartition(".")[2] == name


def test_arguments_beyond_torch_are_handed_over_when_given() -> None:
    ours = BOTH[0]
    weighted = ours.handed_over(
        lambda m, v: m.nn.functional.l1_loss(v["sub"], v["plain"], weight=v["plain"])
    )
    assert "weight: plain" in weighted[0][2]
    checked = ours.handed_over(lambda _, v: v["sub"].dim_order(ambiguity_check=True))
    assert checked[0][2] == "{ambiguity_check: True}"
    copied = ours.handed_over(lambda _, v: v["sub"].__array__(copy=True))
    assert "copy: True" in copied[0][2]
