/* ops/pooling/pool_dims.tmpl.h -- the pooling operators of N = 1, 2 or 3 dims, for pool.c.
 *
 * It is included once for each N, which it undefines.
 */
#define POOL_PASTED(name, n, suffix)   shmt__##name##n##d##suffix
#define POOL_EXPANDED(name, n, suffix) POOL_PASTED(name, n, suffix)
#define POOL(name)                     POOL_EXPANDED(name, N, )
#define POOL_BACKWARD(name)            POOL_EXPANDED(name, N, _backward)
#define POOL_TEXT(n)                   #n
#define POOL_NAMED(name, n)            #name POOL_TEXT(n) "d"
#define POOL_NAME(name)                POOL_NAMED(name, N)

shmt_status POOL(max_pool)(shmt_tensor* self, shmt_ints kernel_size, shmt_ints stride, shmt_ints padding,
                           shmt_ints dilation, bool ceil_mode, shmt_tensor** out, shmt_tensor** indices) {
  const params p = {POOL_NAME(max_pool), N, kernel_size, stride, padding, dilation, ceil_mode};
  shmt__pool_args s;
  int64_t sizes[SHMT_MAX_DIMS];
  SHMT_TRY(fill_args(&p, self, &s, sizes));
  return max_pool(&p, SHMT_LOOP_max_pool, &s, sizes, self, out, indices);
}

shmt_status POOL(avg_pool)(shmt_tensor* self, shmt_ints kernel_size, shmt_ints stride, shmt_ints padding,
                           bool ceil_mode, bool count_include_pad, shmt_opt_int divisor_override, shmt_tensor** out) {
  const params p = {POOL_NAME(avg_pool), N, kernel_size, stride, padding, SHMT_INTS_EMPTY, ceil_mode};
  shmt__pool_args s;
  int64_t sizes[SHMT_MAX_DIMS];
  SHMT_TRY(fill_args(&p, self, &s, sizes));
  if (N == 3) SHMT_TRY(check_volume(&s));
  SHMT_TRY(set_divisor(&s, count_include_pad, divisor_override));
  return average(p.name, N, SHMT_LOOP_avg_pool, &s, sizes, self, out);
}

shmt_status POOL_BACKWARD(avg_pool)(shmt_tensor* grad, shmt_ints sizes, shmt_ints strides, shmt_ints kernel_size,
                                    shmt_ints stride, shmt_ints padding, bool ceil_mode, bool count_include_pad,
                                    shmt_opt_int divisor_override, shmt_tensor** out) {
  const params p = {POOL_NAME(avg_pool), N, kernel_size, stride, padding, SHMT_INTS_EMPTY, ceil_mode};
  SHMT_AUTO(shmt_tensor) like = NULL;
  shmt__pool_args s;
  int64_t out_sizes[SHMT_MAX_DIMS];
  SHMT_TRY(input_like(sizes, strides, grad->dtype, &like));
  SHMT_TRY(fill_args(&p, like, &s, out_sizes));
  SHMT_TRY(set_divisor(&s, count_include_pad, divisor_override));
  return average_backward(p.name, N, SHMT_LOOP_avg_pool_backward, &s, like, grad, (shmt_ints){out_sizes, sizes.len},
                          out);
}

shmt_status POOL(adaptive_avg_pool)(shmt_tensor* self, shmt_ints output_size, shmt_tensor** out) {
  shmt__pool_args s;
  int64_t sizes[SHMT_MAX_DIMS];
  SHMT_TRY(
      fill_adaptive_args(POOL_NAME(adaptive_avg_pool), false, N, shmt__tensor_sizes(self), output_size, &s, sizes));
  if (is_global_average(self, &s)) return global_average(self, N, out);
  if (N == 3) SHMT_TRY(check_channels("adaptive_avg_pool3d", self));
  return average(POOL_NAME(adaptive_avg_pool), N, SHMT_LOOP_adaptive_avg_pool, &s, sizes, self, out);
}

shmt_status POOL_BACKWARD(adaptive_avg_pool)(shmt_tensor* grad, shmt_ints sizes, shmt_ints strides, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) like = NULL;
  shmt__pool_args s;
  int64_t out_sizes[SHMT_MAX_DIMS];
  SHMT_REQUIRE(grad->n_dims > N, SHMT_E_RUNTIME,
               POOL_NAME(adaptive_avg_pool) "_backward(): a gradient of size %s has too few dimensions",
               SHMT_SHAPE_TEXT(grad));
  const shmt_ints output = {grad->sizes + (grad->n_dims - N), N};
  SHMT_TRY(fill_adaptive_args(POOL_NAME(adaptive_avg_pool), false, N, sizes, output, &s, out_sizes));
  SHMT_TRY(input_like(sizes, strides, grad->dtype, &like));
  return average_backward(POOL_NAME(adaptive_avg_pool), N, SHMT_LOOP_adaptive_avg_pool_backward, &s, like, grad,
                          (shmt_ints){out_sizes, sizes.len}, out);
}

shmt_status POOL(adaptive_max_pool)(shmt_tensor* self, shmt_ints output_size, shmt_tensor** out,
                                    shmt_tensor** indices) {
  const params p = {
      POOL_NAME(adaptive_max_pool), N, SHMT_INTS_EMPTY, SHMT_INTS_EMPTY, SHMT_INTS_EMPTY, SHMT_INTS_EMPTY, false};
  shmt__pool_args s;
  int64_t sizes[SHMT_MAX_DIMS];
  SHMT_TRY(fill_adaptive_args(p.name, true, N, shmt__tensor_sizes(self), output_size, &s, sizes));
  SHMT_TRY(check_channels(p.name, self));
  return max_pool(&p, SHMT_LOOP_adaptive_max_pool, &s, sizes, self, out, indices);
}

#undef POOL_PASTED
#undef POOL_EXPANDED
#undef POOL
#undef POOL_BACKWARD
#undef POOL_TEXT
#undef POOL_NAMED
#undef POOL_NAME
#undef N
