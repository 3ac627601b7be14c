"""Initial values: torch's numbers for a seed, and the formulas' bounds."""

from __future__ import annotations

import math
import warnings

import pytest

import shmtensor
from shmtensor import nn


@pytest.mark.check
def test_linear_draws_torchs_numbers():
    shmtensor.manual_seed(0)
    layer = nn.Linear(3, 2)
    assert layer.weight.flatten().tolist() == pytest.approx(
        [
            -0.004322517663240433,
            0.3097158372402191,
            -0.4751853346824646,
            -0.4248946011066437,
            -0.2223689705133438,
            0.15482072532176971,
        ],
        abs=1e-7,
    )
    assert layer.bias.tolist() == pytest.approx(
        [-0.011439144611358643, 0.45777493715286255], abs=1e-7
    )


def test_conv2d_draws_torchs_numbers():
    shmtensor.manual_seed(0)
    layer = nn.Conv2d(1, 2, 2)
    assert layer.weight.flatten().tolist()[:3] == pytest.approx(
        [-0.003743410110473633, 0.26822179555892944, -0.4115225672721863], abs=1e-7
    )
    assert layer.bias.tolist() == pytest.approx(
        [-0.04437202215194702, 0.1323062777519226], abs=1e-7
    )


def test_embedding_draws_torchs_numbers():
    shmtensor.manual_seed(0)
    layer = nn.Embedding(2, 3, padding_idx=1)
    assert layer.weight[0].tolist() == pytest.approx(
        [1.5409960746765137, -0.293428897857666, -2.1787893772125244], rel=1e-6
    )


def test_xavier_and_kaiming_draw_torchs_numbers():
    shmtensor.manual_seed(0)
    uniform = nn.init.xavier_uniform_(shmtensor.empty(2, 3))
    assert uniform.flatten().tolist()[:2] == pytest.approx(
        [-0.008201400749385357, 0.5876445174217224], abs=1e-6
    )
    normal = nn.init.kaiming_normal_(shmtensor.empty(2, 3))
    assert normal.flatten().tolist()[:2] == pytest.approx(
        [1.0324262380599976, -0.5612813234329224], rel=1e-5
    )
    glorot = nn.init.xavier_normal_(shmtensor.empty(4, 4))
    assert glorot.flatten().tolist()[:2] == pytest.approx(
        [0.28332531452178955, 0.3967541754245758], rel=1e-5
    )


@pytest.mark.check
def test_initialisers_change_parameters_outside_the_graph():
    parameter = nn.Parameter(shmtensor.empty(3, 3))
    for fill in (nn.init.zeros_, nn.init.ones_, nn.init.eye_, nn.init.uniform_, nn.init.normal_):
        assert fill(parameter) is parameter
        assert parameter.grad_fn is None
    assert nn.init.constant_(parameter, 2.5).tolist() == [[2.5] * 3] * 3
    assert nn.init.eye_(shmtensor.empty(2, 3)).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


def test_dirac_passes_channels_through():
    weight = nn.init.dirac_(shmtensor.empty(2, 2, 3, 3))
    x = shmtensor.arange(18.0).reshape(1, 2, 3, 3)
    assert nn.functional.conv2d(x, weight, padding=1).tolist() == x.tolist()


def test_gain_and_fans_refuse_nonsense():
    assert nn.init.calculate_gain("relu") == pytest.approx(math.sqrt(2))
    assert nn.init.calculate_gain("leaky_relu", 0.2) == pytest.approx(math.sqrt(2 / 1.04))
    with pytest.raises(ValueError, match="Unsupported nonlinearity x"):
        nn.init.calculate_gain("x")
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        nn.init.kaiming_uniform_(shmtensor.zeros(2))
    with pytest.raises(ValueError, match="Mode x not supported"):
        nn.init.kaiming_uniform_(shmtensor.zeros(2, 2), mode="x")


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-2, 2, [1.5409960747, -0.2934288979, 0.3731146455, 0.5684312582, -1.0845223665]),
        (0.5, 0.7, [0.5992513299, 0.6536443233, 0.5176954865, 0.5264061093, 0.5614845753]),
        (2, 3, [2.0223257542, 2.1688590050, 2.0884773731, 2.1320304871, 2.3074228764]),
    ],
)
def test_truncated_normal_draws_torchs_numbers(
    low: float, high: float, expected: list[float]
) -> None:
    shmtensor.manual_seed(0)
    drawn = nn.init.trunc_normal_(shmtensor.empty(3, 5 if low == -2 else 2), a=low, b=high)
    assert drawn.flatten()[:5].tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("bounds", [(-2.0, 2.0), (-0.1, 0.1), (1.5, 4.0)])
