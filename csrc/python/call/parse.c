/* python/call/parse.c -- matching the arguments of one call with one signature. */
#include "python/call/parse.h"

#include "base/overflow.h"
#include "base/scalar.h"
#include "python/call/convert.h"
#include "python/values/override_classes.h"
#include "python/values/types.h"

void shmt__py_frame_release(shmt__py_frame* fr) {
  while (fr->n_owned > 0) shmt__tensor_release(fr->owned[--fr->n_owned]);
  while (fr->n_heap > 0) PyMem_Free(fr->heap[--fr->n_heap]);
}

/* Scratch of n items of size bytes that the frame frees. NULL with an exception. */
static void* frame_alloc(shmt__py_frame* fr, Py_ssize_t n, size_t size) {
  void* p = fr->n_heap < SHMT_SCHEMA_MAX_ARGS && (size_t)n < PY_SSIZE_T_MAX / size
                ? PyMem_Malloc((size_t)n * size)
                : NULL;
  if (p == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  fr->heap[fr->n_heap++] = p;
  return p;
}

static int64_t* frame_ints(shmt__py_frame* fr, Py_ssize_t n) {
  if (SHMT_LIKELY(n <= SHMT_PY_FRAME_INTS - fr->n_ints)) {
    int64_t* p = fr->ints + fr->n_ints;
    fr->n_ints += (int)n;
    return p;
  }
  return frame_alloc(fr, n, sizeof(int64_t));
}

static shmt_tensor** frame_tensors(shmt__py_frame* fr, Py_ssize_t n) {
  if (SHMT_LIKELY(n <= SHMT_PY_FRAME_TENSORS - fr->n_tensors)) {
    shmt_tensor** p = fr->tensors + fr->n_tensors;
    fr->n_tensors += (int)n;
    return p;
  }
  return frame_alloc(fr, n, sizeof(shmt_tensor*));
}

/* Count the elements and the device of t; 0-d CPU tensors mix with all devices. */
static inline void count_tensor(shmt__py_frame* fr, const shmt_tensor* t) {
  fr->numel += t->numel < INT64_C(1) << 48 ? t->numel : INT64_C(1) << 48; /* a sum that cannot overflow */
  fr->devices |= t->device != SHMT_CPU || t->n_dims > 0 ? 1u << t->device : 0;
}

static SHMT_COLD void count_subclass(shmt__py_frame* fr, PyObject* o) {
  fr->type = shmt__py_result_type_of(fr->type, o);
  if (shmt__py_result_type(Py_TYPE(o)) != shmt__py_tensor_type) fr->has_subclass = true;
}

/* In line also where it is called for the few: else it is a call for all. */
static inline __attribute__((always_inline)) void set_tensor(shmt__py_frame* fr, int slot, PyObject* o) {
  shmt_tensor* t = shmt__py_tensor(o);
  fr->values[slot].v.tensor = t;
  fr->values[slot].tag = SHMT_VALUE_TENSOR;
  fr->objects[slot] = o;
  if (SHMT_UNLIKELY(Py_TYPE(o) != shmt__py_tensor_type)) count_subclass(fr, o);
  count_tensor(fr, t);
}

static int mismatched_element(shmt__py_frame* fr, PyObject* what, Py_ssize_t i) {
  fr->mismatch = SHMT_MISMATCH_ELEMENT;
  fr->what = what;
  fr->element = i;
  return 0;
}

/* Add to the exception that is set which element is wrong. */
static SHMT_COLD int raise_element(const shmt__py_arg* a, Py_ssize_t i) {
  PyObject *type, *value, *traceback;

  if (!PyErr_ExceptionMatches(PyExc_ValueError)) return -1;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_Format(PyExc_TypeError, "argument '%U' failed to unpack the object at pos %zd with error \"%S\"", a->name,
               i + 1, value);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return -1;
}

/* An int; for a loose frame also an integral tensor of one element, whatever its dims. */
static int as_int(const shmt__py_frame* fr, PyObject* o, int64_t* out) {
  int r = shmt__py_as_int(o, out);
  if (SHMT_LIKELY(r != 0 || !fr->loose) || !shmt__py_is_tensor(o)) return r;
  shmt_tensor* t = shmt__py_tensor(o);
  int kind = shmt__dtype_kind[t->dtype];
  if (t->numel != 1 || (kind != SHMT_KIND_SIGNED && kind != SHMT_KIND_UNSIGNED)) return 0;
  shmt_scalar item;
  shmt_status s = shmt__tensor_item(t, &item);
  if (s != SHMT_OK) {
    shmt__py_raise(s);
    return -1;
  }
  *out = shmt__scalar_to_int64(item);
  return 1;
}

/* Is o a tensor of a class that answers calls? */
static inline bool answers(PyObject* o) {
  return SHMT_UNLIKELY(!PyLong_CheckExact(o)) && shmt__py_is_tensor(o) && !shmt__py_is_plain(o) &&
         shmt__py_has_torch_function(Py_TYPE(o));
}

/* An int; of a tensor whose class answers calls it is what its __index__ says. */
static int as_asked_int(const shmt__py_frame* fr, const shmt__py_arg* a, PyObject* o, int64_t* out) {
  /* Dims are never read from a tensor with dims. */
  const int r = strncmp(a->arg->name, "dim", 3) ? as_int(fr, o, out) : shmt__py_as_int(o, out);
  if (SHMT_LIKELY(r != 1 || !answers(o))) return r;
  PyObject* index = PyNumber_Index(o);
  const int asked = index ? shmt__py_as_int(index, out) : -1;
  Py_XDECREF(index);
  return asked;
}

/* n objects as an int list. To a loose frame only the first tells a bool from an int, as in torch. */
static int set_ints(shmt__py_frame* fr, const shmt__py_arg* a, PyObject* const* items, Py_ssize_t n) {
  int64_t* v = frame_ints(fr, n);
  if (v == NULL) return -1;
  for (Py_ssize_t i = 0; i < n; i++) {
    int r = as_int(fr, items[i], &v[i]);
    if (SHMT_UNLIKELY(r == 0 && i > 0 && fr->loose && PyBool_Check(items[i]))) {
      v[i] = items[i] == Py_True;
      continue;
    }
    if (SHMT_UNLIKELY(r != 1)) return r < 0 ? raise_element(a, i) : mismatched_element(fr, items[i], i);
    if (answers(items[i])) fr->has_subclass = true;
  }
  fr->values[a->slot].v.ints = (shmt_ints){v, n};
  fr->values[a->slot].tag = SHMT_VALUE_INTS;
  return 1;
}

static int set_tensors(shmt__py_frame* fr, const shmt__py_arg* a, PyObject* o) {
  Py_ssize_t n = 0;
  PyObject** items = shmt__py_items(o, &n);
  if (items == NULL) return 0;
  shmt_tensor** v = frame_tensors(fr, n);
  if (v == NULL) return -1;
  for (Py_ssize_t i = 0; i < n; i++) {
    if (SHMT_LIKELY(shmt__py_is_tensor(items[i]))) {
      v[i] = shmt__py_tensor(items[i]);
      count_tensor(fr, v[i]);
      if (SHMT_UNLIKELY(Py_TYPE(items[i]) != shmt__py_tensor_type)) count_subclass(fr, items[i]);
    } else if (items[i] == Py_None && (a->arg->flags & SHMT_ARG_ELEM_OPTIONAL)) {
      v[i] = NULL;
    } else {
      return mismatched_element(fr, items[i], i);
    }
  }
  fr->values[a->slot].v.tensors = (shmt_tensors){v, n};
  fr->values[a->slot].tag = SHMT_VALUE_TENSORS;
  return 1;
}

static int set_floats(shmt__py_frame* fr, const shmt__py_arg* a, PyObject* o) {
  Py_ssize_t n = 0;
  PyObject** items = shmt__py_items(o, &n);
  if (items == NULL) return 0;
  double* v = frame_alloc(fr, n ? n : 1, sizeof(double));
  if (v == NULL) return -1;
  for (Py_ssize_t i = 0; i < n; i++) {
    int r = shmt__py_as_float(items[i], &v[i]);
    if (r != 1) return r < 0 ? -1 : mismatched_element(fr, items[i], i);
  }
  fr->values[a->slot].v.floats = (shmt_floats){v, n};
  fr->values[a->slot].tag = SHMT_VALUE_FLOATS;
  return 1;
}

static int set_number_as_tensor(shmt__py_frame* fr, const shmt__py_arg* a, PyObject* o) {
  const shmt_value* first = &fr->values[0]; /* the other operand, when it comes first */
  bool has_like = a->slot > 0 && first->tag == SHMT_VALUE_TENSOR;
  shmt_tensor* t;
  int r = shmt__py_wrapped_number(o, has_like ? first->v.tensor : NULL, &t);
  if (r != 1) return r;
  fr->owned[fr->n_owned++] = t;
  fr->values[a->slot].v.tensor = t;
  fr->values[a->slot].tag = SHMT_VALUE_TENSOR;
  return 1;
}

/* An int or list for int[] and int[N]. */
static int set_int_list(shmt__py_frame* fr, const shmt__py_arg* a, PyObject* o) {
  Py_ssize_t n = 0;
  PyObject** items = shmt__py_items(o, &n);
  if (items != NULL) return set_ints(fr, a, items, n);
  int32_t repeat = a->arg->list_size;
  if (repeat <= 0) return 0;
  int64_t one;
  int r = as_int(fr, o, &one);
  if (r != 1) return r;
  int64_t* v = frame_ints(fr, repeat);
  if (v == NULL) return -1;
  for (int32_t i = 0; i < repeat; i++) v[i] = one;
  fr->values[a->slot].v.ints = (shmt_ints){v, repeat};
  fr->values[a->slot].tag = SHMT_VALUE_INTS;
  return 1;
}

/* A typed or untyped storage: 1; 0 for anything else. The object keeps the storage alive during the
 * call. */
static int set_storage(const shmt__py_frame* fr, shmt_value* v, PyObject* o) {
  const shmt_value* self = &fr->values[0];
  PyObject* address = PyObject_GetAttrString(o, "_storage_address");
  if (address == NULL) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
    PyErr_Clear();
    return 0;
  }
  v->tag = SHMT_VALUE_STORAGE;
  v->v.storage = PyLong_AsVoidPtr(address);
  Py_DECREF(address);
  if (v->v.storage == NULL) return -1;
  return self->tag == SHMT_VALUE_TENSOR && shmt__py_check_storage_dtype(o, self->v.tensor->dtype) < 0 ? -1 : 1;
}

