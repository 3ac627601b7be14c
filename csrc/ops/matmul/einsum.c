/* ops/matmul/einsum.c -- einsum, tensordot and kron as batched matrix products.
 *
 * Every operand is permuted to one order of dims: the letters of the result, then those that are summed over; a letter
 * that an operand does not have becomes a dim of size 1. Operands are multiplied from left to right, and a letter is
 * summed over with the last operand that has it.
 */
#include "base/overflow.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/scalar_expression.h"

#include <inttypes.h>
#include <string.h>

enum { LETTERS = 52 };

/* Where the dims of an ellipsis are counted. */
typedef struct equation {
  const char* text;
  int64_t n_operands;
  int n_ellipsis;            /* most dims that an ellipsis stands for */
  int place[LETTERS];        /* of each letter in the common order, -1: unused */
  int ellipsis_place;
  int count[LETTERS];        /* how often a letter occurs on the left */
  int n_out, n_total;        /* dims of the result; of the common order */
  int last_use[SHMT_MAX_DIMS]; /* the last operand that has this dim; of dims that are summed over */
} equation;

static int letter_of(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1; }

static char subscript_of(int letter) { return (char)(letter < 26 ? 'A' + letter : 'a' + letter - 26); }

/* The subscripts of operand i: [begin, end) of the text. */
static shmt_status find_subscripts(const char* text, int64_t i, const char** begin, const char** end) {
  const char* p = text;

  for (int64_t k = 0; k < i; k++) {
    const char* comma = strchr(p, ',');
    const char* arrow = strstr(p, "->");
    SHMT_REQUIRE(comma && (!arrow || comma < arrow), SHMT_E_RUNTIME,
                 "einsum(): more operands were provided than specified in the equation");
    p = comma + 1;
  }
  *begin = p;
  while (*p && *p != ',' && !(p[0] == '-' && p[1] == '>')) p++;
  *end = p;
  return SHMT_OK;
}

/* Letters and dots of one operand: how many dims are named, how many the ellipsis stands for (-1: there is none). */
static shmt_status count_dims(const equation* e, const char* begin, const char* end, const shmt_tensor* t, int64_t i,
                              int* ellipsis) {
  int named = 0;

  *ellipsis = -1;
  for (const char* p = begin; p < end; p++) {
    if (*p == ' ') continue;
    if (*p == '.') {
      SHMT_REQUIRE(*ellipsis < 0, SHMT_E_RUNTIME, "einsum(): found '.' for operand %" PRId64
                   " for which an ellipsis was already found", i);
      SHMT_REQUIRE(p + 2 < end && p[1] == '.' && p[2] == '.', SHMT_E_RUNTIME,
                   "einsum(): found '.' for operand %" PRId64 " that is not part of any ellipsis", i);
      *ellipsis = 0;
      p += 2;
      continue;
    }
    SHMT_REQUIRE(letter_of(*p) >= 0, SHMT_E_RUNTIME,
                 "einsum(): invalid subscript given at index %d in the equation string, subscripts must be in [a-zA-Z]",
                 (int)(p - e->text));
    named++;
  }
  if (*ellipsis < 0)
    SHMT_REQUIRE(named == t->n_dims, SHMT_E_RUNTIME, "einsum(): the number of subscripts in the equation (%d) does not "
                 "match the number of dimensions (%d) for operand %" PRId64 " and no ellipsis was given", named,
                 t->n_dims, i);
  SHMT_REQUIRE(named <= t->n_dims, SHMT_E_RUNTIME, "einsum(): the number of subscripts in the equation (%d) is more "
               "than the number of dimensions (%d) for operand %" PRId64, named, t->n_dims, i);
  if (*ellipsis == 0) *ellipsis = t->n_dims - named;
  return SHMT_OK;
}

