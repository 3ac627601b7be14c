"""The operators as the rest of the generator sees them: entries, and the forms derived of each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from codegen.spec.errors import SpecError
from codegen.spec.loader import Text
from codegen.spec.schema import Schema

MAX_ARGUMENTS, MAX_RESULTS = 64, 16  # of dispatch/schema.h
_C_FUNCTION = re.compile(r"shmt_\w+")


def spec_file(section: str) -> str:
    """The spec file of a section, for header lines."""
    return f"csrc/spec/ops/{section}.yaml"


def file_stem(section: str) -> str:
    """What generated files of a section are called: pointwise/binary becomes pointwise_binary."""
    return section.replace("/", "_")


@dataclass(frozen=True)
class Derivative:
    """One line of ``vjp``: the arguments it gives gradients for, and the expression."""

    arguments: tuple[str, ...]
    expression: Text


@dataclass
class OperatorEntry:
    """An entry of ``spec/ops/<family>/*.yaml``, checked."""

    name: str
    where: str
    section: str  # the file: its path below spec/ops without the suffix, pointwise/binary
    schema: Schema
    variants: tuple[str, ...]
    kernel: Text | None
    template: str
    loop: str
    dtypes: tuple[str, ...]
    promote: str
    result: str
    impl: Text | None
    dispatch: dict[str, Text]
    structured: bool
    composite: Text | None
    composite_explicit: Text | None
    derivatives: tuple[Derivative, ...]
    refused: tuple[tuple[str, str], ...]
    differentiable: tuple[str, ...]
    double_backward: str  # of a vjp: "", "zero", or the name of the derivative that is missing
    double_backward_if: Derivative | None
    jvp_kind: str  # one of JVP_KINDS; "" with expressions
    jvp: tuple[tuple[str, Text], ...]  # the expression per argument
    batch: Text | None
    node: str
    tags: tuple[str, ...]
    doc: str
    arguments: tuple[tuple[str, str], ...]  # what an argument means here, by its name
    raises: str
    example: str
    source: str
    warns: str
    deprecated: tuple[tuple[str, ...], ...]
    operators: list[Operator] = field(default_factory=list)

    @property
    def composite_expression(self) -> Text | None:
        """The expression of ``composite``/``composite_explicit``, if it is no C function."""
        text = self.composite or self.composite_explicit
        return text if text is not None and not _C_FUNCTION.fullmatch(text) else None

    @property
    def batch_rule(self) -> str:
        """The C function of the batching rule; empty when there is none."""
        if self.batch is not None:
            is_rule = self.batch.isidentifier() and self.batch != "composite"
            return f"shmt__batch_{self.batch}" if is_rule else ""
        return "shmt__batch_pointwise" if self.kernel else ""

    @property
    def batch_expression(self) -> Text | None:
        """How the operator is made of others under vmap, when ``batch`` says so."""
        return None if self.batch is None or self.batch.isidentifier() else self.batch

    @property
    def function(self) -> Text | None:
        """The C function for CPU and Meta: impl or a composite one."""
        for text in (self.impl, self.composite, self.composite_explicit):
            if text is not None and _C_FUNCTION.fullmatch(text):
                return text
        return None

    @property
    def is_structured(self) -> bool:
        """The C function honours a preset ``*out``."""
        return self.structured or self.kernel is not None


@dataclass
class Operator:
    """One operator: the functional, in-place or out= form of an entry.

    Attributes:
        schema: Its own schema.
        entry: Where it comes from.
        form: ``functional``, ``inplace`` or ``out``.
        derived: The form was made from the entry's functional schema.
    """

    schema: Schema
    entry: OperatorEntry
    form: str
    derived: bool

    @property
    def ident(self) -> str:
        """``add_Tensor``: the part after ``shmt_op_``."""
        return self.schema.ident

    @property
    def caller(self) -> str:
        """The C function that dispatches."""
        return f"shmt_op_{self.ident}"

    @property
    def record(self) -> str:
        """The C operator record."""
        return f"shmt__op_{self.ident}"

    @property
    def has_tensors(self) -> bool:
        """Some argument is a tensor or a list of them."""
        return any(a.type.base == "Tensor" for a in self.schema.arguments)

    @property
    def is_factory(self) -> bool:
        """A new tensor from no tensor: chosen by the device argument."""
        return "factory" in self.entry.tags and not self.has_tensors

    @property
    def passes_conj_neg(self) -> bool:
        """Takes conj and neg views as they are; see ops/pointwise/conj_neg_views.h."""
        aliases = [r.type.alias for r in self.schema.returns if r.type.alias]
        return "geometry" in self.entry.tags or any(not alias.write for alias in aliases)

    @property
    def direct(self) -> str:
        """The C function that other composites call for this one, without dispatch.

        Empty where they do not: for operators with names in Python, with kernels or a rule for
        vmap of their own, and for C functions that do not take every layout.
        """
        entry = self.entry
        if entry.variants or entry.dispatch or entry.batch or entry.composite is None:
            return ""
        if entry.composite_expression is not None:
            return f"composite_{self.ident}"
        return entry.composite if "any_layout" in entry.tags else ""

    @property
    def is_made_of_others(self) -> bool:
        """Its kernel only calls operators, so that it runs on batched tensors as it is."""
        entry = self.entry
        expression = entry.composite_explicit is not None and entry.function is None
        implicit = any(key.startswith("CompositeImplicit") for key in entry.dispatch)
        return self.is_composite or expression or implicit or entry.batch == "composite"

    @property
    def is_composite(self) -> bool:
        """CompositeImplicitAutograd: what it calls records itself."""
        return self.entry.composite is not None


@dataclass
class Model:
    """All operators, in the order of files and entries."""

    entries: list[OperatorEntry]
    operators: list[Operator]
    by_name: dict[str, Operator]
    by_ident: dict[str, Operator]
    by_base: dict[str, list[Operator]]
    dtypes: tuple[str, ...]
    problems: list[SpecError] = field(default_factory=list)

    @property
    def sections(self) -> list[str]:
        """The names of the spec files, in order."""
        return list(dict.fromkeys(e.section for e in self.entries))

    def of_section(self, section: str) -> list[Operator]:
        """The operators of one spec file."""
        return [op for op in self.operators if op.entry.section == section]
