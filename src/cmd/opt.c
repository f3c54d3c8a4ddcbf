/* SPDX-License-Identifier: MIT */
#include "cmd/opt.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/disk.h"
#include "base/num.h"
#include "base/parallel.h"
#include "base/say.h"
#include "base/typing.h"
#include "base/visible.h"
#include "cmd/cmd.h"
#include "cmd/keyopt.h"
#include "keys/digest.h"
#include "file/chain.h"
#include "file/filter.h"
#include "store/store.h"

enum {
    MAX_OPTIONS = 64, /* of a command: a bit each in opt_parser.given */
    OPT_HELP = 'h',
    HELP_WIDTH = 80,
    HELP_COLUMN = 28, /* explanations begin at this column at most */
};

static const struct opt help_option = {OPT_HELP, "help", NULL, "show this help", OWN};

/* The running command's options in one array. */
static struct {
    const struct opt *opts[MAX_OPTIONS];
    const struct opt_group *group[MAX_OPTIONS];
    int n;
} table;

static void table_add(const struct opt *opt, const struct opt_group *group)
{
    assert(table.n < MAX_OPTIONS);
    table.group[table.n] = group;
    table.opts[table.n++] = opt;
}

static void collect_opts(const struct command *command)
{
    table.n = 0;
    for (const struct opt_group *g = command->groups; g->title != NULL; g++)
        for (const struct opt *o = g->opts; o->name != NULL; o++)
            table_add(o, g);
    table_add(&help_option, NULL);
}

static bool has_name(const char *name, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(word, name, len) == 0;
}

static const struct opt *find_long(const char *name, size_t len)
{
    for (int i = 0; i < table.n; i++)
        if (has_name(name, len, table.opts[i]->name))
            return table.opts[i];
    return NULL;
}

static const struct opt *find_letter(char letter)
{
    for (int i = 0; i < table.n; i++)
        if (table.opts[i]->id == letter)
            return table.opts[i];
    return NULL;
}

/* The option with this long name, or the only one with a name that begins so; NULL: there is none,
 * or there are several. */
static const struct opt *find_given(const char *name, size_t len)
{
    const struct opt *exact = find_long(name, len), *found = NULL;
    int n = 0;
    for (int i = 0; i < table.n; i++) {
        if (strncmp(table.opts[i]->name, name, len) == 0) {
            found = table.opts[i];
            n++;
        }
    }
    return exact != NULL ? exact : n == 1 ? found : NULL;
}

static bool has_letter(const struct opt *opt)
{
    return opt->id > 0 && opt->id <= 255;
}

/* The name of an option in messages. One buffer: a message names one option. */
static const char *name_of(const struct opt *opt)
{
    static char name[64];
    snprintf(name, sizeof name, "--%s", opt->name);
    return name;
}

/* Long options of other programs, and those of the same meaning here. */
static const char *const other_names[][2] = {
    {"absent", "invert-match"},
    {"column", "field"},
    {"count", "capacity"},
    {"counting", "counted"},
    {"diff", "except"},
    {"elements", "capacity"},
    {"entries", "capacity"},
    {"error", "fpr"},
    {"error-rate", "fpr"},
    {"expected", "capacity"},
    {"fix", "repair"},
    {"format", "json"},
    {"ignore-absent", "skip-absent"},
    {"ignore-missing", "skip-absent"},
    {"immutable", "compact"},
    {"false-positive-rate", "fpr"},
    {"items", "capacity"},
    {"jobs", "threads"},
    {"key-field", "field"},
    {"memory", "size"},
    {"missing", "invert-match"},
    {"not", "invert-match"},
    {"number", "capacity"},
    {"overwrite", "force"},
    {"parallel", "threads"},
    {"password", "secret"},
    {"probability", "fpr"},
    {"rate", "fpr"},
    {"read-only", "compact"},
    {"regexp", "key"},
    {"replace", "force"},
    {"separator", "delimiter"},
    {"zero-terminated", "null"},
};

