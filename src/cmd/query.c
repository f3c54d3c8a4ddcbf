/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/err.h"
#include "base/num.h"
#include "base/output.h"
#include "base/private.h"
#include "base/say.h"
#include "base/visible.h"
#include "cmd/adding.h"
#include "cmd/cmd.h"
#include "cmd/feed.h"
#include "cmd/keyopt.h"
#include "cmd/mismatch.h"
#include "cmd/redisopt.h"
#include "cmd/sources.h"
#include "cmd/warn.h"
#include "file/filter.h"
#include "keys/digest.h"
#include "store/store.h"

/* What is printed. Of several options that say so, the last one here counts. */
enum query_output { OUT_RECORDS, OUT_COUNT, OUT_WITHOUT, OUT_WITH, OUT_NOTHING };

struct query {
    struct keyopt keyopt;
    bool invert, number, annotate, verbose;
    enum query_output output;
    bool no_messages;
    uint64_t max_count; /* of each file; UINT64_MAX: any number */
    uint64_t min_count; /* 0: none */
    bool counts;        /* print them */
    char *list;         /* its keys in memory are asked instead of FILTER; NULL: not given */
    struct adding listed;
    struct sources sources;
    struct feed feed;
    uint64_t selected, present;
    uint64_t in_file;           /* selected */
    struct key_rule first_rule; /* of the first filters: others may replace them meanwhile */
    struct mismatch mismatch;
    bool compared; /* the first keys were compared, or need not be */
    bool *named;   /* with OUT_WITH or OUT_WITHOUT, for each file: it has a selected record, or
                      could not be read */
};

static const struct opt query_output_opts[] = {
    {'v', "invert-match", NULL, "select the records whose key is absent",
     FLAG(struct query, invert)},
    {'c', "count", NULL, "print only how many records are selected",
     CHOICE(struct query, output, OUT_COUNT)},
    {'q', "quiet", NULL, "print nothing, stop at the first selected record",
     CHOICE(struct query, output, OUT_NOTHING)},
    {'m', "max-count", "NUM", "stop reading a file after NUM selected records",
     COUNT(struct query, max_count)},
    {'l', "files-with-matches", NULL, "print only the names of key files with a selected record",
     CHOICE(struct query, output, OUT_WITH), .not_with = " files-without-match key",
     .why = "prints names of key files"},
    {'L', "files-without-match", NULL, "print only the names of key files without one",
     CHOICE(struct query, output, OUT_WITHOUT), .not_with = " key",
     .why = "prints names of key files"},
    {'s', "no-messages", NULL,
     "do not report key files that cannot be read; the exit status is still 2",
     FLAG(struct query, no_messages), .not_with = " key", .why = "is for messages about key files"},
    {0, "line-buffered", NULL, "no effect: output never waits for more input", NOTHING},
    {'n', "number", NULL,
     "print the record's number and a colon before it; with several files, the file's name too",
     FLAG(struct query, number)},
    {0, "annotate", NULL,
     "print each record with + or - and a TAB before it, for coprocesses; + present, - absent, ? "
     "without a key; a filter that is replaced is opened again",
     FLAG(struct query, annotate),
     .not_with = " count quiet files-with-matches files-without-match max-count",
     .why = "prints every record"},
    {0, "show-counts", NULL,
     "print before each record how often its key was added, and a TAB; FILTER must be a counted "
     "set",
     FLAG(struct query, counts),
     .not_with = " also count quiet files-with-matches files-without-match",
     .why = "prints the counts of one filter before records"},
    {0, "at-least", "N",
     "a key is present only if it was added N times or more; FILTER must be a counted set",
     AMOUNT(struct query, min_count), .not_with = " also", .why = "asks one filter for its counts"},
    {0, "verbose", NULL,
     "report on stderr how many keys were present, and how many of these are probably false "
     "positives",
     FLAG(struct query, verbose)},
    {0},
};

static const struct opt present_opts[] = {
    {300, "also", "OTHER", "a key in this filter is present too (repeatable)", REPEATED},
    {0, "which", NULL,
     "print the name of the filter that has the key, and a colon, before the record",
     FLAG(struct sources, which),
     .not_with = " invert-match annotate count quiet files-with-matches files-without-match",
     .why = "prints which filter has a key"},
    BORROW(struct sources, open.borrow),
    {0, "confirm", "SORTED",
     "a key is present only if it is also in this list, sorted with LC_ALL=C sort",
     TEXT(struct sources, list_path)},
    {0},
};

