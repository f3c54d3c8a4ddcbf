/* SPDX-License-Identifier: MIT
 * Chains of RedisBloom: what its modules wrote (tests/vectors/redisbloom) comes out when the same
 * keys are added, in a file and in memory; sizes; chains that are full; counts after a crash.
 *
 * tags: portable foreign
 */
#include "foreign/classic.h"

#include <math.h>

#include "base/bytes.h"
#include "check.h"
#include "child.h"
#include "random.h"
#include "scratchdir.h"
#include "file/chain.h"
#include "write/assembly.h"
#include "foreign/foreign.h"
#include "file/design.h"
#include "write/repair.h"
#include "file/session.h"
#include "store/store.h"

enum {
    ROOM = 1 << 16, /* bytes of a golden file, at most */
    KEYS = 1000,
    CHAIN = 20, /* bytes of a header, and of a link in it */
    LINK = 53,
    LINK_SIZE = 16, /* offsets in a link */
    LINK_ENTRIES = 44,
};

struct bytes {
    uint8_t data[ROOM];
    size_t len;
};

/* A filter as RedisBloom has it. */
struct dump {
    struct bytes file[LAYOUT_FILES];
};

static FILE *open_golden(const char *name, const char *suffix)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", VECTORS, name, suffix);
    FILE *f = fopen(path, "r");
    if (f == NULL) {
        printf("# no %s\n", path);
        exit(1);
    }
    return f;
}

static struct dump *read_dump(const char *name)
{
    char path[256];
    struct dump *d = calloc(1, sizeof *d);
    for (unsigned i = 0; d != NULL && i < LAYOUT_FILES; i++) {
        snprintf(path, sizeof path, "redisbloom/%s", name);
        FILE *f = open_golden(path, kind_redisbloom.layout->suffix[i]);
        d->file[i].len = fread(d->file[i].data, 1, ROOM, f);
        fclose(f);
    }
    if (d == NULL)
        exit(1);
    return d;
}

/* The keys of the golden filters, hashed for a filter; lane l of key i is at l * KEYS + i. */
static uint64_t golden_hash[2 * KEYS];

static struct hashes golden_keys(const struct layout_filter *filter)
{
    char line[8192];
    FILE *f = open_golden("keys/keys.txt", "");
    for (size_t i = 0; i < KEYS; i++) {
        if (fgets(line, sizeof line, f) == NULL)
            exit(1);
        const char *const key = line;
        size_t len = strcspn(line, "\n");
        filter->hash->keys(&key, &len, 1, &(struct hash_seed){.number = filter->seed},
                           golden_hash + i, KEYS);
    }
    fclose(f);
    return (struct hashes){golden_hash, KEYS, NULL};
}

static bool read_filter(const struct dump *d, const char *text, struct layout_filter *filter,
                        struct layout_bits *bits, struct err *err)
{
    struct layout_spec spec;
    struct layout_foreign in = {.name = {"header", "data"}};
    for (unsigned i = 0; i < LAYOUT_FILES; i++) {
        in.data[i] = d->file[i].data;
        in.len[i] = d->file[i].len;
    }
    return layout_parse(text, &spec, err) && spec.kind->layout->read(&spec, &in, filter, bits, err);
}

static bool append(void *ctx, unsigned file, const void *data, size_t len, struct err *err)
{
    struct bytes *b = &((struct dump *)ctx)->file[file];
    if (len > ROOM - b->len)
        return fail(err, "too long");
    memcpy(b->data + b->len, data, len);
    b->len += len;
    return true;
}

static struct dump *export(const struct store *s)
{
    struct err err;
    struct facts facts;
    struct layout_filter filter;
    struct dump *d = calloc(1, sizeof *d);
    const struct layout_sink sink = {.write = append, .ctx = d};
    store_describe(s, &facts);
    struct header h = *facts.layers.header;
    h.counters = facts.counters;
    MUST(foreign_filter(&h, &filter, &err));
    const uint8_t *data[LAYOUT_LAYERS];
    for (unsigned i = 0; i < h.n_layers; i++)
        data[i] = facts.layers.data[i];
    MUST(kind_redisbloom.layout->write(&filter, data, &sink, &err));
    return d;
}

static bool same(const struct dump *a, const struct dump *b)
{
    for (unsigned i = 0; i < LAYOUT_FILES; i++)
        if (a->file[i].len != b->file[i].len ||
            memcmp(a->file[i].data, b->file[i].data, a->file[i].len) != 0)
            return false;
    return true;
}

/* A filter as a store: in a file, or in memory. Of one with bits, in a file. bits NULL: it is
 * empty.
 */
static struct store *make_store(const struct layout_filter *filter, const struct layout_bits *bits,
                                bool in_file)
{
    struct err err;
    struct header h;
    const struct key_rule rule = {0};
    header_begin_foreign(&h, filter, &rule, true);
    scratchdir_clear();
    if (bits != NULL) {
        struct assembly a = {.out = "s.seen", .threads = 1, .header = h};
        for (unsigned i = 0; i < h.n_layers; i++)
            a.origin[i] = (struct origin){.how = FROM_FOREIGN, .bits = &bits[i]};
        MUST(assembly_begin(&a, &err) && assembly_write(&a, &err) &&
             assembly_measure(&a, false, &err));
        assembly_count(&a, &filter->n_added);
        MUST(assembly_commit(&a, &err));
        assembly_close(&a);
    } else if (in_file) {
        MUST(assembly_empty("s.seen", &h, &err));
    }
    struct store *s =
        in_file ? store_open("s.seen", STORE_WRITE, NULL, &err) : store_in_memory(&h, &err);
    MUST(s != NULL);
    return s;
}

