/* ops/conv/image_view.c -- copies of images with any strides, and images as matrices. */
#include "ops/conv/image_view.h"

#include "base/overflow.h"
#include "iter/copy/copy.h"
#include "iter/copy/move.h"
#include "iter/threads.h"

enum {
  TILE_CHANNELS = 16,      /* a tile of so many channels */
  TILE_POSITIONS = 64,     /* and positions is transposed before it is cast */
  MAX_ITEM = 16,           /* bytes */
  WORTH_SHARING = 1 << 14, /* elements that are worth a thread */
};

shmt__image_view shmt__image_view_of(const shmt_tensor* t) {
  const int64_t item = shmt__tensor_item_bytes(t);
  shmt__image_view p = {.data = (char*)shmt__tensor_data(t), .dtype = t->dtype};

  for (int d = 0; d < t->n_dims; d++)
    p.stride[d < 2 ? d : d + 5 - t->n_dims] = shmt__wrap_mul_i64(t->strides[d], item);
  return p;
}

shmt__image_view shmt__image_view_at(const shmt__image_view* p, const int64_t* begin) {
  shmt__image_view at = *p;

  for (int d = 0; d < 5; d++) at.data += begin[d] * p->stride[d];
  return at;
}

shmt__image_view shmt__image_view_cnhw(void* data, shmt_dtype dtype, const int64_t* n) {
  const int64_t item = shmt__dtype_size[dtype], row = n[4] * item, plane = n[2] * n[3] * row;

  return (shmt__image_view){data, dtype, {plane, n[0] * plane, n[3] * row, row, item}};
}

shmt__image_view shmt__image_view_nhwc(void* data, shmt_dtype dtype, const int64_t* n) {
  const int64_t item = shmt__dtype_size[dtype], pixel = n[1] * item, row = n[4] * pixel, plane = n[3] * row;

  return (shmt__image_view){data, dtype, {n[2] * plane, item, plane, row, pixel}};
}

/* Merge spatial dims whose positions are evenly apart in both views into the last dim. */
static void merge_positions(int64_t* n, int64_t* a, int64_t* b) {
  for (int d = 3; d >= 2; d--) {
    if (n[4] == 1) {
      a[4] = a[d];
      b[4] = b[d];
    } else if (n[d] != 1 && (a[d] != n[4] * a[4] || b[d] != n[4] * b[4])) {
      return;
    }
    n[4] *= n[d];
    n[d] = 1;
  }
}

/* Copy one row from NHWC to NCHW. */
static void copy_transposed(const shmt__image_view* to, char* dst, const shmt__image_view* from, const char* src,
                            int64_t step, int64_t channels, int64_t positions) {
  const int64_t item = shmt__dtype_size[from->dtype], row = to->stride[1];
  char tile[TILE_CHANNELS * TILE_POSITIONS * MAX_ITEM];

  if (to->dtype == from->dtype) {
    shmt__move_transposed(dst, row, src, step, channels, positions, item);
    return;
  }
  for (int64_t i = 0; i < channels; i += TILE_CHANNELS) {
    const int64_t height = channels - i < TILE_CHANNELS ? channels - i : TILE_CHANNELS;
    for (int64_t j = 0; j < positions; j += TILE_POSITIONS) {
      const int64_t width = positions - j < TILE_POSITIONS ? positions - j : TILE_POSITIONS;
      shmt__move_transposed(tile, TILE_POSITIONS * item, src + j * step + i * item, step, height, width, item);
      for (int64_t k = 0; k < height; k++)
        shmt__cast_loop(to->dtype, from->dtype)(dst + (i + k) * row + j * to->stride[4], to->stride[4],
                                                tile + k * TILE_POSITIONS * item, item, width);
    }
  }
}

static void swap(int64_t* a, int64_t* b) {
  const int64_t was = *a;
  *a = *b;
  *b = was;
}

