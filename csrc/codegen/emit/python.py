"""Python functions and methods: one record, trampoline and PyMethodDef row per name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from codegen.emit.declarations import declared
from codegen.emit.emitter import Emitter
from codegen.spec.c_types import c_string, default_expression
from codegen.spec.model import Model, Operator, OperatorEntry

SPEC = "csrc/spec/ops"
_MODULES = ("fft", "linalg", "special")  # of the package, each over names of _C._nn
_MOST_STRAIGHT = 3  # SHMT_PY_MOST_STRAIGHT of python/call/call.h


@dataclass
class PythonName:
    """A function or method as Python sees it.

    Attributes:
        name: ``add`` or ``add_``.
        operators: Its signatures, in the order they are tried; out= forms come last.
        is_method: The first Tensor is ``self``.
    """

    name: str
    is_method: bool
    operators: list[Operator] = field(default_factory=list)


@dataclass
class PythonTables:
    """All names by where they live."""

    functions: list[PythonName]
    methods: list[PythonName]
    nn: list[PythonName]


def _order(op: Operator) -> tuple[bool, int]:
    """out= forms last, and overloads with more numbers after those with tensors in their place."""
    numbers = sum(a.type.base == "Scalar" for a in op.schema.arguments if not a.keyword_only)
    return has_out(op), numbers


def has_out(op: Operator) -> bool:
    """It is an out= form."""
    return any(a.is_out for a in op.schema.arguments)


def _collect(operators: list[Operator], *, is_method: bool) -> list[PythonName]:
    names: dict[str, PythonName] = {}
    for op in operators:
        name = names.setdefault(op.schema.name, PythonName(op.schema.name, is_method))
        name.operators.append(op)
    for python_name in names.values():
        python_name.operators.sort(key=_order)
    return sorted(names.values(), key=lambda n: n.name)


def _takes_self(op: Operator) -> bool:
    return any(a.type.is_tensor and not a.type.optional for a in op.schema.arguments[:2])


def _is_function(op: Operator, variant: str) -> bool:
    if variant not in op.entry.variants:
        return False
    if op.form != "inplace" or not op.derived:
        return True
    # As in torch: clamp_(x, 0) is a function too, add_(x, y) is not.
    return variant == "nn" or "inplace_function" in op.entry.variants


def _is_method(op: Operator) -> bool:
    if op.form == "out" or not _takes_self(op):
        return False
    if op.form == "inplace" and op.derived:
        return True
    return "method" in op.entry.variants


def python_tables(model: Model) -> PythonTables:
    """Group the operators by Python name."""
    return PythonTables(
        functions=_collect(
            [op for op in model.operators if _is_function(op, "function")], is_method=False
        ),
        methods=_collect([op for op in model.operators if _is_method(op)], is_method=True),
        nn=_collect([op for op in model.operators if _is_function(op, "nn")], is_method=False),
    )


def result_fields(op: Operator) -> str:
    """``values indices`` when every result has a name; empty otherwise."""
    names = [r.name for r in op.schema.returns]
    return " ".join(names) if len(names) > 1 and all(names) else ""


def public_name(op: Operator) -> str:
    """The name a program calls: ``linalg.svd`` for what the schema calls ``linalg_svd``."""
    name = op.schema.name
    module, _, rest = name.partition("_")
    inside = "nn" in op.entry.variants and module in _MODULES and rest
    return f"{module}.{rest}" if inside else name


def signature_text(op: Operator, *, is_method: bool, has_out: bool = False) -> str:
    """``add(input, other, *, alpha=1, out=None) -> Tensor``, for doc strings."""
    parts = []
    star = False
    for i, argument in enumerate(op.schema.arguments):
        if is_method and argument.name == "self":
            continue
        if argument.keyword_only and not star:
            parts.append("*")
            star = True
        name = "input" if argument.name == "self" and i == 0 else argument.name
        default = "" if argument.default is None else f"={argument.default}"
        parts.append(f"{name}{default}")
    flags = ["out=None"] if has_out else []
    if "factory" in op.entry.tags:
        flags += ["requires_grad=False", "shared=False"]
    if flags:
        parts += flags if star else ["*", *flags]
    fields = result_fields(op)
    returns = ", ".join(
        str(r.type).replace("(a!)", "").replace("(a)", "") for r in op.schema.returns
    )
    if len(op.schema.returns) != 1:
        returns = f"({fields.replace(' ', ', ') or returns})"
    return f"{public_name(op)}({', '.join(parts)}) -> {returns}"


def with_out(name: PythonName) -> set[str]:
    """The entries that have an out= form, by derivation or as an entry of its own."""
    entries = {op.entry.name for op in name.operators if op.form == "out"}
    own = {op.schema.overload for op in name.operators if has_out(op)}
    for op in name.operators:
        overload = op.schema.overload
        if (f"{overload}_out" if overload else "out") in own:
            entries.add(op.entry.name)
    return entries


def is_shown_by_another(name: PythonName, op: Operator) -> bool:
    """The out= form *op* is the one that another form's ``out=None`` stands for."""
    plain = (o for o in name.operators if not has_out(o))
    if op.derived:
        return any(o.entry is op.entry for o in plain)
    overloads = {f"{o.schema.overload}_out" if o.schema.overload else "out" for o in plain}
    return op.schema.overload in overloads


