#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Filters that forget keys by themselves, after a time. No test waits for days: the file gets older.
# tags: threads

# `run` sets stderr.
# shellcheck disable=SC2154
load ../lib/helpers

readonly HOUR=3600 DAY=86400

# older FILTER SECONDS: all its generations began that much earlier.
older()
{
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$SOURCE/tests/lib python3 - "$@" <<'END'
import sys
from forge import LAYER, LAYERS, LAYER_LENGTH, Forged
forged = Forged(open(sys.argv[1], "rb").read())
for i in range(forged.header(28, "I")):
    since = forged.layer(i, "since", forged.slots[0])
    if since:
        forged.set_header(LAYERS + LAYER_LENGTH * i + LAYER["since"][0], "Q", since - int(sys.argv[2]))
open(sys.argv[1], "r+b").write(forged.data)
END
}

generations() { seen stats --json "$1" | jq -r '[.layers[].generation] | sort | join(" ")'; }

# has FILTER N: how many of the keys 1 to N?
has() { seen query -c "$1" <(seq "$2") || [ $? = 1 ]; }

# warns MESSAGE COMMAND...: exit status 0, nothing but this on stderr.
warns()
{
    local message=$1
    shift
    run -0 --separate-stderr "$@"
    [ "$stderr" = "$message" ]
}

off="by the clock, its newest generation is from the future or ended over a year ago"
keeps="$off; nothing is forgotten ('seen rotate --now' goes by the clock)"
dates="$off; it is taken to begin now, and nothing is forgotten"

@test "each key is kept for the time, and at most a tenth longer" {
    seen create --forget-after 10d -n 1000 -p 1e-9 --empty f.seen
    for i in {1..40}; do # every ten hours a key
        seen add f.seen -k "$i"
        seen query f.seen <(seq "$i") >have
        # Within ten days there are 24 more; within eleven, 26 more. An hour is left to the test.
        comm -23 <(seq $((i > 24 ? i - 23 : 1)) "$i" | sort) <(sort have) >lost
        [ ! -s lost ]
        [ "$(awk -v i="$i" '$1 < i - 26' have | wc -l)" = 0 ]
        reader query f.seen < <(seq "$i") | cmp - have
        older f.seen $((10 * HOUR))
    done
    [ "$(has f.seen 40)" -lt 28 ]
    seen verify f.seen
    reader verify f.seen
    # A key that comes again stays.
    seen create --forget-after 10d -n 1000 -p 1e-9 --empty g.seen
    for i in {1..10}; do
        seen dedup g.seen -k again >new
        [ "$(wc -l <new)" = $((i == 1)) ]
        older g.seen $((3 * DAY))
    done
}

@test "readers leave out what nobody has rotated, and write nothing" {
    seq 100 | seen create --forget-after 30d -n 10k f.seen
    older f.seen $((32 * DAY))
    [ "$(has f.seen 100)" = 100 ]
    older f.seen $((2 * DAY))
    cp f.seen before
    [ "$(has f.seen 100)" = 0 ]
    [ "$(reader query f.seen < <(seq 100) | wc -l)" = 0 ]
    seen stats --json f.seen | jq -e '.fpr_current == 0 and .kept_until < now and all(.layers[]; .kept_until == null)'
    refuses "seen: 'f.seen' has forgotten all its keys" seen merge -o g.seen f.seen f.seen
    seen verify f.seen
    cmp f.seen before
    # One rotation is enough, however long it slept: what is older does not count.
    seen add f.seen -k new
    [ "$(has f.seen 100)" = 0 ]
    [ "$(generations f.seen)" = '2 3 4 5 6 7 8 9 10 11 12' ]
    # A filter of both has no period.
    seq 3 | seen create --forget-after 30d -n 10k g.seen
    seen merge -o m.seen f.seen g.seen
    [ "$(has m.seen 100)" = 3 ]
    seen stats --json m.seen | jq -e '.policy == "grows" and (has("forget_after_seconds") | not)'
}

