#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Counted sets that change: add and remove, in batches that are applied as a whole or not at all.
# tags: seeded

# Single quotes here hold other programs; `run` sets stderr, and hold_lock holder.
# shellcheck disable=SC2016,SC2154
load ../lib/helpers

# sums FILTER: how many keys it has, and the sum of their counts.
sums() { seen stats --json "$1" | jq -r '"\(.keys_added) \(.records)"'; }

# keys FILTER: how many it has.
keys() { seen stats --json "$1" | jq .keys_added; }

# set_of FILTER: the bytes of the data. Checksums behind it and the header are bound to file ids.
set_of()
{
    local begin len
    begin=$((($(od -An -tu4 -j 12 -N 4 "$1") + 7) / 8 * 8))
    len=$(seen stats --json "$1" | jq '.layers[0].bytes')
    tail -c +$((begin + 1)) "$1" | head -c "$len"
}

# counts FILTER KEY...: their counts, in one line.
counts()
{
    local filter=$1
    shift
    printf '%s\n' "$@" | seen query --show-counts "$filter" | awk -F '\t' -v keys="$*" '
        { count[$2] = $1 }
        END { n = split(keys, key, " "); for (i = 1; i <= n; i++) print count[key[i]] + 0 }' | xargs
}

@test "create, add and remove count a key as often as it is given" {
    printf '%s\n' a b b c | seen create --counted -n 2000 f.seen
    [ "$(counts f.seen a b c)" = '1 2 1' ]
    quiet seen add f.seen <(printf '%s\n' a a a d)
    [ "$(counts f.seen a b c d)" = '4 2 1 1' ]
    quiet seen add --each f.seen -k d -k d
    seen remove --each f.seen -k d -k d
    seen remove f.seen -k a -k b -k a
    [ "$(counts f.seen a b c d)" = '2 1 1 1' ]
    # More often than it is there, and nothing is removed.
    for keys in '-k b -k b' '-k d -k b -k a -k b'; do
        # shellcheck disable=SC2086 # several words
        refuses "seen: nothing was removed: the batch removes 1 key more often than 'f.seen' has it \
(--once counts a key once)" seen remove f.seen $keys
    done
    [ "$(counts f.seen a b c d)" = '2 1 1 1' ]
    run -0 --separate-stderr seen remove --skip-absent f.seen -k a -k b -k b
    [ "${stderr_lines[0]}" = 'seen: note: 1 key was not in the filter, or not so often, and skipped' ]
    [ "$(counts f.seen a b c d)" = '1 0 1 1' ]
    seen verify f.seen
}

@test "with --once, each distinct key of a batch counts once, and is gone when removed as often as added" {
    printf '%s\n' a b b c | seen create --counted --once -n 2000 f.seen
    quiet seen add --once f.seen <(printf '%s\n' a a a d)
    [ "$(counts f.seen a b c d e)" = '2 1 1 1 0' ]
    seen remove --once f.seen -k a -k b -k a
    [ "$(counts f.seen a b c d e)" = '1 0 1 1 0' ]
    run -0 --separate-stderr seen remove --once --verbose f.seen -k a -k c -k c
    [ "$stderr" = 'seen: note: 3 records, 2 distinct keys, 2 of them gone; 1 key in the filter' ]
    run -0 --separate-stderr seen add --verbose f.seen -k d -k e
    [ "$stderr" = 'seen: note: 2 records, 2 distinct keys, 1 of them new; 2 keys in the filter' ]
    run -0 --separate-stderr seen remove --verbose f.seen -k e
    [ "$stderr" = 'seen: note: 1 record, 1 distinct key, 1 of them gone; 1 key in the filter' ]
    seen remove f.seen -k d
    quiet seen remove f.seen -k d
    [ "$(counts f.seen a b c d e)" = '0 0 0 0 0' ]
    seen verify f.seen
    quiet seen add f.seen -k a
    [ "$(counts f.seen a b)" = '1 0' ]
}

