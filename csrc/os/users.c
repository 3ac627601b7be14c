/* os/users.c -- users and groups, and whether the kernel tells them apart here. */
#define _GNU_SOURCE
#include "os/users.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

uint32_t shmt__os_uid(void) { return (uint32_t)geteuid(); }

enum { DEFAULT_OVERFLOW_ID = 65534 };
#define ALL_IDS UINT64_C(4294967295) /* the last number is no id */
#define NOT_READ UINT32_MAX

/* Administrators set these ids when the machine starts, so a process reads them once. relaxed: every thread writes the
 * same value. */
static atomic_uint_least32_t overflow_uid = NOT_READ, overflow_gid = NOT_READ;

static uint32_t overflow_id(atomic_uint_least32_t* known, const char* path) {
  uint32_t id = atomic_load_explicit(known, memory_order_relaxed);
  if (SHMT_LIKELY(id != NOT_READ)) return id;
  id = DEFAULT_OVERFLOW_ID;
  FILE* file = fopen(path, "re");
  if (file != NULL && fscanf(file, "%" SCNu32, &id) != 1) id = DEFAULT_OVERFLOW_ID;
  if (file != NULL) (void)fclose(file);
  atomic_store_explicit(known, id, memory_order_relaxed);
  return id;
}

/* Does the map of the user namespace contain every id? */
static bool maps_all(const char* path) {
  uint64_t inside, outside, count, total = 0;
  FILE* file = fopen(path, "re");
  if (file == NULL) return false;
  while (fscanf(file, "%" SCNu64 "%" SCNu64 "%" SCNu64, &inside, &outside, &count) == 3) total += count;
  (void)fclose(file);
  return total >= ALL_IDS;
}

bool shmt__os_user_is_known(uint32_t uid) {
  return uid != overflow_id(&overflow_uid, "/proc/sys/kernel/overflowuid") || maps_all("/proc/self/uid_map");
}

bool shmt__os_group_is_known(uint32_t gid) {
  return gid != overflow_id(&overflow_gid, "/proc/sys/kernel/overflowgid") || maps_all("/proc/self/gid_map");
}

shmt_status shmt__os_check_own_user(void) {
  SHMT_REQUIRE(shmt__os_user_is_known(shmt__os_uid()), SHMT_E_MANAGER,
               "the kernel shows strangers as user %" PRIu32 " in this user namespace, and this process too, so that "
               "nobody can tell them apart; to share memory, map another user id (unshare --map-root-user)",
               shmt__os_uid());
  return SHMT_OK;
}
