"""What all optimizers share: groups, names, hooks, closures, gradients, and what is refused.

Saved state is in test_saved_state.py, sharing in test_sharing.py.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from optim.cases import NAMES

import shmtensor
from shmtensor import nn, optim
from shmtensor.optim import SGD, Adam, Optimizer
from shmtensor.optim.optimizer import (
    _use_grad_for_differentiable,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    required,
)

STEPPERS = [*NAMES, "Muon"]


def loss_of(parameter: Any) -> Any:
    return (parameter * parameter * shmtensor.tensor([1.0, 2.0, 3.0])).sum()


def start() -> nn.Parameter:
    return nn.Parameter(shmtensor.tensor([1.0, -2.0, 3.0]))


def take_step(parameter: Any, optimizer: Optimizer) -> None:
    optimizer.zero_grad()
    loss_of(parameter).backward()
    optimizer.step()


# --- groups --------------------------------------------------------------------------------------


@pytest.mark.check
def test_groups_have_their_own_options() -> None:
    slow, fast = start(), start()
    optimizer = SGD([{"params": [slow], "lr": 0.0}, {"params": fast}], lr=0.1)
    loss_of(slow).backward()
    loss_of(fast).backward()
    optimizer.step()
    assert slow.tolist() == [1.0, -2.0, 3.0]
    assert fast.tolist() == pytest.approx([0.8, -1.2, 1.2])


@pytest.mark.parametrize("name", NAMES)
def test_a_group_may_come_later(name: str) -> None:
    first, second = start(), start()
    optimizer = getattr(optim, name)([first])
    take_step(first, optimizer)
    group = {"params": (p for p in [second])}
    optimizer.add_param_group(group)
    assert optimizer.param_groups[1] is group
    take_step(second, optimizer)
    assert second.tolist() != [1.0, -2.0, 3.0]


def test_names_of_parameters_are_kept() -> None:
    layer = nn.Linear(2, 1)
    optimizer = SGD(layer.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert "param_names: ['weight', 'bias']" in repr(optimizer)
    optimizer.add_param_group({"params": [("x", start())]})
    state = optimizer.state_dict()
    assert [g["param_names"] for g in state["param_groups"]] == [["weight", "bias"], ["x"]]
    other = SGD([("a", start()), ("b", start())])
    other.load_state_dict({"state": {}, "param_groups": state["param_groups"][:1]})
    assert other.param_groups[0]["param_names"] == ["weight", "bias"]
    unnamed = {k: v for k, v in state["param_groups"][0].items() if k != "param_names"}
    other.load_state_dict({"state": {}, "param_groups": [unnamed]})
    assert other.param_groups[0]["param_names"] == ["weight", "bias"]


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda p: SGD([]), ValueError, "optimizer got an empty parameter list"),
        (lambda p: SGD(p), TypeError, "iterable of Tensors or dicts, but got torch.FloatTensor"),
        (lambda p: SGD([1]), TypeError, "can only optimize Tensors, but one of the params is int"),
        (lambda p: SGD("ab"), TypeError, "one of the params is str"),
        (lambda p: SGD([p * 2]), ValueError, "can't optimize a non-leaf Tensor"),
        (lambda p: SGD([{"params": {p}}]), TypeError, "ordering of tensors in sets will change"),
        (lambda p: SGD([{"params": [p]}] * 2), ValueError, "in more than one parameter group"),
        (lambda p: SGD([{"params": [p]}, 3]), TypeError, "must be a dict, but got <class 'int'>"),
        (
            lambda p: SGD([p]).add_param_group([p]),
            TypeError,
            "must be a dict, but got <class 'list",
        ),
        (lambda p: SGD([{"lr": 1}]), KeyError, "params"),
        (lambda p: SGD([("a", p), start()]), ValueError, "Some param names are missing"),
        (
            lambda p: SGD([{"params": [("a", p)]}, {"params": [start()]}]),
            ValueError,
            "cannot add param group without names to the optimizer",
        ),
        (
            lambda p: SGD([{"params": [p]}, {"params": [("a", start())]}]),
            ValueError,
            "cannot add param group with names to the optimizer",
        ),
        (
            lambda p: Optimizer([p], {"lr": required}),
            ValueError,
            "didn't specify a value of required optimization parameter lr",
        ),
        (lambda p: Optimizer([p], {}).step(), NotImplementedError, None),
        (
            lambda p: SGD([p]).load_state_dict({"state": {}, "param_groups": []}),
            ValueError,
            "a different number of parameter groups",
        ),
        (
            lambda p: SGD([p]).load_state_dict({"state": {}, "param_groups": [{"params": []}]}),
            ValueError,
            "doesn't match the size of optimizer's group",
        ),
        (lambda p: SGD([p]).load_state_dict({}), KeyError, "param_groups"),
    ],
)
def test_wrong_groups_are_refused(
    make: Callable[[Any], Any], kind: type[Exception], text: str | None
) -> None:
    with pytest.raises(kind, match=text):
        make(start())


def test_a_parameter_twice_in_a_group_is_told() -> None:
    p = start()
    with pytest.warns(UserWarning, match="contains a parameter group with duplicate parameters"):
        assert len(SGD([p, p]).param_groups[0]["params"]) == 2


def test_numbers_in_files_are_places_and_the_last_one_counts() -> None:
    p, q, r = start(), start(), start()
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optimizer = Adam([{"params": [p, q, p]}, {"params": [r]}])
    for each in (p, q, r):
        each.grad = shmtensor.ones_like(each)
    optimizer.step()
    saved = optimizer.state_dict()
    assert [group["params"] for group in saved["param_groups"]] == [[2, 1, 2], [3]]
    assert set(saved["state"]) == {1, 2, 3}


def test_a_tensor_that_keeps_its_gradient_can_be_optimized() -> None:
    p = start() * 2
    p.retain_grad()
    assert SGD([p]).param_groups[0]["params"] == [p]
    assert SGD([start() * 2], differentiable=True).defaults["differentiable"]


def test_repr_lists_the_options() -> None:
    text = repr(SGD([start()], lr=0.1))
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0\n")
    assert "\n    lr: 0.1\n" in text
    assert repr(required) == "<required parameter>"


def test_repr_separates_groups_by_a_blank_line() -> None:
    text = repr(SGD([{"params": [start()]}, {"params": [start()], "lr": 0.5}], lr=0.1))
    assert "    weight_decay: 0\n\nParameter Group 1\n    dampening: 0\n" in text
    assert text.endswith("    weight_decay: 0\n)")


# --- options -------------------------------------------------------------------------------------


def _p() -> Any:
    return shmtensor.ones(2, 2, requires_grad=True)


def _options(name: str) -> dict[str, Any]:
    return getattr(optim, name)([_p()]).defaults


@pytest.mark.parametrize("name", [*STEPPERS, "LBFGS"])
def test_learning_rates_are_not_negative_and_one_number(name: str) -> None:
    text = "Learning rate should be >= 0 but is: -1"
    if name not in ("Adafactor", "Muon"):
        text = "Invalid learning rate: -1"
    kind = getattr(optim, name)
    with pytest.raises(ValueError, match=text):
        kind([_p()], lr=-1)
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        kind([_p()], lr=shmtensor.tensor([0.1, 0.2]))
    with pytest.raises(TypeError, match="not supported between instances of"):
        kind([_p()], lr="fast")


@pytest.mark.parametrize("name", [n for n in STEPPERS if "betas" in _options(n)])
def test_betas_are_in_range(name: str) -> None:
    kind = getattr(optim, name)
    for betas, text in (
        ((1.0, 0.9), "Invalid beta parameter at index 0: 1.0"),
        ((0.9, -0.1), "Invalid beta parameter at index 1: -0.1"),
    ):
        with pytest.raises(ValueError, match=text):
            kind([_p()], betas=betas)
    with pytest.raises(TypeError, match="not subscriptable"):
        kind([_p()], betas=0.9)


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("SGD", {"momentum": -1}, "Invalid momentum value: -1"),
        ("SGD", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
        ("SGD", {"nesterov": True}, "Nesterov momentum requires a momentum and zero dampening"),
        ("Adam", {"eps": -1}, "Invalid epsilon value: -1"),
        ("Adam", {"lr": float("nan")}, "Invalid learning rate: nan"),
        ("AdamW", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
        ("NAdam", {"momentum_decay": -1}, "Invalid momentum_decay value: -1"),
        ("Adagrad", {"lr_decay": -1}, "Invalid lr_decay value: -1"),
        ("Adagrad", {"initial_accumulator_value": -1}, "Invalid initial_accumulator_value value"),
        ("Adadelta", {"rho": 1.1}, "Invalid rho value: 1.1"),
        ("RMSprop", {"alpha": -1}, "Invalid alpha value: -1"),
        ("RMSprop", {"momentum": -1}, "Invalid momentum value: -1"),
        ("Rprop", {"etas": (1.2, 0.5)}, "Invalid eta values: 1.2, 0.5"),
        ("ASGD", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
        ("Adafactor", {"beta2_decay": 0.1}, "beta2_decay should be <= 0 but is: 0.1"),
        ("Adafactor", {"eps": (-1, 1)}, "epsilon1 should be >= 0 but is: -1"),
        ("Adafactor", {"eps": (None, -1)}, "epsilon2 should be >= 0 but is: -1"),
        ("Adafactor", {"d": 0.5}, "Clipping threshold d should be >= 1 but is: 0.5"),
        ("Muon", {"momentum": -1}, "momentum should be >= 0 but is: -1"),
        ("Muon", {"weight_decay": -1}, "weight decay should be >= 0 but is: -1"),
    ],
)
def test_options_out_of_range_are_refused(name: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        getattr(optim, name)([_p()], **options)


def test_tensor_options_of_adam() -> None:
    half = shmtensor.tensor(0.5)
    with pytest.raises(ValueError, match="betas must be either both floats or both Tensors"):
        Adam([_p()], betas=(half, 0.9))
    with pytest.raises(ValueError, match="lr as a Tensor is not supported for capturable=False"):
        Adam([_p()], lr=half, foreach=True)
    with pytest.raises(ValueError, match=r"betas\[0\] as a Tensor is not supported for capturable"):
        Adam([_p()], betas=(half, half), foreach=True)
    for fused in (None, True):
        params = [_p(), _p()]
        for p, betas in zip(params, [(half, half), (0.5, 0.5)], strict=True):
            p.grad = shmtensor.ones(2, 2)
            Adam([p], lr=0.25, betas=betas, fused=fused).step()
        assert shmtensor.equal(*params)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused_excludes_others_and_wants_floats(name: str) -> None:
    kind = getattr(optim, name)
    with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
        kind([_p()], fused=True, differentiable=True)
    with pytest.raises(RuntimeError, match="`fused` and `foreach` cannot be `True` together"):
        kind([_p()], fused=True, foreach=True)
    assert kind([_p()], fused=True)._step_supports_amp_scaling
    for param in (shmtensor.ones(2, dtype=shmtensor.complex64), shmtensor.ones(2, device="meta")):
        param.grad = shmtensor.ones_like(param)
        with pytest.raises(RuntimeError, match="`fused=True` requires all the params to be float"):
            kind([param], fused=True).step()
    param = _p()
    param.grad = shmtensor.ones(2, 2)
    unfused = kind([param])
    unfused.grad_scale = shmtensor.tensor(2.0)
    with pytest.raises(AssertionError, match="Expected grad_scale and found_inf to be None"):
        unfused.step()


@pytest.mark.parametrize("name", [n for n in STEPPERS if "capturable" in _options(n)])
@pytest.mark.parametrize("foreach", [None, True])
def test_no_device_here_captures_steps(name: str, foreach: bool | None) -> None:
    param = _p()
    optimizer = getattr(optim, name)([param], capturable=True, foreach=foreach)
    optimizer.step()  # there is nothing to step on
    param.grad = shmtensor.ones(2, 2)
    with pytest.raises(AssertionError, match=r"If capturable=True, params.* must be on supported"):
        optimizer.step()


@pytest.mark.parametrize("name", [n for n in STEPPERS if "differentiable" in _options(n)])
def test_recorded_steps_exclude_foreach_and_leaves(name: str) -> None:
    param = _p()
    param.grad = shmtensor.ones(2, 2)
    if name != "SGD":
        with pytest.raises(AssertionError, match="_foreach ops don't support autograd"):
            getattr(optim, name)([param], foreach=True, differentiable=True).step()
    with pytest.raises(
        RuntimeError, match="leaf Variable that requires grad is being used in an in"
    ):
        getattr(optim, name)([param], differentiable=True).step()


@pytest.mark.check
@pytest.mark.parametrize("name", ["Adafactor", "Muon"])
def test_complex_parameters_are_refused_where_they_have_no_meaning(name: str) -> None:
    param = shmtensor.ones(2, 2, dtype=shmtensor.complex64)
    param.grad = shmtensor.ones_like(param)
    with pytest.raises(RuntimeError, match=f"{name} does not support complex parameters"):
        getattr(optim, name)([param]).step()


# --- steps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STEPPERS)
def test_a_step_changes_memory_in_place_and_counts_a_version(name: str) -> None:
    used, unused = _p(), _p()
    pointer, version = used.data_ptr(), used._version
    optimizer = getattr(optim, name)([used, unused])
    (used * used).sum().backward()
    optimizer.step()
    assert used.data_ptr() == pointer
    assert used._version > version
    assert used.tolist() != [[1.0, 1.0], [1.0, 1.0]]
    assert unused.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert unused not in optimizer.state or name == "Adagrad"


@pytest.mark.parametrize("name", STEPPERS)
def test_a_closure_runs_first_and_with_gradients(name: str) -> None:
    param = _p()
    optimizer = getattr(optim, name)([param])

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (param * param).sum()
        loss.backward()
        return loss

    with shmtensor.no_grad():
        assert optimizer.step(closure).item() == 4.0
    assert param.tolist() != [[1.0, 1.0], [1.0, 1.0]]
    assert optimizer.step() is None


def test_zero_grad_drops_or_clears() -> None:
    parameter = start()
    optimizer = SGD([parameter], lr=0.1)
    loss_of(parameter).backward()
    grad = parameter.grad
    optimizer.zero_grad(set_to_none=False)
    assert parameter.grad is grad
    assert grad.tolist() == [0.0, 0.0, 0.0]
    parameter.grad = (start() * 2).detach().requires_grad_() * 1
    optimizer.zero_grad(set_to_none=False)
    assert not parameter.grad.requires_grad
    optimizer.zero_grad()
    assert parameter.grad is None


def test_a_class_of_a_user_is_an_optimizer() -> None:
    class Halving(Optimizer):
        def __init__(self, params: Any, lr: Any = required) -> None:
            super().__init__(params, {"lr": lr, "differentiable": False})

        @_use_grad_for_differentiable
        def step(self, closure: Any = None) -> Any:
            loss = closure() if closure else None
            for group in self.param_groups:
                for p in group["params"]:
                    p.mul_(0.5)
                    self.state[p]["n"] = self.state[p].get("n", 0) + 1
            return loss

    parameter = start()
    optimizer = Halving([{"params": [parameter], "lr": 1}])
    calls = []
    optimizer.register_step_pre_hook(lambda *arguments: calls.append("before"))
    optimizer.step()
    assert parameter.tolist() == [0.5, -1.0, 1.5]
    assert calls == ["before"]
    assert optimizer.state_dict()["state"] == {0: {"n": 1}}


def test_subclasses_of_an_optimizer_run_the_hooks_once() -> None:
    class Louder(Adam):
        pass

    optimizer = Louder([start()])
    calls = []
    optimizer.register_step_post_hook(lambda *arguments: calls.append("after"))
    optimizer.step()
    Louder([start()]).step()
    assert calls == ["after"]


def test_an_optimizer_is_gone_with_its_last_name() -> None:
    optimizer = Adam([start()])
    gone = weakref.ref(optimizer)
    gc.disable()
    try:
        del optimizer
        assert gone() is None
    finally:
        gc.enable()


# --- hooks ---------------------------------------------------------------------------------------


def test_step_hooks_run_around_the_step_in_order() -> None:
    parameter = start()
    optimizer = SGD([parameter], lr=0.1)
    seen: list[Any] = []

    def noting(name: str) -> Callable[..., None]:
        return lambda o, args, kwargs: seen.append((name, o is optimizer, args[1:], dict(kwargs)))

    handles = [
        optimizer.register_step_post_hook(noting("own post")),
        optimizer.register_step_pre_hook(noting("own pre")),
        register_optimizer_step_post_hook(noting("all post")),
        register_optimizer_step_pre_hook(noting("all pre")),
    ]
    names = ["all pre", "own pre", "own post", "all post"]
    optimizer.step()
    assert seen == [(name, True, (), {}) for name in names]
    seen.clear()
    closure = lambda: 7.0  # noqa: E731 - it is compared
    assert optimizer.step(closure) == 7.0
    assert optimizer.step(closure=closure) == 7.0
    assert seen[:4] == [(name, True, (closure,), {}) for name in names]
    assert seen[4:] == [(name, True, (), {"closure": closure}) for name in names]
    for handle in handles:
        handle.remove()
    seen.clear()
    optimizer.step()
    assert seen == []


def test_a_pre_hook_may_replace_the_arguments_and_nothing_else() -> None:
    optimizer = SGD([start()])
    handle = optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: 9.0), {}))
    assert optimizer.step() == 9.0
    handle.remove()
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 5)
    with pytest.raises(
        RuntimeError, match=r"must return None or a tuple of \(new_args, new_kwargs"
    ):
        optimizer.step()


def test_hooks_of_saving_and_loading() -> None:
    optimizer = SGD([start()], lr=1.0)
    seen: list[Any] = []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("second"))
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    optimizer.register_state_dict_post_hook(lambda o, state: seen.append("more" in state), True)
    state = optimizer.state_dict()
    assert state["more"] == 1
    assert seen == ["first", "second", False]

    def double(o: Any, state: dict[str, Any]) -> dict[str, Any]:
        assert state is not given
        return {**state, "param_groups": [{**state["param_groups"][0], "lr": 2.0}]}

    given = state
    optimizer.register_load_state_dict_pre_hook(double)
    optimizer.register_load_state_dict_pre_hook(lambda o, state: seen.append("early"), prepend=True)
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append(o.param_groups[0]["lr"]))
    optimizer.load_state_dict(given)
    assert seen[3:] == ["early", 2.0]


def test_betas_of_adam_are_a_pair_of_numbers() -> None:
    assert Adam([start()], betas=[0.8, 0.9]).param_groups[0]["betas"] == (0.8, 0.9)
    betas = (shmtensor.tensor([0.8]), shmtensor.tensor([0.9]))
    for kind in (Adam, optim.AdamW):
        held = kind([start()], betas=betas).param_groups[0]["betas"]
        assert [beta.shape for beta in held] == [(), ()]


def test_sparse_adam_refuses_complex_parameters() -> None:
    parameter = nn.Parameter(shmtensor.ones(2, dtype=shmtensor.complex64))
    with pytest.raises(ValueError, match=r"^Complex params at indices \[\[0, 1\]\]: SparseAdam "):
        optim.SparseAdam([start(), parameter])
