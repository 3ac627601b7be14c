/* ops/outputs.h -- how operators that are more than one loop deliver their results.
 *
 * Note [Preset outputs]
 * A structured operator gets `shmt_tensor** out`. NULL there asks for a new tensor; a tensor there is out= or
 * self of an in-place form. An operator whose inner code wants a dense result of a known dtype brackets its work:
 *
 *   SHMT_AUTO(shmt_tensor) work = NULL;
 *   SHMT_TRY(shmt__output_begin("mm", out, sizes, dtype, device, &work));
 *   ... fill work, which is contiguous and has that dtype ...
 *   return shmt__output_end("mm", &work, out);
 *
 * `work` is the preset tensor itself when it fits as it is, and a temporary that _end copies back otherwise.
 */
#ifndef SHMT_OPS_OUTPUTS_H
#define SHMT_OPS_OUTPUTS_H

#include "base/promote.h" /* shmt__can_cast */
#include "tensor/tensor.h"

/* *out == NULL: a new contiguous tensor. Otherwise check that dtype can be cast to (*out)'s and resize it to sizes,
 * with torch's warning when it had elements.
 * Errors: SHMT_E_RUNTIME (cast, device, not resizable), SHMT_E_NOMEM. Ownership: a new *out is a new reference. */
shmt_status shmt__prepare_out(const char* name, shmt_tensor** out, shmt_ints sizes, shmt_dtype dtype,
                              shmt_device device);

/* The same for the out of a factory, which has no inputs to agree with: outside of the meta device it is resized without
 * a warning. Errors: SHMT_E_RUNTIME (not resizable, repeated elements), SHMT_E_NOMEM. */
shmt_status shmt__prepare_factory_out(shmt_tensor* out, shmt_ints sizes);

/* Copy result into out, for out= forms of operators that compute first: checks the cast, resizes out as shmt__prepare_out
 * does, but to lie as a dense result does. Errors: as there. Borrows both. */
shmt_status shmt__write_out(const char* name, shmt_tensor* result, shmt_tensor* out);

/* The same, and an out of other sizes becomes contiguous. */
shmt_status shmt__write_dense_out(const char* name, shmt_tensor* result, shmt_tensor* out);

/* As shmt__write_out, and refuse (SHMT_E_RUNTIME) an out of another dtype. */
shmt_status shmt__write_exact_out(const char* name, shmt_tensor* result, shmt_tensor* out);

/* As shmt__write_dense_out, and refuse (SHMT_E_RUNTIME) an out that is not floating: real results of complex numbers. */
shmt_status shmt__write_real_out(const char* name, shmt_tensor* result, shmt_tensor* out);

/* Copy result into self, whose shape must already be the result's (torch's error otherwise): in-place forms of
 * operators that compute first. Borrows both. */
shmt_status shmt__write_inplace(const char* name, shmt_tensor* result, shmt_tensor* self);

/* What the in-place form of a composite computes with before it copies the result into self: self, or a copy where
 * nodes may save it, which would find it changed and be owned by it. ks: the call's. *out: a new reference. Errors: SHMT_E_NOMEM. */
shmt_status shmt__before_inplace(shmt_keyset ks, shmt_tensor* self, shmt_tensor** out);

/* See Note [Preset outputs]. *work: a new reference. Errors: as shmt__prepare_out. */
shmt_status shmt__output_begin(const char* name, shmt_tensor** out, shmt_ints sizes, shmt_dtype dtype,
                               shmt_device device, shmt_tensor** work);
/* The same for a result that is written while a and b (either may be NULL) are read.
 * Errors: SHMT_E_RUNTIME (torch's text) when out, as given or resized, shares memory with them or with itself. */
shmt_status shmt__output_begin_no_overlap(const char* name, shmt_tensor** out, shmt_ints sizes, shmt_dtype dtype,
                                     shmt_device device, const shmt_tensor* a, const shmt_tensor* b,
                                     shmt_tensor** work);
/* Consumes *work (also on failure). A new *out is a new reference. Errors: SHMT_E_NOMEM. */
shmt_status shmt__output_end(const char* name, shmt_tensor** work, shmt_tensor** out);

/* When *input (may be NULL) is out itself, which is about to get other sizes, make it an alias that keeps its own:
 * *kept owns it. Errors: SHMT_E_NOMEM. */
shmt_status shmt__keep_input(const shmt_tensor* out, shmt_tensor** input, shmt_tensor** kept);
/* Errors: SHMT_E_RUNTIME (torch's text) when out, if given, shares memory with input or with itself. */
shmt_status shmt__check_no_overlap(const shmt_tensor* out, const shmt_tensor* input);
/* Errors: SHMT_E_RUNTIME (torch's text) when out, if given, has another dtype. */
shmt_status shmt__check_out_dtype(const shmt_tensor* out, shmt_dtype dtype);

/* Errors: SHMT_E_RUNTIME (torch's text) when a factory was asked for another dtype or device than out has; NONE asks
 * for neither. */
shmt_status shmt__check_factory_out(const shmt_tensor* out, shmt_dtype dtype, shmt_device device);

/* True when a and b may share an element (ranges of bytes touch). */
bool shmt__may_overlap(const shmt_tensor* a, const shmt_tensor* b);

#endif
