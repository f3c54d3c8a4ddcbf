#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Compact filters: create --compact, and what the other commands make of them.
# tags: threads slow

# `run` sets stderr_lines.
# shellcheck disable=SC2154
load ../lib/helpers

@test "every key is present, and few others" {
    seq 200000 >keys
    seq 300001 500000 >others
    for p in 0.5 0.1 0.01 1e-3 1e-6 2.4e-10; do
        quiet seen create --compact --force -p "$p" f.seen keys
        run -0 seen query -c f.seen keys
        [ "$output" = 200000 ]
        # Six standard deviations above what is expected.
        seen query -c f.seen others >hits || true
        awk -v p="$p" '{ exit !($1 <= 200000 * p + 6 * sqrt(200000 * p) + 1) }' hits
        run -0 seen verify f.seen
        [ "$output" = 'f.seen: ok' ]
    done
    quiet seen query -q -k 77 f.seen
    run -1 seen query -k x77 f.seen
}

@test "sizes: close to n log2(1/p) bits, and small for few keys" {
    while read -r n p most; do
        seq "$n" | seen create --compact --force --no-profile -p "$p" f.seen
        echo "$n keys at $p: $(size f.seen) bytes, at most $most"
        [ "$(size f.seen)" -le "$most" ]
    done <<END
1 0.01 440
100 0.01 560
1000 1e-3 1750
10000 1e-3 13100
300000 0.1 129500
300000 0.01 254000
300000 1e-3 376500
300000 1e-6 752000
END
}

@test "the size is as planned, within a fiftieth" {
    for wish in '300000 0.01' '50000 1e-6' '1000000 0.1'; do
        read -r n p <<<"$wish"
        seq "$n" | seen create --compact --force -p "$p" f.seen
        plan=$(seen plan --json -n "$n" -p "$p" | jq '.kinds[] | select(.kind == "compact").bytes')
        [ $((plan * 100)) -le $(($(size f.seen) * 102)) ]
        [ $((plan * 102)) -ge $(($(size f.seen) * 100)) ]
    done
    seq 300000 | seen create --compact --force -s 300K f.seen
    [ "$(size f.seen)" -le 307200 ]
    [ "$(size f.seen)" -ge 300000 ]
}

@test "an empty one, and one without any reason to be" {
    quiet seen create --compact --empty f.seen
    run -1 seen query -k a f.seen
    run -0 seen verify f.seen
    run -2 seen create --compact g.seen /dev/null
    [ ! -e g.seen ]
}

@test "stats knows what it is" {
    { seq 1000; seq 1000; } | seen create --compact -p 1e-4 f.seen
    run -0 seen stats --json f.seen
    jq -e '.kind == "compact" and .n_estimate == 1000 and .n_low == 1000 and .n_high == 1000 and
        .records == 2000 and .fpr_current <= 1.01e-4 and .fpr_current > 0.9e-4 and
        .sources.n_estimate == "exact" and .consistent == true and
        .layers[0].partitions == 1 and .layers[0].columns > 13' <<<"$output"
    run -0 seen stats --all f.seen
    [[ $output == *"distinct keys             1000 "*exact* ]]
}

@test "the same bytes for any number of threads, limit of memory, and order of keys" {
    seq 700000 >keys
    # shellcheck disable=SC2094 # keys is read only
    shuffled keys >shuffled
    seen create --compact --reproducible -j1 f.seen keys
    seen create --compact --reproducible -j4 --memory 48M g.seen keys
    seen create --compact --reproducible -j3 --memory 1G h.seen <shuffled
    # shellcheck disable=SC2094
    cat keys keys shuffled | seen create --compact --reproducible i.seen
    cmp f.seen g.seen
    cmp f.seen h.seen
    # Only the number of records differs, and the checksum.
    [ "$(cmp -l f.seen i.seen | awk '$1 > 128 && $1 <= 408 || $1 > 416' | wc -l)" = 0 ]
}

@test "keys that do not fit in memory go to scratch" {
    mkdir scratch
    seq 6000000 | seen create --compact --memory 44M -j1 --tmpdir scratch -p 0.1 f.seen
    run -0 bash -c 'seq 6000000 | seen query -c f.seen'
    [ "$output" = 6000000 ]
    [ -z "$(ls -A scratch)" ]
}

@test "no keys can be added" {
    seq 10 | seen create --compact f.seen
    refuses "seen: 'f.seen' is a compact filter, to which no keys can be added: make it again from \
all keys, or add to another filter and merge the two" seen add -k 11 f.seen
}

