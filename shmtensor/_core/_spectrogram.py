"""Fourier transforms of short pieces of signals, and back. Source: torch.stft, torch.istft."""

from __future__ import annotations

import warnings

import shmtensor
from shmtensor import _C
from shmtensor._core._arguments import checked
from shmtensor._core._autocast import in_float32
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor
from shmtensor._core._warnings import warn_once

__all__ = ["istft", "stft"]

_nn = _C._nn


def _whole_window(
    name: str, window: Tensor | None, n_fft: int, win_length: int, like: Tensor
) -> Tensor:
    """The window as long as a piece; a shorter one stands in the middle of zeros."""
    if not 0 < win_length <= n_fft:
        raise RuntimeError(f"{name}(): expected 0 < win_length <= n_fft={n_fft}, got {win_length}")
    if window is None:
        dtype = like.real.dtype if like.is_complex() else like.dtype
        window = shmtensor.ones(win_length, dtype=dtype, device=like.device)
    if window.dim() != 1 or window.shape[0] != win_length:
        raise RuntimeError(
            f"{name}(): expected a 1D window tensor of size equal to win_length={win_length}, but "
            f"got window with size {list(window.shape)}"
        )
    left = (n_fft - win_length) // 2
    if win_length == n_fft:
        return window
    return shmtensor.constant_pad_nd(window, [left, n_fft - win_length - left])


def _warn_of_no_window(name: str, reason: str) -> None:
    warn_once(
        f"{name}(): a window was not provided. A rectangular one is applied, {reason}. "
        "window=ones(n_fft) silences this warning",
        stacklevel=4,
    )


