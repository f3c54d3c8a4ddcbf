#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Filters that grow, filters that are folded, and several filters asked at once.
# shellcheck disable=SC2002,SC2094 # a pipe is something else than a file; input is compared with output
# tags: slow

load ../lib/helpers

layers() { seen stats --all "$1" | grep -c '^layer '; }

# pages FILTER: those of its first layer.
pages() { seen stats --json "$1" | jq .layers[0].pages; }

@test "a filter grows from nothing, and keeps its rate" {
    seen create -n 20k -p 1e-3 --empty g.seen
    [ "$(layers g.seen)" = 1 ]
    seq 1 290000 | seen add g.seen
    [ "$(layers g.seen)" = 7 ]
    run -0 seen query -v -c g.seen <(seq 1 290000) || [ "$status" = 1 ]
    [ "$output" = 0 ]
    # The promise, by the bits and by asking for 10^6 other keys: 1000 at 1e-3, of deviation 32.
    awk -v p="$(fact g.seen fpr_current)" 'BEGIN { exit !(p > 0 && p <= 1e-3) }'
    [ "$(seq 1000001 2000000 | seen query -c g.seen)" -lt 1160 ]
    [ "$(fact g.seen policy)" = grows ]
    seen verify g.seen
    reader verify g.seen
    seq 289000 291000 >asked
    reader query g.seen <asked >theirs
    seen query g.seen asked | cmp - theirs
}

@test "the first layer takes the keys that are given, and growth goes on from there" {
    seen create -n 1k -p 1e-4 g.seen <(seq 5000)
    [ "$(layers g.seen)" = 1 ]
    seen add g.seen <(seq 30000)
    [ "$(layers g.seen)" = 5 ]
    [ "$(seen query -c g.seen <(seq 30000))" = 30000 ]
    refuses "seen: 'g.seen' is not a single Bloom filter, so --like cannot copy it" \
        seen create --like g.seen h.seen --empty
}

@test "a first layer that is larger than a file can be is refused, though a filter that does not grow fits" {
    refuses "seen: no layer can be made for 1.33e+16 keys at an FPR of 0.00657" \
        seen create --grow --empty -n 1.33e16 -p 0.0073 f.seen
    [ ! -e f.seen ]
    run -2 seen create --fixed --empty -n 1.33e16 -p 0.0073 f.seen
    [[ $output == *"bytes are needed"* ]]
}

@test "a filter whose layers have used up its rate, as a forger may say, is full" {
    seen create --grow -n 1000 -p 1e-3 --empty g.seen
    forge g.seen layer.0.fpr=0.001-2e-14
    refuses "seen: 'g.seen' is full: no layer can be made for 4096 keys at an FPR of 2.5e-15" \
        seen add g.seen <(seq 50000)
    [ "$(layers g.seen)" = 1 ]
    seen verify g.seen
}

@test "few pages, full of any keys, keep the promise" {
    for i in {1..12}; do
        seen create -p 1e-9 "f.$i" <(seq "${i}000" "${i}518")
        seen create --empty -n 519 -p 1e-9 "g.$i"
        seen add "g.$i" <(seq "${i}000" "${i}518")
    done
    # Keys of which many fall to one line.
    seq -f 'b303.%g' 3644 | seen create -p 1e-9 six
    seq -f 'a196.%g' 1197 | seen create -p 1e-9 two
    seen stats --json {f,g}.{1..12} six two | jq -se 'length == 26 and all(.fpr_current <= 1e-9)'
}

@test "four writers and a reader while it grows" {
    seen create --grow -n 10k -p 1e-3 --empty g.seen
    mkfifo ask
    # A reader that was there before the layers were.
    seen query g.seen <ask >answered &
    reader=$!
    exec 8>ask
    until_open g.seen $reader
    for i in 0 1 2 3; do
        seq $((i * 40000)) $((i * 40000 + 59999)) | seen add g.seen &
        writers[i]=$!
    done
    wait "${writers[@]}"
    [ "$(layers g.seen)" -ge 3 ]
    seq 0 40 179999 >&8
    exec 8>&-
    wait $reader
    cmp answered <(seq 0 40 179999)
    [ "$(seen query -c g.seen <(seq 0 179999))" = 180000 ]
    seen verify g.seen
    awk -v p="$(fact g.seen fpr_current)" 'BEGIN { exit !(p <= 1e-3) }'
}

has_line() { grep -qxF "$2" "$1"; }

