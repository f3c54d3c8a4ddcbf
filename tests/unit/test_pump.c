/* SPDX-License-Identifier: MIT
 * The pump: whatever the number of threads and however long each takes, chunks are committed in
 * input order, once, one at a time, until somebody says stop.
 *
 * tags: threads
 */
#include "base/sig.h"
#include "check.h"
#include "keys/pump.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scratchdir.h"

enum { CHUNK = 1024 };

/* What the callbacks see. */
struct seen {
    unsigned threads, threads_before; /* before: of the process */
    size_t stop_after;                /* commits; 0: never */
    atomic_int committing, wrong, works, slots_made, slots_freed;
    unsigned failures, commits;
    uint64_t next_seq;
    char *text; /* of all chunks committed */
    size_t len;
    char failed[1000]; /* messages */
    char *order;       /* a letter for each commit or failure */
    size_t n_order;
    atomic_uint busy[64]; /* workers that are in work: never two of one number */
};

struct slot {
    struct seen *seen; /* NULL: not used */
    uint64_t seq;
    size_t len;
    char *copy;
};

/* Some chunks take much longer than others, so they finish out of order. */
static void dawdle(uint64_t seq)
{
    if (seq % 3 == 0)
        usleep((useconds_t)(seq * 7919 % 5 * 200));
}

static void work(void *ctx, unsigned worker, const struct chunk *chunk, void *data)
{
    struct seen *s = ctx;
    struct slot *slot = data;
    s->works++;
    s->wrong += worker >= s->threads || s->busy[worker]++ != 0;
    if (slot->seen == NULL)
        s->slots_made++;
    s->wrong += slot->seen == NULL && (slot->seq != 0 || slot->len != 0 || slot->copy != NULL);
    slot->seen = s;
    dawdle(chunk->seq);
    slot->seq = chunk->seq;
    slot->len = chunk->len;
    free(slot->copy);
    slot->copy = malloc(chunk->len + 1);
    if (slot->copy == NULL)
        exit(1);
    memcpy(slot->copy, chunk->data, chunk->len);
    s->busy[worker]--;
}

static void note(struct seen *s, char letter)
{
    s->order = realloc(s->order, s->n_order + 2);
    if (s->order == NULL)
        exit(1);
    s->order[s->n_order++] = letter;
    s->order[s->n_order] = '\0';
}

static void enter(struct seen *s, const struct chunk *chunk)
{
    s->wrong += s->committing++ != 0;
    s->wrong += chunk->seq != s->next_seq++;
}

static bool commit(void *ctx, const struct chunk *chunk, void *data)
{
    struct seen *s = ctx;
    struct slot *slot = data;
    enter(s, chunk);
    s->wrong += slot->seq != chunk->seq || slot->len != chunk->len ||
                memcmp(slot->copy, chunk->data, chunk->len) != 0;
    s->text = realloc(s->text, s->len + slot->len + 1);
    if (s->text == NULL)
        exit(1);
    memcpy(s->text + s->len, slot->copy, slot->len);
    s->len += slot->len;
    note(s, (char)('0' + chunk->file));
    if (chunk->seq % 5 == 0)
        usleep(100);
    s->committing--;
    return ++s->commits != s->stop_after;
}

static void failed(void *ctx, const struct chunk *chunk, const struct err *err)
{
    struct seen *s = ctx;
    enter(s, chunk);
    size_t len = strlen(s->failed);
    snprintf(s->failed + len, sizeof s->failed - len, "%s\n", err->text);
    s->failures++;
    note(s, (char)('a' + chunk->file));
    s->committing--;
}

static void slot_free(void *data)
{
    struct slot *slot = data;
    if (slot->seen != NULL)
        slot->seen->slots_freed++;
    free(slot->copy);
}

static struct pump pump_for(struct input *in, struct seen *s)
{
    return (struct pump){.input = in,
                         .threads = s->threads,
                         .ctx = s,
                         .slot_size = sizeof(struct slot),
                         .work = work,
                         .commit = commit,
                         .failed = failed,
                         .slot_free = slot_free};
}

static bool run(struct seen *s, char *const *files, size_t n_files, bool prompt)
{
    struct err err;
    struct input_spec spec = {.files = files,
                              .n_files = n_files,
                              .terminator = '\n',
                              .prompt = prompt,
                              .chunk_len = CHUNK};
    struct input *in = input_open(&spec, &err);
    if (in == NULL)
        return false;
    struct pump pump = pump_for(in, s);
    bool ok = pump_run(&pump, &err);
    if (!ok)
        printf("# %s\n", err.text);
    input_close(in);
    return ok && s->wrong == 0 && s->committing == 0 && s->slots_freed == s->slots_made;
}

