"""Traces that run along example values: `jit.trace`, and `compile` with a backend of one's own.

Each proxy has the value that its node gives for the examples. So a program that asks for a value
gets one, and its tracer says whether that is allowed: a branch that depends on data is taken as for
the examples, with a warning, or refused.
"""

from __future__ import annotations

import copy
import keyword
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import shmtensor
from shmtensor.nn import Module
from shmtensor.overrides import TorchFunctionMode
from shmtensor.utils import _pytree as pytree

from ._codegen import inplace_methods
from ._concrete import PH
from ._symbolic_trace import Tracer
from .graph import Graph
from .graph_module import _get_attr
from .node import _RANDOM, Argument, Node, map_arg
from .proxy import Proxy, TraceError

__all__ = ["ExampleProxy", "ExampleTracer", "copy_of", "function_of"]

#: What tells the size of a tensor; a trace may let such numbers follow the argument's size.
_SIZES = ("shape", "size", "numel", "nelement")
#: Methods that take values out of tensors, and what each makes of them.
_VALUES = {"item": "number", "tolist": "list", "numpy": "NumPy array"}


def copy_of(tensor: Any) -> Any:
    """Return an example that the program may change, with the strides of the tensor."""
    made = tensor.detach().clone()
    if tensor.layout == shmtensor.strided and made.stride() != tensor.stride():
        made = copy.deepcopy(tensor.detach())  # with the gaps between its elements
    return made.requires_grad_(tensor.requires_grad)


def _has_proxy(values: Any) -> bool:
    return any(type(leaf) is ExampleProxy for leaf in pytree.tree_leaves(values))


def _holds_tensor(value: Any) -> bool:
    return any(isinstance(leaf, shmtensor.Tensor) for leaf in pytree.tree_leaves(value))


def items_of(tensor: Any, count: int) -> tuple[Any, ...]:
    """Return the slices of a tensor over its first dim, which were *count* in a trace.

    Raises:
        RuntimeError: They are more or fewer now.
    """
    items = tuple(tensor.unbind(0))
    if len(items) != count:
        raise RuntimeError(f"Expected {count} elements in a list but found {len(items)}")
    return items


#: Methods that fill a tensor with random numbers. It may be no value of the trace.
_RANDOM_IN_PLACE = frozenset(
    """
    bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_
    """.split()
)