# told OUT FILTER THREADS: dedup of part.1 to part.3 in one process. Behind each another process adds more
# keys than the newest layer has room for. What is written to a pipe at once comes as one chunk.
told()
{
    local pid i
    mkfifo "in.$3"
    seen dedup -j "$3" "$2" <"in.$3" >"$1" &
    pid=$!
    exec 8>"in.$3"
    for i in 1 2 3; do
        dd if=part.$i bs=4096 status=none >&8
        await $pid has_line "$1" "new ${i}00"
        seen dedup -j "$3" "$2" other.$i >>"$1.other"
    done
    exec 8>&-
    wait $pid
}

@test "a filter that grows under several processes is the same for any number of threads" {
    seen create --reproducible --grow -n 2k -p 1e-3 --empty empty
    for i in 1 2 3; do
        # Of the keys of a part, a third has come before in this process, a third in the other.
        awk -v part=$i 'BEGIN {
            for (i = part * 100 - 99; i <= part * 100; i++)
                printf "%d\nnew %d\nnew %d\n", i * 1000, i / 2, i
        }' >part.$i
        [ "$(size part.$i)" -le 4096 ]
        seq $((i * 30000)) $((i * 60000)) >other.$i
    done
    for threads in 1 8; do
        cp empty f.$threads
        told out.$threads f.$threads $threads
    done
    [ "$(layers f.1)" -ge 4 ]
    cmp out.1 out.8
    cmp out.1.other out.8.other
    # Behind the headers, which have times in them.
    cmp -i 12288 f.1 f.8
    for name in records keys_added n_estimate dropped_estimate; do
        equal "$(fact f.1 $name)" "$(fact f.8 $name)"
    done
}

capacities() { seen stats --json "$1" | jq -c '[.layers[].n_design]'; }

@test "a filter that grows has the same layers for any number of threads, from a file or a pipe" {
    seq 400000 >in
    seen create --reproducible --grow -n 10k -p 1e-8 --empty empty
    cp empty f.all
    seen add -j 1 f.all in
    [ "$(layers f.all)" -ge 5 ]
    for threads in 1 2 8; do
        cp empty f.$threads
        seen dedup -j $threads f.$threads in | cmp - in
        cp empty g.$threads
        seen add -j $threads g.$threads <in
        # Behind the headers, which have times in them.
        cmp -i 12288 f.all f.$threads
        cmp -i 12288 f.all g.$threads
    done
    gzip <in >in.gz
    for input in "cat in" "cat in.gz"; do
        cp empty h
        $input | seen dedup h | cmp - in
        equal "$(capacities h)" "$(capacities f.all)"
    done
    seen verify f.all
    reader verify f.all
}

@test "the first layer is for the input, if that is a file" {
    seq 100000 >in
    seen dedup --create f.seen in >/dev/null
    [[ $(capacities f.seen) =~ ^.([0-9]+).$ ]]
    [ "${BASH_REMATCH[1]}" -ge 100000 ]
    [ "${BASH_REMATCH[1]}" -lt 112000 ]
    seen add --create g.seen <in
    equal "$(capacities g.seen)" "$(capacities f.seen)"
    { read -r _; seen add --create tail.seen; } <in # which begins behind its first line
    [ "$(seen query -c tail.seen in)" = 99999 ]
    [ "$(seen query -c g.seen in)" = 100000 ]
    tr '\n' '\0' <in >in.0
    seen add -0 --create h.seen in.0 in.0
    [ "$(capacities h.seen)" = "[100000]" ] # a file of 200000 records had been expected
    # A filter for a few keys is small, and may become large.
    printf '%s\n' a b c >few
    seen add --create few.seen few
    [ "$(capacities few.seen)" = "[16384]" ]
}

@test "the first layer for many records is for the keys that a look at the file finds" {
    seq 1000001 2500000 >in
    seen add --no-sync --create f.seen in
    [[ $(capacities f.seen) =~ ^.([0-9]+).$ ]]
    [ "${BASH_REMATCH[1]}" -ge 1500000 ]
    [ "${BASH_REMATCH[1]}" -lt 1650000 ]
    # Each key comes twelve times: 125000 are less than the usual layer has room for.
    awk '{ print int($1 / 12) }' in >many
    shuf --random-source=<(yes) many >mixed
    awk '{ print $1, $1 % 50000 }' in >fields
    # A run that nobody listens to leaves the first layer as it was.
    { seen dedup --no-sync --create g.seen mixed || [ $? = 141 ]; } | head -n 1
    { seen dedup --no-sync -f 2 -d ' ' --create h.seen fields || [ $? = 141 ]; } | head -n 1
    [ "$(capacities g.seen) $(capacities h.seen)" = "[1048576] [1048576]" ]
    # One long file three times: repeats are far away, so more keys are expected than come. The layer
    # is made smaller in the end, or where there is no room for it.
    seq 1000001 2000000 >in
    cat in in in >thrice
    { seen dedup --no-sync --create i.seen thrice || [ $? = 141 ]; } | head -n 1
    [[ $(capacities i.seen) =~ ^.([0-9]+).$ ]]
    [ "${BASH_REMATCH[1]}" -gt 2000000 ]
    [ "${BASH_REMATCH[1]}" -lt 3300000 ]
    seen add --no-sync --create j.seen thrice
    [ "$(capacities j.seen)" = "[1000000]" ]
    (ulimit -f 5000; seen add --no-sync --create k.seen thrice)
    [ "$(capacities k.seen)" = "[1048576]" ]
    [ "$(seen query -c k.seen in)" = 1000000 ]
    # In memory, too.
    [ -n "${SANITIZER-}" ] || ulimit -v 150000 # a sanitizer takes addresses by the terabyte
    seen dedup -j1 <thrice | cmp - in
}