@test "remove says how many keys are still there, and --all leaves none of a key" {
    left() { echo "seen: note: $1 still in 'f.seen', where $2 added more often; --all removes a key entirely"; }
    printf '%s\n' a a a b b c >keys
    seen create --counted f.seen keys
    run -0 --separate-stderr seen remove f.seen -k a -k a -k b -k c
    [ "$stderr" = "$(left '2 of these keys are' 'they were')" ]
    [ "$(counts f.seen a b c)" = '1 1 0' ]
    seen add f.seen keys
    run -0 --separate-stderr seen remove --skip-absent f.seen -k x -k a -k b -k b -k b -k b
    [ "${stderr_lines[0]}" = 'seen: note: 2 keys were not in the filter, or not so often, and skipped' ]
    [ "${stderr_lines[1]}" = "$(left '1 of these keys is' 'it was')" ]
    [ "$(counts f.seen a b c)" = '3 0 1' ]
    # However often it is given; the others keep their counts.
    seen add f.seen keys
    quiet seen remove --all f.seen -k a -k c -k c -k c
    [ "$(counts f.seen a b c)" = '0 2 0' ]
    refuses "seen: --key 'c': the key is not in 'f.seen': nothing was removed (--skip-absent skips such keys)" \
        seen remove --all f.seen -k b -k c
    [ "$(counts f.seen b)" = 2 ]
    run -0 --separate-stderr seen remove --all --skip-absent --verbose f.seen -k c -k c -k b
    [ "${stderr_lines[0]}" = 'seen: note: 1 key was not in the filter, and skipped' ]
    [ "${stderr_lines[1]}" = 'seen: note: 3 records, 2 distinct keys, 1 of them gone; 0 keys in the filter' ]
    seen verify f.seen
    # The same as of the other keys alone; a batch of an ID is removed once.
    seq 3000 | sed p | seen create --reproducible --counted -n 9000 -p 1e-9 f.seen --force
    seen remove --all --batch-id 1 f.seen <(seq 1000 2 2000)
    seen add f.seen <(seq 1000 2 2000)
    seen remove --all --batch-id 1 f.seen <(seq 1000 2 2000)
    [ "$(seen query -c f.seen <(seq 3000))" = 3000 ]
    [ "$(counts f.seen 1000 1001 1002)" = '1 2 1' ]
}

@test "a file after add and remove is the one that create makes of these keys" {
    seq 20000 | seen create --counted -n 30000 -p 1e-6 f.seen
    seq 15001 30000 | seen add f.seen
    seq 5001 25000 | seen remove f.seen
    { seq 5000; seq 15001 20000; seq 25001 30000; } | seen create --counted -n 30000 -p 1e-6 g.seen
    alike <(set_of f.seen) <(set_of g.seen)
    [ "$(sums f.seen)" = '15000 15000' ]
    # Threads and memory do not matter.
    seq 15000 | seen add --memory 20M -j 1 f.seen
    seq 15000 | seen add -j 3 g.seen
    alike <(set_of f.seen) <(set_of g.seen)
}

@test "a small batch changes a large file as a large one would" {
    # More than one part of the work: the parts without keys of the batch are taken over as they are.
    seq 500000 | seen create --counted -n 500k f.seen
    printf '%s\n' 7 70 123456 | seen remove f.seen
    seq 500001 500002 | seen add f.seen
    seq 500002 | grep -vx '7\|70\|123456' | seen create --counted -n 500k g.seen
    alike <(set_of f.seen) <(set_of g.seen)
    seen verify f.seen
    seen add f.seen -k 500001
    [ "$(counts f.seen 7 500000 500001)" = '0 1 2' ]
    seen remove f.seen -k 500001
    alike <(set_of f.seen) <(set_of g.seen)
}