static const struct opt list_opts[] = {
    {0, "list", "FILE",
     "instead of FILTER: ask the keys of this file, which is read into memory like a KEYFILE", OWN,
     .not_with = " secret show-counts at-least layout", .why = "asks keys in memory"},
    {0},
};

static bool take_list(void *group, struct opt_parser *p, int id)
{
    struct query *q = group;
    (void)id;
    q->list = p->value;
    return true;
}

static const struct opt_group groups[] = {
    {"Selection and output", query_output_opts, 0, NULL},
    {"Instead of a filter", list_opts, 0, take_list},
    {"What is present", present_opts, offsetof(struct query, sources), sources_take},
    {"Keys", keyopt_opts, offsetof(struct query, keyopt), keyopt_take},
    {"Key preparation, checked against what is stored in the filter", keyopt_prep_opts,
     offsetof(struct query, keyopt), keyopt_take},
    {"Filters in Redis", redisopt_connect, offsetof(struct query, sources.open), NULL},
    {0},
};

static const struct opt_hint hints[] = {
    {"-e", "-k KEY asks for one key"},
    {"-A", "records are printed alone, without those around them"},
    {"-B", "records are printed alone, without those around them"},
    {"-C", "records are printed alone, without those around them"},
    {"-E", "keys are compared byte for byte, not as patterns"},
    {"-F", "keys are always compared byte for byte; -d gives the delimiter of the fields of -f"},
    {"-H", "-n prints the number of a record, and the file of each if there are several"},
    {"-G", "keys are compared byte for byte, not as patterns"},
    {"-P", "keys are compared byte for byte, not as patterns"},
    {"-u", "'seen query ... | seen dedup' prints each of them once"},
    {"--unique", "'seen query ... | seen dedup' prints each of them once"},
    {"-r", "key files are named one by one, not by their directory"},
    {"--counts", "--show-counts prints how often each key was given"},
    {"--min-count", "--at-least N takes only keys that were given N times or more"},
    {"--ask", "'read -rs' in a shell and a pipe hide what is typed: see seen-passwords(7)"},
    {"--bulk", "keys are asked live; for very many, ask a file that 'seen import' makes"},
    {"--live", "keys are always asked live"},
    {"-o", "records are printed whole; 'cut' takes fields of them"},
    {"--json", "--jsonl -f .NAME reads lines of JSON"},
    {"--regexp", "-k KEY asks for one key"},
    {0},
};

/* The result of one chunk. */
struct result {
    struct feed_part part;
    uint64_t selected, present;
    uint64_t first_present; /* in the first batch */
    struct output out;      /* selected records, ready to be written */
    struct label {
        uint64_t number;  /* from the chunk's beginning */
        size_t len;       /* of the record in out */
        const char *name; /* of the filter that has the key */
    } * labels; /* with --number, --which or --max-count: of the records in out, except header
                   records */
    size_t n_labels, labels_capacity;
};

/* The answers for a batch, and the selected records. Bad records are never selected. */
struct answers {
    struct sources_answers of;
    uint64_t selected[BATCH_MAX / 64];
};

/* Writes to `text` what is printed right before record i. Returns its length. */
static size_t prefix_of(const struct query *q, const struct answers *a, size_t i,
                        char text[NUM_TEXT])
{
    size_t len = 0;
    if (q->annotate) {
        text[len++] = bit_of(a->of.present, i) ? '+' : bit_of(a->of.good, i) ? '-' : '?';
        text[len++] = '\t';
    }
    if (q->counts)
        len += (size_t)snprintf(text + len, NUM_TEXT - len, "%" PRIu64 "\t", a->of.count[i]);
    return len;
}

static bool note_label(struct result *r, struct label label)
{
    if (r->n_labels == r->labels_capacity) {
        size_t capacity = r->labels_capacity > 0 ? 2 * r->labels_capacity : 1024;
        struct label *labels = realloc(r->labels, capacity * sizeof *labels);
        if (labels == NULL)
            return false;
        r->labels = labels;
        r->labels_capacity = capacity;
    }
    r->labels[r->n_labels++] = label;
    return true;
}

