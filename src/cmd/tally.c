#include "cmd/tally.h"

#include <string.h>

#include "base/progress.h"
#include "base/say.h"

void tally_batch(struct chunk_tally *of_chunk, const struct batch *b)
{
    of_chunk->saw_cr |= b->saw_cr;
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

static bool begins(const char *data, size_t len, const char *magic, size_t magic_len)
{
    return len >= magic_len && memcmp(data, magic, magic_len) == 0;
}

/* The compressor whose data begins like this; NULL: none known. */
static const char *compressor(const char *data, size_t len)
{
    if (begins(data, len, "\xfd\x37\x7a\x58\x5a", 6)) /* followed by a NUL */
        return "xz";
    if (begins(data, len, "\x28\xb5\x2f\xfd", 4))
        return "zstd";
    /* Between them is a digit, the size of its blocks. */
    if (begins(data, len, "BZh", 3) && len > 4 && begins(data + 4, len - 4, "1AY&SY", 6))
        return "bzip2";
    return NULL;
}

static void warn_of_compressed(struct tally *t, const struct chunk *chunk)
{
    const char *name = compressor(chunk->data, chunk->len);
    if (name == NULL || t->warned || t->keyopt->no_gzip)
        return;
    t->warned = true;
    say_warning("'%s' looks like %s data, but is read as keys: only gzip is decompressed",
                tally_where(t), name);
}

void tally_add(struct tally *t, const struct chunk_tally *of_chunk)
{
    t->records += of_chunk->records;
    t->in_file += of_chunk->records;
    t->bad += of_chunk->bad;
}

bool tally_end(struct tally *t, const struct chunk *chunk, const struct chunk_tally *of_chunk)
{
    if (t->in_file == 0)
        warn_of_compressed(t, chunk);
    tally_add(t, of_chunk);
    if (of_chunk->saw_cr && !t->hinted) {
        t->hinted = true;
        say_note("records in '%s' end in CR, which is taken as part of the key; --crlf drops it",
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
