#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "bloom_build.h"
#include "bloom_size.h"
#include "build.h"
#include "chain.h"
#include "cmd.h"
#include "disk.h"
#include "filter.h"
#include "json.h"
#include "keyarg.h"
#include "keyset.h"
#include "newfile.h"
#include "num.h"
#include "plan.h"
#include "progress.h"
#include "ribbon_build.h"
#include "say.h"

enum {
    OPT_EMPTY = 400,
    OPT_GROW,
    OPT_GENERATIONS,
    OPT_FOLDABLE,
    OPT_COMPACT,
    OPT_LIKE,
    OPT_FORCE,
    OPT_MIN_KEYS,
    OPT_MIN_RATIO,
    OPT_MEMORY,
    OPT_TMPDIR,
    OPT_DRY_RUN,
    OPT_JSON,
    OPT_REPRODUCIBLE,
};

static const struct opt size_opts[] = {
    {'n', "capacity", "N",
     "size it for N distinct keys: 1000, 250k, 1M, 1e9 (default: as many as "
     "are found)",
     false, 0},
    {'p', "fpr", "P", "false-positive rate at capacity: 0.001 (default), 1e-6, 1/1000, 0.1%", false,
     0},
    {'s', "size", "BYTES",
     "file size, 512K, 64M, 2G (powers of 1024): solves for the capacity or "
     "the rate that is not given",
     false, 0},
    {OPT_COMPACT, "compact", NULL,
     "immutable, and as small as is known to be possible; sized for "
     "exactly the keys that are found",
     false, 0},
    {OPT_LIKE, "like", "FILTER",
     "same size, rate and key preparation as FILTER, so that the two can "
     "be merged exactly",
     false, 0},
    {OPT_GROW, "grow", NULL,
     "no fixed capacity: layers are added as keys come; --capacity sizes the first", false, 0},
    {OPT_GENERATIONS, "generations", "G",
     "a filter that forgets: the capacity is spread over G generations "
     "and 'seen rotate' drops what is older",
     false, 0},
    {OPT_FOLDABLE, "foldable", NULL,
     "a size, up to 6.3 % larger, that 'seen shrink' can halve again and "
     "again",
     false, 0},
    {OPT_EMPTY, "empty", NULL, "read no keys; needs --capacity, --size, --like, "
                                "--grow or --compact", false, 0},
    {0},
};

static const struct opt file_opts[] = {
    {OPT_FORCE, "force", NULL, "replace an existing FILTER, atomically", false, 0},
    {OPT_MIN_KEYS, "min-keys", "N", "fail, and replace nothing, with fewer than N distinct keys",
     false, 0},
    {OPT_MIN_RATIO, "min-ratio", "R", "fail, and replace nothing, with fewer distinct keys than R "
                                      "times those in the old FILTER", false, 0},
    {OPT_MEMORY, "memory", "BYTES", "working memory beyond the filter itself (default: 256M); the "
                                    "rest goes to scratch on disk", false, 0},
    {OPT_TMPDIR, "tmpdir", "DIR", "where scratch goes (default: beside FILTER)", false, 0},
    {OPT_DRY_RUN, "dry-run", NULL, "print what would be made, as plan does; write nothing", false,
     0},
    {OPT_REPRODUCIBLE, "reproducible", NULL, "leave out times and the random file id: the same "
                                             "records and options give the same bytes", false, 0},
    {OPT_JSON, "json", NULL, "print a summary of what was made as JSON", false, 0},
    {0},
};

static const struct opt_group groups[] = {
    {"Size", size_opts},
    {"Keys", keyarg_opts},
    {"Key preparation, stored in the filter and applied by every later command", keyarg_prep_opts},
    {"File", file_opts},
    {0},
};

/* Hashes that are kept in memory for a filter of given capacity, before they go into its bits. With
 * the filter itself and the input's buffers this makes the filter plus 64 MiB. */
enum { DIRECT_MEMORY = 48 << 20, DEFAULT_MEMORY = 256 << 20 };

/* The current FPR may pass the design FPR by this factor before keys are said not to fit: what the
 * random spread of bits makes of n keys in a filter for n keys. */
static const double FPR_SLACK = 1.01;

/* Up to this rate it pays to presume that the keys of a Bloom filter are distinct
 * (write_presuming): one key in 100, at most, finds its bits set by chance and must be looked at.
 */
