/* SPDX-License-Identifier: MIT */
#include "file/secret.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "port/port.h"
#include "base/bytes.h"
#include "base/disk.h"
#include "file/format.h"
#include "file/newfile.h"

#ifdef SEEN_SODIUM
#include <sodium.h>

const char *secret_sodium_version(void)
{
    return sodium_version_string();
}

static void no_bytes(void *buf, size_t len)
{
    memset(buf, 0, len);
}

/* libsodium draws random bytes when it starts, and ends the process where there are none. It needs
 * them only for functions that are not used here: secret_make draws its own. */
static struct randombytes_implementation no_random = {.buf = no_bytes};

static bool is_possible(const char *path, struct err *err)
{
    randombytes_set_implementation(&no_random);
    return sodium_init() >= 0 ||
           fail(err, "cannot use secret '%s': libsodium does not start", path);
}

/* BLAKE2b of 16 bytes, with the secret as its key; `purpose` of at most 16 bytes keeps the outputs
 * for different uses apart. */
static void derive(const struct secret *secret, const char *purpose, const uint8_t *data,
                   size_t len, uint8_t out[HASH_MARK])
{
    uint8_t personal[crypto_generichash_blake2b_PERSONALBYTES] = {0};
    memcpy(personal, purpose, strnlen(purpose, sizeof personal));
    crypto_generichash_blake2b_salt_personal(out, HASH_MARK, data, len, secret->bytes,
                                             sizeof secret->bytes, NULL, personal);
}
#else
const char *secret_sodium_version(void)
{
    return NULL;
}

static bool is_possible(const char *path, struct err *err)
{
    return fail(err,
                "cannot use secret '%s': this program was built without libsodium (on Debian, "
                "install libsodium-dev and build it again)",
                path);
}

/* Never called: no secret was read. */
static void derive(const struct secret *secret, const char *purpose, const uint8_t *data,
                   size_t len, uint8_t out[HASH_MARK])
{
    (void)secret, (void)purpose, (void)data, (void)len;
    memset(out, 0, HASH_MARK);
}
#endif

_Static_assert((int)HASH_MARK == (int)HASH_KEY, "derive makes marks and keys");

/* Why a secret can be guessed; NULL: it may be random. Of random ones, one in 5e13 is all
 * printable, (95 / 256)^32, and next to none is one byte repeated. */
static const char *weakness(const struct secret *secret)
{
    bool text = true, equal = true;
    for (size_t i = 0; i < SECRET_LEN; i++) {
        text &= secret->bytes[i] >= ' ' && secret->bytes[i] <= '~';
        equal &= secret->bytes[i] == secret->bytes[0];
    }
    return equal ? "one byte repeated" : text ? "text" : NULL;
}

/* Does it belong to another user than this one and root? */
static bool is_foreign(const struct stat *st)
{
    return st->st_uid != geteuid() && st->st_uid != 0;
}

/* Is it the group that systems with an umask of 002 give to each user: of the user's name, and
 * without other members? */
static bool is_private_group(gid_t id)
{
    const struct passwd *user = getpwuid(geteuid());
    const struct group *group = user != NULL ? getgrgid(id) : NULL;
    return group != NULL && strcmp(group->gr_name, user->pw_name) == 0 &&
           (group->gr_mem[0] == NULL ||
            (strcmp(group->gr_mem[0], user->pw_name) == 0 && group->gr_mem[1] == NULL));
}

/* May another user give the name to another file? In a sticky directory, only its owner and that of
 * the file may. */
static bool is_replaceable(const char *path, bool *yes)
{
    struct stat st;
    char *real = realpath(path, NULL), *dir = real != NULL ? disk_dir_of(real) : NULL;
    bool ok = dir != NULL && stat(dir, &st) == 0;
    bool others =
        ok && ((st.st_mode & 02) != 0 || ((st.st_mode & 020) != 0 && !is_private_group(st.st_gid)));
    *yes = ok && (is_foreign(&st) || (others && (st.st_mode & S_ISVTX) == 0));
    free(dir);
    free(real);
    return ok;
}

/* Is a secret of this status this user's own? A pipe is whose it may be, and a file without a name
 * is not found by it. */
