/* SPDX-License-Identifier: MIT */
#include "cmd/keyopt.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "port/port.h"
#include "base/disk.h"
#include "base/num.h"
#include "base/private.h"
#include "base/say.h"
#include "base/visible.h"
#include "keys/content.h"
#include "keys/digest.h"
#include "keys/gzip.h"

#define FOR_KEY_FILES .why = "is for records of key files"

const struct opt keyopt_opts[] = {
    {'k', "key", "KEY",
     "use this key and read no key files (repeatable); other users can see command lines, so give "
     "secret keys on standard input",
     REPEATED, .not_with = " KEYFILE", .why = "gives the keys, and -f chooses fields of records"},
    {'0', "null", NULL, "records end with NUL, not newline; on output too", OWN},
    {'z', "null-data", NULL, "the same as -0", OWN},
    {'d', "delimiter", "C", "field separator for -f, one byte; default: TAB, with --csv a comma",
     OWN, .needs = " field csv", .not_with = " whitespace jsonl", .why = "is for fields"},
    {'w', "whitespace", NULL, "fields for -f are separated by runs of blanks and tabs, as in awk",
     FLAG(struct keyopt, rule.whitespace), .needs = " field", .not_with = " csv jsonl",
     .why = "is for fields"},
    {'f', "field", "N[,N]...",
     "the key is field N, the first is 1, the last is -1; several are joined in this order, with "
     "the delimiter between them (a blank with -w); 2-4 is 2,3,4, and 3- is field 3 and all that "
     "follow; 0 is the whole record",
     OWN, .not_with = " key", FOR_KEY_FILES},
    {0, "csv", NULL,
     "records are CSV (RFC 4180): the first of each file names its columns, and -f takes names or "
     "numbers of them",
     FLAG(struct keyopt, csv), .not_with = " key null null-data crlf header comments jsonl",
     FOR_KEY_FILES},
    {0, "no-header", NULL, "with --csv: the first record is a record like others",
     FLAG(struct keyopt, as_csv.no_header), .needs = " csv"},
    {0, "jsonl", NULL,
     "records are lines of JSON: -f .id or .user.name takes a value (default: that of the line)",
     FLAG(struct keyopt, jsonl), .not_with = " key null null-data crlf header comments",
     FOR_KEY_FILES},
    {0, "header", "N",
     "skip the first N records of each file; query and dedup print those of the first file",
     COUNT(struct keyopt, header), .not_with = " key", FOR_KEY_FILES},
    {0, "comments", NULL, "skip records that begin with #", FLAG(struct keyopt, rule.comments),
     .not_with = " key", FOR_KEY_FILES},
    {0, "crlf", NULL, "remove one CR before each newline", FLAG(struct keyopt, rule.crlf)},
    {0, "input-digests", NULL,
     "input lines are digests already (hex); for a filter made with --digest",
     FLAG(struct keyopt, rule.digested)},
    {0, "skip-bad", NULL,
     "skip and count records whose field is missing or empty, or whose key is not valid",
     FLAG(struct keyopt, rule.skip_bad)},
    {0, "secret", "FILE",
     "use the secret in FILE, the one that FILTER was (or will be) made with; SEEN_SECRET can name "
     "the file instead",
     TEXT(struct keyopt, secret_path)},
    {0, "no-gzip", NULL, "take input as it is, even if it looks compressed or binary",
     FLAG(struct keyopt, no_gzip), .not_with = " key", FOR_KEY_FILES},
    THREADS(struct keyopt, threads),
    {0, "memory", "BYTES",
     "limit working memory, apart from FILTER itself (default: 256M); a record can have half of it",
     BYTES(struct keyopt, memory)},
    {0, "progress", NULL, "show progress even if stderr is not a terminal",
     FLAG(struct keyopt, progress)},
    {0},
};