@test "a clock that is off by years: a warning, and nothing is forgotten" {
    for days in -800 400 800; do
        seq 100 | seen create --force --forget-after 30d -n 10k f.seen
        older f.seen $((days * DAY))
        warns "seen: warning: 'f.seen': $keeps" seen query -c f.seen <(seq 100)
        [ "$output" = 100 ]
        cp f.seen g.seen
        warns "seen: warning: 'g.seen': $dates" seen rotate g.seen
        warns '' seen query -c g.seen <(seq 100)
        [ "$output" = 100 ]
        warns "seen: warning: 'f.seen': $dates" seen add f.seen -k new
        warns '' seen query -c f.seen <(seq 100)
        [ "$output" = 100 ]
        # It does not stay for ever.
        older f.seen $((34 * DAY))
        [ "$(has f.seen 100)" = 0 ]
    done
    # It comes back: whatever was added meanwhile, no key has become older.
    for days in -800 -300 -25 -5 800; do
        seen create --force --forget-after 30d -n 10k --empty f.seen
        for i in 0 1 2 3; do
            seq $((i * 10 + 1)) $((i * 10 + 40)) | seen add f.seen
            [ $i = 3 ] || older f.seen $((4 * DAY))
        done
        older f.seen $((days * DAY))
        message=$dates
        [[ $days = *800 ]] || message=$keeps
        warns "seen: warning: 'f.seen': $message" seen add f.seen -k new
        older f.seen $((-days * DAY))
        seen add f.seen -k more 2>err
        [ "$(has f.seen 70)" = 70 ]
        seen query f.seen -k new
        older f.seen $((17 * DAY)) # the first keys were added 29 days ago
        [ "$(has f.seen 70)" = 70 ]
        older f.seen $((34 * DAY))
        [ "$(has f.seen 70)" = 0 ]
    done
    # A call that finds the filter too full says both.
    seq 100 | seen create --force --forget-after 30d -n 1000 -p 0.01 f.seen
    older f.seen $((800 * DAY))
    run -0 --separate-stderr seen add f.seen <(seq 3000)
    [ "${#stderr_lines[@]} ${stderr_lines[0]}" = "2 seen: warning: 'f.seen': $dates" ]
    [[ ${stderr_lines[1]} == "seen: warning: 'f.seen' is fuller than it was made for: "* ]]
    # Less than a period, and less than a year, are no such thing.
    for days in -2 360; do
        seq 100 | seen create --force --forget-after 30d -n 10k f.seen
        older f.seen $((days * DAY))
        run --separate-stderr seen query -c f.seen <(seq 100)
        [ "$output $stderr" = "$((days < 0 ? 100 : 0)) " ]
    done
    # The owner knows better.
    for days in -800 800; do
        seq 100 | seen create --force --forget-after 30d -n 10k f.seen
        older f.seen $((days * DAY))
        warns '' seen rotate --now f.seen
        [ "$(has f.seen 100)" = "$((days < 0 ? 100 : 0))" ]
        older f.seen $((31 * DAY))
        [ "$(has f.seen 100)" = 0 ]
    done
    # Without times, the first generation begins with the first writer.
    seq 100 | seen create --force --reproducible --forget-after 30d -n 10k f.seen
    warns '' seen query -c f.seen <(seq 100)
    warns '' seen add f.seen -k new
    older f.seen $((34 * DAY))
    [ "$(has f.seen 100)" = 0 ]
    seq 100 | seen create --force --reproducible --forget-after 30d -n 10k f.seen
    cp f.seen g.seen
    warns "seen: note: 'f.seen' rotates by itself, and it is not yet time: nothing was done (--now does it)" \
        seen rotate --verbose f.seen
    seen rotate --now g.seen
    [ "$(has g.seen 100)" = 100 ]
    # A rotation that was interrupted is finished with the same doubt.
    seq 100 | seen create --force --forget-after 30d -n 10k f.seen
    forge f.seen layer.0.generation=0
    older f.seen $((800 * DAY))
    warns "seen: warning: 'f.seen': $keeps" seen query -c f.seen <(seq 100)
    seen add f.seen -k new
    [ "$(has f.seen 100)" = 100 ]
}

@test "rotate does nothing before its time, but --now does" {
    seq 100 | seen create --forget-after 30d -n 10k f.seen
    early="seen: note: 'f.seen' rotates by itself, and it is not yet time: nothing was done (--now does it)"
    warns "$early" seen rotate f.seen
    older f.seen $((3 * DAY))
    warns '' seen rotate f.seen
    warns "$early" seen rotate f.seen
    [ "$(generations f.seen)" = '2 3 4 5 6 7 8 9 10 11 12' ]
    for i in {1..9}; do
        warns '' seen rotate --now f.seen
        [ "$(has f.seen 100)" = 100 ]
    done
    # Now the keys are ten periods old.
    warns 'seen: note: the generation that was emptied had about 100 keys' seen rotate --now --verbose f.seen
    [ "$(has f.seen 100)" = 0 ]
    # What came in meanwhile keeps its time.
    seen add f.seen -k new
    older f.seen $((29 * DAY))
    seen query f.seen -k new
    seen create --generations 3 -n 3000 --empty g.seen
    warns '' seen rotate --now g.seen
}