/* Adds keys in pieces of `piece` records. *done: those dealt with. */
static enum add_result add_keys(struct store *s, struct hashes keys, size_t n, size_t piece,
                                size_t *done, struct err *err)
{
    enum add_result result = ADD_OK;
    const struct add_options options = {.threads = 1};
    *done = 0;
    CHECK(did(store_add_begin(s, &options, err), err->text));
    while (result == ADD_OK && *done < n) {
        size_t did_now, now = n - *done < piece ? n - *done : piece;
        uint64_t known[64] = {0};
        result = store_add(s, hashes_from(keys, *done), known, now, &did_now, err);
        *done += did_now;
    }
    struct err end;
    CHECK(did(store_add_end(s, true, &end), end.text));
    CHECK(result != ADD_FAILED);
    return result;
}

/* The chain as it was before the first key: its first link, empty. */
static struct dump *begun(const struct dump *d)
{
    struct dump *first = malloc(sizeof *first);
    if (first == NULL)
        exit(1);
    *first = *d;
    put_le64(first->file[0].data, 0);
    put_le32(first->file[0].data + 8, 1);
    put_le64(first->file[0].data + CHAIN + LINK_SIZE, 0);
    first->file[0].len = CHAIN + LINK;
    first->file[1].len = (size_t)get_le64(first->file[0].data + CHAIN);
    memset(first->file[1].data, 0, first->file[1].len);
    return first;
}

/* The chain as it was before the first key of its last link. */
static struct dump *last_emptied(const struct dump *d)
{
    struct dump *less = malloc(sizeof *less);
    if (less == NULL)
        exit(1);
    *less = *d;
    uint8_t *p = less->file[0].data, *last = p + CHAIN + LINK * (get_le32(p + 8) - 1);
    size_t bytes = (size_t)get_le64(last);
    put_le64(p, get_le64(p) - get_le64(last + LINK_SIZE));
    put_le64(last + LINK_SIZE, 0);
    memset(less->file[1].data + less->file[1].len - bytes, 0, bytes);
    return less;
}

/* Golden filters of current modules, and what BF.RESERVE was given; p is 0 where something else
 * made the filter. */
static const struct golden {
    const char *name, *spec;
    uint64_t n;
    double p;
    size_t keys;
} golden[] = {
    {"rb_ns_e01_n1000", "redisbloom:scaling=no", 1000, 0.01, 990},
    {"rb_e01_n1000", "redisbloom", 1000, 0.01, 1000},
    {"rb_scale_e05_n100", "redisbloom", 100, 0.05, 1000},
    {"rb_scale_e05_n100_first400", "redisbloom", 100, 0.05, 400},
    {"rb_scale_e02_n300_x1", "redisbloom:expansion=1", 300, 0.02, 1000},
    {"rb_scale_e10_n50_x4", "redisbloom:scaling=yes,expansion=4", 50, 0.1, 1000},
    {"rb_auto", "redisbloom", 100, 0.01, 400},
    {"rb_ns_e0001_n20000", "redisbloom:scaling=no", 20000, 0.0001, 1000},
    {"rb_ns_e25_n1", "redisbloom:scaling=no", 1, 0.25, 1},
    {"rb_pow2_force64", "redisbloom", 0, 0, 1000},
    {"rb_pow2_hash32", "redisbloom", 0, 0, 1000},
    {"rb_noround_hash32", "redisbloom", 0, 0, 1000},
    {"rb_entsbits_force64", "redisbloom:expansion=1", 0, 0, 1000},
};

enum { N_GOLDEN = sizeof golden / sizeof *golden };

/* Keys of the links before the last one are found, and so added to none. */
TEST(the_same_keys_make_the_same_filter)
{
    static const size_t pieces[] = {1, 7, 64, 300, 4096};
    for (unsigned i = 0; i < 2 * N_GOLDEN; i++) {
        const struct golden *g = &golden[i / 2];
        struct err err;
        struct layout_filter filter;
        struct layout_bits bits[LAYOUT_LAYERS] = {0};
        struct dump *want = read_dump(g->name), *less = last_emptied(want);
        MUST(read_filter(less, g->spec, &filter, bits, &err));
        size_t done, piece = pieces[i % (sizeof pieces / sizeof *pieces)];
        bool in_file = i % 2 == 0 || filter.n_layers > 1;
        struct store *s = make_store(&filter, in_file ? bits : NULL, in_file);
        CHECK(add_keys(s, golden_keys(&filter), g->keys, piece, &done, &err) == ADD_OK);
        CHECK(done == g->keys);
        struct dump *got = export(s);
        CHECK(did(same(got, want), g->name));
        store_close(s);
        free(want);
        free(less);
        free(got);
    }
}

