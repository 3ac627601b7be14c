"""grouped_mm against products of the single matrices."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as sh
from shmtensor.nn import functional as F

OFFS = sh.tensor([1, 1, 4], dtype=sh.int32)
CUTS = [(0, 1), (1, 1), (1, 4)]


def pair(*shapes: tuple[int, ...]) -> list[sh.Tensor]:
    sh.manual_seed(0)
    return [sh.randn(*shape).requires_grad_() for shape in shapes]


@pytest.mark.check
def test_rows_of_experts() -> None:
    rows, weights = pair((5, 2), (3, 2, 4))
    result = F.grouped_mm(rows, weights, offs=OFFS)
    expected = [rows[start:end] @ weights[g] for g, (start, end) in enumerate(CUTS)]
    sh.testing.assert_close(result, sh.cat([*expected, sh.zeros(1, 4)]))
    assert sh.equal(sh._grouped_mm(rows, weights, OFFS), result)


def test_columns_and_sums_in_groups() -> None:
    stack, flat = pair((3, 6, 2), (2, 5))
    result = F.grouped_mm(stack, flat, offs=OFFS)
    expected = [stack[g] @ flat[:, start:end] for g, (start, end) in enumerate(CUTS)]
    sh.testing.assert_close(result, sh.cat([*expected, sh.zeros(6, 1)], 1))
    a, b = pair((6, 5), (5, 2))
    sums = F.grouped_mm(a, b, offs=OFFS)
    sh.testing.assert_close(sums, sh.stack([a[:, s:e] @ b[s:e] for s, e in CUTS]))
    assert F.grouped_mm(a, b, offs=OFFS[:0]).shape == (0, 6, 2)


def test_stacks_are_multiplied_pairwise() -> None:
    a, b = pair((3, 6, 2), (3, 2, 5))
    assert sh.equal(F.grouped_mm(a, b, out_dtype=sh.float32), a @ b)


def test_gradients() -> None:
    rows, weights = pair((5, 2), (3, 2, 4))
    F.grouped_mm(rows, weights, offs=OFFS).pow(2).sum().backward()
    got = [rows.grad, weights.grad]
    rows.grad = weights.grad = None
    parts = [rows[start:end] @ weights[g] for g, (start, end) in enumerate(CUTS)]
    sh.cat(parts).pow(2).sum().backward()
    for mine, expected in zip(got, [rows.grad, weights.grad], strict=True):
        sh.testing.assert_close(mine, expected)
    assert rows.grad is not None and rows.grad[4].eq(0).all()  # of no group


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"mat_a": sh.ones(5, 2).double()}, "Expected mat_a to be Float32.*got torch.float64"),
        ({"mat_b": sh.ones(3)}, r"mat_b has to be 2 or 3d, got \(5, 2\) and \(3,\)"),
        ({"mat_a": sh.ones(5, 3)}, "contraction dimension of mat_a and mat_b must match"),
        ({"offs": None}, "Have to provide offsets"),
        ({"offs": OFFS.long()}, "Offsets have to be int32, got torch.int64"),
        ({"offs": OFFS[None]}, r"offs has to be 1D, got \(1, 3\)"),
        ({"offs": OFFS[:2]}, "matrix batch sizes have to match, got 2 offsets for 3"),
        ({"offs": OFFS + 2}, r"nor end behind 5; got \[3, 3, 6\]"),
        ({"offs": OFFS.flip(0)}, r"must not decrease.*got \[4, 1, 1\]"),
        ({"bias": sh.ones(4)}, "Bias not supported yet"),
        ({"out_dtype": sh.float16}, "output dtype must match `mat_a` dtype, got torch.float16"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], text: str) -> None:
    given = {"mat_a": sh.ones(5, 2), "mat_b": sh.ones(3, 2, 4), "offs": OFFS, **changes}
    with pytest.raises(RuntimeError, match=text):
        F.grouped_mm(given.pop("mat_a"), given.pop("mat_b"), **given)
