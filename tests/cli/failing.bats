#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# System calls that fail while a filter is being written, and the order in which it reaches the disk.

load ../lib/helpers
load ../lib/redis

teardown() { redis_stop; }

# calls COMMAND...: its writes to a filter's two headers and its syncs, in order: A, B and S.
calls()
{
    strace -f -qq -o trace -e trace=pwritev,fdatasync "$@"
    sed -n 's/^[0-9]* *fdatasync(.*/S/p; s/.*pwritev(.*, 0) *= 4096$/A/p
        s/.*pwritev(.*, 4096) *= 4096$/B/p' trace | tr -d '\n'
}

# one_line MESSAGE: what the last run said on stderr.
one_line()
{
    # shellcheck disable=SC2154 # set by run
    [ "$stderr" = "$1" ] || { echo "stderr: $stderr"; return 1; }
}

# begin FILTER: a writer that stays until `end`.
begin()
{
    mkfifo held
    seen add "$1" held &
    writer=$!
    exec {hold}>held
    echo first >&"$hold"
    until_present "$1" first "$writer"
}

# end: how it ended is in $ended.
end()
{
    ended=0
    exec {hold}>&-
    wait "$writer" || ended=$?
}

@test "each header is on disk before the next, and the data before the mark that it is clean" {
    need_strace
    seen create --empty -n 1000 f.seen
    # Each time the header that is there is written again first: after a failed sync it may only
    # seem to be on disk. Between the headers, marks are before they are needed and after.
    [ "$(calls seen add f.seen -k a)" = BSASSSASBS ]
    # Without sync, one sync less: not the data's.
    [ "$(calls seen add --no-sync f.seen -k b)" = BSASSSASB ]
    [ "$(calls seen add f.seen -k c)" = BSASSSASBS ]
}

@test "a mark that was not synced is, before the other header is written" {
    need_strace
    need_preload
    seen create --empty -n 1000 f.seen
    run -137 failing fdatasync:2:kill seen add f.seen -k a
    [ "$(state f.seen)" = writing ]
    # First the session of the dead writer is ended, then another begun.
    [ "$(calls seen add f.seen -k b)" = ASBSASSSASBS ]
}

@test "the first writer of a file syncs its name" {
    need_strace
    mkdir sub
    seen create --empty -n 1000 sub/f.seen
    ln -s sub/f.seen link
    for way in 'link -k a' 'link -k b'; do
        # shellcheck disable=SC2086 # words
        strace -y -qq -o trace -e trace=fsync,pwritev seen add $way
        awk '/fsync\(.*\/sub>/ { print "D" } /pwritev\(/ { print "H" }' trace | head -n 2 >>order
    done
    # The header that is there is written again, and then, or after the name, the next one.
    [ "$(tr -d '\n' <order)" = HDHH ]
}

# Root may read any directory.
@test "the first writer adds keys in a directory that may be entered, but not read" {
    local status=0
    mkdir sub
    seen create --fixed -n 1000 sub/f.seen -k a
    chmod 300 sub
    seen add sub/f.seen -k b 2>said || status=$?
    chmod 700 sub
    equal "$status $(cat said)" '0 '
    equal "$(seen query sub/f.seen -c -k a -k b)" 2
}

@test "a sync that a signal interrupts is made again, and one of a directory may be impossible" {
    need_preload
    for call in 1:EINTR 2:EINTR 2:EINVAL 2:ENOSYS; do
        quiet failing "fsync:$call" seen create --force f.seen -k a
    done
    for nth in 1 2 3 4; do
        quiet failing "fdatasync:$nth:EINTR" seen add f.seen -k "$nth"
    done
    seen verify f.seen
}

@test "a writer that is not the last syncs its keys before it leaves the session" {
    need_strace
    seen create -p 0.001 --empty -n 1000 f.seen
    begin f.seen
    [ "$(calls seen add f.seen -k a)" = S ]
    # It gives up the session byte, at 2^62 + 1, only then: else the sync could fail behind a mark
    # that the file is clean.
    strace -f -qq -o trace -e trace=fcntl,fdatasync seen add f.seen -k c
    awk '/fdatasync/ { synced = 1 } /F_UNLCK.*l_start=4611686018427387905/ { exit !synced }' trace
    grep -q 'F_OFD_SETLK.*F_UNLCK.*l_start=4611686018427387905' trace
    [ "$(calls seen add --no-sync f.seen -k b)" = '' ]
    end
    [ "$ended" = 0 ]
    seen verify f.seen
}

