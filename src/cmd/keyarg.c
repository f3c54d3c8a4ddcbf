#include "cmd/keyarg.h"

#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/say.h"
#include "store/filter.h"
#include "store/store.h"

enum { OPT_SKIP_BAD = 300, OPT_CRLF, OPT_NO_GZIP, OPT_TRIM, OPT_PROGRESS };

const struct opt keyarg_opts[] = {
    {'k', "key", "KEY",
     "take this key instead of reading key files (repeatable); other users can "
     "see command lines, so give secret keys on standard input",
     true, 0},
    {'0', "null", NULL, "records end with a NUL byte instead of a newline, on output too", false,
     0},
    {'z', NULL, NULL, NULL, false, '0'},
    {'d', "delimiter", "C", "fields end with this one byte (default: TAB)", false, 0},
    {'f', "field", "N", "the key is field N of the record, the first is 1, the last is -1", false,
     0},
    {OPT_CRLF, "crlf", NULL, "drop one CR before each newline", false, 0},
    {OPT_SKIP_BAD, "skip-bad", NULL,
     "skip and count records that lack the field or are not hexadecimal", false, 0},
    {OPT_NO_GZIP, "no-gzip", NULL, "do not decompress gzip input; read it as keys", false, 0},
    {'j', "threads", "N", "use N threads (default: the CPUs this process may use)", false, 0},
    {OPT_PROGRESS, "progress", NULL, "show progress even if stderr is not a terminal", false, 0},
    {0},
};

const struct opt keyarg_prep_opts[] = {
    {OPT_TRIM, "trim", NULL, "drop blanks and tabs around the key", false, 0},
    {'i', "ignore-case", NULL, "fold ASCII letters to lower case", false, 0},
    {'x', "hex", NULL, "decode the key from hexadecimal digits", false, 0},
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

static void warn(const char *name, bool slot_damaged, bool is_dirty)
{
    if (slot_damaged)
        say_warning("'%s': one of its two headers is damaged; 'seen verify' says more", name);
    if (is_dirty)
        say_warning("'%s': a process died while it added keys; the last of them may be missing, "
                    "and 'seen verify --repair' makes the file clean", name);
}

void keyarg_warn(const struct store *s)
{
    struct facts facts;
    store_describe(s, &facts);
    warn(s->name, facts.slot_damaged, facts.is_dirty);
}

void keyarg_warn_file(const struct filter *f)
{
    warn(f->path, f->slot_damaged, filter_health(f) == FILTER_DIRTY);
}

void keyarg_hint_crlf(const struct keyarg *ka, bool saw_cr, const char *path)
{
    if (saw_cr && !ka->rule.crlf)
        say_note("lines of '%s' end in CR, which is taken as part of the key; --crlf drops it",
                 path);
}
