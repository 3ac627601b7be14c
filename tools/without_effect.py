"""List what torch programs may ask for here without effect: `docs/namespaces.md` has the list.

Names and arguments are found in the source, so the list cannot forget one: a public function that
only returns a constant or what it was given does nothing, and an argument that its function never
reads has no effect. Operators in C name such arguments by ``(void)argument;``. `_MEANT` has what is
found and means what it says, `_KEPT` what only the getter of a setting reads.

    python tools/without_effect.py           print the list
    python tools/without_effect.py --write   put it into docs/namespaces.md
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "shmtensor"
PAGE = ROOT / "docs" / "namespaces.md"
BEGIN = "<!-- without effect: tools/without_effect.py --write -->"
END = "<!-- end of what has no effect -->"

#: Folders whose names are torch's. What is ours alone has no torch programs to please.
_TORCHS = (
    "_core _functorch _torch amp autograd cpu distributed distributions func functional futures "
    "hub library linalg masked monitor nn optim overrides profiler quasirandom random "
    "serialization signal sparse special storage testing types utils"
).split()
#: Folders inside them that hold no names of torch's.
_NOT_TORCHS = ("testing/_selftest", "testing/processes")
#: What is found and is no stand-in, by the beginning of its name, and why.
_MEANT = {
    "Tensor.cuda": "refuses",
    "Tensor.xpu": "refuses",
    "Tensor.mtia": "refuses",
    "nn.modules.module.Module.": "refuses",
    "distributions.": "a case of an interface",
    "distributed.Collectives": "a case of an interface",
    "distributed.algorithms.join.JoinHook": "to be overridden",
    "utils.flop_counter.": "a case of an interface",
    "utils.data.collate.": "a case of an interface",
    "nn.modules.linear.Identity": "what its name says",
    "nn.attention.noop_mask": "what its name says",
    "nn.utils.prune.": "a case of an interface",
    "nn.functional.unpooling.": "told apart by the function that calls it",
    "Alias.": "a case of an interface",
    "fx.Tracer.is_leaf_module": "to be overridden",
    "is_contiguous": "a case of an interface",
    "rebuild_": "a message's format",
}
#: How private folders and modules are known to programs.
_SHOWN = {"_absent_devices": "cuda", "_functorch": "func", "eager_transforms": "_eager_transforms"}
#: Settings that only their getter reads, and why they change nothing.
_KEPT = {
    "set_float32_matmul_precision": "products are always of the highest precision",
    "set_num_interop_threads": "no thread pool runs between operators",
    "backends.*": "flags of libraries that are not here; those of `nn.attention` have an effect",
    "compiler.config, _dynamo.config, fx.config": "settings of compilers that are not here",
    "compiler.set_default_backend": "nothing is compiled",
    "cuda.amp, amp.GradScaler": "disabled without a device",
    "profiler.profile(with_modules, experimental_config)": "facts of other recorders",
    "DataLoader(pin_memory, pin_memory_device)": "warns that there is no accelerator, as in torch",
    "optim.*(capturable)": "there are no graphs of devices",
}

#: Arguments of operators that programs give, and that a function in C may leave unread.
_C_ARGUMENTS = ("non_blocking", "memory_format", "sorted", "driver", "path", "stable")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _body(function: _Function) -> list[ast.stmt]:
    """The statements without the docstring."""
    body = function.body
    has_text = (
        isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    )
    return body[1:] if has_text else body


def _does_nothing(function: _Function) -> bool:
    """Does it only return a constant, or one of its arguments as it is?"""
    arguments = {each.arg for each in _arguments(function)}
    for statement in _body(function):
        if isinstance(statement, ast.Pass):
            continue
        if not isinstance(statement, ast.Return):
            return False
        value = statement.value
        if isinstance(value, ast.Name) and value.id in arguments - {"self", "cls"}:
            continue
        if value is not None and not isinstance(value, ast.Constant):
            return False
        if isinstance(value, ast.Constant) and value.value is not None:
            return False  # an answer, such as that there is no device
    return True


def _answers(function: _Function) -> bool:
    """Does it only return a constant, such as that there is no device?"""
    body = _body(function)
    if len(body) != 1 or not isinstance(body[0], ast.Return):
        return False
    value = body[0].value
    is_empty = (
        isinstance(value, (ast.List, ast.Dict, ast.Tuple))
        and not list(ast.iter_child_nodes(value))[1:]
    )
    return is_empty or (isinstance(value, ast.Constant) and value.value is not None)


def _refuses(function: _Function) -> bool:
    """Does it do nothing but raise?"""
    body = _body(function)
    return bool(body) and isinstance(body[-1], ast.Raise) and len(body) == 1


def _arguments(function: _Function) -> list[ast.arg]:
    a = function.args
    rest = [each for each in (a.vararg, a.kwarg) if each is not None]
    return [*a.posonlyargs, *a.args, *a.kwonlyargs, *rest]


def _unread(function: _Function) -> list[str]:
    """The arguments that the body never mentions."""
    read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    names = [each.arg for each in _arguments(function)]
    return [
        name
        for name in names
        if name not in read
        and not name.startswith("_")
        and name not in ("self", "cls", "args", "kwargs")
    ]


def _is_only_declared(function: _Function) -> bool:
    names = {
        node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        for decorator in function.decorator_list
        for node in ast.walk(decorator)
    }
    body = _body(function)
    is_stub = len(body) == 1 and isinstance(body[0], ast.Expr)
    return bool(names & {"overload", "abstractmethod", "setter"}) or is_stub


def _functions(
    tree: ast.Module | ast.ClassDef, inside: str = ""
) -> Iterator[tuple[str, _Function]]:
    """Public functions and methods; a constructor by the name of its class."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _functions(node, f"{inside}{node.name}.")
        elif isinstance(node, _Function) and not _is_only_declared(node):
            if node.name == "__init__":
                yield inside.removesuffix("."), node
            elif not node.name.startswith("_"):
                yield inside + node.name, node