static const double PRESUMING_FPR = 0.02;

struct create {
    struct keyarg ka;
    const char *path, *like, *tmpdir;
    struct plan plan;
    bool sized; /* the plan is complete: by the options alone, or with the number of keys */
    uint64_t min_keys, memory;
    double min_ratio;
    bool compact, empty, force, dry_run, json, reproducible, grow, foldable;
    int generations; /* 0: none */
    struct header like_header;
    struct newfile file;
    struct keyset *keys;
    struct bloom_bits *bits; /* where the keyset drains to; NULL: it keeps all keys */
    struct batch **batch;    /* one a worker */
    struct tally tally;
    bool failed; /* and said why */

    struct header header;
    unsigned layer; /* the one that takes the keys */
    struct census census;
    uint64_t n_distinct;
    bool n_exact;
    bool presuming; /* that all keys are distinct */
};

static bool is_positive(const struct opt_parser *p, uint64_t value)
{
    if (value == 0)
        opt_misuse(&cmd_create, "option '%s' must be more than 0", p->name);
    return value > 0;
}

static bool parse_option(struct create *c, struct opt_parser *p, int id)
{
    switch (id) {
    case 'n':
        return opt_count(p, &c->plan.n) && is_positive(p, c->plan.n);
    case 'p':
        return opt_fpr(p, &c->plan.p);
    case 's':
        return opt_bytes(p, &c->plan.size) && is_positive(p, c->plan.size);
    case OPT_LIKE:
        c->like = p->value;
        return true;
    case OPT_COMPACT:
        return c->compact = true;
    case OPT_EMPTY:
        return c->empty = true;
    case OPT_GROW:
        return c->grow = true;
    case OPT_GENERATIONS:
        return opt_int(p, 1, CHAIN_GENERATIONS, &c->generations);
    case OPT_FOLDABLE:
        return c->foldable = true;
    case OPT_FORCE:
        return c->force = true;
    case OPT_MIN_KEYS:
        return opt_count(p, &c->min_keys);
    case OPT_MIN_RATIO:
        return opt_ratio(p, &c->min_ratio);
    case OPT_MEMORY:
        return opt_bytes(p, &c->memory);
    case OPT_TMPDIR:
        c->tmpdir = p->value;
        return true;
    case OPT_DRY_RUN:
        return c->dry_run = true;
    case OPT_REPRODUCIBLE:
        return c->reproducible = true;
    case OPT_JSON:
        return c->json = true;
    }
    return false;
}

/* Rounds the number of pages up to one that can be halved until 16 to 31 are left. */
static uint64_t foldable(uint64_t pages)
{
    unsigned halvings = 0;
    while (pages >> halvings > 31)
        halvings++;
    uint64_t step = (uint64_t)1 << halvings;
    return (pages + step - 1) / step * step;
}

/* The layers of a filter that grows or forgets; the plan becomes that of the one that takes
 * keys. */
static bool solve_chain(struct create *c, struct err *err)
{
    double p = c->plan.p != 0 ? c->plan.p : PLAN_FPR;
    struct plan whole = {.kind = &kind_bloom, .n = c->plan.n, .p = p};
    if (!plan_solve(&whole, err))
        return false;
    bool ok = c->grow ? chain_start_growing(&c->header, c->plan.n, p, err)
                      : chain_start_ring(&c->header, (unsigned)c->generations, c->plan.n, p, err);
    if (!ok)
        return false;
    c->layer = chain_newest(&c->header);
    const struct layer *layer = &c->header.layers[c->layer];
    c->plan = (struct plan){.kind = &kind_bloom,
                            .n = layer->n_design,
                            .p = layer->fpr_design,
                            .bloom = bloom_of(layer)};
    return true;
}

static bool solve(struct create *c, struct err *err)
{
    bool chain = c->grow || c->generations > 0;
    if (!(chain ? solve_chain(c, err) : plan_solve(&c->plan, err)))
        return false;
    if (c->foldable)
        c->plan.bloom.pages = foldable(c->plan.bloom.pages);
    return c->sized = true;
}

