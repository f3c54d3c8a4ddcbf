#include "store/store.h"

#include <string.h>
#include <strings.h>

#include "store/file.h"
#include "store/redis/redis.h"

/* The prefix of a name tells the kind of store. Every other name is a file's. */
static const struct {
    const char *prefix;
    struct store *(*open)(const char *name, enum store_mode mode, struct err *err);
    const struct store_whole *whole;
} places[] = {{"redis://", redis_open, &redis_whole},
              {"rediss://", redis_open, &redis_whole},
              {"redis+unix://", redis_open, &redis_whole},
              {"", file_open, NULL}};

static size_t place_of(const char *name)
{
    size_t i = 0;
    while (strncasecmp(name, places[i].prefix, strlen(places[i].prefix)) != 0)
        i++;
    return i;
}

struct store *store_open(const char *name, enum store_mode mode, struct err *err)
{
    return places[place_of(name)].open(name, mode, err);
}

const struct store_whole *store_whole(const char *name)
{
    return places[place_of(name)].whole;
}

bool store_is_file(const char *name)
{
    return places[place_of(name)].prefix[0] == '\0';
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
    return (s->ops->query_counts != NULL && h->layers[0].kind->counts != NULL) ||
           fail(err,
                "'%s' does not count its keys: 'seen create --counted' makes a filter that does",
                s->name);
}

bool store_check_intact(const struct store *s, struct err *err)
{
    return !store_is_overwritten(s) ||
           fail(err, "'%s' was overwritten while it was in use", s->name);
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