/* Ten runs of `add` instead of one: each finds out anew what the last layer holds. */
TEST(it_does_not_matter_how_often_a_filter_is_opened)
{
    struct err err;
    struct layout_filter filter;
    struct layout_bits bits[LAYOUT_LAYERS] = {0};
    struct dump *want = read_dump("rb_scale_e05_n100"), *less = last_emptied(want);
    MUST(read_filter(less, "redisbloom", &filter, bits, &err));
    const struct hashes keys = golden_keys(&filter);
    store_close(make_store(&filter, bits, true));
    for (size_t at = 0, done; at < KEYS; at += KEYS / 10) {
        struct store *s = store_open("s.seen", STORE_WRITE, NULL, &err);
        CHECK(add_keys(s, hashes_from(keys, at), KEYS / 10, 64, &done, &err) == ADD_OK);
        store_close(s);
    }
    struct store *s = store_open("s.seen", STORE_READ, NULL, &err);
    struct dump *got = export(s);
    CHECK(same(got, want));
    store_close(s);
    free(want);
    free(less);
    free(got);
}

TEST(new_filters_are_those_of_bf_reserve)
{
    for (unsigned i = 0; i < N_GOLDEN && golden[i].p > 0; i++) {
        struct err err;
        struct layout_spec spec;
        struct layout_filter filter, read;
        struct layout_bits bits[LAYOUT_LAYERS];
        struct dump *want = read_dump(golden[i].name), *first = begun(want);
        MUST(read_filter(first, golden[i].spec, &read, bits, &err));
        MUST(layout_parse(golden[i].spec, &spec, &err));
        MUST(spec.kind->layout->design(&spec, golden[i].n, golden[i].p, &filter, &err));
        CHECK(memcmp(&read, &filter, sizeof read) == 0);
        CHECK(fabs(filter.fpr_design / golden[i].p - 1) < 1e-15);
        CHECK((filter.n_design == 0) == (strstr(golden[i].spec, "scaling=no") == NULL));
        free(want);
        free(first);
    }
}

TEST(without_a_rate_it_is_redisbloom_s)
{
    struct err err;
    struct layout_spec spec;
    struct layout_filter given, usual;
    MUST(layout_parse("redisbloom", &spec, &err));
    MUST(spec.kind->layout->design(&spec, 100, 0.01, &given, &err));
    MUST(spec.kind->layout->design(&spec, 100, 0, &usual, &err));
    CHECK(memcmp(&given, &usual, sizeof given) == 0);
}

/* A row of sizing.tsv, or of links.tsv from `error` on. */
struct row {
    double error, bpe;
    unsigned long long bytes, bits, entries;
    unsigned k, n2;
};

static bool is_row(const struct layer *layer, const struct row *row)
{
    struct err err;
    struct layout_filter filter = {.n_layers = 1, .layer = {*layer}};
    struct dump d = {0};
    static uint8_t zero[ROOM];
    const uint8_t *data[1] = {zero};
    const struct layout_sink sink = {.write = append, .ctx = &d};
    /* Of large filters the header is enough. */
    MUST(kind_redisbloom.check(layer, &err));
    if (layer->data_len > ROOM)
        return classic_of(layer).m == (row->n2 != 0 ? 1ULL << row->n2 : row->bits) &&
               classic_of(layer).k == row->k && layer->n_design == row->entries &&
               layer->data_len == row->bytes;
    MUST(kind_redisbloom.layout->write(&filter, data, &sink, &err));
    const uint8_t *p = d.file[0].data + CHAIN;
    return get_le64(p) == row->bytes && get_le64(p + 8) == row->bits &&
           get_double(p + 24) == row->error && get_double(p + 32) == row->bpe &&
           get_le32(p + 40) == row->k && get_le64(p + LINK_ENTRIES) == row->entries &&
           p[52] == row->n2;
}

TEST(links_have_the_sizes_of_redisbloom)
{
    unsigned n_rows = 0, n_designed = 0, options;
    unsigned long long n;
    char line[512], spec_text[64];
    double error;
    struct row row;
    FILE *f = open_golden("redisbloom/sizing.tsv", "");
    CHECK(fgets(line, sizeof line, f) != NULL);
    while (fscanf(f, "%llu%lf%u%lf%lf%llu%llu%u%llu%u", &n, &error, &options, &row.error, &row.bpe,
                  &row.bytes, &row.bits, &row.k, &row.entries, &row.n2) == 10) {
        struct err err;
        n_rows++;
        if (options == 4)
            continue;
        struct layout_spec spec;
        struct layout_filter filter;
        snprintf(spec_text, sizeof spec_text, "redisbloom:scaling=%s", options == 5 ? "yes" : "no");
        MUST(layout_parse(spec_text, &spec, &err));
        MUST(kind_redisbloom.layout->design(&spec, n, error, &filter, &err));
        CHECK(is_row(&filter.layer[0], &row));
        n_designed++;
    }
    fclose(f);
    CHECK(n_rows == 330 && n_designed == 220);
}

