#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bits.h"
#include "base/num.h"
#include "base/output.h"
#include "base/say.h"
#include "cmd/cmd.h"
#include "cmd/feed.h"
#include "cmd/keyopt.h"
#include "cmd/redisopt.h"
#include "cmd/warn.h"
#include "keys/confirm.h"
#include "store/header.h"
#include "store/redis/redis.h"
#include "store/store.h"

enum {
    OPT_ANNOTATE = 400,
    OPT_VERBOSE,
    OPT_ALSO,
    OPT_WHICH,
    OPT_CONFIRM,
    OPT_COUNTS,
    OPT_MIN_COUNT,
};

static const struct opt output_opts[] = {
    {'v', "invert-match", NULL, "select the records whose key is absent", false, 0},
    {'c', "count", NULL, "print only how many records are selected", false, 0},
    {'q', "quiet", NULL, "print nothing; stop at the first selected record", false, 0},
    {'n', "number", NULL, "print each record's number and a colon before it", false, 0},
    {OPT_ANNOTATE, "annotate", NULL, "print every record, after + or - and a TAB", false, 0},
    {OPT_COUNTS, "counts", NULL,
     "print how often each record's key was added, and a TAB, before it; FILTER must be counted",
     false, 0},
    {OPT_VERBOSE, "verbose", NULL,
     "say on stderr how many keys were present, and how many of these "
     "are probably false positives",
     false, 0},
    {0},
};

static const struct opt present_opts[] = {
    {OPT_ALSO, "also", "OTHER", "take keys in this filter for present too (repeatable)", true, 0},
    {OPT_WHICH, "which", NULL,
     "print the name of the filter that has the key and a colon before the record", false, 0},
    {OPT_MIN_COUNT, "min-count", "N",
     "take a key for present only if it was added N times or more; FILTER must be counted",
     false, 0},
    {OPT_CONFIRM, "confirm", "SORTED",
     "take a key for present only if it is also in this list, sorted by "
     "LC_ALL=C sort",
     false, 0},
    {0},
};

static const struct opt_group groups[] = {
    {"Selection and output", output_opts},
    {"What is present", present_opts},
    {"Keys", keyopt_opts},
    {"Key preparation, checked against what is stored in the filter", keyopt_prep_opts},
    {"Filters in Redis", redisopt_query},
    {0},
};

struct query {
    struct keyopt keyopt;
    bool invert, count, quiet, number, annotate, verbose, which, counts;
    uint64_t min_count; /* 0: none */
    const char **path; /* FILTER and those of --also, in this order */
    struct store **store;
    size_t n_filters, n_open;
    atomic_bool many; /* keys are expected */
    pthread_rwlock_t lock; /* held while filters are asked; to change their mappings, alone */
    const char *confirm_path; /* NULL: none */
    struct confirm confirm;
    struct feed feed;
    uint64_t selected, present;
};

/* What came of one chunk. */
struct result {
    struct feed_part part;
    uint64_t selected, present;
    struct output out; /* selected records, ready to be written */
    struct label {
        uint64_t number;  /* from the chunk's beginning */
        size_t len;       /* of the record in out */
        const char *name; /* of the filter that has it */
    } *labels; /* with --number or --which: of the records in out */
    size_t n_labels, labels_capacity;
};

static bool take_filter(struct query *q, const char *path)
{
    const char **paths = realloc(q->path, (q->n_filters + 1) * sizeof *paths);
    if (paths == NULL) {
        say_error("out of memory");
        return false;
    }
    q->path = paths;
    paths[q->n_filters++] = path;
    return true;
}

static bool parse_option(struct query *q, struct opt_parser *p, int id)
{
    switch (id) {
    case 'v':
        return q->invert = true;
    case 'c':
        return q->count = true;
    case 'q':
        return q->quiet = true;
    case 'n':
        return q->number = true;
    case OPT_ANNOTATE:
        return q->annotate = true;
    case OPT_COUNTS:
        return q->counts = true;
    case OPT_MIN_COUNT:
        return opt_count(p, &q->min_count) && opt_positive(p, q->min_count);
    case OPT_VERBOSE:
        return q->verbose = true;
    case OPT_ALSO:
        return take_filter(q, p->value);
    case OPT_WHICH:
        return q->which = true;
    case OPT_CONFIRM:
        q->confirm_path = p->value;
        return true;
    default:
        return redisopt_is(id) ? redisopt_take(p, id) : keyopt_take(&q->keyopt, p, id);
    }
}

