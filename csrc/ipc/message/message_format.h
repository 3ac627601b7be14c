/* ipc/message/message_format.h -- the bytes of a message: what it is made of, and the format of plain messages.
 *
 * The data of a message (ipc/ring/message_layout.h) is
 *
 *   0                4           8             8 + n_records
 *   +----------------+-----------+-------------+-----------------+
 *   | n_records      | is_plain  | records     | plain, or pickle |
 *   +----------------+-----------+-------------+-----------------+
 *
 * A record says which storage of the message a tensor lies in, and where; a record without geometry stands for the
 * storage itself. What follows the records names a tensor by the place of its record. If `is_plain` is 0 it is a pickle
 * of Python, which only Python reads, and only between processes of one user. Else it is one item:
 *
 *   tag       payload                     tag       payload
 *   NONE TRUE FALSE                       TUPLE     count, then the items
 *   BYTE      int8                        LIST      count, then the items
 *   INT       int64                       DICT      count, then keys and values
 *   FLOAT     double                      TENSOR    place of its record
 *   TEXT      length, UTF-8               AGAIN     number of a list, dict, tensor or shared tuple before
 *   BYTES     length, bytes               SHARED_TUPLE  count, then the items
 *
 * Tags are bytes. Counts, lengths, places and numbers are uint32. Everything has the byte order of the machine and lies
 * at any address. Lists, dicts and tensors are numbered from 0 in the order in which they begin, shared tuples among
 * them when they end, for nothing in a tuple can stand for the tuple; AGAIN is the same object once more. Items are
 * nested at most SHMT_MESSAGE_MOST_DEPTH deep. A writer numbers the tuples that may come again: without that, tuples
 * within tuples would be written as often as there are ways to them. In keys of dicts no tuple has a number.
 *
 * Everything that is read is checked: it may lie in memory that others write. docs/messages.md describes the format for
 * readers outside of this project; a change of it is a new SHMT_RING_VERSION.
 */
#ifndef SHMT_IPC_MESSAGE_MESSAGE_FORMAT_H
#define SHMT_IPC_MESSAGE_MESSAGE_FORMAT_H

#include <stdint.h>

typedef enum shmt__message_tag {
  SHMT_TAG_NONE = 1,
  SHMT_TAG_TRUE,
  SHMT_TAG_FALSE,
  SHMT_TAG_BYTE,
  SHMT_TAG_INT,
  SHMT_TAG_FLOAT,
  SHMT_TAG_TEXT,
  SHMT_TAG_BYTES,
  SHMT_TAG_TUPLE,
  SHMT_TAG_LIST,
  SHMT_TAG_DICT,
  SHMT_TAG_TENSOR,
  SHMT_TAG_AGAIN,
  SHMT_TAG_SHARED_TUPLE,
} shmt__message_tag;

enum {
  SHMT_MESSAGE_MOST_DEPTH = 12,
  SHMT_MESSAGE_MOST_OBJECTS = 1 << 16, /* that are numbered */
  SHMT_RECORD_IS_STORAGE = 0xff,       /* in place of a dtype */
};

typedef struct shmt__message_head {
  uint32_t n_records; /* bytes */
  uint32_t is_plain;  /* what follows the records is as above, else a pickle */
} shmt__message_head;
_Static_assert(sizeof(shmt__message_head) == 8, "heads travel as bytes");

typedef struct shmt__message_record {
  uint32_t storage; /* index */
  uint8_t dtype;    /* or SHMT_RECORD_IS_STORAGE */
  uint8_t n_dims;
  uint16_t bits;  /* 0, or what is to be done to each element when it is read: SHMT_TENSOR_CONJ_NEG */
  int64_t offset; /* in elements; then the sizes and the strides, int64 each */
} shmt__message_record;
_Static_assert(sizeof(shmt__message_record) == 16, "records travel as bytes");

#endif
