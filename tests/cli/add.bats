#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# seen add: keys that it took are there, whoever else is writing and however it ends.
# tags: threads

load ../lib/helpers

# clean FILE: it says so, and every checksum and counter holds.
clean()
{
    [ "$(state "$1")" = clean ]
    seen verify "$1" >verify.out
}

@test "added keys are there, and counted" {
    seq 1000 >old
    seq 501 2000 >new
    quiet seen create --fixed -n 10000 -p 1e-9 f old
    quiet seen add f new
    run -0 seen query -c f <(seq 2000)
    [ "$output" = 2000 ]
    clean f
    seen stats --json f | jq -e '.records == 2500 and .keys_added == 2000 and .n_design == 10000 and
        .consistent and .dropped_estimate < 1e-6'
    quiet seen add f new
    seen stats --json f | jq -e '.records == 4000 and .keys_added == 2000'
    clean f
    # No keys, nothing changed.
    quiet seen add f /dev/null
    seen stats --json f | jq -e '.records == 4000'
    clean f
    # Where there is no room left, keys are added one by one.
    seen create --fixed -n 1000 full old
    head -n 512 old | seen add full
    [ "$(fact full records)" = 1512 ]
}

@test "adding gives the bytes that creating gives" {
    seq 30000 >keys
    quiet seen create --fixed -n 30000 f keys
    data f >want
    for threads in 1 2 5; do
        quiet seen create --fixed --empty -n 30000 --force g
        quiet seen add -j $threads g keys
        data g | cmp - want
        clean g
    done
    quiet seen create --fixed --empty -n 30000 --force g
    for part in 'NR % 3 == 0' 'NR % 3 == 1' 'NR % 3 == 2'; do
        awk "$part" keys | quiet seen add g
    done
    data g | cmp - want
    # What was lost to false positives is what one would expect: 0.02 % of the keys.
    seen stats --json g | jq -e '.keys_added > 29950 and .keys_added <= 30000 and
        (.keys_added + .dropped_estimate - 30000 | fabs) < 20'
}

@test "keys come from files, pipes, gzip and the command line" {
    quiet seen create --empty -n 1000 f
    seq 10 >one
    seq 20 30 | gzip >two.gz
    seq 40 50 | quiet seen add f one two.gz -
    quiet seen add -k a -k '' f
    run -0 seen query -c f <(seq 10; seq 20 30; seq 40 50; echo a; echo)
    [ "$output" = 34 ]
    run -2 --separate-stderr seen add f one missing two.gz
    [ "$stderr" = "seen: cannot open 'missing': No such file or directory (-k gives a key)" ]
    clean f
}

@test "what cannot be added to is refused" {
    refuses "seen: cannot open 'missing': No such file or directory (--create makes it)" seen add missing -k a
    seq 10 >keys
    run -2 seen add keys keys
    [[ $output == "seen: 'keys' is not a seen filter"* ]]
    quiet seen create f keys
    refuses "seen: 'f' was made without --hex, which cannot be added later" seen add --hex f -k 00
    refuses "seen: cannot open 'f/x': Not a directory" seen add f/x -k 00
    quiet seen create --hex h -k 00
    refuses "seen: --key 'zz': not hexadecimal" seen add h -k zz
    run -2 --separate-stderr seen add h <(printf '01\n02\nzz\n03\n')
    [[ $stderr == "seen: /dev/fd/"*":3: not hexadecimal" ]]
    # Those before it are in, and it is clean.
    run -0 seen query -c h -k 01 -k 02 -k 03
    [ "$output" = 2 ]
    clean h
}

@test "--verbose says how many were new" {
    quiet seen create -n 1000 -p 1e-9 f -k 1 -k 2
    run -0 --separate-stderr seen add --verbose f <(seq 5)
    [ -z "$output" ]
    [ "$stderr" = 'seen: note: 5 records, 3 new keys' ]
    run -0 --separate-stderr seen add --verbose f <(seq 6 6)
    [ "$stderr" = 'seen: note: 1 record, 1 new key' ]
}

@test "eight at once lose nothing" {
    # 10000 keys each, half of them shared with the next.
    quiet seen create --empty -n 50000 -p 1e-9 f
    pids=()
    for writer in 0 1 2 3 4 5 6 7; do
        seq $((writer * 5000 + 1)) $((writer * 5000 + 10000)) >keys.$writer
        # In pieces, so that they take turns.
        (split -n l/10 --filter 'cat; sleep 0.01' keys.$writer | seen add -j $((writer % 3 + 1)) f) &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid"
    done
    run -0 seen query -c f <(seq 45000)
    [ "$output" = 45000 ]
    clean f
    seen stats --json f | jq -e '.records == 80000 and .keys_added == 45000 and .consistent'
}