/* What is said of a batch, a bit for each record; of bad records none is set. */
struct answers {
    uint64_t good[BATCH_MAX / 64];
    uint64_t present[BATCH_MAX / 64];
    uint64_t selected[BATCH_MAX / 64];
    uint16_t holder[BATCH_MAX]; /* with --which: the filter that has it, its place in q->store */
    uint64_t count[BATCH_MAX];  /* with --counts or --min-count */
};

/* What is printed right before record i. Returns its length. */
static size_t prefix_of(const struct query *q, const struct answers *a, size_t i,
                        char text[NUM_TEXT])
{
    size_t len = 0;
    if (q->annotate) {
        text[len++] = bit_of(a->present, i) ? '+' : '-';
        text[len++] = '\t';
    }
    if (q->counts)
        len += (size_t)snprintf(text + len, NUM_TEXT - len, "%" PRIu64 "\t", a->count[i]);
    return len;
}

static bool note_labels(const struct query *q, const struct batch *b, const struct answers *a,
                        struct result *r)
{
    const uint64_t *printed = q->annotate ? a->good : a->selected;
    char prefix[NUM_TEXT];
    for (size_t i = 0; i < b->n; i++) {
        if (!bit_of(printed, i))
            continue;
        if (r->n_labels == r->labels_capacity) {
            size_t capacity = r->labels_capacity > 0 ? 2 * r->labels_capacity : 1024;
            struct label *labels = realloc(r->labels, capacity * sizeof *labels);
            if (labels == NULL)
                return false;
            r->labels = labels;
            r->labels_capacity = capacity;
        }
        r->labels[r->n_labels++] = (struct label){
            .number = b->n_before + i,
            .len = prefix_of(q, a, i, prefix) + (size_t)(b->record[i + 1] - b->record[i]),
            .name = q->which ? q->path[a->holder[i]] : NULL};
    }
    return true;
}

static bool print_prefixed(const struct query *q, const struct batch *b, const struct answers *a,
                           struct result *r)
{
    const uint64_t *printed = q->annotate ? a->good : a->selected;
    char prefix[NUM_TEXT];
    for (size_t i = 0; i < b->n; i++)
        if (bit_of(printed, i) &&
            (!output_bytes(&r->out, prefix, prefix_of(q, a, i, prefix)) ||
             !output_bytes(&r->out, b->record[i], (size_t)(b->record[i + 1] - b->record[i]))))
            return false;
    return true;
}

/* Puts what is to be printed of a batch into r->out. Memory may be read up to limit. */
static bool print_batch(const struct query *q, const struct batch *b, const struct answers *a,
                        const char *limit, struct result *r)
{
    if (q->quiet || q->count)
        return true;
    if ((q->number || q->which) && !note_labels(q, b, a, r))
        return false;
    if (q->annotate || q->counts)
        return print_prefixed(q, b, a, r);
    return output_select(&r->out, b->record, b->n, a->selected, limit);
}

/* Bits 0..n-1, those of bad records left out. */
static void good_records(const struct batch *b, uint64_t good[BATCH_MAX / 64])
{
    for (size_t w = 0; w < BATCH_MAX / 64; w++) {
        size_t left = b->n > 64 * w ? b->n - 64 * w : 0;
        good[w] = (left >= 64 ? ~UINT64_C(0) : ((uint64_t)1 << left) - 1) & ~b->bad[w];
    }
}

/* Marks the keys that are in FILTER. */
static bool ask_first(struct query *q, const struct batch *b, struct answers *a, struct err *err)
{
    if (!q->counts && q->min_count == 0)
        return store_query(q->store[0], batch_hashes(b), b->n, a->present, err);
    if (!store_query_counts(q->store[0], batch_hashes(b), b->n, a->count, err))
        return false;
    memset(a->present, 0, sizeof a->present);
    for (size_t i = 0; i < b->n; i++)
        a->present[i / 64] |= (uint64_t)(a->count[i] > 0) << i % 64;
    return true;
}

