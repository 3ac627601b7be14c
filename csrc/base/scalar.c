/* base/scalar.c -- Python numbers as shmt_scalar: what fits a dtype, loading and storing an element. */
#include "base/scalar.h"

#include "base/dtype.h"
#include "base/half.h"
#include "generated/dtype_tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

double shmt__scalar_to_double(shmt_scalar s) {
  switch (s.tag) {
    case SHMT_SCALAR_BOOL: return s.v.b ? 1.0 : 0.0;
    case SHMT_SCALAR_INT: return (double)s.v.i;
    case SHMT_SCALAR_UINT: return (double)(uint64_t)s.v.i;
    case SHMT_SCALAR_FLOAT: return s.v.d;
    case SHMT_SCALAR_COMPLEX: return s.v.z[0];
    case SHMT_SCALAR_NONE: break;
  }
  return 0.0;
}

/* C leaves out-of-range casts undefined. Here they saturate, and NaN becomes what x86 makes of it. */
static int64_t double_to_int64(double d) {
  if (d >= -0x1p63 && d < 0x1p63) return (int64_t)d;
  return d >= 0x1p63 ? INT64_MAX : INT64_MIN;
}

int64_t shmt__scalar_to_int64(shmt_scalar s) {
  switch (s.tag) {
    case SHMT_SCALAR_BOOL: return s.v.b;
    case SHMT_SCALAR_INT:
    case SHMT_SCALAR_UINT: return s.v.i;
    case SHMT_SCALAR_FLOAT: return double_to_int64(s.v.d);
    case SHMT_SCALAR_COMPLEX: return double_to_int64(s.v.z[0]);
    case SHMT_SCALAR_NONE: break;
  }
  return 0;
}

bool shmt__scalar_to_bool(shmt_scalar s) {
  switch (s.tag) {
    case SHMT_SCALAR_BOOL: return s.v.b;
    case SHMT_SCALAR_INT:
    case SHMT_SCALAR_UINT: return s.v.i != 0;
    case SHMT_SCALAR_FLOAT: return s.v.d != 0.0;
    case SHMT_SCALAR_COMPLEX: return s.v.z[0] != 0.0 || s.v.z[1] != 0.0;
    case SHMT_SCALAR_NONE: break;
  }
  return false;
}

void shmt__scalar_to_complex(shmt_scalar s, double out[2]) {
  out[0] = shmt__scalar_to_double(s);
  out[1] = s.tag == SHMT_SCALAR_COMPLEX ? s.v.z[1] : 0.0;
}

bool shmt__scalar_is_integral(shmt_scalar s, bool include_bool) {
  return s.tag == SHMT_SCALAR_INT || s.tag == SHMT_SCALAR_UINT ||
         (include_bool && s.tag == SHMT_SCALAR_BOOL);
}

shmt_dtype shmt__scalar_dtype(shmt_scalar s) {
  switch (s.tag) {
    case SHMT_SCALAR_BOOL: return SHMT_BOOL;
    case SHMT_SCALAR_INT: return SHMT_INT64;
    case SHMT_SCALAR_UINT: return SHMT_UINT64;
    case SHMT_SCALAR_FLOAT: return shmt__default_dtype();
    case SHMT_SCALAR_COMPLEX: return shmt__to_complex_dtype(shmt__default_dtype());
    case SHMT_SCALAR_NONE: break;
  }
  return SHMT_DTYPE_NONE;
}

/* --- range checks ------------------------------------------------------------- */

static bool is_integer(shmt_dtype dtype) {
  return shmt__dtype_kind[dtype] == SHMT_KIND_UNSIGNED || shmt__dtype_kind[dtype] == SHMT_KIND_SIGNED;
}