static bool names_files(const struct query *q)
{
    return q->output == OUT_WITH || q->output == OUT_WITHOUT;
}

/* Is something printed before records that commit must find out? */
static bool is_labelled(const struct query *q)
{
    return q->output == OUT_RECORDS && (q->number || q->sources.which);
}

/* Does the next reader of standard input continue behind the last selected record, as with grep? */
static bool resumes(const struct query *q)
{
    return q->max_count < UINT64_MAX && (q->output == OUT_RECORDS || q->output == OUT_COUNT);
}

/* Prints records with what comes before them, or notes what only commit can find out. */
static bool print_each(const struct query *q, const struct batch *b, const struct answers *a,
                       struct result *r)
{
    bool prints = q->output == OUT_RECORDS, labels = is_labelled(q) || resumes(q);
    for (size_t i = 0; i < b->n; i++) {
        char prefix[NUM_TEXT];
        size_t len = prefix_of(q, a, i, prefix), record = (size_t)(b->record[i + 1] - b->record[i]);
        struct label label = {.number = b->n_before + i, .len = len + record};
        if (!q->annotate && !bit_of(a->selected, i))
            continue;
        if (q->sources.which)
            label.name = q->sources.filter[a->of.holder[i]].path;
        if ((len > 0 && prints && !output_bytes(&r->out, prefix, len)) ||
            (prints && !output_bytes(&r->out, b->record[i], record)) ||
            (labels && !note_label(r, label)))
            return false;
    }
    return true;
}

/* Appends the output for a batch to r->out. Memory may be read up to limit. */
static bool answer_batch(struct query *q, const struct batch *b, const char *limit,
                         struct result *r, struct err *err)
{
    struct answers a;
    if (!sources_query(&q->sources, b, &a.of, err))
        return false;
    r->present += bits_count(a.of.present, BATCH_MAX);
    if (b->n_before == 0)
        r->first_present = r->present;
    for (size_t i = 0; q->min_count > 1 && i < b->n; i++)
        if (a.of.count[i] < q->min_count)
            a.of.present[i / 64] &= ~((uint64_t)1 << i % 64);
    for (size_t w = 0; w < BATCH_MAX / 64; w++)
        a.selected[w] = q->invert ? a.of.good[w] & ~a.of.present[w] : a.of.present[w];
    r->selected += bits_count(a.selected, BATCH_MAX);
    bool ok = true;
    if (is_labelled(q) || resumes(q) || q->annotate || q->counts)
        ok = print_each(q, b, &a, r);
    else if (q->output == OUT_RECORDS)
        ok = output_select(&r->out, b->record, b->n, a.selected, limit);
    return ok || fail(err, "out of memory");
}

static bool answer_chunk(void *ctx, void *slot, struct err *err)
{
    struct query *q = ctx;
    struct result *r = slot;
    const struct chunk *chunk = r->part.chunk;
    struct batch *b = r->part.batch;
    bool ok = true;
    r->selected = r->present = r->first_present = 0;
    r->n_labels = 0;
    r->out.len = 0;
    while (ok && batch_next(b))
        ok = answer_batch(q, b, chunk->data + chunk->len, r, err);
    return ok;
}

static bool work(void *ctx, void *slot, struct err *err)
{
    struct query *q = ctx;
    struct result *r = slot;
    const struct chunk *chunk = r->part.chunk;
    r->out.secret = q->keyopt.rule.secret;
    bool ok = sources_ask(&q->sources, &r->part, answer_chunk, q, r, err);
    bool prints = ok && chunk->first_header && q->output == OUT_RECORDS;
    if (prints && !feed_header(&q->feed, chunk, &r->out))
        ok = fail(err, "out of memory");
    return ok &&
           (output_terminate(&r->out, q->keyopt.rule.terminator) || fail(err, "out of memory"));
}

static bool put_name(struct output *out, const char *name)
{
    return output_bytes(out, name, strlen(name)) && output_bytes(out, ":", 1);
}

/* Adds what is printed before a record. As grep does, -n names the file where there are several. */
static bool put_label(const struct query *q, struct output *out, const struct label *label,
                      uint64_t before)
{
    char text[NUM_TEXT];
    bool names = q->number && q->keyopt.n_files > 1;
    unsigned long long number = before + label->number + 1;
    int len = q->number ? snprintf(text, sizeof text, "%llu:", number) : 0;
    return (!q->sources.which || put_name(out, label->name)) &&
           (!names || put_name(out, tally_where(&q->feed.tally))) &&
           output_bytes(out, text, (size_t)len);
}

