/* SPDX-License-Identifier: MIT */
#include "base/disk.h"
#include "file/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"
#include "scratchdir.h"
#include "file/lock.h"
#include "port/port.h"

/* Locks fail if told to, the first so many times. */
static int lock_errno, lock_failures;
static mode_t lock_mode; /* of the file that was locked last: when it was new */

int fcntl(int fd, int command, ...)
{
    struct stat st;
    va_list ap;
    va_start(ap, command);
    const struct flock *l = va_arg(ap, void *);
    va_end(ap);
    if ((command == F_OFD_SETLK || command == F_SETLK) && l->l_type == F_WRLCK) {
        lock_mode = fstat(fd, &st) == 0 ? st.st_mode & 07777 : 07777;
        if (lock_failures > 0) {
            lock_failures--;
            errno = lock_errno;
            return -1;
        }
    }
#ifdef SYS_fcntl64
    return (int)syscall(SYS_fcntl64, fd, command, l);
#else
    return (int)syscall(SYS_fcntl, fd, command, l);
#endif
}

static int equal_draws; /* how many draws of random numbers still give zeros */

ssize_t getrandom(void *to, size_t len, unsigned flags)
{
    if (equal_draws == 0)
        return syscall(SYS_getrandom, to, len, flags);
    equal_draws--;
    memset(to, 0, len);
    return (ssize_t)len;
}

/* If these are set, no owner can be set, or no mode. */
static int owner_errno, mode_errno;

int fchown(int fd, uid_t owner, gid_t group)
{
    (void)fd, (void)owner, (void)group;
    errno = owner_errno;
    return -(owner_errno != 0);
}

int fchmod(int fd, mode_t mode)
{
    errno = mode_errno;
    return mode_errno != 0 ? -1 : (int)syscall(SYS_fchmod, fd, mode);
}

static const char magic[] = "\x89seen\r\n\x1a";

static void put_file(const char *name, const char *text, mode_t mode)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK(fchmod(fd, mode) == 0);
    close(fd);
}

static bool holds(const char *name, const char *text)
{
    char got[100] = "";
    int fd = open(name, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, got, sizeof got - 1) : -1;
    if (fd >= 0)
        close(fd);
    return n == (ssize_t)strlen(text) && memcmp(got, text, (size_t)n) == 0;
}

static bool make(const char *path, bool replace, const char *text, struct err *err)
{
    struct newfile nf;
    if (!newfile_open(&nf, path, replace, err))
        return false;
    bool ok = disk_write(nf.fd, text, strlen(text), 0, path, err) && newfile_commit(&nf, err);
    newfile_close(&nf);
    return ok;
}

TEST(a_file_appears_complete)
{
    struct newfile nf;
    struct err err;
    struct stat st;
    mode_t old = umask(027);
    CHECK(newfile_open(&nf, "a", false, &err));
    CHECK(access("a", F_OK) != 0);
    CHECK(scratchdir_files() == 1);
    CHECK(disk_write(nf.fd, "text", 4, 0, "a", &err));
    CHECK(newfile_commit(&nf, &err));
    newfile_close(&nf);
    umask(old);
    CHECK(holds("a", "text"));
    CHECK(stat("a", &st) == 0 && (st.st_mode & 07777) == 0640 && st.st_nlink == 1);
    CHECK(scratchdir_files() == 1);
}

TEST(a_file_that_takes_the_place_of_a_secret_one_is_never_open_to_others)
{
    struct newfile nf;
    struct err err;
    put_file("a", magic, 0600);
    MUST(newfile_open(&nf, "a", true, &err));
    CHECK(lock_mode == 0600);
    newfile_close(&nf);
}

TEST(without_a_commit_nothing_is_left)
{
    struct newfile nf;
    struct err err;
    CHECK(newfile_open(&nf, "a", false, &err));
    newfile_close(&nf);
    CHECK(scratchdir_files() == 0);
    put_file("a", magic, 0600);
    CHECK(newfile_open(&nf, "a", true, &err));
    CHECK(disk_write(nf.fd, "text", 4, 0, "a", &err));
    newfile_close(&nf);
    CHECK(scratchdir_files() == 1 && holds("a", magic));
}

