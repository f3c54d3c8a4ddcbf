/* SPDX-License-Identifier: MIT */
#include "keys/batch.h"

#include <stdlib.h>
#include <string.h>

#include "port/port.h"
#include "base/bits.h"
#include "base/bytes.h"
#include "base/num.h"
#include "keys/content.h"
#include "keys/digest.h"
#include "keys/field.h"
#include "keys/prep.h"
#include "keys/prepare.h"
#include "keys/profile.h"

static bool say_bad(struct batch *b, enum key_verdict verdict)
{
    struct err *err = &b->bad_reason;
    const struct key_rule *rule = b->rule;
    switch (verdict) {
    case KEY_NO_FIELD:
        return fail(err, "has no field %d (--skip-bad skips such records)", b->missing);
    case KEY_COLUMNS:
        return fail(err, "has %u column%s, not %u (--skip-bad skips such records)",
                    b->columns_found, num_plural(b->columns_found), b->columns->n);
    case KEY_NO_JSON:
        return fail_more(err, " (--skip-bad skips such records)");
    case KEY_NO_VALUE:
        if (rule->csv != NULL || rule->paths != NULL)
            return fail(err, "the %s of the key are empty (--skip-bad skips such records)",
                        rule->csv != NULL ? "columns" : "values");
        if (rule->field[1] != 0 || rule->rest)
            return fail(err, "all fields of the key are empty (--skip-bad skips such records)");
        return fail(err, "field %d is empty (--skip-bad skips such records)", rule->field[0]);
    case KEY_NO_DIGEST:
        return fail(err, "%s", digest_by_id(prep_digest(rule->prep))->wrong);
    case KEY_NOT_DIGESTED:
        return fail(err, "%s", digest_by_id(prep_digest(rule->prep))->bad);
    case KEY_NOT_ENCODED:
        return fail(err, "%s", encoding_by_id(prep_encoding(rule->prep))->bad);
    case KEY_WRONG_LEN:
        return fail(err, "is not %u hexadecimal digits, as the keys of the filter are",
                    2 * rule->key_len);
    default:
        return fail(err, "not hexadecimal");
    }
}

struct batch *batch_new(const struct key_rule *rule)
{
    static const struct csv_columns none;
    struct batch *b = malloc(sizeof *b);
    if (b == NULL)
        return NULL;
    b->rule = rule;
    b->scratch = NULL;
    b->scratch_len = b->scratch_used = 0;
    b->sample = NULL;
    b->columns = &none;
    b->first = false;
    b->cutter = rule->csv != NULL ? csv_cutter_new() : NULL;
    if (rule->csv != NULL && b->cutter == NULL) {
        free(b);
        return NULL;
    }
    batch_start(b, "", 0);
    return b;
}

static void wipe_scratch(struct batch *b)
{
    if (b->scratch_used > 0)
        port_wipe(b->scratch, b->scratch_used);
    b->scratch_used = 0;
}

void batch_wipe(struct batch *b)
{
    wipe_scratch(b);
    port_wipe(b->hash, key_rule_hash(b->rule)->lanes * BATCH_MAX * sizeof *b->hash);
}

/* Larger than the copies that batches of usual records need. */
enum { SCRATCH_KEPT = 8 << 20 };

void batch_shrink(struct batch *b)
{
    if (b->scratch_len <= SCRATCH_KEPT)
        return;
    wipe_scratch(b);
    free(b->scratch);
    b->scratch = NULL;
    b->scratch_len = 0;
}

void batch_free(struct batch *b)
{
    if (b == NULL)
        return;
    batch_wipe(b);
    csv_cutter_free(b->cutter);
    free(b->scratch);
    free(b);
}

void batch_start(struct batch *b, const char *data, size_t len)
{
    b->n = b->n_before = b->n_bad = b->n_comments = b->hex_len = 0;
    b->bad_record = false;
    b->start = b->at = b->record[0] = data;
    b->end = data + len;
    b->n_found = 0;
    b->newlines = 0;
    if (b->rule->csv != NULL)
        csv_begin(b->cutter, b->rule->csv, b->columns, b->first, data, len);
}

/* Splits records until there are BATCH_MAX or no more. */
static void cut_records(struct batch *b)
{
    memmove(b->record, b->record + b->n, (b->n_found - b->n + 1) * sizeof b->record[0]);
    b->n_found -= b->n;
    if (b->n_found < BATCH_MAX && b->at < b->end) {
        size_t scanned;
        b->n_found += split(b->at, (size_t)(b->end - b->at), b->rule->terminator,
                            b->record + 1 + b->n_found, BATCH_MAX - b->n_found, &scanned);
        b->at += scanned;
    }
    if (b->n_found < BATCH_MAX && b->record[b->n_found] < b->end) /* it lacks its terminator */
        b->record[++b->n_found] = b->end;
    b->n = b->n_found < BATCH_MAX ? b->n_found : BATCH_MAX;
}

