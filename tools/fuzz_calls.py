"""Random calls of operators as lines of Python, and the process that makes them.

Every line depends only on the seed and its number. What it is made of: the operator table of the
specification, the cases that the tests call it with (``tests/ops/spec``), and random changes of
dtypes, shapes, strides and numbers. ``fuzz_ops.py`` runs this file in child processes.
"""

from __future__ import annotations

import gc
import inspect
import keyword
import mmap
import os
import random
import resource
import sys
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "csrc"), str(ROOT / "tests")]

from fuzz_values import NAMES  # noqa: E402
from ops.spec import cases as tables  # noqa: E402
from ops.spec import kinds  # noqa: E402
from ops.spec.arguments import DTYPE, DTYPES, STORAGE, T  # noqa: E402
from ops.spec.entries import model  # noqa: E402

import shmtensor as st  # noqa: E402
from codegen.spec.model import Operator  # noqa: E402
from codegen.spec.schema import Argument  # noqa: E402

#: What a call may raise.
ALLOWED = (
    ModuleNotFoundError,  # of what gives torch's own tensors, where there is no torch
    TypeError,
    ValueError,
    RuntimeError,
    IndexError,
    MemoryError,
    OverflowError,
    NotImplementedError,
    AttributeError,
    AssertionError,  # torch's own for the shapes of multi-head attention
    ZeroDivisionError,  # a norm of order 0 in lp_pool
    BufferError,  # what DLPack cannot say of a tensor
)
MEMORY = 1 << 30
LAYERS = ("nn.functional", "linalg", "fft", "special", "signal.windows", "masked", "")
#: Sizes of the file through which the parent sees the call that is being made.
LINE_BYTES = 1 << 16

INTS = [0, 1, -1, 2, 3, 5, 7, -2, 64, 100, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63)]
FLOATS = ["0.0", "-0.0", "0.5", "1.5", "-2.5", "1e-300", "1e300", "nan", "inf", "-inf", "1e10"]
SIZES = [0, 1, 1, 2, 3, 4, 5, 7, 17]
LAYOUTS = (
    "dense dense transposed stepped shifted grouped expanded expanded overlapping behind lazy "
    "negated named readonly"
).split()
#: Operators whose results tell how their arguments lie in memory, or that need it to be said.
OF_LAYOUT = frozenset(
    "is_contiguous stride data_ptr is_set_to _unique unique_dim empty_like.memory_format".split()
)
#: Operators that divide what rounding leaves of equal numbers, or 0 by 0: one or NaN as the order
#: of a sum has it, in torch too.
OF_ROUNDING = frozenset({"corrcoef"})
#: Functions of the package that change settings of the process, or work on files.
SETTINGS = (
    "set_ get_ use_ manual_seed seed initial_seed load save fork_rng from_file is_ are_ typename"
).split()
TEXTS = [
    "none",
    "mean",
    "sum",
    "reflect",
    "linear",
    "fro",
    "nuc",
    "L",
    "U",
    "reduced",
    "",
    "x" * 40,
]


# --- random arguments ----------------------------------------------------------------------------


