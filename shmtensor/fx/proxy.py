"""Proxies: values that stand for others while a program is traced, and record what is done to them.

Operators, methods and attributes of a proxy become nodes; functions of tensors do by
``__torch_function__``, which is handed what the program called. What a program may not ask of a
proxy, since a graph has no answer before it runs, raises `TraceError`.

Source:
    torch.fx.proxy.
"""

from __future__ import annotations

import copy
import dis
import enum
import inspect
import operator
import traceback
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from shmtensor import _C
from shmtensor._core._checks import _assert
from shmtensor._core._ops import OpOverload
from shmtensor._core._own_code import is_own_code
from shmtensor.errors import ShmTensorError
from shmtensor.nn import Parameter
from shmtensor.overrides import is_tensor_method_or_property

from . import _names
from ._codegen import magic_methods, reflectable_magic_methods
from .graph import Graph
from .node import Argument, Node, Target, base_types, map_aggregate
from .traceback import get_current_meta, has_preserved_node_meta

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]

#: What a node takes over from the notes of the moment. What a value was, such as its shape, is not.
_KEPT_NOTES = frozenset(
    """
    ac_graph_id custom from_node has_backward_hook nn_module_stack original_aten partitioner_tag
    quantization_tag recompute source_fn_stack stack_trace torch_fn
    """.split()
)


class TraceError(ShmTensorError, ValueError):
    """A program asks a proxy for something that only a value has."""


class Scope:
    """Where a tracer is in the tree of modules.

    Args:
        module_path: The qualified name of the module whose ``forward`` runs.
        module_type: Its class.
    """

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """A context in which a tracer is in a module.

    Args:
        scope: The tracer's scope, which is set, and set back at the end.
        current_scope: What it is set to.
    """

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._before = Scope(scope.module_path, scope.module_type)
        self._scope = scope
        scope.module_path = current_scope.module_path
        scope.module_type = current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *error: object) -> None:
        self._scope.module_path = self._before.module_path
        self._scope.module_type = self._before.module_type


def _check_mutable(target: Any, kwargs: dict[str, Any]) -> None:
    """Raise RuntimeError if a function of this package changes its arguments."""
    if isinstance(target, OpOverload):
        overloads = [target]
    elif _names.qualified_name(target).startswith("torch."):
        overloads = _C._operator_overloads(getattr(target, "__name__", ""))
    else:
        return
    writes_out = kwargs.get("out") is not None
    for each in overloads:
        if ("out" in each._overload) == writes_out and "!)" in each._schema:
            raise RuntimeError(
                f"Tried to trace mutable operation {each.namespace}::{each._schema}. FX only "
                "supports functional code, so operations that mutate operands in-place (e.g. via "
                "`out` arguments) are not supported"
            )


