/* python/tensor/exchange/arrow.c -- tensors as Arrow arrays and back, over the same memory.
 *
 * An exported array holds the storage and pins its address. An imported array belongs to the storage made over it,
 * which releases it. Both hold no Python objects of ours, so they may end on any thread. */
#include "python/tensor/exchange/arrow.h"

#include "api/storage.h"
#include "base/overflow.h"
#include "python/tensor/exchange/dlpack.h"
#include "python/tensor/tensor_type.h"
#include "python/values/types.h"
#include "storage/allocator.h"

/* Types that Arrow has; its bools are bits. */
static const char* const formats[SHMT_N_DTYPES] = {
    [SHMT_INT8] = "c",    [SHMT_UINT8] = "C",   [SHMT_INT16] = "s",   [SHMT_UINT16] = "S",
    [SHMT_INT32] = "i",   [SHMT_UINT32] = "I",  [SHMT_INT64] = "l",   [SHMT_UINT64] = "L",
    [SHMT_FLOAT16] = "e", [SHMT_FLOAT32] = "f", [SHMT_FLOAT64] = "g",
};

static shmt_dtype find_dtype(const char* format) {
  for (int d = 0; d < SHMT_N_DTYPES; d++)
    if (formats[d] != NULL && strcmp(formats[d], format) == 0) return d;
  return SHMT_DTYPE_NONE;
}

/* --- export ------------------------------------------------------------------------------ */

/* What an exported array refers to; freed by its release, wherever the array was moved to. */
typedef struct exported {
  const void* buffers[2];
  shmt_storage* storage;
} exported;

static void release_exported(shmt__arrow_array* array) {
  exported* e = array->context;
  shmt_storage_unpin(e->storage);
  shmt__storage_release(e->storage);
  free(e);
  array->release = NULL;
}
static void release_schema(shmt__arrow_schema* schema) { schema->release = NULL; }

/* Destructors of capsules: the structure, and what it refers to unless somebody took that over. */
static void free_array(PyObject* capsule) {
  shmt__arrow_array* array = PyCapsule_GetPointer(capsule, "arrow_array");
  if (array->release) array->release(array);
  free(array);
}
static void free_schema(PyObject* capsule) {
  shmt__arrow_schema* schema = PyCapsule_GetPointer(capsule, "arrow_schema");
  if (schema->release) schema->release(schema);
  free(schema);
}

static int check_dtype(const shmt_tensor* t) {
  if (formats[t->dtype] != NULL) return 0;
  PyErr_Format(PyExc_TypeError, "__arrow_c_array__(): Arrow has no array of %s; integers and real numbers are exported",
               shmt__dtype_name[t->dtype]);
  return -1;
}

static PyObject* export_schema(const shmt_tensor* t) {
  if (check_dtype(t) < 0) return NULL;
  shmt__arrow_schema* schema = calloc(1, sizeof *schema);
  if (schema == NULL) return PyErr_NoMemory();
  schema->format = formats[t->dtype];
  schema->name = "";
  schema->release = release_schema;
  PyObject* capsule = PyCapsule_New(schema, "arrow_schema", free_schema);
  if (capsule == NULL) free(schema);
  return capsule;
}

static PyObject* export_array(shmt_tensor* t) {
  shmt__arrow_array* array = calloc(1, sizeof *array);
  exported* e = calloc(1, sizeof *e);
  PyObject* capsule = array && e ? PyCapsule_New(array, "arrow_array", free_array) : PyErr_NoMemory();
  if (capsule == NULL) {
    free(array);
    free(e);
    return NULL;
  }
  e->storage = t->storage;
  shmt_storage_retain(e->storage);
  shmt_storage_pin(e->storage);
  e->buffers[1] = shmt__tensor_data(t);
  *array = (shmt__arrow_array){
      .length = t->numel, .n_buffers = 2, .buffers = e->buffers, .release = release_exported, .context = e};
  return capsule;
}