static bool fits_integer(shmt_scalar s, shmt_dtype dtype) {
  bool is_signed = shmt__dtype_kind[dtype] == SHMT_KIND_SIGNED;
  int bits = 8 * shmt__dtype_size[dtype] - is_signed; /* of the magnitude */
  uint64_t highest = UINT64_MAX >> (64 - bits);
  if (s.tag == SHMT_SCALAR_BOOL) return true;
  if (s.tag == SHMT_SCALAR_UINT) return (uint64_t)s.v.i <= highest;
  if (s.tag == SHMT_SCALAR_INT) {
    if (s.v.i >= 0) return (uint64_t)s.v.i <= highest;
    /* A negative number wraps into an unsigned dtype, as long as its magnitude fits. */
    return is_signed ? s.v.i >= -(int64_t)highest - 1 : (uint64_t)0 - (uint64_t)s.v.i <= highest;
  }
  double d = shmt__scalar_to_double(s), above = ldexp(1.0, bits);
  /* A number that only rounding would make fit does not fit. The last test: double has no largest 64-bit integer. */
  return d >= (is_signed ? -above : 0) && d <= (double)highest && d < above;
}

/* The largest finite number of a floating dtype of 16 or 32 bits. */
static double largest(shmt_dtype dtype) {
  return dtype == SHMT_FLOAT16 ? 65504 : dtype == SHMT_BFLOAT16 ? 0x1.fep127 : 0x1.fffffep127;
}

static bool fits_below(double d, double limit) { return isnan(d) || isinf(d) || fabs(d) <= limit; }

static bool fits_float(double d) { return fits_below(d, largest(SHMT_FLOAT32)); }

bool shmt__scalar_fits(shmt_scalar s, shmt_dtype dtype) {
  bool imaginary = s.tag == SHMT_SCALAR_COMPLEX && s.v.z[1] != 0.0;
  if (dtype == SHMT_BOOL) return true;
  if (is_integer(dtype)) return !imaginary && fits_integer(s, dtype);
  if (dtype == SHMT_COMPLEX64 ||
      dtype == SHMT_COMPLEX32) /* complex32 is made from complex64, and may become infinite */
    return fits_float(shmt__scalar_to_double(s)) && (!imaginary || fits_float(s.v.z[1]));
  if (shmt__dtype_kind[dtype] == SHMT_KIND_COMPLEX) return true;
  if (dtype == SHMT_FLOAT64) return !imaginary;
  return !imaginary && fits_below(shmt__scalar_to_double(s), largest(dtype));
}

/* The C++ name that torch's message has. */
static const char* c_type_name(shmt_dtype dtype, char* buf, size_t cap) {
  int bits = 8 * shmt__dtype_size[dtype];
  if (dtype == SHMT_INT32) return "int";
  if (is_integer(dtype))
    (void)snprintf(buf, cap, "%sint%d_t", shmt__dtype_kind[dtype] == SHMT_KIND_UNSIGNED ? "u" : "", bits);
  else if (shmt__dtype_kind[dtype] == SHMT_KIND_COMPLEX)
    (void)snprintf(buf, cap, "c10::complex<%s>", bits == 128 ? "double" : "float");
  else if (bits == 16)
    (void)snprintf(buf, cap, "c10::%s", shmt__dtype_title(dtype));
  else
    (void)snprintf(buf, cap, "%s", bits == 32 ? "float" : "double");
  return buf;
}

/* --- elements ----------------------------------------------------------------- */

static void store_floating(double d, shmt_dtype dtype, void* p) {
  float f = (float)d;
  if (dtype == SHMT_FLOAT16)
    memcpy(p, &(shmt_float16){shmt__float16_from_float(f).bits}, sizeof(shmt_float16));
  else if (dtype == SHMT_BFLOAT16)
    memcpy(p, &(shmt_bfloat16){shmt__bfloat16_from_float(f).bits}, sizeof(shmt_bfloat16));
  else if (shmt__dtype_size[dtype] == sizeof f)
    memcpy(p, &f, sizeof f);
  else
    memcpy(p, &d, sizeof d);
}

static void store_complex(shmt_scalar s, shmt_dtype dtype, void* p) {
  double z[2];
  shmt__scalar_to_complex(s, z);
  float parts[2] = {(float)z[0], (float)z[1]};
  if (dtype == SHMT_COMPLEX32)
    memcpy(p, &(shmt_complex32){shmt__float16_from_float(parts[0]), shmt__float16_from_float(parts[1])},
           sizeof(shmt_complex32));
  else if (shmt__dtype_size[dtype] == sizeof parts)
    memcpy(p, parts, sizeof parts);
  else
    memcpy(p, z, sizeof z);
}

