/*
 * The JSON object that --json prints about a new filter.
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

/* Begins the object with the members that all summaries have. fpr is the filter's current FPR, n
 * its number of distinct keys. From here on, a message about failed standard output also says that
 * `path` was made. */
void summary_begin(struct json *j, const char *path, const struct header *h, double fpr, double n);
void summary_end(struct json *j);

#endif
