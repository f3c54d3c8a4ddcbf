/* Keys that are added part by part: the layer and what it says of each are as if they had come one
 * after another. */
#include "store/divide.h"

#include <stdlib.h>

#include "base/bits.h"
#include "design.h"
#include "helpers.h"
#include "random.h"

enum { MOST = DIVIDE_MAX };

static struct helpers helpers;
static uint64_t keys[MOST], skip[MOST / 64 + 1];

/* What the keys are like. */
enum pattern {
    NEW,     /* all differ */
    AGAIN,   /* each comes about four times */
    CROWDED, /* all are in one page */
    N_PATTERNS,
};

static void make_keys(enum pattern pattern)
{
    for (size_t i = 0; i < MOST; i++)
        keys[i] = pattern == AGAIN     ? random_at(draw() % (MOST / 4))
                  : pattern == CROWDED ? random_at(i) >> 40
                                       : random_at(i);
}

/* Which are skipped: none, some, all. */
static void make_skip(unsigned how)
{
    for (size_t w = 0; w <= MOST / 64; w++)
        skip[w] = how == 0 ? 0 : how == 1 ? draw() & draw() : ~UINT64_C(0);
}

/* One after another, in pieces that layers take. */
static void add_in_order(const struct layer *layer, uint8_t *data, size_t n, uint64_t *present)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t one = 0;
        if (bit_of(skip, i))
            continue;
        layer->kind->add(layer, data, hashes_of(keys + i), 1, &one);
        present[i / 64] |= (one & 1) << i % 64;
    }
}

/* Whole pages, as layers are. */
static uint8_t *empty_data(const struct layer *layer)
{
    size_t len = layer_pages(layer) * LAYER_PAGE;
    uint8_t *data = aligned_alloc(LAYER_PAGE, len);
    return data != NULL ? memset(data, 0, len) : NULL;
}

static bool same_for(const struct layer *layer, struct divide *d, size_t n)
{
    uint64_t want[MOST / 64 + 1] = {0}, got[MOST / 64 + 1];
    uint8_t *one = empty_data(layer), *other = empty_data(layer);
    if (one == NULL || other == NULL)
        return false;
    memset(got, 0xa5, sizeof got);
    bool ok = true;
    for (unsigned round = 0; ok && round < 2; round++) { /* they are all known the second time */
        memset(want, 0, sizeof want);
        add_in_order(layer, one, n, want);
        ok = divide_take(d, layer, hashes_of(keys), n, skip);
        if (ok)
            divide_insert(d, &helpers.crew, layer, other, got);
        for (size_t i = 0; ok && i < n; i++)
            ok = bit_of(want, i) == bit_of(got, i);
    }
    ok = ok && memcmp(one, other, layer->data_len) == 0;
    free(one);
    free(other);
    if (!ok)
        printf("# %s, %zu keys, %llu bytes\n", layer->kind->name, n,
               (unsigned long long)layer->data_len);
    return ok;
}

static void check_layer(const struct layer *layer)
{
    static const size_t counts[] = {1, 63, 64, 65, 255, 256, 257, 4096, 5001, MOST - 1, MOST};
    struct divide d = {0};
    for (enum pattern p = 0; p < N_PATTERNS; p++) {
        make_keys(p);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            make_skip((unsigned)i % 3);
            CHECK(same_for(layer, &d, counts[i]));
        }
        make_skip(0);
        CHECK(same_for(layer, &d, MOST));
    }
    divide_free(&d);
}

TEST(bloom_layers_of_all_sizes_get_the_same_bits)
{
    static const uint64_t sizes[] = {100, 3000, 1000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct layer layer;
        CHECK(kind_usual()->size(sizes[i], i == 1 ? 1e-9 : 1e-3, &layer));
        check_layer(&layer);
    }
}

TEST(so_do_those_of_parquet)
{
    struct layout_filter f;
    CHECK(design("parquet", 100000, 1e-3, &f));
    check_layer(&f.layer[0]);
}

TEST(nothing_is_divided_without_help_or_without_a_page)
{
    struct helpers others; /* that wait, and have not been called yet */
    struct crew nobody;
    struct layer layer;
    struct layout_filter f;
    helpers_begin(&others);
    crew_init(&nobody);
    CHECK(kind_usual()->size(1000000, 1e-3, &layer));
    helpers_await(&others.crew);
    CHECK(divide_pays(&layer, &others.crew));
    CHECK(!divide_pays(&layer, &nobody));
    CHECK(!divide_pays(&layer, NULL));
    /* Several pages decide about each key. */
    CHECK(design("guava", 100000, 1e-3, &f));
    CHECK(!divide_pays(&f.layer[0], &others.crew));
    helpers_end(&others);
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    helpers_begin(&helpers);
    RUN(bloom_layers_of_all_sizes_get_the_same_bits);
    RUN(so_do_those_of_parquet);
    RUN(nothing_is_divided_without_help_or_without_a_page);
    helpers_end(&helpers);
    return check_done();
}