@test "a reader beside writers gets true answers" {
    seq 20000 >keys
    seq 100001 160000 >later
    quiet seen create -n 100000 -p 1e-6 f keys
    (for i in 1 2 3 4 5 6; do
        awk "NR % 6 == $i - 1" later | seen add f
    done) &
    pid=$!
    while kill -0 $pid 2>/dev/null; do
        run -0 --separate-stderr seen query -c f keys
        [ "$output" = 20000 ]
        [ -z "$stderr" ]
    done
    wait $pid
    run -0 seen query -c f later
    [ "$output" = 60000 ]
    clean f
}

# full FILTER P KEYS...: adds up to that rate and checks that it went exactly so far.
full()
{
    local filter=$1 p=$2 status=0 where record
    shift 2
    seen add --max-fpr "$p" "$filter" "$@" 2>err || status=$?
    [ $status = 2 ]
    cat err
    [ "$(wc -l <err)" = 1 ]
    [[ $(cat err) =~ ^seen:\ ([^:]*):([0-9]+):\ not\ added:\ .*\'$filter\' ]]
    where=${BASH_REMATCH[1]} record=${BASH_REMATCH[2]}
    clean "$filter"
    # By the bits it is below, and not by much: a few keys more, of at least 400, would have passed.
    seen stats --json "$filter" |
        jq -e --argjson p "$p" '.fpr_current <= $p and
            .fpr_current > 0.97 * $p' ||
        { seen stats --json "$filter" | jq .fpr_current; return 1; }
    # The one that is named is not there; those before it are.
    run -1 seen query -q "$filter" <(sed -n "${record}p" "$where")
    run -1 seen query -q -v "$filter" <(head -n $((record - 1)) "$where")
}

@test "--max-fpr stops before the rate is passed, and names the first key left out" {
    seq 100000 >one
    seq 200001 300000 >two
    for p in 0.01 0.001 1e-4; do
        for n in 3000 50000; do
            quiet seen create --fixed --empty -n $n -p 0.02 --force f
            full f $p one
            [[ $(cat err) == 'seen: one:'* ]]
        done
    done
    # Where nearly each new key counts for several: the others were in by chance.
    seq 300000 >three
    for p in 0.5 0.9 0.99; do
        quiet seen create --fixed --empty -n 10000 -p $p --force f
        full f $p three
    done
    # In the second file, with all of the first one in.
    quiet seen create --fixed --empty -n 150000 -p 0.001 --force f
    for threads in 1 3; do
        quiet seen create --fixed --empty -n 150000 -p 0.001 --force f
        full f 0.001 -j $threads one two
        [[ $(cat err) == 'seen: two:'* ]]
        run -1 seen query -q -v f one
        mv err err.$threads
    done
    cmp err.1 err.3
    # What is there already does no harm, and needs no room.
    quiet seen add --max-fpr 0.001 f one
    run -2 --separate-stderr seen add --max-fpr 0.0005 f -k new
    [[ $stderr == "seen: --key 'new': not added: "* ]]
    quiet seen add --max-fpr 0.002 f -k new
}

@test "a filter that gets too full is warned of once" {
    quiet seen create --fixed --empty -n 10000 -p 0.001 f
    quiet seen add f <(seq 9900)
    run -0 --separate-stderr seen add f <(seq 9900 10500) <(seq 20000 22000)
    [ -z "$output" ]
    [[ ${stderr_lines[0]} == "seen: warning: 'f' is fuller than it was made for: its current"* ]]
    [ "${#stderr_lines[@]}" = 1 ]
    clean f
    # And again by whoever comes next.
    run -0 --separate-stderr seen add f -k another
    [ "${#stderr_lines[@]}" = 1 ]
    # Before 10 times the rate it ends, unless told otherwise.
    run -2 --separate-stderr seen add f <(seq 20000 40000)
    [[ $stderr == *": not added: the false-positive rate of 'f' would pass 0.01, 10 times its design rate; "*" --max-fpr"* ]]
    jq -e '.fpr_current > 0.009 and .fpr_current <= 0.01' <(seen stats --json f)
    clean f
    seen add --max-fpr 0.02 f -k told
    # Not for repeats, in a filter that is just full.
    seq 10000 >keys
    quiet seen create -n 10000 -p 0.001 g keys
    quiet seen add g keys
    # In time, where there is no limit: nearly each new key counts for several.
    for p in 0.1 0.5 0.9; do
        quiet seen create --fixed --empty -n 100000 -p $p --force h
        run -0 --separate-stderr seen add h <(seq 300000)
        [ "${#stderr_lines[@]}" = 1 ]
        rate=${stderr#*rate is }
        awk "BEGIN { r = ${rate%%,*}; exit !(r >= 1.01 * $p && r < 1.04 * $p) }" || { echo "$p: $stderr"; false; }
    done
}

@test "--no-sync leaves a clean file too" {
    quiet seen create --empty -n 1000 f
    quiet seen add --no-sync f <(seq 100)
    clean f
    run -0 seen query -c f <(seq 100)
    [ "$output" = 100 ]
}

@test "a signal ends it after the batch, with a clean file" {
    mkfifo fifo
    # ThreadSanitizer holds a signal back from a thread that waits for a mutex, here perhaps for ever.
    threads=3
    [ "${SANITIZER-}" != thread ] || threads=1
    for signal in INT TERM HUP; do
        quiet seen create --empty -n 1000 --force f
        env --default-signal=INT,HUP,TERM seen add -j $threads f fifo 2>err &
        pid=$!
        exec 7>fifo
        seq 100 >&7
        until_present f 100 $pid
        [ "$(state f)" = writing ]
        kill -$signal $pid
        status=0
        wait $pid || status=$?
        exec 7>&-
        [ $status = $((128 + $(kill -l $signal))) ]
        [ ! -s err ]
        clean f
        run -0 seen query -c f <(seq 100)
        [ "$output" = 100 ]
        seen stats --json f | jq -e '.records == 100'
    done
}

@test "a signal in the middle of much input leaves nothing half done" {
    seq 2000000 >keys
    quiet seen create --empty -n 2000000 f
    env --default-signal=INT seen add -j 2 f keys &
    pid=$!
    until_present f 1 $pid
    kill -INT $pid || true # it may have ended
    status=0
    wait $pid || status=$?
    [ $status = 130 ] || [ $status = 0 ]
    clean f
    # What is in is a beginning of the input: false positives after it are all that is present.
    n=$(fact f records)
    run -1 seen query -q -v f <(head -n "$n" keys)
    if [ $status = 130 ]; then
        [ "$n" -lt 2000000 ]
        run -0 seen query -c f <(tail -n +$((n + 1)) keys)
        [ "$output" -lt $(((2000000 - n) / 500 + 50)) ]
    fi
}

@test "when the file is replaced by another, adding ends, and nothing is lost from either" {
    mkfifo fifo
    quiet seen create -n 1000 -p 1e-6 f -k old
    ln f old
    seen add f fifo 2>err &
    pid=$!
    exec 7>fifo
    seq 10 >&7
    until_present f 10 $pid
    run -0 --separate-stderr seen create -n 2000 -p 1e-6 --force f -k new
    [[ $stderr = "seen: warning: 'f' was replaced while other processes were adding keys; "* ]]
    run -1 seen query f -k 10
    seq 11 20 >&7
    local status=0
    wait $pid || status=$?
    exec 7>&-
    [ $status = 2 ]
    equal "seen: 'f' was replaced while keys were added: run this again" "$(cat err)"
    clean f
    clean old
    run -0 seen query f <(seq 20; echo old; echo new)
    equal new "$output"
    run -0 seen query -c old <(seq 20; echo old; echo new)
    equal 11 "$output"
}

@test "when a merge or a shrink takes the place of the file, adding goes on with it" {
    mkfifo fifo
    quiet seen create -n 200k -p 1e-6 other -k other
    for replace in 'seen shrink f' 'seen merge --force -o f f other'; do
        rm -f f
        quiet seen create -n 200k -p 1e-6 f -k old
        # Two, so that one of them leaves the old file while the other still has it.
        mkfifo second
        seen add f fifo 2>err &
        pid=$!
        exec 7>fifo
        seen add f second 2>err.second &
        local second=$!
        exec 6>second
        seq 10 >&7
        until_present f 10 $pid
        seq 101 110 >&6
        until_present f 110 $second
        # shellcheck disable=SC2086
        quiet $replace
        exec 6>&-
        wait $second
        seq 11 20 >&7
        until_present f 20 $pid
        exec 7>&-
        wait $pid
        [ ! -s err ]
        [ ! -s err.second ]
        clean f
        equal 31 "$(seen query -c f <(seq 20; seq 101 110; echo old))"
        rm second
    done
}

# replaced_late COMMAND...: replaces f after the last key was added to it, as the run sees; it fails
# unless the new file has all keys of the run.
replaced_late()
{
    rm -f f
    quiet seen create -n 200k -p 1e-6 f -k old
    seen add f fifo 2>err &
    pid=$!
    exec 7>fifo
    seq 5000 >&7
    until_present f 5000 $pid
    "$@" 2>said
    exec 7>&-
    status=0
    wait $pid || status=$?
}

@test "at the end a run knows whether its keys are in the file that has the name then" {
    mkfifo fifo
    quiet seen create -n 200k -p 1e-6 all <(seq 6000)
    quiet seen create -n 200k -p 1e-6 other -k other
    for lose in 'create --force -n 200k -p 1e-6 f -k 5000' 'shrink --force -o f other' \
        'merge --force -o f other all'; do
        # shellcheck disable=SC2086
        replaced_late seen $lose
        [ $status = 2 ]
        equal "seen: 'f' was replaced while keys were added: run this again" "$(cat err)"
        [[ $(cat said) = "seen: warning: 'f' was replaced while other processes were adding keys; "* ]]
    done
    # A file that happens to have all keys of the run is no exception.
    replaced_late mv all f
    [ $status = 2 ]
    equal "seen: 'f' was replaced while keys were added: run this again" "$(cat err)"
    replaced_late rm f
    [ $status = 2 ]
    [ "$(cat err)" = "seen: 'f' was removed while keys were added" ]
    replaced_late cp --remove-destination err f
    [ $status = 2 ]
    [[ $(cat err) = "seen: 'f' is not a seen filter"* ]]
    # What keeps the keys is no loss, and nobody warns.
    for keep in 'seen shrink f' 'seen merge --force -o f f other' 'mv f moved'; do
        # shellcheck disable=SC2086
        replaced_late $keep
        [ $status = 0 ]
        [ ! -s err ]
        [ ! -s said ]
    done
}

# running COMMAND...: starts it with the keys of fifo 7, on a file f that has 1 to 100.
running()
{
    rm -f f
    quiet seen create -n 5000 -p 1e-6 --reproducible f <(seq 100)
    "$@" fifo >out 2>err &
    pid=$!
    exec 7>fifo
    eventually is_writing
}

is_writing() { [ "$(state f)" = writing ]; }

# ended STATUS [MESSAGE]: of that command
ended()
{
    exec 7>&-
    status=0
    wait $pid || status=$?
    equal "$1 ${2-}" "$status $(cat err)"
}

@test "an older copy, or another filter of the same header, over the file in mid-run" {
    mkfifo fifo
    local over="seen: 'f' was overwritten while it was in use"
    # Its epochs are ahead of those of f.
    quiet seen create -n 5000 -p 1e-6 --reproducible other -k other
    for key in a b c; do quiet seen add other -k $key; done
    for more in '' last; do
        running seen add f
        seq 101 200 >&7
        until_present f 200 $pid
        cp other f
        [ -z "$more" ] || echo $more >&7
        ended 2 "$over"
        clean f
        run -0 seen query -c f -k other
        running seen add f
        seq 101 200 >&7
        until_present f 200 $pid
        cp f copy
        seq 201 300 >&7
        until_present f 300 $pid
        cp copy f
        [ -z "$more" ] || echo $more >&7
        ended 2 "$over"
    done
}

# Has f's session page counted that many records?
has_counted() { [ "$(peek f 8208 2)" = "$1" ]; }

@test "a run that has no new key, on a file that changes under it" {
    mkfifo fifo
    quiet seen create -n 5000 -p 1e-6 other -k other
    start()
    {
        # shellcheck disable=SC2086
        running seen $command
        [ -z "$keys" ] || seq 100 >&7
        [ -z "$keys" ] || await $pid has_counted c800 # of 200
    }
    for command in 'add f' 'dedup f' 'dedup -q f'; do
        none=0 # the status if all is well
        [ "$command" != 'dedup -q f' ] || none=1
        for keys in '' known; do
            start
            cp other f
            ended 2 "seen: 'f' was overwritten while it was in use"
            start
            truncate -s 0 f
            ended 2 "seen: 'f' is not a seen filter"
            # Keys that f answered for must be in the file that has the name.
            start
            cp other new
            mv new f
            if [ -n "$keys" ]; then
                ended 2 "seen: 'f' was replaced while keys were added: run this again"
            else
                ended $none
            fi
            start
            rm f
            if [ -n "$keys" ]; then
                ended 2 "seen: 'f' was removed while keys were added"
            else
                ended $none
            fi
            [ ! -s out ]
        done
    done
}

@test "a replacement that keys cannot go into ends it" {
    mkfifo fifo
    for replace in 'create --force --hex f -k 00' rm; do
        rm -f f
        quiet seen create -n 1000 f -k old
        seen add f fifo 2>err &
        pid=$!
        exec 7>fifo
        echo a >&7
        until_present f a $pid
        if [ "$replace" = rm ]; then
            rm f
        else
            # shellcheck disable=SC2086
            seen $replace 2>said
            grep -q "^seen: warning: 'f' was replaced while other processes were adding keys" said
        fi
        echo b >&7
        status=0
        wait $pid || status=$?
        exec 7>&-
        [ $status = 2 ]
        if [ "$replace" = rm ]; then
            [ "$(cat err)" = "seen: 'f' was removed while keys were added" ]
        else
            [ "$(cat err)" = "seen: 'f' was replaced while keys were added: run this again" ]
            clean f
        fi
    done
}

@test "a replacement that is no filter ends it" {
    mkfifo fifo
    quiet seen create -n 1000 f -k old
    seen add f fifo 2>err &
    pid=$!
    exec 7>fifo
    echo a >&7
    until_present f a $pid
    echo 'no filter' >g
    mv g f
    echo b >&7
    status=0
    wait $pid || status=$?
    exec 7>&-
    [ $status = 2 ]
    [ "$(cat err)" = "seen: 'f' is not a seen filter" ]
    [ "$(cat f)" = 'no filter' ]
}

@test "a writer that is stopped in its turn is waited for, and after a while that is said" {
    quiet seen create -n 1000 f -k old
    # It holds the turn byte, as a process does that was stopped there.
    cat >hold.py <<'PYTHON'
import fcntl, struct, sys
f = open("f", "r+b")
fcntl.fcntl(f, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 1 << 62, 1, 0))  # F_OFD_SETLK
print("held", flush=True)
sys.stdin.read()
PYTHON
    mkfifo in out
    python3 hold.py <in >out &
    exec 7>in
    read -r _ <out
    seen add f -k new 2>err 7>&- &
    local pid=$!
    await $pid test -s err
    equal "seen: note: waiting for another process, which is changing 'f'" "$(cat err)"
    run -1 seen query -q f -k new
    exec 7>&-
    wait $pid
    run -0 seen query -q f -k new
    [ "$(wc -l <err)" = 1 ]
}

@test "in a file of layers, keys go where they are not yet" {
    seq 5000 >one
    seq 100001 150000 >two
    quiet seen create -p 1e-6 a one
    quiet seen create -p 1e-6 b two
    run -0 seen merge -o f a b
    seen stats --json f | jq -e '.layers | length == 2'
    before=$(fact f fpr_current)
    quiet seen add f one two
    clean f
    [ "$(fact f fpr_current)" = "$before" ]
    quiet seen add --max-fpr 0.1 f -k new
    run -0 seen query -c f -k new one two || run -0 seen query -c f <(cat one two; echo new)
    [ "$output" = 55001 ]
}

@test "a damaged page is found before a writer believes it or changes it" {
    seq 200000 >n
    quiet seen create -n 400k sound n
    at=$(((5 + 20) * 4096)) # three pages of header, one of checksums, one of touched bits
    message="seen: 'f' is damaged: page 20 of layer 0 (offset $at) does not match its checksum"
    for write in 'add f n' 'add f new' 'add --max-fpr 1e-6 f n' 'dedup f n' 'dedup -v f new'; do
        cp sound f
        poke f $((at + 100)) 0000000000000000
        [ "$(peek f $at 4096)" != "$(peek sound $at 4096)" ]
        before=$(peek f $at 4096)
        seq 300000 303000 >new
        # shellcheck disable=SC2086
        run -2 --separate-stderr seen $write
        [ "${stderr_lines[0]}" = "$message" ]
        [ "$(peek f $at 4096)" = "$before" ]
        refuses "seen: 'f' is damaged at offset $at: page 20 of layer 0 does not match its checksum" \
            seen verify f
        run -2 --separate-stderr seen query -c f n
        [ "${stderr_lines[0]}" = "$message" ]
    done
    # Of ones, in which any key would be found.
    seen create --force --fixed --empty -n 1000 sound
    head -c "$(data sound | wc -c)" /dev/zero | tr '\0' '\377' >ones
    for write in 'add f -k a' 'dedup f -k a'; do
        cat <(head -c $((5 * 4096)) sound) ones >f
        # shellcheck disable=SC2086
        rejects "seen: 'f' is damaged: page ? of layer 0 (offset *) does not match its checksum" seen $write
    done
}

@test "a damaged page is found beside other writers, after one was killed, and in other layers" {
    seq 200000 >n
    quiet seen create -n 400k f n
    at=$(((5 + 20) * 4096))
    mkfifo in
    for end in close kill; do
        rm -f out
        seen dedup f <in >out &
        exec 7>in
        echo $end >&7
        await $! test -s out
        if [ "$end" = kill ]; then kill -KILL $!; fi
        poke f $((at + 100)) 0000000000000000
        before=$(peek f $at 4096)
        refuses "seen: 'f' is damaged: page 20 of layer 0 (offset $at) does not match its checksum" \
            seen query -c f n
        if [ "$end" = close ]; then
            refuses "seen: 'f' is damaged: page 20 of layer 0 (offset $at) does not match its checksum" \
                seen add f n
            exec 7>&-
            wait $!
            refuses "seen: 'f' is damaged at offset $at: page 20 of layer 0 does not match its checksum" \
                seen verify f
            [ "$(peek f $at 4096)" = "$before" ]
            quiet seen create --force -n 400k f n
        else
            wait $! || true
            exec 7>&-
            # The damage may have come from a crash: nobody can tell, so a person must.
            for _ in 1 2; do
                refuses "seen: 'f' is dirty since a crash of the machine or a failed sync: 'seen verify --repair' makes a sound file of it" \
                    seen add f -k more
            done
            run -2 --separate-stderr seen query -c f n
            [ "${stderr_lines[1]}" = "seen: 'f' is damaged: page 20 of layer 0 (offset $at) does not match its checksum" ]
            [ "$(peek f $at 4096)" = "$before" ]
        fi
    done
    quiet seen create -p 1e-6 a <(seq 5000)
    quiet seen create -p 1e-6 b <(seq 100001 150000)
    run -0 seen merge -o g a b
    at=$(((5 + 1) * 4096))
    poke g $((at + 100)) 0000000000000000
    for limit in 0.9 1e-9; do
        refuses "seen: 'g' is damaged: page 1 of layer 0 (offset $at) does not match its checksum" \
            seen add --max-fpr $limit g <(seq 200000 200500)
    done
}

@test "--create makes a file as dedup does" {
    seq 1000 >keys
    quiet seen add --create f keys
    seen dedup --create g keys >/dev/null
    for filter in f g; do
        seen stats --json $filter | jq -e '.policy == "grows" and .fpr_design == 1e-6'
    done
    alike <(data f) <(data g)
    quiet seen add --create f -k new
    [ "$(seen query -c f keys <(echo new))" = 1001 ]
    quiet seen add --create --fixed -n 5000 -p 1e-4 -i sized -k ABC
    seen stats --json sized | jq -e '.policy == "FPR rises" and .n_design == 5000 and .fpr_design == 1e-4'
    run -0 seen query -q sized -k abc
    # What is there is used as it is.
    seen create --layout guava -n 1000 -p 0.01 foreign keys
    run -0 seen add --create -n 1000 foreign -k 1
    [ -z "$output" ]
    run -0 seen add --create -n 1001 foreign -k 1
    [ "$output" = "seen: warning: 'foreign' is there already, with a capacity of 1000: --capacity has no effect" ]
    refuses "seen: 'f' was made without --trim, which cannot be added later" \
        seen add --create --trim f -k x
    seen create --counted c keys
    quiet seen add --create --batch-id 1 c -k 1
    # Nothing is made where it cannot be used.
    refuses "seen: cannot open 'none': No such file or directory (-k gives a key)" \
        seen add --create h none
    refuses "seen: --batch-id is for counted sets, which 'seen create --counted' makes" \
        seen add --create --batch-id 1 h -k 1
    refuses "seen: cannot open secret 'none': No such file or directory" seen add --create --secret none h -k 1
    [ ! -e h ]
    refuses "seen: cannot open 'h': No such file or directory (--create makes it)" seen add h -k 1
}
