"""Backward hooks of modules: when they run, what they see, what they replace, what is refused."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
import weakref
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as T
from shmtensor import nn
from shmtensor.nn.modules import module as of_modules
from shmtensor.utils.checkpoint import checkpoint

Pair = namedtuple("Pair", "first second")


class _Of(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def _number(value: float) -> Any:
    return T.tensor(float(value), requires_grad=True)


def _values(grads: Any) -> list[Any]:
    return [grad.tolist() if isinstance(grad, T.Tensor) else grad for grad in grads]


def _watched(function: Callable[..., Any]) -> tuple[Any, list[Any]]:
    """A module, and the list of what its two kinds of hooks are shown."""
    module = _Of(function)
    seen: list[Any] = []
    module.register_full_backward_hook(
        lambda m, grad_in, grad_out: seen.append((_values(grad_in), _values(grad_out)))
    )
    module.register_full_backward_pre_hook(lambda m, grad_out: seen.append(_values(grad_out)))
    return module, seen


@pytest.mark.check
def test_the_hook_runs_once_with_all_gradients() -> None:
    module, seen = _watched(lambda a, b: a * b)
    module(_number(3), _number(4)).backward()
    assert seen == [[1.0], ([4.0, 3.0], [1.0])]


def test_both_sides_are_one_node() -> None:
    module, _ = _watched(lambda a, b: (a * b, a + b))
    first, second = module(_number(1), _number(2))
    assert first.grad_fn is second.grad_fn
    assert first.grad_fn.name() == "BackwardHookFunctionBackward"
    product = first.grad_fn.next_functions[0][0]
    assert product.next_functions[0][0] is product.next_functions[1][0]


def test_an_output_without_a_gradient_is_none() -> None:
    module, seen = _watched(lambda a: (a * 2, a * 3))
    x = _number(1)
    module(x)[1].backward()
    assert seen == [[None, 1.0], ([3.0], [None, 1.0])]
    assert x.grad.item() == 3.0


def test_an_input_that_the_result_does_not_depend_on_has_gradient_zero() -> None:
    module, seen = _watched(lambda a, b: a * 2)
    x, y = _number(1), _number(1)
    module(x, y).backward()
    assert seen[1] == ([2.0, 0.0], [1.0])
    assert (x.grad.item(), y.grad.item()) == (2.0, 0.0)


def test_what_is_no_tensor_has_the_place_of_none() -> None:
    module, seen = _watched(lambda a, n, b, *rest: (a * b * n, "text"))
    module(_number(3), 5, _number(2), None)[0].backward()
    assert seen == [[1.0, None], ([10.0, None, 15.0, None], [1.0, None])]


def test_an_input_that_needs_no_gradient_may_get_one_from_a_hook() -> None:
    module, seen = _watched(lambda a, b: a * b)
    module.register_full_backward_hook(lambda m, grad_in, _: (grad_in[0] * 2, T.tensor(1.0)))
    x, plain = _number(3), T.tensor(2.0)
    module(x, plain).backward()
    assert seen[1] == ([2.0, 0.0], [1.0])
    assert (x.grad.item(), plain.grad) == (4.0, None)


def test_each_backward_of_a_kept_graph_runs_the_hooks_once() -> None:
    module, seen = _watched(lambda a, b: a * b)
    result = module(_number(3), _number(2))
    result.backward(T.tensor(1.0), retain_graph=True)
    result.backward(T.tensor(10.0))
    assert seen == [[1.0], ([2.0, 3.0], [1.0]), [10.0], ([20.0, 30.0], [10.0])]


def test_two_backwards_from_different_outputs() -> None:
    module, seen = _watched(lambda a: (a * 2, a * 3))
    first, second = module(_number(1))
    first.backward(retain_graph=True)
    second.backward(T.tensor(5.0))
    assert seen == [[1.0, None], ([2.0], [1.0, None]), [None, 5.0], ([15.0], [None, 5.0])]


def test_a_second_derivative_runs_the_hooks_of_the_first_only() -> None:
    module, seen = _watched(lambda a: a * a * a)
    x = _number(2)
    (first,) = T.autograd.grad(module(x), x, create_graph=True)
    (second,) = T.autograd.grad(first, x, create_graph=True)
    (third,) = T.autograd.grad(second, x)
    assert (first.item(), second.item(), third.item()) == (12.0, 12.0, 6.0)
    assert seen == [[1.0], ([12.0], [1.0])]


def test_gradients_past_the_output_run_no_hook() -> None:
    kept = []
    module, seen = _watched(lambda a: (kept.append(a * 5), a * 2)[1])
    x = _number(3)
    result = module(x)
    kept[0].backward()
    assert (seen, x.grad.item()) == ([], 5.0)
    result.backward()
    assert seen == [[1.0], ([2.0], [1.0])]
    kept.clear()  # else the graph has a tensor that has the graph


def test_a_run_that_ended_between_the_nodes_leaves_nothing_for_the_next() -> None:
    kept = []
    weight = _number(5)
    module, seen = _watched(lambda a: (kept.append(a * 7), a * weight)[1])
    x = _number(3)
    result = module(x)
    assert T.autograd.grad(result, weight, retain_graph=True)[0].item() == 3.0
    kept[0].backward()
    assert seen == [[1.0]]
    result.backward()
    assert seen == [[1.0], [1.0], ([5.0], [1.0])]
    kept.clear()


# --- replacing -----------------------------------------------------------------------------------


@pytest.mark.check
def test_a_pre_hook_replaces_all_gradients() -> None:
    module = _Of(lambda a, b: (a * 2, b * 3))
    module.register_full_backward_pre_hook(lambda m, grads: (grads[0] * 10, grads[1] * 100))
    x, y = _number(1), _number(1)
    first, second = module(x, y)
    (first + second).backward()
    assert (x.grad.item(), y.grad.item()) == (20.0, 300.0)


@pytest.mark.check
def test_a_hook_replaces_all_gradients_and_the_next_sees_them() -> None:
    module = _Of(lambda a, b: a * b)
    module.register_full_backward_hook(lambda m, grads, _: [grads[0] * 10, grads[1] * 100])
    seen = []
    module.register_full_backward_hook(lambda m, grads, _: seen.append(_values(grads)))
    x, y = _number(2), _number(3)
    module(x, y).backward()
    assert seen == [[30.0, 200.0]]
    assert (x.grad.item(), y.grad.item()) == (30.0, 200.0)


def test_none_takes_a_gradient_away() -> None:
    module = _Of(lambda a: a * 2)
    handle = module.register_full_backward_hook(lambda m, grads, _: (None,))
    x = _number(1)
    module(x).backward()
    assert x.grad is None
    handle.remove()
    module.register_full_backward_pre_hook(lambda m, grads: (None,))
    module(x).backward()
    assert x.grad.item() == 0.0


@pytest.mark.parametrize("returned", [(), (None, None), [1, 2, 3], "ab", T.zeros(4)])
def test_a_wrong_number_of_gradients_is_refused(returned: Any) -> None:
    n = len(returned)
    module = _Of(lambda a: a * 2)
    handle = module.register_full_backward_hook(lambda *_: returned)
    with pytest.raises(RuntimeError, match=f"number of grad_input, got {n}, but expected 1"):
        module(_number(1)).backward()
    handle.remove()
    module.register_full_backward_pre_hook(lambda *_: returned)
    with pytest.raises(RuntimeError, match=f"number of grad_output, got {n}, but expected 1"):
        module(_number(1)).backward()


@pytest.mark.parametrize(
    ("returned", "error", "words"),
    [
        (5, TypeError, "object of type 'int' has no len"),
        ((5,), TypeError, "expected Variable, but hook returned 'int'"),
        ((T.zeros(2),), RuntimeError, "has changed the size of value"),
        ((T.tensor(1.0, dtype=T.float64),), RuntimeError, "has changed the type of value"),
    ],
)
@pytest.mark.parametrize("pre", [False, True])
def test_what_is_no_gradient_of_the_value_is_refused(
    pre: bool, returned: Any, error: type[Exception], words: str
) -> None:
    module = _Of(lambda a: a * 2)
    register = module.register_full_backward_pre_hook if pre else module.register_full_backward_hook
    register(lambda *_: returned)
    x = _number(1)
    with pytest.raises(error, match=words):
        module(x).backward()
    assert x.grad is None


# --- arguments and results of other kinds --------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_a_call_whose_arguments_need_no_gradient() -> None:
    weight = _number(2)
    module, seen = _watched(lambda a, n, by=1: a * weight * n)
    with pytest.warns(UserWarning, match="firing when gradients are computed with respect to"):
        module(T.tensor(3.0), 2, by=5).backward()
    assert seen == [[1.0], ([None, None], [1.0])]
    module = _Of(lambda: weight * 2)
    module.register_full_backward_pre_hook(lambda m, grads: (grads[0] * 5,))
    weight.grad = None
    module().backward()
    assert weight.grad.item() == 10.0


@pytest.mark.parametrize(
    ("returned", "fits"),
    [(None, True), ((None,), True), ((), True), ([None], False), ((T.ones(1),), False), (5, False)],
)
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_no_gradient_can_be_given_where_no_argument_needs_one(returned: Any, fits: bool) -> None:
    module = nn.Linear(2, 1)
    module.register_full_backward_hook(lambda *_: returned)
    result = module(T.ones(2)).sum()
    if fits:
        result.backward()
        return
    with pytest.raises(RuntimeError, match="no input requires gradient should always return"):
        result.backward()


def test_a_pre_hook_warns_too_where_no_argument_needs_a_gradient() -> None:
    module = nn.Linear(2, 1)
    module.register_full_backward_pre_hook(lambda *_: None)
    with pytest.warns(UserWarning, match="Full backward hook is firing"):
        module(T.ones(2)).sum().backward()


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_tensors_by_name_and_in_structures_are_not_arguments_of_the_node() -> None:
    module, seen = _watched(lambda a, b: a * b)
    x, y = _number(2), _number(3)
    module(x, b=y).backward()
    assert seen == [[1.0], ([3.0], [1.0])]
    assert y.grad.item() == 2.0
    module, seen = _watched(lambda pair: pair[0] * pair[1])
    module((x, y)).backward()
    assert seen == [[1.0], ([None], [1.0])]


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda a: [a * 2, a * 3], "list"),
        (lambda a: {"x": a * 2}, "dict"),
        (lambda a: None, "NoneType"),
        (lambda a: 5, "int"),
    ],
)
def test_results_of_other_kinds_are_not_watched_and_it_is_told(function: Any, kind: str) -> None:
    module, seen = _watched(function)
    x = _number(1)
    with pytest.warns(UserWarning, match=f"but received <class '{kind}'>"):
        result = module(x)
    parts = result.values() if kind == "dict" else result if kind == "list" else ()
    for part in parts:
        assert part.grad_fn.name() == "MulBackward0"
        part.backward(retain_graph=True)
    assert seen == []


def test_a_tuple_keeps_its_class() -> None:
    class Own(tuple):
        pass

    for kind, make in ((Pair, lambda *v: Pair(*v)), (Own, lambda *v: Own(v))):
        module, seen = _watched(lambda a, make=make: make(a * 2, [a * 3]))
        result = module(_number(1))
        assert type(result) is kind
        assert result[1][0].grad_fn.name() == "MulBackward0"
        result[0].backward()
        assert seen == [[1.0, None], ([2.0], [1.0, None])]


def test_outputs_that_have_no_gradient_stay_so() -> None:
    module, seen = _watched(lambda a: (a > 0, a * 2, a.detach(), a.argmax()))
    x = T.tensor([1.0, -1.0], requires_grad=True)
    mask, result, detached, at = module(x)
    assert mask.tolist() == [True, False]
    assert [t.requires_grad for t in (mask, detached, at)] == [False] * 3
    result.sum().backward()
    assert seen[0] == [None, [1.0, 1.0], None, None]
    assert x.grad.tolist() == [2.0, 2.0]


def test_the_same_tensor_twice_and_the_argument_as_result() -> None:
    module, seen = _watched(lambda a, b: a * b)
    x = _number(3)
    module(x, x).backward()
    assert seen == [[1.0], ([3.0, 3.0], [1.0])]
    assert x.grad.item() == 6.0
    module, seen = _watched(lambda a: (a, a))
    first, second = module(x)
    (first * 2 + second * 3).backward()
    assert seen == [[2.0, 3.0], ([5.0], [2.0, 3.0])]


def test_only_what_this_call_contributes_is_shown() -> None:
    module, seen = _watched(lambda a: a * 2)
    x = _number(3)
    (module(x) + x * 5 + module(x) * 10).backward()
    assert sorted(seen[1::2]) == [([2.0], [1.0]), ([20.0], [10.0])]
    assert x.grad.item() == 27.0


# --- changes in place ----------------------------------------------------------------------------


def test_outputs_and_inputs_of_a_watched_module_cannot_change_in_place() -> None:
    one = "Output 0 of BackwardHookFunction is a view .* created inside a custom Function"
    several = "Output 0 of BackwardHookFunction is a view .* returns multiple views"
    x = T.tensor([1.0, 2.0], requires_grad=True)
    module, _ = _watched(lambda a: a * 2)
    with pytest.raises(RuntimeError, match=one):
        module(x).add_(1)
    with pytest.raises(RuntimeError, match="Output 0 of Select is a view"):
        module(x)[0].add_(1)
    module, _ = _watched(lambda a: (a * 2, a * 3))
    with pytest.raises(RuntimeError, match=several):
        module(x)[0].add_(1)
    module, _ = _watched(lambda a, b: a.add_(1))
    with pytest.raises(RuntimeError, match=one):
        module(x * 1, T.ones(2))
    with pytest.raises(RuntimeError, match=several):
        module(x * 1, x * 2)
    module = nn.ReLU(inplace=True)
    module.register_full_backward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match=one):
        module(x * 1)


def test_an_input_without_gradient_changes_in_place_for_the_caller_too() -> None:
    module, seen = _watched(lambda a, plain: a * plain.add_(1))
    plain = T.tensor(1.0)
    module(_number(3), plain).backward()
    assert (plain.item(), plain._version) == (2.0, 1)
    assert seen[1] == ([2.0, 0.0], [1.0])


# --- around other parts of autograd --------------------------------------------------------------


def test_without_recording_there_are_no_nodes() -> None:
    module, seen = _watched(lambda a: a * 2)
    for off in (T.no_grad, T.inference_mode):
        with off():
            assert not module(_number(1)).requires_grad
    assert seen == []


def test_retained_gradients_are_those_before_the_hooks() -> None:
    module = _Of(lambda a: a * 2)
    module.register_full_backward_pre_hook(lambda m, grads: (grads[0] * 5,))
    x = _number(3)
    result = module(x)
    result.retain_grad()
    (result * 3).backward()
    assert (result.grad.item(), x.grad.item()) == (3.0, 30.0)


def test_gradients_of_the_result_alone_run_no_hook() -> None:
    module, seen = _watched(lambda a: a * 2)
    result = module(_number(3))
    assert T.autograd.grad(result * 7, result)[0].item() == 7.0
    assert seen == []


def test_hooks_of_nested_modules_run_from_the_outside_in_and_back() -> None:
    inner, outer = _Of(lambda a: a * 2), _Of(lambda a: inner(a) * 3)
    order = []
    for name, module in (("inner", inner), ("outer", outer)):
        module.register_full_backward_hook(lambda m, i, o, n=name: order.append(n))
        module.register_full_backward_pre_hook(lambda m, o, n=name: order.append(f"{n} pre"))
    outer(_number(1)).backward()
    assert order == ["outer pre", "inner pre", "inner", "outer"]


@pytest.mark.parametrize("reentrant", [False, True])
def test_hooks_in_checkpoints(reentrant: bool) -> None:
    module, seen = _watched(lambda a: a * a)
    x = _number(3)
    checkpoint(module, x, use_reentrant=reentrant).backward()
    assert seen == [[1.0], ([6.0], [1.0])]
    assert x.grad.item() == 6.0


def test_hooks_under_other_parameters() -> None:
    module = nn.Linear(2, 1, bias=False)
    seen = []
    module.register_full_backward_hook(lambda m, grads, _: seen.append(_values(grads)))
    weight = T.tensor([[3.0, 4.0]], requires_grad=True)
    x = T.ones(2, requires_grad=True)
    T.func.functional_call(module, {"weight": weight}, (x,)).sum().backward()
    assert seen == [[[3.0, 4.0]]]
    assert weight.grad.tolist() == [[1.0, 1.0]]


def test_hooks_under_transforms() -> None:
    module = _Of(lambda a: a * a)
    seen = []
    module.register_full_backward_hook(lambda *_: seen.append(1))
    assert T.func.grad(module)(T.tensor(3.0)).item() == 6.0
    assert T.func.vmap(T.func.grad(module))(T.tensor([3.0, 4.0])).tolist() == [6.0, 8.0]
    assert T.func.vmap(module)(T.tensor([3.0, 4.0])).tolist() == [9.0, 16.0]
    assert seen == [1, 1]
    values = T.func.jvp(module, (T.tensor(3.0),), (T.tensor(1.0),))
    assert [value.item() for value in values] == [9.0, 6.0]


def test_a_hook_that_runs_a_backward_of_the_same_module() -> None:
    module = _Of(lambda a: a * 2)
    seen = []

    def hook(m: Any, grad_in: Any, grad_out: Any) -> None:
        seen.append(_values(grad_out))
        if len(seen) < 3:
            with T.enable_grad():
                module(_number(1)).backward(T.tensor(10.0 * len(seen)))
        seen.append(_values(grad_in))

    module.register_full_backward_hook(hook)
    module(_number(1)).backward()
    assert seen == [[1.0], [10.0], [20.0], [40.0], [20.0], [2.0]]


def test_a_hook_that_raises_leaves_nothing_for_the_next_backward() -> None:
    module, seen = _watched(lambda a: a * 2)
    handle = module.register_full_backward_hook(lambda *_: 1 // 0)
    result = module(_number(1))
    with pytest.raises(ZeroDivisionError):
        result.backward(retain_graph=True)
    handle.remove()
    seen.clear()
    with pytest.raises(ZeroDivisionError):  # hooks are those of the call
        result.backward()
    assert seen == [[1.0], ([2.0], [1.0])]


# --- registering and removing --------------------------------------------------------------------


def test_hooks_are_those_that_the_call_found() -> None:
    module = _Of(lambda a: a * 2)
    order: list[str] = []
    first = module.register_full_backward_hook(lambda *_: order.append("first"))
    result = module(_number(1))
    first.remove()
    module.register_full_backward_hook(lambda *_: order.append("second"))
    result.backward()
    assert order == ["first"]
    module(_number(1)).backward()
    assert order == ["first", "second"]


def test_a_hook_that_a_hook_removes_runs_this_time() -> None:
    module = _Of(lambda a: a * 2)
    order: list[str] = []
    handles = [
        module.register_full_backward_hook(lambda *_: [h.remove() for h in handles] and None)
    ]
    handles.append(module.register_full_backward_hook(lambda *_: order.append("second")))
    module(_number(1)).backward()
    module(_number(1)).backward()
    assert order == ["second"]


def test_order_of_hooks() -> None:
    module = _Of(lambda a: a * 2)
    order: list[str] = []
    everywhere = [
        of_modules.register_module_full_backward_hook(lambda *_: order.append("all")),
        of_modules.register_module_full_backward_pre_hook(lambda *_: order.append("all pre")),
    ]
    for name, prepend in (("a", False), ("b", True), ("c", False)):
        module.register_full_backward_hook(lambda m, i, o, n=name: order.append(n), prepend=prepend)
        module.register_full_backward_pre_hook(
            lambda m, o, n=name: order.append(f"{n} pre"), prepend=prepend
        )
    module(_number(1)).backward()
    assert order == ["all pre", "b pre", "a pre", "c pre", "all", "b", "a", "c"]
    for handle in everywhere:
        handle.remove()
    order.clear()
    module(_number(1)).backward()
    assert "all" not in order


def test_copies_have_the_hooks_and_handles_remove_their_own() -> None:
    module = _Of(lambda a: a * 2)
    seen = []
    handle = module.register_full_backward_hook(lambda m, *_: seen.append(m))
    twin, twins_handle = copy.deepcopy((module, handle))
    twin(_number(1)).backward()
    assert seen == [twin]
    twins_handle.remove()
    twin(_number(1)).backward()
    module(_number(1)).backward()
    assert seen == [twin, module]


_told: list[Any] = []


def _tell(module: Any, grad_input: Any, grad_output: Any) -> None:
    _told.append((type(module).__name__, _values(grad_input)))


def test_pickled_modules_have_the_hooks() -> None:
    module = nn.Tanh()
    handle = module.register_full_backward_hook(_tell)
    twin, twins_handle = pickle.loads(pickle.dumps((module, handle)))
    _told.clear()
    twin(_number(0)).backward()
    assert _told == [("Tanh", [1.0])]
    twins_handle.remove()
    twin(_number(0)).backward()
    assert len(_told) == 1
    assert len(module._backward_hooks) == 1


def test_a_call_keeps_nothing_after_its_graph() -> None:
    module, _ = _watched(lambda a: a * 2)
    result = module(_number(1))
    result.backward(retain_graph=True)
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is not None  # the graph has the hooks
    del result
    gc.collect()
    assert gone() is None


def test_modules_without_hooks_are_called_without_nodes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _Of(lambda a: [a * 2])(_number(1))[0].grad_fn.name() == "MulBackward0"
