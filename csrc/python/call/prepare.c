/* python/call/prepare.c -- interned names, parsed defaults and result types of an operator's signatures.
 */
#include "python/call/prepare.h"

#include "base/scalar.h"
#include "generated/dtype_tables.h"
#include "python/call/return_types.h"

PyObject* shmt__py_str_out;
PyObject* shmt__py_str_requires_grad;
PyObject* shmt__py_str_pin_memory;
PyObject* shmt__py_str_shared;
PyObject* shmt__py_str_reductions[3];

/* --- defaults -------------------------------------------------------------------- */

static bool is_word(const char* text, const char* word) { return strcmp(text, word) == 0; }

static bool parse_scalar(const char* s, shmt_scalar* out) {
  if (is_word(s, "True") || is_word(s, "False")) {
    *out = shmt__scalar_bool(*s == 'T');
    return true;
  }
  char* end;
  long long i = strtoll(s, &end, 10);
  if (*end == 0 && end != s) {
    *out = shmt__scalar_int(i);
    return true;
  }
  double d = strtod(s, &end);
  if (*end != 0 || end == s) return false;
  *out = shmt__scalar_float(d);
  return true;
}

/* "[0, 1]" or "3" into a list that stays. */
static bool parse_ints(const char* s, int list_size, shmt_ints* out) {
  int64_t values[SHMT_MAX_DIMS];
  int64_t n = 0;
  char* end;
  if (*s == '[') {
    s++;
    while (*s == ' ') s++;
    while (*s && *s != ']') {
      if (n == SHMT_MAX_DIMS) return false;
      values[n++] = strtoll(s, &end, 10);
      if (end == s) return false;
      s = end;
      while (*s == ' ' || *s == ',') s++;
    }
    if (*s != ']') return false;
  } else {
    int64_t v = strtoll(s, &end, 10);
    if (end == s || *end) return false;
    for (n = 0; n < (list_size > 0 ? list_size : 1) && n < SHMT_MAX_DIMS; n++) values[n] = v;
  }
  int64_t* copy = PyMem_Malloc((size_t)(n ? n : 1) * sizeof *copy);
  if (copy == NULL) return false;
  memcpy(copy, values, (size_t)n * sizeof *copy);
  *out = (shmt_ints){copy, n};
  return true;
}

static bool parse_constant(const shmt_arg* a, const char* s, int64_t* out) {
  static const struct {
    const char* name;
    int value;
  } names[] = {
      {"contiguous_format", SHMT_CONTIGUOUS_FORMAT},
      {"preserve_format", SHMT_PRESERVE_FORMAT},
      {"channels_last", SHMT_CHANNELS_LAST},
      {"channels_last_3d", SHMT_CHANNELS_LAST_3D},
      {"strided", SHMT_STRIDED},
      {"cpu", SHMT_CPU},
      {"meta", SHMT_META},
      {"None_", 0},
      {"Mean", 1},
      {"Sum", 2},
      {"long", SHMT_INT64},
      {"float", SHMT_FLOAT32},
  };
  if (a->type == SHMT_TYPE_DTYPE) {
    for (int d = 0; d < SHMT_N_DTYPES; d++)
      if (is_word(s, shmt__dtype_name[d])) return *out = d, true;
  }
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (is_word(s, names[i].name)) return *out = names[i].value, true;
  char* end;
  *out = strtoll(s, &end, 10);
  return end != s && *end == 0;
}

