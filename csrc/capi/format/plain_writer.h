/* capi/format/plain_writer.h -- writes values in the plain format of ipc/message/message_format.h. */
#ifndef SHMT_CAPI_PLAIN_WRITER_H
#define SHMT_CAPI_PLAIN_WRITER_H

#include "capi/values.h"

/* A growing array of bytes. */
typedef struct shmt__byte_array {
  char* at; /* malloc'd */
  size_t n, cap;
} shmt__byte_array;
/* Append bytes. Errors: SHMT_E_NOMEM. */
shmt_status shmt__byte_array_append(shmt__byte_array* b, const void* data, size_t n);

typedef struct shmt__plain_writer {
  struct shmt__session* session; /* that the message is for */
  shmt_storage** storages;       /* owned references */
  uint32_t n_storages, storages_cap;
  shmt__byte_array records, plain; /* records begin with the head, which shmt__plain_write fills */
  shmt__storage_copies copies;
  uint64_t id; /* of the message, in shmtensor_value.written_by */
  uint32_t n_objects;
} shmt__plain_writer;

shmt_status shmt__plain_writer_init(shmt__plain_writer* w, struct shmt__session* session);
void shmt__plain_writer_fini(shmt__plain_writer* w);
/* Write a value, which is all of the message. Errors: SHMT_E_VALUE, SHMT_E_NOMEM, SHMT_E_MANAGER. */
shmt_status shmt__plain_write(shmt__plain_writer* w, const shmtensor_value* v);
/* Append a storage. On success the message takes the reference over, and *s is NULL. Errors: SHMT_E_NOMEM. */
shmt_status shmt__plain_writer_add_storage(shmt__plain_writer* w, shmt_storage** s);

#endif
