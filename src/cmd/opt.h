/* SPDX-License-Identifier: MIT
 * Options. Each command has one table; parsing, --help and the list for completions are all made
 * from it. Most options name the member of the command's struct that takes the value.
 *
 *     static const struct opt opts[] = {
 *         {'n', "capacity", "N", "...", AMOUNT(struct it, n)},
 *         {0, "force", NULL, "...", FLAG(struct it, force)},
 *         {0}};
 *     static const struct opt_group groups[] = {
 *         {"Output", opts}, {"Keys", keyopt_opts, offsetof(struct it, keyopt), keyopt_take}, {0}};
 *
 *     static int run(struct opt_parser *p)
 *         struct it it = {0};
 *         if (!opt_parse(p, &it))
 *             return p->status;   // --help was printed (0), or a mistake was reported (2)
 *         ... p->operand[0] to p->operand[p->n_operands - 1] ...
 */
#ifndef CMD_OPT_H
#define CMD_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What takes the value: the group's function, or a variable of this type. */
enum opt_type {
    TAKE_ITSELF,
    TAKE_NOTHING,     /* none: the option asks for what is done anyway */
    TAKE_FLAG,        /* bool */
    TAKE_TEXT,        /* const char * */
    TAKE_COUNT,       /* uint64_t ... */
    TAKE_AMOUNT,      /* ... above 0 */
    TAKE_BYTES,       /* ... above 0 */
    TAKE_FPR,         /* double */
    TAKE_RATIO,       /* double */
    TAKE_SECONDS,     /* unsigned, in milliseconds */
    TAKE_FEW,         /* unsigned, from 1 to 1024 */
    TAKE_THREADS,     /* the same; parallel_cpus() if it is not given */
    TAKE_GENERATIONS, /* unsigned */
    TAKE_AGE,         /* uint64_t: of the time that a ring keeps keys, the period in seconds */
    TAKE_CHOICE,      /* an enum: of several options, the highest `bit` counts */
    TAKE_BIT,         /* sets `bit` in a uint32_t */
};

/* The offset of a member of that type; of another type, it does not compile. */
#define OPT_AT(type, s, member)                                                                    \
    (offsetof(s, member) + 0 * sizeof(char[_Generic(((s *)0)->member, type : 1)]))

/* The rest of a row, after the help text; .needs and so on may follow. */
#define OWN                          .type = TAKE_ITSELF
#define NOTHING                      .type = TAKE_NOTHING
#define REPEATED                     .repeatable = true
#define INTO(take, ctype, s, member) .type = (take), .at = OPT_AT(ctype, s, member)
#define FLAG(s, member)              INTO(TAKE_FLAG, bool, s, member)
#define TEXT(s, member)              INTO(TAKE_TEXT, const char *, s, member)
#define COUNT(s, member)             INTO(TAKE_COUNT, uint64_t, s, member)
#define AMOUNT(s, member)            INTO(TAKE_AMOUNT, uint64_t, s, member)
#define BYTES(s, member)             INTO(TAKE_BYTES, uint64_t, s, member)
#define FPR(s, member)               INTO(TAKE_FPR, double, s, member)
#define RATIO(s, member)             INTO(TAKE_RATIO, double, s, member)
#define SECONDS(s, member)           INTO(TAKE_SECONDS, unsigned, s, member)
#define FEW(s, member)               INTO(TAKE_FEW, unsigned, s, member)
#define GENERATIONS(s, member)       INTO(TAKE_GENERATIONS, unsigned, s, member)
#define AGE(s, member)               INTO(TAKE_AGE, uint64_t, s, member)
#define CHOICE(s, member, which)     INTO(TAKE_CHOICE, unsigned, s, member), .bit = (which)
#define BIT(s, member, which)        INTO(TAKE_BIT, uint32_t, s, member), .bit = (which)

/* A whole row, which most commands have. */
#define THREADS(s, member)                                                                         \
    {                                                                                              \
        'j', "threads", "N",                                                                       \
            "use N threads (default: one for each CPU that this process may use)",                 \
            INTO(TAKE_THREADS, unsigned, s, member)                                                \
    }

/* How files of other programs are read (struct borrow). */
#define BORROW(s, member)                                                                          \
    {                                                                                              \
        0, "layout", "SPEC",                                                                       \
            "how another program wrote a filter, if its content does not tell: "                   \
            "NAME[:PARAM=VALUE,...], see seen-layouts(7)",                                         \
            TEXT(s, member.layout), .not_with = " URI", .why = "is for files"                      \
    }

/* The members are in the order in which a row is read. */
struct opt {          // NOLINT(clang-analyzer-optin.performance.Padding)
    int id;           /* the short option's character; above 255: its own take function knows it */
    const char *name; /* long name */
    const char *arg;  /* NULL: takes none; else its name in help: "FILE", "N", ... */
    const char *help; /* filled to 80 columns; '\n' begins a new line */
    bool repeatable;  /* otherwise giving it twice, with an argument, is an error */
    enum opt_type type;
    size_t at; /* of the variable, in the struct of its group */
    uint32_t bit;
    const char *env; /* environment variable that sets a flag, unless it is empty; or NULL */
    /* Long names, as in " key field". An option that the command does not have is never given.
     * FILTER and KEYFILE stand for such operands, URI for an address of a filter. */
    const char *needs;    /* without one of these, the option can have no effect */
    const char *not_with; /* with one of these, it can have none, or contradicts it */
    const char *why;      /* what the option is for, for the message about either; or NULL */
};

struct opt_parser;

struct opt_group {
    const char *title;
    const struct opt *opts; /* ends with name NULL */
    size_t at;              /* where the group's struct is in the command's struct */
    bool (*take)(void *group, struct opt_parser *p, int id); /* for TAKE_ITSELF */
};

/* An option that other programs have, and what does the same here. */
struct opt_hint {
    const char *option; /* as it is given: "-e", "--regexp" */
    const char *text;
};

struct command; /* cmd.h */

/* Set the first three members before opt_parse. */
struct opt_parser {
    const struct command *command;
    int argc;
    char **argv;
    int next;         /* private: the next word */
    char *value;      /* argument of the option just found */
    const char *name; /* its name for messages: "--capacity" */
    int status;       /* exit status when opt_parse has returned false */
    char **operand;   /* after opt_parse */
    int n_operands;
    uint64_t given;  /* private: options found so far, a bit each */
    const char *out; /* private: the argument of -o */
    bool address;    /* an operand or an option's argument is the address of a filter */
};

/* One parser at a time. Adds and handles the option -h, --help. Checks the number of operands, and
 * what the rows of the options given need and exclude. */
bool opt_parse(struct opt_parser *p, void *into);

/* For a group's take function: the current option's value, strictly parsed (num.h). On an error
 * prints a message and returns false. */
bool opt_fpr(struct opt_parser *p, double *out);

/* Prints the command's help to stdout: the options of every day (command->everyday), or all. */
void opt_help(const struct command *command, bool all);

/* Reports a usage error on stderr, and where to find help. Returns 2. command NULL: the error is in
 * the call of the program itself. */
int opt_misuse(const struct command *command, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The same; false, for functions that return whether to go on. */
#define opt_refuse(command, ...) (opt_misuse(command, __VA_ARGS__) == 0)

/* Prints each option, or letter, on a line for completion scripts. Tabs separate letter, name,
 * argument, "*" if repeatable, and the first line of its help: "-k<TAB>--key<TAB>KEY<TAB>*<TAB>this
 * key ...". */
void opt_list(const struct command *command);

#endif
