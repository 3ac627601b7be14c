/* python/autograd/hooks.h -- Python functions as hooks: of tensors, of nodes, of saved tensors. */
#ifndef SHMT_PYTHON_AUTOGRAD_HOOKS_H
#define SHMT_PYTHON_AUTOGRAD_HOOKS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "autograd/hook_list.h"
#include "autograd/node.h"
#include "autograd/recording/saved.h"

/* --- registering and calling (hooks.c) ------------------------------------------------------ */

/* Register a Python callable; returns a handle with remove(). */
PyObject* shmt__py_add_post_accumulate_hook(shmt_tensor* t, PyObject* fn);
PyObject* shmt__py_add_node_hook(shmt_node* n, shmt__hook_kind kind, PyObject* fn);
/* What the engine calls for a hook whose ctx is a Python callable; tells such hooks from others. */
shmt_status shmt__py_call_hook(shmt__hook* h, shmt_tensor** values, uint32_t n_values, shmt_tensor* const* grads,
                               uint32_t n_grads);
/* The same for a hook whose ctx is a dict of callables: those of one tensor. */
shmt_status shmt__py_call_hook_dict(shmt__hook* h, shmt_tensor** values, uint32_t n_values, shmt_tensor* const* grads,
                                    uint32_t n_grads);
/* values -> tuple of tensors and None. Borrows. */
PyObject* shmt__py_tuple_of(shmt_tensor* const* values, Py_ssize_t n);
/* Release a reference from any thread, also while an exception passes. NULL: nothing. */
void shmt__py_drop_object(void* o);
int shmt__py_hooks_init(PyObject* module);

/* --- the hooks of a tensor (tensor_hooks.c) ------------------------------------------------- */

/* All hooks of a tensor are in one dict, by number, which is what its list has as a hook. */

/* The dict of t's hooks; None when it has none. New reference. */
PyObject* shmt__py_tensor_hooks(const shmt_tensor* t);
/* Register a Python callable in it; returns a handle with remove(). */
PyObject* shmt__py_add_tensor_hook(shmt_tensor* t, PyObject* fn);
/* Let t have this dict in its place; None: no dict. 0, or -1 with an exception. */
int shmt__py_set_tensor_hooks(shmt_tensor* t, PyObject* hooks);
/* Let a node run the hooks of a dict too, as those of its first output. 0, or -1 with an exception. */
int shmt__py_add_hook_dict(shmt_node* n, PyObject* hooks);
/* The hooks that run after .grad was updated, as a new dict; None when there never was one. */
PyObject* shmt__py_post_accumulate_hooks(const shmt_tensor* t);
/* Show the garbage collector the hooks of leaves that only their wrappers hold. */
void shmt__py_tensor_hooks_init(void);

/* --- hooks of saved tensors (saved_hooks.c) ------------------------------------------------- */

/* Pack s with Python's functions from now on. 0, or -1 with an exception. */
int shmt__py_saved_repack(shmt__saved* s, shmt_node* n, PyObject* pack, PyObject* unpack);
/* What a Python pack hook returned for s, and the hook that unpacks it; NULL for both without hooks. Borrowed. */
PyObject* shmt__py_saved_packed(const shmt__saved* s, PyObject** unpack);
extern PyMethodDef shmt__py_saved_hook_functions[];

#endif
