"""``shmtensor/_C.pyi``: the types of everything generated, for type checkers and editors."""

from __future__ import annotations

import keyword

from codegen.emit import Emitter
from codegen.model import Operator
from codegen.python import PythonName, PythonTables, result_fields
from codegen.schema import Argument, Type
from codegen.stub_base import HEAD, functions, tensor_members

_PLAIN = {
    "Tensor": "_TensorBase",
    "Scalar": "_Number",
    "int": "builtins.int",
    "float": "builtins.float",
    "bool": "builtins.bool",
    "str": "builtins.str",
    "ScalarType": "_dtype",
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


def _default(argument: Argument) -> str:
    return "" if argument.default is None else " = ..."


def _name(text: str) -> str:
    return f"{text}_" if keyword.iskeyword(text) else text


def _parameter_type(argument: Argument) -> str:
    text = _python_type(argument.type)
    return f"{text} | builtins.str" if argument.is_reduction else text


def _parameters(op: Operator, *, is_method: bool) -> list[str]:
    parts: list[str] = []
    star = False
    for i, argument in enumerate(op.schema.arguments):
        if argument.is_out:
            continue
        name = argument.name
        if name == "self":
            if is_method:
                continue
            name = "input" if i == 0 else name
        if argument.keyword_only and not star:
            parts.append("*")
            star = True
        elif (
            argument.type.base == "int"
            and argument.type.is_list
            and not argument.type.optional
            and i == len([a for a in op.schema.arguments if not a.keyword_only]) - 1
            and all(p == "self" for p in parts)
            and name in ("size", "shape", "dims", "repeats", "sizes")
        ):
            parts.append(f"*{_name(name)}: Any")
            star = True
            continue
        parts.append(f"{_name(name)}: {_parameter_type(argument)}{_default(argument)}")
    outs = [a for a in op.schema.arguments if a.is_out]
    if outs:
        kind = (
            "_TensorBase"
            if len(outs) == 1
            else f"builtins.tuple[{', '.join(['_TensorBase'] * len(outs))}]"
        )
        parts += ([] if star else ["*"]) + [f"out: {kind}"]
        star = True
    if "factory" in op.entry.tags:
        parts += ([] if star else ["*"]) + ["requires_grad: builtins.bool = ..."]
        parts += ["shared: builtins.bool = ..."] if not outs else []
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


def _function(name: PythonName, indent: str) -> str:
    if keyword.iskeyword(name.name):
        return ""
    lines = []
    for op in name.operators:
        parts = _parameters(op, is_method=name.is_method)
        if name.is_method:
            parts.insert(0, "self")
        result = _result(op, is_method=name.is_method)
        lines.append(f"{indent}def {name.name}({', '.join(parts)}) -> {result}: ...\n")
    lines = list(dict.fromkeys(lines))
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


def emit_stubs(emitter: Emitter, tables: PythonTables) -> None:
    """Write shmtensor/_C.pyi."""
    body = HEAD.lstrip() + _named_tuples(tables)
    body += "class _TensorBase:\n" + tensor_members({n.name for n in tables.methods})
    body += "".join(_function(name, "    ") for name in tables.methods)
    body += "\n" + "".join(_function(name, "") for name in tables.functions)
    body += functions() + "\nclass _Nn:\n"
    for name in tables.nn:
        text = _function(name, "    ")
        body += text.replace("    def ", "    @staticmethod\n    def ")
    body += "    def __getattr__(self, name: builtins.str) -> Any: ...\n\n_nn: _Nn\n\n"
    body += "def __getattr__(name: builtins.str) -> Any: ...\n"
    path = emitter.root / "shmtensor" / "_C.pyi"
    emitter.python_file(path, "The extension module: tensors and operators.", "csrc/spec", body)
