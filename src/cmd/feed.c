/* SPDX-License-Identifier: MIT */
#include "cmd/feed.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "base/private.h"
#include "base/progress.h"
#include "base/say.h"
#include "keys/pump.h"

/* ---- The tally. */

const char *tally_where(const struct tally *t)
{
    return input_name(t->input, t->file);
}

static void tally_add(struct tally *t, const struct chunk_tally *of_chunk)
{
    t->records += of_chunk->records - of_chunk->comments;
    t->in_file += of_chunk->records + of_chunk->header;
    t->newlines += of_chunk->newlines;
    t->bad += of_chunk->bad;
    t->empty += of_chunk->empty;
    t->hex_len = batch_join_len(t->hex_len, of_chunk->hex_len);
}

uint64_t tally_keys(const struct tally *t)
{
    return t->records - t->bad;
}

/* ---- Feeding keys. */

static bool fail_run(struct feed *f)
{
    f->failed = true;
    return false;
}

bool feed_fail(struct feed *f, uint64_t n, const char *fmt, ...)
{
    char what[sizeof(struct err)];
    uint64_t at = f->tally.in_file + n;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (f->keyopt->n_keys > 0)
        say_error("--key '%s': %s", f->keyopt->keys[at], what);
    else
        say_error("%s:%" PRIu64 ": %s", tally_where(&f->tally), at + 1, what);
    return fail_run(f);
}

/* Counts a committed chunk, and shows progress. False: it ends at a bad record. */
static bool report_chunk(struct feed *f, const struct chunk_tally *of_chunk)
{
    struct tally *t = &f->tally;
    tally_add(t, of_chunk);
    if (of_chunk->bad_record)
        return feed_fail(f, t->newlines, "%s", of_chunk->reason.text);
    uint64_t done, total;
    input_progress(t->input, &done, &total);
    progress_update(done, total, t->records);
    return true;
}

void feed_start(struct feed_part *part)
{
    const struct chunk *chunk = part->chunk;
    struct batch *b = part->batch;
    part->tally = (struct chunk_tally){.header = chunk->header};
    bool names = b->rule->csv != NULL && chunk->header > 0;
    for (size_t i = 0; names && i + 1 < chunk->len; i++)
        part->tally.newlines += chunk->data[i] == '\n';
    b->columns = &chunk->columns;
    b->first = chunk->first;
    batch_start(b, chunk->data, chunk->header > 0 ? 0 : chunk->len);
}

/* The names of CSV are one record. */
bool feed_header(const struct feed *f, const struct chunk *chunk, struct output *out)
{
    const struct key_rule *rule = &f->keyopt->rule;
    const char *at = chunk->data, *end = at + chunk->len;
    bool ok = true;
    while (ok && at < end) {
        const char *t = rule->csv == NULL ? memchr(at, rule->terminator, (size_t)(end - at)) : NULL;
        const char *next = t != NULL ? t + 1 : end;
        ok = (!f->questions || output_bytes(out, "#\t", 2)) &&
             output_bytes(out, at, (size_t)(next - at));
        at = next;
    }
    return ok;
}

/* Takes what the batches have counted. */
static void end_tally(struct feed_part *part)
{
    const struct batch *b = part->batch;
    struct chunk_tally *t = &part->tally;
    t->records = b->n_before;
    t->bad = b->n_bad;
    t->comments = b->n_comments;
    t->newlines += b->newlines;
    t->hex_len = b->hex_len;
    t->bad_record = b->bad_record;
    if (b->bad_record)
        t->reason = b->bad_reason;
}

/* Records that end in the other terminator are one very long one. */
static void note_too_long(const struct feed *f, struct feed_part *part)
{
    const struct chunk *chunk = part->chunk;
    char limit[NUM_TEXT];
    const char *record = chunk->data + chunk->len;
    bool is_text = f->keyopt->rule.terminator == '\n';
    part->tally.bad_record = true;
    if (f->keyopt->rule.csv != NULL) {
        fail(&part->tally.reason, "is longer than half of --memory (%s): is a quote not closed?",
             num_show_bytes(limit, f->keyopt->memory / 2));
        return;
    }
    bool other = memchr(record, is_text ? '\0' : '\n', chunk->too_long) != NULL;
    fail(&part->tally.reason, "is longer than half of --memory (%s): %zu bytes so far%s",
         num_show_bytes(limit, f->keyopt->memory / 2), chunk->too_long,
         !other    ? ""
         : is_text ? "; -0 separates records that end in NUL"
                   : "; without -0, newlines separate records");
}

/* Makes a thread's batch, with its sample, unless it is there. NULL: out of memory. */
static struct batch *make_batch(const struct feed *f, unsigned worker)
{
    struct batch *b = f->batch[worker];
    if (b == NULL)
        b = f->batch[worker] = batch_new(&f->keyopt->rule);
    if (b == NULL || !f->samples || b->sample != NULL)
        return b;
    b->sample = malloc(sizeof *b->sample);
    if (b->sample == NULL)
        return NULL;
    profile_sample_begin(b->sample);
    return b;
}

static void work(void *ctx, unsigned worker, const struct chunk *chunk, void *slot)
{
    struct feed *f = ctx;
    struct feed_part *part = slot;
    part->chunk = chunk;
    part->worker = worker;
    part->batch = make_batch(f, worker);
    part->failed = part->batch == NULL && !fail(&part->err, "out of memory");
    if (part->failed)
        return;
    feed_start(part);
    part->failed = !f->work(f->ctx, slot, &part->err);
    end_tally(part);
    if (chunk->too_long > 0 && !part->tally.bad_record)
        note_too_long(f, part);
    batch_shrink(part->batch);
    if (f->keyopt->rule.secret) {
        batch_wipe(part->batch);
        private_clean_stack();
    }
}

