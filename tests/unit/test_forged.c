/* SPDX-License-Identifier: MIT */
/* Sound files of each kind with each field of their headers and directories at its extremes, and
 * right checksums. Whatever is accepted is put to all uses that commands have for a file: nothing
 * crashes, no page outside a layer is asked for, no more memory or disk is taken than such a file
 * can need, and what could be read before a change can be read afterwards.
 * tags: portable slow */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/disk.h"
#include "check.h"
#include "keys/xxh3.h"
#include "scratchdir.h"
#include "write/advance.h"
#include "file/chain.h"
#include "file/pages.h"
#include "write/builder.h"
#include "write/repair.h"
#include "file/session.h"
#include "store/store.h"

/* Fields: offset, and bytes; 9: a double. */
enum { REAL = 9, LAYERS = 256, LAYER_LEN = 88, ENTRY_LEN = 32, LARGEST = 16 << 20 };

struct field {
    unsigned at, len;
};

static const struct field header_fields[] = {
    {8, 4},   {12, 4},  {16, 4},  {20, 4},  {24, 4},     {28, 4},     {32, 8},    {40, 4},
    {44, 4},  {48, 8},  {56, 8},  {72, 4},  {76, 4},     {80, 8},     {88, REAL}, {96, 8},
    {104, 8}, {112, 8}, {120, 8}, {128, 8}, {136, REAL}, {144, REAL}, {152, 4},   {156, 4},
};

static const struct field layer_fields[] = {
    {0, 4},  {4, 4},  {8, 8},  {16, REAL}, {24, 8}, {32, 8},
    {40, 8}, {48, 8}, {56, 8}, {64, 8},    {72, 8}, {80, REAL},
};

static const struct field entry_fields[] = {
    {0, 8}, {8, 4}, {12, 4}, {16, 4}, {20, 4}, {24, 4}, {28, 1}, {29, 1}, {30, 2},
};

#define COUNT(array) ((unsigned)(sizeof(array) / sizeof *(array)))

static const uint64_t whole[] = {
    0,
    1,
    2,
    3,
    7,
    8,
    9,
    22,
    23,
    28,
    41,
    42,
    43,
    31,
    32,
    33,
    64,
    255,
    256,
    4095,
    4096,
    4097,
    8192,
    12288,
    65535,
    65536,
    65537,
    INT32_MAX,
    UINT32_MAX,
    1ULL << 31,
    1ULL << 32,
    1ULL << 40,
    1ULL << 52,
    1ULL << 62,
    INT64_MAX,
    1ULL << 63,
    UINT64_MAX - 4095,
    UINT64_MAX - 7,
    UINT64_MAX,
};

static const double reals[] = {
    0,       -0.0,   -1,     1,         0.5,      0x1.fffffffffffffp-1,
    0x1p-32, 1e-10,  1e-300, 0x1p-1074, 1.5,      1e3,
    1e9,     0x1p53, 1e19,   1e300,     INFINITY, -INFINITY,
    NAN,
};

/* What is added to and subtracted from the value that is there. */
static const uint64_t steps[] = {1, 8, 32, 4096};

/* A sound file. */
struct sound {
    uint8_t *data;
    size_t len;
};

static uint64_t hash_of(uint64_t i)
{
    return xxh3_bytes(&i, sizeof i, 0);
}

enum { KEYS = 3000, QUERIES = 2 * LAYER_BATCH };

static uint64_t queries[QUERIES]; /* every other one of a key that is there; and both ends */

static struct sound read_whole(const char *path)
{
    struct stat st;
    struct err err;
    struct sound s = {0};
    FILE *file = fopen(path, "rb");
    if (file == NULL || fstat(fileno(file), &st) != 0)
        return s;
    s.len = (size_t)st.st_size;
    s.data = malloc(s.len);
    size_t got;
    CHECK(disk_read(fileno(file), s.data, s.len, 0, &got) && got == s.len);
    (void)err;
    fclose(file);
    return s;
}

static bool fill(struct builder *b, unsigned n, struct err *err)
{
    if (!builder_begin(b, err))
        return false;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t h = hash_of(i);
        if (!builder_put(b, 0, hashes_of(&h), 1, err))
            return false;
    }
    return builder_write(b, n, err) && assembly_commit(b->to, err);
}