class Line:
    """One random call as text."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.dtype = rng.choice(DTYPES) if rng.random() < 0.6 else "float32"
        self.wild = rng.choice((0.02, 0.1, 0.3, 0.6))
        self.shape = tuple(rng.choice(SIZES) for _ in range(rng.choice((0, 1, 2, 2, 3, 4, 5))))
        self.grad = rng.random() < 0.25
        self.meta = rng.random() < 0.03

    def odd(self) -> bool:
        """Decide whether this one is to be strange."""
        return self.rng.random() < self.wild

    def tensor(self, given: T | None = None) -> str:
        """A tensor, near *given* when there is one."""
        rng = self.rng
        if self.odd() and rng.random() < 0.06:
            return rng.choice(("None", "3", "'text'", "2.5", "[]"))
        if self.odd() and rng.random() < 0.1:
            return f"huge('{rng.choice(DTYPES)}', {self.many()})"
        dtype = given.dtype_for(self.dtype) if given else self.dtype
        dtype = rng.choice(DTYPES) if self.odd() and rng.random() < 0.5 else dtype
        shape = given.shape if given and not self.odd() else self.changed(given)
        if self.odd() and rng.random() < 0.03:
            shape = self.many()
        elif self.meta and rng.random() < 0.2:
            shape = rng.choice(((2**40,), (2**31, 2**31), (2**62, 4), (2**63 - 1,)))
        low, high = (given.low, given.high) if given and not self.odd() else (-3, 3)
        if self.odd():
            low, high = rng.choice(((0, 1), (-100, 100), (0, 5), (-1, 0), (0, 1e6)))
        layout = rng.choice(LAYOUTS) if rng.random() < 0.5 else "dense"
        text = f"make('{dtype}', {shape}, {rng.randrange(1000)}, '{layout}'"
        text += f", low={low}, high={high}" if (low, high) != (-3, 3) else ""
        real = dtype.startswith(("float", "bfloat", "complex"))
        text += ", grad=True" if self.grad and real and rng.random() < 0.6 else ""
        text += ", device='meta'" if self.meta and rng.random() < 0.8 else ""
        return text + ")"

    def many(self) -> tuple[int, ...]:
        """A shape of many elements."""
        return self.rng.choice(
            ((2**15,), (200, 200), (2**40, 0), (0, 2**62), (2**8, 1, 2**7), (1,) * 12, (70000,))
        )

    def changed(self, given: T | None) -> tuple[int, ...]:
        """A shape near that of *given*."""
        rng = self.rng
        shape = list(given.shape if given else self.shape)
        if given and rng.random() < 0.3:
            return self.shape
        for _ in range(rng.choice((1, 1, 2))):
            what = rng.randrange(4)
            if what == 0 and shape:
                shape[rng.randrange(len(shape))] = rng.choice(SIZES)
            elif what == 1 and shape:
                del shape[rng.randrange(len(shape))]
            elif what == 2 and len(shape) < 7:
                shape.insert(rng.randrange(len(shape) + 1), rng.choice(SIZES))
            elif shape:
                shape[-1] = shape[0]
        return tuple(shape)

    def number(self, *, whole: bool) -> str:
        """A number, now and then something else."""
        rng = self.rng
        if rng.random() < 0.03:
            return rng.choice(("None", "'text'", "1j", "True", "2**64", "-(2**70)", "[]"))
        if whole or rng.random() < 0.4:
            return str(rng.choice(INTS[:9] if rng.random() < 0.7 else INTS))
        return f"float('{rng.choice(FLOATS)}')"

    def numbers(self, n: int) -> str:
        """A list of about *n* ints."""
        rng = self.rng
        if rng.random() < 0.1:
            return self.number(whole=True)
        n = rng.choice((n, n, n, n, 0, 1, 2, 3, 4, 6, 9)) if self.odd() else n
        return "[" + ", ".join(self.number(whole=True) for _ in range(n)) + "]"

    def value(self, given: Any) -> str:
        """*given*, a value of a case, or something near it."""
        if isinstance(given, T):
            return self.tensor(given)
        if given is DTYPE:
            name = self.rng.choice(DTYPES) if self.odd() else self.dtype
            return f"st.{name}"
        if given is STORAGE:
            return "st.zeros(64, dtype=st.uint8).untyped_storage()"
        if isinstance(given, list) and any(isinstance(v, T) for v in given):
            kept = [v for v in given if not (self.odd() and self.rng.random() < 0.2)]
            return "[" + ", ".join(self.value(v) for v in kept) + "]"
        if not self.odd():
            return self._text(given)
        if isinstance(given, list):
            return self.numbers(len(given))
        if isinstance(given, bool):
            return str(not given)
        if isinstance(given, str):
            return repr(self.rng.choice(TEXTS))
        return self.number(whole=isinstance(given, int))

    @staticmethod
    def _text(given: Any) -> str:
        if isinstance(given, float) and given in (float("inf"), -float("inf")):
            return f"float('{given}')"
        text = repr(given)
        return text.replace("torch.", "st.").replace("device(", "st.device(")

    def of_schema(self, argument: Argument) -> str:
        """A value of the type that the schema says."""
        kind, rng = argument.type, self.rng
        if kind.optional and rng.random() < 0.5:
            return "None"
        if kind.is_tensor_list:
            return "[" + ", ".join(self.tensor() for _ in range(rng.choice((0, 1, 2, 2, 3)))) + "]"
        if kind.is_tensor:
            return self.tensor()
        if kind.is_list:
            return self.numbers(kind.size or rng.choice((0, 1, 2, 2, 3)))
        if kind.base == "ScalarType":
            return f"st.{rng.choice(DTYPES)}"
        if kind.base == "bool":
            return rng.choice(("True", "False"))
        if kind.base == "str":
            return repr(rng.choice(TEXTS))
        if kind.base in ("int", "float", "Scalar"):
            return self.number(whole=kind.base == "int")
        return "None"


def _case_arguments(line: Line, op: Operator) -> tuple[list[str], dict[str, str]] | None:
    try:
        known = tables.cases(op.entry)
    except tables.NoCase:
        return None
    one = line.rng.choice(known)
    args = [line.value(v) for v in one.args]
    named = {key: line.value(v) for key, v in one.kwargs.items()}
    return args, named


def _schema_arguments(line: Line, op: Operator) -> tuple[list[str], dict[str, str]]:
    args, named = [], {}
    for argument in op.schema.arguments:
        if argument.is_out or (argument.default is not None and line.rng.random() < 0.6):
            continue
        if argument.keyword_only or len(args) < op.schema.arguments.index(argument):
            named[argument.name] = line.of_schema(argument)
        else:
            args.append(line.of_schema(argument))
    return args, named


def _output(line: Line, args: list[str], n: int) -> str:
    rng = line.rng
    if rng.random() < 0.25 and any(a.startswith("make(") for a in args):
        at = rng.choice([i for i, a in enumerate(args) if a.startswith("make(")])
        args[at] = f"(x := {args[at]})"
        same = ("x", "x", "x.t()", "x[1:]", "x[..., ::2]", "x.view(-1)[1:]", "x.transpose(0, -1)",
                "x.as_strided((3, 4), (1, 1), 0)", "x[:1].expand(x.shape)")  # fmt: skip
        texts = [rng.choice(same) for _ in range(n)]
    else:
        texts = [line.tensor() if line.odd() else f"st.empty(0, dtype=st.{line.dtype})"
                 for _ in range(n)]  # fmt: skip
    return texts[0] if n == 1 else "(" + ", ".join(texts) + ",)"


def _operator_line(line: Line) -> str:
    rng = line.rng
    op = rng.choice(model().operators)
    made = _case_arguments(line, op) if rng.random() < 0.85 else None
    args, named = made or _schema_arguments(line, op)
    if "polynomial" in op.schema.name:  # a step for every degree
        args = [text.replace("high=1000000.0", "high=100") for text in args]
    outs = sum(a.is_out for a in op.schema.arguments)
    if outs:
        named["out"] = _output(line, args, outs)
    method = not outs and "method" in op.entry.variants and args and rng.random() < 0.3
    if method and "(" in args[0] and args[0][0] in "mh":
        name = f"{args.pop(0)}.{op.schema.name}"
    else:
        overload = op.schema.overload or "default"
        packet = f"st.ops.aten.{op.schema.name}"
        reserved = keyword.iskeyword(overload)
        name = f"getattr({packet}, '{overload}')" if reserved else f"{packet}.{overload}"
    texts = [*args, *(f"{k}={v}" for k, v in named.items())]
    if name.startswith(("st.", "getattr(")) and rng.random() < 0.4 and _is_comparable(op, texts):
        return f"agree({', '.join([name, *texts])})"
    return f"{name}({', '.join(texts)})"


def _is_comparable(op: Operator, texts: list[str]) -> bool:
    """Must the operator's result be the same for tensors of other strides?"""
    unlike = kinds.OF_STORAGE | kinds.UP_TO_PHASE | kinds.NEEDS_STRIDES | OF_LAYOUT | OF_ROUNDING
    if op.entry.name in unlike:
        return False
    if kinds.is_undefined(op.entry) or "geometry" in op.entry.tags:
        return False
    several = ("overlapping", "expanded", "huge", "x :=")  # written elements that lie together
    return not (op.schema.written and any(word in text for word in several for text in texts))


