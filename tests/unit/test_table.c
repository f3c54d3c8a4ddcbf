/* SPDX-License-Identifier: MIT */
/* Tables of bits: unions, intersections and censuses are those of a plain loop, whatever the size
 * and the number of threads.
 * tags: foreign */
#include "check.h"
#include "kind/bloom/bloom.h"
#include "foreign/classic.h"
#include "kind/table.h"
#include "kind/target.h"
#include "random.h"

#include <unistd.h>

enum { PARTS = 3, SEED = 77 };

struct tables {
    struct layer layer[PARTS], common;
    const struct layer *at[PARTS];
    uint8_t *data[PARTS];
    const uint8_t *in[PARTS];
    uint8_t *any, *all; /* the or and the and of all parts, by a plain loop */
};

static uint8_t *room(size_t len)
{
    uint8_t *p = malloc(len);
    if (p == NULL)
        exit(1);
    return p;
}

static uint64_t bits_of(const struct layer *layer)
{
    const struct table *table = layer->kind->table;
    return table->len != NULL ? table->len(layer) : layer->data_len;
}

/* The or of what folds into a byte. */
static uint8_t folded(const struct tables *t, unsigned part, uint64_t at)
{
    uint64_t unit = t->common.kind->table->unit, q = bits_of(&t->layer[part]) / bits_of(&t->common);
    uint8_t byte = 0;
    for (uint64_t i = 0; i < q; i++)
        byte |= t->data[part][(at / unit * q + i) * unit + at % unit];
    return byte;
}

static void plain_loop(struct tables *t)
{
    for (uint64_t at = 0; at < t->common.data_len; at++) {
        bool is_bits = at < bits_of(&t->common);
        t->any[at] = t->all[at] = is_bits ? folded(t, 0, at) : t->data[0][at];
        for (unsigned p = 1; is_bits && p < PARTS; p++) {
            t->any[at] |= folded(t, p, at);
            t->all[at] &= folded(t, p, at);
        }
    }
}

/* Random bits; in the last word of a classic layer none from m on. */
static void fill(const struct layer *layer, uint8_t *data)
{
    for (uint64_t at = 0; at < layer->data_len; at++)
        data[at] = (uint8_t)(draw() & draw() & draw());
    if (layer->kind->table->len == NULL)
        return;
    for (uint64_t bit = layer->geometry[0]; bit < 8 * bits_of(layer); bit++)
        data[bit / 8] &= (uint8_t) ~(1U << bit % 8);
}

static void make(struct tables *t)
{
    for (unsigned p = 0; p < PARTS; p++) {
        t->at[p] = &t->layer[p];
        t->in[p] = t->data[p] = room((size_t)t->layer[p].data_len);
        fill(t->at[p], t->data[p]);
    }
    t->any = room((size_t)t->common.data_len);
    t->all = room((size_t)t->common.data_len);
    plain_loop(t);
}

static void clear(struct tables *t)
{
    for (unsigned p = 0; p < PARTS; p++)
        free(t->data[p]);
    free(t->any);
    free(t->all);
}

/* From sums over all bits at once. */
static struct census census_of(const struct layer *layer, const uint8_t *data)
{
    uint64_t sums[TABLE_SUMS] = {0};
    struct census census;
    layer->kind->table->tally(layer, data, 0, (size_t)bits_of(layer), sums);
    layer->kind->table->result(layer, sums, &census);
    return census;
}

static bool same(const struct census *a, const struct census *b)
{
    return a->fpr == b->fpr && a->n == b->n && a->n_low == b->n_low && a->n_high == b->n_high &&
           a->lines == b->lines && a->bits == b->bits && a->bits_set == b->bits_set;
}

static void check_census(const struct tables *t, unsigned threads)
{
    struct census got, want = census_of(t->at[1], t->data[1]);
    table_census(t->at[1], t->data[1], threads, &got);
    CHECK(same(&got, &want));
}

/* The pair of two layers is that of the two folded to their size in common. */
static void check_pair(const struct tables *t, unsigned threads)
{
    const struct layer *layer[2] = {&t->common, &t->common};
    uint8_t *data[2];
    struct pair_census got, want;
    for (unsigned p = 0; p < 2; p++) {
        data[p] = room((size_t)t->common.data_len);
        for (uint64_t at = 0; at < bits_of(&t->common); at++)
            data[p][at] = folded(t, p, at);
    }
    bool fits = table_pair(t->at, t->in, threads, &got);
    CHECK(table_pair(layer, (const uint8_t *const[]){data[0], data[1]}, threads, &want) == fits);
    CHECK(!fits || (got.a == want.a && got.b == want.b && got.any == want.any &&
                    got.var_a == want.var_a && got.var_both == want.var_both));
    free(data[0]);
    free(data[1]);
}

