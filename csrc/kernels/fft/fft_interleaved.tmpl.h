/* kernels/fft/fft_interleaved.tmpl.h -- blocks of complex signals in lanes, interleaved: COUNT signals at once.
 * Included by fft_short.tmpl.h. */
/* Loads COUNT elements of each of COUNT dense signals, from element i on. is_negated: conjugate them. */
INLINE void OF(load_square)(const shmt__fft_place* p, int64_t i, NUMBER* to, const bool is_negated) {
  NUMBER v[COUNT];

#pragma GCC unroll 8
  for (int l = 0; l < COUNT; l++) v[l] = OF(get)(FN(re_of)(p, l) + 2 * i);
  OF(transpose)(v);
#pragma GCC unroll 8
  for (int q = 0; q < COUNT; q++) to[i + q] = is_negated ? v[q] * ALTERNATING : v[q];
}

INLINE void OF(store_square)(const shmt__fft_place* p, int64_t i, const NUMBER* from, NUMBER scale,
                             const bool is_scaled) {
  NUMBER v[COUNT];

#pragma GCC unroll 8
  for (int q = 0; q < COUNT; q++) v[q] = is_scaled ? from[i + q] * scale : from[i + q];
  OF(transpose)(v);
#pragma GCC unroll 8
  for (int l = 0; l < COUNT; l++) OF(put)(FN(re_of)(p, l) + 2 * i, v[l]);
}

INLINE void OF(load)(const shmt__fft_place* p, int64_t n, NUMBER* to, const bool is_negated) {
  int64_t i = 0;

  if (p->layout == SHMT_FFT_DENSE) {
    for (; i + COUNT <= n; i += COUNT) OF(load_square)(p, i, to, is_negated);
    if (i < n) OF(load_square)(p, n - COUNT, to, is_negated);
  } else if (p->layout == SHMT_FFT_COLUMNS) {
    const R* from = FN(re_of)(p, 0);
    for (; i < n; i++, from += p->step) to[i] = is_negated ? OF(get)(from) * ALTERNATING : OF(get)(from);
  } else {
    for (; i < n; i++) {
      R* run = (R*)&to[i];
      for (int l = 0; l < COUNT; l++) {
        run[2 * l] = FN(re_of)(p, l)[i * p->step];
        run[2 * l + 1] = is_negated ? -FN(im_of)(p, l)[i * p->step] : FN(im_of)(p, l)[i * p->step];
      }
    }
  }
}

INLINE void OF(store)(const shmt__fft_place* p, int64_t n, const NUMBER* from, NUMBER scale, const bool is_scaled) {
  int64_t i = 0;

  if (p->layout == SHMT_FFT_DENSE) {
    for (; i + COUNT <= n; i += COUNT) OF(store_square)(p, i, from, scale, is_scaled);
    if (i < n) OF(store_square)(p, n - COUNT, from, scale, is_scaled);
  } else if (p->layout == SHMT_FFT_COLUMNS) {
    R* to = FN(re_of)(p, 0);
    for (; i < n; i++, to += p->step) OF(put)(to, is_scaled ? from[i] * scale : from[i]);
  } else {
    for (; i < n; i++) {
      const NUMBER v = from[i] * scale;
      for (int l = 0; l < COUNT; l++) {
        FN(re_of)(p, l)[i * p->step] = v[2 * l];
        FN(im_of)(p, l)[i * p->step] = v[2 * l + 1];
      }
    }
  }
}

/* Transforms a block of signals of at least COUNT elements. */
static void OF(run_block)(const shmt__fft_block* b, NUMBER* x) {
  const int64_t n = b->steps->length;
  const NUMBER scale = (b->is_forward ? (NUMBER){0} + 1 : ALTERNATING) * (R)b->scale;
  NUMBER *y = x + b->room, *work = y + b->room;

  if (b->is_forward)
    OF(load)(&b->in[0], n, x, false);
  else
    OF(load)(&b->in[0], n, x, true);
  const NUMBER* z = OF(transform)(b->steps, x, 1, x, y, work);
  if (b->is_forward && b->scale == 1)
    OF(store)(&b->out[0], n, z, scale, false);
  else
    OF(store)(&b->out[0], n, z, scale, true);
}
