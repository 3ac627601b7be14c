"""Traces: what programs become, what they may not ask of proxies, and how tracers are changed.

Graphs themselves are in test_graph.py, modules in test_graph_module.py.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import operator
import pickle
import threading
from math import sqrt
from typing import Any

import pytest

import shmtensor as T
from shmtensor import fx, nn


@fx.wrap
def chosen(x: Any, y: Any) -> Any:
    return x if x.sum() > 0 else y


fx.wrap("len")
fx.wrap("sqrt")


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(T.ones(3, 4))
        self.linear = nn.Linear(4, 5)
        self.seq = nn.Sequential(nn.Linear(5, 5), nn.ReLU())
        self.constant = T.ones(5)
        self.register_buffer("offset", T.zeros(5))

    def forward(self, x: Any, y: Any = 1) -> Any:
        hidden = self.seq(self.linear(x + self.weight).clamp(min=0.0))
        return {"a": hidden + self.constant, "b": [y, self.offset]}


def body(f: Any, **options: Any) -> list[str]:
    """The lines of the code that a trace gives, after the one that begins it."""
    lines = fx.symbolic_trace(f, **options).code.strip().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("def "))
    return [line.strip() for line in lines[start + 1 :]]


@pytest.mark.check
def test_a_module_becomes_its_steps() -> None:
    module = Layers()
    traced = fx.symbolic_trace(module)
    assert traced.code == (
        "\n\n\ndef forward(self, x : 'Any', y : 'Any' = 1) -> 'Any':\n"
        "    weight = self.weight\n"
        "    add = x + weight;  x = weight = None\n"
        "    linear = self.linear(add);  add = None\n"
        "    clamp = linear.clamp(min = 0.0);  linear = None\n"
        '    seq_0 = getattr(self.seq, "0")(clamp);  clamp = None\n'
        '    seq_1 = getattr(self.seq, "1")(seq_0);  seq_0 = None\n'
        "    constant = self.constant\n"
        "    add_1 = seq_1 + constant;  seq_1 = constant = None\n"
        "    offset = self.offset\n"
        "    return {'a': add_1, 'b': [y, offset]}\n    "
    )
    x = T.rand(3, 4)
    assert T.equal(traced(x)["a"], module(x)["a"]) and traced(x, 7)["b"][0] == 7
    traced(x)["a"].sum().backward()
    assert module.weight.grad is not None  # the parameters are shared


def test_operators_are_written_as_operators() -> None:
    def f(x: Any, y: Any) -> Any:
        a = 3 - x[0, 1:, None, ...] ** 2
        b = (-a @ y) // 2 << 1
        return a == b, ~b, abs(b), b.shape[0], x.T

    assert body(f) == [
        "getitem = x[(0, slice(1, None, None), None, Ellipsis)]",
        "pow_1 = getitem ** 2;  getitem = None",
        "sub = 3 - pow_1;  pow_1 = None",
        "neg = -sub",
        "matmul = neg @ y;  neg = y = None",
        "floordiv = matmul // 2;  matmul = None",
        "lshift = floordiv << 1;  floordiv = None",
        "eq = sub == lshift;  sub = None",
        "invert = ~lshift",
        "abs_1 = _operator_abs(lshift)",
        "getattr_1 = lshift.shape;  lshift = None",
        "getitem_1 = getattr_1[0];  getattr_1 = None",
        "getattr_2 = x.T;  x = None",
        "return (eq, invert, abs_1, getitem_1, getattr_2)",
    ]


def test_functions_have_torch_s_names_and_are_this_package_s() -> None:
    traced = fx.symbolic_trace(lambda x: T.cat([T.relu(x), T.add(x, 1)], dim=1))
    assert "cat = torch.cat([relu, add], dim = 1);" in traced.code
    targets = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert targets == [T.relu, T.add, T.cat]
    assert traced(-T.ones(1, 1)).tolist() == [[0.0, 0.0]]


def test_tensors_become_attributes() -> None:
    weight = T.full((2,), 3.0)
    traced = fx.symbolic_trace(lambda x: (x + weight, x - T.ones(2), weight * x))
    assert traced(T.ones(2))[0].tolist() == [4.0, 4.0]
    assert sorted(traced.state_dict()) == ["_tensor_constant0", "_tensor_constant1"]


@pytest.mark.parametrize(
    ("program", "error", "text"),
    [
        (lambda x: 1 if x else 2, fx.proxy.TraceError, "inputs to control flow"),
        (lambda x: [each + 1 for each in x], fx.proxy.TraceError, "cannot be iterated"),
        (lambda x: 3 in x, fx.proxy.TraceError, "cannot be iterated"),
        (lambda x: T.cat(*x), fx.proxy.TraceError, "cannot be iterated"),
        (lambda x: x.__len__(), RuntimeError, "fx.wrap"),
        (lambda x: int(x), TypeError, "Proxy"),
        (lambda x: range(x), TypeError, "Proxy"),
        (lambda x: operator.setitem(x, 0, 1), TypeError, "item assignment"),
        (lambda x: {x: 1}, RuntimeError, "Got key: x"),
        (lambda x: x + object(), NotImplementedError, "argument of type"),
        (lambda x: x + nn.Parameter(T.ones(1)), NameError, "not a member"),
        (lambda x: nn.ReLU()(x), NameError, "not installed as a submodule"),
    ],
)
def test_what_has_no_answer_before_the_graph_runs(program: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        fx.symbolic_trace(program)
    assert not fx._symbolic_trace.is_fx_tracing()
    assert nn.ReLU()(T.ones(1)) == 1  # nothing of the trace is left


def test_only_python_functions_and_modules_are_traced() -> None:
    for root in (T.relu, 3, nn.ReLU().forward):
        with pytest.raises(AssertionError, match="Expected FunctionType"):
            fx.symbolic_trace(root)


def test_unpacking_is_known() -> None:
    def f(x: Any) -> Any:
        a, _b = x
        (_c, d), _e = x.split(3)
        return a + d

    assert body(f)[:5] == [
        "getitem = x[0]",
        "getitem_1 = x[1];  getitem_1 = None",
        "split = x.split(3);  x = None",
        "getitem_2 = split[0]",
        "getitem_3 = split[1];  split = getitem_3 = None",
    ]


def test_wrapped_functions_are_recorded_by_name() -> None:
    traced = fx.symbolic_trace(lambda x, y: (chosen(x, y), len(x), sqrt(y), math.floor(y)))
    assert traced.code.startswith('\ntorch.fx._symbolic_trace.wrap("')
    assert [node.target for node in traced.graph.nodes if node.op == "call_function"] == [
        chosen,
        len,
        sqrt,
        math.floor,
    ]
    assert traced(T.ones(2), 4.5)[1:] == (2, sqrt(4.5), 4)
    assert chosen(T.ones(1), 0) == 1 and len([1]) == 1
    again = fx.symbolic_trace(traced)
    assert [n.target for n in again.graph.nodes] == [n.target for n in traced.graph.nodes]


def test_wrap_wants_the_top_of_a_module() -> None:
    with pytest.raises(NotImplementedError, match="top level"):
        fx.wrap("len")
    with pytest.raises(RuntimeError, match="callable or string"):
        fx.wrap(3)  # type: ignore[arg-type]


# --- arguments -----------------------------------------------------------------------------------


def test_all_kinds_of_arguments() -> None:
    def f(x: Any, *args: Any, z: Any = 2, **kw: Any) -> Any:
        return x + args[0] * z, kw

    traced = fx.symbolic_trace(f)
    assert "def forward(self, x : 'Any', z : 'Any' = 2, *args, **kw) -> 'Any':" in traced.code
    assert traced(1, 3, 4, a=5) == (13, {"a": 5})


def test_values_specialize_and_are_checked() -> None:
    def f(x: Any, flag: Any, none: Any = None) -> Any:
        return x + 1 if flag and none is None else x

    traced = fx.symbolic_trace(f, concrete_args={"flag": True, "none": None})
    assert traced(2, True, None) == 3
    with pytest.raises(AssertionError, match="flag has been specialized to have value True"):
        traced(2, False)
    with pytest.raises(AssertionError, match="none has been specialized to have value None"):
        traced(2, True, 3)
    assert fx.symbolic_trace(f, concrete_args=(fx.PH, False, None))(5, False) == 5
    with pytest.raises(RuntimeError, match="expected 3 arguments but got 1"):
        fx.symbolic_trace(f, concrete_args=(fx.PH,))


def test_collections_are_taken_apart() -> None:
    def f(x: Any, d: Any) -> Any:
        return {"sum": [x[0] + d["a"], x[1]]}

    traced = fx.symbolic_trace(f, concrete_args={"x": (fx.PH, 2), "d": {"a": fx.PH}})
    assert "x_1, x_2, d_1, = fx_pytree.tree_flatten_spec([x, d], self._in_spec)" in traced.code
    assert traced((1, 2), {"a": 5}) == {"sum": [6, 2]}
    assert fx.Interpreter(traced).run((1, 2), {"a": 5}) == {"sum": [6, 2]}
    with pytest.raises(AssertionError, match="specialized to have value 2"):
        traced((1, 3), {"a": 5})


def test_ordered_dicts_are_taken_apart() -> None:
    given = collections.OrderedDict(b=3, a=2)
    place = collections.OrderedDict(b=fx.PH, a=fx.PH)
    traced = fx.symbolic_trace(lambda d: d["b"] - d["a"], concrete_args={"d": place})
    assert traced(given) == 1


def test_notes_of_placeholders_do_not_replace_those_of_nodes() -> None:
    class Noted(fx._symbolic_trace.PHBase):
        def __init__(self) -> None:
            self.tag, self.name, self.users, self.other = "theirs", "q", None, "new"

    class Tags(fx.Tracer):
        def create_node(self, *args: Any, **kwargs: Any) -> Any:
            node: Any = super().create_node(*args, **kwargs)
            node.tag = "mine"
            return node

    graph = Tags().trace(lambda x: x + 1, concrete_args={"x": Noted()})
    node: Any = next(iter(graph.nodes))
    assert (node.tag, node.name, node.other) == ("mine", "x_1", "new")
    graph.lint()


Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Point:
    x: Any
    y: Any


def test_named_collections_are_made_by_their_class() -> None:
    traced = fx.symbolic_trace(lambda x: (Pair(x, 1), Point(x, 2)))
    pair, point = traced(7)
    assert pair == Pair(7, 1) and point == Point(7, 2)


def changes(program: Any) -> str:
    class Refuses(fx.Tracer):
        check_mutable_operations = True

    try:
        Refuses().trace(program)
    except RuntimeError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "program",
    [
        lambda x: T.relu_(x),
        lambda x: T.sigmoid(x, out=T.empty(2)),
        lambda x: T.ops.aten.add_.Tensor(x, x),
        lambda x: nn.init.zeros_(x) if False else T.log_(x),
    ],
)
def test_a_tracer_can_refuse_functions_that_change_tensors(program: Any) -> None:
    assert "Tried to trace mutable operation aten::" in changes(program)


def test_functions_that_change_nothing_are_not_refused() -> None:
    program = lambda x: T.relu(x) + T.add(x, 1, out=None) + math.sqrt(2)  # noqa: E731
    assert changes(program) == ""


# --- tracers -------------------------------------------------------------------------------------


def traced_by(cls: Any, root: Any) -> fx.GraphModule:
    tracer = cls()
    graph = tracer.trace(root)
    return fx.GraphModule(tracer.root, graph)


def test_leaves_are_single_steps() -> None:
    class Whole(fx.Tracer):
        def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
            return isinstance(m, nn.Sequential)

    ops = [(n.op, n.target) for n in traced_by(Whole, Layers()).graph.nodes]
    assert ("call_module", "seq") in ops and ("call_method", "clamp") in ops
    stack = next(n for n in fx.symbolic_trace(Layers()).graph.nodes if n.name == "seq_1").meta
    assert stack["nn_module_stack"] == {"seq": ("seq", nn.Sequential), "seq.1": ("seq.1", nn.ReLU)}


def test_shapes_of_parameters_can_be_known() -> None:
    class Known(fx.Tracer):
        def __init__(self) -> None:
            super().__init__(param_shapes_constant=True)

    class Branch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(T.ones(3, 2))

        def forward(self, x: Any) -> Any:
            return x + self.w if self.w.shape[0] > 2 and self.w.dim() == 2 else x

    assert "add = x + w" in traced_by(Known, Branch()).code
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(Branch())


def test_assertions_can_be_recorded() -> None:
    class Asserting(fx.Tracer):
        trace_asserts = True

    # pytest writes the assert statements of this file anew.
    names: dict[str, Any] = {}
    exec("def f(x):\n    assert x > 0, 'positive'\n    return x", names)
    traced = traced_by(Asserting, names["f"])
    assert "torch._assert(gt, 'positive')" in traced.code
    with pytest.raises(AssertionError, match="positive"):
        traced(-1)
    traced = fx.symbolic_trace(lambda x: T._assert(x > 0, "by a call"))
    with pytest.raises(AssertionError, match="by a call"):
        traced(T.zeros(1))


def test_a_tracer_may_answer_for_proxies() -> None:
    class Yes(fx.Tracer):
        def to_bool(self, obj: Any) -> bool:
            return True

        def iter(self, obj: Any) -> Any:
            return iter([obj[0], obj[1]])

    assert traced_by(Yes, lambda x: [i + 1 for i in x] if x else x)((1, 2)) == [2, 3]


def test_stack_traces_are_kept_when_asked_for() -> None:
    class Tracing(fx.Tracer):
        record_stack_traces = True

    graph = Tracing().trace(lambda x: x.relu())
    node = next(n for n in graph.nodes if n.target == "relu")
    assert node.stack_trace is not None and "x.relu()" in node.stack_trace
    assert __file__ in node.stack_trace.splitlines()[-2]
    assert "# File: " in graph.python_code("self", verbose=True).src


def test_other_threads_are_not_traced() -> None:
    seen: list[Any] = []
    module = Layers()

    def elsewhere() -> None:
        seen.append(type(module.weight))
        seen.append(module.linear(T.ones(1, 4)).shape)

    class Root(nn.Module):
        def forward(self, x: Any) -> Any:
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
            return x

    fx.symbolic_trace(Root())
    assert seen == [nn.Parameter, (1, 5)]


def test_a_graph_can_be_built_with_proxies() -> None:
    graph = fx.Graph()
    tracer = fx.proxy.GraphAppendingTracer(graph)
    x = fx.Proxy(graph.placeholder("x", T.Tensor), tracer=tracer)
    y = fx.Proxy(graph.placeholder("y", T.Tensor), tracer=tracer)
    graph.output((T.matmul(x, y) * 2 + x.shape[0]).node, T.Tensor)
    module = fx.GraphModule({}, graph, "main")
    assert "def forward(self, x : torch.Tensor, y : torch.Tensor) -> torch.Tensor:" in module.code
    assert module(T.ones(1, 2), T.ones(2, 1)).item() == 5 and repr(module) == "main()"


def test_proxies_of_two_graphs_do_not_mix() -> None:
    one, two = (fx.Proxy(fx.Graph().placeholder("x")) for _ in range(2))
    with pytest.raises(RuntimeError, match="different tracers"):
        T.add(one, two)


def test_classes_can_be_proxied() -> None:
    class Held(metaclass=fx.ProxyableClassMeta):
        def __init__(self, value: Any) -> None:
            self.value = value

    globals()["Held"] = Held
    traced = fx.symbolic_trace(lambda x: Held(x + 1).value)
    assert traced(2) == 3 and Held(4).value == 4


def test_tracers_may_ask_for_objects_of_scripts() -> None:
    assert not isinstance(T.ones(1), fx._symbolic_trace.ScriptObject)
    with pytest.raises(NotImplementedError, match="no TorchScript"):
        fx._symbolic_trace.ScriptObject()


# --- traces that programs write themselves --------------------------------------------------------


class OwnTracer(fx.Tracer):
    """A tracer whose `trace` is its own, with the parts of the module that the original has."""

    def trace(self, root: Any, concrete_args: Any = None) -> fx.Graph:
        import shmtensor.fx._symbolic_trace as st

        self.root, self.submodule_paths = root, {m: name for name, m in root.named_modules()}
        self.graph, self.tensor_attrs = fx.Graph(tracer_cls=type(self)), {}
        function = type(root).forward
        assert isinstance(function, st.FunctionType)
        function_globals = function.__globals__
        call, args = self.create_args_for_root(function, True, concrete_args)
        cache: dict[str, st.Proxy] = {}

        @st.functools.wraps(st._orig_module_getattr)
        def watched_getattr(module: nn.Module, name: str) -> Any:
            return self.getattr(name, st._orig_module_getattr(module, name), cache)

        @st.functools.wraps(st._orig_module_call)
        def watched_call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return st._orig_module_call(module, *args, **kwargs)

            st._autowrap_check(patcher, module.forward.__globals__, self._autowrap_function_ids)
            return self.call_module(module, forward, args, kwargs)

        with st._Patcher() as patcher:
            patcher.patch_method(nn.Module, "__getattr__", watched_getattr, deduplicate=False)
            patcher.patch_method(nn.Module, "__call__", watched_call, deduplicate=False)
            st._patch_wrapped_functions(patcher)
            st._autowrap_check(patcher, function_globals, self._autowrap_function_ids)
            self.create_node("output", "output", (self.create_arg(call(*args)),), {})
        return self.graph


class WithFunctions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(T.ones(3))
        self.inner = nn.Sequential(nn.ReLU())

    def forward(self, x: Any) -> Any:
        return chosen(self.inner(x) * self.weight, sqrt(x))


def test_a_program_may_write_the_trace_itself() -> None:
    module = WithFunctions()
    before = vars(nn.Module)["__call__"], vars(nn.Module)["__getattr__"], chosen, sqrt
    graph = OwnTracer().trace(module)
    assert [node.name for node in graph.nodes] == [
        node.name for node in fx.Tracer().trace(module).nodes
    ]
    assert (vars(nn.Module)["__call__"], vars(nn.Module)["__getattr__"], chosen, sqrt) == before
    x = T.tensor([1.0, -4.0, 9.0])
    assert module.inner(x).tolist() == [1.0, 0.0, 9.0]


def test_modules_of_a_local_tracer_can_be_pickled() -> None:
    class Local(OwnTracer):
        pass

    module = WithFunctions()
    traced = fx.GraphModule(module, Local().trace(module))
    x = T.tensor([4.0])
    assert pickle.loads(pickle.dumps(traced))(x).tolist() == module(x).tolist()


def test_what_an_own_trace_replaced_is_put_back_in_order() -> None:
    import shmtensor.fx._symbolic_trace as st

    names: dict[str, Any] = {"f": abs}

    class Holder:
        def method(self) -> int:
            return 1

    class Heir(Holder):
        pass

    with st._Patcher() as patcher:
        patcher.patch(names, "f", lambda x: 2)
        patcher.patch(names, "f", lambda x: 3)  # the first stays: it was given to be alone
        patcher.patch(names, "absent", lambda x: 4)
        patcher.patch_method(Heir, "method", lambda self: 5, deduplicate=False)
        patcher.patch_method(Heir, "method", lambda self: 6, deduplicate=False)
        assert (names["f"](0), names["absent"](0), Heir().method()) == (2, 4, 6)
        patcher.revert_all_patches()
        assert (names, Heir().method()) == ({"f": abs}, 1)
        patcher.reapply_all_patches()
        assert (names["f"](0), names["absent"](0), Heir().method()) == (2, 4, 6)
        assert patcher.visit_once(names) and not patcher.visit_once(names)
    assert (names, Heir().method(), "method" in vars(Heir)) == ({"f": abs}, 1, False)
