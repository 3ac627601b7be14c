"""Graphs of Python programs, which are not here: functions are marked, and nothing is traced.

Source:
    torch.fx.
"""

from __future__ import annotations

from shmtensor._not_offered import unavailable_names
from shmtensor.fx import (
    _compatibility as _compatibility,
)
from shmtensor.fx import (
    _symbolic_trace as _symbolic_trace,
)
from shmtensor.fx import (
    graph as graph,
)
from shmtensor.fx import (
    graph_module as graph_module,
)
from shmtensor.fx import (
    immutable_collections as immutable_collections,
)
from shmtensor.fx import (
    interpreter as interpreter,
)
from shmtensor.fx import (
    node as node,
)
from shmtensor.fx import (
    proxy as proxy,
)
from shmtensor.fx._symbolic_trace import Tracer as Tracer
from shmtensor.fx._symbolic_trace import wrap as wrap
from shmtensor.fx._what import WHAT
from shmtensor.fx.graph import CodeGen as CodeGen
from shmtensor.fx.graph import Graph as Graph
from shmtensor.fx.graph_module import GraphModule as GraphModule
from shmtensor.fx.interpreter import Interpreter as Interpreter
from shmtensor.fx.interpreter import Transformer as Transformer
from shmtensor.fx.node import Node as Node
from shmtensor.fx.node import has_side_effect as has_side_effect
from shmtensor.fx.node import map_arg as map_arg
from shmtensor.fx.proxy import Proxy as Proxy

_REFUSED = ("replace_pattern", "symbolic_trace")

__all__ = [
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "wrap",
    *_REFUSED,
]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, WHAT)