/* Decides the size as far as the options do; else the number of keys will. */
static bool size_from_options(struct create *c, struct err *err)
{
    const struct header *like = &c->like_header;
    if (c->like != NULL) {
        c->plan = (struct plan){.kind = like->layers[0].kind,
                                .n = like->n_design,
                                .p = like->fpr_design,
                                .bloom = bloom_of(&like->layers[0])};
        return c->sized = true;
    }
    if (c->compact)
        return true;
    /* The first layer of a filter that grows takes all keys that there are. */
    if (c->grow) {
        if (c->plan.n == 0)
            c->plan.n = CHAIN_FIRST;
        return !c->empty || solve(c, err);
    }
    bool size_alone = c->plan.size != 0 && c->plan.n == 0 && c->plan.p == 0;
    bool decided = c->plan.n != 0 || (c->plan.size != 0 && !size_alone) || c->empty;
    return !decided || solve(c, err);
}

static bool size_from_keys(struct create *c, struct err *err)
{
    if (c->sized)
        return true;
    if (!c->grow || c->n_distinct > c->plan.n)
        c->plan.n = c->n_distinct;
    return solve(c, err);
}

static bool read_like(struct create *c)
{
    struct filter like;
    struct err err;
    if (!filter_open(&like, c->like, FILTER_READ, &err)) {
        say_error("%s", err.text);
        return false;
    }
    c->like_header = like.header;
    filter_close(&like);
    const struct header *like_header = &c->like_header;
    if (like_header->policy != POLICY_FIXED || like_header->n_layers != 1 ||
        like_header->layers[0].kind != &kind_bloom) {
        say_error("'%s' is not one Bloom filter, so nothing can be made like it", c->like);
        return false;
    }
    if (!keyarg_adopt(&c->ka, &c->like_header, c->like, &err)) {
        say_error("%s", err.text);
        return false;
    }
    return true;
}

/* What threads take to build a compact filter, beside what the keyset takes. */
static uint64_t compact_memory(unsigned threads)
{
    return threads * (ribbon_build_memory() + keyset_part_memory(RIBBON_LARGEST));
}

/* The smallest memory that will do. */
static uint64_t least_memory(const struct create *c)
{
    return c->compact ? compact_memory(1) + keyset_min_memory(1) : keyset_min_memory(1);
}

/* Wishes for a filter that grows, forgets or folds. */
static int check_chain(const struct create *c)
{
    bool chain = c->grow || c->generations > 0;
    if (c->grow && c->generations > 0)
        return opt_misuse(&cmd_create, "a filter with generations does not grow: give --grow or "
                                       "--generations");
    if (chain && (c->compact || c->plan.size != 0 || c->like != NULL || c->foldable || c->dry_run))
        return opt_misuse(&cmd_create,
                          "%s: not with --compact, --size, --like, --foldable or --dry-run",
                          c->grow ? "--grow" : "--generations");
    if (c->generations > 0 && c->plan.n == 0)
        return opt_misuse(&cmd_create, "--generations needs --capacity");
    if (c->foldable && (c->compact || c->plan.size != 0 || c->like != NULL))
        return opt_misuse(&cmd_create, "--foldable: not with --compact, --size or --like");
    return 0;
}

static int check_compact(const struct create *c)
{
    if (c->plan.n != 0)
        return opt_misuse(&cmd_create,
                          "--compact makes a filter for exactly the keys that are found: "
                          "give no --capacity");
    if (c->like != NULL)
        return opt_misuse(&cmd_create,
                          "--compact and --like cannot go together: compact filters are "
                          "not merged bit by bit");
    if (c->plan.size != 0 && c->plan.p != 0)
        return opt_misuse(&cmd_create, "with --compact, give a rate or a size, not both");
    return 0;
}

static int check_options(struct create *c)
{
    if (c->compact) {
        int status = check_compact(c);
        if (status != 0)
            return status;
    }
    bool sizes = c->plan.n != 0 || c->plan.p != 0 || c->plan.size != 0;
    if (c->like != NULL && sizes)
        return opt_misuse(&cmd_create,
                          "--like takes capacity, rate and size from '%s': give none of them",
                          c->like);
    if (c->empty && c->ka.any)
        return opt_misuse(&cmd_create, "--empty reads no keys, but some are given");
    if (c->empty && (c->min_keys != 0 || c->min_ratio != 0))
        return opt_misuse(&cmd_create, "--empty reads no keys, so %s cannot be kept",
                          c->min_keys != 0 ? "--min-keys" : "--min-ratio");
    if (c->empty && !c->compact && c->plan.n == 0 && c->plan.size == 0 && c->like == NULL &&
        !c->grow)
        return opt_misuse(&cmd_create,
                          "--empty needs --capacity, --size, --like, --grow or --compact");
    int status = check_chain(c);
    if (status != 0)
        return status;
    uint64_t least = least_memory(c);
    if (c->memory < least) {
        char text[NUM_TEXT];
        return opt_misuse(&cmd_create, "--memory must be at least %s",
                          num_show_bytes(text, least));
    }
    return 0;
}

