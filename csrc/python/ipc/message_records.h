/* python/ipc/message_records.h -- the bytes of a message and the records of its tensors: writing and reading them.
 *
 * message.h says how the bytes are laid out. Whoever writes a part of a message (python/ipc/plain_objects.c, a pickler,
 * the reduction of a tensor) does so through its writer; whoever reads a part finds its tensors through its reader.
 */
#ifndef SHMT_PYTHON_IPC_MESSAGE_RECORDS_H
#define SHMT_PYTHON_IPC_MESSAGE_RECORDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "storage/storage.h"
#include "tensor/tensor.h"

struct shmt__session;

/* A growing array of bytes. */
typedef struct shmt__py_bytes {
  char* at;
  size_t len, cap;
} shmt__py_bytes;

/* Append bytes. False with MemoryError. */
bool shmt__py_bytes_append(shmt__py_bytes* b, const void* data, size_t nbytes);

/* --- writing ---------------------------------------------------------------------------- */

typedef struct shmt__py_message_writer {
  struct shmt__session* session; /* of the ring that the message is for; NULL: for none */
  shmt_storage** storages;       /* owned references */
  uint32_t n_storages, storages_cap;
  uint32_t most_storages;        /* with that of the data, if that becomes long */
  shmt__py_bytes records, pickle; /* records begin with the head; pickle: what a pickler or plain_objects.c writes */
  uint32_t adopts;   /* SHMT_PY_ADOPTS_* */
  bool is_reducing;  /* one of our reductions runs: tensors join the message */
} shmt__py_message_writer;

/* Begin an empty message. False with MemoryError. */
bool shmt__py_writer_init(shmt__py_message_writer* w, struct shmt__session* session);
void shmt__py_writer_fini(shmt__py_message_writer* w);
/* Write the head, when all else is there. is_quick: the pickle is plain_objects.c's. */
void shmt__py_writer_finish(shmt__py_message_writer* w, bool is_quick);

/* Append a storage without a record. On success the message takes the reference over, and *s is NULL. False with
 * MemoryError. */
bool shmt__py_writer_add_storage(shmt__py_message_writer* w, shmt_storage** s);
/* Append a tensor whose bytes *s has, or *s alone when t is NULL; the reference goes as above. Returns the place of its
 * record. -1: the message cannot take it (another session's, too many). -2: with MemoryError. */
int64_t shmt__py_writer_add_record(shmt__py_message_writer* w, const shmt_tensor* t, shmt_storage** s);

/* A point to go back to. */
typedef struct shmt__py_writer_mark {
  size_t n_records, n_pickle;
  uint32_t n_storages;
} shmt__py_writer_mark;
static inline shmt__py_writer_mark shmt__py_writer_here(const shmt__py_message_writer* w) {
  return (shmt__py_writer_mark){w->records.len, w->pickle.len, w->n_storages};
}
void shmt__py_writer_go_back(shmt__py_message_writer* w, shmt__py_writer_mark mark);

/* What a pickler is writing on this thread; NULL: nothing. */
extern _Thread_local shmt__py_message_writer* shmt__py_tls_writer __attribute__((tls_model("initial-exec")));
/* Of the ring whose message this thread's pickler is writing, or NULL. */
struct shmt__session* shmt__py_writer_session(void);
/* For reductions: as shmt__py_writer_add_record, to the thread's writer; -1 also when there is none that takes
 * tensors. */
int64_t shmt__py_writer_offer(const shmt_tensor* t, shmt_storage** s);
/* From now on tensors do not join the thread's message, so that ForkingPickler's own table is used. Returns the state
 * to restore. */
bool shmt__py_writer_suspend(void);
void shmt__py_writer_resume(bool state);

/* --- reading ---------------------------------------------------------------------------- */

/* A message that this thread reads; all is borrowed. */
typedef struct shmt__py_message_reader {
  shmt_storage* const* storages;
  const char *records, *pickle;
  uint64_t n_pickle;
  uint32_t n_storages, n_records;
  bool is_quick;
  const struct shmt__py_message_reader* outer; /* the message that was being read before */
} shmt__py_message_reader;

/* Begin to read the data of a message, until shmt__py_reader_end. Errors: SHMT_E_HANDLE when it is damaged. */
shmt_status shmt__py_reader_begin(shmt__py_message_reader* r, shmt_storage* const* storages, uint32_t n_storages,
                                  const char* data, uint64_t nbytes);
void shmt__py_reader_end(const shmt__py_message_reader* r);
/* The tensor or storage whose record is at this place of the message that this thread reads. New references.
 * Errors: SHMT_E_HANDLE. */
shmt_status shmt__py_received_tensor(int64_t place, shmt_tensor** out);
shmt_status shmt__py_received_storage(int64_t place, shmt_storage** out);

#endif
