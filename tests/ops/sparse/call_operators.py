"""Calls every built-in operator with a sparse tensor in the place of each tensor argument.

A program for `test_refusals`: an operator may give a result or raise; the process must live. It
prints each operator before the call, so that the last line of a process that died names it.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from ops.spec.arguments import arguments
from ops.spec.cases import NoCase, cases
from ops.spec.entries import entries, overload

import shmtensor as st
from codegen.spec.model import Operator

#: Arguments of types for which a value must be made, where no case says one.
_PLAIN: dict[str, Any] = {
    "Scalar": 2,
    "float": 0.5,
    "int": 1,
    "bool": False,
    "str": "mean",
    "ScalarType": st.float32,
    "Layout": st.strided,
    "Device": st.device("cpu"),
    "MemoryFormat": st.contiguous_format,
}


#: As many as `sparse_forms` makes.
_MOST_FORMS = 7


def sparse_forms(dense: Any) -> Iterator[Any]:
    """The tensor in sparse layouts, also with entries that are not coalesced."""
    if dense.dim() == 0:
        yield st.sparse_coo_tensor(st.zeros(0, 1, dtype=st.int64), dense.reshape(1), ())
        return
    coo = dense.detach().to_sparse()
    yield coo.clone()  # what a call does to one does not show in the next
    yield st.sparse_coo_tensor(
        st.cat([coo.indices(), coo.indices()], 1), st.cat([coo.values(), coo.values()]), coo.shape
    )
    if dense.dim() > 1:
        yield dense.detach().to_sparse(1)
    if dense.dim() > 1:
        n_dense = dense.dim() - 2
        yield dense.detach().to_sparse_csr(dense_dim=n_dense)
        yield dense.detach().to_sparse_csc(dense_dim=n_dense)
    if dense.dim() == 2:  # entries that are no numbers, where a matrix is wanted
        yield dense.detach().unsqueeze(2).expand(-1, -1, 2).to_sparse_csr(dense_dim=1)
    if dense.is_floating_point():
        yield coo.clone().requires_grad_()


def _made(operator: Operator) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of the schema's types, where no case has them."""
    positional, named = [], {}
    for argument in operator.schema.arguments:
        kind = argument.type
        if kind.base == "Tensor":
            one = st.ones(3, 3)
            value: Any = [one, one] if kind.is_list else one
        else:
            value = _PLAIN.get(kind.base, 1)
            value = [value, value] if kind.is_list else value
        if argument.keyword_only or argument.is_out:
            named[argument.name] = value
        else:
            positional.append(value)
    return positional, named


def argument_lists(operator: Operator) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Arguments that fit, in float32 and where that does not go, as the schema has them."""
    yield _made(operator)
    try:
        found = cases(operator.entry)
    except NoCase:
        return
    for one in found[:3]:
        for dtype in ("float32", "int64"):
            positional, named = arguments(operator.entry.name, one, dtype)
            for argument in operator.schema.arguments:
                if argument.is_out:
                    named[argument.name] = st.empty(0)
            yield list(positional), dict(named)


def _changed(value: Any) -> Iterator[Any]:
    """The value with a tensor in it made sparse."""
    if isinstance(value, st.Tensor):
        yield from sparse_forms(value)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            if isinstance(item, st.Tensor):
                for other in sparse_forms(item):
                    yield [*value[:i], other, *value[i + 1 :]]


def with_sparse(
    positional: list[Any], named: dict[str, Any]
) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """The arguments with one of the tensors, or all, made sparse."""
    for i, value in enumerate(positional):
        for other in _changed(value):
            yield [*positional[:i], other, *positional[i + 1 :]], named
    for key, value in named.items():
        for other in _changed(value):
            yield positional, {**named, key: other}
    for layout in range(_MOST_FORMS):
        every = []
        for value in positional:
            forms = list(_changed(value))
            every.append(forms[layout % len(forms)] if forms else value)
        yield every, named


def main() -> None:
    warnings.simplefilter("ignore")
    part, parts = int(sys.argv[1]), int(sys.argv[2])
    operators = [operator for entry in entries() for operator in entry.operators]
    n_calls = n_results = 0
    for operator in itertools.islice(operators, part, None, parts):
        print(operator.schema.full_name, flush=True)
        for given in argument_lists(operator):
            for positional, named in with_sparse(*given):
                n_calls += 1
                try:
                    result = overload(operator)(*positional, **named)
                    repr(result)
                    n_results += 1
                    if isinstance(result, st.Tensor) and result.requires_grad:
                        result.sum().backward()
                except Exception:
                    continue
    print(f"end {n_calls} {n_results}", flush=True)


if __name__ == "__main__":
    main()
