/* SPDX-License-Identifier: MIT
 * The program: finds the command and runs it, handles help and version, and makes sure that
 * standard output was written.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>
#include <zlib.h>

#include "base/say.h"
#include "base/typing.h"
#include "base/visible.h"
#include "cmd/cmd.h"
#include "cmd/keyopt.h"
#include "file/lock.h"
#include "keys/digest.h"
#include "keys/split.h"
#include "keys/xxh3.h"
#include "kind/kind.h"
#include "foreign/layout.h"
#include "file/secret.h"
#ifdef SEEN_HIREDIS
#include "redis/conn.h"
#include "redis/tls.h"
#endif

const struct command *const commands[] = {
    &cmd_create, &cmd_add,   &cmd_remove, &cmd_rotate,  &cmd_shrink,
    &cmd_query,  &cmd_dedup, &cmd_merge,  &cmd_compare, &cmd_stats,
    &cmd_verify, &cmd_plan,  &cmd_import, &cmd_export,  NULL,
};

/* The parts of that list, by the first command of each. */
static const struct {
    const struct command *first;
    const char *title;
} parts[] = {{&cmd_create, "Make and change"},
             {&cmd_query, "Ask"},
             {&cmd_merge, "Combine"},
             {&cmd_stats, "Look after"},
             {&cmd_import, "Other programs and servers"}};

/* If one of the descriptors 0 to 2 is closed, the next file opened gets its number, and messages or
 * output would go into a filter. Opens /dev/null there in the wrong direction, so that using the
 * descriptor still fails. */
static bool occupy_standard_fds(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
            continue;
        if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            return say_error("cannot open '/dev/null': %s", strerror(errno));
    }
    return true;
}

static const struct command *find_command(const char *name)
{
    for (const struct command *const *c = commands; *c != NULL; c++)
        if (strcmp((*c)->name, name) == 0)
            return *c;
    return NULL;
}

#define MEANS(command)  "is not a command; did you mean '" command "'?"
#define IS_NOW(command) "is now 'seen " command "'"
#define LISTS                                                                                      \
    "is not a command: a filter cannot list its keys; 'seen query' says which of the given "       \
    "keys it has, 'seen stats' how many it has"

/* Words that people type in place of a command: names in other programs, and in version 0.1. */
static const struct {
    const char *word, *answer;
} words[] = {
    {"ask", MEANS("query")},
    {"build", MEANS("create")},
    {"cat", LISTS},
    {"check", MEANS("verify")},
    {"clear", MEANS("create --force --empty")},
    {"compact", IS_NOW("shrink --fpr P IN -o OUT")},
    {"contains", MEANS("query")},
    {"convert", MEANS("import")},
    {"count", "is not a command: 'seen query -c' counts records that are there, 'seen query "
              "--show-counts' says how often each is, 'seen stats' how many keys there are"},
    {"del", MEANS("remove")},
    {"dedupe", MEANS("dedup")},
    {"deduplicate", MEANS("dedup")},
    {"delete", MEANS("remove")},
    {"diff", MEANS("compare")},
    {"dump", LISTS},
    {"estimate", MEANS("plan")},
    {"exists", MEANS("query")},
    {"expire", MEANS("rotate")},
    {"fill", MEANS("add")},
    {"filter", MEANS("query")},
    {"find", MEANS("query")},
    {"get", MEANS("query")},
    {"grep", MEANS("query")},
    {"has", MEANS("query")},
    {"info", MEANS("stats")},
    {"init", MEANS("create")},
    {"insert", MEANS("add")},
    {"intersect", MEANS("merge --intersect")},
    {"join", MEANS("merge")},
    {"keys", LISTS},
    {"list", LISTS},
    {"load", MEANS("import")},
    {"lookup", MEANS("query")},
    {"ls", LISTS},
    {"make", MEANS("create")},
    {"man", MEANS("help")},
    {"new", MEANS("create")},
    {"print", LISTS},
    {"pull", IS_NOW("import URI -o FILTER")},
    {"push", IS_NOW("export FILTER -o URI")},
    {"put", MEANS("add")},
    {"rebuild", MEANS("create --force")},
    {"repair", MEANS("verify --repair")},
    {"reset", MEANS("create --force --empty")},
    {"resize", MEANS("shrink")},
    {"rm", MEANS("remove")},
    {"save", MEANS("export")},
    {"search", MEANS("query")},
    {"show", MEANS("stats")},
    {"size", MEANS("stats")},
    {"sort", "is not a command: 'seen dedup' drops repeats, and keeps the order"},
    {"status", MEANS("stats")},
    {"subtract", IS_NOW("merge --subtract -o OUT A B...")},
    {"test", MEANS("query")},
    {"top", "is not a command: 'The ten most frequent keys' in seen(7) shows how they are found"},
    {"union", MEANS("merge")},
    {"uniq", MEANS("dedup")},
    {"unique", MEANS("dedup")},
    {"update", MEANS("add")},
    {"validate", MEANS("verify")},
    {"version", "is not a command; did you mean '--version'?"},
};