def _warned(names: list[PythonName]) -> dict[str, OperatorEntry]:
    """The warnings of operators: C name -> an entry that has it."""
    return {_warning(op): op.entry for n in names for op in n.operators if op.entry.warns}


def _warning(op: Operator) -> str:
    """The C name of a warning: one for all forms but out=, as in torch."""
    name = op.entry.schema.name.rstrip("_") + ("_out" if op.form == "out" else "")
    return f"shmt__py_warning_{name}"


def _warnings(tables: PythonTables) -> str:
    """What some operators warn of, once for all names that Python has for them."""
    warned = _warned([*tables.functions, *tables.methods, *tables.nn])
    return '#include "python/call/call.h"\n\n' + "".join(
        f"extern shmt__py_warning {name};\nshmt__py_warning {name} = {{{c_string(entry.warns)}, "
        f"{'true' if 'warns_always' in entry.tags else 'false'}, false}};\n"
        for name, entry in warned.items()
    )


def _deprecated(ident: str, name: PythonName) -> tuple[str, list[str]]:
    """The warnings and signature rows for the other orders of arguments, tried after all others."""
    warnings, rows = "", []
    for op in name.operators:
        for order in op.entry.deprecated:
            shown = [n for n in order if not (name.is_method and n == "self")]
            plain = op.entry.operators[0] if has_out(op) else op
            call = ", ".join("input" if n == "self" else n for n in shown)
            text = (
                f"This overload of {name.name} is deprecated: {name.name}({call}). "
                f"Use {signature_text(plain, is_method=name.is_method).partition(' ->')[0]}"
            )
            warning = f"deprecated_{ident}_{len(rows)}"
            warnings += f"static shmt__py_warning {warning} = {{{c_string(text)}, false, false}};\n"
            rows.append(f"  {{&{op.record}, false, 0, &{warning}, {c_string(' '.join(shown))}}},\n")
    return warnings, rows


def _n_required(op: Operator) -> int:
    """How many arguments a call must have, when these are its first; -1 when they are not."""
    required = [i for i, a in enumerate(op.schema.arguments) if a.default is None]
    return len(required) if required == [*range(len(required))] else -1


def _is_straight(op: Operator) -> bool:
    """Its call with tensors alone gives one tensor, and no more is to be done for it in Python."""
    n, returns = _n_required(op), op.schema.returns
    given = op.schema.arguments[: max(n, 0)]
    return (
        0 < n <= _MOST_STRAIGHT
        and all(a.type.is_tensor and not (a.type.optional or a.keyword_only) for a in given)
        and len(returns) == 1
        and returns[0].type.is_tensor
        and not returns[0].type.optional
        and "factory" not in op.entry.tags
        and not op.entry.warns
    )