static PyObject* m_arrow_array(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"requested_schema", NULL};
  PyObject* requested = Py_None; /* a wish, which the interface lets us decline: the dtype stays */
  shmt_tensor* t = shmt__py_tensor(self);
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:__arrow_c_array__", (char**)names, &requested)) return NULL;
  if (shmt__py_check_exportable(t) < 0) return NULL;
  if (t->n_dims != 1 || !shmt__tensor_is_contiguous(t)) {
    PyErr_Format(PyExc_BufferError,
                 "__arrow_c_array__(): Arrow arrays are contiguous and have one dimension, the tensor has %d%s",
                 t->n_dims, t->n_dims == 1 ? " and is not contiguous" : "");
    return NULL;
  }
  PyObject* schema = export_schema(t);
  PyObject* array = schema ? export_array(t) : NULL;
  PyObject* both = array ? PyTuple_Pack(2, schema, array) : NULL;
  Py_XDECREF(schema);
  Py_XDECREF(array);
  return both;
}

static PyObject* m_arrow_schema(PyObject* self, PyObject* unused) {
  (void)unused;
  return export_schema(shmt__py_tensor(self));
}

/* --- import ------------------------------------------------------------------------------- */

static int refuse(PyObject* type, const char* why) {
  PyErr_Format(type, "from_arrow(): %s", why);
  return -1;
}

/* How many of n elements from `begin` on are null. */
static int64_t count_nulls(const uint8_t* valid, int64_t begin, int64_t n) {
  int64_t nulls = 0;
  for (int64_t i = begin; i < begin + n; i++) nulls += !(valid[i / 8] >> (i % 8) & 1);
  return nulls;
}

/* Whether the structures are of an array that a tensor can show; see Note [What producers say]. 0 and its dtype, or -1
 * with an exception. */
static int check_array(const shmt__arrow_schema* schema, const shmt__arrow_array* array, shmt_dtype* dtype) {
  if (schema->release == NULL || array->release == NULL)
    return refuse(PyExc_ValueError, "the array was released, or taken over before");
  if (schema->format == NULL) return refuse(PyExc_ValueError, "the schema has no format");
  *dtype = find_dtype(schema->format);
  if (*dtype == SHMT_DTYPE_NONE || schema->dictionary != NULL || schema->n_children != 0) {
    PyErr_Format(PyExc_TypeError,
                 "from_arrow(): unsupported Arrow type '%.80s'%s; arrays of integers and real numbers are imported",
                 schema->format, schema->dictionary ? " with a dictionary" : "");
    return -1;
  }
  int64_t end, nbytes;
  if (array->length < 0 || array->offset < 0 || array->null_count < -1 || array->null_count > array->length ||
      !shmt__add_i64(array->offset, array->length, &end) || !shmt__mul_i64(end, shmt__dtype_size[*dtype], &nbytes)) {
    PyErr_Format(PyExc_ValueError, "from_arrow(): length %lld, offset %lld and null count %lld make no array",
                 (long long)array->length, (long long)array->offset, (long long)array->null_count);
    return -1;
  }
  if (array->n_buffers != 2 || array->n_children != 0 || array->dictionary != NULL || array->buffers == NULL) {
    PyErr_Format(PyExc_ValueError, "from_arrow(): an array of numbers has 2 buffers and no children, not %lld and %lld",
                 (long long)array->n_buffers, (long long)array->n_children);
    return -1;
  }
  if (array->buffers[1] == NULL && array->length > 0)
    return refuse(PyExc_ValueError, "the array has elements, but no data");
  if (!shmt__bytes_can_lie_at(array->buffers[1], 0, array->length > 0 ? (uint64_t)nbytes : 0)) {
    PyErr_Format(PyExc_ValueError, "from_arrow(): %lld bytes at %p lie outside of memory", (long long)nbytes,
                 array->buffers[1]);
    return -1;
  }
  const uint8_t* valid = array->buffers[0];
  if (valid == NULL && array->null_count > 0) {
    PyErr_Format(PyExc_ValueError, "from_arrow(): %lld of %lld elements are null, and nothing says which",
                 (long long)array->null_count, (long long)array->length);
    return -1;
  }
  int64_t nulls = valid == NULL || array->null_count == 0 ? 0 : count_nulls(valid, array->offset, array->length);
  if (nulls > 0) {
    PyErr_Format(PyExc_ValueError,
                 "from_arrow(): %lld of %lld elements are null, which tensors do not have; fill them first",
                 (long long)nulls, (long long)array->length);
    return -1;
  }
  return 0;
}

