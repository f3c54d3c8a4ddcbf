/* SPDX-License-Identifier: MIT */
/* Writing in place, and what readers see of it: filter.c, pages.c, session.c and sig.c together.
 * tags: threads */
#include "base/disk.h"
#include "file/session.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/bytes.h"
#include "port/port.h"
#include "check.h"
#include "child.h"
#include "cmd/cmd.h"
#include "file/check.h"
#include "keys/xxh3.h"
#include "kind/bloom/bloom.h"
#include "random.h"
#include "scratchdir.h"
#include "file/header.h"
#include "file/lock.h"
#include "file/newfile.h"
#include "file/pages.h"
#include "write/repair.h"

enum { PAGES = 8, CAPACITY = 10000 };

/* Makes an empty filter. */
static bool make_pages(const char *path, uint64_t seed, uint64_t pages)
{
    static const uint8_t zero[FORMAT_PAGE];
    struct header h = {.epoch = 1,
                       .hash = hash_usual(),
                       .seed = seed,
                       .n_design = CAPACITY,
                       .fpr_design = 0.01,
                       .n_layers = 1};
    static uint8_t next_id;
    h.id[0] = ++next_id;
    h.layers[0] = (struct layer){.n_design = CAPACITY, .fpr_design = 0.01};
    bloom_to(&(struct bloom){.pages = pages, .k = 6, .lines = 1}, &h.layers[0]);
    format_place(&h);
    struct newfile nf;
    struct err err;
    uint8_t slot[FORMAT_MAX_HEADER], sum[4];
    bool ok = newfile_open(&nf, path, true, &err) && header_reserve(&h, &nf, &err);
    for (uint64_t page = 0; ok && page < pages; page++) {
        put_le32(sum, layer_page_sum(format_layer_seed(&h, 0), page, zero, sizeof zero));
        ok = disk_write(nf.fd, sum, 4, h.layers[0].sums_off + 4 * page, path, &err);
    }
    size_t len = format_encode(&h, slot);
    ok = ok && disk_write(nf.fd, slot, len, FORMAT_SLOT_A, path, &err) &&
         disk_write(nf.fd, slot, len, FORMAT_SLOT_B, path, &err) && newfile_commit(&nf, &err);
    newfile_close(&nf);
    if (!ok)
        printf("# %s\n", err.text);
    return ok;
}

static bool make(const char *path, uint64_t seed)
{
    return make_pages(path, seed, PAGES);
}

/* Key number i. */
static uint64_t key(uint64_t i)
{
    return xxh3_bytes(&i, sizeof i, 0);
}

/* Changes bits as a command does, for n (at most LAYER_BATCH) keys from `first` on. */
static void put(struct session *s, uint64_t first, size_t n)
{
    uint64_t hash[LAYER_BATCH], present[LAYER_BATCH / 64] = {0};
    struct err err;
    const struct layer *l = &s->filter->header.layers[0];
    for (size_t i = 0; i < n; i++)
        hash[i] = key(first + i);
    MUST(session_touch(s, 0, hashes_of(hash), n, &err));
    l->kind->add(l, s->filter->map + l->data_off, hashes_of(hash), n, present);
    s->counters.records += n;
    s->counters.keys_added += n;
}

static bool add(struct session *s, uint64_t first, size_t n, struct err *err)
{
    if (!session_lock(s, err))
        return false;
    put(s, first, n);
    session_unlock(s);
    return true;
}

/* One writer's whole life. */
static bool add_all(const char *path, uint64_t first, size_t n, struct err *err)
{
    struct filter f;
    struct session s;
    if (!filter_open(&f, path, FILTER_WRITE, err))
        return false;
    bool ok = session_begin(&s, &f, err) && add(&s, first, n, err) && session_end(&s, true, err);
    filter_close(&f);
    return ok;
}

/* How many of the keys are there; -1 if the filter cannot be asked. */
static int count(const char *path, uint64_t first, unsigned n)
{
    struct filter f;
    struct err err;
    int found = 0;
    if (!did(filter_open(&f, path, FILTER_READ, &err), err.text))
        return -1;
    for (unsigned i = 0; i < n && found >= 0; i++) {
        uint64_t hash = key(first + i), present;
        if (!did(filter_query(&f, hashes_of(&hash), 1, &present, &err), err.text))
            found = -1;
        else
            found += (int)present;
    }
    filter_close(&f);
    return found;
}

static enum filter_health health(const char *path)
{
    struct filter f;
    struct err err;
    enum filter_health got = FILTER_DIRTY;
    if (did(filter_open(&f, path, FILTER_READ, &err), err.text)) {
        got = filter_health(&f);
        filter_close(&f);
    }
    return got;
}

/* Is every checksum right, and all empty that must be? */
static bool sound(const char *path)
{
    struct filter f;
    struct err err;
    uint64_t unchecked;
    if (!did(filter_open(&f, path, FILTER_READ, &err), err.text))
        return false;
    const struct layer *l = &f.header.layers[0];
    bool ok = filter_health(&f) == FILTER_CLEAN && !f.slot_damaged &&
              pages_check_all(&f, 2, &unchecked, NULL, NULL) == 0 && unchecked == 0;
    for (unsigned i = 0; i < FORMAT_PAGE; i++)
        ok = ok && f.map[FORMAT_SESSION + i] == 0 && f.map[l->touched_off + i] == 0;
    filter_close(&f);
    return ok;
}

static struct header header_of(const char *path)
{
    struct filter f;
    struct err err;
    struct header h = {0};
    if (did(filter_open(&f, path, FILTER_READ, &err), err.text)) {
        h = f.header;
        filter_close(&f);
    }
    return h;
}

static uint8_t byte_at(const char *path, off_t off)
{
    uint8_t byte = 0;
    int fd = open(path, O_RDONLY);
    CHECK(pread(fd, &byte, 1, off) == 1);
    close(fd);
    return byte;
}

static void poke(const char *path, off_t off)
{
    uint8_t byte = 0;
    int fd = open(path, O_RDWR);
    CHECK(pread(fd, &byte, 1, off) == 1);
    byte ^= 0x10;
    CHECK(pwrite(fd, &byte, 1, off) == 1);
    close(fd);
}

TEST(one_writer)
{
    struct filter f;
    struct session s;
    struct err err;
    CHECK(make("f", 0) && sound("f"));
    MUST(filter_open(&f, "f", FILTER_WRITE, &err));
    MUST(session_begin(&s, &f, &err));
    CHECK(health("f") == FILTER_WRITING && header_of("f").epoch == 2);
    MUST(add(&s, 0, 100, &err));
    MUST(session_sync(&s, &err));
    CHECK(count("f", 0, 100) == 100);
    MUST(add(&s, 100, 100, &err));
    MUST(session_end(&s, true, &err));
    filter_close(&f);
    struct header h = header_of("f");
    CHECK(h.epoch == 3 && h.state == STATE_CLEAN);
    CHECK(h.counters.records == 200 && h.counters.keys_added == 200);
    for (off_t i = 0; i < FORMAT_PAGE; i++)
        CHECK(byte_at("f", FORMAT_SESSION + i) == 0);
    CHECK(sound("f") && count("f", 0, 200) == 200 && count("f", 1000000, 1000) < 100);
}

TEST(without_sync_too)
{
    struct filter f;
    struct session s;
    struct err err;
    CHECK(make("f", 0));
    MUST(filter_open(&f, "f", FILTER_WRITE, &err));
    MUST(session_begin(&s, &f, &err));
    MUST(add(&s, 0, 100, &err));
    MUST(session_end(&s, false, &err));
    filter_close(&f);
    CHECK(sound("f") && count("f", 0, 100) == 100);
}

