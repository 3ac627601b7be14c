/* python/call/parse_error.c -- the TypeErrors of wrong calls, in torch's words. */
#include "python/call/convert.h"
#include "python/call/parse.h"

/* A growing text; becomes empty for good when memory runs out. */
typedef struct text {
  PyObject* parts; /* list of str */
} text;

static void add(text* t, const char* fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  PyObject* s = PyUnicode_FromFormatV(fmt, ap);
  va_end(ap);
  if (s == NULL || PyList_Append(t->parts, s) < 0) PyErr_Clear();
  Py_XDECREF(s);
}

static void add_default(text* t, const shmt_arg* a) {
  if (!(a->flags & SHMT_ARG_HAS_DEFAULT) || a->default_text == NULL) return;
  const char* d = strcmp(a->name, "pin_memory") == 0 ? "False" : a->default_text;
  if (a->type == SHMT_TYPE_INTS && strcmp(d, "[]") == 0) d = "None";
  if (*d == '"' || *d == '\'')
    add(t, " = %s", d);
  else if (a->type == SHMT_TYPE_MEMORY_FORMAT && *d != 'N')
    add(t, " = torch.%s", d);
  else
    add(t, " = %s", d);
}

/* The out= twin of sig: the first signature with outputs that starts with the same arguments. */
static const shmt__py_prepared_signature* out_twin(const shmt__py_prepared* p,
                                                   const shmt__py_prepared_signature* sig) {
  for (int i = 0; i < p->n_signatures; i++) {
    const shmt__py_prepared_signature* o = &p->signatures[i];
    if (o->n_out == 0 || o->n_positional != sig->n_positional) continue;
    bool same = true;
    for (int k = 0; k < sig->n_positional && same; k++)
      same = o->args[k].name == sig->args[k].name && o->args[k].arg->type == sig->args[k].arg->type;
    if (same) return o;
  }
  return NULL;
}

/* "(Tensor input, Tensor other, *, Number alpha = 1, Tensor out = None)" */
static void add_signature(text* t, const shmt__py_prepared* p,
                          const shmt__py_prepared_signature* sig) {
  const shmt__py_prepared_signature* twin = sig->n_out ? sig : out_twin(p, sig);
  bool factory = sig->from->is_factory;
  const char* out = twin == NULL      ? ""
                    : twin->n_out > 1 ? "tuple of Tensors out = None"
                                      : "Tensor out = None";
  const char* comma = "";
  add(t, "(");
  for (int i = 0; i <= sig->n_args; i++) {
    if (i == sig->n_positional && (i < sig->n_args || *out || factory)) {
      add(t, "%s*", comma);
      comma = ", ";
      if (factory && *out) add(t, "%s%s", comma, out); /* torch names it first there */
    }
    if (i == sig->n_args) break;
    const shmt__py_arg* a = &sig->args[i];
    add(t, "%s%s %U", comma, shmt__py_type_name(a->arg->type), a->name);
    add_default(t, a->arg);
    comma = ", ";
  }
  if (!factory && *out) add(t, "%s%s", comma, out);
  if (factory) add(t, "%sbool requires_grad = False", comma);
  add(t, ")");
}

static void add_type_of(text* t, PyObject* o) {
  bool is_tuple = PyTuple_CheckExact(o);
  if (!is_tuple && !PyList_CheckExact(o)) {
    add(t, "%s", Py_TYPE(o)->tp_name);
    return;
  }
  Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  PyObject** items = PySequence_Fast_ITEMS(o);
  add(t, is_tuple ? "tuple of (" : "list of [");
  for (Py_ssize_t i = 0; i < n; i++) {
    if (i == 8) {
      add(t, ", ...");
      break;
    }
    add(t, "%s%s", i ? ", " : "", Py_TYPE(items[i])->tp_name);
  }
  if (is_tuple && n == 1) add(t, ",");
  add(t, is_tuple ? ")" : "]");
}

/* "(Tensor, dim=int)"; of keywords alone each is followed by a comma, as in torch: "(dim=int, )". */
static void add_received(text* t, const shmt__py_call_args* call) {
  Py_ssize_t n_keywords = call->kwnames ? PyTuple_GET_SIZE(call->kwnames) : 0;
  add(t, "(");
  for (Py_ssize_t i = 0; i < call->n_args + n_keywords; i++) {
    if (i) add(t, ", ");
    if (i >= call->n_args) add(t, "%U=", PyTuple_GET_ITEM(call->kwnames, i - call->n_args));
    add_type_of(t, call->args[i]);
  }
  add(t, call->n_args == 0 && n_keywords > 0 ? ", )" : ")");
}

