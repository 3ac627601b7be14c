/* ops/conv/strided_images.c -- boxes of images of any strides, copied and read as matrices. */
#include "ops/conv/strided_images.h"

#include "base/overflow.h"
#include "iter/copy/copy.h"
#include "iter/copy/move.h"
#include "iter/threads.h"

/* A tile that is turned around before it is cast; elements. */
enum { TILE_CHANNELS = 16, TILE_PLACES = 64, MAX_ITEM = 16 };
/* Elements that are worth a thread. */
enum { WORTH_SHARING = 1 << 14 };

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

/* Places that lie at one distance from each other on both sides become one dim, the last. */
static void merge_places(int64_t* n, int64_t* a, int64_t* b) {
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

/* Channels are neighbours here, and places there. */
static void copy_turned(const shmt__image_view* to, char* dst, const shmt__image_view* from, const char* src, int64_t step,
                        int64_t channels, int64_t places) {
  const int64_t item = shmt__dtype_size[from->dtype], row = to->stride[1];
  char tile[TILE_CHANNELS * TILE_PLACES * MAX_ITEM];

  if (to->dtype == from->dtype) {
    shmt__move_transposed(dst, row, src, step, channels, places, item);
    return;
  }
  for (int64_t i = 0; i < channels; i += TILE_CHANNELS) {
    const int64_t height = channels - i < TILE_CHANNELS ? channels - i : TILE_CHANNELS;
    for (int64_t j = 0; j < places; j += TILE_PLACES) {
      const int64_t width = places - j < TILE_PLACES ? places - j : TILE_PLACES;
      shmt__move_transposed(tile, TILE_PLACES * item, src + j * step + i * item, step, height, width, item);
      for (int64_t k = 0; k < height; k++)
        shmt__cast_loop(to->dtype, from->dtype)(dst + (i + k) * row + j * to->stride[4], to->stride[4],
                                                tile + k * TILE_PLACES * item, item, width);
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

  merge_places(size, a.stride, b.stride);
  /* Channels to be neighbours of what are places side by side: the same the other way round. */
  if (a.stride[1] == wide && b.stride[4] == item && a.stride[4] != wide) {
    swap(&size[1], &size[4]);
    swap(&a.stride[1], &a.stride[4]);
    swap(&b.stride[1], &b.stride[4]);
  }
  const int64_t channels = size[1], places = size[4], rows = size[0] * size[2] * size[3];
  const bool turned = channels > 1 && places > 1 && b.stride[1] == item && b.stride[4] >= channels * item &&
                      a.stride[4] == wide;
  const bool is_line = a.stride[1] == wide && b.stride[1] == item;
  const bool are_lines = is_line && a.stride[4] == channels * wide && b.stride[4] == channels * item;
  for (int64_t r = 0; r < rows; r++) {
    const int64_t at[5] = {r / (size[2] * size[3]), 0, r / size[3] % size[2], r % size[3], 0};
    char* const dst = shmt__image_view_at(&a, at).data;
    const char* const src = shmt__image_view_at(&b, at).data;
    if (turned) {
      copy_turned(&a, dst, &b, src, b.stride[4], channels, places);
    } else if (are_lines) {
      cast(dst, wide, src, item, channels * places);
    } else if (is_line) {
      for (int64_t i = 0; i < places; i++)
        cast(dst + i * a.stride[4], wide, src + i * b.stride[4], item, channels);
    } else {
      for (int64_t i = 0; i < channels; i++)
        cast(dst + i * a.stride[1], a.stride[4], src + i * b.stride[1], b.stride[4], places);
    }
  }
}

typedef struct copy {
  const shmt__image_view *to, *from;
  const int64_t* n;
} copy;

/* Rows, counted through images and planes. */
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

/* Are places, images included, at one distance from each other? */
static bool is_line(const shmt__image_view* p, const int64_t* n, shmt_dtype dtype, shmt__matrix* out) {
  const int64_t item = shmt__dtype_size[dtype];
  shmt__image_view a = *p, same = *p;
  int64_t size[5] = {n[0], n[1], n[2], n[3], n[4]};

  merge_places(size, a.stride, same.stride);
  if (size[4] == 1) a.stride[4] = a.stride[0];
  *out = (shmt__matrix){p->data, n[1], size[0] * size[4], a.stride[1] / item, a.stride[4] / item};
  return p->dtype == dtype && size[2] * size[3] == 1 && (size[0] == 1 || a.stride[0] == size[4] * a.stride[4]);
}

bool shmt__image_view_is_matrix(const shmt__image_view* p, const int64_t* n, shmt_dtype dtype, shmt__matrix* out) {
  return is_line(p, n, dtype, out) && shmt__matrix_is_blas(*out);
}

shmt__matrix shmt__image_view_as_matrix(const shmt__image_view* p, const int64_t* n, shmt_dtype dtype, void* room) {
  const int64_t item = shmt__dtype_size[dtype], places = n[2] * n[3] * n[4];
  shmt__image_view to = shmt__image_view_cnhw(room, dtype, n);
  shmt__matrix m;

  if (is_line(p, n, dtype, &m) && (!room || shmt__matrix_is_blas(m))) return m;
  m = (shmt__matrix){room, n[1], n[0] * places, n[0] * places, 1};
  /* Channels that are neighbours stay so: a product reads them either way. */
  if (n[1] > 1 && p->stride[1] == shmt__dtype_size[p->dtype]) {
    const int64_t line = n[1] * item;
    to = (shmt__image_view){room, dtype, {places * line, item, n[3] * n[4] * line, n[4] * line, line}};
    m.row_stride = 1;
    m.column_stride = n[1];
  }
  shmt__image_view_copy(&to, p, n);
  return m;
}
