"""Reading the operator spec: entries are checked, and their forms derived."""

from __future__ import annotations

import re
from pathlib import Path

from codegen.spec import schema as schemas
from codegen.spec.c_types import default_expression
from codegen.spec.errors import SpecError
from codegen.spec.loader import Entry, Text, check_order, load_entries
from codegen.spec.model import MAX_ARGUMENTS, Derivative, Model, Operator, OperatorEntry
from codegen.spec.schema import Schema, SchemaError
from codegen.spec.tables import Tables

ENTRY_KEYS = (
    "op",
    "schema",
    "variants",
    "kernel",
    "template",
    "loop",
    "dtypes",
    "promote",
    "result",
    "impl",
    "dispatch",
    "structured",
    "composite",
    "composite_explicit",
    "vjp",
    "differentiable",
    "double_backward",
    "jvp",
    "batch",
    "node",
    "tags",
    "doc",
    "args",
    "raises",
    "example",
    "source",
    "warns",
    "deprecated",
)
VARIANTS = ("function", "method", "inplace", "inplace_function", "out", "nn")
TAGS = (
    "random",
    "factory",
    "nondifferentiable",
    "inplace_only",
    "geometry",
    "exact_out",
    "real_out",
    "dense_out",
    "any_layout",
    "sparse_unary",
    "warns_always",
)
#: The keys of tensors without dense memory: ``dispatch`` for these may stand beside any source.
NOT_DENSE_KEYS = frozenset(("SparseCPU", "SparseCsrCPU", "AutogradSparse", "NoMemory"))
PROMOTIONS = ("none", "same", "arithmetic", "int_to_float", "compare", "bool_to_int")
JVP_KINDS = ("linear", "each", "elementwise", "zero", "vjps", "missing")
_KERNEL_KEYS = ("template", "loop", "dtypes", "promote", "result")
_SOURCES = ("kernel", "impl", "dispatch", "composite", "composite_explicit")


def _parse_schema(text: Text) -> Schema:
    try:
        return schemas.parse(" ".join(text.split()))
    except SchemaError as error:
        raise SpecError(text.where, str(error)) from None


def _words(entry: Entry, key: str, known: tuple[str, ...]) -> tuple[str, ...]:
    words = entry.texts(key)
    for word in words:
        if word not in known:
            raise SpecError(word.where, f"{key}: '{word}' is none of {', '.join(known)}")
    return tuple(map(str, words))


def _optional(entry: Entry, key: str) -> Text | None:
    return entry.text(key) if key in entry else None


_REFUSED = re.compile(r"refused(?: by (\w+))?: .+")


def _load_derivatives(
    entry: Entry, schema: Schema
) -> tuple[tuple[Derivative, ...], tuple[tuple[str, str], ...]]:
    """The derivatives, and the arguments that must not require a gradient with who refuses them."""
    if "vjp" not in entry:
        return (), ()
    derivatives, refused = [], []
    seen: set[str] = set()
    value = entry.mapping_or_nested("vjp")
    for key, expression in value:
        if key == "none" or isinstance(expression, Entry):
            _check_none(key, expression, schema)
            continue
        names = tuple(name.strip() for name in key.split(","))
        for name in names:
            argument = schema.argument(name)
            if argument is None or argument.type.base != "Tensor":
                raise SpecError(key.where, f"vjp: '{name}' is no Tensor argument of {schema}")
            if name in seen:
                raise SpecError(key.where, f"vjp: '{name}' has two expressions")
            seen.add(name)
        if expression == "none" or expression.startswith("none:"):
            continue
        by = _REFUSED.fullmatch(expression)
        if by is not None:
            refused += [(name, by[1] or schema.name) for name in names]
            continue
        derivatives.append(Derivative(names, expression))
    if not derivatives:
        raise SpecError(entry.where_of("vjp"), "vjp gives no expression (tag nondifferentiable?)")
    return tuple(derivatives), tuple(refused)