/* The value of a schema's default; strings and lists it makes are never freed. */
static bool parse_default(const shmt_arg* a, shmt_value* out) {
  const char* s = a->default_text;
  *out = (shmt_value){.tag = SHMT_VALUE_NONE};
  if (s == NULL || is_word(s, "None")) return true;
  switch (a->type) {
    case SHMT_TYPE_SCALAR:
      out->tag = SHMT_VALUE_SCALAR;
      return parse_scalar(s, &out->v.scalar);
    case SHMT_TYPE_FLOAT: {
      char* end;
      out->tag = SHMT_VALUE_FLOAT;
      out->v.d = strtod(s, &end);
      return end != s && *end == 0;
    }
    case SHMT_TYPE_BOOL:
      out->tag = SHMT_VALUE_BOOL;
      out->v.b = is_word(s, "True");
      return out->v.b || is_word(s, "False");
    case SHMT_TYPE_INTS:
      out->tag = SHMT_VALUE_INTS;
      return parse_ints(s, a->list_size, &out->v.ints);
    case SHMT_TYPE_STR: {
      size_t n = strlen(s);
      if (n < 2 || (s[0] != '"' && s[0] != '\'') || s[n - 1] != s[0]) return false;
      char* copy = PyMem_Malloc(n);
      if (copy == NULL) return false;
      memcpy(copy, s + 1, n - 2);
      copy[n - 2] = 0;
      out->tag = SHMT_VALUE_STR;
      out->v.str = copy;
      return true;
    }
    case SHMT_TYPE_TENSORS:
      out->tag = SHMT_VALUE_TENSORS;
      out->v.tensors = (shmt_tensors){NULL, 0};
      return is_word(s, "[]");
    case SHMT_TYPE_FLOATS:
      out->tag = SHMT_VALUE_FLOATS;
      out->v.floats = (shmt_floats){NULL, 0};
      return is_word(s, "[]");
    default:
      out->tag = SHMT_VALUE_INT;
      return parse_constant(a, s, &out->v.i);
  }
}

/* --- signatures ------------------------------------------------------------------- */

static bool is_in(const char* name, const char* const* names) {
  size_t n = strlen(name);
  if (n > 1 && name[n - 1] == '_') n--;
  for (; *names != NULL; names++)
    if (strlen(*names) == n && memcmp(name, *names, n) == 0) return true;
  return false;
}

bool shmt__py_takes_scalar_as_tensor(const char* name) {
  static const char* const names[] = {"add", "sub",    "subtract",    "mul",          "multiply",
                                      "div", "divide", "true_divide", "floor_divide", "copy", NULL};
  return is_in(name, names);
}

/* Functions between devices, and those that look at one tensor's metadata only. */
static bool mixes_devices(const char* name) {
  static const char* const names[] = {"copy",      "to",        "type_as",    "set",
                                      "resize_as", "is_set_to", "index",      "index_put",
                                      "expand_as", "view_as",   "reshape_as", "meshgrid", NULL};
  return is_in(name, names);
}

/* Other keywords for the argument called name: NumPy's, the schema's own "self", and those that
 * torch's function has where its schema has another. */
static const char* const* aliases_of(const char* function, const char* name, bool is_self) {
  static const struct {
    const char* function; /* NULL: any */
    const char* name;
    const char* aliases[SHMT_PY_MAX_ALIASES + 1];
  } rows[] = {
      {"split", "self", {"tensor", "self", "x", NULL}},
      {"split", "split_size", {"split_size_or_sections", NULL}},
      {"copy_", "src", {"other", NULL}},
      {NULL, "self", {"self", "x", "a", "x1", NULL}},
      {NULL, "dim", {"axis", NULL}},
      {NULL, "keepdim", {"keepdims", NULL}},
      {NULL, "other", {"x2", NULL}},
  };
  static const char* const none[] = {NULL};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].name, name) == 0 && (strcmp(name, "self") != 0 || is_self) &&
        (rows[i].function == NULL || strcmp(rows[i].function, function) == 0))
      return rows[i].aliases;
  return none;
}

/* Some overload takes one int, as hsplit(sections) beside hsplit(indices): then one int is no list.
 */
static bool takes_one_int(const shmt__py_function* f) {
  for (int i = 0; i < f->n_signatures; i++) {
    const shmt_schema* s = f->signatures[i].op->schema;
    if (s->n_args == 2 && s->args[0].type == SHMT_TYPE_TENSOR && s->args[1].type == SHMT_TYPE_INT)
      return true;
  }
  return false;
}