/* Under a candidate with as many arguments as were given: which of them do not fit. */
static void add_details(text* t, const shmt__py_prepared_signature* sig,
                        const shmt__py_call_args* call) {
  Py_ssize_t n_keywords = call->kwnames ? PyTuple_GET_SIZE(call->kwnames) : 0;
  if (call->n_args + n_keywords != sig->n_args || call->n_args == 0) return;
  bool wrong_keyword = false;
  for (Py_ssize_t k = 0; k < n_keywords; k++) {
    PyObject* name = PyTuple_GET_ITEM(call->kwnames, k);
    bool known = false;
    for (int i = 0; i < sig->n_args; i++) known |= PyUnicode_Compare(sig->args[i].name, name) == 0;
    if (known) continue;
    add(t, "%s%U",
        wrong_keyword ? ", " : "      didn't match because some of the keywords were incorrect: ",
        name);
    wrong_keyword = true;
  }
  if (wrong_keyword) {
    add(t, "\n");
    return;
  }
  if (n_keywords) return;
  shmt__py_frame fr;
  add(t, "      didn't match because some of the arguments have invalid types: (");
  for (Py_ssize_t i = 0; i < call->n_args; i++) {
    /* Match this argument alone: the others count as missing, which comes after wrong types. */
    shmt__py_prepared_signature one = *sig;
    one.args = sig->args + i;
    one.n_args = one.n_positional = 1;
    shmt__py_call_args alone = {.args = call->args + i, .n_args = 1};
    shmt__py_frame_init(&fr);
    bool fits = shmt__py_match(&one, &alone, &fr) == 1 || fr.mismatch == SHMT_MISMATCH_MISSING;
    shmt__py_frame_fini(&fr);
    PyErr_Clear();
    if (i) add(t, ", ");
    if (!fits) add(t, "!");
    add_type_of(t, call->args[i]);
    if (!fits) add(t, "!");
  }
  add(t, ")\n");
}

static void set_error(text* t) {
  PyObject* empty = PyUnicode_FromString("");
  PyObject* whole = empty ? PyUnicode_Join(empty, t->parts) : NULL;
  if (whole != NULL) PyErr_SetObject(PyExc_TypeError, whole);
  Py_XDECREF(whole);
  Py_XDECREF(empty);
}

static void report_missing(text* t, const char* name, const shmt__py_prepared_signature* sig,
                           const shmt__py_frame* fr) {
  int n = 0;
  for (int i = 0; i < sig->n_args; i++) n += sig->args[i].required && !(fr->seen & (1ull << i));
  add(t, "%s() missing %d required positional argument%s: ", name, n, n == 1 ? "s" : "");
  const char* comma = "";
  for (int i = 0; i < sig->n_args; i++) {
    if (!sig->args[i].required || (fr->seen & (1ull << i))) continue;
    add(t, "%s\"%U\"", comma, sig->args[i].name);
    comma = ", ";
  }
}

static void report_one(text* t, const char* name, const shmt__py_prepared_signature* sig,
                       const shmt__py_call_args* call, const shmt__py_frame* fr) {
  switch (fr->mismatch) {
    case SHMT_MISMATCH_TOO_MANY:
      add(t, "%s() takes %d positional argument%s but %zd %s given", name, sig->n_positional,
          sig->n_positional == 1 ? "" : "s", call->n_args, call->n_args == 1 ? "was" : "were");
      return;
    case SHMT_MISMATCH_KEYWORD:
      add(t, "%s() got an unexpected keyword argument '%U'", name, fr->what);
      return;
    case SHMT_MISMATCH_DUPLICATE:
      add(t, "%s() got multiple values for argument '%U'", name, fr->arg->name);
      return;
    case SHMT_MISMATCH_MISSING:
      report_missing(t, name, sig, fr);
      return;
    case SHMT_MISMATCH_OUT:
      add(t, "%s(): argument 'out' must be %s, not %s", name,
          sig->n_out > 1 ? "tuple of Tensors" : "Tensor", Py_TYPE(fr->what)->tp_name);
      return;
    case SHMT_MISMATCH_FLAG:
      add(t, "%s(): argument '%U' must be bool, not %s", name, fr->flag,
          Py_TYPE(fr->what)->tp_name);
      return;
    case SHMT_MISMATCH_ELEMENT:
      if (fr->arg->arg->type == SHMT_TYPE_TENSORS)
        add(t, "expected Tensor as element %zd in argument %d, but got %s", fr->element,
            fr->position - 1, Py_TYPE(fr->what)->tp_name);
      else
        add(t,
            "%s(): argument '%U' failed to unpack the object at pos %zd with error \"type must be "
            "%s,but got %s\"",
            name, fr->arg->name, fr->element + 1, shmt__py_type_name(fr->arg->arg->type),
            Py_TYPE(fr->what)->tp_name);
      return;
    case SHMT_MISMATCH_TYPE:
      break;
  }
  add(t, "%s(): argument '%U'", name, fr->arg->name);
  if (fr->position) add(t, " (position %d)", fr->position);
  add(t, " must be %s, not %s", shmt__py_type_name(fr->arg->arg->type), Py_TYPE(fr->what)->tp_name);
}

