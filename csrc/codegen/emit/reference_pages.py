"""``docs/reference/*.md``: a page per file of operators, and one each for dtypes and options."""

from __future__ import annotations

import re

from codegen.emit.emitter import Emitter
from codegen.emit.kernels import Loops
from codegen.emit.python import public_name, signature_text
from codegen.expressions.nodes import Node
from codegen.spec.arguments import Arguments
from codegen.spec.autograd_kinds import autograd_kind
from codegen.spec.model import Model, OperatorEntry, file_stem, spec_file
from codegen.spec.tables import Tables

# Titles that are not the name in other letters.
_TITLES = {
    "cat_repeat": "Cat, stack, repeat",
    "conv": "Convolution",
    "diag_meshgrid": "Diag, meshgrid",
    "diff_trapezoid": "Diff, trapezoid",
    "fft": "FFT",
    "lapack": "LAPACK",
    "linalg": "Linear algebra",
    "matmul": "Matrix products",
    "reduce": "Reductions",
}


def _call_lines(entry: OperatorEntry) -> list[str]:
    lines = []
    for op in entry.operators:
        if op.form == "out":
            continue
        where = {"function": "shmtensor.", "nn": "shmtensor._C._nn."}
        for variant, prefix in where.items():
            is_shown = op.form == "functional" or not op.derived
            if variant in entry.variants and (is_shown or "inplace_function" in entry.variants):
                in_module = "." in public_name(op)
                prefix_text = "shmtensor." if in_module else prefix
                lines.append(prefix_text + signature_text(op, is_method=False))
        if "method" in entry.variants or op.form == "inplace":
            lines.append("Tensor." + signature_text(op, is_method=True))
    if "out" in entry.variants:
        lines.append("out= is accepted")
    return lines


def _dtype_text(entry: OperatorEntry, tables: Tables) -> str:
    for name, members in tables.dtype_sets.items():
        if members == entry.dtypes:
            return f"{name} ({', '.join(members)})"
    return ", ".join(entry.dtypes)


def _made_by(entry: OperatorEntry, loops: Loops) -> str:
    """Say what computes the operator, and where that stands."""
    if entry.kernel:
        return f"loop `{entry.loop}` of `csrc/{loops.templates[entry.template].path}`"
    if entry.composite_expression is not None:
        return f"made of others: `{' '.join(entry.composite_expression.split())}`"
    functions = [entry.function] if entry.function else []
    functions += [name for name in entry.dispatch.values() if name not in functions]
    return "C function " + ", ".join(f"`{name}`" for name in functions) if functions else ""


def _meanings(entry: OperatorEntry, arguments: Arguments) -> str:
    """What the arguments mean, a line each."""
    lines = ""
    for argument in entry.schema.arguments:
        name = "input" if argument.name == "self" else argument.name
        meaning = "" if argument.is_out else arguments.meaning(entry, name, argument.type)
        if meaning:
            lines += f"- `{name}`: {meaning}\n"
    return f"Arguments:\n\n{lines}\n" if lines else ""


def _entry(
    entry: OperatorEntry,
    tables: Tables,
    nodes: dict[str, Node],
    loops: Loops,
    arguments: Arguments,
) -> str:
    text = f"## {entry.name}\n\n{entry.doc}\n\n```\n"
    text += "\n".join(_call_lines(entry)) + "\n```\n\n" + _meanings(entry, arguments)
    if entry.raises:
        text += f"Raises: {entry.raises}\n\n"
    if entry.example:
        text += f"```\n{entry.example.strip()}\n```\n\n"
    facts = []
    if entry.dtypes:
        facts.append(f"dtypes: {_dtype_text(entry, tables)}")
    if entry.kernel:
        facts.append(f"promotion: {entry.promote.replace('_', ' ')}")
    if entry.result:
        facts.append(f"result: {entry.result}")
    node = nodes.get(entry.name)
    if node is not None:
        for derivative in entry.derivatives:
            names = ", ".join(derivative.arguments)
            facts.append(f"gradient of {names}: `{' '.join(derivative.expression.split())}`")
        facts.append(f"graph node: {node.name}")
    elif entry.composite:
        facts.append("differentiable through the operators it is made of")
    elif autograd_kind(entry.operators[0]) == "missing":
        facts.append("its derivative is not implemented")
    else:
        facts.append("not differentiable")
    if entry.tags:
        facts.append(f"tags: {', '.join(entry.tags)}")
    if entry.warns:
        once = "" if "warns_always" in entry.tags else " once in a process"
        facts.append(f"warns{once}: {entry.warns}")
    if entry.source:
        facts.append(f"source: {entry.source}")
    made_by = _made_by(entry, loops)
    facts.append(f"defined in `{spec_file(entry.section)}`" + (f"; {made_by}" if made_by else ""))
    return text + "".join(f"- {fact}\n" for fact in facts) + "\n"