/* Keys that are always new. */
static size_t random_keys(uint64_t *hash, size_t n)
{
    for (size_t i = 0; i < 2 * n; i++)
        hash[i] = draw();
    return n;
}

TEST(a_full_filter_takes_no_other_keys)
{
    enum { N = 500 };
    struct err err;
    struct layout_spec spec;
    struct layout_filter filter;
    static uint64_t hash[2 * N];
    const struct hashes keys = {hash, N, NULL};
    random_restart(1);
    random_keys(hash, N);
    MUST(layout_parse("redisbloom:scaling=no", &spec, &err));
    MUST(spec.kind->layout->design(&spec, 100, 1e-9, &filter, &err));
    for (int in_file = 0; in_file < 2; in_file++) {
        size_t done;
        struct facts facts;
        struct store *s = make_store(&filter, NULL, in_file);
        CHECK(add_keys(s, keys, N, 64, &done, &err) == ADD_FULL && done == 100);
        CHECK(strstr(err.text, "is full: it was made for 100 keys") != NULL);
        /* What is in it changes nothing, and the first that is not is told. */
        CHECK(add_keys(s, keys, 100, 64, &done, &err) == ADD_OK && done == 100);
        CHECK(add_keys(s, hashes_from(keys, 90), N - 90, 33, &done, &err) == ADD_FULL);
        CHECK(done == 10);
        store_describe(s, &facts);
        CHECK(facts.counters.keys_added == 100 && facts.counters.records == 210);
        store_close(s);
    }
}

TEST(a_chain_has_42_links)
{
    struct err err;
    struct layout_filter filter;
    struct layout_bits bits[LAYOUT_LAYERS];
    struct dump *d = read_dump("rb_auto");
    put_le32(d->file[0].data + 8, 43);
    d->file[0].len = CHAIN + 43 * LINK;
    CHECK(!read_filter(d, "redisbloom", &filter, bits, &err));
    CHECK_STR(err.text, "it has 43 links; a filter file holds 42");
    free(d);
}

/* A filter that is full as it is read, or of which the header has been changed. */
static void check_full(const struct dump *d, const char *why)
{
    struct err err;
    struct layout_filter filter;
    struct layout_bits bits[LAYOUT_LAYERS];
    uint64_t hash[2] = {1, 2};
    size_t done;
    MUST(read_filter(d, "redisbloom", &filter, bits, &err));
    struct store *s = make_store(&filter, NULL, true);
    CHECK(add_keys(s, (struct hashes){hash, 1, NULL}, 1, 1, &done, &err) == ADD_FULL && done == 0);
    CHECK(did(strstr(err.text, why) != NULL, err.text));
    store_close(s);
}

TEST(a_full_chain_is_told)
{
    struct dump *golden_dump = read_dump("rb_auto"), *d = begun(golden_dump);
    uint8_t *p = d->file[0].data;
    put_le64(p + CHAIN + LINK_ENTRIES, 0);
    check_full(d, "it was made for 0 keys; it grows only in the program that it comes from");
    put_le32(p + 12, 13);
    check_full(d, "it was made for 0 keys");
    free(golden_dump);
    free(d);
}

TEST(links_have_bounds)
{
    struct err err;
    struct layout_spec spec;
    struct layout_filter filter;
    MUST(layout_parse("redisbloom", &spec, &err));
    CHECK(!spec.kind->layout->design(&spec, UINT64_MAX, 0.01, &filter, &err) &&
          strstr(err.text, "is too large") != NULL);
    CHECK(!spec.kind->layout->design(&spec, 10, 5e-324, &filter, &err)); /* half of it is 0 */
    CHECK_STR(err.text, "RedisBloom cannot make a link for 10 keys at an error rate of 0");
}

/* A header without the data, of a link of 4 TiB. */
TEST(the_largest_link_is_read)
{
    struct err err;
    struct layout_spec spec;
    struct layout_filter filter;
    struct dump *d = read_dump("rb_auto");
    const struct layout_foreign in = {
        .name = {"header"}, .data = {d->file[0].data}, .len = {d->file[0].len}};
    uint8_t *link = d->file[0].data + CHAIN;
    MUST(layout_parse("redisbloom", &spec, &err));
    link[LINK - 1] = 0;
    for (unsigned more = 0; more <= 1; more++) {
        put_le64(link, ((uint64_t)1 << 42) + more);
        put_le64(link + 8, ((uint64_t)1 << 45) + 8 * more);
        bool ok = kind_redisbloom.layout->read(&spec, &in, &filter, NULL, &err);
        CHECK(did(ok == (more == 0), err.text));
        CHECK(!ok || (filter.layer[0].data_len == (uint64_t)1 << 42 &&
                      kind_redisbloom.check(&filter.layer[0], &err)));
    }
    CHECK_STR(err.text, "link 0: its number of bytes is 4398046511105");
    free(d);
}