@test "whichever sync fails, the file is not clean unless it is, and can be repaired" {
    need_preload
    for ((nth = 1; nth < 20; nth++)); do
        rm -f g.seen
        seen create --grow --empty -n 1000 g.seen
        seen add g.seen <(seq 500)
        run --separate-stderr failing "fdatasync:$nth:EIO" \
            seen add -j1 g.seen <(seq 501 2500)
        [ "$status" != 0 ] || break
        [ "$status" = 2 ]
        one_line "seen: cannot sync 'g.seen': Input/output error"
        [ "$(seen query -c g.seen <(seq 500))" = 500 ]
        case $(state g.seen) in
            clean) seen verify g.seen ;;
            dirty)
                run -2 seen verify g.seen
                run -2 seen add g.seen -k x
                seen verify --repair g.seen
                ;;
            *) false ;;
        esac
        [ "$(seen query -c g.seen <(seq 500))" = 500 ]
        seen add g.seen <(seq 501 2500)
        [ "$(seen query -c g.seen <(seq 2500))" = 2500 ]
        seen verify g.seen
    done
    # Header, mark, marked pages, the new layer, its two headers, marked pages, checksums, data, mark.
    [ "$nth" = 11 ]
}

@test "after a sync that failed in growth, the same process makes nothing clean" {
    need_preload
    seen create --grow --empty -n 1000 g.seen
    run -2 --separate-stderr failing fdatasync:3:EIO seen add -j1 g.seen <(seq 3000)
    [ "$(state g.seen)" = dirty ]
}

@test "after a sync that failed, no other process makes the file clean" {
    need_preload
    seen create --grow --empty -n 1000 g.seen
    begin g.seen
    run -2 --separate-stderr failing fdatasync:1:EIO seen add g.seen <(seq 3000)
    one_line "seen: cannot sync 'g.seen': Input/output error"
    end
    [ "$(state g.seen)" = dirty ]
    refuses "seen: 'g.seen' is dirty since a crash of the machine or a failed sync: 'seen verify --repair' makes a sound file of it" \
        seen add g.seen -k first
    run -0 seen verify --repair g.seen
    quiet seen add g.seen <(seq 3000)
    [ "$(seen query -c g.seen <(seq 3000; echo first))" = 3001 ]
    seen verify g.seen
}

@test "the checksums of a writer that was killed in its turn are renewed by the next" {
    need_preload
    for n in {1..4}; do
        rm -f g.seen held
        seen create --grow --empty -n 1000 g.seen
        begin g.seen
        run -137 failing "pwritev:$n:kill" seen add g.seen <(seq 3000)
        seen add g.seen <(seq 3001 6000)
        end
        seen verify g.seen
        [ "$(seen query -c g.seen <(seq 3001 6000; echo first))" = 3001 ]
    done
}

@test "a sync that fails while the session of a killed writer is ended is told, and the file is dirty" {
    need_preload
    seen create --empty -n 1000 f.seen
    run -137 failing fdatasync:3:kill seen add f.seen -k a
    [ "$(state f.seen)" = writing ]
    refuses "seen: cannot sync 'f.seen': Input/output error" failing fdatasync:1:EIO seen add f.seen -k b
    [ "$(state f.seen)" = dirty ]
}

@test "no filter is made with a secret whose name may not be on disk" {
    need_preload
    # The second and the third sync are those of the secret's directory.
    refuses "seen: cannot sync the directory of 's': Input/output error" \
        failing fsync:2:EIO:from seen create --secret s --new-secret g.seen -k a
    [ ! -e g.seen ]
}

