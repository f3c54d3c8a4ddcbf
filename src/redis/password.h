/* SPDX-License-Identifier: MIT
 * The password for a Redis server. It is never taken from the command line, which other users can
 * see.
 */
#ifndef REDIS_PASSWORD_H
#define REDIS_PASSWORD_H

#include <stdbool.h>

#include "base/err.h"

/* Reads the first line of `file`, or REDISCLI_AUTH if `file` is NULL. *out becomes NULL if there is
 * no password; else the caller frees it with password_free. */
bool password_read(const char *file, char **out, struct err *err);

/* Overwrites the password and frees it. It may be NULL. */
void password_free(char *password);

#endif