void shmt__image_view_copy(const shmt__image_view* to, const shmt__image_view* from, const int64_t* n) {
  const shmt__cast_loop_fn cast = shmt__cast_loop(to->dtype, from->dtype);
  const int64_t wide = shmt__dtype_size[to->dtype], item = shmt__dtype_size[from->dtype];
  shmt__image_view a = *to, b = *from;
  int64_t size[5] = {n[0], n[1], n[2], n[3], n[4]};

  merge_positions(size, a.stride, b.stride);
  /* From NCHW to NHWC: the same with channels and positions swapped. */
  if (a.stride[1] == wide && b.stride[4] == item && a.stride[4] != wide) {
    swap(&size[1], &size[4]);
    swap(&a.stride[1], &a.stride[4]);
    swap(&b.stride[1], &b.stride[4]);
  }
  const int64_t channels = size[1], positions = size[4], rows = size[0] * size[2] * size[3];
  const bool is_transposed = channels > 1 && positions > 1 && b.stride[1] == item && b.stride[4] >= channels * item &&
                      a.stride[4] == wide;
  const bool are_channels_dense = a.stride[1] == wide && b.stride[1] == item;
  const bool is_one_run = are_channels_dense && a.stride[4] == channels * wide && b.stride[4] == channels * item;
  for (int64_t r = 0; r < rows; r++) {
    const int64_t at[5] = {r / (size[2] * size[3]), 0, r / size[3] % size[2], r % size[3], 0};
    char* const dst = shmt__image_view_at(&a, at).data;
    const char* const src = shmt__image_view_at(&b, at).data;
    if (is_transposed) {
      copy_transposed(&a, dst, &b, src, b.stride[4], channels, positions);
    } else if (is_one_run) {
      cast(dst, wide, src, item, channels * positions);
    } else if (are_channels_dense) {
      for (int64_t i = 0; i < positions; i++)
        cast(dst + i * a.stride[4], wide, src + i * b.stride[4], item, channels);
    } else {
      for (int64_t i = 0; i < channels; i++)
        cast(dst + i * a.stride[1], a.stride[4], src + i * b.stride[1], b.stride[4], positions);
    }
  }
}

typedef struct copy {
  const shmt__image_view *to, *from;
  const int64_t* n;
} copy;

/* Rows [begin, end), counted through images and planes. */
static void copy_rows(void* ctx, int64_t begin, int64_t end) {
  const copy* k = ctx;

  for (int64_t r = begin, run; r < end; r += run) {
    const int64_t at[5] = {r / (k->n[2] * k->n[3]), 0, r / k->n[3] % k->n[2], r % k->n[3], 0};
    run = k->n[3] - at[3] < end - r ? k->n[3] - at[3] : end - r;
    const shmt__image_view to = shmt__image_view_at(k->to, at), from = shmt__image_view_at(k->from, at);
    shmt__image_view_copy(&to, &from, (int64_t[]){1, k->n[1], 1, run, k->n[4]});
  }
}

void shmt__image_view_copy_parallel(const shmt__image_view* to, const shmt__image_view* from, const int64_t* n) {
  copy k = {to, from, n};

  shmt__parallel_for(n[0] * n[2] * n[3], WORTH_SHARING / (n[1] * n[4] + 1) + 1, copy_rows, &k);
}

/* Are the positions of all images evenly apart? Sets the matrix of (channels, positions). */
static bool has_even_positions(const shmt__image_view* p, const int64_t* n, shmt_dtype dtype, shmt__matrix* out) {
  const int64_t item = shmt__dtype_size[dtype];
  shmt__image_view a = *p, same = *p;
  int64_t size[5] = {n[0], n[1], n[2], n[3], n[4]};

  merge_positions(size, a.stride, same.stride);
  if (size[4] == 1) a.stride[4] = a.stride[0];
  *out = (shmt__matrix){p->data, n[1], size[0] * size[4], a.stride[1] / item, a.stride[4] / item};
  return p->dtype == dtype && size[2] * size[3] == 1 && (size[0] == 1 || a.stride[0] == size[4] * a.stride[4]);
}

bool shmt__image_view_is_matrix(const shmt__image_view* p, const int64_t* n, shmt_dtype dtype, shmt__matrix* out) {
  return has_even_positions(p, n, dtype, out) && shmt__matrix_is_blas(*out);
}

shmt__matrix shmt__image_view_as_matrix(const shmt__image_view* p, const int64_t* n, shmt_dtype dtype, void* room) {
  const int64_t item = shmt__dtype_size[dtype], positions = n[2] * n[3] * n[4];
  shmt__image_view to = shmt__image_view_cnhw(room, dtype, n);
  shmt__matrix m;

  if (has_even_positions(p, n, dtype, &m) && (!room || shmt__matrix_is_blas(m))) return m;
  m = (shmt__matrix){room, n[1], n[0] * positions, n[0] * positions, 1};
  /* NHWC stays NHWC: a matrix product reads both orders. */
  if (n[1] > 1 && p->stride[1] == shmt__dtype_size[p->dtype]) {
    const int64_t pixel = n[1] * item;
    to = (shmt__image_view){room, dtype, {positions * pixel, item, n[3] * n[4] * pixel, n[4] * pixel, pixel}};
    m.row_stride = 1;
    m.column_stride = n[1];
  }
  shmt__image_view_copy(&to, p, n);
  return m;
}

bool shmt__image_view_has_dense_rows(const shmt__image_view* p, shmt_dtype dtype, int64_t* step) {
  const int64_t item = shmt__dtype_size[dtype];

  if (p->dtype != dtype || p->stride[4] != item) return false;
  for (int d = 0; d < 3; d++) step[d] = p->stride[1 + d] / item;
  return true;
}
