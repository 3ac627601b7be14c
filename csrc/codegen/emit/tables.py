"""The plain tables in C and Python: statuses, dtypes, dispatch keys and environment options."""

from __future__ import annotations

from codegen.emit.emitter import Emitter
from codegen.spec.c_types import c_string
from codegen.spec.tables import DTYPE_KINDS, Tables


def _enum(rows: list[tuple[str, int]]) -> str:
    return "enum {\n" + "".join(f"  {name} = {value},\n" for name, value in rows) + "};\n"


def emit_tables(emitter: Emitter, tables: Tables) -> None:
    """Write status.h, dtypes.h, keys.h, options and their Python twins."""
    _emit_statuses(emitter, tables)
    _emit_dtypes(emitter, tables)
    _emit_keys(emitter, tables)
    _emit_options(emitter, tables)


def _emit_statuses(emitter: Emitter, tables: Tables) -> None:
    rows = [("SHMT_OK", 0)] + [(f"SHMT_E_{s.name}", s.code) for s in tables.statuses]
    rows.append(("SHMT_N_STATUSES", len(rows)))
    spec = "csrc/spec/errors.yaml"
    emitter.c_file(
        "api/status.h", "what functions return.", spec, "typedef int shmt_status;\n\n" + _enum(rows)
    )
    lines = "".join(
        f"  [SHMT_E_{s.name}] = {{{c_string(s.name)}, {c_string(s.raises)}, "
        f"{c_string(s.class_name) if s.class_name else '0'}}},\n"
        for s in tables.statuses
    )
    emitter.c_file(
        "errors.h",
        "statuses and the exceptions Python raises for them.",
        spec,
        '#include "api/status.h"\n\n'
        "typedef struct shmt__status_row {\n"
        "  const char* name;\n"
        "  const char* raises;     /* a built-in exception */\n"
        "  const char* class_name; /* in shmtensor.errors; NULL: the built-in itself */\n"
        "} shmt__status_row;\n\n"
        "extern const shmt__status_row shmt__status_rows[SHMT_N_STATUSES];",
    )
    emitter.c_file(
        "errors.c",
        "statuses and the exceptions Python raises for them.",
        spec,
        '#include "generated/errors.h"\n\n'
        "const shmt__status_row shmt__status_rows[SHMT_N_STATUSES] = {\n"
        '  [SHMT_OK] = {"OK", 0, 0},\n'
        f"{lines}}};",
    )
    body = "from __future__ import annotations\n\n"
    body += "#: Status code -> (name, built-in exception, class in shmtensor.errors or '').\n"
    body += "STATUSES: dict[int, tuple[str, type[Exception], str]] = {\n"
    for s in tables.statuses:
        body += f'    {s.code}: ("{s.name}", {s.raises}, "{s.class_name}"),\n'
    body += "}\n"
    path = emitter.root / "shmtensor" / "_generated"
    emitter.python_file(path / "__init__.py", "Tables shared with the C core.", "csrc/spec", "")
    emitter.python_file(path / "errors.py", "Status codes and their exceptions.", spec, body)


