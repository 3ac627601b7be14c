/* ops/sorting/mode.c -- the most frequent element of every slice. Slices are sorted one by one, and only the mode is
 * kept. */
#include "ops/sorting/mode.h"

#include "generated/loops.h"
#include "iter/copy/move.h"
#include "ops/sorting/each_slice.h"
#include "ops/sorting/sort.h"

/* The last element of the longest run, which is the one that torch gives. */
static int64_t last_of_longest(const bool* starts, int64_t n) {
  int64_t best = 0, best_run = 0, run_begin = 0;

  for (int64_t i = 1; i <= n; i++) {
    if (i < n && !starts[i]) continue;
    if (i - run_begin > best_run) {
      best_run = i - run_begin;
      best = i - 1;
    }
    run_begin = i;
  }
  return best;
}

static int64_t padded_slice_bytes(const shmt__slice_work* work) {
  return (work->length * shmt__dtype_size[work->dtype] + 63) / 64 * 64;
}

static bool find_mode(const shmt__slice_work* work, const char* x, int64_t step, char* value, int64_t* index,
                      char* scratch) {
  const int64_t n = work->length, item = shmt__dtype_size[work->dtype];
  char *values = scratch, *sorting = values + padded_slice_bytes(work);
  bool* starts = (bool*)sorting; /* after the sort */
  int64_t* indices = (int64_t*)(void*)(sorting + padded_slice_bytes(work) + 64);
  char* runs[2] = {(char*)starts, values};

  if (!shmt__sort_slice(work, x, step, values, indices, sorting)) return false;
  shmt__loops[SHMT_LOOP_run_starts][work->dtype](runs, NULL, n, NULL);
  const int64_t at = last_of_longest(starts, n);
  shmt__move_elements(value, item, values + at * item, item, 1, item);
  *index = indices[at];
  return true;
}

shmt_status shmt__mode_along_dim(shmt_tensor* self, int64_t dim, shmt_tensor* values, shmt_tensor* indices) {
  shmt__slice_work work = {.run = find_mode, .dtype = self->dtype, .length = self->sizes[dim]};

  work.shape.k = work.length;
  work.is_parallel = work.length >= SHMT_LONG_SLICE;
  work.scratch_bytes = (uint64_t)(work.length * (int64_t)sizeof(int64_t) + 2 * padded_slice_bytes(&work) + 64);
  return shmt__for_each_slice(self, dim, &work, values, indices);
}
