#include "embedding.h"

/* out[r] = in[idx[r]] */
static void take(void *ctx, ptrdiff_t begin, ptrdiff_t end)
{
    const EmbeddingJob *job = ctx;
    const size_t nbytes = (size_t)job->C * sizeof(float);
    for (ptrdiff_t r = begin; r < end; r++)
        memcpy(job->out + r * job->C, job->in + job->idx[r] * job->C, nbytes);
}

/* out[idx[r]] += in[r] for all r in order. A thread owns columns, so no two ever write to the same
   place and every element is summed in the order of the indices. */
static void add(void *ctx, ptrdiff_t begin, ptrdiff_t end)
{
    const EmbeddingJob *job = ctx;
    const ptrdiff_t C = job->C, left = begin * ADD_STRIP;
    const ptrdiff_t width = ROW_MIN(C, end * ADD_STRIP) - left;
    for (ptrdiff_t r = 0; r < job->N; r++) {
        const float *restrict from = job->in + r * C + left;
        float *restrict to = job->out + job->idx[r] * C + left;
        if (job->idx[r] == job->skip) continue;
        for (ptrdiff_t i = 0; i < width; i++) to[i] += from[i];
    }
}

const EmbeddingTable MINIDL_CAT(minidl_embedding, ISA_SUFFIX) = {take, add};