const struct opt keyopt_prep_opts[] = {
    {0, "trim", NULL, "remove blanks and tabs around the key",
     BIT(struct keyopt, rule.prep, PREP_TRIM)},
    {'i', "ignore-case", NULL, "fold ASCII letters to lower case",
     BIT(struct keyopt, rule.prep, PREP_FOLD), .not_with = " upper",
     .why = "folds letters to one case"},
    {0, "upper", NULL, "fold ASCII letters to capitals", BIT(struct keyopt, rule.prep, PREP_UPPER)},
    {'x', "hex", NULL, "decode the key from hexadecimal digits",
     BIT(struct keyopt, rule.prep, PREP_HEX)},
    {300, "digest", "DIGEST", "store each key's digest: " DIGEST_NAMES, OWN, .not_with = " hex",
     .why = "computes digests (--input-digests reads them)"},
    {0},
};

/* "2", "2n" or "2.1bn": two numbers of at most 20 digits and a few letters; what is longer is a
 * key. */
static bool is_sort_field(const char *text, size_t len)
{
    return len < 50 && isdigit((unsigned char)text[0]) &&
           strspn(text, ".0123456789bdfgiMhnRrV") >= len;
}

bool keyopt_is_sort_key(const char *text)
{
    size_t len = strcspn(text, ",");
    return is_sort_field(text, len) &&
           (text[len] == '\0' || is_sort_field(text + len + 1, strlen(text + len + 1)));
}

/* "-k2,2", without a blank, chooses fields for sort(1). */
static bool refuse_sort_key(const struct opt_parser *p)
{
    bool is_word = p->argv[p->next - 1] == p->value || p->argv[p->next - 1][1] == '-';
    if (is_word || p->command != &cmd_dedup || !keyopt_is_sort_key(p->value))
        return true;
    return opt_refuse(p->command,
                      "-k gives a key, -f chooses a field: did you mean -f %.*s? (the key: -k %s)",
                      (int)strspn(p->value, "0123456789"), p->value, p->value);
}

static bool take_key(struct keyopt *keyopt, const char *key)
{
    const char **keys = realloc(keyopt->keys, (keyopt->n_keys + 1) * sizeof *keys);
    if (keys == NULL)
        return say_error("out of memory");
    keyopt->keys = keys;
    keys[keyopt->n_keys++] = key;
    return true;
}

static bool take_delimiter(struct keyopt *keyopt, const struct opt_parser *p)
{
    const char *tab = strcmp(p->value, "\\t") == 0 ? "; $'\\t' is a TAB" : "";
    if (strlen(p->value) != 1)
        return opt_refuse(p->command, "option '%s': '%s' is not a single byte%s", p->name, p->value,
                          tab);
    keyopt->rule.delimiter = p->value[0];
    keyopt->delimiter_given = true;
    return true;
}

/* Appends field number `number` to the list, which has n fields. */
static bool take_field_number(struct keyopt *keyopt, const struct opt_parser *p, size_t n,
                              int number)
{
    int *field = keyopt->rule.field;
    for (size_t i = 0; i < n; i++)
        if (field[i] == number)
            return opt_refuse(p->command, "option '--field': field %d is named twice", number);
    if (number == 0)
        return opt_refuse(p->command,
                          "option '--field': fields are counted from 1, or from -1 backwards; 0, "
                          "the whole record, stands alone");
    if (n == KEY_FIELDS)
        return opt_refuse(p->command, "option '--field': more than %d fields", KEY_FIELDS);
    field[n] = number;
    return true;
}

/* Splits "N", "N-M" or "N-"; numbers of a range must be above 0. */
static bool parse_fields(const char *text, long *from, long *to, bool *rest)
{
    char low[16] = ""; /* long enough for all numbers in range, as is the item */
    const char *hyphen = *text != '\0' ? strchr(text + 1, '-') : NULL;
    *rest = hyphen != NULL && hyphen[1] == '\0';
    if (hyphen == NULL) {
        bool ok = num_int(text, -KEY_FIELD_MAX, KEY_FIELD_MAX, from);
        *to = *from;
        return ok;
    }
    memcpy(low, text, (size_t)(hyphen - text));
    bool ok = num_int(low, 1, KEY_FIELD_MAX, from);
    *to = *from;
    return ok && (*rest || num_int(hyphen + 1, *from, KEY_FIELD_MAX, to));
}

