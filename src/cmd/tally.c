#include "cmd/tally.h"

#include "base/progress.h"
#include "base/say.h"

void tally_batch(struct chunk_tally *of_chunk, const struct batch *b)
{
    of_chunk->saw_cr |= b->saw_cr;
    of_chunk->saw_counts |= b->saw_counts;
    of_chunk->hex_len = batch_join_len(of_chunk->hex_len, b->hex_len);
    of_chunk->records += b->n;
    of_chunk->bad += b->n_bad;
}

void tally_batches_end(struct chunk_tally *of_chunk, const struct batch *b)
{
    of_chunk->bad_record = b->bad_record;
    if (b->bad_record)
        of_chunk->reason = b->bad_reason;
}

const char *tally_where(const struct tally *t)
{
    return t->input != NULL ? input_name(t->input, t->file) : "--key";
}

void tally_begin(struct tally *t, const struct chunk *chunk)
{
    if (chunk->file != t->file) {
        t->file = chunk->file;
        t->in_file = 0;
    }
}

void tally_add(struct tally *t, const struct chunk_tally *of_chunk)
{
    t->records += of_chunk->records;
    t->in_file += of_chunk->records + of_chunk->header;
    t->bad += of_chunk->bad;
    t->hex_len = batch_join_len(t->hex_len, of_chunk->hex_len);
}

bool tally_end(struct tally *t, const struct chunk_tally *of_chunk)
{
    tally_add(t, of_chunk);
    if (of_chunk->saw_cr && !t->hinted) {
        t->hinted = true;
        say_note("records in '%s' end in CR, which is taken as part of the key; --crlf drops it",
                 tally_where(t));
    }
    if (of_chunk->saw_counts && !t->hinted_counts) {
        t->hinted_counts = true;
        say_note("records in '%s' look like DIGEST:COUNT; to take only the digests as keys, give "
                 "-d: -f1 and --hex, or --digested if the filter has --digest",
                 tally_where(t));
    }
    if (of_chunk->bad_record) {
        say_error("%s:%llu: %s", tally_where(t), (unsigned long long)t->in_file + 1,
                  of_chunk->reason.text);
        return false;
    }
    uint64_t done, total;
    input_progress(t->input, &done, &total);
    progress_update(done, total, t->records);
    return true;
}

uint64_t tally_keys(const struct tally *t)
{
    return t->records - t->bad;
}

void tally_report(const struct tally *t)
{
    if (t->bad > 0)
        say_note("%llu of %llu records had no key and were skipped", (unsigned long long)t->bad,
                 (unsigned long long)t->records);
}
