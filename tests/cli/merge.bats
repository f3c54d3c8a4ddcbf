#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# seen merge: what it makes is what would have been made of all keys at once, or it is refused.
# tags: threads

load ../lib/helpers

@test "a union is what would have been made of all keys at once" {
    for options in '-p 0.01' '-p 1e-5' '-p 0.001 -i --trim'; do
        rm -f ./*.seen
        # shellcheck disable=SC2086 # several
        seq 20000 | quiet seen create -n 20000 $options all.seen
        for part in 0 1 2; do
            awk "NR % 3 == $part" <(seq 20000) | quiet seen create --like all.seen $part.seen
        done
        quiet seen merge -o out.seen 0.seen 1.seen 2.seen
        run -0 --separate-stderr seen merge --verbose --force -o out.seen 0.seen 1.seen 2.seen
        [ -z "$output" ]
        [[ $stderr == "seen: note: 'out.seen': current false-positive rate "*" 1 layer" ]]
        alike <(data out.seen) <(data all.seen)
        run -0 seen verify out.seen
        what='[.n_design, .fpr_design, .preparation, .seed, .fpr_current, .n_estimate, .state]'
        equal "$(seen stats --json out.seen | jq -c "$what")" \
          "$(seen stats --json all.seen | jq -c "$what")"
    done
}

@test "the order of the filters and the threads make no difference" {
    seq 9000 | quiet seen create -n 30000 a
    seq 8000 17000 | quiet seen create --like a b
    run -0 seen merge --reproducible -o one -j 1 a b
    run -0 seen merge --reproducible -o two -j 7 b a
    cmp one two
    run -0 seen merge --reproducible -o three a b a b
    cmp one three
    # One alone is a copy.
    run -0 seen merge -o four a
    alike <(data four) <(data a)
}

@test "filters of which one is a multiple of the other are folded, without loss" {
    # Three pages in front, one of checksums, one of touched bits; and as many keys a page.
    pages() { seen stats --json "$1" | jq '.layers[0].pages'; }
    quiet seen create --empty -s $((35 * 4096)) -n 97000 small
    quiet seen create --empty -s $((95 * 4096)) -n 291000 large
    [ "$(pages small)" = 30 ]
    [ "$(pages large)" = 90 ]
    seq 50000 | quiet seen add large
    seq 40001 90000 | quiet seen add small
    quiet seen create --like small both <(seq 90000)
    for order in 'small large' 'large small'; do
        rm -f out
        # shellcheck disable=SC2086
        run -0 seen merge -o out $order
        [ "$(pages out)" = 30 ]
        alike <(data out) <(data both)
    done
    run -0 seen verify out
}

@test "filters that do not fit each other, or would be too full, become layers" {
    seq 1900 >one
    seq 30001 50000 >two
    quiet seen create -p 0.001 a one
    quiet seen create -p 0.001 b two
    quiet seen create -p 1e-6 c <(seq 60001 61000)
    run -0 --separate-stderr seen merge --verbose -o ab a b
    [[ $stderr == "seen: note: 'ab': current false-positive rate 0.00"*' 2 layers ('*'--like'* ]]
    run -0 seen query -c ab <(cat one two)
    [ "$output" = 21900 ]
    run -0 seen verify ab
    seen stats --json ab | jq -e '(.layers | length == 2) and .fpr_current < 0.002 and
        .n_design == null and .fpr_design > 0.0015 and .fpr_design <= 0.002 and .n_estimate == null and .n_low > 19000 and .n_low <= 20000 and
        21900 <= .n_high and .n_high < 23000'
    # 1 - (1 - p) (1 - q)
    p=$(fact a fpr_current)
    q=$(fact b fpr_current)
    seen stats --json ab | jq -e "(.fpr_current / (1 - (1 - $p) * (1 - $q)) - 1 | fabs) < 1e-9"
    # Layers are merged one by one: those of the same size meet.
    quiet seen create --like b d <(seq 70001 70100)
    run -0 seen merge --max-fpr 0.1 -o all ab c d
    seen stats --json all | jq -e '.layers | length == 3'
    run -0 seen query -c all <(cat one two; seq 60001 61000; seq 70001 70100)
    [ "$output" = 23000 ]
    run -0 seen verify all
}

@test "of layers that may share keys, the fewest and the most are told" {
    # A smaller copy is wrong wherever the larger one is.
    seen create --compact -p 1e-3 large <(seq 1000)
    seen shrink -p 1e-2 -o small large
    seen merge -o copies large small
    rate=$(fact small fpr_current)
    equal "$(seq 1001 201000 | seen query -c copies)" "$(seq 1001 201000 | seen query -c small)"
    seen stats --json copies | jq -e ".fpr_current > $rate and .sources.fpr_current == \"estimated\""
    quiet seen create a <(seq 12000)
    quiet seen create b <(seq 2001 12000)
    run -0 --separate-stderr seen merge --verbose --json -o ab a b
    jq -e '.n_estimate == null and .n_low > 11500 and .n_low < 12000 and .n_high > 21500 and
        .n_high < 22700' <<<"$output"
    text=$(jq -r '"\(.n_low | round) to \(.n_high | round)"' <<<"$output")
    [[ $stderr == *", keys: $text, 2 layers (filters made with --like "* ]]
    seen stats --json ab | jq -e '.n_estimate == null and .n_low > 11500 and .n_high < 22700'
    quiet seen create -p 1e-6 c <(seq 2001 12000)
    run -0 seen merge -o ac a c
    says '^distinct keys +11[0-9]+ to 22[0-9]+ +estimated \(95 %\)$' seen stats ac
    seen stats --json ac | jq -e '.n_estimate == null and .n_low < 12000 and .n_high > 22000 and
        .load == .layers[-1].load'
    # As one layer, too.
    quiet seen create --force --like a b <(seq 2001 12000)
    run -0 seen merge --json -o both a b
    jq -e '(.n_estimate / 12000 - 1 | fabs) < 0.05 and has("n_low") == false' <<<"$output"
}

@test "filters whose keys mean something else are refused, with the difference named" {
    echo 00 >key
    quiet seen create plain key
    for option in --hex --trim --ignore-case; do
        quiet seen create --force $option other key
        rejects "seen: 'plain' and 'other' cannot be merged: they differ in $option (of 'other')" \
            seen merge -o out plain other
        rejects "seen: 'other' and 'plain' cannot be merged: they differ in $option (of 'other')" \
            seen merge --force --intersect -o out other other plain
    done
    quiet seen create --force --trim -x other key
    rejects "seen: 'plain' and 'other' cannot be merged: they differ in --trim (of 'other'), --hex (of 'other')" \
        seen merge -o out plain other
}

@test "filters of one size that would be too full together become layers" {
    for day in 1 2 3 4 5 6 7; do
        seq $((day * 10000)) $((day * 10000 + 9099)) | quiet seen create -p 0.001 -n 9100 "d$day"
        seq $((day * 10000)) $((day * 10000 + 9099)) >>all
    done
    run -0 --separate-stderr seen merge --verbose --json -o week d1 d2 d3 d4 d5 d6 d7
    [[ $stderr == "seen: note: 'week': current false-positive rate 0.00"*' 7 layers'* ]]
    jq -e '.layers == 7 and .fpr_current < 0.0071 and
        .n_estimate == null and .n_low < 9100 and .n_high > 63700 and .n_high < 67000' <<<"$output"
    run -0 seen query -c week all
    [ "$output" = 63700 ]
    run -0 seen verify week
    # --force is for replacing OUT, too, and so makes no worse filter.
    run -0 seen merge --force --json -o week d1 d2 d3 d4 d5 d6 d7
    jq -e '.layers == 7' <<<"$output"
    # Filters of the same keys are united: they do not fill more than one of them.
    for day in 1 2 3 4 5 6 7; do
        cp d1 "same$day"
    done
    run -0 seen merge --json -o same same?
    jq -e '.layers == 1' <<<"$output"
    # A higher limit is used, and a lower one kept.
    run -0 seen merge --json --max-fpr 0.9 -o high d?
    jq -e '.layers == 1' <<<"$output"
    run -0 seen merge --json --max-fpr 0.4 -o middle d?
    jq -e '.layers > 1 and .fpr_current <= 0.4' <<<"$output"
    rejects "seen: *above 0.004; *" seen merge --max-fpr 0.004 -o out d?
}

@test "of filters that are too full together, those of one size are one layer if they are not" {
    # One page and nine: what fits into one page after folding is far less.
    quiet seen create small <(seq 2000)
    quiet seen create -n 20000 large1 <(seq 10001 20000)
    quiet seen create --like large1 large2 <(seq 20001 30000)
    for order in 'small large1 large2' 'large1 small large2' 'large2 large1 small'; do
        # shellcheck disable=SC2086
        run -0 seen merge --force --json -o out $order
        jq -e '.layers == 2 and .fpr_current < 0.00303' <<<"$output"
        [ "$(seen query -c out <(seq 2000; seq 10001 30000))" = 22000 ]
        seen verify out
    done
    # Two small ones that are a little too full together, which shows when the large ones are apart.
    rm small
    quiet seen create --fixed -n 2000 small1 <(seq 1200)
    quiet seen create --like small1 small2 <(seq 1201 2400)
    quiet seen create --force --fixed -n 20000 large1 <(seq 10001 15000)
    quiet seen create --force --like large1 large2 <(seq 15001 20000)
    run -0 seen merge --force --json -o out small1 small2 large1 large2
    jq -e '.layers == 3 and .fpr_current < 4.04e-6' <<<"$output"
}

@test "more filters of one size than a file has layers are united, or refused if they are too full" {
    quiet seen create -n 12000 --empty like
    for i in {10..49}; do
        seq "${i}000" "${i}299" | quiet seen create --like like "h$i"
        seq "${i}000" "${i}299" >>all
    done
    run -0 --separate-stderr seen merge --json -o out h*
    jq -e '.layers == 1 and .fpr_current < 0.00101' <<<"$output"
    run -0 seen query -c out all
    [ "$output" = 12000 ]
    run -0 seen verify out
    rm out
    for i in {10..49}; do
        seq "${i}300" "${i}999" | quiet seen add "h$i" -
        seq "${i}300" "${i}999" >>all
    done
    for force in '' --force; do
        rejects "seen: the filters have too many keys for one layer, and a merged file has at most 31 layers; *" \
            seen merge $force -o out h*
    done
    # No size is a multiple of another.
    for i in {41..72}; do
        seen create --empty -s $((4096 * i)) -p 0.01 "size$i"
    done
    rejects "seen: the filters are of more than 31 different sizes, too many for one file; make them with --like one of them" \
        seen merge -o out size*
    # Some of them first.
    for i in {1..4}; do
        run -0 seen merge -o "h$i" "h$i"?
    done
    run -0 seen merge --json -o out h?
    jq -e '.layers == 4 and .fpr_current < 0.0404' <<<"$output"
    rm out
    run -0 seen merge --json --max-fpr 0.999 -o out h??
    run -0 seen query -c out all
    [ "$output" = 40000 ]
    run -0 seen verify out
}

@test "a result that is too full is refused, unless that is accepted" {
    quiet seen create -p 0.001 --fixed -n 2500 a <(seq 2500)
    run -0 seen add --max-fpr 0.9 a <(seq 10000)
    quiet seen create --like a --empty none
    cp none b
    run -0 seen add --max-fpr 0.9 b <(seq 10001 20000)
    rejects "seen: the result would have a current false-positive rate of 0.*, above 0.00202; *" \
        seen merge -o out a b
    rejects "seen: *" seen merge -o out --max-fpr 0.01 a b
    rejects "seen: *" seen merge --force --max-fpr 0.01 -o out a b
    run -0 seen merge -o out --max-fpr 0.999 a b
    run -0 --separate-stderr seen query -c out <(seq 20000)
    [ "$output" = 20000 ]
    rm out
    run -0 seen merge --force -o out a b
    rm out
    # Three times the rate of one is asked for three.
    quiet seen create --force --like none a <(seq 2500)
    run -0 seen merge -o out a none none
    rm out
    rejects "seen: *" seen merge --max-fpr 1e-9 -o out a
}

@test "an intersection has what is in all of them" {
    quiet seen create -n 20000 -p 1e-9 a <(seq 10000)
    quiet seen create --like a b <(seq 5001 15000)
    quiet seen create --like a c <(seq 4001 7000)
    run -0 seen merge --intersect -o out a b c
    run -0 seen query -c out <(seq 15000)
    [ "$output" = 2000 ]
    run -1 seen query -v out <(seq 5001 7000)
    run -0 seen verify out
    run -0 seen merge --intersect --force -o out a
    alike <(data out) <(data a)
    # Nothing in common.
    quiet seen create --like a d <(seq 20001 20010)
    run -0 seen merge --intersect --force -o out a d
    run -1 seen query out <(seq 15000)
}

@test "of an intersection, and of what is made of it, only bounds of the number of keys are told" {
    for pair in 15000,10001,25000 20000,10001,30000 10000,10001,20000; do
        IFS=, read -r a b c <<<"$pair"
        common=$((a - b + 1))
        quiet seen create --force -n 20000 a <(seq 1 "$a")
        quiet seen create --force --like a b <(seq "$b" "$c")
        run -0 --separate-stderr seen merge --force --verbose --intersect --json -o i a b
        [[ $stderr == *', keys: at most '*', 1 layer' ]]
        bounds=".n_estimate == null and .n_low == 0 and .n_high >= $common"
        jq -e "$bounds" <<<"$output"
        seen stats --json i | jq -e "$bounds and .load == null and .bits_per_key == null and
            .layers[0].n_estimate == null and .consistent == null"
        says '^distinct keys +at most [0-9]+ +estimated' seen stats i
        run -0 seen verify i
        # It goes on to the filters that are made of it.
        run -0 seen merge --force -o u i b
        run -0 seen shrink --force -o s u
        quiet seen add s <(seq 90001 90100)
        for f in u s; do
            seen stats --json $f | jq -e '.n_estimate == null and .n_low == 0 and .n_high > 9000'
        done
        refuses "seen: 'i' is an intersection, whose bits do not tell how many keys two filters \
share; compare the filters that it was made of" seen compare i a
    done
    # Of one filter alone, it is a copy.
    run -0 seen merge --force --intersect -o i a
    seen stats --json i | jq -e '(.n_estimate / 10000 - 1 | fabs) < 0.05'
}

@test "only filters of the same geometry and one layer are intersected" {
    quiet seen create -p 0.001 a <(seq 2000)
    quiet seen create -p 0.001 b <(seq 20000)
    quiet seen create -p 1e-6 c <(seq 2000)
    for other in b c; do
        rejects "seen: only Bloom filters of the same size*" seen merge --intersect -o out a $other
    done
    run -0 seen merge --max-fpr 0.1 -o layers a b
    rejects "seen: only Bloom filters of the same size*" seen merge --intersect -o out layers layers
}

@test "damaged, foreign and missing inputs are refused" {
    quiet seen create a <(seq 1000)
    quiet seen create --like a b <(seq 1000)
    cp b damaged
    poke damaged $(($(size b) - 100)) ff
    poke damaged $(($(size b) - 99)) ff
    rejects "seen: 'damaged' is damaged in 1 page*" seen merge -o out a damaged
    rejects "seen: 'damaged' is damaged in 1 page*" seen merge --force -o out damaged a
    head -c 10000 b >short
    rejects "seen: 'short' is truncated*" seen merge -o out a short
    echo hello >foreign
    rejects "seen: 'foreign' is not a seen filter*" seen merge -o out a foreign
    rejects "seen: cannot open 'missing': No such file or directory" seen merge -o out a missing
    rejects "seen: '.' is not a regular file" seen merge -o out a .
}

@test "what is missing is named" {
    quiet seen create a -k a
    refuses "seen: no output file given (-o OUT)" seen merge a
    refuses "seen: no output file given (-o OUT)" seen merge none
    refuses "seen: no FILTER given" seen merge -o out
    [ ! -e out ]
}

@test "the output is written as create writes" {
    quiet seen create -n 100 a -k a
    quiet seen create --like a b -k b
    quiet seen create out -k old
    old=$(digest out)
    refuses "seen: 'out' exists (--force replaces it)" seen merge -o out a b
    [ "$(digest out)" = "$old" ]
    echo hello >foreign
    refuses "seen: 'foreign' exists and is not a seen filter: not replaced" \
        seen merge --force -o foreign a b
    refuses "seen: cannot create 'gone/out': No such file or directory" seen merge -o gone/out a b
    chmod 600 out
    run -0 seen merge --force -o out a b
    [ "$(stat -c %a out)" = 600 ]
    # An input can be the output.
    run -0 seen merge --force -o a a b
    alike <(data a) <(data out)
    [ -z "$(find . -name '.*' -type f)" ]
    # It can be added to.
    quiet seen add out -k c
    run -0 seen query -c out -k a -k b -k c -k old
    [ "$output" = 3 ]
    run -0 seen verify out
}

@test "--json says what was made" {
    quiet seen create -n 1000 a <(seq 500)
    quiet seen create --like a b <(seq 501 1000)
    run -0 --separate-stderr seen merge --json -o out a b
    [ -z "$stderr" ]
    jq -e --argjson size "$(size out)" '.file == "out" and .bytes == $size and .layers == 1 and
        (.n_estimate / 1000 - 1 | fabs) < 0.05 and .fpr_current < 0.001' <<<"$output"
    run -2 --separate-stderr bash -c 'seen merge --json -o full a b >/dev/full'
    [[ $stderr == "seen: 'full' was made, but "* ]]
    quiet seen query -q -k 1000 full
}

# keeps FILTER P: it grows, and with more keys than it has room for its rate stays below P, which it states.
keeps()
{
    seen stats --json "$1" | jq -e --argjson p "$2" '.policy == "grows" and .fpr_design / $p < 1.03 and .fpr_design / $p > 0.6'
    seq 500001 560000 | quiet seen add "$1"
    seen stats --json "$1" | jq -e '.fpr_current <= .fpr_design'
    [ "$(seen query -c "$1" <(seq 500001 560000))" = 60000 ]
    seen verify "$1"
    reader verify "$1"
}

@test "what is merged of filters that grow goes on growing, and states the rate that it keeps" {
    seen create -p 0.001 a <(seq 5000)
    seen create -p 0.001 b <(seq 5001 8000)
    seen create -p 1e-2 grown -k 1
    seen add grown <(seq 20000)
    seen create --like a like <(seq 4001 4100)
    seen create -p 0.001 --fixed fixed1 <(seq 8001 9000)
    seen create -p 0.001 --fixed fixed2 <(seq 10001 13000)
    seen create -p 0.001 --compact compact <(seq 9001 10000)
    seen merge -o ab a b
    keeps ab 0.002
    [ "$(seen query -c ab <(seq 8000))" = 8000 ]
    # Keys may be in several layers, so their number is between two.
    seen merge -o all a b grown
    seen stats --json all | jq -e '.n_low <= 20000 and .n_high >= 28000 and .fpr_design < 0.0135'
    seen merge -o like2 a like
    seen stats --json like2 | jq -e '.layers | length == 1'
    keeps like2 0.001
    # One layer would be full at the sum of the rates, and leave nothing of it to the next.
    seen create -p 0.001 big <(seq 100000)
    seen create --like big part <(seq 200001 216000)
    seen merge -o two big part
    keeps two 0.002
    seen merge -o mixed a fixed1
    keeps mixed 0.00211
    seen merge -o compacted compact a
    keeps compacted 0.00211
    seen merge --intersect -o both a like
    keeps both 0.001
    # Those that do not grow are not made to.
    seen merge -o fixed fixed1 fixed2
    seen stats --json fixed | jq -e '.policy == "FPR rises" and .n_design == 4000'
    # What is merged can be merged, shrunk and replaced by its size.
    seen merge -o again ab b
    [ "$(seen query -c again <(seq 8000; seq 500001 560000))" = 68000 ]
    quiet seen shrink again
    [ "$(seen query -c again <(seq 8000; seq 500001 560000))" = 68000 ]
}

@test "stats of an intersection, and of a union that grows" {
    seen create a <(seq 1000)
    seen create b <(seq 500 1500)
    seen merge --intersect -o i a b
    [ "$(fact a keys_look_like)" != null ]
    equal "$(fact i keys_look_like)" null
    # The union has each key once, also when it has grown.
    seen merge -o u a b
    seen stats --json u | jq -e '[.layers[].age_seconds] | length == 1 and .[0] != null'
    seen add u <(seq 2000 40000)
    seen stats --json u | jq -e '(.layers | length) > 1 and .n_estimate != null'
}

@test "an intersection or an import that takes the place of a filter stops its writers, and a union does not" {
    seen create --fixed -n 1000 a -k 1
    seen create --like a b -k 1
    seen create --layout guava -n 1000 of-guava -k 1
    seen export of-guava -o g
    mkfifo in
    for way in 'merge a b' 'merge --intersect a b' 'import --layout guava g'; do
        seen add a <in 2>said &
        writer=$!
        exec {hold}>in
        echo "first $way" >&"$hold"
        until_present a "first $way" $writer
        # shellcheck disable=SC2086 # words
        run -0 --separate-stderr seen $way --force -o a
        echo "then $way" >&"$hold" || true
        exec {hold}>&-
        ended=0
        wait $writer || ended=$?
        if [ "$way" = 'merge a b' ]; then
            equal "$ended $(cat said)$stderr" '0 '
        else
            equal "$ended $(cat said)" "2 seen: 'a' was replaced while keys were added: run this again"
            equal "$stderr" "seen: warning: 'a' was replaced while other processes were adding keys; they stop, and say \
that they must be run again"
        fi
    done
}

@test "a ring that was merged into what has no generations while rotate waits is not rotated" {
    seen create --generations 3 -n 3000 r.seen -k a
    seen create --grow g.seen -k b
    ln r.seen ring
    seen merge --force -o r.seen r.seen g.seen
    mv r.seen merged
    mv ring r.seen
    hold_lock r.seen
    seen rotate r.seen 2>said &
    rotation=$!
    until_waiting r.seen $rotation
    cp merged before
    mv merged r.seen
    echo >release
    wait "$holder"
    ended=0
    wait $rotation || ended=$?
    equal "$ended" 2
    grep "'r.seen' has no generations, so it cannot be rotated" said
    layers() { seen stats --json "$1" | jq -c "[.layers[] | del(.age_seconds)]"; }
    equal "$(layers r.seen)" "$(layers before)"
}
