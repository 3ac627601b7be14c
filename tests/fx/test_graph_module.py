"""Modules of graphs: what they hold, submodules, copies, pickles, files and text."""

from __future__ import annotations

import copy
import enum
import importlib.util
import inspect
import math
import pickle
import sys
import traceback
import types
import typing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import shmtensor as T
from shmtensor import fx, nn


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(T.ones(2))
        self.lin = nn.Linear(2, 2)
        self.seq = nn.Sequential(nn.ReLU(), nn.Linear(2, 3))
        self.register_buffer("b", T.ones(3))
        self.unused = nn.Tanh()

    def forward(self, x: Any) -> Any:
        return self.seq(self.lin(x) * self.w) + self.b + math.sqrt(x.shape[0])


def program(x: Any) -> Any:
    return x.relu().neg()


@pytest.mark.check
def test_it_holds_what_its_graph_names() -> None:
    module = Small().eval()
    traced = fx.symbolic_trace(module)
    assert [name for name, _ in traced.named_modules()] == ["", "lin", "seq", "seq.0", "seq.1"]
    assert traced.lin is module.lin and traced.b is module.b and not traced.training
    assert type(traced).__name__ == "Small" and isinstance(traced, fx.GraphModule)
    assert traced.graph.owning_module is traced
    graph = fx.Graph()
    graph.call_module("foo")
    with pytest.raises(AttributeError, match="foo"):
        fx.GraphModule(nn.Module(), graph)


def test_it_is_made_of_a_dict() -> None:
    graph = fx.Graph()
    w = graph.get_attr("w")
    graph.output(graph.call_module("sub.lin", (w,)))
    given = {"w": T.ones(2), "sub.lin": nn.Linear(2, 2)}
    module = fx.GraphModule(given, graph, "Main")
    assert sorted(module.state_dict()) == ["sub.lin.bias", "sub.lin.weight", "w"]
    assert T.equal(module(), given["sub.lin"](given["w"]))  # type: ignore[operator]
    with pytest.raises(RuntimeError, match="target w but that target was not provided"):
        fx.GraphModule({"sub.lin": nn.ReLU()}, graph)
    with pytest.raises(RuntimeError, match="Unsupported type 3"):
        fx.GraphModule(3, graph)  # type: ignore[arg-type]


def test_changes_have_effect_when_it_is_compiled_again() -> None:
    module = fx.symbolic_trace(lambda x: x + 1)
    other = fx.symbolic_trace(lambda x: x + 1)
    node = next(n for n in module.graph.nodes if n.op == "call_function")
    node.target = T.mul
    assert module(T.ones(1)) == 2
    module.recompile()
    assert module(T.full((1,), 5.0)) == 5 and other(5) == 6
    module.graph = other.graph
    assert module(5) == 6
    with pytest.raises(AssertionError, match="Expected a Graph instance"):
        module.graph = 3  # type: ignore[assignment]


def test_submodules_come_and_go() -> None:
    traced = fx.symbolic_trace(Small())
    assert traced.add_submodule("a.b.c", nn.ReLU()) and not traced.add_submodule("w.x", nn.ReLU())
    assert isinstance(traced.get_submodule("a.b.c"), nn.ReLU)
    assert not traced.delete_submodule("nope") and not traced.delete_submodule("lin.x.y")
    traced.delete_all_unused_submodules()
    assert not hasattr(traced, "a") and hasattr(traced.seq, "0")
    assert traced.delete_submodule("seq.0") and not hasattr(traced.seq, "0")


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))]
)
def test_copies_compute_the_same(copied: Any) -> None:
    traced = fx.symbolic_trace(Small())
    traced.note = "kept"
    made = copied(traced)
    x = T.rand(2, 2)
    assert made.code == traced.code and made.note == "kept" and T.equal(made(x), traced(x))
    assert made.graph.owning_module is made and type(made) is not type(traced)
    assert type(made).__name__ == "Small"
    made.graph = fx.symbolic_trace(lambda x: x).graph
    assert T.equal(made(x), x) and not T.equal(traced(x)[:, :2], x)


