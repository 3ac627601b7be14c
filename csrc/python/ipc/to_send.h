/* python/ipc/to_send.h -- which storage goes into a message in place of a tensor's own.
 *
 * Note [Memory that others see]
 * Sending moves a tensor's bytes into shared memory, and the tensor shows them there from then on. That must not part
 * two objects that showed one memory: an array and the tensor that from_numpy made of it, a DLPack producer, a buffer,
 * two storages over parts of one. A message gets a copy of such bytes, and the tensor stays where it is. If nobody
 * else is left who could see the memory, it moves as any other. A tensor whose own memory an array shows cannot be sent
 * (BufferError), nor lent when a copy would have to go: a lent tensor shows later writes. share_memory_() moves the
 * bytes in every case that is possible, because that is what it is called for.
 *
 * A service's queue carries messages between strangers. As when a value is published, bytes that lie in the service's
 * memory go as they are, and of all others the message has a copy, there: the receiver need not reach the sender's own
 * session, and sees no later writes.
 */
#ifndef SHMT_PYTHON_IPC_TO_SEND_H
#define SHMT_PYTHON_IPC_TO_SEND_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "storage/storage.h"

struct shmt__session;

/* The copies that one message needs: two tensors over one storage share memory at the receiver too. They are known to
 * the thread that makes the message. */
typedef struct shmt__py_copies {
  struct shmt__py_copy {
    shmt_storage *original, *copy; /* owned references */
  }* at;
  uint32_t n, cap;
  struct shmt__py_copies* outer; /* of the message that was being made before */
} shmt__py_copies;

/* From now on this thread makes a message, until shmt__py_copies_end. *copies is the caller's. */
void shmt__py_copies_begin(shmt__py_copies* copies);
void shmt__py_copies_end(shmt__py_copies* copies);

/* Make the storage that a message gets in place of s: s itself, in shared memory from now on, or a copy. session: of
 * the ring that the message is for, or NULL. Needs the interpreter lock. Errors: those of shmt__storage_share; of
 * shmt__storage_register_file for a mapped file; SHMT_E_NOMEM, SHMT_E_MANAGER. New reference. */
shmt_status shmt__py_storage_to_send(shmt_storage* s, struct shmt__session* session, shmt_storage** out);

/* Make a storage for a message: in the service of its queue, or else in this process's own session by a strategy.
 * New reference. Errors: SHMT_E_NOMEM, SHMT_E_MANAGER. */
shmt_status shmt__py_storage_for(struct shmt__session* session, uint64_t nbytes, int how, shmt_storage** out);

extern PyMethodDef shmt__py_to_send_functions[];

#endif
