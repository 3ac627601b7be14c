/* iter/copy/move.h -- loops that move elements of any dtype, by element size. */
#ifndef SHMT_ITER_COPY_MOVE_H
#define SHMT_ITER_COPY_MOVE_H

#include <stdbool.h>
#include <stdint.h>

/* Move n elements of item bytes (1, 2, 4, 8 or 16); strides in bytes. Where ranges overlap in part (two storages over
 * one foreign buffer), the result is some mixture of old and new elements. */
void shmt__move_elements(char* dst, int64_t dst_stride, const char* src, int64_t src_stride,
                         int64_t n, int64_t item);
/* The same as a shmt__loop: data and strides of the result, then of the source; ctx: an int64_t, the item. */
void shmt__move_run(char* const* data, const int64_t* strides, int64_t n, const void* ctx);
/* The same for rows of n elements: strides[0] within a row, strides[1] from one to the next. */
void shmt__move_plane(char* dst, const int64_t* dst_strides, const char* src, const int64_t* src_strides, int64_t rows,
                      int64_t n, int64_t item);
/* Transpose: dst[i][j] = src[j][i], where j is dense in dst and i in src. dst has rows x columns elements; row
 * strides in bytes. */
void shmt__move_transposed(char* dst, int64_t dst_row, const char* src, int64_t src_row,
                           int64_t rows, int64_t columns, int64_t item);
/* The same where row i of dst is at dst + rows[i] and row j of src at src + columns[j]. */
void shmt__transpose_tile(char* dst, const int64_t* rows, const char* src, const int64_t* columns, int64_t n_rows,
                       int64_t n_columns, int64_t item);
/* n elements of a and n of b, alternating; all dense. item: 1, 2, 4 or 8. */
void shmt__interleave(char* dst, const char* a, const char* b, int64_t n, int64_t item);
/* n rows of nbytes each, of one at least; strides in bytes. Rows do not overlap. */
void shmt__move_rows(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t n, int64_t nbytes);
/* Set n elements to the one at value; streamed: with streaming stores where they are dense. */
void shmt__move_fill(char* dst, int64_t dst_stride, const char* value, int64_t n, int64_t item, bool streamed);

#endif
