"""``shmtensor/_C.pyi``: the types of everything generated, for type checkers and editors."""

from __future__ import annotations

import keyword
from collections.abc import Iterable

from codegen.emit.emitter import Emitter
from codegen.emit.parameters import other_spellings, parameters_of, stub_type, with_star
from codegen.emit.python import (
    PythonName,
    PythonTables,
    has_out,
    is_shown_by_another,
    result_fields,
    with_out,
)
from codegen.emit.stub_base import HEAD, METHODS_IN_C, functions, tensor_members
from codegen.spec.model import Operator
from codegen.spec.schema import Type


def _result(op: Operator, *, is_method: bool) -> str:
    returns = op.schema.returns
    in_place = is_method and op.schema.name.rstrip("_") != op.schema.name
    if result_fields(op):
        return f"_result_{op.schema.name}"
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
    outs = with_out(name)
    lacks_numbers = _lacks_numbers(name)
    for op in name.operators:
        if has_out(op) and is_shown_by_another(name, op) and not lacks_numbers:
            continue
        takes_out = op.entry.name in outs
        parameters = parameters_of(
            op,
            is_method=name.is_method,
            numbers=lacks_numbers and has_out(op),
            with_out=takes_out,
        )
        result = _result(op, is_method=name.is_method)
        for lines, spelling in (
            (plain, parameters),
            *((others, other) for other in other_spellings(parameters)),
        ):
            parts = with_star(spelling, [p.in_stub() for p in spelling])
            if name.name.endswith("__"):  # operators call them, by position
                parts = [*parts, "/"]
            parts = (["self"] if name.is_method else []) + parts
            lines.append(f"{indent}def {name.name}({', '.join(parts)}) -> {result}: ...\n")
    lines = list(dict.fromkeys(plain + others))
    if len(lines) == 1:
        return lines[0]
    return "".join(f"{indent}@overload\n{line}" for line in lines)


def _result_classes(tables: PythonTables) -> str:
    """A tuple with names for each operator of several results, as `shmtensor.return_types` has."""
    classes: dict[str, str] = {}
    for name in [*tables.functions, *tables.methods, *tables.nn]:
        for op in name.operators:
            fields = result_fields(op).split()
            if not fields:
                continue
            kind = f"_result_{op.schema.name}"
            items = ", ".join(["Tensor"] * len(fields))
            text = f"@final\nclass {kind}(builtins.tuple[{items}]):\n"
            match = "".join(f'"{field}", ' for field in fields)
            text += f"    __match_args__ = ({match[:-2]})\n"
            for count in ("n_fields", "n_sequence_fields", "n_unnamed_fields"):
                text += f"    {count}: ClassVar[builtins.int]\n"
            for field in fields:
                text += f"    @property\n    def {field}(self) -> Tensor: ...\n"
            classes[kind] = text + "\n"
    return "".join(text for _, text in sorted(classes.items()))


def emit_stubs(emitter: Emitter, tables: PythonTables, dtypes: Iterable[str]) -> None:
    """Write shmtensor/_C.pyi."""
    body = HEAD.lstrip() + _result_classes(tables)
    methods = [name for name in tables.methods if name.name not in METHODS_IN_C]
    body += "@disjoint_base\nclass _TensorBase:\n" + tensor_members({n.name for n in methods})
    body += "".join(_function(name, "    ") for name in methods)
    body += "\n" + "".join(_function(name, "") for name in tables.functions)
    body += functions(dtypes) + "\nclass _Nn:\n"
    for name in tables.nn:
        text = _function(name, "    ")
        body += text.replace("    def ", "    @staticmethod\n    def ")
    body += "\n_nn: _Nn\n"
    path = emitter.root / "shmtensor" / "_C.pyi"
    emitter.python_file(path, "The extension module: tensors and operators.", "csrc/spec", body)