@test "a filter that a run has made gets the size of its keys in the end" {
    # Without what has random numbers in it: the headers, and the checksums behind them.
    bits() { tail -c $(($(pages "$1") * 4096)) "$1"; }
    seq 100000 >in
    for threads in 1 2 8 500; do
        cat in in | seen dedup --create -p 1e-4 -j $threads f.$threads | cmp - in
        [ "$(capacities f.$threads)" = "[100000]" ]
        alike <(bits f.1) <(bits f.$threads)
        cat in in | seen add --create -p 1e-4 -j $threads g.$threads
        alike <(bits f.1) <(bits g.$threads)
    done
    seen verify f.1
    reader verify f.1
    [ "$(fact f.1 fpr_design)" = 0.0001 ]
    [ "$(fact f.1 records)" = 200000 ]
    says '^counters agree with bits *yes' seen stats --all f.1
    # 1,480,000 keys take two layers of a pipe.
    seq 1480000 | seen add --create -p 0.001 two.seen
    [ "$(capacities two.seen)" = "[1480000]" ]
    gzip <in >in.gz
    seen add --create gzip.seen in.gz
    [ "$(capacities gzip.seen)" = "[100000]" ]
    seen add --create key.seen -k a
    { yes $'a\nb\nc\nd\ne\nf\ng\nh' || [ $? = 141 ]; } | head -n 1200000 >many
    seen add --no-sync --create many.seen many
    [ "$(capacities key.seen) $(capacities many.seen)" = "[16384] [16384]" ]
    # It goes on growing.
    seq 100001 300000 | seen add key.seen
    [ "$(seq 100001 300000 | seen query -c key.seen)" = 200000 ]
    # Not without the memory for all threads.
    if [ -z "${SANITIZER-}" ]; then
        (ulimit -v 100000; seen add --create -j8 narrow.seen in)
        [ "$(seen query -c narrow.seen in)" = 100000 ]
    fi
    # Keys of others are not put in.
    seen dedup --also f.1 --create -p 1e-4 also.seen in >out
    [ "$(capacities also.seen)" = "[16384]" ]
}

@test "keys of others are asked for in all layers" {
    feed_pipe() { mkfifo pipe; seen dedup --create -p 1e-9 shared.seen <pipe >out & exec 9>pipe; }
    seq 1000 >few
    # Before the layer is full.
    feed_pipe
    cat few >&9
    await $! cmp -s few out
    seen add shared.seen -k other
    { seq 1001 1200000; echo other; seq 10; } >&9
    exec 9>&-
    wait $!
    cmp <(seq 1200000) out
    [ "$(layers shared.seen)" = 2 ]
    seen query -q shared.seen -k other
    rm pipe shared.seen
    # After, and in a layer that somebody else began.
    seq 1200000 >many
    feed_pipe
    cat many >&9
    await $! cmp -s many out
    seen add shared.seen -k other
    { echo other; seq 10; seq 1200001 1200100; } >&9
    await $! has_lines out 1200100
    seq 10000001 13200000 | seen add shared.seen
    before=$(layers shared.seen)
    [ "$before" -ge 3 ]
    { printf '%s\n' 10000001 11500000 13200000; seq 1100000 1100010; echo new; } >&9
    exec 9>&-
    wait $!
    cmp <(seq 1200100; echo new) out
    [ "$(layers shared.seen)" = "$before" ]
    [ "$({ seq 1200100; seq 10000001 13200000; printf '%s\n' other new; } | seen query -c shared.seen)" = 4400102 ]
}