TEST(nothing_is_added_to_the_filters_of_old_modules)
{
    static const char *const names[] = {"rb_old203_e02_n150", "rb_old224_e02_n150"};
    for (unsigned i = 0; i < 2; i++) {
        struct err err;
        struct layout_filter filter;
        struct layout_bits bits[LAYOUT_LAYERS];
        struct dump *d = read_dump(names[i]);
        MUST(read_filter(d, "redisbloom", &filter, bits, &err));
        struct store *s = make_store(&filter, NULL, true);
        const struct add_options options = {.threads = 1};
        bool begins = store_add_begin(s, &options, &err);
        /* 2.2.4 has the form of today. */
        CHECK(begins == (i == 1));
        if (begins)
            MUST(store_add_end(s, true, &err));
        else
            CHECK_STR(err.text, "no keys can be added to 's.seen': it was written by a module "
                                "before 2.2.1, which adds keys differently");
        store_close(s);
        free(d);
    }
}

/* A dump of 1.1.1 differs from one of 2.0.3 by the seed, which only the user knows. */
TEST(the_seed_of_old_modules_is_given)
{
    struct err err;
    char text[LAYOUT_TEXT];
    struct layout_filter filter;
    struct layout_bits bits[LAYOUT_LAYERS];
    struct dump *old = read_dump("rb_old203_e02_n150"), *now = read_dump("rb_auto"),
                *hash32 = read_dump("rb_pow2_hash32");
    MUST(read_filter(old, "redisbloom:seed=32", &filter, bits, &err));
    CHECK(filter.seed == 0x5bd1e995 && filter.n_design == 0);
    layout_show(&filter, text, sizeof text);
    CHECK_STR(text, "redisbloom:scaling=yes,seed=32");
    MUST(read_filter(old, text, &filter, bits, &err));
    MUST(read_filter(old, "redisbloom", &filter, bits, &err));
    CHECK(filter.seed == 0xc6a4a7935bd1e995);
    CHECK(!read_filter(now, "redisbloom:seed=32", &filter, bits, &err));
    CHECK(strstr(err.text, "it cannot have a seed of 32 bits") != NULL);
    MUST(read_filter(hash32, "redisbloom", &filter, bits, &err));
    CHECK(filter.seed == 0x9747b28c && strcmp(filter.hash->name, "murmur2-pair") == 0);
    free(old);
    free(now);
    free(hash32);
}

TEST(what_the_spec_says_is_compared)
{
    struct err err;
    struct layout_spec spec;
    struct layout_filter filter;
    struct layout_bits bits[LAYOUT_LAYERS];
    struct dump *d = read_dump("rb_scale_e10_n50_x4");
    MUST(read_filter(d, "redisbloom:expansion=4,scaling=yes", &filter, bits, &err));
    CHECK(!read_filter(d, "redisbloom:expansion=2", &filter, bits, &err));
    CHECK_STR(err.text, "its expansion is 4");
    CHECK(!read_filter(d, "redisbloom:scaling=no", &filter, bits, &err));
    CHECK_STR(err.text, "it was made with scaling=yes");
    MUST(layout_parse("redisbloom:scaling=no,expansion=2", &spec, &err));
    CHECK(!kind_redisbloom.layout->design(&spec, 100, 0.01, &filter, &err));
    MUST(layout_parse("redisbloom:seed=32", &spec, &err));
    CHECK(!kind_redisbloom.layout->design(&spec, 100, 0.01, &filter, &err));
    free(d);
}

TEST(bits_that_no_key_sets_are_refused)
{
    struct err err;
    struct layout_filter filter;
    struct layout_bits bits[LAYOUT_LAYERS];
    struct dump *d = read_dump("rb_pow2_force64");
    /* More bytes than 2^n2 bits take, which current modules load. */
    put_le64(d->file[0].data + CHAIN, 1032);
    put_le64(d->file[0].data + CHAIN + 8, 8 * 1032);
    memmove(d->file[1].data + 1032, d->file[1].data + 1024, d->file[1].len - 1024);
    memset(d->file[1].data + 1024, 0, 8);
    d->file[1].len += 8;
    MUST(read_filter(d, "redisbloom", &filter, bits, &err));
    CHECK(classic_of(&filter.layer[0]).m == 8192 && filter.layer[0].data_len == 1032);
    MUST(kind_redisbloom.check(&filter.layer[0], &err));
    d->file[1].data[1031] = 0x80;
    CHECK(!read_filter(d, "redisbloom", &filter, bits, &err));
    CHECK_STR(err.text, "link 0: bit 8255 is set, but there are 8192 bits");
    d->file[1].data[1031] = 0;
    d->file[1].len++;
    CHECK(!read_filter(d, "redisbloom", &filter, bits, &err));
    CHECK_STR(err.text, "'data' has 1 bytes after its last link: 'head -c 5128' drops them");
    d->file[1].len -= 2;
    CHECK(!read_filter(d, "redisbloom", &filter, bits, &err));
    CHECK_STR(err.text, "'data' is cut short: it ends within link 1");
    free(d);
}

TEST(bits_that_do_not_fill_their_bytes_are_refused)
{
    struct err err;
    struct layout_filter filter;
    struct layout_bits bits[LAYOUT_LAYERS];
    struct dump *d = read_dump("rb_scale_e10_n50_x4");
    uint8_t *n_bits = d->file[0].data + CHAIN + 8;
    put_le64(n_bits, get_le64(n_bits) - 1);
    CHECK(!read_filter(d, "redisbloom", &filter, bits, &err));
    CHECK(did(strstr(err.text, "link 0: its number of bits is ") != NULL, err.text));
    free(d);
}