/* Adds hashes `first` and following, and says how that ended. */
static enum add_result add(struct store *s, uint64_t first, size_t n, bool rotate, struct err *err)
{
    struct add_options options = {.threads = 1, .rotate = rotate};
    uint64_t *hash = malloc(n * sizeof *hash), *known = calloc(n / 64 + 1, sizeof *known);
    size_t done = 0;
    for (size_t i = 0; i < n; i++)
        hash[i] = hash_of(first + i);
    enum add_result result = ADD_FAILED;
    if (store_add_begin(s, &options, err)) {
        struct err ignored;
        result = store_add(s, hashes_of(hash), known, n, &done, err);
        if (!store_add_end(s, true, result == ADD_OK ? err : &ignored))
            result = ADD_FAILED;
    }
    free(hash);
    free(known);
    return result;
}

static struct sound make(const struct design *design, unsigned n, unsigned n_later)
{
    const struct key_rule rule = {0};
    struct err err;
    struct assembly a = {.out = "f", .replace = true, .threads = 1};
    struct builder b = {
        .to = &a, .design = design, .rule = &rule, .memory = 64 << 20, .scratch_dir = "."};
    bool ok = assembly_begin(&a, &err) && fill(&b, n, &err);
    CHECK(did(ok, err.text));
    builder_free(&b);
    assembly_close(&a);
    if (n_later > 0) {
        struct store *s = store_open("f", STORE_WRITE, NULL, &err);
        bool rotates = design->generations > 0;
        CHECK(did(s != NULL && add(s, n, n_later, rotates, &err) == ADD_OK, err.text));
        store_close(s);
    }
    return read_whole("f");
}

static bool inside(void *ctx, uint64_t page)
{
    const struct layer *l = ctx;
    CHECK(page < layer_pages(l));
    return true;
}

/* Asks the queries' keys, n at a time. False: none of the file's pages is believed. */
static bool ask_each(struct filter *f, unsigned n, uint64_t *present)
{
    struct err err;
    for (unsigned i = 0; i < QUERIES; i += n)
        if (!filter_query(f, hashes_of(queries + i), n, present + i / 64, &err))
            return false;
    return true;
}

/* How many of the queries' keys are present; -1: none of the file's pages is believed. */
static int ask(struct filter *f)
{
    int found = 0;
    uint64_t few[QUERIES / 64], present[QUERIES / 64], page[LAYER_BATCH], unchecked;
    bool answered = ask_each(f, 64, few);
    CHECK(ask_each(f, LAYER_BATCH, present) == answered);
    if (!answered)
        return -1;
    CHECK(memcmp(few, present, sizeof few) == 0);
    for (unsigned i = 0; i < QUERIES / 64; i++)
        found += __builtin_popcountll(present[i]);
    for (unsigned i = 0; i < f->header.n_layers; i++) {
        const struct layer *l = &f->header.layers[i];
        if (l->kind->page != NULL)
            l->kind->page(l, hashes_of(queries), LAYER_BATCH, page);
        for (size_t j = 0; j < LAYER_BATCH; j++)
            if (l->kind->page == NULL)
                l->kind->pages(l, f->map + l->data_off, hashes_of(&queries[j]), 1, inside,
                               &f->header.layers[i]);
            else
                CHECK(page[j] < layer_pages(l));
        l->kind->shape(l);
        CHECK(layer_n_at(l, l->fpr_design) >= 0);
    }
    struct census census;
    layers_census_all(filter_layers(f), 1, &census);
    CHECK(census.fpr >= 0 && census.fpr <= 1 && !(census.n < 0)); /* NAN: not known */
    pages_check_all(f, 1, &unchecked, NULL, NULL);
    return found;
}

static int ask_file(const char *path)
{
    struct filter f;
    struct err err;
    int found = -1;
    if (filter_open(&f, path, FILTER_READ, &err))
        found = ask(&f);
    filter_close(&f);
    return found;
}

static bool write_whole(int fd, const struct sound *s)
{
    struct err err;
    return ftruncate(fd, 0) == 0 && disk_write(fd, s->data, s->len, 0, "forged", &err);
}

