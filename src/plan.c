#include "plan.h"

#include <math.h>
#include <string.h>

#include "bloom_size.h"
#include "format.h"
#include "json.h"
#include "num.h"
#include "ribbon_build.h"

/* Half of all absent keys: with more than that a filter that was given n and a size has no use. */
static const double WORST_FPR = 0.5;

/* Two keys of equal 64-bit hash cannot be told apart, so n keys have an FPR of n / 2^64 whatever
 * the filter. It may not be more than this part of what is promised; a compact filter, which keeps
 * to its promise to the last digit, is held to less. */
static double hash_share(const struct plan *plan)
{
    return plan->kind == &kind_ribbon ? 0.01 : 0.1;
}

static const uint64_t MAX_PAGES = (uint64_t)1 << 42;

static uint64_t file_len_of(const struct bloom *bloom)
{
    struct header header = {.n_layers = 1};
    bloom_to(bloom, &header.layers[0]);
    format_place(&header);
    return header.file_len;
}

static void ribbon_header(uint64_t n, double p, struct header *header)
{
    struct ribbon ribbon;
    ribbon_design(n, p, &ribbon);
    header->incompat |= INCOMPAT_IMMUTABLE;
    ribbon_to(&ribbon, &header->layers[0]);
    header->layers[0].data_len = ribbon_expected_len(n, p);
    format_place(header);
}

static uint64_t ribbon_file_len(uint64_t n, double p)
{
    struct header header = {.n_layers = 1};
    ribbon_header(n, p, &header);
    header.layers[0].data_len = ribbon_trial_len(n, p);
    format_place(&header);
    return header.file_len;
}

void plan_header(const struct plan *plan, struct header *header)
{
    header->n_layers = 1;
    header->n_design = header->layers[0].n_design = plan->n;
    header->fpr_design = header->layers[0].fpr_design = plan->p;
    if (plan->kind == &kind_ribbon) {
        ribbon_header(plan->n, plan->p, header);
    } else {
        bloom_to(&plan->bloom, &header->layers[0]);
        format_place(header);
    }
}

uint64_t plan_file_len(const struct plan *plan)
{
    struct header header = {0};
    plan_header(plan, &header);
    return header.file_len;
}

/* The most pages with which a file has at most `size` bytes; 0 if one is too many. */
static uint64_t pages_within(uint64_t size)
{
    uint64_t low = 0, high = size / BLOOM_PAGE < MAX_PAGES ? size / BLOOM_PAGE : MAX_PAGES;
    while (low < high) {
        struct bloom bloom = {.pages = high - (high - low) / 2, .k = 1, .lines = 1};
        if (file_len_of(&bloom) <= size)
            low = bloom.pages;
        else
            high = bloom.pages - 1;
    }
    return low;
}

static bool check_fpr(const struct plan *plan, struct err *err)
{
    char p[NUM_TEXT], n[NUM_TEXT], least[NUM_TEXT];
    num_show_fpr(p, plan->p);
    if (!(plan->p > 0 && plan->p < 1))
        return fail(err, "an FPR of %s is not between 0 and 1", p);
    if (plan->kind == &kind_bloom && plan->p < BLOOM_MIN_FPR)
        return fail(err,
                    "an FPR of %s is too small for a Bloom filter, where %s takes 52 bits a key; "
                    "below that only a compact filter makes sense",
                    p, num_show_fpr(least, BLOOM_MIN_FPR));
    if (plan->p < RIBBON_MIN_FPR)
        return fail(err,
                    "an FPR of %s is too small: the smallest that a filter can have is 2^-32, %s",
                    p, num_show_fpr(least, RIBBON_MIN_FPR));
    if (plan->kind == &kind_ribbon && plan->p > RIBBON_MAX_FPR)
        return fail(err,
                    "an FPR of %s is too large for a compact filter: it takes a bit a key, which "
                    "makes %s",
                    p, num_show_fpr(least, RIBBON_MAX_FPR));
    double hash_floor = (double)plan->n * 0x1p-64 / hash_share(plan);
    if (hash_floor >= 1)
        return fail(err, "%s keys are more than 64-bit hashes can tell apart",
                    num_show_count(n, (double)plan->n));
    if (plan->p < hash_floor)
        return fail(err, "an FPR of %s is too small for %s keys: 64-bit hashes allow %s or more", p,
                    num_show_count(n, (double)plan->n), num_show_fpr(least, hash_floor));
    return true;
}

