"""Which dtypes the operators take, argument by argument: ``dtypes.txt`` says it, the tests hold it.

A line of ``dtypes.txt`` is::

    name: dtypes -> dtypes of the results; argument dtypes; argument dtypes

The first dtypes are those that all arguments under test may have together; then each argument that
takes others when it alone changes, beside arguments of ``float32`` (or, where an operator does not
take that, of the first of ``BASES``). Dtypes are sets of ``csrc/spec/dtype_sets.yaml`` and single
names, ``-name`` where one is missing. Besides:

- ``declared``: what the entry's ``dtypes:`` says; ``none``: the operator always refuses;
- ``alike``: the argument must have the dtype of the others;
- ``-``: nothing depends on a dtype.

The dtypes of the results are names, or a rule of ``RULES``, with single dtypes that give another.
``name#2`` is another case of the operator, which takes other dtypes than the first one.

What is not taken is refused with one exception and one text for each reason: ``refusals.txt`` has
them all, ``{dtype}`` where a dtype is named, each with one operator that refuses so. That a dtype
has no kernel is one of these lines.

``python tests/ops/spec/accepted.py`` writes both files anew: what changes in them is to be read.
"""

from __future__ import annotations

import functools
import re
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[3] / "csrc")]

from ops.spec import cases_steps
from ops.spec.arguments import DTYPE, DTYPES, FLOATS, INTEGERS, Case, T, arguments
from ops.spec.cases import called, cases
from ops.spec.compare import name_of
from ops.spec.entries import ROOT, call, entries, flat, outs_of

import shmtensor as st
from codegen.spec.model import OperatorEntry
from codegen.spec.tables import load_tables

TABLE = Path(__file__).with_name("dtypes.txt")
REFUSALS = Path(__file__).with_name("refusals.txt")
#: The dtype of the other arguments while one changes: the first that the operator takes.
BASES = ("float32", "int64", "bool", "complex64")

_REAL = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
_COMPLEX = {real: pair for pair, real in _REAL.items()}
_WHOLE = ("bool", *INTEGERS)

#: The dtype of a result, from the dtype under test.
RULES: dict[str, Callable[[str], str]] = {
    "same": lambda d: d,
    "floating": lambda d: "float32" if d in _WHOLE else d,  # whole numbers become floats
    "real": lambda d: _REAL.get(d, d),
    "real_floating": lambda d: _REAL.get(d, "float32" if d in _WHOLE else d),
    "complex": lambda d: _COMPLEX.get(d, "complex64" if d in _WHOLE else d),
    "sum": lambda d: "int64" if d in _WHOLE else d,
    "number": lambda d: "int64" if d == "bool" else d,
    "test": lambda d: "uint8" if d == "uint8" else "bool",  # torch's old masks
    "work": lambda d: "float32" if d in FLOATS[:2] else "complex64" if d == "complex32" else d,
    "widest": lambda d: "complex128" if d in _REAL else "float64",
}


def every_case() -> list[tuple[OperatorEntry, list[Case]]]:
    """All entries of the specification with the arguments they are called with."""
    known = {entry.name for entry in called()}
    return [(e, cases(e) if e.name in known else cases_steps.CASES[e.name]) for e in entries()]


Outcome = list[str] | Exception


def outcome(entry: OperatorEntry, one: Case, dtype: str) -> tuple[Outcome, Any]:
    """The dtypes of the results and the results; or the exception, and None."""
    args, kwargs = arguments(entry.name, one, dtype)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = call(entry, args, {**kwargs, **outs_of(entry)})
    except Exception as error:  # of any type: the tests say which it may be
        return error, None
    kinds = [name_of(x.dtype) if isinstance(x, st.Tensor) else type(x).__name__ for x in flat(got)]
    return kinds, got


def depends(one: Case) -> bool:
    """Does the call change with the dtype under test?"""
    given = [*one.args, *one.kwargs.values()]
    return any(not a.dtype or a.dtype == "real" for a in one.tensors) or any(
        a is DTYPE for a in given
    )


@functools.cache
def _sets() -> dict[str, frozenset[str]]:
    sets = load_tables(ROOT / "csrc" / "spec", ROOT).dtype_sets
    return {"": frozenset()} | {name: frozenset(dtypes) for name, dtypes in sets.items()}


