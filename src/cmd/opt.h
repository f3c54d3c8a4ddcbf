/*
 * Options. Each command has one table; parsing (getopt_long), --help and the list for completions
 * are all made from it.
 *
 *     static const struct opt_group groups[] = {{"Keys", key_opts}, {"Output", own_opts}, {0}};
 *     struct opt_parser p;
 *     opt_begin(&p, &command, argc, argv);
 *     while ((id = opt_next(&p)) > 0)
 *         switch (id) { case OPT_CAPACITY: if (!opt_count(&p, &n)) return EXIT_ERROR; break; ... }
 *     if (id < 0) return p.status;        // --help was printed (0), or a mistake was reported (2)
 *     ... operands: argv + p.first ...
 */
#ifndef CMD_OPT_H
#define CMD_OPT_H

#include <stdbool.h>
#include <stdint.h>

struct opt {
    int id;           /* the short option's character, or above 255; > 0 */
    const char *name; /* long name */
    const char *arg;  /* NULL: takes none; else its name in help: "FILE", "N", ... */
    const char *help; /* filled to 80 columns; '\n' begins a new line */
    bool repeatable;  /* otherwise giving it twice, with an argument, is an error */
    int alias;        /* another short letter of the option with that id; 0: none */
};

struct opt_group {
    const char *title;
    const struct opt *opts; /* ends with id 0 */
};

struct command; /* cmd.h */

struct opt_parser {
    const struct command *command;
    int argc;
    char **argv;
    char *value;       /* argument of the option just returned */
    const char *name;  /* its name for messages: "--capacity" */
    int first;         /* first operand, once opt_next has returned 0 */
    int status;        /* exit status when opt_next has returned -1 */
    int n_operands;    /* private: found so far */
    uint64_t given;    /* private: options found so far, a bit each */
};

/* One parser at a time. Adds and handles the option -h, --help. */
void opt_begin(struct opt_parser *p, const struct command *command, int argc, char **argv);

/* The next option's id. 0: only operands are left (argv is then permuted). -1: exit with p->status.
 */
int opt_next(struct opt_parser *p);

/* The current option's value, strictly parsed (num.h). On an error prints a message and returns
 * false. */
bool opt_count(struct opt_parser *p, uint64_t *out);
bool opt_positive(const struct opt_parser *p, uint64_t value); /* is it more than 0? */
bool opt_bytes(struct opt_parser *p, uint64_t *out);
bool opt_fpr(struct opt_parser *p, double *out);
bool opt_ratio(struct opt_parser *p, double *out);
bool opt_int(struct opt_parser *p, int min, int max, int *out);
bool opt_threads(struct opt_parser *p, unsigned *out);

/* Prints the command's help to stdout. */
void opt_help(const struct command *command);

/* Reports a usage error on stderr, and where to find help. Returns 2. command NULL: the error is in
 * the call of the program itself. */
int opt_misuse(const struct command *command, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints each option, or letter, on a line for completion scripts. Tabs separate letter, name,
 * argument, "*" if repeatable, and the first line of its help: "-k<TAB>--key<TAB>KEY<TAB>*<TAB>this
 * key ...". */
void opt_list(const struct command *command);

#endif