static bool check_owner(const struct stat *st, const char *path, struct err *err)
{
    bool replaceable;
    if (!S_ISREG(st->st_mode))
        return true;
    if (is_foreign(st))
        return fail(err, "secret '%s' belongs to another user, who can read and change it", path);
    if (st->st_nlink == 0)
        return true;
    if (!is_replaceable(path, &replaceable))
        return fail_errno(err, "cannot look at the directory of secret '%s'", path);
    return !replaceable ||
           fail(err,
                "other users can replace secret '%s': its directory must be writable only for you",
                path);
}

static bool read_open(struct secret *secret, int fd, const char *path, bool *others,
                      struct err *err)
{
    uint8_t buf[SECRET_LEN + 1];
    struct stat st;
    ssize_t n = fstat(fd, &st) == 0 ? disk_read_next(fd, buf, sizeof buf) : -1;
    memcpy(secret->bytes, buf, sizeof secret->bytes);
    port_wipe(buf, sizeof buf);
    *others = n >= 0 && S_ISREG(st.st_mode) && (st.st_mode & 066) != 0;
    if (n < 0)
        return fail_errno(err, "cannot read secret '%s'", path);
    if (!check_owner(&st, path, err))
        return false;
    if (n > SECRET_LEN)
        return fail(err, "'%s' is not a valid secret: it is longer than %d bytes", path,
                    SECRET_LEN);
    if (n < SECRET_LEN)
        return fail(err, "'%s' is not a valid secret: it has %d bytes, not %d", path, (int)n,
                    SECRET_LEN);
    const char *weak = weakness(secret);
    return weak == NULL ||
           fail(
               err,
               "'%s' is not a valid secret: it is %s, which can be guessed; --new-secret makes one",
               path, weak);
}

bool secret_read(struct secret *secret, const char *path, bool *others, struct err *err)
{
    *others = false;
    if (!is_possible(path, err))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return fail_errno(err, "cannot open secret '%s'", path);
    bool ok = read_open(secret, fd, path, others, err);
    if (!ok)
        secret_wipe(secret);
    close(fd);
    return ok;
}

bool secret_make(const char *path, struct err *err)
{
    struct newfile file;
    struct secret secret;
    if (!is_possible(path, err))
        return false;
    /* No other user may open the file while it is still empty and read the secret later. */
    mode_t mask = umask(077);
    bool ok = newfile_open_foreign(&file, path, false, err);
    umask(mask);
    if (!ok)
        return false;
    ok = (port_random(secret.bytes, sizeof secret.bytes) ||
          fail_errno(err, "cannot get random numbers from the system")) &&
         disk_write(file.fd, secret.bytes, sizeof secret.bytes, 0, path, err) &&
         newfile_commit(&file, err);
    secret_wipe(&secret);
    newfile_close(&file);
    return ok;
}

void secret_seed(const struct secret *secret, struct hash_seed *seed)
{
    uint8_t number[8];
    put_le64(number, seed->number);
    derive(secret, "seen siphash-2-4", number, sizeof number, seed->key);
}

void secret_mark(const struct secret *secret, const struct hash_fn *hash, uint64_t number,
                 uint32_t prep, struct hash_mark *mark)
{
    uint8_t fields[16];
    put_le32(fields, hash->id);
    put_le32(fields + 4, prep);
    put_le64(fields + 8, number);
    derive(secret, "seen secret id", NULL, 0, mark->id);
    derive(secret, "seen header", fields, sizeof fields, mark->proof);
}

bool secret_check(const struct secret *secret, const struct header *h, const char *path,
                  struct err *err)
{
    struct hash_mark mark;
    secret_mark(secret, h->hash, h->seed, h->prep, &mark);
    if (memcmp(mark.id, h->secret.id, sizeof mark.id) != 0) {
        char given[SECRET_ID_TEXT], wanted[SECRET_ID_TEXT];
        secret_id_text(&mark, given);
        secret_id_text(&h->secret, wanted);
        return fail(err, "is not the secret of '%s': its identifier is %s, the filter needs %s",
                    path, given, wanted);
    }
    return memcmp(mark.proof, h->secret.proof, sizeof mark.proof) == 0 ||
           fail(err,
                "is the secret that '%s' names, but its header was not signed with it: the filter "
                "is forged",
                path);
}

void secret_id_text(const struct hash_mark *mark, char text[SECRET_ID_TEXT])
{
    for (size_t i = 0; i < sizeof mark->id; i++)
        snprintf(text + 2 * i, 3, "%02x", mark->id[i]);
}

void secret_wipe(struct secret *secret)
{
    port_wipe(secret, sizeof *secret);
}