@functools.cache
def written(dtypes: frozenset[str]) -> str:
    """The shortest text for a set of dtypes."""
    if not dtypes:
        return "none"

    def text(name: str, members: frozenset[str]) -> list[str]:
        more = [d for d in DTYPES if d in dtypes - members]
        less = ["-" + d for d in DTYPES if d in members - dtypes]
        return [*([name] if name else []), *more, *less]

    return " ".join(min((text(n, m) for n, m in _sets().items()), key=lambda x: (len(x), x)))


def read_set(text: str) -> frozenset[str]:
    """The set that ``written`` gave as *text*."""
    found: frozenset[str] = frozenset()
    for word in text.split():
        if word.startswith("-"):
            found -= {word[1:]}
        elif word != "none":
            found |= _sets().get(word, frozenset((word,)))
    return found


def declared(entry: OperatorEntry) -> frozenset[str] | None:
    """What the entry's ``dtypes`` say of the dtypes it takes; None where it has none."""
    if entry.kernel is None:
        return None

    def computed(dtype: str) -> str:
        if entry.promote == "int_to_float" and dtype in _WHOLE:
            return "float32"
        return "int64" if entry.promote == "bool_to_int" and dtype == "bool" else dtype

    return frozenset(d for d in DTYPES if computed(d) in entry.dtypes)


def results(outcomes: dict[str, Outcome]) -> str:
    """The dtypes of the results, as rules."""
    taken = {d: kinds for d, kinds in outcomes.items() if isinstance(kinds, list)}
    if not taken:
        return ""
    lengths = {len(kinds) for kinds in taken.values()}
    if len(lengths) > 1:
        return " | ".join(f"{d}={','.join(kinds)}" for d, kinds in taken.items())
    columns = [{d: kinds[k] for d, kinds in taken.items()} for k in range(lengths.pop())]
    found = [_rule(column) for column in columns]
    return ", ".join(found[:1] if len(set(found)) == 1 and len(found) > 3 else found) or "nothing"


def _rule(column: dict[str, str]) -> str:
    """The rule that holds for most dtypes, and the others as ``dtype=result``."""
    fixed = {name: (lambda _, name=name: name) for name in dict.fromkeys(column.values())}
    several = len(column) > 1

    def other(rule: Callable[[str], str]) -> list[str]:
        return [f"{d}={got}" for d, got in column.items() if rule(d) != got]

    order = {**fixed, **RULES} if several else {**RULES, **fixed}
    name = min(order, key=lambda n: len(other(order[n])))
    return " ".join([name, *other(order[name])])


def names_of_tensors(entry: OperatorEntry, one: Case) -> list[str]:
    """For each tensor of the case, the argument that it is or stands in."""
    found: list[str] = []
    names = [a.name for a in entry.schema.arguments]
    for name, value in [*zip(names, one.args, strict=False), *one.kwargs.items()]:
        items = value if isinstance(value, list) else [value]
        found += [name for item in items if isinstance(item, T)]
    return found


def alone(one: Case, place: int, dtype: str, base: str) -> Case:
    """The case with tensor *place* of *dtype*, all others under test of *base*."""

    def change(a: T, i: int) -> T:
        return replace(a, dtype=dtype if i == place else a.dtype_for(base))

    return one.reshaped(change)


@dataclass
class Observed:
    """What one case of an entry takes."""

    together: dict[str, Outcome]
    values: dict[str, Any]
    single: dict[str, dict[str, Outcome]]
    base: str


def observe(entry: OperatorEntry, one: Case, positions: bool) -> Observed:
    """Call the case with every dtype, and with each of its arguments of every dtype."""
    both = {d: outcome(entry, one, d) for d in (DTYPES if depends(one) else BASES[:1])}
    together = {d: kinds for d, (kinds, _) in both.items()}
    values = {d: value for d, (_, value) in both.items()}
    base = next((d for d in BASES if isinstance(together.get(d), list)), "")
    single: dict[str, dict[str, Outcome]] = {}
    names = names_of_tensors(entry, one) if positions and base else []
    for place, name in enumerate(names):
        if len(names) > 1 or one.tensors[place].dtype:
            own = f"{name}[{names[:place].count(name)}]" if names.count(name) > 1 else name
            single[own] = {d: outcome(entry, alone(one, place, d, base), base)[0] for d in DTYPES}
    return Observed(together, values, single, base)


def taken(outcomes: dict[str, Outcome]) -> frozenset[str]:
    """The dtypes that were not refused."""
    return frozenset(d for d, kinds in outcomes.items() if isinstance(kinds, list))


