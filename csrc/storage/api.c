/* storage/api.c -- implements api/storage.h with the functions of storage/. */
#include "api/storage.h"

#include "os/files.h"
#include "os/pages.h"
#include "os/posix_names.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <string.h>

void shmt_storage_retain(shmt_storage* s) { shmt__storage_retain(s); }
void shmt_storage_release(shmt_storage* s) { shmt__storage_release(s); }
void shmt_storage_clear(shmt_storage** place) {
  shmt_storage* s = *place;
  *place = NULL;
  shmt__storage_release(s);
}

int shmt_storage_create(uint64_t nbytes, int zeroed, shmt_storage** out) {
  return zeroed ? shmt__storage_create_zeroed(nbytes, out) : shmt__storage_create(nbytes, out);
}

int shmt_storage_create_meta(uint64_t nbytes, shmt_storage** out) { return shmt__storage_create_meta(nbytes, out); }

int shmt_storage_map_file(const char* path, uint64_t nbytes, int flags, int same_fd, shmt_storage** out) {
  shmt__mapped_file file = {.path = path, .flags = flags, .same_fd = same_fd};
  uint32_t storage_flags = (flags & SHMT_FILE_WRITABLE ? 0u : (uint32_t)SHMT_STORAGE_READ_ONLY) |
                           (flags & SHMT_FILE_SHARED ? (uint32_t)SHMT_STORAGE_SHARED : 0u);
  return shmt__storage_create_from(&shmt__allocator_mapped_file, &file, nbytes, storage_flags, out);
}

void* shmt_storage_data(const shmt_storage* s) { return s->data; }
uint64_t shmt_storage_nbytes(const shmt_storage* s) { return s->nbytes; }
uint32_t shmt_storage_flags(const shmt_storage* s) { return __atomic_load_n(&s->flags, __ATOMIC_RELAXED); }
const char* shmt_storage_allocator(const shmt_storage* s) { return s->allocator->name; }

void shmt_storage_pin(shmt_storage* s) { atomic_fetch_add_explicit(&s->exports, 1, memory_order_relaxed); }
/* release: the foreign view's uses happen before a resize that sees no exports. */
void shmt_storage_unpin(shmt_storage* s) { atomic_fetch_sub_explicit(&s->exports, 1, memory_order_release); }

int shmt_storage_resize(shmt_storage* s, uint64_t nbytes) { return shmt__storage_resize(s, nbytes); }

static shmt_status check_range(const shmt_storage* s, uint64_t offset, uint64_t nbytes) {
  SHMT_REQUIRE(offset <= s->nbytes && nbytes <= s->nbytes - offset, SHMT_E_RUNTIME,
               "storage: bytes %" PRIu64 " to %" PRIu64 "+%" PRIu64 " are out of bounds for storage of size %" PRIu64,
               offset, offset, nbytes, s->nbytes);
  SHMT_REQUIRE(nbytes == 0 || !shmt__storage_has(s, SHMT_STORAGE_META), SHMT_E_NOT_IMPLEMENTED,
               "storage: no data behind a meta storage of %" PRIu64 " bytes", s->nbytes);
  return SHMT_OK;
}

static shmt_status check_writable(const shmt_storage* s) {
  SHMT_REQUIRE(!shmt__storage_has(s, SHMT_STORAGE_READ_ONLY), SHMT_E_RUNTIME,
               "storage: writing to a read-only storage of %" PRIu64 " bytes", s->nbytes);
  return SHMT_OK;
}

static void release_part(void* arg, void* data) {
  shmt_storage* whole = arg;
  (void)data;
  shmt_storage_unpin(whole);
  shmt__storage_release(whole);
}

const shmt_storage* shmt__storage_whole(const shmt_storage* s) {
  const shmt__blob* blob = shmt__storage_blob(s);
  return blob != NULL && blob->deleter == release_part ? blob->deleter_arg : NULL;
}

/* The same, as another function: that tells the parts apart. */
static void release_own_part(void* arg, void* data) { release_part(arg, data); }

