/* tests/fuzz/fuzz_handle.c -- handles, packed tensors and names from anybody, opened by a member.
 *
 * The input is either the bytes themselves, or a list of changes to genuine ones, with or without
 * the checksums made right again, as a peer of the same session could. What opens must lie inside
 * memory that is mapped: its first and last byte are read. The session and its manager are real.
 */
#define _GNU_SOURCE
#include "api/error.h"
#include "api/shm.h"
#include "ipc/session/session.h"
#include "ipc/handle/export.h"
#include "ipc/handle/import.h"
#include "ipc/handle/share.h"
#include "tensor/packed.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_STORAGES = 5, N_TENSORS = 8 };

static shmt_storage* storages[N_STORAGES];
static shmt_tensor* tensors[N_TENSORS];
static volatile unsigned char sink;

int LLVMFuzzerInitialize(int* argc, char*** argv);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

static void check(bool good, const char* what) {
  if (good) return;
  (void)fprintf(stderr, "fuzz_handle: %s: %s\n", what, shmt_error_message());
  abort();
}

static void make_tensor(int i, shmt_storage* s, int64_t n_dims, int64_t* sizes, int64_t* strides,
                        int64_t offset, shmt_dtype dtype) {
  check(shmt__tensor_from_storage(s, (shmt_ints){sizes, n_dims}, (shmt_ints){strides, n_dims},
                                  offset, dtype, &tensors[i]) == SHMT_OK,
        "no tensor");
}

int LLVMFuzzerInitialize(int* argc, char*** argv) {
  static const uint64_t nbytes[N_STORAGES] = {0, 100, 12345, 1 << 20, 4096};
  char program[PATH_MAX];
  (void)argc;
  check(realpath((*argv)[0], program) != NULL, "no path");
  *strrchr(program, '/') = '\0';
  (void)strcat(program, "/shmtensor-manager");
  (void)shmt_sharing_configure(program, 0, 0);
  for (int i = 0; i < N_STORAGES; i++)
    check(shmt__storage_create_shared(nbytes[i], i == N_STORAGES - 1, &storages[i]) == SHMT_OK,
          "no storage");
  make_tensor(0, storages[1], 1, (int64_t[]){25}, (int64_t[]){1}, 0, SHMT_FLOAT32);
  make_tensor(1, storages[1], 0, NULL, NULL, 3, SHMT_FLOAT64);
  make_tensor(2, storages[2], 2, (int64_t[]){5, 7}, (int64_t[]){1, 100}, 17, SHMT_UINT8);
  make_tensor(3, storages[3], 3, (int64_t[]){64, 64, 32}, (int64_t[]){2048, 32, 1}, 0,
              SHMT_INT64);
  make_tensor(4, storages[3], 2, (int64_t[]){0, 9}, (int64_t[]){9, 1}, 0, SHMT_FLOAT32);
  make_tensor(5, storages[4], 4, (int64_t[]){2, 1, 2, 3}, (int64_t[]){0, 5, 0, 1}, 1, SHMT_BOOL);
  make_tensor(6, storages[0], 1, (int64_t[]){0}, (int64_t[]){1}, 0, SHMT_FLOAT32);
  make_tensor(7, storages[3], 1, (int64_t[]){1}, (int64_t[]){1 << 20}, 0, SHMT_COMPLEX128);
  return 0;
}

/* Read the ends of what a tensor reaches. */
static void touch(const shmt_tensor* t) {
  const int64_t *sizes = t->sizes, *strides = t->strides;
  int64_t last = t->offset;
  for (unsigned i = 0; i < t->n_dims; i++) {
    check(sizes[i] >= 0 && strides[i] >= 0, "a negative size or stride was let in");
    if (t->numel > 0) last += (sizes[i] - 1) * strides[i];
  }
  if (t->numel == 0) return;
  const volatile unsigned char* data = t->storage->data;
  uint64_t item = shmt__dtype_size[t->dtype];
  check(t->offset >= 0 && (uint64_t)(last + 1) * item <= t->storage->nbytes,
        "a tensor reaches beyond its storage");
  sink = data[(uint64_t)t->offset * item];
  sink = data[(uint64_t)(last + 1) * item - 1];
}