static bool bad_fields(const struct keyopt *keyopt, const struct opt_parser *p, const char *item,
                       int len)
{
    if (access(keyopt->fields, F_OK) == 0)
        return opt_refuse(p->command,
                          "option '--field' chooses fields of records by their numbers; '%s' is a "
                          "file, and key files are operands",
                          keyopt->fields);
    return opt_refuse(p->command,
                      "option '--field': '%.*s' is not a whole number from %d to %d, or a range of "
                      "fields, such as 1-3 or 3-; fields have no names",
                      len, item, -KEY_FIELD_MAX, KEY_FIELD_MAX);
}

/* After "N-" as the last item: is field N or one that follows it named before? */
static bool check_rest_fields(const struct keyopt *keyopt, const struct opt_parser *p, size_t n)
{
    const int *field = keyopt->rule.field;
    for (size_t i = 0; i + 1 < n; i++)
        if (field[i] > field[n - 1])
            return opt_refuse(p->command, "option '--field': field %d is named twice", field[i]);
    return true;
}

static bool take_field_numbers(struct keyopt *keyopt, const struct opt_parser *p)
{
    const char *at = keyopt->fields;
    if (strcmp(at, "0") == 0)
        return true;
    for (size_t n = 0;;) {
        char text[16] = "";
        long from = 0, to;
        size_t len = strcspn(at, ",");
        if (len < sizeof text)
            memcpy(text, at, len);
        if (!parse_fields(text, &from, &to, &keyopt->rule.rest))
            return bad_fields(keyopt, p, at, (int)len);
        for (; from <= to; from++)
            if (!take_field_number(keyopt, p, n++, (int)from))
                return false;
        if (at[len] == '\0')
            return !keyopt->rule.rest || check_rest_fields(keyopt, p, n);
        if (keyopt->rule.rest)
            return opt_refuse(p->command,
                              "option '--field': '%.*s' is all fields to the last, so nothing can "
                              "follow it",
                              (int)len, at);
        at += len + 1;
    }
}

static bool take_digest(struct keyopt *keyopt, const struct opt_parser *p)
{
    const struct digest *digest = digest_by_name(p->value);
    if (digest == NULL)
        return opt_refuse(p->command, "option '%s': '%s' is not " DIGEST_NAMES, p->name, p->value);
    keyopt->rule.prep |= digest->id << PREP_DIGEST_SHIFT;
    return true;
}

bool keyopt_take(void *group, struct opt_parser *p, int id)
{
    struct keyopt *keyopt = group;
    switch (id) {
    case 'k':
        return refuse_sort_key(p) && take_key(keyopt, p->value);
    case '0':
    case 'z':
        keyopt->rule.terminator = 0;
        return true;
    case 'd':
        return take_delimiter(keyopt, p);
    case 'f':
        keyopt->fields = p->value;
        return true;
    default:
        return take_digest(keyopt, p);
    }
}

static bool want_csv(struct keyopt *keyopt, const struct opt_parser *p)
{
    struct csv *csv = &keyopt->as_csv;
    struct err err;
    csv->delimiter = keyopt->delimiter_given ? keyopt->rule.delimiter : ',';
    if (strchr("\"\r\n", csv->delimiter) != NULL)
        return opt_refuse(p->command, "option '--delimiter': no quote and no line's end can "
                                      "separate fields of CSV");
    if (keyopt->fields != NULL && strcmp(keyopt->fields, "0") != 0 &&
        !csv_want(csv, keyopt->fields, &err))
        return opt_refuse(p->command, "option '--field': '%s': %s", keyopt->fields, err.text);
    for (unsigned i = 0; i < csv->n && csv->no_header; i++)
        if (csv->want[i].name != NULL)
            return opt_refuse(p->command,
                              "option '--field': with --no-header, columns have numbers only, not "
                              "the name '%.*s'",
                              (int)csv->want[i].len, csv->want[i].name);
    keyopt->rule.delimiter = csv->delimiter;
    keyopt->rule.csv = csv;
    keyopt->rule.wanted = keyopt->fields;
    keyopt->header = !csv->no_header;
    return true;
}