static shmt_status place_output(equation* e, const char* arrow) {
  bool has_ellipsis = false;

  for (const char* p = arrow + 2; *p; p++) {
    const int letter = letter_of(*p);
    if (*p == ' ') continue;
    if (*p == '.') {
      SHMT_REQUIRE(!has_ellipsis, SHMT_E_RUNTIME,
                   "einsum(): found '.' for output but an ellipsis (...) was already found");
      SHMT_REQUIRE(p[1] == '.' && p[2] == '.', SHMT_E_RUNTIME,
                   "einsum(): found '.' for output that is not part of any ellipsis (...)");
      has_ellipsis = true;
      e->ellipsis_place = e->n_out;
      e->n_out += e->n_ellipsis;
      p += 2;
      continue;
    }
    SHMT_REQUIRE(letter >= 0, SHMT_E_RUNTIME, "einsum(): invalid subscript given at index %d in the equation string, "
                 "subscripts must be in [a-zA-Z]", (int)(p - e->text));
    SHMT_REQUIRE(e->place[letter] < 0, SHMT_E_RUNTIME, "einsum(): output subscript %c appears more than once in the "
                 "output", *p);
    SHMT_REQUIRE(e->count[letter] > 0, SHMT_E_RUNTIME, "einsum(): output subscript %c does not appear in the equation "
                 "for any input operand", *p);
    e->place[letter] = e->n_out++;
  }
  return SHMT_OK;
}

/* The output without an arrow: the ellipsis, then the letters that occur once, in alphabetical order. */
static void place_implicit(equation* e) {
  e->ellipsis_place = 0;
  e->n_out = e->n_ellipsis;
  for (int l = 0; l < LETTERS; l++)
    if (e->count[l] == 1) e->place[l] = e->n_out++;
}

static shmt_status parse(equation* e, shmt_tensors operands) {
  const char* arrow = strstr(e->text, "->");
  const char *begin = e->text, *end = e->text;

  for (int l = 0; l < LETTERS; l++) e->place[l] = -1;
  e->ellipsis_place = -1;
  for (int64_t i = 0; i < operands.len; i++) {
    int ellipsis;
    SHMT_TRY(find_subscripts(e->text, i, &begin, &end));
    SHMT_TRY(count_dims(e, begin, end, operands.data[i], i, &ellipsis));
    if (ellipsis > e->n_ellipsis) e->n_ellipsis = ellipsis;
    for (const char* p = begin; p < end; p++)
      if (letter_of(*p) >= 0) e->count[letter_of(*p)]++;
  }
  SHMT_REQUIRE(*end != ',', SHMT_E_RUNTIME, "einsum(): fewer operands were provided than specified in the equation");
  if (arrow)
    SHMT_TRY(place_output(e, arrow));
  else
    place_implicit(e);
  e->n_total = e->n_out;
  for (int l = 0; l < LETTERS; l++)
    if (e->count[l] > 0 && e->place[l] < 0) e->place[l] = e->n_total++;
  if (e->ellipsis_place < 0) {
    e->ellipsis_place = e->n_total;
    e->n_total += e->n_ellipsis;
  }
  SHMT_REQUIRE(e->n_total <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "einsum(): more than %d dimensions", SHMT_MAX_DIMS);
  return SHMT_OK;
}

/* Add the sizes of permuted operand i to `seen`: sizes other than 1 must agree. */
static shmt_status check_sizes(const equation* e, int64_t i, const shmt_tensor* t, int64_t* seen) {
  for (int p = 0; p < e->n_total; p++) {
    const int64_t size = t->sizes[p];
    const int in_ellipsis = p - e->ellipsis_place;
    if (size == 1 || size == seen[p]) continue;
    if (seen[p] == 1) {
      seen[p] = size;
      continue;
    }
    if (in_ellipsis >= 0 && in_ellipsis < e->n_ellipsis)
      SHMT_FAIL(SHMT_E_RUNTIME, "einsum(): dimension %d covered by ellipsis in operand %" PRId64 " has size %" PRId64
                " which does not broadcast with previously seen ellipsis with size %" PRId64
                " for the respective dimension", in_ellipsis, i, size, seen[p]);
    for (int l = 0; l < LETTERS; l++)
      if (e->count[l] > 0 && e->place[l] == p)
        SHMT_FAIL(SHMT_E_RUNTIME, "einsum(): subscript %c has size %" PRId64 " for operand %" PRId64
                  " which does not broadcast with previously seen size %" PRId64, subscript_of(l), size, i, seen[p]);
  }
  return SHMT_OK;
}