@test "commands that read a dirty file, or one with a damaged header, warn of it" {
    need_preload
    seen create -n 1000 f.seen -k a
    seen create -n 1000 g.seen -k b
    run -2 failing fdatasync:3:EIO seen add f.seen -k c
    printf x | dd of=g.seen bs=1 seek=100 conv=notrunc 2>/dev/null
    run -0 --separate-stderr seen compare f.seen g.seen
    [ "${stderr_lines[0]}" = "seen: warning: 'f.seen': the machine crashed or a sync failed while keys were added; \
the last of them may be missing, and no keys can be added before 'seen verify --repair'" ]
    [ "${stderr_lines[1]}" = "seen: warning: 'g.seen': one of its two headers is damaged; 'seen verify' says more" ]
    [ "${#stderr_lines[@]}" = 2 ]
    refuses "seen: 'f.seen' is dirty since a crash of the machine or a failed sync: 'seen verify --repair' makes a sound file of it" \
        seen add --verbose f.seen -k d
    [ "${#stderr_lines[@]}" = 1 ]
    run -0 --separate-stderr seen stats --prometheus f.seen g.seen
    [ "$(grep '^seen_filter_clean' <<<"$output")" = $'seen_filter_clean{file="f.seen"} 0\nseen_filter_clean{file="g.seen"} 1' ]
    # How many keys there are is not known, whether another program counts them or not.
    seen create --layout redisbloom -n 1000 r.seen -k a
    [ "$(fact r.seen keys_added)" = 1 ]
    run -2 failing fdatasync:3:EIO seen add r.seen -k c
    [ "$(fact r.seen keys_added)" = null ]
    # That program's file has it; others have none.
    run -0 --separate-stderr seen export r.seen -o r
    [ "${stderr_lines[1]}" = "seen: warning: 'r.seen': the number of its keys is an estimate, from its bits" ]
    seen create --layout guava -n 1000 q.seen -k a
    run -2 failing fdatasync:3:EIO seen add q.seen -k c
    run -0 --separate-stderr seen export q.seen -o q
    [ "${#stderr_lines[@]}" = 1 ]
}

@test "a sync that fails in dedup, before or after printing, is told once" {
    need_preload
    seen create --empty -n 1000 f.seen
    run -2 --separate-stderr failing fdatasync:3:EIO \
        seen dedup --sync-every 1 f.seen <(seq 10)
    one_line "seen: cannot sync 'f.seen': Input/output error"
    [ -z "$output" ]
    [ "$(state f.seen)" = dirty ]
}

@test "a header that cannot be repaired is told" {
    need_preload
    seen create -n 1000 f.seen -k 1
    printf x | dd of=f.seen bs=1 seek=100 conv=notrunc 2>/dev/null
    for fault in lock:1:ENOLCK lock:2:ENOLCK pwritev:1:ENOSPC fdatasync:1:EIO; do
        cp f.seen g.seen
        run -2 --separate-stderr failing $fault seen verify --repair g.seen
        [[ $stderr == 'seen: cannot '@(lock|write|sync)" 'g.seen': "* && $stderr != *$'\n'* ]]
        seen verify --repair g.seen
    done
}

@test "a rotation whose sync fails leaves the file as it was, or dirty" {
    need_preload
    for ((nth = 1; nth < 20; nth++)); do
        rm -f r.seen
        seen create --generations 2 --empty -n 2000 -p 1e-6 r.seen
        seen add r.seen <(seq 500)
        run --separate-stderr failing "fdatasync:$nth:EIO" seen rotate r.seen
        [ "$status" != 0 ] || break
        [ "$status" = 2 ]
        one_line "seen: cannot sync 'r.seen': Input/output error"
        # The first sync is of the header that was there, the last of the mark that all is done.
        if ((nth > 1 && nth < 9)); then
            refuses "seen: 'r.seen' is dirty since a crash of the machine or a failed sync: 'seen verify --repair' makes a sound file of it" \
                seen add r.seen <(seq 501 900)
            seen verify --repair r.seen
        fi
        seen add r.seen <(seq 501 900)
        [ "$(seen query -c r.seen <(seq 900))" = 900 ]
        seen verify r.seen
    done
    [ "$nth" = 10 ]
}

@test "a rotation whose sync fails beside a writer leaves a dirty file" {
    need_preload
    seen create --generations 2 --empty -n 2000 -p 1e-6 r.seen
    begin r.seen
    run -2 --separate-stderr failing fdatasync:4:EIO seen rotate r.seen
    end
    [ "$(state r.seen)" = dirty ]
    seen verify --repair r.seen
    [ "$(seen query -c r.seen -k first)" = 1 ]
}

