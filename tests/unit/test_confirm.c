/* Lists too large for other tests. */
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "check.h"
#include "keys/confirm.h"
#include "scratchdir.h"

/* Empty records and, behind 4 GiB of them, one more. Where it cannot be mapped, that is said; its
 * beginning is never taken for all of it. */
TEST(a_list_of_more_than_4_GiB)
{
    const off_t size = (off_t)(UINT64_C(4) << 30) + 4096;
    int fd = open("list", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, size) == 0 && pwrite(fd, "a", 2, size) == 2);
    close(fd);
    const struct key_rule rule = {.terminator = 0, .given = true};
    struct confirm c;
    struct err err;
    bool open = confirm_open(&c, "list", &rule, &err);
    CHECK(open == (sizeof(size_t) > 4));
    if (open) {
        static const char keys[] = "a\0b"; /* and a NUL */
        struct batch *b = batch_new(&rule);
        CHECK(batch_take(b, (const char *const[]){keys, keys + 2, keys + 4}, 2));
        CHECK(confirm_has(&c, b, 0) && !confirm_has(&c, b, 1));
        CHECK(confirm_sound(&c, &err));
        batch_free(b);
        confirm_close(&c);
    } else {
        CHECK_STR(err.text, "cannot map 'list': File too large");
    }
    unlink("list");
}

int main(void)
{
    if (!scratchdir_enter())
        return 1;
    RUN(a_list_of_more_than_4_GiB);
    scratchdir_leave();
    return check_done();
}