/* The next argument of a call: that of the schema's slot. 0, or -1 with an exception. */
static int add_argument(const shmt__py_function* f, const shmt_arg* a, int slot, shmt__py_prepared_signature* p) {
  shmt__py_arg* d = &p->args[p->n_args++];
  bool is_self = !f->is_method && strcmp(a->name, "self") == 0;
  const char* const* aliases = aliases_of(f->name, a->name, is_self);
  d->name = PyUnicode_InternFromString(is_self ? "input" : a->name);
  if (d->name == NULL) return -1;
  for (int k = 0; aliases[k] != NULL; k++)
    if ((d->aliases[k] = PyUnicode_InternFromString(aliases[k])) == NULL) return -1;
  d->arg = a;
  d->slot = (uint8_t)slot;
  d->required = p->from->order != NULL || !(a->flags & SHMT_ARG_HAS_DEFAULT);
  d->optional = (a->flags & SHMT_ARG_OPTIONAL) != 0;
  d->none_is_default = a->type == SHMT_TYPE_INTS && a->default_text != NULL && strcmp(a->default_text, "[]") == 0;
  d->number_ok =
      a->type == SHMT_TYPE_TENSOR && !(a->flags & SHMT_ARG_WRITE) && shmt__py_takes_scalar_as_tensor(f->name);
  d->is_reduction = a->type == SHMT_TYPE_INT && strcmp(a->name, "reduction") == 0;
  if (p->from->order != NULL || !(a->flags & SHMT_ARG_KEYWORD_ONLY)) p->n_positional = p->n_args;
  p->n_required += d->required;
  return 0;
}

/* The slot of the first word of *order, which it is moved behind; -1 at its end. */
static int next_in_order(const shmt_schema* s, const char** order) {
  size_t n = strcspn(*order, " ");
  if (n == 0) return -1;
  for (int i = 0; i < s->n_args; i++) {
    if (strncmp(s->args[i].name, *order, n) != 0 || s->args[i].name[n] != 0) continue;
    *order += (*order)[n] ? n + 1 : n;
    return i;
  }
  return -1;
}

