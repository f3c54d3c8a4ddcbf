/*
 * The store (store.h) for a filter file: opens and maps the filter (filter.h), and adds keys in a
 * session beside other writers (session.h).
 */
#ifndef STORE_FILE_H
#define STORE_FILE_H

#include "store/filter.h"
#include "store/store.h"

/* Opens the file at `path`, which must outlive the store; NULL: see err. */
struct store *file_open(const char *path, enum store_mode mode, const struct open_options *ignored,
                        struct err *err);

#endif