/* The name of a reduction of losses as its code. */
static int set_reduction(shmt_value* v, PyObject* o) {
  PyObject* const* names = shmt__py_str_reductions;

  if (!PyUnicode_Check(o) && o != Py_None) return 0;
  for (v->v.i = 0; v->v.i < 3; v->v.i++)
    if (o == names[v->v.i]) return 1;
  for (v->v.i = 0; v->v.i < 3; v->v.i++)
    if (o != Py_None && PyUnicode_Compare(o, names[v->v.i]) == 0) return 1;
  PyErr_Format(PyExc_ValueError, "%S is not a valid value for reduction", o);
  return -1;
}

/* Operators that can make a tensor of another layout than strided. */
static bool takes_layouts(const char* name) {
  static const char* const names[] = {"zeros",     "empty",     "zeros_like", "empty_like",
                                      "new_zeros", "new_empty", "to_sparse"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) return true;
  return strncmp(name, "_sparse", 7) == 0;
}

/* Store o as argument a: 1, 0 (another type) or -1. */
static int set_value(shmt__py_frame* fr, const shmt__py_prepared_signature* sig,
                     const shmt__py_arg* a, PyObject* o) {
  shmt_value* v = &fr->values[a->slot];
  if (o == Py_None && a->optional) {
    v->tag = SHMT_VALUE_NONE;
    return 1;
  }
  if (o == Py_None && a->none_is_default) return 1; /* the default is already stored */
  int r = 0, constant = 0;
  switch (a->arg->type) {
    case SHMT_TYPE_TENSOR:
      if (SHMT_LIKELY(shmt__py_is_tensor(o))) {
        set_tensor(fr, a->slot, o);
        return 1;
      }
      return a->number_ok ? set_number_as_tensor(fr, a, o) : 0;
    case SHMT_TYPE_TENSORS:
      return set_tensors(fr, a, o);
    case SHMT_TYPE_SCALAR:
      v->tag = SHMT_VALUE_SCALAR;
      return shmt__py_as_scalar_or_tensor(o, &v->v.scalar);
    case SHMT_TYPE_INT:
      v->tag = SHMT_VALUE_INT;
      r = as_asked_int(fr, a, o, &v->v.i);
      return r == 0 && a->is_reduction ? set_reduction(v, o) : r;
    case SHMT_TYPE_FLOAT:
      v->tag = SHMT_VALUE_FLOAT;
      return shmt__py_as_float(o, &v->v.d);
    case SHMT_TYPE_BOOL:
      v->tag = SHMT_VALUE_BOOL;
      return shmt__py_as_bool(o, &v->v.b);
    case SHMT_TYPE_INTS:
      return set_int_list(fr, a, o);
    case SHMT_TYPE_FLOATS:
      return set_floats(fr, a, o);
    case SHMT_TYPE_STR:
      if (!PyUnicode_Check(o)) return 0;
      v->tag = SHMT_VALUE_STR;
      v->v.str = PyUnicode_AsUTF8(o);
      return v->v.str ? 1 : -1;
    case SHMT_TYPE_DTYPE:
      r = shmt__py_as_dtype(o, &constant);
      break;
    case SHMT_TYPE_LAYOUT:
      r = shmt__py_constant_value(o, shmt__py_layout_type, &constant);
      if (r == 1 && constant != SHMT_STRIDED && !takes_layouts(sig->schema->name)) {
        PyErr_Format(PyExc_NotImplementedError,
                     "%s is not implemented for sparse types, got: %S",
                     sig->schema->name, o);
        return -1;
      }
      break;
    case SHMT_TYPE_DEVICE:
      r = shmt__py_as_device(o, &constant);
      break;
    case SHMT_TYPE_MEMORY_FORMAT:
      r = shmt__py_constant_value(o, shmt__py_memory_format_type, &constant);
      break;
    case SHMT_TYPE_GENERATOR:
      v->tag = SHMT_VALUE_GENERATOR;
      v->v.generator = shmt__py_as_generator(o);
      return v->v.generator != NULL;
    case SHMT_TYPE_STORAGE:
      return set_storage(fr, v, o);
  }
  v->tag = SHMT_VALUE_INT;
  v->v.i = constant;
  return r;
}

