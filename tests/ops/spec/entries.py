"""The operator table as the build reads it, and how an entry's operators are called."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import shmtensor as st
from codegen.spec.entries import load_model
from codegen.spec.model import Model, Operator, OperatorEntry
from codegen.spec.tables import load_tables

#: What an operator may raise for arguments it does not take.
REFUSALS = (TypeError, RuntimeError, NotImplementedError, ValueError, IndexError)

ROOT = Path(__file__).resolve().parents[3]


@functools.cache
def model() -> Model:
    """Every entry and the operators that follow from it."""
    spec = ROOT / "csrc" / "spec"
    return load_model(spec, ROOT, load_tables(spec, ROOT))


def entries() -> list[OperatorEntry]:
    """All entries, in the order of the files."""
    return model().entries


def form(entry: OperatorEntry, name: str) -> Operator | None:
    """The derived ``inplace`` or ``out`` operator of *entry*."""
    return next((op for op in entry.operators if op.form == name and op.derived), None)


def overload(operator: Operator | OperatorEntry) -> Any:
    """The operator as ``shmtensor.ops`` has it."""
    schema = operator.schema
    packet = getattr(st.ops.aten, schema.name)
    return getattr(packet, schema.overload or "default")


def outs_of(entry: OperatorEntry) -> dict[str, Any]:
    """Empty tensors for the outputs that the entry's own schema wants."""
    dtype = st.int64 if entry.name == "nonzero.out" else st.float32  # it takes no other
    return {a.name: st.empty(0, dtype=dtype) for a in entry.schema.arguments if a.is_out}


def is_random(entry: OperatorEntry) -> bool:
    """Does the operator draw from a generator?"""
    return "random" in entry.tags


def call(operator: Operator | OperatorEntry, args: Iterable[Any], kwargs: dict[str, Any]) -> Any:
    """Call with the random stream at its beginning."""
    st.manual_seed(0)
    return overload(operator)(*args, **kwargs)


def flat(value: Any) -> list[Any]:
    """The tensors and numbers of a result, without None."""
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return [item for one in value for item in flat(one)]
    return [value]


def tensors(value: Any) -> list[Any]:
    """The tensors of a result."""
    return [item for item in flat(value) if isinstance(item, st.Tensor)]
