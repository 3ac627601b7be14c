/* ops/matmul/gemm_amx.c -- products of bfloat16 matrices on AMX tiles.
 *
 * Note [AMX tiles]
 * tdpbf16ps multiplies 16 rows of 16 pairs of a by 16 pairs of rows of 16 columns of b, and adds to 16 x 16 sums. Two
 * tiles of a and two of b make four tiles of sums, which stay in the tile registers for all of k, or for a block of it.
 * Tiles of b come from panels (Note [VNNI pairs] in ops/matmul/gemm_bfloat16_packing.h). Tiles of a are read where they
 * lie if rows are dense and whole; else they are packed in strips of 32 rows. A strip and a panel are both filled up
 * with zeros, so that an infinity in one never meets a missing element of the other.
 *
 * k is as long as a strip and a panel both fit the first-level cache. A longer k is cut: then the sums of a block of c
 * stay in memory while the blocks of k pass by.
 *
 * Tile registers belong to a thread's state while they are in use. Every product leaves them empty, so that switching
 * threads costs nothing.
 */
#include "ops/matmul/gemm_amx.h"

#include "base/sizes.h"
#include "generated/loops.h"
#include "os/cpu.h"
#include "ops/matmul/gemm_bfloat16_packing.h"
#include "ops/matmul/gemm_half.h"
#include "storage/allocator.h"

#include <string.h>

#if defined(__x86_64__)

#define AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c,fma,avx512bf16")))
#define AMX __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c,fma,avx512bf16,amx-tile,amx-bf16")))

enum {
  ITEM = SHMT_VNNI_ITEM,
  LANES = SHMT_VNNI_LANES,
  SIDE = 32,                     /* rows of a strip, columns of a panel, and elements along k of a step */
  ROW = 64,                      /* bytes of a row of a tile: 32 elements, 16 pairs, or 16 sums */
  STEP = SIDE * ROW,             /* bytes of a strip or a panel along a step */
  SUMS = SIDE * SIDE,            /* of a strip with a panel */
  DEPTH = 320,                   /* the longest k that is not cut: strips and panels fit the first-level cache */
  PACKED_BYTES = 128 << 10,      /* of strips that are packed together */
  READ_BYTES = 1 << 20,          /* of rows of a that all panels read: they fit the second-level cache */
  ROWS = 512, ROWS_PACKED = 128, /* of a block of sums */
  SUMS_OF_BLOCK = 32 << 10,
};

bool shmt__gemm_has_amx(void) {
  return shmt__cpu_level == SHMT_CPU_V4 && __builtin_cpu_supports("avx512bf16") && shmt__os_allow_amx();
}

/* The size of the pieces when n is cut into the fewest pieces of about the same size, at most `most`; a multiple of
 * SIDE. */
static int64_t piece_of(int64_t n, int64_t most) {
  const int64_t pieces = (n + most - 1) / most;
  return shmt__round_up((n + pieces - 1) / pieces, SIDE);
}

/* How a product is cut, and where its pieces are. */
typedef struct plan {
  shmt__matrix a, b, c;
  int64_t item;                 /* of c */
  shmt__vnni_epilogue to;       /* alpha and beta */
  int64_t rows, columns, depth; /* of a block */
  bool reads_rows;              /* whole strips of a are not packed */
  char* packed;                 /* strips of a block, or only its last */
  uint32_t* panel;
  float* sums;                  /* of a block; one strip with one panel when k is not cut */
} plan;

/* --- packing ------------------------------------------------------------------------ */

AVX512_BF16 void shmt__amx_pack_panel(shmt__matrix b, uint32_t* to) {
  const int64_t pairs = (b.rows + 1) / 2, whole = shmt__round_up(pairs, LANES);

  shmt__vnni_pack_panel(b, to);
  memset(to + pairs * SIDE, 0, (size_t)((whole - pairs) * SIDE) * sizeof *to);
}

/* Pack at most 32 rows of a, in steps of 32 rows of 16 pairs. */
static AVX512_BF16 void pack_strip(shmt__matrix a, char* to) {
  const bool is_dense = a.column_stride == 1 || a.columns == 1;

  for (int64_t k = 0; k < a.columns; k += SIDE, to += STEP) {
    const shmt__matrix step = shmt__matrix16_block(a, 0, SIDE, k, SIDE);
    const __mmask32 mask = shmt__vnni_mask(step.columns);
    _Alignas(64) uint32_t transposed[SIDE / 2 * SIDE];
    __m512i r[LANES];
    if (is_dense) {
      for (int64_t i = 0; i < SIDE; i++)
        _mm512_storeu_si512(to + i * ROW, i < a.rows
                                              ? _mm512_maskz_loadu_epi16(mask, step.data + i * a.row_stride * ITEM)
                                              : _mm512_setzero_si512());
      continue;
    }
    shmt__amx_pack_panel(shmt__matrix_transposed(step), transposed);
    for (int64_t half = 0; half < 2; half++) {
      for (int64_t i = 0; i < LANES; i++) r[i] = _mm512_load_si512(transposed + i * SIDE + half * LANES);
      shmt__vnni_transpose(r);
      for (int64_t i = 0; i < LANES; i++) _mm512_storeu_si512(to + (half * LANES + i) * ROW, r[i]);
    }
  }
}