/* The option that was meant by an unknown name: the name of a similar option elsewhere, or its name
 * with something after it. NULL: none. */
static const char *meant_by(const char *given, size_t len)
{
    const struct opt *opt = NULL;
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (has_name(given, len, other_names[i][0]))
            opt = find_long(other_names[i][1], strlen(other_names[i][1]));
    for (size_t shorter = len; opt == NULL && shorter > 2; shorter--)
        opt = find_long(given, shorter);
    return opt != NULL ? opt->name : NULL;
}

#define FORGETS "a filter made with --forget-after 30d forgets keys after that time"

#define SIZES   "--capacity and --fpr give the size; the numbers of bits and hashes follow"
#define DIGESTS "--digest takes the digests of keys: " DIGEST_NAMES

/* For all commands; a row of the command's own comes first. */
static const struct opt_hint common_hints[] = {
    {"-e", "-k KEY gives one key"},
    {"-F", "-d gives the delimiter of the fields of -f"},
    {"-m", SIZES},
    {"-o", "what is printed goes to standard output"},
    {"-q", "nothing is printed on success"},
    {"-t", "-d gives the delimiter of the fields of -f; TAB is the default"},
    {"-v", "nothing is printed on success"},
    {"--append", "'seen add' adds keys to a filter"},
    {"--bits", SIZES},
    {"--color", "nothing is coloured"},
    {"--compact", "'seen create --compact' makes such a filter from all its keys"},
    {"--days", FORGETS},
    {"--digested", "--input-digests says that input lines are digests already"},
    {"--exact", "'seen create --counted --fpr 0' keeps whole hashes"},
    {"--expire", FORGETS},
    {"--files0-from", "xargs -0 -r -n 1 sh -c 'awk 1 <\"$0\"' <NAMES | seen ... reads the files"},
    {"--force", "nothing is replaced"},
    {"--fpr", "'seen stats' prints the rate of a filter"},
    {"--gzip", "gzip input is recognised by its content"},
    {"--hash", DIGESTS},
    {"--hashes", SIZES},
    {"--layout", "the filter has its layout; 'seen create --layout' makes one of another"},
    {"--max-age", FORGETS},
    {"--md5", DIGESTS},
    {"--mutable", "keys can be added later unless --compact was given"},
    {"--quiet", "nothing is printed on success"},
    {"--remove", "'seen remove' takes keys out of a counted set"},
    {"--seed", "hashes are chosen by --secret alone"},
    {"--sha1", DIGESTS},
    {"--sha256", DIGESTS},
    {"--sorted", "keys may come in any order"},
    {"--tsv", "-f chooses fields; TAB is their delimiter by default"},
    {"--top", "'The ten most frequent keys' in seen(7) shows how they are found"},
    {"--ttl", FORGETS},
    {"--unique", "a filter has each key once"},
    {"--verbose", "nothing is printed on success"},
    {"--window", FORGETS},
    {0},
};

static const char *find_hint(const struct opt_hint *h, const char *option, size_t len)
{
    for (; h != NULL && h->option != NULL; h++)
        if (has_name(option, len, h->option))
            return h->text;
    return NULL;
}

static const char *hint_for(const struct command *command, const char *option, size_t len)
{
    const char *own = find_hint(command->hints, option, len);
    return own != NULL ? own : find_hint(common_hints, option, len);
}