@test "a key that is not there keeps a batch from being removed, and is named" {
    seq 1000 | seen create --counted -p 0 f.seen
    cp f.seen before.seen
    { seq 10 20; echo x; echo y; } >keys
    not=': nothing was removed (--skip-absent skips such keys)'
    refuses "seen: keys:12: the key is not in 'f.seen'$not" seen remove f.seen keys
    refuses "seen: (standard input):1: the key is not in 'f.seen'$not" seen remove f.seen <<<y
    refuses "seen: --key 'y': the key is not in 'f.seen'$not" seen remove f.seen -k 1 -k y
    # Far back in a large input, whichever thread comes to it first.
    { seq 1000; seq 500 1000; for ((i = 0; i < 300; i++)); do seq 1000; done; echo no; seq 2000; } >many
    refuses "seen: many:301502: the key is not in 'f.seen'$not" seen remove -j 4 f.seen many
    cmp f.seen before.seen
    run -0 --separate-stderr seen remove --skip-absent f.seen keys
    [ "$stderr" = 'seen: note: 2 keys were not in the filter, or not so often, and skipped' ]
    [ "$(sums f.seen)" = '989 989' ]
    run -0 --separate-stderr seen remove --skip-absent --verbose f.seen -k y -k 1
    [ "${stderr_lines[0]}" = 'seen: note: 1 key was not in the filter, or not so often, and skipped' ]
    [ "${stderr_lines[1]}" = 'seen: note: 2 records, 2 distinct keys, 1 of them gone; 988 keys in the filter' ]
}

@test "a batch with a key that vanishes meanwhile is not removed" {
    seq 10 | seen create --counted -n 2000 f.seen
    mkfifo keys
    seen remove f.seen keys 2>err &
    exec {hold}>keys
    printf '3\n4\n' >&"$hold"
    seen remove f.seen -k 3
    exec {hold}>&-
    status=0
    wait $! || status=$?
    [ $status = 2 ]
    [ "$(cat err)" = "seen: 1 key of the batch went missing from 'f.seen' meanwhile: nothing was removed" ]
    [ "$(counts f.seen 3 4)" = '0 1' ]
}

@test "keys that were never added cannot be removed together with those they pass for" {
    # One fingerprint of few bits for many keys.
    seen create --counted -p 0.4 f.seen -k a
    while read -r key; do
        seen remove f.seen -k a -k "$key" 2>err || break
        seen add f.seen -k a -k "$key"
    done < <(seen query f.seen <(seq 1000))
    grep -q '^seen: nothing was removed: the batch removes 1 key more often' err
    [ "$(counts f.seen a)" = 1 ]
}

@test "records have fields, are prepared as in the filter, and bad ones can be skipped" {
    printf 'AB,1\ncd,2\n' | seen create --counted --hex -d, -f1 f.seen
    refuses 'seen: (standard input):1: not hexadecimal' seen remove -d, -f1 f.seen <<<'xy,1'
    run -0 --separate-stderr seen remove --skip-bad -d, -f1 f.seen <<<$'xy,1\nab,2'
    [ "$stderr" = 'seen: note: 1 of 2 records had no key and were skipped' ]
    printf 'CD\0' | seen remove -0 f.seen
    [ "$(sums f.seen)" = '0 0' ]
    refuses "seen: 'f.seen' was made without --trim, which cannot be added later" \
        seen add --trim f.seen -k ab
    refuses "seen: cannot read 'f.seen': it is the filter" seen add f.seen f.seen || true
}