/* Marks the good keys that are in any filter. */
static bool ask(struct query *q, const struct batch *b, struct answers *a, struct err *err)
{
    if (!ask_first(q, b, a, err))
        return false;
    if (q->which)
        memset(a->holder, 0, sizeof a->holder);
    for (size_t f = 1; f < q->n_open; f++) {
        uint64_t also[BATCH_MAX / 64];
        if (!store_query(q->store[f], batch_hashes(b), b->n, also, err))
            return false;
        for (size_t i = 0; q->which && i < b->n; i++)
            if (bit_of(also, i) && !bit_of(a->present, i))
                a->holder[i] = (uint16_t)f;
        for (size_t w = 0; w < (b->n + 63) / 64; w++)
            a->present[w] |= also[w];
    }
    for (size_t w = 0; w < BATCH_MAX / 64; w++)
        a->present[w] &= a->good[w];
    for (size_t i = 0; q->confirm_path != NULL && i < b->n; i++)
        if (bit_of(a->present, i) && !confirm_has(&q->confirm, b, i)) {
            a->present[i / 64] &= ~((uint64_t)1 << i % 64);
            a->count[i] = 0;
        }
    return q->confirm_path == NULL || confirm_sound(&q->confirm, err);
}

static bool answer_batch(struct query *q, const struct batch *b, const char *limit,
                         struct result *r, struct err *err)
{
    struct answers a;
    good_records(b, a.good);
    if (!ask(q, b, &a, err))
        return false;
    r->present += bits_count(a.present, BATCH_MAX);
    for (size_t i = 0; q->min_count > 1 && i < b->n; i++)
        if (a.count[i] < q->min_count)
            a.present[i / 64] &= ~((uint64_t)1 << i % 64);
    for (size_t w = 0; w < BATCH_MAX / 64; w++)
        a.selected[w] = q->invert ? a.good[w] & ~a.present[w] : a.present[w];
    r->selected += bits_count(a.selected, BATCH_MAX);
    return print_batch(q, b, &a, limit, r) || fail(err, "out of memory");
}

/* Takes notice of layers that came or went since. */
static bool follow(struct query *q, struct err *err)
{
    bool ok = true;
    for (size_t f = 0; ok && f < q->n_open; f++) {
        pthread_rwlock_rdlock(&q->lock);
        bool changed = store_changed(q->store[f]);
        pthread_rwlock_unlock(&q->lock);
        if (!changed)
            continue;
        pthread_rwlock_wrlock(&q->lock);
        ok = store_refresh(q->store[f], err);
        pthread_rwlock_unlock(&q->lock);
    }
    return ok;
}

/* From this chunk length on, filters are read ahead: the keys will touch many pages. */
enum { MUCH = 64 << 10 };

static void expect_many(struct query *q)
{
    if (atomic_exchange(&q->many, true))
        return;
    for (size_t f = 0; f < q->n_open; f++)
        store_expect(q->store[f], true);
}

static bool work(void *ctx, unsigned worker, const struct chunk *chunk, void *slot,
                 struct err *err)
{
    struct query *q = ctx;
    struct result *r = slot;
    struct batch *b;
    (void)worker;
    r->selected = r->present = 0;
    r->n_labels = 0;
    r->out.len = 0;
    bool ok = follow(q, err);
    pthread_rwlock_rdlock(&q->lock);
    if (chunk->len >= MUCH)
        expect_many(q);
    while (ok && (b = feed_next(&r->part)) != NULL)
        ok = answer_batch(q, b, chunk->data + chunk->len, r, err);
    pthread_rwlock_unlock(&q->lock);
    return ok &&
           (output_terminate(&r->out, q->keyopt.rule.terminator) || fail(err, "out of memory"));
}

