/* python/call/call.c -- the path of every generated function, from a Python call to an operator and back. */
#include "python/call/call.h"

#include "ipc/handle/share.h"
#include "python/call/convert.h"
#include "python/values/default_device.h"
#include "python/call/overrides.h"
#include "python/call/sharing.h"

/* The value of out= when it is given and not None. */
static PyObject* find_out(PyObject* const* args, Py_ssize_t n_args, PyObject* kwnames) {
  Py_ssize_t n = PyTuple_GET_SIZE(kwnames);
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, i);
    if (name != shmt__py_str_out && PyUnicode_Compare(name, shmt__py_str_out) != 0) continue;
    PyObject* o = args[n_args + i];
    return o == Py_None ? NULL : o;
  }
  return NULL;
}

/* Result r as a Python object; takes over what results[r] owns. */
static PyObject* wrap_return(const shmt__py_prepared_signature* sig, const shmt__py_frame* fr,
                             shmt_value* results, int r) {
  int slot = sig->returned_slot[r];
  if (slot >= 0 && fr->values[slot].tag == SHMT_VALUE_TENSOR) return Py_NewRef(fr->objects[slot]);
  return shmt__py_from_value_as(fr->type, &results[r], &sig->schema->returns[r], false);
}

static PyObject* wrap_returns(const shmt__py_prepared_signature* sig, const shmt__py_frame* fr,
                              shmt_value* results) {
  int n = sig->schema->n_returns;
  if (n == 0) Py_RETURN_NONE;
  PyObject* whole = sig->return_type ? PyStructSequence_New(sig->return_type) : PyTuple_New(n);
  if (whole == NULL) return NULL;
  for (int r = 0; r < n; r++) {
    PyObject* o = wrap_return(sig, fr, results, r);
    if (o == NULL) {
      Py_DECREF(whole);
      return NULL;
    }
    if (sig->return_type)
      PyStructSequence_SET_ITEM(whole, r, o);
    else
      PyTuple_SET_ITEM(whole, r, o);
  }
  return whole;
}

/* How many elements the call will process, as far as its arguments say. */
static int64_t work_of(const shmt__py_prepared_signature* sig, const shmt__py_frame* fr) {
  if (SHMT_LIKELY(!sig->from->is_factory || fr->values[0].tag != SHMT_VALUE_INTS))
    return fr->numel;
  const shmt_ints sizes = fr->values[0].v.ints; /* of a factory */
  double n = 1;
  for (int64_t i = 0; i < sizes.len; i++) n *= (double)sizes.data[i];
  return n > SHMT_PY_GIL_THRESHOLD ? SHMT_PY_GIL_THRESHOLD + 1 : 0;
}

static PyObject* run_operator(const shmt__py_prepared_signature* sig, shmt__py_frame* fr) {
  shmt_value results[SHMT_SCHEMA_MAX_RETURNS];
  int n = sig->schema->n_returns;
  for (int r = 0; r < n; r++) results[r].tag = SHMT_VALUE_NONE;
  const shmt_operator* op = sig->from->op;
  shmt_status s =
      SHMT_PY_UNLOCKED(work_of(sig, fr), shmt__operator_call(op, false, 0, fr->values, results));
  if (SHMT_UNLIKELY(s != SHMT_OK)) return shmt__py_raise(s);
  if (SHMT_LIKELY(n == 1)) {
    PyObject* o = wrap_return(sig, fr, results, 0);
    if (SHMT_UNLIKELY(results[0].tag != SHMT_VALUE_NONE)) shmt__value_fini(&results[0]);
    return o;
  }
  PyObject* o = wrap_returns(sig, fr, results);
  for (int r = 0; r < n; r++) shmt__value_fini(&results[r]);
  return o;
}