def test_truncated_normal_stays_within_bounds(bounds: tuple[float, float]) -> None:
    a, b = bounds
    shmtensor.manual_seed(1)
    drawn = nn.init.trunc_normal_(shmtensor.empty(4000), a=a, b=b)
    assert a <= drawn.min().item()
    assert drawn.max().item() <= b
    density = shmtensor.exp(-(shmtensor.linspace(a, b, 2001) ** 2) / 2)
    mean = (density * shmtensor.linspace(a, b, 2001)).sum() / density.sum()
    assert drawn.mean().item() == pytest.approx(mean.item(), abs=4 * (b - a) / 4000**0.5)


OLD = (
    "constant dirac eye kaiming_normal kaiming_uniform normal orthogonal sparse uniform "
    "xavier_normal xavier_uniform"
).split()


@pytest.mark.parametrize("name", OLD)
def test_old_name_warns_and_does_the_same(name: str) -> None:
    arguments = {"constant": (2.0,), "sparse": (0.5,)}.get(name, ())
    sizes = (3, 2, 3) if name == "dirac" else (3, 3)
    shmtensor.manual_seed(0)
    expected = getattr(nn.init, f"{name}_")(shmtensor.empty(sizes), *arguments)
    shmtensor.manual_seed(0)
    with pytest.warns(FutureWarning, match=f"nn.init.{name}_"):
        result = getattr(nn.init, name)(shmtensor.empty(sizes), *arguments)
    assert result.equal(expected)


def test_initial_values_have_their_shapes_and_bounds():
    tall = nn.init.orthogonal_(shmtensor.empty(5, 3, dtype=shmtensor.float64))
    assert shmtensor.allclose(tall.t() @ tall, shmtensor.eye(3, dtype=shmtensor.float64))
    wide = nn.init.orthogonal_(shmtensor.empty(3, 5, dtype=shmtensor.float64), gain=2)
    assert shmtensor.allclose(wide @ wide.t(), 4 * shmtensor.eye(3, dtype=shmtensor.float64))
    cut = nn.init.trunc_normal_(shmtensor.empty(4000), std=2.0, a=-1.0, b=3.0)
    assert -1 <= float(cut.min()) < -0.9 and 2.9 < float(cut.max()) <= 3
    assert (nn.init.sparse_(shmtensor.empty(10, 4), 0.3) == 0).sum(0).tolist() == [3, 3, 3, 3]


INNER = {
    "xavier_uniform_": "uniform_",
    "xavier_normal_": "normal_",
    "kaiming_uniform_": "uniform_",
    "kaiming_normal_": "normal_",
    "ones_": "fill_",
    "zeros_": "zero_",
}


@pytest.mark.parametrize("name", INNER)
def test_subclasses_see_what_was_called_and_methods(name: str) -> None:
    seen = []

    class Watched(shmtensor.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    function = getattr(nn.init, name)
    function(shmtensor.ones(2, 3).as_subclass(Watched))
    ours = {f for f in vars(nn.init).values() if callable(f)}
    if name == "kaiming_uniform_":
        assert seen == [function]  # which then runs without the class
    else:
        assert not ours & set(seen)
        assert getattr(shmtensor.Tensor, INNER[name]) in seen


def test_tensors_without_memory_are_left_as_they_are() -> None:
    matrix = shmtensor.empty(2, 3, device="meta")
    for fill in (nn.init.orthogonal_, nn.init.trunc_normal_, nn.init.eye_, nn.init.ones_):
        assert fill(matrix) is matrix
    assert nn.init.sparse_(matrix, 0.5) is matrix
    filters = shmtensor.empty(2, 2, 3, device="meta")
    assert nn.init.dirac_(filters) is filters
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.init.trunc_normal_(matrix, mean=10.0)