@test "a filter that has the most layers is full at last, and says so" {
    local i
    for i in {1..31}; do
        seq "${i}000" "${i}250" | head -n $((200 + i)) | seen create "f$i"
    done
    seen merge -o m f*
    says '^load .* of the newest layer, grows when full ' seen stats m
    seq 1000000 4000000 >keys
    refuses "seen: 'm' is full: it already has the maximum of 42 layers" seen add m keys
    says '^load +100 % of the newest layer, takes no more keys ' seen stats m
    says '^when full +full ' seen stats --all m
    [ "$(fact m keys_left)" = 0 ]
    # What it has, it has taken in order; and known keys are no new ones.
    head -n 1000000 keys >first
    equal "$(seen query -c m first)" 1000000
    quiet seen add m first
    seen verify m
}

@test "a filter that is full to the last key takes known keys of every layer, and gets no layer for them" {
    local low=5000 high=8000 middle bits
    # The most numbers that two layers hold.
    while [ $((high - low)) -gt 1 ]; do
        middle=$(((low + high) / 2))
        rm -f f
        seq $middle | seen add --create -n 1000 -p 0.01 f
        if [ "$(layers f)" = 2 ]; then low=$middle; else high=$middle; fi
    done
    rm -f f
    seq $low | seen add --create -n 1000 -p 0.01 f
    bits=$(seen stats --json f | jq -c '[.layers[].fpr_current]')
    seq $low | seen add f
    seen dedup -q f <(seq $low) && status=0 || status=$?
    equal "$status $(layers f)" '1 2'
    equal "$(seen stats --json f | jq -c '[.layers[].fpr_current]')" "$bits"
    seen add f -k $high
    equal "$(layers f)" 3
}

@test "keys of a process that was killed before the maker of the filter began are asked for" {
    need_strace
    all_printed() { [ "$(wc -l <b.out)" = 1000 ]; }
    mkfifo pipe
    seq -f 'b%.0f' 1000 >b
    # It stops when the file has its name.
    { seq 1100000; cat b; } | strace -f -o trace -e trace=linkat,renameat2 -e inject=linkat,renameat2:signal=STOP:when=1 \
        seen dedup --create -p 1e-9 f.seen >out 2>err &
    maker=$!
    await $maker grep -qs 'stopped by SIGSTOP' trace
    seen dedup f.seen <pipe >b.out &
    exec 9>pipe
    cat b >&9
    await $! all_printed
    kill -KILL $!
    wait $! || [ $? = 137 ]
    exec 9>&-
    kill -CONT "$(pgrep -P $maker)"
    wait $maker
    cmp <(seq 1100000) out
    [ "$(seen query -c f.seen b)" = 1000 ]
}

@test "a run that is killed leaves a filter that goes on growing" {
    seq 1200000 >many
    mkfifo pipe
    seen dedup --create -p 1e-9 killed.seen <pipe >out &
    exec 9>pipe
    cat many >&9
    await $! cmp -s many out
    kill -KILL $!
    wait $! || [ $? = 137 ]
    exec 9>&-
    [ "$(seen query -c killed.seen many)" = 1200000 ]
    seen verify --repair killed.seen
    awk -v all="$(fact killed.seen n_estimate)" 'BEGIN { exit !(all > 1195000 && all < 1205000) }'
    seq 1200001 4100000 | seen add killed.seen
    [ "$(layers killed.seen)" -ge 3 ]
    [ "$(seq 4100000 | seen query -c killed.seen)" = 4100000 ]
    awk -v p="$(fact killed.seen fpr_current)" 'BEGIN { exit !(p <= 1e-9) }'
}

@test "a filter that gets the size of its keys has those that were wrongly taken for known" {
    seq 800000 >in
    cat in | seen dedup --create -p 0.3 f.seen >out
    [ "$(capacities f.seen)" = "[800000]" ]
    [ "$(wc -l <out)" -lt 799000 ] # so some were
    [ "$(seen query -c f.seen in)" = 800000 ]
    # The new file has taken no key for known.
    [ "$(fact f.seen dropped_estimate)" = 0 ]
    # With several layers on the way, the same ones for any number of threads.
    seq 3000000 >in
    for threads in 1 2 8; do
        cat in | seen dedup --create -p 0.3 -j $threads f.$threads >out.$threads
        cmp out.1 out.$threads
        [ "$(seen query -c f.$threads in)" = 3000000 ]
    done
    # The FPR of the layers together was lost at most.
    lost=$((3000000 - $(wc -l <out.1)))
    [ $lost -lt 900000 ]
}

