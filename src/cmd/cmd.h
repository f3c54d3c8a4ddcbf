/* SPDX-License-Identifier: MIT
 * The commands. Each is a file src/cmd/NAME.c with one `struct command`, listed in seen.c.
 */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include "cmd/opt.h"

struct command {
    const char *name;
    const char *synopsis; /* after "seen NAME ": "[OPTION]... FILTER [KEYFILE]..." */
    const char *summary;  /* a line for the list in `seen --help` */
    const char *examples; /* three lines of --help, each with its newline: a command and its effect,
                             which tests run */
    const char *details;  /* paragraphs between usage and options in --help */
    const struct opt_group *groups; /* ends with title NULL */
    const char *everyday; /* " NAME NAME ... ": the options that help shows first; NULL: all */
    const struct opt_hint *hints; /* ends with option NULL; may be NULL */
    const char *operand; /* what messages call operands; `least` to `most` of them are given */
    int least, most;     /* most 0: any number */
    const char *output;  /* -o must be given, and messages call its value so; NULL: it need not */
    int (*run)(struct opt_parser *p); /* calls opt_parse, and returns the exit status */
};

extern const struct command cmd_create, cmd_add, cmd_remove, cmd_query, cmd_dedup, cmd_stats,
    cmd_rotate, cmd_shrink, cmd_merge, cmd_verify, cmd_plan, cmd_compare, cmd_import, cmd_export;

/* All of them, in the order of the help; NULL at the end. */
extern const struct command *const commands[];

#endif
