/* ops/conv/backward/boxes.c -- boxes of positions: Note [Boxes] in ops/conv/backward/boxes.h. */
#include "ops/conv/backward/boxes.h"

#include "base/scalar.h"
#include "base/sizes.h"
#include "ops/matmul/gemm_amx.h"
#include "storage/allocator.h"

enum {
  FEW_FILTERS = 8, /* which leave AMX tiles half empty */
  LINE = 64,       /* bytes that pieces of memory are rounded up to */
};

void shmt__conv_boxes_init(shmt__conv_boxes* j, const shmt__conv* c, const shmt__image_view* images,
                           const shmt__image_view* outputs) {
  const int64_t* kernel = c->shape.kernel;

  *j = (shmt__conv_boxes){.c = c, .images = *images, .outputs = *outputs, .item = shmt__dtype_size[c->dtype]};
  j->size = kernel[0] * kernel[1] * kernel[2];
  j->channels = c->channels / c->groups;
  j->filters = c->filters / c->groups;
  j->k = j->channels * j->size;
  j->gemm_dtype =
      c->io_dtype == SHMT_BFLOAT16 && j->filters > FEW_FILTERS && shmt__gemm_has_amx() ? c->io_dtype : c->dtype;
  j->gemm_item = shmt__dtype_size[j->gemm_dtype];
  /* No output reads the output_padding of a transposed convolution. */
  j->is_pointwise = shmt__conv_is_pointwise(c) && memcmp(c->shape.in, c->shape.out, sizeof c->shape.in) == 0;
}

/* Cut into boxes of `most` positions or a little less: rows stay long, and images are cut last. */
static void set_boxes(shmt__conv_boxes* j, const int64_t* size, int64_t most) {
  static const int ORDER[] = {4, 3, 2, 0};

  memcpy(j->whole, (int64_t[]){j->c->n_images, 1, size[0], size[1], size[2]}, sizeof j->whole);
  j->step[1] = 1;
  j->n_boxes = 1;
  for (int i = 0; i < 4; i++) {
    const int d = ORDER[i];
    const int64_t n = shmt__max_i64(shmt__ceil_div(j->whole[d], most), 1);
    j->step[d] = shmt__max_i64(shmt__ceil_div(j->whole[d], n), 1);
    j->n_boxes *= shmt__ceil_div(j->whole[d], j->step[d]);
    most = shmt__max_i64(most / j->step[d], 1);
  }
}

shmt__conv_box shmt__conv_box_at(const shmt__conv_boxes* j, int64_t i) {
  shmt__conv_box b;

  for (int d = 4; d >= 0; d--) {
    const int64_t n = shmt__ceil_div(j->whole[d], j->step[d]);
    b.begin[d] = i % n * j->step[d];
    b.n[d] = shmt__min_i64(j->step[d], j->whole[d] - b.begin[d]);
    i /= n;
  }
  return b;
}

shmt__conv_box shmt__conv_box_channels(shmt__conv_box b, int64_t begin, int64_t n) {
  b.begin[1] = begin;
  b.n[1] = n;
  return b;
}

shmt__conv_box shmt__conv_box_outputs(const shmt__conv_shape* s, shmt__conv_box b) {
  for (int d = 0; d < 3; d++) {
    const int64_t first = b.begin[2 + d] + s->padding[d] - (s->kernel[d] - 1) * s->dilation[d];
    const int64_t last = (b.begin[2 + d] + b.n[2 + d] - 1 + s->padding[d]) / s->stride[d];
    b.begin[2 + d] = first > 0 ? shmt__ceil_div(first, s->stride[d]) : 0;
    b.n[2 + d] = shmt__max_i64(shmt__min_i64(last + 1, s->out[d]) - b.begin[2 + d], 0);
  }
  return b;
}

shmt__conv_box shmt__conv_box_inputs(const shmt__conv_shape* s, shmt__conv_box b) {
  for (int d = 0; d < 3; d++) {
    const int64_t begin = b.begin[2 + d] * s->stride[d] - s->padding[d];
    const int64_t end = begin + shmt__conv_reach(s, d, b.n[2 + d]);
    b.begin[2 + d] = shmt__min_i64(shmt__max_i64(begin, 0), s->in[d]);
    b.n[2 + d] = shmt__max_i64(shmt__min_i64(end, s->in[d]) - b.begin[2 + d], 0);
  }
  return b;
}