class TracerBase:
    """What adds nodes to a graph for proxies."""

    graph: Graph
    record_stack_traces: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: dict[str, Any]
    node_name_to_scope: dict[str, tuple[str, Any]]

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a node; overrides may change it, or what it is made of.

        Args:
            kind: What it does.
            target: What it calls.
            args: Arguments without proxies.
            kwargs: Arguments by name.
            name: What it is to be called.
            type_expr: The type of its result.

        Raises:
            RuntimeError: With ``check_mutable_operations``, a function changes its arguments.
        """
        if kind == "call_function" and self.check_mutable_operations:
            _check_mutable(target, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if (scope := getattr(self, "scope", None)) is not None:
            self.node_name_to_scope[node.name] = scope.module_path, scope.module_type
        if has_preserved_node_meta():
            for key, value in get_current_meta().items():
                if key in _KEPT_NOTES:
                    node.meta.setdefault(key, copy.copy(value))
        elif stack := getattr(self, "module_stack", None):
            node.meta["nn_module_stack"] = dict(stack)
        return node

    def proxy(self, node: Node) -> Proxy:
        """Return a proxy for the result of a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Add a node for a call with proxies among its arguments, and return its result's proxy.

        Args:
            kind: What it does.
            target: What it calls.
            args: Any arguments that `create_arg` takes.
            kwargs: Arguments by name.
            name: What the node is to be called.
            type_expr: The type of its result.
            proxy_factory_fn: Makes the proxy; otherwise `proxy` does.
        """
        given = self.create_arg(args)
        by_name = self.create_arg(kwargs)
        node = self.create_node(kind, target, given, by_name, name, type_expr)
        made = self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)
        if self.record_stack_traces and node.stack_trace is None:
            node.stack_trace = self._user_stack()
        return made

    def _user_stack(self) -> str:
        """The frames of the traced program, without those of this package."""
        frame = self._find_user_frame()
        if frame is None:
            return ""
        summary = traceback.extract_stack(frame)
        return "".join(traceback.format_list(summary)).strip("\n")

    def _find_user_frame(self) -> FrameType | None:
        frame = inspect.currentframe()
        while frame is not None:
            if not is_own_code(frame.f_globals):
                return frame
            frame = frame.f_back
        return None

    def create_arg(self, a: Any) -> Argument:
        """Return what stands for a value in the arguments of a node.

        Args:
            a: A proxy, a value of `node.base_types`, or a collection of such.

        Raises:
            NotImplementedError: It is something else.
            RuntimeError: The key of a dict is a proxy.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return type(a)(*(self.create_arg(each) for each in a))
        if isinstance(a, tuple):
            return tuple(self.create_arg(each) for each in a)
        if isinstance(a, list):
            return [self.create_arg(each) for each in a]
        if isinstance(a, dict):
            return {self._create_key(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(*(self.create_arg(each) for each in (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*(self.create_arg(each) for each in (a.start, a.stop, a.step)))
        if is_dataclass(a) and not isinstance(a, type):
            values = {f.name: self.create_arg(getattr(a, f.name)) for f in fields(a)}
            return self.create_node("call_function", type(a), (), values)
        if a is None or a is ... or isinstance(a, (*base_types, enum.Enum, bytes, type)):
            return a
        if isinstance(a, OpOverload):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _create_key(self, key: Any) -> Any:
        made = self.create_arg(key)

        def refuse(node: Any) -> Any:
            if isinstance(node, Node):
                raise RuntimeError(
                    "Keys for dictionaries used as an argument cannot contain a Node. "
                    f"Got key: {key.node if isinstance(key, Proxy) else key}"
                )
            return node

        map_aggregate(made, refuse)
        return made

    # --- what only values know ----------------------------------------------------------------

    def to_bool(self, obj: Proxy) -> bool:
        """Say whether a proxy is true, in a condition.

        Raises:
            TraceError: Always; overrides may answer.
        """
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Go through a proxy.

        Raises:
            TraceError: Always; overrides may answer.
        """
        raise TraceError(
            "Proxy object cannot be iterated. A graph does not know how many items there will be, "
            "in a loop, or for * and ** before an argument. Unpacking into names is traced"
        )

    def keys(self, obj: Proxy) -> Any:
        """Answer the keys of a proxy, which ``**`` before an argument asks for: a recorded call."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """A tracer that adds what proxies do to a graph, without a program of its own.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = {}
        self.node_name_to_scope = {}


class Proxy:
    """Stands for the result of a node: what is done to it becomes more nodes.

    Args:
        node: It.
        tracer: What adds the nodes; otherwise they are added to the node's graph.
    """

    node: Any
    if TYPE_CHECKING:  # they are made below

        def __getitem__(self, key: Any) -> Proxy: ...

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        if k in ("node", "tracer"):  # while it is copied or unpickled
            raise AttributeError(k)
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        from copy import deepcopy

        made = type(self).__new__(type(self))
        made.__dict__.update((k, deepcopy(v, memo)) for k, v in self.__dict__.items())
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        """Record a call of the value."""
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        count = _unpacked_names(inspect.currentframe())
        if count is None:
            return self.tracer.iter(self)
        return (self[i] for i in range(count))

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and (found := _asserted(inspect.currentframe())) is not None:
            self.tracer.create_proxy("call_function", _assert, (self, found), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """Record the call of a method that is called so."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Record the call of a function of tensors.

        Raises:
            RuntimeError: The proxies among the arguments are of different tracers.
        """
        kwargs = {} if kwargs is None else kwargs
        tracers: dict[int, TracerBase] = {}

        def note(each: Any) -> Any:
            if isinstance(each, Proxy):
                tracers[id(each.tracer)] = each.tracer
            return each

        map_aggregate((args, kwargs), note)
        if len(tracers) != 1:
            raise RuntimeError(
                f"Found multiple different tracers {[*tracers.values()]} while trying to trace "
                f"operations {orig_method}"
            )
        (tracer,) = tracers.values()
        name = getattr(orig_method, "__name__", type(orig_method).__name__)
        if is_tensor_method_or_property(orig_method):
            return tracer.create_proxy("call_method", name, args, kwargs)
        return tracer.create_proxy(
            "call_function", orig_method, args, kwargs, name=tracer.graph._target_to_str(name)
        )


def _instruction(frame: FrameType | None) -> tuple[FrameType, list[dis.Instruction]] | None:
    """The caller's frame of one of a proxy's methods, with its instructions from the current on."""
    caller = frame.f_back if frame is not None else None
    if caller is None:
        return None
    found = [i for i in dis.get_instructions(caller.f_code) if i.offset >= caller.f_lasti]
    return (caller, found) if found else None


def _unpacked_names(frame: FrameType | None) -> int | None:
    """How many names the caller unpacks into; None if it does not."""
    found = _instruction(frame)
    if found is None or found[1][0].opname != "UNPACK_SEQUENCE":
        return None
    return found[1][0].argval if isinstance(found[1][0].argval, int) else found[1][0].arg


def _asserted(frame: FrameType | None) -> str | None:
    """The message of the ``assert`` statement that asks; None if none does."""
    found = _instruction(frame)
    if found is None:
        return None
    here, *after = found[1]
    if not (here.opname.startswith("POP_JUMP") and here.opname.endswith("IF_TRUE")):
        return None
    after = [i for i in after if i.opname not in ("CACHE", "NOP", "NOT_TAKEN")]
    # Python loads the exception's class by an instruction of its own, or as a common constant.
    is_assert = after and (
        after[0].opname == "LOAD_ASSERTION_ERROR" or "AssertionError" in after[0].argrepr
    )
    if not is_assert:
        return None
    second = after[1] if len(after) > 1 else None
    is_text = second is not None and second.opname == "LOAD_CONST"
    return str(second.argval) if is_text and second is not None else ""


class MetaProxy(Proxy):
    """A proxy whose functions are recorded without their being called on a value.

    Args:
        node: Its node.
        tracer: What adds nodes.
        fake_mode: Accepted.
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None, fake_mode: Any = None) -> None:
        super().__init__(node, tracer)
        self.fake_mode = fake_mode


class Attribute(Proxy):
    """An attribute of a proxy: a method when it is called, and a node of its own otherwise.

    Args:
        root: The proxy.
        attr: The attribute's name.
    """

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Any:  # type: ignore[override]
        """The node that reads the attribute, which is added when it is first asked for."""
        if self._node is None:
            self._node = self.tracer.create_proxy(
                "call_function", getattr, (self.root, self.attr), {}
            ).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        """Record a call of the method of this name."""
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """Stands for a parameter whose shape is known.

    Args:
        tracer: What adds nodes.
        node: The node that reads it.
        name: Its qualified name.
        param: The parameter.

    Raises:
        AssertionError: *param* is no parameter.
    """

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Parameter) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, Parameter):
            raise AssertionError(f"expected Parameter, got {type(param)}")
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """The parameter's shape."""
        return self.param.shape

    def size(self) -> Any:
        """Return the parameter's shape."""
        return self.param.size()

    def dim(self) -> int:
        """Return the number of its dims."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """The number of its dims."""
        return self.param.ndim

    def numel(self) -> int:
        """Return the number of its elements."""
        return self.param.numel()

    def nelement(self) -> int:
        """Return the number of its elements."""
        return self.param.nelement()


def _recorded(method: str) -> Callable[..., Proxy]:
    """The operator that records itself as the function of `operator` for it."""
    target = getattr(operator, method)

    def record(self: Proxy, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", target, (self, *args), kwargs)

    record.__name__ = f"__{method.strip('_')}__"
    return record


def _recorded_from_right(method: str) -> Callable[[Proxy, Any], Proxy]:
    """The operator of the right operand."""
    target = getattr(operator, method)

    def record(self: Proxy, rhs: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", target, (rhs, self), {})

    record.__name__ = f"__r{method.strip('_')}__"
    return record


def _add_operators() -> None:
    for method in magic_methods:
        function = _recorded(method)
        setattr(Proxy, function.__name__, function)
    for method in reflectable_magic_methods:
        if method != "getitem":
            reflected = _recorded_from_right(method)
            setattr(Proxy, reflected.__name__, reflected)


_add_operators()