@test "a batch of an ID is applied once" {
    seq 10 | seen create --counted -n 2000 f.seen
    for i in 1 2 3; do seen add --batch-id one f.seen <(seq 5 15); done
    [ "$(counts f.seen 4 5 15)" = '1 2 1' ]
    run -0 --separate-stderr seen add --batch-id one --verbose f.seen -k 99
    [ "$stderr" = 'seen: note: a batch of this ID has been applied before: nothing was done' ]
    # The same one for the other command is another; so is one that begins like it.
    for i in 1 2 3; do seen remove --batch-id one f.seen <(seq 5 15); done
    [ "$(counts f.seen 4 5 15)" = '1 1 0' ]
    seen add --batch-id one1 f.seen -k 4
    [ "$(counts f.seen 4)" = 2 ]
    # A batch of no keys is not remembered, one that failed neither.
    run -0 --separate-stderr seen add --batch-id two --verbose f.seen </dev/null
    [ "$stderr" = 'seen: note: no keys: nothing was done' ]
    quiet seen add --batch-id two f.seen </dev/null
    run -2 seen remove --batch-id two f.seen -k absent
    seen add --batch-id two f.seen -k 4
    seen remove --batch-id two f.seen -k 4
    [ "$(counts f.seen 4)" = 2 ]
    refuses "seen: option '--batch-id' is empty" seen add --batch-id '' f.seen -k 4
    seen verify f.seen
}

@test "the IDs of batches are stored as seen(5) says" {
    seq 10 | seen create --counted -n 2000 f.seen
    seen add --batch-id one f.seen -k 4
    seen remove --batch-id one f.seen -k 4
    # XXH3 of "add one" and "remove one", with seed 0 and 1, behind the fixed part of the header and its one layer.
    [ "$(peek f.seen $((256 + 88)) 32)" = 63b56dbe2284e36fc8d13276c8438c29762186ef7451f6363f16d6ddd4bb2085 ]
}

@test "every occurrence counts, once for each ID" {
    seq 20000 | awk '{ for (n = $1 % 7; n >= 0; n--) print }' >keys
    seq 10001 30000 >rest
    seen create --counted -p 0 --reproducible f.seen keys
    for args in '-j 1' '-j 3' '-j 1 --memory 15M'; do
        cp f.seen g.seen
        # shellcheck disable=SC2086 # several words
        seen add --batch-id one $args g.seen keys rest keys
        seen add --batch-id one g.seen keys
        [ "$(counts g.seen 7 13 10006 30000)" = '3 21 13 1' ]
        sort keys keys keys rest | uniq -c | awk '{ print $1 "\t" $2 }' >want
        cut -f 2 want | seen query --show-counts g.seen | cmp want -
        seen verify g.seen
    done
    run -0 --separate-stderr seen add --verbose g.seen -k 7 -k 7 -k x
    [ "$stderr" = 'seen: note: 3 records, 2 distinct keys, 1 of them new; 30001 keys in the filter' ]
    seen remove g.seen -k 7 -k 7
    [ "$(counts g.seen 7 x)" = '3 1' ]
}

@test "the last 128 IDs are remembered" {
    seen create --counted -n 2000 f.seen -k a
    for ((i = 0; i < 128; i++)); do seen add --batch-id "$i" f.seen -k a; done
    seen add --batch-id 0 f.seen -k a
    [ "$(counts f.seen a)" = 129 ]
    seen add --batch-id 128 f.seen -k a
    seen add --batch-id 1 f.seen -k a
    seen add --batch-id 127 f.seen -k a
    seen add --batch-id 128 f.seen -k a
    [ "$(counts f.seen a)" = 130 ]
    seen add --batch-id 0 f.seen -k a
    [ "$(counts f.seen a)" = 131 ]
}

@test "more chosen keys than a stretch of a counted set takes are refused; with a secret they are taken" {
    python3 "$SOURCE/tests/lib/crafted.py" run 65000 >some
    python3 "$SOURCE/tests/lib/crafted.py" run 66000 >many
    seen create --counted -p 0 --hex f.seen some
    cp f.seen before.seen
    for command in 'add f.seen many' 'create --force --counted -p 0 --hex f.seen many'; do
        # shellcheck disable=SC2086 # several words
        run -2 --separate-stderr seen $command
        [ "$output" = '' ]
        [ "$stderr" = "seen: the hashes of more than 65535 keys are too close together: such keys were \
chosen to do harm; a filter made with --secret takes them" ]
        cmp f.seen before.seen
    done
    quiet seen create --counted -p 0 --hex --secret s.key --new-secret g.seen many
    [ "$(seen query -c --secret s.key g.seen many)" = 66000 ]
}

