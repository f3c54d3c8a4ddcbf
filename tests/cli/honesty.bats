#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The rates and numbers that stats prints, against what is found by asking.
#
# Keys are words that name their set and number, spread by the hash; nothing is left to chance, so a run
# gives what the last one gave. Bounds are those of chance all the same: 5 standard deviations.
# tags: repeating

load ../lib/helpers

ASKED=1000000

setup_file()
{
    cd "$BATS_FILE_TMPDIR" || return
    seq -f 'absent %.0f' $ASKED >absent
}

# honest FILTER: as many of the absent keys are reported present as its current FPR says. Their number is
# binomial, so its deviation is the root of its mean, which may be below one.
honest()
{
    local hits
    hits=$(seen query -c "$1" "$BATS_FILE_TMPDIR/absent" 2>err) || [ $? = 1 ]
    sed -i '/has far more keys than it was made for/d' err
    [ ! -s err ]
    seen stats --json "$1" | jq -e --argjson hits "$hits" --argjson asked $ASKED '
        (.fpr_current * $asked) as $mean |
        ($hits - $mean | fabs) <= 5 * ($mean | sqrt) + ([1, 5 * $mean] | min)' >said ||
        {
            echo "$1: $hits of $ASKED absent keys present, current FPR" \
                "$(fact "$1" fpr_current)"
            return 1
        }
}

# counts FILTER N: the estimate of distinct keys is right within 2.6 times its 95 % interval, which is 5
# deviations; adds to `within` if the interval itself holds N.
counts()
{
    seen stats --json "$1" >stats.json
    jq -e "(.n_estimate - $2 | fabs) <= 1 + 2.6 * (.n_high - .n_estimate)" stats.json >said ||
        { jq -c '[.n_low, .n_estimate, .n_high]' stats.json; return 1; }
    ((++counted))
    ! jq -e ".n_low <= $2 and $2 <= .n_high" stats.json >said || ((++within))
}

@test "the current rate is the rate, and the number of keys the number, at every load" {
    n=20000
    counted=0 within=0
    for p in 1e-1 1e-2 1e-3 1e-4; do
        quiet seen create --empty -n $n -p $p --force f
        from=0
        for percent in 5 30 60 100 150 300; do
            to=$((n * percent / 100))
            seq -f "key %.0f" $((from + 1)) $to | seen add --max-fpr 0.99 f 2>/dev/null
            from=$to
            honest f
            counts f $to
        done
        # What was taken for present when it came is what the file says was lost: a sum of chances,
        # whose deviation is at most its root. With an FPR above 1/2, it is a lower bound.
        seen stats --json f | jq -e "(.keys_added + .dropped_estimate - 3 * $n) as \$off |
            if .fpr_current > 0.5 then .dropped_at_least and \$off <= 0 and \$off >= -0.05 * $n
            else (.dropped_at_least | not) and
                (\$off | fabs) <= 5 * (.dropped_estimate | sqrt) + 1 end"
    done
    # 95 % of them: 17 or fewer of 24 once in 4000 times.
    echo "$within of $counted intervals hold the true number"
    [ "$counted" = 24 ]
    [ "$within" -ge 18 ]
}

@test "at capacity the rate is the one it was designed for" {
    # The bits of a filter of 20000 keys spread, but by less than a tenth at these rates.
    for p in 1e-1 1e-2 1e-3 1e-4 1e-5; do
        seq -f "key %.0f" 20000 | quiet seen create --fixed -p $p --force f
        honest f
        seen stats --json f | jq -e --argjson p $p '.fpr_current < 1.1 * $p and .fpr_design == $p'
        # Made without counting it is no different.
        quiet seen create --fixed --empty -n 20000 -p $p --force g
        seq -f "key %.0f" 20000 | seen add g 2>/dev/null
        equal "$(fact f fpr_current)" "$(fact g fpr_current)"
    done
}

@test "the rate of a filter made for a size is the one that it says" {
    seq -f "key %.0f" 20000 >keys
    for size in 28K 32K 40K 60K; do
        quiet seen create -s $size --force f keys
        honest f
        seen stats --json f | jq -e '.fpr_current / .fpr_design | . > 0.9 and . < 1.1'
    done
}