/* Copies the records of r->out, each after its label. `before` records came before the chunk. */
static bool label_records(const struct query *q, struct output *labelled, const struct result *r,
                          uint64_t before)
{
    const char *at = r->out.data, *end = r->out.data + r->out.len;
    for (size_t i = 0; i < r->n_labels; i++) {
        bool last = i + 1 == r->n_labels; /* a terminator may have been added */
        size_t len = last ? (size_t)(end - at) : r->labels[i].len;
        if (!put_label(q, labelled, &r->labels[i], before) || !output_bytes(labelled, at, len))
            return false;
        at += len;
    }
    return true;
}

static bool write_selected(struct query *q, struct result *r, uint64_t before)
{
    if (!is_labelled(q) || r->n_labels == 0)
        return output_write(&r->out);
    struct output labelled = {.secret = q->keyopt.rule.secret};
    bool ok = (label_records(q, &labelled, r, before) || say_error("out of memory")) &&
              output_write(&labelled);
    output_free(&labelled);
    output_empty(&r->out);
    return ok;
}

/* Prints the name of a key file, as a record. */
static bool print_file_name(const struct query *q, const char *name)
{
    struct output out = {0};
    bool ok = ((output_bytes(&out, name, strlen(name)) &&
                output_bytes(&out, &q->keyopt.rule.terminator, 1)) ||
               say_error("out of memory")) &&
              output_write(&out);
    output_free(&out);
    return ok;
}

/* After the first selected record of a file, no more of it is needed. */
static bool mark_file(struct query *q, const struct result *r)
{
    bool *named = &q->named[q->feed.tally.file];
    if (r->selected == 0 || *named)
        return true;
    *named = true;
    if (q->output == OUT_WITH && !print_file_name(q, tally_where(&q->feed.tally))) {
        q->feed.failed = true;
        return false;
    }
    return feed_skip_file(&q->feed, &r->part);
}

/* Keeps only the first `most` selected records of a chunk, which has more. */
static void keep_first(struct result *r, uint64_t most)
{
    size_t len = 0;
    for (uint64_t i = 0; i < most && len < r->out.len; i++)
        len += r->labels[i].len;
    r->out.len = len;
    r->selected = most;
    if (r->n_labels > most)
        r->n_labels = (size_t)most;
}

static void count_selected(struct query *q, struct result *r)
{
    if (q->feed.tally.in_file == 0)
        q->in_file = 0;
    uint64_t left = q->max_count - q->in_file;
    if (r->selected > left)
        keep_first(r, left);
    if (r->selected == left && resumes(q) && r->n_labels > 0)
        feed_resume(&q->feed, r->part.chunk, r->labels[r->n_labels - 1].number + 1);
    q->selected += r->selected;
    q->in_file += r->selected;
    q->present += r->present;
}

/* Compares the first keys with the filters', which have hardly any of them. */
static void compare(struct query *q)
{
    struct sources *s = &q->sources;
    struct err ignored;
    q->compared = true;
    if (!mismatch_finds_few(&q->mismatch))
        return;
    bool entered = sources_enter(s, 0, &ignored), said = false, again = false;
    for (size_t i = 0; entered && !said && i < s->n; i++)
        said = mismatch_note(&q->mismatch, s->filter[i].now);
    sources_leave(s, entered, &again, &ignored);
}

/* Takes the first keys, until there are enough. If a note has told what the records look like, that
 * is enough. */
static void look_at_first(struct query *q, const struct result *r)
{
    const struct chunk *chunk = r->part.chunk;
    if (q->compared || chunk->header > 0)
        return;
    mismatch_take(&q->mismatch, chunk);
    q->mismatch.found += (unsigned)r->first_present;
    if (q->feed.advice.said != 0)
        q->compared = true;
    else if (q->mismatch.asked.n == MISMATCH_KEYS)
        compare(q);
}

