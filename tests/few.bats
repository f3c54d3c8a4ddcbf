#!/usr/bin/env bats
# Few keys: nothing is set up that they do not need. A program that asks for one key waits for the
# start of the process, not for threads, tables and buffers.

load helpers

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
    # input from a file needs a buffer of 256 KiB.
    limited 2048 seen query -j 1000 -q -k 7 f.seen
    [ "$(limited 2048 seen query -j 1000 -c f.seen <keys)" = 100 ]
    [ "$(limited 2048 seen dedup -j 1000 -c -k new f.seen)" = 1 ]
    [ "$(seq 51 150 | limited 2048 seen dedup -j 1000 -c f.seen)" = 50 ]
}

@test "one key does not bring the whole filter into memory, full or not" {
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer needs more'
    seq 100 >keys
    seen create -n 100 -s 128M f.seen keys
    # The interpreter's own memory, about 10 MB, counts too. A kernel may map 2 MiB around each of
    # the pages that are looked at.
    python3 - <<'PYTHON'
import resource, subprocess

def take(status, *command):
    assert subprocess.run(["seen", *command, "f.seen"]).returncode == status
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert most < 64 << 10, (command, most)

take(1, "query", "-k", "a")
for key in "abcd":
    take(0, "dedup", "-q", "-k", key)
take(1, "dedup", "-q", "-k", "a")
take(0, "add", "-k", "e")
PYTHON
}