@test "layers, unions and intersections are as honest" {
    seq -f "key %.0f" 20000 | quiet seen create -p 0.01 a
    seq -f "key %.0f" 15001 35000 | quiet seen create --like a b
    seq -f "key %.0f" 50001 53000 | quiet seen create -p 0.02 c
    run -0 seen merge --force -o union a b
    run -0 seen merge --intersect -o common a b
    run -0 seen merge --max-fpr 0.5 -o layers a c
    seen stats --json layers | jq -e '.layers | length == 2'
    for file in union common layers; do
        honest $file
    done
    # Where the bits do not tell how many keys are in both, they bound the number.
    bounded() { seen stats --json "$1" | jq -e ".n_estimate == null and .n_low <= $2 and $2 <= .n_high"; }
    bounded union 35000
    bounded layers 23000
    bounded common 5000
}

@test "folding a filter that was made too large keeps it honest" {
    # Three pages in front, one of checksums, one of touched bits.
    quiet seen create --empty -s $((125 * 4096)) -n 400000 large
    quiet seen create --empty -s $((35 * 4096)) -n 100000 small
    seen stats --json large | jq -e '.layers[0].pages == 120'
    seq -f "key %.0f" 50000 | quiet seen add large
    run -0 seen merge -o folded large small
    seen stats --json folded | jq -e '.layers | length == 1 and .[0].pages == 30'
    honest folded
    counted=0 within=0
    counts folded 50000
}

@test "a filter in which all bits are set is still a filter" {
    seq 400000 >keys
    quiet seen create --fixed --empty -n 1 f
    seen create --empty --generations 2 -n 10 -p 0.5 r
    for file in f r; do
        for _ in 1 2 3; do
            run -0 --separate-stderr seen add --max-fpr 0.9999999999 $file keys
            run -0 seen verify $file
        done
        run -0 --separate-stderr seen query -c $file keys
        [ "$output" = 400000 ]
        seen stats --json $file | jq -e '.records == 1200000 and .fpr_current > 0.9999'
    done
    run -0 --separate-stderr seen dedup f keys
    [ -z "$output" ]
    run -0 seen verify f
}

@test "sound filters are sound at twelve times their capacity, and damage is damage" {
    for i in $(seq 10); do
        quiet seen create --empty -n 1000 -p 1e-2 --force f
        seq -f "$i.%.0f" 45000 | seen add --max-fpr 0.99 f 2>/dev/null
        run -0 seen verify f
        run -0 --separate-stderr seen stats --json f
        [ -z "$stderr" ]
        jq -e '.n_low < 45000 and .consistent != false' <<<"$output"
    done
}

# All generations hold the same keys, so the true rate is that of one. The rate shown is a bound, as if
# they were independent.
@test "a key in several generations is one key, and the rate shown is a bound" {
    seen create --generations 3 -n 3000 -p 0.1 --empty r
    for _ in 1 2 3 4; do
        seq -f "key %.0f" 1000 | seen add r
        seen rotate r
    done
    seq -f "key %.0f" 1000 | seen add r
    seen stats --json r | jq -e '.n_low <= 1000 and .n_high > 1000 and .n_high < 4100 and .sources.fpr_current == "estimated" and
        .fpr_current >= .layers[0].fpr_current and .fpr_current <= 4 * .layers[0].fpr_current'
    run -0 seen verify r
}

@test "a filter that grows counts the keys that were lost, and says how many it still takes" {
    seen create -n 2000 -p 0.1 --empty g
    seq -f "key %.0f" 60000 | seen add g
    seen stats --json g | jq -e '(.layers | length) == 7 and .keys_left > 1e9 and
        (.n_estimate - 60000 | fabs) <= 2.6 * (.n_high - .n_estimate) and
        .dropped_estimate > 1300 and .sources.dropped_estimate == "estimated"'
    # Layers are not quite independent: by the bits 0.239, while 0.243 of absent keys are found.
    jq -e '.sources.fpr_current == "exact"' <(seen stats --json g)
    seen create -n 1000 -p 0.5 --empty high
    quiet seen add high <(seq 300000)
    jq -e '.sources.fpr_current == "estimated" and .fpr_current > 0.2' <(seen stats --json high)
    # The layers have only what went into them.
    seen stats --json g | jq -e '([.layers[].n_estimate] | add) < .n_estimate - 1000'
    run -0 seen verify g
}