/* A letter that occurs twice in one operand takes the diagonal of those dims. */
static shmt_status bring_in_order(equation* e, int64_t i, shmt_tensor* t, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) now = shmt__tensor_ref(t);
  SHMT_AUTO(shmt_tensor) transposed = NULL;
  const char *begin, *end;
  int64_t at[SHMT_MAX_DIMS], order[SHMT_MAX_DIMS]; /* the dim of `now` at each place, -1: none */
  int dim = 0, ellipsis, n = 0;

  for (int p = 0; p < e->n_total; p++) at[p] = -1;
  SHMT_TRY(find_subscripts(e->text, i, &begin, &end));
  SHMT_TRY(count_dims(e, begin, end, t, i, &ellipsis));
  for (const char* p = begin; p < end; p++) {
    const int letter = letter_of(*p);
    if (*p == '.') {
      for (int k = 0; k < ellipsis; k++) at[e->ellipsis_place + e->n_ellipsis - ellipsis + k] = dim++;
      p += 2;
    }
    if (letter < 0) continue;
    const int place = e->place[letter];
    if (at[place] < 0) {
      at[place] = dim++;
      continue;
    }
    SHMT_REQUIRE(now->sizes[at[place]] == now->sizes[dim], SHMT_E_RUNTIME, "einsum(): subscript %c is repeated for "
                 "operand %" PRId64 " but the sizes don't match, %" PRId64 " != %" PRId64, *p, i, now->sizes[dim],
                 now->sizes[at[place]]);
    SHMT_AUTO(shmt_tensor) old = SHMT_TAKE(now);
    SHMT_AUTO(shmt_tensor) line = NULL;
    SHMT_TRY(shmt_op_diagonal(old, 0, at[place], dim, &line));
    SHMT_TRY(shmt_op_movedim_int(line, -1, at[place], &now));
  }
  for (int p = 0; p < e->n_total; p++)
    if (at[p] >= 0) {
      order[n++] = at[p];
      if (p >= e->n_out && now->sizes[at[p]] != 1) e->last_use[p] = (int)i;
    }
  SHMT_TRY(shmt_op_permute(now, (shmt_ints){order, n}, &transposed));
  for (int p = 0; p < e->n_total; p++)
    if (at[p] < 0) {
      SHMT_AUTO(shmt_tensor) old = SHMT_TAKE(transposed);
      SHMT_TRY(shmt_op_unsqueeze(old, p, &transposed));
    }
  *out = SHMT_TAKE(transposed);
  return SHMT_OK;
}

/* The kinds of dims of a product, each in order: batch dims (in both and kept), only left, only right, summed over. */
typedef struct split {
  int64_t both[SHMT_MAX_DIMS], left[SHMT_MAX_DIMS], right[SHMT_MAX_DIMS], sum[SHMT_MAX_DIMS];
  int n_both, n_left, n_right, n_sum;
} split;

static int64_t sizes_of(const shmt_tensor* t, const int64_t* dims, int n) {
  int64_t p = 1;

  for (int i = 0; i < n; i++) p *= t->sizes[dims[i]];
  return p;
}

static shmt_status three_parts(shmt_tensor* t, const int64_t* a, int na, const int64_t* b, int nb, const int64_t* c,
                               int nc, const int64_t* rest, int n_rest, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) transposed = NULL;
  int64_t order[SHMT_MAX_DIMS];

  /* A list of no dims may be NULL, which memcpy does not take. */
  const int64_t* parts[4] = {a, b, c, rest};
  const int lengths[4] = {na, nb, nc, n_rest};
  for (int i = 0, at = 0; i < 4; at += lengths[i++])
    if (lengths[i] > 0) memcpy(order + at, parts[i], (size_t)lengths[i] * sizeof *order);
  SHMT_TRY(shmt_op_permute(t, (shmt_ints){order, na + nb + nc + n_rest}, &transposed));
  return shmt_op_reshape(transposed, SHMT_INTS(sizes_of(t, a, na), sizes_of(t, b, nb), sizes_of(t, c, nc)), out);
}

