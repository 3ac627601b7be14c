"""Loops: which rows there are, one C file per template and instruction set, and the tables.

Loops come from operator entries with ``kernel`` and from ``spec/loops.yaml``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from codegen.emit.emitter import Emitter
from codegen.spec.errors import SpecError
from codegen.spec.loader import load_mapping
from codegen.spec.model import Model
from codegen.spec.tables import Dtype, Tables

LEVELS = ("base", "v3", "v4")
OWN_SPEC = "csrc/spec/loops.yaml"
SPEC = f"{OWN_SPEC} and csrc/spec/ops"


@dataclass(frozen=True)
class Template:
    """How ``kernels/<family>/<name>.tmpl.h`` is built."""

    name: str
    family: str  # "": the template lies in kernels/ itself
    where: str
    levels: tuple[str, ...]
    dtypes: tuple[str, ...]
    split: int
    light: bool
    costly: bool

    @property
    def path(self) -> str:
        """The template, as C files include it."""
        folder = f"kernels/{self.family}" if self.family else "kernels"
        return f"{folder}/{self.name}.tmpl.h"


@dataclass(frozen=True)
class Loop:
    """One row of the table."""

    name: str
    template: str
    dtypes: tuple[str, ...]
    where: str


@dataclass(frozen=True)
class Loops:
    """All templates and rows; the first rows are those of loops.yaml."""

    templates: dict[str, Template]
    loops: dict[str, Loop]
    n_own: int  # rows of loops.yaml


def load_loops(spec: Path, root: Path, model: Model, tables: Tables) -> Loops:
    """Read ``loops.yaml`` and collect the rows of operator entries.

    Raises:
        SpecError: Two loops of one name differ, or a template is unknown.
    """
    top = load_mapping(spec / "loops.yaml", root)
    top.check_keys(("templates", "loops"))
    declared: dict[str, Template] = {}
    for entry in top.entries("templates"):
        entry.check_keys(
            ("name", "family", "isa", "dtypes", "split", "light", "costly"), ("name", "isa")
        )
        name = entry.text("name")
        if name in declared:
            raise SpecError(name.where, f"template '{name}' is given twice")
        levels = entry.texts("isa")
        for level in levels:
            if level not in LEVELS:
                raise SpecError(level.where, f"isa: '{level}' is none of {', '.join(LEVELS)}")
        if "base" not in levels:
            raise SpecError(entry.where_of("isa"), f"template '{name}' needs the level base")
        dtypes: tuple[str, ...] = ()
        if "dtypes" in entry:
            dtypes = tables.resolve_dtypes(entry.text_or_texts("dtypes"), entry.where)
        split = entry.number("split", 1)
        if split < 1:
            raise SpecError(entry.where_of("split"), f"split must be at least 1, got {split}")
        declared[str(name)] = Template(
            str(name),
            str(entry.text("family", "")),
            entry.where,
            tuple(lv for lv in LEVELS if lv in levels),
            dtypes,
            split,
            entry.flag("light"),
            entry.flag("costly"),
        )
    loops: dict[str, Loop] = {}
    for entry in top.entries("loops"):
        entry.check_keys(
            ("name", "template", "dtypes", "each", "declares"), ("name", "template", "dtypes")
        )
        dtypes = tables.resolve_dtypes(entry.text_or_texts("dtypes"), entry.where)
        row_name = str(entry.text("name"))
        rows = [row_name]
        if entry.flag("each"):
            rows = [f"{row_name}_{d}" for d in dtypes]
        for row in rows:
            _add(loops, Loop(row, str(entry.text("template")), dtypes, entry.where))
    n_own = len(loops)
    for op_entry in model.entries:
        if op_entry.kernel:
            loop = Loop(op_entry.loop, op_entry.template, op_entry.dtypes, op_entry.where)
            _add(loops, loop)
    for loop in loops.values():
        if loop.template not in declared:
            raise SpecError(
                loop.where, f"template '{loop.template}' has no row in csrc/spec/loops.yaml"
            )
    used = {loop.template for loop in loops.values()}
    return Loops({k: v for k, v in declared.items() if k in used}, loops, n_own)


def _add(loops: dict[str, Loop], loop: Loop) -> None:
    first = loops.setdefault(loop.name, loop)
    if (first.template, first.dtypes) != (loop.template, loop.dtypes):
        raise SpecError(
            loop.where,
            f"loop '{loop.name}' has another template or other dtypes than at {first.where}",
        )


def _stored(dtype: Dtype) -> str:
    """The type of elements in memory. Of a bool it is a byte, which view(bool) may make any."""
    return "uint8_t" if dtype.kind == "bool" else dtype.ctype


def _load(dtype: Dtype) -> str:
    """The stored element x in the type calculated in; base/half.h has the conversions."""
    if dtype.kind == "bool":
        return "((x) != 0)"
    if dtype.ctype == dtype.compute:
        return "(x)"
    return f"shmt__{dtype.name}_to_{_family(dtype.compute)}(x)"


def _store(dtype: Dtype) -> str:
    if dtype.ctype == dtype.compute:
        return "((T)(x))"
    return f"shmt__{dtype.name}_from_{_family(dtype.compute)}(x)"


def _family(ctype: str) -> str:
    return "complex" if ctype.endswith("_Complex") else ctype


def _macros(dtype: Dtype, tables: Tables, level: str) -> str:
    kind = dtype.kind
    real = tables.dtype(dtype.real)
    full = next(d for d in tables.dtypes if d.ctype == dtype.compute)
    twin = next((d for d in tables.dtypes if d.kind == "unsigned" and d.size == dtype.size), dtype)
    flags = {
        "BOOL": kind == "bool",
        "INTEGRAL": kind in ("signed", "unsigned"),
        "SIGNED": kind == "signed",
        "FLOATING": kind == "floating",
        "COMPLEX": kind == "complex",
        # uint16 and wider: torch gives them few operators, so templates leave most loops out.
        "BAREBONES_UNSIGNED": kind == "unsigned" and dtype.size > 1,
        # complex32: the same, for other loops.
        "LIMITED": dtype.limited,
        # Made of 16-bit floats: calculated in the type of a wider dtype.
        "HALF": dtype.ctype != dtype.compute,
        # A dtype that float16 and its like are calculated in.
        "FULL": any(d.ctype != dtype.ctype == d.compute for d in tables.dtypes),
    }
    rows = [
        ("T", _stored(dtype)),
        ("C", dtype.compute),
        ("ACC", dtype.acc),
        ("DT", dtype.name),
        ("SHMT_DT", dtype.constant),
        ("SHMT_LOAD(x)", _load(dtype)),
        ("SHMT_STORE(x)", _store(dtype)),
        ("SHMT_REAL", _stored(real)),
        ("SHMT_STORE_REAL(x)", _store(real).replace("(T)", "(SHMT_REAL)")),
        ("SHMT_LOOP(name)", f"shmt__loop_##name##_{dtype.name}_{level}"),
        ("SHMT_FULL_LOOP(name)", f"shmt__loop_##name##_{full.name}_{level}"),
        ("SHMT_UNSIGNED_LOOP(name)", f"shmt__loop_##name##_{twin.name}_{level}"),
        *((f"SHMT_IS_{flag}", str(int(on))) for flag, on in flags.items()),
    ]
    return "".join(f"#define {name} {value}\n" for name, value in rows)


_UNDEF = "".join(
    f"#undef {name}\n"
    for name in (
        "T C ACC DT SHMT_DT SHMT_LOAD SHMT_STORE SHMT_REAL SHMT_STORE_REAL SHMT_LOOP "
        "SHMT_FULL_LOOP SHMT_UNSIGNED_LOOP SHMT_IS_BOOL SHMT_IS_INTEGRAL SHMT_IS_SIGNED "
        "SHMT_IS_FLOATING SHMT_IS_COMPLEX SHMT_IS_BAREBONES_UNSIGNED SHMT_IS_LIMITED SHMT_IS_HALF "
        "SHMT_IS_FULL"
    ).split()
)


def template_dtypes(template: Template, loops: Loops, tables: Tables) -> list[Dtype]:
    """The dtypes a template is included for: its own list, and those of its loops."""
    names = set(template.dtypes)
    for loop in loops.loops.values():
        if loop.template == template.name:
            names.update(loop.dtypes)
    return [d for d in tables.dtypes if d.name in names]


def emit_kernels(emitter: Emitter, loops: Loops, tables: Tables) -> None:
    """Write loops.h, operator_loops.h, loops.c, kernels/[light/]<template>[_<part>]_<level>.c."""
    _emit_tables(emitter, loops, tables)
    for template in loops.templates.values():
        dtypes = template_dtypes(template, loops, tables)
        for level in template.levels:
            for part in range(template.split):
                _emit_file(emitter, tables, template, level, part, dtypes[part :: template.split])


def _emit_file(
    emitter: Emitter,
    tables: Tables,
    template: Template,
    level: str,
    part: int,
    dtypes: list[Dtype],
) -> None:
    stem = template.name if template.split == 1 else f"{template.name}_{part + 1}"
    text = '#include <stdbool.h>\n#include <stdint.h>\n\n#include "base/half.h"\n'
    text += '#include "base/types.h"\n\n'
    text += f"#define ISA {level}\n#define SHMT_ISA_LEVEL {LEVELS.index(level)}\n"
    for dtype in dtypes:
        text += f"\n/* {dtype.name} */\n{_macros(dtype, tables, level)}"
        text += f'#include "{template.path}"\n{_UNDEF}'
    folder = "kernels/light" if template.light else "kernels"
    emitter.c_file(
        f"{folder}/{stem}_{level}.c",
        f"the loops of {template.path}, level {level}.",
        SPEC,
        text,
    )


def _emit_tables(emitter: Emitter, loops: Loops, tables: Tables) -> None:
    rows = [f"  SHMT_LOOP_{name} = {i},\n" for i, name in enumerate(loops.loops)]
    own = f"enum {{\n{''.join(rows[: loops.n_own])}}};\n\n" if loops.n_own else ""
    header = (
        '#include "iter/iter.h"\n\n'
        f"{own}"
        "/* shmt__loops[SHMT_LOOP_add][dtype]: the loop for this CPU; NULL where there is none.\n"
        " * Set once when the library is loaded. */\n"
        "extern const shmt__loop (*shmt__loops)[SHMT_N_DTYPES];\n"
        "/* Does an element cost far more than reading it? */\n"
        "extern const bool shmt__loop_is_costly[]; /* by row */\n\n"
        "enum { SHMT_CPU_BASE = 0, SHMT_CPU_V3 = 1, SHMT_CPU_V4 = 2 };\n"
        "/* The level the loops were chosen for, SHMT_CPU_...: what the CPU has, lowered by\n"
        " * SHMTENSOR_CPU_CAPABILITY. */\n"
        "extern int shmt__cpu_level;\n"
        "/* The only level that this build has loops of, SHMT_CPU_...; -1 where it has all. Where\n"
        " * shmt__cpu_level is lower, there are none to call. */\n"
        "extern const int shmt__only_cpu_level;\n"
        '/* "base", "v3" or "v4". */\n'
        "const char* shmt__cpu_level_name(int level);"
    )
    emitter.c_file("loops.h", "the loops that code names.", OWN_SPEC, header)
    rows.append(f"  SHMT_N_LOOPS = {len(rows)},\n")
    emitter.c_file(
        "operator_loops.h",
        "loops.h, and the loops that are operators.",
        SPEC,
        f'#include "generated/loops.h"\n\nenum {{\n{"".join(rows[loops.n_own :])}}};',
    )
    source = (
        '#include "generated/operator_loops.h"\n\n#include <stddef.h>\n\n'
        '#include "generated/options.h"\n\n'
        "#define DECLARE(loop) \\\n"
        "  void loop(char* const* data, const int64_t* strides, int64_t n, const void* ctx)\n\n"
    )
    source += _declarations(loops) + _BUILT
    source += "".join(_table(loops, tables, level) for level in LEVELS)
    costly = "".join(
        f"  [SHMT_LOOP_{loop.name}] = true,\n"
        for loop in loops.loops.values()
        if loops.templates[loop.template].costly
    )
    source += f"\nconst bool shmt__loop_is_costly[SHMT_N_LOOPS + 1] = {{\n{costly}}};\n"
    emitter.c_file("loops.c", "tables of loops, and the choice of one.", SPEC, source + _CHOICE)


def _declarations(loops: Loops) -> str:
    return "".join(
        f"DECLARE(shmt__loop_{loop.name}_{dtype}_{level});\n"
        for loop in loops.loops.values()
        for level in loops.templates[loop.template].levels
        for dtype in loop.dtypes
    )


def _table(loops: Loops, tables: Tables, level: str) -> str:
    """The loops for a CPU of this level, by number and dtype."""
    rows = []
    for loop in loops.loops.values():
        best = _best_level(loops.templates[loop.template], level)
        entries = "".join(
            f"    [{tables.dtype(dtype).constant}] = shmt__loop_{loop.name}_{dtype}_{best},\n"
            for dtype in loop.dtypes
        )
        rows.append(f"  [SHMT_LOOP_{loop.name}] = {{\n{entries}  }},\n")
    return (
        f"\n#if SHMT_HAS_{level.upper()}"
        f"\nstatic const shmt__loop loops_{level}[SHMT_N_LOOPS + 1][SHMT_N_DTYPES] = {{\n"
        f"{''.join(rows)}}};\n#endif\n"
    )


def _best_level(template: Template, level: str) -> str:
    """The highest level at or below *level* that the template is compiled for."""
    limit = LEVELS.index(level)
    return [lv for lv in template.levels if LEVELS.index(lv) <= limit][-1]


_BUILT = """
/* A build for one machine alone, build_ffi.py --this-machine, has one level: SHMT_ONLY_LEVEL. */
#if defined(SHMT_ONLY_LEVEL)
#define SHMT_HAS_BASE (SHMT_ONLY_LEVEL == 0)
#define SHMT_HAS_V3   (SHMT_ONLY_LEVEL == 1)
#define SHMT_HAS_V4   (SHMT_ONLY_LEVEL == 2)
#else
#define SHMT_HAS_BASE 1
#if defined(__x86_64__)
#define SHMT_HAS_V3 1
#define SHMT_HAS_V4 1
#else
#define SHMT_HAS_V3 0
#define SHMT_HAS_V4 0
#endif
#endif
"""

_CHOICE = """
/* By SHMT_CPU_.... */
static const shmt__loop (*const tables[])[SHMT_N_DTYPES] = {
#if SHMT_HAS_BASE
  [SHMT_CPU_BASE] = loops_base,
#endif
#if SHMT_HAS_V3
  [SHMT_CPU_V3] = loops_v3,
#endif
#if SHMT_HAS_V4
  [SHMT_CPU_V4] = loops_v4,
#endif
};

