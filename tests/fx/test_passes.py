"""Patterns replaced, shapes found, graphs cut into modules, and layers fused."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as T
from shmtensor import fx, nn
from shmtensor.fx.experimental.optimization import extract_subgraph, fuse, remove_dropout
from shmtensor.fx.passes.infra.pass_base import PassBase, PassResult
from shmtensor.fx.passes.infra.pass_manager import (
    PassManager,
    pass_result_wrapper,
    this_before_that_pass_constraint,
)
from shmtensor.fx.passes.shape_prop import ShapeProp
from shmtensor.fx.passes.split_module import split_module
from shmtensor.fx.subgraph_rewriter import replace_pattern_with_filters

# --- patterns ------------------------------------------------------------------------------------


def shared(x: Any) -> Any:
    y = x.neg()
    return y + 1, y


@pytest.mark.check
@pytest.mark.parametrize(
    ("program", "pattern", "replacement", "count", "returned"),
    [
        (lambda x: T.relu(x) + T.relu(x + 1), lambda x: T.relu(x), lambda x: x, 2, "add_1"),
        (lambda x: x.neg().neg().neg(), lambda x: x.neg().neg(), lambda x: x, 1, "neg_2"),
        (lambda x: x.neg().neg().neg().neg(), lambda x: x.neg().neg(), lambda x: x.abs(),
         2, "abs_2"),
        (lambda x: (x.neg() + 1, x.neg()), lambda x: x.neg() + 1, lambda x: x - 1,
         1, "(sub, neg_1)"),
        (shared, lambda x: x.neg() + 1, lambda x: x - 1, 0, "(add, neg)"),
        (lambda x: x.sum(dim=1), lambda x: x.sum(dim=2), lambda x: x, 0, "sum_1"),
        (lambda x, y: x + y + x, lambda x, y: x + y, lambda x, y: x * y, 2, "mul_1"),
        (lambda x: (x.relu(), x.neg()), lambda x: (x.relu(), x.neg()),
         lambda x: (x.abs(), x.sin()), 1, "(abs_1, sin)"),
        (lambda x: x + x, lambda x, y: x + y, lambda x, y: x * y, 0, "add"),
        (lambda x, y: x + y, lambda x: x + x, lambda x: x * 2, 0, "add"),
        (lambda x: x + 1.0, lambda x, y: x + y, lambda x, y: x * y, 1, "mul"),
        (lambda x: T.relu(x), lambda x: T.relu(input=x), lambda x: x * 2, 0, "relu"),
    ],
)  # fmt: skip
def test_patterns(program: Any, pattern: Any, replacement: Any, count: int, returned: str) -> None:
    module = fx.symbolic_trace(program)
    assert len(fx.replace_pattern(module, pattern, replacement)) == count
    module.graph.lint()
    assert module.code.strip().splitlines()[-1].strip() == f"return {returned}"


def test_matches_name_the_nodes() -> None:
    module = fx.symbolic_trace(lambda x, w: T.mm(x, w).relu())
    (match,) = fx.replace_pattern(module, lambda a, b: T.mm(a, b).relu(), lambda a, b: a @ b)
    assert match.anchor.name == "relu"
    assert {str(k): str(v) for k, v in match.nodes_map.items()} == {
        "relu": "relu", "mm": "mm", "a": "x", "b": "w",
    }  # fmt: skip


def test_replacements_bring_their_modules() -> None:
    class Pattern(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return self.lin(x)

    class Replacement(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.Tanh()
            self.w = nn.Parameter(T.ones(2))

        def forward(self, x: Any) -> Any:
            return self.act(x) + self.w

    module = fx.symbolic_trace(Pattern())
    fx.replace_pattern(module, Pattern(), Replacement())
    assert sorted(name for name, _ in module.named_modules()) == ["", "act"]
    assert module(T.zeros(2)).tolist() == [1.0, 1.0]


def test_filters_choose() -> None:
    module = fx.symbolic_trace(lambda x: (x + 1) * (x + 2))
    done = replace_pattern_with_filters(
        module,
        lambda x: x + 1,
        lambda x: x - 1,
        [lambda match, graph, pattern: match.returning_nodes[0].args[1] == 2],
        ignore_literals=True,
    )
    assert [str(node) for node in done[0].replacements] == ["sub"] and module(3) == 8
    with pytest.raises(AssertionError, match="Must provide either a replacement"):
        replace_pattern_with_filters(module, lambda x: x + 1)


# --- passes --------------------------------------------------------------------------------------


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(T.rand(3, 4))
        self.linear = nn.Linear(4, 5)
        self.seq = nn.Sequential(nn.Linear(5, 5), nn.ReLU())

    def forward(self, x: Any, y: Any = 1) -> Any:
        a = self.linear(x + self.w)
        b = self.seq(a) * y
        return b + a, b.relu() + self.w.sum()


def test_shapes_are_noted() -> None:
    traced = fx.symbolic_trace(Model())
    ShapeProp(traced).propagate(T.ones(3, 4), 2)
    meta = {node.name: node.meta for node in traced.graph.nodes}
    assert meta["linear"]["tensor_meta"].shape == (3, 5) and meta["y"]["type"] is int
    assert meta["sum_1"]["tensor_meta"].stride == () and meta["w"]["tensor_meta"].requires_grad
    assert [each.dtype for each in meta["output"]["tensor_meta"]] == [T.float32, T.float32]
    with pytest.raises(RuntimeError, match="ShapeProp error for: node=%add"):
        ShapeProp(traced).propagate(T.ones(2, 7))


@pytest.mark.parametrize("options", [{}, {"partition_affix": "part"}, {"tuple_return": True}])
def test_a_graph_is_cut(options: Any) -> None:
    module = Model()
    traced = fx.symbolic_trace(module)
    home = {"add": 0, "linear": 0, "seq_0": 1, "seq_1": 1}
    names: dict[str, str] = {}
    cut = split_module(traced, module, lambda node: home.get(node.name, 2), names, **options)
    affix = "part_" if "partition_affix" in options else ""
    assert [name for name, _ in cut.named_children()] == [f"submod_{affix}{i}" for i in range(3)]
    assert names[f"submod_{affix}1.seq_0"] == "seq.0"
    x = T.rand(3, 4)
    assert all(T.equal(a, b) for a, b in zip(cut(x, 3), module(x, 3), strict=True))
    if not options:
        assert cut.code.strip().splitlines()[2:] == [
            "    submod_0 = self.submod_0(x, w);  x = None",
            "    submod_1 = self.submod_1(submod_0)",
            "    submod_2 = self.submod_2(submod_1, y, submod_0, w);  "
            "submod_1 = y = submod_0 = w = None",
            "    getitem = submod_2[0]",
            "    getitem_1 = submod_2[1];  submod_2 = None",
            "    return (getitem, getitem_1)",
        ]


def test_parts_may_not_need_each_other() -> None:
    module = fx.symbolic_trace(lambda x: x.a().b().c())
    with pytest.raises(RuntimeError, match="cycle"):
        split_module(module, module, lambda node: node.target == "b")


def test_batch_norms_are_fused() -> None:
    class Convs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)
            self.bn = nn.BatchNorm2d(4)
            self.seq = nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.ReLU())
            self.drop = nn.Dropout(0.5)

        def forward(self, x: Any) -> Any:
            return self.drop(self.seq(self.bn(self.conv(x))))

    module = Convs()
    module(T.rand(2, 3, 6, 6))
    x = T.rand(2, 3, 6, 6)
    with pytest.raises(AssertionError, match="eval"):
        fuse(module)
    fused = fuse(module.eval())
    assert [name for name, _ in fused.named_modules()] == [
        "", "conv", "seq", "seq.0", "seq.2", "drop",
    ]  # fmt: skip
    assert T.allclose(fused(x), module(x), atol=1e-5) and hasattr(module, "bn")
    assert not any(isinstance(m, nn.Dropout) for m in remove_dropout(module).modules())


def test_a_part_becomes_a_module() -> None:
    traced = fx.symbolic_trace(lambda x: x.relu().neg().abs())
    _, relu, neg, *_ = traced.graph.nodes
    part = extract_subgraph(traced, [neg], [relu], [neg])
    assert part(T.ones(1))[0] == -1


# --- passes in an order --------------------------------------------------------------------------


class Replaces(PassBase):
    """Makes every call of one function a call of another."""

    def __init__(self, old: Any, new: Any) -> None:
        self.old, self.new = old, new
        self.checks: list[str] = []

    def requires(self, graph_module: fx.GraphModule) -> None:
        self.checks.append("requires")

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        found = [node for node in graph_module.graph.nodes if node.target is self.old]
        for node in found:
            node.target = self.new
        return PassResult(graph_module, bool(found))

    def ensures(self, graph_module: fx.GraphModule) -> None:
        self.checks.append("ensures")


def test_passes_run_until_nothing_changes() -> None:
    module = fx.symbolic_trace(lambda x: T.sin(x))
    first, second = Replaces(T.cos, T.tan), Replaces(T.sin, T.cos)
    seen = []
    manager = PassManager([first, second], steps=5, run_checks_after_each_pass=True)
    manager.add_checks(lambda module: seen.append(module.code))
    result, is_modified = manager(module)
    assert is_modified is True and result is module
    assert T.equal(module(T.ones(2)), T.tan(T.ones(2)))
    assert first.checks == ["requires", "ensures"] * 3 and len(seen) == 1 + 2 * 3
    assert manager(module) == (module, False)
    with pytest.raises(TypeError, match="only take in one variable"):
        manager.add_checks(lambda a, b: None)
    with pytest.raises(TypeError, match="abstract"):
        PassBase()  # type: ignore[abstract]


def test_passes_are_ordered_by_constraints() -> None:
    a, b, c = Replaces(1, 1), Replaces(2, 2), Replaces(3, 3)
    manager = PassManager([a, b, c])
    manager.add_constraint(this_before_that_pass_constraint(c, a))
    with pytest.raises(RuntimeError, match="at index 0"):
        manager.validate_constraints()
    manager.solve_constraints()
    assert manager.passes == [b, c, a]
    manager.validate_constraints()
    manager.add_constraint(this_before_that_pass_constraint(a, c))
    with pytest.raises(RuntimeError, match="Circular dependency"):
        manager.solve_constraints()


def test_functions_become_passes() -> None:
    module = fx.symbolic_trace(lambda x: T.sin(x))
    with pytest.raises(Exception, match="'<lambda>' pass after the following passes: ") as caught:
        PassManager([lambda module: None])(module)
    assert "pass_result_wrapper" in str(caught.value.__cause__)
    other = fx.symbolic_trace(lambda x: T.cos(x))

    def change(given: fx.GraphModule) -> fx.GraphModule:
        return other

    wrapped = pass_result_wrapper(change)
    assert wrapped is not None and wrapped.__name__ == "change"
    nothing = pass_result_wrapper(lambda given: None)
    assert PassManager([nothing])(module) == (module, True)  # type: ignore[list-item]
    assert PassManager([wrapped])(module) == PassResult(other, True)
    kept = pass_result_wrapper(lambda given: PassResult(given, False))
    assert kept is not None and kept(module) == (module, False)
    assert pass_result_wrapper(None) is None