@overridable
@in_float32
@checked
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Transform overlapping pieces of a signal.

    Args:
        input: ``(L,)`` or ``(B, L)``, floating point or complex.
        n_fft: Length of a piece.
        hop_length: Distance of pieces; a quarter of *n_fft* if absent.
        win_length: Length of *window*; *n_fft* if absent.
        window: ``(win_length,)``, what pieces are multiplied by; ones if absent.
        center: Pad the signal so that the t-th piece has its middle at ``t * hop_length``.
        pad_mode: How, see ``nn.functional.pad``.
        normalized: Divide by the root of *n_fft*.
        onesided: Only frequencies up to the middle; the default for real signals.
        return_complex: Must be given for real signals. False: a last dimension of size 2 instead.
        align_to_window: Must be false or absent: pieces are aligned to *n_fft*.

    Returns:
        ``(N, T)`` or ``(B, N, T)``, complex, for N frequencies and T pieces.

    Raises:
        RuntimeError: Sizes do not fit; *return_complex* is missing; *onesided* of complex input.
    """
    if input.dim() not in (1, 2):
        raise RuntimeError(
            f"stft({input.dtype}{list(input.shape)}): expected a 1D or 2D tensor of floating or "
            "complex values"
        )
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(
            f"stft(): expected a tensor of floating or complex values, got {input.dtype}"
        )
    if align_to_window:
        raise RuntimeError("stft(): align_to_window=True is not supported")
    is_complex = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not is_complex:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will "
                "further require that return_complex=True in a future PyTorch release."
            )
        return_complex = True
    if not return_complex:
        warn_once(
            "stft() with return_complex=False is deprecated: view_as_real() of the complex result "
            "is what it returns",
            stacklevel=3,
        )
    if onesided is None:
        onesided = not is_complex
    if onesided and is_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    hop = n_fft // 4 if hop_length is None else hop_length
    signal = input if input.dim() == 2 else input.unsqueeze(0)
    if n_fft > 0 and center:
        edges = [n_fft // 2, n_fft // 2]
        signal = shmtensor.nn.functional.pad(signal.unsqueeze(0), edges, pad_mode).squeeze(0)
    length = signal.shape[-1]
    if not 0 < n_fft <= length:
        raise RuntimeError(f"stft(): expected 0 < n_fft <= {length}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"stft(): expected hop_length > 0, but got hop_length={hop}")
    width = n_fft if win_length is None else win_length
    if window is None:
        _warn_of_no_window(
            "stft", "which leaks into neighbouring frequencies: hann_window() is better"
        )
    pieces = signal.unfold(-1, n_fft, hop)
    if window is not None or width != n_fft:
        pieces = pieces * _whole_window("stft", window, n_fft, width, input)
    norm = "ortho" if normalized else None
    spectrum = _nn.fft_rfft(pieces, norm=norm) if onesided else _nn.fft_fft(pieces, norm=norm)
    result = spectrum.transpose(1, 2)
    if input.dim() == 1:
        result = result.squeeze(0)
    return result if return_complex else shmtensor.view_as_real(result)


def _overlap_add(pieces: Tensor, hop: int) -> Tensor:
    """``(B, T, N)`` pieces summed at their positions in ``(B, N + hop * (T - 1))``."""
    n, t = pieces.shape[-1], pieces.shape[-2]
    starts = shmtensor.arange(t, device=pieces.device).unsqueeze(-1) * hop
    index = (starts + shmtensor.arange(n, device=pieces.device)).reshape(-1)
    signal = pieces.new_zeros((pieces.shape[0], n + hop * (t - 1)))
    return signal.index_add(1, index, pieces.reshape(pieces.shape[0], -1))


@overridable(as_given=True)
@checked
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """Give the signal whose pieces `stft` transformed: the least-squares estimate.

    Args:
        input: ``(N, T)`` or ``(B, N, T)``, complex.
        n_fft: Length of a piece.
        hop_length: Distance of pieces; a quarter of *n_fft* if absent.
        win_length: Length of *window*; *n_fft* if absent.
        window: What the pieces were multiplied by; ones if absent.
        center: Whether the signal was padded.
        normalized: Whether it was divided by the root of *n_fft*.
        onesided: Whether N is ``n_fft // 2 + 1``; found out if absent.
        length: Length of the signal.
        return_complex: Whether the signal is complex.

    Returns:
        ``(L,)`` or ``(B, L)``.

    Raises:
        RuntimeError: Sizes do not fit; the windows do not cover all samples.

    Source:
        Griffin and Lim, "Signal estimation from modified short-time Fourier transform", 1984.
    """
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    if input.dim() not in (2, 3) or input.numel() == 0:
        raise RuntimeError(
            "istft(): expected a tensor with 2 or 3 dimensions and elements, got "
            f"{list(input.shape)}"
        )
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    n, t = input.shape[-2:]
    is_half = n != n_fft if onesided is None else onesided
    expected = n_fft // 2 + 1 if is_half else n_fft
    if n != expected:
        raise RuntimeError(
            f"istft(): expected the frequency dimension (3rd to the last) of the input tensor to "
            f"match {'n_fft / 2 + 1' if is_half else 'n_fft'} when onesided={is_half}, but got {n}"
        )
    if not 0 < hop <= width:
        raise RuntimeError(f"istft(): expected 0 < hop_length <= win_length, got {hop} and {width}")
    if return_complex and is_half:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if window is None:
        _warn_of_no_window("istft", "which should be the one that stft() used")
    whole = _whole_window("istft", window, n_fft, width, input)
    norm = "ortho" if normalized else None
    spectrum = (input if input.dim() == 3 else input.unsqueeze(0)).transpose(1, 2)
    if return_complex:
        pieces = _nn.fft_ifft(spectrum, norm=norm)
    else:
        half = spectrum.narrow(-1, 0, n_fft // 2 + 1)
        pieces = _nn.fft_irfft(half, n=n_fft, norm=norm)
    signal = _overlap_add(pieces * whole, hop)
    weight = _overlap_add((whole * whole).expand(1, t, n_fft), hop)
    begin = n_fft // 2 if center else 0
    total = n_fft + hop * (t - 1)
    end = begin + length if length is not None else total - (n_fft // 2 if center else 0)
    stop = min(end, total)
    signal, weight = signal[:, begin:stop], weight[:, begin:stop]
    smallest = float(weight.abs().min()) if weight.numel() else 1.0
    if not smallest > 1e-11:
        raise RuntimeError(f"istft(): window overlap add min: {smallest:g}, must be above 1e-11")
    signal = signal / weight
    if end > total:
        warnings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded "
            "with zeros in the tail. Please check your center and hop_length settings.",
            stacklevel=2,
        )
        signal = shmtensor.constant_pad_nd(signal, [0, end - total])
    return signal if input.dim() == 3 else signal.squeeze(0)
