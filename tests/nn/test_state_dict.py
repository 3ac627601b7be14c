"""state_dict and load_state_dict: keys, aliasing, strictness, messages."""

from __future__ import annotations

import pytest

import shmtensor
from shmtensor import nn


def make() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))


@pytest.mark.check
def test_state_shares_memory_and_is_detached():
    net = make()
    state = net.state_dict()
    assert list(state) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert state["0.weight"].data_ptr() == net[0].weight.data_ptr()
    assert not state["0.weight"].requires_grad
    assert net.state_dict(keep_vars=True)["0.weight"] is net[0].weight
    assert state._metadata["0"] == {"version": 1}


def test_buffers_are_saved_unless_not_persistent():
    net = nn.Module()
    net.register_buffer("kept", shmtensor.zeros(1))
    net.register_buffer("dropped", shmtensor.zeros(1), persistent=False)
    net.register_buffer("empty", None)
    assert list(net.state_dict()) == ["kept"]


def test_loading_copies_in_place():
    source, target = make(), make()
    pointer = target[0].weight.data_ptr()
    result = target.load_state_dict(source.state_dict())
    assert repr(result) == "<All keys matched successfully>"
    assert target[0].weight.tolist() == source[0].weight.tolist()
    assert target[0].weight.data_ptr() == pointer
    assert target[0].weight.requires_grad


def test_loading_with_assign_takes_the_tensors():
    source, target = make(), make()
    target.load_state_dict(source.state_dict(), assign=True)
    assert target[0].weight.data_ptr() == source[0].weight.data_ptr()
    assert isinstance(target[0].weight, nn.Parameter)
    assert target[0].weight.requires_grad


def test_strict_loading_lists_everything_that_does_not_fit():
    with pytest.raises(RuntimeError) as caught:
        make().load_state_dict({"a": shmtensor.zeros(1), "0.weight": shmtensor.zeros(3, 3)})
    text = str(caught.value)
    assert text.startswith("Error(s) in loading state_dict for Sequential:\n\tMissing key(s)")
    assert '"0.bias", "2.weight", "2.bias"' in text
    assert 'Unexpected key(s) in state_dict: "a"' in text
    assert "size mismatch for 0.weight" in text
    assert "[3, 3]" in text
    assert "[3, 2]" in text


def test_loose_loading_reports_the_keys():
    result = make().load_state_dict({"a": shmtensor.zeros(1)}, strict=False)
    assert result.missing_keys == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert result.unexpected_keys == ["a"]


@pytest.mark.check
def test_loading_something_else_is_a_type_error():
    with pytest.raises(TypeError, match="dict-like, got <class 'int'>"):
        make().load_state_dict(5)
    with pytest.raises(RuntimeError, match="received <class 'int'>"):
        make().load_state_dict({"0.weight": 5}, strict=False)


def test_extra_state_travels():
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n = 0

        def get_extra_state(self):
            return {"n": self.n}

        def set_extra_state(self, state):
            self.n = state["n"]

    source, target = nn.Sequential(Counter()), nn.Sequential(Counter())
    source[0].n = 7
    assert list(source.state_dict()) == ["0._extra_state"]
    target.load_state_dict(source.state_dict())
    assert target[0].n == 7


def test_hooks_around_saving_and_loading_run():
    net = make()
    seen = []
    net.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append("pre"))
    net.register_state_dict_post_hook(lambda m, state, prefix, meta: seen.append("post"))
    net.register_load_state_dict_pre_hook(lambda *args: seen.append("load"))
    net.register_load_state_dict_post_hook(lambda m, keys: seen.append("loaded"))
    net.load_state_dict(net.state_dict())
    assert seen == ["pre", "post", "load", "loaded"]


def _without_count(layer: nn.Module) -> dict[str, shmtensor.Tensor]:
    state = layer.state_dict()
    del state["num_batches_tracked"]
    return state


@pytest.mark.parametrize(
    "make_layer",
    [nn.BatchNorm1d, lambda n: nn.InstanceNorm1d(n, track_running_stats=True)],
    ids=["batch", "instance"],
)
@pytest.mark.parametrize("version", [None, 1, 2])
def test_old_states_of_normalisation_have_no_count(make_layer, version):
    state = _without_count(make_layer(2))
    if version is None:
        state = dict(state)
    else:
        state._metadata[""]["version"] = version
    layer = make_layer(2)
    layer.num_batches_tracked.fill_(4)
    if version == 2:
        with pytest.raises(RuntimeError, match=r'Missing key\(s\).*"num_batches_tracked"'):
            layer.load_state_dict(state)
    else:
        assert str(layer.load_state_dict(state)) == "<All keys matched successfully>"
        assert layer.num_batches_tracked == 4


def test_count_of_an_old_state_is_made_for_a_layer_without_values():
    state = _without_count(nn.BatchNorm1d(2))
    state._metadata[""]["version"] = 1
    with shmtensor.device("meta"):
        layer = nn.BatchNorm1d(2)
    layer.load_state_dict(state, assign=True)
    assert layer.num_batches_tracked.tolist() == 0


def test_running_statistics_of_very_old_states_are_explained():
    state = {"running_mean": shmtensor.zeros(2), "running_var": shmtensor.ones(2)}
    with pytest.raises(
        RuntimeError, match=r'buffer\(s\) "running_mean" and "running_var"'
    ) as raised:
        nn.InstanceNorm1d(2).load_state_dict(state)
    assert "track_running_stats=True" in str(raised.value)
    assert "Unexpected key(s)" not in str(raised.value)


def test_hooks_see_the_metadata_of_a_state():
    layer, seen = nn.Linear(2, 1), []
    layer.register_load_state_dict_pre_hook(lambda m, state, *_: seen.append(state._metadata))
    layer.load_state_dict(layer.state_dict())
    assert seen == [{"": {"version": 1}}]


def test_what_cannot_be_assigned_is_named():
    layer = nn.Linear(2, 1)
    state = {"weight": shmtensor.zeros(1, 2, dtype=shmtensor.int64), "bias": layer.bias}
    with pytest.raises(RuntimeError) as error:
        layer.load_state_dict(state, assign=True)
    assert 'While copying the parameter named "weight", whose dimensions in the model' in str(
        error.value
    )
    assert "Only Tensors of floating point and complex dtype can require gradients" in str(
        error.value
    )


def test_hooks_after_loading_return_nothing():
    layer = nn.Linear(2, 1)
    layer.register_load_state_dict_post_hook(lambda module, keys: 1)
    with pytest.raises(AssertionError, match="are not expected to return new values, if incomp"):
        layer.load_state_dict(layer.state_dict())


def test_arguments_of_state_dict_by_position_yield_to_names():
    layer = nn.Linear(2, 1)
    with pytest.warns(FutureWarning, match="Positional args are being deprecated, use kwargs"):
        state = layer.state_dict({}, "a.", False, prefix="b.", keep_vars=True)
    assert list(state) == ["b.weight", "b.bias"] and state["b.bias"].requires_grad
    with pytest.warns(FutureWarning):
        assert list(layer.state_dict(None, "a.")) == ["a.weight", "a.bias"]


def test_a_hook_that_returns_nothing_may_not_become_one_that_does():
    layer = nn.Linear(2, 1)

    def hook(*args):
        return None

    layer._register_state_dict_hook(hook)
    layer.register_state_dict_post_hook(hook)
    layer.register_state_dict_post_hook(print)  # which takes no attributes
    with pytest.raises(RuntimeError, match="Cannot register the same function as the state dict"):
        layer._register_state_dict_hook(hook)
