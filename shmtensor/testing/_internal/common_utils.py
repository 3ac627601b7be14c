"""Test cases that compare tensors, and what this platform is.

Source:
    torch.testing._internal.common_utils.
"""

from __future__ import annotations

import contextlib
import sys
import unittest
from collections.abc import Iterator
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.testing import make_tensor as make_tensor
from shmtensor.testing._comparison import not_close_error_metas
from shmtensor.testing._pairs import (
    BooleanPair,
    NonePair,
    NumberPair,
    ObjectPair,
    TensorLikePair,
)

__all__ = ["IS_LINUX", "IS_MACOS", "IS_WINDOWS", "TestCase", "freeze_rng_state", "run_tests"]

IS_LINUX = sys.platform == "linux"
IS_WINDOWS = sys.platform == "win32"
IS_MACOS = sys.platform == "darwin"
TEST_NUMPY = True
TEST_CUDA = False
TEST_WITH_ROCM = False


class TestCase(unittest.TestCase):
    """A case with equal random numbers in each run, whose `assertEqual` knows tensors."""

    def setUp(self) -> None:
        """Seed the generator."""
        shmtensor.manual_seed(0)

    def assertEqual(  # type: ignore[override]
        self,
        x: Any,
        y: Any,
        msg: Any = None,
        *,
        atol: float | None = None,
        rtol: float | None = None,
        equal_nan: bool = True,
        exact_dtype: bool = True,
        exact_device: bool = False,
        exact_layout: bool = False,
        exact_stride: bool = False,
    ) -> None:
        """Fail unless two values are equal: tensors, and numbers in containers, up to a tolerance.

        Args:
            x: A value.
            y: The expected one.
            msg: The text of the failure.
            atol: The tolerance; with *rtol*, or neither.
            rtol: The tolerance in parts of *y*.
            equal_nan: Whether NaN equals NaN.
            exact_dtype: Whether dtypes are compared.
            exact_device: Whether devices are compared.
            exact_layout: Whether layouts are compared.
            exact_stride: Whether strides are compared.
        """
        if not (_has_tensor(x) or _has_tensor(y) or isinstance(x, (float, complex))):
            super().assertEqual(x, y, msg)  # noqa: PT009 - what this one adds to
            return
        found = not_close_error_metas(
            x,
            y,
            pair_types=(NonePair, BooleanPair, NumberPair, TensorLikePair, ObjectPair),
            atol=atol,
            rtol=rtol,
            equal_nan=equal_nan,
            check_dtype=exact_dtype,
            check_device=exact_device,
            check_layout=exact_layout,
            check_stride=exact_stride,
        )
        if found:
            error = found[0].to_error()
            if not isinstance(error, AssertionError):
                raise error
            raise self.failureException(msg or str(error))


def _has_tensor(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_tensor(each) for each in value.values())
    if isinstance(value, (list, tuple)):
        return any(_has_tensor(each) for each in value)
    return isinstance(value, Tensor)


@contextlib.contextmanager
def freeze_rng_state() -> Iterator[None]:
    """A context after which the generator is where it was before."""
    state = shmtensor.get_rng_state()
    try:
        yield
    finally:
        shmtensor.set_rng_state(state)


def run_tests(argv: list[str] | None = None) -> None:
    """Run the test cases of the main program, and exit with their status."""
    unittest.main(argv=argv or sys.argv)
