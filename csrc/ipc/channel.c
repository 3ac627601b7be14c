/* ipc/channel.c -- telling leases what their messages are sent through. See ipc/channel.h. */
#include "ipc/channel.h"

#include "ipc/handle.h"
#include "ipc/session.h"
#include "os/channel.h"
#include "os/process.h"

#include <string.h>

/* Has this process taken leases? relaxed: who sends a message knows of its own. */
static atomic_bool is_sender;

void shmt__message_expect(void) { atomic_store_explicit(&is_sender, true, memory_order_relaxed); }

/* Where the next handle begins, from `at` on; n when there is none. A whole line of bytes is
 * compared at once, as messages may be long and handles are few. */
static size_t find_handle(const unsigned char* p, size_t n, size_t at) {
  enum { LINE = 64 };
  static const char magic[4] = {'S', 'T', 'H', '1'};
  while (at + sizeof(shmt__handle) <= n) {
    if (at + LINE + 3 <= n) {
      unsigned char any = 0;
      for (int i = 0; i < LINE; i++)
        any |= (unsigned char)((p[at + i] == 'S') & (p[at + i + 1] == 'T') & (p[at + i + 2] == 'H') &
                               (p[at + i + 3] == '1'));
      if (any == 0) {
        at += LINE;
        continue;
      }
    }
    if (memcmp(p + at, magic, sizeof magic) == 0) return at;
    at++;
  }
  return n;
}

/* The channels of sockets that were written to lately, so that the kernel is asked once for each.
 * Under the sessions' lock. */
static struct {
  uint64_t inode, channel;
} sockets[64];

static uint64_t channel_of_socket(const shmt__session* s, uint64_t inode) {
  const size_t at = inode % (sizeof sockets / sizeof *sockets);
  if (sockets[at].inode == inode) return sockets[at].channel;
  uint64_t peer = 0;
  if (shmt__os_unix_socket(inode, &peer) != SHMT_SEEN_YES || peer == 0 ||
      shmt__os_net_namespace() != s->map.fixed.net_namespace)
    return SHMT_CHANNEL_OPEN; /* may change: asked again */
  sockets[at].inode = inode;
  sockets[at].channel = shmt__channel(SHMT_CHANNEL_SOCKET, peer);
  return sockets[at].channel;
}

static uint64_t channel_of(const shmt__session* s, int fd) {
  uint64_t inode = 0;
  switch (shmt__os_end_of(fd, &inode)) {
    case SHMT_END_PIPE: return shmt__channel(SHMT_CHANNEL_PIPE, inode);
    case SHMT_END_SOCKET: return channel_of_socket(s, inode);
    case SHMT_END_OTHER: break;
  }
  return SHMT_CHANNEL_OPEN;
}

/* Bind the lease of a handle, if it is one of ours. channel: 0, or what fd leads to. */
static void bind_handle(const shmt__handle* h, int fd, uint64_t* channel) {
  if (h->lease_id == 0) return;
  shmt__session* s = shmt__session_known(h->session, h->world);
  if (s == NULL || s->client == 0 || s->is_lost) return;
  if (shmt__handle_check_of(s->map.fixed.secret, h) != h->check) return;
  if (*channel == 0) *channel = channel_of(s, fd);
  const shmt__lease_ticket ticket = {h->lease_id, h->lease_place};
  shmt__lease_bind(&s->map, &ticket, s->client, *channel);
}

void shmt__message_bind(int fd, const void* data, size_t nbytes) {
  if (!atomic_load_explicit(&is_sender, memory_order_relaxed)) return;
  size_t at = find_handle(data, nbytes, 0);
  if (at == nbytes) return;
  uint64_t channel = 0;
  shmt__sessions_lock();
  for (; at < nbytes; at = find_handle(data, nbytes, at + 1)) {
    shmt__handle h;
    if (nbytes - at < sizeof h) break;
    memcpy(&h, (const char*)data + at, sizeof h);
    bind_handle(&h, fd, &channel);
  }
  shmt__sessions_unlock();
}