def _check_none(key: Text, value: Text | Entry, schema: Schema) -> None:
    if key == "none":
        return
    assert isinstance(value, Entry)
    if value.keys() != ["none"]:
        raise SpecError(value.where, f"vjp: '{key}' needs one expression, or 'none: reason'")
    if schema.argument(str(key)) is None:
        raise SpecError(key.where, f"vjp: '{key}' is no argument of {schema}")


def _check_sources(entry: Entry, name: str) -> None:
    given = [key for key in _SOURCES if key in entry]
    if not given:
        raise SpecError(entry.where, f"{name} has none of {', '.join(_SOURCES)}")
    if "dispatch" in entry and {str(key) for key, _ in entry.mapping("dispatch")} <= NOT_DENSE_KEYS:
        given.remove("dispatch")
    if len(given) > 1 and set(given) != {"impl", "dispatch"}:
        raise SpecError(entry.where, f"{name} has both '{given[0]}' and '{given[1]}'")
    if "kernel" not in entry:
        for key in _KERNEL_KEYS:
            if key in entry:
                raise SpecError(entry.where_of(key), f"'{key}' needs 'kernel'")
    for key in ("impl",):
        text = entry.text(key, "shmt_")
        if not re.fullmatch(r"[A-Za-z_]\w*", text):
            raise SpecError(text.where, f"{key}: '{text}' is no C function")


def _check_arguments(schema: Schema, where: str) -> None:
    if len(schema.arguments) > MAX_ARGUMENTS:
        raise SpecError(where, f"{len(schema.arguments)} arguments; at most {MAX_ARGUMENTS}")
    for argument in schema.arguments:
        try:
            default_expression(argument)
        except ValueError as error:
            raise SpecError(where, f"argument '{argument.name}': {error}") from None
    for result in schema.returns:
        alias = result.type.alias
        marks = [a.type.alias for a in schema.arguments if a.type.alias]
        if alias and not any(m.name == alias.name or m.to_any for m in marks):
            raise SpecError(where, f"result mark {alias} is on no argument")


def _load_differentiable(entry: Entry, schema: Schema) -> tuple[str, ...]:
    """The names of the results that have gradients; empty when all do."""
    if "differentiable" not in entry:
        return ()
    where = entry.where_of("differentiable")
    if "vjp" not in entry:
        raise SpecError(where, "differentiable: only with vjp")
    return _words(entry, "differentiable", tuple(str(r.name) for r in schema.returns))


def _load_double_backward(
    entry: Entry, derivatives: tuple[Derivative, ...]
) -> tuple[str, Derivative | None]:
    """What a second derivative is when no expression says it, and the condition."""
    text = entry.text("double_backward")
    if not text:
        return "", None
    if not derivatives:
        raise SpecError(entry.where_of("double_backward"), "double_backward: only with vjp")
    found = re.fullmatch(r"(zero|missing (\S+))( if (.+))?", text)
    if found is None:
        raise SpecError(
            text.where, f"double_backward: '{text}' is neither 'zero' nor 'missing NAME'"
        )
    condition = None
    if found[4]:
        arguments = tuple(name for derivative in derivatives for name in derivative.arguments)
        condition = Derivative(arguments, Text(found[4], text.where))
    return found[2] or "zero", condition


def _load_jvp(
    entry: Entry, schema: Schema, derivatives: tuple[Derivative, ...]
) -> tuple[str, tuple[tuple[str, Text], ...]]:
    """How tangents follow: a kind, or an expression per argument."""
    if not derivatives:
        if "jvp" in entry:
            raise SpecError(entry.where_of("jvp"), "jvp: only with vjp")
        return "", ()
    single = all(len(d.arguments) == 1 for d in derivatives) and len(schema.returns) == 1
    lists = any(a.type.is_list and a.type.base == "Tensor" for a in schema.arguments)
    if "jvp" not in entry:
        if schema.is_view:
            return "linear", ()
        return ("elementwise", ()) if "kernel" in entry and single and not lists else ("vjps", ())
    if entry.is_mapping("jvp"):
        pairs = entry.mapping("jvp")
        wanted = sorted(name for d in derivatives for name in d.arguments)
        if sorted(str(name) for name, _ in pairs) != wanted:
            raise SpecError(entry.where_of("jvp"), f"jvp: needs one expression each for {wanted}")
        return "", tuple((str(name), text) for name, text in pairs)
    kind = entry.text("jvp")
    if kind not in JVP_KINDS:
        raise SpecError(kind.where, f"jvp: '{kind}' is none of {', '.join(JVP_KINDS)}")
    if kind == "elementwise" and not single:
        raise SpecError(kind.where, "jvp: elementwise needs one result and an expression each")
    return str(kind), ()


