"""Forward hooks of modules: order, removing while they run, errors, what pre-hooks return."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from shmtensor import nn
from shmtensor.nn import _global_hooks
from shmtensor.nn.modules import module as of_modules


class _Of(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def _raise(*_: Any) -> None:
    raise KeyError("of a hook")


def _fail(*_: Any, **__: Any) -> None:
    raise ValueError("of forward")


@pytest.mark.check
@pytest.mark.parametrize("pre", [False, True])
def test_a_hook_that_a_hook_removes_runs_this_time_as_it_was_registered(pre: bool) -> None:
    module = _Of(lambda a: a)
    register = module.register_forward_pre_hook if pre else module.register_forward_hook
    calls: list[int] = []
    handles: list[Any] = []

    def remove(*_: Any) -> None:
        for handle in handles:
            handle.remove()

    register(remove)
    handles += [
        register(lambda *given: calls.append(len(given))),
        register(lambda *given: calls.append(len(given)), with_kwargs=True),
    ]
    assert module(1) == 1
    assert calls == ([2, 3] if pre else [3, 4])
    assert module(1) == 1
    assert len(calls) == 2


def test_removing_a_hook_leaves_no_mark_of_it() -> None:
    module = nn.Identity()
    nothing = lambda *_: None  # noqa: E731
    everywhere = of_modules.register_module_forward_hook
    for handle in (
        module.register_forward_hook(nothing, with_kwargs=True, always_call=True),
        module.register_forward_pre_hook(nothing, with_kwargs=True),
        everywhere(nothing, with_kwargs=True, always_call=True),
    ):
        handle.remove()
    marks = [
        module._forward_hooks,
        module._forward_hooks_with_kwargs,
        module._forward_hooks_always_called,
        module._forward_pre_hooks,
        module._forward_pre_hooks_with_kwargs,
        _global_hooks.forward,
        _global_hooks.forward_with_kwargs,
        _global_hooks.forward_always_called,
    ]
    assert [len(mark) for mark in marks] == [0] * 8


_seen: list[Any] = []


def _note(module: Any, args: Any, kwargs: Any, output: Any) -> None:
    _seen.append((args, kwargs, output))


def test_a_pickled_handle_removes_all_marks_of_its_copy() -> None:
    module = nn.Identity()
    handle = module.register_forward_hook(_note, with_kwargs=True, always_call=True)
    twin, twins = pickle.loads(pickle.dumps((module, handle)))
    _seen.clear()
    assert twin(5) == 5
    assert _seen == [((5,), {}, 5)]
    twins.remove()
    assert not twin._forward_hooks_with_kwargs
    assert not twin._forward_hooks_always_called
    assert list(module._forward_hooks_with_kwargs) == [handle.id]


@pytest.mark.check
def test_hooks_that_are_always_called_run_after_an_error_of_forward() -> None:
    module = _Of(_fail)
    seen: list[Any] = []
    module.register_forward_hook(lambda m, a, out: seen.append((1, out)), always_call=True)
    module.register_forward_hook(lambda m, a, out: seen.append((2, out)))
    module.register_forward_hook(
        lambda m, a, k, out: seen.append((3, k, out)), always_call=True, with_kwargs=True
    )
    with pytest.raises(ValueError, match="of forward"):
        module(1, by=2)
    assert seen == [(1, None), (3, {"by": 2}, None)]


def test_hooks_that_are_always_called_run_once_and_see_the_result_so_far() -> None:
    module = _Of(lambda a: a * 2)
    seen: list[Any] = []
    module.register_forward_hook(lambda m, a, out: seen.append((0, out)), always_call=True)
    module.register_forward_hook(lambda m, a, out: out * 5)
    module.register_forward_hook(_raise)
    module.register_forward_hook(lambda m, a, out: seen.append((1, out)) or 7, always_call=True)
    module.register_forward_hook(lambda m, a, out: seen.append((2, out)), always_call=True)
    module.register_forward_hook(lambda m, a, out: seen.append((3, out)))
    with pytest.raises(KeyError, match="of a hook"):
        module(1)
    assert seen == [(0, 2), (1, 10), (2, 7)]


def test_hooks_that_are_always_called_run_after_an_error_of_a_pre_hook() -> None:
    module = _Of(lambda a: a)
    seen: list[Any] = []
    module.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    module.register_forward_pre_hook(_raise)
    module.register_forward_hook(lambda m, args, out: seen.append((args, out)), always_call=True)
    with pytest.raises(KeyError):
        module(1)
    assert seen == [((2,), None)]


def test_an_error_of_an_always_called_hook_does_not_hide_the_first_one() -> None:
    module = _Of(_fail)
    seen: list[Any] = []
    everywhere = [
        of_modules.register_module_forward_hook(_raise, always_call=True),
        of_modules.register_module_forward_hook(
            lambda m, a, out: seen.append("all"), always_call=True
        ),
        of_modules.register_module_forward_hook(lambda m, a, out: seen.append("not called")),
    ]
    module.register_forward_hook(_raise, always_call=True)
    module.register_forward_hook(lambda m, a, out: seen.append("own"), always_call=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(ValueError, match="of forward"):
            module(1)
    for handle in everywhere:
        handle.remove()
    assert seen == ["all", "own"]
    words = "module forward hook with ``always_call=True`` raised an exception that was silenced"
    assert [str(each.message).split(words)[0] for each in told] == ["global ", ""]


def test_an_always_called_hook_that_raises_itself_is_not_called_again() -> None:
    module = _Of(lambda a: a)
    seen: list[Any] = []
    module.register_forward_hook(lambda *_: seen.append(1) or _raise(), always_call=True)
    module.register_forward_hook(lambda m, a, out: seen.append(out), always_call=True)
    with pytest.raises(KeyError):
        module(5)
    assert seen == [1, 5]


def test_what_ends_the_program_calls_no_hook() -> None:
    def stop(_: Any) -> None:
        raise KeyboardInterrupt

    module = _Of(stop)
    seen: list[Any] = []
    module.register_forward_hook(lambda *_: seen.append(1), always_call=True)
    with pytest.raises(KeyboardInterrupt):
        module(1)
    assert seen == []


def test_order_of_hooks() -> None:
    module = _Of(lambda a: order.append("forward"))
    order: list[str] = []
    everywhere = [
        of_modules.register_module_forward_hook(lambda *_: order.append("all")),
        of_modules.register_module_forward_pre_hook(lambda *_: order.append("all pre")),
    ]
    for name, prepend in (("a", False), ("b", True), ("c", False)):
        module.register_forward_hook(lambda m, i, o, n=name: order.append(n), prepend=prepend)
        module.register_forward_pre_hook(
            lambda m, i, n=name: order.append(f"{n} pre"), prepend=prepend
        )
    module(1)
    for handle in everywhere:
        handle.remove()
    assert order == ["all pre", "b pre", "a pre", "c pre", "forward", "all", "b", "a", "c"]


@pytest.mark.parametrize(
    ("returned", "args"),
    [(5, (5,)), ((5, 6), (5, 6)), ([5], ([5],)), ((), ()), (False, (False,)), (0, (0,))],
)
def test_what_a_pre_hook_returns_becomes_the_arguments(returned: Any, args: Any) -> None:
    module = _Of(lambda *args: args)
    module.register_forward_pre_hook(lambda *_: returned)
    assert module(1) == args


@pytest.mark.parametrize("returned", [5, (5,), [(1,), {}], ((1,), {}, 3), "ab", False])
def test_a_pre_hook_with_kwargs_must_return_a_pair(returned: Any) -> None:
    module = _Of(lambda *args, **kwargs: (args, kwargs))
    module.register_forward_pre_hook(lambda *_: returned, with_kwargs=True)
    with pytest.raises(RuntimeError, match="must return None or a tuple of"):
        module(1)
    module._forward_pre_hooks.clear()
    module.register_forward_pre_hook(lambda *_: ([1], {"by": 2}), with_kwargs=True)
    assert module(3) == ((1,), {"by": 2})


@pytest.mark.parametrize("returned", [5, False, 0, ()])
def test_what_a_forward_hook_returns_becomes_the_result(returned: Any) -> None:
    module = _Of(lambda a: a * 2)
    module.register_forward_hook(lambda *_: returned)
    assert module(1) is returned