static bool commit(void *ctx, void *slot)
{
    struct query *q = ctx;
    struct result *r = slot;
    look_at_first(q, r);
    count_selected(q, r);
    if (q->output == OUT_NOTHING && q->selected > 0)
        return false;
    if (names_files(q))
        return mark_file(q, r);
    if (!write_selected(q, r, q->feed.tally.in_file)) {
        q->feed.failed = true;
        return false;
    }
    return q->in_file < q->max_count || feed_skip_file(&q->feed, &r->part);
}

/* Prints the names of the other files, in order. */
static bool print_others(const struct query *q)
{
    const struct input_spec spec = keyopt_input(&q->keyopt);
    bool ok = true;
    for (size_t i = 0; ok && (i < spec.n_files || i == 0); i++)
        if (!q->named[i])
            ok = print_file_name(q, input_name_of(&spec, i));
    return ok;
}

static void free_result(void *slot)
{
    struct result *r = slot;
    output_free(&r->out);
    free(r->labels);
}

static void feed_query(struct query *q)
{
    const struct store *filter = q->sources.filter[0].now;
    q->feed = (struct feed){.keyopt = &q->keyopt,
                            .title = "querying",
                            .filter = filter->file != NULL ? &filter->file->status : NULL,
                            .prompt = true,
                            .questions = q->annotate,
                            .keep_going = true,
                            .no_messages = q->no_messages,
                            .unread = q->named,
                            .ctx = q,
                            .slot_size = sizeof(struct result),
                            .work = work,
                            .commit = commit,
                            .slot_free = free_result};
    redisopt_hint_many(filter, &q->keyopt, "seen import 'URI' -o F; seen query F");
    feed_run(&q->feed);
}

/* Of N absent keys, N * fpr are reported present and N * (1 - fpr) absent. So N is the number of
 * keys reported absent, divided by 1 - fpr. */
static bool report_hits(const struct query *q)
{
    struct err err;
    char expected[NUM_TEXT], text[NUM_TEXT];
    double fpr;
    if (!sources_fpr(&q->sources, q->keyopt.threads, &fpr, &err))
        return say_failure(&err);
    uint64_t asked = tally_keys(&q->feed.tally);
    double absent = (double)(asked - q->present) / (1 - fpr);
    /* Keys confirmed by the list are no false positives. */
    snprintf(expected, sizeof expected, "%.3g", q->sources.list != NULL ? 0 : absent * fpr);
    say_note("%llu of %llu keys present; probable false positives: about %s (current FPR %s)",
             (unsigned long long)q->present, (unsigned long long)asked, expected,
             num_show_fpr(text, fpr));
    return true;
}

/* What FILTER and the list are. */
static bool check_first(const struct query *q, const struct opt_parser *p)
{
    if (q->list == NULL)
        return p->n_operands > 0 || opt_refuse(&cmd_query, "no FILTER given");
    bool again = p->n_operands == 0 && q->keyopt.n_keys == 0;
    for (int i = 0; i < p->n_operands; i++)
        again |= strcmp(p->operand[i], "-") == 0;
    bool is_stdin = strcmp(q->list, "-") == 0;
    if (again && is_stdin)
        return opt_refuse(&cmd_query, "standard input is the list: KEYFILE or -k gives the keys");
    return !keyopt_is_filter(q->list) ||
           opt_refuse(&cmd_query, "'%s' is a filter, not a list: it is given without --list",
                      q->list);
}

/* Reads the list into memory, as the first filter. Call it before keyopt_files, after which the
 * options cannot be copied. */
static bool read_listed(struct query *q, const struct opt_parser *p)
{
    struct adding *a = &q->listed;
    struct err err;
    struct opt_parser list = *p;
    list.operand = &q->list;
    list.n_operands = 1;
    a->keyopt = q->keyopt;
    a->keyopt.keys = NULL;
    a->keyopt.n_keys = 0;
    a->feed.keyopt = &a->keyopt;
    a->feed.title = "reading";
    if (!keyopt_files(&a->keyopt, &list, 0) || !keyopt_check_memory(&a->keyopt, 0))
        return false;
    if (!adding_open_memory(a, &err))
        return say_failure(&err);
    if (!adding_run(a) || adding_end(a) != EXIT_SELECTED)
        return false;
    q->sources.filter[0].now = a->store;
    a->store = NULL;
    return true;
}