/* Files that were readable stay so, and keep their keys, unless these were to be forgotten. */
static void no_worse(const char *path, int before, const char *what, const char *why)
{
    int after = ask_file(path);
    bool ok = before < 0 || after >= before;
    if (!ok)
        printf("# %s: %d keys before, %d after; %s\n", what, before, after, why);
    CHECK(ok);
}

static void change(const char *path, const char *what)
{
    struct filter f;
    struct session session;
    struct err err = {.text = ""};
    int before = ask_file(path);
    bool rings = false;
    struct store *s = store_open(path, STORE_WRITE, NULL, &err);
    if (s != NULL) {
        rings = s->header->policy == POLICY_RING;
        if (add(s, KEYS, 600, false, &err) == ADD_OK) {
            uint64_t hash = hash_of(KEYS + 599), present;
            CHECK(store_query(s, hashes_of(&hash), 1, &present, &err) && (present & 1));
        }
    }
    store_close(s);
    no_worse(path, before, what, err.text);
    struct repair r = {.path = path, .threads = 1};
    repair_file(&r, &err);
    no_worse(path, before, what, err.text);
    if (filter_open(&f, path, FILTER_WRITE, &err) && f.header.policy != POLICY_FIXED &&
        session_begin(&session, &f, &err)) {
        if (session_lock(&session, &err)) {
            if (!advance_finish(&session, &err) || !advance(&session, 1, &err))
                rings = false;
            session_unlock(&session);
        }
        session_end(&session, true, &err);
    }
    filter_close(&f);
    no_worse(path, rings && before > 0 ? 0 : before, what, err.text);
    struct stat st;
    CHECK(stat(path, &st) == 0 && st.st_size <= LARGEST);
}

static unsigned forged; /* files that were tried */
static uint64_t draws = 20261121;

/* Short runs try a part of all files, drawn at random. */
static bool drawn(void)
{
    static unsigned part;
    const char *all = getenv("FORGED_ALL");
    if (part == 0)
        part = all != NULL ? 1 : 16;
    draws = draws * 6364136223846793005U + 1442695040888963407U;
    return (draws >> 33) % part == 0;
}