static bool fpr_from_size(struct plan *plan, uint64_t pages, struct err *err)
{
    bloom_best(plan->n, pages, &plan->bloom);
    double fpr = bloom_fpr(&plan->bloom, (double)plan->n);
    if (fpr > WORST_FPR) {
        char n[NUM_TEXT], size[NUM_TEXT], p[NUM_TEXT], need[NUM_TEXT], worst[NUM_TEXT];
        struct bloom enough;
        num_show_count(n, (double)plan->n);
        num_show_bytes(size, plan->size);
        num_show_fpr(p, fpr);
        num_show_fpr(worst, WORST_FPR);
        if (!bloom_size(plan->n, WORST_FPR, &enough))
            return fail(err, "%s is too small for %s keys", size, n);
        return fail(err, "%s is too small for %s keys: the FPR would be %s; for %s it takes %s",
                    size, n, p, worst, num_show_bytes(need, file_len_of(&enough)));
    }
    /* Better is not promised: the hash could not keep it. */
    double hash_floor = (double)plan->n * 0x1p-64 / hash_share(plan);
    plan->p = fmax(fpr, fmax(BLOOM_MIN_FPR, hash_floor));
    return true;
}

static bool solve_size(struct plan *plan, struct err *err)
{
    uint64_t pages = pages_within(plan->size);
    if (pages == 0) {
        struct bloom least = {.pages = 1, .k = 1, .lines = 1};
        return fail(err, "a size of %llu bytes is too small: the smallest filter takes %llu",
                    (unsigned long long)plan->size, (unsigned long long)file_len_of(&least));
    }
    if (plan->n != 0)
        return fpr_from_size(plan, pages, err);
    if (plan->p == 0)
        plan->p = PLAN_FPR;
    if (!check_fpr(plan, err))
        return false;
    plan->n = bloom_capacity(pages, plan->p, &plan->bloom);
    return check_fpr(plan, err);
}

static bool too_many_wishes(const struct plan *wishes, struct err *err)
{
    struct plan plan = {.kind = wishes->kind, .n = wishes->n, .p = wishes->p};
    char n[NUM_TEXT], p[NUM_TEXT], size[NUM_TEXT];
    if (!plan_solve(&plan, err))
        return false;
    return fail(err,
                "a capacity, an FPR and a size cannot all be given: %s keys at %s take %s",
                num_show_count(n, (double)plan.n), num_show_fpr(p, plan.p),
                num_show_bytes(size, plan_file_len(&plan)));
}

static bool solve_bloom(struct plan *plan, struct err *err)
{
    if (plan->p < BLOOM_MIN_FPR)
        return true;
    if (!bloom_size(plan->n, plan->p, &plan->bloom)) {
        char n[NUM_TEXT], p[NUM_TEXT], limit[NUM_TEXT];
        struct bloom largest = {.pages = MAX_PAGES, .k = 1, .lines = 1};
        return fail(err, "%s keys at an FPR of %s need a file larger than %s",
                    num_show_count(n, (double)plan->n), num_show_fpr(p, plan->p),
                    num_show_bytes(limit, file_len_of(&largest)));
    }
    return true;
}

/* The smallest FPR that a compact file of that size has for n keys. The length is an estimate, so a
 * hundredth of it is kept back. */
static bool ribbon_fpr_from_size(struct plan *plan, struct err *err)
{
    uint64_t size = plan->size - plan->size / 100;
    double low = fmax(RIBBON_MIN_FPR, (double)plan->n * 0x1p-64 / hash_share(plan));
    double high = RIBBON_MAX_FPR;
    if (ribbon_file_len(plan->n, high) > size) {
        char n[NUM_TEXT], have[NUM_TEXT], need[NUM_TEXT], worst[NUM_TEXT];
        return fail(err, "%s is too small for %s keys: for an FPR of %s it takes %s",
                    num_show_bytes(have, plan->size), num_show_count(n, (double)plan->n),
                    num_show_fpr(worst, high),
                    num_show_bytes(need, ribbon_file_len(plan->n, high)));
    }
    while (high / low > 1.0001) {
        double middle = sqrt(low * high);
        if (ribbon_file_len(plan->n, middle) <= size)
            high = middle;
        else
            low = middle;
    }
    plan->p = high;
    return true;
}

