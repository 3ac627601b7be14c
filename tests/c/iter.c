/* tests/c/iter.c -- the iterator under every elementwise operator: shapes, memory order, merging, overlaps, threads. */
#include "check.h"

#include "iter/cursor.h"
#include "iter/iter.h"
#include "iter/threads.h"

#define SHAPE(...) ((shmt_ints){(const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)})

static int64_t n_calls, n_elements;

/* out = a - b */
static void subtract(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  (void)ctx;
  n_calls++;
  n_elements += n;
  for (int64_t i = 0; i < n; i++) {
    const float a = *(const float*)(data[1] + i * strides[1]), b = *(const float*)(data[2] + i * strides[2]);
    *(float*)(data[0] + i * strides[0]) = a - b;
  }
}

/* Elements 0, 1, 2, ... in the order of the memory. */
static shmt_tensor* make_tensor(shmt_ints sizes) {
  shmt_tensor* t = NULL;
  CHECK_OK(shmt__tensor_empty(sizes, SHMT_FLOAT32, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &t));
  for (int64_t i = 0; i < t->numel; i++) ((float*)shmt__tensor_data(t))[i] = (float)i;
  return t;
}

static shmt_tensor* make_view(shmt_tensor* t, shmt_ints sizes, shmt_ints strides, int64_t offset) {
  shmt_tensor* view = NULL;
  CHECK_OK(shmt__tensor_alias(t, sizes, strides, offset, &view));
  return view;
}

static float value_at(const shmt_tensor* t, const int64_t* at) {
  int64_t offset = 0;
  for (int d = 0; d < t->n_dims; d++) offset += at[d] * t->strides[d];
  return ((const float*)shmt__tensor_data(t))[offset];
}

/* Where a broadcast operand has the element of a position in the result. */
static float broadcast_at(const shmt_tensor* t, const int64_t* at, int n_dims) {
  int64_t own[SHMT_MAX_DIMS];
  for (int d = 0; d < t->n_dims; d++) own[d] = t->sizes[d] == 1 ? 0 : at[n_dims - t->n_dims + d];
  return value_at(t, own);
}

static void check_difference(const shmt_tensor* out, const shmt_tensor* a, const shmt_tensor* b) {
  int64_t at[SHMT_MAX_DIMS] = {0};
  for (int64_t i = 0; i < out->numel; i++) {
    int64_t rest = i;
    for (int d = out->n_dims; d-- > 0; rest /= out->sizes[d]) at[d] = rest % out->sizes[d];
    CHECK(value_at(out, at) == broadcast_at(a, at, out->n_dims) - broadcast_at(b, at, out->n_dims));
  }
}

static shmt_status build(shmt_iter* it, shmt_tensor** out, shmt_tensor* a, shmt_tensor* b) {
  shmt__iter_init(it, "subtract");
  shmt__iter_output(it, out, SHMT_DTYPE_NONE);
  shmt__iter_input(it, a);
  shmt__iter_input(it, b);
  it->promote = SHMT_PROMOTE_SAME;
  return shmt__iter_build(it);
}

/* Subtract, check every element, and return how many dims were left to loop over. */
static int run(shmt_tensor** out, shmt_tensor* a, shmt_tensor* b) {
  shmt_iter it;
  n_calls = n_elements = 0;
  CHECK_OK(build(&it, out, a, b));
  const int n_dims = it.n_dims;
  CHECK_OK(shmt__iter_finish(&it, shmt__iter_run_serial(&it, subtract, NULL)));
  CHECK_EQ(n_elements, (*out)->numel);
  check_difference(*out, a, b);
  return n_dims;
}

/* --- merging --- */

TEST(contiguous_operands_are_one_loop) {
  shmt_tensor *a = make_tensor(SHAPE(3, 4, 5)), *b = make_tensor(SHAPE(3, 4, 5)), *out = NULL;
  CHECK_EQ(run(&out, a, b), 1);
  CHECK_EQ(n_calls, 1);
  CHECK(shmt__tensor_is_contiguous(out));
}

