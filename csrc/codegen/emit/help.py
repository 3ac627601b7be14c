"""Doc strings of operators: what ``help(shmtensor.add)`` and `inspect.signature` show.

A doc string starts with one signature in the form that CPython reads (``name(...)``, then a line
``--``), which takes the calls of all overloads. Then come the sentences of the entries, each call
with its types, what the arguments mean (``csrc/spec/arguments.yaml``), an example if there is one,
and what follows from the entry: dtypes, derivatives, where the operator is defined.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from codegen.emit.kernels import Loops
from codegen.emit.parameters import Parameter, merged, parameters_of, shown_type, with_star
from codegen.emit.python import PythonName, has_out, public_name, result_fields, with_out
from codegen.expressions.nodes import Node
from codegen.spec.arguments import Arguments
from codegen.spec.autograd_kinds import autograd_kind, jvp_kind
from codegen.spec.model import Operator, OperatorEntry, spec_file
from codegen.spec.tables import Tables

_WIDTH = 92
_JOINT = "\u00a0"  # a space at which no line is broken
_NUMPY = "axis and keepdims are taken for dim and keepdim, as in NumPy."
_AXIS = "axis is taken for dim, as in NumPy."
_PROMOTED = "the promoted dtype of the operands"
_RESULTS = {
    "same": "that of the operands, which must be equal",
    "arithmetic": _PROMOTED,
    "int_to_float": f"{_PROMOTED}; the default dtype for integers and bools",
    "compare": "bool; the operands are promoted first",
    "bool_to_int": f"{_PROMOTED}; int64 for bools",
}


@dataclass(frozen=True)
class Help:
    """What doc strings are made from."""

    arguments: Arguments
    nodes: Mapping[str, Node]
    loops: Loops
    tables: Tables

    def text(self, name: PythonName) -> str:
        """The doc string of a function or method, with the signature that CPython takes off."""
        return f"{text_signature(name)}\n--\n\n{self.body(name)}"

    def body(self, name: PythonName) -> str:
        """The doc string as ``__doc__`` shows it."""
        shown = _shown(name)
        docs = dict.fromkeys(_sentence(op, is_method=name.is_method) for op in shown)
        parts = ["\n".join(_filled(doc) for doc in docs)]
        parts.append("Calls:\n" + _indented(dict.fromkeys(typed_calls(name))))
        meanings = self._meanings(name, shown)
        if meanings:
            parts.append("Args:\n" + _indented(meanings))
        if all(op.form == "inplace" and op.derived for op in shown):
            plain = shown[0].entry.schema.name
            parts.append(f"Everything else is as for {plain}().")
            return "\n\n".join(parts)
        raises = dict.fromkeys(op.entry.raises for op in shown if op.entry.raises)
        if raises:
            parts.append("Raises:\n" + _indented(raises))
        examples = [op.entry.example for op in shown if op.entry.example]
        if examples:
            text = "\n".join(example.strip() for example in examples)
            parts.append("Example:\n" + textwrap.indent(text, "    "))
        parts.append("\n".join(_filled(fact, hanging=True) for fact in self._facts(name, shown)))
        return "\n\n".join(parts)

    def _meanings(self, name: PythonName, shown: list[Operator]) -> list[str]:
        """``alpha: What it is.`` for each argument that has a text."""
        found: dict[str, str] = {}
        outs = with_out(name)
        for op in shown:
            parameters = parameters_of(op, is_method=name.is_method, with_out=op.entry.name in outs)
            for parameter in parameters:
                kind = next((a.type for a in op.schema.arguments if a.name == parameter.name), None)
                meaning = self.arguments.meaning(op.entry, parameter.name, kind)
                if meaning and parameter.name not in found:
                    found[parameter.name] = meaning
        return [f"{parameter}: {meaning}" for parameter, meaning in found.items()]

    def _facts(self, name: PythonName, shown: list[Operator]) -> list[str]:
        entries = list({op.entry.name: op.entry for op in shown}.values())
        main = next((e for e in entries if e.dtypes or e.derivatives), entries[0])
        facts = self._dtype_facts(main)
        if shown[0].schema.is_view:
            facts.append("Memory: the result shares it with the tensor.")
        facts += self._derivative_facts(name, shown, main)
        sparse = _sparse(entries)
        if sparse:
            facts.append(f"Sparse tensors: {sparse}.")
        if any("random" in e.tags for e in entries):
            facts.append("Random numbers: from generator, or from the default generator.")
        names = [p.name for op in shown for p in parameters_of(op, is_method=name.is_method)]
        if "dim" in names:
            facts.append(_NUMPY if "keepdim" in names else _AXIS)
        forms = _other_forms(name, entries)
        if forms:
            facts.append(f"Also: {', '.join(forms)}.")
        facts += [
            f"Warns{'' if 'warns_always' in e.tags else ' once'}: {e.warns}"
            for e in entries
            if e.warns
        ]
        facts += dict.fromkeys(f"Source: {e.source.rstrip('.')}." for e in entries if e.source)
        facts.append(f"Defined: {self._place(entries, main)}.")
        return facts

    def _dtype_facts(self, entry: OperatorEntry) -> list[str]:
        facts = []
        if entry.dtypes:
            facts.append(f"Dtypes: {', '.join(entry.dtypes)}.")
        if entry.result:
            facts.append(f"Dtype of the result: {entry.result}.")
        elif entry.promote in _RESULTS:
            facts.append(f"Dtype of the result: {_RESULTS[entry.promote]}.")
        if entry.kernel and sum(a.type.base == "Tensor" for a in entry.schema.arguments) > 1:
            facts.append("Shape: that to which the operands are broadcast.")
        return facts

    def _derivative_facts(
        self, name: PythonName, shown: list[Operator], entry: OperatorEntry
    ) -> list[str]:
        op = next((o for o in shown if o.entry is entry), shown[0])
        if not any(r.type.base == "Tensor" for r in op.schema.returns) or not op.has_tensors:
            return []
        if entry.derivatives and entry.name in self.nodes:
            names = [n for derivative in entry.derivatives for n in derivative.arguments]
            names = ["input" if n == "self" and not name.is_method else n for n in names]
            mode = "" if jvp_kind(op) in ("", "MISSING") else ", in forward mode too"
            node = self.nodes[entry.name].name
            return [f"Derivatives: for {_joined(names)}{mode} ({node})."]
        if op.is_made_of_others:
            return ["Derivatives: those of the operators that it calls."]
        if autograd_kind(op) == "missing":
            return ["Derivatives: not implemented."]
        return ["Derivatives: none."]

    def _place(self, entries: list[OperatorEntry], main: OperatorEntry) -> str:
        sections = dict.fromkeys(e.section for e in entries)
        text = "; ".join(
            f"{', '.join(e.name for e in entries if e.section == section)} in {spec_file(section)}"
            for section in sections
        )
        if main.kernel:
            return f"{text}; loop {main.loop} in csrc/{self.loops.templates[main.template].path}"
        functions = [*([main.function] if main.function else []), *main.dispatch.values()]
        if functions:
            family = main.section.split("/")[0]
            return f"{text}; C function {functions[0]} in csrc/ops/{family}"
        return text


def text_signature(name: PythonName) -> str:
    """``add(input, other, *, alpha=1, out=None)``, which takes the calls of all overloads."""
    outs = with_out(name)
    forms = [
        parameters_of(op, is_method=name.is_method, with_out=op.entry.name in outs)
        for op in _shown(name)
    ]
    parameters = merged(forms)
    texts = with_star(parameters, [p.bare() for p in parameters])
    if texts and texts[-1] == "**kwargs" and "*" in texts and texts[-2] == "*":
        texts.remove("*")
    if name.is_method:
        texts = ["$self", *texts]
    return f"{name.name}({', '.join(texts)})"


def typed_calls(name: PythonName) -> list[str]:
    """Each call with types and defaults: ``add(input: Tensor, other: Number) -> Tensor``."""
    outs = with_out(name)
    lines = []
    for op in _shown(name):
        parameters = parameters_of(op, is_method=name.is_method, with_out=op.entry.name in outs)
        texts = with_star(parameters, [p.shown().replace(" ", _JOINT) for p in parameters])
        result = f") -> {_result(op)}".replace(" ", _JOINT)
        lines.append(f"{public_name(op)}({', '.join(texts)}{result}")
    return lines


def has_numpy_spelling(parameters: Iterable[Parameter]) -> bool:
    """Whether calls may say ``axis=`` or ``keepdims=``."""
    return any(p.name in ("dim", "keepdim") for p in parameters)


def _shown(name: PythonName) -> list[Operator]:
    """The forms that have lines of their own: out= is a keyword of the others."""
    return [op for op in name.operators if not has_out(op)] or name.operators


def _result(op: Operator) -> str:
    returns = op.schema.returns
    if result_fields(op):
        return f"({', '.join(f'{r.name}: {shown_type(r.type)}' for r in returns)})"
    shown = [
        f"tuple[{shown_type(r.type)[5:-1]}, ...]" if r.type.is_tensor_list else shown_type(r.type)
        for r in returns
    ]
    if len(shown) == 1:
        return shown[0]
    return f"tuple[{', '.join(shown)}]" if shown else "None"


def _sentence(op: Operator, *, is_method: bool) -> str:
    """The entry's text; a function's first argument is called input, as in its signature."""
    doc = op.entry.doc
    if not is_method and op.schema.argument("self") is not None:
        doc = doc.replace("*self*", "*input*")
    if op.form == "inplace" and op.derived:
        doc = f"In-place form of {op.entry.schema.name}. {doc}"
    return doc


def _sparse(entries: list[OperatorEntry]) -> str:
    if any("SparseCPU" in e.dispatch or "SparseCsrCPU" in e.dispatch for e in entries):
        layouts = [
            layout
            for layout, key in (("COO", "SparseCPU"), ("CSR", "SparseCsrCPU"))
            if any(key in e.dispatch for e in entries)
        ]
        return _joined(layouts)
    if any("sparse_unary" in e.tags for e in entries):
        return "COO and CSR, value by value"
    if any("any_layout" in e.tags for e in entries):
        return "wherever the operators that it calls take them"
    return ""


def _other_forms(name: PythonName, entries: list[OperatorEntry]) -> list[str]:
    forms: list[str] = []
    for entry in entries:
        base = entry.schema.name
        in_module = public_name(entry.operators[0])
        if "function" in entry.variants:
            forms.append(f"shmtensor.{base}")
        if "nn" in entry.variants and "." in in_module:
            forms.append(f"shmtensor.{in_module}")
        if "method" in entry.variants:
            forms.append(f"Tensor.{base}")
        if "inplace" in entry.variants:
            forms.append(f"Tensor.{base}_")
            if "inplace_function" in entry.variants:
                forms.append(f"shmtensor.{base}_")
    own = f"Tensor.{name.name}" if name.is_method else f"shmtensor.{public_name(name.operators[0])}"
    return [form for form in dict.fromkeys(forms) if form != own]


def _joined(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _filled(text: str, *, hanging: bool = False) -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        subsequent_indent="    " if hanging else "",
        break_long_words=False,
        break_on_hyphens=False,
    ).replace(_JOINT, " ")


def _indented(lines: Iterable[str]) -> str:
    return textwrap.indent("\n".join(_filled(line, hanging=True) for line in lines), "    ")