/* Note the mismatch: 0; but an object that answers calls takes the place of any argument: 1. */
static SHMT_COLD int mismatched_type(shmt__py_frame* fr, const shmt__py_arg* a, PyObject* o, int position) {
  if (fr->mismatch != SHMT_MISMATCH_ELEMENT) {
    fr->mismatch = SHMT_MISMATCH_TYPE;
    fr->what = o;
  }
  fr->arg = a;
  fr->position = position;
  if (!shmt__py_answers_for_tensor(fr->what)) return 0;
  fr->values[a->slot].tag = SHMT_VALUE_NONE;
  fr->has_answering = true;
  return 1;
}

/* Index of the argument called name, or -1. */
static int find_keyword(const shmt__py_prepared_signature* sig, PyObject* name) {
  for (int i = 0; i < sig->n_args; i++)
    if (sig->args[i].name == name) return i;
  /* An alias, or not interned: built at run time, as in f(**{...}). */
  for (int i = 0; i < sig->n_args; i++)
    if (shmt__py_is_argument_name(&sig->args[i], name)) return i;
  return -1;
}

static bool is_name(PyObject* a, PyObject* interned) {
  return a == interned || PyUnicode_Compare(a, interned) == 0;
}

static SHMT_COLD bool is_out(shmt__py_frame* fr, int slot, PyObject* o) {
  if (shmt__py_is_tensor(o)) {
    set_tensor(fr, slot, o);
    return true;
  }
  if (!shmt__py_answers_for_tensor(o)) return false;
  fr->has_answering = true;
  return true;
}

