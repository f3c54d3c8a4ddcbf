/* SPDX-License-Identifier: MIT */
#include "file/pages.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/num.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "file/slot.h"

static uint32_t page_sum(const struct filter *f, unsigned layer, uint64_t page)
{
    const struct layer *l = &f->header.layers[layer];
    uint64_t seed = format_layer_seed(&f->header, layer);
    return layer_page_sum(seed, page, f->data[layer] + page * LAYER_PAGE, layer_page_len(l, page));
}

static uint8_t *stored_sum(const struct filter *f, unsigned layer, uint64_t page)
{
    return f->map + f->header.layers[layer].sums_off + FORMAT_SUM * page;
}

static bool page_holds(const struct filter *f, unsigned layer, uint64_t page)
{
    return page_sum(f, layer, page) == get_le32(stored_sum(f, layer, page));
}

void pages_renew_sum(const struct filter *f, unsigned layer, uint64_t page)
{
    uint8_t *stored = stored_sum(f, layer, page);
    uint32_t sum = page_sum(f, layer, page);
    if (get_le32(stored) != sum)
        put_le32(stored, sum);
}

/* Validates the contents of a page whose checksum matches. The error is a predicate of the page. */
static bool page_is_sane(const struct filter *f, unsigned layer, uint64_t page, struct err *why)
{
    const struct layer *l = &f->header.layers[layer];
    struct err what;
    return l->kind->check_page == NULL || l->kind->check_page(l, f->data[layer], page, &what) ||
           fail(why, "matches its checksum, but %s", what.text);
}

/* The number of the writers' turn; odd: one is in a turn (session.c). */
static uint32_t turn_now(const struct filter *f)
{
    return format_is_immutable(&f->header) ? 0 : get_le32(f->map + FORMAT_SESSION + FORMAT_TURN);
}

/* May the page differ from its checksum, because a writer has changed it? A writer marks a page
 * before it changes it, and clears the mark after it has renewed the checksum. It also does that at
 * the end of a turn, unless it says that checksums are stale (session.c). In a clean file a mark
 * means nothing. */
static bool is_touched(const struct filter *f, unsigned layer, uint64_t page)
{
    const struct layer *l = &f->header.layers[layer];
    if (l->touched_off == 0)
        return false;
    atomic_thread_fence(memory_order_acquire); /* the page was read before this */
    bool may_be_stale = (f->header.state != STATE_CLEAN || filter_changed(f)) &&
                        (turn_now(f) % 2 != 0 || f->map[FORMAT_SESSION + FORMAT_STALE] != 0);
    /* Looked at last: a writer has cleared marks that mean nothing before it says that it is there.
     */
    atomic_thread_fence(memory_order_acquire);
    uint8_t marks = __atomic_load_n(f->map + l->touched_off + page / 8, __ATOMIC_RELAXED);
    return may_be_stale && (marks >> page % 8 & 1);
}

/* Has a rotation begun to empty the layer, so that its bytes have no meaning? */
static bool is_void_now(const struct filter *f, unsigned layer)
{
    struct header now;
    struct err ignored;
    bool slot_damaged;
    return format_forgets(&f->header) && slot_read(f->fd, &now, &slot_damaged, &ignored) &&
           layer < now.n_layers && format_is_void(&now, layer);
}

enum page_state { PAGE_HOLDS, PAGE_UNCHECKED, PAGE_DAMAGED };

/* Checks a page beside writers, which mark it, change it, and renew its checksum at the end of a
 * turn or of an epoch. So a page that does not match and is not marked is damaged if it is so twice
 * in one turn and epoch. Sets *why, a predicate, if it is damaged. */
