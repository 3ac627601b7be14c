/* iter/copy/permute.c -- moving elements of one dtype between any two orders of dims.
 *
 * Elements that are neighbours in the source seldom are in the result. There are five algorithms; the first that fits
 * is taken:
 *
 * - Short rows that are dense in both are moved as rows, many in one call. A row as long as a larger element is moved
 * as one such element.
 * - When other dims are dense in the result than in the source, tiles are transposed: a few elements along both, so
 * that either side is read and written by vectors and whole cache lines. Several short dims form a side together, such
 * as height and width of a small image. Large planes of two long dims are transposed with streaming stores
 *   (iter/copy/transpose.h).
 * - When the innermost dim is short, the loop runs along the next one (iter/short_rows.h).
 * - Other short rows are moved two dims at a time; the longer dim is the inner one.
 * - Row by row.
 */
#include "iter/copy/permute.h"

#include "iter/cursor.h"
#include "iter/copy/move.h"
#include "iter/short_rows.h"
#include "iter/copy/transpose.h"

enum {
  GRAIN_BYTES = 1 << 17,   /* fewer bytes are not worth another thread */
  ROW_BYTES = 512,         /* in shorter rows a call for each row costs more than its bytes */
  SHORT = 64,              /* elements of a row that cost as much as its call */
  SIDE = 16,               /* elements of the side of a tile: mostly a cache line */
};

typedef struct plane {
  int64_t n, item, strides[2];
} plane;

static void move_planes(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const plane* p = ctx;

  shmt__move_plane(data[0], (const int64_t[]){p->strides[0], strides[0]}, data[1],
                   (const int64_t[]){p->strides[1], strides[1]}, n, p->n, p->item);
}

static void move_rows(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  shmt__move_rows(data[0], strides[0], data[1], strides[1], n, *(const int64_t*)ctx);
}

/* --- rows ---------------------------------------------------------------------------- */

static bool has_rows(const shmt_iter* it, int64_t item) {
  return it->n_dims > 1 && it->operands[0].strides[0] == item && it->operands[1].strides[0] == item;
}

static void exchange(int64_t* v, int a, int b) {
  const int64_t x = v[a];

  v[a] = v[b];
  v[b] = x;
}

static void exchange_dims(shmt_iter* it, int a, int b) {
  exchange(it->sizes, a, b);
  for (int k = 0; k < it->n_operands; k++) exchange(it->operands[k].strides, a, b);
}

/* Remove dim 0, over which the loop itself runs. */
static void drop_innermost(shmt_iter* it) {
  it->numel /= it->sizes[0];
  it->n_dims--;
  for (int d = 0; d < it->n_dims; d++) {
    it->sizes[d] = it->sizes[d + 1];
    for (int k = 0; k < it->n_operands; k++) it->operands[k].strides[d] = it->operands[k].strides[d + 1];
  }
}

static bool is_item(int64_t nbytes) {
  return nbytes == 2 || nbytes == 4 || nbytes == 8 || nbytes == 16;
}

/* --- tiles ----------------------------------------------------------------------------- */

/* Dims that are dense in one of the operands; of the last of them a block is taken at a time. */
typedef struct side {
  int64_t inner;                /* elements of the dims before the last */
  int last;                     /* the last of them; -1: there is none */
  int64_t block;                /* how many of its indices are taken at a time */
  int64_t along[4 * SIDE];      /* byte offsets of the elements of a block in the other operand */
} side;

typedef struct tiling {
  const shmt_iter* it;
  int64_t item;
  side sides[2]; /* of the result, of the source */
  shmt__loop_nest blocks;
} tiling;

/* Add dims until there are enough elements; `taken` has a bit for each dim of a side. */
static void grow_side(const shmt_iter* it, int64_t item, int k, int first, uint64_t* taken, side* s) {
  const int64_t *steps = it->operands[k].strides, *others = it->operands[1 - k].strides;

  s->inner = 1;
  s->last = -1;
  s->along[0] = 0;
  for (int d = first; d >= 0;) {
    *taken |= (uint64_t)1 << d;
    if (s->last >= 0) { /* another dim follows: take all of its indices */
      const int64_t n = s->inner * it->sizes[s->last];
      for (int64_t i = s->inner; i < n; i++) s->along[i] = s->along[i - s->inner] + others[s->last];
      s->inner = n;
    }
    s->last = d;
    d = -1;
    for (int e = 0; e < it->n_dims && s->inner * it->sizes[s->last] < SIDE; e++)
      if (!(*taken >> e & 1) && steps[e] == item * s->inner * it->sizes[s->last]) d = e;
  }
  /* Tiles of 4 x 4 elements need blocks of a multiple of four. */
  s->block = ((SIDE + s->inner - 1) / s->inner + 3) / 4 * 4;
  if (s->block > it->sizes[s->last]) s->block = it->sizes[s->last];
  for (int64_t i = s->inner; i < s->inner * s->block; i++) s->along[i] = s->along[i - s->inner] + others[s->last];
}

