#include "cmd/keyarg.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parallel.h"
#include "base/progress.h"
#include "base/say.h"
#include "store/filter.h"

enum { OPT_SKIP_BAD = 300, OPT_CRLF, OPT_NO_GZIP, OPT_TRIM, OPT_PROGRESS };

const struct opt keyarg_opts[] = {
    {'k', "key", "KEY",
     "take this key instead of reading key files (repeatable); other users can "
     "see command lines, so secrets belong on standard input",
     true, 0},
    {'0', "null", NULL, "records end with a NUL byte instead of a newline, on output too", false,
     0},
    {'z', NULL, NULL, NULL, false, '0'},
    {'d', "delimiter", "C", "fields end with this one byte (default: TAB)", false, 0},
    {'f', "field", "N", "the key is field N of the record, the first is 1, the last is -1", false,
     0},
    {OPT_CRLF, "crlf", NULL, "drop one CR before each newline", false, 0},
    {OPT_SKIP_BAD, "skip-bad", NULL,
     "count records that lack the field or are not hexadecimal, instead of failing", false, 0},
    {OPT_NO_GZIP, "no-gzip", NULL, "do not recognise gzip; the input is keys as it stands", false,
     0},
    {'j', "threads", "N", "use N threads (default: the CPUs this process may use)", false, 0},
    {OPT_PROGRESS, "progress", NULL, "show progress even if stderr is not a terminal", false, 0},
    {0},
};

const struct opt keyarg_prep_opts[] = {
    {OPT_TRIM, "trim", NULL, "drop blanks and tabs around the key", false, 0},
    {'i', "ignore-case", NULL, "fold ASCII letters to lower case", false, 0},
    {'x', "hex", NULL, "the key is the bytes that its hexadecimal digits spell", false, 0},
    {0},
};

static bool take_key(struct keyarg *ka, const char *key)
{
    if (ka->n_keys == ka->room_keys) {
        size_t room = ka->room_keys ? 2 * ka->room_keys : 16;
        const char **keys = realloc(ka->keys, room * sizeof *keys);
        if (keys == NULL) {
            say_error("out of memory");
            return false;
        }
        ka->keys = keys;
        ka->room_keys = room;
    }
    ka->keys[ka->n_keys++] = key;
    return true;
}

static bool take_delimiter(struct keyarg *ka, const struct opt_parser *p)
{
    if (strlen(p->value) != 1) {
        opt_misuse(p->command, "option '%s': '%s' is not a single byte", p->name, p->value);
        return false;
    }
    ka->rule.delimiter = p->value[0];
    return true;
}

static bool take_field(struct keyarg *ka, struct opt_parser *p)
{
    if (!opt_int(p, -1000000, 1000000, &ka->rule.field))
        return false;
    if (ka->rule.field != 0)
        return true;
    opt_misuse(p->command, "option '%s': fields are counted from 1, or from -1 backwards",
               p->name);
    return false;
}

bool keyarg_take(struct keyarg *ka, struct opt_parser *p, int id)
{
    switch (id) {
    case 'k':
        return take_key(ka, p->value);
    case '0':
        ka->rule.terminator = 0;
        return true;
    case 'd':
        return take_delimiter(ka, p);
    case 'f':
        return take_field(ka, p);
    case OPT_CRLF:
        return ka->rule.crlf = true;
    case OPT_SKIP_BAD:
        return ka->rule.skip_bad = true;
    case OPT_NO_GZIP:
        return ka->no_gzip = true;
    case 'j':
        return opt_threads(p, &ka->threads);
    case OPT_PROGRESS:
        return ka->progress = true;
    case OPT_TRIM:
        ka->rule.prep |= PREP_TRIM;
        return true;
    case 'i':
        ka->rule.prep |= PREP_FOLD;
        return true;
    case 'x':
        ka->rule.prep |= PREP_HEX;
        return true;
    default:
        return false;
    }
}

/* Makes records of the keys. */
static bool make_given(struct keyarg *ka)
{
    size_t bytes = 0;
    for (size_t i = 0; i < ka->n_keys; i++)
        bytes += strlen(ka->keys[i]) + 1;
    char *at = ka->given = malloc(bytes);
    ka->record = calloc(ka->n_keys + 1, sizeof *ka->record);
    if (at == NULL || ka->record == NULL) {
        say_error("out of memory");
        return false;
    }
    for (size_t i = 0; i < ka->n_keys; i++) {
        ka->record[i] = at;
        at = stpcpy(at, ka->keys[i]);
        *at++ = ka->rule.terminator;
    }
    ka->record[ka->n_keys] = at;
    return ka->rule.given = true;
}

bool keyarg_files(struct keyarg *ka, const struct command *command, char **files, int n)
{
    ka->files = files;
    ka->n_files = (size_t)n;
    ka->any = n > 0 || ka->n_keys > 0;
    if (ka->threads == 0)
        ka->threads = parallel_cpus();
    if (ka->n_keys > 0 && n > 0) {
        opt_misuse(command, "keys are given with --key and in '%s': only one of both", files[0]);
        return false;
    }
    return ka->n_keys == 0 || make_given(ka);
}

void keyarg_free(struct keyarg *ka)
{
    free(ka->keys);
    free(ka->given);
    free(ka->record);
}

