#include "store/redis/config.h"

#include <stdlib.h>

char *config_key(const struct layout_redis *layout, const struct shard *s, size_t *len)
{
    char *key = malloc(s->key_len + LAYOUT_CONFIG_KEY);
    if (key != NULL)
        *len = layout->config_key(s->key, s->key_len, key);
    return key;
}

/* The fields, as words of a command. */
struct words {
    struct requests *rq; /* NULL: they are only counted */
    size_t n;
};

static void take_fact(void *ctx, const char *name, const char *value)
{
    struct words *words = ctx;
    words->n += 2;
    if (words->rq == NULL)
        return;
    requests_word(words->rq, name);
    requests_word(words->rq, value);
}

void config_write(struct requests *rq, const struct layout_filter *filter, const char *key,
                  size_t key_len)
{
    const struct layout *layout = filter->layer[0].kind->layout;
    struct words words = {0};
    layout->facts(filter, take_fact, &words);
    requests_begin(rq, 2 + words.n, "HSET");
    requests_key(rq, key, key_len);
    words.rq = rq;
    layout->facts(filter, take_fact, &words);
}
