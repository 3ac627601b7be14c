"""The parameters of an operator as Python sees them: for stubs, doc strings and `inspect`."""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from codegen.spec.model import Operator
from codegen.spec.schema import Argument, Type

_STUB_TYPES = {
    "Tensor": "_TensorBase",
    "Scalar": "_Number",
    "int": "builtins.int",
    "float": "builtins.float",
    "bool": "builtins.bool",
    "str": "builtins.str",
    "ScalarType": "_DtypeLike",
    "Layout": "_layout",
    "Device": "_device | builtins.str",
    "MemoryFormat": "memory_format",
    "Generator": "Generator",
    "Storage": "UntypedStorage | TypedStorage",
}
_SHOWN_TYPES = {
    "Scalar": "Number",
    "ScalarType": "dtype",
    "Layout": "layout",
    "Device": "device | str",
    "MemoryFormat": "memory_format",
    "Storage": "UntypedStorage",
}
_REDUCTIONS = {"0": "'none'", "1": "'mean'", "2": "'sum'"}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function or method.

    Attributes:
        name: As a program writes it.
        stub_type: Its type in ``_C.pyi``.
        shown_type: Its type in a doc string.
        default: As Python writes it, ``...`` when it is no literal; None when it must be given.
        shown_default: As a doc string writes it.
        keyword_only: It stands behind the star.
        takes_all: ``*name``.
    """

    name: str
    stub_type: str
    shown_type: str
    default: str | None = None
    shown_default: str | None = None
    keyword_only: bool = False
    takes_all: bool = False

    @property
    def python_name(self) -> str:
        """The name, with an underscore behind it when it is a keyword of Python."""
        return f"{self.name}_" if keyword.iskeyword(self.name) else self.name

    def in_stub(self) -> str:
        """``alpha: _Number = 1``."""
        star = "*" if self.takes_all else ""
        tail = "" if self.default is None else f" = {self.default}"
        return f"{star}{self.python_name}: {self.stub_type}{tail}"

    def shown(self) -> str:
        """``alpha: Number = 1``."""
        star = "*" if self.takes_all else ""
        tail = "" if self.shown_default is None else f" = {self.shown_default}"
        return f"{star}{self.name}: {self.shown_type}{tail}"

    def bare(self) -> str:
        """``alpha=1``."""
        star = "*" if self.takes_all else ""
        tail = "" if self.default is None else f"={self.default}"
        return f"{star}{self.python_name}{tail}"


def stub_type(kind: Type) -> str:
    """The type as ``_C.pyi`` writes it."""
    if kind.is_list:
        if kind.base == "Tensor":
            inner = "_TensorBase | None" if kind.element_optional else "_TensorBase"
            text = f"Sequence[{inner}]"
        elif kind.base == "int":
            integers = "Sequence[builtins.int]"
            text = f"builtins.int | {integers}" if kind.size else integers
        else:
            text = "Sequence[builtins.float]"
    else:
        text = _STUB_TYPES[kind.base]
    return f"{text} | None" if kind.optional else text


def shown_type(kind: Type) -> str:
    """The type as a doc string writes it."""
    text = _SHOWN_TYPES.get(kind.base, kind.base)
    if kind.is_list:
        inner = f"{text} | None" if kind.element_optional else text
        text = f"{text} | list[{inner}]" if kind.size else f"list[{inner}]"
    return f"{text} | None" if kind.optional else text


def _defaults(argument: Argument) -> tuple[str | None, str | None]:
    """The default as a literal of Python, and as it is shown."""
    text = argument.default
    if text is None:
        return None, None
    if argument.is_reduction:
        return _REDUCTIONS[text], _REDUCTIONS[text]
    if argument.type.base == "str" and text != "None":
        text = f"'{text[1:-1]}'"
    elif text.startswith("["):
        text = text.replace(",", ", ")
    elif text.isidentifier() and text not in ("None", "True", "False"):
        return "...", text
    return text, text


def takes_all(op: Operator, argument: Argument, *, is_first: bool) -> bool:
    """The sizes of ``zeros(2, 3)``: one argument, of any number of ints."""
    kind = argument.type
    positional = [a for a in op.schema.arguments if not a.keyword_only]
    return (
        kind.base == "int"
        and kind.is_list
        and not kind.optional
        and argument is positional[-1]
        and is_first
        and argument.name in ("size", "shape", "dims", "repeats", "sizes")
    )


def parameters_of(
    op: Operator, *, is_method: bool, numbers: bool = False, with_out: bool = False
) -> list[Parameter]:
    """The parameters of one form.

    Args:
        op: The form.
        is_method: ``self`` is left out.
        numbers: Numbers may stand for its tensors behind the first.
        with_out: Whether ``out=None`` belongs to a form that is not the out= form itself.
    """
    parameters: list[Parameter] = []
    for i, argument in enumerate(op.schema.arguments):
        name = argument.name
        if argument.is_out or (is_method and name == "self"):
            continue
        name = "input" if name == "self" else name
        if not argument.keyword_only and takes_all(op, argument, is_first=not parameters):
            sizes = "builtins.int | Sequence[builtins.int]"
            parameters.append(Parameter(name, sizes, "int", takes_all=True))
            continue
        kind, shown = stub_type(argument.type), shown_type(argument.type)
        if argument.is_reduction:
            kind, shown = f"{kind} | builtins.str", "str | int"
        if numbers and i and argument.type.base == "Tensor":
            kind, shown = f"{kind} | _Number", f"{shown} | Number"
        default, shown_default = _defaults(argument)
        parameters.append(
            Parameter(name, kind, shown, default, shown_default, argument.keyword_only)
        )
    outs = [a for a in op.schema.arguments if a.is_out]
    if outs:
        kind, shown = (_several(base, len(outs)) for base in ("_TensorBase", "Tensor"))
        parameters.append(Parameter("out", kind, shown, keyword_only=True))
    elif with_out:
        kind, shown = (_several(base, len(op.schema.returns)) for base in ("_TensorBase", "Tensor"))
        parameters.append(
            Parameter("out", f"{kind} | None", f"{shown} | None", "None", "None", True)
        )
    if "factory" in op.entry.tags:
        flags = ("requires_grad",) if outs else ("requires_grad", "shared")
        parameters += [
            Parameter(flag, "builtins.bool", "bool", "False", "False", True) for flag in flags
        ]
    return parameters


def _several(kind: str, n: int) -> str:
    """The type of ``out``, which is a tuple where there are *n* results."""
    text = kind if n == 1 else f"builtins.tuple[{', '.join([kind] * n)}]"
    return text if kind.startswith("_") else text.removeprefix("builtins.")


def _by_keyword(parameters: Sequence[Parameter]) -> list[Parameter]:
    return [replace(p, keyword_only=True, takes_all=False) for p in parameters]


def other_spellings(parameters: list[Parameter]) -> Iterator[list[Parameter]]:
    """Other forms of a call: NumPy's keywords, sizes by keyword (python/call/prepare.c)."""
    names = [p.name for p in parameters]
    if parameters and parameters[0].takes_all:
        yield _by_keyword(parameters)
    keepdims = Parameter("keepdims", "builtins.bool", "bool", keyword_only=True)
    if "dim" in names:
        at = names.index("dim")
        axis = replace(parameters[at], name="axis", default=None, shown_default=None)
        also = [replace(keepdims, default="False")] if "keepdim" in names else []
        yield parameters[:at] + _by_keyword([axis, *parameters[at + 1 :]]) + also
    if "keepdim" in names:
        at = names.index("keepdim")
        yield [*parameters[:at], keepdims, *_by_keyword(parameters[at + 1 :])]


