"""Functions that are composed in Python take and refuse what operators do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as T
import shmtensor.nn.functional as F

SIGNAL, IMAGE = T.arange(8.0), T.ones(1, 1, 2, 2)

REFUSED: dict[str, tuple[str, Callable[[], Any]]] = {
    "no signal": (r"'input' \(position 1\) must be Tensor, not NoneType", lambda: T.stft(None, 4)),
    "a length that is no int": (r"'n_fft' \(position 2\) must be int", lambda: T.stft(SIGNAL, 4.0)),
    "a flag that is no bool": (
        "'return_complex' must be bool, not int",
        lambda: T.stft(SIGNAL, 4, return_complex=1),
    ),
    "no spectrum": ("must be Tensor, not int", lambda: T.istft(3, 4)),
    "an order that is no int": ("'edge_order'", lambda: T.gradient(SIGNAL, edge_order=1.0)),
    "a dim that is a bool": ("'dim'", lambda: T.gradient(SIGNAL, dim=True)),
    "a slope that is no number": ("'lower'", lambda: F.rrelu(SIGNAL, "a")),
    "training that is no bool": ("'training'", lambda: F.rrelu(SIGNAL, training=1)),
    "a bias that is a number": (
        r"'bias' \(position 4\)",
        lambda: F.bilinear(T.ones(2, 3), T.ones(2, 3), T.ones(1, 3, 3), 1),
    ),
    "nothing": ("must be Tensor", lambda: F.logsigmoid(None)),
    "an argument of no name": ("bogus", lambda: T.gradient(SIGNAL, bogus=1)),
    "a size of fractions": ("of ints", lambda: F.interpolate(IMAGE, size=(2, 2.5))),
    "a size of letters": ("of ints", lambda: F.interpolate(IMAGE, size="a")),
    "a scale of letters": ("of floats", lambda: F.interpolate(IMAGE, scale_factor="a")),
    "a scale that is a tensor": (
        "of floats",
        lambda: F.interpolate(IMAGE, scale_factor=T.tensor(2.0)),
    ),
    "corners that are no bool": (
        "align_corners",
        lambda: F.interpolate(IMAGE, 2, mode="bilinear", align_corners=1),
    ),
    "sums to letters": ("str", lambda: IMAGE.sum_to_size("a")),
    "sums to nowhere": ("size", lambda: IMAGE.sum_to_size()),
}


@pytest.mark.parametrize("what", REFUSED)
def test_is_refused(what: str) -> None:
    text, call = REFUSED[what]
    with pytest.raises(TypeError, match=text):
        call()


@pytest.mark.check
def test_numbers_of_other_kinds_are_taken() -> None:
    spectrum = T.stft(SIGNAL, np.int64(4), hop_length=T.tensor(2), return_complex=np.bool_(True))
    assert spectrum.shape == (3, 5)
    assert T.istft(spectrum, 4, 2).shape == (8,)
    assert T.gradient(SIGNAL, spacing=np.float32(2))[0].tolist() == [0.5] * 8
    assert T.gradient(T.ones(2, 3), dim=T.tensor(1), edge_order=np.int64(2))[0].shape == (2, 3)
    assert F.rrelu(SIGNAL, T.tensor(0.1), np.float32(0.2)).tolist() == SIGNAL.tolist()
    assert F.interpolate(IMAGE, size=(np.int64(3), T.tensor(2))).shape == (1, 1, 3, 2)
    assert F.interpolate(IMAGE, scale_factor=(2, np.float32(1.5))).shape == (1, 1, 4, 3)
    assert IMAGE.sum_to_size(np.int64(2)).tolist() == [2.0, 2.0]


@pytest.mark.check
def test_endless_scales_are_refused() -> None:
    for scale in (float("inf"), float("nan")):
        with pytest.raises(RuntimeError, match="without overflow"):
            F.interpolate(IMAGE, scale_factor=scale)


def test_unknown_modes_are_not_implemented_with_any_option() -> None:
    for corners in (None, True, False):
        with pytest.raises(NotImplementedError, match="bogus"):
            F.interpolate(IMAGE, 2, mode="bogus", align_corners=corners)
