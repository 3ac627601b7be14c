"""Models made faster for inference: batch norms fused into convolutions, dropouts removed.

Source:
    torch.fx.experimental.optimization.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from shmtensor import nn
from shmtensor._core._not_offered import unavailable_names
from shmtensor.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from .._symbolic_trace import symbolic_trace
from ..graph import Graph
from ..graph_module import GraphModule
from ..interpreter import Transformer
from ..node import Node

_REFUSED = ["gen_mkl_autotuner", "modules_to_mkldnn", "optimize_for_inference", "reset_modules"]

__all__ = [
    "extract_subgraph",
    "fuse",
    "matches_module_pattern",
    "remove_dropout",
    "replace_node_module",
    *_REFUSED,
]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, "there are no MKL-DNN tensors here")

_PATTERNS: tuple[tuple[type[nn.Module], type[nn.Module]], ...] = (
    (nn.Conv1d, nn.BatchNorm1d),
    (nn.Conv2d, nn.BatchNorm2d),
    (nn.Conv3d, nn.BatchNorm3d),
    (nn.Linear, nn.BatchNorm1d),
)


def _parent_name(target: str) -> tuple[str, str]:
    """Return the qualified name of what holds an attribute, and the attribute's own."""
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(
    pattern: Iterable[type], node: Node, modules: dict[str, nn.Module]
) -> bool:
    """Return whether a node calls a module, on the result of one, of just these classes.

    Args:
        pattern: The class of the first module called, and of the second.
        node: The call of the second.
        modules: Modules by their qualified names.
    """
    if len(node.args) == 0:
        return False
    for kind, each in zip(pattern, (node.args[0], node), strict=True):
        if not isinstance(each, Node) or each.op != "call_module":
            return False
        if type(modules.get(each.target)) is not kind:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: nn.Module) -> None:
    """Let a node call another module under its name.

    Args:
        node: It calls a module.
        modules: Modules by their qualified names, that of the root among them.
        new_module: The other.
    """
    parent, name = _parent_name(node.target)
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> nn.Module:
    """Return a model with batch norms fused into the convolutions and linear layers before them.

    Args:
        model: It, in eval mode.
        inplace: Change the model's own modules.
        no_trace: *model* is a `GraphModule`, and is taken as it is.

    Raises:
        AssertionError: A module is in training mode.
    """
    if not inplace:
        model = copy.deepcopy(model)
    traced: Any = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules: dict[str, Any] = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    for pattern in _PATTERNS:
        for node in graph.nodes:
            if not matches_module_pattern(pattern, node, modules):
                continue
            if len(node.args[0].users) > 1:  # the layer's own result is used too
                continue
            layer, norm = modules[node.args[0].target], modules[node.target]
            if not norm.track_running_stats:
                continue
            join = fuse_linear_bn_eval if pattern[0] is nn.Linear else fuse_conv_bn_eval
            replace_node_module(node.args[0], modules, join(layer, norm))
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return GraphModule(traced, graph)


def remove_dropout(model: nn.Module) -> nn.Module:
    """Return a model without the modules that drop values in training."""

    class WithoutDropout(Transformer):
        """Takes a dropout's argument for its result."""

        def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if isinstance(self.submodules[target], nn.Dropout):
                return args[0]
            return super().call_module(target, args, kwargs)

    return WithoutDropout(symbolic_trace(model)).transform()


def extract_subgraph(
    orig_module: nn.Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]
) -> GraphModule:
    """Return a module of some nodes of a graph.

    Args:
        orig_module: What their targets are taken from.
        nodes: They, in their order.
        inputs: Nodes that become arguments.
        outputs: Those whose results are returned, as a tuple.
    """
    graph = Graph()
    env: dict[Node, Node] = {node: graph.placeholder(node.name) for node in inputs}
    for node in nodes:
        env[node] = graph.node_copy(node, lambda n: env[n])
    graph.output(tuple(env[node] for node in outputs))
    graph.lint()
    return GraphModule(orig_module, graph)