/* Are both sides long enough for tiles? */
static bool find_tiles(const shmt_iter* it, int64_t item, tiling* q) {
  const int64_t least = item == 1 ? 8 : 4;
  int dense[2] = {-1, -1};

  for (int d = it->n_dims - 1; d >= 0; d--)
    for (int k = 0; k < 2; k++)
      if (it->operands[k].strides[d] == item) dense[k] = d;
  if (dense[0] < 0 || dense[1] < 0 || dense[0] == dense[1]) return false;
  q->it = it;
  q->item = item;
  uint64_t taken = (uint64_t)1 << dense[0] | (uint64_t)1 << dense[1];
  for (int k = 0; k < 2; k++) {
    grow_side(it, item, k, dense[k], &taken, &q->sides[k]);
    if (q->sides[k].inner * q->sides[k].block < least) return false;
  }
  /* Along the result first, so that its cache lines are written one after the other. */
  shmt__loop_nest* const w = &q->blocks;
  w->n_dims = 0;
  for (int k = 0; k < 2; k++) {
    const side* s = &q->sides[k];
    w->from[w->n_dims] = it->operands[1].strides[s->last] * s->block;
    w->to[w->n_dims] = it->operands[0].strides[s->last] * s->block;
    w->sizes[w->n_dims++] = (it->sizes[s->last] + s->block - 1) / s->block;
  }
  for (int d = 0; d < it->n_dims; d++) {
    if (taken >> d & 1) continue;
    w->from[w->n_dims] = it->operands[1].strides[d];
    w->to[w->n_dims] = it->operands[0].strides[d];
    w->sizes[w->n_dims++] = it->sizes[d];
  }
  return true;
}

/* Elements of block `index` of a side. */
static int64_t count_block(const tiling* q, int k, int64_t index) {
  const side* s = &q->sides[k];
  const int64_t rest = q->it->sizes[s->last] - index * s->block;

  return s->inner * (rest < s->block ? rest : s->block);
}

static void move_tiles(void* arg, int64_t begin, int64_t end) {
  const tiling* q = arg;
  shmt__cursor c;

  shmt__cursor_init(&c, &q->blocks, begin);
  for (; begin < end; begin++, shmt__cursor_next(&c, &q->blocks))
    shmt__transpose_tile(q->it->operands[0].data + c.to, q->sides[1].along, q->it->operands[1].data + c.from,
                         q->sides[0].along, count_block(q, 1, c.at[1]), count_block(q, 0, c.at[0]), q->item);
}

/* --- all ------------------------------------------------------------------------------- */

static void permute_rows(shmt_iter* it, int64_t nbytes) {
  drop_innermost(it);
  if (it->n_dims > 1 && it->sizes[1] > it->sizes[0]) exchange_dims(it, 0, 1);
  (void)shmt__iter_run_costly(it, move_rows, &nbytes, nbytes / 4);
}

static void permute_planes(shmt_iter* it, int64_t item) {
  if (it->sizes[1] > it->sizes[0]) exchange_dims(it, 0, 1);
  const plane p = {it->sizes[0], item, {it->operands[0].strides[0], it->operands[1].strides[0]}};
  drop_innermost(it);
  (void)shmt__iter_run_costly(it, move_planes, &p, p.n);
}

void shmt__permute(shmt_iter* it, int64_t item) {
  const shmt__operand* src = &it->operands[1];
  tiling q;

  if (it->numel == 0) return;
  while (has_rows(it, item) && is_item(it->sizes[0] * item)) {
    item *= it->sizes[0];
    drop_innermost(it);
  }
  if (has_rows(it, item) && it->sizes[0] * item < ROW_BYTES) {
    permute_rows(it, it->sizes[0] * item);
  } else if (find_tiles(it, item, &q)) {
    if (q.sides[0].inner == 1 && q.sides[1].inner == 1 && shmt__transpose(it, item, q.sides[0].last, q.sides[1].last))
      return;
    const int64_t per = q.sides[0].inner * q.sides[0].block * q.sides[1].inner * q.sides[1].block;
    int64_t n = 1;
    for (int d = 0; d < q.blocks.n_dims; d++) n *= q.blocks.sizes[d];
    shmt__parallel_for(n, 1 + GRAIN_BYTES / (per * item), move_tiles, &q);
  } else if (src->strides[0] != item && shmt__iter_has_short_rows(it)) {
    (void)shmt__iter_run_short_rows(it, shmt__move_run, &item);
  } else if (it->n_dims > 1 && it->sizes[0] < SHORT) {
    permute_planes(it, item);
  } else {
    (void)shmt__iter_run(it, shmt__move_run, &item);
  }
}
