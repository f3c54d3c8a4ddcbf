#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Few keys: nothing is set up that they do not need. A program that asks for one key waits for the
# start of the process, not for threads, tables and buffers.

load ../lib/helpers

# alone COMMAND...: runs it; it must not start a thread or a process.
alone()
{
    strace -f -qq -o trace -e trace=clone,clone3,fork,vfork "$@" && [ ! -s trace ]
}

@test "one key, or a hundred, start no thread" {
    need_strace
    seq 100 >keys
    seen create f.seen keys
    alone seen query -q -j 8 -k 7 f.seen
    alone seen query -c -j 8 f.seen <keys
    alone seen query -c -j 8 f.seen keys
    alone seen dedup -q -j 8 -k new f.seen
    alone seen dedup -c -j 8 f.seen <keys
    alone seen add -j 8 -k newer f.seen
    # Many keys do.
    seq 100000 >many
    run ! alone seen query -c -j 8 f.seen many
    [ -s trace ]
}

# limited KBYTES COMMAND...: runs it with at most that much memory of its own, which is that of
# threads, tables and buffers, but not the mapped filter.
limited() (
    ulimit -d "$1"
    "${@:2}"
)

@test "one key, or a hundred, need no memory for many threads" {
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer needs more'
    seq 100 >keys
    seen create -s 64M f.seen keys
    # With 1000 threads, what each of them needs comes to 48 MB and more. One needs less than 1 MB;
    # input from a file needs a buffer of 512 KiB.
    limited 2048 seen query -j 1000 -q -k 7 f.seen
    [ "$(limited 2048 seen query -j 1000 -c f.seen <keys)" = 100 ]
    [ "$(limited 2048 seen dedup -j 1000 -c -k new f.seen)" = 1 ]
    [ "$(seq 51 150 | limited 2048 seen dedup -j 1000 -c f.seen)" = 50 ]
}

@test "few keys do not bring the whole filter into memory, full or not" {
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer needs more'
    seq 100 >keys
    seen create -n 100 -s 128M f.seen keys
    # A key needs one page, which is mapped, and a kernel may map 2 MiB around it. The interpreter's own memory, about 10 MB, counts too.
    python3 - <<'PYTHON'
import resource, subprocess

def usage():
    return resource.getrusage(resource.RUSAGE_CHILDREN)

def faults(status, *command):
    before = usage().ru_minflt
    assert subprocess.run(["seen", *command]).returncode == status
    return usage().ru_minflt - before

one = faults(0, "query", "-q", "-k", "7", "f.seen")
hundred = faults(1, "query", "-q", "-v", "f.seen", "keys")
assert hundred < one + 100 + 50, (one, hundred)
for key in "abcd":
    faults(0, "dedup", "-q", "-k", key, "f.seen")
faults(1, "dedup", "-q", "-k", "a", "f.seen")
faults(0, "add", "-k", "e", "f.seen")
assert usage().ru_maxrss < 64 << 10, usage()
PYTHON
}

# advised COMMAND...: the last that it says of how it will use a mapping.
advised()
{
    strace -f -qq -o trace -e trace=madvise "$@" >out
    grep -o 'MADV_RANDOM\|MADV_NORMAL' trace | tail -n 1
}

@test "a filter is read ahead for many keys and for a check, not for a few" {
    need_strace
    seq 100000 >many
    seen create f.seen many
    for command in 'query -k 7' 'dedup -k a' 'add -k b'; do
        # shellcheck disable=SC2086
        [ "$(advised seen $command f.seen)" = MADV_RANDOM ]
    done
    for command in query dedup add; do
        [ "$(advised seen $command -j1 f.seen many)" = MADV_NORMAL ]
    done
    [ "$(advised seen verify f.seen)" = MADV_NORMAL ]
}
