/* SPDX-License-Identifier: MIT
 * Input: key files and streams, in chunks of whole records. This module keeps the list of files,
 * opens them and hands out chunks; stream.h and gzip.h read those that are not plain files.
 *
 *     struct input *in = input_open(&spec, &err);
 *     while ((got = input_next(in, &chunk, &err)) != INPUT_END) ...    // from any thread
 *     input_close(in);
 *
 * Chunk i of a file holds the records that begin in its bytes [i * L, (i+1) * L), where L is
 * chunk_len. This is the same for files, pipes and gzip data, except with `prompt`. A record longer
 * than L makes its chunk longer; the chunks after it are empty or left out. A record of several
 * megabytes waits until input_finished has named all chunks before it. All threads read a
 * regular file at once, up to the chunk in which the file ended when it was opened. One thread at a
 * time reads a stream.
 *
 * With `header`, the first records of each file come in a chunk of their own, of any length. The
 * bytes of the file are then counted from the end of the header.
 *
 * A signal (sig.h) ends the input, even during a wait for more bytes. A record that is incomplete
 * then is left out.
 *
 * With `gzip`, input that begins with 1f 8b 08 and no reserved flag is inflated, member after
 * member. A truncated or damaged member, or anything but zeroes after the last one, is an error.
 * Input whose first bytes show that it is not a list of keys (content.h) is an error, too.
 * What is typed at a terminal is taken as it is.
 */
#ifndef KEYS_INPUT_H
#define KEYS_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "keys/source.h"

struct input_spec {
    char *const *files; /* "-" is standard input; must outlive the input */
    size_t n_files;     /* 0: standard input */
    const char *given;  /* not NULL: records to take instead, in one chunk */
    size_t given_len;
    char terminator;  /* '\n' or 0 */
    bool gzip;        /* inflate gzip data, and refuse input that is not a list of keys */
    bool prompt;      /* deliver records as soon as no more bytes are ready */
    bool questions;   /* pipes and the like bring one key at a time, which may be any bytes: only
                         regular files are tested for `gzip` */
    size_t chunk_len; /* 0: INPUT_CHUNK */
    size_t longest;   /* bytes of a record; a longer one ends its chunk (too_long); 0: any length */
    uint64_t header;  /* records of a file's header */
    const struct csv
        *csv;    /* the files are CSV; `header` is 1 if their first records name columns */
    bool secret; /* bytes read are overwritten after use */
    bool apart;  /* -k gives none of these keys: a missing file is not taken for a key */
    bool prints; /* refuse the file that standard output goes to */
    const struct stat *filter; /* refuse this file as input: the filter itself; NULL: none */
};

/* It must not depend on memory: it affects the contents of a filter that grows. Each thread has two
 * chunks, one in work and one waiting: 1 MiB (THREAD_MEMORY, builder.c). Chunks twice as large
 * are no faster. */
enum { INPUT_CHUNK = 512 << 10 };

/* Sets *err, from errno: the key file cannot be opened. Unless `apart`, also suggests -k if there
 * is no such file and the name may be a key: it has no '/', or is a URL. Returns false. */
bool input_fail_open(const char *name, bool apart, struct err *err);

enum input_got {
    INPUT_CHUNK_READ,
    INPUT_FAILED, /* *err says why; the rest of that file is left out (except chunks that other
                     threads have already begun), the next call continues with the next file */
    INPUT_END,
};

struct input *input_open(const struct input_spec *spec, struct err *err);
enum input_got input_next(struct input *in, struct chunk *chunk, struct err *err);
void input_close(struct input *in);

/* Ends the input, also for threads that wait in input_next. May be called from any thread. */
void input_stop(struct input *in);

/* The records of the first n chunks are no longer needed. From any thread. */
void input_finished(struct input *in, uint64_t n);

/* Leaves out what has not been read of file i, and the files before it. A thread that waits for
 * more bytes of a pipe still waits. From any thread. */
void input_skip(struct input *in, size_t file);

/* For a regular file as standard input: input_close leaves its offset here for the next reader,
 * instead of after what was read. From any thread. */
void input_resume(struct input *in, int64_t offset);

/* Printable name of file i: its path, or "(standard input)" as grep has it. */
const char *input_name(const struct input *in, size_t file);
const char *input_name_of(const struct input_spec *spec, size_t file);

/* Samples INPUT_PARTS parts of an input that has not been read, spread over the files that are not
 * compressed. They do not overlap, and need not be whole records. Returns the bytes in all files; 0
 * if one of them is not a regular file, or none could be sampled. */
enum { INPUT_PARTS = 64, INPUT_PART = 16 << 10 /* bytes, at most */ };
typedef void input_looker(void *ctx, const char *part, size_t len,
                          const struct csv_columns *columns /* of its file, if it is CSV */);
uint64_t input_look(const struct input_spec *spec, input_looker *each, void *ctx);

/* For progress: the bytes read from the files so far (compressed files as stored), and the total;
 * total is 0 if unknown. */
void input_progress(const struct input *in, uint64_t *done, uint64_t *total);

#endif