/* Adds what is printed before a record. */
static bool put_label(const struct query *q, struct output *out, const struct label *label,
                      uint64_t before)
{
    char text[NUM_TEXT];
    unsigned long long number = before + label->number + 1;
    int len = q->number ? snprintf(text, sizeof text, "%llu:", number) : 0;
    return (!q->which || (output_bytes(out, label->name, strlen(label->name)) &&
                          output_bytes(out, ":", 1))) &&
           output_bytes(out, text, (size_t)len);
}

/* The records of r->out again, each behind its label. `before` records came before the chunk. */
static bool label_records(const struct query *q, struct output *labelled, const struct result *r,
                          uint64_t before)
{
    const char *at = r->out.data, *end = r->out.data + r->out.len;
    for (size_t i = 0; i < r->n_labels && at < end; i++) {
        size_t len = r->labels[i].len;
        bool last = i + 1 == r->n_labels; /* a terminator may have been added */
        if (last || len > (size_t)(end - at)) /* there was no memory, which feed.h says */
            len = (size_t)(end - at);
        if (!put_label(q, labelled, &r->labels[i], before) || !output_bytes(labelled, at, len))
            return false;
        at += len;
    }
    return true;
}

static bool write_records(struct query *q, struct result *r, uint64_t before)
{
    if (!q->number && !q->which)
        return output_write(&r->out);
    struct output labelled = {0};
    bool ok = label_records(q, &labelled, r, before);
    if (!ok)
        say_error("out of memory");
    ok = ok && output_write(&labelled);
    output_free(&labelled);
    return ok;
}

static bool commit(void *ctx, const struct chunk *chunk, void *slot)
{
    struct query *q = ctx;
    struct result *r = slot;
    (void)chunk;
    q->selected += r->selected;
    q->present += r->present;
    if (q->quiet && q->selected > 0)
        return false;
    if (write_records(q, r, q->feed.tally.in_file))
        return true;
    q->feed.failed = true;
    return false;
}

static void free_result(void *ctx, void *slot)
{
    struct result *r = slot;
    (void)ctx;
    output_free(&r->out);
    free(r->labels);
}

static void feed(struct query *q)
{
    struct stat st;
    bool is_file = store_stat(q->store[0], &st);
    q->feed = (struct feed){.keyopt = &q->keyopt,
                            .title = "querying",
                            .refuse = is_file ? &st : NULL,
                            .prompt = true,
                            .keep_going = true,
                            .ctx = q,
                            .slot_size = sizeof(struct result),
                            .work = work,
                            .commit = commit,
                            .slot_free = free_result};
    feed_run(&q->feed);
    q->feed.refuse = NULL;
}

/* Of a absent keys a * fpr are reported present, so the absent ones that were reported as such are
 * a * (1 - fpr). */
static bool report_hits(const struct query *q)
{
    struct census census = {0};
    struct err err;
    char expected[NUM_TEXT], fpr[NUM_TEXT];
    double absent_everywhere = 1;
    for (size_t f = 0; f < q->n_open; f++) {
        if (!store_census(q->store[f], q->keyopt.threads, NULL, &census, &err))
            return say_failure(&err);
        absent_everywhere *= 1 - census.fpr;
    }
    /* One filter's rate keeps all of its digits. */
    if (q->n_open > 1)
        census.fpr = 1 - absent_everywhere;
    uint64_t asked = tally_keys(&q->feed.tally);
    double absent = (double)(asked - q->present) / (1 - census.fpr);
    /* What is confirmed is sure. */
    snprintf(expected, sizeof expected, "%.3g", q->confirm_path != NULL ? 0 : absent * census.fpr);
    say_note("%llu of %llu keys present; probable false positives: about %s (current FPR %s)",
             (unsigned long long)q->present, (unsigned long long)asked, expected,
             num_show_fpr(fpr, census.fpr));
    for (size_t f = 0; f < q->n_open; f++)
        redisopt_report(q->store[f]);
    return true;
}