TEST(the_last_of_several_writers_makes_the_file_clean)
{
    enum { WRITERS = 4 };
    struct filter f[WRITERS];
    struct session s[WRITERS];
    struct err err;
    CHECK(make("f", 0));
    for (unsigned i = 0; i < WRITERS; i++) {
        MUST(filter_open(&f[i], "f", FILTER_WRITE, &err));
        MUST(session_begin(&s[i], &f[i], &err));
        MUST(add(&s[i], 100 * i, 100, &err));
    }
    CHECK(s[WRITERS - 1].counters.records == 100 * WRITERS);
    for (unsigned i = 0; i < WRITERS; i++) {
        CHECK(health("f") == FILTER_WRITING);
        MUST(session_end(&s[i], true, &err));
        filter_close(&f[i]);
    }
    CHECK(sound("f") && count("f", 0, 100 * WRITERS) == 100 * WRITERS);
    struct header h = header_of("f");
    CHECK(h.epoch == 3 && h.counters.records == 100 * WRITERS);
}

static int begin_add_and_die(void *ctx)
{
    static struct filter f;
    static struct session s;
    struct err err;
    (void)ctx;
    if (did(filter_open(&f, "f", FILTER_WRITE, &err) && session_begin(&s, &f, &err) &&
                add(&s, 0, 100, &err),
            err.text))
        raise(SIGKILL);
    return 1;
}

static int begin_and_die_in_a_batch(void *ctx)
{
    static struct filter f;
    static struct session s;
    struct err err;
    (void)ctx;
    if (!did(filter_open(&f, "f", FILTER_WRITE, &err) && session_begin(&s, &f, &err) &&
                 session_lock(&s, &err),
             err.text))
        return 1;
    put(&s, 0, 100);
    return raise(SIGKILL);
}

TEST(the_next_writer_ends_the_session_of_a_dead_one)
{
    static int (*const die[])(void *) = {begin_add_and_die, begin_and_die_in_a_batch};
    struct filter f;
    struct session s;
    struct err err;
    for (unsigned how = 0; how < 2; how++) {
        CHECK(make("f", 0));
        MUST(add_all("f", 1000, 100, &err));
        CHECK(in_child(die[how], NULL) == -SIGKILL);
        CHECK(health("f") == FILTER_DIRTY && header_of("f").state == STATE_WRITING);
        CHECK(count("f", 0, 100) == 100 && count("f", 1000, 100) == 100);
        MUST(filter_open(&f, "f", FILTER_WRITE, &err) && session_begin(&s, &f, &err));
        CHECK(s.found_dead);
        MUST(add(&s, 2000, 100, &err) && session_end(&s, true, &err));
        filter_close(&f);
        CHECK(sound("f") && count("f", 0, 100) == 100 && count("f", 2000, 100) == 100);
        struct header h = header_of("f");
        CHECK(h.counters.keys_added > 290 && h.counters.keys_added < 310);
        CHECK(h.counters.records >= h.counters.keys_added);
        MUST(filter_open(&f, "f", FILTER_WRITE, &err) && session_begin(&s, &f, &err));
        CHECK(!s.found_dead);
        MUST(session_end(&s, true, &err));
        filter_close(&f);
    }
}

TEST(a_repair_ends_the_session_of_a_dead_writer)
{
    struct repair r = {.path = "f", .threads = 2};
    struct err err;
    CHECK(make("f", 0));
    CHECK(in_child(begin_add_and_die, NULL) == -SIGKILL);
    MUST(repair_file(&r, &err));
    CHECK(r.was_left && !r.was_dirty && sound("f") && count("f", 0, 100) == 100);
}

TEST(a_dead_writer_among_living_ones_does_no_harm)
{
    struct filter f;
    struct session s;
    struct err err;
    CHECK(make("f", 0));
    MUST(filter_open(&f, "f", FILTER_WRITE, &err));
    MUST(session_begin(&s, &f, &err));
    CHECK(in_child(begin_add_and_die, NULL) == -SIGKILL);
    CHECK(health("f") == FILTER_WRITING);
    MUST(add(&s, 100, 100, &err));
    MUST(session_end(&s, true, &err));
    filter_close(&f);
    CHECK(sound("f") && count("f", 0, 200) == 200);
    CHECK(header_of("f").counters.records == 200);
}

TEST(keys_of_a_writer_that_dies_in_a_batch_are_counted_by_the_bits)
{
    struct filter f;
    struct session s;
    struct err err;
    CHECK(make("f", 0));
    MUST(filter_open(&f, "f", FILTER_WRITE, &err));
    MUST(session_begin(&s, &f, &err));
    CHECK(in_child(begin_and_die_in_a_batch, NULL) == -SIGKILL);
    MUST(session_end(&s, true, &err));
    filter_close(&f);
    CHECK(sound("f") && count("f", 0, 100) == 100);
    struct header h = header_of("f");
    CHECK(h.counters.keys_added > 95 && h.counters.keys_added < 105);
}

static int add_in_small_batches(void *ctx)
{
    (void)ctx;
    struct filter f;
    struct session s;
    struct err err;
    uint64_t base = (uint64_t)getpid() * 1000;
    bool ok = filter_open(&f, "f", FILTER_WRITE, &err) && session_begin(&s, &f, &err);
    for (unsigned i = 0; ok && i < 200; i++)
        ok = add(&s, base + i, 1, &err);
    ok = ok && session_end(&s, true, &err);
    if (ok)
        filter_close(&f);
    return !did(ok && count("f", base, 200) == 200, err.text);
}

TEST(writers_do_not_lose_each_others_counts)
{
    enum { WRITERS = 4 };
    pid_t child[WRITERS];
    CHECK(make("f", 0));
    for (unsigned i = 0; i < WRITERS; i++)
        child[i] = child_start(add_in_small_batches, NULL);
    for (unsigned i = 0; i < WRITERS; i++)
        CHECK(child_wait(child[i]) == 0);
    CHECK(sound("f") && header_of("f").counters.records == 200 * WRITERS);
}

/* Adds key after key, and says so once it is on disk. */
static int add_and_acknowledge(void *ctx)
{
    int out = *(const int *)ctx;
    struct filter f;
    struct session s;
    struct err err;
    if (!filter_open(&f, "f", FILTER_WRITE, &err) || !session_begin(&s, &f, &err))
        return 1;
    for (uint32_t i = 0;; i++) {
        if (i % 8 == 7 && (!session_end(&s, true, &err) || !session_begin(&s, &f, &err)))
            return 1;
        if (!add(&s, i, 1, &err) || !session_sync(&s, &err) || write(out, &i, sizeof i) != sizeof i)
            return 1;
    }
}

TEST(no_acknowledged_key_is_lost_by_a_kill)
{
    enum { ROUNDS = 25 };
    unsigned dirty = 0, lost = 0, died = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        int out[2];
        uint32_t i, acknowledged = 0;
        CHECK(make("f", 0) && pipe(out) == 0);
        pid_t child = child_start(add_and_acknowledge, &out[1]);
        close(out[1]);
        /* It is killed anywhere in the few steps that follow a random number of them. */
        for (uint64_t wait_for = 1 + draw() % 30; acknowledged < wait_for; acknowledged++)
            if (read(out[0], &i, sizeof i) != sizeof i)
                break;
        usleep((useconds_t)(draw() % 5000));
        kill(child, SIGKILL);
        while (read(out[0], &i, sizeof i) == sizeof i)
            acknowledged++;
        close(out[0]);
        died += child_wait(child) == -SIGKILL;
        lost += count("f", 0, acknowledged) != (int)acknowledged;
        struct err err;
        dirty += health("f") == FILTER_DIRTY;
        MUST(add_all("f", 1000000, 1, &err));
        CHECK(sound("f"));
        lost += count("f", 0, acknowledged) != (int)acknowledged;
    }
    printf("# %u of %u left dirty\n", dirty, ROUNDS);
    CHECK(died == ROUNDS);
    CHECK(lost == 0);
}