static bool solve_ribbon(struct plan *plan, struct err *err)
{
    if (plan->size != 0 && !ribbon_fpr_from_size(plan, err))
        return false;
    if (plan->p == 0)
        plan->p = PLAN_FPR;
    return check_fpr(plan, err);
}

bool plan_solve(struct plan *plan, struct err *err)
{
    if (plan->n != 0 && plan->p != 0 && plan->size != 0)
        return too_many_wishes(plan, err);
    if (plan->kind == &kind_ribbon)
        return solve_ribbon(plan, err);
    if (plan->size != 0)
        return solve_size(plan, err);
    if (plan->n == 0)
        return fail(err, "a filter must have room for at least one key");
    if (plan->p == 0)
        plan->p = PLAN_FPR;
    return check_fpr(plan, err) && solve_bloom(plan, err);
}

struct row {
    const char *kind;
    uint64_t file_len, bits;
    unsigned k;         /* probes a key, or columns */
    double lines;       /* cache lines that a query touches, at most */
    uint64_t build_len; /* bytes of memory to build it */
    double build_time;  /* seconds of CPU time, about */
    bool is_mutable;
};

/* What create may need besides the filter: input buffers, and hashes on their way; and what a
 * compact filter is built in. */
static const uint64_t BUILD_MEMORY = (uint64_t)64 << 20, COMPACT_MEMORY = (uint64_t)256 << 20;

/* Nanoseconds of CPU time a key, reading and hashing of short keys included, as measured on one
 * machine. Ribbon: 50 at 1e7 keys, 57 at 1e8 with scratch, 75 at 1e9. Binary fuse, by its authors'
 * code with all keys in memory: 50 at 1e6; 60 to 130 at 1e7, with 16 and 8 bits; 70 to 500 at 5e7.
 */
static const double BLOOM_COST = 20, RIBBON_COST = 60, CLASSIC_COST = 40, FUSE_COST = 100;

static bool bloom_row(const struct plan *plan, struct row *row)
{
    row->kind = "bloom";
    row->bits = plan->bloom.pages * BLOOM_PAGE * 8;
    row->k = plan->bloom.k;
    row->lines = plan->bloom.lines;
    row->is_mutable = true;
    if (plan->bloom.pages == 0)
        return false;
    row->file_len = file_len_of(&plan->bloom);
    row->build_len = row->file_len + BUILD_MEMORY;
    row->build_time = BLOOM_COST * 1e-9 * (double)plan->n;
    return true;
}

static bool ribbon_row(const struct plan *plan, struct row *row)
{
    uint32_t wide;
    if (plan->p > RIBBON_MAX_FPR || plan->p < 100 * (double)plan->n * 0x1p-64)
        return false;
    row->kind = "ribbon";
    row->bits = 8 * ribbon_trial_len(plan->n, plan->p);
    row->file_len = ribbon_file_len(plan->n, plan->p);
    ribbon_columns(plan->p, &row->k, &wide);
    row->k += wide > 0;
    /* Two words a column, which may begin anywhere in a line. */
    unsigned whole_lines = (16 * row->k + 63 - 8) / 64;
    row->lines = 1 + (double)whole_lines;
    uint64_t all = row->file_len + 64 * plan->n + BUILD_MEMORY / 4;
    row->build_len = all < COMPACT_MEMORY ? all : COMPACT_MEMORY;
    row->build_time = RIBBON_COST * 1e-9 * (double)plan->n;
    return true;
}

/* Others, for comparison: bare bits, no header, no checksums. */

static uint64_t bytes_of(double bits)
{
    return (uint64_t)ceil(bits / 8);
}

/* The textbook's filter. */
static bool classic_row(const struct plan *plan, struct row *row)
{
    double m;
    classic_size(plan->n, plan->p, &m, &row->k);
    row->kind = "classic";
    row->bits = (uint64_t)m;
    row->file_len = bytes_of(m);
    row->lines = row->k;
    row->build_len = row->file_len;
    row->build_time = CLASSIC_COST * 1e-9 * (double)plan->n;
    row->is_mutable = true;
    return true;
}

/* Binary fuse filters of three segments: T. M. Graf, D. Lemire, "Binary fuse filters: fast and
 * smaller than xor filters", 2022, section 4. Fingerprints are of 8, 16 or 32 bits in every
 * implementation. */
