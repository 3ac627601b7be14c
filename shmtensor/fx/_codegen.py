"""Python code from nodes.

The code of a graph is a function ``forward`` with a line for each node; each value is dropped after
its last use. What it needs besides its own names stands in its globals (Note [Names in generated
code]).

Source:
    torch.fx.graph.CodeGen.
"""

from __future__ import annotations

import enum
import keyword
import re
import types
import typing
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from shmtensor.utils import _pytree as pytree

from . import _names
from ._namespace import Namespace, given_names
from .node import Node, map_arg, naming

if TYPE_CHECKING:
    from shmtensor.utils._pytree import TreeSpec

__all__ = ["CodeGen", "PythonCode", "TransformCodeFunc", "format_target"]

TransformCodeFunc = Callable[[list[str]], list[str]]

#: How calls of functions of `operator` are written.
magic_methods: dict[str, str] = {
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "gt": "{} > {}",
    "le": "{} <= {}",
    "ge": "{} >= {}",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
}
#: Those of them that the right operand may answer too.
reflectable_magic_methods: dict[str, str] = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "floordiv": "{} // {}",
    "truediv": "{} / {}",
    "mod": "{} % {}",
    "pow": "{} ** {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}
magic_methods |= reflectable_magic_methods
inplace_methods: dict[str, str] = {
    "iadd": "{} += {}",
    "iand": "{} &= {}",
    "ifloordiv": "{} //= {}",
    "ilshift": "{} <<= {}",
    "imod": "{} %= {}",
    "imul": "{} *= {}",
    "imatmul": "{} @= {}",
    "ior": "{} |= {}",
    "ipow": "{} **= {}",
    "irshift": "{} >>= {}",
    "isub": "{} -= {}",
    "itruediv": "{} /= {}",
    "ixor": "{} ^= {}",
    "setitem": "{}[{}] = {}",
}