static bool has_terminator(const struct batch *b, size_t i)
{
    return b->record[i + 1][-1] == b->rule->terminator;
}

/* Record i without its terminator. */
static struct slice bare_record(const struct batch *b, size_t i)
{
    size_t len = (size_t)(b->record[i + 1] - b->record[i]);
    return (struct slice){b->record[i], len - has_terminator(b, i)};
}

/* Reserves capacity for keys joined from fields, for copies of all keys of this batch, and for
 * their digests and encodings.
 *
 * The most that keys joined from fields can take, for records of `bytes` bytes in all: a field is
 * named at most twice, once from each end. Let a record have L bytes without its terminator. The
 * fields counted from one end, with a delimiter each, take at most L + 1. Fields counted from both
 * ends take at most 2 L + 1, as the last one has no delimiter. Only the last record of a file may
 * lack its terminator, so the sum is at most 2 * bytes + 1. */
static bool reserve_scratch(struct batch *b, const struct digest *d, const struct encoding *e)
{
    size_t bytes = (size_t)(b->record[b->n] - b->record[0]);
    size_t fixed = 0, per_byte = prepare_copies(b->rule);
    if (b->rule->csv != NULL || b->rule->paths != NULL || field_joins(b->rule)) {
        bytes = 2 * bytes + 1;
        per_byte++;
    }
    if (d != NULL) {
        fixed += b->n * d->fixed; /* n is at most BATCH_MAX */
        per_byte += d->per_byte;
    }
    if (e != NULL) {
        fixed += b->n * e->fixed;
        per_byte += e->per_byte;
    }
    if (per_byte > 0 && bytes > (SIZE_MAX - fixed) / per_byte)
        return false;
    size_t need = fixed + bytes * per_byte;
    if (need > b->scratch_len) {
        wipe_scratch(b);
        free(b->scratch);
        b->scratch = malloc(need);
        b->scratch_len = b->scratch ? need : 0;
    }
    if (b->scratch == NULL)
        return need == 0;
    if (b->scratch_used < need)
        b->scratch_used = need;
    return true;
}

/* Ends the batch before record i, which has no key. The record is reported after the others. */
static void stop_before(struct batch *b, size_t i)
{
    b->bad_record = true;
    b->n = i;
    if (b->rule->csv == NULL)
        return;
    b->newlines = 0;
    for (const char *p = b->start; p < b->record[i]; p++)
        b->newlines += *p == '\n';
    b->newlines -= b->n_before + i;
}

static enum key_verdict take_csv(struct batch *b, size_t i, char **to, struct slice *key)
{
    switch (csv_key(b->cutter, i, b->record[i], b->record[i + 1], &key->data, &key->len, to)) {
    case CSV_KEY:
        return KEY_GOOD;
    case CSV_EMPTY_LINE:
        return KEY_COMMENT;
    case CSV_NO_VALUE:
        return KEY_NO_VALUE;
    case CSV_COLUMNS:
        break;
    }
    b->columns_found = csv_fields(b->cutter, i);
    return KEY_COLUMNS;
}

/* Appends a text as a field of CSV: that of several values of JSON is one key. */
static char *put_field(const char *text, size_t len, char *to)
{
    bool quotes = false;
    for (size_t i = 0; i < len; i++)
        quotes |= text[i] == '"' || text[i] == ',' || text[i] == '\n' || text[i] == '\r';
    if (!quotes) {
        memcpy(to, text, len);
        return to + len;
    }
    *to++ = '"';
    for (size_t i = 0; i < len; i++) {
        *to++ = text[i];
        if (text[i] == '"')
            *to++ = '"';
    }
    *to++ = '"';
    return to;
}

