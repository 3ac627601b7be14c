"""Comparison of tensors, numbers and collections of them, with tolerances.

`assert_close` first walks both sides and makes a *pair* of each two leaves, then compares the
pairs. A pair is of the first class that takes both values: None, bools, numbers, or what a tensor
can be made of.

Source:
    torch.testing.assert_close.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.testing._pairs import (
    BooleanPair,
    ErrorMeta,
    Message,
    NonePair,
    NumberPair,
    Pair,
    Path,
    TensorLikePair,
    UnsupportedInputs,
    default_tolerances,
)
from shmtensor.testing._pairs import (
    get_tolerances as get_tolerances,
)

__all__ = ["assert_allclose", "assert_close", "default_tolerances"]

#: Those of `assert_allclose`.
_OLD_TOLERANCES = {
    _C.float16: (1e-3, 1e-3),
    _C.float32: (1e-4, 1e-5),
    _C.float64: (1e-5, 1e-8),
}


# --- walking both sides --------------------------------------------------------------------------


def originate_pairs(
    actual: Any,
    expected: Any,
    *,
    pair_types: Collection[type[Pair]],
    sequence_types: tuple[type, ...] = (Sequence,),
    mapping_types: tuple[type, ...] = (Mapping,),
    id: Path = (),
    **options: Any,
) -> list[Pair]:
    """Make pairs of what stands at the same places of two collections.

    Args:
        actual: A value, or a sequence or a mapping of such.
        expected: The same.
        pair_types: The classes to try, in this order.
        sequence_types: What is taken apart by position; texts are not.
        mapping_types: What is taken apart by key.
        id: The keys and indices that lead here.
        **options: For the pairs.

    Raises:
        ErrorMeta: The collections are unlike, or no class takes two leaves.
    """
    children: list[tuple[Any, Any, Any]]
    if (
        isinstance(actual, sequence_types)
        and isinstance(expected, sequence_types)
        and not isinstance(actual, str)
        and not isinstance(expected, str)
    ):
        if len(actual) != len(expected):  # type: ignore[arg-type]
            raise ErrorMeta(
                AssertionError,
                f"The length of the sequences mismatch: {len(actual)} != {len(expected)}",  # type: ignore[arg-type]
                id=id,
            )
        children = [(i, a, e) for i, (a, e) in enumerate(zip(actual, expected, strict=True))]  # type: ignore[call-overload]
    elif isinstance(actual, mapping_types) and isinstance(expected, mapping_types):
        children = _by_key(actual, expected, id)
    else:
        return [_leaf(actual, expected, pair_types, id, options)]
    pairs: list[Pair] = []
    for key, ours, theirs in children:
        pairs += originate_pairs(
            ours,
            theirs,
            pair_types=pair_types,
            sequence_types=sequence_types,
            mapping_types=mapping_types,
            id=(*id, key),
            **options,
        )
    return pairs


def _by_key(actual: Any, expected: Any, id: Path) -> list[tuple[Any, Any, Any]]:
    ours, theirs = set(actual), set(expected)

    def in_order(keys: set[Any]) -> list[Any]:
        try:
            return sorted(keys)
        except TypeError:  # keys of several types
            return list(keys)

    if ours != theirs:
        raise ErrorMeta(
            AssertionError,
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {in_order(theirs - ours)}\n"
            f"Additional keys in the actual mapping: {in_order(ours - theirs)}",
            id=id,
        )
    return [(key, actual[key], expected[key]) for key in in_order(ours)]


def _leaf(
    actual: Any, expected: Any, pair_types: Collection[type[Pair]], id: Path, options: Any
) -> Pair:
    for kind in pair_types:
        try:
            return kind(actual, expected, id=id, **options)
        except UnsupportedInputs:
            continue
    raise ErrorMeta(
        TypeError,
        "No comparison pair was able to handle inputs of type "
        f"{type(actual)} and {type(expected)}.",
        id=id,
    )


def not_close_error_metas(
    actual: Any,
    expected: Any,
    *,
    pair_types: Collection[type[Pair]] = (NonePair, BooleanPair, NumberPair, TensorLikePair),
    sequence_types: tuple[type, ...] = (Sequence,),
    mapping_types: tuple[type, ...] = (Mapping,),
    **options: Any,
) -> list[ErrorMeta]:
    """Return what differs, a description for each pair that does."""
    try:
        pairs = originate_pairs(
            actual,
            expected,
            pair_types=pair_types,
            sequence_types=sequence_types,
            mapping_types=mapping_types,
            **options,
        )
    except ErrorMeta as meta:
        return [meta]
    found = []
    for pair in pairs:
        try:
            pair.compare()
        except ErrorMeta as meta:
            found.append(meta)
    return found


# --- what tests call -----------------------------------------------------------------------------


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Message = None,
) -> None:
    """Raise an AssertionError unless two values are close: ``|a - e| <= atol + rtol * |e|``.

    Numbers are compared with numbers, tensors with tensors, and arrays of another library with
    such; sequences and mappings of them by position and key. Infinities must be equal.

    Args:
        actual: The value that was computed.
        expected: The value that it should be.
        allow_subclasses: Compare a subclass of a class with it.
        rtol: The relative tolerance; with *atol* or not at all. By default both follow from the
            dtype: 1e-3 and 1e-5 for float16, 1.6e-2 and 1e-5 for bfloat16, 1.3e-6 and 1e-5 for
            float32, 1e-7 for float64, the same for the complex dtypes of such parts, and 0 for
            others. Of two dtypes, the larger ones.
        atol: The absolute tolerance.
        equal_nan: NaN is close to NaN.
        check_device: The devices must be the same.
        check_dtype: The dtypes, or the types of numbers, must be the same. Otherwise both are
            promoted; uint16, uint32 and uint64 count as int64 then.
        check_layout: The layouts must be the same. Otherwise both become dense.
        check_stride: The strides of dense tensors must be the same.
        msg: Replaces the text of the error, or is called with it to make another.

    Raises:
        AssertionError: They are not close, or attributes, lengths or keys differ.
        TypeError: Two values that cannot be compared.
        ValueError: Only one of *rtol* and *atol* is given.

    Source:
        torch.testing.assert_close.
    """
    found = not_close_error_metas(
        actual,
        expected,
        allow_subclasses=allow_subclasses,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=check_device,
        check_dtype=check_dtype,
        check_layout=check_layout,
        check_stride=check_stride,
    )
    if found:
        raise found[0].to_error(msg) from None


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Compare as `assert_close` does, but make tensors of both first; this is an old function.

    Args:
        actual: What a tensor can be made of.
        expected: The same.
        rtol: The relative tolerance; by default 1e-3 for float16, 1e-4 for float32, 1e-5 for
            float64, and 0 for others.
        atol: The absolute tolerance; by default 1e-3, 1e-5, 1e-8 and 0.
        equal_nan: NaN is close to NaN.
        msg: Replaces the text of the error.

    Source:
        torch.testing.assert_allclose.
    """
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated. Please use "
        "`torch.testing.assert_close()` instead.",
        FutureWarning,
        stacklevel=2,
    )
    actual, expected = (
        each if isinstance(each, Tensor) else _C.tensor(each) for each in (actual, expected)
    )
    if rtol is None and atol is None:
        rtol, atol = default_tolerances(actual, expected, dtype_precisions=_OLD_TOLERANCES)
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )
