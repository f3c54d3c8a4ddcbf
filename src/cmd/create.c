/* SPDX-License-Identifier: MIT */
/* seen create: checks options, reads keys, and reports on the filter. builder.h makes the
 * filter from the keys. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/disk.h"
#include "base/num.h"
#include "base/say.h"
#include "cmd/cmd.h"
#include "cmd/feed.h"
#include "cmd/keyopt.h"
#include "cmd/plan.h"
#include "cmd/report.h"
#include "cmd/warn.h"
#include "file/chain.h"
#include "write/builder.h"
#include "foreign/foreign.h"
#include "file/design.h"
#include "write/assembly.h"
#include "write/writer.h"

struct create {
    struct keyopt keyopt;
    const char *path, *like, *from, *tmpdir;
    struct design design;
    struct header like_header;
    struct layout_spec layout;
    uint64_t from_records;
    uint64_t min_keys;
    double min_ratio;
    bool compact, counted, once, fixed, dry_run, json, new_secret;
    struct assembly assembly; /* its input is `from`, if given */
    struct builder build;
    struct feed feed;
};

#define FOR_RECORDS " null null-data field csv jsonl header comments crlf skip-bad no-gzip"

static const struct opt size_opts[] = {
    {'n', "capacity", "N",
     "design for N distinct keys: 1000, 250k, 1M, 1e9; default: the number found",
     AMOUNT(struct create, design.n)},
    {'p', "fpr", "P", "false-positive rate: 1e-6 (default), 0.001, 0.1%; with N keys", OWN},
    {'s', "size", "BYTES",
     "file size: 512K, 64M, 2G (powers of 1024); determines the capacity or the rate, whichever is "
     "not given",
     BYTES(struct create, design.size)},
    {0, "compact", NULL, "smallest possible file, but no keys can be added",
     FLAG(struct create, compact), .not_with = " capacity like",
     .why = "makes a filter for exactly the keys that are found"},
    {0, "counted", NULL,
     "make a set that counts keys and can remove them; --fpr 0 keeps whole hashes",
     FLAG(struct create, counted),
     .not_with = " layout compact size grow generations foldable like"},
    {0, "once", NULL, "with --counted: count a key once per command", FLAG(struct create, once),
     .needs = " counted", .not_with = " each", .why = "counts keys"},
    {0, "each", NULL, "with --counted: count every occurrence (the default)", NOTHING,
     .needs = " counted", .why = "counts keys"},
    {0, "like", "FILTER",
     "copy capacity, rate and key preparation from FILTER; the two can be merged without loss",
     TEXT(struct create, like), .not_with = " capacity fpr size",
     .why = "takes capacity, rate and size from its FILTER"},
    {0, "from", "FILTER",
     "take the keys of FILTER, a counted set made with --fpr 0, instead of reading any",
     TEXT(struct create, from), .not_with = " key KEYFILE empty" FOR_RECORDS,
     .why = "takes the keys of its FILTER"},
    {300, "layout", "SPEC",
     "make a filter in another program's format: guava, spark, redisson, gozero, redisbloom, "
     "bitsandblooms or dcso; NAME[:PARAM=VALUE,...], see seen-layouts(7), which has one more",
     OWN, .not_with = " secret compact size grow generations foldable like",
     .why = "makes what the other program would"},
    {0, "fixed", NULL, "do not grow: keys added beyond N raise the rate; --size implies it",
     FLAG(struct create, fixed), .not_with = " grow compact counted layout generations like"},
    {0, "grow", NULL, "add a layer whenever the filter is full (the default)", NOTHING,
     .not_with = " compact size like"},
    {0, "generations", "G",
     "forget old keys: G generations of N/G keys each; 'seen rotate' empties the oldest",
     GENERATIONS(struct create, design.generations), .needs = " capacity",
     .not_with = " grow compact size like foldable"},
    {0, "forget-after", "TIME", "forget keys after TIME (12h, 30d) or a tenth later",
     AGE(struct create, design.period), .needs = " capacity",
     .not_with = " generations grow fixed compact counted layout size like foldable"},
    {0, "foldable", NULL,
     "make the file up to 6.3 % larger, so that 'seen shrink' can halve it "
     "repeatedly",
     FLAG(struct create, design.foldable), .not_with = " compact size like"},
    {0, "empty", NULL, "read no keys", FLAG(struct create, design.empty),
     .not_with = " key KEYFILE once each min-keys min-ratio" FOR_RECORDS, .why = "reads no keys"},
    {0},
};

static const struct opt file_opts[] = {
    {0, "force", NULL, "replace an existing FILTER atomically",
     FLAG(struct create, assembly.replace)},
    {0, "min-keys", "N", "fail, replacing nothing, below N distinct keys",
     COUNT(struct create, min_keys)},
    {0, "min-ratio", "R",
     "fail, replacing nothing, below R times the distinct keys of the old FILTER",
     RATIO(struct create, min_ratio), .needs = " force", .why = "is for the replacement of a file"},
    {0, "tmpdir", "DIR", "directory for scratch files (default: that of FILTER)",
     TEXT(struct create, tmpdir)},
    {0, "new-secret", NULL, "make the file of --secret from random bytes if it does not exist",
     FLAG(struct create, new_secret), .not_with = " like from dry-run",
     .why = "makes the file of --secret"},
    {0, "dry-run", NULL, "print what would be made, as 'seen plan' does; write nothing",
     FLAG(struct create, dry_run)},
    {0, "reproducible", NULL,
     "leave out times and the random file id; the same records and options give the same bytes",
     FLAG(struct create, assembly.reproducible), .env = "SOURCE_DATE_EPOCH"},
    {0, "no-profile", NULL,
     "keep no account of what keys look like (their lengths, digits, cases), which others could "
     "read",
     FLAG(struct create, design.no_profile)},
    {0, "json", NULL, "print a summary as JSON", FLAG(struct create, json)},
    {0},
};

static bool take_create_opt(void *create, struct opt_parser *p, int id)
{
    struct create *c = create;
    struct err err;
    if (id == 'p') {
        c->design.exact = strcmp(p->value, "0") == 0;
        return c->design.exact || opt_fpr(p, &c->design.p);
    }
    c->design.layout = &c->layout;
    return layout_parse(p->value, &c->layout, &err) || say_failure(&err);
}

#define KINDS                                                                                      \
    "--compact, --counted, --generations and --layout make other filters than one that grows"

static const struct opt_hint hints[] = {
    {"-e", "-p gives the false-positive rate, -k a key"},
    {"--count", "-n gives the number of keys, --counted makes a set that counts them"},
    {"-o", "FILTER is the first operand"},
    {"--output", "FILTER is the first operand"},
    {"-v", "--json prints a summary"},
    {"--kind", KINDS},
    {"--type", KINDS},
    {"--verbose", "--json prints a summary"},
    {0},
};

static const struct opt_group groups[] = {
    {"Size", size_opts, 0, take_create_opt},
    {"Keys", keyopt_opts, offsetof(struct create, keyopt), keyopt_take},
    {"Key preparation, stored in the filter and applied by every later command", keyopt_prep_opts,
     offsetof(struct create, keyopt), keyopt_take},
    {"File", file_opts, 0, NULL},
    {0},
};

/* The current FPR may exceed the design FPR by this factor: with n keys in a filter for n keys, the
 * random spread of bits causes as much. Above it, the keys do not fit. */
static const double FPR_SLACK = 1.01;

static bool read_like(struct create *c)
{
    struct err err;
    const struct borrow by_content = {0};
    const struct header *like_header = &c->like_header;
    if (!borrow_read_header(c->like, &by_content, &c->like_header, &err))
        return say_failure(&err);
    if (format_forgets(like_header) || like_header->n_layers != 1 ||
        !kind_takes_keys(like_header->layers[0].kind))
        return say_error("'%s' is not a single Bloom filter, so --like cannot copy it", c->like);
    if (!keyopt_adopt(&c->keyopt, like_header, c->like, &err))
        return say_failure(&err);
    c->keyopt.rule.profile = (struct profile){0};
    c->design.like = like_header;
    return true;
}

