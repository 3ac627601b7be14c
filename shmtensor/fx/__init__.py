"""Graphs of Python programs: traced, changed, and run as Python again.

`symbolic_trace` runs a module or function once with proxies, and gives a `GraphModule`: a module
whose ``graph`` is a list of nodes that can be changed, and whose ``code`` is Python.

Source:
    torch.fx.
"""

from __future__ import annotations

from shmtensor._core._lazy import submodules

from . import _pytree as _pytree
from . import _symbolic_trace as _symbolic_trace
from . import graph as graph
from . import graph_module as graph_module
from . import immutable_collections as immutable_collections
from . import interpreter as interpreter
from . import node as node
from . import proxy as proxy
from . import subgraph_rewriter as subgraph_rewriter
from . import traceback as traceback
from ._symbolic_trace import PH as PH
from ._symbolic_trace import ProxyableClassMeta as ProxyableClassMeta
from ._symbolic_trace import Tracer as Tracer
from ._symbolic_trace import symbolic_trace as symbolic_trace
from ._symbolic_trace import wrap as wrap
from .graph import CodeGen as CodeGen
from .graph import Graph as Graph
from .graph_module import GraphModule as GraphModule
from .interpreter import Interpreter as Interpreter
from .interpreter import Transformer as Transformer
from .node import Node as Node
from .node import has_side_effect as has_side_effect
from .node import map_arg as map_arg
from .proxy import Proxy as Proxy
from .subgraph_rewriter import replace_pattern as replace_pattern

__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]

submodules(__name__, "experimental")
