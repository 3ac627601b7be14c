/* kernels/image/grid_sample_backward.tmpl.h -- gradients of grid_sample, and second derivatives. One dtype.
 *
 * n batch entries of any strides; ctx: shmt__grid_sample_args.
 */
#include "kernels/image/grid_corners.tmpl.h"

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
        for (int k = 0; image_grad && k < many; k++) {
          T* one = &image_grad[c * v[0].channel + to[k]];
          *one = SHMT_STORE((C)((ACC)SHMT_LOAD(*one) + corners[k].weight * g));
        }
        for (int k = 0; grid_grad && k < many; k++) {
          const ACC x = g * (ACC)SHMT_LOAD(image[c * v[3].channel + offsets[k]]);
          for (int d = 0; d < 3; d++) slopes[d] += x * corners[k].first[d];
        }
      }
      for (int d = 0; grid_grad && d < s->n; d++) grid_grad[d * v[1].channel] = SHMT_STORE((C)slopes[d]);
    }
}

/* data: gradients of (the gradient of out), of image (zeros so far) and of grid, each NULL if not wanted; gradients of
 * (the gradients of image and grid), each NULL if it is zero; gradient of out, image, grid. */
void SHMT_LOOP(grid_sample_double_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__grid_sample_args* s = ctx;
  const shmt__grid_view* v = s->views;

  (void)strides;
  for (int64_t b = 0; b < n; b++)
    EACH_POSITION(s, at) {
      OF(neighbours) sets[3];
      OF(corner) corners[SHMT_GRID_CORNERS];
      ACC along[3] = {0, 0, 0}, sums[3] = {0, 0, 0};
      T* to_grad = SHMT_LOOP(operand)(data, s, 0, b, at);
      T* to_image = SHMT_LOOP(operand)(data, s, 1, b, NULL);
      T* to_grid = SHMT_LOOP(operand)(data, s, 2, b, at);
      const T* a = SHMT_LOOP(operand)(data, s, 3, b, NULL);
      const T* u = SHMT_LOOP(operand)(data, s, 4, b, at);
      const T* grad = SHMT_LOOP(operand)(data, s, 5, b, at);
      const T* image = SHMT_LOOP(operand)(data, s, 6, b, NULL);
      for (int d = 0; u && d < s->n; d++) along[d] = (ACC)SHMT_LOAD(u[d * v[4].channel]);
      SHMT_LOOP(locate)(s, SHMT_LOOP(operand)(data, s, 7, b, at), v[7].channel, sets);
      const int many = OF(find_corners)(sets, true, along, corners);
      for (int64_t c = 0; c < s->channels; c++) {
        const ACC g = (ACC)SHMT_LOAD(grad[c * v[5].channel]);
        ACC sum = 0;
        for (int i = 0; i < many; i++) {
          const OF(corner)* k = &corners[i];
          const ACC x = (ACC)SHMT_LOAD(image[c * v[6].channel + shmt__grid_offset(&v[6], k->at)]);
          const ACC w = a ? (ACC)SHMT_LOAD(a[c * v[3].channel + shmt__grid_offset(&v[3], k->at)]) : 0;
          sum += k->weight * w + k->along * x;
          for (int d = 0; d < s->n; d++) sums[d] += g * (k->first[d] * w + k->second[d] * x);
          if (to_image) {
            T* one = &to_image[c * v[1].channel + shmt__grid_offset(&v[1], k->at)];
            *one = SHMT_STORE((C)((ACC)SHMT_LOAD(*one) + k->along * g));
          }
        }
        if (to_grad) to_grad[c * v[0].channel] = SHMT_STORE((C)sum);
      }
      for (int d = 0; to_grid && d < s->n; d++) to_grid[d * v[2].channel] = SHMT_STORE((C)sums[d]);
    }
}

#undef EACH_POSITION
#undef OF
