/* SPDX-License-Identifier: MIT */
/* A stream of secrets: of the records that were handed out nothing is left in front of the bytes
 * that are still ahead. (tests/cli/forgets.bats searches the rest of the memory.) */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "keys/stream.h"

enum { RECORD = 100, RECORDS = 300 };

/* Of which record i consists. */
static char letter(size_t i)
{
    return (char)('a' + i % 26);
}

static void write_records(int fd)
{
    for (size_t i = 0; i < RECORDS; i++) {
        char record[RECORD];
        memset(record, letter(i), sizeof record - 1);
        record[RECORD - 1] = '\n';
        CHECK(write(fd, record, sizeof record) == (ssize_t)sizeof record);
    }
}

static bool is_zero(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (p[i] != 0)
            return false;
    return true;
}

TEST(records_that_were_taken_are_overwritten)
{
    int end[2];
    struct stat st;
    struct err err;
    atomic_bool stopped = false;
    _Atomic uint64_t done = 0;
    CHECK(pipe(end) == 0 && fstat(end[0], &st) == 0);
    struct source src = {.fd = end[0],
                         .name = "pipe",
                         .terminator = '\n',
                         .secret = true,
                         .chunk_len = 2 * RECORD,
                         .longest = SIZE_MAX,
                         .stopped = &stopped,
                         .done = &done};
    struct stream s;
    struct chunk chunk = {.secret = true};
    size_t records = 0, in_front = 0;
    write_records(end[1]);
    close(end[1]);
    CHECK(stream_begin(&s, &src, &st, true, &err)); /* reads ahead what tells gzip data */
    do {
        MUST(stream_chunk(&s, &src, &chunk, &err));
        for (size_t at = 0; at < chunk.len; at += RECORD)
            CHECK(chunk.data[at] == letter(records++));
        CHECK(is_zero(s.ahead, s.ahead_at));
        in_front += s.ahead_at;
    } while (chunk.len > 0);
    CHECK(records == RECORDS && done == (uint64_t)RECORD * RECORDS);
    CHECK(in_front > 0);
    stream_end(&s);
    chunk_free(&chunk);
    close(end[0]);
}

/* The first way: in the chunk; the second: in the header; the third: in that of CSV. */
TEST(nothing_is_read_or_kept_behind_a_record_that_is_too_long)
{
    for (int way = 0; way < 3; way++) {
        int end[2];
        struct stat st;
        struct err err;
        atomic_bool stopped = false;
        _Atomic uint64_t done = 0;
        CHECK(pipe(end) == 0 && fstat(end[0], &st) == 0);
        struct source src = {.fd = end[0],
                             .name = "pipe",
                             .terminator = '\n',
                             .csv = way == 2,
                             .chunk_len = RECORD / 4,
                             .longest = RECORD / 2,
                             .stopped = &stopped,
                             .done = &done};
        struct stream s;
        struct chunk chunk = {0};
        if (way == 2)
            CHECK(write(end[1], "\"", 1) == 1);
        write_records(end[1]);
        close(end[1]);
        CHECK(stream_begin(&s, &src, &st, false, &err));
        MUST(way == 0 ? stream_chunk(&s, &src, &chunk, &err)
                      : stream_header(&s, &src, 1, &chunk, &err));
        CHECK(chunk.too_long > RECORD / 2 && chunk.len == 0);
        uint64_t read = done;
        CHECK(s.end == SOURCE_STOPPED && stream_unread(&s) == 0);
        chunk.too_long = 0;
        MUST(stream_chunk(&s, &src, &chunk, &err));
        CHECK(chunk.len == 0 && done == read);
        stream_end(&s);
        chunk_free(&chunk);
        close(end[0]);
    }
}

int main(void)
{
    RUN(nothing_is_read_or_kept_behind_a_record_that_is_too_long);
    RUN(records_that_were_taken_are_overwritten);
    return check_done();
}
