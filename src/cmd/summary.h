/*
 * What --json prints of a filter that a command has made: one JSON object.
 *
 *     struct json j = {.out = stdout};
 *     summary_begin(&j, path, &header, fpr, n);
 *     ... members of the command's own ...
 *     summary_end(&j);
 */
#ifndef CMD_SUMMARY_H
#define CMD_SUMMARY_H

#include "base/json.h"
#include "store/format.h"

/* Begins it with what all summaries have. fpr is the filter's current FPR, n the distinct keys in
 * it. From here on a failure to write standard output says that `path` was made. */
void summary_begin(struct json *j, const char *path, const struct header *h, double fpr, double n);
void summary_end(struct json *j);

#endif
