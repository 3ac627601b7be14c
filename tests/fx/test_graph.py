"""Graphs and nodes: order, names, uses, changes, rules, and their text."""

from __future__ import annotations

import copy
import operator
from typing import Any

import pytest

import shmtensor as T
from shmtensor import fx, nn


def names(graph: fx.Graph) -> list[str]:
    return [node.name for node in graph.nodes]


def small() -> tuple[fx.Graph, Any, Any, Any]:
    graph = fx.Graph()
    x = graph.placeholder("x")
    relu = graph.call_function(T.relu, (x,))
    graph.output(relu)
    return graph, x, relu, graph.output_node()


@pytest.mark.check
def test_names_are_those_of_torch() -> None:
    graph = fx.Graph()
    wanted = {
        "x": "x", "x_1": "x_1", "sum": "sum_1", "class": "class_1", "torch": "torch_1",
        "1abc": "_1abc", "a.b": "a_b", "None": "none", "FooBar": "foo_bar", "add_2": "add_2",
    }  # fmt: skip
    assert {name: graph.placeholder(name).name for name in wanted} == wanted
    assert [graph.placeholder("x").name, graph.placeholder("x_1").name] == ["x_2", "x_3"]
    functions = [operator.add, getattr, operator.getitem, len, T.relu, T.Tensor.add]
    assert [graph.call_function(f).name for f in functions] == [
        "add", "getattr_1", "getitem", "len_1", "relu", "add_3",
    ]  # fmt: skip
    assert graph.call_method("__len__").name == "len_2"
    assert graph.call_module("layer.0.conv").name == "layer_0_conv"
    assert graph.call_module("0").name == "_0" and graph.get_attr("0").name == "_0_1"
    numbered = ["y", "y_5", "y_3", "y", "y_4_2", "y_4", "__", "__"]
    assert [graph.placeholder(name).name for name in numbered] == [
        "y", "y_5", "y_3", "y_4", "y_4_2", "y_6", "_unnamed", "_unnamed_1",
    ]  # fmt: skip
    assert graph.call_function(T.Tensor.__add__).name == "__add__"


def test_users_follow_arguments() -> None:
    graph, x, relu, _ = small()
    cat = graph.call_function(T.cat, ([x, (x,)], {"a": relu}), {"k": slice(x, None)})
    assert cat.all_input_nodes == [x, relu] and list(x.users) == [relu, cat]
    assert type(cat.args[0]) is fx.immutable_collections.immutable_list
    cat.update_arg(0, 3)
    cat.insert_arg(0, relu)
    cat.update_kwarg("k", None)
    assert cat.args == (relu, 3, {"a": relu}) and list(x.users) == [relu]
    with pytest.raises(TypeError, match="does not support mutation"):
        cat.args[2]["b"] = x
    with pytest.raises(AssertionError, match="between 0 and 3"):
        cat.insert_arg(9, x)


def test_uses_are_replaced() -> None:
    graph, x, relu, output = small()
    with graph.inserting_after(relu):
        sigmoid = graph.call_function(T.sigmoid, (relu,))
    relu.meta["kept"] = 1
    assert relu.replace_all_uses_with(sigmoid, lambda user: user is not sigmoid) == [output]
    assert names(graph) == ["x", "relu", "sigmoid", "output"] and output.args == (sigmoid,)
    sigmoid.replace_input_with(relu, x)
    assert not relu.users
    relu.replace_all_uses_with(sigmoid, propagate_meta=True)
    assert sigmoid.meta == {"kept": 1}
    with pytest.raises(AssertionError, match=r"already has \.meta"):
        relu.replace_all_uses_with(sigmoid, propagate_meta=True)