static bool commit(void *ctx, const struct chunk *chunk, void *slot)
{
    struct feed *f = ctx;
    struct feed_part *part = slot;
    if (chunk->file != f->tally.file) {
        f->tally.file = chunk->file;
        f->tally.in_file = f->tally.newlines = 0;
    }
    /* What its records look like, before they are taken. */
    bool ok =
        advice_look(&f->advice, tally_where(&f->tally), chunk, f->tally.in_file) || fail_run(f);
    if (ok && part->failed)
        ok = say_failure(&part->err) || fail_run(f);
    ok = ok && (f->commit == NULL || f->commit(f->ctx, part)) && report_chunk(f, &part->tally);
    if (f->keyopt->rule.secret)
        private_clean_stack();
    return ok;
}

static bool finish_part(void *ctx, const struct chunk *chunk, void *slot)
{
    struct feed *f = ctx;
    const struct feed_part *part = slot;
    (void)chunk;
    return part->failed || f->finish(f->ctx, slot);
}

/* Reports the file and continues with the next, as grep does. */
static void input_failed(void *ctx, const struct chunk *chunk, const struct err *err)
{
    struct feed *f = ctx;
    if (!f->no_messages)
        say_failure(err);
    if (f->unread != NULL)
        f->unread[chunk->file] = true;
    f->unreadable = true;
}

bool feed_skip_file(struct feed *f, const struct feed_part *part)
{
    if (f->tally.file + 1 < f->keyopt->n_files) {
        input_skip(f->tally.input, f->tally.file);
        return true;
    }
    tally_add(&f->tally, &part->tally);
    return false;
}

void feed_resume(struct feed *f, const struct chunk *chunk, uint64_t n)
{
    const char *at = chunk->data, *end = at + chunk->len;
    bool is_stdin = f->keyopt->n_files == 0 || strcmp(f->keyopt->files[chunk->file], "-") == 0;
    if (!is_stdin || chunk->offset < 0)
        return;
    for (; n > 0 && at < end; n--) {
        const char *t = memchr(at, f->keyopt->rule.terminator, (size_t)(end - at));
        at = t != NULL ? t + 1 : end;
    }
    input_resume(f->tally.input, chunk->offset + (at - chunk->data));
}

void feed_report(const struct feed *f)
{
    const struct tally *t = &f->tally;
    if (t->bad > 0)
        say_note("%llu of %llu records had no key and were %s", (unsigned long long)t->bad,
                 (unsigned long long)t->records, f->keeps_bad ? "printed as they are" : "skipped");
    if (t->empty > 0)
        say_note("%llu record%s empty, and an empty key is a key like others; sed %s'/^$/d' FILE | "
                 "seen ... drops them",
                 (unsigned long long)t->empty, t->empty == 1 ? " is" : "s are",
                 f->keyopt->rule.terminator == 0 ? "-z " : "");
}

static bool feed_input(struct feed *f)
{
    struct err err;
    bool from_stdin = f->keyopt->n_files == 0 && f->keyopt->n_keys == 0;
    for (size_t i = 0; i < f->keyopt->n_files; i++)
        from_stdin |= strcmp(f->keyopt->files[i], "-") == 0;
    bool typed = from_stdin && isatty(STDIN_FILENO);
    if (typed)
        say_note("reading keys from the terminal, one a line; Ctrl-D ends them");
    struct input_spec spec = keyopt_input(f->keyopt);
    spec.prompt = f->prompt;
    spec.questions = f->questions;
    spec.filter = f->filter;
    struct input *input = input_open(&spec, &err);
    if (input == NULL)
        return say_failure(&err);
    f->tally.input = input;
    struct pump pump = {.input = input,
                        .threads = f->keyopt->threads,
                        .ctx = f,
                        .slot_size = f->slot_size,
                        .work = work,
                        .commit = commit,
                        .failed = f->keep_going ? input_failed : NULL,
                        .finish = f->finish != NULL ? finish_part : NULL,
                        .slot_free = f->slot_free};
    bool busy = typed || (f->keyopt->prints && isatty(STDOUT_FILENO));
    progress_begin(f->title, f->keyopt->progress, busy);
    bool ok = pump_run(&pump, &err) || say_failure(&err);
    progress_end();
    f->tally.input = NULL;
    input_close(input);
    return ok;
}

/* Joins the samples of all threads, and frees what they kept. */
static void end_workers(struct feed *f)
{
    struct profile_sample *all = NULL;
    for (unsigned i = 0; i < f->keyopt->threads; i++) {
        struct profile_sample *sample = f->batch[i] != NULL ? f->batch[i]->sample : NULL;
        batch_free(f->batch[i]);
        if (all == NULL) {
            all = sample;
        } else if (sample != NULL) {
            profile_sample_join(all, sample);
            free(sample);
        }
    }
    if (all != NULL)
        f->profile = profile_of_sample(all);
    free(all);
    free(f->batch);
}

bool feed_run(struct feed *f)
{
    f->batch = calloc(f->keyopt->threads, sizeof *f->batch);
    f->advice.keyopt = f->keyopt;
    f->advice.questions = f->questions;
    bool ok = (f->batch != NULL || say_error("out of memory")) && feed_input(f);
    if (f->batch != NULL)
        end_workers(f);
    advice_end(&f->advice);
    if (!ok)
        f->failed = true;
    return !f->failed;
}
