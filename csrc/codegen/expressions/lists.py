"""Lists of the derivative language: slices, joins, ranges and comprehensions.

A list of ints that is made anew is a ``shmt__shape`` of C, which has room for the sizes of any
tensor; a slice refers to the list it is a part of. A list of tensors that is made anew owns them.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codegen.expressions.conversions import as_type
from codegen.expressions.values import INT, INTS, TENSOR, TENSORS, Value, unwrapped

if TYPE_CHECKING:
    from codegen.expressions.lowering import Lowering


def lower_slice(lowering: Lowering, value: Value, node: ast.Slice, text: str) -> Value:
    """``list[begin:end]`` of ints, with Python's meaning of bounds that are negative or too far."""
    if value.type != INTS or node.step is not None:
        raise lowering.fail(f"'{text}': only lists of ints have slices, which have no step")
    begin, end = (
        as_type(lowering, lowering.lower(bound), INT) if bound else default
        for bound, default in ((node.lower, "0"), (node.upper, "INT64_MAX"))
    )
    return Value(f"shmt__ints_part({value.code}, {begin}, {end})", INTS)


def lower_join(lowering: Lowering, node: ast.List) -> Value:
    """``[*list, 1, *list]``: the elements of several lists in one."""
    parts: list[str] = []
    numbers: list[str] = []
    for item in [*node.elts, None]:
        if item is not None and not isinstance(item, ast.Starred):
            numbers.append(as_type(lowering, lowering.lower(item), INT))
            continue
        if numbers:
            parts.append(f"SHMT_INTS({', '.join(numbers)})")
            numbers = []
        if item is not None:
            parts.append(as_type(lowering, lowering.lower(item.value), INTS))
    return join_ints(lowering, parts)


def join_ints(lowering: Lowering, parts: list[str]) -> Value:
    """A new list of the ints of *parts*, which are C."""
    shape = _shape(lowering)
    lists = f"(const shmt_ints[]){{{', '.join(parts)}}}"
    lowering.emit(f"SHMT_TRY(shmt__shape_join(&{shape}, {lists}, {len(parts)}));")
    return _ints(shape)


def repeat_int(lowering: Lowering, value: Value, count: Value) -> Value:
    """``[value] * count``."""
    shape = _shape(lowering)
    one = value.items[0] if value.items else None
    if one is None or len(value.items) != 1:
        raise lowering.fail("only a list of one int is repeated: [0] * n")
    codes = f"{as_type(lowering, one, INT)}, {as_type(lowering, count, INT)}"
    lowering.emit(f"SHMT_TRY(shmt__shape_repeat(&{shape}, {codes}));")
    return _ints(shape)


def lower_range(lowering: Lowering, node: ast.Call) -> Value:
    """``range(end)`` and ``range(begin, end)`` as a list."""
    shape = _shape(lowering)
    begin, end = _bounds(lowering, node)
    lowering.emit(f"SHMT_TRY(shmt__shape_range(&{shape}, {begin}, {end}));")
    return _ints(shape)


def lower_comprehension(lowering: Lowering, node: ast.ListComp) -> Value:
    """``[expression for name in list if condition]``; also ``in range(...)`` and ``enumerate``."""
    text = ast.unparse(node)
    (clause, *more) = node.generators
    if more or len(clause.ifs) > 1:
        raise lowering.fail(f"'{text}': one 'for' and at most one 'if'")
    counter = lowering.local("i")
    first, end, bindings = _iterate(lowering, clause, counter, text)
    loop = lowering.inner()
    loop.bound.update(bindings)
    test = loop.condition(clause.ifs[0]) if clause.ifs else ""
    body = loop.inner() if test else loop
    element = body.lower(node.elt)
    if element.type.is_tensor and test:
        raise lowering.fail(f"'{text}': a list of tensors takes all of them")
    if element.type.is_tensor:
        count = end if first == "0" else lowering.checked("sub", end, first).code
        result = _begin_tensors(lowering, count)
        at = counter if first == "0" else f"{counter} - {first}"
        body.give(element, f"{result.local}.data[{at}]")
    else:
        shape = _shape(lowering)
        lowering.emit(f"{shape}.len = 0;")
        body.emit(f"SHMT_TRY(shmt__shape_append(&{shape}, {as_type(body, element, INT)}));")
        result = _ints(shape)
    if test:
        loop.emit(f"if ({unwrapped(test)}) {{")
        loop.lines += body.lines
        loop.emit("}")
    lowering.emit(f"for (int64_t {counter} = {first}; {counter} < {end}; {counter}++) {{")
    lowering.lines += loop.lines
    lowering.emit("}")
    return result


def _begin_tensors(lowering: Lowering, count: str) -> Value:
    """A list of *count* tensors that are still to be made."""
    name = lowering.local("list")
    lowering.emit(f"SHMT_AUTO_LIST {name} = {{0, 0}};")
    lowering.emit(f"SHMT_TRY(shmt__tensor_vec_alloc({count}, &{name}));")
    return Value(f"((shmt_tensors){{{name}.data, {name}.len}})", TENSORS, local=name)


def _iterate(
    lowering: Lowering, clause: ast.comprehension, counter: str, text: str
) -> tuple[str, str, dict[str, Value]]:
    """Where a loop begins and ends, and the names that its body sees."""
    target, source = clause.target, clause.iter
    names: dict[str, Value] = {}
    if isinstance(source, ast.Call) and isinstance(source.func, ast.Name):
        if source.func.id == "range" and isinstance(target, ast.Name):
            begin, end = _bounds(lowering, source)
            is_known = begin.isdecimal()
            number = Value(counter, INT, small=is_known, positive=is_known)
            return begin, end, {target.id: number}
        if source.func.id == "enumerate" and isinstance(target, ast.Tuple):
            index, target = target.elts
            if isinstance(index, ast.Name):
                names[index.id] = Value(counter, INT, small=True, positive=True)
            source = source.args[0]
    values = lowering.lower(source)
    if not isinstance(target, ast.Name) or not values.type.is_list:
        raise lowering.fail(f"'{text}': 'for' takes names, and a list, range() or enumerate()")
    element = TENSOR if values.type.is_tensor_list else INT
    names[target.id] = Value(f"{values.code}.data[{counter}]", element)
    return "0", f"{values.code}.len", names


def _bounds(lowering: Lowering, node: ast.Call) -> tuple[str, str]:
    if len(node.args) not in (1, 2) or node.keywords:
        raise lowering.fail(f"'{ast.unparse(node)}': range takes one or two ints")
    codes = [as_type(lowering, lowering.lower(argument), INT) for argument in node.args]
    return ("0", codes[0]) if len(codes) == 1 else (codes[0], codes[1])


def _shape(lowering: Lowering) -> str:
    name = lowering.local("shape")
    lowering.emit(f"shmt__shape {name};")
    return name


def _ints(shape: str) -> Value:
    return Value(f"shmt__shape_ints(&{shape})", INTS)
