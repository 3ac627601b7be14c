"""Tracing: a program runs once with proxies, and what it does to them becomes a graph.

While a trace runs, calls of modules and reads of parameters go through the tracer, in its thread
only, and the functions that `wrap` was told are recorded by name.

Source:
    torch.fx.symbolic_trace, torch.fx.Tracer.
"""

from __future__ import annotations

import functools
import inspect
import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import shmtensor
from shmtensor._core._not_offered import unavailable_class
from shmtensor.nn import Module, Parameter, Sequential

from . import _concrete
from ._compatibility import compatibility as compatibility
from ._concrete import PH as PH
from ._concrete import PHBase as PHBase
from ._concrete import PHWithMeta as PHWithMeta
from ._concrete import _assert_is_none as _assert_is_none
from ._wrapping import OwnTrace as _Patcher
from ._wrapping import Patcher, as_it_was, patch_wrapped, wrap
from .graph import Graph
from .graph_module import GraphModule
from .graph_module import _make_graph_module as _make_graph_module
from .node import Argument
from .proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase

__all__ = [
    "PH",
    "Tracer",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "symbolic_trace",
    "wrap",
]


#: Tracers look for such objects among the attributes of modules; there are none.
ScriptObject: Any = unavailable_class("ScriptObject", __name__, "there is no TorchScript here")


# A program's own `Tracer.trace` replaces what calls modules and reads their attributes, so it asks
# for what stood there before.
_orig_module_call: Callable[..., Any] = Module.__call__
_orig_module_getattr: Callable[..., Any] = Module.__getattr__


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    """Let a program's own trace record the calls of the functions that `wrap` was told."""
    patch_wrapped(patcher.shared)


def _autowrap_check(patcher: _Patcher, frame_dict: dict[str, Any], function_ids: set[int]) -> None:
    """Let a program's own trace record the calls of functions wherever globals have them."""
    patcher.shared.record_functions_of(frame_dict, function_ids)


class _Run(NamedTuple):
    """A program that runs with proxies."""

    tracer: Tracer
    patcher: Patcher
    #: The proxies of parameters and buffers that were read before, by their names.
    attributes: dict[str, Proxy]


class _Traces(threading.local):
    """What one thread traces."""

    def __init__(self) -> None:
        #: One inside another; only the innermost is asked.
        self.running: list[_Run] = []


_traces = _Traces()


def is_fx_symbolic_tracing() -> bool:
    """Return whether this thread is tracing a program."""
    return bool(_traces.running)


def is_fx_tracing() -> bool:
    """Return whether this thread is tracing a program."""
    return is_fx_symbolic_tracing()


