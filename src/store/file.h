/*
 * The seen file as a store: a filter, opened and mapped (filter.h), and for adding a session beside
 * other writers (session.h).
 */
#ifndef STORE_FILE_H
#define STORE_FILE_H

#include "store/filter.h"
#include "store/store.h"

/* Opens the file at `path`, which must outlive the store; NULL: see err. */
struct store *file_open(const char *path, enum store_mode mode, struct err *err);

#endif
