/*
 * Input: key files and streams, in chunks of whole records. This module keeps the list of files,
 * opens them and hands out chunks; regular.h, mapped_input.h, stream.h and gzip.h read them.
 *
 *     struct input *in = input_open(&spec, &err);
 *     while ((got = input_next(in, &chunk, &err)) != INPUT_END) ...    // from any thread
 *     input_close(in);
 *
 * Chunk i of a file holds the records that begin in bytes [i * L, (i+1) * L) of it, L being
 * chunk_len, whether it is read from a file, a pipe or out of gzip (not so with `prompt`). A record
 * longer than that makes its chunk as long as it must be, and the next ones empty or left out.
 * Regular files are read by all threads at once, up to the chunk in which the file ended when it
 * was opened; streams by one thread at a time. Large files come in chunks of 512 KiB unless
 * chunk_len is given, and are mapped unless `keep` is set.
 *
 * With `header`, the first records of each file come in a chunk of their own, as long as they are
 * together, and what is said above is of the bytes behind them.
 *
 * A signal (sig.h) is taken for the end of the input, also in the middle of a wait for more of it;
 * a record of which only a part has come is then left out.
 *
 * Input that begins with 1f 8b 08 and no reserved flag is inflated, member after member; a
 * truncated or damaged member, or anything else behind the last, is an error. So is input that
 * begins as other compressors' data does (compressed.h).
 */
#ifndef KEYS_INPUT_H
#define KEYS_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "keys/chunk.h"

struct input_spec {
    char *const *files; /* "-" is standard input; must outlive the input */
    size_t n_files;     /* 0: standard input */
    char terminator;    /* '\n' or 0 */
    bool gzip;          /* recognise it, and refuse what is compressed otherwise */
    bool prompt;        /* deliver what has come as soon as nothing more is ready */
    bool keep;          /* records are used after input_settle, too: nothing is mapped */
    size_t chunk_len;   /* 0: INPUT_CHUNK */
    uint64_t header;    /* records of a file's header */
    bool hint_k;        /* -k could have given a key: see input_fail_open */
    bool secret;        /* what was read is overwritten after use, and nothing is mapped */
    bool prints;        /* refuse the file that standard output goes to */
    dev_t forbid_dev;   /* refuse this file as input: the filter itself; both 0: none */
    ino_t forbid_ino;
};

enum { INPUT_CHUNK = 256 << 10 };

/* For errno: says that the key file cannot be opened. With `hint_k`, also how a key is given, if
 * there is no such file and the name may be a key: it has no '/', or is a URL. Returns false. */
bool input_fail_open(const char *name, bool hint_k, struct err *err);

enum input_got {
    INPUT_CHUNK_READ,
    INPUT_FAILED, /* *err says why; the rest of that file is left out (save chunks that other
                     threads have already begun), the next call goes on with the next file */
    INPUT_END,
};

struct input *input_open(const struct input_spec *spec, struct err *err);
enum input_got input_next(struct input *in, struct chunk *chunk, struct err *err);
void input_close(struct input *in);

/* When the records of a chunk have been looked at: were they what is in the file? A mapped file may
 * have shrunk meanwhile, and then they were zeroes. INPUT_CHUNK_READ: they were; INPUT_FAILED: they
 * were not, *err says why; INPUT_END: they were not, and that has been said. */
enum input_got input_settle(const struct chunk *chunk, struct err *err);

/* From any thread: the input ends here, also for those who wait in input_next. */
void input_stop(struct input *in);

/* Printable name of file i: its path, or "(standard input)" as grep has it. */
const char *input_name(const struct input *in, size_t file);

/* Looks at parts of an input that has not been read. */
struct input_looks {
    unsigned parts;  /* all over the files; they do not overlap */
    size_t part_len; /* at most */
    void (*each)(void *ctx, const char *part, size_t len); /* parts begin and end anywhere */
    void *ctx;
};

/* Looks at files that are not compressed. Returns the bytes in all files; 0 if one of them is no
 * regular file, or none could be looked at. */
uint64_t input_look(const struct input_spec *spec, const struct input_looks *how);

/* Bytes taken from the files so far (compressed ones as stored), and in all; total is 0 when that
 * is not known. For progress. */
void input_progress(const struct input *in, uint64_t *done, uint64_t *total);

#endif
