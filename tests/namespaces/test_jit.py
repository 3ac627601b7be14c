"""`jit.trace` and `jit.script`: what a trace keeps, and what is refused."""

from __future__ import annotations

import copy
import inspect
import pickle
import signal
import time
import warnings
from typing import Any

import pytest

import shmtensor as T
from shmtensor import jit, nn


def branches(x: Any) -> Any:
    return x + 1 if x.sum() > 0 else x - 1


@pytest.mark.check
def test_a_trace_keeps_the_example_s_branch() -> None:
    with pytest.warns(jit.TracerWarning, match="a Python boolean") as caught:
        traced = jit.trace(branches, T.ones(2))
    assert traced(-T.ones(2)).tolist() == [0.0, 0.0] and caught[0].filename == __file__
    assert isinstance(traced, jit.ScriptFunction) and "add = x + 1" in traced.code


@pytest.mark.parametrize(
    ("program", "warns", "expected"),
    [
        (lambda x: x * float(x.sum()), "a Python float", [6.0] * 3),
        (lambda x: x * int(x.sum()), "a Python integer", [6.0] * 3),
        (lambda x: x * x.sum().item(), "a Python number", [6.0] * 3),
        (lambda x: x * x.tolist()[0], "a Python list", [2.0] * 3),
        (lambda x: x * x.numpy()[0], "a NumPy array", [2.0] * 3),
        (lambda x: x * len(x), "Using len", [6.0] * 3),
        (lambda x: sum(each for each in x), "Iterating over a tensor", 6.0),
    ],
)
def test_numbers_stay_those_of_the_example(program: Any, warns: str, expected: Any) -> None:
    with pytest.warns(jit.TracerWarning, match=warns):
        traced = jit.trace(program, T.ones(3))
    assert traced(T.full((3,), 2.0)).tolist() == expected