@test "whenever it is killed, the file is as before or as after, and a repetition makes it as after" {
    need_preload
    seq 500 | seen create --counted -n 2000 f.seen
    seq 400 600 >keys
    cp f.seen old.seen
    seen add --batch-id x f.seen keys
    set_of old.seen >old
    set_of f.seen >new
    killed=0
    for call in fcntl open pwritev write ftruncate mmap fsync fdatasync linkat renameat renameat2 unlinkat; do
        for nth in 1 2 3 4 5 6 8 12; do
            cp old.seen f.seen
            run failing "$call:$nth:kill" seen add -j 1 --batch-id x f.seen keys
            [ "$status" != 0 ] || break
            killed=$((killed + 1))
            set_of f.seen >got
            cmp -s got old || cmp got new
            seen verify f.seen
            seen add --batch-id x f.seen keys
            set_of f.seen | cmp - new
        done
    done
    [ $killed -ge 10 ]
    # Nothing else is left lying there.
    [ -z "$(find . -name '.*seen*')" ]
}

@test "whatever fails, the file is as before" {
    need_preload
    seq 500 | seen create --counted -n 2000 f.seen
    cp f.seen old.seen
    failures=0
    for call in pwritev ftruncate linkat renameat renameat2 fsync; do
        for nth in 1 2 3 4 5 6; do
            cp old.seen f.seen
            run --separate-stderr failing "$call:$nth:ENOSPC" seen remove -j 1 f.seen -k 7
            [ "$status" != 0 ] || break
            [ "$status" = 2 ]
            [[ $stderr == 'seen: cannot '*': No space left on device' && $stderr != *$'\n'* ]]
            # Of a directory's sync it is not known what it has done.
            [[ $stderr == *'sync the directory'* ]] || cmp f.seen old.seen
            failures=$((failures + 1))
        done
    done
    [ $failures -ge 4 ]
    [ -z "$(find . -name '.*seen*')" ]
}

@test "keys for which there is no room in scratch are not left out" {
    seq 1000 | seen create --counted f.seen
    cp f.seen old.seen
    seq 3000000 >keys
    refuses "seen: cannot write 'scratch file': File too large" \
        bash -c 'ulimit -f 100; seen remove --skip-absent --memory 16M f.seen keys'
    cmp f.seen old.seen
}

@test "two that add at once both do, and readers are not disturbed" {
    seq 100 | seen create --counted -n 2000 f.seen
    mkfifo ask
    seen query -c f.seen ask >asked &
    reader=$!
    exec {hold}>ask
    until_open f.seen $reader
    hold_lock f.seen
    seen add f.seen <(seq 1001 1100) &
    a=$!
    seen remove f.seen <(seq 50) &
    b=$!
    until_waiting f.seen $a
    until_waiting f.seen $b
    [ "$(seen query -c f.seen <(seq 100))" = 100 ]
    echo >release
    wait "$holder" "$a" "$b"
    [ "$(seen query -c f.seen <(seq 51 100; seq 1001 1100))" = 150 ]
    [ "$(keys f.seen)" = 150 ]
    seq 2000 >&"$hold"
    exec {hold}>&-
    wait $reader
    [ "$(cat asked)" -ge 100 ]
    [ "$(cat asked)" -le 101 ]
}

@test "many at once lose nothing" {
    seen create --counted -n 2000 f.seen -k a
    pids=()
    for ((i = 0; i < 6; i++)); do
        for ((j = 0; j < 5; j++)); do seen add f.seen -k a -k "$i.$j"; done &
        pids+=($!)
    done
    wait "${pids[@]}"
    [ "$(counts f.seen a 0.0 5.4)" = '31 1 1' ]
    [ "$(keys f.seen)" = 31 ]
}

