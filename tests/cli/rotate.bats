#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Filters with generations.
# tags: threads

# `run` sets stderr.
# shellcheck disable=SC2154
load ../lib/helpers

# All that stats says of layers but their age.
layers() { seen stats --json "$1" | jq -c '.layers | map(del(.age_seconds))'; }

generations() { seen stats --json "$1" | jq -r '[.layers[].generation] | sort | join(" ")'; }

@test "what was added within the last G generations is found, what is older is not" {
    seen create --generations 3 -n 3000 -p 1e-6 --empty r.seen
    [ "$(generations r.seen)" = '1 2 3 4' ]
    for day in 1 2 3 4 5 6 7; do
        [ $day = 1 ] || quiet seen rotate r.seen
        seq $((day * 1000)) $((day * 1000 + 499)) | seen add r.seen
        for ((d = 1; d <= day; d++)); do
            found=$(seq $((d * 1000)) $((d * 1000 + 499)) | seen query -c r.seen) || true
            if [ $d -ge $((day - 3)) ]; then
                [ "$found" = 500 ]
            else
                [ "$found" = 0 ]
            fi
        done
        seen verify r.seen
    done
    [ "$(generations r.seen)" = '7 8 9 10' ]
    reader verify r.seen
    seq 3000 7600 >asked
    reader query r.seen <asked >theirs
    seen query r.seen asked | cmp - theirs
    run -0 --separate-stderr seen rotate --verbose r.seen
    [ "$stderr" = 'seen: note: the generation that was emptied had about 500 keys' ]
}

@test "what comes again stays fresh, and is not new" {
    seen create --generations 2 -n 2000 -p 1e-6 --empty r.seen
    for day in 1 2 3 4 5 6; do
        seq 1 100 | seen dedup r.seen >out
        if [ $day = 1 ]; then cmp out <(seq 1 100); else [ ! -s out ]; fi
        seq $((day * 1000)) $((day * 1000 + 9)) | seen dedup r.seen | cmp <(seq $((day * 1000)) $((day * 1000 + 9))) -
        seen rotate r.seen
    done
    [ "$(seq 1000 1009 | seen dedup -c r.seen)" = 10 ]
    seen verify r.seen
}

@test "--rotate-at-capacity, with add and dedup" {
    seen create --generations 4 -n 40k -p 1e-3 --empty r.seen
    seq 1 200000 | seen add --rotate-at-capacity r.seen
    # At the least the last 40000 keys are there.
    [ "$(seen query -c r.seen <(seq 160001 200000))" = 40000 ]
    [ "$(seen query -c r.seen <(seq 1 100000))" -lt 1000 ]
    awk -v p="$(seen stats --json r.seen | grep -oE '"fpr_current":[^,]*' | cut -d : -f 2)" \
        'BEGIN { exit !(p <= 1.01e-3) }'
    seen verify r.seen
    seq 200001 400000 | seen dedup --rotate-at-capacity r.seen >out
    [ "$(wc -l <out)" -gt 199700 ]
    [ "$(seen query -c r.seen <(seq 360001 400000))" = 40000 ]
    seen create --empty -n 5 f.seen
    refuses "seen: 'f.seen' has no generations, so it cannot be rotated" \
        seen add --rotate-at-capacity f.seen /dev/null
    refuses "seen: 'f.seen' has no generations, so it cannot be rotated; 'seen create --generations' makes filters that can be" \
        seen rotate f.seen
}

@test "rotation beside writers: nothing of the live generations is lost" {
    seen create --generations 4 -n 400k -p 1e-4 --empty r.seen
    seq 1 20000 | seen add r.seen
    mkfifo in
    seen add r.seen <in &
    writer=$!
    exec 8>in
    seq 20001 40000 >&8
    until_present r.seen 40000 $writer
    for i in 1 2 3; do
        seen rotate r.seen
        seq $((i * 100000)) $((i * 100000 + 9999)) >&8
    done
    exec 8>&-
    wait $writer
    [ "$(seen query -c r.seen <(seq 1 40000))" = 40000 ]
    [ "$(seen query -c r.seen <(seq 100000 109999; seq 300000 309999))" = 20000 ]
    seen verify r.seen
}

# warns MESSAGE COMMAND...: exit status 0, nothing but this on stderr.
warns()
{
    local message=$1
    shift
    run -0 --separate-stderr "$@"
    [ "$stderr" = "$message" ]
}

@test "rings do not grow, and dedup and add make them with a capacity" {
    refuses 'seen: --generations and --grow cannot go together' \
        seen create --grow --generations 3 -n 3000 --empty g.seen
    refuses 'seen: no layer can be made for 1.33e+16 keys at an FPR of 0.00365' \
        seen create --generations 1 -n 1.33e16 -p 0.0073 --empty g.seen
    refuses 'seen: --generations needs --capacity' seen create --generations 3 g.seen /dev/null
    refuses 'seen: --generations needs --capacity, the keys of all generations together' \
        seen add --create --generations 3 g.seen /dev/null
    refuses 'seen: --generations needs --capacity, the keys of all generations together' \
        seen dedup --create --generations 3 g.seen /dev/null
    [ ! -e g.seen ]
    seq 10 | seen dedup --create --generations 3 -n 3000 -p 1e-4 ring.seen | cmp - <(seq 10)
    seen stats --json ring.seen | jq -e '.policy == "rotates" and .generations == 3 and .n_design == 3000'
    seq 10 | seen add --create --generations 3 -n 3000 ring2.seen
    seen stats --json ring2.seen | jq -e '.policy == "rotates" and .generations == 3'
    warns "seen: warning: 'ring.seen' is there already, with 3 generations: --generations has no effect" \
        seen add --create --generations 4 -n 3000 ring.seen /dev/null
    seq 10 | seen add --create -n 3000 fixed.seen
    warns "seen: warning: 'fixed.seen' is there already, without generations: --generations has no effect" \
        seen dedup --create --generations 4 -n 3000 fixed.seen /dev/null
    refuses 'seen: --generations is for a file that is made: it needs --create' \
        seen dedup --generations 3 ring.seen /dev/null
    refuses 'seen: --generations is for a file that is made: not with an address in Redis' \
        seen add --create --generations 2 -n 3000 redis://localhost/x /dev/null
}

@test "a rotation finishes first what one that was killed has begun" {
    seen create --generations 3 -n 3000 --empty r.seen
    forge r.seen layer.0.generation=0
    seen rotate r.seen
    equal "$(generations r.seen)" '3 4 5 6'
}
