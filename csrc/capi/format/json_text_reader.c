/* capi/format/json_text_reader.c -- reads the text that describes a published value.
 *
 * Whatever the text is, the result is a value that the schema allows, or an error. */
#include "capi/format/json_text.h"

#include "generated/dtype_tables.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
  const char *begin, *at, *end; /* *end is 0 */
  shmt_storage* const* storages;
  uint64_t n_storages;
} parser;

static shmt_status damaged(const parser* p, const char* what) {
  SHMT_FAIL(SHMT_E_HANDLE, "the description of %td bytes of a published value is damaged: %s, at byte %td",
            p->end - p->begin, what, p->at - p->begin);
}

/* --- tokens --- */

static void skip_space(parser* p) {
  while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r') p->at++;
}

/* Pass over a character, if that comes next. */
static bool passes(parser* p, char c) {
  skip_space(p);
  if (*p->at != c || p->at == p->end) return false;
  p->at++;
  return true;
}

static shmt_status expect(parser* p, char c, const char* what) { return passes(p, c) ? SHMT_OK : damaged(p, what); }

static bool passes_word(parser* p, const char* word) {
  const size_t n = strlen(word);
  if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) != 0) return false;
  p->at += n;
  return true;
}

static bool read_hex(parser* p, uint32_t* out) {
  *out = 0;
  if (p->end - p->at < 4) return false;
  for (int i = 0; i < 4; i++, p->at++) {
    const char c = *p->at;
    const uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                           : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                           : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                                  : 16;
    if (digit == 16) return false;
    *out = *out << 4 | digit;
  }
  return true;
}

static size_t encode(uint32_t c, char* out) {
  const size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t i = n - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
  out[0] = (char)(first[n] | c);
  return n;
}

/* What \u says: one character, or half of one and the other half. */
static shmt_status read_unicode(parser* p, uint32_t* out) {
  uint32_t low = 0;
  if (!read_hex(p, out)) return damaged(p, "an escape");
  if (*out < 0xd800 || *out > 0xdfff) return SHMT_OK;
  const bool has_low = *out < 0xdc00 && passes_word(p, "\\u");
  if (has_low && !read_hex(p, &low)) return damaged(p, "an escape");
  SHMT_REQUIRE(has_low && low >= 0xdc00 && low <= 0xdfff, SHMT_E_TYPE,
               "a published text has half a character, which C does not take");
  *out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
  return SHMT_OK;
}

static shmt_status read_escape(parser* p, uint32_t* out) {
  static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  const char c = *p->at++;
  if (c == 'u') return read_unicode(p, out);
  const char* found = c != '\0' ? strchr(names, c) : NULL;
  if (found == NULL) return damaged(p, "an escape");
  *out = (unsigned char)values[found - names];
  return SHMT_OK;
}

/* A string of UTF-8. *out is malloc'd. */
static shmt_status read_string(parser* p, char** out, size_t* out_n) {
  SHMT_TRY(expect(p, '"', "a string is missing"));
  const char* quote = memchr(p->at, '"', (size_t)(p->end - p->at));
  while (quote != NULL && quote[-1] == '\\') { /* perhaps it is escaped: an upper bound is enough */
    quote = memchr(quote + 1, '"', (size_t)(p->end - quote - 1));
  }
  char* made = malloc((size_t)((quote != NULL ? quote : p->end) - p->at) + 8);
  size_t n = 0;
  SHMT_REQUIRE(made != NULL, SHMT_E_NOMEM, "a published text of %td bytes", p->end - p->at);
  shmt_status status = SHMT_OK;
  while (status == SHMT_OK && p->at < p->end && *p->at != '"') {
    uint32_t c = (unsigned char)*p->at++;
    if (c < 0x20 || c >= 0x7f) status = damaged(p, "a character that is not printable ASCII");
    if (c == '\\') status = read_escape(p, &c);
    if (status == SHMT_OK) n += encode(c, made + n);
  }
  if (status == SHMT_OK && p->at == p->end) status = damaged(p, "a string without end");
  if (status != SHMT_OK) {
    free(made);
    return status;
  }
  p->at++;
  made[n] = '\0';
  *out = made;
  *out_n = n;
  return SHMT_OK;
}

