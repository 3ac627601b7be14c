"""Doc strings and signatures of operators, and what their arguments mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from codegen import SpecError, generate
from codegen.emit.parameters import Parameter, merged, parameters_of, with_star
from codegen.emit.python import PythonName, public_name, python_tables
from codegen.spec.arguments import load_arguments
from codegen.spec.entries import load_model
from codegen.spec.model import Model
from codegen.spec.tables import load_tables

ROOT = Path(__file__).resolve().parents[2]
Project = Callable[[str], Path]


@pytest.fixture(scope="module")
def model() -> Model:
    """The project's own operators."""
    spec = ROOT / "csrc" / "spec"
    return load_model(spec, ROOT, load_tables(spec, ROOT))


def signature(*forms: list[Parameter]) -> str:
    """The signature of all forms together, as CPython reads it."""
    parameters = merged(forms)
    return ", ".join(with_star(parameters, [p.bare() for p in parameters]))


def parameter(name: str, default: str | None = None, **more: bool) -> Parameter:
    """A parameter of type int."""
    return Parameter(name, "builtins.int", "int", default, default, **more)


@pytest.mark.check
def test_one_form_keeps_its_parameters() -> None:
    form = [parameter("input"), parameter("n", "1"), parameter("m", "2", keyword_only=True)]
    assert signature(form) == "input, n=1, *, m=2"


def test_what_another_form_lacks_need_not_be_given() -> None:
    one = [parameter("input")]
    two = [parameter("input"), parameter("dim"), parameter("keepdim", "False")]
    assert signature(one, two) == "input, dim=..., keepdim=False"


def test_forms_with_other_names_take_anything_from_there_on() -> None:
    one = [parameter("input"), parameter("other"), parameter("out", "None", keyword_only=True)]
    two = [parameter("input"), parameter("dim")]
    assert signature(one, two) == "input, *args, out=None, **kwargs"


def test_keyword_of_one_form_and_position_of_another_is_a_position() -> None:
    one = [parameter("input"), parameter("alpha", "1", keyword_only=True)]
    two = [parameter("input"), parameter("alpha", "1")]
    assert signature(one, two) == "input, alpha=1"


@pytest.mark.check
def test_sizes_one_by_one_or_by_keyword() -> None:
    form = [parameter("size", takes_all=True), parameter("out", "None", keyword_only=True)]
    assert signature(form) == "*size, out=None, **kwargs"


ENTRY = """
- op: f
  schema: f(Tensor self, int n, *, Scalar alpha=1) -> Tensor
  variants: [function, method]
  impl: shmt__f
  doc: Do it with *self*.
  args: {n: How often.}
  raises: "RuntimeError: *n* is negative."
  example: |
    >>> shmtensor.f(x, 3)
    4
"""
ARGUMENTS = """
- argument: n
  doc: Something else.
- argument: alpha
  doc: For all.
- argument: alpha
  of: [f]
  doc: For f.
"""


def _function_doc(project: Project, tmp_path: Path, arguments: str) -> str:
    spec = project(ENTRY)
    (spec / "arguments.yaml").write_text(arguments)
    generate(spec, tmp_path / "out", tmp_path)
    text = (tmp_path / "out" / "python" / "functions.c").read_text()
    found = re.search(r'"(f\(input.*?)"\},', text, re.DOTALL)
    assert found is not None
    return found[1].replace("\\n", "\n")


def test_doc_string_has_signature_sentence_calls_arguments_and_example(
    project: Project, tmp_path: Path
) -> None:
    text = _function_doc(project, tmp_path, ARGUMENTS)
    assert text.startswith("f(input, n, *, alpha=1)\n--\n\nDo it with *input*.\n\nCalls:\n")
    assert "    f(input: Tensor, n: int, *, alpha: Number = 1) -> Tensor\n" in text
    assert "Args:\n    n: How often.\n    alpha: For f.\n" in text
    assert "Raises:\n    RuntimeError: *n* is negative.\n" in text
    assert "Example:\n    >>> shmtensor.f(x, 3)\n    4\n" in text
    assert text.endswith("csrc/spec/ops/three.yaml; C function shmt__f in csrc/ops/three.")


@pytest.mark.parametrize(
    ("row", "line", "message"),
    [
        ("- argument: colour\n  doc: Red.\n", 1, "no operator has an argument 'colour'"),
        ("- argument: n\n  of: [g]\n  doc: Red.\n", 2, "'g' is no operator, section or family"),
        ("- argument: n\n", 1, "key 'doc' is missing"),
    ],
)
def test_mistake_in_the_arguments_is_told_with_its_line(
    project: Project, tmp_path: Path, row: str, line: int, message: str
) -> None:
    with pytest.raises(SpecError) as caught:
        _function_doc(project, tmp_path, row)
    assert str(caught.value).startswith(f"csrc/spec/arguments.yaml:{line}: {message}")


def test_every_public_argument_has_a_meaning(model: Model) -> None:
    """A row of csrc/spec/arguments.yaml, or ``args:`` of the entry."""
    arguments = load_arguments(ROOT / "csrc" / "spec" / "arguments.yaml", ROOT, model)
    tables = python_tables(model)

    def is_public(name: PythonName) -> bool:
        return not name.name.startswith("_")

    names = [n for n in [*tables.functions, *tables.methods] if is_public(n)]
    names += [n for n in tables.nn if is_public(n) and "." in public_name(n.operators[0])]
    without = set()
    for name in names:
        for op in name.operators:
            kinds = {a.name: a.type for a in op.schema.arguments}
            for parameter in parameters_of(op, is_method=name.is_method):
                kind = kinds.get(parameter.name)
                if parameter.name != "input" and not arguments.meaning(
                    op.entry, parameter.name, kind
                ):
                    without.add(f"{op.entry.where}: {name.name}({parameter.name}: {kind})")
    assert not without, "\n".join(sorted(without))