TEST(dims_without_gaps_are_merged_and_others_are_not) {
  shmt_tensor *base = make_tensor(SHAPE(4, 6, 8)), *other = make_tensor(SHAPE(4, 6, 8)), *out = NULL;
  /* Half of the middle dim: the last two merge, the first has a gap. */
  shmt_tensor* a = make_view(base, SHAPE(4, 3, 8), SHAPE(48, 8, 1), 0);
  shmt_tensor* b = make_view(other, SHAPE(4, 3, 8), SHAPE(48, 8, 1), 24);
  CHECK_EQ(run(&out, a, b), 2);
  /* Half of the last dim: the first two merge. */
  out = NULL;
  a = make_view(base, SHAPE(4, 6, 4), SHAPE(48, 8, 1), 0);
  b = make_view(other, SHAPE(4, 6, 4), SHAPE(48, 8, 1), 4);
  CHECK_EQ(run(&out, a, b), 2);
  /* One operand is enough to keep them apart. */
  out = NULL;
  CHECK_EQ(run(&out, make_tensor(SHAPE(4, 6, 4)), b), 2);
}

TEST(dims_of_one_element_vanish_whatever_their_strides) {
  shmt_tensor *base = make_tensor(SHAPE(60)), *out = NULL;
  shmt_tensor* a = make_view(base, SHAPE(3, 1, 20), SHAPE(20, 7, 1), 0);
  CHECK_EQ(run(&out, a, make_tensor(SHAPE(3, 1, 20))), 1);
}

TEST(a_transposed_pair_is_walked_in_memory_order) {
  shmt_tensor *a = make_tensor(SHAPE(5, 7)), *b = make_tensor(SHAPE(5, 7)), *out = NULL;
  shmt_tensor* ta = make_view(a, SHAPE(7, 5), SHAPE(1, 7), 0);
  shmt_tensor* tb = make_view(b, SHAPE(7, 5), SHAPE(1, 7), 0);
  CHECK_EQ(run(&out, ta, tb), 1);
  CHECK_EQ(out->strides[0], 1); /* a new output takes the order of the inputs */
  CHECK_EQ(out->strides[1], 7);
  out = NULL;
  CHECK_EQ(run(&out, ta, make_tensor(SHAPE(7, 5))), 2); /* and here there is no common order */
}

/* --- broadcasting --- */

TEST(rows_and_columns_broadcast) {
  shmt_tensor* out = NULL;
  CHECK_EQ(run(&out, make_tensor(SHAPE(3, 1)), make_tensor(SHAPE(4))), 2);
  CHECK(shmt__same_ints(shmt__tensor_sizes(out), SHAPE(3, 4)));
  out = NULL;
  (void)run(&out, make_tensor(SHAPE(2, 1, 5)), make_tensor(SHAPE(1, 3, 1)));
  CHECK(shmt__same_ints(shmt__tensor_sizes(out), SHAPE(2, 3, 5)));
  out = NULL;
  (void)run(&out, make_tensor(SHAPE(2, 3)), make_tensor((shmt_ints){NULL, 0}));
  CHECK(shmt__same_ints(shmt__tensor_sizes(out), SHAPE(2, 3)));
}

TEST(every_pair_of_small_shapes_broadcasts_or_is_refused) {
  const int64_t sizes[] = {1, 2, 3};
  for (int i = 0; i < 9; i++) {
    for (int j = 0; j < 9; j++) {
      const shmt_ints x = SHAPE(sizes[i / 3], sizes[i % 3]), y = SHAPE(sizes[j / 3], sizes[j % 3]);
      shmt_tensor *a = make_tensor(x), *b = make_tensor(y), *out = NULL;
      bool fits = true;
      shmt_iter it;
      for (int d = 0; d < 2; d++) fits = fits && (x.data[d] == y.data[d] || x.data[d] == 1 || y.data[d] == 1);
      if (fits) {
        (void)run(&out, a, b);
      } else {
        CHECK_FAILS(build(&it, &out, a, b), SHMT_E_RUNTIME, "must match the size of tensor b");
        CHECK(out == NULL);
      }
      shmt__tensor_release(out);
      shmt__tensor_release(b);
      shmt__tensor_release(a);
    }
  }
}

