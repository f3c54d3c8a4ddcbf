#include <sys/stat.h>

#include "adder.h"
#include "cmd.h"
#include "filter.h"
#include "keyarg.h"
#include "progress.h"
#include "say.h"
#include "sig.h"

enum { OPT_MAX_FPR = 400, OPT_ROTATE, OPT_NO_SYNC, OPT_VERBOSE };

static const struct opt add_opts[] = {
    {OPT_MAX_FPR, "max-fpr", "P",
     "add no key that would take the current false-positive rate above P",
     false, 0},
    {OPT_ROTATE, "rotate-at-capacity", NULL,
     "rotate a filter with generations whenever its newest one is full",
     false, 0},
    {OPT_NO_SYNC, "no-sync", NULL,
     "do not wait for the disk: faster, but keys may be lost if the machine stops",
     false, 0},
    {OPT_VERBOSE, "verbose", NULL, "say on stderr how many keys were new", false, 0},
    {0},
};

static const struct opt_group groups[] = {
    {"Adding", add_opts},
    {"Keys", keyarg_opts},
    {"Key preparation, checked against what is stored in the filter", keyarg_prep_opts},
    {0},
};

struct add {
    struct keyarg ka;
    bool no_sync, verbose;
    struct adder_options options;
    struct filter filter;
    struct adder adder;
    struct batch **batch; /* one a worker */
    struct tally tally;
    bool failed; /* and said why */
};

/* The keys of one chunk. */
struct result {
    struct chunk_tally tally;
    struct adder_keys keys;
    bool no_memory;
};

static bool parse_option(struct add *a, struct opt_parser *p, int id)
{
    switch (id) {
    case OPT_MAX_FPR:
        return opt_fpr(p, &a->options.max_fpr);
    case OPT_ROTATE:
        return a->options.rotate = true;
    case OPT_NO_SYNC:
        return a->no_sync = true;
    case OPT_VERBOSE:
        return a->verbose = true;
    default:
        return keyarg_take(&a->ka, p, id);
    }
}

static void work(void *ctx, unsigned worker, const struct chunk *chunk, void *slot)
{
    struct add *a = ctx;
    struct result *r = slot;
    struct batch *b = a->batch[worker];
    r->tally = (struct chunk_tally){0};
    r->keys.n = 0;
    r->no_memory = false;
    batch_start(b, chunk->data, chunk->len);
    while (!r->no_memory && batch_next(b)) {
        r->no_memory = !adder_keys_take(&r->keys, b);
        tally_batch(&r->tally, b);
    }
    tally_batches_end(&r->tally, b);
}

/* Adds the keys; false when it stopped before the last, and said why. `where` names the input and
 * `before` is the number of records in it before these. */
static bool add_keys(struct add *a, struct adder_keys *keys, const char *where, uint64_t before)
{
    struct err err;
    size_t done;
    enum adder_result result = adder_add(&a->adder, keys->hash, keys->known, keys->n,
                                         &done, &err);
    if (a->adder.warning[0] != '\0')
        say_warning("%s", a->adder.warning);
    if (result == ADDER_OK)
        return true;
    unsigned long long record = before + done + 1;
    if (result == ADDER_FULL)
        say_error("%s:%llu: %s", where, record, err.text);
    else if (sig_caught())
        return false;
    else
        say_failure(&err);
    a->failed = true;
    return false;
}

static bool commit(void *ctx, const struct chunk *chunk, void *slot)
{
    struct add *a = ctx;
    struct result *r = slot;
    tally_begin(&a->tally, chunk);
    if (r->no_memory) {
        say_error("out of memory");
        a->failed = true;
    }
    if (a->failed || !add_keys(a, &r->keys, input_name(a->tally.input, chunk->file),
                               a->tally.in_file))
        return false;
    a->failed = !tally_end(&a->tally, chunk, &r->tally);
    return !a->failed;
}

static void free_result(void *ctx, void *slot)
{
    struct result *r = slot;
    (void)ctx;
    adder_keys_free(&r->keys);
}