/* Reports `given`, a word that begins with "--". Either no option begins with it, or several do. */
static int unknown_long(const struct command *command, const char *given)
{
    size_t len = strcspn(given, "=");
    char candidates[512];
    size_t n = 0;
    int matches = 0;
    struct typing typing = typing_begin(given + 2, len - 2);
    for (int i = 0; i < table.n; i++) {
        const char *name = table.opts[i]->name;
        typing_offer(&typing, name);
        if (len == 2 || strncmp(name, given + 2, len - 2) != 0)
            continue;
        int wrote =
            snprintf(candidates + n, sizeof candidates - n, "%s--%s", matches ? ", " : "", name);
        if (wrote > 0 && (size_t)wrote < sizeof candidates - n)
            n += (size_t)wrote;
        matches++;
    }
    if (matches > 1)
        return opt_misuse(command, "option '%.*s' is ambiguous: %s", (int)len, given, candidates);
    const char *hint = hint_for(command, given, len), *nearest = typing.nearest;
    if (hint != NULL)
        return opt_misuse(command, "unknown option '%.*s': %s", (int)len, given, hint);
    if (nearest == NULL && len > 2)
        nearest = meant_by(given + 2, len - 2);
    if (nearest != NULL)
        return opt_misuse(command, "unknown option '%.*s'; did you mean '--%s'?", (int)len, given,
                          nearest);
    return opt_misuse(command, "unknown option '%.*s'", (int)len, given);
}

static int unknown_letter(const struct command *command, char letter)
{
    const char option[] = {'-', letter, '\0'};
    const char *hint = hint_for(command, option, 2);
    const struct opt *opt = find_given(&letter, 1); /* the only long option that begins so */
    if (hint == NULL && opt != NULL && !has_letter(opt))
        return opt_misuse(command, "unknown option '%s'; did you mean '--%s'?", option, opt->name);
    return opt_misuse(command, "unknown option '%s'%s%s", option, hint != NULL ? ": " : "",
                      hint != NULL ? hint : "");
}

/* The option's place in the table. */
static int index_of(const struct opt *opt)
{
    int i = 0;
    while (table.opts[i] != opt)
        i++;
    return i;
}

static bool bad_value(const struct opt_parser *p, const char *what)
{
    return opt_refuse(p->command, "option '%s': '%s' is not %s", p->name, p->value, what);
}

static bool opt_count(struct opt_parser *p, uint64_t *out)
{
    return num_count(p->value, out) || bad_value(p, "a count (such as 1000, 250k, 1M or 1e9)");
}

static bool opt_positive(const struct opt_parser *p, uint64_t value)
{
    return value > 0 || opt_refuse(p->command, "option '%s' must be more than 0", p->name);
}

bool opt_fpr(struct opt_parser *p, double *out)
{
    return num_fpr(p->value, out) || bad_value(p, "a probability between 0 and 1");
}

static bool opt_whole(struct opt_parser *p, int most, unsigned *out)
{
    char what[96];
    long v;
    /* "-j FILE": the option of other programs that print JSON. */
    bool is_json =
        strcmp(p->name, "--threads") == 0 && access(p->value, F_OK) == 0 && find_long("json", 4);
    snprintf(what, sizeof what, "a whole number from 1 to %d%s", most,
             is_json ? "; did you mean '--json'?" : "");
    if (!num_int(p->value, 1, most, &v))
        return bad_value(p, what);
    *out = (unsigned)v;
    return true;
}

static bool opt_generations(struct opt_parser *p, unsigned *out)
{
    size_t digits = strspn(p->value, "0123456789");
    if (digits > 0 && digits + 1 == strlen(p->value))
        return bad_value(p,
                         "a number: a generation lasts until 'seen rotate' is run; --forget-after "
                         "keeps keys for a time");
    return opt_whole(p, CHAIN_GENERATIONS, out);
}

/* A hundred years. */
static const uint64_t MOST_AGE = 36500ULL * 24 * 3600;

static bool opt_age(struct opt_parser *p, uint64_t *period)
{
    uint64_t seconds;
    if (!num_age(p->value, &seconds) || seconds < CHAIN_PERIODS || seconds > MOST_AGE)
        return bad_value(p, "a time from 10s to 36500d (such as 90m, 12h, 30d or 4w)");
    *period = (seconds + CHAIN_PERIODS - 1) / CHAIN_PERIODS;
    return true;
}