static enum key_verdict take_json(struct batch *b, size_t i, char **to, struct slice *key)
{
    const struct key_paths *paths = b->rule->paths;
    struct slice line = *key;
    size_t mark = i == 0 && b->n_before == 0 && b->first ? content_mark(line.data, line.len) : 0;
    line = (struct slice){line.data + mark, line.len - mark};
    if (line.len == 0 || (line.len == 1 && line.data[0] == '\r'))
        return KEY_COMMENT;
    char *begin = *to;
    bool empty = true;
    for (unsigned p = 0; p < paths->n; p++) {
        /* No value is named twice. With the quotes and the separator that it has in the line, it is
         * at least as long there as in the key: so the key has at most the line's bytes, and there
         * is room for a string to be decoded behind it (reserve_scratch). */
        char *room = paths->n > 1 ? begin + line.len : begin;
        struct jsonl found = jsonl_find(&paths->path[p], line.data, line.len, room);
        if (found.is != JSONL_KEY) {
            jsonl_why(&found, line.data, line.len, &b->bad_reason);
            return KEY_NO_JSON;
        }
        empty &= found.len == 0;
        if (paths->n == 1) {
            *key = (struct slice){found.key, found.len};
            *to += found.key == room ? found.len : 0;
            return empty ? KEY_NO_VALUE : KEY_GOOD;
        }
        if (p > 0)
            *(*to)++ = ',';
        *to = put_field(found.key, found.len, *to);
    }
    *key = (struct slice){begin, (size_t)(*to - begin)};
    return empty ? KEY_NO_VALUE : KEY_GOOD;
}

/* Extracts the key of record i and prepares it. Advances *to past fields that are joined there. A
 * copy of the key, if one is made, begins at *to. */
static enum key_verdict make_one_key(struct batch *b, size_t i, char **to, struct slice *key)
{
    const struct key_rule *rule = b->rule;
    bool whole = has_terminator(b, i);
    *key = (struct slice){b->record[i], (size_t)(b->record[i + 1] - b->record[i]) - whole};
    if (rule->given)
        return prepare_key(key, rule, *to);
    enum key_verdict verdict;
    if (rule->csv != NULL) {
        verdict = take_csv(b, i, to, key);
    } else if (rule->paths != NULL) {
        verdict = take_json(b, i, to, key);
    } else {
        if (rule->comments && key->len > 0 && key->data[0] == '#')
            return KEY_COMMENT;
        if (rule->crlf && whole && key->len > 0 && key->data[key->len - 1] == '\r')
            key->len--;
        if (rule->field[0] == 0)
            return prepare_key(key, rule, *to);
        verdict = field_take(key, rule, to, &b->missing);
    }
    if (verdict == KEY_GOOD && (rule->prep != 0 || rule->digested))
        verdict = prepare_key(key, rule, *to);
    return verdict == KEY_GOOD && key->len == 0 ? KEY_NO_VALUE : verdict;
}

/* Encodes the prepared key of record i. Advances *to if it is written there. */
static enum key_verdict encode(struct batch *b, size_t i, const struct encoding *e, char **to,
                               struct slice *key)
{
    size_t len;
    const char *encoded = e->encode(key->data, key->len, *to, &len);
    if (encoded == NULL)
        return KEY_NOT_ENCODED;
    b->text[i] = key->data;
    b->text_len[i] = key->len;
    if (encoded == *to)
        *to += len;
    *key = (struct slice){encoded, len};
    return KEY_GOOD;
}

static void make_keys(struct batch *b)
{
    const struct key_rule *rule = b->rule;
    const struct digest *d = digest_by_id(prep_digest(rule->prep));
    const struct encoding *e = encoding_by_id(prep_encoding(rule->prep));
    bool copies = prepare_copies(rule);
    if (!reserve_scratch(b, d, e)) {
        fail(&b->bad_reason, "no memory for a key of this length");
        stop_before(b, 0);
        return;
    }
    memset(b->bad, 0, sizeof b->bad);
    char *to = b->scratch;
    for (size_t i = 0; i < b->n; i++) {
        struct slice key;
        enum key_verdict verdict = make_one_key(b, i, &to, &key);
        if (copies && verdict == KEY_GOOD) {
            to += key.len;
            b->hex_len = batch_join_len(b->hex_len, key.len > 0 ? key.len : SIZE_MAX);
        }
        if (d != NULL && verdict == KEY_GOOD)
            verdict = prepare_digest(&key, rule, d, &to);
        if (e != NULL && verdict == KEY_GOOD)
            verdict = encode(b, i, e, &to, &key);
        if (verdict != KEY_GOOD) {
            if (!rule->skip_bad && verdict != KEY_COMMENT) {
                say_bad(b, verdict);
                stop_before(b, i);
                return;
            }
            b->bad[i / 64] |= UINT64_C(1) << i % 64;
            *(verdict == KEY_COMMENT ? &b->n_comments : &b->n_bad) += 1;
            key.len = 0;
        }
        b->key[i] = key.data;
        b->key_len[i] = key.len;
    }
}