static enum page_state check_page(const struct filter *f, unsigned layer, uint64_t page,
                                  struct err *why)
{
    for (;;) {
        uint64_t epoch = filter_epoch(f);
        uint32_t turn = turn_now(f);
        for (int tries = 0; tries < 2; tries++) {
            if (page_holds(f, layer, page))
                return page_is_sane(f, layer, page, why) ? PAGE_HOLDS : PAGE_DAMAGED;
            if (is_touched(f, layer, page) || is_void_now(f, layer))
                return PAGE_UNCHECKED;
        }
        if (filter_epoch(f) == epoch && turn_now(f) == turn)
            break;
    }
    fail(why, "does not match its checksum");
    return PAGE_DAMAGED;
}

static bool page_damaged(const struct filter *f, unsigned layer, uint64_t page,
                         const struct err *why, struct err *err)
{
    if (!f->writable && !filter_check_intact(f, err))
        return false;
    return fail(err, "'%s' is damaged: page %" PRIu64 " of layer %u (offset %" PRIu64 ") %s",
                f->path, page, layer, f->header.layers[layer].data_off + page * LAYER_PAGE,
                why->text);
}

static bool verify_page(const struct filter *f, unsigned layer, uint64_t page, struct err *err)
{
    struct err why;
    return check_page(f, layer, page, &why) != PAGE_DAMAGED ||
           page_damaged(f, layer, page, &why, err);
}

bool pages_check_one(const struct filter *f, unsigned layer, uint64_t page, struct err *err)
{
    struct err why;
    if (page_holds(f, layer, page))
        return true;
    fail(&why, "does not match its checksum");
    return page_damaged(f, layer, page, &why, err);
}

void pages_forget(struct filter *f)
{
    for (unsigned i = 0; i < f->header.n_layers; i++) {
        uint64_t pages = layer_pages(&f->header.layers[i]);
        memset(f->verified[i], 0, (size_t)(pages / 64 + 1) * sizeof *f->verified[i]);
        f->unverified[i] = pages;
    }
}

/* A check takes about 0.2 us. Forty times that for each page checked: they take 2.5 % of the time
 * at most. */
enum { TRUST_NS = 40 * 200 };

void pages_distrust(struct filter *f)
{
    struct timespec t;
    uint64_t checked = 0;
    for (unsigned i = 0; i < f->header.n_layers; i++)
        checked += layer_pages(&f->header.layers[i]) - f->unverified[i];
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    if (now - f->trusted_since < checked * TRUST_NS)
        return;
    pages_forget(f);
    f->trusted_since = now;
}

bool pages_check_used(struct filter *f, struct err *err)
{
    for (unsigned i = 0; i < f->header.n_layers; i++)
        for (uint64_t page = 0; page < layer_pages(&f->header.layers[i]); page++)
            if ((f->verified[i][page / 64] >> page % 64 & 1) && !is_touched(f, i, page) &&
                !verify_page(f, i, page, err))
                return false;
    return true;
}

/* The pages of a layer that a kind needs. */
struct need {
    struct filter *f;
    unsigned layer;
    bool keeps; /* a page that was found sound still counts as sound */
    struct err *err;
};

static bool need_page(void *ctx, uint64_t page)
{
    const struct need *need = ctx;
    struct filter *f = need->f;
    uint64_t bit = (uint64_t)1 << page % 64;
    _Atomic uint64_t *word = &f->verified[need->layer][page / 64];
    if (need->keeps && (atomic_load_explicit(word, memory_order_relaxed) & bit))
        return true;
    bool touched = f->header.state != STATE_CLEAN && is_touched(f, need->layer, page);
    if (!touched && !verify_page(f, need->layer, page, need->err))
        return false;
    if (!need->keeps || (!f->writable && is_touched(f, need->layer, page)))
        return true;
    uint64_t before = atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
    /* Two threads may have checked the same page; it counts once. */
    if (!(before & bit))
        atomic_fetch_sub_explicit(&f->unverified[need->layer], 1, memory_order_relaxed);
    return true;
}