TEST(a_replaced_file_ends_the_session)
{
    struct filter f;
    struct session s;
    struct err err;
    CHECK(make("f", 0));
    MUST(filter_open(&f, "f", FILTER_WRITE, &err));
    MUST(session_begin(&s, &f, &err));
    MUST(add(&s, 0, 100, &err));
    CHECK(link("f", "old") == 0 && make("f", 0));
    for (int i = 0; i < 2; i++) {
        CHECK(!session_lock(&s, &err));
        CHECK_STR(err.text, "'f' was replaced while keys were added: run this again");
    }
    CHECK(!session_end(&s, true, &err));
    CHECK_STR(err.text, "'f' was replaced while keys were added: run this again");
    filter_close(&f);
    CHECK(sound("f") && count("f", 0, 100) < 20);
    CHECK(sound("old") && count("old", 0, 100) == 100);
}

TEST(a_removed_file_ends_the_session)
{
    struct filter f;
    struct session s;
    struct err err;
    CHECK(make("f", 0));
    MUST(filter_open(&f, "f", FILTER_WRITE, &err));
    MUST(session_begin(&s, &f, &err));
    MUST(add(&s, 0, 100, &err));
    CHECK(unlink("f") == 0);
    CHECK(!session_lock(&s, &err));
    CHECK_STR(err.text, "'f' was removed while keys were added");
    CHECK(!session_end(&s, true, &err));
    filter_close(&f);
}

/* What the writer planned was for the old file. But no keys are missing. */
TEST(a_replaced_file_ends_a_session_without_a_turn)
{
    struct filter f;
    struct session s;
    struct err err;
    CHECK(make("f", 0));
    MUST(filter_open(&f, "f", FILTER_WRITE, &err) && session_begin(&s, &f, &err));
    CHECK(link("f", "old") == 0 && make("f", 0));
    CHECK(!session_lock(&s, &err));
    CHECK_STR(err.text, "'f' was replaced while keys were added: run this again");
    MUST(session_end(&s, true, &err));
    filter_close(&f);
    CHECK(sound("old") && sound("f") && header_of("f").epoch == 1);

    MUST(filter_open(&f, "f", FILTER_WRITE, &err));
    CHECK(make("f", 0));
    CHECK(!session_begin(&s, &f, &err));
    CHECK_STR(err.text, "'f' was replaced while keys were added: run this again");
    filter_close(&f);
    CHECK(sound("f") && header_of("f").epoch == 1);
}