@test "a filter that others have put there meanwhile gets the batch if it is fit for it" {
    seq 100 | seen create --counted -p 1e-4 f.seen
    mkfifo keys
    meanwhile()
    {
        seen add f.seen keys 2>err &
        exec {hold}>keys
        echo new >&"$hold"
        until_open f.seen $!
        "$@"
        exec {hold}>&-
        status=0
        wait $! || status=$?
    }
    meanwhile seen create --counted --force -p 1e-2 f.seen -k other
    [ $status = 0 ]
    [ "$(counts f.seen other new 1)" = '1 1 0' ]
    meanwhile seen create --counted --force -p 1e-7 f.seen -k other
    [ $status = 2 ]
    grep -q "^seen: 'f.seen' was replaced meanwhile by another filter: run this again$" err
    meanwhile seen create --force f.seen -k other
    [ $status = 2 ]
    grep -q "^seen: 'f.seen' was replaced meanwhile by another filter: run this again$" err
    rm f.seen
    seen create --counted -n 2000 f.seen -k other
    meanwhile seen create --counted --force --trim f.seen -k other
    [ $status = 2 ]
    grep -q "^seen: 'f.seen' was replaced meanwhile by another filter: run this again$" err
    meanwhile rm f.seen
    [ $status = 2 ]
    [ ! -e f.seen ]
}