shmt__conv_shape shmt__conv_box_shape(const shmt__conv_shape* s, const shmt__conv_box* images,
                                      const shmt__conv_box* outputs_box) {
  shmt__conv_shape part = *s;

  for (int d = 0; d < 3; d++) {
    part.in[d] = images->n[2 + d];
    part.out[d] = outputs_box->n[2 + d];
    part.padding[d] = s->padding[d] + images->begin[2 + d] - outputs_box->begin[2 + d] * s->stride[d];
  }
  part.col_row = outputs_box->n[0] * shmt__conv_box_positions(outputs_box);
  return part;
}

static uint64_t round_to_cache_line(int64_t nbytes) { return ((uint64_t)nbytes + LINE - 1) / LINE * LINE; }

void shmt__conv_box_multiply(const shmt__conv_boxes* j, shmt__matrix a, shmt__matrix b, bool adds, shmt__matrix c) {
  if (j->gemm_dtype == j->c->dtype)
    shmt__gemm(j->c->dtype, shmt__scalar_int(1), a, b, shmt__scalar_int(adds), c);
  else
    shmt__gemm_bfloat16_float32(a, b, adds, c);
}

bool shmt__conv_box_memory_init(shmt__conv_boxes* j, shmt__conv_box_memory* r, int64_t outputs, int64_t columns,
                                int64_t images, int64_t weight) {
  const uint64_t first = round_to_cache_line(outputs), second = round_to_cache_line(columns),
                 third = round_to_cache_line(images);
  void* memory = NULL;

  r->nbytes = first + second + third + round_to_cache_line(weight);
  if (shmt__alloc(r->nbytes, &memory) != SHMT_OK) {
    /* relaxed: read after the pool's own join. */
    atomic_store_explicit(&j->failed, true, memory_order_relaxed);
    return false;
  }
  r->memory = r->outputs = memory;
  r->columns = r->outputs + first;
  r->images = r->columns + second;
  r->weight = r->images + third;
  return true;
}

shmt_status shmt__conv_boxes_status(const shmt__conv_boxes* j) {
  SHMT_REQUIRE(!atomic_load_explicit(&j->failed, memory_order_relaxed), SHMT_E_NOMEM,
               "convolution: no memory for columns of %lld elements", (long long)j->k);
  return SHMT_OK;
}

/* Is what any box needs of planes of this size a matrix where it lies? used: what all boxes together need of an image.
 * A box that is cut along a dim is a matrix only where the dims before that dim have size 1. */
static bool in_place(const shmt__conv_boxes* j, const shmt__image_view* p, shmt_dtype dtype, const int64_t* size,
                     int64_t channels, const int64_t* used) {
  const int64_t n[5] = {j->step[0], channels, size[0], size[1], size[2]};
  int64_t around = j->step[0];
  shmt__matrix m;

  for (int d = 2; d < 5; d++) {
    if (around != 1 && (j->step[d] != j->whole[d] || used[d] != n[d])) return false;
    around *= n[d];
  }
  return shmt__image_view_is_matrix(p, n, dtype, &m);
}

void shmt__conv_boxes_plan(shmt__conv_boxes* j, const int64_t* size, int64_t most) {
  const shmt__conv_shape* s = &j->c->shape;
  const shmt__conv_box all = {{0}, {1, 1, size[0], size[1], size[2]}};
  const bool is_input_grad = size == s->in;
  const shmt__conv_box outputs_box = is_input_grad ? shmt__conv_box_outputs(s, all) : all;

  set_boxes(j, size, most);
  j->reads_outputs = in_place(j, &j->outputs, j->gemm_dtype, s->out, j->filters, outputs_box.n);
  j->is_gemm = j->is_pointwise &&
               in_place(j, &j->images, is_input_grad ? j->c->dtype : j->gemm_dtype, s->in, j->channels, outputs_box.n);
}

void shmt__conv_boxes_set_block(shmt__conv_boxes* j, int64_t most, int64_t nbytes) {
  j->block = shmt__min_i64(shmt__max_i64(most / shmt__max_i64(nbytes, 1), 1), j->channels);
  j->n_blocks = shmt__ceil_div(j->channels, j->block);
  j->block = shmt__ceil_div(j->channels, j->n_blocks);
}