static int check_create_options(const struct create *c)
{
    const struct design *d = &c->design;
    if (c->from != NULL && c->counted)
        return opt_misuse(&cmd_create, "--from and --counted cannot go together; 'seen shrink' "
                                       "gives a counted set narrower fingerprints");
    if (c->from != NULL && d->layout != NULL)
        return opt_misuse(&cmd_create, "--from and --layout cannot go together: the other program "
                                       "hashes keys in its own way, so the keys are needed");
    if (!c->counted && d->exact)
        return opt_misuse(&cmd_create, "--fpr 0 is possible only with --counted");
    if (c->compact && d->size != 0 && d->p != 0)
        return opt_misuse(&cmd_create, "--compact takes --fpr or --size, not both");
    bool sized = d->n != 0 || d->exact || d->size != 0 || c->like != NULL || d->grow ||
                 (d->layout != NULL && design_fixes_size(d->layout, d->p));
    if (d->empty && !c->compact && !sized)
        return opt_misuse(&cmd_create, "--empty needs %s",
                          c->counted ? "--capacity or --fpr 0" : "--capacity");
    return keyopt_check_memory(&c->keyopt, builder_min_memory(d)) ? 0 : EXIT_ERROR;
}

static bool put(void *ctx, void *slot, struct err *err)
{
    struct create *c = ctx;
    struct feed_part *part = slot;
    struct batch *b = part->batch;
    while (batch_next(b)) {
        part->tally.empty += batch_count_empty(b);
        size_t n = batch_keep_good(b);
        if (!builder_put(&c->build, part->worker, batch_hashes(b), n, err))
            return false;
    }
    return true;
}

/* The keys of a chunk, for a filter that depends on their order. */
struct in_order {
    struct feed_part part;
    struct writer_keys keys;
};

static bool gather(void *ctx, void *slot, struct err *err)
{
    struct in_order *o = slot;
    struct batch *b = o->part.batch;
    (void)ctx;
    o->keys.n = 0;
    while (batch_next(b)) {
        o->part.tally.empty += batch_count_empty(b);
        if (!writer_keys_take(&o->keys, b))
            return fail(err, "out of memory");
    }
    return true;
}

static bool add(void *ctx, void *slot)
{
    struct create *c = ctx;
    struct in_order *o = slot;
    struct err err;
    size_t done;
    return builder_add(&c->build, writer_keys_hashes(&o->keys), o->keys.known, o->keys.n, &done,
                       &err) ||
           feed_fail(&c->feed, done, "%s", err.text);
}

static void free_in_order(void *slot)
{
    struct in_order *o = slot;
    writer_keys_free(&o->keys);
}

static uint64_t keys_given(const struct create *c)
{
    return c->from != NULL ? c->from_records : tally_keys(&c->feed.tally);
}

static double keys_held(const struct create *c)
{
    return (double)c->build.n_held;
}

/* Are nearly all bits set, so that keys_held is a lower bound? */
static bool holds_more(const struct create *c)
{
    return !c->build.counted && c->assembly.census.n_at_least;
}

/* The state of the file after a failure, for messages. */
static const char *outcome(const struct create *c)
{
    return access(c->path, F_OK) == 0 ? "left as it was" : "not made";
}

static bool too_few_keys(const struct create *c, const char *option, double want)
{
    char held[NUM_TEXT], wanted[NUM_TEXT];
    double n = keys_held(c);
    return say_error("only %s distinct key%s, %s %s; '%s' is %s", num_show_count(held, n),
                     n == 1 ? "" : "s", option, num_show_count(wanted, want), c->path, outcome(c));
}

static bool enough_keys(const struct create *c)
{
    double n = keys_held(c), want = (double)c->min_keys, old;
    struct err err;
    if (n < want)
        return too_few_keys(c, "--min-keys is", want);
    if (c->min_ratio <= 0 || access(c->path, F_OK) != 0)
        return true;
    if (!filter_fewest_keys(c->path, c->keyopt.threads, &old, &err))
        return say_error("--min-ratio: %s", err.text);
    want = c->min_ratio * old;
    return n >= want || too_few_keys(c, "--min-ratio asks for", want);
}