/* The sum over `summed` of left * right; all dims stay, summed ones with size 1. */
static shmt_status multiply_operands(shmt_tensor* left, shmt_tensor* right, uint64_t summed, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) l = shmt__tensor_ref(left);
  SHMT_AUTO(shmt_tensor) r = shmt__tensor_ref(right);
  SHMT_AUTO(shmt_tensor) l3 = NULL;
  SHMT_AUTO(shmt_tensor) r3 = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;
  SHMT_AUTO(shmt_tensor) wide = NULL;
  split s = {.n_both = 0};
  int64_t sizes[SHMT_MAX_DIMS], back[SHMT_MAX_DIMS];
  int n = 0;

  for (int d = 0; d < left->n_dims; d++) {
    const int64_t a = l->sizes[d], b = r->sizes[d];
    const bool is_summed = summed >> d & 1;
    if (is_summed && a != 1 && b != 1) {
      s.sum[s.n_sum++] = d;
    } else if (is_summed && (a != 1 || b != 1)) {
      /* A dim of one operand only is summed first. */
      shmt_tensor** one = a != 1 ? &l : &r;
      SHMT_AUTO(shmt_tensor) old = SHMT_TAKE(*one);
      SHMT_TRY(shmt_op_sum_dim_IntList(old, SHMT_INTS(d), true, SHMT_DTYPE_NONE, one));
      s.left[s.n_left++] = d;
    } else if (a != 1 && b != 1) {
      s.both[s.n_both++] = d;
    } else if (b != 1) {
      s.right[s.n_right++] = d;
    } else {
      s.left[s.n_left++] = d;
    }
  }
  /* Nothing is summed: an elementwise product. */
  if (s.n_sum == 0) return shmt_op_mul_Tensor(l, r, out);
  /* Dims of one operand have size 1 in the other; they stand at its end. */
  SHMT_TRY(three_parts(l, s.both, s.n_both, s.left, s.n_left, s.sum, s.n_sum, s.right, s.n_right, &l3));
  SHMT_TRY(three_parts(r, s.both, s.n_both, s.sum, s.n_sum, s.right, s.n_right, s.left, s.n_left, &r3));
  SHMT_REQUIRE(l3->dtype == r3->dtype, SHMT_E_RUNTIME, "expected scalar type %s but found %s",
               shmt__dtype_title(l3->dtype), shmt__dtype_title(r3->dtype));
  SHMT_TRY(shmt_op_bmm(l3, r3, &product));
  const int64_t* groups[4] = {s.both, s.left, s.sum, s.right};
  const int counts[4] = {s.n_both, s.n_left, s.n_sum, s.n_right};
  for (int g = 0; g < 4; g++)
    for (int k = 0; k < counts[g]; k++) {
      const int64_t d = groups[g][k];
      sizes[n] = g == 2 ? 1 : g == 3 ? r->sizes[d] : l->sizes[d];
      back[d] = n++;
    }
  SHMT_TRY(shmt_op_reshape(product, (shmt_ints){sizes, n}, &wide));
  return shmt_op_permute(wide, (shmt_ints){back, n}, out);
}

/* Dims whose last operand is i or earlier, of those still there. */
static uint64_t done_after(const equation* e, int64_t i) {
  uint64_t mask = 0;

  for (int p = e->n_out; p < e->n_total; p++)
    if (e->last_use[p] <= i) mask |= (uint64_t)1 << p;
  return mask;
}

