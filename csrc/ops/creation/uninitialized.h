/* ops/creation/uninitialized.h -- fills what a program gets uninitialised, when it asks for equal results every time.
 *
 * Note [Uninitialised memory]
 * With use_deterministic_algorithms(True) and utils.deterministic.fill_uninitialized_memory, memory that a program asks
 * for without values (empty and its forms, resize_, the old constructor) holds NaN, the largest integer or true. A
 * program that reads it finds the same every time. Memory inside operators is always written before it is read.
 */
#ifndef SHMT_OPS_CREATION_UNINITIALIZED_H
#define SHMT_OPS_CREATION_UNINITIALIZED_H

#include "tensor/tensor.h"

/* Whether it is filled; false at first. */
void shmt__set_fills_uninitialized(bool fills);
bool shmt__fills_uninitialized(void);

/* Fills t, when that is on; nothing for meta tensors. Returns SHMT_OK, or what the fill returns. */
shmt_status shmt__fill_uninitialized(shmt_tensor* t);

/* The same for the elements of t's storage that lie after the first `nbytes`, after it has grown. */
shmt_status shmt__fill_grown(shmt_tensor* t, uint64_t nbytes);

#endif
