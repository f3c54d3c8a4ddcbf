/* SPDX-License-Identifier: MIT */
/* Filters that are overwritten or replaced while they are queried.
 */
#include "cmd/sources.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"
#include "keys/prep.h"
#include "scratchdir.h"
#include "write/assembly.h"
#include "file/design.h"

/* Makes an empty filter. */
static void make(const char *path, uint32_t prep)
{
    const struct design design = {.n = 1000};
    const struct key_rule rule = {.prep = prep};
    struct header h;
    struct err err;
    header_begin(&h, &rule, false);
    MUST(header_design(&h, &design, 0, &err) && assembly_empty(path, &h, &err));
}

static void copy(const char *from, const char *to)
{
    char command[64];
    snprintf(command, sizeof command, "cp %s %s", from, to);
    CHECK(system(command) == 0);
}

static bool open_f(struct sources *s, struct keyopt *keyopt)
{
    struct err err;
    s->keyopt = keyopt;
    bool ok = sources_add(s, 0, "f", &err) && sources_open(s, &err);
    MUST(ok);
    return ok;
}

TEST(answers_of_a_filter_that_is_overwritten_are_void)
{
    struct keyopt keyopt = KEYOPT_DEFAULT;
    struct sources s = SOURCES_DEFAULT;
    struct err err;
    bool again = false;
    make("f", 0);
    make("good", 0);
    if (open_f(&s, &keyopt)) {
        MUST(sources_enter(&s, 0, &err));
        CHECK(sources_leave(&s, true, &again, &err));
        MUST(sources_enter(&s, 0, &err));
        CHECK(!sources_leave(&s, false, &again, &err));
        MUST(sources_enter(&s, 0, &err));
        copy("good", "f");
        CHECK(!sources_leave(&s, true, &again, &err));
        CHECK_STR(err.text, "'f' was overwritten while it was in use");
    }
    sources_close(&s);
    scratchdir_clear();
}

/* They may have been read while it was overwritten by itself. */
TEST(answers_are_void_and_asked_for_again_if_only_times_or_links_change)
{
    static const char *const change[] = {"touch f", "chmod u+rw f", "ln f g && rm g",
                                         "mv f g && mv g f", "cp good f"};
    struct keyopt keyopt = KEYOPT_DEFAULT;
    struct sources s = SOURCES_DEFAULT;
    struct err err;
    make("f", 0);
    copy("f", "good");
    if (open_f(&s, &keyopt))
        for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
            bool again = false;
            MUST(sources_enter(&s, 0, &err));
            CHECK(sources_leave(&s, true, &again, &err) && !again);
            MUST(sources_enter(&s, 0, &err));
            nanosleep(&(struct timespec){.tv_nsec = 20000000},
                      NULL); /* the time of a file is coarse */
            CHECK(system(change[i]) == 0);
            CHECK(!sources_leave(&s, true, &again, &err) && again);
            CHECK_STR(err.text, "'f' was changed while it was read: run this again");
        }
    sources_close(&s);
    scratchdir_clear();
}

/* What is asked of one chunk. */
struct questions {
    struct feed_part part;
    int asked;
    size_t records; /* of the last time */
};

static bool ask(void *ctx, void *slot, struct err *err)
{
    struct questions *q = slot;
    (void)ctx, (void)err;
    q->records = 0;
    while (batch_next(q->part.batch))
        q->records += q->part.batch->n;
    /* The time of a file is coarse. */
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    return q->asked++ > 0 || system("touch f") == 0;
}

TEST(a_chunk_is_asked_again_from_its_beginning)
{
    struct keyopt keyopt = KEYOPT_DEFAULT;
    struct sources s = SOURCES_DEFAULT;
    struct err err;
    const struct chunk chunk = {.data = "a\nb\nc\n", .len = 6};
    make("f", 0);
    struct questions q = {.part = {.chunk = &chunk, .batch = batch_new(&keyopt.rule)}};
    if (open_f(&s, &keyopt)) {
        feed_start(&q.part);
        CHECK(sources_ask(&s, &q.part, ask, NULL, &q, &err));
        CHECK(q.asked == 2 && q.records == 3);
    }
    batch_free(q.part.batch);
    sources_close(&s);
    scratchdir_clear();
}

/* A file that took the name meanwhile does not make void answers valid. */
TEST(answers_stay_void_if_another_file_takes_the_name)
{
    struct keyopt keyopt = KEYOPT_DEFAULT;
    struct sources s = SOURCES_DEFAULT;
    struct err err;
    bool again = false;
    s.follow = true;
    make("f", 0);
    make("new", 0);
    if (open_f(&s, &keyopt)) {
        MUST(sources_enter(&s, 0, &err));
        copy("new", "f");
        CHECK(rename("new", "f") == 0);
        CHECK(!sources_leave(&s, true, &again, &err));
        CHECK_STR(err.text, "'f' was overwritten while it was in use");
    }
    sources_close(&s);
    scratchdir_clear();
}

/* Another thread, which does not see any more that the file was replaced, must not ask the new one.
 */
TEST(after_a_file_that_does_not_fit_nothing_is_asked)
{
    struct keyopt keyopt = KEYOPT_DEFAULT;
    struct sources s = SOURCES_DEFAULT;
    struct err err;
    bool again = false;
    s.follow = true;
    make("f", 0);
    make("new", PREP_FOLD);
    if (open_f(&s, &keyopt)) {
        CHECK(rename("new", "f") == 0);
        for (int thread = 0; thread < 2; thread++) {
            CHECK(!sources_enter(&s, 0, &err));
            CHECK(!sources_leave(&s, false, &again, &err));
            CHECK_STR(err.text, "'f' was replaced by a filter that differs in --ignore-case");
        }
    }
    sources_close(&s);
    scratchdir_clear();
}

TEST(a_filter_is_not_replaced_without_its_list)
{
    struct keyopt keyopt = KEYOPT_DEFAULT;
    struct sources s = SOURCES_DEFAULT;
    struct err err;
    bool again = false;
    s.follow = true;
    s.list_path = "list";
    make("f", 0);
    make("new", 0);
    CHECK(system("echo a >list") == 0);
    if (open_f(&s, &keyopt)) {
        MUST(sources_enter(&s, 0, &err));
        CHECK(sources_leave(&s, true, &again, &err));
        CHECK(rename("new", "f") == 0 && unlink("list") == 0);
        CHECK(!sources_enter(&s, 0, &err));
        CHECK(!sources_leave(&s, false, &again, &err));
        CHECK_STR(err.text, check_errno("cannot open 'list'", ENOENT));
    }
    sources_close(&s);
    scratchdir_clear();
}

int main(void)
{
    if (!scratchdir_enter())
        return 1;
    RUN(answers_of_a_filter_that_is_overwritten_are_void);
    RUN(answers_are_void_and_asked_for_again_if_only_times_or_links_change);
    RUN(a_chunk_is_asked_again_from_its_beginning);
    RUN(answers_stay_void_if_another_file_takes_the_name);
    RUN(after_a_file_that_does_not_fit_nothing_is_asked);
    RUN(a_filter_is_not_replaced_without_its_list);
    scratchdir_leave();
    return check_done();
}