def test_places_of_insertion() -> None:
    graph, x, relu, output = small()
    with graph.inserting_before(relu):
        graph.call_method("a", (x,))
        graph.call_method("b", (x,))
    with graph.inserting_after(relu):
        graph.call_method("c", (x,))
    with graph.inserting_before():
        graph.placeholder("first")
    graph.call_method("last", (x,))
    assert names(graph) == ["first", "x", "a", "b", "relu", "c", "output", "last"]
    x.append(output)
    assert names(graph)[:3] == ["first", "x", "output"] and x < output < relu
    assert [n.name for n in reversed(graph.nodes)][:2] == ["last", "c"] and len(graph.nodes) == 8
    with pytest.raises(AssertionError, match="not in graph"):
        graph.inserting_before(fx.Graph().placeholder("x"))


def test_nodes_are_erased_while_they_are_gone_through() -> None:
    graph, x, relu, _ = small()
    for name in "abc":
        graph.call_method(name, (x,))
    for node in graph.nodes:
        if node.op == "call_method":
            graph.erase_node(node)
    assert names(graph) == ["x", "relu", "output"] and list(x.users) == [relu]
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.erase_node(x)
    gone = graph.call_method("gone", (x,))
    graph.erase_node(gone)
    with pytest.warns(UserWarning, match="already erased"):
        graph.erase_node(gone)
    with pytest.raises(RuntimeError, match="wrong graph"):
        fx.Graph().erase_node(gone)


def test_targets_are_checked() -> None:
    graph = fx.Graph()
    with pytest.raises(AssertionError, match="'nope' is not in _legal_ops"):
        graph.create_node("nope", "x")
    with pytest.raises(ValueError, match="type str but a Callable is expected"):
        graph.call_function("x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="but a str is expected"):
        graph.call_method(len)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="args must be a tuple"):
        graph.call_function(len, [1])  # type: ignore[arg-type]


def test_lint_says_what_is_wrong() -> None:
    graph, x, relu, _ = small()
    graph.lint()
    x.prepend(relu)
    with pytest.raises(RuntimeError, match="was used before it has been defined"):
        graph.lint()
    other = fx.Graph()
    other.call_function(T.relu, (x,))
    with pytest.raises(RuntimeError, match="does not belong to this Graph"):
        other.lint()
    module = fx.symbolic_trace(nn.Sequential(nn.ReLU()))
    del module._modules["0"]
    with pytest.raises(RuntimeError, match="nonexistent attribute 0"):
        module.graph.lint()
    graph, x, relu, _ = small()
    relu.name = "x"
    with pytest.raises(RuntimeError, match="redefined name x"):
        graph.lint()
    relu.name, relu.op = "y", "call_nothing"
    with pytest.raises(RuntimeError, match="unknown opcode call_nothing"):
        graph.lint()


def test_dead_code_goes_and_side_effects_stay() -> None:
    @fx.has_side_effect
    def noted(x: Any) -> None: ...

    graph = fx.Graph()
    x, _ = graph.placeholder("x"), graph.placeholder("unused")
    one = graph.call_method("relu", (x,))
    graph.call_method("neg", (one,))
    for function in (operator.setitem, T._assert, T.rand, noted, operator.iadd):
        graph.call_function(function, (x, 0))
    graph.output(x)
    assert graph.eliminate_dead_code() and not graph.eliminate_dead_code()
    assert names(graph) == ["x", "unused", "setitem", "_assert", "rand", "noted", "output"]
    graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output"))
    assert names(graph) == ["x", "unused", "output"]


def test_nodes_are_found() -> None:
    graph, x, relu, output = small()
    assert graph.find_nodes(op="call_function", target=T.relu) == [relu]
    assert graph.find_nodes(op="placeholder") == [x] and graph.output_node() is output
    with pytest.raises(AssertionError, match="Expected output node"):
        fx.Graph().output_node()


def test_graphs_are_copied() -> None:
    graph, x, relu, _ = small()
    relu.meta["kept"] = 1
    made = copy.deepcopy(graph)
    assert str(made) == str(graph) and made.find_nodes(op="call_function")[0].meta == {"kept": 1}
    into = fx.Graph()
    values = {x: into.placeholder("y")}
    into.output(into.graph_copy(graph, values))
    assert names(into) == ["y", "relu", "output"] and values[relu].args == (values[x],)