static void open_tensor(const void* bytes, size_t n) {
  shmt_tensor* t = NULL;
  if (shmt__tensor_unpack(bytes, n, &t) != SHMT_OK) return;
  touch(t);
  shmt__tensor_release(t);
}

static void open_storage(const shmt__handle* h) {
  shmt_storage* s = NULL;
  if (shmt__storage_import(h, NULL, &s) != SHMT_OK) return;
  const volatile unsigned char* data = s->data;
  if (s->nbytes > 0) sink = data[0];
  if (s->nbytes > 0) sink = data[s->nbytes - 1];
  shmt_storage_release(s);
}

/* Change bytes as the input says: triples of place, place, value. */
static void change(void* bytes, size_t n, const uint8_t** data, size_t* size) {
  for (; *size >= 3; *data += 3, *size -= 3)
    ((uint8_t*)bytes)[((*data)[0] | (size_t)(*data)[1] << 8) % n] = (*data)[2];
}

static uint64_t secret_of(const shmt__handle* h) {
  shmt__sessions_lock();
  const shmt__session* s = shmt__session_lookup(h->session, h->incarnation);
  uint64_t secret = s != NULL && h->block != (uint32_t)SHMT_HANDLE_NO_BLOCK
                        ? s->map.fixed.secret
                        : 0;
  shmt__sessions_unlock();
  return secret;
}

static void sign_handle(shmt__handle* h) {
  h->check = shmt__handle_checksum(secret_of(h), &h->session,
                                   sizeof *h - offsetof(shmt__handle, session));
}

static void changed_tensor(unsigned which, bool sign, const uint8_t* data, size_t size) {
  shmt__packed_tensor p;
  size_t n = 0, from = offsetof(shmt__packed_tensor, dtype);
  const shmt_tensor* t = tensors[which % N_TENSORS];
  check(shmt__tensor_pack(t, t->storage, &p, &n) == SHMT_OK, "cannot pack");
  shmt__handle genuine = p.handle;
  change(&p, n, &data, &size);
  if (sign) {
    sign_handle(&p.handle);
    p.check = shmt__handle_checksum(secret_of(&p.handle), (char*)&p + from, n - from);
  }
  open_tensor(&p, n);
  open_storage(&genuine); /* ends the lease, whatever became of the copy */
}

static void changed_storage(unsigned which, bool sign, const uint8_t* data, size_t size) {
  shmt__handle h, genuine;
  check(shmt__storage_export(storages[which % N_STORAGES], true, &h, NULL) == SHMT_OK,
        "cannot export");
  genuine = h;
  change(&h, sizeof h, &data, &size);
  if (sign) sign_handle(&h);
  open_storage(&h);
  open_storage(&genuine);
}

static void changed_name(unsigned which, const uint8_t* data, size_t size) {
  char manager[64], name[96];
  shmt_storage* s = NULL;
  check(shmt_storage_export_name(storages[1 + which % 4], manager, sizeof manager, name,
                                 sizeof name) == SHMT_OK,
        "cannot export a name");
  uint64_t nbytes = storages[1 + which % 4]->nbytes;
  if (which & 4) change(manager, sizeof manager - 1, &data, &size);
  change(name, sizeof name - 1, &data, &size);
  manager[sizeof manager - 1] = name[sizeof name - 1] = '\0';
  if (shmt_storage_import_name(manager, name, nbytes + (which >> 6), &s) == SHMT_OK)
    shmt_storage_release(s);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  unsigned what = data[0], which = data[1];
  data += 2;
  size -= 2;
  switch (what % 6) {
    case 0:
      open_tensor(data, size);
      break;
    case 1:
    case 2:
      changed_tensor(which, what % 6 == 1, data, size);
      break;
    case 3:
    case 4:
      changed_storage(which, what % 6 == 3, data, size);
      break;
    default:
      changed_name(which, data, size);
  }
  return 0;
}
