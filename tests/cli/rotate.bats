#!/usr/bin/env bats
# Filters with generations.
# tags: threads

load ../lib/helpers

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
    [ "$stderr" = 'seen: the generation that was emptied had about 500 keys' ]
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

@test "a growing filter with generations: keys survive G rotations, and the rate holds" {
    seen create --generations 3 --grow -n 1000 -p 1e-3 --empty g.seen
    first_id=$(xxd -s 56 -l 16 -p g.seen)
    # Days of one layer and of several.
    for day in 1 2 3 4 5 6 7; do
        [ $day = 1 ] || seen rotate g.seen
        seq $((day * 1000000)) $((day * 1000000 + day * 9000 - 1)) | seen add g.seen
        for ((d = 1; d <= day; d++)); do
            n=$((d * 9000))
            found=$(seq $((d * 1000000)) $((d * 1000000 + n - 1)) | seen query -c g.seen) || true
            if [ $d -ge $((day - 3)) ]; then
                [ "$found" = $n ]
            else
                [ "$found" -lt $((n / 300)) ]
            fi
        done
        seen verify g.seen
        reader verify g.seen
        [ "$(seen stats --json g.seen | jq '[.layers[].generation] | max')" = $day ]
        seen stats --json g.seen | jq -e '.fpr_current <= 1.01e-3'
    done
    [ "$(generations g.seen | tr ' ' '\n' | sort -u | xargs)" = '4 5 6 7' ]
    [ "$(xxd -s 56 -l 16 -p g.seen)" = "$first_id" ]
    # Of 2000000 keys that are not there, 2000 are false positives at most on average.
    [ "$(seq 900000001 902000000 | seen query -c g.seen)" -lt 2250 ]
    seq 3999000 4050000 >asked
    reader query g.seen <asked >theirs
    seen query g.seen asked | cmp - theirs
    seen stats --json g.seen | jq -e '.policy == "grows" and .generations == 3 and .n_design == null'
    says '^generations +3 +recorded$' seen stats g.seen
    says '^seen_filter_generations\{file="g.seen"\} 3$' seen stats --prometheus g.seen
    run -0 --separate-stderr seen rotate --verbose g.seen
    [ "$stderr" = 'seen: the generation that was emptied had about 36000 keys' ]
}

@test "a growing filter with generations: what comes again stays fresh, and is not new" {
    for day in 1 2 3 4 5 6; do
        seq 1 30000 | seen dedup --create --generations 2 -p 1e-6 g.seen >out
        if [ $day = 1 ]; then [ "$(wc -l <out)" -ge 29990 ]; else [ "$(wc -l <out)" -le 10 ]; fi
        # The keys are in the newest generation, each once.
        seen stats --json g.seen | jq -e '[.layers[] | select(.generation == '$day') | .n_estimate] | add | . > 29000 and . < 31000'
        seq $((day * 1000000)) $((day * 1000000 + 9)) | seen dedup g.seen | wc -l | grep -qx 10
        seen rotate g.seen
    done
    seq 1000000 1000009 | seen dedup g.seen | wc -l | grep -qx 10
    seen verify g.seen
}

@test "a growing filter with generations: rotation beside writers loses nothing, and says nothing" {
    seen create --generations 2 --grow -n 1000 -p 1e-6 --empty g.seen
    mkfifo in
    seen add g.seen <in 2>said &
    writer=$!
    exec 8>in
    for i in 1 2 3 4 5; do
        seq $((i * 1000000)) $((i * 1000000 + 19999)) >&8
        until_present g.seen $((i * 1000000 + 19999)) $writer
        [ $i = 5 ] || seen rotate g.seen
    done
    exec 8>&-
    # It has added keys that are forgotten by now.
    wait $writer
    [ ! -s said ]
    [ "$(seen query -c g.seen <(seq 1000000 1019999; seq 2000000 2019999))" -lt 5 ]
    for i in 3 4 5; do
        [ "$(seq $((i * 1000000)) $((i * 1000000 + 19999)) | seen query -c g.seen)" = 20000 ]
    done
    seen verify g.seen
    # Another filter in its place is another matter.
    seen create --generations 2 --grow --empty other.seen
    seen add g.seen <in 2>said &
    writer=$!
    exec 8>in
    echo lost >&8
    until_present g.seen lost $writer
    mv other.seen g.seen
    exec 8>&-
    status=0
    wait $writer || status=$?
    [ $status = 2 ]
    grep -qx "seen: 'g.seen' was replaced while keys were added: it lacks 1 key of this run" said
}

