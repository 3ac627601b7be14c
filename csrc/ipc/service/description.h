/* ipc/service/description.h -- the block that describes a published value.
 *
 *   0        32                              32 + 24*n_storages    + n_text
 *   +--------+-------------------------------+---------------------+
 *   | head   | which block each storage is   | structure, as text  |
 *   +--------+-------------------------------+---------------------+
 *
 * The publisher writes it before the manager hears of it, and nobody afterwards. The manager reads
 * the blocks, which it holds as long as the name stands for them; the text is for the readers
 * (shmtensor/service/).
 */
#ifndef SHMT_IPC_SERVICE_DESCRIPTION_H
#define SHMT_IPC_SERVICE_DESCRIPTION_H

#include <stdint.h>

#define SHMT_DESCRIPTION_MAGIC UINT64_C(0x31544445534d4853) /* "SHMSEDT1" */

enum {
  SHMT_MAX_STORAGES = 1 << 20, /* of one published value */
};

typedef struct shmt__description {
  uint64_t magic;
  uint64_t n_storages, n_text;
  uint64_t reserved;
} shmt__description;
_Static_assert(sizeof(shmt__description) == 32, "description");

typedef struct shmt__described_storage {
  uint64_t generation, nbytes;
  uint32_t block; /* SHMT_HANDLE_NO_BLOCK: of no bytes */
  uint32_t pad;
} shmt__described_storage;
_Static_assert(sizeof(shmt__described_storage) == 24, "described storage");

#endif