static void try(const struct sound *s, const char *what, unsigned at)
{
    char path[40], text[80];
    if (!drawn())
        return;
    int fd = memfd_create("forged", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    snprintf(text, sizeof text, "%s, offset %u", what, at);
    CHECK(fd >= 0 && write_whole(fd, s));
    forged++;
    change(path, text);
    close(fd);
}

static void seal_slots(struct sound *s, bool immutable)
{
    uint32_t len = get_le32(s->data + 12);
    if (len < 16 || len > FORMAT_PAGE || len > s->len)
        return;
    for (unsigned slot = 0; slot < (immutable ? 1 : 2); slot++) {
        uint8_t *p = s->data + slot * FORMAT_PAGE;
        put_le64(p + len - 8, xxh3_bytes(p, len - 8, 0));
    }
}

static uint64_t get_number(const uint8_t *p, unsigned len)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < (len == REAL ? 8 : len); i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static void put_number(uint8_t *p, unsigned len, uint64_t v)
{
    for (unsigned i = 0; i < (len == REAL ? 8 : len); i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

/* The extremes of a field, one after another; false: there are no more. */
static bool extreme(unsigned i, unsigned len, uint64_t now, uint64_t *v)
{
    if (len == REAL) {
        if (i >= COUNT(reals))
            return false;
        memcpy(v, &reals[i], sizeof *v);
        return true;
    }
    if (i < COUNT(whole))
        *v = whole[i];
    else if ((i -= COUNT(whole)) < 2 * COUNT(steps))
        *v = i % 2 ? now - steps[i / 2] : now + steps[i / 2];
    else if ((i -= 2 * COUNT(steps)) < 3)
        *v = i == 0 ? now * 2 : i == 1 ? now / 2 : now * 3;
    else
        return false;
    return true;
}

static void try_header(struct sound *s, const char *what, unsigned base, const struct field *field)
{
    bool immutable = get_le32(s->data + 24) & INCOMPAT_IMMUTABLE;
    uint8_t *a = s->data + base + field->at;
    uint64_t before = get_number(a, field->len), v;
    /* With another length, the checksum is written over what is there. */
    uint8_t *saved = malloc(s->len);
    memcpy(saved, s->data, s->len);
    for (unsigned i = 0; extreme(i, field->len, before, &v); i++) {
        put_number(a, field->len, v);
        if (!immutable)
            put_number(a + FORMAT_PAGE, field->len, v);
        seal_slots(s, immutable);
        try(s, what, base + field->at);
        memcpy(s->data, saved, s->len);
    }
    free(saved);
}

static void try_entry(struct sound *s, const char *what, const struct header *h, unsigned number,
                      const struct field *field)
{
    const struct layer *l = &h->layers[0];
    uint64_t in_layer =
        l->data_len - ENTRY_LEN * l->geometry[1] + (uint64_t)ENTRY_LEN * number + field->at;
    uint8_t *a = s->data + l->data_off + in_layer;
    uint64_t before = get_number(a, field->len), v, seed = format_layer_seed(h, 0);
    for (unsigned i = 0; extreme(i, field->len, before, &v); i++) {
        put_number(a, field->len, v);
        for (uint64_t page = in_layer / FORMAT_PAGE;
             page <= (in_layer + 7) / FORMAT_PAGE && page < layer_pages(l); page++)
            put_le32(s->data + l->sums_off + FORMAT_SUM * page,
                     layer_page_sum(seed, page, s->data + l->data_off + page * FORMAT_PAGE,
                                    layer_page_len(l, page)));
        try(s, what, (unsigned)(in_layer + l->data_off));
    }
    put_number(a, field->len, before);
}

static void try_all(struct sound s, const char *what)
{
    struct header h;
    struct err err;
    CHECK(s.data != NULL);
    MUST(format_decode(s.data, FORMAT_PAGE, &h, &err));
    if (!check_ok)
        return;
    for (size_t i = 0; i < COUNT(header_fields); i++)
        try_header(&s, what, 0, &header_fields[i]);
    for (unsigned l = 0; l<h.n_layers; l += h.n_layers> 1 ? h.n_layers - 1 : 1)
        for (size_t i = 0; i < COUNT(layer_fields); i++)
            try_header(&s, what, LAYERS + LAYER_LEN * l, &layer_fields[i]);
    unsigned entries = !kind_takes_keys(h.layers[0].kind) ? (unsigned)h.layers[0].geometry[1] : 0;
    for (unsigned e = 0; e<entries; e += entries> 1 ? entries - 1 : 1) {
        seal_slots(&s, true);
        for (size_t i = 0; i < COUNT(entry_fields); i++)
            try_entry(&s, what, &h, e, &entry_fields[i]);
    }
    free(s.data);
}

TEST(fixed)
{
    try_all(make(&(struct design){.n = 4000}, KEYS, 0), "fixed");
    try_all(make(&(struct design){.n = 1000, .p = 0.4}, KEYS, 0), "overfull");
    try_all(make(&(struct design){.n = 4000, .empty = true}, 0, 0), "empty");
}

TEST(growing)
{
    try_all(make(&(struct design){.grow = true, .n = 1000}, KEYS, 20000), "growing");
}

TEST(ring)
{
    try_all(make(&(struct design){.generations = 3, .n = 9000}, KEYS, 9000), "ring");
}

TEST(compact)
{
    try_all(make(&(struct design){.kind = kind_compact()}, KEYS, 0), "compact");
    try_all(make(&(struct design){.kind = kind_compact(), .p = 0.4}, 100000, 0), "compact parts");
    try_all(make(&(struct design){.kind = kind_compact(), .empty = true}, 0, 0), "compact empty");
}

int main(void)
{
    for (unsigned i = 0; i < QUERIES; i++)
        queries[i] = hash_of(i % 2 ? i : i + 1000000);
    queries[0] = 0;
    queries[2] = UINT64_MAX;
    if (!scratchdir_enter())
        return 1;
    /* Addresses that such files justify, with the program's own; sanitizers take more. */
    if (getenv("SANITIZER") == NULL)
        setrlimit(RLIMIT_AS, &(struct rlimit){512 << 20, 512 << 20});
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){LARGEST, LARGEST});
    RUN(fixed);
    RUN(growing);
    RUN(ring);
    RUN(compact);
    printf("# %u files\n", forged);
    scratchdir_leave();
    return check_done();
}
