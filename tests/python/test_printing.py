"""Printing against texts that torch 2.13 prints; options of `set_printoptions`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import shmtensor

CASES = [
    (
        "tensor([1.0, 2.5])",
        "tensor([1.0000, 2.5000])",
    ),
    (
        "tensor([1e-5, 1.0])",
        "tensor([1.0000e-05, 1.0000e+00])",
    ),
    (
        "tensor([1e10, 1.0])",
        "tensor([1.0000e+10, 1.0000e+00])",
    ),
    (
        'tensor([float("nan"), float("inf"), -float("inf"), 1.5])',
        "tensor([   nan,    inf,   -inf, 1.5000])",
    ),
    (
        "tensor([[1, 2], [3, 40]])",
        "tensor([[ 1,  2],\n        [ 3, 40]])",
    ),
    (
        "tensor([True, False])",
        "tensor([ True, False])",
    ),
    (
        "tensor([1+2j, 3.5-1j])",
        "tensor([1.0000+2.j, 3.5000-1.j])",
    ),
    (
        "tensor([], dtype=int64)",
        "tensor([], dtype=torch.int64)",
    ),
    (
        "zeros(2, 0, 3)",
        "tensor([], size=(2, 0, 3))",
    ),
    (
        "tensor(3.5)",
        "tensor(3.5000)",
    ),
    (
        "tensor(7)",
        "tensor(7)",
    ),
    (
        "arange(2000)",
        "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])",
    ),
    (
        "arange(2000.).reshape(50, 40)[:, :]",
        "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 3.7000e+01, 3.8000e+01,\n"
        "         3.9000e+01],\n"
        "        [4.0000e+01, 4.1000e+01, 4.2000e+01,  ..., 7.7000e+01, 7.8000e+01,\n"
        "         7.9000e+01],\n"
        "        [8.0000e+01, 8.1000e+01, 8.2000e+01,  ..., 1.1700e+02, 1.1800e+02,\n"
        "         1.1900e+02],\n"
        "        ...,\n"
        "        [1.8800e+03, 1.8810e+03, 1.8820e+03,  ..., 1.9170e+03, 1.9180e+03,\n"
        "         1.9190e+03],\n"
        "        [1.9200e+03, 1.9210e+03, 1.9220e+03,  ..., 1.9570e+03, 1.9580e+03,\n"
        "         1.9590e+03],\n"
        "        [1.9600e+03, 1.9610e+03, 1.9620e+03,  ..., 1.9970e+03, 1.9980e+03,\n"
        "         1.9990e+03]])",
    ),
    (
        "tensor([0.1, 0.2], dtype=float64)",
        "tensor([0.1000, 0.2000], dtype=torch.float64)",
    ),
    (
        "tensor([1.5], dtype=float16)",
        "tensor([1.5000], dtype=torch.float16)",
    ),
    (
        "ones(2, 2, 2)",
        "tensor([[[1., 1.],\n         [1., 1.]],\n\n        [[1., 1.],\n         [1., 1.]]])",
    ),
    (
        "tensor([1., 2.], requires_grad=True)",
        "tensor([1., 2.], requires_grad=True)",
    ),
    (
        "tensor([1., 2.], requires_grad=True) * 2",
        "tensor([2., 4.], grad_fn=<MulBackward0>)",
    ),
    (
        "tensor([100000., 1.5])",
        "tensor([1.0000e+05, 1.5000e+00])",
    ),
    (
        "tensor([123456789, 1])",
        "tensor([123456789,         1])",
    ),
    (
        "arange(30.)",
        "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n"
        "        14., 15., 16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27.,\n"
        "        28., 29.])",
    ),
    (
        "tensor([-1.5, 2.0])",
        "tensor([-1.5000,  2.0000])",
    ),
    (
        "tensor([0.0, 0.0])",
        "tensor([0., 0.])",
    ),
    (
        "tensor([1e-8])",
        "tensor([1.0000e-08])",
    ),
    (
        "tensor([1, -2], dtype=int8)",
        "tensor([ 1, -2], dtype=torch.int8)",
    ),
    (
        'empty(2, 3, device="meta")',
        "tensor(..., device='meta', size=(2, 3))",
    ),
    (
        "tensor([1.0, 2.0, 3.0])*1e8",
        "tensor([1.0000e+08, 2.0000e+08, 3.0000e+08])",
    ),
    (
        'tensor([[1.0, float("nan")], [1e-3, 2.0]])',
        "tensor([[1.0000e+00,        nan],\n        [1.0000e-03, 2.0000e+00]])",
    ),
    (
        "tensor(True)",
        "tensor(True)",
    ),
    (
        "tensor([1e-40])",
        "tensor([9.9999e-41])",
    ),
    (
        "tensor(2.0, requires_grad=True)",
        "tensor(2., requires_grad=True)",
    ),
]


@pytest.fixture(autouse=True)
def _default_options() -> Iterator[None]:
    yield
    shmtensor.set_printoptions(profile="default")


@pytest.mark.parametrize(("expression", "text"), CASES, ids=[c[0] for c in CASES])
def test_repr_is_what_torch_prints(expression: str, text: str) -> None:
    names = {**vars(shmtensor), "float": float}
    assert repr(eval(expression, names)) == text


@pytest.mark.check
def test_precision_option_changes_digits() -> None:
    shmtensor.set_printoptions(precision=2)
    assert repr(shmtensor.tensor([1.239, 2.5])) == "tensor([1.24, 2.50])"


def test_sci_mode_option_forces_exponents() -> None:
    shmtensor.set_printoptions(sci_mode=True)
    assert repr(shmtensor.tensor([1.5])) == "tensor([1.5000e+00])"


@pytest.mark.parametrize(
    ("sci_mode", "values", "text"),
    [
        (True, [1.5, float("nan"), float("inf")], "1.5000e+00,        nan,        inf"),
        (True, [float("inf"), 1.0], "       inf, 1.0000e+00"),
        (True, [0.0, 0.0], "0., 0."),
        (True, [float("nan")], "nan"),
        (True, [1 + 2j, 3e10 - 1j], "1.0000e+00+2.0000e+00j, 3.0000e+10-1.0000e+00j"),
        (False, [1e-9, 1e9], "         0.0000, 1000000000.0000"),
        (False, [1 + 2j, 3e10 - 1j], "          1.+2.j, 30000001024.-1.j"),
    ],
)
def test_width_is_that_of_the_form_that_was_asked_for(
    sci_mode: bool, values: list[complex], text: str
) -> None:
    shmtensor.set_printoptions(sci_mode=sci_mode)
    assert repr(shmtensor.tensor(values)) == f"tensor([{text}])"


@pytest.mark.check
def test_threshold_option_summarises() -> None:
    shmtensor.set_printoptions(threshold=5, edgeitems=1)
    assert repr(shmtensor.arange(9)) == "tensor([0,  ..., 8])"


def test_unknown_profile_is_refused() -> None:
    with pytest.raises(ValueError, match="profile"):
        shmtensor.set_printoptions(profile="loud")


def test_format_of_zero_dim_tensor_formats_its_number() -> None:
    assert f"{shmtensor.tensor(1.23456):.2f}" == "1.23"
    assert f"{shmtensor.tensor([1, 2])}" == "tensor([1, 2])"