struct result {
    struct chunk_tally tally;
    bool no_room;
    struct err err;
};

static void put_batch(struct create *c, unsigned worker, struct batch *b, struct result *r)
{
    size_t n = b->n;
    if (b->n_bad > 0) {
        n = 0;
        for (size_t i = 0; i < b->n; i++)
            if ((b->bad[i / 64] >> i % 64 & 1) == 0)
                b->hash[n++] = b->hash[i];
    }
    if (!keyset_put(c->keys, worker, b->hash, n, &r->err))
        r->no_room = true;
}

static void work(void *ctx, unsigned worker, const struct chunk *chunk, void *slot)
{
    struct create *c = ctx;
    struct result *r = slot;
    struct batch *b = c->batch[worker];
    *r = (struct result){0};
    batch_start(b, chunk->data, chunk->len);
    while (!r->no_room && batch_next(b)) {
        tally_batch(&r->tally, b);
        put_batch(c, worker, b, r);
    }
    tally_batches_end(&r->tally, b);
}

static bool commit(void *ctx, const struct chunk *chunk, void *slot)
{
    struct create *c = ctx;
    struct result *r = slot;
    tally_begin(&c->tally, chunk);
    if (r->no_room)
        say_error("%s", r->err.text);
    c->failed = r->no_room || !tally_end(&c->tally, chunk, &r->tally);
    return !c->failed;
}

static bool input_failed(void *ctx, const struct chunk *chunk, const struct err *err)
{
    struct create *c = ctx;
    (void)chunk;
    say_error("%s", err->text);
    c->failed = true;
    return false;
}

/* Keys given with -k. */
static bool put_given_keys(struct create *c)
{
    struct batch *b = c->batch[0];
    struct result r = {0};
    size_t next = 0;
    while (keyarg_batch(&c->ka, &next, b)) {
        c->tally.records += b->n;
        c->tally.bad += b->n_bad;
        put_batch(c, 0, b, &r);
        if (r.no_room) {
            say_error("%s", r.err.text);
            return false;
        }
    }
    if (b->bad_record)
        say_error("--key '%s': %s", c->ka.keys[next], b->bad_reason.text);
    return !b->bad_record;
}

static bool read_keys(struct create *c)
{
    struct err err;
    if (c->ka.n_keys > 0)
        return put_given_keys(c);
    struct stat old;
    bool exists = stat(c->path, &old) == 0;
    struct input *in = keyarg_open(&c->ka, exists ? &old : NULL, false, &err);
    if (in == NULL) {
        say_error("%s", err.text);
        return false;
    }
    c->tally.input = in;
    struct pump pump = {.input = in,
                        .threads = c->ka.threads,
                        .ctx = c,
                        .slot_size = sizeof(struct result),
                        .work = work,
                        .commit = commit,
                        .failed = input_failed};
    bool ok = pump_run(&pump, &err);
    if (!ok)
        say_error("%s", err.text);
    input_close(in);
    return ok && !c->failed;
}

/* Bits in memory pay only while they leave room for everything else. */
static bool bits_fit_memory(const struct create *c)
{
    struct sysinfo info;
    if (sysinfo(&info) != 0)
        return false;
    uint64_t memory = (uint64_t)info.totalram * info.mem_unit;
    return c->plan.bloom.pages < memory / 2 / BLOOM_PAGE;
}

/* Half of the memory, at most, is for the threads that build; so there may be fewer of them. */
static void share_memory(const struct create *c, struct keyset_spec *spec)
{
    unsigned builders = 1;
    while (builders < c->ka.threads && compact_memory(builders + 1) <= c->memory / 2)
        builders++;
    spec->visitors = builders;
    spec->part = RIBBON_LARGEST;
    spec->memory = c->memory - builders * ribbon_build_memory();
}

