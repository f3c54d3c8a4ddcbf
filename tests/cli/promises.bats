#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What users build on: no key that was acknowledged is ever lost, damage is never taken for an answer,
# readers do not wait, and a replaced file is the old one or the new one.
# tags: repeating

load ../lib/helpers

# all_in FILTER KEYS: none of these keys is missing.
all_in()
{
    local missing
    missing=$(seen query -vc "$1" "$2" 2>all_in.err) || [ $? = 1 ]
    [ "$missing" = 0 ] || { echo "$missing keys missing in $1"; cat all_in.err; return 1; }
}

not_clean() { [ "$(state "$1")" != clean ]; }

# is_stopped PROCESS: have all its threads stopped?
is_stopped() { [ "$(grep -h ^State "/proc/$1/task/"*/status | grep -cv stopped)" = 0 ]; }

# stop_writing FILE PROCESS...: stops the processes at an instant when the file is not clean.
stop_writing()
{
    local pid
    kill -STOP "${@:2}"
    for pid in "${@:2}"; do
        await "$pid" is_stopped "$pid"
    done
    until not_clean "$1"; do
        kill -CONT "${@:2}"
        await "$2" not_clean "$1"
        stop_writing "$@"
    done
}

# endless FILE: the file again and again, until nobody reads it.
endless() { while cat "$1"; do :; done 2>/dev/null 3>&-; }

@test "kill -9 loses no acknowledged key, and the next writer makes the file clean" {
    RANDOM=20260403
    : >acknowledged
    quiet seen create --empty -n 2000000 -p 1e-3 f
    dirty=0
    turns=12
    [ -z "${FULL-}" ] || turns=30
    for turn in $(seq $turns); do
        # The next writer tells of those who were killed, and ends their session.
        seq -f "a%.0f" $((turn * 300)) $((turn * 300 + 299)) >some
        seen add f some 2>/dev/null
        [ "$(state f)" = clean ]
        run -0 seen verify f
        [ "$output" = 'f: ok' ]
        cat some >>acknowledged
        # Others die in the middle of their work.
        seq -f "x%.0f" $((turn * 50000)) $((turn * 50000 + 49999)) >much
        pids=()
        for ((n = turn % 3; n >= 0; n--)); do
            endless much | seen add -j 2 f 2>/dev/null 3>&- &
            pids+=($!)
        done
        # Now and then before it has begun, or between two batches; else while it writes.
        sleep "0.0$((RANDOM % 9))$((RANDOM % 10))"
        ((turn % 5 == 0)) || stop_writing f "${pids[@]}"
        kill -9 "${pids[@]}"
        wait "${pids[@]}" 2>/dev/null || true
        all_in f acknowledged
        run -0 seen verify f
        not_clean f || continue
        ((++dirty))
    done
    run -0 seen verify --repair f
    run -0 seen verify f
    [[ $output == 'f: ok' ]]
    all_in f acknowledged
    # So many at least were hit while they wrote; and a low rate makes the above worth something.
    echo "$dirty times dirty"
    [ $dirty -ge $((turns - turns / 5)) ]
    seen stats --json f | jq -e '.fpr_current < 0.002'
}

@test "who is killed beside a living writer leaves no mess" {
    mkfifo fifo
    quiet seen create --empty -n 100000 f
    seen add f fifo &
    living=$!
    exec 7>fifo
    echo first >&7
    until_present f first $living
    for turn in 1 2 3 4 5; do
        seq -f "x$turn.%.0f" 5000 >much
        endless much | seen add f 3>&- &
        pid=$!
        until_present f x$turn.5000 $pid
        kill -9 $pid
        wait $pid || true
        [ "$(state f)" = writing ]
        run -0 --separate-stderr seen query f -k first
        [ -z "$stderr" ]
    done
    echo last >&7
    exec 7>&-
    wait $living
    [ "$(state f)" = clean ]
    run -0 seen verify f
    run -0 seen query -c f -k first -k last
    [ "$output" = 2 ]
}

@test "a damaged page is an error, never an answer" {
    seq 100000 >keys
    quiet seen create f keys
    pages=$(seen stats --json f | jq '.layers[0].pages')
    start=$(($(size f) - pages * 4096))
    for page in 0 $((pages / 2)) $((pages - 1)); do
        cp f g
        offset=$((start + page * 4096 + 1234))
        was=$(peek f $offset 1)
        poke g $offset "$(printf %02x $((0x$was ^ 16)))"
        run -2 --separate-stderr seen query -c g keys
        [ -z "$output" ]
        [[ $stderr == "seen: 'g' is damaged: page $page of layer 0 (offset $((start + page * 4096)))"* ]]
        run -2 --separate-stderr seen verify g
        [[ $output$stderr == *$((start + page * 4096))* ]]
        refuses "$(seen query g keys 2>&1 >/dev/null)" seen query -v -q g keys
        # A key whose page is in order is answered.
        seen query g -k 1 >out 2>err || [ -s err ]
        # A writer must not put a checksum of today on the damage of yesterday.
        seen add g -k new 2>/dev/null || true
        run -2 seen verify g
    done
}