static void free_string(char** place) { free(*place); }
#define STRING(name) __attribute__((cleanup(free_string))) char* name = NULL

/* The characters of a number, as JSON has them. *out_whole: it has neither a fraction nor an exponent. */
static shmt_status scan_number(parser* p, const char** out_begin, bool* out_whole) {
  *out_begin = p->at;
  *out_whole = true;
  if (*p->at == '-') p->at++;
  const char* digits = p->at;
  while (*p->at >= '0' && *p->at <= '9') p->at++;
  if (p->at == digits || (digits[0] == '0' && p->at - digits > 1)) return damaged(p, "a number");
  for (int part = 0; part < 2; part++) {
    const bool is_there = part == 0 ? *p->at == '.' : *p->at == 'e' || *p->at == 'E';
    if (!is_there) continue;
    *out_whole = false;
    p->at++;
    if (part == 1 && (*p->at == '+' || *p->at == '-')) p->at++;
    digits = p->at;
    while (*p->at >= '0' && *p->at <= '9') p->at++;
    if (p->at == digits) return damaged(p, "a number");
  }
  return SHMT_OK;
}

/* An integer of a tensor's row. */
static shmt_status read_count(parser* p, int64_t most, int64_t* out) {
  const char* begin = NULL;
  bool is_whole = false;
  skip_space(p);
  SHMT_TRY(scan_number(p, &begin, &is_whole));
  errno = 0;
  const long long value = strtoll(begin, NULL, 10);
  if (!is_whole || errno != 0 || value < 0 || value > most) return damaged(p, "a number of a tensor");
  *out = value;
  return SHMT_OK;
}

static shmt_status read_number(parser* p, shmtensor_value** out) {
  const char* begin = NULL;
  bool is_whole = false;
  SHMT_TRY(scan_number(p, &begin, &is_whole));
  if (!is_whole) {
    const double real = strtod(begin, NULL);
    if (!isfinite(real)) return damaged(p, "a number is not finite");
    SHMT_TRY(shmt__value_new(SHMTENSOR_FLOAT, out));
    (*out)->u.real = real;
    return SHMT_OK;
  }
  errno = 0;
  const long long value = strtoll(begin, NULL, 10);
  SHMT_REQUIRE(errno == 0, SHMT_E_TYPE, "a published integer of more than 64 bits, which C does not take");
  SHMT_TRY(shmt__value_new(SHMTENSOR_INT, out));
  (*out)->u.integer = value;
  return SHMT_OK;
}

/* --- items --- */

static shmt_status read_value(parser* p, int depth, shmtensor_value** out);

static shmt_status read_text(parser* p, shmtensor_value** out) {
  STRING(text);
  size_t n = 0;
  SHMT_TRY(read_string(p, &text, &n));
  return shmt__value_of_bytes(SHMTENSOR_TEXT, text, n, out);
}

static shmt_status read_items(parser* p, int depth, shmtensor_value* v) {
  while (passes(p, ',')) {
    shmtensor_value* item = NULL;
    SHMT_TRY(read_value(p, depth, &item));
    SHMT_TRY(shmt__value_add(v, item));
  }
  return SHMT_OK;
}

static shmt_status read_entries(parser* p, int depth, shmtensor_value* v) {
  while (passes(p, ',')) {
    shmtensor_value *key = NULL, *item = NULL;
    SHMT_TRY(expect(p, '[', "an entry of a dict is not a pair"));
    SHMT_TRY(read_value(p, depth, &key));
    const bool is_key = shmt__value_is_key(key);
    SHMT_TRY(shmt__value_add(v, key));
    if (!is_key) return damaged(p, "a key of a dict");
    SHMT_TRY(expect(p, ',', "an entry of a dict is not a pair"));
    SHMT_TRY(read_value(p, depth, &item));
    SHMT_TRY(shmt__value_add(v, item));
    SHMT_TRY(expect(p, ']', "an entry of a dict is not a pair"));
  }
  bool has_duplicates = false;
  SHMT_TRY(shmt__value_has_duplicates(v, &has_duplicates));
  return has_duplicates ? damaged(p, "a key occurs twice") : SHMT_OK;
}