static int match_out(const shmt__py_prepared_signature* sig, PyObject* out, shmt__py_frame* fr) {
  fr->what = out;
  fr->mismatch = SHMT_MISMATCH_OUT;
  if (sig->n_out == 1) return is_out(fr, sig->out_slots[0], out);
  Py_ssize_t n = 0;
  PyObject** items = shmt__py_items(out, &n);
  if (items == NULL || n != sig->n_out) return 0;
  for (int i = 0; i < sig->n_out; i++) {
    if (!is_out(fr, sig->out_slots[i], items[i])) return 0;
  }
  return 1;
}

static int match_keywords(const shmt__py_prepared_signature* sig, const shmt__py_call_args* call,
                          shmt__py_frame* fr) {
  Py_ssize_t n = PyTuple_GET_SIZE(call->kwnames);
  for (Py_ssize_t k = 0; k < n; k++) {
    PyObject* name = PyTuple_GET_ITEM(call->kwnames, k);
    PyObject* o = call->args[call->n_args + k];
    int i = find_keyword(sig, name);
    if (SHMT_LIKELY(i >= 0)) {
      if (fr->seen & (1ull << i)) {
        fr->mismatch = SHMT_MISMATCH_DUPLICATE;
        fr->arg = &sig->args[i];
        return 0;
      }
      fr->seen |= 1ull << i;
      fr->mismatch = SHMT_MISMATCH_TYPE;
      int r = set_value(fr, sig, &sig->args[i], o);
      if (SHMT_UNLIKELY(r < 0)) return -1;
      if (SHMT_UNLIKELY(r == 0) && !mismatched_type(fr, &sig->args[i], o, 0)) return 0;
      continue;
    }
    if (is_name(name, shmt__py_str_out) && (o == Py_None || sig->n_out > 0)) continue;
    if (sig->from->is_factory) {
      bool is_grad = is_name(name, shmt__py_str_requires_grad);
      if (is_grad || is_name(name, shmt__py_str_shared)) {
        if (!PyBool_Check(o) && o != Py_None) {
          fr->mismatch = SHMT_MISMATCH_FLAG;
          fr->flag = name;
          fr->what = o;
          return 0;
        }
        *(is_grad ? &fr->requires_grad : &fr->shared) = o == Py_True;
        continue;
      }
      if (is_name(name, shmt__py_str_pin_memory) && (o == Py_False || o == Py_None)) continue;
    }
    fr->mismatch = SHMT_MISMATCH_KEYWORD;
    fr->what = name;
    return 0;
  }
  return 1;
}