def test_text() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x", T.Tensor)
    y = graph.placeholder("y", default_value=3)
    z = graph.call_function(operator.add, (x, y))
    graph.call_method("clamp", (z,), {"min": [0.5, "s"]})
    graph.call_function(len, ({"k": x},))
    graph.get_attr("a.0")
    graph.output((z, x))
    assert str(graph) == (
        "graph():\n"
        "    %x : torch.Tensor [num_users=3] = placeholder[target=x]\n"
        "    %y : [num_users=1] = placeholder[target=y](default=3)\n"
        "    %add : [num_users=2] = call_function[target=operator.add](args = (%x, %y), "
        "kwargs = {})\n"
        "    %clamp : [num_users=0] = call_method[target=clamp](args = (%add,), "
        "kwargs = {min: [0.5, s]})\n"
        "    %len_1 : [num_users=0] = call_function[target=builtins.len](args = ({k: %x},), "
        "kwargs = {})\n"
        "    %a_0 : [num_users=0] = get_attr[target=a.0]\n"
        "    return (add, x)"
    )


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    small()[0].print_tabular()
    assert capsys.readouterr().out.splitlines()[:3] == [
        "opcode         name    target                    args     kwargs",
        "-------------  ------  ------------------------  -------  --------",
        "placeholder    x       x                         ()       {}",
    ]


def test_code_of_all_kinds_of_values() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    rest = graph.placeholder("*rest")
    typed = graph.call_function(
        dict, (), {"a": float("inf"), "b": T.float32, "from": slice(x, None), "c": T.device("cpu")}
    )
    typed.type = dict[str, Any]
    graph.call_function(operator.iadd, (x, [1]))
    graph.call_function(getattr, (x, "not a name", None))
    graph.call_function(operator.setitem, (x, 0, 2))
    graph.output((typed, rest, [int, T.Tensor]))
    code = graph.python_code("self").src
    lines = [line.strip() for line in code.splitlines() if line.strip()]
    assert lines[0] == "def forward(self, x, *rest):" and lines[1] == "_rest = rest"
    assert lines[2].startswith("dict_1 : dict[str,typing_Any] = dict(a = inf, b = torch.float32, c")
    assert "**{'from': slice(x, None, None)}" in lines[2]
    assert lines[3] == "x += [1];  iadd = x;  iadd = None"
    assert lines[4].startswith("getattr_1 = getattr(x, 'not a name', None)")
    assert lines[5].startswith("x[0] = 2;  setitem = x;")
    given, others, types = fx.GraphModule({}, graph)([7], 5)
    assert given["from"] == slice([2, 1], None) and given["c"] == T.device("cpu")
    assert others == (5,) and types == [int, T.Tensor]


def test_code_can_be_written_otherwise() -> None:
    class OneList(fx.CodeGen):
        def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
            return f"def forward(self, args_list):\n    {', '.join(free_vars)} = args_list"

        def process_inputs(self, *inputs: Any) -> Any:
            return inputs[0]

    module = fx.symbolic_trace(lambda x, y: x + y)
    module.graph.set_codegen(OneList())
    module.recompile()
    assert module([1, 2]) == 3 and fx.Interpreter(module).run([1, 2]) == 3
    module = fx.symbolic_trace(lambda x: x)
    with module.graph.on_generate_code(lambda current: lambda lines: ["# first\n", *lines]):
        module.recompile()
        assert "# first" in module.code
    module.recompile()
    assert "# first" not in module.code


def test_map_arg_walks_collections() -> None:
    _, x, relu, _ = small()
    mapped = fx.map_arg({"a": [1, (x, 3)], "b": slice(x, 4)}, lambda node: relu)
    assert mapped == {"a": [1, (relu, 3)], "b": slice(relu, 4)}
    with pytest.raises(AssertionError, match="callable"):
        fx.map_arg([1], 3)  # type: ignore[arg-type]
