/* ipc/handle/lease_channel.c -- notes in leases which pipe or socket their messages are sent through. */
#include "ipc/handle/lease_channel.h"

#include "ipc/handle/handle.h"
#include "ipc/session/session.h"
#include "os/channel.h"
#include "os/process.h"

#include <string.h>

/* Has this process taken leases? relaxed: a thread that sends a message sees its own. */
static atomic_bool is_sender;

void shmt__sent_messages_track(void) { atomic_store_explicit(&is_sender, true, memory_order_relaxed); }

/* Where the next handle begins, from `at` on; n when there is none. Compares a whole cache line of bytes at once, as
 * messages may be long and handles are few. */
static size_t find_handle(const unsigned char* p, size_t n, size_t at) {
  enum { LINE = 64 };
  static const char magic[4] = {'S', 'T', 'H', '1'};
  /* Handles of one message often lie side by side. */
  if (at + sizeof(shmt__handle) <= n && memcmp(p + at, magic, sizeof magic) == 0) return at;
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
    const unsigned char* first = memchr(p + at, magic[0], n - at);
    if (first == NULL) return n;
    at = (size_t)(first - p);
    if (n - at >= sizeof(shmt__handle) && memcmp(first, magic, sizeof magic) == 0) return at;
    at++;
  }
  return n;
}

/* A cache of the channels of sockets that were written to lately, and the network namespace that they are in. Under the
 * sessions' lock. */
static uint64_t net_namespace;
static struct {
  uint64_t inode, channel;
} sockets[64];

static uint64_t channel_of_socket(uint64_t inode) {
  const size_t at = inode % (sizeof sockets / sizeof *sockets);
  if (sockets[at].inode == inode) return sockets[at].channel;
  uint64_t peer = 0;
  if (shmt__os_unix_socket(inode, &peer, NULL) != SHMT_SEEN_YES || peer == 0) return SHMT_CHANNEL_OPEN;
  net_namespace = shmt__os_net_namespace();
  sockets[at].inode = inode;
  sockets[at].channel = shmt__channel(SHMT_CHANNEL_SOCKET, peer);
  return sockets[at].channel;
}

static uint64_t channel_of(int fd) {
  uint64_t inode = 0;
  switch (shmt__os_end_of(fd, &inode)) {
    case SHMT_END_PIPE: return shmt__channel(SHMT_CHANNEL_PIPE, inode);
    case SHMT_END_SOCKET: return channel_of_socket(inode);
    case SHMT_END_OTHER: break;
  }
  return SHMT_CHANNEL_OPEN;
}

/* Note the channel in the lease of a handle, if the lease is ours; its id tells. channel: 0, or what fd leads to.
 * False: it is no handle of ours. */
static bool bind_handle(const shmt__handle* h, int fd, bool is_sending, uint64_t* channel) {
  if (h->lease_id == 0) return false;
  shmt__session* s = shmt__session_lookup(h->session, h->incarnation);
  if (s == NULL || s->client == 0 || s->is_lost) return false;
  if (*channel == 0) *channel = channel_of(fd);
  /* The manager of this session may not see our sockets. */
  bool is_hidden = shmt__channel_kind_of(*channel) == SHMT_CHANNEL_SOCKET &&
                   s->map.fixed.net_namespace != net_namespace;
  const shmt__lease_ticket ticket = {h->lease_id, h->lease_slot};
  uint64_t bound = is_hidden ? SHMT_CHANNEL_OPEN : *channel;
  if (is_sending && shmt__channel_kind_of(bound) != SHMT_CHANNEL_UNKNOWN) bound |= SHMT_CHANNEL_SENDING;
  return shmt__lease_bind(&s->map, &ticket, s->client, bound);
}

bool shmt__sent_messages_are_tracked(void) {
  return atomic_load_explicit(&is_sender, memory_order_relaxed);
}

bool shmt__sent_message_bind(int fd, const void* data, size_t nbytes, bool is_sending, uint64_t* channel) {
  size_t at = find_handle(data, nbytes, 0);
  bool any = false;
  if (at == nbytes) return false;
  shmt__sessions_lock();
  while (at < nbytes) {
    shmt__handle h;
    memcpy(&h, (const char*)data + at, sizeof h);
    bool good = bind_handle(&h, fd, is_sending, channel);
    any = any || good;
    at = find_handle(data, nbytes, at + (good ? sizeof h : 1));
  }
  shmt__sessions_unlock();
  if (*channel == SHMT_CHANNEL_OPEN) *channel = 0; /* it may change: find out again next time */
  return any;
}

void shmt__sent_message_confirm(const void* data, size_t nbytes) {
  shmt__sessions_lock();
  for (size_t at = find_handle(data, nbytes, 0); at < nbytes; at = find_handle(data, nbytes, at + 1)) {
    shmt__handle h;
    memcpy(&h, (const char*)data + at, sizeof h);
    shmt__session* s = h.lease_id == 0 ? NULL : shmt__session_lookup(h.session, h.incarnation);
    const shmt__lease_ticket ticket = {h.lease_id, h.lease_slot};
    if (s != NULL && s->client != 0) shmt__lease_confirm(&s->map, &ticket, s->client);
  }
  shmt__sessions_unlock();
}
