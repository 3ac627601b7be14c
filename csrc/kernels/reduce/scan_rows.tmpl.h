/* kernels/reduce/scan_rows.tmpl.h -- cumsum and cumprod of many rows at once, one lane for each row. One dtype.
 *
 * For short rows, where a loop along each row would cost more to start than to run, and for rows that are columns in
 * memory. data: out, x; strides: bytes from row to row; n rows; ctx: shmt__scan_args.
 */
#include "kernels/template.h"
#include "kernels/reduce/scan.h"

#if SHMT_IS_FLOATING
#define STATE double /* as in kernels/reduce/scan.tmpl.h */
#else
#define STATE uint64_t
#endif

enum { FN(row_tile) = 64, FN(chains) = 4 };

/* Scans N_ROWS rows, each with a running result that stays in a register. */
#define SCAN_CHAINS(N_ROWS, BEGIN, STEP)                                          \
  {                                                                               \
    STATE s[N_ROWS];                                                              \
    for (int k = 0; k < (N_ROWS); k++) s[k] = BEGIN;                              \
    for (int64_t i = 0; i < shape->length; i++) {                                 \
      const char* const from = x + i * shape->steps[1];                           \
      char* const to = out + i * shape->steps[0];                                 \
      _Pragma("GCC unroll 4") for (int k = 0; k < (N_ROWS); k++) {                \
        s[k] = s[k] STEP (STATE) SHMT_LOAD(SHMT_AT(const T, from, strides[1], k)); \
        SHMT_AT(T, to, strides[0], k) = SHMT_STORE((C)s[k]);                      \
      }                                                                           \
    }                                                                             \
    first += (N_ROWS);                                                            \
    x += (N_ROWS) * strides[1];                                                   \
    out += (N_ROWS) * strides[0];                                                 \
  }

/* Scans rows that are neighbours in memory: their running results form vectors. */
#define SCAN_ROW_TILE(BEGIN, STEP)                                                    \
  {                                                                                   \
    const int64_t rows = n - first < FN(row_tile) ? n - first : FN(row_tile);         \
    STATE s[FN(row_tile)];                                                            \
    for (int64_t r = 0; r < rows; r++) s[r] = BEGIN;                                  \
    for (int64_t i = 0; i < shape->length; i++) {                                     \
      const T* const from = (const T*)(const void*)(x + i * shape->steps[1]) + first; \
      T* const to = (T*)(void*)(out + i * shape->steps[0]) + first;                   \
      SHMT_IVDEP for (int64_t r = 0; r < rows; r++) {                                 \
        s[r] = s[r] STEP (STATE) SHMT_LOAD(from[r]);                                  \
        to[r] = SHMT_STORE((C)s[r]);                                                  \
      }                                                                               \
    }                                                                                 \
    first += rows;                                                                    \
  }

#define SCAN_ROWS(NAME, BEGIN, STEP)                                                            \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) { \
    const shmt__scan_args* shape = ctx;                                                         \
    char* out = data[0];                                                                        \
    const char* x = data[1];                                                                    \
    int64_t first = 0;                                                                          \
    if (strides[0] == (int64_t)sizeof(T) && strides[1] == (int64_t)sizeof(T))                   \
      while (first < n) SCAN_ROW_TILE(BEGIN, STEP)                                              \
    while (first + FN(chains) <= n) SCAN_CHAINS(FN(chains), BEGIN, STEP)                        \
    while (first < n) SCAN_CHAINS(1, BEGIN, STEP)                                               \
  }
SCAN_ROWS(cumsum_rows, 0, +)
SCAN_ROWS(cumprod_rows, 1, *)
#undef SCAN_ROWS
#undef SCAN_ROW_TILE
#undef SCAN_CHAINS
#undef STATE