@test "merge joins layers" {
    seq 1000 | seen create --compact -p 1e-4 a.seen
    seq 2000 3000 | seen create --compact -p 1e-4 b.seen
    seq 4000 5000 | seen create -n 2000 -p 1e-4 c.seen
    run -0 --separate-stderr seen merge --verbose -o ab.seen a.seen b.seen
    [[ $stderr == *'current false-positive rate 0.000'*'2 layers' ]]
    [ "$(size ab.seen)" -lt 5000 ]
    run -0 seen query -c ab.seen <(seq 1000; seq 2000 3000)
    [ "$output" = 2001 ]
    run -0 seen merge --force -o abc.seen c.seen a.seen b.seen
    run -0 seen query -c abc.seen <(seq 1000; seq 2000 3000; seq 4000 5000)
    [ "$output" = 3002 ]
    run -0 seen stats --json abc.seen
    [ "$(jq -c '[.kind, [.layers[].kind]]' <<<"$output")" = '["mixed",["compact","compact","bloom"]]' ]
    # Keys can be added to that one.
    quiet seen add -k new abc.seen
    quiet seen query -q -k new abc.seen
    for f in ab abc; do
        run -0 seen verify $f.seen
        seq 900 1100 >asked
        seen query $f.seen asked >ours
        reader query $f.seen <asked | cmp - ours
        reader verify $f.seen
    done
    run -2 seen merge --intersect -o x.seen a.seen a.seen
}

@test "a merged file has at most 31 compact filters, and what the message names works" {
    for day in $(seq 32); do
        seq -f "$day.%.0f" $((1000 + day)) >"day$day.txt"
        seen create --compact "day$day.seen" "day$day.txt"
    done
    message="seen: too many filters: a compact one stays a layer of its own, and a merged file has at most 31; \
make one filter of all keys with 'seen create --compact', or Bloom filters with the same --capacity, for \
all keys, to merge them bit by bit"
    refuses "$message" seen merge -o all.seen day*.seen
    refuses "seen: only Bloom filters of the same size and number of probes, of one layer each, can be \
intersected; make them with --like one of them" seen merge --intersect -o all.seen day*.seen
    run -0 seen merge -o most.seen day{1..31}.seen
    run -0 seen stats --json most.seen
    jq -e '.layers | length == 31' <<<"$output"
    refuses "$message" seen merge -o all.seen most.seen day32.seen
    # Nor does one of another kind fit, in whatever order they come.
    quiet seen create -n 2000 bloom.seen day32.txt
    refuses "$message" seen merge -o all.seen most.seen bloom.seen
    refuses "$message" seen merge -o all.seen bloom.seen most.seen

    quiet seen create --compact all.seen day*.txt
    for day in $(seq 32); do
        quiet seen create --force --capacity 33000 "day$day.seen" "day$day.txt"
    done
    run -0 seen merge -o united.seen day*.seen
    run -0 seen stats --json united.seen
    jq -e '.layers | length == 1' <<<"$output"
    keys=$(cat day*.txt | wc -l)
    for file in all united; do
        cat day*.txt | says "^$keys$" seen query -c $file.seen
    done
}

@test "shrink drops columns" {
    seq 250000 >keys
    seen create --compact --reproducible -p 1e-6 a.seen keys
    seen create --compact --reproducible -p 0.003 b.seen keys
    quiet seen shrink --reproducible --fpr 0.003 -o c.seen a.seen
    cmp b.seen c.seen
    quiet seen shrink --reproducible --fpr 0.003 -o same.seen b.seen
    cmp b.seen same.seen
    run -0 seen shrink --json --force -p 0.1 -o c.seen c.seen
    jq -e --argjson size "$(size c.seen)" '.kind == "compact" and .bytes == $size and
        .n_estimate == 250000 and (.fpr_current / 0.1 - 1 | fabs) < 0.02 and
        .bytes_before > 2 * .bytes' <<<"$output"
    run -0 seen query -c c.seen keys
    [ "$output" = 250000 ]
    run -0 seen verify c.seen
    refuses "seen: 'a.seen' was made for an FPR of 1e-06; lowering it to 1e-07 needs the keys" \
        seen shrink -p 1e-7 -o d.seen a.seen
    refuses "seen: an FPR of 0.6 is too large for a compact filter: it allows 0.5 and less" \
        seen shrink -p 0.6 -o d.seen a.seen
    refuses "seen: 'a.seen' is a compact filter, which gets smaller only at a higher FPR: give it with \
--fpr P" seen shrink -o d.seen a.seen
    refuses "seen: 'c.seen' exists (--force replaces it)" seen shrink -p 0.1 -o c.seen a.seen
    [ ! -e d.seen ]
}

@test "shrink drops columns of a filter of several partitions" {
    seq 1200000 >keys
    seen create --compact -p 1e-4 a.seen keys
    seen shrink --fpr 0.01 -o b.seen a.seen
    run -0 seen query -c b.seen keys
    [ "$output" = 1200000 ]
    run -0 seen verify b.seen
    seen query -c b.seen <(seq 2000001 2100000) >false.txt
    [ "$(cat false.txt)" -lt 1200 ] # of 1000 expected ones, at 6 standard deviations
    (($(size b.seen) < $(size a.seen) * 6 / 10))
}

