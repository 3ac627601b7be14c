/* autograd/hook_list.c -- lists of hooks: registering, running, removing. */
#include "autograd/hook_list.h"

#include "os/mutex.h"

#include <stdlib.h>

enum { FEW = 16 }; /* hooks of one run for which there is room on the stack */

/* Guards all lists, which change rarely and are short. No hook is called under it. */
SHMT_STATIC_MUTEX(lock, SHMT_MUTEX_HOOKS)
static uint64_t last_id;

void shmt__hook_release(shmt__hook* h) {
  if (!h || atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) != 1) return;
  if (h->free) h->free(h->ctx);
  free(h);
}

void shmt__hook_drop(shmt__hook* h) {
  shmt__hook_remove(h);
  shmt__mutex_lock(&lock);
  h->dropped = true;
  void* ctx = h->running ? NULL : SHMT_TAKE(h->ctx); /* else freed by the last run */
  shmt__mutex_unlock(&lock);
  if (ctx && h->free) h->free(ctx);
}

void shmt__hooks_free(shmt__hook* list) {
  while (list) {
    shmt__hook* next = list->next;
    shmt__hook_drop(list);
    shmt__hook_release(list);
    list = next;
  }
}

/* Unlink the removed hooks of a list; they are linked to *gone. Called under the lock. */
static void unlink_removed(shmt__hook** list, shmt__hook** gone) {
  while (*list) {
    shmt__hook* h = *list;
    if (!atomic_load_explicit(&h->removed, memory_order_relaxed)) {
      list = &h->next;
      continue;
    }
    *list = h->next;
    h->next = *gone;
    *gone = h;
  }
}

shmt_status shmt__hooks_add(shmt__hook** list, shmt__hook_kind kind, uint32_t input_nr, shmt__hook_call call, void* ctx,
                            void (*free_ctx)(void*), shmt__hook** out) {
  shmt__hook* gone = NULL;
  shmt__hook* h = calloc(1, sizeof *h);
  SHMT_REQUIRE(h, SHMT_E_NOMEM, "out of memory for a hook");
  atomic_init(&h->refs, 2); /* the list's and the caller's */
  h->kind = kind;
  h->input_nr = input_nr;
  h->call = call;
  h->free = free_ctx;
  h->ctx = ctx;
  shmt__mutex_lock(&lock);
  unlink_removed(list, &gone);
  h->id = ++last_id;
  while (*list) list = &(*list)->next;
  *list = h;
  shmt__mutex_unlock(&lock);
  shmt__hooks_free(gone);
  *out = h;
  return SHMT_OK;
}

/* A run that had taken h is done with it. */
static void end_run(shmt__hook* h) {
  shmt__mutex_lock(&lock);
  void* ctx = --h->running == 0 && h->dropped ? SHMT_TAKE(h->ctx) : NULL;
  shmt__mutex_unlock(&lock);
  if (ctx && h->free) h->free(ctx);
  shmt__hook_release(h);
}

static bool matches(const shmt__hook* h, shmt__hook_kind kind, uint32_t input_nr) {
  return !atomic_load_explicit(&h->removed, memory_order_relaxed) && h->kind == kind &&
         (kind != SHMT_HOOK_TENSOR || h->input_nr == input_nr);
}

/* Take the hooks of one kind out of a list, for a run: into few, or more than FEW of them into malloc'ed memory.
 * Errors: SHMT_E_NOMEM. */
static shmt_status take_hooks(shmt__hook* const* list, shmt__hook_kind kind, uint32_t input_nr, shmt__hook** few,
                              shmt__hook*** out, size_t* out_n) {
  size_t n = 0;
  *out = few;
  shmt__mutex_lock(&lock);
  for (const shmt__hook* h = *list; h; h = h->next) n += matches(h, kind, input_nr);
  if (n > FEW) *out = malloc(n * sizeof **out);
  if (!*out) {
    shmt__mutex_unlock(&lock);
    SHMT_FAIL(SHMT_E_NOMEM, "backward(): out of memory for a run of %zu hooks", n);
  }
  *out_n = 0;
  for (shmt__hook* h = *list; h && *out_n < n; h = h->next) {
    if (!matches(h, kind, input_nr)) continue;
    atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
    h->running++;
    (*out)[(*out_n)++] = h;
  }
  shmt__mutex_unlock(&lock);
  return SHMT_OK;
}

/* Hooks may register or remove hooks while they run, so they run from a copy. As in torch, one that another hook of the
 * list removes still runs this time. */
shmt_status shmt__hooks_run(shmt__hook* const* list, shmt__hook_kind kind, uint32_t input_nr,
                            shmt_tensor** values, uint32_t n_values, shmt_tensor* const* grads,
                            uint32_t n_grads) {
  shmt__hook* few[FEW];
  shmt__hook** run = few;
  size_t n = 0;
  shmt_status status = take_hooks(list, kind, input_nr, few, &run, &n);
  if (status != SHMT_OK) return status;
  for (size_t i = 0; i < n; i++) {
    if (status == SHMT_OK) status = run[i]->call(run[i], values, n_values, grads, n_grads);
    end_run(run[i]);
  }
  if (run != few) free(run);
  return status;
}