def _emit_dtypes(emitter: Emitter, tables: Tables) -> None:
    spec = "csrc/spec/dtypes.yaml"
    rows = [("SHMT_DTYPE_NONE", -1)] + [(d.constant, d.code) for d in tables.dtypes]
    rows.append(("SHMT_N_DTYPES", len(tables.dtypes)))
    kinds = [(f"SHMT_KIND_{k.upper()}", i) for i, k in enumerate(DTYPE_KINDS)]
    emitter.c_file(
        "api/dtypes.h",
        "element types.",
        spec,
        "typedef int shmt_dtype;\n\n"
        + _enum(rows)
        + "\n/* The promotion category of a dtype. */\n"
        + _enum(kinds),
    )
    x = " \\\n".join(f"  X({d.name}, {d.constant}, {d.ctype}, {d.compute})" for d in tables.dtypes)
    emitter.c_file(
        "dtype_tables.h",
        "facts about element types.",
        spec,
        '#include "api/dtypes.h"\n\n#include <stdint.h>\n\n'
        "extern const uint8_t shmt__dtype_size[SHMT_N_DTYPES]; /* bytes of an element */\n"
        "extern const uint8_t shmt__dtype_kind[SHMT_N_DTYPES]; /* SHMT_KIND_... */\n"
        "extern const uint8_t shmt__dtype_real[SHMT_N_DTYPES]; /* the dtype of the real part */\n"
        'extern const char* const shmt__dtype_name[SHMT_N_DTYPES];   /* "float32" */\n'
        'extern const char* const shmt__dtype_struct[SHMT_N_DTYPES]; /* PEP 3118; "" when none */\n'
        'extern const char* const shmt__dtype_numpy[SHMT_N_DTYPES];  /* "" when it has none */\n'
        "\n/* X(name, constant, stored C type, C type to calculate in) for each; the types of\n"
        " * 16-bit parts are in base/half.h. */\n"
        f"#define SHMT_FOR_EACH_DTYPE(X) \\\n{x}",
    )

    def array(ctype: str, name: str, values: list[str]) -> str:
        lines = "".join(
            f"  [{d.constant}] = {v},\n" for d, v in zip(tables.dtypes, values, strict=True)
        )
        return f"const {ctype} {name}[SHMT_N_DTYPES] = {{\n{lines}}};\n"

    emitter.c_file(
        "dtypes.c",
        "facts about element types.",
        spec,
        '#include "generated/dtype_tables.h"\n\n'
        + "\n".join(
            [
                array("uint8_t", "shmt__dtype_size", [str(d.size) for d in tables.dtypes]),
                array(
                    "uint8_t",
                    "shmt__dtype_kind",
                    [f"SHMT_KIND_{d.kind.upper()}" for d in tables.dtypes],
                ),
                array(
                    "uint8_t",
                    "shmt__dtype_real",
                    [tables.dtype(d.real).constant for d in tables.dtypes],
                ),
                array("char* const", "shmt__dtype_name", [c_string(d.name) for d in tables.dtypes]),
                array(
                    "char* const", "shmt__dtype_struct", [c_string(d.struct) for d in tables.dtypes]
                ),
                array(
                    "char* const", "shmt__dtype_numpy", [c_string(d.numpy) for d in tables.dtypes]
                ),
            ]
        ),
    )
    body = "from __future__ import annotations\n\nfrom typing import NamedTuple\n\n\n"
    body += "class DtypeRow(NamedTuple):\n"
    body += '    """What is known of an element type; its position in DTYPES is its code."""\n\n'
    body += "    name: str\n    kind: str\n    itemsize: int\n    struct: str\n    numpy: str\n"
    body += "    aliases: tuple[str, ...]\n    real: str\n\n\nDTYPES: tuple[DtypeRow, ...] = (\n"
    for d in tables.dtypes:
        aliases = "(" + "".join(f'"{a}", ' for a in d.aliases).rstrip() + ")"
        body += f'    DtypeRow("{d.name}", "{d.kind}", {d.size}, "{d.struct}", "{d.numpy}", '
        body += f'{aliases}, "{d.real}"),\n'
    body += ")\n"
    path = emitter.root / "shmtensor" / "_generated" / "dtypes.py"
    emitter.python_file(path, "The element types.", spec, body)


