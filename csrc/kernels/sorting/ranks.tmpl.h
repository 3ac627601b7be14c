/* kernels/sorting/ranks.tmpl.h -- finds the key of a rank, one dtype. For the templates that select, which include
 * kernels/sorting/keys.tmpl.h. */
enum { FN(stretch) = 128, FN(step) = 32, FN(group) = 8 };

/* How many elements of a strided slice are gathered and examined together. */
enum { FN(together) = 1024 };

static __attribute__((noinline)) const T* FN(gather)(const char* x, int64_t step, int64_t n, T* room) {
  for (int64_t i = 0; i < n; i++) room[i] = *(const T*)(const void*)(x + i * step);
  return room;
}

/* n elements, `step` bytes apart: in place when they are dense, otherwise gathered in `room`. */
static inline const T* FN(bring_together)(const char* x, int64_t step, int64_t n, T* room) {
  return step == sizeof(T) ? (const T*)(const void*)x : FN(gather)(x, step, n, room);
}

/* Is one of `group` flags set? */
static inline bool FN(any_of_group)(const uint8_t* flags) {
  uint64_t all;
  memcpy(&all, flags, sizeof all);
  return all != 0;
}

/* So few keys are all compared with each other. */
enum { FN(few) = 32 };

/* The key of rank `rank` among n >= 1 keys; *below: how many keys are less. The keys have room for 64 bytes more.
 * rank_of_few is for at most `few` keys; rank_of_keys is for any number, and reorders them. (In
 * kernels/sorting/select.tmpl.h.) */
KEY SHMT_UNSIGNED_LOOP(rank_of_few)(const KEY* keys, int64_t n, int64_t rank, int64_t* below);
KEY SHMT_UNSIGNED_LOOP(rank_of_keys)(KEY* keys, int64_t n, int64_t rank, int64_t* below);