@test "a filter keeps its layers if it has other keys, a capacity that was asked for, or a run that was ended" {
    inode() { stat -c %i "$1"; }
    seq 1000 >in
    seen create --grow -n 1M --empty asked.seen
    before=$(inode asked.seen)
    seen add asked.seen in
    seen dedup --create asked.seen in >out
    [ "$(inode asked.seen)" = "$before" ]
    seen add --create -n 100k sized.seen in
    [ "$(capacities sized.seen)" = "[100000]" ]
    # Somebody else adds a key, even one that is known.
    for key in 1 other; do
        rm -f out
        mkfifo pipe
        seen dedup --create shared.seen <pipe >out &
        exec 9>pipe
        cat in >&9
        await $! cmp -s in out
        before=$(inode shared.seen)
        seen add shared.seen -k "$key"
        exec 9>&-
        wait $!
        [ "$(inode shared.seen)" = "$before" ]
        [ "$(capacities shared.seen)" = "[1048576]" ]
        seen query -q shared.seen -k "$key"
        rm pipe shared.seen
    done
    # A run that was ended.
    rm out
    mkfifo pipe
    seen dedup --create ended.seen <pipe >out &
    exec 9>pipe
    cat in >&9
    await $! cmp -s in out
    kill -TERM $!
    local status=0
    wait $! || status=$?
    [ $status = 143 ]
    exec 9>&-
    [ "$(capacities ended.seen)" = "[1048576]" ]
    [ "$(seen query -c ended.seen in)" = 1000 ]
    # One whose output nobody reads: not all that was read need have been added.
    exec 8<>pipe 9>pipe 8>&-
    status=0
    cat in | seen dedup --create unread.seen >&9 || status=$?
    exec 9>&-
    [ $status = 141 ]
    [ "$(capacities unread.seen)" = "[1048576]" ]
}

@test "a filter that cannot be replaced is as good as before" {
    seq 1000 >in
    mkdir dir
    mkfifo pipe
    seen dedup --create -p 0.001 dir/f.seen <pipe >out 2>err &
    exec 9>pipe
    cat in >&9
    await $! cmp -s in out
    mv dir/f.seen kept.seen
    exec 9>&-
    wait $!
    [ ! -s err ]
    [ ! -e dir/f.seen ]
    [ "$(seen query -c kept.seen in)" = 1000 ]
    # Another is in its place.
    rm out
    seen dedup --create -p 0.001 dir/f.seen <pipe >out 2>err &
    exec 9>pipe
    cat in >&9
    await $! cmp -s in out
    seen create --force dir/f.seen -k other
    cp dir/f.seen other.seen
    exec 9>&-
    local status=0
    wait $! || status=$?
    [ $status = 2 ]
    [ "$(cat err)" = "seen: 'dir/f.seen' was replaced while keys were added: run this again" ]
    cmp other.seen dir/f.seen
}

@test "a file that was left longer than its header says is a file that was growing" {
    seen create --grow -n 10k --empty g.seen
    seq 1000 | seen add g.seen
    printf 'half a layer' >>g.seen
    [ "$(seen query -c g.seen <(seq 1000))" = 1000 ]
    seq 30000 | seen add g.seen
    [ "$(seen query -c g.seen <(seq 30000))" = 30000 ]
    seen verify g.seen
    seen create --fixed -n 10k --empty f.seen
    printf 'junk' >>f.seen
    run -2 seen query -k a f.seen
}

@test "without a file: a filter in memory that grows" {
    seq 1 400000 >in
    # The first layer is for 1000 keys, so there are six.
    cat in in | seen dedup -n 1k | cmp in -
}

@test "shrink: the bits are those of a filter that was made small" {
    seq 1 20000 >keys
    seen create --foldable --reproducible -n 1M big.seen keys
    seen shrink --reproducible -o small.seen big.seen
    [ "$(size small.seen)" -lt $(($(size big.seen) / 20)) ]
    awk -v p="$(fact small.seen fpr_current)" 'BEGIN { exit !(p > 0 && p <= 1e-3) }'
    # No smaller fold would have done: half of the pages would pass the rate by far.
    [ "$(seen query -c small.seen keys)" = 20000 ]
    # A filter made like it, from the keys.
    seen create --like small.seen --reproducible built.seen keys
    cmp small.seen built.seen
    seen verify small.seen
    before=$(digest big.seen)
    refuses "seen: 'small.seen' exists (--force replaces it)" seen shrink -o small.seen big.seen
    refuses "seen: 'small.seen' has a false-positive rate of $(seen stats small.seen |
        sed -n 's/^current FPR *\([^ ]*\) .*/\1/p') already, more than 1e-09" \
        seen shrink -p 1e-9 -o x.seen small.seen
    [ "$(digest big.seen)" = "$before" ]
    [ ! -e x.seen ]
    quiet seen shrink big.seen
    equal "$(size big.seen)" "$(size small.seen)"
    [ "$(seen query -c big.seen keys)" = 20000 ]
}

