/* autograd/recording/version_cell.c -- a root tensor's version, readable after the root's end. */
#include "autograd/recording/version_cell.h"

#include "autograd/pool.h"

struct shmt__version_cell {
  atomic_int_least32_t refs;
  uint32_t last;                /* the root's last version, once root is NULL */
  _Atomic(shmt_tensor*) root;   /* borrowed */
  atomic_int_least32_t readers; /* threads that may be reading root: its end waits for them */
};

shmt__version_cell* shmt__version_cell_create(shmt_tensor* root) {
  shmt__version_cell* fresh = shmt__pool_take(sizeof *fresh);
  if (!fresh) return NULL;
  atomic_init(&fresh->refs, 1);
  atomic_init(&fresh->root, root);
  atomic_init(&fresh->readers, 0);
  fresh->last = 0;
  return fresh;
}

void shmt__version_cell_retain(shmt__version_cell* cell) {
  atomic_fetch_add_explicit(&cell->refs, 1, memory_order_relaxed);
}

void shmt__version_cell_release(shmt__version_cell* cell) {
  if (cell && atomic_fetch_sub_explicit(&cell->refs, 1, memory_order_acq_rel) == 1)
    shmt__pool_give(cell, sizeof *cell);
}

void shmt__version_cell_root_destroyed(shmt__version_cell* cell) {
  shmt_tensor* root = atomic_load_explicit(&cell->root, memory_order_relaxed);
  cell->last = atomic_load_explicit(&root->version, memory_order_relaxed);
  /* seq_cst, here and in shmt__version_cell_read: either the reader sees NULL, or we see the reader. */
  atomic_store_explicit(&cell->root, NULL, memory_order_seq_cst);
  while (atomic_load_explicit(&cell->readers, memory_order_seq_cst) != 0) {
  }
  shmt__version_cell_release(cell);
}

uint32_t shmt__version_cell_read(shmt__version_cell* cell) {
  atomic_fetch_add_explicit(&cell->readers, 1, memory_order_seq_cst);
  shmt_tensor* root = atomic_load_explicit(&cell->root, memory_order_seq_cst);
  uint32_t v = root ? atomic_load_explicit(&root->version, memory_order_relaxed) : cell->last;
  /* release: the reading of root is over. */
  atomic_fetch_sub_explicit(&cell->readers, 1, memory_order_release);
  return v;
}
