/* dispatch/argument_keys.h -- the dispatch keys that arguments of a generated caller bring along. */
#ifndef SHMT_DISPATCH_ARGUMENT_KEYS_H
#define SHMT_DISPATCH_ARGUMENT_KEYS_H

#include "tensor/tensor.h"

static inline shmt_keyset shmt__keys_of_optional(const shmt_tensor* t) { return t ? shmt__tensor_keys(t) : 0; }

static inline shmt_keyset shmt__keys_of_list(shmt_tensors list) {
  shmt_keyset ks = 0;
  for (int64_t i = 0; i < list.len; i++) ks |= shmt__keys_of_optional(list.data[i]);
  return ks;
}

#endif