bool shmt__storage_is_own_part(const shmt_storage* s) {
  const shmt__blob* blob = shmt__storage_blob(s);
  return blob != NULL && blob->deleter == release_own_part;
}

int shmt_storage_part(shmt_storage* s, uint64_t offset, uint64_t nbytes, int is_own, shmt_storage** out) {
  SHMT_TRY(check_range(s, offset, nbytes));
  shmt_storage_pin(s); /* before the address is read */
  shmt__storage_retain(s);
  const uint32_t flags = shmt_storage_flags(s) & (SHMT_STORAGE_READ_ONLY | SHMT_STORAGE_META);
  shmt_status status = shmt__storage_from_blob(s->data ? (char*)s->data + offset : NULL, nbytes,
                                               is_own ? release_own_part : release_part, s, flags, out);
  if (status != SHMT_OK) release_part(s, NULL);
  return status;
}

int shmt_storage_copy(shmt_storage* dst, uint64_t dst_offset, const shmt_storage* src, uint64_t src_offset,
                      uint64_t nbytes) {
  SHMT_TRY(check_range(dst, dst_offset, nbytes));
  SHMT_TRY(check_range(src, src_offset, nbytes));
  SHMT_TRY(check_writable(dst));
  if (nbytes > 0) memmove((char*)dst->data + dst_offset, (const char*)src->data + src_offset, nbytes);
  return SHMT_OK;
}

int shmt_storage_fill(shmt_storage* s, uint64_t offset, uint64_t nbytes, int byte) {
  SHMT_TRY(check_range(s, offset, nbytes));
  SHMT_TRY(check_writable(s));
  if (nbytes > 0) memset((char*)s->data + offset, byte, nbytes);
  return SHMT_OK;
}

uint64_t shmt_storage_semaphore_bytes(void) { return shmt__os_semaphore_bytes(); }

int shmt_storage_init_semaphore(shmt_storage* s, uint32_t value) {
  SHMT_TRY(check_range(s, 0, shmt__os_semaphore_bytes()));
  SHMT_TRY(check_writable(s));
  int err = shmt__os_semaphore_init(s->data, value);
  SHMT_REQUIRE(err == 0, SHMT_E_VALUE, "a semaphore of %" PRIu32 " permits: error %d", value, -err);
  return SHMT_OK;
}

int shmt_storage_byteswap(shmt_storage* s, uint64_t width) {
  SHMT_TRY(check_range(s, 0, s->nbytes));
  SHMT_TRY(check_writable(s));
  SHMT_REQUIRE(width > 0 && s->nbytes % width == 0, SHMT_E_VALUE,
               "byteswap: %" PRIu64 " bytes are not a multiple of the element size %" PRIu64, s->nbytes, width);
  unsigned char* end = (unsigned char*)s->data + s->nbytes;
  for (unsigned char* p = s->data; p < end; p += width) {
    for (uint64_t i = 0; i < width / 2; i++) {
      unsigned char byte = p[i];
      p[i] = p[width - 1 - i];
      p[width - 1 - i] = byte;
    }
  }
  return SHMT_OK;
}

int shmt_storage_read_fd(shmt_storage* s, uint64_t offset, uint64_t nbytes, int fd) {
  SHMT_TRY(check_range(s, offset, nbytes));
  SHMT_TRY(check_writable(s));
  return shmt__os_read_exact(fd, (char*)s->data + offset, nbytes);
}

int shmt_storage_write_fd(const shmt_storage* s, uint64_t offset, uint64_t nbytes, int fd) {
  SHMT_TRY(check_range(s, offset, nbytes));
  return shmt__os_write_exact(fd, (const char*)s->data + offset, nbytes);
}

int shmt_storage_weak_create(shmt_storage* s, shmt__storage_weak** out) { return shmt__storage_weak_create(s, out); }
void shmt_storage_weak_lock(shmt__storage_weak* weak, shmt_storage** out) { *out = shmt__storage_weak_lock(weak); }
void shmt_storage_weak_clear(shmt__storage_weak** place) {
  shmt__storage_weak* weak = *place;
  *place = NULL;
  shmt__storage_weak_free(weak);
}