def _index_line(line: Line) -> str:
    """``x[...]``, or an assignment to it."""
    rng = line.rng
    x = line.tensor()
    parts = [_index(line) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4)))]
    if len(parts) != 1 or rng.random() < 0.3:
        parts = ["(" + "".join(f"{part}, " for part in parts) + ")"]
    if rng.random() < 0.5:
        return f"({x}).__getitem__({parts[0]})"
    value = line.tensor() if rng.random() < 0.6 else line.number(whole=False)
    return f"assign({x}, {parts[0]}, {value})"


def _index(line: Line) -> str:
    rng = line.rng
    small = [0, 0, 1, -1, 2, -3, 16, 2**63 - 1, -(2**63), 2**64]
    kind = rng.randrange(12)
    if kind < 3:
        return str(rng.choice(small))
    if kind < 6:
        ends = [rng.choice(["None", "None", *map(str, small)]) for _ in range(2)]
        return f"slice({ends[0]}, {ends[1]}, {rng.choice(('None', 1, 2, 3, 0, -1, 2**62))})"
    if kind == 6:
        return rng.choice(("None", "...", "True", "False", "'text'", "2.5", "[]", "[0, 1]"))
    if kind == 7:
        return f"[{rng.choice(small)}, {rng.choice(small)}]"
    shape = line.shape if rng.random() < 0.6 else tuple(rng.choice(SIZES) for _ in range(2))
    dtype = rng.choice(("bool", "bool", "int64", "int64", "int32", "uint8", "float32"))
    layout = rng.choice(LAYOUTS) if rng.random() < 0.5 else "dense"
    return f"make('{dtype}', {shape}, {rng.randrange(1000)}, '{layout}', low=0, high=2)"


