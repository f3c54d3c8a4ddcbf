#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Counted sets: making them, and asking for counts.
# tags: threads

# `run` sets stderr_lines.
# shellcheck disable=SC2154
load ../lib/helpers

field() { seen stats --json "$1" | jq -r "$2"; }

@test "a counted set has its keys, and about as many others as its FPR says" {
    seq 50000 >keys
    quiet seen create --counted -p 0.01 f keys
    [ "$(seen query -c f keys)" = 50000 ]
    [ "$(field f .kind)" = counted ]
    jq -e '.fpr_current > 0.005 and .fpr_current <= 0.01' <(seen stats --json f)
    # 50000 * 0.00763 = 381, with a deviation of 20; the hash seed is fixed.
    wrong=$(seq 50001 100000 | seen query -c f)
    ((wrong > 250 && wrong < 510))
    run -0 seen verify f
    [ "$output" = 'f: ok' ]
}

# At high rates keys often have equal fingerprints: their counts cost up to a bit for each key.
@test "sizes are a logarithm and 2.9 bits above it" {
    seq 40000 >keys
    for p in 0.1 0.01 1e-4 1e-6 1e-9 0; do
        quiet seen create --counted --force -p $p f keys
        [ "$(seen query -c f keys)" = 40000 ]
        jq -e '.bytes * 8 < 40000 * ((if .fpr_current < 1e-3 then 2.9 else 3.9 end) -
            (.fpr_current | log2)) + 8000' <(seen stats --json f)
    done
}

@test "with an FPR of 0 hashes are whole, and the number of keys exact" {
    seq 30000 | tee keys | seen create --counted -p 0 f
    [ "$(seq 30001 100000 | seen query -c f || true)" = 0 ]
    run -0 seen stats f
    [[ $output =~ distinct\ keys\ +30000\ +exact ]]
}

@test "with --once, each distinct key counts 1, however often it is given" {
    seq 20000 >keys
    quiet seen create --counted --reproducible f keys
    cat keys keys keys | seen create --counted --once --reproducible g
    run -0 seen query --show-counts g -k 17 -k 20000 -k x
    [ "$output" = $'1\t17\n1\t20000' ]
    seen stats --json f | jq '{n_estimate, fpr_current, bytes}' >one
    seen stats --json g | jq '{n_estimate, fpr_current, bytes}' | diff one -
    [ "$(field g '[.records, .keys_added] | @tsv')" = $'60000\t20000' ]
}

@test "threads and memory leave no trace" {
    seq 300000 >keys
    seen create --counted -p 1e-5 --reproducible -j 1 one keys
    seen create --counted -p 1e-5 --reproducible -j 3 three keys
    cmp one three
    seen create --counted -p 1e-5 --reproducible --memory 16M --tmpdir . small <keys
    cmp one small
}

# The counts of distinct keys, as uniq -c has them.
uniq_counts() { LC_ALL=C sort "$@" | uniq -c | awk '{ print $1 "\t" $2 }'; }

@test "every occurrence counts, as sort | uniq -c has it" {
    # Key i occurs 200000 / i times, and the last one in every second record.
    seq 100000 | awk '{ for (n = int(200000 / $1); n > 0; n--) print $1 "\n100000" }' >keys
    uniq_counts keys >want
    for args in '-j 1' '-j 3' '-j 2 --memory 24M' '-j 1 --memory 15M --tmpdir .'; do
        # shellcheck disable=SC2086 # several words
        seen create --counted -p 0 --reproducible --force $args f keys
        cut -f 2 want | seen query --show-counts f | cmp want -
        [ -e first ] || cp f first
        cmp first f
        seen verify f
    done
    [ "$(field f '[.records, .keys_added] | @tsv')" = "$(wc -l <keys)"$'\t100000' ]
    quiet seen create --counted --each -p 0 --reproducible --force f keys
    cmp first f
    refuses 'seen: --once counts keys: not with --each' seen create --counted --once --each g keys
    # Short fingerprints share counts, of which none is lost.
    seen create --counted -p 0.5 --force f -k a -k b -k a
    run -0 seen query --show-counts f -k a
    [ "$output" = $'2\ta' ] || [ "$output" = $'3\ta' ]
    # Any number of keys, of which some were chosen, may have one fingerprint: that is no contradiction.
    seen create --counted -n 100 -p 0.1 --force f -k 1
    seen query f <(seq 200000) >same
    has_lines same 100
    seen create --counted -n 100 -p 0.1 --force f same
    equal "$(fact f fingerprints) $(fact f consistent)" '1 true'
    seen verify f
}

@test "--once and --each are refused where nothing counts" {
    refuses 'seen: --once counts keys: it needs --counted' seen create --once f -k a
    refuses "seen: --once is for counted sets, which 'seen create --counted' makes" \
        seen add --create --once f -k a
    refuses 'seen: --each counts keys: it needs --counted' seen create --each f -k a
    refuses 'seen: --empty reads no keys: not with --each' \
        seen create --counted --each --empty -n 9 f
    refuses "seen: --each is for counted sets, which 'seen create --counted' makes" \
        seen add --create --each f -k a
    [ ! -e f ]
    seen create f -k a
    refuses "seen: --each is for counted sets, which 'seen create --counted' makes" seen add --each f -k a
    refuses "seen: --once is for counted sets, which 'seen create --counted' makes" seen add --once f -k a
}

