#include "keys/source.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <unistd.h>

#include "base/sig.h"

/* A signal may be taken by a thread other than the one that waits for input. The waiting thread
 * notices it within this time. The same holds for input_stop. */
enum { STOP_POLL_MS = 100 };

bool source_fail_memory(const struct source *src, struct err *err)
{
    return fail(err, "out of memory for a long record in '%s'", src->name);
}

bool source_fail_read(const struct source *src, struct err *err)
{
    return fail_errno(err, "cannot read '%s'", src->name);
}

void source_count(const struct source *src, size_t n)
{
    atomic_fetch_add_explicit(src->done, n, memory_order_relaxed);
}

size_t source_read(const struct source *src, void *to, size_t capacity, bool wait,
                   enum source_end *end, struct err *why)
{
    while (*end == SOURCE_GOES_ON) {
        if (src->most != 0 && *src->done > src->most) {
            fail(why, "'%s' goes on after %" PRIu64 " bytes, more than its contents take",
                 src->name, src->most);
            *end = SOURCE_BROKEN;
            return 0;
        }
        struct pollfd p = {.fd = src->fd, .events = POLLIN};
        int ready = poll(&p, 1, wait ? STOP_POLL_MS : 0);
        if (*src->stopped || sig_caught()) {
            *end = SOURCE_STOPPED;
        } else if (ready > 0) {
            ssize_t n = read(src->fd, to, capacity);
            if (n > 0) {
                source_count(src, (size_t)n);
                return (size_t)n;
            }
            if (n == 0) {
                *end = SOURCE_ENDED;
            } else if (errno != EINTR && errno != EAGAIN) {
                *end = SOURCE_BROKEN;
                source_fail_read(src, why);
            }
        } else if (!wait && ready == 0) {
            return 0;
        }
    }
    return 0;
}