static int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decode in place. False: it is not base64. */
static bool decode_base64(char* text, size_t n, size_t* out_n) {
  size_t made = 0;
  if (n % 4 != 0) return false;
  for (size_t i = 0; i < n; i += 4) {
    const bool is_last = i + 4 == n;
    const size_t n_pads = is_last && text[i + 3] == '=' ? (text[i + 2] == '=' ? 2 : 1) : 0;
    uint32_t bits = 0;
    for (size_t j = 0; j < 4; j++) {
      const int digit = j >= 4 - n_pads ? 0 : base64_digit(text[i + j]);
      if (digit < 0) return false;
      bits = bits << 6 | (uint32_t)digit;
    }
    for (size_t j = 0; j < 3 - n_pads; j++) text[made++] = (char)(bits >> (16 - 8 * j));
  }
  *out_n = made;
  return true;
}

static shmt_status read_bytes(parser* p, shmtensor_value** out) {
  STRING(text);
  size_t n = 0;
  SHMT_TRY(expect(p, ',', "bytes that are not text"));
  SHMT_TRY(read_string(p, &text, &n));
  if (!decode_base64(text, n, &n)) return damaged(p, "bytes");
  return shmt__value_of_bytes(SHMTENSOR_BYTES, text, n, out);
}

static shmt_status read_special_float(parser* p, shmtensor_value** out) {
  STRING(text);
  size_t n = 0;
  SHMT_TRY(expect(p, ',', "a number"));
  SHMT_TRY(read_string(p, &text, &n));
  const bool is_nan = strcmp(text, "nan") == 0, is_infinite = strcmp(text, "inf") == 0;
  if (!is_nan && !is_infinite && strcmp(text, "-inf") != 0) return damaged(p, "a number");
  SHMT_TRY(shmt__value_new(SHMTENSOR_FLOAT, out));
  (*out)->u.real = is_nan ? (double)NAN : is_infinite ? (double)INFINITY : -(double)INFINITY;
  return SHMT_OK;
}

/* --- tensors --- */

static shmt_dtype dtype_of(const char* name) {
  for (int d = 0; d < SHMT_N_DTYPES; d++)
    if (strcmp(shmt__dtype_name[d], name) == 0) return d;
  return SHMT_DTYPE_NONE;
}

/* Sizes or strides: at most SHMT_MAX_DIMS numbers. */
static shmt_status read_dims(parser* p, int64_t* out, int* out_n) {
  *out_n = 0;
  SHMT_TRY(expect(p, ',', "a tensor has six fields"));
  SHMT_TRY(expect(p, '[', "the sizes of a tensor"));
  if (passes(p, ']')) return SHMT_OK;
  do {
    if (*out_n == SHMT_MAX_DIMS) return damaged(p, "a tensor of too many dimensions");
    SHMT_TRY(read_count(p, INT64_MAX, &out[(*out_n)++]));
  } while (passes(p, ','));
  return expect(p, ']', "the sizes of a tensor");
}

