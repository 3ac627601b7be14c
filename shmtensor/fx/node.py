"""Nodes: the steps of a graph, each with its arguments and the nodes that use it.

Source:
    torch.fx.node.
"""

from __future__ import annotations

import contextlib
import operator
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import shmtensor
from shmtensor._core._checks import _assert

from . import _names
from .immutable_collections import immutable_dict, immutable_list

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

F = TypeVar("F")

Argument = Any
Target = Callable[..., Any] | str

#: What an argument may be besides nodes and collections of arguments.
base_types = (
    str,
    int,
    float,
    bool,
    complex,
    shmtensor.dtype,
    shmtensor.Tensor,
    shmtensor.device,
    shmtensor.memory_format,
    shmtensor.layout,
)

_legal_ops = (
    "placeholder",
    "get_attr",
    "call_function",
    "call_method",
    "call_module",
    "output",
    "root",
)

_side_effectful_functions: set[Any] = {_assert, operator.setitem}

#: Functions that move the state of a generator on.
_RANDOM = {
    getattr(shmtensor, name)
    for name in """
    bernoulli multinomial normal poisson rand rand_like randint randint_like randn randn_like
    randperm
    """.split()
}

_get_qualified_name = _names.qualified_name
_type_repr = _names.type_name


class _Naming(threading.local):
    """What nodes are called while this thread writes code, which may be that of other names."""

    def __init__(self) -> None:
        self.graph: Graph | None = None
        self.name_of: Any = None
        #: Gives the expression for an argument.
        self.value: Callable[[Any], str] = repr


naming = _Naming()


@contextlib.contextmanager
def names_in_code(graph: Graph, name_of: Callable[[Node], str]) -> Iterator[None]:
    """Let the text of a graph's nodes be their names in code, in this thread."""
    before = naming.graph, naming.name_of, naming.value
    naming.graph, naming.name_of, naming.value = graph, name_of, repr
    try:
        yield
    finally:
        naming.graph, naming.name_of, naming.value = before


