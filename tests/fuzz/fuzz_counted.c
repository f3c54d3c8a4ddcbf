/* SPDX-License-Identifier: MIT
 * Any bytes as a counted set: the first 32 are the geometry, little-endian, the rest the data. No
 * read leaves the data. What is read as a set is found by queries, with its counts, and encoded
 * again it is read as the same.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/counted_make.h"
#include "base/bytes.h"
#include "kind/kind.h"
#include "must.h"

static bool inside(void *ctx, uint64_t page)
{
    MUST(page * 4096 < *(uint64_t *)ctx);
    return true;
}

/* Queries every entry of a run, if fingerprints are hashes; some hashes, if not. */
static void query(const struct counted_set *set, const struct counted_run *run, bool sound)
{
    uint64_t count[COUNTED_RUN], present[COUNTED_RUN / 64] = {0}, len = set->len;
    bool exact = set->counted.bits == 64 && sound;
    counted_query(set, run->value, run->n, present);
    counted_query_counts(set, run->value, run->n, count);
    for (size_t i = 0; i < run->n; i++) {
        if (exact)
            MUST((present[i / 64] >> i % 64 & 1) == 1 && count[i] == run->count[i]);
        if (i % 16 == 0)
            MUST(counted_pages(set, &run->value[i], 1, inside, &len));
    }
}

/* Reads all. Returns whether it is a set. */
static bool read_all(const struct counted_set *set, bool sound)
{
    static struct counted_reader r;
    struct counted_run run;
    struct err err;
    uint64_t entries = 0, previous = 0;
    bool ok;
    counted_read(&r, set);
    while ((ok = counted_next(&r.stream, &run, &err)) && run.n > 0) {
        for (size_t i = 0; i < run.n; i++) {
            MUST(entries + i == 0 || run.value[i] > previous);
            MUST(run.value[i] <= counted_top(&set->counted) && run.count[i] > 0);
            previous = run.value[i];
        }
        entries += run.n;
        query(set, &run, sound);
    }
    MUST(entries <= 8 * set->len);
    return ok && r.entries == set->counted.entries && r.total == set->counted.total;
}

static void encode_again(const struct counted_set *set)
{
    static struct counted_reader a, b;
    struct counted_memory made;
    struct counted_run run_a, run_b;
    struct err err;
    counted_read(&a, set);
    MUST(counted_make(&made, &set->counted, set->counted.entries, &a.stream, &err));
    MUST(made.counted.entries == set->counted.entries && made.counted.total == set->counted.total);
    struct counted_set again = counted_set(&made.counted, made.data, made.len);
    counted_read(&a, set);
    counted_read(&b, &again);
    size_t at_a = 0, at_b = 0;
    run_a.n = run_b.n = 0;
    do {
        if (at_a == run_a.n) {
            MUST(counted_next(&a.stream, &run_a, &err));
            at_a = 0;
        }
        if (at_b == run_b.n) {
            MUST(counted_next(&b.stream, &run_b, &err));
            at_b = 0;
        }
        MUST((run_a.n == 0) == (run_b.n == 0));
        for (; at_a < run_a.n && at_b < run_b.n; at_a++, at_b++)
            MUST(run_a.value[at_a] == run_b.value[at_b] && run_a.count[at_a] == run_b.count[at_b]);
    } while (run_a.n > 0);
    free(made.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct layer layer = {.data_len = size - 32};
    struct err err;
    if (size < 32)
        return 0;
    for (unsigned i = 0; i < 4; i++)
        layer.geometry[i] = get_le64(data + 8 * i);
    if (!counted_check(&layer, &err))
        return 0;
    struct counted c = counted_of(&layer);
    /* Memory of exactly that length. */
    uint8_t *copy = malloc(size - 32 + (size == 32));
    MUST(copy != NULL);
    memcpy(copy, data + 32, size - 32);
    struct counted_set set = counted_set(&c, copy, size - 32);
    bool sound = true;
    for (uint64_t page = 0; page * 4096 < set.directory_len; page++)
        sound &= counted_check_page(&set, page, &err);
    bool is_set = read_all(&set, false);
    sound &= counted_check_directory(&set, &err);
    if (is_set && sound && read_all(&set, true))
        encode_again(&set);
    uint64_t hash[64];
    for (unsigned i = 0; i < 64; i++)
        hash[i] = i * 0x9e3779b97f4a7c15;
    query(&set, &(struct counted_run){.value = hash, .count = hash, .n = 64}, false);
    free(copy);
    return 0;
}