def test_each_has_a_class_that_programs_know_by_its_name() -> None:
    class Below(fx.GraphModule):
        pass

    module = nn.Linear(2, 2)
    traced = fx.symbolic_trace(module)
    below = Below(module, traced.graph)
    for each in (traced, below, copy.deepcopy(below)):
        assert "GraphModule.__new__.<locals>.GraphModuleImpl" in str(type(each))
    assert type(traced).__name__ == "Linear" and isinstance(below, Below)
    # Functions set on the class are replaced when the module is compiled again.
    type(traced).forward = lambda self, x: 3  # type: ignore[method-assign, assignment]
    assert traced(T.ones(2)) == 3
    traced.recompile()
    assert T.equal(traced(T.ones(2)), module(T.ones(2)))


def test_hooks_are_called_by_copies_too() -> None:
    seen: list[int] = []
    traced = fx.symbolic_trace(program)
    traced.register_forward_hook(lambda module, args, result: seen.append(1))
    traced(T.ones(1))
    copy.deepcopy(traced)(T.ones(1))
    assert seen == [1, 1]


def test_pickles_hold_code() -> None:
    data = pickle.dumps(fx.symbolic_trace(Small()))
    assert b"def forward(self, x : 'Any') -> 'Any':" in data

    def local(x: Any) -> Any:
        return x

    graph = fx.Graph()
    graph.output(graph.call_function(local, (graph.placeholder("x"),)))
    with pytest.raises(RuntimeError, match="would look for it"):
        pickle.dumps(fx.GraphModule({}, graph))


def test_it_is_written_to_a_folder(tmp_path: Path) -> None:
    traced = fx.symbolic_trace(Small())
    traced.to_folder(tmp_path / "written", "Written")
    spec = importlib.util.spec_from_file_location("written", tmp_path / "written/__init__.py")
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["written"] = package
    try:
        spec.loader.exec_module(package)
        made = package.Written()
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "written"]:
            del sys.modules[name]
    x = T.rand(2, 2)
    assert T.equal(made(x), traced(x))


def test_text() -> None:
    module = fx.symbolic_trace(program)
    assert str(module) == (
        "program()\n\n\n\ndef forward(self, x : 'Any') -> 'Any':\n    relu = x.relu();  x = None\n"
        "    neg = relu.neg();  relu = None\n    return neg\n    \n"
        "# To see more debug info, please use `graph_module.print_readable()`"
    )

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.i = module

        def forward(self, x: Any) -> Any:
            return self.i(x)

    class Whole(fx.Tracer):
        def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
            return True

    tracer = Whole()
    graph = tracer.trace(Outer())
    assert fx.GraphModule(tracer.root, graph).print_readable(print_output=False) == (
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, x : 'Any') -> 'Any':\n"
        "        # No stacktrace found for following nodes\n"
        "        i = self.i(x);  x = None\n"
        "        return i\n"
        "\n"
        "    class i(torch.nn.Module):\n"
        "        def forward(self, x : 'Any') -> 'Any':\n"
        "            # No stacktrace found for following nodes\n"
        "            relu = x.relu();  x = None\n"
        "            neg = relu.neg();  relu = None\n"
        "            return neg\n"
    )


def test_errors_show_the_line_of_the_code() -> None:
    module = fx.symbolic_trace(program)
    with pytest.raises(AttributeError) as caught:
        module(3)
    assert "relu = x.relu()" in "".join(traceback.format_tb(caught.value.__traceback__))
    assert inspect.getsource(type(module).forward).startswith("def forward(self, x : 'Any')")


def test_an_empty_graph_does_nothing() -> None:
    assert fx.GraphModule({}, fx.Graph())() is None


class Named(NamedTuple):
    """A result whose class is found by its module alone."""

    x: Any
    y: Any


class Choice(enum.Enum):
    """An argument of the same kind."""

    FIRST = 1