/* The id of a successor follows from the very state of the file. */
TEST(a_copy_has_another_successor)
{
    struct filter f, g;
    struct session s;
    struct err err;
    uint8_t a[16], b[16];
    CHECK(make("f", 0));
    MUST(filter_open(&f, "f", FILTER_WRITE, &err) && session_begin(&s, &f, &err));
    MUST(add(&s, 0, 100, &err));
    CHECK(system("cp f g") == 0);
    MUST(filter_open(&g, "g", FILTER_READ, &err));
    filter_successor_id(&f, a);
    filter_successor_id(&g, b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    filter_close(&g);
    MUST(add_all("g", 100, 100, &err) && add(&s, 100, 100, &err));
    MUST(filter_open(&g, "g", FILTER_READ, &err));
    filter_successor_id(&f, a);
    filter_successor_id(&g, b);
    CHECK(memcmp(a, b, sizeof a) != 0);
    filter_close(&g);
    MUST(session_end(&s, true, &err));
    filter_close(&f);
}

TEST(a_damaged_slot_is_done_without_and_renewed)
{
    struct filter f;
    struct err err;
    for (unsigned epochs = 1; epochs <= 3; epochs += 2)
        for (unsigned slot = 0; slot < 2; slot++) {
            CHECK(make("f", 0));
            if (epochs == 3)
                MUST(add_all("f", 0, 100, &err));
            poke("f", (off_t)slot * FORMAT_PAGE + 100);
            MUST(filter_open(&f, "f", FILTER_WRITE, &err));
            CHECK(f.slot_damaged);
            filter_close(&f);
            struct repair r = {.path = "f", .threads = 1};
            MUST(repair_file(&r, &err));
            CHECK(r.slot_was_damaged && sound("f"));
            if (epochs == 3)
                CHECK(count("f", 0, 100) == 100);
        }
    poke("f", 50);
    poke("f", FORMAT_PAGE + 50);
    CHECK(!filter_open(&f, "f", FILTER_READ, &err));
    CHECK_STR(err.text, "'f' is damaged: its header does not match its checksum");
}

/* Offsets in the session page: seen(5). */
enum { SYNC_FAILED = FORMAT_SESSION + 32 };

TEST(marks_and_session_page_of_a_clean_file_mean_nothing)
{
    struct filter f;
    struct session s;
    struct err err;
    uint8_t garbage[FORMAT_PAGE];
    for (int session = 0; session < 2; session++) {
        CHECK(make("f", 0));
        MUST(add_all("f", 0, 100, &err));
        struct header h = header_of("f");
        for (size_t i = 0; i < sizeof garbage; i++)
            garbage[i] = (uint8_t)draw();
        garbage[32] = 1;
        int fd = open("f", O_RDWR);
        off_t at = session ? FORMAT_SESSION : (off_t)h.layers[0].touched_off;
        CHECK(pwrite(fd, garbage, session ? sizeof garbage : PAGES / 8, at) > 0);
        close(fd);
        poke("f", (off_t)h.layers[0].data_off + 3 * FORMAT_PAGE + 17);
        MUST(filter_open(&f, "f", FILTER_WRITE, &err) && session_begin(&s, &f, &err));
        MUST(session_end(&s, true, &err));
        filter_close(&f);
        CHECK(count("f", 0, 100) == -1); /* and not fewer than 100 */
        poke("f", (off_t)h.layers[0].data_off + 3 * FORMAT_PAGE + 17);
        CHECK(sound("f") && count("f", 0, 100) == 100);
    }
}

/* After a sync that failed, it is unknown what is on disk. */
TEST(after_a_failed_sync_nobody_adds_keys_before_a_repair)
{
    static const char dirty[] = "'f' is dirty since a crash of the machine or a failed sync: 'seen "
                                "verify --repair' makes a sound file of it";
    struct filter f, g;
    struct session s, t;
    struct err err;
    struct repair r = {.path = "f", .threads = 1};
    for (int killed = 0; killed < 2; killed++) {
        CHECK(make("f", 0));
        MUST(filter_open(&f, "f", FILTER_WRITE, &err) && session_begin(&s, &f, &err));
        MUST(filter_open(&g, "f", FILTER_WRITE, &err) && session_begin(&t, &g, &err));
        MUST(add(&s, 0, 100, &err) && add(&t, 100, 100, &err));
        f.map[SYNC_FAILED] = 1;
        CHECK(!session_lock(&t, &err));
        CHECK_STR(err.text, dirty);
        session_end(&t, true, &err);
        filter_close(&g);
        if (killed)
            CHECK(in_child(begin_add_and_die, NULL) == 1);
        CHECK(!session_end(&s, true, &err));
        CHECK_STR(err.text, "'f' could not be synced");
        filter_close(&f);
        CHECK(header_of("f").state == STATE_DIRTY && health("f") == FILTER_DIRTY);
        CHECK(byte_at("f", SYNC_FAILED) == 1); /* it was never gone, not even for a moment */
        CHECK(count("f", 0, 200) == 200);
        CHECK(!add_all("f", 200, 100, &err));
        CHECK_STR(err.text, dirty);
        r.was_dirty = false;
        MUST(repair_file(&r, &err));
        CHECK(r.was_dirty && r.n_filled == 0 && sound("f") && count("f", 0, 200) == 200);
        MUST(add_all("f", 200, 100, &err));
    }
}

/* The first key whose bits are on this page of layer 0. */
static uint64_t key_on(const struct filter *f, uint64_t page)
{
    const struct layer *l = &f->header.layers[0];
    for (uint64_t i = 0;; i++) {
        uint64_t hash = key(i), got;
        l->kind->page(l, hashes_of(&hash), 1, &got);
        if (got == page)
            return hash;
    }
}

/* Begins a session, adds a key of page 2, and dies. */
static int add_one_and_die(void *ctx)
{
    static struct filter f;
    static struct session s;
    struct err err;
    (void)ctx;
    if (!did(filter_open(&f, "f", FILTER_WRITE, &err) && session_begin(&s, &f, &err) &&
                 session_lock(&s, &err),
             err.text))
        return 1;
    uint64_t hash = key_on(&f, 2), present[1] = {0};
    const struct layer *l = &f.header.layers[0];
    MUST(session_touch(&s, 0, hashes_of(&hash), 1, &err));
    l->kind->add(l, f.data[0], hashes_of(&hash), 1, present);
    session_unlock(&s);
    return raise(SIGKILL);
}

/* Asks for a key of a page. */
static bool ask_page(struct filter *f, uint64_t page, bool *present)
{
    struct err err;
    uint64_t hash = key_on(f, page), found;
    bool ok = filter_query(f, hashes_of(&hash), 1, &found, &err);
    *present = ok && found;
    return ok;
}

static off_t page_at(const char *path, uint64_t page)
{
    return (off_t)(header_of(path).layers[0].data_off + page * FORMAT_PAGE + 17);
}

/* Are all keys of a page present? */
static bool is_full(const char *path, uint64_t page)
{
    bool full = true;
    for (off_t at = page_at(path, page) - 17, end = at + FORMAT_PAGE; at < end; at++)
        full = full && byte_at(path, at) == 0xff;
    return full;
}

/* Damage of page 3, which nobody touches, and then of page 2, which a writer has touched. */
static void check_damage(void)
{
    struct filter f;
    bool present;
    struct err err;
    MUST(filter_open(&f, "f", FILTER_READ, &err));
    CHECK(ask_page(&f, 1, &present) && ask_page(&f, 2, &present) && present);
    CHECK(!ask_page(&f, 3, &present));
    poke("f", page_at("f", 2));
    filter_close(&f);
    MUST(filter_open(&f, "f", FILTER_READ, &err));
    CHECK(!ask_page(&f, 2, &present));
    filter_close(&f);
    poke("f", page_at("f", 2));
}

TEST(a_reader_finds_damage_beside_a_living_writer)
{
    struct filter f, reader;
    struct session s;
    struct err err;
    bool present;
    CHECK(make("f", 0));
    MUST(filter_open(&reader, "f", FILTER_READ, &err));
    MUST(filter_open(&f, "f", FILTER_WRITE, &err));
    MUST(session_begin(&s, &f, &err));
    CHECK(in_child(add_one_and_die, NULL) == -SIGKILL);
    poke("f", page_at("f", 3));
    check_damage();
    /* One that lives on looks at a touched page again when the writers have left. */
    CHECK(ask_page(&reader, 2, &present) && present && !ask_page(&reader, 3, &present));
    MUST(session_end(&s, true, &err));
    filter_close(&f);
    check_damage();
    poke("f", page_at("f", 2));
    CHECK(!ask_page(&reader, 2, &present));
    filter_close(&reader);
}

TEST(the_last_writer_does_not_hide_damage_of_a_page_that_it_has_changed)
{
    struct filter f;
    struct session s;
    struct err err;
    bool present;
    CHECK(make("f", 0));
    MUST(filter_open(&f, "f", FILTER_WRITE, &err) && session_begin(&s, &f, &err));
    CHECK(in_child(add_one_and_die, NULL) == -SIGKILL);
    poke("f", page_at("f", 2));
    MUST(session_end(&s, true, &err));
    filter_close(&f);
    MUST(filter_open(&f, "f", FILTER_READ, &err));
    CHECK(!ask_page(&f, 2, &present));
    filter_close(&f);
    poke("f", page_at("f", 2));
    CHECK(sound("f"));
}

/* The times of a file do not tell of damage as long as a writer is about to leave. */
TEST(a_reader_checks_again_what_it_checked_while_a_writer_was_at_its_end)
{
    struct filter f;
    struct err err;
    bool present;
    CHECK(make("f", 0));
    int fd = open("f", O_RDWR);
    CHECK(lock_try(fd, F_RDLCK, LOCK_SESSION));
    MUST(filter_open(&f, "f", FILTER_READ, &err));
    CHECK(ask_page(&f, 3, &present));
    poke("f", page_at("f", 3));
    close(fd);
    MUST(filter_refresh(&f, &err));
    CHECK(!ask_page(&f, 3, &present));
    filter_close(&f);
}

TEST(a_page_without_a_mark_that_differs_after_a_kill_makes_the_file_dirty)
{
    struct repair r = {.path = "f", .threads = 1};
    struct err err;
    CHECK(make_pages("f", 0, 10));
    CHECK(in_child(add_one_and_die, NULL) == -SIGKILL);
    poke("f", page_at("f", 3));
    check_damage();
    for (int i = 0; i < 2; i++) {
        CHECK(!add_all("f", 0, 1, &err));
        CHECK_STR(err.text, "'f' is dirty since a crash of the machine or a failed sync: 'seen "
                            "verify --repair' makes a sound file of it");
        CHECK(header_of("f").state == STATE_DIRTY);
        check_damage();
    }
    MUST(repair_file(&r, &err));
    CHECK(r.was_dirty && r.n_pages == 10 && r.n_filled == 1 && sound("f") && is_full("f", 3));
    CHECK(r.fpr > 0.1 && r.fpr < 0.101);
    MUST(add_all("f", 0, 1, &err));
}

/* A writer that was killed between two turns has left no checksum that is not up to date. */
TEST(a_marked_page_that_is_damaged_after_a_kill_makes_the_file_dirty)
{
    struct repair r = {.path = "f", .threads = 1};
    struct err err;
    if (port_boot() == 0)
        return;
    CHECK(make_pages("f", 0, 10));
    CHECK(in_child(add_one_and_die, NULL) == -SIGKILL);
    poke("f", page_at("f", 2));
    CHECK(!add_all("f", 0, 1, &err));
    CHECK(header_of("f").state == STATE_DIRTY);
    MUST(repair_file(&r, &err));
    CHECK(r.n_filled == 1 && sound("f") && is_full("f", 2) && !is_full("f", 3));
    /* In a copy of the file it may have been changed since its checksum was made. */
    CHECK(make_pages("f", 0, 10));
    CHECK(in_child(add_one_and_die, NULL) == -SIGKILL);
    poke("f", page_at("f", 2));
    CHECK(system("cp f copy") == 0);
    MUST(add_all("copy", 0, 1, &err));
    CHECK(sound("copy"));
}

TEST(marks_are_not_believed_that_something_was_written_over)
{
    struct err err;
    CHECK(make_pages("f", 0, 10));
    CHECK(in_child(begin_and_die_in_a_batch, NULL) == -SIGKILL);
    off_t touched = (off_t)header_of("f").layers[0].touched_off;
    for (off_t at = touched; at < touched + 16; at++)
        poke("f", at);
    CHECK(!add_all("f", 0, 1, &err));
    CHECK(header_of("f").state == STATE_DIRTY);
}

TEST(a_repair_sets_the_bits_of_a_tenth_of_the_pages_and_no_more)
{
    enum { MANY = 40 };
    struct repair r = {.path = "f", .threads = 2};
    struct err err;
    CHECK(make_pages("f", 0, MANY));
    MUST(add_all("f", 0, 200, &err));
    for (unsigned i = 0; i <= MANY / 10; i++)
        poke("f", page_at("f", 9 * i));
    CHECK(!repair_file(&r, &err));
    CHECK_STR(err.text, "'f' is damaged in 5 of the 40 pages of layer 0, which is too much to "
                        "repair: make it again");
    CHECK(header_of("f").epoch == 3);
    poke("f", page_at("f", 9));
    r = (struct repair){.path = "f", .threads = 2};
    MUST(repair_file(&r, &err));
    CHECK(!r.was_dirty && r.n_filled == MANY / 10 && count("f", 0, 200) == 200);
    CHECK(is_full("f", 0) && !is_full("f", 9) && is_full("f", 36) && sound("f"));
}

/* As if a sync had failed before the first header was written, and another writer had come. */
TEST(memory_for_a_layer_that_was_not_written_does_not_stay)
{
    struct filter f;
    struct err err;
    CHECK(make("f", 0));
    MUST(filter_open(&f, "f", FILTER_WRITE, &err));
    for (uint64_t pages = 1; pages <= 1000; pages += 999) {
        struct header h = f.header;
        h.layers[1] = h.layers[0];
        bloom_to(&(struct bloom){.pages = pages, .k = 6, .lines = 1}, &h.layers[1]);
        h.n_layers = 2;
        format_place_last(&h);
        CHECK(truncate("f", (off_t)h.file_len) == 0);
        MUST(filter_prepare(&f, &h, &err));
        CHECK(f.unverified[0] == PAGES && f.unverified[1] == pages);
    }
    filter_close(&f);
}

/* Keys of many pages in one turn: these cannot be checked before the writer leaves. */
TEST(after_a_long_turn_touched_pages_are_not_checked)
{
    struct filter f, reader;
    struct session s;
    struct err err;
    bool present;
    CHECK(make_pages("f", 0, 2 * SESSION_FEW));
    MUST(filter_open(&f, "f", FILTER_WRITE, &err) && session_begin(&s, &f, &err));
    MUST(session_lock(&s, &err));
    for (unsigned i = 0; i < 12; i++)
        put(&s, i * LAYER_BATCH, LAYER_BATCH);
    session_unlock(&s);
    poke("f", page_at("f", 3));
    MUST(filter_open(&reader, "f", FILTER_READ, &err));
    CHECK(ask_page(&reader, 3, &present));
    poke("f", page_at("f", 3));
    MUST(session_end(&s, true, &err));
    filter_close(&f);
    poke("f", page_at("f", 3));
    CHECK(!ask_page(&reader, 3, &present));
    filter_close(&reader);
}

TEST(a_writer_finds_damage_of_a_page_that_it_has_touched)
{
    struct filter f;
    struct session s;
    struct err err;
    CHECK(make("f", 0));
    MUST(filter_open(&f, "f", FILTER_WRITE, &err) && session_begin(&s, &f, &err));
    uint64_t hash = key_on(&f, 3);
    for (int i = 0; i < 2; i++) {
        MUST(session_lock(&s, &err));
        CHECK(session_touch(&s, 0, hashes_of(&hash), 1, &err) == (i == 0));
        session_unlock(&s);
        poke("f", page_at("f", 3));
    }
    MUST(session_end(&s, true, &err));
    filter_close(&f);
    CHECK(sound("f"));
}

TEST(a_writer_looks_at_a_page_again_before_it_changes_it)
{
    struct filter f;
    struct session s;
    struct err err;
    bool present;
    CHECK(make("f", 0));
    MUST(filter_open(&f, "f", FILTER_WRITE, &err) && session_begin(&s, &f, &err));
    CHECK(ask_page(&f, 3, &present));
    poke("f", page_at("f", 3));
    uint64_t hash = key_on(&f, 3);
    MUST(session_lock(&s, &err));
    CHECK(!session_touch(&s, 0, hashes_of(&hash), 1, &err));
    session_unlock(&s);
    MUST(session_end(&s, true, &err));
    filter_close(&f);
    poke("f", page_at("f", 3));
    CHECK(sound("f"));
}

TEST(a_writer_checks_what_it_relied_on_whatever_others_did_meanwhile)
{
    struct filter f, g;
    struct session s, other;
    struct err err;
    bool present;
    CHECK(make("f", 0));
    MUST(filter_open(&f, "f", FILTER_WRITE, &err) && session_begin(&s, &f, &err));
    MUST(session_lock(&s, &err));
    CHECK(ask_page(&f, 3, &present));
    session_unlock(&s);
    MUST(filter_open(&g, "f", FILTER_WRITE, &err) && session_begin(&other, &g, &err));
    MUST(session_lock(&other, &err) && session_change(&other, &g.header, &err));
    session_unlock(&other);
    MUST(session_end(&other, true, &err));
    filter_close(&g);
    poke("f", page_at("f", 3));
    CHECK(!session_end(&s, true, &err));
    CHECK_STR(err.text,
              "'f' is damaged: page 3 of layer 0 (offset 32768) does not match its checksum");
    filter_close(&f);
    poke("f", page_at("f", 3));
    CHECK(sound("f"));
}

static int copy(void *ctx)
{
    (void)ctx;
    execlp("cp", "cp", "f", "g", (char *)NULL);
    return 1;
}

TEST(a_copy_of_a_file_that_is_written_is_put_in_order_by_its_next_writer)
{
    struct filter f;
    struct session s;
    struct err err;
    CHECK(make("f", 0));
    MUST(filter_open(&f, "f", FILTER_WRITE, &err) && session_begin(&s, &f, &err));
    MUST(add(&s, 0, 100, &err));
    CHECK(in_child(copy, NULL) == 0);
    MUST(session_end(&s, true, &err));
    filter_close(&f);
    CHECK(health("g") == FILTER_DIRTY && count("g", 0, 100) == 100);
    MUST(add_all("g", 100, 100, &err));
    CHECK(sound("g") && count("g", 0, 200) == 200);
}

/* Adds keys in many sessions. */
static int come_and_go(void *ctx)
{
    struct err err;
    (void)ctx;
    for (unsigned i = 0; i < 30; i++)
        if (!did(add_all("f", 1000 + 10 * i, 10, &err), err.text))
            return 1;
    return 0;
}

TEST(a_reader_takes_no_writer_for_damage)
{
    enum { WRITERS = 2 };
    pid_t child[WRITERS];
    struct err err;
    unsigned rounds = 0, failed = 0, alive = WRITERS;
    CHECK(make("f", 0));
    MUST(add_all("f", 0, 100, &err));
    for (unsigned i = 0; i < WRITERS; i++)
        child[i] = child_start(come_and_go, NULL);
    while (alive > 0) {
        struct filter f;
        uint64_t unchecked;
        failed += count("f", 0, 100) != 100;
        MUST(filter_open(&f, "f", FILTER_READ, &err));
        failed += pages_check_all(&f, 1, &unchecked, NULL, NULL) != 0;
        filter_close(&f);
        rounds++;
        siginfo_t ended = {0};
        alive = 0;
        for (unsigned i = 0; i < WRITERS; i++)
            alive += waitid(P_PID, (id_t)child[i], &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                     ended.si_pid == 0;
    }
    for (unsigned i = 0; i < WRITERS; i++)
        CHECK(child_wait(child[i]) == 0);
    printf("# %u rounds\n", rounds);
    CHECK(failed == 0 && sound("f"));
}

/* A writer comes and goes each time that a file is about to be read as a whole. */
static bool writer_comes;

int posix_madvise(void *at, size_t len, int advice)
{
    struct err err;
    (void)at, (void)len;
    if (writer_comes && advice == POSIX_MADV_NORMAL)
        MUST(add_all("f", 0, 0, &err));
    return 0;
}

static int print_stats(void *ctx)
{
    char command[] = "stats", file[] = "f", *words[] = {command, file, NULL};
    (void)ctx;
    if (freopen("said", "w", stderr) == NULL)
        return 0;
    return cmd_stats.run(&(struct opt_parser){.command = &cmd_stats, .argc = 2, .argv = words});
}

/* Damage is only told if no writer can have made the page differ. */
TEST(a_file_that_keeps_changing_is_neither_sound_nor_damaged)
{
    struct filter f;
    struct err err;
    char said[200] = "";
    CHECK(make("f", 0));
    poke("f", page_at("f", 3));
    writer_comes = true;
    MUST(filter_open(&f, "f", FILTER_READ, &err));
    CHECK(!pages_check_sound(&f, 1, &err));
    CHECK_STR(err.text, "'f' kept changing while it was read");
    CHECK(f.header.epoch == 11);
    filter_close(&f);
    struct check c = {.threads = 1};
    MUST(filter_open(&c.file, "f", FILTER_READ, &err));
    CHECK(!check_all(&c, &err));
    CHECK_STR(err.text, "'f' kept changing while it was checked");
    CHECK(c.file.header.epoch == 21);
    filter_close(&c.file);
    CHECK(in_child(print_stats, NULL) == 2);
    writer_comes = false;
    int fd = open("said", O_RDONLY);
    CHECK(read(fd, said, sizeof said - 1) > 0);
    close(fd);
    CHECK_STR(said, "seen: 'f' kept changing while it was read\n");
    /* With that byte as it was, the file is sound: writing did no harm. */
    poke("f", page_at("f", 3));
    MUST(filter_open(&f, "f", FILTER_READ, &err));
    MUST(pages_check_sound(&f, 1, &err));
    filter_close(&f);
}

/* Epoch 1 is in both slots, and its own is slot B: with that damaged, a power cut while slot A is
 * written would leave none. */
TEST(a_damaged_slot_is_mended_before_the_other_is_written)
{
    struct filter f;
    struct session s;
    struct err err;
    CHECK(make("f", 0));
    poke("f", FORMAT_SLOT_B + 100);
    MUST(filter_open(&f, "f", FILTER_WRITE, &err) && session_begin(&s, &f, &err));
    CHECK(header_of("f").epoch == 2);
    poke("f", FORMAT_SLOT_A + 100);
    CHECK(header_of("f").epoch == 1);
    poke("f", FORMAT_SLOT_A + 100);
    MUST(session_end(&s, true, &err));
    filter_close(&f);
    CHECK(sound("f"));
}

TEST(a_file_that_is_overwritten_in_place_is_not_believed)
{
    struct filter f;
    struct err err;
    uint8_t bytes[100 * 1024];
    ssize_t len;
    uint64_t hash = key(0), present;
    CHECK(make("f", 0) && make("g", 0));
    MUST(filter_open(&f, "f", FILTER_READ, &err));
    int from = open("g", O_RDONLY), to = open("f", O_WRONLY);
    CHECK((len = read(from, bytes, sizeof bytes)) > 0 && write(to, bytes, (size_t)len) == len);
    close(from);
    close(to);
    CHECK(!filter_reload(&f, &err));
    CHECK_STR(err.text, "'f' was overwritten while it was in use");
    CHECK(filter_query(&f, hashes_of(&hash), 1, &present, &err) || err.text[0] != '\0');
    filter_close(&f);
}

/* The file itself, by its id, but its layer has another place, or other positions. */
TEST(a_header_of_other_layers_is_not_believed)
{
    static const struct bloom other[] = {{.pages = PAGES / 2, .k = 6, .lines = 1},
                                         {.pages = PAGES, .k = 5, .lines = 1}};
    for (size_t i = 0; i < 3; i++) {
        struct filter f;
        struct err err;
        CHECK(make("f", 0));
        MUST(filter_open(&f, "f", FILTER_READ, &err));
        struct header h = f.header;
        h.epoch += i < 2;
        if (i < 2)
            bloom_to(&other[i], &h.layers[0]);
        else
            f.header.epoch++; /* one that goes back */
        format_place(&h);
        uint8_t slot[FORMAT_MAX_HEADER];
        size_t len = format_encode(&h, slot);
        int fd = open("f", O_WRONLY);
        CHECK(pwrite(fd, slot, len, FORMAT_SLOT_A) == (ssize_t)len &&
              pwrite(fd, slot, len, FORMAT_SLOT_B) == (ssize_t)len);
        close(fd);
        CHECK(!filter_reload(&f, &err));
        CHECK_STR(err.text, "'f' was overwritten while it was in use");
        filter_close(&f);
    }
}

/* Writes to the session page, of which readers of a clean file know nothing. */
static void rewrite_session_page(int fd)
{
    uint8_t zero = 0;
    nanosleep(&(struct timespec){.tv_nsec = 20000000},
              NULL); /* a tick of the file system's clock */
    CHECK(pwrite(fd, &zero, 1, 2 * FORMAT_PAGE) == 1);
}

TEST(a_header_that_is_lost_beside_a_writer_is_told)
{
    struct filter f, g;
    struct session s, other;
    struct err err;
    uint8_t headers[2 * FORMAT_PAGE];
    MUST(make("f", 1));
    int fd = open("f", O_RDWR);
    CHECK(pread(fd, headers, sizeof headers, 0) == sizeof headers);
    MUST(filter_open(&f, "f", FILTER_WRITE, &err) && session_begin(&s, &f, &err));
    CHECK(pwrite(fd, headers, sizeof headers, 0) == sizeof headers);
    MUST(filter_open(&g, "f", FILTER_WRITE, &err));
    CHECK(!session_begin(&other, &g, &err));
    CHECK_STR(err.text, "'f' is damaged: its header was lost while keys were added");
    CHECK(!session_end(&s, true, &err));
    CHECK_STR(err.text, "'f' was overwritten while it was in use");
    filter_close(&g);
    filter_close(&f);
    close(fd);
}

TEST(who_writes_under_a_lock_overwrites_nothing)
{
    struct filter f;
    struct err err;
    CHECK(make("f", 0));
    int fd = open("f", O_RDWR);
    /* A writer that has marked the file clean, and is about to zero the session page. */
    CHECK(lock_try(fd, F_RDLCK, LOCK_SESSION));
    MUST(filter_open(&f, "f", FILTER_READ, &err));
    rewrite_session_page(fd);
    lock_release(fd, LOCK_SESSION);
    CHECK(filter_check_intact(&f, &err));
    MUST(filter_refresh(&f, &err));
    CHECK(filter_check_intact(&f, &err));
    /* Who writes without a lock is no writer. */
    rewrite_session_page(fd);
    CHECK(!filter_check_intact(&f, &err));
    close(fd);
    filter_close(&f);
}

TEST(repair_blesses_no_damage)
{
    struct filter f;
    struct session s;
    struct err err;
    struct repair r = {.path = "f", .threads = 1};
    CHECK(make("f", 0));
    MUST(add_all("f", 0, 100, &err));
    MUST(filter_open(&f, "f", FILTER_WRITE, &err));
    MUST(session_begin(&s, &f, &err));
    MUST(add(&s, 100, 100, &err));
    MUST(repair_file(&r, &err));
    CHECK(!r.was_dirty && !r.was_left && health("f") == FILTER_WRITING);
    MUST(session_end(&s, true, &err));
    filter_close(&f);
    CHECK(sound("f") && count("f", 0, 200) == 200 && header_of("f").counters.records == 200);
    poke("f", page_at("f", 1));
    CHECK(!repair_file(&r, &err));
    CHECK_STR(err.text, "'f' is damaged in 1 of the 8 pages of layer 0, which is too much to "
                        "repair: make it again");
    CHECK(header_of("f").state == STATE_CLEAN && !sound("f"));
}

/* A filter of which all other pages are touched, for every place of the one that is not. */
TEST(a_writer_finds_damage_in_the_last_page_it_touches)
{
    struct filter f;
    struct session s;
    struct err err;
    const uint64_t sizes[] = {1, 8, 27};
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++)
        for (uint64_t last = 0; last < sizes[n]; last++) {
            CHECK(make_pages("f", 0, sizes[n]));
            poke("f", (off_t)(header_of("f").layers[0].data_off + last * FORMAT_PAGE + 17));
            MUST(filter_open(&f, "f", FILTER_WRITE, &err));
            MUST(session_begin(&s, &f, &err));
            MUST(session_lock(&s, &err));
            for (uint64_t page = 0; page < sizes[n]; page++) {
                uint64_t hash = key_on(&f, page);
                if (page != last)
                    MUST(session_touch(&s, 0, hashes_of(&hash), 1, &err));
            }
            uint64_t hash = key_on(&f, last);
            CHECK(!session_touch(&s, 0, hashes_of(&hash), 1, &err));
            session_unlock(&s);
            MUST(session_end(&s, false, &err));
            filter_close(&f);
        }
}

TEST(a_reader_finds_damage_in_what_it_needs)
{
    struct filter f;
    struct err err;
    char want[200];
    CHECK(make("f", 0));
    MUST(add_all("f", 0, 100, &err));
    off_t data = (off_t)header_of("f").layers[0].data_off;
    poke("f", data + 3 * FORMAT_PAGE + 17);
    snprintf(want, sizeof want,
             "'f' is damaged: page 3 of layer 0 (offset %lld) does not match its "
             "checksum",
             (long long)data + 3 * FORMAT_PAGE);
    MUST(filter_open(&f, "f", FILTER_READ, &err));
    for (unsigned i = 0; i < 100; i++) {
        uint64_t hash = key(i), present = 0, page;
        f.header.layers[0].kind->page(&f.header.layers[0], hashes_of(&hash), 1, &page);
        bool on_page = page == 3;
        bool ok = filter_query(&f, hashes_of(&hash), 1, &present, &err);
        CHECK(ok != on_page);
        if (ok)
            CHECK(present == 1);
        else
            CHECK_STR(err.text, want);
    }
    filter_close(&f);
}

TEST(a_reader_is_not_misled_by_a_writer)
{
    struct filter reader, late;
    struct err err;
    CHECK(make("f", 0));
    MUST(filter_open(&reader, "f", FILTER_READ, &err));
    MUST(filter_open(&late, "f", FILTER_READ, &err));
    for (unsigned i = 0; i < 4; i++) {
        MUST(add_all("f", 100 * i, 100, &err));
        for (unsigned j = 0; j < 100 * (i + 1); j++) {
            uint64_t hash = key(j), present;
            MUST(filter_query(&reader, hashes_of(&hash), 1, &present, &err));
            CHECK(present == 1);
        }
    }
    CHECK(in_child(begin_add_and_die, NULL) == -SIGKILL);
    uint64_t hash[100], present[2];
    for (unsigned i = 0; i < 100; i++)
        hash[i] = key(i);
    MUST(filter_query(&late, hashes_of(hash), 100, present, &err));
    CHECK(present[0] == UINT64_MAX && present[1] == ((uint64_t)1 << 36) - 1);
    filter_close(&reader);
    filter_close(&late);
}

static int lock_is_taken(void *ctx)
{
    (void)ctx;
    int fd = open("f", O_RDWR);
    struct flock l = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)1 << 62, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &l) != 0;
}

