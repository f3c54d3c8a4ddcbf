/* SPDX-License-Identifier: MIT */
#include "store/store.h"

#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/disk.h"
#include "file/filter.h"

static const struct store_place files = {.open = file_open, .prepare = file_prepare};

/* NULL: this program cannot open such stores. */
static const struct store_place *place_of(const char *name, struct err *err)
{
    const struct store_place *place = store_servers;
    if (store_is_file(name))
        return &files;
    while (place->prefix != NULL && strncasecmp(name, place->prefix, strlen(place->prefix)) != 0)
        place++;
    if (place->open != NULL)
        return place;
    if (place->prefix != NULL)
        fail(err, "cannot connect to '%.1000s': this program was built without %s", name,
             place->needs);
    else
        fail(err, "cannot open '%.1000s': no filters are known at such an address", name);
    return NULL;
}

struct store *store_open(const char *name, enum store_mode mode, const struct open_options *options,
                         struct err *err)
{
    const struct store_place *place = place_of(name, err);
    return place != NULL ? place->open(name, mode, options, err) : NULL;
}

struct store *store_prepare(const char *name, const struct store_plan *plan,
                            const struct open_options *options, bool *there, struct err *err)
{
    const struct store_place *place = place_of(name, err);
    if (place != NULL && place->prepare != NULL)
        return place->prepare(name, plan, options, there, err);
    if (place != NULL)
        fail(err, "cannot make '%.1000s': filters there are only asked", name);
    return NULL;
}

/* From which whole filters are copied: not a file. */
static const struct store_place *server_place(const char *name, struct err *err)
{
    const struct store_place *place = place_of(name, err);
    if (place == NULL || place->pull != NULL)
        return place;
    fail(err, "cannot copy '%.1000s': filters there are only asked", name);
    return NULL;
}

bool store_pull(const char *name, const struct open_options *options, struct layout_filter *filter,
                struct layout_bits *bits, struct err *err)
{
    const struct store_place *place = server_place(name, err);
    return place != NULL && place->pull(name, options, filter, bits, err);
}

bool store_push(const char *name, const struct layout_filter *filter, const uint8_t *const *data,
                const struct store_push *options, struct err *err)
{
    const struct store_place *place = server_place(name, err);
    return place != NULL && place->push(name, filter, data, options, err);
}

bool store_is_file(const char *name)
{
    return !disk_is_address(name);
}

void store_close(struct store *s)
{
    if (s != NULL)
        s->ops->close(s);
}

bool store_check_counts(const struct store *s, struct err *err)
{
    return (s->ops->query_counts != NULL && kind_counts(s->header->layers[0].kind)) ||
           fail(err,
                "'%s' does not count its keys: 'seen create --counted' makes a filter that does",
                s->name);
}

/* Another thread may be taking up a new s->file->status. */
bool store_replaced(const struct store *s)
{
    struct stat now, open;
    return s->file != NULL && stat(s->name, &now) == 0 && fstat(s->file->fd, &open) == 0 &&
           !disk_same_file(&now, &open);
}

bool store_same(const struct store *a, const struct store *b)
{
    return strcmp(a->name, b->name) == 0 || (a->file != NULL && b->file != NULL &&
                                             disk_same_file(&a->file->status, &b->file->status));
}
