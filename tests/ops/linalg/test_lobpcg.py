"""lobpcg against all eigenvalues, with preconditioners, batches and gradients."""

from __future__ import annotations

import pytest

import shmtensor as st
from shmtensor import Tensor


def _definite(*sizes: int) -> Tensor:
    st.manual_seed(5)
    a = st.randn(*sizes, sizes[-1], dtype=st.float64)
    return a @ a.mT + st.eye(sizes[-1], dtype=st.float64)


@pytest.mark.check
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("sizes", [(12,), (2, 15)])
def test_finds_the_outermost_pairs(sizes: tuple[int, ...], largest: bool) -> None:
    a = _definite(*sizes)
    values, vectors = st.lobpcg(a, k=3, largest=largest)
    every = st.linalg.eigvalsh(a)
    wanted = every[..., -3:].flip(-1) if largest else every[..., :3]
    assert st.allclose(values, wanted, rtol=1e-6)
    assert st.allclose(a @ vectors, vectors * values.unsqueeze(-2), atol=1e-4)


def test_solves_the_generalised_problem() -> None:
    a, b = _definite(12), _definite(13)[:12, :12]
    values, vectors = st.lobpcg(a, 2, b, iK=a.inverse(), largest=False)
    assert st.allclose(a @ vectors, b @ vectors * values, atol=1e-4)
    assert st.allclose(vectors.mT @ b @ vectors, st.eye(2, dtype=st.float64), atol=1e-6)


@pytest.mark.check
def test_begins_at_x_and_stops_when_told() -> None:
    a = _definite(9)
    seen = []

    def track(state: object) -> None:
        seen.append(state.ivars["istep"])  # type: ignore[attr-defined]
        state.bvars["force_stop"] = len(seen) == 2  # type: ignore[attr-defined]

    exact = st.linalg.eigh(a)[1][:, -2:]
    st.lobpcg(a, X=st.ones(9, 1, dtype=st.float64), tol=0.0, tracker=track)
    assert seen == [0, 1]
    values, _ = st.lobpcg(a, X=exact, niter=0)
    assert st.allclose(values, st.linalg.eigvalsh(a)[-2:].flip(0))


def test_has_symmetric_gradients() -> None:
    a = _definite(9).requires_grad_()
    start = st.linalg.eigh(a.detach())[1][:, -2:]

    def square(m: Tensor) -> Tensor:
        values, vectors = st.lobpcg(m, X=start, tol=1e-12)
        return values.sum() + (vectors[0] ** 2).sum()

    (grad,) = st.autograd.grad(square(a), a)
    assert st.allclose(grad, grad.mT)
    step = _definite(9) * 1e-6
    with st.no_grad():
        slope = (square(a + step) - square(a - step)) / 2
    assert float(slope) == pytest.approx(float((grad * step).sum()), rel=1e-5)


def test_refuses_too_few_rows_and_words_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="rows \\(=5\\) is smaller than 3 x"):
        st.lobpcg(_definite(5), 2)
    with pytest.raises(ValueError, match="'fast'"):
        st.lobpcg(_definite(5), method="fast")
    with pytest.raises(RuntimeError, match="no gradient"):
        st.lobpcg(_definite(5).requires_grad_(), 1, _definite(5))
