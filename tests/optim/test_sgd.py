"""SGD and what all optimizers share: steps, groups, hooks, saving.

Several processes stepping on one model are in tests/examples/test_hogwild.py.
"""

from __future__ import annotations

import copy
import pickle

import pytest

import shmtensor
from shmtensor import nn
from shmtensor.optim import SGD


def loss_of(parameter):
    return (parameter * parameter * shmtensor.tensor([1.0, 2.0, 3.0])).sum()


def take_steps(parameter, optimizer, n_steps=3):
    for _ in range(n_steps):
        optimizer.zero_grad()
        loss_of(parameter).backward()
        optimizer.step()


def start() -> nn.Parameter:
    return nn.Parameter(shmtensor.tensor([1.0, -2.0, 3.0]))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.5119999647, -0.4320000112, 0.1919999570]),
        ({"momentum": 0.9}, [0.0619999990, 1.0799999237, -2.5619997978]),
        ({"momentum": 0.9, "nesterov": True}, [-0.1083519831, 0.8665919304, -0.9121918678]),
        ({"momentum": 0.9, "dampening": 0.5}, [0.2520000339, 0.6719999909, -2.3280000687]),
        ({"weight_decay": 0.1}, [0.4930390120, -0.4107579887, 0.1779570132]),
        (
            {"momentum": 0.5, "weight_decay": 0.1, "maximize": True},
            [1.9587590694, -6.6504378319, 15.3158378601],
        ),
    ],
)
def test_three_steps_end_where_torch_ends(options, expected):
    parameter = start()
    take_steps(parameter, SGD([parameter], lr=0.1, **options))
    assert parameter.tolist() == pytest.approx(expected, rel=1e-5)


def test_step_changes_memory_in_place_and_skips_what_has_no_gradient():
    used, unused = start(), start()
    pointer = used.data_ptr()
    optimizer = SGD([used, unused], lr=0.1)
    take_steps(used, optimizer, 1)
    assert used.data_ptr() == pointer
    assert used.tolist() != unused.tolist()
    assert unused.tolist() == [1.0, -2.0, 3.0]


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda p: SGD([p], lr=-1), ValueError, "Invalid learning rate: -1"),
        (lambda p: SGD([p], momentum=-1), ValueError, "Invalid momentum value: -1"),
        (lambda p: SGD([p], weight_decay=-1), ValueError, "Invalid weight_decay value: -1"),
        (lambda p: SGD([p], nesterov=True), ValueError, "Nesterov momentum requires"),
        (lambda p: SGD([]), ValueError, "empty parameter list"),
        (lambda p: SGD(p), TypeError, "should be an iterable of Tensors or dicts"),
        (lambda p: SGD([1]), TypeError, "one of the params is int"),
        (lambda p: SGD([p * 2]), ValueError, "can't optimize a non-leaf Tensor"),
        (lambda p: SGD([{"params": {p}}]), TypeError, "ordered collections"),
        (
            lambda p: SGD([{"params": [p]}, {"params": [p]}]),
            ValueError,
            "more than one parameter group",
        ),
        (lambda p: SGD([p]).add_param_group(3), TypeError, "must be a dict"),
    ],
)
def test_wrong_arguments_are_refused(make, kind, text):
    with pytest.raises(kind, match=text):
        make(start())


def test_groups_have_their_own_options():
    slow, fast = start(), start()
    optimizer = SGD([{"params": [slow], "lr": 0.0}, {"params": [fast]}], lr=0.1)
    loss_of(slow).backward()
    loss_of(fast).backward()
    optimizer.step()
    assert slow.tolist() == [1.0, -2.0, 3.0]
    assert fast.tolist() == pytest.approx([0.8, -1.2, 1.2])


def test_named_parameters_are_taken():
    layer = nn.Linear(2, 1)
    optimizer = SGD(layer.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]


def test_closure_runs_with_gradients_and_its_loss_is_returned():
    parameter = start()
    optimizer = SGD([parameter], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(parameter)
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == pytest.approx(36.0)
    assert parameter.tolist() == pytest.approx([0.8, -1.2, 1.2])


def test_saved_state_continues_the_same_way():
    first = start()
    optimizer = SGD([first], lr=0.1, momentum=0.9)
    take_steps(first, optimizer)
    second = nn.Parameter(first.detach().clone())
    other = SGD([second], lr=0.5)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert other.param_groups[0]["lr"] == 0.1
    take_steps(first, optimizer)
    take_steps(second, other)
    assert first.tolist() == second.tolist()


def test_saved_state_names_parameters_by_number():
    parameter = start()
    optimizer = SGD([parameter], lr=0.1, momentum=0.9)
    take_steps(parameter, optimizer, 1)
    state = optimizer.state_dict()
    assert state["param_groups"][0]["params"] == [0]
    assert list(state["state"]) == [0]
    assert state["state"][0]["momentum_buffer"].tolist() == pytest.approx([2.0, -8.0, 18.0])


def test_loading_other_groups_is_refused():
    optimizer = SGD([start()])
    state = optimizer.state_dict()
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optimizer.load_state_dict({"state": {}, "param_groups": []})
    state["param_groups"][0]["params"] = [0, 1]
    with pytest.raises(ValueError, match="doesn't match the size"):
        optimizer.load_state_dict(state)


def test_pickled_with_its_model_an_optimizer_keeps_pointing_at_it():
    layer = nn.Linear(2, 1)
    optimizer = SGD(layer.parameters(), lr=0.1, momentum=0.9)
    layer(shmtensor.ones(1, 2)).sum().backward()
    optimizer.step()
    twin, other = pickle.loads(pickle.dumps((layer, optimizer)))
    assert other.param_groups[0]["params"][0] is twin.weight
    assert twin.weight in other.state


def test_zero_grad_drops_or_clears():
    parameter = start()
    optimizer = SGD([parameter], lr=0.1)
    loss_of(parameter).backward()
    optimizer.zero_grad(set_to_none=False)
    assert parameter.grad.tolist() == [0.0, 0.0, 0.0]
    optimizer.zero_grad()
    assert parameter.grad is None


def test_share_memory_makes_and_shares_the_state():
    parameter = start()
    optimizer = SGD([parameter], lr=0.1, momentum=0.9)
    optimizer.share_memory()
    assert optimizer.state[parameter]["momentum_buffer"].is_shared()
    take_steps(parameter, optimizer)
    assert parameter.tolist() == pytest.approx(
        [0.0619999990, 1.0799999237, -2.5619997978], rel=1e-5
    )


def test_step_hooks_run_around_the_step():
    parameter = start()
    optimizer = SGD([parameter], lr=0.1)
    order = []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: order.append("before"))
    handle = optimizer.register_step_post_hook(lambda o, args, kwargs: order.append("after"))
    take_steps(parameter, optimizer, 1)
    handle.remove()
    take_steps(parameter, optimizer, 1)
    assert order == ["before", "after", "before"]


def test_repr_lists_the_options():
    text = repr(SGD([start()], lr=0.1))
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0\n")
    assert "\n    lr: 0.1\n" in text
