"""Reading schemas at run time, and the schemas of the built-in operators."""

from __future__ import annotations

import pytest

from shmtensor import _C
from shmtensor._boundary import dispatch
from shmtensor.library import Library

GOOD = [
    "f(Tensor self) -> Tensor",
    "f.over(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "f(Tensor(a!) self) -> Tensor(a!)",
    "f(Tensor(a) self, int[2] size=[1, 1]) -> Tensor(a)",
    "f(Tensor? x=None, Tensor?[] ys=[]) -> ()",
    "f(str s='a, b)', float[]? w=None) -> (Tensor values, Tensor indices)",
    "f(Tensor[] xs, *, ScalarType? dtype=None, Device? device=None) -> Tensor[]",
    "f(Tensor(a -> *) self) -> Tensor(a)[]",
    "f() -> Tensor",
    "f( Tensor  self ,int n ) -> int",
    "f(Tensor self, *, Tensor(a!) out) -> Tensor(a!)",
]

BAD = [
    ("f", r"expected '\(' at position"),
    ("f(Tensor self)", "expected '->'"),
    ("f(Tensr self) -> Tensor", "expected a type"),
    ("f(Tensor) -> Tensor", "expected an argument name"),
    ("f(Tensor a, Tensor a) -> Tensor", "this one is taken"),
    ("f(int a=1, int b) -> Tensor", "expected a default"),
    ("f(Tensor self) -> Tensor junk more", "expected the end"),
    ("f(Tensor self, *, *, int a) -> Tensor", "one '\\*' only"),
    ("f(str[] a) -> Tensor", "no list"),
    ("f(int[0] a) -> Tensor", "list size from 1 to 64"),
    ("f(Tensor(A) a) -> Tensor", "an alias letter"),
    ("f(str s='a) -> Tensor", "end of the string"),
    ("f(int a=) -> Tensor", "a default"),
    ("", "expected an operator name"),
]


@pytest.mark.parametrize("text", GOOD)
def test_schema_good_text_is_accepted(text: str) -> None:
    library = Library("schemas", "DEF")
    try:
        library.define(text)
    finally:
        library._destroy()


@pytest.mark.parametrize(("text", "problem"), BAD)
def test_schema_bad_text_raises_with_position(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        _C._library_define(f"bad::{text}" if text else "", "here")


@pytest.mark.check
def test_schema_arguments_are_as_written() -> None:
    library = Library("schemas", "DEF")
    library.define("g(Tensor(a!) self, int n=3, *, str s='x, y') -> Tensor(a!)")
    handle = _C._find_operator("schemas::g")._handle
    assert _C._operator_arguments(handle) == [
        ("self", False, True, None),
        ("n", False, False, "3"),
        ("s", True, False, "'x, y'"),
    ]
    library._destroy()


@pytest.mark.check
def test_schemas_of_built_in_operators_parse_again() -> None:
    count = 0
    for text in dispatch.schemas():
        if "::" in text.split("(")[0]:
            continue
        registration = _C._library_define(f"again::{text}", "here")
        del registration
        count += 1
    assert count > 100


def test_schema_found_by_any_spelling_of_its_name() -> None:
    for name in ("add.Tensor", "aten::add.Tensor", "shmtensor::add.Tensor"):
        assert (dispatch.find_schema(name) or "").startswith("add.Tensor(Tensor self")
    assert dispatch.find_schema("add.Nothing") is None
    assert "CPU" in dispatch.operator_keys("add.Tensor")
