"""Lowering of the derivative language: Python expressions become C calls on operators.

An expression is parsed with :mod:`ast`. Names have static types (those of the schema), so the
overload of each call is chosen here, and the C is straight-line: one local per tensor, released
after its last use. What is calculated at run time with numbers of unknown kind goes through
``ops/scalar_expression.h``.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from dataclasses import replace

from codegen.expressions.functions import call_function
from codegen.expressions.lists import (
    lower_comprehension,
    lower_join,
    lower_range,
    lower_slice,
    repeat_int,
)
from codegen.expressions.reuse import overwrite
from codegen.expressions.values import (
    BOOL,
    DEVICE,
    DTYPE,
    FLOAT,
    FLOATS,
    INT,
    INTS,
    MAYBE_TENSOR,
    MEMORY_FORMAT,
    NONE,
    NUMBERS,
    SCALAR,
    STR,
    TENSOR,
    TENSORS,
    TUPLE,
    Value,
    bind,
    cost,
    is_number,
    unwrapped,
)
from codegen.spec.c_types import c_name, c_string, c_type, default_expression
from codegen.spec.errors import SpecError
from codegen.spec.model import Model, Operator
from codegen.spec.schema import Type

OPERATORS = {
    ast.Add: ("add", "ADD", "+"),
    ast.Sub: ("sub", "SUB", "-"),
    ast.Mult: ("mul", "MUL", "*"),
    ast.Div: ("div", "DIV", "/"),
    ast.Pow: ("pow", "POW", ""),
}
_COMPARISONS = {
    ast.Eq: ("eq", "=="),
    ast.NotEq: ("ne", "!="),
    ast.Lt: ("lt", "<"),
    ast.LtE: ("le", "<="),
    ast.Gt: ("gt", ">"),
    ast.GtE: ("ge", ">="),
}
_MEMORY_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
SHAPE_FUNCTIONS = ("sizes", "strides", "dim", "numel", "dtype", "device", "size")


#: Names that :meth:`Lowering.local` may give.
_LIKE_OURS = re.compile(r"(t|n|i|shape|list|element)\d+")
_CALL = re.compile(r" *SHMT_TRY\(((?:shmt|composite)_\w+\(.*\))\);\n")
_DECLARATION = re.compile(r"( *)SHMT_AUTO\(shmt_tensor\) (\w+) = 0;")


def _is_tensor(kind: Type) -> bool:
    return kind.is_tensor


def _is_and(node: ast.BoolOp) -> bool:
    return isinstance(node.op, ast.And)


def _present(value: Value) -> Value:
    """An optional value that is there."""
    kind = value.type
    if not kind.optional or kind.is_list or kind.base == "Scalar":
        return value
    code = f"{value.code}.value" if kind.base in NUMBERS else value.code
    return replace(value, code=code, type=Type(kind.base))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _release_early(lines: list[str], temporaries: set[str]) -> list[str]:
    """Release each temporary after its last use, where calls that may need the memory follow."""
    releases: dict[int, str] = {}
    for at, line in enumerate(lines):
        found = _DECLARATION.match(line)
        if not found or found[2] not in temporaries:
            continue
        depth, name = len(found[1]), found[2]
        end = next((i for i in range(at, len(lines)) if _indent(lines[i]) < depth), len(lines))
        uses = [i for i in range(at, end) if re.search(rf"\b{name}\b", lines[i])]
        last = uses[-1]
        while _indent(lines[last]) > depth or lines[last].strip() == "} else {":
            last += 1
        given = (f"SHMT_TAKE({name})", f"shmt__finish_reuse(&{name}", "return")
        is_given = any(text in lines[uses[-1]] for text in given)
        if not is_given and any("SHMT_TRY(" in later for later in lines[last + 1 : end]):
            release = f"{found[1]}shmt__tensor_release(SHMT_TAKE({name}));\n"
            releases[last] = releases.get(last, "") + release
    return [line + releases.get(i, "") for i, line in enumerate(lines)]


class Lowering:
    """Turns one expression into statements.

    Args:
        model: The operators that may be called.
        where: ``file:line`` of the expression.
        load: Gives the value of a name, or None when there is no such name; it may emit statements.
        shape: Gives ``sizes(name)`` and the like for a name whose tensor is not kept, or None.
        needs: Gives the C test of ``needs(name)`` or ``given(name)``, or None.
    """

    def __init__(
        self,
        model: Model,
        where: str,
        load: Callable[[Lowering, str], Value | None],
        shape: Callable[[str, str], Value | None] = lambda function, name: None,
        needs: Callable[[str], str | None] = lambda name: None,
        indent: str = "  ",
    ) -> None:
        self.model = model
        self.where = where
        self.load = load
        self.shape = shape
        self.needs = needs
        self.indent = indent
        self.lines: list[str] = []
        self.counter = [0]
        self.temporaries: set[str] = set()
        #: C names in use, where the names of blocks become those of C locals; None: they do not.
        self.taken: set[str] | None = None
        #: The spec file of a composite, which calls internal composites without dispatch: those
        #: of the same file, and C functions. Empty elsewhere.
        self.section = ""
        self.parent: Lowering | None = None
        self.loaded: dict[str, Value] = {}
        self.bound: dict[str, Value] = {}

    def fail(self, message: str) -> SpecError:
        return SpecError(self.where, message)

    def find_loaded(self, name: str) -> Value | None:
        """A value that :attr:`load` has already fetched in this scope or one around it."""
        scope: Lowering | None = self
        while scope is not None:
            if name in scope.loaded:
                return scope.loaded[name]
            scope = scope.parent
        return None

    def inner(self) -> Lowering:
        """A lowering of statements inside a block of this one."""
        inner = Lowering(
            self.model, self.where, self.load, self.shape, self.needs, self.indent + "  "
        )
        inner.counter, inner.temporaries = self.counter, self.temporaries
        inner.taken, inner.section = self.taken, self.section
        inner.parent = self
        return inner

    def branches(self, test: ast.expr) -> tuple[Lowering, Lowering]:
        """Lowerings for where *test* holds and where not; ``x is None`` tells them what x is."""
        holds, fails = self.inner(), self.inner()
        parts = test.values if isinstance(test, ast.BoolOp) and _is_and(test) else [test]
        for part in parts:
            if not isinstance(part, ast.Compare) or not isinstance(part.left, ast.Name):
                continue
            if isinstance(part.ops[0], ast.IsNot):
                holds.bound[part.left.id] = _present(self.lower(part.left))
            elif isinstance(part.ops[0], ast.Is) and len(parts) == 1:
                fails.bound[part.left.id] = _present(self.lower(part.left))
        return holds, fails

    def emit(self, line: str) -> None:
        """Add a statement."""
        self.lines.append(f"{self.indent}{line}\n")

    def local(self, prefix: str) -> str:
        """A fresh local name."""
        while True:
            self.counter[0] += 1
            name = f"{prefix}{self.counter[0]}"
            if not self.taken or name not in self.taken:
                return name

    def fresh(self, name: str) -> str:
        """A C name like *name* that is not taken; it is afterwards."""
        assert self.taken is not None
        stem, number = c_name(name), 1
        if _LIKE_OURS.fullmatch(stem):
            stem = f"{stem}_"
        local = stem
        while local in self.taken:
            number += 1
            local = f"{stem}_{number}"
        self.taken.add(local)
        return local

    def declares(self, local: str) -> bool:
        """Is *local* a C local of this block, not of one around it?"""
        declaration = re.compile(rf" *\w[\w()]*[ *]+{local}( = .*)?;\n")
        return any(declaration.fullmatch(line) for line in self.lines)

    def rename(self, old: str, new: str) -> None:
        """Give a local of this block another name."""
        self.lines = [re.sub(rf"\b{old}\b", new, line) for line in self.lines]
        self.bound = {name: value.renamed(old, new) for name, value in self.bound.items()}
        if old in self.temporaries:
            self.temporaries.add(new)

    def temporary(self) -> str:
        """Declare a local tensor, NULL at first, that is released after its last use."""
        name = self.local("t")
        self.temporaries.add(name)
        self.emit(f"SHMT_AUTO(shmt_tensor) {name} = 0;")
        return name

    def text(self) -> str:
        """The statements so far, with tensors released where they are not needed any more."""
        return "".join(_release_early(self.lines, self.temporaries))

    # --- expressions ----------------------------------------------------------------------------

    def lower(self, node: ast.expr) -> Value:
        """Emit what *node* needs and return its value."""
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.BinOp):
            return self._binary(node)
        if isinstance(node, ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.BoolOp):
            return self._and_or(node)
        if isinstance(node, ast.IfExp):
            return self._if(node)
        if isinstance(node, ast.List):
            return self._list(node)
        if isinstance(node, ast.Tuple):
            items = [self.lower(item) for item in node.elts]
            return Value("", TUPLE, items=items)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.ListComp):
            return lower_comprehension(self, node)
        raise self.fail(f"'{ast.unparse(node)}' is not part of the derivative language")

    def condition(self, node: ast.expr) -> str:
        """The C test of a bool expression."""
        value = self.lower(node)
        if value.type.base in ("bool", "int") and not value.type.is_list:
            return self.as_type(value, BOOL)
        raise self.fail(f"'{ast.unparse(node)}' is {value.type}, not a condition")

    def _constant(self, node: ast.Constant) -> Value:
        value = node.value
        if value is None:
            return Value("None", NONE, literal=True)
        if isinstance(value, bool):
            return Value("true" if value else "false", BOOL, literal=True)
        if isinstance(value, int):
            return Value(str(value), INT, literal=True, small=value < 1 << 31, positive=True)
        if isinstance(value, float):
            infinite = value in (math.inf, -math.inf)
            return Value("__builtin_inf()" if infinite else repr(value), FLOAT, literal=True)
        if isinstance(value, str):
            return Value(c_string(value), STR, literal=True)
        raise self.fail(f"'{ast.unparse(node)}' is not part of the derivative language")

    def _name(self, name: str) -> Value:
        scope: Lowering | None = self
        while scope is not None:
            if name in scope.bound:
                return scope.bound[name]
            scope = scope.parent
        value = self.load(self, name)
        if value is None and name in self.model.dtypes:
            return Value(f"SHMT_{name.upper()}", DTYPE, literal=True)
        if value is None and name in _MEMORY_FORMATS:
            return Value(f"SHMT_{name.upper()}", MEMORY_FORMAT, literal=True)
        if value is None:
            raise self.fail(f"unknown name '{name}'")
        return value

    def _unary(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return Value(f"(!{self.condition(node.operand)})", BOOL)
        value = self.lower(node.operand)
        if not isinstance(node.op, ast.USub):
            raise self.fail(f"'{ast.unparse(node)}' is not part of the derivative language")
        if is_number(value.type):
            if value.type.base == "float":
                return Value(f"(-{value.code})", FLOAT)
            if value.small or value.positive:
                return Value(f"(-{value.code})", INT, small=value.small)
            return self.checked("sub", "0", value.code)
        if value.type.base == "Scalar":
            return Value(f"shmt__scalar_negate({value.code})", SCALAR)
        return self.call("neg", [value], {}, ast.unparse(node))

    def _and_or(self, node: ast.BoolOp) -> Value:
        """``and`` and ``or``; what the second part calculates runs only when it is asked."""
        is_and = _is_and(node)
        word = " && " if is_and else " || "
        test = self.condition(node.values[0])
        for part in node.values[1:]:
            inner = self.inner()
            other = inner.condition(part)
            if not inner.lines:
                test = f"{test}{word}{other}"
                continue
            name = self.local("n")
            self.emit(f"bool {name} = {test};")
            self.emit(f"if ({'' if is_and else '!'}{name}) {{")
            inner.emit(f"{name} = {other};")
            self.lines += inner.lines
            self.emit("}")
            test = name
        return Value(f"({test})", BOOL)

    def _binary(self, node: ast.BinOp) -> Value:
        left, right = self.lower(node.left), self.lower(node.right)
        text = ast.unparse(node)
        if isinstance(node.op, ast.Mult) and left.type == INTS:
            return repeat_int(self, left, right)
        numbers = [v.type for v in (left, right) if not _is_tensor(v.type)]
        if isinstance(node.op, ast.FloorDiv | ast.Mod):
            if not all(v.type.base == "int" and is_number(v.type) for v in (left, right)):
                raise self.fail(f"'{text}': // and % are for ints")
            word = "div" if isinstance(node.op, ast.FloorDiv) else "mod"
            code = f"shmt__floor_{word}_i64({left.code}, {right.code})"
            positive = left.positive and right.positive
            return Value(code, INT, small=left.small and right.small, positive=positive)
        if type(node.op) not in OPERATORS:
            raise self.fail(f"'{text}' is not part of the derivative language")
        if any(not is_number(k) and str(k) != "Scalar" for k in numbers):
            raise self.fail(f"'{text}': {left.type} and {right.type} do not go together")
        name, number, sign = OPERATORS[type(node.op)]
        if len(numbers) == 2:
            return self._number_binary(left, right, number, sign)
        if not numbers or _is_tensor(left.type):
            return self.call(name, [left, right], {}, text)
        return self._number_first(name, left, right, text)

    def _number_first(self, name: str, left: Value, right: Value, text: str) -> Value:
        """number op tensor, by operators that take the tensor first."""
        if name in ("add", "mul"):
            return self.call(name, [right, left], {}, text)
        if name == "sub":
            if "rsub" in self.model.by_base:
                return self.call("rsub", [right, left], {}, text)
            return self.call("add", [self.call("neg", [right], {}, text), left], {}, text)
        if name == "div":
            inverse = self.call("reciprocal", [right], {}, text)
            if left.literal and left.code in ("1", "1.0"):
                return inverse
            return self.call("mul", [inverse, left], {}, text)
        return self.call("pow", [left, right], {}, text)

    def _number_binary(self, left: Value, right: Value, number: str, sign: str) -> Value:
        if "Scalar" in (left.type.base, right.type.base):
            a, b = self.as_type(left, SCALAR), self.as_type(right, SCALAR)
            return Value(f"shmt__scalar_calculate(SHMT_SCALAR_OP_{number}, {a}, {b})", SCALAR)
        if number == "POW":
            return Value(f"__builtin_pow({left.code}, {right.code})", FLOAT)
        cast = "(double)" if number == "DIV" else ""
        code = f"({cast}{left.code} {sign} {right.code})"
        if number == "DIV" or "float" in (left.type.base, right.type.base):
            return Value(code, FLOAT)
        small = left.small and right.small and number != "MUL"
        positive = left.positive and right.positive
        if small or (positive and number == "SUB"):
            return Value(code, INT, small=small, positive=positive and number == "ADD")
        value = self.checked(number.lower(), left.code, right.code)
        return replace(value, positive=positive and number != "SUB")

    def checked(self, word: str, left: str, right: str) -> Value:
        """Emit the sum (``add``), difference or product of two ints, which must fit in 64 bits."""
        name = self.local("n")
        self.emit(f"int64_t {name} = 0;")
        self.emit(f"SHMT_TRY(shmt__int_{word}({left}, {right}, &{name}));")
        return Value(name, INT, local=name)

    def _compare(self, node: ast.Compare) -> Value:
        if len(node.ops) != 1:
            raise self.fail(f"'{ast.unparse(node)}': one comparison at a time")
        if isinstance(node.ops[0], ast.In | ast.NotIn):
            return self._is_one_of(node)
        left, right = self.lower(node.left), self.lower(node.comparators[0])
        op = node.ops[0]
        if isinstance(op, ast.Is | ast.IsNot):
            if right.type != NONE:
                raise self.fail(f"'{ast.unparse(node)}': 'is' is for None")
            return Value(self._is_none(left, isinstance(op, ast.IsNot)), BOOL)
        if type(op) not in _COMPARISONS:
            raise self.fail(f"'{ast.unparse(node)}' is not part of the derivative language")
        name, sign = _COMPARISONS[type(op)]
        if _is_tensor(left.type):
            return self.call(name, [left, right], {}, ast.unparse(node))
        if left.type == INTS and right.type == INTS and sign in ("==", "!="):
            equal = f"shmt__same_ints({left.code}, {right.code})"
            return Value(equal if sign == "==" else f"(!{equal})", BOOL)
        if left.type.base == "str" and right.type.base == "str":
            equal = f"shmt__text_is({left.code}, {right.code})"
            if sign not in ("==", "!="):
                raise self.fail(f"'{ast.unparse(node)}': texts are only equal or not")
            return Value(equal if sign == "==" else f"(!{equal})", BOOL)
        if is_number(left.type) and is_number(right.type):
            return Value(f"({left.code} {sign} {right.code})", BOOL)
        if "Scalar" in (left.type.base, right.type.base):
            a, b = self.as_type(left, SCALAR), self.as_type(right, SCALAR)
            order = f"shmt__scalar_compare({a}, {b})"
            tests = {"<": f"{order} == -1", "<=": f"{order} <= 0", ">": f"{order} == 1"}
            tests |= {"==": f"{order} == 0", "!=": f"{order} != 0"}
            tests[">="] = f"(unsigned){order} <= 1"
            return Value(f"({tests[sign]})", BOOL)
        if left.type.base == right.type.base and c_type(left.type).letter == "e":
            return Value(f"({left.code} {sign} {right.code})", BOOL)
        raise self.fail(f"'{ast.unparse(node)}': {left.type} and {right.type} do not compare")

    def _is_one_of(self, node: ast.Compare) -> Value:
        """``x in (a, b)``."""
        choices = node.comparators[0]
        if not isinstance(choices, ast.Tuple):
            raise self.fail(f"'{ast.unparse(node)}': 'in' takes (a, b, ...)")
        tests = [
            self.condition(ast.Compare(node.left, [ast.Eq()], [choice])) for choice in choices.elts
        ]
        test = f"({' || '.join(tests)})"
        return Value(test if isinstance(node.ops[0], ast.In) else f"(!{test})", BOOL)

    def _is_none(self, value: Value, negate: bool) -> str:
        if value.type == NONE:
            return "false" if negate else "true"
        test = c_type(value.type).is_none
        if not test:
            return "true" if negate else "false"
        text = test % value.code
        if not negate:
            return f"({text})"
        return text[1:] if test.startswith("!") else f"(!({text}))"

    def _list(self, node: ast.List) -> Value:
        if any(isinstance(item, ast.Starred) for item in node.elts):
            return lower_join(self, node)
        items = [self.lower(item) for item in node.elts]
        if not items:
            return Value("SHMT_INTS_EMPTY", INTS)
        if any(v.type.base == "Tensor" or v.type == NONE for v in items):
            codes = ", ".join(self.as_type(v, MAYBE_TENSOR) for v in items)
            data = f"(shmt_tensor* const[]){{{codes}}}"
            return Value(f"((shmt_tensors){{{data}, {len(items)}}})", TENSORS)
        if any(v.type.base == "float" for v in items):
            codes = ", ".join(self.as_type(v, FLOAT) for v in items)
            data = f"(const double[]){{{codes}}}"
            return Value(f"((shmt_floats){{{data}, {len(items)}}})", FLOATS)
        codes = ", ".join(self.as_type(v, INT) for v in items)
        return Value(f"SHMT_INTS({codes})", INTS, items=items)

    def _subscript(self, node: ast.Subscript) -> Value:
        value = self.lower(node.value)
        if isinstance(node.slice, ast.Slice):
            return lower_slice(self, value, node.slice, ast.unparse(node))
        index = self.lower(node.slice)
        if value.type == TUPLE:
            if not (index.literal and index.type == INT and int(index.code) < len(value.items)):
                raise self.fail(
                    f"'{ast.unparse(node)}': the index must be a number below {len(value.items)}"
                )
            return value.items[int(index.code)]
        at = self.as_type(index, INT)
        if value.type.is_list and value.type.base == "int":
            name = self.local("n")
            self.emit(f"int64_t {name} = 0;")
            self.emit(f"SHMT_TRY(shmt__ints_at({value.code}, {at}, &{name}));")
            return Value(name, INT, local=name)
        if value.type.is_tensor_list:
            name = self.local("element")
            self.emit(f"shmt_tensor* {name} = 0;")
            self.emit(f"SHMT_TRY(shmt__tensors_at({value.code}, {at}, &{name}));")
            return Value(name, TENSOR)
        raise self.fail(f"'{ast.unparse(node)}': {value.type} has no elements")

    def _if(self, node: ast.IfExp) -> Value:
        test = self.condition(node.test)
        first, second = self.branches(node.test)
        a, b = first.lower(node.body), second.lower(node.orelse)
        text = ast.unparse(node)
        if a.type == TUPLE and b.type == TUPLE and len(a.items) == len(b.items):
            pairs = list(zip(a.items, b.items, strict=True))
        else:
            pairs = [(a, b)]
        calculates = bool(first.lines or second.lines)
        values = [self._choose(test, first, second, pair, calculates, text) for pair in pairs]
        if first.lines or second.lines:
            self.emit(f"if ({unwrapped(test)}) {{")
            self.lines += first.lines
            self.emit("} else {")
            self.lines += second.lines
            self.emit("}")
        return Value("", TUPLE, items=values) if a.type == TUPLE else values[0]

    def _choose(
        self,
        test: str,
        first: Lowering,
        second: Lowering,
        pair: tuple[Value, Value],
        calculates: bool,
        text: str,
    ) -> Value:
        """One of two values; where they are calculated, *first* and *second* assign it."""
        a, b = pair
        kind = self._common(a.type, b.type, text)
        if _is_tensor(kind):
            name = self.temporary()
            first.give(a, name)
            second.give(b, name)
            return Value(name, kind, owned=True, local=name)
        small, positive = a.small and b.small, a.positive and b.positive
        if not calculates:
            code = f"({test} ? {self.as_type(a, kind)} : {self.as_type(b, kind)})"
            return Value(code, kind, small=small, positive=positive)
        if kind.is_list:
            if kind != INTS:
                raise self.fail(f"'{text}': the lists need calculation; simplify")
            name = self.local("shape")
            self.emit(f"shmt__shape {name};")
            for branch, value in ((first, a), (second, b)):
                lists = f"(const shmt_ints[]){{{value.code}}}"
                branch.emit(f"SHMT_TRY(shmt__shape_join(&{name}, {lists}, 1));")
            return Value(f"shmt__shape_ints(&{name})", INTS)
        name = self.local("n")
        self.emit(f"{c_type(kind).name} {name};")
        first.emit(f"{name} = {first.as_type(a, kind)};")
        second.emit(f"{name} = {second.as_type(b, kind)};")
        return Value(name, kind, local=name, small=small, positive=positive)

    def _common(self, a: Type, b: Type, text: str) -> Type:
        if NONE in (a, b):
            other = b if a == NONE else a
            if other == NONE:
                return MAYBE_TENSOR
            if _is_tensor(other):
                return MAYBE_TENSOR
            return other if other.is_list else Type(other.base, optional=True)
        if a.base == b.base and a.is_list == b.is_list:
            return Type(a.base, optional=a.optional or b.optional, is_list=a.is_list)
        if is_number(a) and is_number(b):
            return FLOAT if "float" in (a.base, b.base) else INT
        if {a.base, b.base} <= {*NUMBERS, "Scalar"} and not (a.is_list or b.is_list):
            return SCALAR
        raise self.fail(f"'{text}': {a} and {b} have no common type")

    def give(self, value: Value, target: str) -> None:
        """Emit ``target = new reference to value``; *target* is NULL before, and may be after."""
        call = self.take_last_call([value], [f"&{target}".replace("&*", "")])
        if call:
            self.emit(f"SHMT_TRY({call});")
        elif value.type == NONE:
            self.emit(f"{target} = 0;")
        elif value.owned:
            self.emit(f"{target} = SHMT_TAKE({value.code});")
        else:  # what an output mask leaves out is NULL, though its type is no optional one
            self.emit(f"{target} = {value.code} ? shmt__tensor_ref({value.code}) : 0;")

    def take_last_call(self, values: list[Value], pointers: list[str]) -> str:
        """The call that was emitted last, with *pointers* for its results, where they are *values*.

        It is not emitted any more, nor are the locals for these results. Empty where they are not.
        """
        found = _CALL.fullmatch(self.lines[-1]) if self.lines else None
        if not found or not all(v.owned and re.search(rf"&{v.code}\b", found[1]) for v in values):
            return ""
        declared = [f"{self.indent}SHMT_AUTO(shmt_tensor) {v.code} = 0;\n" for v in values]
        if any(self.lines.count(line) != 1 for line in declared):
            return ""
        del self.lines[-1]
        call = found[1]
        for value, line, pointer in zip(values, declared, pointers, strict=True):
            self.lines.remove(line)
            call = re.sub(rf"&{value.code}\b", pointer, call)
        return call

    # --- calls ----------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Value:
        if not isinstance(node.func, ast.Name):
            raise self.fail(f"'{ast.unparse(node)}': calls are name(...), not methods")
        name = node.func.id
        if any(k.arg is None for k in node.keywords):
            raise self.fail(f"'{ast.unparse(node)}': ** is not part of the derivative language")
        if name in ("needs", "given", *SHAPE_FUNCTIONS, "len") and name not in self.model.by_base:
            return self._builtin(name, node)
        if name in SHAPE_FUNCTIONS and len(node.args) == 1:
            return self._builtin(name, node)
        if name == "range":
            return lower_range(self, node)
        arguments = [self.lower(a) for a in node.args]
        found = None if node.keywords else call_function(self, name, arguments)
        if found is not None:
            return found
        keywords = {k.arg: self.lower(k.value) for k in node.keywords if k.arg}
        return self.call(name, arguments, keywords, ast.unparse(node))

    def _builtin(self, name: str, node: ast.Call) -> Value:
        text = ast.unparse(node)
        expected = 2 if name == "size" else 1
        if len(node.args) != expected or node.keywords:
            raise self.fail(f"'{text}': {name} takes {expected} argument(s)")
        if name in ("needs", "given"):
            target = node.args[0]
            is_right = isinstance(target, ast.Name) and _is_incoming(target.id) == (name == "given")
            test = self.needs(target.id) if is_right else None
            if test is None:
                what = "a gradient" if name == "given" else "an argument that has a derivative"
                raise self.fail(f"'{text}': {name} takes {what}")
            return Value(test, BOOL)
        if name == "len":
            value = self.lower(node.args[0])
            if not value.type.is_list:
                raise self.fail(f"'{text}': {value.type} has no length")
            return Value(f"{value.code}.len", INT, small=True, positive=True)
        value_or_none = None
        if isinstance(node.args[0], ast.Name):
            asked = "sizes" if name == "size" else name
            value_or_none = self.shape(asked, node.args[0].id)
        if value_or_none is None:
            tensor = self.lower(node.args[0])
            if not _is_tensor(tensor.type):
                raise self.fail(f"'{text}': {tensor.type} is no Tensor")
            value_or_none = shape_of("sizes" if name == "size" else name, tensor.code)
        if name != "size":
            return replace(value_or_none, small=name == "dim", positive=name in ("dim", "numel"))
        at = self.as_type(self.lower(node.args[1]), INT)
        local = self.local("n")
        self.emit(f"int64_t {local} = 0;")
        self.emit(f"SHMT_TRY(shmt__ints_at({value_or_none.code}, {at}, &{local}));")
        return Value(local, INT, local=local, positive=True)

    def resolve(
        self, name: str, arguments: list[Value], keywords: dict[str, Value], text: str
    ) -> tuple[Operator, list[Value | None]]:
        """The overload of *name* that fits best, and its arguments (None: the default)."""
        form = "inplace" if name.endswith("_") else "functional"
        candidates = [op for op in self.model.by_base.get(name, []) if op.form == form]
        if not candidates:
            raise self.fail(f"'{text}': no operator '{name}'")
        best: tuple[int, Operator, list[Value | None]] | None = None
        for op in candidates:
            bound = bind(op, arguments, keywords)
            if bound is not None and (best is None or bound[0] < best[0]):
                best = (bound[0], op, bound[1])
        if best is None:
            got = ", ".join(
                [str(v.type) for v in arguments] + [f"{k}={v.type}" for k, v in keywords.items()]
            )
            known = "; ".join(str(op.schema) for op in candidates)
            raise self.fail(f"'{text}': {name}({got}) fits none of: {known}")
        return best[1], best[2]

    def arguments_of(self, op: Operator, bound: list[Value | None]) -> list[str]:
        """C arguments of a resolved call."""
        codes = []
        for argument, value in zip(op.schema.arguments, bound, strict=True):
            if value is None:
                default = default_expression(argument)
                assert default is not None
                codes.append(default)
            else:
                codes.append(self.as_type(value, argument.type))
        return codes

    def call(
        self, name: str, arguments: list[Value], keywords: dict[str, Value], text: str
    ) -> Value:
        """Emit a call of the operator *name*; the value owns its results."""
        op, bound = self.resolve(name, arguments, keywords, text)
        codes = self.arguments_of(op, bound)
        results = []
        for result in (op.schema.returns[i] for i in op.schema.new_returns):
            if result.type.is_tensor:
                local = self.temporary()
                results.append(Value(local, TENSOR, owned=True, local=local))
            elif result.type.is_tensor_list:
                local = self.local("list")
                self.emit(f"SHMT_AUTO_LIST {local} = {{0, 0}};")
                code = f"((shmt_tensors){{{local}.data, {local}.len}})"
                results.append(Value(code, TENSORS, local=local))
                codes.append(f"&{local}")
                continue
            else:
                local = self.local("n")
                self.emit(f"{c_type(result.type).name} {local};")
                results.append(Value(local, Type(result.type.base), local=local))
            codes.append(f"&{local}")
        single = results[0] if len(results) == 1 else None
        lines: list[str] = []
        if single is not None and single.owned:
            lines = overwrite(self.model, op, bound, codes[:-1], single.code)
        is_near = op.entry.composite_expression is None or op.entry.section == self.section
        caller = (op.direct if self.section and is_near else "") or op.caller
        for line in lines or [f"SHMT_TRY({caller}({', '.join(codes)}));"]:
            self.emit(line)
        if single is not None:
            return single
        return Value("", TUPLE, items=results)

    # --- conversions ----------------------------------------------------------------------------

    def as_type(self, value: Value, kind: Type) -> str:
        """*value* as C of type *kind*; emits a tensor for a number where one is wanted."""
        code, have = value.code, value.type
        if cost(have, kind) is None:
            raise self.fail(f"a {have} cannot be a {kind}")
        if have == NONE:
            return c_type(Type(kind.base, optional=True, is_list=kind.is_list)).none or "0"
        if kind.base == "Tensor" and not kind.is_list and not _is_tensor(have):
            local = self.temporary()
            scalar = self.as_type(value, SCALAR)
            self.emit(f"SHMT_TRY(shmt__wrapped_scalar_tensor({scalar}, &{local}));")
            return local
        if kind.is_list and not have.is_list:
            one = self.as_type(value, Type(kind.base))
            if kind.base == "Tensor":
                return f"((shmt_tensors){{(shmt_tensor* const[]){{{one}}}, 1}})"
            return f"SHMT_INTS({', '.join([one] * max(kind.size, 1))})"
        if kind.is_list or kind.base in ("Tensor", "str") or c_type(kind).letter == "e":
            return code
        if kind.base == "Scalar":
            return _to_scalar(code, have)
        if have.optional and kind.optional and have.base == kind.base:
            return code
        if have.base == "Scalar":
            function = {"float": "double", "int": "int64", "bool": "bool"}[kind.base]
            code = f"shmt__scalar_to_{function}({code})"
        if kind.optional and kind.base in NUMBERS:
            return f"((shmt_opt_{kind.base}){{{code}, true}})"
        return code


def _is_incoming(name: str) -> bool:
    return name == "grad" or (name.startswith("grad") and name[4:].isdigit())


def _to_scalar(code: str, have: Type) -> str:
    if have.base == "Scalar":
        return code
    if have.optional:
        inner = f"shmt__scalar_{have.base}({code}.value)"
        return f"({code}.has ? {inner} : shmt__scalar_none())"
    return f"shmt__scalar_{have.base}({code})"


def shape_of(function: str, tensor: str) -> Value:
    """``sizes(t)`` and its like of a tensor at hand."""
    return {
        "sizes": Value(f"shmt__tensor_sizes({tensor})", INTS),
        "strides": Value(f"shmt__tensor_strides({tensor})", INTS),
        "dim": Value(f"(int64_t){tensor}->n_dims", INT),
        "numel": Value(f"{tensor}->numel", INT),
        "dtype": Value(f"(shmt_dtype){tensor}->dtype", DTYPE),
        "device": Value(f"(shmt_device){tensor}->device", DEVICE),
    }[function]