class _RandomFunctions(TorchFunctionMode):
    """Records random functions that have no proxies among their arguments.

    Args:
        tracer: The trace.
    """

    def __init__(self, tracer: ExampleTracer) -> None:
        super().__init__()
        self.tracer = tracer

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Add a node, or call the function."""
        kwargs = kwargs or {}
        if not self.tracer._is_computing and not _has_proxy((args, kwargs)):
            if func in _RANDOM and kwargs.get("generator") is None:
                return self.tracer.create_proxy("call_function", func, args, kwargs)
            if getattr(func, "__name__", "") in _RANDOM_IN_PLACE:
                self.tracer.take_random(func.__name__)
        return func(*args, **kwargs)


class ExampleProxy(Proxy):
    """A proxy with a value.

    Args:
        node: Its node.
        tracer: What adds nodes.
        value: The value.
    """

    def __init__(self, node: Node, tracer: ExampleTracer, value: Any) -> None:
        super().__init__(node, tracer)
        self.value = value

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class of a tensor that this stands for, so that `isinstance` says what it is."""
        value = self.__dict__.get("value")
        return type(value) if isinstance(value, shmtensor.Tensor) else type(self)

    def __getattr__(self, k: str) -> Any:
        if k in ("node", "tracer", "value") or k.startswith("__"):
            raise AttributeError(k)
        found = getattr(self.value, k)
        if callable(found) and not isinstance(found, shmtensor.Tensor):
            return lambda *args, **kwargs: self.tracer.create_proxy(
                "call_method", k, (self, *args), kwargs
            )
        return self.tracer.create_proxy("call_function", getattr, (self, k), {})

    def _constant(self, kind: str) -> Any:
        """The value, as one that stays whatever the arguments are."""
        tracer: Any = self.tracer
        tracer.take_constant(self, kind)
        return self.value

    def __bool__(self) -> bool:
        return bool(self._constant("boolean"))

    def __int__(self) -> int:
        return int(self._constant("integer"))

    def __index__(self) -> int:
        return operator.index(self._constant("index"))

    def __float__(self) -> float:
        return float(self._constant("float"))

    def __len__(self) -> int:
        if not isinstance(self.value, shmtensor.Tensor):
            return len(self.value)  # sizes and collections: how many there are is no data
        return len(self._constant("length"))

    def __contains__(self, item: Any) -> bool:
        plain = item.value if isinstance(item, ExampleProxy) else item
        return plain in self._constant("boolean")

    def __iter__(self) -> Iterator[Any]:
        if not isinstance(self.value, shmtensor.Tensor):
            return iter([self[i] for i in range(len(self.value))])
        count = len(self._constant("loop"))
        items = self.tracer.create_proxy("call_function", items_of, (self, count), {})
        return iter([items[i] for i in range(count)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.tracer.create_proxy("call_function", operator.setitem, (self, key, value), {})

    def __format__(self, form: str) -> str:
        return format(self.value, form)


def _in_place(method: str) -> Callable[[Any, Any], Any]:
    target = getattr(operator, method)

    def record(self: ExampleProxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", target, (self, other), {})

    return record


for _method in inplace_methods:
    if _method != "setitem":
        setattr(ExampleProxy, f"__{_method}__", _in_place(_method))


class ExampleTracer(Tracer):
    """Traces along example values.

    Args:
        examples: The values of the arguments, in their order.
        follow_sizes: Let sizes be of the arguments of each call, not those of the examples.
    """

    def __init__(self, examples: list[Any], *, follow_sizes: bool) -> None:
        super().__init__()
        self.follow_sizes = follow_sizes
        self._examples = iter(examples)
        self._values: dict[Node, Any] = {}
        self._is_computing = False

    def take_constant(self, proxy: ExampleProxy, kind: str) -> None:
        """Allow that a program takes a value out of a proxy.

        Args:
            proxy: It.
            kind: What the value becomes: "boolean", "integer" and so on.

        Raises:
            TraceError: Always; overrides may allow it.
        """
        raise TraceError(
            f"the program takes a {kind} out of a traced value ({proxy.node.name}), which depends "
            "on the data"
        )

    def take_random(self, method: str) -> None:
        """Allow that a program fills a tensor of its own with random numbers, which stay.

        Args:
            method: What does it.

        Raises:
            TraceError: Always; overrides may allow it.
        """
        raise TraceError(
            f"the program fills a tensor with random numbers ({method}), which would stay the same"
        )

    # --- values -------------------------------------------------------------------------------

    @contextmanager
    def _computing(self) -> Iterator[None]:
        before, self._is_computing = self._is_computing, True
        try:
            yield
        finally:
            self._is_computing = before

    def value_of(self, node: Node) -> Any:
        """Return what a node gives for the examples."""
        if node not in self._values:
            with self._computing():
                self._values[node] = self._compute(node)
        return self._values[node]

    def _compute(self, node: Node) -> Any:
        if node.op == "placeholder":
            return next(self._examples)
        if node.op == "get_attr":
            return _get_attr(self.root, node.target)
        args = map_arg(node.args, self.value_of)
        kwargs = map_arg(node.kwargs, self.value_of)
        if node.op == "call_method":
            return getattr(args[0], node.target)(*args[1:], **kwargs)
        if node.op == "call_module":
            return _get_attr(self.root, node.target)(*args, **kwargs)
        return node.target(*args, **kwargs)

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Any = None,
    ) -> Any:
        """Add a node and compute it; what does not depend on the arguments is its value itself."""
        if kind == "call_method" and target in _VALUES and isinstance(args[0], ExampleProxy):
            self.take_constant(args[0], _VALUES[target])
            with self._computing():
                return getattr(args[0].value, target)(*args[1:], **kwargs)
        given, by_name = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, given, by_name, name, type_expr)
        value = self.value_of(node)
        if kind in ("placeholder", "get_attr") or self._varies(node, value):
            return ExampleProxy(node, self, value)
        if value is not None or not self._changes(node):
            self.graph.erase_node(node)
        return value

    def _varies(self, node: Node, value: Any) -> bool:
        """Whether a value depends on the arguments of the call."""
        if _holds_tensor(value):
            return True
        if not self.follow_sizes or not isinstance(value, (bool, int, float, tuple)):
            return False
        if node.target in _SIZES or (node.target is getattr and node.args[1] in _SIZES):
            return True
        inputs = [self._values.get(each) for each in node.all_input_nodes]
        return bool(inputs) and not any(map(_holds_tensor, inputs))

    def _changes(self, node: Node) -> bool:
        """Whether a node whose value is None was called for what it does."""
        return node.op != "call_function" or node.target is not getattr

    def create_arg(self, a: Any) -> Argument:
        """Return what stands for a value in the arguments of a node."""
        if type(a) is ExampleProxy:
            return a.node
        if type(a).__module__ == "numpy" and getattr(a, "ndim", None) == 0:
            return a.item()  # a number that came out of an array
        return super().create_arg(a)

    # --- modules ------------------------------------------------------------------------------

    def call_module(self, m: Module, forward: Any, args: Any, kwargs: Any) -> Any:
        """Record the call of a module, or go into it; compute it while values are computed."""
        if self._is_computing or not _has_proxy((args, kwargs)):
            with self._computing():
                return forward(*args, **kwargs)
        if m is self.root:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """Return what a program gets when it reads an attribute of a module."""
        if self._is_computing:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def trace_call(self, root: Module, function: Any, arguments: dict[str, Any]) -> Graph:
        """Return the graph of a call.

        Args:
            root: What parameters and constants belong to.
            function: A Python function that takes the arguments and no others.
            arguments: The values by name, in the order of the function.
        """
        self.root = root
        self.root_module_name = root._get_name()
        self.submodule_paths = {}
        for name, module in root.named_modules():
            self.submodule_paths.setdefault(module, name)
        self.graph = Graph()
        self._note_code(function)
        self.tensor_attrs = {}
        names = function.__code__.co_varnames
        concrete = {
            name: pytree.tree_map(lambda _: PH, value)
            for name, value in zip(names, arguments.values(), strict=False)
            if not pytree.tree_is_leaf(value)
        }
        with _RandomFunctions(self):
            self._run(function, False, concrete)
        return self.graph


def function_of(call: Callable[..., Any], names: list[str], by_name: bool) -> Any:
    """Return a Python function that takes arguments of these names and hands them on.

    Args:
        call: What is called.
        names: The arguments. Those that code cannot have get other names in it.
        by_name: Whether they are handed on by name.
    """
    taken = [_parameter(name, i, names) for i, name in enumerate(names)]
    callee = "call"
    while callee in taken:
        callee = f"_{callee}"
    given = [f"{name!r}: {each}" for name, each in zip(names, taken, strict=True)]
    handed = f"**{{{', '.join(given)}}}" if by_name else ", ".join(taken)
    made = eval(f"lambda {', '.join(taken)}: {callee}({handed})", {callee: call})
    made.__name__ = getattr(call, "__name__", type(call).__name__)
    return made


def _parameter(name: str, position: int, names: list[str]) -> str:
    """The name of an argument in code; the module itself is ``self`` there."""
    made = name
    if not name.isidentifier() or keyword.iskeyword(name) or name == "self":
        made = f"argument_{position + 1}"
        while made in names:
            made = f"{made}_"
    return made