static void seen_free(struct seen *s)
{
    free(s->text);
    free(s->order);
}

/* A file of numbered records; its text is put at the end of *all. */
static void make_file(const char *name, unsigned records, char **all, size_t *len)
{
    FILE *f = fopen(name, "w");
    if (f == NULL)
        exit(1);
    for (unsigned i = 0; i < records; i++) {
        char record[100];
        int n = snprintf(record, sizeof record, "%s record %u %0*d\n", name, i, (int)(i % 40), 7);
        fwrite(record, 1, (size_t)n, f);
        *all = realloc(*all, *len + (size_t)n);
        if (*all == NULL)
            exit(1);
        memcpy(*all + *len, record, (size_t)n);
        *len += (size_t)n;
    }
    fclose(f);
}

TEST(chunks_are_committed_in_order)
{
    static char one[] = "one", empty[] = "empty", two[] = "two";
    char *files[] = {one, empty, two}, *all = NULL;
    size_t len = 0;
    make_file(one, 3000, &all, &len);
    make_file(empty, 0, &all, &len);
    make_file(two, 1000, &all, &len);
    for (unsigned threads = 1; threads <= 8; threads++) {
        struct seen s = {.threads = threads};
        CHECK(run(&s, files, 3, false));
        CHECK(s.len == len && memcmp(s.text, all, len) == 0);
        CHECK(s.failures == 0 && s.works == (int)s.commits && s.commits > 100);
        seen_free(&s);
    }
    free(all);
}

TEST(no_input_no_commit)
{
    static char empty[] = "empty";
    char *files[] = {empty}, *all = NULL;
    size_t len = 0;
    make_file(empty, 0, &all, &len);
    for (unsigned threads = 1; threads <= 8; threads += 7) {
        struct seen s = {.threads = threads};
        CHECK(run(&s, files, 1, false));
        CHECK(s.commits == 0 && s.works == 0 && s.failures == 0);
        seen_free(&s);
    }
    free(all);
}

TEST(nothing_is_committed_after_stop)
{
    static char one[] = "one";
    char *files[] = {one}, *all = NULL;
    size_t len = 0;
    make_file(one, 3000, &all, &len);
    for (unsigned threads = 1; threads <= 8; threads++)
        for (size_t after = 1; after <= 22; after += 7) {
            struct seen s = {.threads = threads, .stop_after = after};
            CHECK(run(&s, files, 1, false));
            CHECK(s.commits == after);
            CHECK(s.len > 0 && s.len < len && memcmp(s.text, all, s.len) == 0);
            /* Only what fits into the slots was worked on in vain. */
            CHECK(s.works <= (int)(after + 2 * threads));
            seen_free(&s);
        }
    free(all);
}

TEST(failures_come_in_their_place)
{
    static char one[] = "one", gone[] = "gone", two[] = "two", also_gone[] = "also gone",
                dir[] = ".";
    char *files[] = {gone, one, also_gone, dir, two, gone}, *all = NULL;
    size_t len = 0;
    make_file(one, 60, &all, &len);
    make_file(two, 60, &all, &len);
    for (unsigned threads = 1; threads <= 8; threads++) {
        struct seen s = {.threads = threads};
        CHECK(run(&s, files, 6, false));
        CHECK(s.len == len && memcmp(s.text, all, len) == 0);
        CHECK_STR(s.failed, "cannot open 'gone': No such file or directory (-k gives a key)\n"
                            "cannot open 'also gone': No such file or directory (-k gives a key)\n"
                            "cannot read '.': Is a directory\n"
                            "cannot open 'gone': No such file or directory (-k gives a key)\n");
        size_t ones = strspn(s.order + 1, "1"), twos = strspn(s.order + 1 + ones + 2, "4");
        CHECK(ones > 1 && twos > 1 && s.n_order == ones + twos + 4);
        CHECK(s.order[0] == 'a' && s.order[1 + ones] == 'c' && s.order[2 + ones] == 'd' &&
              s.order[s.n_order - 1] == 'f');
        seen_free(&s);
    }
    free(all);
}

/* Of this process; a sanitizer may have one too. Those that were joined may stay for a while. */
static unsigned count_threads(void)
{
    unsigned n = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *d; tasks != NULL && (d = readdir(tasks)) != NULL;)
        n += d->d_name[0] != '.';
    if (tasks != NULL)
        closedir(tasks);
    return n;
}

static bool commit_alone(void *ctx, const struct chunk *chunk, void *data)
{
    struct seen *s = ctx;
    s->wrong += count_threads() > s->threads_before;
    return commit(ctx, chunk, data);
}