static bool want_jsonl(struct keyopt *keyopt, const struct opt_parser *p)
{
    struct key_paths *paths = &keyopt->as_jsonl;
    const char *at = keyopt->fields != NULL ? keyopt->fields : ".";
    struct err err;
    for (;; at++) {
        if (paths->n == KEY_FIELDS)
            return opt_refuse(p->command, "option '--field': more than %d paths", KEY_FIELDS);
        if (!jsonl_path(&paths->path[paths->n], &at, &err))
            return opt_refuse(p->command, "option '--field': %s", err.text);
        for (unsigned i = 0; i < paths->n; i++)
            if (jsonl_same(&paths->path[i], &paths->path[paths->n]))
                return opt_refuse(p->command, "option '--field': a path is named twice");
        paths->n++;
        if (*at == '\0')
            break;
    }
    keyopt->rule.paths = paths;
    keyopt->rule.wanted = keyopt->fields;
    return true;
}

/* Turns the keys given with -k into records. */
static bool make_given(struct keyopt *keyopt)
{
    const char end = keyopt->rule.terminator;
    for (size_t i = 0; i < keyopt->n_keys; i++) {
        if (end != 0 && strchr(keyopt->keys[i], end) != NULL)
            return say_error("--key '%s': a newline ends a key; with -0 a key can have one",
                             keyopt->keys[i]);
        keyopt->given_len += strlen(keyopt->keys[i]) + 1;
    }
    char *at = keyopt->given = malloc(keyopt->given_len);
    if (at == NULL)
        return say_error("out of memory");
    for (size_t i = 0; i < keyopt->n_keys; i++) {
        at = stpcpy(at, keyopt->keys[i]);
        *at++ = end;
    }
    keyopt->rule.given = true;
    return true;
}

bool keyopt_files(struct keyopt *keyopt, const struct opt_parser *p, int n_before)
{
    keyopt->command = p->command;
    keyopt->files = p->operand + n_before;
    keyopt->n_files = (size_t)(p->n_operands - n_before);
    bool ok = keyopt->csv              ? want_csv(keyopt, p)
              : keyopt->jsonl          ? want_jsonl(keyopt, p)
              : keyopt->fields != NULL ? take_field_numbers(keyopt, p)
                                       : true;
    return ok && (keyopt->n_keys == 0 || make_given(keyopt));
}

bool keyopt_check_memory(const struct keyopt *keyopt, uint64_t least)
{
    char text[NUM_TEXT];
    if (least < 2 * INPUT_CHUNK) /* half of it is for a record, which usual chunks can have */
        least = 2 * INPUT_CHUNK;
    return keyopt->memory >= least || opt_refuse(keyopt->command, "--memory must be at least %s",
                                                 num_show_least_bytes(text, least));
}

struct input_spec keyopt_input(const struct keyopt *keyopt)
{
    return (struct input_spec){
        .files = keyopt->files,
        .n_files = keyopt->n_files,
        .given = keyopt->given,
        .given_len = keyopt->given_len,
        .terminator = keyopt->rule.terminator,
        .gzip = !keyopt->no_gzip,
        .secret = keyopt->rule.secret,
        .header = keyopt->header,
        .csv = keyopt->rule.csv,
        .apart = keyopt->apart,
        .longest = keyopt->memory / 2 < SIZE_MAX ? (size_t)(keyopt->memory / 2) : SIZE_MAX,
        .prints = keyopt->prints};
}

