/* kernels/random/mt19937.tmpl.h -- MT19937: the next 624 words of state, tempered words, and the swaps of a shuffle.
 * For uint32 only. */
#ifndef SHMT_KERNELS_MT19937_ONCE
#define SHMT_KERNELS_MT19937_ONCE
static inline uint32_t shmt__mt_mix(uint32_t u, uint32_t v) {
  const uint32_t y = (u & 0x80000000u) | (v & 0x7fffffffu);
  return (y >> 1) ^ (-(v & 1u) & 0x9908b0dfu);
}
#endif

/* Advances the state. data: the state. The three parts read words that are not yet, or already, new. */
void SHMT_LOOP(mt_twist)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  T* s = (T*)(void*)data[0];

  (void)strides;
  (void)n;
  (void)ctx;
  _Pragma("GCC ivdep") for (int i = 0; i < 624 - 397; i++) s[i] = s[i + 397] ^ shmt__mt_mix(s[i], s[i + 1]);
  for (int begin = 624 - 397; begin < 623; begin += 224) {
    /* In stretches shorter than the distance to the words they read. */
    const int end = begin + 224 < 623 ? begin + 224 : 623;
    _Pragma("GCC ivdep") for (int i = begin; i < end; i++) s[i] = s[i - 227] ^ shmt__mt_mix(s[i], s[i + 1]);
  }
  s[623] = s[396] ^ shmt__mt_mix(s[623], s[0]);
}

/* Tempers words. data: out, state words. */
void SHMT_LOOP(mt_temper)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  T* out = (T*)(void*)data[0];
  const T* state = (const T*)(const void*)data[1];

  (void)strides;
  (void)ctx;
  _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) {
    T y = state[i];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    out[i] = y ^ (y >> 18);
  }
}

/* out[i] = words[i] modulo left - i: how far behind element i its partner in a swap is. data: out (uint32), words; ctx:
 * left (int64), above n and at most 2^31. In double, which vectorises: from the quotient rounded to nearest, corrected
 * when negative. */
void SHMT_LOOP(mt_swap_steps)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  T* out = (T*)(void*)data[0];
  const T* words = (const T*)(const void*)data[1];
  const double left = (double)*(const int64_t*)ctx, whole = 0x1.8p52;

  (void)strides;
  _Pragma("GCC ivdep") for (int32_t i = 0; i < (int32_t)n; i++) {
    const double v = (double)words[i], range = left - (double)i;
    const double r = v - ((v / range + whole) - whole) * range;
    out[i] = (T)(int32_t)(r < 0 ? r + range : r);
  }
}
