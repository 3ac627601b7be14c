/* capi/format/plain_reader.h -- reads values in the plain format of ipc/message/message_format.h. */
#ifndef SHMT_CAPI_PLAIN_READER_H
#define SHMT_CAPI_PLAIN_READER_H

#include "capi/values.h"

/* The value of a message's data, which nobody else writes, over its storages, which stay the caller's. Errors: TYPE (a
 * pickle, or something that C has not), HANDLE (it is damaged), NO_MEMORY. */
shmtensor_status shmt__plain_read(shmt_storage* const* storages, uint32_t n_storages, const char* data, uint64_t nbytes,
                                  shmtensor_value** out);

#endif