static void drop_array(void* arg, void* data) {
  shmt__arrow_array* array = arg;
  (void)data;
  if (array->release) array->release(array);
  free(array);
}

/* A storage over the elements, which owns `array` from now on; or a copy of elements that lie at odd addresses. On
 * failure `array` stays the caller's. */
static shmt_status make_storage(shmt__arrow_array* array, shmt_dtype dtype, shmt_storage** out) {
  uint64_t item = (uint64_t)shmt__dtype_size[dtype], nbytes = (uint64_t)array->length * item;
  char* data = nbytes ? (char*)(uintptr_t)array->buffers[1] + (uint64_t)array->offset * item : NULL;
  if ((uintptr_t)data % item == 0)
    return shmt__storage_from_blob(data, nbytes, drop_array, array, SHMT_STORAGE_READ_ONLY, out);
  SHMT_TRY(shmt_storage_create(nbytes, 0, out));
  memcpy(shmt_storage_data(*out), data, nbytes);
  drop_array(array, NULL);
  return SHMT_OK;
}

static PyObject* py_from_arrow(PyObject* module, PyObject* args) {
  PyObject *schema_capsule, *array_capsule;
  shmt_dtype dtype = SHMT_DTYPE_NONE;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO:_from_arrow", &schema_capsule, &array_capsule)) return NULL;
  const shmt__arrow_schema* schema = PyCapsule_GetPointer(schema_capsule, "arrow_schema");
  shmt__arrow_array* theirs = schema ? PyCapsule_GetPointer(array_capsule, "arrow_array") : NULL;
  if (theirs == NULL || check_array(schema, theirs, &dtype) < 0) return NULL;
  shmt__arrow_array* array = malloc(sizeof *array);
  if (array == NULL) return PyErr_NoMemory();
  *array = *theirs;
  int64_t length = array->length, one = 1;
  SHMT_AUTO(shmt_storage) storage = NULL;
  shmt_status s = make_storage(array, dtype, &storage);
  if (s != SHMT_OK) {
    free(array); /* a copy of what is still theirs */
    return shmt__py_raise(s);
  }
  theirs->release = NULL;
  shmt_tensor* t = NULL;
  s = shmt__tensor_from_storage(storage, (shmt_ints){&length, 1}, (shmt_ints){&one, 1}, 0, dtype, &t);
  return s == SHMT_OK ? shmt__py_wrap(t) : shmt__py_raise(s);
}

PyMethodDef shmt__py_arrow_methods[] = {
    {"__arrow_c_array__", (PyCFunction)(void (*)(void))m_arrow_array, METH_VARARGS | METH_KEYWORDS,
     "__arrow_c_array__($self, requested_schema=None)\n--\n\nTwo capsules, a schema and an array over the same memory, "
     "for "
     "contiguous tensors of one dimension."},
    {"__arrow_c_schema__", m_arrow_schema, METH_NOARGS,
     "__arrow_c_schema__($self)\n--\n\nA capsule with the Arrow type of the elements."},
    {NULL, NULL, 0, NULL},
};

PyMethodDef shmt__py_arrow_functions[] = {
    {"_from_arrow", py_from_arrow, METH_VARARGS, "A tensor over the array in two capsules, which it takes over."},
    {NULL, NULL, 0, NULL},
};