# kept FILTER DAYS: the oldest generation has keys until then, and no hour longer.
kept()
{
    seen stats --json "$1" | jq -e --argjson days "$2" \
        '([.layers[].kept_until | select(. != null)] | min) - now | . <= $days * 86400 and . > $days * 86400 - 3600'
}

@test "rotate --now ends a period early, and one that is over when it ended" {
    seq 100 | seen create --forget-after 30d -n 10k f.seen
    cp f.seen g.seen
    kept f.seen 33
    seen rotate --now f.seen
    kept f.seen 30
    older g.seen $((9 * DAY))
    seen rotate --now g.seen
    kept g.seen 24
}

@test "a rotation by time that fails is told, and one before its time counts no key anew" {
    need_preload
    seq 700 | seen create --reproducible --forget-after 30d -n 10k -p 0.5 f.seen
    seen add f.seen -k new
    seen rotate f.seen
    # By its bits, it has more.
    seen stats --json f.seen | jq -e '.records == 701 and .keys_added == 701 and .n_estimate > 702'
    older f.seen $((4 * DAY))
    for nth in {1..9}; do
        cp f.seen g.seen
        refuses "seen: cannot write 'g.seen': Input/output error" failing "pwritev:$nth:EIO" seen rotate g.seen
    done
}

@test "of several writers at the end of a period, one rotates" {
    seen create --forget-after 30d -n 10k --empty f.seen
    older f.seen $((4 * DAY))
    for i in 1 2 3 4; do
        seq $((i * 1000 + 1)) $((i * 1000 + 500)) | seen add f.seen &
        writers[i]=$!
    done
    for i in 1 2 3 4; do
        wait "${writers[i]}"
    done
    [ "$(generations f.seen)" = '2 3 4 5 6 7 8 9 10 11 12' ]
    [ "$(seen query -c f.seen <(seq 5000))" = 2000 ]
}

@test "a process that goes on rotates and forgets, too" {
    seen create --forget-after 10s -n 10k --empty f.seen
    mkfifo in
    seen dedup f.seen <in >out &
    writer=$!
    exec 8>in
    SECONDS=0
    for ((i = 0; SECONDS < 60; i++)); do
        echo $i >&8
        [ "$(generations f.seen)" = '1 2 3 4 5 6 7 8 9 10 11' ] || break
        sleep 0.1
    done
    [ "$(generations f.seen)" != '1 2 3 4 5 6 7 8 9 10 11' ]
    exec 8>&-
    wait $writer
    # One that asks does so without a writer.
    seq 100 | seen create --forget-after 10s -n 10k g.seen
    older g.seen 8
    coproc ASK { exec seen query --annotate g.seen; }
    asked=$ASK_PID
    SECONDS=0
    answer=
    while [[ $answer != -* && $SECONDS -lt 60 ]]; do
        echo 7 >&"${ASK[1]}"
        read -r answer <&"${ASK[0]}"
        sleep 0.1
    done
    [[ $answer == -* ]]
    eval "exec ${ASK[1]}>&-"
    wait "$asked" || [ $? = 1 ]
}

@test "what is forgotten does not count for the rate" {
    seen create --forget-after 30d -n 1000 --empty f.seen
    run -0 --separate-stderr seen add --max-fpr 0.9 f.seen <(seq 300)
    [[ $stderr == *' is fuller than it was made for: '* ]]
    older f.seen $((4 * DAY))
    run -2 seen add --max-fpr 1e-6 f.seen <(seq 1001 1050)
    older f.seen $((30 * DAY))
    warns '' seen add --max-fpr 1e-6 f.seen <(seq 1001 1050)
    seen stats --json f.seen | jq -e '.fpr_current < 1e-6'
}

