/* dispatch/schema.h -- what an operator takes and returns, at run time.
 *
 * Generated operators have static schemas; those defined from Python or C at run time
 * are parsed by shmt__schema_parse. Grammar: name[.overload](args) -> returns, as in
 * "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor".
 */
#ifndef SHMT_DISPATCH_SCHEMA_H
#define SHMT_DISPATCH_SCHEMA_H

#include "base/error.h"
#include "base/types.h"

#include <string.h>

typedef enum shmt_type {
  SHMT_TYPE_TENSOR,
  SHMT_TYPE_TENSORS, /* Tensor[] */
  SHMT_TYPE_SCALAR,
  SHMT_TYPE_INT,
  SHMT_TYPE_FLOAT,
  SHMT_TYPE_BOOL,
  SHMT_TYPE_INTS,   /* int[], int[N]: list_size N lets one int stand for all */
  SHMT_TYPE_FLOATS,
  SHMT_TYPE_STR,
  SHMT_TYPE_DTYPE,
  SHMT_TYPE_LAYOUT,
  SHMT_TYPE_DEVICE,
  SHMT_TYPE_MEMORY_FORMAT,
  SHMT_TYPE_GENERATOR,
  SHMT_TYPE_STORAGE,
} shmt_type;

enum {
  SHMT_ARG_OPTIONAL = 1 << 0,      /* T? : None allowed */
  SHMT_ARG_ELEM_OPTIONAL = 1 << 1, /* Tensor?[] */
  SHMT_ARG_KEYWORD_ONLY = 1 << 2,
  SHMT_ARG_HAS_DEFAULT = 1 << 3,
  SHMT_ARG_ALIAS = 1 << 4,         /* (a): shares memory with a result */
  SHMT_ARG_WRITE = 1 << 5,         /* (a!): written to */
  SHMT_ARG_OUT = 1 << 6,           /* an out= argument */
};

/* Of one operator. */
enum { SHMT_SCHEMA_MAX_ARGS = 64, SHMT_SCHEMA_MAX_RETURNS = 16 };

typedef struct shmt_arg {
  const char* name;
  shmt_type type;
  uint32_t flags;
  int32_t list_size;         /* of int[N]; 0 when free */
  signed char alias;         /* 'a'..'z'; -1 - n for "an"; 0 when none */
  const char* default_text;  /* as in the schema; NULL when none */
} shmt_arg;

typedef struct shmt_schema {
  const char* name;      /* "add" */
  const char* overload;  /* "Tensor"; "" when none */
  const char* text;      /* the whole schema string */
  const shmt_arg* args;
  const shmt_arg* returns;
  uint16_t n_args;
  uint16_t n_returns;
} shmt_schema;

/* What stands before the name in messages: the name of an operator that came with the library has no namespace. */
static inline const char* shmt__schema_namespace(const shmt_schema* s) { return strchr(s->name, ':') ? "" : "aten::"; }

/* Parse text into a heap schema. Errors: SHMT_E_VALUE with the position. New: free with shmt__schema_free. */
shmt_status shmt__schema_parse(const char* text, shmt_schema** out);
void shmt__schema_free(shmt_schema* schema);

#endif
