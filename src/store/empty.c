#include "store/empty.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/num.h"
#include "store/newfile.h"
#include "store/write.h"

void empty_header(struct header *h, const struct key_rule *rule)
{
    *h = (struct header){.epoch = 1,
                         .state = STATE_CLEAN,
                         .hash = HASH_XXH3_64,
                         .seed = rule->seed,
                         .prep = rule->prep};
    build_stamp(h, false);
}

void empty_fixed(struct header *h, const struct bloom *bloom, uint64_t n, double p)
{
    h->n_design = n;
    h->fpr_design = p;
    h->n_layers = 1;
    h->layers[0] = (struct layer){.id = 1, .n_design = n, .fpr_design = p};
    bloom_to(bloom, &h->layers[0]);
}

bool empty_write(int fd, struct header *h, const char *name, struct err *err)
{
    format_place(h);
    struct build_target target = {.header = h, .fd = fd, .name = name};
    for (; target.layer < h->n_layers; target.layer++)
        if (!build_zero_sums(&target, err))
            return false;
    return build_header(h, fd, name, err);
}

bool empty_create(const char *path, struct header *h, struct err *err)
{
    struct newfile nf;
    format_place(h);
    bool ok = newfile_open(&nf, path, false, err);
    if (ok) {
        ok = newfile_reserve(&nf, h->file_len, err) && empty_write(nf.fd, h, path, err) &&
             newfile_commit(&nf, err);
        newfile_close(&nf);
    }
    return ok || access(path, F_OK) == 0;
}

bool empty_open_in_memory(struct filter *f, char path[EMPTY_PATH], struct header *h,
                          struct err *err)
{
    static const char name[] = "a filter in memory";
    format_place(h);
    struct sysinfo info;
    if (sysinfo(&info) == 0 && h->file_len / info.mem_unit > info.totalram) {
        char need[NUM_TEXT];
        return fail(err, "cannot make %s: %s are needed", name,
                    num_show_bytes(need, h->file_len));
    }
    int fd = memfd_create("seen", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)h->file_len) != 0) {
        if (fd >= 0)
            close(fd);
        return fail_errno(err, "cannot make %s", name);
    }
    /* The descriptor stays open while the process lives, or the path would mean nothing. */
    snprintf(path, EMPTY_PATH, "/proc/self/fd/%d", fd);
    return empty_write(fd, h, name, err) && filter_open(f, path, FILTER_WRITE, err);
}