/* Is the layer of the file this one, with its checksums? */
static bool is_in_file(const struct target *t, const uint8_t *want)
{
    const struct layer *layer = t->layer;
    size_t len = (size_t)layer->data_len;
    uint8_t *got = room(len);
    bool ok = pread(t->fd, got, len, (off_t)layer->data_off) == (ssize_t)len &&
              memcmp(got, want, len) == 0;
    for (uint64_t page = 0; page < layer_pages(layer); page++) {
        uint8_t b[LAYER_SUM] = {0};
        uint32_t sum =
            layer_page_sum(SEED, page, want + page * LAYER_PAGE, layer_page_len(layer, page));
        ok = ok && pread(t->fd, b, sizeof b, (off_t)(layer->sums_off + page * LAYER_SUM)) ==
                       (ssize_t)sizeof b;
        ok =
            ok && sum == (b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24);
    }
    free(got);
    return ok;
}

static void check_written(const struct tables *t, unsigned threads, bool intersect)
{
    const struct union_of parts = {PARTS, t->at, t->in, intersect};
    const uint8_t *want = intersect ? t->all : t->any;
    struct layer layer = t->common;
    FILE *file = tmpfile();
    struct err err;
    struct census got, taken = census_of(&t->common, want);
    CHECK(file != NULL);
    layer.sums_off = LAYER_PAGE;
    layer.data_off =
        layer.sums_off + (layer_pages(&layer) * LAYER_SUM / LAYER_PAGE + 1) * LAYER_PAGE;
    struct target target = {
        .layer = &layer, .seed = SEED, .fd = fileno(file), .name = "test", .threads = threads};
    MUST(table_write_union(&target, &parts, &got, &err));
    CHECK(same(&got, &taken) && is_in_file(&target, want));
    fclose(file);
}

static void check_all(struct tables *t, bool of_one_size)
{
    random_restart(t->common.data_len);
    make(t);
    for (unsigned threads = 1; threads <= 3; threads += 2) {
        check_census(t, threads);
        check_pair(t, threads);
        check_written(t, threads, false);
        if (of_one_size)
            check_written(t, threads, true);
    }
    clear(t);
}

/* Of the sizes in `units`, whose greatest common divisor is `common`. */
static void check_folded(struct layer like, const uint64_t units[PARTS], uint64_t common)
{
    struct tables t = {.common = like};
    bool of_one_size = true;
    for (unsigned p = 0; p < PARTS; p++) {
        t.layer[p] = like;
        like.kind->table->resize(&t.layer[p], units[p]);
        of_one_size = of_one_size && units[p] == common;
    }
    like.kind->table->resize(&t.common, common);
    check_all(&t, of_one_size);
}

/* 1000 pages are 4 MB: several pieces, and a shorter one. */
TEST(bloom_filters)
{
    for (unsigned lines = 1; lines <= 2; lines++) {
        struct layer like = {0};
        bloom_to(&(struct bloom){1, 6, lines}, &like);
        check_folded(like, (const uint64_t[]){1000, 1000, 1000}, 1000);
        check_folded(like, (const uint64_t[]){600, 300, 900}, 300);
        check_folded(like, (const uint64_t[]){6, 4, 10}, 2);
    }
}

static void check_classic(uint64_t m, uint64_t extra)
{
    struct tables t = {.common = {.kind = &kind_dcso}};
    classic_to(&(struct classic){.m = m, .k = 5, .extra = extra}, &t.common);
    for (unsigned p = 0; p < PARTS; p++)
        t.layer[p] = t.common;
    check_all(&t, true);
}

/* The bytes after the bits are those of the first, whether they are in a chunk of their own or not.
 */
TEST(classic_filters)
{
    check_classic(1, 0);
    check_classic(20000001, 0);
    check_classic(20000001, 3);
    check_classic(1000, 70000);
    check_classic((uint64_t)8 << 20, 2000000);
    check_classic(((uint64_t)8 << 20) - 100, 100);
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    RUN(bloom_filters);
    RUN(classic_filters);
    return check_done();
}
