"""Schema strings: parsing, printing, derived in-place and out= forms, positions in errors."""

from __future__ import annotations

import pytest

from codegen.spec import schema as schemas
from codegen.spec.schema import SchemaError

TEXTS = [
    "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
    "add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
    "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    "split.Tensor(Tensor(a -> *) self, int split_size, int dim=0) -> Tensor(a)[]",
    "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None)"
    " -> Tensor",
    "conv(Tensor input, Tensor? bias=None, int[2] stride=1, int[2] padding=[0, 0]) -> Tensor",
    "upsample(Tensor self, float[]? scales=None, str mode='nearest') -> Tensor",
    "is_same_size(Tensor self, Tensor other) -> bool",
    "manual(*, Generator? generator=None, MemoryFormat? memory_format=None) -> ()",
]


@pytest.mark.parametrize("text", TEXTS)
def test_schema_parsed_prints_the_same(text: str) -> None:
    assert str(schemas.parse(text)) == text


@pytest.mark.check
def test_inplace_form_writes_self_and_returns_it() -> None:
    inplace = schemas.to_inplace(schemas.parse(TEXTS[0]))
    assert str(inplace) == TEXTS[1]
    assert inplace.new_returns == ()
    assert inplace.ident == "add__Tensor"


def test_out_form_of_one_result_is_called_out() -> None:
    out = schemas.to_out(schemas.parse(TEXTS[0]))
    assert str(out) == TEXTS[2]
    assert [a.name for a in out.arguments if a.is_out] == ["out"]


def test_out_form_of_named_results_takes_their_names() -> None:
    out = schemas.to_out(schemas.parse(TEXTS[3]))
    assert str(out) == (
        "max.dim_out(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) values, "
        "Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)"
    )


@pytest.mark.check
def test_view_mark_makes_a_view() -> None:
    assert schemas.parse("t(Tensor(a) self) -> Tensor(a)").is_view
    assert not schemas.parse(TEXTS[1]).is_view


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f(Tensr x) -> Tensor", "unknown type 'Tensr' at column 3"),
        ("f(SymInt x) -> Tensor", "write int"),
        ("f(Tensor x -> Tensor", "expected ',' at column 11"),
        ("f(Tensor x, Tensor x) -> Tensor", "'x' is given twice"),
        ("f(bool[] x) -> Tensor", "there are no lists of bool"),
        ("f(Tensor  x) -> Tensor", "expected a name"),
        ("f(Tensor x)", "expected '->'"),
        ("f(Tensor x) -> Tensor y z", "nothing more expected"),
        ("f(Tensor x) -> (Tensor)", "must be written"),
        ("f(*, int a, *, int b) -> Tensor", "'*' stands twice"),
        ("1f() -> Tensor", "expected name("),
    ],
)
def test_schema_that_is_wrong_says_where(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        schemas.parse(text)
    assert message in str(caught.value)


def test_inplace_form_without_a_tensor_first_is_refused() -> None:
    with pytest.raises(SchemaError, match="needs a first argument"):
        schemas.to_inplace(schemas.parse("f(int x) -> Tensor"))