def test_values_that_the_package_takes_give_no_warning() -> None:
    def f(loc: Any, scale: Any, value: Any) -> Any:
        return T.distributions.Normal(loc, scale, validate_args=False).log_prob(value)

    loc, scale, value = T.tensor(0.0), T.tensor(1.0), T.randn(5, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        traced = jit.trace(f, (loc, scale, value))
    assert T.equal(traced(loc, scale, value), f(loc, scale, value))


def test_how_many_sizes_there_are_is_no_data() -> None:
    def f(x: Any) -> Any:
        _first, *rest = x.shape
        assert len(x.shape) == len(tuple(x.shape)) == len(rest) + 1 == 2
        return x.reshape(tuple(x.shape)[::-1]) * len(x.size())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        traced = jit.trace(f, T.ones(2, 3))
    assert traced(T.ones(4, 5)).shape == (5, 4)


def test_programs_see_that_a_trace_runs() -> None:
    states = []

    def f(x: Any) -> Any:
        states.append(T._C._get_tracing_state())  # type: ignore[attr-defined]
        return x + 1

    jit.trace(f, T.ones(2), check_trace=False)
    assert states[0] is not None
    assert T._C._get_tracing_state() is None  # type: ignore[attr-defined]


def test_sizes_follow_the_argument() -> None:
    traced = jit.trace(lambda x: x.size(0) * x.view(x.shape[0], -1), T.ones(3, 2, 2))
    assert traced(T.ones(5, 2, 2)).shape == (5, 4) and traced(T.ones(5, 2, 2))[0, 0] == 5
    with pytest.warns(jit.TracerWarning, match="Iterating"):
        traced = jit.trace(lambda x: sum(each for each in x), T.ones(3))
    with pytest.raises(RuntimeError, match="Expected 3 elements in a list but found 4"):
        traced(T.ones(4))


def test_changes_in_place_are_kept() -> None:
    def f(x: Any) -> Any:
        x[0] = 5
        x += 1
        return x.mul_(2)

    example = T.ones(2)
    traced = jit.trace(f, example)
    assert example.tolist() == [1.0, 1.0]
    x = T.zeros(2)
    assert traced(x).tolist() == [12.0, 2.0] and x.tolist() == [12.0, 2.0]


def test_arguments_and_results() -> None:
    pair = jit.trace(lambda x: (x[0] + x[1], x[0]), ((T.ones(1), T.ones(1)),))
    assert [each.item() for each in pair((T.ones(1), T.zeros(1)))] == [1.0, 1.0]
    assert jit.trace(lambda x: x["a"], ({"a": T.ones(1)},))({"a": T.zeros(1)}) == 0
    by_name = jit.trace(lambda x, y: x - y, example_kwarg_inputs={"y": T.ones(1), "x": T.ones(1)})
    assert by_name(x=T.ones(1), y=T.zeros(1)) == 1
    assert jit.trace(T.relu, T.ones(1))(-T.ones(1)) == 0
    x = T.ones(1, requires_grad=True)
    jit.trace(lambda y: y * 3, T.ones(1))(x).backward()
    assert x.grad == 3
    traced = jit.trace(lambda x, y=2: x * y, T.ones(1))
    assert traced(T.ones(1)) == 2
    with pytest.raises(RuntimeError, match="missing value for argument 'x'"):
        traced()
    with pytest.raises(RuntimeError, match="expected at most 1"):
        traced(T.ones(1), 3)


@pytest.mark.parametrize(
    ("program", "arguments", "text"),
    [
        (lambda x, y: x, (T.ones(1), 2), r"Type 'Tuple\[Tensor, int\]' cannot be traced"),
        (lambda x: 3, T.ones(1), "Only tensors, lists, tuples"),
        (lambda x: None, T.ones(1), "didn't return any values"),
        (lambda x: {"a": x}, T.ones(1), "strict=False"),
    ],
)
def test_what_is_no_tensor_is_refused(program: Any, arguments: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        jit.trace(program, arguments)
    assert not jit.is_tracing()


def test_both_or_no_examples_are_refused() -> None:
    with pytest.raises(RuntimeError, match="not both"):
        jit.trace(branches)


def test_collections_that_are_returned() -> None:
    assert jit.trace(lambda x: {"a": x}, T.ones(1), strict=False)(T.zeros(1)) == {"a": T.zeros(1)}
    with pytest.warns(jit.TracerWarning, match="Encountering a list"):
        traced = jit.trace(lambda x: (x, [x + 1]), T.ones(1))
    assert traced(T.ones(1))[1][0] == 2


def test_a_trace_is_compared_with_the_program() -> None:
    with pytest.warns(jit.TracerWarning, match="Output nr 1"):
        jit.trace(lambda x: x + int(jit.is_tracing()), T.ones(1))
    T.manual_seed(0)
    before = T.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jit.trace(lambda x: x * 2, T.ones(1))
        jit.trace(lambda x: x + int(jit.is_tracing()), T.ones(1), check_trace=False)
    assert T.equal(T.get_rng_state(), before)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(2, 2)
        self.note = 3

    def forward(self, x: Any, flag: bool = True) -> Any:
        return self.lin(x) + T.ones(2) if x.sum() > 0 and flag else x


def test_a_traced_module_has_the_parameters() -> None:
    module = Model()
    with pytest.warns(jit.TracerWarning):
        traced = jit.trace(module, T.ones(1, 2))
    assert isinstance(traced, jit.ScriptModule) and traced.original_name == "Model"
    assert sorted(traced.state_dict()) == ["lin.bias", "lin.weight"]
    assert traced.lin is module.lin and not hasattr(module, "_tensor_constant0")
    x = -T.ones(1, 2)
    assert T.equal(traced(x), module.lin(x) + 1)
    with pytest.raises(AttributeError, match="note"):
        traced.note
    with pytest.warns(jit.TracerWarning):
        again = jit.trace_module(module, {"forward": T.ones(1, 2)})
    assert T.equal(again(x), traced(x))
    with pytest.raises(NotImplementedError, match="forward only"):
        jit.trace_module(module, {"other": T.ones(1)})


# --- scripts -------------------------------------------------------------------------------------


def with_try(x: Any) -> Any:
    try:
        return x
    except ValueError:
        return -x


def with_function(x: Any) -> Any:
    def inner(y: Any) -> Any:
        return y

    return inner(x)


def generator(x: Any) -> Any:
    yield x


def of_any_number(*x: Any) -> Any:
    return x


def with_exception_outside_scripts(x: Any) -> Any:
    if not jit.is_scripting():
        try:
            return x
        except ValueError:
            pass
    return x


@jit.ignore
def ignored(x: Any) -> Any:
    yield x


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (with_try, "try blocks aren't supported"),
        (with_function, "function definitions aren't supported"),
        (generator, "Yield aren't supported"),
        (of_any_number, "variable number of arguments"),
    ],
)
def test_functions_that_no_script_can_be(function: Any, text: str) -> None:
    with pytest.raises(jit.frontend.NotSupportedError, match=text):
        jit.script(function)

    class Holder(nn.Module):
        forward = function

    with pytest.raises(jit.frontend.NotSupportedError, match=text):
        jit.script(Holder())