static bool fuse_row(const struct plan *plan, struct row *row)
{
    double log2_p = -bloom_log(plan->p) / bloom_log(2), n = (double)plan->n;
    unsigned width = log2_p <= 8 ? 8 : log2_p <= 16 ? 16 : 32;
    double factor = n > 1 ? fmax(1.125, 0.875 + 0.25 * bloom_log(1e6) / bloom_log(n)) : 2;
    double slots = ceil(n * factor);
    row->kind = "fuse";
    row->k = width;
    row->bits = (uint64_t)(slots * width);
    row->file_len = bytes_of(slots * width);
    row->lines = 3;
    /* Of each key its hash, and of each slot what is left to be peeled. */
    row->build_len = row->file_len + (uint64_t)(8 * n + 9 * slots);
    row->build_time = FUSE_COST * 1e-9 * n;
    return true;
}

/* False: there is no such filter for n and p. */
static bool (*const row_of[])(const struct plan *, struct row *) = {bloom_row, ribbon_row,
                                                                    classic_row, fuse_row};

enum { ROWS = sizeof row_of / sizeof *row_of };

static bool get_row(const struct plan *plan, unsigned i, struct row *row)
{
    *row = (struct row){0};
    return row_of[i](plan, row);
}

static double bound(const struct plan *plan)
{
    return -bloom_log(plan->p) / bloom_log(2);
}

static void print_json_row(struct json *j, const struct plan *plan, const struct row *row)
{
    json_open(j, '{');
    json_key(j, "kind");
    json_string(j, row->kind);
    json_key(j, "bytes");
    json_uint(j, row->file_len);
    json_key(j, "bits_per_key");
    json_double(j, 8 * (double)row->file_len / (double)plan->n);
    json_key(j, "m");
    json_uint(j, row->bits);
    json_key(j, "k");
    json_uint(j, row->k);
    json_key(j, "lines_per_query");
    json_double(j, row->lines);
    json_key(j, "build_bytes");
    json_uint(j, row->build_len);
    json_key(j, "build_seconds");
    json_double(j, row->build_time);
    json_key(j, "mutable");
    json_bool(j, row->is_mutable);
    json_close(j, '}');
}

static void print_json(const struct plan *plan, FILE *out)
{
    struct json j = {.out = out};
    struct row row;
    json_open(&j, '{');
    json_key(&j, "n_design");
    json_uint(&j, plan->n);
    json_key(&j, "fpr_design");
    json_double(&j, plan->p);
    json_key(&j, "bound_bits_per_key");
    json_double(&j, bound(plan));
    json_key(&j, "kinds");
    json_open(&j, '[');
    for (unsigned i = 0; i < ROWS; i++)
        if (get_row(plan, i, &row))
            print_json_row(&j, plan, &row);
    json_close(&j, ']');
    json_close(&j, '}');
}

static void print_text_row(const struct plan *plan, const struct row *row, FILE *out)
{
    char file[NUM_TEXT], build[NUM_TEXT], seconds[NUM_TEXT];
    fprintf(out, "%-8s %10s  %8.2f  %2u  %11.3g  %12s  %12s  %s\n", row->kind,
            num_show_bytes(file, row->file_len), 8 * (double)row->file_len / (double)plan->n,
            row->k, row->lines, num_show_bytes(build, row->build_len),
            num_show_seconds(seconds, row->build_time), row->is_mutable ? "yes" : "no");
}

static void print_text(const struct plan *plan, FILE *out)
{
    char p[NUM_TEXT], n[NUM_TEXT];
    struct row row;
    fprintf(out, "%s keys at a design FPR of %s\n\n", num_show_count(n, (double)plan->n),
            num_show_fpr(p, plan->p));
    fprintf(out, "%-8s %10s  %8s  %2s  %11s  %12s  %12s  %s\n", "kind", "file size", "bits/key",
            "k", "cache lines", "build memory", "CPU time", "add");
    for (unsigned i = 0; i < ROWS; i++)
        if (get_row(plan, i, &row))
            print_text_row(plan, &row, out);
    fprintf(
        out,
        "\nThe least possible is %.2f bits/key. Cache lines are the most that one query touches,"
        "\nk the bits that it compares. CPU time to build is about what it took on one machine."
        "\n'seen create' makes bloom%s;"
        "\nclassic Bloom and binary fuse filters are shown for comparison.\n",
        bound(plan),
        ribbon_row(plan, &row) ? ", with --compact ribbon, to which no keys can be added" : "");
}

void plan_show(const struct plan *plan, bool json, FILE *out)
{
    if (json)
        print_json(plan, out);
    else
        print_text(plan, out);
}