# warns MESSAGE COMMAND...: exit status 0, nothing but this on stderr.
warns()
{
    local message=$1
    shift
    run -0 --separate-stderr "$@"
    [ "$stderr" = "$message" ]
}

@test "a growing filter with generations: what is refused, and what is made" {
    refuses 'seen: with --grow, there can be 24 --generations at most' \
        seen create --grow --generations 25 --empty g.seen
    refuses 'seen: --generations needs --capacity or --grow' \
        seen create --generations 3 g.seen /dev/null
    seen create --grow --generations 24 -n 20 -p 1e-3 --empty g.seen
    refuses "seen: 'g.seen' grows, so that no generation is ever full: --rotate-at-capacity has no effect; 'seen rotate' rotates it" \
        seen add --rotate-at-capacity g.seen /dev/null
    refuses "seen: 'g.seen' grows, so that no generation is ever full: --rotate-at-capacity has no effect; 'seen rotate' rotates it" \
        seen dedup --rotate-at-capacity g.seen /dev/null
    refuses "seen: 'g.seen' has generations, which cannot be folded" seen shrink g.seen
    run -2 --separate-stderr seen add g.seen <(seq 20000)
    [ "$stderr" = "seen: 'g.seen' is full: it has 5 layers, and a file 29 at most, one for each generation to come; 'seen rotate' makes room, and with a larger --capacity a filter needs fewer" ]
    for i in $(seq 24); do
        seen rotate g.seen
        seq $((i * 100000)) $((i * 100000 + 9)) | seen add g.seen
    done
    seen query -q g.seen -k 1
    seen stats --json g.seen | jq -e '.layers | length == 29'
    seen rotate g.seen
    seen stats --json g.seen | jq -e '.layers | length == 25'
    [ "$(seen query -c g.seen <(for i in $(seq 24); do seq $((i * 100000)) $((i * 100000 + 9)); done))" = 240 ]
    seen merge -o merged.seen g.seen
    [ "$(seen query -c merged.seen <(for i in $(seq 24); do seq $((i * 100000)) $((i * 100000 + 9)); done))" = 240 ]
    seen verify merged.seen

    # dedup and add make both kinds.
    seq 10 | seen dedup --create --generations 3 -n 3000 -p 1e-4 ring.seen | cmp - <(seq 10)
    seen stats --json ring.seen | jq -e '.policy == "rotates" and .generations == 3 and .n_design == 3000'
    seq 10 | seen add --create --generations 3 -p 1e-4 growing.seen
    seen stats --json growing.seen | jq -e '.policy == "grows" and .generations == 3 and .fpr_design == 1e-4'
    seq 10 | seen add --create --generations 3 -n 3000 ring2.seen
    seen stats --json ring2.seen | jq -e '.policy == "rotates" and .generations == 3'
    warns "seen: warning: 'growing.seen' is there already, with 3 generations: --generations has no effect" \
        seen add --create --generations 4 growing.seen /dev/null
    seq 10 | seen add --create fixed.seen
    warns "seen: warning: 'fixed.seen' is there already, without generations: --generations has no effect" \
        seen dedup --create --generations 4 fixed.seen /dev/null
    refuses 'seen: --generations is for a file that is made: it needs --create' \
        seen dedup --generations 3 growing.seen /dev/null
    refuses 'seen: without --capacity, there can be 24 --generations at most' \
        seen add --create --generations 28 new.seen /dev/null
    refuses 'seen: --generations is for a file that is made: not with an address in Redis' \
        seen add --create --generations 2 redis://localhost/x /dev/null
    [ ! -e new.seen ]
}