/* --- products ----------------------------------------------------------------------- */

AMX void shmt__amx_begin(void) {
  struct {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } shape = {.palette = 1};

  for (int t = 0; t < 8; t++) {
    shape.row_bytes[t] = ROW;
    shape.rows[t] = LANES;
  }
  __asm__ volatile("" : : : "memory");
  _tile_loadconfig(&shape);
}

AMX void shmt__amx_end(void) { _tile_release(); }

AMX void shmt__amx_multiply(const shmt__amx_strip* a, const uint32_t* panel, int64_t n, float* sums, bool adds) {
  const char *b = (const char*)panel, *low = a->data, *high = a->data + LANES * a->row;
  const int64_t row = a->row, width = 2 * ROW;
  float* const lower = sums + LANES * SIDE;

  /* The loads' inline assembly does not say that it reads memory. */
  __asm__ volatile("" : : : "memory");
  if (adds) {
    _tile_loadd(0, sums, width);
    _tile_loadd(1, sums + LANES, width);
    _tile_loadd(2, lower, width);
    _tile_loadd(3, lower + LANES, width);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  if (a->rows > LANES) {
    for (int64_t s = 0; s < n; s++, b += STEP, low += a->step, high += a->step) {
      _tile_loadd(4, low, row);
      _tile_loadd(6, b, width);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, b + ROW, width);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, high, row);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  } else {
    for (int64_t s = 0; s < n; s++, b += STEP, low += a->step) {
      _tile_loadd(4, low, row);
      _tile_loadd(6, b, width);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, b + ROW, width);
      _tile_dpbf16ps(1, 4, 7);
    }
  }
  _tile_stored(0, sums, width);
  _tile_stored(1, sums + LANES, width);
  if (a->rows <= LANES) return;
  _tile_stored(2, lower, width);
  _tile_stored(3, lower + LANES, width);
}

/* Store rows of sums in c. Sums of tile registers are never subnormal, so the processor's own rounding is right. */
static AVX512_BF16 void store_product(const plan* p, const float* sums, int64_t row, int64_t rows, int64_t column) {
  const int64_t columns = shmt__min_i64(SIDE, p->c.columns - column);
  const bool is_plain = p->to.alpha == 1 && p->to.beta == 0 && !p->to.is_wide;
  const __mmask32 mask = shmt__vnni_mask(columns);
  char* to = p->c.data + (row * p->c.row_stride + column) * p->item;

  for (int64_t i = 0; i < rows; i++, to += p->to.row_step, sums += SIDE) {
    const __m512 first = _mm512_load_ps(sums), second = _mm512_load_ps(sums + LANES);
    if (is_plain) {
      _mm512_mask_storeu_epi16(to, mask, (__m512i)_mm512_cvtne2ps_pbh(second, first));
    } else {
      shmt__vnni_store(first, &p->to, to, columns);
      if (columns > LANES) shmt__vnni_store(second, &p->to, to + LANES * p->item, columns - LANES);
    }
  }
}

/* Pack the strips of a block of a that cannot be read where they lie. */
static void pack_block(const plan* p, shmt__matrix a) {
  const int64_t steps = (a.columns + SIDE - 1) / SIDE;
  char* to = p->packed;

  for (int64_t i = 0; i < a.rows; i += SIDE) {
    if (p->reads_rows && a.rows - i >= SIDE) continue;
    pack_strip(shmt__matrix16_block(a, i, SIDE, 0, a.columns), to);
    to += steps * STEP;
  }
}