static void *variable_of(const struct opt *o, const struct opt_group *group, void *into)
{
    return (char *)into + group->at + o->at;
}

static bool take_opt(struct opt_parser *p, const struct opt *o, const struct opt_group *group,
                     void *into)
{
    void *to = variable_of(o, group, into);
    switch (o->type) {
    case TAKE_ITSELF:
        return group->take(to, p, o->id);
    case TAKE_NOTHING:
        break;
    case TAKE_FLAG:
        return *(bool *)to = true;
    case TAKE_TEXT:
        assert(p->value != NULL);
        *(const char **)to = p->value;
        return p->value[0] != '\0' || opt_refuse(p->command, "option '%s' is empty", p->name);
    case TAKE_COUNT:
        return opt_count(p, to);
    case TAKE_AMOUNT:
        return opt_count(p, to) && opt_positive(p, *(uint64_t *)to);
    case TAKE_BYTES:
        return (num_bytes(p->value, to) ||
                bad_value(p, "a size (such as 4096, 512K, 64M or 1.5G)")) &&
               opt_positive(p, *(uint64_t *)to);
    case TAKE_FPR:
        return opt_fpr(p, to);
    case TAKE_RATIO:
        return num_ratio(p->value, to) || bad_value(p, "a ratio (such as 0.9, 90% or 9/10)");
    case TAKE_SECONDS:
        return num_seconds(p->value, to) || bad_value(p, "seconds from 0.001 to 1000000");
    case TAKE_FEW:
    case TAKE_THREADS:
        return opt_whole(p, 1024, to);
    case TAKE_GENERATIONS:
        return opt_generations(p, to);
    case TAKE_AGE:
        return opt_age(p, to);
    case TAKE_CHOICE:
        if (*(unsigned *)to < o->bit)
            *(unsigned *)to = o->bit;
        return true;
    case TAKE_BIT:
        *(uint32_t *)to |= o->bit;
    }
    return true;
}

/* Takes an option; `value` is NULL unless it was given in the same word. p->status is 0 after
 * --help only. */
static bool take_given(struct opt_parser *p, const struct opt *opt, char *value, void *into)
{
    int i = index_of(opt);
    uint64_t bit = (uint64_t)1 << i;
    p->name = name_of(opt);
    if (opt->arg == NULL && value != NULL)
        return opt_refuse(p->command, "option '%s' takes no argument", p->name);
    if (opt->arg != NULL && value == NULL && p->next == p->argc)
        return opt_refuse(p->command, "option '%s' needs an argument", p->name);
    p->value = opt->arg != NULL && value == NULL ? p->argv[p->next++] : value;
    if (opt == &help_option) {
        bool all = false;
        for (int arg = 1; arg < p->argc; arg++)
            all |= strcmp(p->argv[arg], "--all") == 0;
        opt_help(p->command, all);
        p->status = 0;
        return false;
    }
    if ((p->given & bit) != 0 && !opt->repeatable && opt->arg != NULL)
        return opt_refuse(p->command, "option '%s' is given twice", p->name);
    p->given |= bit;
    if (opt->id == 'o')
        p->out = p->value;
    p->address |= opt->arg != NULL && opt->id != 'k' && !store_is_file(p->value);
    return take_opt(p, opt, table.group[i], into);
}

/* "--name" or "--name=VALUE". */
static bool take_long(struct opt_parser *p, char *word, void *into)
{
    char *name = word + 2;
    size_t len = strcspn(name, "=");
    const struct opt *opt = find_given(name, len);
    /* A word that has a hint, such as --count, does not abbreviate another option (--counted). */
    bool is_other =
        opt != NULL && !has_letter(opt) && find_hint(p->command->hints, word, strlen(word)) != NULL;
    if (opt == NULL || is_other)
        return unknown_long(p->command, word) == 0;
    return take_given(p, opt, name[len] == '=' ? name + len + 1 : NULL, into);
}