static bool start_collecting(struct create *c, const char *scratch_dir)
{
    struct err err;
    struct keyset_spec spec = {.memory = c->memory, .scratch_dir = scratch_dir};
    if (c->compact)
        share_memory(c, &spec);
    else if (c->sized && !c->dry_run && bits_fit_memory(c) && c->memory >= DIRECT_MEMORY) {
        c->bits = bloom_bits_new(&c->plan.bloom, &err);
        if (c->bits == NULL) {
            say_error("%s", err.text);
            return false;
        }
        spec.memory = DIRECT_MEMORY;
        spec.drain = bloom_bits_drain;
        spec.ctx = c->bits;
    }
    uint64_t parts = spec.visitors * keyset_part_memory(spec.part);
    while (c->ka.threads > 1 && keyset_min_memory(c->ka.threads) + parts > spec.memory)
        c->ka.threads--;
    spec.workers = c->ka.threads;
    c->keys = keyset_new(&spec, &err);
    if (c->keys == NULL) {
        say_error("%s", err.text);
        return false;
    }
    c->batch = keyarg_batches(&c->ka);
    return c->batch != NULL;
}

static uint64_t keys_given(const struct create *c)
{
    return c->tally.records - c->tally.bad;
}

/* Counts the keys, unless a capacity was given and so many came that they are not worth keeping.
 * What is counted must not depend on threads or memory, so the number of records alone decides. */
static bool count_keys(struct create *c, struct err *err)
{
    c->n_exact = !c->sized || c->dry_run || keys_given(c) <= keyset_fits(DIRECT_MEMORY);
    if (!c->n_exact)
        return c->bits == NULL || keyset_drain_all(c->keys, err);
    progress_begin("counting keys", c->ka.progress);
    bool ok = keyset_finish(c->keys, &c->n_distinct, err);
    progress_end();
    return ok;
}

static void fill_header(struct create *c)
{
    struct header *h = &c->header;
    h->epoch = 1;
    h->state = STATE_CLEAN;
    h->hash = HASH_XXH3_64;
    h->seed = c->ka.rule.seed;
    h->prep = c->ka.rule.prep;
    if (h->policy == POLICY_FIXED) {
        h->layers[0].id = 1;
        plan_header(&c->plan, h);
    } else {
        format_place(h);
    }
    if (c->reproducible)
        return;
    if (h->policy != POLICY_FIXED)
        h->layers[c->layer].since = (uint64_t)time(NULL);
    h->created = h->changed = (uint64_t)time(NULL);
    if (getrandom(h->id, sizeof h->id, 0) != sizeof h->id)
        memcpy(h->id, &h->created, sizeof h->created);
}

static void fill_counters(struct create *c)
{
    c->header.counters.records = c->tally.records - c->tally.bad;
    c->header.counters.unknown = !c->n_exact;
    c->header.counters.keys_added = c->n_exact ? c->n_distinct : 0;
    c->header.counters.n_keys = c->n_exact ? (double)c->n_distinct : c->census.n;
}

static bool write_filter(struct create *c, struct err *err)
{
    struct build_target target = {.header = &c->header,
                                  .layer = c->layer,
                                  .fd = c->file.fd,
                                  .name = c->path,
                                  .threads = c->ka.threads,
                                  .n = c->n_distinct,
                                  .presumed = c->presuming};
    const struct kind *kind = c->header.layers[c->layer].kind;
    bool ok = newfile_reserve(&c->file, c->header.file_len, err) &&
              (c->n_exact || c->bits == NULL
                   ? kind->build(&target, c->keys, &c->census, err)
                   : bloom_bits_write(&target, c->bits, &c->census, err));
    for (target.layer = 0; ok && target.layer < c->header.n_layers; target.layer++)
        ok = target.layer == c->layer || build_zero_sums(&target, err);
    if (!ok)
        return false;
    fill_counters(c);
    return build_header(&c->header, c->file.fd, c->path, err);
}

static double keys_held(const struct create *c)
{
    return c->n_exact ? (double)c->n_distinct : c->census.n;
}

