#include "cmd/tally.h"

#include "base/progress.h"
#include "base/say.h"

void tally_batch(struct chunk_tally *of_chunk, const struct batch *b)
{
    of_chunk->signs |= b->signs;
    of_chunk->hex_len = batch_join_len(of_chunk->hex_len, b->hex_len);
    of_chunk->records += b->n;
    of_chunk->bad += b->n_bad;
}

void tally_batches_end(struct chunk_tally *of_chunk, const struct batch *b)
{
    of_chunk->signs |= b->signs;
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

/* What is printed once in a run, after "records in 'FILE' ". */
static const struct {
    enum sign sign;
    bool at_begin; /* of a file */
    const char *text;
} hints[] = {
    {SIGN_CR, false, "end in CR, which is taken as part of the key; --crlf drops it"},
    {SIGN_COUNTS, false,
     "look like DIGEST:COUNT; to take only the digests as keys, give -d: -f1 and --hex, or "
     "--digested if the filter has --digest"},
    {SIGN_NUL, true,
     "end in NUL, not in newlines, so that all of them are one key; -0 separates them"},
    {SIGN_LINES, true,
     "end in newlines, not in NUL, so that all of them are one key; without -0 they are separate"},
    {SIGN_UTF16, true,
     "are UTF-16, and keys are taken byte for byte; 'iconv -f UTF-16 -t UTF-8' converts them"},
    {SIGN_MARK, true,
     "begin with a byte order mark, which is taken as part of the first key; 'tail -c +4' drops "
     "it"},
    {SIGN_DIGESTS, true,
     "look like digests, of which digests would be taken; --digested takes them as they are, and "
     "in a filter without --digest they are keys as others"},
};

/* False: there is a sign that is an error. */
static bool hint(struct tally *t, unsigned signs)
{
    if ((signs & SIGN_UTF16) != 0)
        signs = SIGN_UTF16;
    if ((signs & SIGN_DIGESTS) != 0)
        signs &= ~(unsigned)SIGN_COUNTS;
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) {
        if ((signs & ~t->signs & hints[i].sign) == 0 || (hints[i].at_begin && t->in_file > 0))
            continue;
        t->signs |= hints[i].sign;
        bool refused = (hints[i].sign & t->refused) != 0;
        (refused ? say_error : say_note)("records in '%s' %s", tally_where(t), hints[i].text);
        if (refused)
            return false;
    }
    return true;
}

bool tally_end(struct tally *t, const struct chunk_tally *of_chunk)
{
    if (!hint(t, of_chunk->signs))
        return false;
    tally_add(t, of_chunk);
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