class WithAnyNumber(nn.Module):
    def forward(self, *args: Any) -> Any:
        return args


class OfParent(nn.Linear):
    def forward(self, input: T.Tensor) -> T.Tensor:
        return super().forward(input)


class OfNamedParent(nn.Linear):
    def forward(self, input: T.Tensor) -> T.Tensor:
        return super(OfNamedParent, self).forward(input)  # noqa: UP008


class OfParentOutsideScripts(nn.Linear):
    def forward(self, input: T.Tensor) -> T.Tensor:
        if not jit.is_scripting():
            return super().forward(input)
        return input


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    ("module", "error", "text"),
    [
        (WithAnyNumber(), jit.frontend.NotSupportedError, "variable number of arguments"),
        (OfParent(1, 1), RuntimeError, "'Tensor' object has no attribute or method 'forward'"),
        (OfNamedParent(1, 1), RuntimeError, "Python type cannot be used as a value"),
    ],
)
def test_modules_that_no_script_can_be(module: Any, error: Any, text: str, inside: bool) -> None:
    with pytest.raises(error, match=text):
        jit.script(nn.Sequential(nn.ModuleList([module])) if inside else module)


def test_modules_of_scripts_and_traces() -> None:
    """A script may hold traces, modules that have no ``forward``, and those of the package."""
    traced = jit.trace(OfParent(1, 1), T.ones(1))
    without = nn.Module()
    without.inner = nn.MultiheadAttention(2, 1)
    for module in (traced, without, nn.ModuleList([traced, without]), OfParentOutsideScripts(1, 1)):
        assert isinstance(jit.script(module), jit.ScriptModule)
    assert jit.script(traced) is traced
    with pytest.raises(NotImplementedError, match="missing the required"):
        jit.script(without)(1)


def test_things_that_no_script_can_be() -> None:
    for value in (3, "text", None, T.ones(1), T.relu):
        with pytest.raises(TypeError, match="is a built-in class"):
            jit.script(value)
    with pytest.raises(RuntimeError, match="single top-level function"):
        jit.script(lambda x: x)
    names: dict[str, Any] = {}
    exec("def f(x): return x", names)
    with pytest.raises(OSError, match="Can't get source"):
        jit.script(names["f"])


def test_scripts_that_are() -> None:
    for function in (branches, with_exception_outside_scripts, ignored, [1], {"a": 1}, Model):
        assert jit.script(function) is function