/* A note on the first argument that is of another library. */
static void add_note(text* t, const shmt__py_call_args* call) {
  Py_ssize_t n = call->n_args + (call->kwnames ? PyTuple_GET_SIZE(call->kwnames) : 0);
  bool has_note = false;
  for (Py_ssize_t i = 0; i < n && !has_note; i++) {
    PyObject* one[1] = {call->args[i]};
    Py_ssize_t n_items = 1;
    PyObject** items = shmt__py_items(call->args[i], &n_items);
    if (items == NULL) items = one;
    for (Py_ssize_t k = 0; k < n_items && !has_note; k++) {
      PyObject* note = shmt__py_foreign_tensor_note(items[k]);
      has_note = note != NULL && PyUnicode_GET_LENGTH(note) > 0;
      if (has_note) add(t, "%U", note);
      if (note == NULL) PyErr_Clear();
      Py_XDECREF(note);
    }
  }
}

/* The signature that alone takes as many arguments as were given; NULL when none or several do. */
static const shmt__py_prepared_signature* only_plausible(const shmt__py_prepared* p,
                                                         const shmt__py_call_args* call) {
  const Py_ssize_t n = call->n_args + (call->kwnames ? PyTuple_GET_SIZE(call->kwnames) : 0);
  const shmt__py_prepared_signature* found = NULL;
  for (int i = 0; i < p->n_signatures; i++) {
    const shmt__py_prepared_signature* sig = &p->signatures[i];
    if (sig->n_out && p->n_without_out) continue; /* counted with its twin */
    if (sig->from->order != NULL) continue; /* a deprecated form, which errors do not list */
    const shmt__py_prepared_signature* twin = sig->n_out ? sig : out_twin(p, sig);
    int least = 0, most = sig->n_args + (twin != NULL) + sig->from->is_factory;
    for (int k = 0; k < sig->n_args; k++) least += sig->args[k].required;
    if (n < least || n > most) continue;
    if (found != NULL) return NULL;
    found = call->out && twin ? twin : sig;
  }
  return found;
}

void shmt__py_report_mismatch(const shmt__py_prepared* p, const shmt__py_call_args* call,
                            const shmt__py_prepared_signature* only, const shmt__py_frame* fr) {
  const char* name = p->from->name;
  shmt__py_frame again;
  text t = {PyList_New(0)};
  if (t.parts == NULL) return;
  if (only == NULL && (only = only_plausible(p, call)) != NULL) {
    shmt__py_frame_init(&again);
    fr = &again;
    if (shmt__py_match(only, call, &again) != 0) only = NULL;
    shmt__py_frame_fini(&again);
  }
  if (PyErr_Occurred()) {
    /* of the objects themselves */
  } else if (only != NULL) {
    report_one(&t, name, only, call, fr);
  } else {
    add(&t, "%s() received an invalid combination of arguments - got ", name);
    add_received(&t, call);
    add(&t, ", but expected one of:\n");
    for (int i = 0; i < p->n_signatures; i++) {
      const shmt__py_prepared_signature* sig = &p->signatures[i];
      if (sig->n_out && p->n_without_out) continue; /* shown as the out= of its twin */
      if (sig->from->order != NULL) continue;
      add(&t, " * ");
      add_signature(&t, p, sig);
      add(&t, "\n");
      add_details(&t, sig, call);
    }
  }
  if (!PyErr_Occurred()) add_note(&t, call);
  if (!PyErr_Occurred()) set_error(&t);
  Py_DECREF(t.parts);
}
