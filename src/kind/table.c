/* SPDX-License-Identifier: MIT */
#include "kind/table.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/parallel.h"
#include "kind/target.h"

enum {
    PIECE = 1 << 20, /* bytes that a thread takes at a time: large, so that this costs little */
    CHUNK = 1 << 16, /* bytes of a union made at a time, on the stack */
};

struct table_job {
    const struct layer *layer; /* the union */
    const struct union_of *parts;
    const struct target *target; /* NULL: nothing is written */
    bool in_place;               /* the only part is the union; only to count */
    uint64_t len;                /* bytes of it that are made */
    pthread_mutex_t lock;
    void *sums; /* over the pieces done */
};

static const struct table *table_of(const struct layer *layer)
{
    return layer->kind->table;
}

static uint64_t bits_of(const struct layer *layer)
{
    return table_of(layer)->len != NULL ? table_of(layer)->len(layer) : layer->data_len;
}

static void combine(uint8_t *to, const uint8_t *from, size_t len, bool intersect)
{
    for (size_t i = 0; i < len; i += 8) {
        uint64_t a, b;
        memcpy(&a, to + i, sizeof a);
        memcpy(&b, from + i, sizeof b);
        a = intersect ? a & b : a | b;
        memcpy(to + i, &a, sizeof a);
    }
}

/* How many of `len` bytes from offset `at` on are bits? The others follow. */
static size_t bits_within(const struct layer *layer, uint64_t at, size_t len)
{
    uint64_t bits = bits_of(layer), left = at < bits ? bits - at : 0;
    return left < len ? (size_t)left : len;
}

bool table_unite(const struct layer *a, const struct layer *b, struct layer *out)
{
    const bool same = a->n_design == b->n_design && a->fpr_design == b->fpr_design;
    if (!table_of(a)->alike(a, b) || (a->kind->uniting->same_design && !same))
        return false;
    *out = bits_of(a) <= bits_of(b) ? *a : *b;
    return bits_of(a) % bits_of(b) == 0 || bits_of(b) % bits_of(a) == 0;
}

void table_make(const struct layer *layer, const struct union_of *parts, uint64_t at, size_t len,
                uint8_t *out)
{
    size_t bits = bits_within(layer, at, len);
    memset(out, parts->intersect ? 0xff : 0, bits);
    for (unsigned p = 0; p < parts->n; p++) {
        uint64_t folded = bits_of(parts->layer[p]) / bits_of(layer);
        size_t step = folded == 1 ? bits : table_of(layer)->unit;
        const uint8_t *from = parts->data[p] + at * folded;
        for (size_t to = 0; to < bits; to += step)
            for (uint64_t i = 0; i < folded; i++, from += step)
                combine(out + to, from, step, parts->intersect);
    }
    memcpy(out + bits, parts->data[0] + at + bits, len - bits);
}

static bool do_piece(void *ctx, unsigned worker, uint64_t i, struct err *err)
{
    struct table_job *job = ctx;
    uint64_t sums[TABLE_SUMS] = {0}, at = i * PIECE;
    uint64_t end = job->len - at < PIECE ? job->len : at + PIECE;
    size_t step = job->in_place ? PIECE : CHUNK, n;
    (void)worker;
    for (; at < end; at += n) {
        uint8_t chunk[CHUNK];
        const uint8_t *data = job->in_place ? job->parts->data[0] + at : chunk;
        n = end - at < step ? (size_t)(end - at) : step;
        if (!job->in_place)
            table_make(job->layer, job->parts, at, n, chunk);
        table_of(job->layer)->tally(job->layer, data, at, bits_within(job->layer, at, n), sums);
        if (job->target != NULL && !target_write_pages(job->target, data, n, at, err))
            return false;
    }
    if (job->target != NULL)
        target_write_back(job->target, end - i * PIECE, i * PIECE);
    pthread_mutex_lock(&job->lock);
    table_of(job->layer)->add(job->sums, sums);
    pthread_mutex_unlock(&job->lock);
    return true;
}

static bool run_job(struct table_job *job, unsigned threads, struct err *err)
{
    job->len = job->target == NULL ? bits_of(job->layer) : job->layer->data_len;
    pthread_mutex_init(&job->lock, NULL);
    bool ok = parallel_try(threads, (job->len + PIECE - 1) / PIECE, do_piece, job, err);
    pthread_mutex_destroy(&job->lock);
    return ok;
}

/* ---- Censuses. */

uint64_t table_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The largest layer to which both fold. */
static struct layer common_layer(const struct layer *a, const struct layer *b)
{
    struct layer layer = *a;
    const struct table *table = table_of(a);
    if (table->resize != NULL)
        table->resize(&layer, table_divisor(bits_of(a), bits_of(b)) / table->unit);
    return layer;
}

/* Sums over a union as large as `layer`. */
static void count(const struct layer *layer, const struct union_of *parts, unsigned threads,
                  uint64_t *sums)
{
    struct table_job job = {.layer = layer, .parts = parts, .sums = sums};
    struct err none;
    job.in_place = parts->n == 1 && bits_of(layer) == bits_of(parts->layer[0]);
    memset(sums, 0, TABLE_SUMS * sizeof *sums);
    run_job(&job, threads, &none);
}

void table_census_folded(const struct layer *layer, const uint8_t *data, const struct layer *folded,
                         unsigned threads, struct census *out)
{
    uint64_t sums[TABLE_SUMS];
    count(folded, &(struct union_of){.n = 1, .layer = &layer, .data = &data}, threads, sums);
    table_of(folded)->result(folded, sums, out);
}

void table_census(const struct layer *layer, const uint8_t *data, unsigned threads,
                  struct census *out)
{
    table_census_folded(layer, data, layer, threads, out);
}

bool table_pair(const struct layer *const *layer, const uint8_t *const *data, unsigned threads,
                struct pair_census *out)
{
    const struct union_of parts[3] = {
        {.n = 1, .layer = layer, .data = data},
        {.n = 1, .layer = layer + 1, .data = data + 1},
        {.n = 2, .layer = layer, .data = data},
    };
    const struct layer common = common_layer(layer[0], layer[1]);
    const struct table *table = table_of(&common);
    double n[3];
    for (unsigned i = 0; i < 3; i++) {
        uint64_t sums[TABLE_SUMS];
        count(&common, &parts[i], threads, sums);
        n[i] = table->keys(&common, sums);
        if (isnan(n[i]))
            return false;
    }
    *out = (struct pair_census){
        .a = n[0],
        .b = n[1],
        .any = n[2],
        .var_a = table->variance(&common, n[0]),
        .var_b = table->variance(&common, n[1]),
        .var_any = table->variance(&common, n[2]),
        .var_both = table->variance(&common, fmax(0, n[0] + n[1] - n[2])),
    };
    return true;
}

/* ---- Writing. */

bool table_write_union(const struct target *target, const struct union_of *parts,
                       struct census *census, struct err *err)
{
    uint64_t sums[TABLE_SUMS] = {0};
    struct table_job job = {.layer = target->layer, .parts = parts, .target = target, .sums = sums};
    if (!run_job(&job, target->threads, err))
        return false;
    table_of(job.layer)->result(job.layer, sums, census);
    return true;
}
