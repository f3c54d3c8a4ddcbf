/*
 * The options that say where keys come from and how they are cut from records. feed.h reads them.
 *
 *     struct keyopt keyopt = KEYOPT_DEFAULT;
 *     while ((id = opt_next(&p)) > 0)
 *         switch (id) {
 *         case OPT_OWN: ...
 *         default: if (!keyopt_take(&keyopt, &p, id)) return EXIT_ERROR;
 *         }
 *     if (!keyopt_files(&keyopt, &command, argv + first, argc - first)) return EXIT_ERROR;
 *     if (!keyopt_adopt(&keyopt, &header, path, &err)) ...     // preparation as in the filter
 *     feed.keyopt = &keyopt;
 */
#ifndef CMD_KEYOPT_H
#define CMD_KEYOPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "keys/batch.h"
#include "store/format.h"
#include "store/secret.h"

struct keyopt {
    struct key_rule rule;
    unsigned threads;
    bool no_gzip, progress;
    bool delimits; /* -d was given */
    uint64_t header; /* records of each file that are no keys */
    const char **keys; /* -k, in order; NULL: none, or keyopt_give gave one */
    size_t n_keys, keys_capacity;
    char *given;         /* the same as records ... */
    const char **record; /* ... where they begin, and the last one ends */
    char *const *files;
    size_t n_files;
    const char *secret_path; /* --secret; NULL: not given */
    struct secret secret;    /* what is in that file or the environment's ... */
    bool secret_read;        /* ... when it has been read */
    bool any; /* -k or a key file was given */
    bool prints; /* records are printed as they come, so no key file may be standard output */
};

#define KEYOPT_DEFAULT {.rule = {.terminator = '\n', .delimiter = '\t'}}

/* Their long options' ids, for a command whose table has some of them in other words. */
enum {
    KEYOPT_SKIP_BAD = 300,
    KEYOPT_HEADER,
    KEYOPT_CRLF,
    KEYOPT_NO_GZIP,
    KEYOPT_TRIM,
    KEYOPT_PROGRESS,
    KEYOPT_DIGEST,
    KEYOPT_DIGESTED,
    KEYOPT_SECRET,
};

extern const struct opt keyopt_opts[];      /* input and cutting */
extern const struct opt keyopt_prep_opts[]; /* preparation: -x, -i, --trim, --digest */

/* Takes one of these options, which it must be. Reports a mistake itself. */
bool keyopt_take(struct keyopt *keyopt, struct opt_parser *p, int id);

/* Takes the operands behind FILTER, when all options are taken. Reports a mistake itself. */
bool keyopt_files(struct keyopt *keyopt, const struct command *command, char **files, int n);

/* Takes one key instead, as if it came with -k, but messages do not show it. It has room for one
 * byte more, and must stay until it was read. */
bool keyopt_give(struct keyopt *keyopt, char *key, size_t len, struct err *err);

/* Is it --secret or one of keyopt_prep_opts? The others say where keys are and how to read them. */
bool keyopt_is_of_filter(int id);

/* Can the first key file be read? Asked before a filter is made for its keys. */
bool keyopt_check_first(const struct keyopt *keyopt, struct err *err);

void keyopt_free(struct keyopt *keyopt);

/* Overwrites its secret and what was derived from that; keyopt_free does so, too. */
void keyopt_wipe(struct keyopt *keyopt);

/* For keys of no filter yet: reads the secret, if --secret is given. */
bool keyopt_new(struct keyopt *keyopt, struct err *err);

/* Takes over a filter's preparation, seed and secret; fails if other preparation was asked for, or
 * on the wrong secret or none. `path` names it in the message. */
bool keyopt_adopt(struct keyopt *keyopt, const struct header *header, const char *path,
                  struct err *err);

/* Can keys be made of these records? Not without libmd if they are to be digested, and --digested
 * needs a digest. keyopt_adopt sees to it; a command that adopts nothing asks itself. */
bool keyopt_check_digest(const struct keyopt *keyopt, struct err *err);

/* Hints at --crlf when lines of a list that is read beside the records end in CR. */
void keyopt_hint_crlf(const struct keyopt *keyopt, bool saw_cr, const char *path);

#endif