static shmt_status read_tensor(parser* p, shmtensor_value** out) {
  STRING(name);
  size_t n = 0;
  int64_t number = 0, strides[SHMT_MAX_DIMS];
  int n_strides = 0;
  shmt__geometry g = {0};
  SHMT_TRY(expect(p, ',', "a tensor has six fields"));
  SHMT_TRY(read_count(p, (int64_t)p->n_storages - 1, &number));
  SHMT_TRY(expect(p, ',', "a tensor has six fields"));
  SHMT_TRY(read_string(p, &name, &n));
  g.dtype = dtype_of(name);
  if (g.dtype == SHMT_DTYPE_NONE) return damaged(p, "the dtype of a tensor");
  SHMT_TRY(expect(p, ',', "a tensor has six fields"));
  SHMT_TRY(read_count(p, INT64_MAX / 16, &g.offset));
  SHMT_TRY(read_dims(p, g.dims, &g.n_dims));
  SHMT_TRY(read_dims(p, strides, &n_strides));
  if (n_strides != g.n_dims) return damaged(p, "a tensor with strides of another length");
  memcpy(g.dims + g.n_dims, strides, sizeof strides[0] * (size_t)g.n_dims);
  SHMT_TRY(expect(p, ',', "a tensor has six fields"));
  skip_space(p);
  const bool has_grad = passes_word(p, "true");
  const int kind = shmt__dtype_kind[g.dtype];
  if (!has_grad && !passes_word(p, "false")) return damaged(p, "requires_grad");
  if (has_grad && kind != SHMT_KIND_FLOATING && kind != SHMT_KIND_COMPLEX) return damaged(p, "requires_grad");
  SHMT_TRY(shmt__geometry_check(&g, p->storages[number], "the description of a published value"));
  return shmt__value_of_tensor(p->storages[number], &g, out);
}

/* --- values --- */

/* A list whose first item says what it is; the bracket was read. */
static shmt_status read_item(parser* p, int depth, shmtensor_value** out) {
  STRING(kind);
  SHMT_AUTO(shmtensor_value) v = NULL;
  size_t n = 0;
  SHMT_TRY(read_string(p, &kind, &n));
  const char c = n == 1 ? kind[0] : '\0';
  if (c == 'l' || c == 'u') {
    SHMT_TRY(shmt__value_new(c == 'l' ? SHMTENSOR_LIST : SHMTENSOR_TUPLE, &v));
    SHMT_TRY(read_items(p, depth + 1, v));
  } else if (c == 'd' || c == 'o') {
    SHMT_TRY(shmt__value_new(SHMTENSOR_DICT, &v));
    SHMT_TRY(read_entries(p, depth + 1, v));
  } else if (c == 'b') {
    SHMT_TRY(read_bytes(p, &v));
  } else if (c == 'f') {
    SHMT_TRY(read_special_float(p, &v));
  } else if (c == 't' || c == 'p') {
    SHMT_TRY(read_tensor(p, &v));
  } else if (c == 'x') {
    SHMT_FAIL(SHMT_E_TYPE, "a published value has a dtype that only NumPy or torch has, which C does not take");
  } else {
    return damaged(p, "an item of another kind");
  }
  SHMT_TRY(expect(p, ']', "an item without end"));
  *out = SHMT_TAKE(v);
  return SHMT_OK;
}

static shmt_status read_constant(parser* p, shmtensor_value** out) {
  if (passes_word(p, "null")) return shmt__value_new(SHMTENSOR_NONE, out);
  const bool is_true = passes_word(p, "true");
  if (!is_true && !passes_word(p, "false")) return damaged(p, "an item");
  SHMT_TRY(shmt__value_new(SHMTENSOR_BOOL, out));
  (*out)->u.integer = is_true;
  return SHMT_OK;
}

static shmt_status read_value(parser* p, int depth, shmtensor_value** out) {
  if (depth > SHMT_JSON_MOST_DEPTH) return damaged(p, "it is nested too deep");
  skip_space(p);
  const char c = *p->at;
  if (c == '"') return read_text(p, out);
  if (c == '-' || (c >= '0' && c <= '9')) return read_number(p, out);
  if (c != '[') return read_constant(p, out);
  p->at++;
  return read_item(p, depth, out);
}

/* --- the document --- */

typedef struct document {
  shmtensor_value* value; /* owned */
  char kind;              /* 'v', 'm', 'f'; 0: not said */
  bool has_skeleton;
} document;