TEST(a_product_of_sizes_that_overflows_is_refused) {
  const int64_t large = INT64_C(1) << 32;
  shmt_tensor *one = make_tensor(SHAPE(1)), *out = NULL;
  shmt_iter it;
  shmt_tensor* a = make_view(one, SHAPE(large, 1), SHAPE(0, 0), 0);
  shmt_tensor* b = make_view(one, SHAPE(1, large), SHAPE(0, 0), 0);
  CHECK_FAILS(build(&it, &out, a, b), SHMT_E_RUNTIME, "overflow");
  CHECK(out == NULL);
}

TEST(empty_results_call_no_loop) {
  shmt_tensor* out = NULL;
  (void)run(&out, make_tensor(SHAPE(0, 3)), make_tensor(SHAPE(1, 3)));
  CHECK(shmt__same_ints(shmt__tensor_sizes(out), SHAPE(0, 3)));
  CHECK_EQ(n_calls, 0);
  out = NULL;
  (void)run(&out, make_tensor(SHAPE(4, 0, 2)), make_tensor((shmt_ints){NULL, 0}));
  CHECK(shmt__same_ints(shmt__tensor_sizes(out), SHAPE(4, 0, 2)));
  CHECK_EQ(n_calls, 0);
}

/* --- the number of dims --- */

TEST(sixty_four_dims_are_looped_over) {
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS];
  shmt_tensor *base = make_tensor(SHAPE(1 << 14)), *out = NULL;
  /* Ten dims of two, in an order that nothing can merge, between dims of one. */
  for (int d = 0; d < SHMT_MAX_DIMS; d++) {
    sizes[d] = d % 7 == 0 ? 2 : 1;
    strides[d] = d % 7 == 0 ? 1 << (d / 7 * 3 % 10) : 1;
  }
  shmt_tensor* a = make_view(base, (shmt_ints){sizes, SHMT_MAX_DIMS}, (shmt_ints){strides, SHMT_MAX_DIMS}, 0);
  CHECK_EQ(a->numel, 1 << 10);
  (void)run(&out, a, make_tensor((shmt_ints){sizes, SHMT_MAX_DIMS}));
  CHECK_EQ(out->n_dims, SHMT_MAX_DIMS);
  out = NULL;
  (void)run(&out, a, make_tensor((shmt_ints){NULL, 0}));
}

TEST(no_tensor_has_sixty_five) {
  int64_t sizes[SHMT_MAX_DIMS + 1];
  shmt_tensor* t = NULL;
  for (int d = 0; d <= SHMT_MAX_DIMS; d++) sizes[d] = 1;
  CHECK_FAILS(shmt__tensor_empty((shmt_ints){sizes, SHMT_MAX_DIMS + 1}, SHMT_FLOAT32, SHMT_CPU,
                                 SHMT_CONTIGUOUS_FORMAT, &t),
              SHMT_E_RUNTIME, "64");
}

TEST(strides_are_never_negative) {
  shmt_tensor *t = make_tensor(SHAPE(4)), *back = NULL;
  CHECK_EQ(shmt__tensor_from_storage(t->storage, SHAPE(4), SHAPE(-1), 3, SHMT_FLOAT32, &back), SHMT_E_RUNTIME);
  CHECK_EQ(shmt__tensor_empty_strided(SHAPE(4), SHAPE(-1), SHMT_FLOAT32, SHMT_CPU, &back), SHMT_E_RUNTIME);
}

/* --- given outputs --- */

TEST(a_given_output_is_written_where_it_lies) {
  shmt_tensor* base = make_tensor(SHAPE(3, 8));
  shmt_tensor* out = make_view(base, SHAPE(3, 4), SHAPE(8, 2), 1);
  shmt_tensor* const before = out;
  (void)run(&out, make_tensor(SHAPE(3, 4)), make_tensor(SHAPE(1, 4)));
  CHECK(out == before);
  CHECK(((float*)shmt__tensor_data(base))[2] == 2); /* between two elements of the output */
}