def _emit_keys(emitter: Emitter, tables: Tables) -> None:
    spec = "csrc/spec/keys.yaml"
    rows = [(f"SHMT_KEY_{k.name}", i) for i, k in enumerate(tables.keys)]
    rows.append(("SHMT_N_KEYS", len(tables.keys)))
    aliases = [(f"SHMT_ALIAS_{k.name}", 64 + i) for i, k in enumerate(tables.alias_keys)]
    bits = [(f"SHMT_KEYBIT_{k.name}", 1 << i) for i, k in enumerate(tables.keys)]
    emitter.c_file(
        "api/keys.h",
        "dispatch keys; the highest bit of a set wins.",
        spec,
        "#include <stdint.h>\n\ntypedef uint64_t shmt_keyset;\n\n"
        + _enum(rows)
        + "\n/* Not bits: they fill the rows of several keys when a table is made. */\n"
        + _enum(aliases)
        + "\n"
        + _enum(bits),
    )
    names = "".join(f"  [SHMT_KEY_{k.name}] = {c_string(k.name)},\n" for k in tables.keys)
    alias_names = "".join(
        f"  [SHMT_ALIAS_{k.name} - 64] = {c_string(k.name)},\n" for k in tables.alias_keys
    )
    emitter.c_file(
        "key_names.h",
        "the names of dispatch keys.",
        spec,
        '#include <stdint.h>\n\n#include "api/keys.h"\n\n'
        f"enum {{ SHMT_N_ALIAS_KEYS = {len(tables.alias_keys)} }};\n\n"
        "extern const char* const shmt__key_names[SHMT_N_KEYS];\n"
        "/* Index: alias key - 64. */\n"
        "extern const char* const shmt__alias_key_names[SHMT_N_ALIAS_KEYS];",
    )
    emitter.c_file(
        "key_names.c",
        "the names of dispatch keys.",
        spec,
        '#include "generated/key_names.h"\n\n'
        f"const char* const shmt__key_names[SHMT_N_KEYS] = {{\n{names}}};\n\n"
        f"const char* const shmt__alias_key_names[SHMT_N_ALIAS_KEYS] = {{\n{alias_names}}};",
    )


def _emit_options(emitter: Emitter, tables: Tables) -> None:
    spec = "csrc/spec/options.yaml"
    fields = ""
    reads = ""
    enums = ""
    for o in tables.options:
        name = o.name.lower()
        if o.type == "choice":
            enums += _enum([(f"SHMT_{o.name}_{v.upper()}", i) for i, v in enumerate(o.values)])
            words = ", ".join(c_string(v) for v in o.values)
            reads += (
                f'  options.{name} = read_choice("SHMTENSOR_{o.name}", '
                f"(const char* const[]){{{words}, 0}}, {o.values.index(o.default)});\n"
            )
            fields += f"  int {name}; /* SHMT_{o.name}_...: {o.doc} */\n"
        elif o.type == "str":
            default = c_string(o.default) if o.default else "0"
            reads += f'  options.{name} = read_str("SHMTENSOR_{o.name}", {default});\n'
            fields += f"  const char* {name}; /* {o.doc} */\n"
        else:
            low, high = (o.low or "INT64_MIN"), (o.high or "INT64_MAX")
            if o.type == "bool":
                low, high = "0", "1"
            ctype = "bool" if o.type == "bool" else "int64_t"
            tail = " != 0" if o.type == "bool" else ""
            reads += (
                f'  options.{name} = read_int("SHMTENSOR_{o.name}", {o.default}, {low}, {high})'
                f"{tail};\n"
            )
            fields += f"  {ctype} {name}; /* {o.doc} */\n"
    emitter.c_file(
        "options.h",
        "environment options.",
        spec,
        "#include <stdbool.h>\n#include <stdint.h>\n\n"
        + enums
        + f"\ntypedef struct shmt__options {{\n{fields}}} shmt__options;\n\n"
        "/* SHMTENSOR_* as they were at the first call; senseless values count as unset.\n"
        " * Safety: any thread; texts live as long as the process. */\n"
        "const shmt__options* shmt__options_get(void);",
    )
    emitter.c_file("options.c", "environment options.", spec, _OPTIONS_C.replace("@READS@", reads))


_OPTIONS_C = """
#include "generated/options.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static shmt__options options;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int64_t read_int(const char* name, int64_t unset, int64_t low, int64_t high) {
  const char* text = getenv(name);
  char* end = 0;
  if (!text || !*text) return unset;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno || *end || value < low || value > high) return unset;
  return value;
}

static const char* read_str(const char* name, const char* unset) {
  const char* text = getenv(name);
  if (!text || !*text) return unset;
  size_t size = strlen(text) + 1;
  char* copy = malloc(size); /* kept: the environment may change later */
  return copy ? memcpy(copy, text, size) : unset;
}

static int read_choice(const char* name, const char* const* words, int unset) {
  const char* text = getenv(name);
  for (int i = 0; text && words[i]; i++)
    if (strcmp(text, words[i]) == 0) return i;
  return unset;
}

static void read_all(void) {
@READS@}

const shmt__options* shmt__options_get(void) {
  (void)pthread_once(&once, read_all);
  return &options;
}
"""