/* "-n=VALUE" would give "=VALUE", which only a delimiter can be. */
static bool refuse_equals(const struct opt_parser *p, const struct opt *opt, const char *value)
{
    if (value == NULL || value[0] != '=' || (opt->id == 'd' && value[1] == '\0'))
        return true;
    return opt_refuse(p->command,
                      "'-%c=' would give a value with the '=': did you mean -%c %s, or --%s=%s?",
                      opt->id, opt->id, SHELL_WORD(value + 1), opt->name, SHELL_WORD(value));
}

/* "-abc", or "-nVALUE". */
static bool take_letters(struct opt_parser *p, char *word, void *into)
{
    size_t len = strcspn(word + 1, "=");
    if (len > 1 && find_long(word + 1, len) != NULL) /* a long option with one hyphen */
        return opt_refuse(p->command, "unknown option '%.*s'; did you mean '-%.*s'?", (int)len + 1,
                          word, (int)len + 1, word);
    for (char *at = word + 1; *at != '\0'; at++) {
        const struct opt *opt = find_letter(*at);
        if (opt == NULL)
            return unknown_letter(p->command, *at) == 0;
        char *value = opt->arg != NULL && at[1] != '\0' ? at + 1 : NULL;
        if (!refuse_equals(p, opt, value) || !take_given(p, opt, value, into))
            return false;
        if (value != NULL)
            break;
    }
    return true;
}

/* Or that cannot be found out. A filter of RedisBloom has its two files beside the name. */
static bool is_there(const char *name)
{
    return !disk_lacks(name) || strcmp(name, "-") == 0 || filter_in_files(name) != NULL;
}

/* The last operand, from number `first` on, that does not exist as a file; NULL: all exist. */
static const char *missing_operand(const struct opt_parser *p, int first)
{
    for (int i = p->n_operands; i-- > first;)
        if (store_is_file(p->operand[i]) && !is_there(p->operand[i]))
            return p->operand[i];
    return NULL;
}

static bool check_operands(const struct opt_parser *p)
{
    const struct command *c = p->command;
    bool lacks_out = find_letter('o') != NULL && p->out == NULL;
    bool too_many = c->most > 0 && p->n_operands > c->most;
    const char *missing = missing_operand(p, 0);
    if (c->least > 1 && (p->n_operands < c->least || too_many))
        return opt_refuse(c, "two filters are needed: A and B");
    if (p->n_operands < c->least)
        return opt_refuse(c, "no %s given", c->operand);
    if (lacks_out && (too_many || c->output != NULL) && p->n_operands > 1 && missing != NULL)
        return opt_refuse(c, "no output file given; did you mean -o %s?", SHELL_FILE(missing));
    if (too_many)
        return opt_refuse(c, "more than one %s given%s", c->operand,
                          lacks_out ? "; the name of the output goes after -o" : "");
    if (lacks_out && c->output != NULL)
        return opt_refuse(c, "no output file given (-o %s)", c->output);
    if (p->out != NULL && missing != NULL && keyopt_is_filter(p->out) && c != &cmd_import)
        return opt_refuse(c, "did you mean %s -o %s? ('%s' is a filter, and there is no '%s')",
                          SHELL_FILE(p->out), SHELL_FILE(missing), p->out, missing);
    return true;
}

/* The words of opt.needs and opt.not_with that stand for operands. */
static const struct {
    const char *word, *shown;
} operand_words[] = {
    {"FILTER", "a FILTER"}, {"KEYFILE", "KEYFILE"}, {"URI", "an address in Redis"}};

/* How messages name a word of opt.needs or opt.not_with: "--key". */
static const char *show_word(const char *word, size_t len, char out[static 64])
{
    for (size_t i = 0; i < sizeof operand_words / sizeof *operand_words; i++)
        if (has_name(word, len, operand_words[i].word))
            return operand_words[i].shown;
    snprintf(out, 64, "--%.*s", (int)len, word);
    return out;
}