# Writes 1 to 4 are headers of the session and of the void layer, 5 is the emptied layer's checksums.
@test "a rotation that cannot write a header, or the emptied layer's checksums, loses no key" {
    need_preload
    for ((nth = 1; nth < 20; nth++)); do
        rm -f r.seen
        seen create --generations 2 --empty -n 2000 -p 1e-6 r.seen
        seen add r.seen <(seq 500)
        run --separate-stderr failing "pwritev:$nth:ENOSPC" seen rotate r.seen
        [ "$status" != 0 ] || break
        [ "$status" = 2 ]
        one_line "seen: cannot write 'r.seen': No space left on device"
        [ "$(seen query -c r.seen <(seq 500))" = 500 ]
        seen verify r.seen
        seen add r.seen <(seq 501 900)
        [ "$(seen query -c r.seen <(seq 900))" = 900 ]
        seen verify r.seen
    done
    [ "$nth" = 10 ]
}

# A rotation takes the turn three times, and joins the session.
@test "a layer that a killed rotation was emptying is not checked" {
    need_preload
    seq 400 >keys
    seen create --generations 2 -n 2000 --empty sound
    for i in 1 2 3; do
        seen add sound keys
        [ $i = 3 ] || seen rotate sound
    done
    for nth in {3..6}; do
        cp sound f.seen
        run -137 failing "pwritev:$nth:kill" seen rotate f.seen
        equal "$(seen verify f.seen)" 'f.seen: ok'
    done
}

@test "a ring is not rotated without each of its locks" {
    need_preload
    seen create --generations 2 -n 1000 f.seen -k 1
    for n in {1..6}; do
        refuses "seen: cannot lock 'f.seen': No locks available" failing "lock:$n:ENOLCK" seen rotate f.seen
    done
}

