/* SPDX-License-Identifier: MIT */
#include "file/slot.h"

#include <string.h>
#include <time.h>

#include "port/port.h"
#include "base/disk.h"
#include "file/lock.h"

/* Chooses between the two slots. An intact slot counts even if its contents are refused: the other
 * slot may describe an older state of the file. */
static bool choose_slot(const uint8_t *buf, size_t got, struct header *h, bool *slot_damaged,
                        struct err *err)
{
    struct header b = {0};
    struct err b_err;
    size_t a_len = got < FORMAT_PAGE ? got : FORMAT_PAGE;
    bool a_ok = format_decode(buf, a_len, h, err);
    *slot_damaged = false;
    if (a_ok && format_is_immutable(h))
        return true;
    bool b_ok = format_decode(buf + FORMAT_SLOT_B, got - a_len, &b, &b_err);
    if (b_ok && format_is_immutable(&b)) {
        b_ok = false;
        b.epoch = 0;
    }
    if (a_ok && b_ok && memcmp(h->id, b.id, sizeof b.id) != 0)
        return fail(err, "is damaged: its two headers belong to different files");
    *slot_damaged = (h->epoch == 0) != (b.epoch == 0);
    if (b.epoch <= h->epoch)
        return a_ok;
    *h = b;
    if (!b_ok)
        *err = b_err;
    return b_ok;
}

bool slot_read(int fd, struct header *h, bool *slot_damaged, struct err *err)
{
    uint8_t buf[2 * FORMAT_PAGE];
    size_t got;
    memset(h, 0, sizeof *h);
    for (int tries = 0;; tries++) {
        if (!disk_read(fd, buf, sizeof buf, 0, &got))
            return fail_errno(err, "cannot be read");
        bool ok = choose_slot(buf, got, h, slot_damaged, err);
        /* A slot that seems damaged may be in the middle of a write. */
        if (!*slot_damaged || tries == 3)
            return ok;
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
}

bool slot_read_state(int fd, const char *path, struct slot_state *now, struct err *err)
{
    struct stat before, after;
    struct err why;
    bool ok;
    if (fstat(fd, &after) != 0)
        return fail_errno(err, "cannot look at '%s'", path);
    for (int tries = 0; tries < 4; tries++) {
        before = after;
        ok = slot_read(fd, &now->header, &now->slot_damaged, &why);
        now->settled = !ok || format_is_immutable(&now->header) ||
                       now->header.state != STATE_CLEAN || !lock_alive(fd);
        if (fstat(fd, &after) != 0)
            return fail_errno(err, "cannot look at '%s'", path);
        if (disk_same_time(&before.port_modified, &after.port_modified) &&
            disk_same_time(&before.port_changed, &after.port_changed))
            break;
    }
    now->status = after;
    return ok || fail(err, "'%s' %s", path, why.text);
}
