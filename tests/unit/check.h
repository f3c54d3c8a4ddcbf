/* SPDX-License-Identifier: MIT
 * Unit tests: a program a module, printing TAP.
 *
 *     TEST(folding_is_lossless) { ... CHECK(a == b); CHECK_STR(err.text, "..."); ... }
 *     int main(void) { RUN(folding_is_lossless); return check_done(); }
 *
 * A failed CHECK says where and makes its test fail; the test goes on. MUST(call) is for what
 * says why in `err`.
 */
#ifndef CHECK_H
#define CHECK_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int check_tests, check_failed_tests;
static bool check_ok;
static const char *check_name; /* of the test that runs */

#define TEST(name) static void name(void)

static inline void check_hangs(int sig)
{
    static const char end[] = " did not end in time\n";
    bool said = write(STDOUT_FILENO, "not ok - ", 9) > 0 &&
                write(STDOUT_FILENO, check_name, strlen(check_name)) > 0 &&
                write(STDOUT_FILENO, end, sizeof end - 1) > 0;
    _exit(said ? 1 : sig);
}

/* Is a test with this name to be run? It gets five minutes, on a busy machine, too. */
static inline bool check_begin(const char *name)
{
    const char *wanted = getenv("ONLY");
    if (wanted != NULL && strstr(name, wanted) == NULL)
        return false;
    check_name = name;
    check_ok = true;
    signal(SIGALRM, check_hangs);
    alarm(getenv("SANITIZER") != NULL || getenv("FULL") != NULL ? 1200 : 300);
    return true;
}

#define RUN(name)                                                                                  \
    do {                                                                                           \
        if (!check_begin(#name))                                                                   \
            break;                                                                                 \
        name();                                                                                    \
        check_failed_tests += !check_ok;                                                           \
        printf("%s %d - %s: %s\n", check_ok ? "ok" : "not ok", ++check_tests, __FILE__, #name);    \
        fflush(stdout);                                                                            \
        alarm(0);                                                                                  \
    } while (0)

/* In place of RUN, where a test cannot run; the suite lists it. */
#define SKIP(name, why) printf("ok %d %s: %s # skip %s\n", ++check_tests, __FILE__, #name, why)

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            check_ok = false;                                                                      \
            printf("# %s:%d: failed: %s\n", __FILE__, __LINE__, #cond);                            \
        }                                                                                          \
    } while (0)

/* Says why something failed that should not have, in err.text (err.h). */
static inline bool did(bool ok, const char *why)
{
    if (!ok)
        printf("# %s\n", why);
    return ok;
}

#define MUST(call) CHECK(did((call), err.text))

#define CHECK_STR(got, want)                                                                       \
    do {                                                                                           \
        if (strcmp((got), (want)) != 0) {                                                          \
            check_ok = false;                                                                      \
            printf("# %s:%d: got \"%s\", want \"%s\"\n", __FILE__, __LINE__, (got), (want));       \
        }                                                                                          \
    } while (0)

/* "WHAT: " and the words of this system's library for an error. */
static inline const char *check_errno(const char *what, int error)
{
    static char text[512];
    snprintf(text, sizeof text, "%s: %s", what, strerror(error));
    return text;
}

/* Under a checker, which is 5 to 50 times as slow, are fewer samples enough? Statistics need no
 * checker. */
static inline bool check_is_brief(void)
{
    return getenv("SANITIZER") != NULL && getenv("FULL") == NULL;
}

/* FULL=1, as in `make nightly`: all samples, and inputs as large as they can be. */
static inline bool check_is_full(void)
{
    return getenv("FULL") != NULL;
}

static int check_done(void)
{
    printf("1..%d\n", check_tests);
    return check_failed_tests != 0;
}

#endif
