"""``docs/reference/*.md``: a page per file of operators, and one each for dtypes and options."""

from __future__ import annotations

from codegen.emit.emitter import Emitter
from codegen.emit.python import public_name, signature_text
from codegen.expressions.nodes import Node
from codegen.spec.autograd_kinds import autograd_kind
from codegen.spec.model import Model, OperatorEntry, file_stem, spec_file
from codegen.spec.tables import Tables


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


def _entry(entry: OperatorEntry, tables: Tables, nodes: dict[str, Node]) -> str:
    text = f"## {entry.name}\n\n{entry.doc}\n\n```\n"
    text += "\n".join(_call_lines(entry)) + "\n```\n\n"
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
        facts.append(f"warns once in a process: {entry.warns}")
    if entry.source:
        facts.append(f"source: {entry.source}")
    return text + "".join(f"- {fact}\n" for fact in facts) + "\n"


def emit_docs(emitter: Emitter, model: Model, tables: Tables, nodes: dict[str, Node]) -> None:
    """Write the reference pages."""
    folder = emitter.root / "docs" / "reference"
    index = "# Reference\n\n"
    for section in model.sections:
        public = [
            e
            for e in model.entries
            if e.section == section and e.variants and not e.name.startswith("_")
        ]
        if not public:
            continue
        name = file_stem(section)
        title = section.split("/")[-1].replace("_", " ").capitalize()
        index += f"- [{title}]({name}.md): {len(public)} operators\n"
        body = f"# {title}\n\n" + "".join(_entry(e, tables, nodes) for e in public)
        emitter.page(folder / f"{name}.md", spec_file(section), body)
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
    index += "- [Element types](dtypes.md)\n- [Environment](environment.md)\n"
    emitter.page(folder / "README.md", "csrc/spec", index)