static bool word_given(const struct opt_parser *p, const char *word, size_t len)
{
    if (has_name(word, len, "FILTER"))
        return p->n_operands > 0;
    if (has_name(word, len, "KEYFILE")) /* --list stands for FILTER */
        return p->n_operands > (word_given(p, "list", 4) ? 0 : 1);
    if (has_name(word, len, "URI"))
        return p->address;
    const struct opt *opt = find_long(word, len);
    return opt != NULL && (p->given >> index_of(opt) & 1) != 0;
}

/* The first of these words that is given, and its length; NULL: none. */
static const char *first_given(const struct opt_parser *p, const char *words, size_t *len)
{
    for (const char *word = words; *word != '\0'; word += *len) {
        *len = strcspn(++word, " ");
        if (word_given(p, word, *len))
            return word;
    }
    return NULL;
}

static bool check_needs(const struct opt_parser *p, const struct opt *opt)
{
    char word[64], list[256];
    size_t len, n = 0;
    if (opt->needs == NULL || first_given(p, opt->needs, &len) != NULL)
        return true;
    for (const char *at = opt->needs; *at != '\0'; at += len) {
        len = strcspn(++at, " ");
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n > 0 ? " or " : "",
                              show_word(at, len, word));
    }
    if (opt->why != NULL)
        return opt_refuse(p->command, "%s %s: it needs %s", name_of(opt), opt->why, list);
    return opt_refuse(p->command, "%s needs %s", name_of(opt), list);
}

static bool check_not_with(const struct opt_parser *p, const struct opt *opt)
{
    char shown[64];
    size_t len;
    const char *word = opt->not_with != NULL ? first_given(p, opt->not_with, &len) : NULL;
    if (word == NULL)
        return true;
    const char *other = show_word(word, len, shown), *missing = missing_operand(p, 1);
    if (opt->id == 'k' && missing != NULL)
        return opt_refuse(p->command, "there is no file '%s'; each key has its own -k: -k %s",
                          missing, SHELL_WORD(missing));
    if (opt->why != NULL)
        return opt_refuse(p->command, "%s %s: not with %s", name_of(opt), opt->why, other);
    return opt_refuse(p->command, "%s and %s cannot go together", name_of(opt), other);
}

static bool check_given(const struct opt_parser *p)
{
    for (int i = 0; i < table.n; i++)
        if ((p->given >> i & 1) != 0 &&
            !(check_needs(p, table.opts[i]) && check_not_with(p, table.opts[i])))
            return false;
    return true;
}

/* Takes the words in order, and gathers operands at the front of argv. */
static bool take_words(struct opt_parser *p, void *into)
{
    bool only_operands = false;
    while (p->next < p->argc) {
        char *word = p->argv[p->next++];
        if (only_operands || word[0] != '-' || word[1] == '\0')
            p->operand[p->n_operands++] = word;
        else if (strcmp(word, "--") == 0)
            only_operands = true;
        else if (!(word[1] == '-' ? take_long : take_letters)(p, word, into))
            return false;
    }
    for (int i = 0; i < p->n_operands; i++)
        p->address |= !store_is_file(p->operand[i]);
    return true;
}

bool opt_parse(struct opt_parser *p, void *into)
{
    p->next = 1;
    p->operand = p->argv + 1;
    p->status = EXIT_ERROR;
    collect_opts(p->command);
    for (int i = 0; i < table.n; i++) {
        const struct opt *o = table.opts[i];
        const char *value = o->env != NULL ? getenv(o->env) : NULL;
        if (value != NULL && *value != '\0')
            take_opt(p, o, table.group[i], into);
        if (o->type == TAKE_THREADS)
            *(unsigned *)variable_of(o, table.group[i], into) = parallel_cpus();
    }
    return take_words(p, into) && check_operands(p) && check_given(p);
}

