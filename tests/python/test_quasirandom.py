"""Sobol sequences, against values that torch gives."""

from __future__ import annotations

import sys

import pytest

import shmtensor as T
from shmtensor.quasirandom import SobolEngine

pytest.importorskip("scipy")  # carries the direction numbers


@pytest.mark.check
def test_points_of_three_dimensions() -> None:
    engine = SobolEngine(3)
    assert engine.draw(5).tolist() == [
        [0, 0, 0],
        [0.5, 0.5, 0.5],
        [0.75, 0.25, 0.25],
        [0.25, 0.75, 0.75],
        [0.375, 0.375, 0.625],
    ]
    assert engine.num_generated == 5
    assert engine.quasi.tolist() == [402653184, 402653184, 671088640]
    assert repr(engine) == "SobolEngine(dimension=3)"


def test_direction_numbers_are_scaled_to_thirty_bits() -> None:
    assert SobolEngine(3).sobolstate[:, :4].tolist() == [
        [536870912, 268435456, 134217728, 67108864],
        [536870912, 805306368, 671088640, 1006632960],
        [536870912, 805306368, 402653184, 603979776],
    ]


def test_a_scrambled_sequence_follows_from_its_seed() -> None:
    engine = SobolEngine(3, scramble=True, seed=7)
    assert engine.shift.tolist() == [214182645, 183537049, 804615878]
    assert engine.sobolstate[:, :3].tolist() == [
        [545853173, 438452617, 257908810],
        [662285411, 1065302244, 766938834],
        [816589273, 758585655, 346029292],
    ]
    engine.draw(4)
    assert engine.quasi.tolist() == [384199548, 898610557, 46297073]
    assert repr(engine) == "SobolEngine(dimension=3, scramble=True, seed=7)"


@pytest.mark.parametrize("scramble", [False, True])
def test_parts_of_a_sequence_are_as_the_whole(scramble: bool) -> None:
    engine = SobolEngine(40, scramble, seed=3)
    whole = engine.draw(12, dtype=T.float64)
    assert engine.reset() is engine
    parts = [engine.draw(n, dtype=T.float64) for n in (1, 3, 4)]
    assert engine.fast_forward(2) is engine
    assert T.equal(T.cat(parts), whole[:8])
    assert T.equal(engine.draw(2, dtype=T.float64), whole[10:])
    assert T.equal(SobolEngine(40, scramble, seed=3).fast_forward(5).quasi, engine._points(4, 1)[0])


@pytest.mark.check
def test_draw_writes_into_out_and_keeps_its_dtype() -> None:
    out = T.empty(0, dtype=T.float64)
    assert SobolEngine(2).draw(2, out=out) is out
    assert out.tolist() == [[0, 0], [0.5, 0.5]]


def test_powers_of_two_are_drawn_together_only() -> None:
    engine = SobolEngine(2)
    assert engine.draw_base2(3).shape == (8, 2)
    engine.draw()
    with pytest.raises(ValueError, match=r"n to be a power of 2\. 9 points"):
        engine.draw_base2(3)


def test_calls_that_no_sequence_answers() -> None:
    for dimension in (0, 21202):
        with pytest.raises(ValueError, match=r"is \[1, 21201\]"):
            SobolEngine(dimension)
    for n in (0, -1):
        with pytest.raises(RuntimeError):
            SobolEngine(2).draw(n)
    with pytest.raises(NotImplementedError):
        SobolEngine(2).draw(2, dtype=T.int64)
    with pytest.raises(RuntimeError, match=r"2\*\*30 points"):
        SobolEngine(2).fast_forward(2**30).draw(1)


def test_without_scipy_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(ImportError, match=r"shmtensor\[quasirandom\]"):
        SobolEngine(2)


def test_every_dimension_agrees_with_torch() -> None:
    torch = pytest.importorskip("torch")
    for scramble in (False, True):
        ours = SobolEngine(1111, scramble, seed=5)
        theirs = torch.quasirandom.SobolEngine(1111, scramble, seed=5)
        assert ours.sobolstate.tolist() == theirs.sobolstate.tolist()
        assert ours.draw(9).tolist() == theirs.draw(9).tolist()