@pytest.mark.parametrize(
    "name", ["call", "class", "a b", "self", "a=b", "argument_1", "torch", "print"]
)
def test_arguments_may_have_any_names(name: str) -> None:
    def program(**arguments: Any) -> Any:
        return arguments[name] + arguments["y"] * 2

    given = {name: T.ones(2), "y": T.ones(2)}
    traced = T.jit.trace(program, example_kwarg_inputs=given)
    assert traced(**given).tolist() == [3.0, 3.0]
    lists = {name: [T.ones(2)], "y": T.ones(2)}
    nested = T.jit.trace(lambda **a: a[name][0] + a["y"], example_kwarg_inputs=lists)
    assert nested(**lists).tolist() == [2.0, 2.0]


def test_a_function_may_call_its_argument_call() -> None:
    assert T.jit.trace(lambda call: call + 1, T.ones(1))(T.ones(1)) == 2


def test_whatever_a_trace_raises_is_a_runtime_error() -> None:
    def checked(x: T.Tensor) -> T.Tensor:
        T._assert(x.shape[-1] == 3, "not three")
        return x[:, 2]

    class Checked(nn.Module):
        def forward(self, x: T.Tensor) -> T.Tensor:
            return checked(x)

    for program in (checked, Checked()):
        trace = jit.trace(program, T.zeros(2, 3))
        assert trace(T.ones(4, 3)).tolist() == [1, 1, 1, 1]
        with pytest.raises(jit.Error, match="AssertionError: not three") as raised:
            trace(T.ones(4, 2))
        assert type(raised.value.__cause__) is AssertionError
        with pytest.raises(RuntimeError):
            trace(T.ones(3))


def test_an_error_of_a_handler_comes_through_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(number: int, frame: Any) -> None:
        raise TimeoutError("of the program")

    trace = jit.trace(lambda x: T._assert(x.sum() > 0, "positive") or x + 1, T.ones(2))
    before = signal.signal(signal.SIGUSR1, interrupted)
    try:
        monkeypatch.setattr(
            T, "_assert", lambda *_: signal.raise_signal(signal.SIGUSR1) or time.sleep(1)
        )
        with pytest.raises(TimeoutError, match="of the program"):
            trace(T.ones(2))
    finally:
        signal.signal(signal.SIGUSR1, before)


class Branches(nn.Module):
    def forward(self, x: T.Tensor) -> T.Tensor:
        if x.shape[0] == 7:
            return x.new_zeros(8)
        return x


def test_a_script_in_a_trace_keeps_its_branches() -> None:
    class Parent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.child = copy.deepcopy(jit.script(Branches()))

        def forward(self, x: T.Tensor) -> T.Tensor:
            return self.child(x)

    trace = jit.trace(Parent(), T.ones(7, 4))
    assert trace(T.ones(7, 4)).tolist() == [0] * 8
    assert trace(T.ones(5, 7)).tolist() == T.ones(5, 7).tolist()
    inside = jit.trace(nn.Sequential(trace), T.ones(7, 4))
    assert inside(T.ones(2, 2)).tolist() == [[1, 1], [1, 1]]


def test_a_branch_on_a_size_is_warned_of() -> None:
    with pytest.warns(jit.TracerWarning, match="a Python boolean"):
        trace = jit.trace(Branches(), T.ones(7, 4))
    assert trace(T.ones(7, 4)).tolist() == [0] * 8


def test_modules_that_the_program_does_not_register_are_traced_through() -> None:
    layer = nn.Linear(2, 2)
    layers = [Branches(), layer]

    def function(x: T.Tensor) -> T.Tensor:
        for each in layers:
            x = each(x)
        return x

    class Holder(nn.Module):
        def forward(self, x: T.Tensor) -> T.Tensor:
            return function(x)

    x = T.rand(3, 2)
    with (
        pytest.warns(jit.TracerWarning),
        pytest.raises(RuntimeError, match="Cannot insert a Tensor that requires grad"),
    ):
        jit.trace(function, x)
    layer.requires_grad_(requires_grad=False)
    for program in (function, Holder()):
        with pytest.warns(jit.TracerWarning):
            trace = jit.trace(program, T.ones(3, 2))
        assert T.equal(trace(x), layer(x))


