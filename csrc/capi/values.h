/* capi/values.h -- the trees of values, as the files of capi/ share them. */
#ifndef SHMT_CAPI_VALUES_H
#define SHMT_CAPI_VALUES_H

#include "capi/tensors.h"

enum { SHMT_VALUE_MOST_HEIGHT = 200 };

/* Received values may have one list at several places: so nodes are counted, by the thread that has the tree. */
struct shmtensor_value {
  uint32_t magic; /* says whether it lives */
  uint32_t refs;
  int kind;        /* SHMTENSOR_NONE and so on */
  uint32_t height; /* of a container: levels below it */
  bool is_open;    /* it is being read: a message that names it again would put it into itself */
  bool is_part;    /* another value consumed it: programs neither change it nor give it away again */
  uint64_t written_by; /* the message that has it already, and its number there */
  uint32_t number;
  union {
    int64_t integer; /* also of BOOL */
    double real;
    struct {
      char* at; /* malloc'd, with a zero behind */
      size_t n;
    } bytes;
    struct {
      shmtensor_value** at; /* owned; keys and items by turns in a dict */
      size_t n, cap;
    } items;
    struct {
      shmt_storage* storage; /* owned */
      shmt__geometry* geometry;
    } tensor;
  } u;
};

/* A new node without content. Errors: SHMT_E_NOMEM. */
shmt_status shmt__value_new(int kind, shmtensor_value** out);
/* A new text or bytes of n bytes, which are copied. */
shmt_status shmt__value_of_bytes(int kind, const char* data, size_t n, shmtensor_value** out);
/* A new tensor over a storage, of which it takes a reference. Errors: SHMT_E_NOMEM. */
shmt_status shmt__value_of_tensor(shmt_storage* s, const shmt__geometry* g, shmtensor_value** out);
/* Append to the items of a container. Consumes the item, also on failure. Errors: SHMT_E_NOMEM, SHMT_E_VALUE (nested
 * too deep). */
shmt_status shmt__value_add(shmtensor_value* container, shmtensor_value* item);
/* Let go of one reference; NULL is fine. */
void shmt__value_release(shmtensor_value* v);
static inline void shmt__auto_shmtensor_value(shmtensor_value** p) { shmt__value_release(*p); }
static inline bool shmt__value_is_container(const shmtensor_value* v) {
  return v->kind == SHMTENSOR_LIST || v->kind == SHMTENSOR_TUPLE || v->kind == SHMTENSOR_DICT;
}
static inline bool shmt__value_is_key(const shmtensor_value* v) {
  return v->kind == SHMTENSOR_NONE || v->kind == SHMTENSOR_BOOL || v->kind == SHMTENSOR_INT ||
         v->kind == SHMTENSOR_TEXT;
}
/* Does a dict have two equal keys? True and 1 are equal. */
shmt_status shmt__value_has_duplicates(const shmtensor_value* dict, bool* out);
/* "a list", "a tensor": for texts. */
const char* shmt__value_title(int kind);
/* Is it UTF-8, as Unicode allows it? */
bool shmt__is_utf8(const char* text, size_t n);
/* Check a value that a program gives. Errors: VALUE. */
shmtensor_status shmt__value_check(const char* function, const char* argument, const shmtensor_value* v);

#endif
