/* ipc/service/watch.c -- a thread that notices the end of a service's manager while the program is idle. See Note [A
 * manager that was killed] in ipc/service/service_internal.h. */
#include "ipc/service/service_internal.h"

#include "os/process.h"

#include <stdlib.h>

enum { PATIENCE = 60, PAUSE_MS = 1000 };

typedef struct watch {
  uint64_t id, incarnation; /* of the session */
  uint32_t n_forks;         /* of this process, when the thread began */
} watch;

/* The session, if it is to be watched still. The caller has the lock. */
static shmt__session* find_session(const watch* w) {
  shmt__session* s = shmt__session_lookup(w->id, w->incarnation);
  bool is_over = s == NULL || s->is_lost || shmt__map_has_ended(&s->map) || w->n_forks != shmt__fork_count();
  return is_over ? NULL : s;
}

/* Rejoin the manager, or start the next one. Returns the connection; -1: there is none yet, -2: nothing is left to
 * watch. */
static int reconnect(const watch* w) {
  int fd = -2;
  shmt__sessions_lock();
  shmt__session* s = find_session(w);
  if (s != NULL) (void)shmt__session_reconnect(s);
  s = find_session(w);
  if (s != NULL) fd = shmt__descriptor_number(&s->socket);
  shmt__sessions_unlock();
  return fd;
}

static void* watch_until_closed(void* arg) {
  shmt__os_thread_name("shmtensor-watch");
  watch* w = arg;
  /* Where only the service's own user can start a manager, that may take a while. */
  for (int left = PATIENCE; left > 0;) {
    int fd = reconnect(w);
    if (fd == -2) break;
    if (fd < 0) {
      left--;
      shmt__os_sleep_ms(PAUSE_MS);
      continue;
    }
    left = PATIENCE;
    shmt__os_wait_end(fd);
  }
  shmt__sessions_lock();
  shmt__session* s = find_session(w);
  if (s != NULL) s->watch_forks = 0; /* whoever uses the service next begins anew */
  shmt__sessions_unlock();
  free(w);
  return NULL;
}

void shmt__service_watch(shmt__session* s) {
  uint32_t n_forks = shmt__fork_count();
  if (SHMT_LIKELY(s->watch_forks == n_forks + 1) || s->key.path[0] == '\0') return;
  watch* w = malloc(sizeof *w);
  if (w == NULL) return; /* whoever uses the service notices by itself */
  *w = (watch){s->id, s->incarnation, n_forks};
  s->watch_forks = n_forks + 1;
  if (shmt__os_thread_start(watch_until_closed, w) == 0) return;
  s->watch_forks = 0;
  free(w);
}
