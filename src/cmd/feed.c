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

struct batch *feed_next(struct feed_part *part)
{
    struct batch *b = part->batch;
    struct chunk_tally *t = &part->tally;
    if (!batch_next(b)) {
        t->bad_record = b->bad_record;
        t->newlines += b->newlines;
        if (b->bad_record)
            t->reason = b->bad_reason;
        return NULL;
    }
    t->hex_len = batch_join_len(t->hex_len, b->hex_len);
    t->records += b->n;
    t->bad += b->n_bad;
    t->comments += b->n_comments;
    if (part->sample != NULL)
        profile_sample_take(part->sample, b);
    return b;
}

void feed_start(struct feed_part *part)
{
    const struct chunk *chunk = part->chunk;
    part->tally = (struct chunk_tally){.header = chunk->header};
    bool names = part->batch->rule->csv != NULL && chunk->header > 0;
    for (size_t i = 0; names && i + 1 < chunk->len; i++)
        part->tally.newlines += chunk->data[i] == '\n';
    part->batch->columns = &chunk->columns;
    part->batch->first = chunk->first;
    batch_start(part->batch, chunk->data, chunk->header > 0 ? 0 : chunk->len);
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

/* The worker's batch and sample are made when they are first needed. */
static bool make_own(struct feed *f, unsigned worker)
{
    if (f->batch[worker] == NULL)
        f->batch[worker] = batch_new(&f->keyopt->rule);
    if (f->samples && f->sample[worker] == NULL &&
        (f->sample[worker] = malloc(sizeof **f->sample)) != NULL)
        profile_sample_begin(f->sample[worker]);
    return f->batch[worker] != NULL && (!f->samples || f->sample[worker] != NULL);
}

static void work(void *ctx, unsigned worker, const struct chunk *chunk, void *slot)
{
    struct feed *f = ctx;
    struct feed_part *part = slot;
    part->chunk = chunk;
    part->worker = worker;
    part->failed = !make_own(f, worker) && !fail(&part->err, "out of memory");
    if (part->failed)
        return;
    part->batch = f->batch[worker];
    part->sample = f->samples ? f->sample[worker] : NULL;
    feed_start(part);
    part->failed = !f->work(f->ctx, slot, &part->err);
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
        input_skip(f->input, f->tally.file);
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
    input_resume(f->input, chunk->offset + (at - chunk->data));
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

static void slot_free(void *ctx, void *slot)
{
    struct feed *f = ctx;
    if (f->slot_free != NULL)
        f->slot_free(slot);
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
    if (f->refuse != NULL) {
        spec.forbid_dev = f->refuse->st_dev;
        spec.forbid_ino = f->refuse->st_ino;
    }
    struct input *input = input_open(&spec, &err);
    if (input == NULL)
        return say_failure(&err);
    f->tally.input = f->input = input;
    struct pump pump = {.input = input,
                        .threads = f->keyopt->threads,
                        .ctx = f,
                        .slot_size = f->slot_size,
                        .work = work,
                        .commit = commit,
                        .failed = f->keep_going ? input_failed : NULL,
                        .finish = f->finish != NULL ? finish_part : NULL,
                        .slot_free = slot_free};
    bool busy = typed || (f->keyopt->prints && isatty(STDOUT_FILENO));
    progress_begin(f->title, f->keyopt->progress, busy);
    bool ok = pump_run(&pump, &err) || say_failure(&err);
    progress_end();
    f->tally.input = f->input = NULL;
    input_close(input);
    return ok;
}

/* Joins the samples of all threads. */
static void take_profile(struct feed *f)
{
    struct profile_sample *all = NULL;
    for (unsigned i = 0; f->sample != NULL && i < f->keyopt->threads; i++) {
        if (all == NULL)
            all = f->sample[i];
        else if (f->sample[i] != NULL)
            profile_sample_join(all, f->sample[i]);
    }
    if (all != NULL)
        f->profile = profile_of_sample(all);
    for (unsigned i = 0; f->sample != NULL && i < f->keyopt->threads; i++)
        free(f->sample[i]);
    free(f->sample);
    f->sample = NULL;
}

bool feed_run(struct feed *f)
{
    f->batch = calloc(f->keyopt->threads, sizeof *f->batch);
    f->sample = f->samples ? calloc(f->keyopt->threads, sizeof *f->sample) : NULL;
    f->advice.keyopt = f->keyopt;
    f->advice.questions = f->questions;
    bool memory = f->batch != NULL && (f->sample != NULL || !f->samples);
    bool ok = (memory || say_error("out of memory")) && feed_input(f);
    for (unsigned i = 0; f->batch != NULL && i < f->keyopt->threads; i++)
        batch_free(f->batch[i]);
    free(f->batch);
    f->batch = NULL;
    take_profile(f);
    advice_end(&f->advice);
    if (!ok)
        f->failed = true;
    return !f->failed;
}