int shmt__py_match(const shmt__py_prepared_signature* sig, const shmt__py_call_args* call,
                   shmt__py_frame* fr) {
  const Py_ssize_t n = call->n_args;

  fr->seen = 0;
  if (n > sig->n_positional && !sig->varargs) {
    fr->mismatch = SHMT_MISMATCH_TOO_MANY;
    return 0;
  }
  /* One by one: they are few, and a call would cost more than they do. */
  for (int i = 0, n_args = sig->schema->n_args; i < n_args; i++) fr->values[i] = sig->defaults[i];
  if (call->self) set_tensor(fr, sig->self_slot, call->self);
  if (sig->varargs && n >= sig->varargs &&
      !(PyTuple_Check(call->args[0]) || PyList_Check(call->args[0]))) {
    fr->mismatch = SHMT_MISMATCH_TYPE;
    int r = set_ints(fr, &sig->args[0], call->args, n);
    if (r != 1) {
      if (r < 0) return -1;
      if (fr->element == 0) fr->mismatch = SHMT_MISMATCH_TYPE; /* not a list of ints at all */
      if (!mismatched_type(fr, &sig->args[0], call->args[0], 1)) return 0;
    }
    fr->seen = 1;
  } else {
    if (SHMT_UNLIKELY(n > sig->n_positional)) {
      fr->mismatch = SHMT_MISMATCH_TOO_MANY;
      return 0;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
      const shmt__py_arg* a = &sig->args[i];
      fr->mismatch = SHMT_MISMATCH_TYPE;
      int r = set_value(fr, sig, a, call->args[i]);
      if (SHMT_UNLIKELY(r < 0)) return -1;
      if (SHMT_UNLIKELY(r == 0) && !mismatched_type(fr, a, call->args[i], (int)i + 1)) return 0;
    }
    fr->seen = n < 64 ? (1ull << n) - 1 : ~0ull;
  }
  if (call->kwnames) {
    int r = match_keywords(sig, call, fr);
    if (r != 1) return r;
  }
  if (call->out) {
    int r = match_out(sig, call->out, fr);
    if (r != 1) return r;
  } else if (SHMT_UNLIKELY(sig->n_out > 0)) { /* called by its overload, as an operator object is */
    PyErr_Format(PyExc_TypeError, "%s(): argument 'out' must be given", sig->schema->name);
    return -1;
  }
  if (sig->n_required) {
    for (int i = 0; i < sig->n_args; i++) {
      if (sig->args[i].required && !(fr->seen & (1ull << i))) {
        fr->mismatch = SHMT_MISMATCH_MISSING;
        return 0;
      }
    }
  }
  return 1;
}