static bool enough_keys(const struct create *c)
{
    char held[NUM_TEXT], wanted[NUM_TEXT];
    double n = keys_held(c), want = (double)c->min_keys;
    const char *plural = n == 1 ? "" : "s";
    struct filter old;
    struct err err;
    if (n < want) {
        say_error("only %s distinct key%s, --min-keys is %s; '%s' is left as it was",
                  num_show_count(held, n), plural, num_show_count(wanted, want), c->path);
        return false;
    }
    if (c->min_ratio <= 0 || access(c->path, F_OK) != 0)
        return true;
    if (!filter_open(&old, c->path, FILTER_READ, &err)) {
        say_error("--min-ratio: %s", err.text);
        return false;
    }
    want = c->min_ratio * old.header.counters.n_keys;
    filter_close(&old);
    if (n >= want)
        return true;
    say_error("only %s distinct key%s, --min-ratio asks for %s; '%s' is left as it was",
              num_show_count(held, n), plural, num_show_count(wanted, want), c->path);
    return false;
}

static bool keys_fit(const struct create *c)
{
    char held[NUM_TEXT], capacity[NUM_TEXT];
    double sure = c->n_exact ? (double)c->n_distinct : c->census.n_low;
    if (c->census.fpr <= FPR_SLACK * c->plan.p || sure <= (double)c->plan.n)
        return true;
    double need = keys_held(c) * (c->generations > 0 ? c->generations : 1);
    say_error("%s distinct keys are more than the %llu that %s is for: its false-positive "
              "rate would be %.3g instead of %.3g; it needs --capacity %s",
              num_show_count(held, keys_held(c)), (unsigned long long)c->plan.n,
              c->generations > 0 ? "a generation of the filter" : "the filter", c->census.fpr,
              c->plan.p, num_show_count(capacity, need));
    return false;
}

static void print_summary(const struct create *c)
{
    say_made(c->path);
    struct json j = {.out = stdout};
    const struct header *h = &c->header;
    json_open(&j, '{');
    json_key(&j, "file");
    json_string(&j, c->path);
    json_key(&j, "kind");
    json_string(&j, h->layers[0].kind->name);
    json_key(&j, "bytes");
    json_uint(&j, h->file_len);
    json_key(&j, "bits_per_key");
    json_double(&j, 8 * (double)h->file_len / (double)h->n_design);
    json_key(&j, "n_design");
    if (h->n_design != 0)
        json_uint(&j, h->n_design);
    else
        json_null(&j);
    json_key(&j, "fpr_design");
    json_double(&j, h->fpr_design);
    json_key(&j, "fpr_current");
    json_double(&j, c->census.fpr);
    json_key(&j, "records");
    json_uint(&j, c->tally.records);
    json_key(&j, "bad_records");
    json_uint(&j, c->tally.bad);
    json_key(&j, "keys_added");
    if (c->n_exact)
        json_uint(&j, c->n_distinct);
    else
        json_null(&j);
    json_key(&j, "n_estimate");
    json_double(&j, keys_held(c));
    json_close(&j, '}');
}

static int refuse(struct create *c, const struct err *err)
{
    if (err != NULL)
        say_error("%s", err->text);
    newfile_close(&c->file);
    return EXIT_ERROR;
}

static bool gather_keys(struct create *c, const char *dir)
{
    if (!start_collecting(c, dir))
        return false;
    if (c->empty)
        return true;
    progress_begin("reading keys", c->ka.progress);
    bool ok = read_keys(c);
    progress_end();
    if (ok && keys_given(c) == 0) {
        say_error("no keys%s, so '%s' is not made (--empty makes an empty filter)",
                  c->tally.bad ? " in any record" : "", c->path);
        ok = false;
    }
    return ok;
}

static bool size_and_write(struct create *c, struct err *err)
{
    if (!size_from_keys(c, err))
        return false;
    fill_header(c);
    return write_filter(c, err);
}

/* Lists of keys are mostly without repeats. So a filter that is sized for its keys is first written
 * as if they were distinct, which spares counting them, a quarter of the whole; and the build fails
 * when they are not. Whatever else fails may be for the wrong number's sake, as on a full disk. */
static bool write_presuming(struct create *c)
{
    struct plan plan = c->plan;
    struct header header = c->header;
    struct err ignored;
    double p = c->plan.p != 0 ? c->plan.p : PLAN_FPR;
    if (c->sized || c->plan.size != 0 || (!c->compact && p > PRESUMING_FPR))
        return false;
    c->n_distinct = keys_given(c);
    c->n_exact = c->presuming = true;
    if (size_and_write(c, &ignored))
        return true;
    c->plan = plan;
    c->header = header;
    c->sized = c->presuming = false;
    return false;
}