def _load_arguments(entry: Entry, schema: Schema) -> tuple[tuple[str, str], ...]:
    """What single arguments mean, where ``arguments.yaml`` says it less well."""
    rows = entry.mapping("args")
    for name, _ in rows:
        if schema.argument(name) is None:
            raise SpecError(name.where, f"args: '{name}' is no argument of {schema}")
    return tuple((str(name), " ".join(text.split())) for name, text in rows)


def _load_deprecated(entry: Entry, schema: Schema) -> tuple[tuple[str, ...], ...]:
    """Other orders of the arguments, in which a call may give them by position."""
    orders = entry.texts("deprecated")
    for order in orders:
        names = order.split()
        for name in names:
            if schema.argument(name) is None:
                raise SpecError(order.where, f"deprecated: '{name}' is no argument of {schema}")
        for argument in schema.arguments:
            if names.count(argument.name) > 1:
                raise SpecError(order.where, f"deprecated: '{argument.name}' stands twice")
            if argument.default is None and argument.name not in names:
                raise SpecError(order.where, f"deprecated: '{argument.name}' is missing")
    return tuple(tuple(order.split()) for order in orders)


def _load_entry(entry: Entry, section: str, tables: Tables) -> OperatorEntry:
    entry.check_keys(ENTRY_KEYS, ("op", "schema", "variants", "doc"))
    name = entry.text("op")
    schema = _parse_schema(entry.text("schema"))
    if schema.full_name != name:
        raise SpecError(
            entry.where_of("schema"), f"the schema is of '{schema.full_name}', not '{name}'"
        )
    _check_sources(entry, name)
    _check_arguments(schema, entry.where_of("schema"))
    variants = _words(entry, "variants", VARIANTS)
    if "inplace_function" in variants and "inplace" not in variants:
        raise SpecError(entry.where_of("variants"), "variants: inplace_function needs inplace")
    tags = _words(entry, "tags", TAGS)
    promote = entry.text("promote", "none")
    if promote not in PROMOTIONS:
        raise SpecError(promote.where, f"promote: '{promote}' is none of {', '.join(PROMOTIONS)}")
    result = entry.text("result")
    if result and not any(d.name == result for d in tables.dtypes):
        raise SpecError(result.where, f"result: no dtype '{result}'")
    dtypes: tuple[str, ...] = ()
    if "kernel" in entry:
        if "dtypes" not in entry:
            raise SpecError(entry.where, "key 'dtypes' is missing (needed by 'kernel')")
        dtypes = tables.resolve_dtypes(entry.text_or_texts("dtypes"), entry.where_of("dtypes"))
    keys = [k.name for k in tables.keys] + [k.name for k in tables.alias_keys]
    dispatch = entry.mapping("dispatch")
    for key, function in dispatch:
        if key not in keys:
            raise SpecError(key.where, f"dispatch: no key '{key}' (known: {', '.join(keys)})")
        if not re.fullmatch(r"[A-Za-z_]\w*", function):
            raise SpecError(function.where, f"dispatch: '{function}' is no C function")
    if "composite" in entry and "vjp" in entry:
        raise SpecError(entry.where_of("vjp"), "a composite operator needs no vjp")
    if "vjp" in entry and "nondifferentiable" in tags:
        raise SpecError(entry.where_of("vjp"), "vjp and tag nondifferentiable exclude each other")
    kernel = _optional(entry, "kernel")
    derivatives, refused = _load_derivatives(entry, schema)
    double_backward, double_backward_if = _load_double_backward(entry, derivatives)
    jvp_kind, jvp = _load_jvp(entry, schema, derivatives)
    return OperatorEntry(
        name=str(name),
        where=entry.where,
        section=section,
        schema=schema,
        variants=variants,
        kernel=kernel,
        template=str(entry.text("template", kernel or "")),
        loop=str(entry.text("loop", schema.name)),
        dtypes=dtypes,
        promote=str(promote),
        result=str(result),
        impl=_optional(entry, "impl"),
        dispatch={str(k): v for k, v in dispatch},
        structured=entry.flag("structured"),
        composite=_optional(entry, "composite"),
        composite_explicit=_optional(entry, "composite_explicit"),
        derivatives=derivatives,
        refused=refused,
        differentiable=_load_differentiable(entry, schema),
        double_backward=double_backward,
        double_backward_if=double_backward_if,
        jvp_kind=jvp_kind,
        jvp=jvp,
        batch=_optional(entry, "batch"),
        node=str(entry.text("node")),
        tags=tags,
        doc=" ".join(entry.text("doc").split()),
        arguments=_load_arguments(entry, schema),
        raises=" ".join(entry.text("raises").split()),
        example=str(entry.text("example")),
        source=" ".join(entry.text("source").split()),
        warns=" ".join(entry.text("warns").split()),
        deprecated=_load_deprecated(entry, schema),
    )


