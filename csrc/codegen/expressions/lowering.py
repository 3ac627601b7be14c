"""Lowering of the derivative language: Python expressions become C calls on operators.

An expression is parsed with :mod:`ast`. Names have static types (those of the schema), so the
overload of each call is chosen here, and the C is straight-line: one local per tensor, released
after its last use.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import replace

from codegen.expressions.arithmetic import lower_and_or, lower_binary, lower_compare, lower_unary
from codegen.expressions.calls import lower_call
from codegen.expressions.conversions import as_type, common_type
from codegen.expressions.lists import lower_comprehension, lower_join, lower_slice
from codegen.expressions.statements import Statements
from codegen.expressions.values import (
    BOOL,
    DTYPE,
    FLOAT,
    FLOATS,
    INT,
    INTS,
    MAYBE_TENSOR,
    MEMORY_FORMAT,
    NONE,
    NUMBERS,
    STR,
    TENSOR,
    TENSORS,
    TUPLE,
    Value,
    unwrapped,
)
from codegen.spec.c_types import c_string, c_type
from codegen.spec.model import Model
from codegen.spec.schema import Type

_MEMORY_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


def _present(value: Value) -> Value:
    """An optional value that is there."""
    kind = value.type
    if not kind.optional or kind.is_list or kind.base == "Scalar":
        return value
    code = f"{value.code}.value" if kind.base in NUMBERS else value.code
    return replace(value, code=code, type=Type(kind.base))


class Lowering(Statements):
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
        super().__init__(where, indent)
        self.model = model
        self.load = load
        self.shape = shape
        self.needs = needs
        #: The spec file of a composite, which calls internal composites without dispatch: those
        #: of the same file, and C functions. Empty elsewhere.
        self.section = ""
        self.parent: Lowering | None = None
        self.loaded: dict[str, Value] = {}

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
        parts = (
            test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
        )
        for part in parts:
            if not isinstance(part, ast.Compare) or not isinstance(part.left, ast.Name):
                continue
            if isinstance(part.ops[0], ast.IsNot):
                holds.bound[part.left.id] = _present(self.lower(part.left))
            elif isinstance(part.ops[0], ast.Is) and len(parts) == 1:
                fails.bound[part.left.id] = _present(self.lower(part.left))
        return holds, fails

    def lower(self, node: ast.expr) -> Value:
        """Emit what *node* needs and return its value."""
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.BinOp):
            return lower_binary(self, node)
        if isinstance(node, ast.UnaryOp):
            return lower_unary(self, node)
        if isinstance(node, ast.Compare):
            return lower_compare(self, node)
        if isinstance(node, ast.BoolOp):
            return lower_and_or(self, node)
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
            return lower_call(self, node)
        if isinstance(node, ast.ListComp):
            return lower_comprehension(self, node)
        raise self.fail(f"'{ast.unparse(node)}' is not part of the derivative language")

    def condition(self, node: ast.expr) -> str:
        """The C test of a bool expression."""
        value = self.lower(node)
        if value.type.base in ("bool", "int") and not value.type.is_list:
            return as_type(self, value, BOOL)
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

    def _list(self, node: ast.List) -> Value:
        if any(isinstance(item, ast.Starred) for item in node.elts):
            return lower_join(self, node)
        items = [self.lower(item) for item in node.elts]
        if not items:
            return Value("SHMT_INTS_EMPTY", INTS)
        if any(v.type.base == "Tensor" or v.type == NONE for v in items):
            codes = ", ".join(as_type(self, v, MAYBE_TENSOR) for v in items)
            data = f"(shmt_tensor* const[]){{{codes}}}"
            return Value(f"((shmt_tensors){{{data}, {len(items)}}})", TENSORS)
        if any(v.type.base == "float" for v in items):
            codes = ", ".join(as_type(self, v, FLOAT) for v in items)
            data = f"(const double[]){{{codes}}}"
            return Value(f"((shmt_floats){{{data}, {len(items)}}})", FLOATS)
        codes = ", ".join(as_type(self, v, INT) for v in items)
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
        at = as_type(self, index, INT)
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
        kind = common_type(self, a.type, b.type, text)
        if kind.is_tensor:
            name = self.temporary()
            first.give(a, name)
            second.give(b, name)
            return Value(name, kind, owned=True, local=name)
        small, positive = a.small and b.small, a.positive and b.positive
        if not calculates:
            code = f"({test} ? {as_type(self, a, kind)} : {as_type(self, b, kind)})"
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
        first.emit(f"{name} = {as_type(first, a, kind)};")
        second.emit(f"{name} = {as_type(second, b, kind)};")
        return Value(name, kind, local=name, small=small, positive=positive)