/* That FILTER cannot be opened. */
static void advise_filter(const struct query *q, const char *path, struct err *err)
{
    if (!keyopt_advise_order(&q->keyopt, path, err) && q->sources.open.borrow.layout == NULL &&
        keyopt_is_list(path))
        fail_more(err,
                  "; to ask its lines: seen query --list %s; to make one of them: seen create "
                  "FILTER %s",
                  SHELL_FILE(path), SHELL_FILE(path));
}

static bool open_query(struct query *q)
{
    struct sources *s = &q->sources;
    struct err err;
    s->follow = q->annotate;
    s->open.borrow.told = q->verbose ? warn_taken : NULL;
    if (!sources_open(s, &err)) {
        if (q->list == NULL)
            advise_filter(q, s->filter[0].path, &err);
        return say_failure(&err);
    }
    struct key_rule *rule = &q->keyopt.rule;
    rule->secret = prep_digest(rule->prep) != DIGEST_NONE || rule->hash->keyed;
    if (rule->secret)
        private_process();
    q->first_rule = *rule;
    return true;
}

static int answer_all(struct query *q)
{
    if (q->max_count > 0)
        feed_query(q);
    feed_report(&q->feed);
    if (q->output == OUT_NOTHING && q->selected > 0)
        return EXIT_SELECTED;
    if (q->feed.failed)
        return EXIT_ERROR;
    if (!q->compared)
        compare(q);
    if (q->output == OUT_WITHOUT && !print_others(q))
        return EXIT_ERROR;
    if (q->output == OUT_COUNT)
        printf("%llu\n", (unsigned long long)q->selected);
    if ((q->verbose && !report_hits(q)) || q->feed.unreadable)
        return EXIT_ERROR;
    return q->selected > 0 ? EXIT_SELECTED : EXIT_NONE;
}

static bool begin_output(struct query *q)
{
    q->keyopt.prints = q->output == OUT_RECORDS;
    if (!names_files(q))
        return true;
    q->named = calloc(q->keyopt.n_files + 1, sizeof *q->named);
    return q->named != NULL || say_error("out of memory");
}

static int run_query(struct query *q, struct opt_parser *p)
{
    if (!opt_parse(p, q))
        return p->status;
    q->sources.counts = q->counts || q->min_count > 0;
    q->mismatch.rule = &q->first_rule;
    if (q->sources.n >= UINT16_MAX)
        return opt_misuse(&cmd_query, "too many filters");
    struct err err;
    const char *first = q->list != NULL ? q->list : p->operand[0];
    bool ok =
        check_first(q, p) && (sources_add(&q->sources, 0, first, &err) || say_failure(&err)) &&
        (q->list == NULL || read_listed(q, p)) && keyopt_files(&q->keyopt, p, q->list == NULL) &&
        keyopt_check_memory(&q->keyopt, 0) && begin_output(q) && open_query(q);
    return ok ? answer_all(q) : EXIT_ERROR;
}

static int run(struct opt_parser *p)
{
    struct query q = {.keyopt = KEYOPT_DEFAULT,
                      .listed = ADDING_DEFAULT,
                      .sources = SOURCES_DEFAULT,
                      .max_count = UINT64_MAX};
    q.sources.keyopt = &q.keyopt;
    q.keyopt.not_hex = " (records are always compared whole, as with grep -x)";
    int status = run_query(&q, p);
    sources_close(&q.sources);
    adding_close(&q.listed);
    free(q.named);
    keyopt_free(&q.keyopt);
    return status;
}

const struct command cmd_query = {
    .name = "query",
    .synopsis = "[OPTION]... FILTER [KEYFILE]...",
    .summary = "print the records whose key is present",
    .examples = "  seen query urls.seen new.txt          the lines that are in the filter\n"
                "  seen query -v urls.seen new.txt       the lines that are not\n"
                "  seen query -v --list old.txt new.txt  no filter: what is not in old.txt\n",
    .details =
        "Reads records, one a line, from the KEYFILEs or standard input, and prints those whose "
        "key is in FILTER, in order and byte for byte. Exit status: 0 if a record was selected, "
        "1 if none was, 2 on an error.",
    .groups = groups,
    .everyday = " list invert-match count quiet max-count files-with-matches annotate show-counts"
                " number key null delimiter field header input-digests skip-bad secret"
                " confirm ",
    .hints = hints,
    .operand = "FILTER",
    .run = run,
};
