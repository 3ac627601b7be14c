/* python/ipc/message.h -- turns Python objects into the messages of rings, and back.
 *
 * ipc/message/message_format.h has the bytes of a message.
 *
 * python/ipc/plain_objects.h writes plain objects; a pickler writes all others. Each tensor and storage is added to the
 * message's list: the storage becomes a block reference, the geometry becomes a record, and the pickle has the index of
 * the record. So all blocks of a message are shared, leased and opened together, whatever objects contain the tensors.
 * What the list cannot take (a storage of another session, more than shmt__ring_most_storages) is pickled as in any
 * other message, with a lease of its own.
 */
#ifndef SHMT_PYTHON_IPC_MESSAGE_H
#define SHMT_PYTHON_IPC_MESSAGE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "ipc/ring/ring.h"
#include "python/ipc/message_records.h"

/* Whose arrays a ring moves into shared memory, as arrays; or it sends those of all libraries as our tensors. */
enum { SHMT_PY_ADOPTS_NUMPY = 1, SHMT_PY_ADOPTS_TORCH = 2, SHMT_PY_SENDS_AS_OURS = 4 };

/* A message that is ready to be put. It is a Python object, so that a queue can keep it until there is room. */
typedef struct shmt__py_packed_message {
  PyObject_HEAD
  shmt__py_message_writer writer; /* what it is made of */
  uint32_t flags; /* SHMT_RING_SPILLED: the last storage is all the data */
  struct shmt__py_packed_message* next; /* in the list of those that wait for room (python/ipc/feeder.c) */
} shmt__py_packed_message;

/* Pickle o for the ring. New reference, or NULL with an exception: whatever pickling raises. */
shmt__py_packed_message* shmt__py_packed_message_of(PyObject* o, const shmt__ring* r, uint32_t adopts);
/* The same for a message that does not go through a ring, without the ring's limits. NULL without an exception: o has
 * more than plain objects and plain tensors of arenas. NULL with an exception: MemoryError, or what
 * python/ipc/plain_objects.h raises. */
shmt__py_packed_message* shmt__py_packed_message_of_plain(PyObject* o);
bool shmt__py_is_packed_message(PyObject* o);
/* The message as shmt__ring_put takes it; valid as long as p. */
shmt__outgoing_message shmt__py_packed_message_view(const shmt__py_packed_message* p);
/* The object of a received message, which stays the caller's. NULL with an exception: whatever unpickling raises. */
PyObject* shmt__py_received_object(const shmt__ring* ring, const shmt__received_message* d);

/* The object of a message's data over its opened storages, which stay the caller's. ring: where it was taken from,
 * which says whether it may be a pickle; NULL: it came from this user in another way. */
PyObject* shmt__py_message_object(shmt_storage* const* storages, uint32_t n_storages, const char* data,
                                  uint64_t nbytes, const shmt__ring* ring);

/* queue.Empty and queue.Full; borrowed, NULL until registered. */
PyObject* shmt__py_empty(void);
PyObject* shmt__py_full(void);

/* Whose is the exception that is set while a message is read? */
typedef enum shmt__py_fault {
  SHMT_PY_OF_MESSAGE, /* the message is bad; or no exception is set */
  SHMT_PY_OF_HANDLER, /* a signal's handler raised it to interrupt us, and the message may be good */
  SHMT_PY_OF_EITHER,  /* no Exception, which may come from a handler that cannot be found; or memory is short */
} shmt__py_fault;
shmt__py_fault shmt__py_fault_now(void);

int shmt__py_message_init(PyObject* module);
int shmt__py_ring_init(PyObject* module);
int shmt__py_topic_init(PyObject* module);
int shmt__py_call_init(PyObject* module);
int shmt__py_event_init(PyObject* module);
int shmt__py_named_lock_init(PyObject* module);
extern PyMethodDef shmt__py_message_functions[];

#endif