@test "truncated, extended and hostile files end in a message" {
    seq 3000 | quiet seen create --fixed f
    full=$(size f)
    refused() {
        local status command
        for command in query\ -c 'stats' 'verify' 'stats --json'; do
            status=0
            # shellcheck disable=SC2086
            seen $command g >out 2>err </dev/null || status=$?
            [ $status = 2 ] || { echo "seen $command: $status"; return 1; }
            [ "$(wc -l <err)" = 1 ] || { echo "seen $command:"; cat err; return 1; }
        done
    }
    for len in 0 1 7 8 100 4095 4096 4097 8192 12288 20480 $((full - 4096)) $((full - 1)); do
        head -c "$len" f >g
        refused
    done
    cp f g
    echo >>g
    refused
    head -c "$full" /dev/zero >g
    refused
    python3 -c 'import random, sys
sys.stdout.buffer.write(random.Random(1).randbytes(int(sys.argv[1])))' "$full" >g
    refused
    seq 10000 >g
    refused
    gzip -c f >g
    refused
}

@test "whatever byte of the headers is changed, nothing crashes and no key is missing" {
    seq 3000 >keys
    quiet seen create f keys
    # Both headers alike: they begin at 0 and 4096. What is used of them is at both ends.
    for offset in $(seq 0 11 400) $(seq 500 500 4090) 4088 4095; do
        cp f g
        was=$(peek f "$offset" 1)
        changed=$(printf %02x $((0x$was ^ (1 << offset % 8))))
        poke g "$offset" "$changed"
        # One of two is enough; it is told of.
        run -0 --separate-stderr seen query -c g keys
        [ "$output" = 3000 ]
        [[ $stderr == "seen: warning: 'g': one of its two headers is damaged"* ]]
        poke g $((4096 + offset)) "$changed"
        run -2 --separate-stderr seen query -c g keys
        [ -z "$output" ]
        [[ $stderr == "seen: 'g' "* ]]
    done
}

@test "a file that shrinks in use ends the query with a message" {
    mkfifo fifo
    quiet seen create f <(seq 100000)
    # It ends at once, and leaves threads behind, which ThreadSanitizer would remark.
    TSAN_OPTIONS=report_thread_leaks=0 timeout "$PATIENCE" seen query f fifo >out 2>err &
    pid=$!
    exec 7>fifo
    echo 1 >&7
    await $pid test -s out
    truncate -s 12288 f
    seq 1000 >&7 || true
    exec 7>&-
    status=0
    wait $pid || status=$?
    [ $status = 2 ]
    cat err
    equal "seen: 'f' was overwritten while it was in use" "$(cat err)"
}

@test "a list of keys that is cut while it is read: no zeroes are added, the file is clean" {
    seq 5000000 >list
    mkfifo pipe
    # Within the last pages that are brought in for a part of it, and before them.
    for cut in 5000 300000; do
        cp list cut
        quiet seen create --force --empty -n 10M -p 1e-6 f
        seen dedup f cut >pipe 2>err &
        pid=$!
        exec 7<pipe
        # As long as nobody reads on, it cannot come as far as that.
        IFS= read -r first <&7
        truncate -s $(((12 << 20) - cut)) cut
        { echo "$first"; cat <&7; } >got
        exec 7<&-
        status=0
        wait $pid || status=$?
        [ $status = 2 ]
        [[ $(cat err) == "seen: cannot read 'cut': it became shorter"* ]]
        [ "$(wc -l <err)" = 1 ]
        [ "$(state f)" = clean ]
        seen verify f
        n=$(wc -l <got)
        [ "$n" -gt 1000000 ]
        [ "$n" = "$(fact f keys_added)" ]
        # It is the beginning of the list, but for false positives.
        comm -23 <(sort got) <(head -n $((n + 50)) list | sort) >others
        [ ! -s others ]
        [ "$(seen query -c f list)" -lt $((n + 100)) ]
    done
}