@test "shrink: a filter that gets no smaller keeps its capacity" {
    seq 1500 | seen create --fixed -n 2000 -p 0.01 f.seen
    run -0 seen shrink --json -p 0.02 -o g.seen f.seen
    jq -e '.bytes == .bytes_before and .n_design == 2000 and .fpr_design == 0.02' <<<"$output"
}

@test "a foldable filter of more than 31 pages has a number of them that halves to 16 to 31" {
    while read -r keys pages; do
        seen create --force --empty --fixed --foldable -n "$keys" f.seen
        equal "$(seen stats --json f.seen | jq '.layers[0].pages')" "$pages"
    done <<<'32000 31
33000 32
34000 34
1M 960'
}

@test "shrink: half of the size is too small for a few keys more than it has room for" {
    seq 40000 | seen create --fixed --foldable -n 100k f.seen
    seen shrink -o half.seen f.seen
    [ "$(size half.seen)" -lt $(($(size f.seen) * 6 / 10)) ]
    room=$(fact half.seen n_design)
    # Its FPR would be 1 % too high.
    seq $((room + room / 500)) | seen create --fixed --foldable -n 100k more.seen
    seen shrink -o same.seen more.seen
    equal "$(size same.seen)" "$(size more.seen)"
}

@test "shrink: a filter that grew keeps the room of its last layer, at a higher rate too" {
    seen create --grow -n 1048576 -p 1e-4 --empty f.seen
    seq 1410000 | seen add f.seen
    before=$(size f.seen)
    pages() { seen stats --json "$1" | jq -c '[.layers[].pages]'; }
    [[ $(pages f.seen) =~ ^.([0-9]+),([0-9]+).$ ]]
    first=${BASH_REMATCH[1]} last=${BASH_REMATCH[2]}
    seen shrink -o g.seen f.seen
    [ "$(pages g.seen)" = "[$first,$last]" ]
    [ "$(size g.seen)" = "$before" ]
    seen verify g.seen
    reader verify g.seen
    [ "$(seq 1410000 | seen query -c g.seen)" = 1410000 ]
    awk -v f="$(fact f.seen keys_added)" -v g="$(fact g.seen keys_added)" \
        'BEGIN { exit !(g > 0.999 * f && g < 1.001 * f) }' # by its bits
    # When the second layer was made, and the rate at which the first was closed: see seen(5).
    seen shrink --reproducible -p 0.5 -o r.seen f.seen
    [ "$(size r.seen)" -lt "$(size g.seen)" ]
    [ "$(peek f.seen 408 8)" != 0000000000000000 ]
    [ "$(peek r.seen 408 8)" = 0000000000000000 ]
    closed() { od -An -tf8 -j 336 -N 8 "$1"; }
    awk -v f="$(closed f.seen)" -v r="$(closed r.seen)" 'BEGIN { exit !(0 < f && f < r) }'
    says '^when full  *grows' seen stats --all g.seen
    seq 1410001 2500000 | seen add g.seen
    [ "$(seq 2500000 | seen query -c g.seen)" = 2500000 ]
    [ "$(seen stats --json g.seen | jq '.layers | length')" = 3 ]
    awk -v p="$(fact g.seen fpr_current)" 'BEGIN { exit !(p > 0 && p <= 1e-4) }'
    seen verify g.seen
}

# Folded, the layers report 20 % of absent keys. When they took their keys, it was 8 %.
@test "shrink: the number of keys of a filter that grew stays known" {
    quiet seen create --grow -n 100 -p 0.3 --empty f.seen
    quiet seen add f.seen <(seq 40000)
    run -0 seen shrink -p 0.95 -o s.seen f.seen
    [ "$(layers s.seen)" -ge 4 ]
    seen stats --json s.seen >stats.json
    jq -e '.n_low > 37000 and .n_low <= 40000 and 40000 <= .n_high and .n_high < 44000 and
        .n_low < .n_estimate and .n_estimate < .n_high and .consistent != false' stats.json
    run -0 --separate-stderr seen verify s.seen
    [ "$stderr" = "" ]
    quiet seen add s.seen <(seq 40001 60000)
    seen stats --json s.seen | jq -e '.n_low <= 60000 and 60000 <= .n_high and .n_high < 66000'
}