bool pages_verify(struct filter *f, unsigned layer, struct hashes keys, size_t n, struct err *err)
{
    const struct layer *l = &f->header.layers[layer];
    /* For a reader, as long as nobody writes: the times of the file then show a change. For a
     * writer, until pages_distrust. */
    bool keeps = f->writable || (f->header.state == STATE_CLEAN && !filter_changed(f));
    struct need need = {f, layer, keeps, err};
    if (need.keeps && atomic_load_explicit(&f->unverified[layer], memory_order_relaxed) == 0)
        return true; /* each page was found sound */
    return layer_each_page(l, f->data[layer], keys, n, need_page, &need);
}

/* Pages per block. A block is enough work to be worth handing to a thread. */
enum { CHECK_BLOCK = 256 };

struct scan {
    const struct filter *f;
    unsigned layer;
    pages_damage *damaged;
    void *ctx;
    uint64_t bytes;       /* in all layers */
    pthread_mutex_t lock; /* for calls of `damaged` and for the counts */
    uint64_t n_damaged, n_unchecked, bytes_done;
};

static void check_block(void *ctx, unsigned worker, uint64_t block)
{
    struct scan *c = ctx;
    const struct layer *l = &c->f->header.layers[c->layer];
    uint64_t first = block * CHECK_BLOCK, left = layer_pages(l) - first;
    uint64_t n = left < CHECK_BLOCK ? left : CHECK_BLOCK;
    (void)worker;
    for (uint64_t page = first; page < first + n; page++) {
        struct err why;
        enum page_state state = check_page(c->f, c->layer, page, &why);
        if (state == PAGE_HOLDS)
            continue;
        pthread_mutex_lock(&c->lock);
        c->n_unchecked += state == PAGE_UNCHECKED;
        c->n_damaged += state == PAGE_DAMAGED;
        if (state == PAGE_DAMAGED && c->damaged != NULL)
            c->damaged(c->ctx, c->layer, page, l->data_off + page * LAYER_PAGE, why.text);
        pthread_mutex_unlock(&c->lock);
    }
    uint64_t end = (first + n) * LAYER_PAGE;
    pthread_mutex_lock(&c->lock);
    c->bytes_done += (end < l->data_len ? end : l->data_len) - first * LAYER_PAGE;
    progress_update(c->bytes_done, c->bytes, 0);
    pthread_mutex_unlock(&c->lock);
}

uint64_t pages_check_all(const struct filter *f, unsigned threads, uint64_t *unchecked,
                         pages_damage *damaged, void *ctx)
{
    struct scan c = {.f = f, .damaged = damaged, .ctx = ctx};
    pthread_mutex_init(&c.lock, NULL);
    filter_expect(f, true);
    for (unsigned i = 0; i < f->header.n_layers; i++)
        c.bytes += format_is_void(&f->header, i) ? 0 : f->header.layers[i].data_len;
    for (c.layer = 0; c.layer < f->header.n_layers; c.layer++) {
        uint64_t pages = layer_pages(&f->header.layers[c.layer]);
        if (format_is_void(&f->header, c.layer))
            continue;
        parallel_for(threads, pages / CHECK_BLOCK + (pages % CHECK_BLOCK != 0), check_block, &c);
    }
    pthread_mutex_destroy(&c.lock);
    *unchecked = c.n_unchecked;
    return c.n_damaged;
}

/* Writers may be active while the file is read, so a page that did not match may match later. */
enum { SOUND_TRIES = 5 };

bool pages_check_sound(struct filter *f, unsigned threads, struct err *err)
{
    for (int tries = 0; tries < SOUND_TRIES; tries++) {
        uint64_t unchecked, damaged = pages_check_all(f, threads, &unchecked, NULL, NULL);
        if (damaged == 0)
            return true;
        if (!filter_changed(f))
            return filter_check_intact(f, err) &&
                   fail(err, "'%s' is damaged in %" PRIu64 " page%s; 'seen verify' names %s",
                        f->path, damaged, num_plural(damaged), damaged == 1 ? "it" : "them");
        if (!filter_reload(f, err))
            return false;
    }
    return fail(err, "'%s' kept changing while it was read", f->path);
}