def __getattr__(name: str) -> Any:
    if name == "_is_fx_tracing_flag":
        return is_fx_tracing()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _watched_call(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def call(mod: Module, *args: Any, **kwargs: Any) -> Any:
        if not _traces.running:
            return plain(mod, *args, **kwargs)
        run = _traces.running[-1]

        def forward(*args: Any, **kwargs: Any) -> Any:
            return plain(mod, *args, **kwargs)

        names = getattr(getattr(mod, "forward", mod), "__globals__", {})
        run.patcher.record_functions_of(names, run.tracer._autowrap_function_ids)
        return run.tracer.call_module(mod, forward, args, kwargs)

    return call


def _watched_getattr(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def get(mod: Module, attr: str) -> Any:
        value = plain(mod, attr)
        if not _traces.running:
            return value
        run = _traces.running[-1]
        return run.tracer.getattr(attr, value, run.attributes)

    return get


class ProxyableClassMeta(type):
    """The metaclass of classes whose construction from proxies a trace records as a call."""

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        super().__init__(name, bases, attrs)
        _proxyable_classes.setdefault(cls)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        from ._wrapping import _proxy_among

        if (proxy := _proxy_among(args, kwargs)) is not None:
            return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


_proxyable_classes: dict[type, None] = {}


class Tracer(TracerBase):
    """Makes graphs of programs. Subclasses say what is a single step, and what a value becomes.

    Args:
        autowrap_modules: Modules whose functions are recorded by name wherever globals have them.
        autowrap_functions: More such functions.
        param_shapes_constant: Let programs read the shapes of parameters.
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self._autowrap_function_ids: set[int] = {
            id(as_it_was(vars(module), name, value))
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        }
        self._autowrap_function_ids.update(map(id, autowrap_functions))
        self._autowrap_search: list[ModuleType] = [*autowrap_modules]
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack: dict[str, Any] = {}
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope: dict[str, tuple[str, Any]] = {}
        self.root: Any = None
        self.tensor_attrs: dict[Any, str] = {}
        self._qualname_counter: dict[str, int] = defaultdict(int)

    # --- values -------------------------------------------------------------------------------

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return a name that the root has no attribute of: *prefix* and a number."""
        number = self._qualname_counter[prefix]
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        self._qualname_counter[prefix] = number + 1
        return f"{prefix}{number}"

    def create_arg(self, a: Any) -> Argument:
        """Return what stands for a value in the arguments of a node.

        Parameters, buffers, modules and other tensors become reads of attributes of the root; a
        tensor that it does not have becomes one, ``_tensor_constant0`` and so on.

        Args:
            a: The value.

        Raises:
            NameError: It is a parameter that the root does not have.
            NotImplementedError: It is no value that a node takes.
        """
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Module):
            for name, module in self.root.named_modules():
                if a is module and name:
                    return self.create_node("get_attr", name, (), {})
        if isinstance(a, shmtensor.Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
            return self._constant(a, "_tensor_constant")
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            args = tuple(self.create_arg(each) for each in a)
            return self.create_node("call_function", type(a), args, {})
        if type(a) in _proxyable_classes:
            return self._constant(a, f"_{type(a).__name__}_constant_")
        return super().create_arg(a)

    def _constant(self, value: Any, prefix: str) -> Argument:
        name = self.tensor_attrs.get(value) if isinstance(value, shmtensor.Tensor) else None
        if name is None:
            name = self.get_fresh_qualname(prefix)
            if isinstance(value, shmtensor.Tensor):
                self.tensor_attrs[value] = name
            setattr(self.root, name, value)
        return self.create_node("get_attr", name, (), {})

    # --- modules ------------------------------------------------------------------------------

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return whether the call of a module is a single step: those of ``nn``, but `Sequential`.

        Args:
            m: The module.
            module_qualified_name: Its path from the root.
        """
        home = m.__module__
        is_own = home.startswith(("shmtensor.nn", "torch.nn", "shmtensor.ao.nn", "torch.ao.nn"))
        return is_own and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Return the qualified name of a module.

        Raises:
            NameError: The root does not have it.
        """
        if self.submodule_paths is not None:
            if mod not in self.submodule_paths:
                raise NameError("module is not installed as a submodule")
            return self.submodule_paths[mod]
        for name, module in self.root.named_modules():
            if module is mod:
                return str(name)
        raise NameError("module is not installed as a submodule")

    def call_module(
        self,
        m: Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Record the call of a module, or go into it.

        Args:
            m: The module.
            forward: What calls it.
            args: Its arguments, proxies or not.
            kwargs: Those by name.
        """
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            calls = self.num_calls.get(path, 0)
            self.num_calls[path] = calls + 1
            key = f"{path}@{calls}" if calls else path
            self.module_stack[key] = path, type(m)
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                del self.module_stack[key]

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """Return what a program gets when it reads an attribute of a module.

        Args:
            attr: Its name.
            attr_val: Its value.
            parameter_proxy_cache: The proxies of parameters that were read before.
        """
        if isinstance(attr_val, Parameter):
            return self._attribute_proxy(
                attr_val, self.root.named_parameters(), parameter_proxy_cache
            )
        if self.proxy_buffer_attributes and isinstance(attr_val, shmtensor.Tensor):
            return self._attribute_proxy(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        return attr_val

    def _attribute_proxy(
        self, value: Any, named: Iterator[tuple[str, Any]], cache: dict[str, Proxy]
    ) -> Any:
        name = next((name for name, each in named if each is value), "")
        if not name:
            return value
        if name not in cache:
            options: dict[str, Any] = {}  # overrides of `create_proxy` need not know the factory
            if self.param_shapes_constant and isinstance(value, Parameter):
                options["proxy_factory_fn"] = lambda node: ParameterProxy(self, node, name, value)
            cache[name] = self.create_proxy("get_attr", name, (), {}, **options)
        return cache[name]

    # --- the trace ----------------------------------------------------------------------------

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Add the placeholders of a function's arguments.

        Args:
            root_fn: The function.
            is_module: Whether its first argument is the module.
            concrete_args: Values of arguments for which it is specialized.

        Returns:
            What to call, and with what.
        """
        return _concrete.arguments_of(self, root_fn, is_module, concrete_args)

    def _proxy_placeholder(
        self, name: str, concrete_args: Any, sig: inspect.Signature, fn_for_analysis: Any
    ) -> Any:
        """Add the placeholder of one argument that has no value."""
        default = () if name.startswith("*") else _concrete._default(name, sig)
        parameter = sig.parameters.get(name.lstrip("*"))
        kind = None
        if parameter is not None and not name.startswith("*"):
            empty = parameter.annotation is inspect.Parameter.empty
            kind = None if empty else parameter.annotation
        return self.create_proxy("placeholder", name, default, {}, type_expr=kind)

    def trace(
        self,
        root: Module | Callable[..., Any],
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> Graph:
        """Return the graph of what a module or function does.

        Args:
            root: It.
            concrete_args: Values of arguments for which it is specialized. In collections, `PH`
                stands for what remains an argument.

        Raises:
            AssertionError: *root* is no module, and no Python function.
            TraceError: The program asks a proxy for something that only a value has.
        """
        if isinstance(root, Module):
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(
                    f"traced_func_name={self.traced_func_name} doesn't exist in "
                    f"{type(root).__name__}"
                )
            function = getattr(type(root), self.traced_func_name)
            self.root = root
            self.root_module_name = root._get_name()
            self.submodule_paths = {}
            for name, module in root.named_modules():
                self.submodule_paths.setdefault(module, name)
        else:
            function, self.root, self.submodule_paths = root, Module(), None
        extras = getattr(self, "__dict__", {}).get("_tracer_extras")
        self.graph = Graph(tracer_cls=_class_to_keep(type(self)), tracer_extras=extras)
        self._note_code(function)
        self.tensor_attrs = dict(_tensor_attributes(self.root))
        if not isinstance(function, FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(function)}")
        self._run(function, isinstance(root, Module), concrete_args)
        self.submodule_paths = None
        return self.graph

    def _note_code(self, function: Any) -> None:
        """Let the graph's code say which function it is of."""
        if (code := getattr(function, "__code__", None)) is not None:
            self.graph._co_fields = {
                "co_name": code.co_name,
                "co_filename": code.co_filename,
                "co_firstlineno": code.co_firstlineno,
            }

    def _run(self, function: FunctionType, is_module: bool, concrete_args: Any) -> None:
        """Call the function with proxies, and add what it returns (Note [Traces at once])."""
        patcher = Patcher()
        running = _traces.running
        around = len(running)
        try:
            running.append(_Run(self, patcher, {}))
            call, args = self.create_args_for_root(function, is_module, concrete_args)
            patcher.patch(Module, "__call__", _watched_call)
            patcher.patch(Module, "__getattr__", _watched_getattr)
            patch_wrapped(patcher)
            patcher.record_functions_of(function.__globals__, self._autowrap_function_ids)
            for module in self._autowrap_search:
                patcher.record_functions_of(vars(module), self._autowrap_function_ids)
            result = call(*args)
            self.create_node(
                "output",
                "output",
                (self.create_arg(result),),
                {},
                type_expr=function.__annotations__.get("return", None),
            )
        finally:
            try:
                del running[around:]
                patcher.put_back()
            finally:  # when a signal has ended the first time
                del running[around:]
                patcher.put_back()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        import copy

        made = type(self).__new__(type(self))
        for key, value in vars(self).items():
            made.__dict__[key] = (
                copy.copy(value) if key == "_autowrap_search" else (copy.deepcopy(value, memo))
            )
        return made


def _class_to_keep(cls: type[Tracer]) -> type[Tracer] | None:
    """A tracer's class, unless it is local to a function and could not be found again."""
    return cls if "<locals>" not in cls.__qualname__ else None


def _tensor_attributes(module: Module, prefix: str = "") -> Iterator[tuple[Any, str]]:
    """Tensors that are plain attributes of a module or its children, with their names."""
    for name, value in vars(module).items():
        if isinstance(value, shmtensor.Tensor):
            yield value, f"{prefix}{name}"
    for name, child in module.named_children():
        yield from _tensor_attributes(child, f"{prefix}{name}.")


def symbolic_trace(
    root: Module | Callable[..., Any],
    concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
) -> GraphModule:
    """Return a module whose code is the graph of what a module or function does.

    Args:
        root: It.
        concrete_args: Values of arguments for which it is specialized; see `Tracer.trace`.

    Raises:
        TraceError: The program asks a proxy for something that only a value has, such as whether
            it is true.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
