/* SPDX-License-Identifier: MIT */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool(fail)(struct err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    err->helps = false;
    return false;
}

bool(fail_errno)(struct err *err, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    err->helps = false;
    return fail_more(err, ": %s", strerror(saved));
}

bool(fail_more)(struct err *err, const char *fmt, ...)
{
    size_t len = strlen(err->text), room = sizeof err->text - len;
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(err->text + len, room, fmt, ap) >= (int)room)
        err->text[len] = '\0';
    va_end(ap);
    return false;
}