bool keyopt_check_first(const struct keyopt *keyopt, struct err *err)
{
    const char *first = keyopt->n_files > 0 ? keyopt->files[0] : "-";
    return strcmp(first, "-") == 0 || access(first, R_OK) == 0 ||
           input_fail_open(first, keyopt->apart, err);
}

/* The first bytes of a regular file: 0 if it is none, or empty. */
static size_t read_start(const char *path, uint8_t *start, size_t len)
{
    struct stat st;
    size_t got = 0;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return 0;
    bool ok = disk_read(fd, start, len, 0, &got);
    close(fd);
    return ok ? got : 0;
}

bool keyopt_is_filter(const char *path)
{
    uint8_t start[8];
    size_t len = read_start(path, start, sizeof start);
    return len > 0 && format_is_filter(start, len);
}

/* Of records that end in `terminator`? */
static bool is_text(const uint8_t *start, size_t len, char terminator)
{
    struct err ignored;
    return len > 0 && (terminator != '\n' || memchr(start, 0, len) == NULL) &&
           content_check("", start, len, terminator, false, &ignored);
}

bool keyopt_is_list(const char *path)
{
    uint8_t start[CONTENT_HEAD];
    return is_text(start, read_start(path, start, sizeof start), '\n');
}

bool keyopt_is_records(const struct keyopt *keyopt, const char *path, bool or_empty)
{
    uint8_t start[CONTENT_HEAD];
    struct stat st;
    if (strcmp(path, "-") == 0)
        return true;
    if (stat(path, &st) != 0)
        return false;
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return S_ISFIFO(st.st_mode) || (S_ISREG(st.st_mode) && or_empty);
    size_t len = read_start(path, start, sizeof start);
    return is_text(start, len, keyopt->rule.terminator) ||
           (len > GZIP_MAGIC && gzip_like(start, len) && !keyopt->no_gzip);
}

bool keyopt_advise_order(const struct keyopt *keyopt, const char *path, struct err *err)
{
    uint8_t start[8];
    size_t len = read_start(path, start, sizeof start);
    if (!err->helps && access(path, F_OK) != 0 && keyopt->n_files == 1 &&
        keyopt_is_filter(keyopt->files[0]))
        fail_more(err, ", but '%s' is a filter; -k gives a key: seen %s %s -k %s", keyopt->files[0],
                  keyopt->command->name, SHELL_FILE(keyopt->files[0]), SHELL_WORD(path));
    if (len == 0 || format_is_filter(start, len))
        return false;
    for (size_t i = 0; i < keyopt->n_files; i++)
        if (keyopt_is_filter(keyopt->files[i]))
            return !fail(err, "'%s' is not a seen filter, but '%s' is: FILTER comes first", path,
                         keyopt->files[i]);
    return err->helps;
}

void keyopt_advise_list(const char *path, struct err *err)
{
    if (!err->helps && keyopt_is_list(path))
        fail_more(err, "; to make one of its lines: seen create FILTER %s", SHELL_FILE(path));
}

void keyopt_advise(const struct keyopt *keyopt, const char *path, struct err *err)
{
    if (!keyopt_advise_order(keyopt, path, err))
        keyopt_advise_list(path, err);
}

void keyopt_free(struct keyopt *keyopt)
{
    free(keyopt->keys);
    free(keyopt->given);
    secret_wipe(&keyopt->secret);
    port_wipe(&keyopt->rule.seed, sizeof keyopt->rule.seed);
}

const char *keyopt_secret(const struct keyopt *keyopt)
{
    const char *path = keyopt->secret_path != NULL ? keyopt->secret_path : getenv("SEEN_SECRET");
    return path != NULL && path[0] != '\0' ? path : NULL;
}

