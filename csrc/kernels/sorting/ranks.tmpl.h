/* kernels/sorting/ranks.tmpl.h -- the rank of one among keys, and stretches of elements; for the templates that select, which
 * include kernels/sorting/keys.tmpl.h. One dtype. */
enum { FN(stretch) = 128, FN(step) = 32, FN(group) = 8 };

/* Elements that are looked at together, of lines whose elements do not lie so. */
enum { FN(together) = 1024 };

static __attribute__((noinline)) const T* FN(gather)(const char* x, int64_t step, int64_t n, T* room) {
  for (int64_t i = 0; i < n; i++) room[i] = *(const T*)(const void*)(x + i * step);
  return room;
}

/* n elements, `step` bytes apart: where they lie, or in `room`. */
static inline const T* FN(bring_together)(const char* x, int64_t step, int64_t n, T* room) {
  return step == sizeof(T) ? (const T*)(const void*)x : FN(gather)(x, step, n, room);
}

/* Is one of `group` flags set? */
static inline bool FN(any_of_group)(const uint8_t* flags) {
  uint64_t all;
  memcpy(&all, flags, sizeof all);
  return all != 0;
}

/* Of so few keys every one is compared with every other. */
enum { FN(few) = 32 };

/* The key that `rank` others are before, of n >= 1, which have room for 64 bytes more; how many are less in *below. Of at
 * most `few` keys, and of any number of keys, which are moved about. (In kernels/sorting/select.tmpl.h.) */
KEY SHMT_UNSIGNED_LOOP(rank_of_few)(const KEY* keys, int64_t n, int64_t rank, int64_t* below);
KEY SHMT_UNSIGNED_LOOP(rank_of_keys)(KEY* keys, int64_t n, int64_t rank, int64_t* below);
