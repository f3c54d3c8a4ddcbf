/*
 * The options that say where keys come from and how they are cut from records. feed.h reads them.
 *
 *     struct keyarg ka = KEYARG_DEFAULT;
 *     while ((id = opt_next(&p)) > 0)
 *         switch (id) { case OPT_OWN: ...; break; default: if (!keyarg_take(&ka, &p, id)) return
 *         EXIT_ERROR; }
 *     if (!keyarg_files(&ka, &command, argv + first, argc - first)) return EXIT_ERROR;
 *     if (!keyarg_adopt(&ka, &filter.header, &err)) ...     // preparation as stored in the filter
 */
#ifndef CMD_KEYARG_H
#define CMD_KEYARG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "keys/batch.h"
#include "store/format.h"

struct keyarg {
    struct key_rule rule;
    unsigned threads;
    bool no_gzip, progress;
    const char **keys; /* -k, in order */
    size_t n_keys, room_keys;
    char *given;         /* the same as records ... */
    const char **record; /* ... where they begin, and the last one ends */
    char *const *files;
    size_t n_files;
    bool any; /* -k or a key file was given */
    bool prints; /* records are printed as they come, so no key file may be standard output */
};

#define KEYARG_DEFAULT {.rule = {.terminator = '\n', .delimiter = '\t'}}

extern const struct opt keyarg_opts[];      /* input and cutting */
extern const struct opt keyarg_prep_opts[]; /* preparation: -x, -i, --trim */

/* Takes one of these options, which it must be. Reports a mistake itself. */
bool keyarg_take(struct keyarg *ka, struct opt_parser *p, int id);

/* Takes the operands behind FILTER. Reports a mistake itself. */
bool keyarg_files(struct keyarg *ka, const struct command *command, char **files, int n);
void keyarg_free(struct keyarg *ka);

/* Takes over a filter's preparation and seed; fails if other preparation was asked for. `path`
 * names it in the message. */
bool keyarg_adopt(struct keyarg *ka, const struct header *header, const char *path,
                  struct err *err);

/* Warns of a filter that was not left clean. */
struct store;
struct filter;
void keyarg_warn(const struct store *s);
void keyarg_warn_file(const struct filter *f);

/* Hints at --crlf when lines of a list that is read beside the records end in CR. */
void keyarg_hint_crlf(const struct keyarg *ka, bool saw_cr, const char *path);

#endif