TEST(what_is_not_open_can_be_closed)
{
    struct newfile nf = {0};
    struct err err;
    int at_zero = fcntl(0, F_GETFD);
    newfile_close(&nf);
    memset(&nf, 1, sizeof nf);
    CHECK(!newfile_open(&nf, "-", false, &err));
    newfile_close(&nf);
    CHECK(!newfile_open(&nf, "none/a", false, &err));
    newfile_close(&nf);
    CHECK(fcntl(0, F_GETFD) == at_zero);
}

/* A filter that took the place of an empty file meanwhile stays. */
TEST(an_empty_file_is_replaced_while_it_is_empty)
{
    struct newfile nf;
    struct err err;
    put_file("a", "", 0600);
    CHECK(make("a", false, "new", &err));
    CHECK(holds("a", "new"));
    put_file("a", "", 0600);
    CHECK(newfile_open(&nf, "a", false, &err));
    put_file("b", magic, 0600);
    CHECK(rename("b", "a") == 0);
    CHECK(!newfile_commit(&nf, &err));
    CHECK_STR(err.text, "'a' exists (--force replaces it)");
    newfile_close(&nf);
    CHECK(holds("a", magic));
}

TEST(a_file_of_another_program_takes_the_place_of_no_empty_one)
{
    struct newfile nf;
    struct err err;
    put_file("a", "", 0600);
    CHECK(!newfile_open_foreign(&nf, "a", false, &err));
    CHECK_STR(err.text, "'a' exists (--force replaces it)");
}

TEST(existing_files_are_replaced_only_on_request)
{
    struct err err;
    put_file("a", magic, 03604);
    CHECK(!make("a", false, "new", &err));
    CHECK_STR(err.text, "'a' exists (--force replaces it)");
    CHECK(holds("a", magic));
    struct stat before, after;
    CHECK(stat("a", &before) == 0);
    CHECK(make("a", true, "new", &err));
    CHECK(stat("a", &after) == 0 && before.st_ino != after.st_ino);
    CHECK((after.st_mode & 07777) == 03604);
    CHECK(holds("a", "new") && scratchdir_files() == 1);
    put_file("empty", "", 0600);
    CHECK(make("empty", true, "new", &err) && holds("empty", "new"));
    CHECK(make("fresh", true, "new", &err) && holds("fresh", "new"));
}

TEST(what_is_not_a_filter_is_never_replaced)
{
    struct err err;
    put_file("letter", "Dear reader", 0600);
    CHECK(!make("letter", true, "new", &err));
    CHECK_STR(err.text, "'letter' exists and is not a seen filter: not replaced");
    CHECK(holds("letter", "Dear reader"));
    CHECK(mkfifo("fifo", 0600) == 0);
    CHECK(!make("fifo", true, "new", &err));
    CHECK_STR(err.text, "'fifo' exists and is not a regular file");
    CHECK(!make("./", true, "new", &err));
    CHECK_STR(err.text, "cannot create './': Is a directory");
    CHECK(!make("", true, "new", &err));
    CHECK_STR(err.text, "cannot create '': No such file or directory");
    CHECK(!make("no/dir", true, "new", &err));
    CHECK_STR(err.text, "cannot create 'no/dir': No such file or directory");
    CHECK(scratchdir_files() == 2);
}

TEST(owner_and_mode_are_kept_where_permitted)
{
    static const int refusals[] = {EPERM, EOPNOTSUPP, EINVAL, ENOSYS, EIO};
    struct newfile nf;
    struct err err;
    put_file("f", magic, 0640);
    for (size_t i = 0; i < 5; i++) {
        owner_errno = refusals[i];
        CHECK(newfile_open(&nf, "f", true, &err) == (i < 4));
        newfile_close(&nf);
    }
    CHECK(strncmp(err.text, "cannot set the owner of 'f': ", 29) == 0);
    owner_errno = 0;
    for (size_t i = 0; i < 5; i++) {
        mode_errno = refusals[i];
        CHECK(newfile_open(&nf, "f", true, &err) == (i < 2));
        newfile_close(&nf);
    }
    CHECK(strncmp(err.text, "cannot set the mode of 'f': ", 28) == 0);
    mode_errno = 0;
    CHECK(holds("f", magic));
    unlink("f");
}

