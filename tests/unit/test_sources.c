/* Filters that are overwritten or replaced while they are queried.
 * tags: threads */
#include "cmd/sources.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include "check.h"
#include "keys/prep.h"
#include "scratchdir.h"
#include "store/filter_build.h"
#include "store/header.h"

/* Makes an empty filter. */
static void make(const char *path, uint32_t prep)
{
    const struct design design = {.n = 1000};
    const struct key_rule rule = {.prep = prep};
    struct header h;
    struct err err;
    header_begin(&h, &rule, false);
    MUST(header_design(&h, &design, 0, &err) && filter_build_empty_file(path, &h, &err));
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
    bool ok = sources_add(s, "f", &err) && sources_open(s, &err);
    MUST(ok);
    return ok;
}

/* Other threads must not go on with the new file either, which has other keys. */
TEST(what_cannot_be_used_is_refused_until_it_is_overwritten_again)
{
    struct keyopt keyopt = KEYOPT_DEFAULT;
    struct sources s = SOURCES_DEFAULT;
    struct err err;
    bool again;
    make("f", 0);
    make("good", 0);
    make("other", PREP_FOLD);
    if (open_f(&s, &keyopt)) {
        MUST(sources_begin(&s, 0, &err));
        copy("other", "f");
        for (int i = 0; i < 2; i++) {
            CHECK(!sources_end(&s, true, &again, &err) && !again);
            CHECK_STR(err.text, "'f' prepares keys in another way");
            CHECK(!sources_begin(&s, 0, &err));
            CHECK_STR(err.text, "'f' prepares keys in another way");
        }
        copy("good", "f");
        CHECK(sources_end(&s, false, &again, &err) && again);
        MUST(sources_begin(&s, 0, &err));
        CHECK(sources_end(&s, true, &again, &err) && !again);
    }
    sources_close(&s);
    scratchdir_clear();
}

struct other {
    struct sources *s;
    _Atomic pid_t id;
};

static void *ask(void *ctx)
{
    struct other *o = ctx;
    struct err err;
    bool again;
    o->id = (pid_t)syscall(SYS_gettid);
    MUST(sources_begin(o->s, 0, &err));
    CHECK(sources_end(o->s, true, &again, &err) && !again);
    return NULL;
}

/* Does that thread wait for something? */
static bool waits(pid_t thread)
{
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *f = thread != 0 ? fopen(path, "r") : NULL;
    if (f == NULL)
        return false;
    if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    fclose(f);
    return state == 'S';
}

/* The other thread opens the new file, before this one can look why its answers are void. */
TEST(strict_answers_stay_void_if_another_thread_opens_a_new_file)
{
    struct keyopt keyopt = KEYOPT_DEFAULT;
    struct sources s = SOURCES_DEFAULT;
    struct other other = {.s = &s};
    pthread_t thread;
    struct err err;
    bool again;
    s.follows = s.strict = true;
    make("f", 0);
    make("new", 0);
    if (open_f(&s, &keyopt)) {
        MUST(sources_begin(&s, 0, &err));
        copy("new", "f");
        CHECK(rename("new", "f") == 0);
        CHECK(pthread_create(&thread, NULL, ask, &other) == 0);
        while (!waits(other.id))
            sched_yield();
        CHECK(!sources_end(&s, true, &again, &err) && !again);
        CHECK_STR(err.text, "'f' was overwritten while it was in use");
        CHECK(pthread_join(thread, NULL) == 0);
    }
    sources_close(&s);
    scratchdir_clear();
}

int main(void)
{
    if (!scratchdir_enter())
        return 1;
    RUN(what_cannot_be_used_is_refused_until_it_is_overwritten_again);
    RUN(strict_answers_stay_void_if_another_thread_opens_a_new_file);
    scratchdir_leave();
    return check_done();
}