static shmt_status read_kind(parser* p, document* d) {
  STRING(text);
  size_t n = 0;
  SHMT_TRY(read_string(p, &text, &n));
  const bool is_known = strcmp(text, "value") == 0 || strcmp(text, "module") == 0 || strcmp(text, "file") == 0;
  if (!is_known || d->kind != '\0') return damaged(p, "it does not say what it is");
  d->kind = text[0];
  SHMT_REQUIRE(d->kind != 'f', SHMT_E_TYPE, "the published value is a file, which C does not open");
  return SHMT_OK;
}

/* The pickle of a module, or null: what is in it is not looked at. */
static shmt_status skip_skeleton(parser* p, document* d) {
  STRING(text);
  size_t n = 0;
  if (d->has_skeleton) return damaged(p, "a key occurs twice");
  d->has_skeleton = true;
  skip_space(p);
  return passes_word(p, "null") ? SHMT_OK : read_string(p, &text, &n);
}

static shmt_status read_member(parser* p, document* d) {
  STRING(key);
  size_t n = 0;
  SHMT_TRY(read_string(p, &key, &n));
  SHMT_TRY(expect(p, ':', "a part without content"));
  if (strcmp(key, "kind") == 0) return read_kind(p, d);
  if (strcmp(key, "skeleton") == 0) return skip_skeleton(p, d);
  SHMT_REQUIRE(strcmp(key, "file") != 0, SHMT_E_TYPE, "the published value is a file, which C does not open");
  if (strcmp(key, "value") != 0 || d->value != NULL) return damaged(p, "it has other parts");
  return read_value(p, 0, &d->value);
}

/* A module is a dict of tensors by text. */
static bool is_state(const shmtensor_value* v) {
  for (size_t i = 0; v->kind == SHMTENSOR_DICT && i < v->u.items.n; i += 2)
    if (v->u.items.at[i]->kind != SHMTENSOR_TEXT || v->u.items.at[i + 1]->kind != SHMTENSOR_TENSOR) return false;
  return v->kind == SHMTENSOR_DICT;
}

static shmt_status read_document(parser* p, document* d) {
  SHMT_TRY(expect(p, '{', "it does not say what it is"));
  do SHMT_TRY(read_member(p, d));
  while (passes(p, ','));
  SHMT_TRY(expect(p, '}', "a document without end"));
  skip_space(p);
  if (p->at != p->end) return damaged(p, "more than one document");
  const bool is_whole = d->value != NULL && d->kind != '\0' && d->has_skeleton == (d->kind == 'm');
  if (!is_whole) return damaged(p, "it has other parts");
  return d->kind == 'm' && !is_state(d->value) ? damaged(p, "a module is not a dict of tensors") : SHMT_OK;
}

/* strtod() of a program's locale may read a comma. */
static shmt_status read_in_plain_locale(parser* p, document* d) {
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  SHMT_REQUIRE(plain != (locale_t)0, SHMT_E_NOMEM, "attach(): no locale");
  locale_t before = uselocale(plain);
  shmt_status status = read_document(p, d);
  (void)uselocale(before);
  freelocale(plain);
  return status;
}

shmt_status shmt__json_read(const char* text, uint64_t n, shmt_storage* const* storages, uint64_t n_storages,
                            shmtensor_value** out) {
  SHMT_REQUIRE(n <= SHMT_JSON_MOST_BYTES, SHMT_E_HANDLE,
               "the description of a published value has %" PRIu64 " bytes, at most %d are possible", n,
               SHMT_JSON_MOST_BYTES);
  char* copy = malloc(n + 1); /* with a zero behind, which ends whatever is read */
  SHMT_REQUIRE(copy != NULL, SHMT_E_NOMEM, "attach(): tried to allocate %" PRIu64 " bytes", n);
  memcpy(copy, text, n);
  copy[n] = '\0';
  parser p = {.begin = copy, .at = copy, .end = copy + n, .storages = storages, .n_storages = n_storages};
  document d = {0};
  shmt_status status = read_in_plain_locale(&p, &d);
  free(copy);
  if (status == SHMT_OK)
    *out = d.value;
  else
    shmt__value_release(d.value);
  return status;
}