def has_side_effect(fn: F) -> F:
    """Mark a function as one whose calls are never left out; returns it."""
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Argument, fn: Callable[[Any], Any]) -> Argument:
    """Return a collection of *fn* of what is in tuples, lists, dicts and slices, at any depth.

    Lists and dicts become ones that cannot be changed.
    """
    if isinstance(a, tuple):
        items = [map_aggregate(each, fn) for each in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list(map_aggregate(each, fn) for each in a)
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(value, fn)) for key, value in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(each, fn) for each in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Argument:
    """Return a collection with *fn* of each node; what is none stays."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda each: fn(each) if isinstance(each, Node) else each)


def _format_arg(arg: Any) -> str:
    """An argument in the text of a graph: nodes with %, strings without quotes."""
    if isinstance(arg, list):
        return f"[{', '.join(map(_format_arg, arg))}]"
    if isinstance(arg, tuple):
        comma = "," if len(arg) == 1 else ""
        return f"({', '.join(map(_format_arg, arg))}{comma})"
    if isinstance(arg, dict):
        return f"{{{', '.join(f'{key}: {_format_arg(value)}' for key, value in arg.items())}}}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


class Node:
    """A step of a graph. Graphs make nodes, by `Graph.create_node` and its short forms.

    What ``target`` is depends on ``op``:

    ==============  ===========================================
    placeholder     the argument's name
    get_attr        the qualified name of an attribute
    call_function   the function
    call_method     the method's name; ``args[0]`` is its object
    call_module     the qualified name of a module
    output          ``"output"``; ``args[0]`` is returned
    ==============  ===========================================

    Args:
        graph: The graph.
        name: An identifier that no other node of it has.
        op: What it does.
        target: What is called, read or taken.
        args: Positional arguments, with nodes for the results of other steps.
        kwargs: Arguments by name.
        return_type: The type of the result, for annotations.

    Raises:
        AssertionError: There is no such *op*.
        ValueError: *target* is of the wrong type for it.
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any = None,
    ) -> None:
        if op not in _legal_ops:
            raise AssertionError(f"op {op!r} is not in _legal_ops")
        wanted = "Callable" if op == "call_function" else "str"
        if not (callable(target) if op == "call_function" else isinstance(target, str)):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type "
                f"{_names.type_name(type(target)).rpartition('.')[2]} but a {wanted} is expected"
            )
        self.graph = graph
        self.name = name
        self.op = op
        self.target: Any = target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        self._prev = self._next = self
        self._erased = False
        self._position = 0
        self._set_arguments(args, kwargs)

    # --- place --------------------------------------------------------------------------------

    @property
    def next(self) -> Node:
        """The node after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Put *x* before this node, from where it was.

        Raises:
            AssertionError: *x* is a node of another graph.
        """
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x
        self.graph._order_is_known = False

    def append(self, x: Node) -> None:
        """Put *x* after this node, from where it was."""
        if self._next is not x:
            self._next.prepend(x)

    def _unlink(self) -> None:
        before, after = self._prev, self._next
        before._next, after._prev = after, before

    def __lt__(self, other: Node) -> bool:
        return self._at() < other._at()

    def __gt__(self, other: Node) -> bool:
        return self._at() > other._at()

    def __le__(self, other: Node) -> bool:
        return self._at() <= other._at()

    def __ge__(self, other: Node) -> bool:
        return self._at() >= other._at()

    def _at(self) -> int:
        self.graph._number_nodes()
        return self._position

    # --- arguments ----------------------------------------------------------------------------

    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments; lists and dicts in them cannot be changed, assign new ones."""
        given: tuple[Argument, ...] = self._args
        return given

    @args.setter
    def args(self, args: tuple[Argument, ...]) -> None:
        self._set_arguments(args, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The arguments by name; they cannot be changed, assign new ones."""
        given: dict[str, Argument] = self._kwargs
        return given

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Argument]) -> None:
        self._set_arguments(self._args, kwargs)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return [*self._input_nodes]

    def _set_arguments(self, args: Any, kwargs: Any) -> None:
        """Take arguments, and tell the nodes in them."""
        for used in self._input_nodes:
            used.users.pop(self, None)
        self._input_nodes = {}

        def use(node: Node) -> Node:
            self._input_nodes.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args: Any = map_arg(args, use)
        self._kwargs: Any = map_arg(kwargs, use)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace one positional argument."""
        args = [*self._args]
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Put a positional argument before the one at *idx*.

        Raises:
            AssertionError: *idx* is not between 0 and the number of arguments.
        """
        if not 0 <= idx <= len(self._args):
            raise AssertionError(f"insert_args index must be between 0 and {len(self._args)}")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set one argument by name."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use another node wherever *old_input* is an argument."""

        def replace(node: Node) -> Node:
            return new_input if node is old_input else node

        self._set_arguments(map_arg(self._args, replace), map_arg(self._kwargs, replace))

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Let all users of this node use another one.

        Args:
            replace_with: The other.
            delete_user_cb: Says of a user whether it changes; without it all do.
            propagate_meta: Give ``meta`` to *replace_with*, which must have none.

        Returns:
            The users that there were.

        Raises:
            AssertionError: *replace_with* has a ``meta`` that would be overwritten.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but "
                    "replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = []
        for user in [*self.users]:
            if delete_user_cb is None or delete_user_cb(user):
                changed.append(user)
                user.replace_input_with(self, replace_with)
        return changed

    # --- what is known of it ------------------------------------------------------------------

    @property
    def stack_trace(self) -> str | None:
        """Where the traced program made this step, if the tracer recorded it."""
        trace: str | None = self.meta.get("stack_trace")
        return trace

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether leaving this step out would change more than its result.

        Args:
            impure_random: Random functions are such, since they change what later ones give.
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            is_random = impure_random and self.target in _RANDOM
            return is_random or self.target in _side_effectful_functions
        if self.op == "call_module":
            if self.graph.owning_module is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            target = self.graph.owning_module.get_submodule(self.target)
            return bool(getattr(target, "_is_impure", False))
        return False

    def _rename(self, candidate: str) -> None:
        """Call the node *candidate*, or as near to that as is free."""
        if candidate != self.name:
            namespace = self.graph._graph_namespace
            self.name = namespace.create_name(candidate, None)
            namespace.associate(self.name, self)

    # --- text ---------------------------------------------------------------------------------

    def __repr__(self) -> str:
        is_named = naming.graph is self.graph and naming.name_of is not None
        return naming.name_of(self) if is_named else self.name

    _pretty_print_target = staticmethod(_names.printed_target)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """Return the line of this node in the text of its graph.

        Args:
            placeholder_names: Takes the names of arguments.
            maybe_return_typename: Its first item becomes the type that is returned.
            include_tensor_metadata: Accepted.
        """
        kind = f": {_names.type_name(self.type)} " if self.type is not None else ": "
        head = f"%{self.name} {kind}[num_users={len(self.users)}] = {self.op}"
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(f"{self.target}{kind.rstrip(': ')}")
            default = f"(default={self._args[0]})" if self._args else ""
            return f"{head}[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"{head}[target={self.target}]"
        if self.op == "output":
            if self.type is not None and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_names.type_name(self.type)}"
            return f"return {self._args[0]}"
        return (
            f"{head}[target={_names.printed_target(self.target)}]"
            f"(args = {_format_arg(self._args)}, kwargs = {_format_arg(self._kwargs)})"
        )

    # A node is the same step only in its own graph; `Graph.__deepcopy__` copies graphs.
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_prev": None, "_next": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prev = self._next = self