@test "a batch that another process adds meanwhile is added once, and synced" {
    need_preload
    seq 10 | seen create --counted -n 2000 f.seen
    mkfifo keys
    for sync in 0 1 2 3; do # the one that fails, the last of which is that of the directory; 0: none
        LD_PRELOAD=${SEEN%/*}/preload.so INJECT=fsync:$((sync > 0 ? sync : 9)):EIO \
            seen add --batch-id "$sync" f.seen keys 2>err &
        exec {hold}>keys
        echo a >&"$hold"
        until_open f.seen $!
        seen add --batch-id "$sync" f.seen -k a
        exec {hold}>&-
        status=0
        wait $! || status=$?
        [ $status = $((sync > 0 ? 2 : 0)) ]
        [ $sync = 0 ] || grep '^seen: cannot sync .*: Input/output error$' err
    done
    # So is one that was added before.
    refuses "seen: cannot sync 'f.seen': Input/output error" failing fsync:1:EIO seen add --batch-id 3 f.seen -k a
    [ "$(counts f.seen a)" = 4 ]
}

@test "mode, links and time made stay" {
    seen create --counted -n 2000 f.seen -k a
    chmod 640 f.seen
    made=$(fact f.seen created)
    ln -s f.seen link.seen
    seen add link.seen -k b
    [ -L link.seen ]
    [ "$(stat -c %a f.seen)" = 640 ]
    [ "$(fact f.seen created)" = "$made" ]
    [ "$(counts f.seen a b)" = '1 1' ]
}

@test "a damaged file is not made another with valid checksums" {
    seq 5000 | seen create --counted f.seen
    poke f.seen 3000 ff
    cp f.seen old.seen
    run -2 --separate-stderr seen add f.seen -k x
    [[ $stderr == "seen: 'f.seen' is damaged"* ]]
    cmp f.seen old.seen
}

@test "a filter for few keys warns when it gets more, and --max-fpr refuses them" {
    seen create --counted -n 1000 -p 1e-3 --empty f.seen
    quiet seen add f.seen <(seq 500)
    run -2 --separate-stderr seen add --max-fpr 1e-3 f.seen <(seq 10000)
    [[ $stderr == "seen: the false-positive rate of 'f.seen' would be "*', above 0.001: nothing was added' ]]
    [ "$(keys f.seen)" = 500 ]
    quiet seen add --max-fpr 1e-3 f.seen <(seq 500)
    run -0 --separate-stderr seen add f.seen <(seq 8000)
    [[ $stderr == "seen: warning: 'f.seen' is fuller than it was made for: "* ]]
    [ "${#stderr_lines[@]}" = 1 ]
    local held
    held=$(keys f.seen)
    # Before 10 times the rate it ends, unless told otherwise.
    local full=", above 0.01, 10 times its design rate: nothing was added; make a set with a larger --capacity, "
    full+="or set another limit with --max-fpr"
    run -2 --separate-stderr seen add f.seen <(seq 12000)
    [[ $stderr == "seen: the false-positive rate of 'f.seen' would be 0.01"*"$full" ]]
    [ "$(keys f.seen)" = "$held" ]
    seen add --max-fpr 0.99 f.seen <(seq 12000) 2>/dev/null
    [ "$(keys f.seen)" -gt "$held" ]
    seen add f.seen <(seq 12000) 2>/dev/null
    run -0 --separate-stderr seen query -c f.seen <(seq 12000)
    [[ $stderr == "seen: warning: 'f.seen' has far more keys than it was made for: "*"; make one with a larger --capacity" ]]
    # With whole hashes, no other filter would have a lower rate.
    seen create --counted -p 0 -n 100 --empty g.seen
    quiet seen add g.seen <(seq 5000)
    run -2 --separate-stderr seen add --max-fpr 1e-17 g.seen -k x
    [[ $stderr == *': nothing was added' ]]
}

@test "what makes no sense is refused, and what does is named" {
    seen create f.seen -k a
    seen create --compact c.seen -k a
    seen create --counted -n 2000 n.seen -k a
    why='is not a counted set: its keys share bits, so none can be removed without others'
    for f in f c; do
        refuses "seen: '$f.seen' $why; 'seen create --counted' makes sets from which keys can be removed" \
            seen remove $f.seen -k a
    done
    uri=redis://127.0.0.1:1/x
    refuses "seen: '$uri' is an address: keys can be removed only from files that 'seen create --counted' makes" \
        seen remove "$uri" -k a
    run -2 --separate-stderr seen dedup n.seen </dev/null
    [[ $stderr == "seen: 'n.seen' is a counted set, which takes keys in whole batches, "* ]]
    rejects "seen: 'n.seen' has no generations, so it cannot be rotated; *" seen rotate n.seen
    [ "$(seen dedup --create --also n.seen g.seen <<<$'a\nb')" = b ]
    refuses "seen: --batch-id is for counted sets, which 'seen create --counted' makes" \
        seen add --batch-id x f.seen -k b
    refuses "seen: 'n.seen' has no generations, so it cannot be rotated" \
        seen add --rotate-at-capacity n.seen -k a
    refuses 'seen: --memory must be at least '"$(seen add --memory 1M n.seen -k a 2>&1 | sed -n '1s/.*least //p')" \
        seen remove --memory 1 n.seen -k a
    refuses "seen: cannot open 'none.seen': No such file or directory" seen remove none.seen -k a
    rejects "seen: option '--field': 'x' is not *" seen remove -f x n.seen <<<a
}

@test "a job with IDs may be stopped anywhere and run again" {
    # shellcheck disable=SC2016 # for another shell
    printf '%s\n' 'for batch in *.add *.remove; do' '    [ -e "$batch" ] || continue' \
        '    seen "${batch##*.}" --once --batch-id "$batch" blocked.seen "$batch" && mv "$batch" done/' 'done' >job
    mkdir "done" bin
    seq 100 | seen create --counted -n 2000 blocked.seen
    seq 90 110 >2026-11-20T10.add
    seq 10 >2026-11-20T10.remove
    seq 101 110 >2026-11-20T11.remove
    # Stopped before a batch is moved away, each time.
    printf '#!/bin/sh\nkill -9 $PPID\n' >bin/mv
    chmod +x bin/mv
    for i in 1 2; do
        run -137 env PATH="$PWD/bin:$PATH" bash job
        [ "$(keys blocked.seen)" = 110 ]
    done
    bash job
    [ "$(keys blocked.seen)" = 90 ]
    [ "$(counts blocked.seen 10 11 90 100 101)" = '0 1 2 2 0' ]
    [ "$(cd "done" && echo *)" = '2026-11-20T10.add 2026-11-20T10.remove 2026-11-20T11.remove' ]
    bash job
    [ "$(keys blocked.seen)" = 90 ]
}

@test "the job of seen(7) may be stopped anywhere and run again" {
    local title='A block list that changes every hour'
    mkdir "done" bin
    seq 100 >first.txt
    recipe "$title" 1
    seq 90 110 >2026-11-20T10.add
    seq 10 >2026-11-20T10.remove
    { seq 5; echo 200; } >2026-11-20T11.add
    seq 101 300 >2026-11-20T12.remove
    printf '#!/bin/sh\nkill -9 $PPID\n' >bin/mv
    chmod +x bin/mv
    recipe_script "$title" 2 's#/srv/blocked#.#'
    for i in 1 2; do
        run -137 env PATH="$PWD/bin:$PATH" bash script
        [ "$(keys master.seen)" = 110 ]
    done
    bash script
    [ "$(sums master.seen)" = '95 95' ]
    [ "$(counts master.seen 1 5 6 90 101 200)" = '1 1 0 1 0 0' ]
    [ ! -e 2026-11-20T12.remove ]
    quiet bash script
    recipe_script "$title" 3 's/^[0-9* ]+//; s#/srv/blocked#.#g; /flock|PATH/d'
    quiet bash script
    [ "$(seen query -c ship.seen <(seq 6 10; seq 101 300))" = 0 ]
    [ "$(seen query -c ship.seen <(seq 5; seq 11 100))" = 95 ]
}

@test "random batches, beside a model" {
    seed=${SEED:-1}
    echo "seed $seed"
    PYTHONDONTWRITEBYTECODE=1 python3 - "$seed" <<'END'
import collections, random, subprocess, sys

rnd = random.Random(int(sys.argv[1]))
keys = [f"key {i}" for i in range(300)]
model = collections.Counter()
batches = 0


def seen(*args, keys=()):
    lines = "".join(key + "\n" for key in keys)
    return subprocess.run(["seen", *args], input=lines, capture_output=True, text=True)


def check():
    p = seen("query", "--show-counts", "f.seen", keys=keys)
    got = dict(reversed(line.split("\t")) for line in p.stdout.splitlines())
    assert got == {key: str(n) for key, n in model.items() if n > 0}, "counts differ"


assert seen("create", "--counted", "-p", "0", "--empty", "f.seen").returncode == 0
for step in range(60):
    batch = rnd.choices(keys, k=rnd.choice([1, 3, 30, 300]))
    adds = rnd.random() < 0.55
    skip = not adds and rnd.random() < 0.5
    if not adds and rnd.random() < 0.7:
        batch = [key for key in batch if model[key]] or batch
    args = ["add" if adds else "remove"] + ["--skip-absent"] * skip
    args += ["--batch-id", str(batches)] * (rnd.random() < 0.5)
    once = rnd.random() < 0.4
    args += ["--once"] * once
    times = collections.Counter(set(batch) if once else batch)
    batches += 1
    p = seen(*args, "f.seen", keys=batch)
    absent = [key for key in batch if not model[key]]
    more = [key for key in times if times[key] > model[key]]
    fails = not adds and not skip and more
    assert p.returncode == (2 if fails else 0), p.stderr
    if fails and not absent:
        assert p.stderr.startswith("seen: nothing was removed: the batch removes "), p.stderr
    elif fails:
        assert p.stderr.startswith(f"seen: (standard input):{batch.index(absent[0]) + 1}: "), p.stderr
    else:
        for key, n in times.items():
            model[key] += n if adds else -min(n, model[key])
        if "--batch-id" in args:
            assert seen(*args, "f.seen", keys=batch).returncode == 0
    if step % 10 == 9:
        check()
assert seen("verify", "f.seen").returncode == 0
END
}
