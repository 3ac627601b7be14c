/* python/call/parse.h -- matching the arguments of one call with one signature.
 *
 * Parsing allocates nothing in the common case: values, int lists and tensor lists live in the
 * frame on the caller's stack; longer lists and numbers that become tensors are owned by the frame.
 */
#ifndef SHMT_PYTHON_CALL_PARSE_H
#define SHMT_PYTHON_CALL_PARSE_H

#include "python/call/prepare.h"
#include "python/values/tensor_object.h"

enum { SHMT_PY_FRAME_INTS = 160, SHMT_PY_FRAME_TENSORS = 64 };

/* Why a signature does not fit. */
typedef enum shmt__py_mismatch {
  SHMT_MISMATCH_TOO_MANY,
  SHMT_MISMATCH_KEYWORD,   /* frame.what: the keyword */
  SHMT_MISMATCH_DUPLICATE, /* frame.arg */
  SHMT_MISMATCH_MISSING,
  SHMT_MISMATCH_TYPE,    /* frame.arg, what: the object, position */
  SHMT_MISMATCH_ELEMENT, /* the same; element: index in the list, what: the element */
  SHMT_MISMATCH_OUT,     /* what: the object given as out= */
  SHMT_MISMATCH_FLAG, /* flag: the factory's keyword, what: the object */
} shmt__py_mismatch;

typedef struct shmt__py_call_args {
  PyObject* self; /* NULL for functions */
  PyObject* const* args;
  Py_ssize_t n_args;
  PyObject* kwnames; /* NULL when there are none */
  PyObject* out;     /* the value of out=, when given and not None */
} shmt__py_call_args;

typedef struct shmt__py_frame {
  shmt_value values[SHMT_SCHEMA_MAX_ARGS];
  PyObject* objects[SHMT_SCHEMA_MAX_ARGS]; /* by schema slot, borrowed; set for tensors only */
  int64_t numel;                       /* elements of all tensors */
  unsigned devices;                    /* bits of their devices; 0-d tensors of the CPU fit all */
  PyTypeObject* type; /* of new results */
  bool requires_grad, shared; /* of a factory */
  bool loose;        /* tensors of one element and bools may stand for ints */
  bool has_answering; /* an argument is no tensor, but answers calls: the operator itself cannot run */
  bool has_subclass; /* an operand of a subclass, which results keep and which may have a __torch_function__ */
  int n_ints, n_tensors, n_owned, n_heap;
  shmt__py_mismatch mismatch;
  const shmt__py_arg* arg;
  PyObject* what; /* borrowed */
  PyObject* flag; /* borrowed */
  int position;   /* 1-based; 0 when given by keyword */
  Py_ssize_t element;
  uint64_t seen; /* which args were given */
  shmt_tensor* owned[SHMT_SCHEMA_MAX_ARGS];
  void* heap[SHMT_SCHEMA_MAX_ARGS];
  int64_t ints[SHMT_PY_FRAME_INTS];
  shmt_tensor* tensors[SHMT_PY_FRAME_TENSORS];
} shmt__py_frame;

static inline void shmt__py_frame_init(shmt__py_frame* fr) {
  fr->numel = 0;
  fr->devices = 0;
  fr->type = shmt__py_tensor_type;
  fr->requires_grad = fr->shared = fr->loose = false;
  fr->has_subclass = fr->has_answering = false;
  fr->n_ints = fr->n_tensors = fr->n_owned = fr->n_heap = 0;
}
void shmt__py_frame_release(shmt__py_frame* fr); /* what the frame owns */
static inline void shmt__py_frame_fini(shmt__py_frame* fr) {
  if (SHMT_UNLIKELY(fr->n_owned | fr->n_heap)) shmt__py_frame_release(fr);
}

/* 1: fr->values is filled; 0: the signature does not fit and fr says why; -1: an exception is set.
 */
int shmt__py_match(const shmt__py_prepared_signature* sig, const shmt__py_call_args* call,
                   shmt__py_frame* fr);

/* Set the TypeError for a call that fits no signature (the frame is of the last one tried). */
SHMT_COLD void shmt__py_report_mismatch(const shmt__py_prepared* p, const shmt__py_call_args* call,
                                      const shmt__py_prepared_signature* only,
                                      const shmt__py_frame* fr);

#endif
