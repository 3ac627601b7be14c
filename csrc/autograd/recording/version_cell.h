/* autograd/recording/version_cell.h -- a root tensor's version, readable after the root's end.
 *
 * Note [Saved outputs] in saved.c says why an output that its own node saves needs one.
 */
#ifndef SHMT_AUTOGRAD_RECORDING_VERSION_CELL_H
#define SHMT_AUTOGRAD_RECORDING_VERSION_CELL_H

#include "autograd/meta.h"

/* A cell that points to root, with one reference; NULL when out of memory. */
shmt__version_cell* shmt__version_cell_create(shmt_tensor* root);
void shmt__version_cell_retain(shmt__version_cell* cell);
void shmt__version_cell_release(shmt__version_cell* cell); /* NULL is fine */
/* The root's version; its last one when the root is gone. */
uint32_t shmt__version_cell_read(shmt__version_cell* cell);
/* The root is being destroyed: keep its last version, and release the root's reference of the cell. */
void shmt__version_cell_root_destroyed(shmt__version_cell* cell);

#endif
