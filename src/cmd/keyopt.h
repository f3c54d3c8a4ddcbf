/* SPDX-License-Identifier: MIT
 * Options for where keys come from and how they are cut from records. feed.h then reads the keys.
 *
 *     {"Keys", keyopt_opts, offsetof(struct it, keyopt), keyopt_take},   // a group of options
 *
 *     struct it it = {.keyopt = KEYOPT_DEFAULT};
 *     if (!opt_parse(p, &it)) ...
 *     if (!keyopt_files(&it.keyopt, p, 1)) return EXIT_ERROR;
 *     if (!keyopt_adopt(&it.keyopt, &header, path, &err)) ...   // preparation as in the filter
 *     feed.keyopt = &it.keyopt;
 */
#ifndef CMD_KEYOPT_H
#define CMD_KEYOPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "keys/rule.h"
#include "keys/input.h"
#include "keys/keyset.h"
#include "file/format.h"
#include "file/secret.h"

struct keyopt {
    const struct command *command;
    struct key_rule rule;
    unsigned threads;
    bool no_gzip, progress;
    const char *fields; /* -f; NULL: not given; 0 is the whole record */
    bool csv, jsonl, delimiter_given;
    struct csv as_csv;
    struct key_paths as_jsonl;
    uint64_t header;   /* records to skip at the start of each file */
    uint64_t memory;   /* limit in bytes; a record may have half of it */
    const char **keys; /* -k, in order; NULL: none */
    size_t n_keys;
    char *given; /* the same keys as records */
    size_t given_len;
    char *const *files;
    size_t n_files;
    const char *secret_path; /* --secret; NULL: not given */
    struct secret secret;    /* read from that file or the one in SEEN_SECRET ... */
    bool secret_read;        /* ... if this is set */
    const char *not_hex; /* follows the message that --hex cannot be added later; NULL: nothing */
    bool apart;          /* as in struct input_spec */
    bool prints; /* records are printed as they come, so no key file may be standard output */
};

#define KEYOPT_DEFAULT                                                                             \
    {                                                                                              \
        .rule = {.terminator = '\n', .delimiter = '\t'}, .memory = KEYSET_MEMORY                   \
    }

extern const struct opt keyopt_opts[];      /* input and cutting */
extern const struct opt keyopt_prep_opts[]; /* preparation: -x, -i, --trim, --digest */

/* Takes one of these options; false for any other. Reports a mistake itself. */
bool keyopt_take(void *keyopt, struct opt_parser *p, int id);

/* Takes the key files: the operands after the first `n_before`. Call it after opt_parse. Reports a
 * mistake itself. */
bool keyopt_files(struct keyopt *keyopt, const struct opt_parser *p, int n_before);

/* Is --memory at least `least`, and enough for a chunk of input? Call it after keyopt_files.
 * Reports a mistake itself. */
bool keyopt_check_memory(const struct keyopt *keyopt, uint64_t least);

/* Is it a field as the option -k of sort(1) has it: "2,2n"? */
bool keyopt_is_sort_key(const char *text);

/* How the key files are read. */
struct input_spec keyopt_input(const struct keyopt *keyopt);

/* Can the first key file be read? Call this before a filter is made for its keys. */
bool keyopt_check_first(const struct keyopt *keyopt, struct err *err);

/* Is this a file of seen, or one of lines? */
bool keyopt_is_filter(const char *path);
bool keyopt_is_list(const char *path);

/* Is this file, or "-", one of records rather than a filter: lines, gzip data, a pipe, or with -0
 * any data that is not known? Also an empty file, if `or_empty` is set. */
bool keyopt_is_records(const struct keyopt *keyopt, const char *path, bool or_empty);

/* Adds advice to the message about a FILTER that cannot be opened. If a key file is a filter, it
 * says that FILTER comes first, and returns true. */
bool keyopt_advise_order(const struct keyopt *keyopt, const char *path, struct err *err);

/* If that FILTER is a list of keys, names the command that makes a filter of it. */
void keyopt_advise_list(const char *path, struct err *err);

/* Gives the first advice that fits. */
void keyopt_advise(const struct keyopt *keyopt, const char *path, struct err *err);

/* Overwrites the secret, too, and what was derived from it. */
void keyopt_free(struct keyopt *keyopt);

/* The name of the secret's file, from --secret or SEEN_SECRET; NULL: none. */
const char *keyopt_secret(const struct keyopt *keyopt);

/* For a new filter: reads the secret, if there is one. */
bool keyopt_new(struct keyopt *keyopt, struct err *err);

/* Adopts a filter's key preparation, seed and secret. Fails if the options ask for other
 * preparation, or if the secret is wrong or missing. `path` names the filter in the message. */
bool keyopt_adopt(struct keyopt *keyopt, const struct header *header, const char *path,
                  struct err *err);

/* Can keys be made as the options say? Taking digests needs libmd; --input-digests needs a digest.
 * keyopt_adopt checks this. A command that adopts no filter must call it. */
bool keyopt_check_digest(const struct keyopt *keyopt, struct err *err);

#endif