def _anchor(name: str) -> str:
    """Return the anchor of an entry's heading, as Markdown readers make it."""
    return re.sub(r"[^\w-]", "", name.lower())


def _public(model: Model, section: str) -> list[OperatorEntry]:
    return [
        e
        for e in model.entries
        if e.section == section and e.variants and not e.name.startswith("_")
    ]


def _title(name: str) -> str:
    """Return the title of a family or section."""
    return _TITLES.get(name, name.replace("_", " ").capitalize())


def _section_title(section: str) -> str:
    return _title(section.split("/")[-1])


def _index_line(section: str, entries: list[OperatorEntry]) -> str:
    """Return a line of the index: a section's page and its operators, each once."""
    page = f"{file_stem(section)}.md"
    first: dict[str, str] = {}
    for entry in entries:
        first.setdefault(entry.name.split(".")[0], entry.name)
    links = ", ".join(f"[`{name}`]({page}#{_anchor(full)})" for name, full in first.items())
    return f"- **[{_section_title(section)}]({page})**: {links}\n"


def _index(model: Model) -> str:
    """Return the text of the index: families, their sections, the operators in these."""
    text = (
        "# Operators\n\nEvery operator by family, with its signatures, dtypes and derivatives. "
        "A name leads to its entry, which says where it is defined. Search finds operators by the "
        'beginning of a word of their name, and with quotes, `"add"`, by the whole word. Layers, '
        "optimizers and other Python parts have `help()`.\n\n"
        "See also [element types](dtypes.md) and [environment variables](environment.md).\n"
    )
    family = ""
    for section in model.sections:
        entries = _public(model, section)
        if not entries:
            continue
        if section.split("/")[0] != family:
            family = section.split("/")[0]
            text += f"\n## {_title(family)}\n\n"
        text += _index_line(section, entries)
    return text


def emit_docs(
    emitter: Emitter,
    model: Model,
    tables: Tables,
    nodes: dict[str, Node],
    loops: Loops,
    arguments: Arguments,
) -> None:
    """Write the reference pages."""
    folder = emitter.root / "docs" / "reference"
    for section in model.sections:
        public = _public(model, section)
        if not public:
            continue
        body = f"# {_section_title(section)}\n\n"
        body += "".join(_entry(e, tables, nodes, loops, arguments) for e in public)
        emitter.page(folder / f"{file_stem(section)}.md", spec_file(section), body)
    rows = "".join(
        f"| {d.name} | {d.kind} | {d.size} | {', '.join(d.aliases)} |\n" for d in tables.dtypes
    )
    body = "# Element types\n\n| name | kind | bytes | also |\n|---|---|---|---|\n" + rows
    emitter.page(folder / "dtypes.md", "csrc/spec/dtypes.yaml", body)
    options = "".join(
        f"| `SHMTENSOR_{o.name}` | {', '.join(o.values) or o.type} | {o.default or '(unset)'} "
        f"| {o.doc} |\n"
        for o in tables.options
    )
    body = (
        "# Environment\n\n| variable | values | default | meaning |\n|---|---|---|---|\n" + options
    )
    emitter.page(folder / "environment.md", "csrc/spec/options.yaml", body)
    emitter.page(folder / "README.md", "csrc/spec", _index(model))