static bool keys_fit(const struct create *c)
{
    char held[NUM_TEXT], capacity[NUM_TEXT];
    const struct header *h = &c->assembly.header;
    const struct layer *layer = &h->layers[chain_newest(h)];
    const struct census *census = &c->assembly.census;
    double promised = layer->fpr_design;
    if (format_grows(h) && kind_is_foreign(layer->kind))
        return true;
    /* By another program's rules, a filter for n keys may exceed the FPR that was asked for. */
    if (kind_is_foreign(layer->kind))
        promised = fmax(promised, layer->kind->fpr_at(layer, (double)layer->n_design));
    double sure = c->build.counted ? keys_held(c) : census->n_low;
    if (census->fpr <= FPR_SLACK * promised || sure <= (double)layer->n_design)
        return true;
    if ((h->compat & COMPAT_ASSUMED) != 0) {
        if (census->fpr > writer_warn_fpr(h))
            say_warning("'%s' is more than half full: its false-positive rate is %.3g", c->path,
                        census->fpr);
        return true;
    }
    unsigned generations = c->design.generations;
    double need = keys_held(c) * (generations > 0 ? generations : 1);
    bool more = holds_more(c);
    struct err err;
    fail(&err,
         "%s%s distinct keys are more than the %llu that %s is for: its false-positive rate would "
         "be %.3g instead of %.3g; ",
         more ? "at least " : "", num_show_count(held, keys_held(c)),
         (unsigned long long)layer->n_design,
         generations > 0 ? "a generation of the filter" : "the filter", census->fpr, promised);
    if (c->design.size != 0 ||
        (c->design.layout != NULL && design_fixes_size(c->design.layout, c->design.p)))
        fail_more(&err, "it needs a larger size");
    else
        fail_more(&err, "%s --capacity %s%s",
                  c->like != NULL ? "a filter for them, and others like it, need" : "it needs",
                  num_show_count(capacity, need), more ? " or more" : "");
    return say_failure(&err);
}

static void print_created(const struct create *c)
{
    struct report r = REPORT_DEFAULT;
    const struct header *h = &c->assembly.header;
    struct layout_filter filter;
    char spec[LAYOUT_TEXT];
    struct err none;
    report_made(&r, c->path, h, c->assembly.census.fpr, keys_held(c));
    report_flag(&r, NULL, "n_at_least", EXACT, holds_more(c));
    report_uint(&r, NULL, "records", FORM_COUNT, EXACT,
                c->from != NULL ? c->from_records : c->feed.tally.records);
    report_uint(&r, NULL, "bad_records", FORM_COUNT, EXACT, c->feed.tally.bad);
    report_uint(&r, NULL, "keys_added", FORM_COUNT, c->build.counted ? EXACT : UNKNOWN,
                h->counters.keys_added);
    if (foreign_filter(h, &filter, &none)) {
        layout_show(&filter, spec, sizeof spec);
        report_string(&r, NULL, "layout", RECORDED, spec);
    }
    report_json(&r, stdout);
}

static bool read_key_files(struct create *c)
{
    struct stat old;
    bool exists = stat(c->path, &old) == 0;
    c->feed = (struct feed){.keyopt = &c->keyopt,
                            .title = "reading keys",
                            .filter = exists ? &old : NULL,
                            .ctx = c,
                            .slot_size = sizeof(struct feed_part),
                            .advice.makes = true,
                            .samples = c->keyopt.rule.profiled,
                            .work = put};
    if (builder_in_order(&c->build)) {
        c->feed.slot_size = sizeof(struct in_order);
        c->feed.work = gather;
        c->feed.commit = add;
        c->feed.slot_free = free_in_order;
    }
    if (!feed_run(&c->feed))
        return false;
    /* Hexadecimal keys may have one length, which is stored if it fits. Encoding changes it. */
    const uint32_t prep = c->keyopt.rule.prep;
    size_t len = c->feed.tally.hex_len;
    bool fits = len <= COMPAT_KEY_LEN >> COMPAT_KEY_LEN_SHIFT;
    c->keyopt.rule.key_len =
        (prep & PREP_HEX) != 0 && prep_encoding(prep) == 0 && fits ? (unsigned)len : 0;
    if (c->feed.profile.n >= PROFILE_LEAST)
        c->keyopt.rule.profile = c->feed.profile;
    if (keys_given(c) > 0)
        return true;
    return say_error("no keys%s, so '%s' is %s (--empty makes an empty filter)",
                     c->feed.tally.bad > 0 ? " in any record" : "", c->path, outcome(c));
}

/* Adopts the key preparation of the counted set of --from. */
static bool adopt_from(struct create *c)
{
    struct err err;
    const struct filter *from = c->assembly.in;
    if (c->from == NULL)
        return true;
    bool ok = derive_check(from, &err);
    if (ok && c->like != NULL && !header_same_keys(&c->like_header, &from->header, &err))
        return say_error("'%s' cannot be made like '%s' from '%s': they differ in %s", c->path,
                         c->like, c->from, err.text);
    ok = ok && keyopt_adopt(&c->keyopt, &from->header, c->from, &err) &&
         assembly_check_sound(&c->assembly, &err);
    if (ok) {
        c->keyopt.rule.reading = from->header.reading;
        c->keyopt.rule.profile = from->header.profile;
    }
    return ok || say_failure(&err);
}