def line(entry: OperatorEntry, number: int, one: Case, seen: Observed) -> str:
    """The line of the table for what was observed."""
    together = taken(seen.together)
    if not depends(one):
        dtypes = "-" if together else "none"
    elif together == declared(entry):
        dtypes = "declared"
    else:
        dtypes = written(together)
    name = entry.name if number == 0 else f"{entry.name}#{number + 1}"
    head = f"{name}: {dtypes}"
    if together:
        head += f" -> {results(seen.together)}"
    parts = [head]
    for argument, outcomes in seen.single.items():
        own = taken(outcomes)
        if own != together:
            parts.append(f"{argument} {'alike' if own == {seen.base} else written(own)}")
    return "; ".join(parts)


def observed(entry: OperatorEntry, of: list[Case]) -> list[Observed]:
    """What each case takes; the arguments one by one in the first."""
    return [observe(entry, one, positions=k == 0) for k, one in enumerate(of)]


def lines_of(entry: OperatorEntry, of: list[Case], seen: Iterable[Observed]) -> list[str]:
    """The lines of an entry: one for its first case, more for cases that take other dtypes."""
    made = [line(entry, k, one, s) for k, (one, s) in enumerate(zip(of, seen, strict=True))]
    dtypes = [text.partition(": ")[2].partition(" -> ")[0] for text in made]
    return made[:1] + [text for text, d in zip(made, dtypes, strict=True) if d != dtypes[0]]


def _names_of_dtypes() -> re.Pattern[str]:
    """Every name that a dtype has in a message: ours, torch's, that in C, that of its tensors."""
    titles = "Bool Byte Char Short Int Long Half Float Double BFloat16 UInt16 UInt32 UInt64".split()
    titles += [f"Complex{t}" for t in ("Half", "Float", "Double")]
    plain = "signed char|unsigned char|short int|int|long int|float|double|bool".split("|")
    plain += [f"{word} unsigned int" for word in ("short", "long")] + ["unsigned int"]
    halves = ["c10::Half", "c10::BFloat16"]
    pairs = [f"c10::complex<{part}>" for part in ("c10::Half", "float", "double")]
    fixed = [f"{dtype}_t" for dtype in INTEGERS]
    names = [*pairs, *halves, *plain, *fixed, *(f"torch.{t}Tensor" for t in titles), *titles]
    names += [*(f"torch.{dtype}" for dtype in DTYPES), *DTYPES]
    longest = sorted(map(re.escape, names), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(longest)})(?!\w)")


_DTYPE = _names_of_dtypes()
_NO_KERNEL = re.compile(r"\"[^\"]+\" not implemented for '{dtype}'")


def refusal(error: Exception) -> str:
    """The line of ``refusals.txt`` that the exception is one of."""
    text = _DTYPE.sub("{dtype}", str(error).splitlines()[0])
    text = _NO_KERNEL.sub("\"{kernel}\" not implemented for '{dtype}'", text)
    return f"{type(error).__name__}: {text}"


@functools.cache
def known_refusals() -> dict[str, str]:
    """The refusals of ``refusals.txt``, each with the operator that is named for it."""
    lines = (text.removesuffix("]").rpartition(" [") for text in REFUSALS.read_text().splitlines())
    return {refusal: name for refusal, _, name in lines}


def refusals(seen: Observed) -> set[str]:
    """The lines for all refusals of a case."""
    outcomes = [seen.together, *seen.single.values()]
    return {refusal(o) for of in outcomes for o in of.values() if isinstance(o, Exception)}


@functools.cache
def table() -> dict[str, list[str]]:
    """The lines of the file by entry."""
    found: dict[str, list[str]] = {}
    for text in TABLE.read_text().splitlines():
        found.setdefault(text.partition(":")[0].partition("#")[0], []).append(text)
    return found


def main() -> None:
    """Write the tables."""
    made: list[str] = []
    refused: dict[str, str] = {}
    for entry, of in every_case():
        seen = observed(entry, of)
        made += lines_of(entry, of, seen)
        for text in set().union(*map(refusals, seen)):
            refused.setdefault(text, entry.name)
    TABLE.write_text("\n".join(sorted(made)) + "\n")
    REFUSALS.write_text("".join(f"{text} [{name}]\n" for text, name in sorted(refused.items())))


if __name__ == "__main__":
    main()