TEST(a_file_open_for_reading_can_be_locked_against_writers)
{
    static const int flags[] = {O_RDONLY, O_RDWR};
    CHECK(make("f", 0));
    CHECK(in_child(lock_is_taken, NULL) == 0);
    for (size_t i = 0; i < 2; i++) {
        int fd = open("f", flags[i]);
        CHECK(lock_turn(fd, "f", true));
        CHECK(in_child(lock_is_taken, NULL) == 1);
        close(fd);
        CHECK(in_child(lock_is_taken, NULL) == 0);
    }
}

TEST(what_cannot_be_opened)
{
    struct filter f;
    struct err err;
    CHECK(make("f", 0));
    CHECK(!filter_open(&f, "none", FILTER_READ, &err));
    CHECK_STR(err.text, "cannot open 'none': No such file or directory");
    CHECK(!filter_open(&f, ".", FILTER_READ, &err));
    CHECK_STR(err.text, "'.' is not a regular file");
    CHECK(mkfifo("fifo", 0600) == 0);
    CHECK(!filter_open(&f, "fifo", FILTER_READ, &err));
    CHECK_STR(err.text, "'fifo' is not a regular file");
    CHECK(truncate("f", 32768) == 0);
    CHECK(!filter_open(&f, "f", FILTER_READ, &err));
    CHECK_STR(err.text, "'f' is truncated: 32768 bytes, its header says 53248");
    CHECK(truncate("f", 53249) == 0);
    CHECK(!filter_open(&f, "f", FILTER_READ, &err));
    CHECK_STR(err.text, "'f' is damaged: 53249 bytes, its header says 53248");
    CHECK(truncate("f", 5000) == 0 && !filter_open(&f, "f", FILTER_READ, &err));
    CHECK_STR(err.text, "'f' is truncated: 5000 bytes, its header says 53248");
    CHECK(truncate("f", 4095) == 0 && !filter_open(&f, "f", FILTER_READ, &err));
    CHECK_STR(err.text, "'f' is truncated: it ends within its header");
    CHECK(truncate("f", 7) == 0 && !filter_open(&f, "f", FILTER_READ, &err));
    CHECK_STR(err.text, "'f' is not a seen filter");
    CHECK(truncate("f", 0) == 0 && !filter_open(&f, "f", FILTER_READ, &err));
    CHECK_STR(err.text, "'f' is not a seen filter: it is empty");
}