/* A factory with shared=True: its result is in shared memory from the start. */
static SHMT_COLD PyObject* run_shared(const shmt__py_prepared_signature* sig, shmt__py_frame* fr) {
  const char* name = sig->schema->name;
  if (sig->n_out > 0)
    return PyErr_Format(PyExc_RuntimeError,
                        "%s(): shared=True and out= exclude each other, an out tensor keeps its "
                        "memory",
                        name);
  if (shmt__py_prepare_sharing() < 0) return NULL;
  const shmt__storage_source* before = shmt__tls_storage_source;
  shmt__tls_storage_source = &shmt__place_shared;
  PyObject* o = run_operator(sig, fr);
  shmt__tls_storage_source = before;
  if (o == NULL || !shmt__py_is_tensor(o) || shmt__storage_is_shared(shmt__py_tensor(o)->storage))
    return o;
  Py_DECREF(o);
  return PyErr_Format(PyExc_NotImplementedError,
                      "%s(): shared=True on a meta device, there is no data to share", name);
}

static SHMT_COLD PyObject* refuse_devices(void) {
  PyErr_SetString(PyExc_RuntimeError,
                  "Expected all tensors to be on the same device, but found at least two devices, "
                  "cpu and meta!");
  return NULL;
}

/* A factory without a device argument and without a tensor uses the default device of the thread. */
static SHMT_COLD void use_default_device(const shmt__py_prepared_signature* sig, shmt__py_frame* fr) {
  if (fr->devices || sig->n_out) return;
  for (int i = 0; i < sig->schema->n_args; i++) {
    shmt_value* v = &fr->values[i];
    if (sig->schema->args[i].type != SHMT_TYPE_DEVICE) continue;
    if (v->tag != SHMT_VALUE_NONE && v->v.i != SHMT_DEVICE_NONE) continue;
    v->tag = SHMT_VALUE_INT;
    v->v.i = shmt__tls_default_device;
  }
}

static SHMT_COLD int warn_user(shmt__py_warning* warning) {
  shmt_status s = warning->always ? shmt__warn("%s", warning->text)
                                  : shmt__warn_once(&warning->warned, "%s", warning->text);
  return s == SHMT_OK ? 0 : (shmt__py_raise(s), -1);
}

/* Does the call of a factory ask for pinned memory of the CPU? There is no device to pin it for. */
static bool asks_to_pin(const shmt__py_prepared_signature* sig, const shmt__py_frame* fr) {
  bool pins = false;
  for (int i = 0; i < sig->schema->n_args; i++) {
    const shmt_value* v = &fr->values[i];
    if (v->tag == SHMT_VALUE_NONE) continue;
    if (sig->schema->args[i].type == SHMT_TYPE_DEVICE && v->v.i == SHMT_META) return false;
    if (strcmp(sig->schema->args[i].name, "pin_memory") == 0) pins = v->v.b;
  }
  return pins && !(fr->devices >> SHMT_META & 1);
}

static SHMT_COLD PyObject* refuse_pinning(void) {
  PyErr_SetString(PyExc_RuntimeError,
                  "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator is "
                  "available on this system.");
  return NULL;
}