/* Prints text from column `at` on, filled into lines of HELP_WIDTH; further lines are indented to
 * `column`. */
static void put_filled(const char *text, size_t column, size_t at)
{
    while (*text != '\0') {
        size_t blanks = strspn(text, " "), word = strcspn(text + blanks, " ");
        if (at > column && at + blanks + word > HELP_WIDTH) {
            putchar('\n');
            at = 0;
            text += blanks;
            blanks = 0;
        }
        if (at < column) {
            printf("%*s", (int)(column - at), "");
            at = column;
        }
        printf("%.*s", (int)(blanks + word), text);
        at += blanks + word;
        text += blanks + word;
    }
    putchar('\n');
}

/* "  -k, --key KEY" */
static size_t compose_names(char *out, size_t size, const struct opt *opt)
{
    const char *blank = opt->arg != NULL ? " " : "", *arg = opt->arg != NULL ? opt->arg : "";
    int n = has_letter(opt) ? snprintf(out, size, "  -%c, --%s%s%s", opt->id, opt->name, blank, arg)
                            : snprintf(out, size, "      --%s%s%s", opt->name, blank, arg);
    return (size_t)n;
}

/* Room for a clause; a longer one is cut. */
enum { CLAUSE = 200 };

/* What an option does; unless `all`, up to ";". */
static void put_option(const struct opt *opt, bool all, size_t column)
{
    char clause[CLAUSE];
    char names[128];
    const char *end = strstr(opt->help, "; ");
    size_t n = compose_names(names, sizeof names, opt);
    fputs(names, stdout);
    if (n + 2 > column) {
        putchar('\n');
        n = 0;
    }
    snprintf(clause, CLAUSE, "%.*s", end != NULL ? (int)(end - opt->help) : CLAUSE, opt->help);
    put_filled(all ? opt->help : clause, column, n);
}

static void put_group(const struct command *command, const struct opt_group *g, bool all,
                      size_t column)
{
    bool begun = false;
    for (const struct opt *o = g->opts; o->name != NULL; o++) {
        char name[64];
        snprintf(name, sizeof name, " %s ", o->name);
        if (!all && strstr(command->everyday, name) == NULL)
            continue;
        if (!begun)
            printf("\n%s:\n", g->title);
        begun = true;
        put_option(o, all, column);
    }
}

void opt_help(const struct command *command, bool all)
{
    collect_opts(command);
    all |= command->everyday == NULL;
    printf("Usage: seen %s %s\n\n%c%s.\n\n%s", command->name, command->synopsis,
           toupper((unsigned char)command->summary[0]), command->summary + 1, command->examples);
    putchar('\n');
    put_filled(command->details, 0, 0);
    char names[128];
    size_t column = 0;
    for (int i = 0; i < table.n; i++) {
        size_t n = compose_names(names, sizeof names, table.opts[i]) + 2;
        if (n > column && n <= HELP_COLUMN)
            column = n;
    }
    for (const struct opt_group *g = command->groups; g->title != NULL; g++)
        put_group(command, g, all, column);
    putchar('\n');
    put_option(&help_option, all, column);
    if (!all)
        printf("\n'seen %s --help --all' lists the other options too.\n", command->name);
}

int opt_misuse(const struct command *command, const char *fmt, ...)
{
    char text[sizeof(struct err)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    say_error("%s", text);
    fprintf(stderr, "Try 'seen %s%s--help'.\n", command ? command->name : "", command ? " " : "");
    return EXIT_ERROR;
}

void opt_list(const struct command *command)
{
    collect_opts(command);
    for (int i = 0; i < table.n; i++) {
        const struct opt *o = table.opts[i];
        if (has_letter(o))
            printf("-%c", o->id);
        printf("\t--%s\t%s\t%s\t%s\n", o->name, o->arg ? o->arg : "", o->repeatable ? "*" : "",
               o->help);
    }
}
