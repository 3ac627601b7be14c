"""`testing.assert_close`: what it takes, and what its errors say.

The tolerance itself is that of `isclose`, which tests/ops covers.
"""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from math import inf, nan
from typing import Any

import numpy as np
import pytest

import shmtensor
from shmtensor.testing import assert_allclose, assert_close
from shmtensor.testing._comparison import default_tolerances

Pair = namedtuple("Pair", "a b")


def cases(m: Any) -> list[tuple[Any, Any, dict[str, Any]]]:
    """Pairs of values made by a library, with options."""
    t = m.tensor

    class Sub(m.Tensor):  # type: ignore[misc,name-defined]
        pass

    plain: list[tuple[Any, ...]] = [
        (t([1.0, 2.0]), t([1.0, 2.0])),
        (t([1.0, 2.0, 3.0]), t([1.1, 2.5, 3.0])),
        (t([[1.0, 2.0], [3.0, 4.0]]), t([[1.1, 2.0], [3.0, 4.5]])),
        (t(1.0), t(2.0)),
        (t(1), t(2)),
        (t([1, 2]), t([1, 3])),
        (t([True, False]), t([True, True])),
        (t([1, 2]), t([1, 3]), {"rtol": 0, "atol": 0}),
        (t([1, 2]), t([1, 3]), {"rtol": 0}),
        (t([1, 2]), t([1, 3]), {"atol": 0}),
        (t([1.0]), t([1.5]), {"rtol": 0, "atol": 1}),
        (t([1.0]), t([2.5]), {"rtol": 0.1, "atol": 1}),
        (t([1.0, nan]), t([1.0, nan])),
        (t([1.0, nan]), t([1.0, nan]), {"equal_nan": True}),
        (t([1.0, inf]), t([1.0, -inf])),
        (t([1.0, 2.0]), t([1.0, 2.0]).double()),
        (t([1.0, 2.0]), t([1.0, 2.0]).double(), {"check_dtype": False}),
        (t([1.0, 2.0]), t([1, 2]), {"check_dtype": False}),
        (t([1.0, 2.0]), t([1.0, 2.0, 3.0])),
        (t([1.0, 2.0]), t([[1.0, 2.0]])),
        (t([[1.0, 2.0], [3.0, 4.0]]), t([[1.0, 3.0], [2.0, 4.0]]).t()),
        (t([[1.0, 2.0], [3.0, 4.0]]), t([[1.0, 3.0], [2.0, 4.0]]).t(), {"check_stride": True}),
        (t([1.0]), t([1.0], device="meta")),
        (t([1.0], device="meta"), t([1.0], device="meta")),
        (t([1.0]), t([1.0], device="meta"), {"check_device": False}),
        (1, 1),
        (1, 2),
        (1.0, 1.5),
        (1, 1.0),
        (1.0, 1.0 + 1e-10),
        (True, True),
        (True, False),
        (1 + 1j, 1 + 1j),
        (1 + 1j, 1 + 2j),
        (nan, nan),
        (nan, nan, {"equal_nan": True}),
        (inf, inf),
        (inf, -inf),
        (1.0, 0.0),
        (1, 2, {"rtol": 0, "atol": 0}),
        (None, None),
        (None, 1),
        ("a", "a"),
        ("a", 1),
        (t(1.0), 1.0),
        (1.0, t(1.0)),
        (t([1.0]), [1.0]),
        ([1, 2], [1, 2]),
        ([1, 2], [1, 3]),
        ([1, 2], [1, 2, 3]),
        ((1, 2), [1, 2]),
        ([1, [2, 3]], [1, [2, 4]]),
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ({"a": 1, "c": 2}, {"a": 1}),
        ({"a": [1, t(2.0)]}, {"a": [1, t(3.0)]}),
        ({1: 1, "a": 2}, {1: 2, "a": 2}),
        ([1, "a"], [1, "a"]),
        ([None], [1]),
        ([1], {"a": 1}),
        (1, [1]),
        (OrderedDict(a=1), {"a": 1}),
        (Pair(1, 2), Pair(1, 3)),
        (range(3), range(3)),
        (b"a", b"b"),
        ({1, 2}, {1, 2}),
        (np.array([1.0, 2.0]), np.array([1.0, 3.0])),
        (np.array([1.0, 2.0]), t([1.0, 2.0])),
        (np.array(["a"]), np.array(["a"])),
        (np.float64(1.0), np.float64(2.0)),
        (np.int64(1), 1),
        (np.bool_(True), np.bool_(False)),
        (t([1.0]), t([2.0]), {"msg": "foo"}),
        (t([1.0]), t([2.0]), {"msg": "before\n{}".format}),
        ([t([1.0])], [t([2.0])], {"msg": "before\n{}".format}),
        (t([1.0]).as_subclass(Sub), t([1.0])),
        (t([1.0]).as_subclass(Sub), t([1.0]), {"allow_subclasses": False}),
        (m.nn.Parameter(t([1.0])), t([1.0])),
        (m.zeros(0), m.zeros(0)),
        (m.zeros(0, 3), m.zeros(3, 0)),
        (t([1 + 1j]), t([1 + 2j])),
        (t([complex(nan, 1)]), t([complex(1, nan)]), {"equal_nan": True}),
        (t([1.0]).half(), t([1.001]).half()),
        (t([1.0]).half(), t([1.01]).half()),
        (t([1.0]).bfloat16(), t([1.02]).bfloat16()),
        (t([1.0]).double(), t([1.0]).double() + 1e-6),
        (t([1.0]).half(), t([1.01]), {"check_dtype": False}),
        (t([200], dtype=m.uint8), t([10], dtype=m.uint8)),
        (t([-128], dtype=m.int8), t([127], dtype=m.int8)),
        (m.zeros(2, 3, 4), m.ones(2, 3, 4)),
        (t([0.0, 1.0]), t([0.1, 0.0])),
        (t([5.0]), t([0.0]), {"rtol": 1, "atol": 0}),
        (m.float32, m.float32),
        (t([1.0], requires_grad=True), t([2.0])),
    ]
    return [(a, e, options[0] if options else {}) for a, e, *options in plain]