static bool take_keys(struct create *c)
{
    struct err err;
    if (!derive_put(c->assembly.in, &c->build, &c->from_records, &err))
        return say_failure(&err);
    if (c->from_records > 0)
        return true;
    return say_error("'%s' has no keys, so '%s' is %s", c->from, c->path, outcome(c));
}

static bool collect(struct create *c, const char *scratch_dir)
{
    struct err err;
    if (!c->design.empty && c->from == NULL)
        c->keyopt.rule.reading = reading_of(&c->keyopt.rule);
    c->keyopt.rule.profiled = !c->design.no_profile && profile_suits(&c->keyopt.rule);
    c->build = (struct builder){.to = &c->assembly,
                                .design = &c->design,
                                .rule = &c->keyopt.rule,
                                .memory = c->keyopt.memory,
                                .scratch_dir = scratch_dir,
                                .progress = c->keyopt.progress,
                                .forecast = c->dry_run,
                                .exact = c->min_keys > 0 || c->min_ratio > 0};
    if (!builder_begin(&c->build, &err))
        return say_failure(&err);
    c->keyopt.threads = c->assembly.threads;
    return c->design.empty || (c->from != NULL ? take_keys(c) : read_key_files(c));
}

/* Makes the filter, or forecasts what it would be. */
static bool build_filter(struct create *c)
{
    struct err err;
    bool ok = c->dry_run ? builder_forecast(&c->build, keys_given(c), &err)
                         : builder_write(&c->build, keys_given(c), &err);
    return ok || say_failure(&err);
}

/* Scratch files are seldom needed, so an unusable directory must be reported early. */
static bool check_tmpdir(const struct create *c)
{
    struct err err;
    struct stat st;
    if (c->tmpdir == NULL)
        return true;
    bool there = stat(c->tmpdir, &st) == 0;
    if (there && S_ISDIR(st.st_mode) && access(c->tmpdir, W_OK | X_OK) == 0)
        return true;
    if (there && !S_ISDIR(st.st_mode))
        errno = ENOTDIR;
    fail_errno(&err, "cannot put scratch into '%s'", c->tmpdir);
    return say_failure(&err);
}

static bool make_filter(struct create *c)
{
    char *dir = c->tmpdir != NULL ? strdup(c->tmpdir) : disk_dir_of(c->assembly.file.path);
    struct err err;
    if (dir == NULL)
        return say_error("out of memory");
    bool ok = check_tmpdir(c) && adopt_from(c) && collect(c, dir) && build_filter(c) &&
              (c->design.empty || enough_keys(c)) && keys_fit(c) &&
              (c->dry_run ||
               ((!c->json || assembly_sample(&c->assembly, &err)) &&
                assembly_commit(&c->assembly, &err)) ||
               say_failure(&err));
    free(dir);
    return ok;
}

/* Reads the secret for a new filter. --new-secret makes a missing one. With --like, the secret has
 * been read already. */
static bool take_secret(struct create *c, struct err *err)
{
    const char *secret = keyopt_secret(&c->keyopt);
    if (c->like != NULL || (c->from != NULL && c->keyopt.secret_path == NULL))
        return true;
    if (c->new_secret && secret == NULL)
        return fail(err, "--new-secret needs --secret or SEEN_SECRET");
    bool missing = secret != NULL && access(secret, F_OK) != 0 && errno == ENOENT;
    /* Another process may make it at the same time: both use one, and it may not be on disk. */
    if (missing && c->new_secret && !secret_make(secret, err) &&
        (access(secret, F_OK) != 0 || !disk_sync_name(secret, err)))
        return false;
    return keyopt_new(&c->keyopt, err) ||
           (missing && !c->new_secret && fail_more(err, " (--new-secret makes the file)"));
}

/* A file with another suffix may be meant for the other program. */
static bool has_usual_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *suffix = strrchr(slash != NULL ? slash : path, '.');
    return suffix == NULL || strcmp(suffix, ".seen") == 0;
}