/* In the end an eighth of the absent keys is present here. Every key that is given counts, and from
 * the bits alone the same number follows: a sound file fails once in a million. However often a
 * filter is opened, the number is the same within the error of adding up FPRs. */
TEST(keys_are_counted_rightly_at_high_rates)
{
    enum { N = 100000 };
    struct err err;
    struct layout_spec spec;
    struct layout_filter filter;
    static uint64_t hash[2 * N];
    double n_keys[2];
    random_restart(3);
    random_keys(hash, N);
    MUST(layout_parse("redisbloom", &spec, &err));
    MUST(spec.kind->layout->design(&spec, N, 0.25, &filter, &err));
    for (size_t round = 0; round < 2; round++) {
        struct store *s = make_store(&filter, NULL, false);
        for (size_t runs = round == 0 ? 1 : 50, i = 0, done; i < runs; i++)
            CHECK(add_keys(s, (struct hashes){hash + i * (N / runs), N, NULL}, N / runs, 1000,
                           &done, &err) == ADD_OK);
        struct facts facts;
        struct census layer[FORMAT_MAX_LAYERS];
        double by_bits, counted, dropped;
        store_describe(s, &facts);
        layers_census_each(facts.layers, 1, layer);
        struct header h = *facts.layers.header;
        h.counters = facts.counters;
        CHECK(layers_counters_agree(&h, &h.counters, layer, &by_bits, &counted) && by_bits > 0);
        chain_given(&h, &h.counters, &n_keys[round], &dropped);
        CHECK(fabs(n_keys[round] - N) < 0.01 * N);
        CHECK(N - h.counters.keys_added > N / 50);
        store_close(s);
    }
    CHECK(fabs(n_keys[0] - n_keys[1]) < 1e-6 * N);
}

/* ---- Crashes */

enum { CRASHED = 700 };

/* Dies with bits changed and keys not counted, as a process may that is killed in a batch. */
static int add_and_die(void *ctx)
{
    struct err err;
    struct filter f;
    struct session s;
    const struct layout_filter *filter = ctx;
    const struct hashes keys = golden_keys(filter);
    if (!filter_open(&f, "s.seen", FILTER_WRITE, &err) || !session_begin(&s, &f, &err) ||
        !session_lock(&s, &err))
        return 1;
    for (size_t i = 0; i < CRASHED; i++) {
        uint64_t present[1] = {0};
        if (!session_touch(&s, 0, hashes_from(keys, i), 1, &err))
            return 1;
        kind_redisbloom.add(&f.header.layers[0], f.data[0], hashes_from(keys, i), 1, present);
    }
    _exit(0);
}

TEST(after_a_crash_the_bits_say_how_many_keys_there_are)
{
    struct err err;
    struct layout_spec spec;
    struct layout_filter filter;
    size_t done;
    MUST(layout_parse("redisbloom", &spec, &err));
    MUST(spec.kind->layout->design(&spec, 800, 0.001, &filter, &err));
    for (int repaired = 0; repaired < 2; repaired++) {
        struct store *s = make_store(&filter, NULL, true);
        store_close(s);
        CHECK(child_wait(child_start(add_and_die, &filter)) == 0);
        if (repaired) {
            struct repair r = {.path = "s.seen", .threads = 1};
            struct header h;
            MUST(repair_file(&r, &err) && filter_read_header("s.seen", &h, &err));
            /* 1.5 % is more than five deviations of the estimate. */
            CHECK(fabs((double)h.counters.keys_added - CRASHED) < 0.015 * CRASHED);
        }
        /* So the link takes about 100 keys more, and not 800. */
        s = store_open("s.seen", STORE_WRITE, NULL, &err);
        MUST(s != NULL);
        const struct hashes keys = golden_keys(&filter);
        CHECK(add_keys(s, keys, KEYS, 64, &done, &err) == ADD_FULL);
        CHECK(done > 780 && done < 820);
        store_close(s);
    }
}

TEST(the_rate_of_links_to_come_follows_from_the_tightening)
{
    static const struct {
        double tightening, fpr;
    } of[] = {{0.5, 0.02}, {0.9, 0.1}, {0.25, 0.01 / 0.75}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct err err;
        struct layout_spec spec;
        struct layout_filter filter;
        const struct layout_info info = {.capacity = 1000,
                                         .links = 1,
                                         .keys = 10,
                                         .expansion = 2,
                                         .error = 0.01,
                                         .tightening = of[i].tightening};
        MUST(layout_parse("redisbloom", &spec, &err) &&
             spec.kind->layout->inform(&spec, &info, &filter, &err));
        CHECK(fabs(filter.fpr_design - of[i].fpr) < 1e-12);
    }
}

/* A chain of one link of 9600 bits, 7 positions a key and 990 keys, without scaling. */
static struct dump *read_one_link(void)
{
    return read_dump("rb_ns_e01_n1000");
}

