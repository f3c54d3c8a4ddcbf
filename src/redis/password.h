/*
 * The password for a Redis server. It is never taken from the command line, which other users can
 * see.
 */
#ifndef REDIS_PASSWORD_H
#define REDIS_PASSWORD_H

#include <stdbool.h>

#include "base/err.h"

/* Reads the first line of `file`, or REDISCLI_AUTH if that is NULL. *out is NULL if there is none;
 * else it belongs to the caller, for password_free. */
bool password_read(const char *file, char **out, struct err *err);

/* Overwrites it first. */
void password_free(char *password);

#endif