/* The only command that begins so; NULL: none, or several. */
static const char *begins_with(const char *name)
{
    const char *found = NULL;
    int n = 0;
    for (const struct command *const *c = commands; *c != NULL; c++)
        if (strncmp((*c)->name, name, strlen(name)) == 0) {
            found = (*c)->name;
            n++;
        }
    return n == 1 ? found : NULL;
}

static int unknown_command(const char *name)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(words[i].word, name) == 0)
            return opt_misuse(NULL, "'%s' %s", name, words[i].answer);
    struct typing t = typing_begin(name, strlen(name));
    for (const struct command *const *c = commands; *c != NULL; c++) {
        typing_offer(&t, (*c)->name);
        if (strcasecmp((*c)->name, name) == 0)
            t.nearest = (*c)->name;
    }
    if (t.nearest == NULL)
        t.nearest = begins_with(name);
    if (t.nearest != NULL)
        return opt_misuse(NULL, "'%s' " MEANS("%s"), name, t.nearest);
    if (keyopt_is_list(name))
        return opt_misuse(NULL,
                          "'%s' is a file, not a command; to print each of its lines once: seen "
                          "dedup <%s; to make "
                          "a filter of them: seen create FILTER %s",
                          name, SHELL_FILE(name), SHELL_FILE(name));
    if (keyopt_is_filter(name))
        return opt_misuse(NULL,
                          "'%s' is a filter, not a command, which comes first; to see what it "
                          "holds: seen stats %s",
                          name, SHELL_FILE(name));
    return opt_misuse(NULL, "'%s' is not a command", name);
}

static void print_help(FILE *out)
{
    fputs("Usage: seen COMMAND [OPTION]... [OPERAND]...\n"
          "\n"
          "Remembers lines (keys) in a filter file of about four bytes each. Asked about a\n"
          "key, it says \"no\" with certainty, or \"yes\" with a small, known probability of\n"
          "error.\n"
          "\n"
          "  seen dedup <log                           print each different line once\n"
          "  seen dedup --create links.seen links.txt  print those that no run had before\n",
          out);
    for (const struct command *const *c = commands; *c != NULL; c++) {
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            if (parts[i].first == *c)
                fprintf(out, "\n%s:\n", parts[i].title);
        fprintf(out, "  %-8s  %s\n", (*c)->name, (*c)->summary);
    }
    fputs("\n"
          "  seen help COMMAND  lists the options of a command, as does seen COMMAND --help\n"
          "  seen help PAGE     opens a manual page: keys, passwords, layouts, redis\n"
          "  seen --version     prints version and features\n"
          "\n"
          "Exit status: 0 success (query: some record was selected), 1 query selected none,\n"
          "2 error.\n",
          out);
}

static const char *hiredis_version(void)
{
#ifdef SEEN_HIREDIS
    return conn_hiredis_version();
#else
    return NULL;
#endif
}

/* NULL: not available. */
static const char *openssl_version(void)
{
#ifdef SEEN_HIREDIS
    return tls_version();
#else
    return NULL;
#endif
}

static void print_version(void)
{
    const char *hiredis = hiredis_version(), *sodium = secret_sodium_version();
    const char *openssl = openssl_version();
    printf("seen %s\n"
           "revision: %s\n"
           "license: MIT\n"
           "hash: XXH3, 64 bits (xxHash %d.%d.%d)\n"
           "gzip input: zlib %s\n"
           "Redis: %s%s\n"
           "TLS: %s\n"
           "digests: %s\n"
           "secrets: %s%s\n"
           "filters of other programs: %s\n"
           "splitting records: %s\n"
           "hashing: %s\n",
           SEEN_VERSION, SEEN_REVISION, XXH_VERSION_MAJOR, XXH_VERSION_MINOR, XXH_VERSION_RELEASE,
           zlibVersion(), hiredis != NULL ? "hiredis " : "not available (built without hiredis)",
           hiredis != NULL ? hiredis : "",
           openssl != NULL ? openssl : "not available (built without OpenSSL)",
           digest_missing() == NULL ? "libmd" : "not available (built without libmd)",
           sodium != NULL ? "libsodium " : "not available (built without libsodium)",
           sodium != NULL ? sodium : "",
           layout_number_of(0) != NULL ? "yes" : "not available (built without them)",
           variant_in_use(&split_variants)->name, variant_in_use(&xxh3_variants)->name);
    const struct kind *kind;
    for (unsigned i = 0; (kind = kind_number(i)) != NULL; i++)
        if (kind->variants != NULL)
            printf("%s filters: %s\n", kind->name, variant_in_use(kind->variants)->name);
}

static bool is_help(const char *word)
{
    return !strcmp(word, "--help") || !strcmp(word, "-h");
}