TEST(few_keys_need_no_threads)
{
    static char few[] = "few";
    char *files[] = {few}, *all = NULL;
    struct err err;
    size_t len = 0;
    make_file(few, 10, &all, &len);
    struct seen s = {.threads = 64, .threads_before = count_threads()};
    struct input_spec spec = {.files = files, .n_files = 1, .terminator = '\n'};
    struct input *in = input_open(&spec, &err);
    CHECK(in != NULL && len < INPUT_CHUNK);
    struct pump pump = pump_for(in, &s);
    pump.commit = commit_alone;
    CHECK(pump_run(&pump, &err));
    input_close(in);
    CHECK(s.wrong == 0 && s.commits == 1);
    CHECK(s.len == len && memcmp(s.text, all, len) == 0);
    seen_free(&s);
    free(all);
}

/* The first chunk is worked on by one thread. The others have to meet, each on a thread of its own:
 * if there are too few of them, the alarm ends the test. */
static pthread_barrier_t meeting;

static void work_together(void *ctx, unsigned worker, const struct chunk *chunk, void *data)
{
    if (chunk->seq > 0)
        pthread_barrier_wait(&meeting);
    work(ctx, worker, chunk, data);
}

TEST(many_keys_get_all_threads)
{
    static char name[5][4] = {"m0", "m1", "m2", "m3", "m4"};
    char *files[] = {name[0], name[1], name[2], name[3], name[4]}, *all = NULL;
    struct err err;
    size_t len = 0;
    for (int i = 0; i < 5; i++)
        make_file(files[i], 1, &all, &len);
    struct seen s = {.threads = 4};
    struct input_spec spec = {.files = files, .n_files = 5, .terminator = '\n'};
    struct input *in = input_open(&spec, &err);
    struct pump pump = pump_for(in, &s);
    pump.work = work_together;
    CHECK(in != NULL && pthread_barrier_init(&meeting, NULL, s.threads) == 0);
    alarm(60);
    CHECK(pump_run(&pump, &err));
    alarm(0);
    pthread_barrier_destroy(&meeting);
    input_close(in);
    CHECK(s.wrong == 0 && s.commits == 5);
    CHECK(s.len == len && memcmp(s.text, all, len) == 0);
    seen_free(&s);
    free(all);
}

/* Chunk 1 is committed when all slots are full, and it is not finished before chunk 2 is being
 * committed: by the thread that waits for a slot. */
struct turns {
    atomic_int worked;
    atomic_uint committed; /* begun */
    atomic_bool late;
};

enum { WAITS = 20000 }; /* of 1 ms at least: far longer than a commit takes to begin */

static void count_work(void *ctx, unsigned worker, const struct chunk *chunk, void *data)
{
    struct turns *t = ctx;
    (void)worker;
    (void)chunk;
    (void)data;
    t->worked++;
}

static bool commit_when_full(void *ctx, const struct chunk *chunk, void *data)
{
    struct turns *t = ctx;
    (void)data;
    t->committed++;
    if (chunk->seq != 1)
        return true;
    for (int i = 0; i < WAITS && t->worked < 5; i++)
        usleep(1000);
    usleep(20000); /* the other thread begins to wait */
    return true;
}

static bool finish_beside_commit(void *ctx, const struct chunk *chunk, void *data)
{
    struct turns *t = ctx;
    (void)data;
    if (chunk->seq != 1)
        return true;
    for (int i = 0; i < WAITS && t->committed < 3; i++)
        usleep(1000);
    t->late = t->committed < 3;
    return true;
}

TEST(who_waits_for_a_slot_commits)
{
    static char one[] = "one";
    char *files[] = {one}, *all = NULL;
    size_t len = 0;
    struct err err;
    struct turns t = {0};
    make_file(one, 3000, &all, &len);
    struct input_spec spec = {.files = files, .n_files = 1, .terminator = '\n', .chunk_len = CHUNK};
    struct input *in = input_open(&spec, &err);
    CHECK(in != NULL);
    struct pump pump = {.input = in,
                        .threads = 2,
                        .ctx = &t,
                        .work = count_work,
                        .commit = commit_when_full,
                        .finish = finish_beside_commit};
    CHECK(pump_run(&pump, &err));
    CHECK(!t.late);
    CHECK(t.committed == (unsigned)t.worked && t.worked > 100);
    input_close(in);
    free(all);
}

/* Of records of several megabytes in gzip data, which take longer to use than to read, one at a
 * time is in memory. */
struct large {
    atomic_int alive, most, n;
};

enum { LARGE = 3 << 20, N_LARGE = 8 };