@test "few keys and none" {
    for n in 1 2 3 7 100; do
        seq $n | seen create --counted --force f
        [ "$(seq $n | seen query -c f)" = $n ]
        run -0 seen verify f
    done
    quiet seen create --counted --force --empty -n 1000 f
    [ "$(field f '[.n_design, .n_estimate] | @tsv')" = $'1000\t0' ]
    [ "$(seq 1000 | seen query -c f || true)" = 0 ]
    quiet seen create --counted --force --empty -p 0 f
    [ "$(seq 1000 | seen query -c f || true)" = 0 ]
    refuses "seen: no keys, so 'g' is not made (--empty makes an empty filter)" \
        seen create --counted g /dev/null
}

@test "a capacity decides the width of fingerprints, and is kept to" {
    seq 1000 | seen create --counted -n 100000 -p 0.001 f
    jq -e '.n_design == 100000 and .fpr_design == 0.001 and .fpr_current < 1e-5' \
        <(seen stats --json f)
    seq 3000 >keys
    run -2 --separate-stderr seen create --counted -n 1000 g keys
    [[ $stderr == *"3000 distinct keys are more than the 1000 that the filter is for"* ]]
    [ ! -e g ]
}

@test "options that mean nothing for counted sets are refused" {
    seq 10 | seen create like
    for other in --compact '--size 1M' '--like like' --grow --foldable '--layout guava' \
        '--generations 2 -n 10'; do
        # shellcheck disable=SC2086 # options with their arguments
        refuses "seen: --counted and ${other%% *} cannot go together" \
            seen create --counted $other f like
    done
    refuses "seen: --fpr 0 is possible only with --counted" seen create -p 0 f like
    refuses "seen: --empty needs --capacity or --fpr 0" seen create --counted --empty f
    [ ! -e f ]
}

@test "counts stand before records, and after numbers and marks" {
    printf '%s\n' a b c | seen create --counted f
    printf '%s\n' b x a >keys
    run -0 seen query --show-counts f keys
    [ "$output" = $'1\tb\n1\ta' ]
    run -0 seen query --show-counts -v f keys
    [ "$output" = $'0\tx' ]
    run -0 seen query --show-counts -n f keys
    [ "$output" = $'1:1\tb\n3:1\ta' ]
    run -0 seen query --show-counts --annotate -n f keys
    [ "$output" = $'1:+\t1\tb\n2:-\t0\tx\n3:+\t1\ta' ]
    echo a >list
    run -0 seen query --show-counts --confirm list f keys
    [ "$output" = $'1\ta' ]
    run -0 seen query --show-counts -v --confirm list f keys
    [ "$output" = $'0\tb\n0\tx' ]
    [ "$(seen query --show-counts -0 f < <(printf 'a\0x\0c') | tr '\0' ' ')" = $'1\ta 1\tc ' ]
}

@test "a least count selects, and the rest is what -v prints" {
    printf '%s\n' a b | seen create --counted f
    run -0 seen query --at-least 1 f -k a -k x
    [ "$output" = a ]
    run -1 seen query --at-least 2 f -k a -k x
    [ "$output" = '' ]
    run -0 seen query --at-least 2 -v --show-counts f -k a -k x
    [ "$output" = $'1\ta\n0\tx' ]
    run -1 seen query --at-least 2 --annotate f -k a
    [ "$output" = $'-\ta' ]
    run -2 seen query --at-least 0 f -k a
    [[ $output == *"--at-least"*"more than 0"* ]]
}

@test "counts are asked of one filter, and only of one that has them" {
    echo a | seen create --counted f
    echo a | seen create g
    for option in --show-counts '--at-least 1'; do
        # shellcheck disable=SC2086 # an option with its argument
        refuses "seen: 'g' does not count its keys: 'seen create --counted' makes a filter that does" \
            seen query $option g -k a
        # shellcheck disable=SC2086
        rejects "seen: ${option% *} * one filter *: not with --also" seen query $option --also g f -k a
    done
    run -0 seen query --also g f -k a
    [ "$output" = a ]
}

@test "damage is found before a count is believed" {
    seq 20000 | seen create --counted -p 1e-6 f
    cp f g
    poke g 30000 ffffffffffff
    run -2 seen verify g
    run -2 --separate-stderr seen query --show-counts g <(seq 20000)
    [[ $stderr == *"is damaged"* ]]
}

@test "verify reads all of a set, whatever its checksums say" {
    seq 20000 | seen create --counted -p 0 f
    for change in geometry2=19999 geometry3=20001 geometry1=50; do
        cp f g
        forge g "layer.0.$change"
        run -2 --separate-stderr seen verify g
        [[ $stderr == "seen: 'g' is damaged at offset 416: layer 0: "* ]] ||
            [[ $stderr == "seen: 'g' is damaged: layer 0: "* ]]
    done
}

@test "stats tell of fingerprints and counts" {
    seq 1000 | seen create --counted -n 2000 -p 0.001 f
    [ "$(field f '[.counts_total, .fingerprints, .fingerprint_bits] | @tsv')" = $'1000\t1000\t21' ]
    [ "$(field f '[.policy, .n_design] | @tsv')" = $'FPR rises\t2000' ]
    jq -e '.keys_left > 1000 and .keys_left < 1200' <(seen stats --json f)
    run -0 seen stats --all f
    [[ $output =~ sum\ of\ counts\ +1000\ +exact ]]
}

@test "a set for more keys than a file can hold is refused" {
    refuses "seen: 1e+15 keys at an FPR of 0.001 need a file larger than 256 TiB" \
        seen create --counted -p 0.001 -n 1e15 --empty f
    [ ! -e f ]
}