static shmt_status sum_mask(shmt_tensor* t, uint64_t mask, shmt_tensor** out) {
  int64_t dims[SHMT_MAX_DIMS];
  int n = 0;

  for (int d = 0; d < t->n_dims; d++)
    if (mask >> d & 1) dims[n++] = d;
  if (n == 0) {
    *out = shmt__tensor_ref(t);
    return SHMT_OK;
  }
  return shmt_op_sum_dim_IntList(t, (shmt_ints){dims, n}, true, SHMT_DTYPE_NONE, out);
}

static shmt_status check_equation(const char* text, shmt_tensors operands) {
  int64_t commas = 0;
  const char* arrow = strstr(text, "->");

  SHMT_REQUIRE(operands.len > 0, SHMT_E_RUNTIME, "einsum(): must provide at least one operand");
  for (const char* p = text; *p && (!arrow || p < arrow); p++) commas += *p == ',';
  SHMT_REQUIRE(commas + 1 <= operands.len, SHMT_E_RUNTIME,
               "einsum(): fewer operands were provided than specified in the equation");
  SHMT_REQUIRE(commas + 1 >= operands.len, SHMT_E_RUNTIME,
               "einsum(): more operands were provided than specified in the equation");
  return SHMT_OK;
}

shmt_status shmt__einsum(const char* text, shmt_tensors operands, shmt_ints path, shmt_tensor** out) {
  equation e = {.text = text, .n_operands = operands.len};
  SHMT_AUTO_LIST ordered = {0, 0};
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t seen[SHMT_MAX_DIMS];

  (void)path; /* it only changes the order of the products */
  SHMT_TRY(check_equation(text, operands));
  SHMT_TRY(parse(&e, operands));
  SHMT_TRY(shmt__tensor_vec_alloc(operands.len, &ordered));
  for (int p = 0; p < e.n_total; p++) seen[p] = 1;
  for (int64_t i = 0; i < operands.len; i++) {
    SHMT_TRY(bring_in_order(&e, i, operands.data[i], &ordered.data[i]));
    SHMT_TRY(check_sizes(&e, i, ordered.data[i], seen));
  }
  if (operands.len == 1) {
    SHMT_TRY(sum_mask(ordered.data[0], done_after(&e, 0), &result));
  } else {
    result = shmt__tensor_ref(ordered.data[0]);
  }
  for (int64_t i = 1; i < operands.len; i++) {
    SHMT_AUTO(shmt_tensor) old = SHMT_TAKE(result);
    const uint64_t mask = done_after(&e, i);
    SHMT_TRY(multiply_operands(old, ordered.data[i], mask, &result));
  }
  for (int p = e.n_total - 1; p >= e.n_out; p--) {
    SHMT_AUTO(shmt_tensor) old = SHMT_TAKE(result);
    SHMT_TRY(shmt_op_squeeze_dim(old, p, &result));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- tensordot and kron ---------------------------------------------------------------------------- */

shmt_status shmt__tensordot(shmt_tensor* self, shmt_tensor* other, shmt_ints dims_self, shmt_ints dims_other,
                            shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) a = shmt__tensor_ref(self);
  SHMT_AUTO(shmt_tensor) b = shmt__tensor_ref(other);
  SHMT_AUTO(shmt_tensor) a3 = NULL;
  SHMT_AUTO(shmt_tensor) b3 = NULL;
  SHMT_AUTO(shmt_tensor) a2 = NULL;
  SHMT_AUTO(shmt_tensor) b2 = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;
  int64_t da[SHMT_MAX_DIMS], db[SHMT_MAX_DIMS], ra[SHMT_MAX_DIMS], rb[SHMT_MAX_DIMS], sizes[2 * SHMT_MAX_DIMS];
  uint64_t used_a = 0, used_b = 0;
  int na = 0, nb = 0, n = 0;
  const int k = (int)dims_self.len;

  SHMT_REQUIRE(dims_self.len == dims_other.len && k <= SHMT_MAX_DIMS, SHMT_E_RUNTIME,
               "both dimension lists should have same length");
  SHMT_REQUIRE(self->dtype == other->dtype, SHMT_E_RUNTIME, "tensordot: both inputs should have same dtype");
  for (int i = 0; i < k; i++) {
    SHMT_TRY(shmt__wrap_dim(dims_self.data[i], self->n_dims, &da[i]));
    SHMT_TRY(shmt__wrap_dim(dims_other.data[i], other->n_dims, &db[i]));
    SHMT_REQUIRE(!(used_a >> da[i] & 1) && !(used_b >> db[i] & 1), SHMT_E_RUNTIME,
                 "dim %" PRId64 " appears multiple times in the list of dims", used_a >> da[i] & 1 ? da[i] : db[i]);
    used_a |= (uint64_t)1 << da[i];
    used_b |= (uint64_t)1 << db[i];
    const int64_t sa = self->sizes[da[i]], sb = other->sizes[db[i]];
    if (sa != sb && (sa == 1 || sb == 1)) {
      shmt_tensor** one = sa == 1 ? &b : &a;
      SHMT_AUTO(shmt_tensor) old = SHMT_TAKE(*one);
      SHMT_TRY(shmt_op_sum_dim_IntList(old, SHMT_INTS(sa == 1 ? db[i] : da[i]), true, self->dtype, one));
      continue;
    }
    SHMT_REQUIRE(sa == sb, SHMT_E_RUNTIME, "contracted dimensions need to match, but first has size %" PRId64
                 " in dim %" PRId64 " and second has size %" PRId64 " in dim %" PRId64, sa, dims_self.data[i], sb,
                 dims_other.data[i]);
  }
  for (int d = 0; d < self->n_dims; d++)
    if (!(used_a >> d & 1)) ra[na++] = d, sizes[n++] = self->sizes[d];
  for (int d = 0; d < other->n_dims; d++)
    if (!(used_b >> d & 1)) rb[nb++] = d, sizes[n++] = other->sizes[d];
  SHMT_REQUIRE(n <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "tensordot: more than %d dimensions", SHMT_MAX_DIMS);
  SHMT_TRY(three_parts(a, NULL, 0, ra, na, da, k, NULL, 0, &a3));
  SHMT_TRY(three_parts(b, NULL, 0, db, k, rb, nb, NULL, 0, &b3));
  SHMT_TRY(shmt_op_squeeze_dim(a3, 0, &a2));
  SHMT_TRY(shmt_op_squeeze_dim(b3, 0, &b2));
  SHMT_TRY(shmt_op_mm(a2, b2, &product));
  return shmt_op_reshape(product, (shmt_ints){sizes, n}, out);
}

/* Each element of self times all of other: multiply with interleaved dims, then join the pairs. */
shmt_status shmt__kron(shmt_tensor* self, shmt_tensor* other, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;
  int64_t sa[SHMT_MAX_DIMS], sb[SHMT_MAX_DIMS], sizes[SHMT_MAX_DIMS];
  const int n = self->n_dims > other->n_dims ? self->n_dims : other->n_dims;

  SHMT_REQUIRE(2 * n <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "kron: more than %d dimensions", SHMT_MAX_DIMS / 2);
  for (int d = 0; d < n; d++) {
    const int da = d - (n - self->n_dims), db = d - (n - other->n_dims);
    sa[2 * d] = da < 0 ? 1 : self->sizes[da];
    sb[2 * d + 1] = db < 0 ? 1 : other->sizes[db];
    sa[2 * d + 1] = sb[2 * d] = 1;
    sizes[d] = shmt__wrap_mul_i64(sa[2 * d], sb[2 * d + 1]); /* mul refuses a product that wraps */
  }
  SHMT_TRY(shmt_op_reshape(self, (shmt_ints){sa, 2 * n}, &a));
  SHMT_TRY(shmt_op_reshape(other, (shmt_ints){sb, 2 * n}, &b));
  SHMT_TRY(shmt_op_mul_Tensor(a, b, &product));
  return shmt_op_reshape(product, (shmt_ints){sizes, n}, out);
}