@test "shrink: a damaged filter is refused, and stays" {
    seen create --foldable -n 1M f.seen <(seq 20000)
    poke f.seen $(($(size f.seen) - 4096)) 0123456789
    before=$(digest f.seen)
    refuses "seen: 'f.seen' is damaged in 1 page; 'seen verify' names it" seen shrink f.seen
    refuses "seen: 'f.seen' is damaged in 1 page; 'seen verify' names it" \
        seen shrink -o g.seen f.seen
    [ "$(digest f.seen)" = "$before" ]
    [ ! -e g.seen ]
}

@test "shrink: each layer of filters that were joined" {
    seen create --foldable -n 1M -p 1e-3 a.seen <(seq 1 20000)
    seen create --foldable -n 300k -p 1e-2 b.seen <(seq 30001 40000)
    seen create --compact c.seen <(seq 50001 51000)
    seen merge -o all.seen a.seen b.seen c.seen
    seen shrink -o small.seen all.seen
    # The last one takes keys, and keeps its room.
    seen shrink a.seen
    equal "$(seen stats --json small.seen | jq -c '[.layers[] | select(.kind == "bloom").pages] | sort')" \
        "$(seen stats --json a.seen b.seen | jq -c -s 'flatten | [.[].layers[].pages] | sort')"
    { seq 1 20000; seq 30001 40000; seq 50001 51000; } >keys
    [ "$(seen query -c small.seen keys)" = 31000 ]
    equal "$(fact small.seen fpr_design)" "$(fact all.seen fpr_design)"
    seen verify small.seen
    reader verify small.seen
    # A higher rate is shared out among the layers; what is compact stays as it is.
    seen shrink -p 0.1 -o smaller.seen all.seen
    [ "$(size smaller.seen)" -lt "$(size small.seen)" ]
    [ "$(seen query -c smaller.seen keys)" = 31000 ]
    awk -v p="$(fact smaller.seen fpr_current)" 'BEGIN { exit !(p > 0 && p <= 0.1) }'
    refuses "seen: 'c.seen' is a compact filter, which gets smaller only at a higher FPR: give it with --fpr P" \
        seen shrink c.seen
    seen create --generations 2 -n 1k --empty r.seen
    refuses "seen: 'r.seen' has generations, which cannot be folded" seen shrink r.seen
}

@test "shrink in place beside a writer loses no key" {
    seen create --foldable -n 2M --empty f.seen
    mkfifo in
    seen add --max-fpr 0.9 f.seen <in &
    exec 8>in
    seq 1 5000 >&8
    until_present f.seen 5000 $!
    seen shrink f.seen
    seq 5001 10000 >&8
    exec 8>&-
    wait $!
    [ "$(seen query -c f.seen <(seq 1 10000))" = 10000 ]
    seen verify f.seen
}

@test "--foldable: pages that can be halved down to 16 to 31, 6.3 % more at most" {
    for n in 1k 50k 77777 1M; do
        seen create --empty -n $n a.seen
        seen create --empty -n $n --foldable b.seen
        plain=$(pages a.seen) folds=$(pages b.seen)
        while [ "$folds" -gt 31 ]; do
            [ $((folds % 2)) = 0 ]
            folds=$((folds / 2))
        done
        awk -v a="$plain" -v b="$(pages b.seen)" 'BEGIN { exit !(b >= a && b <= a * 1.0667) }'
        rm a.seen b.seen
    done
}

@test "query: several filters, and which of them" {
    seen create -p 1e-6 a.seen <(seq 1 10)
    seen create -p 1e-6 b.seen <(seq 8 20)
    seq 1 30 | seen query --also b.seen a.seen | cmp <(seq 1 20) -
    seq 1 30 | seen query -v --also b.seen a.seen | cmp <(seq 21 30) -
    seq 9 12 | seen query --which --also b.seen a.seen |
        cmp <(printf '%s\n' a.seen:9 a.seen:10 b.seen:11 b.seen:12) -
    run -0 seen query --which -n --also b.seen -k 30 -k 20 a.seen
    [ "$output" = b.seen:2:20 ]
    run -2 seen query --which -v a.seen -k 1
    seen create -x c.seen -k 00
    run -2 seen query --also c.seen a.seen -k 00
    [[ $output == *'differ in --hex'* ]]
}

@test "query --confirm: what is printed is in the list" {
    seq 1 20000 | LC_ALL=C sort >list
    seen create -p 0.2 f.seen list
    seq 1 40000 | seen query f.seen >unsure
    [ "$(wc -l <unsure)" -gt 21000 ]
    seq 1 40000 | seen query --confirm list f.seen | cmp <(seq 1 20000) -
    seq 1 40000 | seen query -v --confirm list f.seen | cmp <(seq 20001 40000) -
    printf '%s' "$(cat list)" >open_end
    [ "$(seen query -c --confirm open_end f.seen list)" = 20000 ]
    : >none
    run -1 seen query --confirm none f.seen list
    [ -z "$output" ]
}