def with_star(parameters: Sequence[Parameter], texts: list[str]) -> list[str]:
    """Put the star before the keyword-only ones among the *texts* of *parameters*."""
    first = next((i for i, p in enumerate(parameters) if p.keyword_only), None)
    if first is not None and not any(p.takes_all for p in parameters):
        texts = [*texts[:first], "*", *texts[first:]]
    return texts


def merged(forms: Sequence[Sequence[Parameter]]) -> list[Parameter]:
    """One list of parameters that takes the calls of all *forms*, for `inspect.signature`.

    What some form lacks has the default None, or ``...`` where None would be refused: it need not
    be given. Where forms differ in the name of a positional parameter, ``*args`` and ``**kwargs``
    stand for what follows.
    """
    positional = [[p for p in form if not p.keyword_only] for form in forms]
    result: list[Parameter] = []
    placed: set[str] = set()
    for i in range(max(map(len, positional))):
        here = [form[i] for form in positional if len(form) > i]
        is_moved = any(p.name == here[0].name for f in positional for p in f[:i] + f[i + 1 :])
        if is_moved or any(p.name != here[0].name or p.takes_all for p in here[1:]):
            break
        result.append(_joined(here, len(forms)))
        placed.add(here[0].name)
    names = dict.fromkeys(p.name for form in forms for p in form if p.name not in placed)
    keywords = [n for n in names if all(p.keyword_only for f in forms for p in f if p.name == n)]
    rest = len(names) > len(keywords)
    for i in range(1, len(result)):  # none without a default behind one with a default
        if result[i - 1].default is not None and result[i].default is None:
            result, rest = result[:i], True
            break
    has_all = any(p.takes_all for p in result)
    if rest and not has_all:
        result.append(Parameter("args", "Any", "", takes_all=True))
    for name in keywords:
        same = [p for form in forms for p in form if p.name == name]
        result.append(_joined(same, len(forms)))
    if rest or has_all:
        result.append(Parameter("**kwargs", "Any", "", keyword_only=True))
    return result


def _joined(same: list[Parameter], n_forms: int) -> Parameter:
    """The parameter that stands for *same*, one of each form that has it."""
    first = same[0]
    is_needed = len(same) == n_forms and all(p.default is None for p in same)
    if first.takes_all or is_needed:
        return first
    nothing = "None" if first.stub_type.endswith("| None") else "..."
    default = next((p.default for p in same if p.default is not None), nothing)
    return replace(first, default=default, shown_default=default)