def _module(path: Path) -> str:
    """The name by which programs call a module; private ones by the package they belong to."""
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    if parts[0] in ("_core", "_torch"):
        parts = parts[1:]
    parts = [_SHOWN.get(part, part) for part in parts]
    return ".".join(part for part in parts if not part.startswith("_"))


def _files() -> Iterator[Path]:
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE).as_posix()
        first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if first in _TORCHS and not inside.startswith(_NOT_TORCHS):
            yield path


def _in_python() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Modules, names in them, and arguments without effect; none: the call has none."""
    for path in _files():
        for name, function in _functions(ast.parse(path.read_text())):
            if _refuses(function) or _answers(function):
                continue
            if _does_nothing(function):
                yield _module(path), name, ()
            elif unread := _unread(function):
                yield _module(path), name, tuple(unread)


def _implementations() -> dict[str, str]:
    """The operator of each C function that the spec names."""
    operators: dict[str, str] = {}
    for path in sorted((ROOT / "csrc" / "spec" / "ops").rglob("*.yaml")):
        operator = ""
        for line in path.read_text().splitlines():
            if line.startswith("- op: "):
                operator = line[6:].strip().partition(".")[0]
            elif found := re.match(
                r"\s+(?:impl|composite|SparseCPU|SparseCsrCPU): (shmt__\w+)$", line
            ):
                operators[found[1]] = operator
    return operators


def _in_c() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The same of operators."""
    operators = _implementations()
    for path in sorted((ROOT / "csrc" / "ops").rglob("*.c")):
        for name, body in re.findall(
            r"^shmt_status (shmt__\w+)\([^{;]*\{\n(.*?)^\}", path.read_text(), re.M | re.S
        ):
            unread = re.findall(r"^ +\(void\)(\w+);", body, re.M)
            operator = operators.get(name, "_")
            shown = tuple(each for each in unread if each in _C_ARGUMENTS)
            if shown and not operator.startswith("_"):
                yield "", operator, shown


def found() -> dict[str, dict[str, tuple[str, ...]]]:
    """What has no effect, by module and name: the arguments, or none for all of a call."""
    modules: dict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
    for module, name, arguments in [*_in_python(), *_in_c()]:
        full = f"{module}.{name}" if module else name
        if not full.startswith(tuple(_MEANT)):
            modules[module][name] = arguments
    return modules


def table() -> str:
    """The list as Markdown."""
    rows = []
    for module, names in sorted(found().items()):
        shown = [
            f"`{name}({', '.join(arguments)})`" if arguments else f"`{name}`"
            for name, arguments in sorted(names.items())
        ]
        rows.append(f"| `{module or 'shmtensor'}` | {', '.join(shown)} |")
    kept = [f"| `{name}` | {why} |" for name, why in _KEPT.items()]
    return "\n".join(
        [
            "| module | names that do nothing, and arguments that are not read |",
            "|---|---|",
            *rows,
            "",
            "| setting that is only kept | why it changes nothing |",
            "|---|---|",
            *kept,
        ]
    )


def page_with(text: str) -> str:
    """`docs/namespaces.md` with *text* for its list."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page_with(table()))
    else:
        print(table())