static bool open_filter(struct query *q, const char *path)
{
    struct err err;
    struct store *s = store_open(path, STORE_READ, &err);
    if (s == NULL)
        return say_failure(&err);
    q->store[q->n_open++] = s;
    store_expect(s, false);
    warn_unclean(s);
    if ((q->counts || q->min_count > 0) && !store_check_counts(s, &err))
        return say_failure(&err);
    q->keyopt.rule.bytes |= store_wants_bytes(s);
    const struct header *first = store_header(q->store[0]), *h = store_header(s);
    return (keyopt_adopt(&q->keyopt, h, path, &err) &&
            header_same_questions(first, q->path[0], h, path, &err)) ||
           say_failure(&err);
}

static bool open_list(struct query *q)
{
    struct err err;
    if (!confirm_open(&q->confirm, q->confirm_path, &q->keyopt.rule, &err))
        return say_failure(&err);
    keyopt_hint_crlf(&q->keyopt, q->confirm.saw_cr, q->confirm_path);
    return true;
}

/* FILTER is asked first. */
static bool start(struct query *q, const char *path)
{
    if (!take_filter(q, path))
        return false;
    memmove(q->path + 1, q->path, (q->n_filters - 1) * sizeof *q->path);
    q->path[0] = path;
    q->store = calloc(q->n_filters, sizeof(struct store *));
    if (q->store == NULL) {
        say_error("out of memory");
        return false;
    }
    for (size_t f = 0; f < q->n_filters; f++)
        if (!open_filter(q, q->path[f]))
            return false;
    return q->confirm_path == NULL || open_list(q);
}

static int answer(struct query *q)
{
    feed(q);
    tally_report(&q->feed.tally);
    if (q->quiet && q->selected > 0)
        return EXIT_SELECTED;
    if (q->feed.failed)
        return EXIT_ERROR;
    if (q->verbose && !report_hits(q))
        return EXIT_ERROR;
    if (q->count && !q->quiet)
        printf("%llu\n", (unsigned long long)q->selected);
    if (q->feed.unreadable)
        return EXIT_ERROR;
    return q->selected > 0 ? EXIT_SELECTED : EXIT_NONE;
}

static int run_query(struct query *q, int argc, char **argv)
{
    struct opt_parser p;
    int id;
    opt_begin(&p, &cmd_query, argc, argv);
    while ((id = opt_next(&p)) > 0)
        if (!parse_option(q, &p, id))
            return EXIT_ERROR;
    if (id < 0)
        return p.status;
    if (p.first == argc)
        return opt_misuse(&cmd_query, "no FILTER given");
    if (q->which && (q->invert || q->annotate))
        return opt_misuse(&cmd_query, "--which names the filter that has a key: not with %s",
                          q->invert ? "--invert-match" : "--annotate");
    if ((q->counts || q->min_count > 0) && q->n_filters > 0)
        return opt_misuse(&cmd_query, "%s asks one filter for its counts: not with --also",
                          q->counts ? "--counts" : "--min-count");
    if (q->n_filters >= UINT16_MAX)
        return opt_misuse(&cmd_query, "too many filters");
    if (!keyopt_files(&q->keyopt, &cmd_query, argv + p.first + 1, argc - p.first - 1))
        return EXIT_ERROR;
    q->keyopt.prints = !q->quiet && !q->count;
    return start(q, argv[p.first]) ? answer(q) : EXIT_ERROR;
}

static int run(int argc, char **argv)
{
    struct query q = {.keyopt = KEYOPT_DEFAULT};
    pthread_rwlock_init(&q.lock, NULL);
    int status = run_query(&q, argc, argv);
    for (size_t f = 0; f < q.n_open; f++)
        store_close(q.store[f]);
    free(q.store);
    free(q.path);
    confirm_close(&q.confirm);
    pthread_rwlock_destroy(&q.lock);
    keyopt_free(&q.keyopt);
    return status;
}

const struct command cmd_query = {
    .name = "query",
    .synopsis = "[OPTION]... FILTER [KEYFILE]...",
    .summary = "print the records whose key is present",
    .details =
        "Reads records, one a line, from the KEYFILEs or standard input, and prints those whose "
        "key is in FILTER, in order and byte for byte. Exit status: 0 if a record was selected, "
        "1 if none was, 2 on an error.",
    .groups = groups,
    .run = run,
};