@test "shrink drops columns of filters that were joined" {
    seq 100000 >a
    seq 200001 250000 >b
    cat a b >keys
    seq 300001 500000 >others
    seen create --compact --reproducible -p 1e-4 a.seen a
    seen create --compact --reproducible -p 0.004 b.seen b
    run -0 seen merge -o ab.seen a.seen b.seen
    # The rate of each rises by the same factor.
    before=$(seen stats --json ab.seen | jq -c '[.fpr_design, .layers[].fpr_design]')
    for p in 0.005 0.02; do
        quiet seen shrink --reproducible --force -p "$p" -o c.seen ab.seen
        run -0 seen query -c c.seen keys
        [ "$output" = 150000 ]
        run -0 seen verify c.seen
        seen stats --json c.seen >told
        jq -e "[.fpr_design, .layers[].fpr_design] | map(. * 1e9 | round) ==
            ($before | map(. * $p / ${before}[0] * 1e9 | round))" told
        # Six standard deviations above what is expected.
        seen query -c c.seen others >hits || true
        awk -v p="$p" '{ exit !($1 <= 200000 * p + 6 * sqrt(200000 * p)) }' hits
        seq 99900 100100 >asked
        seen query c.seen asked >ours
        reader query c.seen <asked | cmp - ours
        reader verify c.seen
    done
    refuses "seen: 'ab.seen' was made for an FPR of 0.0041; lowering it to 0.004 needs the keys" \
        seen shrink -p 0.004 -o d.seen ab.seen
    seen create -k a bloom.seen
    run -0 seen merge -o mixed.seen a.seen bloom.seen
    # Of several kinds, Bloom layers are folded, and compact ones stay as they are.
    quiet seen shrink -p 0.1 -o d.seen mixed.seen
    seen stats --json d.seen | jq -e '[.layers[] | select(.kind == "compact").bytes] == ['"$(
        seen stats --json a.seen | jq '.layers[0].bytes')"']'
    run -0 seen query -c d.seen a
    [ "$output" = 100000 ]
}

@test "damage is told, wherever it is" {
    seq 20000 >keys
    seen create --compact -p 1e-3 f.seen keys
    for at in 500 5000 20000 $(($(size f.seen) - 40)); do
        cp f.seen g.seen
        poke g.seen "$at" "$(printf '%02x' $((0x$(peek g.seen "$at" 1) ^ 16)))"
        run -2 --separate-stderr seen verify g.seen
        [[ $stderr == "seen: 'g.seen' is damaged at offset "* ]]
        run -2 seen query -c g.seen keys
    done
    head -c 20000 f.seen >g.seen
    run -2 seen query -k 1 g.seen
}

@test "the size that the refusal of a smaller one names is enough" {
    for n in 30000 40000 50000 80000 90000; do
        run -2 seen create --force --compact -s 2K f <(seq $n)
        [[ $output =~ ' it takes '([0-9.]+' KiB')$ ]]
        seen create --force --compact -s "${BASH_REMATCH[1]}" f <(seq $n)
    done
}

@test "wishes that contradict it" {
    refuses "seen: an FPR of 0.6 is too large for a compact filter: it allows 0.5 and less" \
        seen create --compact -p 0.6 -k a f.seen
    for wish in '-n 10' '--like x' '-s 1M -p 0.1' '--memory 1M'; do
        # shellcheck disable=SC2086 # two words
        run -2 seen create --compact $wish -k a f.seen
    done
    [ ! -e f.seen ]
}

@test "the reader agrees" {
    seq 2 2 6000 >keys
    seq 6000 >asked
    for p in 0.25 0.03 1e-5; do
        seen create --force --compact -p "$p" f.seen keys
        seen query f.seen asked >ours
        reader query f.seen <asked | cmp - ours
        reader verify f.seen
    done
}

@test "keys whose hashes are chosen are held by every kind" {
    local crowd jobs file
    for crowd in partition page run clusters; do
        python3 "$SOURCE/tests/lib/crafted.py" "$crowd" 30000 >keys
        for jobs in 1 2; do
            quiet seen create --force -j "$jobs" --hex a.seen keys
            quiet seen create --force --compact -j "$jobs" --hex b.seen keys
            quiet seen create --force --counted -p 0 -j "$jobs" --hex c.seen keys
            # Many of them have the same fingerprint.
            quiet seen create --force --counted -p 0.05 -j "$jobs" --hex d.seen keys
            for file in a.seen b.seen c.seen d.seen; do
                [ "$(seen query -c "$file" keys)" = 30000 ]
                seen verify "$file"
                [ "$(fact "$file" keys_added)" = 30000 ]
            done
        done
    done
}
