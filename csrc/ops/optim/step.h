/* ops/optim/step.h -- one optimizer step on lists of tensors, all of them together.
 *
 * An operator fills a shmt__step and runs it. The elements of all tensors are one range, which threads share: a
 * hundred small tensors cost no more than one large one, and nothing is allocated. A tensor whose parts (parameter,
 * gradient, state) lie differently in memory, or with gaps, is walked by an iterator of its own.
 *
 * Read kernels/optim/step.tmpl.h for the formulas, ops/optim/fused_torch.c for what torch has operators for, too, and
 * ops/optim/fused_own.c for the rest.
 *
 * Note [Steps and other processes]
 * Parameters and state may lie in memory that other processes step on at the same time. Elements are read once and
 * written once, by plain loads and stores of their own size at least, so an update may be lost and nothing else.
 * Processes that walked shared parameters in the same order would follow each other from cache line to cache line: each
 * would wait for every line until the other's processor gives it up, and the next line would be wanted by both again.
 * So every second process walks backwards, and processes with the same direction begin at different places.
 */
#ifndef SHMT_OPS_OPTIM_STEP_H
#define SHMT_OPS_OPTIM_STEP_H

#include "kernels/optim/step.h"
#include "tensor/tensor.h"

typedef struct shmt__step shmt__step;
/* The coefficients of tensor i, whose counter says `count` (0 where there are no counters). They begin as zeros with
 * keep, and weight_decay and maximize as the step says. */
typedef void (*shmt__step_coefficients_of)(const shmt__step* s, int64_t i, double count,
                                           shmt__step_coefficients* coefficients);

struct shmt__step {
  const char* name; /* for messages */
  int row;          /* SHMT_LOOP_... */
  int n_lists;
  unsigned written; /* bit k: list k is written */
  bool rounded; /* float16 and bfloat16 are rounded after each operation, as where operators are called one by one */
  bool maximize;
  double weight_decay; /* L2 */
  double unscale;      /* what the gradients are divided by first, in place; 1: nothing */
  shmt_tensors lists[SHMT_STEP_MAX_LISTS]; /* parameters, gradients, state */
  shmt_tensors counters;                   /* tensors of one element; len 0: none */
  shmt__step_coefficients_of coefficients;
  const void* options; /* what `coefficients` goes by */
};

/* Are the lists equally long, all tensors of each place of the same floating dtype and sizes, with data, and all
 * counters of one element? */
bool shmt__step_suits(const shmt__step* s);
/* Errors: SHMT_E_RUNTIME where shmt__step_suits says no. */
shmt_status shmt__step_check(const shmt__step* s);
/* Do the step; the lists suit. Errors: SHMT_E_RUNTIME (operands overlap). */
shmt_status shmt__step_run(shmt__step* s);
/* Add 1 to all counters and do the step, if the lists suit; *done says whether. */
shmt_status shmt__step_counted(shmt__step* s, bool* done);

/* Are all of a list tensors of one element that can be read and written here? */
bool shmt__have_one_element(shmt_tensors list);
/* The element of such a tensor. */
double shmt__element_of(const shmt_tensor* t);
/* Put a number there, rounded to the tensor's dtype. The caller's operator has counted the version. */
void shmt__set_element(const shmt_tensor* t, double number);

#endif