static bool create(struct create *c)
{
    struct err err;
    struct header ignored = {0};
    if ((design_is_sized(&c->design) && !header_design(&ignored, &c->design, 0, &err)) ||
        !take_secret(c, &err))
        return say_failure(&err);
    c->assembly.out = c->path;
    c->assembly.prints = c->json;
    c->assembly.threads = c->keyopt.threads;
    c->assembly.borrow = &(const struct borrow){0};
    bool opened = assembly_begin(&c->assembly, &err) &&
                  (c->from == NULL || assembly_inputs(&c->assembly, &c->from, 1, "", &err));
    if (!warn_inputs(&c->assembly, opened)) {
        if (c->assembly.file.path == NULL && keyopt_is_list(c->path))
            fail_more(&err, "; FILTER comes first, then the files of keys");
        else if (c->assembly.file.path == NULL && !c->assembly.replace && keyopt_is_filter(c->path))
            fail_more(&err, "; 'seen add' adds keys to it");
        return say_failure(&err);
    }
    /* If the options fix the size, a dry run reads keys only if they are given or a check needs
     * their number. Otherwise it leaves standard input alone. */
    bool needs_keys = !c->dry_run || !design_is_sized(&c->design) || c->keyopt.n_keys > 0 ||
                      c->keyopt.n_files > 0 || c->from != NULL || c->min_keys != 0 ||
                      c->min_ratio > 0;
    bool ok = !needs_keys || make_filter(c);
    if (!ok || c->dry_run)
        return ok && (plan_show(&c->design, c->build.n_held, c->json, &err) || say_failure(&err));
    warn_attached(&c->assembly.file, c->path);
    feed_report(&c->feed);
    if (c->design.p > 0)
        warn_unreached(&c->assembly.header, c->path);
    if (c->design.layout != NULL && !has_usual_name(c->path))
        say_note("'%s' is a file of seen: 'seen export FILTER -o FILE' writes one of %s from it",
                 c->path, c->design.layout->kind->name);
    if (c->json)
        print_created(c);
    return true;
}

static bool take_rule(struct create *c)
{
    struct err err;
    if (c->like != NULL && !read_like(c))
        return false;
    return (keyopt_check_digest(&c->keyopt, &err) &&
            (c->design.layout == NULL || design_rule(&c->design, &c->keyopt.rule, &err))) ||
           say_failure(&err);
}

static int run_create(struct create *c, struct opt_parser *p)
{
    if (!opt_parse(p, c))
        return p->status;
    c->path = p->operand[0];
    if (!keyopt_files(&c->keyopt, p, 1))
        return EXIT_ERROR;
    if (c->compact || c->counted)
        c->design.kind = c->counted ? kind_counting() : kind_compact();
    if (c->design.period != 0)
        c->design.generations = CHAIN_PERIODS;
    c->design.each = c->counted && !c->once && c->from == NULL && !c->design.empty;
    c->design.grow = c->design.kind == NULL && c->design.layout == NULL && c->design.size == 0 &&
                     c->design.generations == 0 && c->like == NULL && !c->fixed;
    int status = check_create_options(c);
    if (status != 0)
        return status;
    return take_rule(c) && create(c) ? EXIT_SELECTED : EXIT_ERROR;
}

static int run(struct opt_parser *p)
{
    struct create c = {.keyopt = KEYOPT_DEFAULT};
    int status = run_create(&c, p);
    builder_free(&c.build);
    assembly_close(&c.assembly);
    keyopt_free(&c.keyopt);
    return status;
}

const struct command cmd_create = {
    .name = "create",
    .synopsis = "[OPTION]... FILTER [KEYFILE]...",
    .summary = "make a filter from keys",
    .examples = "  seen create urls.seen urls.txt                      the lines of a file\n"
                "  seen create --compact -i words.seen words.txt       as small as possible\n"
                "  seen create --force --min-keys 9 urls.seen urls.gz  the nightly rebuild\n",
    .details = "Reads keys, one a line, from the KEYFILEs or standard input, and makes FILTER, "
               "sized for the distinct keys that are found. FILTER appears when it is complete and "
               "on disk, or not at all.",
    .groups = groups,
    .everyday = " capacity fpr size compact counted layout fixed forget-after empty key null"
                " delimiter field header input-digests secret trim ignore-case digest force"
                " min-keys json ",
    .hints = hints,
    .operand = "FILTER",
    .least = 1,
    .run = run,
};