static __attribute__((noinline)) PyObject* call_parsed(shmt__py_function* f, PyObject* self, PyObject* const* args,
                                                       Py_ssize_t n_args, PyObject* kwnames) {
  const shmt__py_prepared* p = shmt__py_prepare(f);
  if (SHMT_UNLIKELY(p == NULL)) return NULL;
  shmt__py_call_args call = {self, args, n_args, kwnames, NULL};
  if (kwnames != NULL) {
    call.out = find_out(args, n_args, kwnames);
    if (PyTuple_GET_SIZE(kwnames) == 0) call.kwnames = NULL;
  }
  shmt__py_frame fr;
  const shmt__py_prepared_signature* only = NULL; /* the only signature that was tried */
  int tried = 0;
  bool with_out = call.out != NULL && p->n_without_out < p->n_signatures;
  /* Two rounds: tensors and bools may stand for ints only when no signature takes them as they are. */
  for (int i = 0; i < 2 * p->n_signatures; i++) {
    bool again = i >= p->n_signatures;
    const shmt__py_prepared_signature* sig = &p->signatures[again ? i - p->n_signatures : i];
    if ((sig->n_out != 0) != with_out && p->n_without_out != 0) continue;
    bool deprecated = sig->from->order != NULL;
    if (again && deprecated) continue; /* errors report the mismatch of another signature */
    shmt__py_frame_init(&fr);
    fr.loose = again;
    int r = shmt__py_match(sig, &call, &fr);
    if (SHMT_LIKELY(r == 1)) {
      if (SHMT_UNLIKELY(fr.has_subclass || fr.has_answering || shmt__py_n_function_modes)) {
        PyObject* answer = shmt__py_call_torch_function(f, sig, &call);
        if (answer == NULL && fr.has_answering && !PyErr_Occurred()) shmt__py_report_mismatch(p, &call, sig, &fr);
        if (answer != NULL || PyErr_Occurred()) {
          shmt__py_frame_fini(&fr);
          return answer;
        }
      }
      if (sig->from->is_factory && SHMT_UNLIKELY(shmt__tls_default_device != SHMT_DEVICE_NONE))
        use_default_device(sig, &fr);
      if (SHMT_UNLIKELY(sig->from->warning != NULL) && warn_user(sig->from->warning) < 0) {
        shmt__py_frame_fini(&fr);
        return NULL;
      }
      bool mixed = fr.devices & (fr.devices - 1) && !p->mixes_devices;
      bool pins = sig->from->is_factory && call.kwnames != NULL && asks_to_pin(sig, &fr);
      PyObject* o = SHMT_UNLIKELY(mixed)       ? refuse_devices()
                    : SHMT_UNLIKELY(pins)      ? refuse_pinning()
                    : SHMT_UNLIKELY(fr.shared) ? run_shared(sig, &fr)
                                               : run_operator(sig, &fr);
      shmt__py_frame_fini(&fr);
      return shmt__py_with_grad(o, fr.requires_grad);
    }
    shmt__py_frame_fini(&fr);
    if (r < 0) return NULL;
    if (!again && !deprecated) only = tried++ == 0 ? sig : NULL;
  }
  shmt__py_report_mismatch(p, &call, only, &fr);
  return NULL;
}

/* A call with plain tensors of one device alone: nobody answers it, and nothing is to be parsed. */
typedef struct straight_call {
  shmt_tensor* given[SHMT_PY_MOST_STRAIGHT];
  int64_t numel; /* of all: a sum that cannot overflow */
} straight_call;

static inline bool add_straight(straight_call* c, int at, PyObject* o) {
  if (Py_TYPE(o) != shmt__py_tensor_type) return false;
  shmt_tensor* t = shmt__py_tensor(o);
  c->given[at] = t;
  c->numel += t->numel < INT64_C(1) << 48 ? t->numel : INT64_C(1) << 48;
  return t->device == c->given[0]->device;
}

/* Is the call of f such a one? */
static inline bool is_straight(const shmt__py_function* f, PyObject* self, PyObject* const* args, Py_ssize_t n_args,
                               PyObject* kwnames, straight_call* c) {
  const int first = self != NULL;
  if (f->straight == NULL || first + n_args != f->n_straight || kwnames != NULL || shmt__py_n_function_modes != 0)
    return false;
  c->numel = 0;
  if (self != NULL && !add_straight(c, 0, self)) return false;
  for (int i = 0; i < n_args; i++)
    if (!add_straight(c, first + i, args[i])) return false;
  return true;
}

PyObject* shmt__py_call(shmt__py_function* f, PyObject* self, PyObject* const* args, Py_ssize_t n_args,
                        PyObject* kwnames) {
  straight_call c;
  if (!is_straight(f, self, args, n_args, kwnames, &c)) return call_parsed(f, self, args, n_args, kwnames);
  shmt_tensor* out = NULL;
  const shmt_status s = SHMT_PY_UNLOCKED(c.numel, f->straight(c.given, &out));
  return SHMT_LIKELY(s == SHMT_OK) ? shmt__py_wrap(out) : shmt__py_raise(s);
}
