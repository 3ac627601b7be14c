"""Computed parameters: registering, assigning, removing; orthogonal and normalised weights."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn.utils import parametrizations, parametrize


class Symmetric(nn.Module):
    def forward(self, x: st.Tensor) -> st.Tensor:
        return x.triu() + x.triu(1).mT

    def right_inverse(self, a: st.Tensor) -> st.Tensor:
        return a.triu()


class Doubled(nn.Module):
    def forward(self, x: st.Tensor) -> st.Tensor:
        return 2 * x


class Halves(nn.Module):
    def forward(self, a: st.Tensor, b: st.Tensor) -> st.Tensor:
        return a + b

    def right_inverse(self, w: st.Tensor) -> tuple[st.Tensor, st.Tensor]:
        return w / 4, w * 3 / 4


def symmetric() -> nn.Module:
    layer = nn.Linear(3, 3)
    return parametrize.register_parametrization(layer, "weight", Symmetric())


# --- registering ---------------------------------------------------------------------------------


@pytest.mark.check
def test_weight_is_computed_of_the_stored_one():
    layer = symmetric()
    assert layer.weight.equal(layer.weight.mT)
    assert [n for n, _ in layer.named_parameters()] == ["bias", "parametrizations.weight.original"]
    layer.weight.sum().backward()
    grad = layer.parametrizations.weight.original.grad
    assert grad.equal(st.tensor([[1.0, 2, 2], [0, 1, 2], [0, 0, 1]]))


def test_assigned_value_comes_back():
    layer = symmetric()
    value = st.tensor([[1.0, 2, 3], [2, 4, 5], [3, 5, 6]])
    layer.weight = value
    assert layer.weight.equal(value)
    assert layer.parametrizations.weight.original.equal(value.triu())


def test_second_function_gets_the_firsts_result():
    layer = symmetric()
    before = layer.weight.detach()
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert layer.weight.equal(2 * before)
    with pytest.raises(RuntimeError, match="Doubled does not implement right_inverse"):
        layer.weight = before


def test_repr_and_class_tell_of_it():
    layer = symmetric()
    assert type(layer).__name__ == "ParametrizedLinear"
    assert isinstance(layer, nn.Linear)
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    assert "(weight): ParametrizationList(\n      (0): Symmetric()" in repr(layer)
    assert parametrize.is_parametrized(layer)
    assert parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")


def test_other_modules_of_the_class_are_as_they_were():
    symmetric()
    assert isinstance(nn.Linear(2, 2).weight, nn.Parameter)


def test_copies_are_independent_and_pickles_refused():
    layer = symmetric()
    twin = copy.deepcopy(layer)
    twin.weight = st.eye(3)
    assert not layer.weight.equal(st.eye(3))
    assert type(twin) is type(layer)
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(layer)


def test_cache_computes_once():
    layer = symmetric()
    with parametrize.cached():
        first = layer.weight
        with parametrize.cached():
            assert layer.weight is first
        assert layer.weight is first
    assert layer.weight is not first


def test_several_tensors_may_be_stored():
    layer = nn.Linear(2, 2)
    weight = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Halves())
    chain = layer.parametrizations.weight
    assert (chain.ntensors, chain.is_tensor) == (2, False)
    assert chain.original0.equal(weight / 4)
    assert isinstance(chain.original1, nn.Parameter)
    with pytest.raises(ValueError, match="Cannot leave unparametrized"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(layer, "weight")
    assert layer.weight.equal(weight)


def test_buffers_stay_buffers():
    layer = nn.BatchNorm1d(3)
    parametrize.register_parametrization(layer, "running_mean", Halves())
    layer.running_mean = st.ones(3)
    assert layer.running_mean.equal(st.ones(3))
    assert "parametrizations.running_mean.original0" in layer.state_dict()
    assert not any("running_mean" in name for name, _ in layer.named_parameters())


# --- refusals ------------------------------------------------------------------------------------


class Gives(nn.Module):
    def __init__(self, result: Any = None, back: Any = None) -> None:
        super().__init__()
        self.result = result
        if back is not None:
            self.right_inverse = lambda w: back

    def forward(self, *x: st.Tensor) -> Any:
        return x[0] if self.result is None else self.result


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "no tensor": (lambda: Gives("text"), "must return a tensor. Got str"),
    "dtype": (lambda: Gives(st.ones(2, 2).double()), "may not change the dtype"),
    "shape": (lambda: Gives(st.ones(2)), "may not change the shape"),
    "inverse of no tensor": (lambda: Gives(back=1), "must return a Tensor or a Sequence"),
    "inverse of no tensors": (lambda: Gives(back=["x"]), "Got element 0"),
    "inverse of another dtype": (lambda: Gives(back=st.ones(2, 2).double()), "change the dtype"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_unfit_function_is_refused(case: str) -> None:
    make, text = REFUSED[case]
    with pytest.raises(ValueError, match=text):
        parametrize.register_parametrization(nn.Linear(2, 2), "weight", make())


@pytest.mark.parametrize("case", ["no tensor", "dtype", "shape"])
def test_unfit_second_function_is_refused(case: str) -> None:
    make, text = REFUSED[case]
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Symmetric())
    with pytest.raises(ValueError, match=text):
        parametrize.register_parametrization(layer, "weight", make())


def test_unsafe_function_may_change_the_shape():
    layer = nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", Gives(st.ones(3)), unsafe=True)
    assert layer.weight.shape == (3,)


def test_names_that_are_not_there_are_refused():
    layer = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="does not have a parameter"):
        parametrize.register_parametrization(layer, "other", Symmetric())
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(layer, "weight")


# --- removing and moving -------------------------------------------------------------------------


def test_removed_function_leaves_its_value_in_the_same_parameter():
    layer = symmetric()
    stored, value = layer.parametrizations.weight.original, layer.weight.detach()
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert layer.weight is stored
    assert layer.weight.equal(value)
    assert not hasattr(layer, "parametrizations")


def test_removed_function_may_leave_what_it_started_from():
    layer = symmetric()
    before = layer.parametrizations.weight.original.detach().clone()
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert layer.weight.equal(before)


@pytest.mark.check
@pytest.mark.parametrize("function", [Symmetric, Halves])
def test_functions_are_transferred_with_what_they_start_from(function: type[nn.Module]) -> None:
    source = parametrize.register_parametrization(nn.Linear(3, 3), "weight", function())
    target = parametrize.transfer_parametrizations_and_params(source, nn.Linear(3, 3))
    assert target.weight.equal(source.weight)
    bare = parametrize.transfer_parametrizations_and_params(source, nn.Module())
    assert bare.weight.equal(source.weight)


# --- orthogonal ----------------------------------------------------------------------------------


@pytest.mark.parametrize("trivial", [True, False])
@pytest.mark.parametrize("by", ["matrix_exp", "cayley", "householder", None])
@pytest.mark.parametrize("sizes", [(4, 4), (5, 3), (3, 5)])
def test_orthogonal_weight(sizes: tuple[int, int], by: str | None, trivial: bool) -> None:
    st.manual_seed(0)
    layer = nn.Linear(sizes[1], sizes[0])
    parametrizations.orthogonal(layer, orthogonal_map=by, use_trivialization=trivial)
    w = layer.weight if sizes[0] >= sizes[1] else layer.weight.mT
    assert st.allclose(w.mT @ w, st.eye(w.shape[1]), atol=1e-5)
    layer.weight.square().sum().backward()
    assert layer.parametrizations.weight.original.grad is not None


@pytest.mark.parametrize("sizes", [(4, 4), (5, 3), (3, 5)])
@pytest.mark.parametrize("by", ["matrix_exp", "cayley", "householder"])
def test_orthogonal_weight_takes_any_orthogonal_value(sizes: tuple[int, int], by: str) -> None:
    st.manual_seed(0)
    layer = nn.Linear(sizes[1], sizes[0])
    parametrizations.orthogonal(layer, orthogonal_map=by)
    value = st.linalg.qr(st.randn(5, 5)).Q[: sizes[0], : sizes[1]].contiguous()
    if sizes == (4, 4):
        value = st.linalg.qr(st.randn(4, 4)).Q
    layer.weight = value
    assert st.allclose(layer.weight, value, atol=1e-5)
    with pytest.raises(ValueError, match="Expected a matrix or batch of matrices of shape"):
        layer.weight = st.ones(2, 2)


def test_complex_weight_is_unitary():
    layer = nn.Linear(3, 3, dtype=st.complex64)
    parametrizations.orthogonal(layer)
    assert st.allclose(layer.weight.mH @ layer.weight, st.eye(3).to(st.complex64), atol=1e-5)
    with pytest.raises(ValueError, match="complex"):
        parametrizations.orthogonal(
            nn.Linear(3, 3, dtype=st.complex64), orthogonal_map="householder"
        )


def test_orthogonal_refuses():
    with pytest.raises(ValueError, match="a tensor of 1 dimensions"):
        parametrizations.orthogonal(nn.Linear(2, 2), "bias")
    with pytest.raises(ValueError, match="has to be one of"):
        parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="other")
    with pytest.raises(ValueError, match="no parameter or buffer"):
        parametrizations.orthogonal(nn.Linear(2, 2), "other")


# --- norms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1, None])
@pytest.mark.parametrize("is_new", [True, False])
def test_weight_norm_trains_lengths_apart(dim: int | None, is_new: bool) -> None:
    layer = nn.Linear(4, 3)
    value = layer.weight.detach().clone()
    if is_new:
        parametrizations.weight_norm(layer, dim=dim)
        g = layer.parametrizations.weight.original0
    else:
        with pytest.warns(FutureWarning, match="parametrizations"):
            nn.utils.weight_norm(layer, dim=dim)
        g = layer.weight_g
    assert st.allclose(layer.weight, value)
    with st.no_grad():
        g.mul_(2)
    layer(st.ones(1, 4)).sum().backward()
    assert st.allclose(layer.weight, 2 * value)
    assert g.grad.shape == {0: (3, 1), 1: (1, 4), None: ()}[dim]


def test_checkpoint_of_the_hook_loads_into_the_parametrization():
    with pytest.warns(FutureWarning, match="parametrizations"):
        old = nn.utils.weight_norm(nn.Linear(4, 3))
    new = parametrizations.weight_norm(nn.Linear(4, 3))
    new.load_state_dict(old.state_dict())
    assert st.allclose(new(st.ones(1, 4)), old(st.ones(1, 4)))


@pytest.mark.parametrize(
    "make",
    [lambda: nn.Linear(4, 3), lambda: nn.Conv2d(2, 3, 2), lambda: nn.ConvTranspose2d(2, 3, 2)],
)
def test_spectral_norm_divides_by_the_largest_singular_value(make: Callable[[], nn.Module]) -> None:
    st.manual_seed(0)
    layer = make()
    rows = int(isinstance(layer, nn.ConvTranspose2d))
    value = layer.weight.detach().clone()
    sigma = st.linalg.svdvals(value.movedim(rows, 0).flatten(1))[0]
    parametrizations.spectral_norm(layer, n_power_iterations=60)
    _ = layer.weight
    assert st.allclose(layer.weight, value / sigma, atol=1e-4)
    layer.eval()
    u = layer.parametrizations.weight[0]._u.clone()
    layer.weight.sum().backward()
    assert layer.parametrizations.weight[0]._u.equal(u)


def test_spectral_norm_of_a_vector_is_its_norm():
    layer = nn.Linear(2, 3)
    bias = layer.bias.detach().clone()
    parametrizations.spectral_norm(layer, "bias")
    assert st.allclose(layer.bias, bias / bias.norm())


def test_spectral_norm_refuses():
    with pytest.raises(ValueError, match="n_power_iterations to be positive"):
        parametrizations.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)
    with pytest.raises(IndexError, match="Dimension out of range"):
        parametrizations.spectral_norm(nn.Linear(2, 2), dim=4)


def test_spectral_hook_follows_in_training_only():
    st.manual_seed(0)
    layer = nn.utils.spectral_norm(nn.Linear(4, 3), n_power_iterations=40)
    sigma = st.linalg.svdvals(layer.weight_orig.detach())[0]
    result = layer(st.ones(1, 4))
    assert st.allclose(layer.weight, layer.weight_orig / sigma, atol=1e-4)
    result.sum().backward()
    assert layer.weight_orig.grad is not None
    u = layer.weight_u.clone()
    layer.eval()(st.ones(1, 4))
    assert layer.weight_u.equal(u)


@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm"])
@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
def test_hook_is_removed_and_not_doubled(kind: str) -> None:
    apply, remove = getattr(nn.utils, kind), getattr(nn.utils, f"remove_{kind}")
    layer = apply(nn.Linear(4, 3))
    result = layer.eval()(st.ones(1, 4))
    with pytest.raises(RuntimeError, match="Cannot register two"):
        apply(layer)
    remove(layer)
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    assert isinstance(layer.weight, nn.Parameter)
    assert st.allclose(layer(st.ones(1, 4)), result)
    with pytest.raises(ValueError, match="not found"):
        remove(layer)


def test_spectral_norm_notes_its_version_in_the_state():
    layer = nn.utils.spectral_norm(nn.Linear(2, 2))
    state = layer.state_dict()
    assert state._metadata[""] == {"version": 1, "spectral_norm": {"weight.version": 1}}
    nn.utils.remove_spectral_norm(layer)
    assert layer.state_dict()._metadata[""] == {"version": 1}


@pytest.mark.parametrize("has_versions", [True, False])
def test_spectral_norm_completes_a_state_from_before_versions(has_versions):
    st.manual_seed(0)
    layer = nn.utils.spectral_norm(nn.Linear(3, 2))
    for _ in range(100):
        layer(st.ones(1, 3))
    state = layer.state_dict()
    wanted = layer.eval()(st.ones(1, 3))
    v = state.pop("weight_v")
    state["weight"] = layer.weight.detach()
    del state._metadata[""]["spectral_norm"]
    fresh = nn.utils.spectral_norm(nn.Linear(3, 2)).eval()
    fresh.load_state_dict(state if has_versions else dict(state))
    assert st.allclose(fresh.weight_v, v, atol=1e-4)
    assert st.allclose(fresh(st.ones(1, 3)), wanted, atol=1e-4)


def test_spectral_norm_takes_a_whole_state_without_versions():
    layer = nn.utils.spectral_norm(nn.Linear(3, 2))
    fresh = nn.utils.spectral_norm(nn.Linear(3, 2))
    assert not any(fresh.load_state_dict(dict(layer.state_dict())))
    incomplete = dict(layer.state_dict())
    del incomplete["weight_u"]
    with pytest.raises(RuntimeError, match="weight_u"):
        fresh.load_state_dict(incomplete)
