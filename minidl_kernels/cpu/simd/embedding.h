/* Rows picked by index, and rows added by index. */
#ifndef MINIDL_EMBEDDING_H
#define MINIDL_EMBEDDING_H

#include "rows.h"

typedef struct {
    float *out;         /* OUT [N, C]; [V, C] when adding */
    const float *in;    /* IN  [V, C]; [N, C] when adding */
    const int64_t *idx; /* IN  [N], each in [0, V) */
    ptrdiff_t N, C;
    int64_t skip;       /* an index that is left out when adding, or -1 */
} EmbeddingJob;

/* The items of `take` are rows, of `add` strips of ADD_STRIP columns. */
#define ADD_STRIP 64

typedef struct {
    RowTask take, add;
} EmbeddingTable;

extern const EmbeddingTable minidl_embedding_baseline, minidl_embedding_avx2,
    minidl_embedding_avx512;

#endif