@test "query --confirm: a list that cannot be searched is refused" {
    seen create f.seen <(seq 100000)
    seq 100000 >numbers
    refuses "seen: 'numbers' is not sorted as LC_ALL=C sort does it" \
        seen query --confirm numbers f.seen numbers
    # Two lines that are not among those tried when it is opened; a search comes upon them.
    LC_ALL=C sort numbers >list
    # Only the searches in the neighbourhood can tell, so all keys are asked.
    awk 'NR == 50 { held = $0; next } NR == 52 { print; print held; next } { print }' list >swapped
    equal "$(LC_ALL=C sort swapped | digest /dev/stdin)" "$(digest list)"
    run -1 env LC_ALL=C sort -c swapped
    refuses "seen: 'swapped' is not sorted as LC_ALL=C sort does it" \
        seen query -c --confirm swapped f.seen list
    # One line that is too far up, or down, and one key whose search meets it.
    for move in '1090 1050 1049' '1010 1050 1050'; do
        read -r from to before <<<"$move"
        awk -v from="$from" -v to="$to" '{ line[NR] = $0 }
            END { for (i = 1; i <= NR; i++) if (i != from) {
                if (i == to && to < from) print line[from]
                print line[i]
                if (i == to && to > from) print line[from] } }' list >moved
        key=$(sed -n "${before}p" list)!
        seen create --force g.seen -k 5 -k "$key"
        run -0 seen query --confirm moved g.seen -k 5
        refuses "seen: 'moved' is not sorted as LC_ALL=C sort does it" \
            seen query -c --confirm moved g.seen -k "$key"
    done
    gzip <list >list.gz
    refuses "seen: 'list.gz' is gzip data, not a sorted list" \
        seen query --confirm list.gz f.seen list
    printf '\xfd7zXZ\0\n' >list.xz
    refuses "seen: 'list.xz' is xz data, not a sorted list" \
        seen query --confirm list.xz f.seen list
}

@test "query --confirm: a list with CRs is hinted at, and --crlf looks past them" {
    printf '%s\n' a 'a b' $'a\tb' b | LC_ALL=C sort >keys
    sed 's/$/\r/' keys | LC_ALL=C sort >list
    seen create f.seen keys
    run -1 --separate-stderr seen query --confirm list f.seen keys
    [ -z "$output" ]
    [ "$stderr" = "seen: note: lines of 'list' end in CR, which is taken as part of the key; --crlf drops it" ]
    run -0 --separate-stderr seen query --crlf --confirm list f.seen keys
    [ "$output" = "$(cat keys)" ]
    [ -z "$stderr" ]
    run -0 --separate-stderr seen query --crlf --confirm keys f.seen list
    [ "$output" = "$(cat list)" ]
}

@test "after a crash a filter that grows still knows when its layer is full" {
    seen create --grow -n 20k -p 1e-3 --empty g.seen
    mkfifo in
    seen add g.seen <in &
    exec 8>in
    seq 1 15000 >&8
    until_present g.seen 15000 $!
    kill -9 $!
    wait $! || true
    exec 8>&-
    seq 15001 30000 | seen add g.seen
    [ "$(layers g.seen)" = 2 ]
    [ "$(seen query -c g.seen <(seq 30000))" = 30000 ]
    awk -v p="$(fact g.seen fpr_current)" 'BEGIN { exit !(p <= 1e-3) }'
    seen verify --repair g.seen
}

@test "as many keys as -n says fill one layer, however they come" {
    for n in 1000 20000 200000 200256; do
        seq $n | seen add --create -n $n f.seen
        [ "$(seen stats --json f.seen | jq '.layers | length')" = 1 ]
        rm f.seen
    done
}

@test "a full filter gets no layer for keys that it has" {
    seq 50000 >keys
    seen create f.seen keys
    seen add f.seen keys
    [ "$(seen dedup -c f.seen <keys)" = 0 ]
    [ "$(layers f.seen)" = 1 ]
    seen stats --json f.seen | jq -e '.records == 150000 and .keys_added == 50000'
    seen add f.seen -k new
    [ "$(layers f.seen)" = 2 ]
    # Nor is a ring rotated for them.
    seq 5000 >keys
    seen create --generations 2 -n 10000 ring.seen keys
    seen add --rotate-at-capacity ring.seen keys
    seen stats --json ring.seen | jq -e '.records == 10000 and .keys_added == 5000'
}
