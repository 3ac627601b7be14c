"""Modules that a graph is the code of: there are none."""

from __future__ import annotations

from typing import Any

from shmtensor._core._not_offered import unavailable_class, unavailable_names
from shmtensor.nn import Module

from ._what import WHAT

__all__ = ["GraphModule"]

_REFUSED = """
    _assign_attr _copy_attr _forward_from_src reduce_deploy_graph_module reduce_graph_module
    reduce_package_graph_module
""".split()

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, WHAT)

#: The key of a graph's notes under which attributes of the user's module stand.
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"

GraphModule: Any = unavailable_class("GraphModule", __name__, WHAT, (Module,))


class _CodeOnlyModule(Module):
    """A module with the attributes of another."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body
