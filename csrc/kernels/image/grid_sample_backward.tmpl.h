/* kernels/image/grid_sample_backward.tmpl.h -- gradients of grid_sample, and second derivatives. One dtype.
 *
 * n batch entries of any strides; ctx: shmt__grid_sample_args.
 */
#include "kernels/image/grid_corners.tmpl.h"

/* *x += more, in the dtype of the gradients. */
static inline void FN(add_to)(T* x, ACC more) { *x = SHMT_STORE((C)((ACC)SHMT_LOAD(*x) + more)); }

/* Adds one position's gradient of one channel to the image's gradient at its corners. */
static inline void FN(add_at_corners)(const OF(corner)* corners, const int64_t* offsets, int many, ACC grad,
                                      T* image_grad) {
  for (int k = 0; k < many; k++) FN(add_to)(&image_grad[offsets[k]], corners[k].weight * grad);
}

/* Adds one channel's part of the gradient of one position: how the value changes along each coordinate. */
static inline void FN(add_slopes)(const OF(corner)* corners, const int64_t* offsets, int many, ACC grad, const T* image,
                                  ACC slopes[3]) {
  for (int k = 0; k < many; k++) {
    const ACC x = grad * (ACC)SHMT_LOAD(image[offsets[k]]);
    for (int d = 0; d < 3; d++) slopes[d] += x * corners[k].first[d];
  }
}

/* data: gradients of image (zeros so far) and grid, each NULL if not wanted; gradient of out, image, grid. */
void SHMT_LOOP(grid_sample_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__grid_sample_args* s = ctx;
  const shmt__grid_view* v = s->views;

  (void)strides;
  for (int64_t b = 0; b < n; b++)
    EACH_POSITION(s, at) {
      OF(neighbours) sets[3];
      OF(corner) corners[SHMT_GRID_CORNERS];
      int64_t offsets[SHMT_GRID_CORNERS], to[SHMT_GRID_CORNERS];
      ACC slopes[3] = {0, 0, 0};
      T* image_grad = SHMT_LOOP(operand)(data, s, 0, b, NULL);
      T* grid_grad = SHMT_LOOP(operand)(data, s, 1, b, at);
      const T* grad = SHMT_LOOP(operand)(data, s, 2, b, at);
      const T* image = SHMT_LOOP(operand)(data, s, 3, b, NULL);
      SHMT_LOOP(locate)(s, SHMT_LOOP(operand)(data, s, 4, b, at), v[4].channel, sets);
      const int many = OF(find_corners)(sets, true, NULL, corners);
      SHMT_LOOP(find_offsets)(&v[0], corners, many, to);
      SHMT_LOOP(find_offsets)(&v[3], corners, many, offsets);
      for (int64_t c = 0; c < s->channels; c++) {
        const ACC g = (ACC)SHMT_LOAD(grad[c * v[2].channel]);
        if (image_grad) FN(add_at_corners)(corners, to, many, g, image_grad + c * v[0].channel);
        if (grid_grad) FN(add_slopes)(corners, offsets, many, g, image + c * v[3].channel, slopes);
      }
      for (int d = 0; grid_grad && d < s->n; d++) grid_grad[d * v[1].channel] = SHMT_STORE((C)slopes[d]);
    }
}

/* The operands of the second derivatives at one batch entry and position, in the order of data. */
typedef struct FN(second_operands) {
  T *to_grad, *to_image, *to_grid;
  const T *image_tangent, *grid_tangent; /* the gradients of (the gradients of image and grid) */
  const T *grad, *image, *grid;
} FN(second_operands);

static inline FN(second_operands) FN(find_second_operands)(char* const* data, const shmt__grid_sample_args* s,
                                                           int64_t b, const int64_t* at) {
  return (FN(second_operands)){.to_grad = SHMT_LOOP(operand)(data, s, 0, b, at),
                               .to_image = SHMT_LOOP(operand)(data, s, 1, b, NULL),
                               .to_grid = SHMT_LOOP(operand)(data, s, 2, b, at),
                               .image_tangent = SHMT_LOOP(operand)(data, s, 3, b, NULL),
                               .grid_tangent = SHMT_LOOP(operand)(data, s, 4, b, at),
                               .grad = SHMT_LOOP(operand)(data, s, 5, b, at),
                               .image = SHMT_LOOP(operand)(data, s, 6, b, NULL),
                               .grid = SHMT_LOOP(operand)(data, s, 7, b, at)};
}

/* The second derivatives of one position in channel c: stores that of grad, adds to that of image, and adds to sums,
 * from which that of grid is made. */
static inline void FN(add_second)(const shmt__grid_sample_args* s, const FN(second_operands) * o,
                                  const OF(corner)* corners, int many, int64_t c, ACC sums[3]) {
  const shmt__grid_view* v = s->views;
  const ACC g = (ACC)SHMT_LOAD(o->grad[c * v[5].channel]);
  ACC sum = 0;

  for (int i = 0; i < many; i++) {
    const OF(corner)* k = &corners[i];
    const ACC x = (ACC)SHMT_LOAD(o->image[c * v[6].channel + shmt__grid_offset(&v[6], k->at)]);
    const ACC w = o->image_tangent
                      ? (ACC)SHMT_LOAD(o->image_tangent[c * v[3].channel + shmt__grid_offset(&v[3], k->at)])
                      : 0;
    sum += k->weight * w + k->along * x;
    for (int d = 0; d < s->n; d++) sums[d] += g * (k->first[d] * w + k->second[d] * x);
    if (o->to_image) FN(add_to)(&o->to_image[c * v[1].channel + shmt__grid_offset(&v[1], k->at)], k->along * g);
  }
  if (o->to_grad) o->to_grad[c * v[0].channel] = SHMT_STORE((C)sum);
}

/* data: gradients of (the gradient of out), of image (zeros so far) and of grid, each NULL if not wanted; gradients of
 * (the gradients of image and grid), each NULL if it is zero; gradient of out, image, grid. */
void SHMT_LOOP(grid_sample_double_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__grid_sample_args* s = ctx;
  const shmt__grid_view* v = s->views;

  (void)strides;
  for (int64_t b = 0; b < n; b++)
    EACH_POSITION(s, at) {
      const FN(second_operands) o = FN(find_second_operands)(data, s, b, at);
      OF(neighbours) sets[3];
      OF(corner) corners[SHMT_GRID_CORNERS];
      ACC along[3] = {0, 0, 0}, sums[3] = {0, 0, 0};
      for (int d = 0; o.grid_tangent && d < s->n; d++) along[d] = (ACC)SHMT_LOAD(o.grid_tangent[d * v[4].channel]);
      SHMT_LOOP(locate)(s, o.grid, v[7].channel, sets);
      const int many = OF(find_corners)(sets, true, along, corners);
      for (int64_t c = 0; c < s->channels; c++) FN(add_second)(s, &o, corners, many, c, sums);
      for (int d = 0; o.to_grid && d < s->n; d++) o.to_grid[d * v[2].channel] = SHMT_STORE((C)sums[d]);
    }
}

#undef EACH_POSITION
#undef OF