/* Puts a changed header into both slots, as of the next two epochs. */
static void publish_both(const char *path, struct header h)
{
    uint8_t slot[FORMAT_MAX_HEADER];
    struct err err;
    int fd = open(path, O_RDWR);
    for (int i = 0; i < 2; i++) {
        h.epoch++;
        size_t len = format_encode(&h, slot);
        MUST(disk_write(fd, slot, len, h.epoch % 2 * FORMAT_PAGE, path, &err));
    }
    close(fd);
}

TEST(features_of_newer_versions)
{
    struct filter f;
    struct err err;
    CHECK(make("f", 0));
    struct header h = header_of("f");
    h.compat = 1;
    publish_both("f", h);
    MUST(add_all("f", 0, 100, &err));
    h = header_of("f");
    CHECK(h.compat == 1); /* and is kept by older writers */
    h.ro_compat = 1;
    publish_both("f", h);
    CHECK(count("f", 0, 100) == 100);
    CHECK(!filter_open(&f, "f", FILTER_WRITE, &err));
    CHECK_STR(err.text, "'f' was written by a newer version of seen: it can be read only");
    /* One slot that we must not read is enough: the other is older. */
    h = header_of("f");
    h.incompat = 1u << 31;
    h.epoch++;
    uint8_t slot[FORMAT_MAX_HEADER];
    size_t len = format_encode(&h, slot);
    int fd = open("f", O_RDWR);
    MUST(disk_write(fd, slot, len, h.epoch % 2 * FORMAT_PAGE, "f", &err));
    close(fd);
    CHECK(!filter_open(&f, "f", FILTER_READ, &err));
    CHECK_STR(err.text, "'f' was written by a newer version of seen (incompatible feature 31)");
}

