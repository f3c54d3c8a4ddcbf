#include "cmd/inputs.h"

#include <stdlib.h>

#include "base/say.h"
#include "cmd/warn.h"
#include "store/header.h"

static bool open_one(struct inputs *in, const char *path, const char *done)
{
    struct err err;
    struct filter *f = &in->filter[in->n], *first = &in->filter[0];
    if (!filter_open(f, path, FILTER_READ, &err))
        return say_failure(&err);
    in->n++;
    warn_unclean_file(f);
    if (!header_same_keys(&first->header, &f->header, &err)) {
        say_error("'%s' and '%s' cannot be %s: they differ in %s", first->path, path, done,
                  err.text);
        return false;
    }
    return true;
}

bool inputs_open(struct inputs *in, char **paths, unsigned n, struct newfile *file,
                 unsigned threads, const char *done)
{
    struct err err;
    bool replaces = false;
    if (file != NULL && !newfile_hold(file, &err))
        return say_failure(&err);
    in->filter = calloc(n, sizeof *in->filter);
    if (in->filter == NULL) {
        say_error("out of memory");
        return false;
    }
    for (unsigned i = 0; i < n; i++) {
        if (!open_one(in, paths[i], done))
            return false;
        replaces |= file != NULL && newfile_replaces(file, in->filter[i].fd);
    }
    if (file != NULL && !replaces)
        newfile_let_go(file);
    for (unsigned i = 0; i < n; i++)
        if (!filter_check_sound(&in->filter[i], threads, &err))
            return say_failure(&err);
    return true;
}

bool inputs_check_intact(const struct inputs *in, struct err *err)
{
    for (unsigned i = 0; i < in->n; i++)
        if (!filter_check_intact(&in->filter[i], err))
            return false;
    return true;
}

void inputs_close(struct inputs *in)
{
    for (unsigned i = 0; i < in->n; i++)
        filter_close(&in->filter[i]);
    free(in->filter);
}
