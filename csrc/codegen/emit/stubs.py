"""``shmtensor/_C.pyi``: the types of everything generated, for type checkers and editors."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from codegen.emit.emitter import Emitter
from codegen.emit.python import PythonName, PythonTables, result_fields
from codegen.emit.stub_base import HEAD, METHODS_IN_C, functions, tensor_members
from codegen.spec.model import Operator
from codegen.spec.schema import Argument, Type

_PLAIN = {
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


def _python_type(kind: Type) -> str:
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
        text = _PLAIN[kind.base]
    return f"{text} | None" if kind.optional else text


@dataclass(frozen=True)
class _Parameter:
    """A parameter as a stub writes it."""

    name: str
    type: str
    has_default: bool = False
    keyword_only: bool = False
    takes_all: bool = False  # ``*name``

    def __str__(self) -> str:
        name = f"{self.name}_" if keyword.iskeyword(self.name) else self.name
        star = "*" if self.takes_all else ""
        return f"{star}{name}: {self.type}{' = ...' if self.has_default else ''}"


def _parameter_type(argument: Argument) -> str:
    text = _python_type(argument.type)
    return f"{text} | builtins.str" if argument.is_reduction else text


def _takes_all(op: Operator, argument: Argument, is_first: bool) -> bool:
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


def _parameters(op: Operator, numbers: bool, *, is_method: bool) -> list[_Parameter]:
    """The parameters of one form; *numbers* may stand for its tensors behind the first."""
    parameters: list[_Parameter] = []
    for i, argument in enumerate(op.schema.arguments):
        name = argument.name
        if argument.is_out or (is_method and name == "self"):
            continue
        name = "input" if name == "self" and i == 0 else name
        if not argument.keyword_only and _takes_all(op, argument, not parameters):
            parameters.append(_Parameter(name, "Any", takes_all=True))
            continue
        kind = _parameter_type(argument)
        if numbers and i and argument.type.base == "Tensor":
            kind += " | _Number"
        has_default = argument.default is not None
        parameters.append(_Parameter(name, kind, has_default, argument.keyword_only))
    outs = [a for a in op.schema.arguments if a.is_out]
    if outs:
        several = f"builtins.tuple[{', '.join(['_TensorBase'] * len(outs))}]"
        kind = "_TensorBase" if len(outs) == 1 else several
        parameters.append(_Parameter("out", kind, keyword_only=True))
    if "factory" in op.entry.tags:
        flags = ("requires_grad",) if outs else ("requires_grad", "shared")
        parameters += [_Parameter(flag, "builtins.bool", True, True) for flag in flags]
    return parameters


def _by_keyword(parameters: list[_Parameter]) -> list[_Parameter]:
    return [replace(p, keyword_only=True, takes_all=False) for p in parameters]


def _other_spellings(parameters: list[_Parameter]) -> Iterator[list[_Parameter]]:
    """Other forms of a call: NumPy's keywords, sizes by keyword (python/call/prepare.c)."""
    names = [p.name for p in parameters]
    if parameters and parameters[0].takes_all:
        sizes = replace(parameters[0], type="builtins.int | Sequence[builtins.int]")
        yield _by_keyword([sizes, *parameters[1:]])
    keepdims = _Parameter("keepdims", "builtins.bool", keyword_only=True)
    if "dim" in names:
        at = names.index("dim")
        axis = replace(parameters[at], name="axis", has_default=False)
        also = [replace(keepdims, has_default=True)] if "keepdim" in names else []
        yield parameters[:at] + _by_keyword([axis, *parameters[at + 1 :]]) + also
    if "keepdim" in names:
        at = names.index("keepdim")
        yield [*parameters[:at], keepdims, *_by_keyword(parameters[at + 1 :])]