@dataclass
class PythonCode:
    """A graph as Python code.

    Args:
        src: The text.
        globals: What its names stand for.
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = field(default=None)
    _prologue_start: int = 0


def format_target(base: str, target: str) -> str:
    """Return an expression for an attribute of an attribute: ``self.a``, ``getattr(self, "0")``."""
    for name in target.split("."):
        base = f"{base}.{name}" if _can_follow_dot(name) else f"getattr({base}, {_quoted(name)})"
    return base


def _can_follow_dot(name: str) -> bool:
    """Whether code may name an attribute so; Python reads some letters as others."""
    is_name = name.isidentifier() and not keyword.iskeyword(name)
    return is_name and unicodedata.normalize("NFKC", name) == name


def _quoted(text: str) -> str:
    """Text as code, in double quotes where that needs no escapes."""
    quoted = repr(text)
    return quoted if '"' in text else f'"{quoted[1:-1]}"'


def _dropped_after(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """The nodes whose values nobody needs after a node."""
    seen: set[Node] = set()
    dropped: dict[Node, list[Node]] = {}

    for user in reversed([*nodes]):

        def use(node: Node, user: Node = user) -> Node:
            if node not in seen:
                seen.add(node)
                dropped.setdefault(user, []).append(node)
            return node

        map_arg(user.args, use)
        map_arg(user.kwargs, use)
    return dropped


class _Writer:
    """Writes the body of one function.

    Args:
        root: What the module is called in it.
        namespace: Its identifiers.
        globals_: Takes what it needs besides those.
    """

    def __init__(self, root: str, namespace: Namespace, globals_: dict[str, Any]) -> None:
        self.root = root
        self.namespace = namespace
        self.globals = globals_
        self.arguments: list[str] = []
        self.lines: list[str] = []
        self.wrapped: dict[str, None] = {}
        self.returned = ""

    def name_global(self, hint: str, obj: Any) -> str:
        """Return how the code names an object that is no value of its own."""
        if _names.is_own(obj) and obj is not given_names()["device"]:
            return _names.qualified_name(obj)
        name = hint.replace(".", "_")
        if self.globals.get(name, self) is obj:
            return name
        name = self.namespace.create_name(name, obj)
        self.globals[name] = obj
        return name

    def name_type(self, annotation: Any) -> str:
        """Return how the code names a type; annotations that are text stay text."""
        if isinstance(annotation, str):
            return repr(annotation)
        if annotation == ():
            return "()"
        arguments = typing.get_args(annotation)
        origin: Any = typing.get_origin(annotation)
        if not arguments:
            if origin is tuple and annotation is not typing.Tuple:  # noqa: UP006
                return "tuple[()]"
            return self.name_global(_names.type_name(annotation), annotation)
        if origin is types.UnionType:
            return "|".join(map(self.name_type, arguments))
        if origin is typing.Literal:
            inner = ", ".join(map(self.value, arguments))
            return f"{self.name_global('typing.Literal', typing.Literal)}[{inner}]"
        if isinstance(arguments[0], list):  # of a Callable
            arguments = (..., *arguments[1:])
        inner = ",".join("..." if each is ... else self.name_type(each) for each in arguments)
        return f"{self.name_global(_names.type_name(origin), origin)}[{inner}]"

    def value(self, arg: Any) -> str:
        """Return an expression for an argument."""
        if isinstance(arg, Node):
            return repr(arg)
        if isinstance(arg, tuple) and hasattr(arg, "_fields"):
            kind = self.name_global(_names.qualified_name(type(arg)), type(arg))
            return f"{kind}({', '.join(map(self.value, arg))})"
        if isinstance(arg, tuple):
            comma = "," if len(arg) == 1 else ""
            return f"({', '.join(map(self.value, arg))}{comma})"
        if isinstance(arg, list):
            return f"[{', '.join(map(self.value, arg))}]"
        if isinstance(arg, dict):
            return f"{{{', '.join(f'{k!r}: {self.value(v)}' for k, v in arg.items())}}}"
        if isinstance(arg, slice):
            return f"slice({', '.join(map(self.value, (arg.start, arg.stop, arg.step)))})"
        if isinstance(arg, enum.Enum):
            kind = self.name_global(_names.qualified_name(type(arg)), type(arg))
            return f"{kind}.{arg.name}"
        if isinstance(arg, type) or typing.get_args(arg):
            return self.name_type(arg)
        return repr(arg)

    def call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        """Return arguments as they stand between the parentheses of a call."""
        given = [self.value(arg) for arg in args]
        odd = {
            key: arg
            for key, arg in kwargs.items()
            if not key.isidentifier() or keyword.iskeyword(key)
        }
        given += [f"{key} = {self.value(arg)}" for key, arg in kwargs.items() if key not in odd]
        if odd:
            given.append(f"**{self.value(odd)}")
        return ", ".join(given)

    def statement(self, node: Node) -> str | None:
        """Return what computes a node, without the name that it gets; None if it says it all."""
        args, kwargs = node.args, node.kwargs
        if node.op == "call_method":
            return (
                f"{format_target(self.value(args[0]), node.target)}({self.call(args[1:], kwargs)})"
            )
        if node.op == "call_module":
            return f"{format_target(self.root, node.target)}({self.call(args, kwargs)})"
        if node.op == "get_attr":
            return format_target(self.root, node.target)
        return self._function(node)

    def _function(self, node: Node) -> str | None:
        target, args = node.target, node.args
        name = getattr(target, "__name__", "")
        if getattr(target, "__module__", None) == "_operator":
            form = magic_methods.get(name)
            if form is not None and form.count("{}") == len(args) and not node.kwargs:
                return form.format(*map(self.value, args))
            form = inplace_methods.get(name)
            if form is not None and form.count("{}") == len(args) and isinstance(args[0], Node):
                first = self.value(args[0])
                done = form.format(first, *map(self.value, args[1:]))
                self.lines.append(f"{done};  {self._head(node)} = {first}")
                return None
        is_plain = target is getattr and len(args) == 2 and not node.kwargs
        if is_plain and isinstance(args[1], str) and args[1].isidentifier():
            return format_target(self.value(args[0]), args[1])
        called = self.name_global(_names.qualified_name(target), target)
        if node.meta.get("is_wrapped", False):
            self.wrapped.setdefault(called)
        return f"{called}({self.call(args, node.kwargs)})"

    def _head(self, node: Node) -> str:
        """The name that a node's value gets, with its type."""
        kind = "" if node.type is None else f" : {self.name_type(node.type)}"
        return f"{node!r}{kind}"

    def write(self, node: Node, output: Callable[[Any], str]) -> None:
        """Add the line of a node."""
        if node.op == "placeholder":
            self._argument(node)
        elif node.op == "output":
            if node.type is not None:
                self.returned = f" -> {self.name_type(node.type)}"
            self._note_globals(node.args[0])
            self.lines.append(output(node.args[0]))
        elif (text := self.statement(node)) is not None:
            self.lines.append(f"{self._head(node)} = {text}")

    def _note_globals(self, result: Any) -> None:
        """Let what a result is printed as be found, such as the class of a named tuple."""
        self.value(result)

    def _argument(self, node: Node) -> None:
        kind = "" if node.type is None else f" : {self.name_type(node.type)}"
        default = f" = {self.value(node.args[0])}" if node.args else ""
        self.arguments.append(f"{node.target}{kind}{default}")
        plain = node.target.replace("*", "")
        if plain != repr(node):
            self.lines.append(f"{node!r} = {plain}")


