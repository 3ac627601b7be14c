"""Passes as classes, and what a pass returns.

Source:
    torch.fx.passes.infra.pass_base.
"""

from __future__ import annotations

import abc
from typing import NamedTuple

from shmtensor.nn import Module

from ...graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """What a pass returns: a module, and whether the pass has changed it."""

    graph_module: Module
    modified: bool


class PassBase(abc.ABC):
    """A pass as a class: *call* changes the module, *requires* and *ensures* check it.

    Source:
        torch.fx.passes.infra.pass_base.PassBase.
    """

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        """Check the module, change it, and check it again; returns what `call` returns."""
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Change a module."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027 -- need not check anything
        """Raise unless the module is as the pass needs it."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027 -- need not check anything
        """Raise unless the module is as the pass leaves it; called with the module before it."""