def of_main(x: Any, kind: Any = Choice.FIRST) -> Any:
    return Named(x, kind)


@pytest.mark.parametrize("home", ["__main__", "__mp_main__", "odd.__init__"])
def test_pickles_find_names_in_modules_with_odd_names(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType(home)
    vars(module).update(Named=Named, Choice=Choice)
    monkeypatch.setitem(sys.modules, home, module)
    monkeypatch.setattr(Named, "__module__", home)
    monkeypatch.setattr(Choice, "__module__", home)
    traced = fx.symbolic_trace(of_main)
    again = pickle.loads(pickle.dumps(traced))
    assert again.code == traced.code
    assert again(2) == Named(2, Choice.FIRST)


@pytest.mark.parametrize(
    "name",
    [
        "class",
        "None",
        "a b",
        "0",
        'quo"te',
        "quo'te",
        "both'\"",
        "back\\slash",
        "line\nend",
        "\ufb01",
    ],
)
def test_modules_may_have_any_name_without_a_dot(name: str) -> None:
    module = nn.Module()
    module.add_module(name, nn.Linear(2, 3))
    graph = fx.Graph()
    x = graph.placeholder("x")
    weight = graph.get_attr(f"{name}.weight")
    graph.output((graph.call_module(name, (x,)), weight))
    traced = fx.GraphModule(module, graph)
    y, read = traced(T.ones(2))
    layer = module.get_submodule(name)
    assert T.equal(y, layer(T.ones(2)))
    assert read is layer.weight
    assert pickle.loads(pickle.dumps(traced)).code == traced.code


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (int | None, "int|NoneType"),
        (list[int | str], "list[int|str]"),
        (tuple[()], "tuple[()]"),
        (typing.Literal["x", 1], "typing_Literal['x', 1]"),
        (typing.Literal[Choice.FIRST], None),
        (dict[str, tuple[int, ...]], "dict[str,tuple[int,...]]"),
        (T.Tensor | None, "torch.Tensor|NoneType"),
    ],
)
def test_all_kinds_of_annotations(annotation: Any, text: str | None) -> None:
    def program(x: Any) -> Any:
        return x

    program.__annotations__ = {"x": annotation, "return": annotation}
    traced = fx.symbolic_trace(program)
    if text is not None:
        assert f"def forward(self, x : {text}) -> {text}:" in traced.code
    assert type(traced).forward.__annotations__ == {"x": annotation, "return": annotation}
    assert pickle.loads(pickle.dumps(traced)).code == traced.code


def test_an_empty_tuple_of_typing_is_a_tuple() -> None:
    def program(x: Any) -> Any:
        return x

    program.__annotations__ = {"x": typing.Tuple[()], "return": typing.Tuple}  # noqa: UP006
    traced = fx.symbolic_trace(program)
    assert type(traced).forward.__annotations__ == {"x": tuple[()], "return": typing.Tuple}  # noqa: UP006
    assert pickle.loads(pickle.dumps(traced))(()) == ()


def test_operators_by_their_overload_are_targets() -> None:
    aten = T.ops.aten

    def program(x: Any) -> Any:
        return aten.cat.default([aten.add.Tensor(x, x), aten.relu(x)], 0)

    traced = fx.symbolic_trace(program)
    targets = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert targets == [aten.add.Tensor, aten.relu, aten.cat.default]
    assert "torch.ops.aten.add.Tensor(x, x)" in traced.code
    assert traced(T.tensor([-1.0])).tolist() == [-2.0, 0.0]
    assert pickle.loads(pickle.dumps(traced)).code == traced.code


def test_scripts_take_traced_modules() -> None:
    traced = fx.symbolic_trace(lambda x: x + 1)
    script = T.jit.script(traced)
    assert isinstance(script, T.jit.ScriptModule) and script.original_name == "<lambda>"
    assert script(T.ones(1)).tolist() == [2.0] and script.graph is traced.graph
