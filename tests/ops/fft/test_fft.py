"""Fourier transforms against NumPy: kinds of lengths, norms, dims, dtypes; derivatives; errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import fft
from shmtensor.autograd.gradcheck import gradcheck, gradgradcheck

#: Powers, products of small primes, primes that go by convolution, 1.
LENGTHS = (1, 2, 3, 4, 5, 7, 8, 12, 30, 31, 32, 37, 64, 97, 210, 251, 1000, 1009, 1024)
NORMS = (None, "backward", "ortho", "forward")


def samples(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def tensor(a: np.ndarray) -> Any:
    return st.from_numpy(np.array(a))


def close(got: Any, expected: np.ndarray, tolerance: float = 1e-12) -> None:
    assert tuple(got.shape) == expected.shape
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(got.numpy(), expected, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("n", LENGTHS)
def test_every_length(n: int) -> None:
    x = samples(3, n)
    for norm in NORMS:
        close(fft.fft(tensor(x), norm=norm), np.fft.fft(x, norm=norm))
        close(fft.ifft(tensor(x), norm=norm), np.fft.ifft(x, norm=norm))
        close(fft.rfft(tensor(x.real), norm=norm), np.fft.rfft(x.real, norm=norm))
        close(fft.ihfft(tensor(x.real), norm=norm), np.fft.ihfft(x.real, norm=norm))
        odd, even = 2 * n - 1, 2 * n
        close(fft.irfft(tensor(x), odd, norm=norm), np.fft.irfft(x, odd, norm=norm))
        close(fft.hfft(tensor(x), even, norm=norm), np.fft.hfft(x, even, norm=norm))
    single = fft.fft(tensor(x.astype(np.complex64)))
    assert single.dtype == st.complex64
    close(single, np.fft.fft(x), 1e-6)


@pytest.mark.check
def test_large_prime_is_exact() -> None:
    x = samples(100_003)
    close(fft.ifft(fft.fft(tensor(x))), x, 1e-11)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("s", "dim"),
    [(None, None), ((3, 7), None), ((3, 8), (0, 2)), (None, (2, 0)), ((4,), (1,)), (None, (-2,))],
)
def test_several_dims(norm: str | None, s: Any, dim: Any) -> None:
    x = samples(4, 5, 6)
    axes = dim if dim is not None else None if s is None else tuple(range(-len(s), 0))
    close(fft.fftn(tensor(x), s, dim, norm), np.fft.fftn(x, s, axes, norm))
    close(fft.ifftn(tensor(x), s, dim, norm), np.fft.ifftn(x, s, axes, norm))
    close(fft.rfftn(tensor(x.real), s, dim, norm), np.fft.rfftn(x.real, s, axes, norm))
    close(fft.irfftn(tensor(x), s, dim, norm), np.fft.irfftn(x, s, axes, norm))


def test_two_dims_are_the_last() -> None:
    x = samples(3, 4, 5)
    close(fft.fft2(tensor(x)), np.fft.fft2(x))
    close(fft.ifft2(tensor(x)), np.fft.ifft2(x))
    close(fft.rfft2(tensor(x.real)), np.fft.rfft2(x.real))
    close(fft.irfft2(tensor(x)), np.fft.irfft2(x))


def test_hermitian_transforms_undo_each_other() -> None:
    x = samples(4, 6).real
    for forward, back in ((fft.ihfftn, fft.hfftn), (fft.ihfft2, fft.hfft2)):
        close(back(forward(tensor(x)), x.shape), x)


@pytest.mark.parametrize("n", [1, 4, 5])
def test_frequencies_and_shifts(n: int) -> None:
    close(fft.fftfreq(n, 0.5, dtype=st.float64), np.fft.fftfreq(n, 0.5))
    close(fft.rfftfreq(n, 0.5, dtype=st.float64), np.fft.rfftfreq(n, 0.5))
    x = samples(n, 3)
    close(fft.fftshift(tensor(x)), np.fft.fftshift(x))
    close(fft.ifftshift(tensor(x), 0), np.fft.ifftshift(x, 0))
    longest = st.empty(2**63 - 1, dtype=st.bool, device="meta")
    assert fft.ifftshift(longest).shape == longest.shape
    out = st.empty(0)
    assert fft.fftfreq(n, out=out) is out
    assert out.shape == (n,)


def test_integers_become_the_default_dtype() -> None:
    x = st.arange(6)
    assert fft.fft(x).dtype == st.complex64
    close(fft.rfft(x), np.fft.rfft(np.arange(6)), 1e-6)


def test_input_may_have_any_strides_and_keeps_its_values() -> None:
    x = samples(6, 8)
    t = tensor(x)
    close(fft.fft(t.mT[1:, ::2], dim=0), np.fft.fft(x.T[1:, ::2], axis=0))
    close(t, x)
    assert fft.fft(st.empty(0, 4, dtype=st.complex64)).shape == (0, 4)
    assert fft.rfft(st.empty(2, 9, device="meta")).shape == (2, 5)


def test_out() -> None:
    x, out = samples(5), st.empty(0, dtype=st.complex128)
    assert fft.fft(tensor(x), out=out) is out
    close(out, np.fft.fft(x))


@pytest.mark.parametrize("name", ["fft", "ifft", "irfft", "hfft"])
@pytest.mark.parametrize("n", [None, 4, 7])
def test_derivatives_of_complex_input(name: str, n: int | None) -> None:
    x = tensor(samples(2, 5)).requires_grad_()
    assert gradcheck(lambda x: getattr(fft, name)(x, n), (x,))
    assert gradgradcheck(lambda x: getattr(fft, name)(x, n), (x,))


@pytest.mark.check
@pytest.mark.parametrize("name", ["fft", "rfft", "ihfft"])
@pytest.mark.parametrize("n", [None, 4, 7])
def test_derivatives_of_real_input(name: str, n: int | None) -> None:
    x = tensor(samples(2, 5).real).requires_grad_()
    assert gradcheck(lambda x: getattr(fft, name)(x, n), (x,))
    assert gradgradcheck(lambda x: getattr(fft, name)(x, n), (x,))


def test_derivatives_over_several_dims() -> None:
    x = tensor(samples(3, 4)).requires_grad_()
    assert gradcheck(fft.fftn, (x,))
    assert gradcheck(fft.irfftn, (x,))
    assert gradcheck(lambda x: fft.rfftn(x.real, dim=(1, 0)), (x,))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: fft.fft(x, 0), RuntimeError, r"Invalid number of data points \(0\) specified"),
        (lambda x: fft.fft(x, -1), RuntimeError, r"Invalid number of data points \(-1\) specified"),
        (lambda x: fft.fft(x.real.half(), dim=5), RuntimeError, "Unsupported dtype Half"),
        (lambda x: fft.fftn(x, (2,), (0, 5)), IndexError, "Dimension out of range"),
        (lambda x: fft.fft(x[0, 0], norm="x"), IndexError, "tensor has no dimensions"),
        (lambda x: fft.fft(x, norm="x"), RuntimeError, 'Invalid normalization mode: "x"'),
        (lambda x: fft.rfft(x), RuntimeError, "rfft expects a real input tensor"),
        (lambda x: fft.fft(x, dim=3), IndexError, "Dimension out of range"),
        (lambda x: fft.fftn(x, dim=(0, 0)), RuntimeError, "dims must be unique"),
        (lambda x: fft.fftn(x, (2,), (0, 1)), RuntimeError, "must have the same length"),
        (lambda x: fft.fftn(x, (2, 2, 2)), RuntimeError, "input tensor only has 2 dimensions"),
        (lambda x: fft.fft(x.real.half()), RuntimeError, "Unsupported dtype Half"),
        (
            lambda x: st.ops.aten._fft_r2c_backward(x.real.sum(), [-1], 0, True, 4),
            RuntimeError,
            "at least one axis",
        ),
        (lambda x: st.ops.aten._fft_c2r_backward(x.real, [1], 0, -(2**63)), RuntimeError, "points"),
        (lambda x: st.ops.aten._fft_r2c_backward(x, [], 0, True, 4), RuntimeError, "one axis"),
        (
            lambda x: st.ops.aten._fft_r2c_backward(x, [1], 0, True, -(2**63)),
            RuntimeError,
            r"\(-9223",
        ),
    ],
)
def test_what_is_refused(call: Callable[[Any], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(tensor(samples(3, 4)))


def test_a_transform_over_no_dims_is_a_copy() -> None:
    x = tensor(samples(3, 4))
    for transform in (fft.fftn, fft.ifftn):
        result = transform(x, dim=())
        assert st.equal(result, x)
        assert result.data_ptr() != x.data_ptr()


# --- short pieces -----------------------------------------------------------------------------


def test_stft_is_the_transform_of_each_piece() -> None:
    x, window = samples(20).real, np.hanning(8)
    got = st.stft(tensor(x), 8, 3, window=tensor(window), center=False, return_complex=True)
    pieces = np.stack([np.fft.rfft(x[i : i + 8] * window) for i in range(0, 13, 3)], -1)
    close(got, pieces)
    padded = np.pad(x, 4, mode="reflect")
    got = st.stft(tensor(x), 8, 3, window=tensor(window), return_complex=True)
    close(got, np.stack([np.fft.rfft(padded[i : i + 8] * window) for i in range(0, 21, 3)], -1))


@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("width", [8, 6])
def test_istft_undoes_stft(onesided: bool, normalized: bool, width: int) -> None:
    x = samples(2, 40).real
    options: dict[str, Any] = {
        "window": st.hann_window(width, dtype=st.float64) + 0.1,
        "win_length": width,
        "normalized": normalized,
        "onesided": onesided,
    }
    spectrum = st.stft(tensor(x), 8, 2, return_complex=True, **options)
    close(st.istft(spectrum, 8, 2, length=40, **options), x)


def test_stft_of_complex_signals() -> None:
    x = samples(40)
    spectrum = st.stft(tensor(x), 8, 2)
    assert spectrum.shape == (8, 21)
    close(st.istft(spectrum, 8, 2, length=40, return_complex=True), x)


def test_stft_and_istft_have_derivatives() -> None:
    x = tensor(samples(12).real).requires_grad_()
    assert gradcheck(lambda x: st.stft(x, 4, 2, return_complex=True), (x,))
    spectrum = st.stft(x, 4, 2, return_complex=True).detach().contiguous().requires_grad_()
    assert gradcheck(lambda s: st.istft(s, 4, 2), (spectrum,))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: st.stft(x, 8), "return_complex parameter"),
        (lambda x: st.stft(x, 80, center=False, return_complex=True), "n_fft=80"),
        (lambda x: st.stft(x, 8, 0, return_complex=True), "hop_length=0"),
        (lambda x: st.stft(x, 8, 2, 9, return_complex=True, window=x), "win_length <= n_fft"),
        (lambda x: st.istft(x, 8), "complex-valued input"),
    ],
)
def test_stft_refuses(call: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        call(tensor(samples(20).real))


@pytest.mark.parametrize(
    "shape",
    [
        (1, 601, 131),
        (1, 1009, 99),
        (3, 512, 150),
        (1, 4100, 23),
        (33, 360, 1),
        (70, 12, 33),
        (65, 7, 41),
        (130, 21, 65),
    ],
)
def test_signals_that_threads_share(threads: int, shape: tuple[int, ...]) -> None:
    """Columns on many pages or in many rows, and dense lines, in blocks that are not all full."""
    x = samples(*shape)
    single = x.astype(np.complex64)
    for dim in (1, 2, (1, 2)):
        dims = dim if isinstance(dim, tuple) else (dim,)
        close(fft.fftn(tensor(x), dim=dims), np.fft.fftn(x, axes=dims))
        close(fft.ifftn(tensor(x).flip(2), dim=dims), np.fft.ifftn(x[..., ::-1], axes=dims))
        close(fft.fftn(tensor(single), dim=dims), np.fft.fftn(x, axes=dims), 2e-6)
        close(fft.rfftn(tensor(x.real), dim=dims), np.fft.rfftn(x.real, axes=dims))
        if x.shape[dims[-1]] > 1:
            close(fft.irfftn(tensor(x), dim=dims), np.fft.irfftn(x, axes=dims))
        turned = x.transpose(1, 2, 0)
        last = dims[-1] % 3
        close(fft.fft(tensor(x).permute(1, 2, 0), dim=last), np.fft.fft(turned, axis=last))
