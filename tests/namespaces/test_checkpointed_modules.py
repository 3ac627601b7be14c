"""Modules around others that compute again in backward; not here: `utils.checkpoint` itself."""

from __future__ import annotations

import copy
import importlib
import pickle
from typing import Any

import pytest

import shmtensor as T

wrapper = importlib.import_module("shmtensor.distributed.algorithms._checkpoint.checkpoint_wrapper")
wrap = importlib.import_module("shmtensor.distributed.fsdp.wrap")


class _Counted(T.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = T.nn.Linear(3, 3)
        self.n_calls = 0

    def forward(self, x: T.Tensor, scale: float = 1.0, *, bias: Any = 0.0) -> T.Tensor:
        self.n_calls += 1
        return self.linear(x).tanh() * scale + bias


@pytest.mark.check
@pytest.mark.parametrize("way", list(wrapper.CheckpointImpl))
def test_backward_calls_the_module_again(way: Any) -> None:
    x = T.randn(2, 3, requires_grad=True)
    plain = _Counted()
    around = wrapper.checkpoint_wrapper(copy.deepcopy(plain), way)
    grads = []
    for module in (plain, around):
        module(x, 2.0, bias=x).sum().backward()
        grads.append((x.grad, [p.grad for p in module.parameters()]))
        x.grad = None
    assert T.equal(grads[0][0], grads[1][0])
    assert all(map(T.equal, grads[0][1], grads[1][1]))
    assert (plain.n_calls, around.n_calls) == (1, 2)


def test_tensors_for_backward_are_saved_as_copies() -> None:
    x = T.randn(2, 3, requires_grad=True)
    plain = _Counted()
    around = wrapper.offload_wrapper(plain)
    right = T.autograd.grad(plain(x).sum(), x)[0]
    assert T.equal(T.autograd.grad(around(x).sum(), x)[0], right)


def test_a_function_of_the_program_computes_again() -> None:
    seen: list[Any] = []

    def call(function: Any, *args: Any, note: str, **kwargs: Any) -> Any:
        seen.append(note)
        return function(*args, **kwargs)

    around = wrapper.checkpoint_wrapper(_Counted(), checkpoint_fn=call, note="here")
    around(T.ones(1, 3), bias=1.0)
    assert seen == ["here"]


def test_names_and_states_are_those_of_the_module_inside() -> None:
    plain = T.nn.Sequential(T.nn.Linear(2, 2), T.nn.BatchNorm1d(2))
    names = [name for name, _ in plain.named_parameters()]
    state = plain.state_dict()
    around = wrapper.checkpoint_wrapper(plain)
    outer = T.nn.ModuleDict({"a": around})
    assert [name for name, _ in around.named_parameters()] == names
    assert list(around.state_dict()) == list(state)
    assert list(outer.state_dict()) == [f"a.{name}" for name in state]
    around.load_state_dict(state)
    outer.load_state_dict({f"a.{name}": value for name, value in state.items()})
    assert around[0] is plain[0] and len(around[1:]) == 1
    again = pickle.loads(pickle.dumps(around))
    assert list(again.state_dict()) == list(state)
    with pytest.raises(AttributeError, match="no_such_name"):
        around.no_such_name


def _net() -> T.nn.Sequential:
    return T.nn.Sequential(T.nn.Linear(2, 2), T.nn.Sequential(T.nn.Linear(2, 2), T.nn.ReLU()))


def _wrapped(model: T.nn.Module) -> list[str]:
    kinds = (wrapper.CheckpointWrapper, wrapper.OffloadWrapper)
    found = [name for name, module in model.named_modules() if isinstance(module, kinds)]
    return [name.replace("_checkpoint_wrapped_module.", "") for name in found]


def test_parts_of_a_model_compute_again() -> None:
    model = _net()
    wrapper.apply_activation_checkpointing(model)
    assert _wrapped(model) == ["0", "1", "1.0", "1.1"]
    model = _net()
    is_linear = lambda module: isinstance(module, T.nn.Linear)  # noqa: E731
    wrapper.apply_activation_checkpointing(model, check_fn=is_linear)
    assert _wrapped(model) == ["0", "1.0"]
    model(T.ones(1, 2)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    for policy in (
        wrap.ModuleWrapPolicy([T.nn.ReLU]),
        wrap.CustomPolicy(lambda module: {"x": 1} if isinstance(module, T.nn.ReLU) else False),
    ):
        model = _net()
        wrapper.apply_activation_checkpointing(
            model, lambda module, **_: wrapper.offload_wrapper(module), auto_wrap_policy=policy
        )
        assert _wrapped(model) == ["1.1"]
    with pytest.raises(ValueError, match="CustomPolicy should return"):
        wrapper.apply_activation_checkpointing(
            _net(), auto_wrap_policy=wrap.CustomPolicy(lambda module: "yes")
        )
    with pytest.raises(ValueError, match="to be callable"):
        wrapper.apply_activation_checkpointing(_net(), auto_wrap_policy=3)