TEST(in_place_keeps_the_shape) {
  shmt_tensor *a = make_tensor(SHAPE(3, 1)), *b = make_tensor(SHAPE(4));
  shmt_iter it;
  CHECK_FAILS(build(&it, &a, a, b), SHMT_E_RUNTIME,
              "output with shape [3, 1] doesn't match the broadcast shape [3, 4]");
}

TEST(an_output_of_another_dtype_is_converted_or_refused) {
  shmt_tensor *a = make_tensor(SHAPE(5)), *b = make_tensor(SHAPE(5)), *wide = NULL, *whole = NULL;
  shmt_iter it;
  CHECK_OK(shmt__tensor_empty(SHAPE(5), SHMT_FLOAT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &wide));
  CHECK_OK(shmt__tensor_empty(SHAPE(5), SHMT_INT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &whole));
  ((float*)shmt__tensor_data(b))[3] = 0.5f;
  CHECK_OK(build(&it, &wide, a, b));
  CHECK_OK(shmt__iter_finish(&it, shmt__iter_run_serial(&it, subtract, NULL)));
  CHECK(((double*)shmt__tensor_data(wide))[3] == 2.5);
  CHECK_FAILS(build(&it, &whole, a, b), SHMT_E_RUNTIME,
              "result type Float can't be cast to the desired output type Long");
}

TEST(inputs_of_two_dtypes_are_refused_or_promoted) {
  shmt_tensor *a = make_tensor(SHAPE(3)), *whole = NULL, *out = NULL;
  shmt_iter it;
  CHECK_OK(shmt__tensor_zeros(SHAPE(3), SHMT_INT32, SHMT_CPU, &whole));
  ((int32_t*)shmt__tensor_data(whole))[2] = 5;
  CHECK_FAILS(build(&it, &out, a, whole), SHMT_E_RUNTIME, "Found dtype Int but expected Float");
  shmt__iter_init(&it, "subtract");
  shmt__iter_output(&it, &out, SHMT_DTYPE_NONE);
  shmt__iter_input(&it, a);
  shmt__iter_input(&it, whole);
  it.promote = SHMT_PROMOTE_ARITHMETIC;
  CHECK_OK(shmt__iter_build(&it));
  CHECK_EQ(it.common_dtype, SHMT_FLOAT32);
  CHECK_OK(shmt__iter_finish(&it, shmt__iter_run_serial(&it, subtract, NULL)));
  CHECK(((float*)shmt__tensor_data(out))[2] == -3);
}

/* --- overlaps --- */

TEST(an_output_may_be_an_input_but_not_overlap_one) {
  shmt_tensor* base = make_tensor(SHAPE(10));
  shmt_tensor* b = make_tensor(SHAPE(8));
  shmt_tensor* low = make_view(base, SHAPE(8), SHAPE(1), 0);
  shmt_tensor* high = make_view(base, SHAPE(8), SHAPE(1), 2);
  shmt_tensor* same = make_view(base, SHAPE(8), SHAPE(1), 0);
  shmt_iter it;
  CHECK_FAILS(build(&it, &low, high, b), SHMT_E_RUNTIME, "unsupported operation");
  CHECK_FAILS(build(&it, &high, low, b), SHMT_E_RUNTIME, "unsupported operation");
  CHECK_OK(build(&it, &low, same, b));
  CHECK_OK(shmt__iter_finish(&it, shmt__iter_run_serial(&it, subtract, NULL)));
  for (int i = 0; i < 8; i++) CHECK(((float*)shmt__tensor_data(base))[i] == 0);
}

TEST(an_output_that_overlaps_itself_is_refused) {
  shmt_tensor* one = make_tensor(SHAPE(1));
  shmt_tensor* wide = make_view(one, SHAPE(4), SHAPE(0), 0);
  shmt_iter it;
  CHECK(shmt__may_overlap_itself(wide));
  CHECK(!shmt__may_overlap_itself(one));
  CHECK_FAILS(build(&it, &wide, make_tensor(SHAPE(4)), make_tensor(SHAPE(4))), SHMT_E_RUNTIME,
              "more than one element of the written-to tensor refers to a single memory location");
}