@test "stats says what is kept until when" {
    seq 100 | seen create --forget-after 30d -n 10k f.seen
    older f.seen $((3 * DAY))
    seen add f.seen -k new
    seen stats --json f.seen >json
    jq -e '.generations == 10 and .forget_after_seconds == 2592000 and .policy == "rotates"' json
    # Eleven periods of three days after they began.
    jq -e '.kept_until - (now | floor) | . > 33 * 86400 - 3600 and . <= 33 * 86400' json
    jq -e '[.layers[].kept_until | select(. != null)] | sort | length == 2 and .[1] - .[0] >= 3 * 86400' json
    seen stats f.seen | grep -c -e '^forgets after  *30d ' -e '^has keys until ' | grep -x 2
    seen stats --prometheus f.seen >metrics
    grep -x 'seen_filter_forget_after_seconds{file="f.seen"} 2592000' metrics
    grep -c '^seen_filter_kept_until_timestamp_seconds{file="f.seen"} [1-9]' metrics
    for pair in 10s=10s 25s=30s 90m=90m 36h=36h 2w=14d 36500d=36500d; do
        seen create --force --forget-after "${pair%=*}" -n 1000 --empty g.seen
        seen stats g.seen | awk -v want="${pair#*=}" '/^forgets after/ { exit $3 != want }'
    done
}

@test "times, and options that do not fit them" {
    for time in 0 0s 9s 10 5x -1d 1.5d 30d1 30D '' d 36501d 99999999999999999999s 18446744073709551615w; do
        run -2 seen create --forget-after "$time" -n 1000 --empty f.seen
        [[ $output == "seen: option '--forget-after': '$time' is not a time from 10s to 36500d "* || -z $time ]]
    done
    refuses 'seen: --forget-after and --generations cannot go together' \
        seen create --generations 3 --forget-after 30d -n 1000 --empty f.seen
    refuses 'seen: --forget-after needs --capacity' seen create --forget-after 30d --empty f.seen
    refuses 'seen: --forget-after needs --capacity, the keys of that time' \
        seen dedup --create --forget-after 30d f.seen /dev/null
    [ ! -e f.seen ]
    seq 10 | seen dedup --create --forget-after 30d -n 1000 f.seen | cmp - <(seq 10)
    warns '' seen dedup --create --forget-after 30d -n 1000 f.seen <(seq 10)
    [ "$output" = '' ]
    warns "seen: warning: 'f.seen' is there already, and forgets after 30d: --forget-after has no effect" \
        seen add --create --forget-after 31d -n 1000 f.seen /dev/null
    warns "seen: warning: 'f.seen' is there already, and forgets after 30d: --generations has no effect" \
        seen add --create --generations 10 -n 1000 f.seen /dev/null
    seen create --generations 10 -n 1000 --empty g.seen
    warns "seen: warning: 'g.seen' is there already, and does not forget by time: --forget-after has no effect" \
        seen add --create --forget-after 30d -n 1000 g.seen /dev/null
    refuses "seen: 'f.seen' keeps keys for a time, so it is not rotated at capacity" \
        seen add --rotate-at-capacity f.seen -k 1
    run -2 seen add f.seen <(seq 10000)
    [[ $output == *"; make one with a larger --capacity, or set another limit with --max-fpr" ]]
}

@test "a forged period and forged times do no harm" {
    for period in 100 2**63 2**64-1; do
        for since in 1 2**31 2**63 2**64-1; do
            seq 100 | seen create --force --forget-after 30d -n 10k f.seen
            forge f.seen "period=$period" "layer.10.since=$since" "layer.3.since=$since"
            run seen query -c f.seen <(seq 100)
            [ "$status" -le 1 ]
            seen stats --all f.seen >/dev/null
            seen stats --json f.seen | jq -e .forget_after_seconds
            seen rotate f.seen
            seen rotate --now f.seen
            seen add f.seen -k new
            seen query f.seen -k new
            seen verify f.seen
        done
    done
    # Only rings have one.
    seen create --force --fixed -n 10 --empty f.seen
    forge f.seen period=1
    run -2 seen query f.seen -k 1
    [[ $output == "seen: 'f.seen' is damaged: "* ]]
}

@test "a repair keeps the period" {
    seq 100 | seen create --forget-after 30d -n 10k f.seen
    forge f.seen state=2
    seen verify --repair f.seen
    seen stats --json f.seen | jq -e '.forget_after_seconds == 2592000 and .state == "clean"'
    [ "$(has f.seen 100)" = 100 ]
    [ "$(zcat "$SOURCE/tests/vectors/seen/forgets.seen.gz" | tee g.seen | wc -c)" -gt 0 ]
    seen stats --json g.seen | jq -e '.forget_after_seconds == 2592000'
}
