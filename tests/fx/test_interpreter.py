"""Graphs run node by node; programs that change graphs by running them."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as T
from shmtensor import fx, nn
from shmtensor.fx.passes.shape_prop import ShapeProp


def program(x: Any, y: Any = 2) -> Any:
    return x.relu() * y + x


@pytest.mark.check
def test_it_runs_the_graph() -> None:
    module = fx.symbolic_trace(program)
    x = T.tensor([-1.0, 3.0])
    assert fx.Interpreter(module).run(x).tolist() == program(x).tolist()
    assert fx.Interpreter(module).run(x, 3).tolist() == program(x, 3).tolist()
    args = [x, 4]
    assert fx.Interpreter(module).boxed_run(args).tolist() == program(x, 4).tolist() and not args
    relu = module.graph.find_nodes(op="call_method", target="relu")[0]
    known = {relu: T.zeros(2)}
    assert fx.Interpreter(module).run(x, initial_env=known).tolist() == x.tolist()


def test_values_are_forgotten_after_their_last_use() -> None:
    module = fx.symbolic_trace(program)
    runs = fx.Interpreter(module)
    runs.run(T.ones(1))
    assert [node.op for node in runs.env] == ["output"]
    runs = fx.Interpreter(module, garbage_collect_values=False)
    runs.run(T.ones(1))
    assert len(runs.env) == len(module.graph.nodes)


def test_errors_say_which_node() -> None:
    module = fx.symbolic_trace(program)
    with pytest.raises(AttributeError, match=r"While executing %relu : \[num_users=1\]"):
        fx.Interpreter(module).run(3)
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x"):
        fx.Interpreter(module).run()
    graph = fx.Graph()
    graph.output(graph.get_attr("no.such"))
    with pytest.raises(RuntimeError, match="nonexistent target no"):
        fx.Interpreter(nn.Module(), graph=graph).run()


def test_modules_and_attributes() -> None:
    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(T.ones(2))
            self.lin = nn.Linear(2, 2)

        def forward(self, x: Any, *rest: Any) -> Any:
            return self.lin(x) + self.w + rest[1]

    module = Layers()
    traced = fx.symbolic_trace(module)
    x = T.rand(2)
    assert T.equal(fx.Interpreter(traced).run(x, 1, 2), module(x, 1, 2))


def test_a_profile_by_node() -> None:
    class Counting(fx.Interpreter):
        def __init__(self, module: Any) -> None:
            super().__init__(module)
            self.count: dict[str, int] = {}

        def run_node(self, n: fx.Node) -> Any:
            self.count[n.op] = self.count.get(n.op, 0) + 1
            return super().run_node(n)

    runs = Counting(fx.symbolic_trace(program))
    runs.run(T.ones(1))
    assert runs.count == {"placeholder": 2, "call_method": 1, "call_function": 2, "output": 1}


def test_one_function_for_another() -> None:
    class Swapped(fx.Transformer):
        def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
            if target == "relu":
                return super().call_function(T.sigmoid, args, kwargs)
            return super().call_method(target, args, kwargs)

    made = Swapped(fx.symbolic_trace(program)).transform()
    x = T.zeros(1)
    assert made(x) == 1.0 and "torch.sigmoid(x)" in made.code and "y = 2" in made.code


def test_functions_taken_apart_by_proxies() -> None:
    rules = {T.relu: lambda x: (x > 0) * x, T.sigmoid: lambda x: 1 / (1 + (-x).exp())}

    def taken_apart(module: fx.GraphModule) -> fx.GraphModule:
        graph = fx.Graph()
        env: dict[fx.Node, fx.Node] = {}
        tracer = fx.proxy.GraphAppendingTracer(graph)
        for node in module.graph.nodes:
            if node.op == "call_function" and node.target in rules:
                proxies = [fx.Proxy(env[arg], tracer) for arg in node.all_input_nodes]
                env[node] = rules[node.target](*proxies).node
            else:
                env[node] = graph.node_copy(node, lambda n: env[n])
        return fx.GraphModule(module, graph)

    module = fx.symbolic_trace(lambda x: T.relu(x) + T.sigmoid(x))
    made = taken_apart(module)
    made.graph.lint()
    x = T.tensor([-1.0, 2.0])
    assert T.allclose(made(x), module(x)) and not made.graph.find_nodes(
        op="call_function", target=T.relu
    )


def test_a_function_inverted() -> None:
    inverse = {T.add: T.sub, T.mul: T.div, T.exp: T.log}

    def inverted(module: fx.GraphModule) -> fx.GraphModule:
        graph = fx.Graph()
        value = graph.placeholder("y")
        for node in reversed(module.graph.nodes):
            if node.op == "call_function":
                value = graph.call_function(inverse[node.target], (value, *node.args[1:]))
        graph.output(value)
        return fx.GraphModule({}, graph)

    module = fx.symbolic_trace(lambda x: T.exp(T.mul(T.add(x, 1), 2)))
    x = T.tensor([0.0, 0.5])
    assert T.allclose(inverted(module)(module(x)), x)


@pytest.mark.check
def test_transformed_nodes_keep_where_they_come_from_and_not_what_they_were() -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(T.ones(2))

        def forward(self, x: Any) -> Any:
            return x.relu() + self.w

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Any) -> Any:
            return self.inner(x)

    tracer = fx.Tracer()
    tracer.record_stack_traces = True
    module = fx.GraphModule(outer := Outer(), tracer.trace(outer))
    ShapeProp(module).propagate(T.ones(2))
    changed = fx.Transformer(module).transform()
    for old, new in zip(module.graph.nodes, changed.graph.nodes, strict=True):
        if old.op in ("output", "placeholder"):
            continue
        assert new.stack_trace == old.stack_trace
        stack = old.meta.get("nn_module_stack")
        assert new.meta.get("nn_module_stack") == stack
        assert stack is None or new.meta["nn_module_stack"] is not stack
        assert "tensor_meta" in old.meta
        assert not {"tensor_meta", "type"} & new.meta.keys()
    assert not fx.traceback.has_preserved_node_meta()


def test_an_error_in_a_transformer_leaves_no_notes() -> None:
    class Fails(fx.Transformer):
        def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
            raise KeyError(target)

    with pytest.raises(KeyError):
        Fails(fx.symbolic_trace(lambda x: x.relu())).transform()
    assert not fx.traceback.has_preserved_node_meta()