TEST(symbolic_links_are_followed)
{
    struct err err;
    put_file("target", magic, 0600);
    CHECK(symlink("target", "link") == 0 && symlink("link", "link2") == 0);
    CHECK(make("link2", true, "new", &err) && holds("target", "new"));
    struct stat st;
    CHECK(lstat("link", &st) == 0 && S_ISLNK(st.st_mode));
    CHECK(symlink("later", "dangling") == 0);
    CHECK(make("dangling", false, "new", &err) && holds("later", "new"));
    CHECK(lstat("dangling", &st) == 0 && S_ISLNK(st.st_mode));
    CHECK(symlink("circle", "circle") == 0);
    CHECK(!make("circle", true, "new", &err));
    CHECK_STR(err.text, check_errno("cannot create 'circle'", ELOOP));
}

TEST(files_that_appear_or_go_meanwhile_are_noticed)
{
    struct newfile nf;
    struct err err;
    CHECK(newfile_open(&nf, "a", false, &err));
    put_file("a", magic, 0600);
    CHECK(!newfile_commit(&nf, &err));
    CHECK_STR(err.text, "'a' exists (--force replaces it)");
    newfile_close(&nf);
    CHECK(holds("a", magic) && scratchdir_files() == 1);

    /* With replace: what has appeared is replaced if it may be, and only then. Its mode stays. */
    struct stat st;
    unlink("a");
    CHECK(newfile_open(&nf, "a", true, &err));
    put_file("a", magic, 0600);
    CHECK(newfile_commit(&nf, &err));
    newfile_close(&nf);
    CHECK(holds("a", "") && stat("a", &st) == 0 && (st.st_mode & 07777) == 0600);
    unlink("a");
    CHECK(newfile_open(&nf, "a", true, &err));
    put_file("a", "a letter", 0600);
    CHECK(!newfile_commit(&nf, &err));
    newfile_close(&nf);
    CHECK(holds("a", "a letter"));

    /* And if it has gone, or has been replaced, that is no hindrance. */
    put_file("b", magic, 0600);
    CHECK(newfile_open(&nf, "b", true, &err));
    unlink("b");
    CHECK(newfile_commit(&nf, &err));
    newfile_close(&nf);
    put_file("b", magic, 0600);
    put_file("c", magic, 0600);
    CHECK(newfile_open(&nf, "b", true, &err));
    CHECK(rename("c", "b") == 0);
    CHECK(newfile_commit(&nf, &err));
    newfile_close(&nf);
    CHECK(holds("b", "") && scratchdir_files() == 2);

    /* Unless it is held because the new one is made of it. */
    put_file("b", magic, 0600);
    put_file("c", magic, 0600);
    CHECK(newfile_open(&nf, "b", true, &err) && newfile_hold(&nf, &err));
    CHECK(rename("c", "b") == 0);
    CHECK(!newfile_commit(&nf, &err));
    CHECK_STR(err.text, "'b' was replaced meanwhile");
    newfile_close(&nf);
    CHECK(holds("b", magic) && scratchdir_files() == 2);
}

TEST(a_temporary_name_that_is_taken_is_drawn_anew)
{
    struct newfile a, b;
    struct err err;
    equal_draws = 6;
    CHECK(newfile_open(&a, "a", false, &err) && newfile_open(&b, "a", false, &err));
    CHECK(strcmp(a.temp, b.temp) != 0);
#ifndef PORT_PLAIN /* it has its numbers from elsewhere */
    CHECK(equal_draws == 0);
#endif
    equal_draws = 0;
    CHECK(newfile_commit(&b, &err));
    newfile_close(&a);
    newfile_close(&b);
    CHECK(scratchdir_files() == 1);
}