static void count_large(void *ctx, unsigned worker, const struct chunk *chunk, void *data)
{
    struct large *l = ctx;
    (void)worker;
    (void)data;
    int alive = l->alive += chunk->len > LARGE;
    if (alive > l->most)
        l->most = alive;
    l->n += chunk->len > LARGE;
}

static bool use_large(void *ctx, const struct chunk *chunk, void *data)
{
    struct large *l = ctx;
    (void)data;
    usleep(20000); /* others can read meanwhile */
    l->alive -= chunk->len > LARGE;
    return true;
}

static bool commit_any(void *ctx, const struct chunk *chunk, void *data)
{
    (void)ctx;
    (void)chunk;
    (void)data;
    return true;
}

TEST(one_large_record_at_a_time)
{
    static char name[] = "large.gz";
    char *files[] = {name}, *record = malloc(LARGE + 1);
    struct err err;
    struct large l = {0};
    memset(record, 'x', LARGE);
    record[LARGE] = '\n';
    FILE *gz = popen("gzip -1 >large.gz", "w");
    for (int i = 0; i < N_LARGE; i++)
        CHECK(gz != NULL && fwrite(record, LARGE + 1, 1, gz) == 1);
    CHECK(gz != NULL && pclose(gz) == 0);
    free(record);
    struct input_spec spec = {.files = files, .n_files = 1, .terminator = '\n', .gzip = true};
    struct input *in = input_open(&spec, &err);
    CHECK(in != NULL);
    struct pump pump = {.input = in,
                        .threads = 4,
                        .ctx = &l,
                        .work = count_large,
                        .commit = commit_any,
                        .finish = use_large};
    CHECK(pump_run(&pump, &err));
    CHECK(l.n == N_LARGE && l.most == 1 && l.alive == 0);
    input_close(in);
}

/* A writer that says something and then neither goes on nor away: whoever waits for more must not
 * keep a stopped pump from ending. The alarm is for a pump that hangs; it is far longer than any
 * run. */
TEST(stop_does_not_wait_for_input)
{
    for (unsigned threads = 1; threads <= 8; threads++) {
        int ends[2], saved = dup(STDIN_FILENO);
        if (pipe(ends) != 0 || write(ends[1], "a\nb\n", 4) != 4)
            exit(1);
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        alarm(60);
        struct seen s = {.threads = threads, .stop_after = 1};
        CHECK(run(&s, NULL, 0, true));
        CHECK(s.commits == 1 && s.len > 0);
        alarm(0);
        seen_free(&s);
        close(ends[1]);
        dup2(saved, STDIN_FILENO);
        close(saved);
    }
}

static bool commit_and_signal(void *ctx, const struct chunk *chunk, void *data)
{
    if (chunk->seq == 3)
        raise(SIGTERM);
    return commit(ctx, chunk, data);
}

/* In a process of its own, since a signal that was caught stays so. */
static bool signal_ends(unsigned threads, char *const *files, const char *all, size_t len)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct err err;
        struct seen s = {.threads = threads};
        struct input_spec spec = {
            .files = files, .n_files = 1, .terminator = '\n', .chunk_len = CHUNK};
        struct input *in = input_open(&spec, &err);
        struct pump pump = pump_for(in, &s);
        pump.commit = commit_and_signal;
        sig_catch();
        bool ok = in != NULL && pump_run(&pump, &err) && sig_caught() == SIGTERM && s.wrong == 0;
        /* All that was begun is committed, and nothing is left out in between. */
        ok = ok && s.works == (int)s.commits && s.commits >= 4 && s.commits <= 4 + 2 * threads &&
             s.len < len && memcmp(s.text, all, s.len) == 0;
        input_close(in);
        seen_free(&s);
        _exit(!ok);
    }
    int status;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

TEST(a_signal_ends_input_but_loses_nothing_begun)
{
    static char one[] = "one";
    char *files[] = {one}, *all = NULL;
    size_t len = 0;
    make_file(one, 3000, &all, &len);
    for (unsigned threads = 1; threads <= 8; threads++)
        CHECK(signal_ends(threads, files, all, len));
    free(all);
}

int main(void)
{
    if (!scratchdir_enter())
        return 1;
    RUN(chunks_are_committed_in_order);
    RUN(no_input_no_commit);
    RUN(nothing_is_committed_after_stop);
    RUN(failures_come_in_their_place);
    RUN(few_keys_need_no_threads);
    RUN(many_keys_get_all_threads);
    RUN(who_waits_for_a_slot_commits);
    RUN(one_large_record_at_a_time);
    RUN(stop_does_not_wait_for_input);
    RUN(a_signal_ends_input_but_loses_nothing_begun);
    scratchdir_leave();
    return check_done();
}