static uint64_t to_wrapped_bits(shmt_scalar s) {
  if (s.tag == SHMT_SCALAR_FLOAT || s.tag == SHMT_SCALAR_COMPLEX) {
    double d = shmt__scalar_to_double(s);
    if (d >= 0x1p63 && d < 0x1p64) return (uint64_t)d;
  }
  return (uint64_t)shmt__scalar_to_int64(s);
}

void shmt__scalar_store_unsafe(shmt_scalar s, shmt_dtype dtype, void* p) {
  if (shmt__dtype_kind[dtype] == SHMT_KIND_FLOATING) {
    store_floating(shmt__scalar_to_double(s), dtype, p);
  } else if (shmt__dtype_kind[dtype] == SHMT_KIND_COMPLEX) {
    store_complex(s, dtype, p);
  } else {
    /* Little-endian: the low bytes are the value. */
    uint64_t bits = dtype == SHMT_BOOL ? shmt__scalar_to_bool(s) : to_wrapped_bits(s);
    memcpy(p, &bits, shmt__dtype_size[dtype]);
  }
}

shmt_status shmt__scalar_check(shmt_scalar value, shmt_dtype dtype) {
  SHMT_REQUIRE(shmt__scalar_fits(value, dtype), SHMT_E_RUNTIME,
               "value cannot be converted to type %s without overflow", c_type_name(dtype, (char[32]){0}, 32));
  return SHMT_OK;
}

shmt_status shmt__scalar_store(shmt_scalar value, shmt_dtype dtype, void* p) {
  SHMT_TRY(shmt__scalar_check(value, dtype));
  shmt__scalar_store_unsafe(value, dtype, p);
  return SHMT_OK;
}

#define LOAD(type)             \
  ({                           \
    type v_;                   \
    memcpy(&v_, p, sizeof v_); \
    v_;                        \
  })

static double load_floating(const void* p, shmt_dtype dtype) {
  if (dtype == SHMT_FLOAT16) return shmt__float16_to_float(LOAD(shmt_float16));
  if (dtype == SHMT_BFLOAT16) return shmt__bfloat16_to_float(LOAD(shmt_bfloat16));
  return shmt__dtype_size[dtype] == sizeof(float) ? LOAD(float) : LOAD(double);
}

shmt_scalar shmt__scalar_load(const void* p, shmt_dtype dtype) {
  int size = shmt__dtype_size[dtype];
  int unused_bits = 64 - 8 * size; /* of an integer in 64 bits */
  uint64_t bits = 0;
  if (dtype == SHMT_BOOL) return shmt__scalar_bool(LOAD(uint8_t) != 0);
  if (shmt__dtype_kind[dtype] == SHMT_KIND_FLOATING) return shmt__scalar_float(load_floating(p, dtype));
  if (shmt__dtype_kind[dtype] == SHMT_KIND_COMPLEX) {
    double z[2];
    float parts[2];
    if (size == sizeof z) {
      memcpy(z, p, sizeof z);
      return shmt__scalar_complex(z[0], z[1]);
    }
    if (dtype == SHMT_COMPLEX32) {
      const shmt_complex32 half = LOAD(shmt_complex32);
      return shmt__scalar_complex((double)shmt__float16_to_float(half.re),
                                  (double)shmt__float16_to_float(half.im));
    }
    memcpy(parts, p, sizeof parts);
    return shmt__scalar_complex(parts[0], parts[1]);
  }
  /* The sizes are constants: a copy of unknown size is a call of the C library. */
  if (size == 8)
    bits = LOAD(uint64_t);
  else if (size == 4)
    bits = LOAD(uint32_t);
  else
    bits = size == 2 ? LOAD(uint16_t) : LOAD(uint8_t);
  if (shmt__dtype_kind[dtype] == SHMT_KIND_UNSIGNED) return shmt__scalar_uint(bits);
  /* Sign-extend: with every compiler we support, shifting a negative number right is arithmetic. */
  return shmt__scalar_int((int64_t)(bits << unused_bits) >> unused_bits);
}