/* Prints one line (spec, tab, meaning) for each layout and for each parameter or choice of it. */
static void list_layouts(void)
{
    const struct kind *kind;
    for (unsigned i = 0; (kind = layout_number_of(i)) != NULL; i++) {
        printf("%s\t%s\n", kind->name, kind->layout->summary);
        for (const struct layout_param *p = kind->layout->params; p->name != NULL; p++) {
            if (p->choices == NULL)
                printf("%s:%s=\t%s\n", kind->name, p->name, p->help);
            for (const char *at = p->choices; at != NULL && *at != '\0';) {
                int len = (int)strcspn(at, "|");
                printf("%s:%s=%.*s\t%s\n", kind->name, p->name, len, at, p->help);
                at += len + (at[len] == '|');
            }
        }
    }
}

/* Opens the manual page of this name, if there is one: "keys" is seen-keys(7). False: there is
 * none.
 */
static bool show_page(const char *name)
{
    static const char *const pages[] = {"internals", "keys",        "layouts", "news",
                                        "passwords", "performance", "redis"};
    char page[32];
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        if (strcmp(name, pages[i]) != 0)
            continue;
        snprintf(page, sizeof page, "seen-%s", name);
        execlp("man", "man", "7", page, (char *)NULL);
        return !say_error("cannot run 'man 7 %s': %s", page, strerror(errno));
    }
    return false;
}

/* seen help [COMMAND [--all]], seen help PAGE; for completion scripts: seen help --commands, seen
 * help --layouts, seen help --options COMMAND. */
static int run_help(int argc, char **argv)
{
    bool options = argc > 1 && strcmp(argv[1], "--options") == 0;
    bool all = !options && argc == 3 && strcmp(argv[2], "--all") == 0;
    if (argc == 2 && strcmp(argv[1], "--commands") == 0) {
        for (const struct command *const *c = commands; *c != NULL; c++)
            printf("%s\t%s\t%s\n", (*c)->name, (*c)->synopsis, (*c)->summary);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--layouts") == 0) {
        list_layouts();
        return 0;
    }
    if (argc == 1 || (argc == 2 && (is_help(argv[1]) || !strcmp(argv[1], "help")))) {
        print_help(stdout);
        return 0;
    }
    if (argc != 2 + (options || all))
        return opt_misuse(NULL, "'seen help' takes the name of one command");
    const struct command *command = find_command(argv[1 + options]);
    if (command == NULL && argc == 2 && show_page(argv[1]))
        return EXIT_ERROR;
    if (command == NULL)
        return unknown_command(argv[1 + options]);
    if (options)
        opt_list(command);
    else
        opt_help(command, all);
    return 0;
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_ERROR;
    }
    const char *word = argv[1];
    if (is_help(word)) {
        print_help(stdout);
        return 0;
    }
    if (!strcmp(word, "--version") || !strcmp(word, "-V")) {
        print_version();
        return 0;
    }
    if (!strcmp(word, "help"))
        return run_help(argc - 1, argv + 1);
    for (int i = 2; word[0] == '-' && i < argc; i++)
        if (find_command(argv[i]) != NULL)
            return opt_misuse(NULL, "option '%s' goes after the command: seen %s %s ...", word,
                              argv[i], SHELL_WORD(word));
    struct typing t = typing_begin(word, strlen(word));
    typing_offer(&t, "--version");
    typing_offer(&t, "--help");
    if (strcmp(word, "-v") == 0)
        t.nearest = "--version";
    if (word[0] == '-' && t.nearest != NULL)
        return opt_misuse(NULL, "unknown option '%s'; did you mean '%s'?", word, t.nearest);
    if (word[0] == '-')
        return opt_misuse(NULL, "unknown option '%s': a command comes first", word);
    const struct command *command = find_command(word);
    if (command == NULL)
        return unknown_command(word);
    struct opt_parser p = {.command = command, .argc = argc - 1, .argv = argv + 1};
    return command->run(&p);
}

/* A writer may have been stopped in its turn. */
static void tell_of_wait(const char *name)
{
    say_note("waiting for another process, which is changing '%s'", name);
}

/* In KiB: frames take up to 240; the system puts up to 128 of arguments and environment there. */
enum { LEAST_STACK = 512 };

static bool has_stack(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= LEAST_STACK << 10)
        return true;
    say_error("a stack of %u KiB is too small: set 'ulimit -s' to %d",
              (unsigned)(limit.rlim_cur >> 10), LEAST_STACK);
    return false;
}

int main(int argc, char **argv)
{
    if (!occupy_standard_fds() || !has_stack())
        return EXIT_ERROR;
    lock_slow = tell_of_wait;
    signal(SIGXFSZ, SIG_IGN); /* exceeding a file size limit is an error from the system call */
    int status = run(argc, argv);
    return say_finish() ? status : EXIT_ERROR;
}
