"""Sobol sequences: points that fill the unit cube evenly."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor

__all__ = ["SobolEngine"]

_TABLE = "_sobol_direction_numbers.npz"


def _table() -> tuple[Tensor, Tensor]:
    """The primitive polynomials and first direction numbers of Joe and Kuo, a row per dimension.

    SciPy carries them; this package does not depend on it otherwise.
    """
    import numpy  # loaded by who uses it

    try:
        # Importing scipy.stats takes most of a second, and only its file is wanted.
        scipy = find_spec("scipy")
        if scipy is None or scipy.origin is None:
            raise ImportError("No module named 'scipy'")
        with open(Path(scipy.origin).parent / "stats" / _TABLE, "rb") as file:
            rows = numpy.load(file)
            poly, first = rows["poly"], rows["vinit"]
    except (ImportError, OSError) as error:
        raise ImportError(
            "SobolEngine takes its direction numbers from SciPy, which is not installed here or "
            "has no such table: pip install 'shmtensor[quasirandom]'"
        ) from error
    return _C.from_numpy(poly.astype("int64")), _C.from_numpy(first.astype("int64"))


def _direction_numbers(dimension: int, bits: int) -> Tensor:
    """The direction numbers, scaled to *bits* bits: int64 of shape ``(dimension, bits)``."""
    polynomials, first = (rows[:dimension] for rows in _table())
    numbers = _C.ones((dimension, bits), dtype=_C.int64)
    degrees = [int(p).bit_length() - 1 for p in polynomials.tolist()]
    for degree in sorted({*degrees} - {0}):
        rows = slice(degrees.index(degree), dimension - degrees[::-1].index(degree))
        block, polynomial = numbers[rows], polynomials[rows]
        block[:, :degree] = first[rows, :degree]
        for j in range(degree, bits):
            number = block[:, j - degree].clone()
            for k in range(degree):
                term = (polynomial >> (degree - 1 - k)) & 1
                number ^= term * (block[:, j - k - 1] << (k + 1))
            block[:, j] = number
    return numbers << _C.arange(bits - 1, -1, -1)


class SobolEngine:
    """Draws points of a Sobol sequence in the unit cube of *dimension* dimensions.

    Args:
        dimension: From 1 to `MAXDIM`.
        scramble: Scramble the sequence by random matrices and a random shift (Owen's way).
        seed: Of the scrambling; None takes the default generator.

    Raises:
        ValueError: The dimension is out of range.
        ImportError: SciPy is not installed; the direction numbers are its data.

    Source:
        torch.quasirandom.SobolEngine; the numbers are of S. Joe and F. Y. Kuo, "Constructing Sobol
        sequences with better two-dimensional projections", SIAM J. Sci. Comput. 30 (2008).
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]"
            )
        self.seed = seed
        self.scramble = scramble
        self.dimension = dimension
        self.sobolstate = _direction_numbers(dimension, self.MAXBIT)
        self.shift = _C.zeros(dimension, dtype=_C.int64)
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """Return the next *n* points.

        Args:
            n: How many.
            out: Takes the points; it gets their size, and keeps its dtype.
            dtype: float32 or float64; the default dtype when left out.

        Returns:
            Shape ``(n, dimension)``.

        Raises:
            NotImplementedError: Another dtype.
            RuntimeError: *n* is not positive, or the sequence has no more points.
        """
        dtype = _C.get_default_dtype() if dtype is None else dtype
        if dtype not in (_C.float32, _C.float64):
            raise NotImplementedError(f'"_sobol_engine_draw" not implemented for {dtype}')
        if n < 1:
            raise RuntimeError(f"SobolEngine: expected a positive number of points, got {n}")
        points = self._points(self.num_generated, n)
        result: Tensor = points.to(dtype).mul_(1 / 2**self.MAXBIT)
        if self.num_generated == 0:
            result[:1] = self._first_point  # of the dtype that was the default when it was made
        self.fast_forward(n)
        if out is None:
            return result
        out.resize_as_(result).copy_(result)
        return out

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """Return the next ``2 ** m`` points; see `draw`.

        Raises:
            ValueError: Together with the points before, they are no power of 2, which an even
                filling needs.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. "
                "If you still want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Go back to the first point; returns this engine."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out the next *n* points; returns this engine."""
        self.num_generated += n
        last = max(self.num_generated - 1, 0)
        self.quasi.copy_(self._points(last, 1)[0])
        return self

    def _points(self, start: int, n: int) -> Tensor:
        """Points from number *start* on, times ``2 ** MAXBIT``: int64 of ``(n, dimension)``.

        Point i is the exclusive or of the direction numbers that the bits of i's Gray code choose.
        """
        if start + n > 2**self.MAXBIT:
            raise RuntimeError(f"SobolEngine: the sequence has 2**{self.MAXBIT} points")
        at = _C.arange(start, start + n).unsqueeze(1)
        gray = at ^ (at >> 1)
        points: Tensor = self.shift.repeat(n, 1)
        for bit in range((start + n - 1).bit_length()):
            points ^= ((gray >> bit) & 1) * self.sobolstate[:, bit]
        return points

    def _scramble(self) -> None:
        """Draw a shift and a lower triangular matrix for each dimension, and apply the matrices."""
        generator = None
        if self.seed is not None:
            generator = _C.Generator()
            generator.manual_seed(self.seed)
        bits = self.MAXBIT
        powers = 2 ** _C.arange(bits)
        shift = _C.randint(2, (self.dimension, bits), generator=generator)
        self.shift = (shift * powers).sum(1)
        shape = (self.dimension, bits, bits)
        matrices = _C.randint(2, shape, generator=generator).tril_()
        matrices.diagonal(dim1=1, dim2=2).fill_(1)
        # The product over the field of two elements; the highest bit comes first.
        digits = (self.sobolstate.unsqueeze(1) >> _C.arange(bits - 1, -1, -1).unsqueeze(1)) & 1
        mixed = matrices.to(_C.float32).bmm(digits.to(_C.float32)).to(_C.int64) & 1
        self.sobolstate = (mixed * powers.flip(0).unsqueeze(1)).sum(1)

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        if self.scramble:
            parts.append("scramble=True")
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(parts)})"