/* Is the whole record the key, unchanged? */
static bool is_unprepared(const struct key_rule *rule)
{
    return !rule->prep && rule->csv == NULL && rule->paths == NULL &&
           (rule->given || (!rule->field[0] && !rule->crlf && !rule->comments));
}

/* Has one of BATCH_MAX whole records no more than its terminator? The compiler's loop over their
 * lengths takes four times as long, and would be felt in 'seen create'. */
static bool has_empty_record(const char *const *record)
{
    typedef ptrdiff_t lens __attribute__((vector_size(16)));
    lens begin, end, less = {0}; /* below 0: a length is less than 2 */
    enum { N = sizeof less / sizeof less[0] };
    for (size_t i = 0; i < BATCH_MAX; i += N) {
        memcpy(&begin, record + i, sizeof begin);
        memcpy(&end, record + i + 1, sizeof end);
        less |= end - begin - 2;
    }
    for (size_t i = 1; i < N; i++)
        less[0] |= less[i];
    return less[0] < 0;
}

size_t batch_count_empty(const struct batch *b)
{
    size_t n = 0;
    bool whole = is_unprepared(b->rule);
    if (b->rule->given || (whole && b->n == BATCH_MAX && !has_empty_record(b->record)))
        return 0;
    for (size_t i = 0; i < b->n; i++)
        n += whole ? bare_record(b, i).len == 0 : b->key_len[i] == 0 && !bit_of(b->bad, i);
    return n;
}

const char *batch_key(const struct batch *b, size_t i, size_t *len)
{
    bool whole = is_unprepared(b->rule);
    *len = whole ? bare_record(b, i).len : b->key_len[i];
    return whole ? b->record[i] : b->key[i];
}

const char *batch_text(const struct batch *b, size_t i, char *plain, size_t *len)
{
    const struct encoding *e = encoding_by_id(prep_encoding(b->rule->prep));
    return e == NULL ? batch_key(b, i, len) : e->plain(b->text[i], b->text_len[i], plain, len);
}

bool batch_key_stays(const struct batch *b, size_t i)
{
    size_t len;
    uintptr_t at = (uintptr_t)batch_key(b, i, &len);
    return at >= (uintptr_t)b->record[0] && at + len <= (uintptr_t)b->record[b->n];
}

static void take_key_bytes(struct batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        struct key_bytes *key = &b->bytes[i];
        *key = (struct key_bytes){"", 0};
        if (!bit_of(b->bad, i))
            key->data = batch_key(b, i, &key->len);
    }
}

/* Prepares and hashes the records of the batch. */
static bool hash_batch(struct batch *b)
{
    const struct key_rule *rule = b->rule;
    const struct hash_fn *fn = key_rule_hash(rule);
    if (is_unprepared(rule)) {
        memset(b->bad, 0, sizeof b->bad); /* callers may have set bits */
        size_t last = b->n - 1, whole = last + has_terminator(b, last);
        fn->keys(b->record, NULL, whole, &rule->seed, b->hash, BATCH_MAX);
        if (whole < b->n)
            fn->keys(&b->record[last], &(size_t){bare_record(b, last).len}, 1, &rule->seed,
                     b->hash + last, BATCH_MAX);
    } else {
        make_keys(b);
        fn->keys(b->key, b->key_len, b->n, &rule->seed, b->hash, BATCH_MAX);
    }
    if (rule->bytes)
        take_key_bytes(b);
    return b->n > 0;
}

bool batch_next(struct batch *b)
{
    b->n_before += b->n;
    if (b->bad_record) {
        b->n = 0;
        return false;
    }
    if (b->rule->csv != NULL) {
        b->record[0] = b->record[b->n];
        b->n = b->n_found = csv_cut(b->cutter, b->record, BATCH_MAX);
    } else {
        cut_records(b);
    }
    if (b->n == 0 && b->rule->csv != NULL) {
        uint64_t line;
        b->bad_record = csv_broken(b->cutter, &line, &b->bad_reason);
        b->newlines = b->bad_record ? line - b->n_before : csv_newlines(b->cutter);
    }
    bool more = b->n > 0 && hash_batch(b);
    if (more && b->sample != NULL)
        profile_sample_take(b->sample, b);
    return more;
}

size_t batch_keep_good(struct batch *b)
{
    if (bits_count(b->bad, BATCH_MAX) == 0)
        return b->n;
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++) {
        if (bit_of(b->bad, i))
            continue;
        for (unsigned l = 0; l < key_rule_hash(b->rule)->lanes; l++)
            b->hash[l * BATCH_MAX + n] = b->hash[l * BATCH_MAX + i];
        b->bytes[n] = b->bytes[i];
        n++;
    }
    return n;
}