/* Reads the secret, but only once: the file may be a pipe. */
static bool read_secret(struct keyopt *keyopt, const char *path, struct err *err)
{
    bool others;
    if (keyopt->secret_read)
        return true;
    private_process();
    if (!secret_read(&keyopt->secret, path, &others, err))
        return false;
    if (others)
        say_warning("other users can read or change the secret in '%s'; 'chmod 600' prevents it",
                    path);
    keyopt->secret_read = true;
    return true;
}

bool keyopt_new(struct keyopt *keyopt, struct err *err)
{
    const char *path = keyopt_secret(keyopt);
    struct key_rule *rule = &keyopt->rule;
    bool is_layout = rule->hash != NULL; /* without secrets */
    if (path == NULL || (is_layout && keyopt->secret_path == NULL))
        return true;
    if (!read_secret(keyopt, path, err))
        return false;
    rule->hash = hash_keyed();
    secret_seed(&keyopt->secret, &rule->seed);
    secret_mark(&keyopt->secret, rule->hash, rule->seed.number, rule->prep, &rule->mark);
    return true;
}

static bool adopt_secret(struct keyopt *keyopt, const struct header *header, const char *path,
                         struct err *err)
{
    struct err why;
    if (!format_has_secret(header))
        return keyopt->secret_path == NULL ||
               fail(err, "'%s' was made without a secret, so --secret cannot be given for it",
                    path);
    const char *file = keyopt_secret(keyopt);
    if (file == NULL)
        return fail(err, "'%s' was made with a secret: --secret or SEEN_SECRET must name its file",
                    path);
    if (!read_secret(keyopt, file, err))
        return false;
    if (!secret_check(&keyopt->secret, header, path, &why))
        return fail(err, "'%s' %s", file, why.text);
    secret_seed(&keyopt->secret, &keyopt->rule.seed);
    return true;
}

static bool same_digest(uint32_t asked, uint32_t stored, const char *path, struct err *err)
{
    const struct digest *a = digest_by_id(prep_digest(asked));
    const struct digest *s = digest_by_id(prep_digest(stored));
    if (a == NULL || a == s)
        return true;
    if (s == NULL)
        return fail(err, "'%s' was made without --digest, which cannot be added later", path);
    return fail(err, "'%s' was made with --digest %s, not %s", path, s->name, a->name);
}

bool keyopt_check_digest(const struct keyopt *keyopt, struct err *err)
{
    const struct digest *digest = digest_by_id(prep_digest(keyopt->rule.prep));
    if (keyopt->rule.digested)
        return digest != NULL ||
               fail(err, "--input-digests is for filters made with 'seen create --digest'");
    return digest == NULL || digest_missing() == NULL ||
           fail(err, "cannot compute %s digests, only read them (--input-digests): %s",
                digest->name, digest_missing());
}

bool keyopt_adopt(struct keyopt *keyopt, const struct header *header, const char *path,
                  struct err *err)
{
    static const struct {
        uint32_t bit;
        const char *option;
    } names[] = {{PREP_TRIM, "--trim"},
                 {PREP_FOLD, "--ignore-case"},
                 {PREP_UPPER, "--upper"},
                 {PREP_HEX, "--hex"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((keyopt->rule.prep & ~header->prep & names[i].bit) != 0)
            return fail(err, "'%s' was made without %s, which cannot be added later%s", path,
                        names[i].option,
                        names[i].bit == PREP_HEX && keyopt->not_hex != NULL ? keyopt->not_hex : "");
    if (!same_digest(keyopt->rule.prep, header->prep, path, err))
        return false;
    keyopt->rule.prep = header->prep;
    keyopt->rule.key_len = format_key_len(header);
    keyopt->rule.hash = header->hash;
    keyopt->rule.seed.number = header->seed;
    keyopt->rule.mark = header->secret;
    keyopt->rule.profile = header->profile;
    return keyopt_check_digest(keyopt, err) && adopt_secret(keyopt, header, path, err);
}