class CodeGen:
    """Says how the code of a graph begins, takes its inputs and gives its outputs.

    Subclasses override `gen_fn_def`, `generate_output`, `process_inputs`, `process_outputs` and
    `additional_globals`.
    """

    def __init__(self) -> None:
        self._body_transformer: TransformCodeFunc | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """Return the first line of the function, or all lines before its body.

        Args:
            free_vars: The arguments, with their types and defaults.
            maybe_return_annotation: `` -> type``, or nothing.
        """
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any) -> str:
        """Return the statement that returns *output_args*."""
        return f"return {naming.value(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """Return the values of the placeholders for arguments of a call."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Return the result of a call for what the output node takes."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Return names that the code uses, and what they stand for."""
        return []

    def _gen_python_code(
        self,
        nodes: Iterable[Node],
        root_module: str,
        namespace: Namespace,
        *,
        verbose: bool = False,
        **options: Any,
    ) -> PythonCode:
        steps = [*nodes]
        writer = _Writer(root_module, namespace, {})
        for name, obj in (*self.additional_globals(), *_always_there()):
            writer.name_global(name, obj) if not _is_given(name) else namespace.create_name(
                name, obj
            )
            writer.globals.setdefault(name, obj)
        naming.value = writer.value
        body = self._body(steps, writer, verbose)
        head = self.gen_fn_def(writer.arguments, writer.returned)
        if not any(line.strip() for line in body):
            body = ["pass\n"]
        if self._body_transformer is not None:
            body = self._body_transformer(body)
        wraps = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in writer.wrapped)
        code = "\n".join(f"    {line}" for line in "".join(body).lstrip("\n").split("\n"))
        src = f"\n{wraps}\n\n{head}\n{code}"
        return PythonCode(src, writer.globals, _prologue_start=wraps.count("\n") + 4)

    def _body(self, steps: list[Node], writer: _Writer, verbose: bool) -> list[str]:
        """The lines of the function's body."""
        dropped = _dropped_after(steps)
        body: list[str] = []
        place: str | None = None
        for node in steps:
            if verbose and node.op != "placeholder" and (place != (now := _place(node))):
                place = now
                body.append(
                    f"\n# {now}\n" if now else f"{'' if not body else chr(10)}{_NO_PLACE}\n"
                )
            writer.lines = []
            writer.write(node, self.generate_output)
            for line in writer.lines:
                if node.op in ("placeholder", "output"):
                    body.append(f"{line}\n")
                    continue
                ending = [*dropped.get(node, ()), *(() if node.users else (node,))]
                names = " = ".join([*map(repr, ending), "None"])
                body.append(f"{line};  {names}\n" if ending else f"{line}\n")
        return body


_NO_PLACE = "# No stacktrace found for following nodes"


def _is_given(name: str) -> bool:
    return name in given_names()


def _always_there() -> Iterator[tuple[str, Any]]:
    yield from given_names().items()


def _place(node: Node) -> str:
    """Where the traced program made a node, in one line."""
    trace = node.stack_trace or ""
    found = re.findall(r'File "(.+)", line (\d+), in (.+)\n\s+(.+)', trace)
    if not found:
        return ""
    file, line, name, code = found[-1]
    return f"File: {file}:{line} in {name}, code: {code.strip()}"


# --- functions that take and give collections ----------------------------------------------------


class _PyTreeInfo(NamedTuple):
    """What a function takes and gives: names of arguments, their collections and the result's."""

    orig_args: list[str]
    in_spec: TreeSpec
    out_spec: TreeSpec | None


class _PyTreeCodeGen(CodeGen):
    """The code of a function that was traced with collections among its arguments.

    Args:
        pytree_info: What it takes and gives.
    """

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        """Return the leaves of the arguments."""
        from ._pytree import tree_flatten_spec

        return tree_flatten_spec(tuple(inputs), self.pytree_info.in_spec)

    def process_outputs(self, out: Any) -> Any:
        """Return the result that has these leaves."""
        if not isinstance(out, list | tuple):
            out = [out]
        if self.pytree_info.out_spec is None:
            raise AssertionError("the function has not been traced to its end")
        return pytree.tree_unflatten(out, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """Return the first line, and one that takes the arguments apart."""
        names = self.pytree_info.orig_args
        has_self = bool(names) and names[0] == "self"
        free_vars.insert(0, "self")
        head = super().gen_fn_def([*names], maybe_return_annotation)
        if len(free_vars) > 1:  # a name may have a type and a default, which belong to the head
            leaves = [re.split(r"[ :=]", each)[0] for each in free_vars[1:]]
            head += (
                f"\n    {', '.join(leaves)}, = fx_pytree.tree_flatten_spec("
                f"[{', '.join(names[1:] if has_self else names)}], self._in_spec)"
            )
        return head

    def generate_output(self, output_args: Any) -> str:
        """Return the statement that puts the result together."""
        given = naming.value(output_args)
        if self.pytree_info.out_spec is None:
            return f"return {given}"
        return f"return pytree.tree_unflatten({given}, self._out_spec)"
