/* capi/format/json_text.h -- the text that describes a published value: reading and writing it.
 *
 * shmtensor/service/_encoding.py states the schema. Both readers take exactly what it allows: JSON of ASCII characters.
 * None, booleans, texts, integers and finite floats are written as they are, and all else is a list whose first item
 * says what it is. C refuses what it has no value for: integers above 64 bits, texts that are not Unicode, and
 * dtypes of other libraries. The pickle of a module is passed over, and never looked at.
 */
#ifndef SHMT_CAPI_JSON_TEXT_H
#define SHMT_CAPI_JSON_TEXT_H

#include "capi/format/plain_writer.h"

enum { SHMT_JSON_MOST_DEPTH = 200, SHMT_JSON_MOST_BYTES = 1 << 28 };

/* The value that a text describes, over its storages, which stay the caller's; nobody else writes the text. Errors:
 * SHMT_E_HANDLE (it is damaged), SHMT_E_TYPE (C has no such value), SHMT_E_NOMEM. */
shmt_status shmt__json_read(const char* text, uint64_t n, shmt_storage* const* storages, uint64_t n_storages,
                            shmtensor_value** out);

/* The storages of a value that is published, each once. */
typedef struct shmt__json_writer {
  struct shmt__session* session; /* of the service */
  shmt__storage_copies copies;
  shmt_storage** storages; /* owned references */
  uint32_t n_storages, storages_cap;
  shmt__byte_array text;
} shmt__json_writer;
void shmt__json_writer_fini(shmt__json_writer* w);
/* Describe a value, and collect its storages, of which those outside of the service are copied there. Errors:
 * SHMT_E_VALUE (it is too long, or nested too deep), SHMT_E_NOMEM, SHMT_E_MANAGER. */
shmt_status shmt__json_write(shmt__json_writer* w, const shmtensor_value* v);

#endif