def _form_of(schema: Schema) -> str:
    if any(a.is_out for a in schema.arguments):
        return "out"
    return "inplace" if schema.written and schema.returns else "functional"


def _derive(entry: OperatorEntry) -> list[Operator]:
    own = _form_of(entry.schema)
    operators = [Operator(entry.schema, entry, own, derived=False)]
    for variant, make in (("inplace", schemas.to_inplace), ("out", schemas.to_out)):
        if variant not in entry.variants:
            continue
        if own != "functional":
            raise SpecError(entry.where, f"variant {variant} needs a functional schema")
        try:
            schema = make(entry.schema)
        except SchemaError as error:
            raise SpecError(entry.where, f"variant {variant}: {error}") from None
        operators.append(Operator(schema, entry, variant, derived=True))
    return operators


def _name_nodes(path: Path, root: Path, entries: list[OperatorEntry]) -> None:
    """Give entries the node names that stand in ``nodes.yaml``."""
    if not path.exists():
        return
    rows = load_entries(path, root)
    for row in rows:
        row.check_keys(("op", "node"), ("op", "node"))
    check_order(rows, "op")
    by_name = {entry.name: entry for entry in entries}
    for row in rows:
        name = row.text("op")
        entry = by_name.get(name)
        if entry is None or not entry.derivatives:
            raise SpecError(name.where, f"'{name}' is no operator with a vjp")
        entry.node = entry.node or str(row.text("node"))


def load_model(spec: Path, root: Path, tables: Tables) -> Model:
    """Read ``spec/ops/<family>/*.yaml``.

    Raises:
        SpecError: Anything that does not fit, at its file and line.
    """
    entries: list[OperatorEntry] = []
    for path in sorted((spec / "ops").rglob("*.yaml")):
        section = path.relative_to(spec / "ops").with_suffix("").as_posix()
        raw = load_entries(path, root)
        for item in raw:
            item.check_keys(ENTRY_KEYS, ("op",))
        check_order(raw, "op")
        entries.extend(_load_entry(item, section, tables) for item in raw)
    _name_nodes(spec / "nodes.yaml", root, entries)
    operators: list[Operator] = []
    by_name: dict[str, Operator] = {}
    by_ident: dict[str, Operator] = {}
    by_base: dict[str, list[Operator]] = {}
    for entry in entries:
        for op in _derive(entry):
            first = by_name.get(op.schema.full_name) or by_ident.get(op.ident)
            if first is not None:
                raise SpecError(
                    entry.where,
                    f"'{op.schema.full_name}' is defined twice (first at {first.entry.where})",
                )
            operators.append(op)
            entry.operators.append(op)
            by_name[op.schema.full_name] = by_ident[op.ident] = op
            by_base.setdefault(op.schema.name, []).append(op)
    dtypes = tuple(dtype.name for dtype in tables.dtypes)
    return Model(entries, operators, by_name, by_ident, by_base, dtypes)
