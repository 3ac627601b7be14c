/* python/ipc/ring_object.h -- _Ring, the Python object of a ring, as the files of python/ipc share it.
 *
 * Note [Interrupted calls]
 * A signal's handler may raise an exception between any two steps of Python code, so also after a call of these
 * functions has returned and before its caller has the result. So nothing that other processes see changes for a caller
 * who may not learn of it:
 *
 *   - a message that waits for room is counted in the ring and listed here in one call, which also starts the thread
 *     that puts it (python/ipc/feeder.c);
 *   - a message is taken by an operator, `ring[timeout]`: CPython runs handlers after calls, at the start of functions
 *     and at jumps backwards, and not after operators. When the next handler runs, the object is where the caller of
 *     `get` has put it;
 *   - several messages are written into a list that the caller made before. When the call is interrupted, the caller
 *     gives it back, and the next get of this process returns what is in it (python/ipc/kept_messages.c);
 *   - a message that is to be acknowledged is an object's, which gives it back when it is freed
 *     (python/ipc/named/deliveries.c);
 *   - what C hands to Python elsewhere (a storage, a tensor, a connection) it stores in a place that Python owns before
 *     the call (`place_for` in shmtensor/_boundary/core.py), and never returns as a bare address. A new descriptor is
 *     returned as a number, as by os.open: an exception leaves it open, in this process alone.
 *
 * An exception while a message is unpickled may be the message's fault, or come from a handler. It is a handler's when
 * it is KeyboardInterrupt on the thread where handlers run, or when the code of a handler that is set now is in its
 * traceback, or in that of what led to it (shmtensor/_core/_signal_handlers.py). Then the message is kept, and
 * unpickled again by the next get. An error, or anything on a thread where no handlers run, is the message's fault: it
 * is dropped, so that nobody gets its error for ever. What is left, say a SystemExit, may come from a handler that was
 * replaced meanwhile, or from a module that the pickle imports, and a MemoryError may not come again: such a message is
 * opened once more, and then dropped. One that is to be acknowledged goes back as delivered in vain. A server that is
 * interrupted lets go of its request, whose client learns of it. What `show` raises counts as what unpickling raises.
 */
#ifndef SHMT_PYTHON_IPC_RING_OBJECT_H
#define SHMT_PYTHON_IPC_RING_OBJECT_H

#include "python/ipc/message.h"

typedef struct shmt__py_ring {
  PyObject_HEAD shmt__ring* ring; /* owned; NULL only while being made */
  uint32_t adopts;                /* SHMT_PY_ADOPTS_* */
  uint32_t ended;                 /* SHMT_RING_NO_GET, SHMT_RING_NO_PUT: what this process no longer does */
  uint32_t mode;                  /* of the storages that it receives: SHMT_ATTACH_* */
  PyObject* show;                 /* owned, or NULL; from each object that arrives it makes the one for the reader */
  /* --- python/ipc/feeder.c; the interpreter's lock guards this and what follows --- */
  uint32_t waiting_fork;                                 /* shmt__fork_count() of the process that this is of */
  shmt__py_packed_message *first_waiting, *last_waiting; /* owned; counted as pending in the ring */
  bool is_fed;                                           /* a thread puts them */
  bool is_join_cancelled;
  atomic_uint_least32_t feed_event; /* changes when none is left, and when the join is cancelled */
  /* --- python/ipc/kept_messages.c --- */
  uint32_t kept_fork;                 /* as above */
  struct shmt__py_kept_message* kept; /* owned; in the order in which they were taken */
  uint32_t n_kept;
} shmt__py_ring;

/* The object of a ring. Consumes it, also on failure. */
PyObject* shmt__py_ring_wrap(shmt__ring* ring);
bool shmt__py_is_ring(PyObject* o);
/* The code of a mode. False with an exception. */
bool shmt__py_ring_mode_of(PyObject* o, uint32_t* out);
/* How many messages at most a caller asks for: 1 or more. False with an exception. */
bool shmt__py_most_of(const char* name, PyObject* o, Py_ssize_t* out);
/* See the storages of a received message in this mode. False with an exception; some may be seen in it. */
bool shmt__py_received_in_mode(shmt__received_message* d, uint32_t mode);

/* Raise the exception for an operation that did not succeed; late: the one for a deadline that has passed. Returns
 * NULL. */
PyObject* shmt__py_ring_raise(shmt__ring_result result, PyObject* late);

/* --- python/ipc/feeder.c --- */

/* Does a new message have to wait behind others? */
bool shmt__py_ring_has_waiting(shmt__py_ring* o);
/* A message was counted as pending: a thread puts it when there is room. Steals p. Returns None. NULL with what
 * starting the thread raised: then it is no longer counted. */
PyObject* shmt__py_ring_let_wait(shmt__py_ring* o, shmt__py_packed_message* p);
/* Drop what waits, without a word to the ring. */
void shmt__py_ring_forget_waiting(shmt__py_ring* o);
extern PyMethodDef shmt__py_feeder_functions[];

PyObject* shmt__py_ring_join_feeder(PyObject* self, PyObject* unused);
PyObject* shmt__py_ring_cancel_join(PyObject* self, PyObject* unused);

/* --- python/ipc/kept_messages.c --- */

/* The object of a received message, which stays the caller's, as the reader wants it. NULL with an exception;
 * *out_is_read: unpickling was good, and the reader asks for what cannot be made of the object. */
PyObject* shmt__py_ring_object_of(const shmt__py_ring* o, shmt__received_message* d, bool* out_is_read);
/* Are there messages that were taken and whose callers were interrupted? */
bool shmt__py_ring_has_kept(shmt__py_ring* o);
/* The object of a message that was taken, or NULL with what unpickling raised. Consumes d. When the exception was
 * raised to interrupt us, the message is kept. */
PyObject* shmt__py_ring_open_message(shmt__py_ring* o, shmt__received_message* d);
/* The objects of n messages, appended to a list. What a message raises that cannot be unpickled must not cost the
 * others: it is reported, unless there is nothing else to return. What the reader cannot be shown is raised, and the
 * messages behind it are kept, as those are that an interrupt left. Returns false with an exception. Consumes the
 * messages. */
bool shmt__py_ring_open_messages(shmt__py_ring* o, shmt__received_message* received, uint32_t n, PyObject* list);
/* The object of the first kept message; there is one. NULL with an exception, as above. */
PyObject* shmt__py_ring_take_kept(shmt__py_ring* o);
/* Drop all kept messages. */
void shmt__py_ring_forget_kept(shmt__py_ring* o);
/* give_back(objects): keep them, in this order, before those that are kept. */
PyObject* shmt__py_ring_give_back(PyObject* self, PyObject* objects);

/* --- python/ipc/named/deliveries.c --- */

/* deliver(max_n, timeout, taken): append (object, claim, deliveries) for each message to the list. The message goes
 * back when the claim is freed without acknowledge or let_go, so an interrupted caller need do nothing. None instead of
 * a claim: there is nothing to acknowledge. */
PyObject* shmt__py_ring_deliver(PyObject* self, PyObject* const* args, Py_ssize_t n);
int shmt__py_claim_init(PyObject* module);
PyObject* shmt__py_ring_recover(PyObject* self, PyObject* unused);
PyObject* shmt__py_ring_n_unacknowledged(PyObject* self, void* unused);
PyObject* shmt__py_ring_n_dead_letters(PyObject* self, void* unused);
PyObject* shmt__py_ring_max_deliveries(PyObject* self, void* unused);

#endif
