#include "cmd/known.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bits.h"
#include "store/chain.h"
#include "store/header.h"

/* Of what a run keeps for itself, nothing at all is to be lost to false positives. */
static const double RUN_FPR = 1e-9;

static bool open_in_memory(struct sink *sink, const struct key_rule *rule, uint64_t n, double p,
                           struct err *err)
{
    struct header h;
    const struct design design = {.n = n, .p = p, .grow = true};
    header_begin(&h, rule, false);
    return sink->open = header_design(&h, &design, 0, err) &&
                        memory_open(&sink->filter, sink->path, &h, err);
}

bool known_open_in_memory(struct known *k, const struct key_rule *rule, uint64_t n, double p,
                          struct err *err)
{
    k->in_memory = true;
    return open_in_memory(&k->sink, rule, n, p, err);
}

bool known_open_file(struct known *k, const char *path, struct err *err)
{
    return k->sink.open = filter_open(&k->sink.filter, path, FILTER_WRITE, err);
}

/* Is that the file that takes new keys? */
static bool is_sink(const struct known *k, const struct filter *f)
{
    struct stat sink, other;
    return k->sink.open && fstat(k->sink.filter.fd, &sink) == 0 && fstat(f->fd, &other) == 0 &&
           sink.st_dev == other.st_dev && sink.st_ino == other.st_ino;
}

bool known_also(struct known *k, const char *path, struct err *err)
{
    struct filter *also = realloc(k->also, (k->n_also + 1) * sizeof *also);
    if (also == NULL)
        return fail(err, "out of memory");
    k->also = also;
    struct filter *f = &also[k->n_also];
    if (!filter_open(f, path, FILTER_READ, err))
        return false;
    k->n_also++;
    if (is_sink(k, f))
        return fail(err, "'%s' is the filter itself: --also is for others", path);
    const struct filter *first = k->sink.open ? &k->sink.filter : &also[0];
    return filter_same_questions(&first->header, first->path, &f->header, path, err);
}

bool known_confirm(struct known *k, const char *path, const struct key_rule *rule, struct err *err)
{
    k->single = batch_new(rule);
    if (k->single == NULL)
        return fail(err, "out of memory");
    k->has_list = confirm_open(&k->list, path, rule, err);
    /* What is in memory is of this run, so it is known. */
    return k->has_list &&
           (k->in_memory || open_in_memory(&k->run, rule, CHAIN_FIRST, RUN_FPR, err));
}

bool known_begin(struct known *k, const struct adder_options *options, struct err *err)
{
    const struct adder_options plain = {.threads = options->threads};
    struct err ignored;
    if (!adder_begin(&k->sink.adder, &k->sink.filter, k->in_memory ? &plain : options, err))
        return false;
    if (!k->run.open || adder_begin(&k->run.adder, &k->run.filter, &plain, err))
        return true;
    adder_end(&k->sink.adder, false, &ignored);
    return false;
}

bool known_ask(struct known *k, struct batch *b, struct err *err)
{
    for (size_t f = 0; f < k->n_also; f++) {
        uint64_t present[BATCH_MAX / 64];
        if (!filter_query(&k->also[f], batch_hashes(b), b->n, present, err))
            return false;
        for (size_t i = 0; i < b->n; i++)
            if (bit_of(present, i) && !bit_of(b->bad, i) &&
                (!k->has_list || confirm_has(&k->list, b, i)))
                bit_set(b->bad, i);
    }
    return !k->has_list || confirm_sound(&k->list, err);
}

/* Is the key of a record in the list? The record has one, so only memory can be lacking. */
static bool ask_list(struct known *k, const char *const *record, bool *listed, struct err *err)
{
    if (!batch_take(k->single, record, 1))
        return fail(err, "%s", k->single->bad_reason.text);
    *listed = confirm_has(&k->list, k->single, 0);
    return true;
}

/* Makes new again those of n keys that the filter has reported present, but that are not in the
 * list and were not new earlier in this run. */
static bool confirm_hits(struct known *k, struct adder_keys *keys, const char *const *record,
                         size_t n, struct err *err)
{
    size_t done;
    uint64_t *before = k->before;
    for (size_t i = 0; i < n; i++) {
        bool listed = false;
        if (!bit_of(keys->known, i) || bit_of(before, i))
            continue;
        if (!ask_list(k, record + i, &listed, err))
            return false;
        if (listed)
            bit_set(before, i);
    }
    if (adder_add(&k->run.adder, keys->hash, before, n, &done, err) != ADDER_OK)
        return false;
    for (size_t w = 0; w < (n + 63) / 64; w++) {
        uint64_t asked = n - w * 64 < 64 ? ((uint64_t)1 << n % 64) - 1 : ~UINT64_C(0);
        uint64_t denied = keys->known[w] & ~before[w];
        k->n_denied += (unsigned)__builtin_popcountll(denied & asked);
        keys->known[w] &= before[w];
    }
    return confirm_sound(&k->list, err);
}

/* A copy of what is known of the keys so far. */
static bool keep(struct known *k, const struct adder_keys *keys)
{
    if (k->before_room < keys->room) {
        uint64_t *before = realloc(k->before, keys->room / 64 * sizeof *before);
        if (before == NULL)
            return false;
        k->before = before;
        k->before_room = keys->room;
    }
    if (keys->n > 0)
        memcpy(k->before, keys->known, (keys->n + 63) / 64 * sizeof *k->before);
    return true;
}

enum adder_result known_add(struct known *k, struct adder_keys *keys, const char *const *record,
                            size_t *done, struct err *err)
{
    struct err why;
    *done = 0;
    if (k->run.open && !keep(k, keys)) {
        fail(err, "out of memory");
        return ADDER_FAILED;
    }
    enum adder_result result =
        adder_add(&k->sink.adder, keys->hash, keys->known, keys->n, done, err);
    if (!k->run.open || confirm_hits(k, keys, record, *done, &why))
        return result;
    *err = why;
    return ADDER_FAILED;
}

uint64_t known_n_new(const struct known *k)
{
    return k->sink.adder.n_new + k->n_denied;
}

double known_lost(const struct known *k, unsigned threads)
{
    const struct adder *a = &k->sink.adder;
    double absent = 1;
    if (k->has_list)
        return 0;
    for (size_t f = 0; f < k->n_also; f++) {
        struct census census;
        filter_census_all(&k->also[f], threads, &census);
        absent *= 1 - census.fpr;
    }
    if (absent <= 0)
        return INFINITY;
    /* New and not taken for known in a filter that is only read: N * absent. */
    double passed = (double)a->n_new + a->dropped;
    return a->dropped + passed * (1 - absent) / absent;
}

const char *known_conclude(struct known *k, bool again)
{
    struct adder *a = &k->sink.adder;
    adder_conclude(a, again);
    return a->warning[0] != '\0' ? a->warning : NULL;
}

bool known_end(struct known *k, bool sync, struct err *err)
{
    return adder_end(&k->sink.adder, sync, err);
}

void known_close(struct known *k)
{
    for (size_t i = 0; i < k->n_also; i++)
        filter_close(&k->also[i]);
    free(k->also);
    if (k->has_list)
        confirm_close(&k->list);
    if (k->sink.open)
        filter_close(&k->sink.filter);
    if (k->run.open)
        filter_close(&k->run.filter);
    batch_free(k->single);
    free(k->before);
}
