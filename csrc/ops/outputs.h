/* ops/outputs.h -- delivers the results of operators that are more than one loop: new tensors, out= and in-place.
 *
 * Note [Preset outputs]
 * A structured operator gets `shmt_tensor** out`. *out == NULL asks for a new tensor. Otherwise *out is preset: it is
 * the out= tensor, or self of an in-place form. An operator that computes into a contiguous tensor of a known dtype
 * writes:
 *
 *   SHMT_AUTO(shmt_tensor) work = NULL;
 *   SHMT_TRY(shmt__output_begin("mm", out, sizes, dtype, device, &work));
 *   ... fill work, which is contiguous and has that dtype ...
 *   return shmt__output_end("mm", &work, out);
 *
 * `work` is the preset tensor itself when that is contiguous and of this dtype. Otherwise it is a temporary, which
 * shmt__output_end copies to the preset tensor.
 */
#ifndef SHMT_OPS_OUTPUTS_H
#define SHMT_OPS_OUTPUTS_H

#include "base/promote.h" /* shmt__can_cast */
#include "tensor/tensor.h"

/* Makes *out ready to take a result. NULL: allocates a contiguous tensor. Otherwise checks that dtype can be cast to
 * (*out)'s and resizes it to sizes, with torch's warning when it had elements.
 * Errors: SHMT_E_RUNTIME (cast, device, not resizable), SHMT_E_NOMEM. Ownership: a new *out is a new reference. */
shmt_status shmt__prepare_out(const char* name, shmt_tensor** out, shmt_ints sizes, shmt_dtype dtype,
                              shmt_device device);

/* As shmt__prepare_out for the out= of a factory function, which has no inputs to agree with. Resizes without a
 * warning, except on the meta device. Errors: SHMT_E_RUNTIME (not resizable, repeated elements), SHMT_E_NOMEM. */
shmt_status shmt__prepare_factory_out(shmt_tensor* out, shmt_ints sizes);

/* Copies result into out, for out= forms that compute first. Checks the cast and resizes out as shmt__prepare_out does,
 * but gives it the strides of a dense result. Errors: as there. Borrows both. */
shmt_status shmt__write_out(const char* name, shmt_tensor* result, shmt_tensor* out);

/* As shmt__write_out, but an out of other sizes becomes contiguous. */
shmt_status shmt__write_dense_out(const char* name, shmt_tensor* result, shmt_tensor* out);

/* As shmt__write_out, but refuses (SHMT_E_RUNTIME) an out of another dtype. */
shmt_status shmt__write_exact_out(const char* name, shmt_tensor* result, shmt_tensor* out);

/* As shmt__write_dense_out, but refuses (SHMT_E_RUNTIME) an out that is not floating. For real results of complex
 * input. */
shmt_status shmt__write_real_out(const char* name, shmt_tensor* result, shmt_tensor* out);

/* Copies result into self, for in-place forms that compute first. self must have the result's shape (torch's error
 * otherwise). Borrows both. */
shmt_status shmt__write_inplace(const char* name, shmt_tensor* result, shmt_tensor* self);

/* The input of an in-place composite, which copies its result into self at the end: self, or a clone when autograd
 * records. A node that saved self itself would find it changed later, and self would own the node that owns self.
 * ks: the key set of the call. *out: a new reference. Errors: SHMT_E_NOMEM. */
shmt_status shmt__before_inplace(shmt_keyset ks, shmt_tensor* self, shmt_tensor** out);

/* Begins a result; see Note [Preset outputs]. *work: a new reference. Errors: as shmt__prepare_out. */
shmt_status shmt__output_begin(const char* name, shmt_tensor** out, shmt_ints sizes, shmt_dtype dtype,
                               shmt_device device, shmt_tensor** work);
/* As shmt__output_begin, for a result that is written while a and b (either may be NULL) are read.
 * Errors: SHMT_E_RUNTIME (torch's text) when out, as given or resized, shares memory with them or with itself. */
shmt_status shmt__output_begin_no_overlap(const char* name, shmt_tensor** out, shmt_ints sizes, shmt_dtype dtype,
                                     shmt_device device, const shmt_tensor* a, const shmt_tensor* b,
                                     shmt_tensor** work);
/* Ends a result. Consumes *work, also on failure. A new *out is a new reference. Errors: SHMT_E_NOMEM. */
shmt_status shmt__output_end(const char* name, shmt_tensor** work, shmt_tensor** out);

/* When *input (may be NULL) is out itself, which is about to be resized, replaces *input by an alias that keeps the old
 * sizes. *kept owns the alias. Errors: SHMT_E_NOMEM. */
shmt_status shmt__keep_input(const shmt_tensor* out, shmt_tensor** input, shmt_tensor** kept);
/* Errors: SHMT_E_RUNTIME (torch's text) when out, if given, shares memory with input or with itself. */
shmt_status shmt__check_no_overlap(const shmt_tensor* out, const shmt_tensor* input);
/* Errors: SHMT_E_RUNTIME (torch's text) when out, if given, has another dtype. */
shmt_status shmt__check_out_dtype(const shmt_tensor* out, shmt_dtype dtype);

/* Checks that the dtype and device given to a factory (NONE: not given) are those of its out=.
 * Errors: SHMT_E_RUNTIME (torch's text). */
shmt_status shmt__check_factory_out(const shmt_tensor* out, shmt_dtype dtype, shmt_device device);

/* True when a and b may share an element: their ranges of bytes overlap. */
bool shmt__may_overlap(const shmt_tensor* a, const shmt_tensor* b);

/* Makes a vector of n int64, uninitialised. New reference. Errors: SHMT_E_NOMEM. */
static inline shmt_status shmt__new_int64s(int64_t n, shmt_tensor** out) {
  return shmt__tensor_empty(SHMT_INTS(n), SHMT_INT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, out);
}

#endif