def _straight(ident: str, name: PythonName) -> tuple[str, str]:
    """The C function of a call with tensors alone, its name and their number; "0, 0": none.

    That is a call of the first signature; or, where this takes several arguments, of the first one
    that takes one. A call that fits others is parsed: they come after all that are tried before.
    """
    plain = [op for op in name.operators if not has_out(op)]
    op = plain[0] if plain else None
    if op is not None and not _is_straight(op) and _n_required(op) not in (0, 1):
        op = next((o for o in plain if _n_required(o) == 1), None)
    if op is None or not _is_straight(op):
        return "", "0, 0"
    n, arguments = _n_required(op), op.schema.arguments
    order = [*range(n)]
    if name.is_method:  # which gets self first, wherever the schema has it
        order.sort(key=lambda i: arguments[i].name != "self")
    values = [f"given[{order.index(i)}]" for i in range(n)]
    values += [default_expression(a) or "0" for a in arguments[n:]]
    returned = op.schema.returned_argument(0)
    if returned is None:
        body = f"  return {op.caller}({', '.join([*values, 'out'])});\n"
    else:
        body = (
            f"  SHMT_TRY({op.caller}({', '.join(values)}));\n"
            f"  *out = shmt__tensor_ref({values[returned]});\n  return SHMT_OK;\n"
        )
    head = f"static shmt_status straight_{ident}(shmt_tensor* const* given, shmt_tensor** out) {{\n"
    return f"{head}{body}}}\n", f"straight_{ident}, {n}"


def _record(prefix: str, name: PythonName) -> str:
    ident = f"{prefix}_{name.name}"
    warnings, others = _deprecated(ident, name)
    straight, straight_row = _straight(ident, name)
    rows = ""
    for op in name.operators:
        fields = result_fields(op)
        factory = "true" if "factory" in op.entry.tags else "false"
        warning = f"&{_warning(op)}" if op.entry.warns else "0"
        rows += (
            f"  {{&{op.record}, {factory}, {c_string(fields) if fields else '0'}, {warning}, 0}},\n"
        )
    count = len(name.operators) + len(others)
    method = "true" if name.is_method else "false"
    target = "self" if name.is_method else "0"
    unused = "" if name.is_method else "  (void)self;\n"
    rows += "".join(others)
    return (
        f"{warnings}static const shmt__py_signature signatures_{ident}[] = {{\n{rows}}};\n"
        f"{straight}static shmt__py_function function_{ident} = {{\n"
        f"  {c_string(name.name)}, signatures_{ident}, {count}, {method}, {straight_row}, 0,\n"
        "};\n"
        f"static PyObject* call_{ident}(PyObject* self, PyObject* const* args, Py_ssize_t n_args,\n"
        f"    PyObject* kwnames) {{\n{unused}"
        f"  return shmt__py_call(&function_{ident}, {target}, args, n_args, kwnames);\n}}\n\n"
    )


def _table(
    model: Model,
    prefix: str,
    symbol: str,
    names: list[PythonName],
    doc_text: Callable[[PythonName], str],
) -> str:
    text = "".join(_record(prefix, name) for name in names)
    warnings = "".join(f"extern shmt__py_warning {name};\n" for name in _warned(names))
    text = f'#include "python/call/call.h"\n{declared(text, model)}{warnings}{text}'
    text += f"PyMethodDef {symbol}[] = {{\n"
    for name in names:
        text += (
            f"  {{{c_string(name.name)}, (PyCFunction)(void (*)(void))call_{prefix}_{name.name},\n"
            f"   METH_FASTCALL | METH_KEYWORDS, {c_string(doc_text(name))}}},\n"
        )
    return text + "  {0},\n};\n"


def emit_python(
    emitter: Emitter,
    model: Model,
    tables: PythonTables,
    doc_text: Callable[[PythonName], str],
) -> None:
    """Write python/functions.c, methods.c and nn.c, and warnings.c."""
    emitter.c_file("python/warnings.c", "what Python is warned of once.", SPEC, _warnings(tables))
    for stem, symbol, names in (
        ("functions", "shmt__py_functions", tables.functions),
        ("methods", "shmt__py_methods", tables.methods),
        ("nn", "shmt__py_nn_functions", tables.nn),
    ):
        emitter.c_file(
            f"python/{stem}.c",
            f"{stem} that Python sees.",
            SPEC,
            _table(model, stem, symbol, names, doc_text),
        )