static uint64_t bits_of(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

TEST(what_is_wrong_with_a_header_is_said)
{
    static const struct {
        size_t at, len;
        uint64_t value;
        const char *why;
    } rows[] = {
        {8, 4, 0, "it has no links"},
        {12, 4, 29, "it has unknown options: 29"},
        {CHAIN, 8, 0, "link 0: its number of bytes is 0"},
        {CHAIN + 8, 8, 0, "link 0: its number of bits is 0"},
        {CHAIN + 8, 8, 9592, "link 0: its number of bits is 9592"},
        {CHAIN + 8, 8, 9608, "link 0: its number of bits is 9608"},
        {CHAIN + LINK - 1, 1, 14, "link 0: its number n2 is 14"},
        {CHAIN + LINK - 1, 1, 64, "link 0: its number n2 is 64"},
        {CHAIN + 24, 8, 0, "link 0: its error rate is 0"},
        {CHAIN + 24, 8, 0x3ff0000000000000, "link 0: its error rate is 1"},
        {CHAIN + 40, 4, 0, "link 0: 0 positions do not fit 9.58506 bits a key"},
        {CHAIN + 40, 4, 8, "link 0: 8 positions do not fit 9.58506 bits a key"},
        {CHAIN + LINK_SIZE, 8, ((uint64_t)1 << 53) + 1,
         "link 0: its number of keys is 9007199254740993"},
        {CHAIN + LINK_SIZE, 8, (uint64_t)1 << 53,
         "its number of keys is 990, that of its links 9007199254740992"},
        {0, 8, 989, "its number of keys is 989, that of its links 990"},
    };
    struct err err;
    struct layout_filter filter;
    struct layout_bits bits[LAYOUT_LAYERS];
    struct dump *sound = read_one_link(), *d = read_one_link();
    MUST(read_filter(sound, "redisbloom", &filter, bits, &err));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        *d = *sound;
        for (size_t b = 0; b < rows[i].len; b++)
            d->file[0].data[rows[i].at + b] = (uint8_t)(rows[i].value >> 8 * b);
        CHECK(!read_filter(d, "redisbloom", &filter, bits, &err));
        CHECK_STR(err.text, rows[i].why);
    }
    *d = *sound;
    put_le64(d->file[0].data + CHAIN + 32, bits_of(CLASSIC_MAX_K / 0.693147180559945 + 1));
    put_le32(d->file[0].data + CHAIN + 40, CLASSIC_MAX_K + 1);
    CHECK(!read_filter(d, "redisbloom", &filter, bits, &err));
    CHECK_STR(err.text, "link 0: 4097 positions do not fit 5910.28 bits a key");
    put_le64(d->file[0].data + CHAIN + 32, bits_of(CLASSIC_MAX_K / 0.693147180559945 - 1));
    put_le32(d->file[0].data + CHAIN + 40, CLASSIC_MAX_K);
    CHECK(did(read_filter(d, "redisbloom", &filter, bits, &err), err.text));
    *d = *sound;
    put_le32(d->file[0].data + 12, 15);
    CHECK(did(read_filter(d, "redisbloom", &filter, bits, &err), err.text));
    *d = *sound;
    d->file[0].len = 15;
    CHECK(!read_filter(d, "redisbloom", &filter, bits, &err));
    CHECK_STR(err.text, "its header ends within the first 16 bytes");
    struct layout_spec spec;
    const struct layout_foreign in = {.data = {sound->file[0].data, sound->file[1].data},
                                      .len = {sound->file[0].len, sound->file[1].len},
                                      .name = {"header", "data"}};
    MUST(layout_parse("redisbloom", &spec, &err));
    spec.n = 1000;
    spec.p = 0.01;
    MUST(kind_redisbloom.layout->read(&spec, &in, &filter, bits, &err));
    spec.p = 0.02;
    CHECK(!kind_redisbloom.layout->read(&spec, &in, &filter, bits, &err));
    CHECK_STR(err.text, "its FPR is 0.01, not 0.02");
    spec.n = 1001;
    CHECK(!kind_redisbloom.layout->read(&spec, &in, &filter, bits, &err));
    CHECK_STR(err.text, "its capacity is 1000, not 1001");
    free(sound);
    free(d);
}