def _spelled(parameters: list[_Parameter]) -> list[str]:
    """With the star that sets keyword-only ones apart."""
    parts = [str(p) for p in parameters]
    first = next((i for i, p in enumerate(parameters) if p.keyword_only), None)
    if first is not None and not any(p.takes_all for p in parameters):
        parts.insert(first, "*")
    return parts


def _result(op: Operator, *, is_method: bool) -> str:
    returns = op.schema.returns
    in_place = is_method and op.schema.name.rstrip("_") != op.schema.name
    fields = result_fields(op)
    if fields:
        return f"_{'_'.join(fields.split())}"
    if len(returns) == 1:
        return _result_type(returns[0].type, in_place=in_place)
    if not returns:
        return "None"
    inner = ", ".join(_result_type(r.type, in_place=in_place) for r in returns)
    return f"builtins.tuple[{inner}]"


def _result_type(kind: Type, *, in_place: bool) -> str:
    tensor = "Self" if in_place else "Tensor"
    if kind.base == "Tensor":
        return f"builtins.tuple[{tensor}, ...]" if kind.is_list else tensor
    if kind.base == "Scalar":
        return "_Number"
    if kind.is_list:
        return "Size" if kind.base == "int" else "builtins.list[builtins.float]"
    return (
        _python_type(kind).replace(" | builtins.str", "")
        if kind.base == "Device"
        else _python_type(kind)
    )


def _lacks_numbers(name: PythonName) -> bool:
    """Numbers have an overload, which has no out= form: there they stand for a tensor."""
    numbers = [op.form for op in name.operators if "Scalar" in op.schema.overload]
    return bool(numbers) and "out" not in numbers


def _function(name: PythonName, indent: str) -> str:
    if keyword.iskeyword(name.name):
        return ""
    plain, others = [], []
    lacks_numbers = _lacks_numbers(name)
    for op in name.operators:
        numbers = lacks_numbers and op.form == "out"
        parameters = _parameters(op, numbers, is_method=name.is_method)
        result = _result(op, is_method=name.is_method)
        for lines, spelling in (
            (plain, parameters),
            *((others, other) for other in _other_spellings(parameters)),
        ):
            parts = (["self"] if name.is_method else []) + _spelled(spelling)
            lines.append(f"{indent}def {name.name}({', '.join(parts)}) -> {result}: ...\n")
    lines = list(dict.fromkeys(plain + others))
    if len(lines) == 1:
        return lines[0]
    return "".join(f"{indent}@overload\n{line}" for line in lines)


def _named_tuples(tables: PythonTables) -> str:
    seen: dict[str, str] = {}
    for name in [*tables.functions, *tables.methods, *tables.nn]:
        for op in name.operators:
            fields = result_fields(op).split()
            if fields:
                rows = "".join(f"    {f}: Tensor\n" for f in fields)
                seen[f"_{'_'.join(fields)}"] = rows
    return "".join(f"class {k}(NamedTuple):\n{rows}\n" for k, rows in sorted(seen.items()))


def emit_stubs(emitter: Emitter, tables: PythonTables, dtypes: Iterable[str]) -> None:
    """Write shmtensor/_C.pyi."""
    body = HEAD.lstrip() + _named_tuples(tables)
    methods = [name for name in tables.methods if name.name not in METHODS_IN_C]
    body += "class _TensorBase:\n" + tensor_members({n.name for n in methods})
    body += "".join(_function(name, "    ") for name in methods)
    body += "\n" + "".join(_function(name, "") for name in tables.functions)
    body += functions(dtypes) + "\nclass _Nn:\n"
    for name in tables.nn:
        text = _function(name, "    ")
        body += text.replace("    def ", "    @staticmethod\n    def ")
    body += "    def __getattr__(self, name: builtins.str) -> Any: ...\n\n_nn: _Nn\n\n"
    body += "def __getattr__(name: builtins.str) -> Any: ...\n"
    path = emitter.root / "shmtensor" / "_C.pyi"
    emitter.python_file(path, "The extension module: tensors and operators.", "csrc/spec", body)
