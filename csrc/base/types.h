/* base/types.h -- the argument types that operators are written in.
 *
 *   schema           C                      none is
 *   Tensor, Tensor?  shmt_tensor*           NULL
 *   Tensor[]         shmt_tensors           (elements may be NULL for Tensor?[])
 *   Scalar, Scalar?  shmt_scalar            tag SHMT_SCALAR_NONE
 *   int, int?        int64_t, shmt_opt_int  has = false
 *   float, float?    double, shmt_opt_float has = false
 *   bool, bool?      bool, shmt_opt_bool    has = false
 *   int[], int[]?    shmt_ints              len < 0
 *   float[], float[]? shmt_floats           len < 0
 *   str, str?        const char*            NULL
 *   ScalarType(?)    shmt_dtype             SHMT_DTYPE_NONE
 *   Layout(?) Device(?) MemoryFormat(?)     shmt_layout, shmt_device, shmt_memory_format: ..._NONE (-1)
 *   Generator?       shmt_generator*        NULL
 *   Storage          shmt_storage*
 *
 * All are borrowed for the length of the call.
 */
#ifndef SHMT_BASE_TYPES_H
#define SHMT_BASE_TYPES_H

#include "api/dtypes.h" /* generated: typedef int shmt_dtype; SHMT_BOOL, SHMT_FLOAT32, ..., SHMT_N_DTYPES */

#include <stdbool.h>
#include <stdint.h>

typedef struct shmt_tensor shmt_tensor;
typedef struct shmt_storage shmt_storage;
typedef struct shmt_generator shmt_generator;
typedef struct shmt_node shmt_node;

typedef int shmt_layout;
enum {
  SHMT_LAYOUT_NONE = -1,
  SHMT_STRIDED = 0,
  SHMT_SPARSE_COO = 1,
  SHMT_SPARSE_CSR = 2,
  SHMT_SPARSE_CSC = 3,
  SHMT_SPARSE_BSR = 4, /* names only: no tensor has these */
  SHMT_SPARSE_BSC = 5,
};

typedef int shmt_device;
enum { SHMT_DEVICE_NONE = -1, SHMT_CPU = 0, SHMT_META = 1 };

typedef int shmt_memory_format;
enum {
  SHMT_MEMORY_FORMAT_NONE = -1,
  SHMT_CONTIGUOUS_FORMAT = 0,
  SHMT_PRESERVE_FORMAT = 1,
  SHMT_CHANNELS_LAST = 2,
  SHMT_CHANNELS_LAST_3D = 3,
};

enum { SHMT_MAX_DIMS = 64 };

typedef struct shmt_ints {
  const int64_t* data;
  int64_t len; /* -1: None */
} shmt_ints;

typedef struct shmt_floats {
  const double* data;
  int64_t len; /* -1: None */
} shmt_floats;

typedef struct shmt_tensors {
  shmt_tensor* const* data;
  int64_t len;
} shmt_tensors;

/* A list an operator returns: array from shmt__alloc, elements new references. */
typedef struct shmt_tensor_vec {
  shmt_tensor** data;
  int64_t len;
} shmt_tensor_vec;

typedef struct shmt_opt_int { int64_t value; bool has; } shmt_opt_int;
typedef struct shmt_opt_float { double value; bool has; } shmt_opt_float;
typedef struct shmt_opt_bool { bool value; bool has; } shmt_opt_bool;

typedef enum shmt_scalar_tag {
  SHMT_SCALAR_NONE,
  SHMT_SCALAR_BOOL,
  SHMT_SCALAR_INT,
  SHMT_SCALAR_FLOAT,
  SHMT_SCALAR_COMPLEX,
  SHMT_SCALAR_UINT, /* an integer above INT64_MAX: the bits are in v.i */
} shmt_scalar_tag;

typedef struct shmt_scalar {
  union {
    bool b;
    int64_t i;
    double d;
    double z[2]; /* real, imaginary */
  } v;
  shmt_scalar_tag tag;
} shmt_scalar;

static inline shmt_scalar shmt__scalar_int(int64_t i) { return (shmt_scalar){.v.i = i, .tag = SHMT_SCALAR_INT}; }
static inline shmt_scalar shmt__scalar_float(double d) { return (shmt_scalar){.v.d = d, .tag = SHMT_SCALAR_FLOAT}; }
static inline shmt_scalar shmt__scalar_bool(bool b) { return (shmt_scalar){.v.b = b, .tag = SHMT_SCALAR_BOOL}; }
static inline shmt_scalar shmt__scalar_none(void) { return (shmt_scalar){.tag = SHMT_SCALAR_NONE}; }

#define SHMT_INTS(...)                                                     \
  ((shmt_ints){(const int64_t[]){__VA_ARGS__},                             \
               (int64_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))})
#define SHMT_INTS_NONE ((shmt_ints){0, -1})
#define SHMT_INTS_EMPTY ((shmt_ints){0, 0})

#endif
