"""``shmtensor/_C.pyi``: the types of everything generated, for type checkers and editors."""

from __future__ import annotations

import keyword
from collections.abc import Iterable

from codegen.emit.emitter import Emitter
from codegen.emit.parameters import other_spellings, parameters_of, stub_type, with_star
from codegen.emit.python import PythonName, PythonTables, result_fields
from codegen.emit.stub_base import HEAD, METHODS_IN_C, functions, tensor_members
from codegen.spec.model import Operator
from codegen.spec.schema import Type


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
        stub_type(kind).replace(" | builtins.str", "") if kind.base == "Device" else stub_type(kind)
    )


def _lacks_numbers(name: PythonName) -> bool:
    """Numbers have an overload, which has no out= form: there they stand for a tensor."""
    numbers = [op.form for op in name.operators if "Scalar" in op.schema.overload]
    return bool(numbers) and "out" not in numbers


def _function(name: PythonName, indent: str) -> str:
    if keyword.iskeyword(name.name):
        return ""
    plain: list[str] = []
    others: list[str] = []
    lacks_numbers = _lacks_numbers(name)
    for op in name.operators:
        numbers = lacks_numbers and op.form == "out"
        parameters = parameters_of(op, is_method=name.is_method, numbers=numbers)
        result = _result(op, is_method=name.is_method)
        for lines, spelling in (
            (plain, parameters),
            *((others, other) for other in other_spellings(parameters)),
        ):
            parts = with_star(spelling, [p.in_stub() for p in spelling])
            parts = (["self"] if name.is_method else []) + parts
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
