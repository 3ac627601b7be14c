"""Graphs of Python programs, which are not here: functions are marked, and nothing is traced.

Source:
    torch.fx.
"""

from __future__ import annotations

from shmtensor._core._not_offered import unavailable_names

from . import (
    _compatibility as _compatibility,
)
from . import (
    _symbolic_trace as _symbolic_trace,
)
from . import (
    graph as graph,
)
from . import (
    graph_module as graph_module,
)
from . import (
    immutable_collections as immutable_collections,
)
from . import (
    interpreter as interpreter,
)
from . import (
    node as node,
)
from . import (
    proxy as proxy,
)
from ._symbolic_trace import Tracer as Tracer
from ._symbolic_trace import wrap as wrap
from ._what import WHAT
from .graph import CodeGen as CodeGen
from .graph import Graph as Graph
from .graph_module import GraphModule as GraphModule
from .interpreter import Interpreter as Interpreter
from .interpreter import Transformer as Transformer
from .node import Node as Node
from .node import has_side_effect as has_side_effect
from .node import map_arg as map_arg
from .proxy import Proxy as Proxy

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