static void add_given_keys(struct add *a)
{
    struct batch *b = a->batch[0];
    struct adder_keys keys = {0};
    size_t next = 0;
    while (!a->failed && keyarg_batch(&a->ka, &next, b)) {
        keys.n = 0;
        if (!adder_keys_take(&keys, b)) {
            say_error("out of memory");
            a->failed = true;
            break;
        }
        if (!add_keys(a, &keys, "--key", a->tally.records))
            break;
        a->tally.records += b->n;
        a->tally.bad += b->n_bad;
    }
    if (!a->failed)
        a->failed = !keyarg_batch_end(&a->ka, next, b);
    adder_keys_free(&keys);
}

static void add_input(struct add *a)
{
    struct stat st;
    bool is_known = fstat(a->filter.fd, &st) == 0;
    struct pump pump = {.ctx = a,
                        .slot_size = sizeof(struct result),
                        .work = work,
                        .commit = commit,
                        .slot_free = free_result};
    progress_begin("adding", a->ka.progress);
    if (!keyarg_pump(&pump, &a->tally, is_known ? &st : NULL, true))
        a->failed = true;
    progress_end();
}

static int add(struct add *a)
{
    struct err err;
    sig_catch();
    a->options.threads = a->ka.threads;
    if (!adder_begin(&a->adder, &a->filter, &a->options, &err)) {
        if (sig_caught())
            return 128 + sig_caught();
        say_failure(&err);
        return EXIT_ERROR;
    }
    if (a->ka.n_keys > 0)
        add_given_keys(a);
    else
        add_input(a);
    if (!adder_end(&a->adder, !a->no_sync, &err) && !a->failed)
        a->failed = !say_failure(&err);
    tally_report(&a->tally);
    adder_conclude(&a->adder, false);
    if (a->adder.warning[0] != '\0')
        say_warning("%s", a->adder.warning);
    if (a->verbose) {
        unsigned long long records = a->tally.records - a->tally.bad, n_new = a->adder.n_new;
        say_note("%llu record%s, %llu new key%s", records, records == 1 ? "" : "s", n_new,
                 n_new == 1 ? "" : "s");
    }
    if (a->failed)
        return EXIT_ERROR;
    return sig_caught() ? 128 + sig_caught() : EXIT_SELECTED;
}

static int run_add(struct add *a, int argc, char **argv)
{
    struct opt_parser p;
    struct err err;
    int id;
    opt_begin(&p, &cmd_add, argc, argv);
    while ((id = opt_next(&p)) > 0)
        if (!parse_option(a, &p, id))
            return EXIT_ERROR;
    if (id < 0)
        return p.status;
    if (p.first == argc)
        return opt_misuse(&cmd_add, "no FILTER given");
    if (!keyarg_files(&a->ka, &cmd_add, argv + p.first + 1, argc - p.first - 1))
        return EXIT_ERROR;
    a->tally.ka = &a->ka;
    if (!filter_open(&a->filter, argv[p.first], FILTER_WRITE, &err) ||
        !keyarg_adopt(&a->ka, &a->filter.header, argv[p.first], &err)) {
        say_failure(&err);
        return EXIT_ERROR;
    }
    keyarg_warn(&a->filter);
    a->batch = keyarg_batches(&a->ka);
    int status = a->batch != NULL ? add(a) : EXIT_ERROR;
    keyarg_batches_free(&a->ka, a->batch);
    return status;
}

static int run(int argc, char **argv)
{
    struct add a = {.ka = KEYARG_DEFAULT, .filter = {.fd = -1}};
    int status = run_add(&a, argc, argv);
    if (a.filter.fd >= 0)
        filter_close(&a.filter);
    keyarg_free(&a.ka);
    return status;
}

const struct command cmd_add = {
    .name = "add",
    .synopsis = "[OPTION]... FILTER [KEYFILE]...",
    .summary = "add keys to a filter",
    .details =
        "Reads keys, one a line, from the KEYFILEs or standard input, and adds them to FILTER in "
        "place, beside any number of other writers and readers. Exit status 0 means that they "
        "are on disk.",
    .groups = groups,
    .run = run,
};