@test "dedup prints what it added, whatever becomes of a large file of keys meanwhile" {
    seq 1000000 >list
    mkfifo pipe
    # To nothing, within a page, and replaced by what is as long.
    for change in 'truncate -s 0' 'truncate -s 1000001' 'cp other'; do
        tr 0-9 a-j <list >other
        cp list cut
        quiet seen create --force --empty -n 2M -p 1e-9 f
        seen dedup f cut >pipe 2>err &
        pid=$!
        exec 7<pipe
        # It has been added, and most of it is still to be printed.
        IFS= read -r first <&7
        until_present f 50000 $pid
        $change cut
        { echo "$first"; cat <&7; } >got
        exec 7<&-
        status=0
        wait $pid || status=$?
        seen verify f
        n=$(wc -l <got)
        [ "$n" -gt 50000 ]
        [ "$n" = "$(fact f keys_added)" ]
        [ "$(seen query -c f got)" = "$n" ]
        equal "$(tr -d '\0' <got | digest /dev/stdin)" "$(digest got)"
        if [ "$change" = 'cp other' ]; then
            continue # lines of both, at any exit status
        fi
        [ $status = 2 ]
        [[ $(cat err) == "seen: cannot read 'cut': it became shorter" ]]
        head -n "$n" list | cmp - got
    done
}

@test "readers do not wait for writers, writers do for each other" {
    [ "${SANITIZER-}" != thread ] || skip 'ThreadSanitizer holds signals back from who waits for a lock'
    quiet seen create -n 1000 f -k a
    hold_lock f
    run -0 timeout "$PATIENCE" seen query f -k a
    run -0 timeout "$PATIENCE" seen stats f
    run -0 timeout "$PATIENCE" seen verify f
    seen add f -k b &
    pid=$!
    until_waiting f $pid
    run -1 timeout "$PATIENCE" seen query f -k b
    # Its wait can be ended.
    kill -TERM $pid
    status=0
    wait $pid || status=$?
    [ $status = 143 ]
    seen add f -k c &
    pid=$!
    until_waiting f $pid
    echo >release
    wait $pid
    wait "$holder"
    run -0 seen query -c f -k a -k b -k c
    [ "$output" = 2 ]
    run -0 seen verify f
    [ "$(state f)" = clean ]
}

@test "a file is not replaced while somebody adds to it" {
    quiet seen create -n 1000 f -k old
    was=$(stat -c %i f)
    hold_lock f
    seen create --force f -k new &
    pid=$!
    until_waiting f $pid
    [ "$(stat -c %i f)" = "$was" ]
    run -0 seen query f -k old
    echo >release
    wait $pid
    wait "$holder"
    [ "$(stat -c %i f)" != "$was" ]
    run -0 seen query f -k new
}

@test "a file is not shrunk in place while somebody adds to it" {
    quiet seen create --foldable -n 1M f <(seq 1000)
    was=$(size f)
    hold_lock f
    seen shrink f &
    pid=$!
    until_waiting f $pid
    # It waits before it reads: nothing is in the new file, which has no name yet.
    new=$(find "/proc/$pid/fd" -lname '*/#* (deleted)' -o -lname '*.seen-tmp')
    [ "$(stat -L -c %s "$new")" = 0 ]
    echo >release
    wait $pid
    wait "$holder"
    [ "$(size f)" -lt "$was" ]
    all_in f <(seq 1000)
}

@test "who looks while a file is being replaced sees the old one or the new one" {
    seq 10000 >one
    seq 10001 20000 >two
    quiet seen create -p 1e-9 f one
    (for _ in $(seq 20); do
        seen create -p 1e-9 --force f two
        seen create -p 1e-9 --force f one
    done) 3>&- &
    pid=$!
    saw=
    while kill -0 $pid 2>/dev/null; do
        run -0 --separate-stderr seen query f one two
        [ -z "$stderr" ]
        sum=$(cksum <<<"$output")
        [ "$sum" = "$(cksum <one)" ] || [ "$sum" = "$(cksum <two)" ]
        saw+=${output:0:3}
    done
    wait $pid
    [ -n "$saw" ]
    [ "$(find . -name '.*' -type f | wc -l)" = 0 ]
}

@test "adding beside repeated replacement ends in order, and can be run again" {
    mkfifo fifo
    seq 1000 >keys
    quiet seen create -n 5000 -p 1e-6 --no-profile f keys
    for turn in $(seq 5); do
        seen add f fifo 2>err &
        pid=$!
        exec 7>fifo
        seq -f "$turn.%.0f" 10 >&7
        until_present f "$turn.10" $pid
        run -0 --separate-stderr seen create -n 5000 -p 1e-6 --no-profile --force f keys
        [[ $stderr = "seen: warning: 'f' was replaced while "* ]]
        exec 7>&-
        local status=0
        wait $pid || status=$?
        [ $status = 2 ]
        equal "seen: 'f' was replaced while keys were added: run this again" "$(cat err)"
        all_in f keys
        run -1 seen query -c f -k "$turn.10"
        quiet seen add f <(seq -f "$turn.%.0f" 10)
        run -0 seen verify f
    done
}