# --- scripts of modules ---------------------------------------------------------------------------


class Checked(nn.Linear):
    """Raises what is no RuntimeError, also in a child."""

    def __init__(self) -> None:
        super().__init__(2, 1)
        self.child: nn.Module = nn.Identity()
        self._kind = self._module = "own"

    def forward(self, input: T.Tensor, by: str = "assert") -> T.Tensor:
        T._assert(input.shape[-1] == 2, "two columns, please")
        if by == "index":
            return input[:, 7]
        if by == "raise":
            raise KeyError("no key")
        if by == "runtime":
            raise RuntimeError("just this")
        return nn.functional.linear(self.child(input), self.weight, self.bias)


@pytest.mark.check
def test_what_scripts_of_modules_raise_is_a_runtime_error() -> None:
    module = Checked()
    script = jit.script(module)
    wrong: list[tuple[Any, type[Exception], str]] = [
        ((T.ones(3, 3),), AssertionError, "two columns, please"),
        ((T.ones(3, 2), "index"), IndexError, "out of bounds"),
        ((T.ones(3, 2), "raise"), KeyError, "no key"),
        ((), TypeError, "input"),
    ]
    for args, cause, text in wrong:
        for call in (script, script.forward, copy.copy(script)):
            with pytest.raises(RuntimeError, match=text):
                call(*args)
        with pytest.raises(jit.Error, match=text) as caught:
            script(*args)
        assert isinstance(caught.value.__cause__, cause)
        with pytest.raises(cause, match=text):  # the module itself is as it was
            module(*args)
    with pytest.raises(RuntimeError, match=r"^just this$"):
        script(T.ones(3, 2), "runtime")
    script.register_forward_pre_hook(lambda *_: {}["hook"])  # is no part of the script
    with pytest.raises(KeyError, match="hook"):
        script(T.ones(3, 2))


def test_scripts_share_everything_with_their_modules() -> None:
    module = Checked()
    script = jit.script(module)
    x = T.ones(3, 2)
    assert isinstance(script, jit.ScriptModule) and isinstance(script, Checked)
    assert type(script).__name__ == "RecursiveScriptModule" and script.original_name == "Checked"
    assert repr(script).startswith("RecursiveScriptModule(\n  original_name=Checked")
    assert script.weight is module.weight and script.state_dict().keys() == {"weight", "bias"}
    assert script.in_features == 2 and T.equal(script(x), module(x))
    script.eval()
    assert not module.training and not module.child.training
    module.child = nn.ReLU()
    assert script.child is module.child
    assert jit.script(script) is script and jit.trace(script, x)(x).equal(module(x))
    assert str(inspect.signature(script.forward)) == str(inspect.signature(module.forward))


def test_copies_of_scripts_are_scripts() -> None:
    script = jit.script(Checked())
    for made in (copy.copy(script), copy.deepcopy(script), pickle.loads(pickle.dumps(script))):
        assert isinstance(made, jit.ScriptModule) and isinstance(made, Checked)
        assert T.equal(made(T.ones(1, 2)), script(T.ones(1, 2)))
        with pytest.raises(jit.Error, match="two columns"):
            made(T.ones(3))
    inside = copy.deepcopy(nn.Sequential(script, script))
    assert inside[0] is inside[1] is not script and inside[0].weight is not script.weight


def test_a_script_is_no_subclass_that_a_program_made() -> None:
    made = []

    class Registered(nn.Module):
        def __init_subclass__(cls, *, name: str) -> None:
            made.append(name)

        def forward(self, x: T.Tensor) -> T.Tensor:
            return x + 1

    class Named(Registered, name="one"):
        pass

    assert jit.script(Named())(T.ones(())).item() == 2 and made == ["one"]