/* Bits of the variant: 0 n2, 6 options, 10 form, 12 no_bits, 13 missing bytes, 16 growth. */
TEST(geometry_that_no_link_has_is_refused)
{
    static const struct {
        uint64_t m, k, variant, extra, capacity;
        bool sound;
    } rows[] = {
        {9600, 7, 5 << 6 | 2 << 10, 0, 1000, true},
        {9600, 8, 5 << 6 | 2 << 10, 0, 1000, false},
        {9600, 7, 5 << 6 | 3 << 10, 0, 1000, false},
        {9600, 7, 5 << 6 | 2 << 10, 1, 1000, false},
        {9600, 7, 5 << 6 | 2 << 10, 8, 1000, false},
        {9600, 7, 5 << 6 | 2 << 10 | 1 << 13, 0, 1000, false},
        {9600, 7, 5 << 6 | 2 << 10 | 1 << 12, 0, 1000, false},
        {9600, 7, 13 | 5 << 6 | 2 << 10, 0, 1000, false},
        {8192, 7, 13 | 5 << 6 | 2 << 10, 8, 1000, true},
        {8192, 7, 13 | 5 << 6 | 2 << 10 | 1 << 12, 8, 1000, false},
        {8192, 7, 13 | 5 << 6 | 1 << 10 | 1 << 12 | 2 << 16, 8, 1000, true},
        {8192, 7, 13 | 5 << 6 | 1 << 10, 8, (uint64_t)1 << 32, false},
        {9592, 7, 5 << 6 | 1 << 10, 0, 1000, true},
        {9592, 7, 5 << 6 | 1 << 10 | 2 << 13, 0, 1000, false},
        {9592, 7, 5 << 6 | 1 << 10 | 1 << 12, 0, 1000, false},
        {9592, 7, 5 << 6, 0, 1000, true},
        {9592, 7, 5 << 6 | 2 << 16, 0, 1000, false},
        {CLASSIC_MAX_M, 7, 5 << 6 | 2 << 10, 0, 1000, true},
        {CLASSIC_MAX_M, 7, 45 | 5 << 6 | 2 << 10, 8, 1000, false},
        {0, 7, 5 << 6 | 2 << 10, 0, 1000, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err;
        struct layer layer = {.kind = &kind_redisbloom, .n_design = rows[i].capacity};
        classic_to(&(struct classic){.m = rows[i].m,
                                     .k = (unsigned)rows[i].k,
                                     .variant = rows[i].variant,
                                     .extra = rows[i].extra},
                   &layer);
        layer.geometry[3] = bits_of(9.6);
        CHECK(kind_redisbloom.check(&layer, &err) == rows[i].sound);
        if (!check_ok) {
            printf("# row %d\n", (int)i);
            return;
        }
    }
}

TEST(what_a_server_says_must_fit)
{
    static const char numbers[] = "the numbers that the server gives do not fit each other",
                      link[] = "the server describes a link that cannot be";
    static const struct {
        struct layout_info info;
        const char *why;
    } rows[] = {
        {{7000, 3, 7000, 2, 0.01, 0.5}, NULL},
        {{42000, LAYOUT_LAYERS, 10, 1, 0.01, 0.9}, NULL},
        {{7001, 3, 10, 2, 0.01, 0.5}, numbers},
        {{0, 3, 0, 2, 0.01, 0.5}, numbers},
        {{7000, 3, 7001, 2, 0.01, 0.5}, numbers},
        {{1000, 1, 10, (uint64_t)1 << 32, 0.01, 0.5}, numbers},
        {{1000, 0, 10, 2, 0.01, 0.5}, numbers},
        {{((uint64_t)1 << 53) + 1, 1, 10, 2, 0.01, 0.5}, numbers},
        {{1000, 1, 10, 2, 0, 0.5}, link},
        {{1000, 1, 10, 2, 1, 0.5}, link},
        {{(uint64_t)1 << 53, 1, 10, 2, 0.01, 0.5}, link},
        {{7000, 3, 10, 2, 0.01, 200}, link},
        {{1000, LAYOUT_LAYERS + 1, 10, 2, 0.01, 0.5}, "it has 43 links; a filter file holds 42"},
    };
    struct err err;
    struct layout_spec spec;
    MUST(layout_parse("redisbloom", &spec, &err));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct layout_filter filter;
        bool fits = kind_redisbloom.layout->inform(&spec, &rows[i].info, &filter, &err);
        CHECK(fits == (rows[i].why == NULL));
        if (fits)
            CHECK(filter.n_layers == rows[i].info.links &&
                  filter.layer[2].n_design == (filter.n_layers == 3 ? 4000 : 1000) &&
                  filter.layer[2].n_before == (filter.n_layers == 3 ? 3000 : 2000));
        else
            CHECK_STR(err.text, rows[i].why);
    }
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    if (!scratchdir_enter())
        return 1;
    RUN(the_rate_of_links_to_come_follows_from_the_tightening);
    RUN(the_same_keys_make_the_same_filter);
    RUN(it_does_not_matter_how_often_a_filter_is_opened);
    RUN(new_filters_are_those_of_bf_reserve);
    RUN(without_a_rate_it_is_redisbloom_s);
    RUN(links_have_the_sizes_of_redisbloom);
    RUN(a_full_filter_takes_no_other_keys);
    RUN(a_chain_has_42_links);
    RUN(a_full_chain_is_told);
    RUN(links_have_bounds);
    RUN(the_largest_link_is_read);
    RUN(what_is_wrong_with_a_header_is_said);
    RUN(geometry_that_no_link_has_is_refused);
    RUN(what_a_server_says_must_fit);
    RUN(nothing_is_added_to_the_filters_of_old_modules);
    RUN(the_seed_of_old_modules_is_given);
    RUN(what_the_spec_says_is_compared);
    RUN(bits_that_no_key_sets_are_refused);
    RUN(bits_that_do_not_fill_their_bytes_are_refused);
    RUN(keys_are_counted_rightly_at_high_rates);
    RUN(after_a_crash_the_bits_say_how_many_keys_there_are);
    scratchdir_leave();
    return check_done();
}
