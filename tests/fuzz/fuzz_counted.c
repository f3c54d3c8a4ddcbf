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

enum { RUN = 64 };

/* Queries n entries, at most RUN, with all variants. They are found if the set is sound and
 * fingerprints are hashes. */
static void query(const struct counted_set *set, const struct counted_entry *e, size_t n,
                  bool sound)
{
    uint64_t hash[RUN], count[RUN], first = 0, len = set->len;
    bool exact = set->counted.bits == 64 && sound;
    for (size_t i = 0; i < n; i++)
        hash[i] = e[i].value;
    for (const struct variant *const *v = counted_variants.all; *v != NULL; v++) {
        uint64_t present = 0;
        if (!variant_use(&counted_variants, (*v)->name))
            continue;
        counted_query(set, hash, n, &present);
        MUST(v == counted_variants.all || present == first);
        first = present;
    }
    counted_query_counts(set, hash, n, count);
    for (size_t i = 0; exact && i < n; i++)
        MUST((first >> i & 1) == 1 && count[i] == e[i].count);
    MUST(counted_pages(set, hash, 1, inside, &len));
}

/* Reads all. Returns whether it is a set. */
static bool read_all(const struct counted_set *set, bool sound, struct counted_entries *all)
{
    struct counted_sums read;
    struct err err;
    bool ok = counted_read(set, all, &read, &err);
    MUST(all->n <= 8 * set->len && (!ok || all->n == read.entries));
    for (size_t i = 0; i < all->n; i++) {
        MUST(i == 0 || all->at[i].value > all->at[i - 1].value);
        MUST(all->at[i].value <= counted_top(&set->counted) && all->at[i].count > 0);
    }
    for (size_t i = 0; i < all->n; i += RUN)
        query(set, all->at + i, all->n - i < RUN ? all->n - i : RUN, sound);
    return ok && read.entries == set->counted.entries && read.total == set->counted.total;
}

static void encode_again(const struct counted_set *set, const struct counted_entries *all)
{
    struct counted_memory made;
    struct counted_entries got;
    struct counted_sums read;
    struct err err;
    MUST(counted_make(&made, &set->counted, all->at, all->n, &err));
    MUST(memcmp(&made.counted, &set->counted, sizeof made.counted) == 0);
    struct counted_set again = counted_set(&made.counted, made.data, made.len);
    MUST(counted_read(&again, &got, &read, &err) && got.n == all->n);
    MUST(got.n == 0 || memcmp(got.at, all->at, got.n * sizeof *got.at) == 0);
    free(got.at);
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
    struct counted_entries all;
    bool is_set = read_all(&set, false, &all);
    free(all.at);
    sound &= counted_check_directory(&set, &err);
    if (is_set && sound) {
        MUST(read_all(&set, true, &all));
        encode_again(&set, &all);
        free(all.at);
    }
    struct counted_entry random[RUN];
    for (unsigned i = 0; i < RUN; i++)
        random[i] = (struct counted_entry){i * 0x9e3779b97f4a7c15, 1};
    query(&set, random, RUN, false);
    free(copy);
    return 0;
}
