"""Modules whose ``forward`` is the code of a graph.

Source:
    torch.fx.graph_module.
"""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import nn
from shmtensor._core._not_offered import unavailable_names

from . import _execution
from ._namespace import given_names
from .graph import Graph, PythonCode, _PyTreeCodeGen

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["GraphModule", "reduce_graph_module"]

_REFUSED = ["reduce_deploy_graph_module", "reduce_package_graph_module"]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, "there are no packages here")

#: The key of a graph's notes under which attributes of the user's module stand.
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"

#: What a copy of a module takes over besides parameters, buffers and submodules.
_HOOKS = """
    _backward_hooks _backward_pre_hooks _forward_hooks _forward_hooks_always_called
    _forward_hooks_with_kwargs _forward_pre_hooks _forward_pre_hooks_with_kwargs
    _is_full_backward_hook _load_state_dict_post_hooks _load_state_dict_pre_hooks
    _non_persistent_buffers_set _state_dict_hooks _state_dict_pre_hooks
""".split()


def _forward_from_src(
    src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None
) -> Any:
    """Return the ``forward`` that code defines."""
    return _execution.function_from("forward", src, globals, co_fields)


class _CodeOnlyModule(nn.Module):
    """A module with the attributes of another."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


# --- attributes by qualified names ---------------------------------------------------------------


def _parent(root: Any, target: str, *, make: bool = False) -> tuple[Any, str]:
    """The module that holds an attribute, and the attribute's own name."""
    *path, name = target.split(".")
    for part in path:
        if make and not hasattr(root, part):
            setattr(root, part, nn.Module())
        root = getattr(root, part)
    return root, name


def _assign_attr(from_obj: Any, to_module: Any, target: str) -> None:
    """Give a module an attribute under a qualified name; plain tensors become buffers."""
    holder, name = _parent(to_module, target, make=True)
    is_plain = isinstance(from_obj, shmtensor.Tensor) and not isinstance(from_obj, nn.Parameter)
    if is_plain:
        holder.register_buffer(name, from_obj)
    else:
        setattr(holder, name, from_obj)


def _copy_attr(from_module: Any, to_module: Any, target: str) -> None:
    """Give a module what another has under a qualified name."""
    source, name = _parent(from_module, target)
    holder, _ = _parent(to_module, target, make=True)
    value = getattr(source, name)
    is_plain = isinstance(value, shmtensor.Tensor) and not isinstance(value, nn.Parameter)
    if is_plain:
        kept = name not in getattr(source, "_non_persistent_buffers_set", ())
        holder.register_buffer(name, value, persistent=kept)
    else:
        setattr(holder, name, value)


def _del_attr(model: Any, target: str) -> None:
    """Remove what a module has under a qualified name."""
    holder, name = _parent(model, target)
    delattr(holder, name)


def _get_attr(model: Any, target: str) -> Any:
    """Return what a module has under a qualified name."""
    holder, name = _parent(model, target)
    return getattr(holder, name)


def _has_attr(model: Any, target: str) -> bool:
    """Return whether a module has something under a qualified name."""
    try:
        _get_attr(model, target)
    except AttributeError:
        return False
    return True


# --- the module ----------------------------------------------------------------------------------