#if defined(SHMT_ONLY_LEVEL)
const int shmt__only_cpu_level = SHMT_ONLY_LEVEL;
#else
const int shmt__only_cpu_level = -1;
#endif
const shmt__loop (*shmt__loops)[SHMT_N_DTYPES];
int shmt__cpu_level = SHMT_CPU_BASE;

const char* shmt__cpu_level_name(int level) {
  static const char* const names[] = {"base", "v3", "v4"};
  return names[level];
}

static int detect_level(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return SHMT_CPU_V4;
  if (__builtin_cpu_supports("x86-64-v3")) return SHMT_CPU_V3;
#endif
  return SHMT_CPU_BASE;
}

__attribute__((constructor)) static void choose_loops(void) {
  int wanted = shmt__options_get()->cpu_capability;
  int level = detect_level();
  if (wanted == SHMT_CPU_CAPABILITY_BASE) level = SHMT_CPU_BASE;
  if (wanted == SHMT_CPU_CAPABILITY_V3 && level > SHMT_CPU_V3) level = SHMT_CPU_V3;
  if (shmt__only_cpu_level >= 0 && level > shmt__only_cpu_level) level = shmt__only_cpu_level;
  shmt__cpu_level = level;
  /* Below the only level there are none; the package refuses to be imported then. */
  shmt__loops = tables[shmt__only_cpu_level >= 0 ? shmt__only_cpu_level : level];
}
"""