@test "no more threads are started than the process has CPUs" {
    need_preload
    cpus=$(taskset -cp $$)
    cpus=${cpus##*: }
    one=(taskset -c "${cpus%%[,-]*}")
    seq 100000 >list
    # The first thread would kill it.
    failing pthread_create:1:kill "${one[@]}" seen create f.seen list
    [ "$(failing pthread_create:1:kill "${one[@]}" seen query -c f.seen list)" = 100000 ]
}

@test "a filter that cannot be mapped when it has grown stays as it was" {
    need_preload
    for command in add dedup; do
        rm -f g.seen
        seen create --grow --empty -n 5000 -p 1e-6 g.seen
        before=$(size g.seen)
        # The second time that the file is mapped.
        run -2 --separate-stderr failing mmap:2:ENOMEM seen $command g.seen <(seq 20000)
        one_line "seen: cannot map 'g.seen': Cannot allocate memory"
        [ "$(size g.seen)" = "$before" ]
        seen verify g.seen
        n=$(seen query -c g.seen <(seq 20000))
        [ "$n" -gt 4000 ]
        [ $command = add ] || [ "${#lines[@]}" = "$n" ]
    done
    seen add g.seen <(seq 20000)
    [ "$(seen query -c g.seen <(seq 20000))" = 20000 ]
}

@test "no key is added without random numbers" {
    need_preload
    seen create -n 1000 f -k a
    refuses 'seen: cannot get random numbers: Function not implemented' \
        failing getrandom:1:ENOSYS:from seen add f -k b
    equal "$(seen query f -k a -k b) $(state f)" 'a clean'
}

@test "a file that cannot be opened is not replaced" {
    need_preload
    seen create -n 1000 f -k a
    cp f before
    # Neither for writing nor for reading. The first call looks for files of dead processes.
    refuses "seen: cannot open 'f': Permission denied" failing openat:2:EACCES:from seen create --force f -k b
    cmp f before
    only before f
}

@test "a filter in memory for which there is no memory is refused" {
    need_preload
    seq 10 >keys
    for command in dedup 'query --list keys'; do
        # shellcheck disable=SC2086 # words
        refuses 'seen: cannot make a filter in memory of 140 KiB: Cannot allocate memory' \
            failing mmap:1:ENOMEM:from seen $command keys
    done
    # Nor is one whose size is known only when the keys have been counted.
    local said=''
    for n in {1..6}; do
        run --separate-stderr failing "mmap:$n:ENOMEM" seen create -j 1 --force --layout guava -p 0.01 f keys
        [[ "$status $stderr" == @(0 |2 *': Cannot allocate memory') ]]
        said+=$stderr
    done
    [[ $said == *'cannot make a filter in memory of '* ]]
}

# Its first layer is full with a million keys. Below some limit there is room for that one alone.
@test "a filter in memory that cannot grow says so, and what is known by then is printed" {
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer takes more addresses than that'
    cut_short=0
    for kilobytes in 17000 20000 23000 26000 29000; do
        status=0
        (ulimit -v $kilobytes && seq 1200000 | seen dedup -n 1M -j1 >got 2>err) || status=$?
        [ $status = 0 ] && continue
        [ $status = 2 ]
        [[ $(cat err) == "seen: cannot make a filter in memory"* ]]
        [ "$(wc -l <err)" = 1 ]
        cut_short=$((cut_short + ($(wc -l <got) > 900000)))
        seq "$(wc -l <got)" | cmp - got
    done
    [ $cut_short -gt 0 ]
}

@test "positions for whose bits there is no memory are not imported" {
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer takes more addresses than that'
    list=$SOURCE/tests/vectors/php/ph_3.bits
    refuses "seen: cannot import '$list' as php: out of memory" \
        bash -c "ulimit -v 60000 && exec seen import --layout php '$list' -o f.seen"
    [ ! -e f.seen ]
}

# The entries of all keys, and then their blocks, which grow.
@test "a counted set whose blocks lack memory is not made" {
    need_preload
    seq 30000 >keys
    for n in {1..5}; do
        refuses 'seen: out of memory' failing "realloc:$n:ENOMEM" seen create --counted -j1 f keys
        [ ! -e f ]
    done
}

@test "output for which there is no memory is an error, and is a beginning of it" {
    need_preload
    { seq 300; printf "%09000d\n" 7; } >keys
    printf 'id,n\n1,2\n3,4\n' >t.csv
    seen create -n 1000 f.seen keys
    while read -r least command; do
        # shellcheck disable=SC2086 # words
        seen $command -j1 >whole
        for ((n = 1; n <= 12; n++)); do
            status=0
            # shellcheck disable=SC2086 # words
            failing realloc:$n:ENOMEM seen $command -j1 >out 2>err || status=$?
            [ $status != 0 ] || break
            [ $status = 2 ]
            [[ $(cat err) == 'seen: '*memory* && $(wc -l <err) = 1 ]]
            cmp -n "$(stat -c %s out)" out whole
        done
        cmp out whole
        [ $n -gt "$least" ]
    done <<'TABLE'
7 dedup --annotate keys
6 dedup --csv --annotate -f id t.csv
5 query -n --annotate f.seen keys t.csv
2 query --csv -f id --annotate f.seen t.csv
2 query -l f.seen keys t.csv
TABLE
}

@test "whatever memory a filter in Redis lacks, the command says so, and the filter keeps its keys" {
    need_preload
    need_redis
    redis_start a
    local at="redis+unix://$REDIS_DIR/a/socket?layout=gozero:bits=20000&key=" call command failures n status
    local uri="${at}k&shards=2"
    # The last answer may be lost: then x is there.
    local state='redis.call("DEL", "x")
        return {redis.call("BITCOUNT", "k:{0}"), redis.call("BITCOUNT", "k:{1}"), redis.call("DBSIZE")}'
    for n in 0 1; do
        redis a SETRANGE "k:{$n}" 2499 $'\1' >/dev/null 2>&1
    done
    seq 100 >old
    seq 101 200 >new
    seen create --layout gozero:bits=20000 g old
    seen add "$uri" old
    before=$(redis a EVAL "$state" 0)
    for command in "query $uri old" "import -o f ${at}k:{0}" "export g -o ${at}x" "add $uri new"; do
        for call in malloc:16 calloc:8 realloc:14; do
            failures=0
            for ((n = 1; n <= ${call#*:}; n++)); do
                status=0
                rm -f f
                # shellcheck disable=SC2086 # words
                failing "${call%:*}:$n:ENOMEM" seen $command >out 2>err || status=$?
                if [ $status = 0 ]; then
                    [ ! -s err ]
                    [[ $command != query* ]] || cmp out old
                else
                    [ $status = 2 ]
                    [[ $(cat err) == 'seen: '*[Mm]emory* && $(wc -l <err) = 1 && ! -s out && ! -e f ]]
                    failures=$((failures + 1))
                fi
                [[ $command == add* ]] || equal "$(redis a EVAL "$state" 0)" "$before"
            done
            [ $failures -ge 4 ]
            equal "$(seen query -c "$uri" old)" 100
        done
    done
    # What is tolerated is done.
    equal "$(seen query -c "$uri" new)" 100
}

@test "a filter keeps its layers where the free space for its keys is not known" {
    need_preload
    seq 1000 | failing statvfs:1:EIO seen add --create f.seen
    equal "$(seen stats --json f.seen | jq '.layers[].n_design')" 1048576
    equal "$(seq 1000 | seen query -c f.seen)" 1000
}

@test "a full disk, or one that fails, leaves a growing filter as it was" {
    need_preload
    for call in ftruncate fallocate; do
        for error in ENOSPC EIO EFBIG; do
            rm -f g.seen
            seen create --grow --empty -n 5000 -p 1e-6 g.seen
            before=$(size g.seen)
            run -2 --separate-stderr failing "$call:1:$error" \
                seen dedup g.seen <(seq 20000)
            [[ $stderr == "seen: cannot "*" 'g.seen': "* && $stderr != *$'\n'* ]]
            [ "$(size g.seen)" = "$before" ]
            seen verify g.seen
            [ "$(seen query -c g.seen <(seq 20000))" = "${#lines[@]}" ]
        done
    done
}

@test "keys that cannot be read back from scratch make no filter" {
    need_preload
    refuses "seen: cannot put scratch into '.': Permission denied" \
        failing access:1:EACCES:from seen create --tmpdir . g.seen -k a
    seq 5000 >keys
    for n in {1..5}; do
        run -2 --separate-stderr failing "pread:$n:EIO:from" seen create --layout guava -p 0.01 g.seen keys
        [[ $stderr == "seen: cannot read "*": Input/output error" ]]
        [ ! -e g.seen ]
    done
    [[ $stderr == 'seen: cannot read scratch file: '* ]]
}

@test "where no blocks can be reserved, a filter grows by zeroes, and no page of it is a hole" {
    need_preload
    for error in EOPNOTSUPP EINVAL ENOSYS; do
        rm -f g.seen
        seen create --grow --empty -n 5000 -p 1e-6 g.seen
        failing fallocate:1:$error:from seen dedup g.seen <(seq 40000) >new
        [ "$(wc -l <new)" -gt 39990 ]
        seen verify g.seen
        [ "$(seen query -c g.seen <(seq 40000))" = 40000 ]
        [ $(($(stat -c '%b * %B' g.seen))) -ge "$(size g.seen)" ]
    done
}

@test "gzip is decompressed though the first look at the file fails" {
    need_preload
    seq 1000 >keys
    gzip -c keys >keys.gz
    failing pread:1:EIO seen create f.seen keys.gz
    [ "$(seen query -c f.seen keys)" = 1000 ]
}

@test "a filter of two layers, too full, is replaced by one of one layer whose sync fails" {
    need_preload
    quiet seen create --fixed -p 1e-3 a.seen <(seq 100)
    quiet seen create --fixed -p 1e-3 b.seen <(seq 101 1300)
    quiet seen create --fixed -p 1e-3 c.seen <(seq 100)
    mkfifo held
    failed=0
    for nth in 4 5 6; do
        quiet seen merge --force -o m.seen a.seen b.seen
        [ "$(seen stats --json m.seen | jq '.layers | length')" = 2 ]
        failing "fdatasync:$nth:EIO" seen dedup --max-fpr 0.9 m.seen <held >/dev/null 2>err &
        writer=$!
        exec {hold}>held
        seq 1301 4000 >&"$hold"
        await "$writer" grep -q 'fuller than it was made for' err
        mv c.seen m.seen
        cp m.seen c.seen
        echo more >&"$hold"
        end
        # Whatever is said, it does not crash.
        [ "$ended" = 0 ] || [ "$ended" = 2 ]
        [ "$ended" = 0 ] || failed=$((failed + 1))
        wait # unnoticed: wait, its status is in ended
    done
    [ $failed -gt 0 ]
}

@test "a batch that was applied before is synced before this is said" {
    need_strace
    mkdir sub
    quiet seen create --counted sub/f.seen <(seq 10)
    seen add --no-sync --batch-id one -k a sub/f.seen
    strace -y -qq -o trace -e trace=fsync,fdatasync seen add --batch-id one -k a sub/f.seen
    grep -q 'sync(.*/sub/f.seen>)' trace
    grep -q 'fsync(.*/sub>)' trace
    strace -y -qq -o trace -e trace=fsync,fdatasync seen add --no-sync --batch-id one -k a sub/f.seen
    [ ! -s trace ]
}

# on_fuse LACKS COMMAND...: as on such a file system (see tests/preload/calls.c).
on_fuse() { INJECT_LACKS=$1 LD_PRELOAD=${SEEN%/*}/preload.so "$SEEN" "${@:2}"; }

@test "FUSE: a file with two names takes no keys, because each may have its own pages" {
    need_preload
    seq 10 >keys
    quiet seen create -n 1000 f keys
    on_fuse fuse add f -k one
    ln f g
    for command in 'add f keys' 'dedup g keys'; do
        # shellcheck disable=SC2086
        run -2 --separate-stderr on_fuse fuse $command
        one_line "seen: '${command:$((${#command} - 6)):1}' has several names (hard links) on a FUSE file system, \
where writers by different names may lose keys of each other: it can be read only"
    done
    run -0 on_fuse fuse query -c f keys
    [ "$output" = 10 ]
    # Elsewhere all names are one file.
    quiet seen add g -k two
    run -0 seen query f -k two
}

@test "FUSE: without links, and without a rename that keeps what is there, a file is made all the same" {
    need_preload
    seq 10 >keys
    INJECT=renameat:1:EIO run -2 --separate-stderr on_fuse fuse create f keys
    one_line "seen: cannot create 'f': Input/output error"
    INJECT=openat:3:ENOSPC run -2 --separate-stderr on_fuse fuse create f keys
    one_line "seen: cannot create 'f': No space left on device"
    only keys
    on_fuse fuse create f keys
    [ "$(seen query -c f keys)" = 10 ]
    run -2 --separate-stderr on_fuse fuse create f keys
    one_line "seen: 'f' exists (--force replaces it); 'seen add' adds keys to it"
    seq 20 | on_fuse fuse create --force f
    [ "$(seen query -c f <(seq 20))" = 20 ]
    only f keys
}

@test "FUSE: without shared mappings a file can be read, and a writer says what is lacking" {
    need_preload
    seq 10 >keys
    quiet seen create -n 1000 f keys
    run -0 on_fuse direct query -c f keys
    [ "$output" = 10 ]
    run -2 --separate-stderr on_fuse direct add f keys
    one_line "seen: cannot write to 'f': its file system does not permit shared mappings"
}

@test "scratch that was left by a killed process is removed by the next" {
    need_preload
    seq 10 >keys
    quiet seen create --counted -n 100 f keys
    touch .seen-scratch.aB3xYz .seen-scratch.longer-than-six
    on_fuse fuse add f -k new
    run ls -A
    [[ $output != *aB3xYz* ]]
    [[ $output == *longer* ]]
}

@test "what a killed process left of a new filter is removed by what changes the old one" {
    mkdir d
    quiet seen create -n 1000 d/f -k a
    ln -s d/f link
    for command in 'add link -k b' 'verify --repair link'; do
        touch d/.f.aB3xYz.seen-tmp d/.other.aB3xYz.seen-tmp
        # shellcheck disable=SC2086
        run -0 seen $command
        [ ! -e d/.f.aB3xYz.seen-tmp ]
        [ -e d/.other.aB3xYz.seen-tmp ]
    done
}

@test "scratch whose name stays is told, and removed by the next" {
    need_preload
    seq 10 >keys
    quiet seen create --counted -n 100 f keys
    run -2 --separate-stderr failing unlink:1:EIO seen add f -k new
    left=$(echo .seen-scratch.*)
    one_line "seen: cannot remove './$left': Input/output error"
    [ "$(seen query -c f <(echo new))" = 0 ]
    quiet seen add f -k new
    [ ! -e "$left" ]
}