def _layer_functions() -> list[tuple[str, list[inspect.Parameter]]]:
    found = []
    for layer in LAYERS:
        module: Any = st
        for part in layer.split(".") if layer else []:
            module = getattr(module, part)
        for name in sorted(dir(module) if not layer else getattr(module, "__all__", dir(module))):
            function = getattr(module, name, None)
            if name.startswith("_") or not callable(function) or isinstance(function, type):
                continue
            if not layer and (not inspect.isfunction(function) or name.startswith(tuple(SETTINGS))):
                continue
            try:
                parameters = list(inspect.signature(function).parameters.values())
            except (TypeError, ValueError):
                continue
            found.append((".".join(["st", *([layer] if layer else []), name]), parameters))
    return found


_WHOLE = ("dim", "n", "kernel", "stride", "padding", "dilation", "groups", "size", "num", "s", "k")


def _parameter(line: Line, parameter: inspect.Parameter) -> str:
    rng, name = line.rng, parameter.name
    kind = str(parameter.annotation)
    if name in ("reduction", "mode", "padding_mode", "norm", "ord", "driver", "UPLO"):
        return repr(rng.choice(TEXTS))
    if "bool" in kind or isinstance(parameter.default, bool):
        return rng.choice(("True", "False"))
    if name == "niter":
        return str(rng.choice((0, 1, 2, -1)))
    if name.startswith(_WHOLE) or "int" in kind:
        return line.numbers(2) if rng.random() < 0.4 else line.number(whole=True)
    if isinstance(parameter.default, float) or "float" in kind:
        return line.number(whole=False)
    if name in ("target", "indices", "index") and rng.random() < 0.5:
        return f"make('int64', {line.shape}, {rng.randrange(1000)}, low=0, high=4)"
    return line.tensor()


def _layer_line(line: Line, functions: list[tuple[str, list[inspect.Parameter]]]) -> str:
    name, parameters = line.rng.choice(functions)
    texts = []
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_KEYWORD,):
            continue
        if parameter.default is not parameter.empty and line.rng.random() < 0.6:
            continue
        value = _parameter(line, parameter)
        positional = parameter.kind is parameter.VAR_POSITIONAL
        texts.append(value if positional else f"{parameter.name}={value}")
    return f"{name}({', '.join(texts)})"


FUNCTIONS = _layer_functions()


def line_of(seed: int, number: int) -> str:
    """Line *number* of the stream *seed*."""
    line = Line(random.Random(f"{seed}:{number}"))
    which = line.rng.random()
    if which < 0.2:
        text = _layer_line(line, FUNCTIONS)
    elif which < 0.3:
        text = _index_line(line)
    else:
        text = _operator_line(line)
    return f"back({text})" if line.grad else text


# --- the child -----------------------------------------------------------------------------------


def run_line(text: str) -> str:
    """Make one call; gives what is wrong with its exception, or an empty text."""
    try:
        eval(text, dict(NAMES))
    except ALLOWED as error:
        return "" if str(error) or type(error) is MemoryError else f"{type(error).__name__}()"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _blocks() -> int:
    gc.collect()
    stats = st.memory.memory_stats()
    return int(stats["n_allocations"] - stats["n_frees"])


def run(seed: int, first: int, count: int, path: str) -> None:
    """Make lines *first* to *first* + *count*; the file at *path* shows the one being made.

    The file holds the line's number, a newline and the line. Findings go to standard output, one a
    line: a text, a tab, and the call.
    """
    warnings.simplefilter("ignore")
    with open(path, "r+b") as file:
        view = mmap.mmap(file.fileno(), LINE_BYTES)
    _limit_memory()
    run_line("st.nn.functional.relu(make('float32', (2,)))")
    st.set_num_threads(1 + seed % 2)
    before = _blocks()
    for number in range(first, first + count):
        text = line_of(seed, number)
        data = f"{number}\n{text}".encode()[: LINE_BYTES - 1] + b"\0"
        view[: len(data)] = data
        wrong = run_line(text)
        if wrong:
            print(f"{' '.join(wrong.split())}\t{text}", flush=True)
    leaked = _blocks() - before
    if leaked > 0:
        print(f"{leaked} tensor blocks leaked\tlines {first} to {first + count}", flush=True)
    os.write(1, b"done\n")


if __name__ == "__main__":
    if sys.argv[1] == "--line":
        warnings.simplefilter("ignore")
        print(run_line(sys.argv[2]) or "ok")
    else:
        run(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