/* --- threads --- */

enum { MOST = 5000 };
static atomic_int touched[MOST];

static void touch(void* ctx, int64_t begin, int64_t end) {
  CHECK(begin < end);
  CHECK(*(const int*)ctx == 7);
  for (int64_t i = begin; i < end; i++) atomic_fetch_add(&touched[i], 1);
}

TEST(pieces_cover_each_index_once) {
  const int64_t ns[] = {0, 1, 2, 63, 64, 65, 999, MOST}, grains[] = {1, 7, 64, 2 * MOST};
  int ctx = 7;
  for (int n_threads = 1; n_threads <= 4; n_threads++) {
    shmt__set_num_threads(n_threads);
    CHECK_EQ(shmt__num_threads(), n_threads);
    for (size_t i = 0; i < sizeof ns / sizeof *ns; i++) {
      for (size_t j = 0; j < sizeof grains / sizeof *grains; j++) {
        memset(touched, 0, sizeof touched);
        shmt__parallel_for(ns[i], grains[j], touch, &ctx);
        for (int64_t k = 0; k < MOST; k++) CHECK_EQ(atomic_load(&touched[k]), k < ns[i]);
      }
    }
  }
}

static void touch_nested(void* ctx, int64_t begin, int64_t end) {
  CHECK(shmt__in_parallel());
  for (int64_t i = begin; i < end; i++) shmt__parallel_for(10, 1, touch, ctx);
}

TEST(pieces_of_pieces_run_inline) {
  int ctx = 7;
  shmt__set_num_threads(3);
  memset(touched, 0, sizeof touched);
  shmt__parallel_for(30, 1, touch_nested, &ctx);
  for (int k = 0; k < 10; k++) CHECK_EQ(atomic_load(&touched[k]), 30);
  CHECK(!shmt__in_parallel());
}

TEST(threads_are_clamped) {
  shmt__set_num_threads(0);
  CHECK_EQ(shmt__num_threads(), 1);
  shmt__set_num_threads(1 << 20);
  CHECK_EQ(shmt__num_threads(), SHMT_MAX_THREADS);
}

static void subtract_quietly(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  (void)ctx;
  for (int64_t i = 0; i < n; i++) {
    const float a = *(const float*)(data[1] + i * strides[1]), b = *(const float*)(data[2] + i * strides[2]);
    *(float*)(data[0] + i * strides[0]) = a - b;
  }
}

TEST(threads_and_one_thread_compute_the_same) {
  shmt_tensor *a = make_tensor(SHAPE(300, 1, 40)), *b = make_tensor(SHAPE(1, 50, 40)), *out = NULL;
  shmt_iter it;
  shmt__set_num_threads(4);
  CHECK_OK(build(&it, &out, a, b));
  CHECK_OK(shmt__iter_finish(&it, shmt__iter_run_costly(&it, subtract_quietly, NULL, 100)));
  check_difference(out, a, b);
}

/* --- cursors --- */

TEST(a_cursor_walks_as_it_jumps) {
  const shmt__loop_nest nest = {.n_dims = 3, .sizes = {4, 1, 5}, .from = {1, 100, 9}, .to = {5, 0, 1}};
  shmt__cursor walks, jumps;
  shmt__cursor_init(&walks, &nest, 0);
  for (int64_t i = 0; i < 20; i++, shmt__cursor_next(&walks, &nest)) {
    shmt__cursor_init(&jumps, &nest, i);
    CHECK_EQ(walks.from, i % 4 + 9 * (i / 4));
    CHECK_EQ(walks.from, jumps.from);
    CHECK_EQ(walks.to, jumps.to);
  }
  CHECK_EQ(walks.from, 0); /* after the last position comes the first */
  CHECK_EQ(walks.to, 0);
}