class GraphModule(nn.Module):
    """A module whose ``forward`` is the code of a graph. Each has a class of its own for that.

    Args:
        root: What the graph's targets are taken from: a module, or a dict from qualified names to
            modules and tensors.
        graph: The graph; the module keeps it and becomes its owner.
        class_name: What the module calls itself.

    Raises:
        RuntimeError: *root* is neither, or a dict without a target of the graph.
        AttributeError: *root* is a module without a target of the graph.
    """

    _graph: Graph
    _code: str

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make an object of a class of its own."""
        # A copy of a module is of a class beside that one's, not below it.
        base = next(each for each in cls.__mro__ if "_is_of_one_module" not in vars(each))
        own = type(cls.__name__, (base,), {"_is_of_one_module": True, "__module__": __name__})
        # Programs tell by this name that forward is of the class and made anew from the graph.
        own.__qualname__ = "GraphModule.__new__.<locals>.GraphModuleImpl"
        made: Self = object.__new__(own)
        return made

    def __init__(
        self, root: nn.Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__()
        type(self).__name__ = class_name
        self.meta: dict[str, Any] = {}
        targets = [n.target for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, nn.Module):
            self.training = root.training
            self.meta.update(getattr(root, "meta", None) or {})
            for key, value in self.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
                setattr(self, key, value)
            for target in targets:
                _copy_attr(root, self, target)
        elif isinstance(root, dict):
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module") and node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not "
                        "provided in ``root``!"
                    )
            for target in sorted(dict.fromkeys(targets), key=lambda name: name.count(".")):
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        # A pickle could not find a class again that is local to a function.
        cls = graph._tracer_cls
        self._tracer_cls = None if cls is None or "<locals>" in cls.__qualname__ else cls
        self._tracer_extras = graph._tracer_extras or {}
        self.graph = graph

    @property
    def graph(self) -> Graph:
        """The graph; after a change of it, call `recompile`. Assigning one does that itself."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The code of ``forward``.

        Raises:
            RuntimeError: It is not written yet.
        """
        if "_code" not in self.__dict__:
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return self._code

    def recompile(self) -> PythonCode:
        """Write and compile the code of the graph again, which its changes need to have effect."""
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec
        python_code = self._graph.python_code(root_module="self")
        self._code = python_code.src
        cls: Any = type(self)
        cls.forward = _forward_from_src(
            python_code.src, python_code.globals, self._graph._co_fields
        )
        return python_code

    # --- submodules ---------------------------------------------------------------------------

    def add_submodule(self, target: str, m: nn.Module) -> bool:
        """Add a module under a qualified name; modules on the way to it are made.

        Returns:
            Whether that went: False if something on the way is no module.
        """
        *path, name = target.split(".")
        holder: Any = self
        for part in path:
            if not hasattr(holder, part):
                holder.add_module(part, nn.Module())
            holder = getattr(holder, part)
            if not isinstance(holder, nn.Module):
                return False
        holder.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the module under a qualified name.

        Returns:
            Whether there was one.
        """
        *path, name = target.split(".")
        holder: Any = self
        for part in path:
            holder = getattr(holder, part, None)
            if not isinstance(holder, nn.Module):
                return False
        if not isinstance(getattr(holder, name, None), nn.Module):
            return False
        delattr(holder, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the modules that the graph neither calls nor reads from."""
        used: set[str] = set()
        for node in self._graph.nodes:
            if node.op not in ("get_attr", "call_module"):
                continue
            parts = node.target.split(".")
            used.update(".".join(parts[: i + 1]) for i in range(len(parts)))
            if node.op == "call_module" and _has_attr(self, node.target):
                below = self.get_submodule(node.target).named_modules()
                used.update(f"{node.target}.{name}" for name, _ in below if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # --- files --------------------------------------------------------------------------------

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write the module as a Python package.

        Args:
            folder: It is made if it is missing.
            module_name: The name of the class in it.
        """
        place = Path(folder)
        place.mkdir(exist_ok=True)
        shmtensor.save(self.state_dict(), place / "state_dict.pt")
        python_code = self._graph.python_code(root_module="self")
        used = {**given_names(), **python_code.globals}
        # Only a module's top level may name functions that traces record.
        code = self.code.splitlines()
        wraps = [line for line in code if line.startswith("torch.fx._symbolic_trace.wrap(")]
        method = "\n".join(line for line in code if line not in wraps).strip()
        lines = [
            _execution.import_block(used, given_names()),
            "from shmtensor.nn import *",
            *wraps,
            "",
            "",
        ]
        lines += [f"class {module_name}(torch.nn.Module):", "    def __init__(self):"]
        lines.append("        super().__init__()")
        for name, module in self.named_children():
            lines.append(f"        self.{name} = {_construction(name, module, place)}")
        for name, buffer in self._buffers.items():
            if buffer is not None:
                made = f"torch.empty({[*buffer.shape]}, dtype={buffer.dtype})"
                lines.append(f"        self.register_buffer('{name}', {made})")
        for name, parameter in self._parameters.items():
            if parameter is not None:
                made = f"torch.empty({[*parameter.shape]}, dtype={parameter.dtype})"
                lines.append(f"        self.{name} = torch.nn.Parameter({made})")
        lines.append(f"        self.load_state_dict(torch.load(r'{place}/state_dict.pt'))")
        text = "\n".join(lines) + "\n" + "\n" + _addindent_all(method, 4) + "\n"
        (place / "module.py").write_text(text)
        (place / "__init__.py").write_text("from .module import *\n")

    def __reduce__(self) -> Any:
        """Keep the attributes and the code; whoever reads it traces that again."""
        kept = dict(self.__dict__)
        kept["_graphmodule_cls_name"] = type(self).__name__
        python_code = self._graph.python_code(root_module="self")
        block = _execution.import_block({**given_names(), **python_code.globals}, given_names())
        del kept["_graph"]
        return reduce_graph_module, (kept, block)

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        body = copy.deepcopy({k: v for k, v in self.__dict__.items() if k != "_graph"}, memo)
        made._take(body, copy.deepcopy(self._graph, memo), type(self).__name__)
        return made

    def __copy__(self) -> GraphModule:
        made = type(self).__new__(type(self))
        made._take(
            {k: v for k, v in self.__dict__.items() if k != "_graph"},
            copy.deepcopy(self._graph),
            type(self).__name__,
        )
        return made

    def _take(self, body: dict[str, Any], graph: Graph, class_name: str) -> None:
        """Become a module with given attributes, hooks among them."""
        nn.Module.__init__(self)
        self.__dict__.update(body)
        for registry in ("_parameters", "_buffers", "_modules"):
            self.__dict__[registry] = dict(self.__dict__[registry])
        for hooks in _HOOKS:
            if hooks in body:
                self.__dict__[hooks] = copy.copy(body[hooks])
        type(self).__name__ = class_name
        self.graph = graph

    # --- text ---------------------------------------------------------------------------------

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        **options: Any,
    ) -> str:
        """Return, and print, the code of the module and of those below it as classes.

        Args:
            print_output: Whether it is printed.
            include_stride: Accepted.
            include_device: Accepted.
            colored: Accepted.
            **options: Accepted.
        """
        text = _readable(self, type(self).__name__)
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, hint])

    def _replicate_for_data_parallel(self) -> GraphModule:
        made = copy.copy(self)
        made.__dict__["_is_replica"] = True
        return made