def outcome(function: Any, actual: Any, expected: Any, options: dict[str, Any]) -> Any:
    try:
        function(actual, expected, **options)
    except Exception as error:
        return type(error), str(error).replace("shmtensor", "torch")
    return None


NUMBERS = range(len(cases(shmtensor)))


@pytest.mark.parametrize("number", NUMBERS)
def test_outcomes_and_texts_are_torch_s(number: int) -> None:
    torch = pytest.importorskip("torch")
    ours = outcome(assert_close, *cases(shmtensor)[number])
    assert ours == outcome(torch.testing.assert_close, *cases(torch)[number])


@pytest.mark.check
def test_text_of_tensors_says_how_many_where_and_how_much() -> None:
    with pytest.raises(AssertionError) as info:
        assert_close(
            shmtensor.tensor([[1.0, 2.0], [3.0, 4.0]]), shmtensor.tensor([[1.5, 2.0], [3.0, 5.0]])
        )
    assert str(info.value) == (
        "Tensor-likes are not close!\n\n"
        "Mismatched elements: 2 / 4 (50.0%)\n"
        "Greatest absolute difference: 1.0 at index (1, 1) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.3333333432674408 at index (0, 0) (up to 1.3e-06 allowed)"
    )


def test_text_of_numbers_and_the_place_in_collections() -> None:
    with pytest.raises(AssertionError) as info:
        assert_close({"a": [1, 2.0]}, {"a": [1, 4.0]})
    assert str(info.value) == (
        "Scalars are not close!\n\n"
        "Expected 4.0 but got 2.0.\n"
        "Absolute difference: 2.0 (up to 1e-07 allowed)\n"
        "Relative difference: 0.5 (up to 1e-07 allowed)\n\n"
        "The failure occurred for item ['a'][1]"
    )


def test_attributes_are_checked_when_they_are_to_be() -> None:
    a = shmtensor.ones(2, 2)
    with pytest.raises(AssertionError, match=r"attribute 'dtype'.*float32 != torch.float64"):
        assert_close(a, a.double())
    assert_close(a, a.double(), check_dtype=False)
    with pytest.raises(AssertionError, match=r"'stride\(\)' do not match: \(2, 1\) != \(1, 2\)"):
        assert_close(a, a.t(), check_stride=True)
    assert_close(a, a.t())
    with pytest.raises(AssertionError, match="attribute 'device'"):
        assert_close(a, a.to("meta"))
    with pytest.raises(AssertionError, match="attribute 'shape'"):
        assert_close(a, a.flatten())


def test_numbers_of_other_types_are_not_close_to_bools() -> None:
    with pytest.raises(AssertionError, match=r"\(d\)types do not match"):
        assert_close(1, True)
    assert_close(1, True, check_dtype=False)


@pytest.mark.parametrize(
    ("number", "same"),
    [(np.float64(1), 1.0), (np.complex128(1j), 1j), (np.float32(1), 1.0), (np.int64(1), 1)],
)
def test_numbers_of_numpy_count_as_those_of_python(number: Any, same: Any) -> None:
    assert_close(number, same)
    assert_close([same], [number])
    with pytest.raises(AssertionError, match=r"\(d\)types do not match"):
        assert_close(number, True)


@pytest.mark.check
def test_infinities_are_close_to_themselves_only() -> None:
    assert_close(shmtensor.tensor([inf, -inf]), shmtensor.tensor([inf, -inf]))
    with pytest.raises(AssertionError):
        assert_close(shmtensor.tensor([inf]), shmtensor.tensor([1e30]), rtol=1e30, atol=1e30)


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (("float16",), (1e-3, 1e-5)),
        (("bfloat16",), (1.6e-2, 1e-5)),
        (("float32",), (1.3e-6, 1e-5)),
        (("float64",), (1e-7, 1e-7)),
        (("complex64", "complex128"), (1.3e-6, 1e-5)),
        (("int32", "bool"), (0.0, 0.0)),
    ],
)
def test_default_tolerances(dtypes: tuple[str, ...], expected: tuple[float, float]) -> None:
    assert default_tolerances(*(getattr(shmtensor, name) for name in dtypes)) == expected


def test_default_tolerances_of_something_else() -> None:
    with pytest.raises(
        TypeError, match=r"a torch\.Tensor or a torch\.dtype, but got <class 'int'>"
    ):
        default_tolerances(3)  # type: ignore[arg-type]


def test_one_tolerance_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="but got no atol"):
        assert_close(1, 1, rtol=0)


def test_old_function_makes_tensors_and_warns() -> None:
    with pytest.warns(FutureWarning, match="deprecated"):
        assert_allclose([1, 2], [1.0, 2.0])
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match=r"up to 0\.0001 allowed"):
        assert_allclose(shmtensor.tensor([1.0]), [2.0])


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64"])
def test_wide_unsigned_dtypes_are_compared_with_others(name: str) -> None:
    mine = shmtensor.tensor([1, 2], dtype=getattr(shmtensor, name))
    for other in (shmtensor.int32, shmtensor.uint8, shmtensor.float32, shmtensor.uint16):
        assert_close(mine, shmtensor.tensor([1, 2], dtype=other), check_dtype=False)
        with pytest.raises(AssertionError, match="1 / 2"):
            assert_close(mine, shmtensor.tensor([1, 3], dtype=other), check_dtype=False)