static int prepare_signature(const shmt__py_function* f, const shmt__py_signature* from,
                             shmt__py_prepared_signature* p) {
  const shmt_schema* s = from->op->schema;
  p->from = from;
  p->schema = s;
  p->self_slot = -1;
  p->args = PyMem_Calloc((size_t)s->n_args + 1, sizeof *p->args);
  p->defaults = PyMem_Calloc((size_t)s->n_args + 1, sizeof *p->defaults);
  if (p->args == NULL || p->defaults == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  if (f->is_method) {
    for (int i = 0; i < s->n_args && p->self_slot < 0; i++)
      if (strcmp(s->args[i].name, "self") == 0) p->self_slot = i;
    for (int i = 0; i < s->n_args && p->self_slot < 0; i++)
      if (s->args[i].type == SHMT_TYPE_TENSOR) p->self_slot = i;
    if (p->self_slot < 0) goto unfit;
  }
  for (int i = 0; i < s->n_args; i++) {
    const shmt_arg* a = &s->args[i];
    if (!parse_default(a, &p->defaults[i])) goto unfit;
    if (i == p->self_slot) continue;
    if (a->flags & SHMT_ARG_OUT) {
      if (p->n_out == SHMT_SCHEMA_MAX_RETURNS) goto unfit;
      p->out_slots[p->n_out++] = (uint8_t)i;
      continue;
    }
    if (from->order == NULL && add_argument(f, a, i, p) < 0) return -1;
  }
  const char* order = from->order ? from->order : "";
  for (int i; (i = next_in_order(s, &order)) >= 0;)
    if (add_argument(f, &s->args[i], i, p) < 0) return -1;
  if (p->n_positional == 1 && p->args[0].arg->type == SHMT_TYPE_INTS)
    p->varargs = takes_one_int(f) ? 2 : 1;
  for (int r = 0; r < s->n_returns; r++) {
    p->returned_slot[r] = -1;
    if (!(s->returns[r].flags & SHMT_ARG_WRITE)) continue;
    for (int i = 0; i < s->n_args; i++)
      if ((s->args[i].flags & SHMT_ARG_WRITE) && s->args[i].alias == s->returns[r].alias)
        p->returned_slot[r] = (int8_t)i;
  }
  if (from->result_fields &&
      (p->return_type = shmt__py_return_type(f->name, from->result_fields)) == NULL)
    return -1;
  return 0;
unfit:
  PyErr_Format(PyExc_SystemError, "%s(): the schema cannot be called from Python: %s", f->name,
               s->text);
  return -1;
}

/* The interned names stay; this is an error in the spec. */
static void free_unfit(shmt__py_prepared* p) {
  for (int i = 0; i < p->n_signatures; i++) {
    PyMem_Free(p->signatures[i].args);
    PyMem_Free(p->signatures[i].defaults);
  }
  PyMem_Free(p);
}

const shmt__py_prepared* shmt__py_prepare_new(shmt__py_function* f) {
  if (shmt__py_str_out == NULL) {
    shmt__py_str_out = PyUnicode_InternFromString("out");
    shmt__py_str_requires_grad = PyUnicode_InternFromString("requires_grad");
    shmt__py_str_pin_memory = PyUnicode_InternFromString("pin_memory");
    shmt__py_str_shared = PyUnicode_InternFromString("shared");
    shmt__py_str_reductions[0] = PyUnicode_InternFromString("none");
    shmt__py_str_reductions[1] = PyUnicode_InternFromString("mean");
    shmt__py_str_reductions[2] = PyUnicode_InternFromString("sum");
    if (!shmt__py_str_out || !shmt__py_str_requires_grad || !shmt__py_str_pin_memory ||
        !shmt__py_str_shared || !shmt__py_str_reductions[0] || !shmt__py_str_reductions[1] ||
        !shmt__py_str_reductions[2])
      return NULL;
  }
  size_t n = (size_t)f->n_signatures;
  shmt__py_prepared* p = PyMem_Calloc(1, sizeof *p + n * sizeof p->signatures[0]);
  if (p == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  p->from = f;
  p->mixes_devices = mixes_devices(f->name);
  for (int i = 0; i < f->n_signatures; i++) {
    const char* overload = f->signatures[i].op->schema->overload;
    if (shmt__py_takes_scalar_as_tensor(f->name) && strncmp(overload, "Scalar", 6) == 0 && f->n_signatures > 1)
      continue;
    shmt__py_prepared_signature* s = &p->signatures[p->n_signatures++];
    if (prepare_signature(f, &f->signatures[i], s) < 0) {
      free_unfit(p);
      return NULL;
    }
    p->n_without_out += s->n_out == 0;
  }
  f->prepared = p;
  return p;
}

const char* shmt__py_type_name(shmt_type type) {
  static const char* const names[] = {
      [SHMT_TYPE_TENSOR] = "Tensor",
      [SHMT_TYPE_TENSORS] = "tuple of Tensors",
      [SHMT_TYPE_SCALAR] = "Number",
      [SHMT_TYPE_INT] = "int",
      [SHMT_TYPE_FLOAT] = "float",
      [SHMT_TYPE_BOOL] = "bool",
      [SHMT_TYPE_INTS] = "tuple of ints",
      [SHMT_TYPE_FLOATS] = "tuple of floats",
      [SHMT_TYPE_STR] = "str",
      [SHMT_TYPE_DTYPE] = "torch.dtype",
      [SHMT_TYPE_LAYOUT] = "torch.layout",
      [SHMT_TYPE_DEVICE] = "torch.device",
      [SHMT_TYPE_MEMORY_FORMAT] = "torch.memory_format",
      [SHMT_TYPE_GENERATOR] = "torch.Generator",
      [SHMT_TYPE_STORAGE] = "Storage",
  };
  return names[type];
}

bool shmt__py_is_argument_name(const shmt__py_arg* a, PyObject* name) {
  if (PyUnicode_Compare(a->name, name) == 0) return true;
  for (int k = 0; k < SHMT_PY_MAX_ALIASES && a->aliases[k] != NULL; k++)
    if (PyUnicode_Compare(a->aliases[k], name) == 0) return true;
  return false;
}