/* Multiply a block of rows by a panel of columns; at: the panel's number in its block. */
static void run_panel(const plan* p, shmt__matrix a, int64_t row, int64_t column, int64_t at, bool adds, bool is_last) {
  const int64_t steps = (a.columns + SIDE - 1) / SIDE, strips = (a.rows + SIDE - 1) / SIDE;
  const char* packed = p->packed;

  for (int64_t i = 0; i < a.rows; i += SIDE) {
    const int64_t rows = shmt__min_i64(SIDE, a.rows - i);
    float* const sums = p->depth < p->a.columns ? p->sums + (at * strips + i / SIDE) * SUMS : p->sums;
    shmt__amx_strip s = {a.data + i * a.row_stride * ITEM, a.row_stride * ITEM, ROW, rows};
    if (!p->reads_rows || rows < SIDE) {
      s = (shmt__amx_strip){packed, ROW, STEP, rows};
      packed += steps * STEP;
    }
    shmt__amx_multiply(&s, p->panel, steps, sums, adds);
    if (is_last) store_product(p, sums, row + i, rows, column);
  }
}

static void run_gemm_blocks(const plan* p) {
  const int64_t k = p->a.columns;
  shmt__amx_begin();
  for (int64_t i = 0; i < p->c.rows; i += p->rows) {
    for (int64_t j = 0; j < p->c.columns; j += p->columns) {
      for (int64_t d = 0; d < k; d += p->depth) {
        const shmt__matrix a = shmt__matrix16_block(p->a, i, p->rows, d, p->depth);
        const int64_t end = shmt__min_i64(j + p->columns, p->c.columns);
        pack_block(p, a);
        for (int64_t q = j; q < end; q += SIDE) {
          shmt__amx_pack_panel(shmt__matrix16_block(p->b, d, p->depth, q, SIDE), p->panel);
          run_panel(p, a, i, q, (q - j) / SIDE, d > 0, d + p->depth >= k);
        }
      }
    }
  }
  shmt__amx_end();
}

/* Choose the sizes of blocks. */
static void plan_blocks(plan* p) {
  const int64_t k = p->a.columns, strips = shmt__round_up(p->c.rows, SIDE), panels = shmt__round_up(p->c.columns, SIDE);

  p->reads_rows = p->a.column_stride == 1 && k % SIDE == 0;
  p->depth = piece_of(k, DEPTH);
  if (p->depth < k) {
    p->rows = piece_of(strips, p->reads_rows ? ROWS : ROWS_PACKED);
    p->columns = piece_of(panels, SUMS_OF_BLOCK / p->rows / SIDE * SIDE);
  } else {
    p->rows = piece_of(strips, (p->reads_rows ? READ_BYTES : PACKED_BYTES) / (p->depth * ITEM) / SIDE * SIDE);
    p->columns = panels;
  }
}

/* Bytes of the sums that are kept. */
static int64_t sums_bytes(const plan* p) {
  return (p->depth < p->a.columns ? p->rows * p->columns : SUMS) * (int64_t)sizeof(float);
}

static uint64_t room_bytes(const plan* p) {
  const int64_t packed = p->reads_rows ? (p->c.rows % SIDE != 0 ? SIDE : 0) : p->rows;
  return (uint64_t)(sums_bytes(p) + (SIDE + packed) * p->depth * ITEM);
}

static void run_in(plan* p, char* room) {
  p->sums = (float*)(void*)room;
  p->panel = (uint32_t*)(void*)(room + sums_bytes(p));
  p->packed = (char*)p->panel + SIDE * p->depth * ITEM;
  run_gemm_blocks(p);
}

/* Where there is no memory: one strip and one panel at a time. */
static __attribute__((noinline)) void run_on_stack(plan* p) {
  _Alignas(64) char room[SUMS * sizeof(float) + 2 * SIDE * DEPTH * ITEM];

  p->rows = p->columns = SIDE;
  run_in(p, room);
}

void shmt__gemm_amx(float alpha, shmt__matrix a, shmt__matrix b, float beta, shmt__matrix c, bool is_wide) {
  plan p = {.a = a, .b = b, .c = c, .item = is_wide ? (int64_t)sizeof(float) : ITEM};
  void* memory = NULL;

  p.to = (shmt__vnni_epilogue){.row_step = c.row_stride * p.item, .alpha = alpha, .beta = beta, .is_wide = is_wide};
  plan_blocks(&p);
  const uint64_t nbytes = room_bytes(&p);
  if (shmt__alloc(nbytes, &memory) != SHMT_OK) {
    run_on_stack(&p);
    return;
  }
  run_in(&p, memory);
  shmt__dealloc(memory, nbytes);
}

#else

bool shmt__gemm_has_amx(void) { return false; }

void shmt__gemm_amx(float alpha, shmt__matrix a, shmt__matrix b, float beta, shmt__matrix c, bool is_wide) {
  (void)alpha, (void)a, (void)b, (void)beta, (void)c, (void)is_wide;
}

#endif