def _readable(module: GraphModule, name: str) -> str:
    """The code of a module, with those below it inside it."""
    python_code = module._graph.python_code(root_module="self", verbose=True)
    code = _addindent_all(python_code.src.strip(), 4)
    text = f"class {name}(torch.nn.Module):\n{code}\n"
    for child_name, child in module.named_children():
        if isinstance(child, GraphModule):
            text += "\n" + _addindent_all(_readable(child, child_name), 4)
    return text


def _addindent_all(text: str, width: int) -> str:
    """Text with blanks before each line that is not empty."""
    return "\n".join(f"{' ' * width}{line}" if line.strip() else "" for line in text.split("\n"))


def _construction(name: str, module: nn.Module, place: Path) -> str:
    """Return an expression for a module; a file beside the code holds those that it cannot say."""
    text = repr(module)
    try:
        known = type(eval(text, dict(vars(nn)))) is type(module)
    except Exception:
        known = False
    # The text of a layer says how it was made only if a layer made so has the same tensors.
    if known:
        made = eval(text, dict(vars(nn)))
        theirs = {k: v.shape for k, v in module.state_dict().items()}
        known = {k: v.shape for k, v in made.state_dict().items()} == theirs
    if known and "\n" not in text:
        return text
    file = place / f"{name}.pt"
    shmtensor.save(module, file)
    return f"torch.load(r'{file}', weights_only=False)  # {type(module).__name__}"


def reduce_graph_module(body: dict[Any, Any], import_block: str) -> GraphModule:
    """Return a module for what pickles hold of it: attributes, and code that is traced again.

    Args:
        body: The attributes, the code among them.
        import_block: Statements that import what the code uses.
    """
    from ._symbolic_trace import Tracer

    class KeepModules(Tracer):
        """Takes each module as a single step, as the code does."""

        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return True

    names: dict[str, Any] = {}
    forward = _execution.function_from("forward", f"{import_block}\n{body['_code']}", names)
    name = body.pop("_graphmodule_cls_name", "GraphModule")
    tracer_cls = body.get("_tracer_cls")
    fake = _CodeOnlyModule(body)
    kind: Any = type("_Coded", (_CodeOnlyModule,), {"forward": forward})
    fake.__class__ = kind
    tracer = KeepModules()
    graph = tracer.trace(fake)
    graph._tracer_cls = tracer_cls
    made = GraphModule(fake, graph, name)
    for key, value in body.items():
        if key not in made.__dict__:
            made.__dict__[key] = value
    return made


def _make_graph_module(
    *args: Any, graph_module_cls: type[GraphModule] | None = None, **kwargs: Any
) -> GraphModule:
    """Return a module of a graph; the class may be given."""
    return (graph_module_cls or GraphModule)(*args, **kwargs)