TEST(a_file_that_has_used_up_its_epochs_can_be_read)
{
    struct filter f;
    struct err err;
    CHECK(make("f", 0));
    struct header h = header_of("f");
    h.epoch = INT64_MAX / 2 - 2;
    publish_both("f", h);
    MUST(filter_open(&f, "f", FILTER_WRITE, &err));
    filter_close(&f);
    h.epoch = INT64_MAX / 2 - 1;
    publish_both("f", h);
    CHECK(count("f", 0, 100) == 0);
    CHECK(!filter_open(&f, "f", FILTER_WRITE, &err));
    CHECK_STR(err.text, "'f' has used up its epochs: it can be read only");
}

/* Shrinks a mapped file and reads on; stderr goes to "said". */
static int read_what_is_gone(void *ctx)
{
    static struct filter f;
    struct err err;
    (void)ctx;
    signal(SIGALRM, SIG_DFL);
    alarm(60);
    if (!filter_open(&f, "f", FILTER_READ, &err) || truncate("f", 20000) != 0 ||
        freopen("said", "w", stderr) == NULL)
        return 0;
    volatile uint8_t byte = f.map[50000];
    (void)byte;
    return 0;
}

TEST(a_mapped_file_that_shrinks_ends_in_a_message)
{
    char said[200] = "";
    CHECK(make("f", 0));
    CHECK(in_child(read_what_is_gone, NULL) == 2);
    int fd = open("said", O_RDONLY);
    CHECK(read(fd, said, sizeof said - 1) > 0);
    close(fd);
    CHECK_STR(said, "seen: cannot read 'f' at offset 50000: it was truncated, or its blocks cannot "
                    "be had: no space, no quota, or the disk failed\n");
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    if (!scratchdir_enter())
        return 1;
    RUN_CLEAN(one_writer);
    RUN_CLEAN(without_sync_too);
    RUN_CLEAN(the_last_of_several_writers_makes_the_file_clean);
    RUN_CLEAN(the_next_writer_ends_the_session_of_a_dead_one);
    RUN_CLEAN(a_repair_ends_the_session_of_a_dead_writer);
    RUN_CLEAN(a_dead_writer_among_living_ones_does_no_harm);
    RUN_CLEAN(keys_of_a_writer_that_dies_in_a_batch_are_counted_by_the_bits);
    RUN_CLEAN(writers_do_not_lose_each_others_counts);
    RUN_CLEAN(no_acknowledged_key_is_lost_by_a_kill);
    RUN_CLEAN(a_replaced_file_ends_the_session);
    RUN_CLEAN(a_removed_file_ends_the_session);
    RUN_CLEAN(a_replaced_file_ends_a_session_without_a_turn);
    RUN_CLEAN(a_copy_has_another_successor);
    RUN_CLEAN(a_damaged_slot_is_done_without_and_renewed);
    RUN_CLEAN(marks_and_session_page_of_a_clean_file_mean_nothing);
    RUN_CLEAN(after_a_failed_sync_nobody_adds_keys_before_a_repair);
    RUN_CLEAN(a_reader_finds_damage_beside_a_living_writer);
    RUN_CLEAN(the_last_writer_does_not_hide_damage_of_a_page_that_it_has_changed);
    RUN_CLEAN(a_reader_checks_again_what_it_checked_while_a_writer_was_at_its_end);
    RUN_CLEAN(a_page_without_a_mark_that_differs_after_a_kill_makes_the_file_dirty);
    RUN_CLEAN(a_repair_sets_the_bits_of_a_tenth_of_the_pages_and_no_more);
    RUN_CLEAN(marks_are_not_believed_that_something_was_written_over);
    RUN_CLEAN(a_marked_page_that_is_damaged_after_a_kill_makes_the_file_dirty);
    RUN_CLEAN(memory_for_a_layer_that_was_not_written_does_not_stay);
    RUN_CLEAN(after_a_long_turn_touched_pages_are_not_checked);
    RUN_CLEAN(a_writer_finds_damage_of_a_page_that_it_has_touched);
    RUN_CLEAN(a_writer_looks_at_a_page_again_before_it_changes_it);
    RUN_CLEAN(a_writer_checks_what_it_relied_on_whatever_others_did_meanwhile);
    RUN_CLEAN(a_copy_of_a_file_that_is_written_is_put_in_order_by_its_next_writer);
    RUN_CLEAN(a_reader_takes_no_writer_for_damage);
    RUN_CLEAN(a_file_that_keeps_changing_is_neither_sound_nor_damaged);
    RUN_CLEAN(a_damaged_slot_is_mended_before_the_other_is_written);
    RUN_CLEAN(a_file_that_is_overwritten_in_place_is_not_believed);
    RUN_CLEAN(a_header_of_other_layers_is_not_believed);
    RUN_CLEAN(a_header_that_is_lost_beside_a_writer_is_told);
    RUN_CLEAN(who_writes_under_a_lock_overwrites_nothing);
    RUN_CLEAN(repair_blesses_no_damage);
    RUN_CLEAN(a_writer_finds_damage_in_the_last_page_it_touches);
    RUN_CLEAN(a_reader_finds_damage_in_what_it_needs);
    RUN_CLEAN(a_reader_is_not_misled_by_a_writer);
    RUN_CLEAN(a_file_open_for_reading_can_be_locked_against_writers);
    RUN_CLEAN(what_cannot_be_opened);
    RUN_CLEAN(features_of_newer_versions);
    RUN_CLEAN(a_file_that_has_used_up_its_epochs_can_be_read);
    const char *sanitizer = getenv("SANITIZER");
    if (sanitizer != NULL && strcmp(sanitizer, "qemu") == 0)
        SKIP(a_mapped_file_that_shrinks_ends_in_a_message, "qemu keeps SIGBUS to itself");
    else
        RUN_CLEAN(a_mapped_file_that_shrinks_ends_in_a_message);
    scratchdir_leave();
    return check_done();
}