/* Writers stay locked out from before the rename until after. */
TEST(the_old_file_is_locked_through_the_rename)
{
    struct err err;
    struct stat before, after;
    int ready[2];
    put_file("a", magic, 0600);
    CHECK(stat("a", &before) == 0 && pipe(ready) == 0);
    int fd = open("a", O_RDWR);
    CHECK(lock_turn(fd, "a", true));
    pid_t child = fork();
    if (child == 0) {
        struct newfile nf;
        close(fd); /* the lock is that of all copies of fd */
        bool ok = newfile_open(&nf, "a", true, &err) && write(ready[1], "", 1) == 1 &&
                  newfile_commit(&nf, &err);
        newfile_close(&nf);
        _exit(!ok);
    }
    char byte;
    CHECK(read(ready[0], &byte, 1) == 1);
    usleep(20000); /* time for a commit that does not wait to show itself */
    CHECK(stat("a", &after) == 0 && before.st_ino == after.st_ino);
    close(fd);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(stat("a", &after) == 0 && before.st_ino != after.st_ino);
    close(ready[0]);
    close(ready[1]);
}

/* Starts a process that makes a new file, and ends it; returns the signal that it died of. */
static int killed_by(int number, int *files_meanwhile)
{
    int ready[2], status = 0;
    char byte;
    CHECK(pipe(ready) == 0);
    pid_t child = fork();
    if (child == 0) {
        struct newfile nf;
        struct err err;
        if (newfile_open(&nf, "a", false, &err) && write(ready[1], "", 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    close(ready[1]);
    CHECK(read(ready[0], &byte, 1) == 1);
    *files_meanwhile = scratchdir_files();
    kill(child, number);
    CHECK(waitpid(child, &status, 0) == child);
    close(ready[0]);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(a_signal_leaves_nothing_behind)
{
    int n;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < 3; i++) {
        CHECK(killed_by(numbers[i], &n) == numbers[i]);
        CHECK(n == 1 && scratchdir_files() == 0);
    }
}

TEST(what_a_killed_process_leaves_is_removed_by_the_next)
{
    struct newfile nf, other;
    struct err err;
    int n;
    CHECK(killed_by(SIGKILL, &n) == SIGKILL);
    CHECK(scratchdir_files() == 1);
    /* Not dead, or not ours: */
    put_file(".a.seen-tmp", "", 0600);
    put_file(".ab.abcdef.seen-tmp", "", 0600);
    put_file(".a.abcdefg.seen-tmp", "", 0600);
    CHECK(newfile_open(&nf, "a", false, &err));
    CHECK(scratchdir_files() == 3 + 1);
    CHECK(newfile_open(&other, "a", false, &err));
    CHECK(scratchdir_files() == 3 + 2);
    CHECK(newfile_commit(&nf, &err));
    newfile_close(&nf);
    newfile_close(&other);
    CHECK(scratchdir_files() == 4);
}

TEST(names_may_be_as_long_as_names_can_be)
{
    struct err err;
    char name[NAME_MAX + 2];
    memset(name, 'n', sizeof name);
    name[NAME_MAX] = '\0';
    CHECK(make(name, false, magic, &err));
    CHECK(make(name, true, "new", &err) && holds(name, "new"));
    name[NAME_MAX] = 'n';
    name[NAME_MAX + 1] = '\0';
    CHECK(!make(name, false, magic, &err));
    CHECK(strstr(err.text, check_errno("", ENAMETOOLONG)) != NULL);
    CHECK(scratchdir_files() == 1);
}

TEST(a_temporary_file_that_cannot_be_locked_is_removed)
{
    struct newfile nf;
    struct err err;
    lock_errno = ENOLCK;
    lock_failures = 1000;
    CHECK(!newfile_open(&nf, "a", false, &err));
    CHECK_STR(err.text, check_errno("cannot create 'a'", ENOLCK));
    CHECK(lock_failures == 1000 - 1);
    CHECK(scratchdir_files() == 0);
    /* Another process holds it, to remove it. */
    lock_errno = EAGAIN;
    lock_failures = 3;
    CHECK(newfile_open(&nf, "a", false, &err));
    CHECK(scratchdir_files() == 1);
    newfile_close(&nf);
    CHECK(scratchdir_files() == 0);
    lock_failures = 0;
}

TEST(space_is_reserved_or_missed_in_time)
{
    struct newfile nf;
    struct err err;
    struct stat st;
    CHECK(newfile_open(&nf, "a", false, &err));
    CHECK(newfile_reserve(&nf, 100000, 100000, &err));
    CHECK(fstat(nf.fd, &st) == 0 && st.st_size == 100000);
    CHECK(st.st_blocks * 512 >= 100000 || !port_reserve(nf.fd, 0, 100000));
    CHECK(!newfile_reserve(&nf, (uint64_t)1 << 60, (uint64_t)1 << 60, &err));
    CHECK(strncmp(err.text, "cannot create 'a': 1152921504606846976 bytes are needed, ", 57) == 0);
    CHECK(!newfile_reserve(&nf, UINT64_MAX, UINT64_MAX, &err));
    CHECK(strncmp(err.text, "cannot create 'a': 18446744073709551615 bytes are needed, ", 58) == 0);
    newfile_close(&nf);
}

TEST(writes_fail_with_a_name)
{
    struct err err;
    put_file("a", "", 0600);
    int fd = open("a", O_RDONLY);
    CHECK(!disk_write(fd, "x", 1, 0, "a", &err));
    CHECK_STR(err.text, "cannot write 'a': Bad file descriptor");
    CHECK(disk_write(fd, "x", 0, 0, "a", &err));
    close(fd);
}

TEST(scratch_has_no_name)
{
    struct err err;
    int before = scratchdir_files(), fd = disk_scratch(".", &err);
    CHECK(fd >= 0 && scratchdir_files() == before);
    CHECK(disk_write(fd, "x", 1, (uint64_t)1 << 32, "scratch", &err));
    close(fd);
    CHECK(disk_scratch("nowhere", &err) < 0);
    CHECK_STR(err.text, "cannot create a scratch file in 'nowhere': No such file or directory");
    uint64_t bytes = 0;
    CHECK(disk_space(".", &bytes, &err) && bytes > 0);
    CHECK(!disk_space("nowhere", &bytes, &err));
}

TEST(directories_of_paths)
{
    static const char *const paths[][2] = {{"a", "."},    {"a/b", "a"}, {"/a", "/"},
                                           {"a//b", "a"}, {"//a", "/"}, {"/a/b/c", "/a/b"},
                                           {"./a", "."},  {"a/", "a"}};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char *dir = disk_dir_of(paths[i][0]);
        CHECK_STR(dir, paths[i][1]);
        free(dir);
    }
}

int main(void)
{
    if (!scratchdir_enter())
        return 1;
    RUN_CLEAN(a_file_appears_complete);
    RUN_CLEAN(a_file_that_takes_the_place_of_a_secret_one_is_never_open_to_others);
    RUN_CLEAN(without_a_commit_nothing_is_left);
    RUN_CLEAN(what_is_not_open_can_be_closed);
    RUN_CLEAN(an_empty_file_is_replaced_while_it_is_empty);
    RUN_CLEAN(a_file_of_another_program_takes_the_place_of_no_empty_one);
    RUN_CLEAN(existing_files_are_replaced_only_on_request);
    RUN_CLEAN(what_is_not_a_filter_is_never_replaced);
    RUN_CLEAN(owner_and_mode_are_kept_where_permitted);
    RUN_CLEAN(symbolic_links_are_followed);
    RUN_CLEAN(files_that_appear_or_go_meanwhile_are_noticed);
    RUN_CLEAN(a_temporary_name_that_is_taken_is_drawn_anew);
    RUN_CLEAN(the_old_file_is_locked_through_the_rename);
    RUN_CLEAN(a_signal_leaves_nothing_behind);
    RUN_CLEAN(what_a_killed_process_leaves_is_removed_by_the_next);
    RUN_CLEAN(a_temporary_file_that_cannot_be_locked_is_removed);
    RUN_CLEAN(names_may_be_as_long_as_names_can_be);
    RUN_CLEAN(space_is_reserved_or_missed_in_time);
    RUN_CLEAN(writes_fail_with_a_name);
    RUN_CLEAN(scratch_has_no_name);
    RUN_CLEAN(directories_of_paths);
    scratchdir_leave();
    return check_done();
}