bool keyarg_adopt(struct keyarg *ka, const struct header *header, const char *path,
                  struct err *err)
{
    static const struct {
        uint32_t bit;
        const char *option;
    } names[] = {{PREP_TRIM, "--trim"}, {PREP_FOLD, "--ignore-case"}, {PREP_HEX, "--hex"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((ka->rule.prep & ~header->prep & names[i].bit) != 0)
            return fail(err, "'%s' was made without %s, which cannot be added later", path,
                        names[i].option);
    ka->rule.prep = header->prep;
    ka->rule.hash = header->hash;
    ka->rule.seed = header->seed;
    return true;
}

static struct input *open_input(const struct keyarg *ka, const struct stat *filter, bool prompt,
                                bool keep, struct err *err)
{
    bool from_stdin = ka->n_files == 0;
    for (size_t i = 0; i < ka->n_files; i++)
        from_stdin |= strcmp(ka->files[i], "-") == 0;
    if (from_stdin && isatty(STDIN_FILENO))
        say_note("reading keys from the terminal, one a line; Ctrl-D ends them");
    struct input_spec spec = {.files = ka->files,
                              .n_files = ka->n_files,
                              .terminator = ka->rule.terminator,
                              .gzip = !ka->no_gzip,
                              .prompt = prompt,
                              .prints = ka->prints,
                              .keep = keep};
    if (filter != NULL) {
        spec.forbid_dev = filter->st_dev;
        spec.forbid_ino = filter->st_ino;
    }
    return input_open(&spec, err);
}

bool keyarg_pump(struct pump *pump, struct tally *t, const struct stat *filter, bool prompt)
{
    struct err err;
    struct input *input = open_input(t->ka, filter, prompt, pump->finish != NULL, &err);
    if (input == NULL)
        return say_failure(&err);
    t->input = input;
    pump->input = input;
    pump->threads = t->ka->threads;
    bool ok = pump_run(pump, &err);
    input_close(input);
    return ok || say_failure(&err);
}

bool keyarg_batch(const struct keyarg *ka, size_t *next, struct batch *b)
{
    if (b->bad_record)
        return false; /* those before it came first */
    size_t left = ka->n_keys - *next;
    bool any = batch_take(b, ka->record + *next, left < BATCH_MAX ? left : BATCH_MAX);
    *next += b->n;
    return any;
}

bool keyarg_batch_end(const struct keyarg *ka, size_t next, const struct batch *b)
{
    if (b->bad_record)
        say_error("--key '%s': %s", ka->keys[next], b->bad_reason.text);
    return !b->bad_record;
}

struct batch **keyarg_batches(const struct keyarg *ka)
{
    struct batch **batches = calloc(ka->threads, sizeof *batches);
    for (unsigned i = 0; batches != NULL && i < ka->threads; i++)
        if ((batches[i] = batch_new(&ka->rule)) == NULL) {
            keyarg_batches_free(ka, batches);
            batches = NULL;
        }
    if (batches == NULL)
        say_error("out of memory");
    return batches;
}

void keyarg_batches_free(const struct keyarg *ka, struct batch **batches)
{
    for (unsigned i = 0; batches != NULL && i < ka->threads; i++)
        batch_free(batches[i]);
    free(batches);
}

void keyarg_warn(const struct filter *f)
{
    if (f->slot_damaged)
        say_warning("'%s': one of its two headers is damaged; 'seen verify' says more", f->path);
    if (filter_health(f) == FILTER_DIRTY)
        say_warning("'%s': a process died while it added keys; the last of them may be missing, "
                    "and 'seen verify --repair' makes the file clean", f->path);
}

void keyarg_hint_crlf(const struct keyarg *ka, bool saw_cr, const char *path)
{
    if (saw_cr && !ka->rule.crlf)
        say_note("lines of '%s' end in CR, which is taken as part of the key; --crlf drops it",
                 path);
}

void tally_batch(struct chunk_tally *tally, const struct batch *b)
{
    tally->saw_cr |= b->saw_cr;
    tally->records += b->n;
    tally->bad += b->n_bad;
}

void tally_batches_end(struct chunk_tally *tally, const struct batch *b)
{
    tally->bad_record = b->bad_record;
    if (b->bad_record)
        tally->reason = b->bad_reason;
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

/* The compressor that made data which begins like this; NULL: none that is known. */
static const char *compressor(const char *data, size_t len)
{
    if (begins(data, len, "\xfd\x37\x7a\x58\x5a", 6)) /* and a NUL */
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
    if (name == NULL || t->warned || t->ka->no_gzip)
        return;
    t->warned = true;
    say_warning("'%s' looks like %s data, which is taken for keys as it stands: only gzip is "
                "inflated", input_name(t->input, chunk->file), name);
}

bool tally_end(struct tally *t, const struct chunk *chunk, const struct chunk_tally *of_chunk)
{
    if (t->in_file == 0)
        warn_of_compressed(t, chunk);
    t->records += of_chunk->records;
    t->in_file += of_chunk->records;
    t->bad += of_chunk->bad;
    t->bytes += chunk->len;
    if (of_chunk->saw_cr && !t->hinted) {
        t->hinted = true;
        say_note("records in '%s' end in CR, which is taken as part of the key; --crlf drops it",
                 input_name(t->input, chunk->file));
    }
    if (of_chunk->bad_record) {
        say_error("%s:%llu: %s", input_name(t->input, chunk->file),
                  (unsigned long long)t->in_file + 1, of_chunk->reason.text);
        return false;
    }
    uint64_t done, total;
    input_progress(t->input, &done, &total);
    progress_update(done, total, t->records);
    return true;
}

void tally_report(const struct tally *t)
{
    if (t->bad > 0)
        say_note("%llu of %llu records had no key and were left out", (unsigned long long)t->bad,
                 (unsigned long long)t->records);
}
