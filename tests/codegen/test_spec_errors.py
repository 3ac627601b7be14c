"""Mistakes in the specification: every message begins with file:line and says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from codegen import SpecError, generate

FILE = "csrc/spec/ops/three.yaml"


def entry(**changes: str) -> str:
    """An entry that is right, with keys changed or, by an empty value, left out."""
    keys = {
        "op": "f",
        "schema": "f(Tensor self, Tensor other) -> Tensor",
        "variants": "[function]",
        "impl": "shmt__f",
        "doc": "Do it.",
    }
    keys.update(changes)
    lines = [f"{key}: {value}" for key, value in keys.items() if value]
    return "- " + "\n  ".join(lines) + "\n"


CASES = [
    (entry(colour="red"), 6, "unknown key 'colour'"),
    (entry() + "  doc: again\n", 6, "key 'doc' is repeated (first at csrc/spec/ops/three.yaml:5)"),
    (entry(op="g"), 2, "the schema is of 'f', not 'g'"),
    (entry(op="z", schema="z() -> Tensor") + entry(), 6, "'f' must stand before 'z'"),
    (entry() + entry(), 6, "'f' is given twice (first at csrc/spec/ops/three.yaml:1)"),
    (entry(doc=""), 1, "key 'doc' is missing"),
    (entry(impl=""), 1, "f has none of kernel, impl, dispatch, composite, composite_explicit"),
    (entry(composite="shmt__g"), 1, "f has both 'impl' and 'composite'"),
    (entry(schema="f(Tensr self) -> Tensor"), 2, "unknown type 'Tensr' at column 3"),
    (entry(schema="f(Tensor self, int n=1.5) -> Tensor"), 2, "argument 'n'"),
    (entry(variants="[function, everywhere]"), 3, "variants: 'everywhere' is none of"),
    (entry(variants="[inplace_function]"), 3, "variants: inplace_function needs inplace"),
    (entry(deprecated="[other self, self]"), 6, "deprecated: 'other' is missing"),
    (entry(deprecated="[other self other]"), 6, "deprecated: 'other' stands twice"),
    (entry(deprecated="[other self n]"), 6, "deprecated: 'n' is no argument of f"),
    (entry(variants="[out]", schema="f(Tensor self) -> int"), 1, "variant out"),
    (entry(tags="[quick]"), 6, "tags: 'quick' is none of random, factory"),
    (entry(promote="same"), 6, "'promote' needs 'kernel'"),
    (entry(impl="", kernel="unary"), 1, "key 'dtypes' is missing"),
    (entry(impl="", kernel="unary", dtypes="round"), 6, "no dtype set 'round'"),
    (entry(impl="", kernel="unary", dtypes="[float32, int9]"), 6, "no dtype or dtype set 'int9'"),
    (entry(impl="", kernel="unary", dtypes="all"), 1, "has no row in csrc/spec/loops.yaml"),
    (entry(impl="", dispatch="{GPU: shmt__f}"), 5, "dispatch: no key 'GPU'"),
    (entry(vjp="\n    wrong: grad"), 7, "'wrong' is no Tensor argument"),
    (entry(vjp="\n    self: grad\n    'self, other': g(grad)"), 8, "'self' has two expressions"),
    (entry(vjp="\n    self: none: it has none"), 6, "vjp gives no expression"),
    (entry(double_backward="zero"), 6, "double_backward: only with vjp"),
    (entry(jvp="linear"), 6, "jvp: only with vjp"),
    (entry(vjp="\n    self: grad", jvp="sometimes"), 8, "'sometimes' is none of linear, each"),
    (entry(vjp="\n    self: grad", jvp="\n    other: tangent"), 8, "one expression each for"),
    (entry(vjp="\n    'self, other': g(grad)", jvp="elementwise"), 8, "needs one result"),
    (
        entry(vjp="\n    self: grad", double_backward="often"),
        8,
        "'often' is neither 'zero' nor 'missing NAME'",
    ),
    (entry(vjp="\n    self: grad", double_backward="zero if n"), 8, "unknown name 'n'"),
    (entry(structured="perhaps"), 6, "'structured' must be true or false"),
    (entry(impl="[a, b]"), 4, "'impl' must be one value, not a list"),
    ("- op: 'f\n", 2, "found unexpected end of stream"),
    (entry(vjp="\n    self: grad +"), 7, "invalid syntax"),
    (entry(vjp="\n    self: missing(grad)"), 7, "no operator 'missing'"),
    (entry(vjp="\n    self: f(grad)"), 7, "f(Tensor) fits none of: f(Tensor self, Tensor other)"),
    (entry(vjp="\n    self: f(grad, nothing)"), 7, "unknown name 'nothing'"),
    (entry(vjp="\n    self: grad.sum()"), 7, "calls are name(...), not methods"),
    (entry(vjp="\n    self: grad1"), 7, "there is no result for 'grad1'"),
    (entry(vjp="\n    self: f(grad, {1})"), 7, "not part of the derivative language"),
    (entry(vjp="\n    'self, other': f(grad, grad)"), 7, "gives 1 gradients for 2 arguments"),
    (entry(impl="", composite="f(self)"), 5, "fits none of"),
]


@pytest.mark.parametrize(("text", "line", "message"), CASES)
def test_mistake_names_file_and_line(
    project: Callable[[str], Path], tmp_path: Path, text: str, line: int, message: str
) -> None:
    spec = project(text)
    with pytest.raises(SpecError) as caught:
        generate(spec, tmp_path / "out", tmp_path, lenient=False)
    assert str(caught.value).startswith(f"{FILE}:{line}: "), caught.value
    assert message in str(caught.value)


@pytest.mark.check
def test_family_with_other_arguments_names_both_places(
    project: Callable[[str], Path], tmp_path: Path
) -> None:
    common = {"impl": "", "kernel": "binary", "dtypes": "[float32]"}
    text = entry(**common) + entry(
        op="g", schema="g(Tensor self, Scalar other) -> Tensor", **common
    )
    with pytest.raises(SpecError, match=r"three\.yaml:7: .* than at .*three\.yaml:1"):
        generate(project(text), tmp_path / "out", tmp_path)


def test_reason_and_emphasis_need_no_quotes(project: Callable[[str], Path], tmp_path: Path) -> None:
    text = entry(doc="*self*: what it's about", vjp="\n    self: grad\n    other: none: it's whole")
    result = generate(project(text), tmp_path / "out", tmp_path)
    page = (tmp_path / "docs" / "reference" / "three.md").read_text()
    assert "*self*: what it's about" in page
    assert result.problems == []