static bool write_keys(struct create *c)
{
    struct err err;
    if (write_presuming(c) || (count_keys(c, &err) && size_and_write(c, &err)))
        return true;
    say_error("%s", err.text);
    return false;
}

static int make_filter(struct create *c)
{
    struct err err;
    if (!newfile_open(&c->file, c->path, c->force, &err)) {
        say_error("%s", err.text);
        return EXIT_ERROR;
    }
    char *dir = c->tmpdir != NULL ? strdup(c->tmpdir) : disk_dir_of(c->file.path);
    bool ok = dir != NULL && gather_keys(c, dir) && write_keys(c);
    free(dir);
    if (!ok || (!c->empty && !enough_keys(c)) || !keys_fit(c))
        return refuse(c, NULL);
    if (!newfile_commit(&c->file, &err))
        return refuse(c, &err);
    newfile_close(&c->file);
    tally_report(&c->tally);
    if (c->json)
        print_summary(c);
    return EXIT_SELECTED;
}

/* Reads the keys, sizes the filter for them if nothing else has, and finds out whether it would be
 * made. */
static bool try_keys(struct create *c)
{
    struct err err;
    char *dir = c->tmpdir != NULL ? strdup(c->tmpdir) : disk_dir_of(c->file.path);
    bool gathered = dir != NULL && gather_keys(c, dir);
    free(dir);
    if (!gathered)
        return false;
    if (!count_keys(c, &err) || !size_from_keys(c, &err)) {
        say_error("%s", err.text);
        return false;
    }
    if (c->plan.kind == &kind_bloom)
        c->census.fpr = bloom_fpr(&c->plan.bloom, (double)c->n_distinct);
    return enough_keys(c) && keys_fit(c);
}

/* Where the size is decided, standard input is left alone unless something depends on it. */
static int plan_only(struct create *c)
{
    struct err err;
    bool reads = !c->sized || c->ka.any || c->min_keys != 0 || c->min_ratio > 0;
    if (!newfile_open(&c->file, c->path, c->force, &err)) {
        say_error("%s", err.text);
        return EXIT_ERROR;
    }
    bool ok = c->empty || !reads || try_keys(c);
    newfile_close(&c->file);
    if (!ok)
        return EXIT_ERROR;
    plan_show(&c->plan, c->json, stdout);
    return EXIT_SELECTED;
}

static int run_create(struct create *c, int argc, char **argv)
{
    struct opt_parser p;
    int id;
    opt_begin(&p, &cmd_create, argc, argv);
    while ((id = opt_next(&p)) > 0) {
        enum keyarg_result taken = keyarg_take(&c->ka, &p, id);
        if (taken == KEYARG_BAD || (taken == KEYARG_NOT_MINE && !parse_option(c, &p, id)))
            return EXIT_ERROR;
    }
    if (id < 0)
        return p.status;
    if (p.first == argc)
        return opt_misuse(&cmd_create, "no FILTER given");
    c->path = argv[p.first];
    if (!keyarg_files(&c->ka, &cmd_create, argv + p.first + 1, argc - p.first - 1))
        return EXIT_ERROR;
    c->tally.ka = &c->ka;
    if (c->compact)
        c->plan.kind = &kind_ribbon;
    int status = check_options(c);
    if (status != 0)
        return status;
    if (c->like != NULL && !read_like(c))
        return EXIT_ERROR;
    struct err err;
    if (!size_from_options(c, &err)) {
        say_error("%s", err.text);
        return EXIT_ERROR;
    }
    return c->dry_run ? plan_only(c) : make_filter(c);
}

static int run(int argc, char **argv)
{
    struct create c = {
        .ka = KEYARG_DEFAULT, .memory = DEFAULT_MEMORY, .plan.kind = &kind_bloom};
    int status = run_create(&c, argc, argv);
    keyarg_batches_free(&c.ka, c.batch);
    keyset_free(c.keys);
    bloom_bits_free(c.bits);
    keyarg_free(&c.ka);
    return status;
}

const struct command cmd_create = {
    .name = "create",
    .synopsis = "[OPTION]... FILTER [KEYFILE]...",
    .summary = "make a filter from keys",
    .details =
        "Reads keys, one a line, from the KEYFILEs or standard input, and makes FILTER, sized "
        "for as many distinct keys as there are. FILTER appears when it is complete and on "
        "disk, or not at all.",
    .groups = groups,
    .run = run,
};
