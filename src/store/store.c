#include "store/store.h"

#include <string.h>
#include <strings.h>

#include "base/disk.h"
#include "file/filter.h"

static const struct store_place files = {"", file_open, file_prepare, NULL, NULL};

static const struct store_place *place_of(const char *name)
{
    for (const struct store_place *place = store_servers; place->prefix != NULL; place++)
        if (strncasecmp(name, place->prefix, strlen(place->prefix)) == 0)
            return place;
    return &files;
}

/* The same; NULL: this program cannot open such stores. */
static const struct store_place *built_place(const char *name, struct err *err)
{
    const struct store_place *place = place_of(name);
    if (place->open != NULL)
        return place;
    fail(err,
         "cannot connect to '%.1000s': this program was built without hiredis (on Debian, install "
         "libhiredis-dev and build it again)",
         name);
    return NULL;
}

struct store *store_open(const char *name, enum store_mode mode, const struct open_options *options,
                         struct err *err)
{
    const struct store_place *place = built_place(name, err);
    return place != NULL ? place->open(name, mode, options, err) : NULL;
}

struct store *store_prepare(const char *name, const struct store_plan *plan,
                            const struct open_options *options, enum store_there *there,
                            struct err *err)
{
    const struct store_place *place = built_place(name, err);
    return place != NULL ? place->prepare(name, plan, options, there, err) : NULL;
}

/* The same; NULL also for files. */
static const struct store_place *server_place(const char *name, struct err *err)
{
    const struct store_place *place = built_place(name, err);
    if (place == NULL || place->pull != NULL)
        return place;
    fail(err, "'%.1000s' is not an address in Redis", name);
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

struct filter *store_file(struct store *s, struct err *err)
{
    if (s->ops->file != NULL)
        return s->ops->file(s);
    fail(err, "'%s' is not a file", s->name);
    return NULL;
}

bool store_check_counts(const struct store *s, struct err *err)
{
    const struct header *h = store_header(s);
    return (s->ops->query_counts != NULL && kind_counts(h->layers[0].kind)) ||
           fail(err,
                "'%s' does not count its keys: 'seen create --counted' makes a filter that does",
                s->name);
}

bool store_stat(struct store *s, struct stat *st)
{
    struct err ignored;
    const struct filter *f = store_file(s, &ignored);
    return f != NULL && fstat(f->fd, st) == 0;
}

bool store_check_pages(struct store *s, unsigned threads, uint64_t *damaged)
{
    struct err ignored;
    uint64_t unchecked;
    const struct filter *f = store_file(s, &ignored);
    if (f != NULL)
        *damaged = filter_check_pages(f, threads, &unchecked, NULL, NULL);
    return f != NULL;
}

bool store_replaced(struct store *s)
{
    struct stat ours, now;
    struct err ignored;
    const struct filter *f = store_file(s, &ignored);
    return f != NULL && fstat(f->fd, &ours) == 0 && stat(s->name, &now) == 0 &&
           (now.st_dev != ours.st_dev || now.st_ino != ours.st_ino || filter_is_copied(f));
}

bool store_same(struct store *a, struct store *b)
{
    struct stat x, y;
    if (a == b || strcmp(a->name, b->name) == 0)
        return true;
    return store_stat(a, &x) && store_stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
