#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# seen plan: sizes and costs; and that create keeps to them.

# `run` sets stderr_lines.
# shellcheck disable=SC2154
load ../lib/helpers

# row KIND FILTER OPTION...: what jq finds in the row of that kind.
row()
{
    local kind=$1 filter=$2
    shift 2
    seen plan --json "$@" | jq -r ".kinds[] | select(.kind == \"$kind\") | $filter"
}

@test "sizes for 1e9 keys: bits a key, k and lines" {
    # p, then for bloom the bits a key that the whole file may take, k and cache lines
    while read -r p bits k lines; do
        [ "$(row bloom ".bits_per_key <= $bits and .bits_per_key > 0.99 * $bits and
                        .k == $k and .lines_per_query == $lines" --fixed -n 1e9 -p "$p")" = true ]
    done <<END
1e-1 4.86 3 1
1e-2 9.95 6 1
1e-3 15.6 9 1
1e-4 19.9 12 2
1e-6 31.25 18 2
END
}

@test "text and JSON say the same" {
    seen plan --json -n 5M -p 1% | jq -e '(.bound_bits_per_key - 6.64 | fabs) < 0.01 and all(.kinds[];
        .m > 6.64 * 5000000 and .m <= 8 * .bytes and .build_bytes > .bytes and .build_seconds > 0 and .k > 0 and
        keys == ["bits_per_key", "build_bytes", "build_seconds", "bytes", "k", "kind", "lines_per_query", "m",
            "mutable"])'
    run -0 --separate-stderr seen plan -n 5M -p 1%
    [ -z "$stderr" ]
    [ "${lines[0]}" = "5000000 keys at a design FPR of 0.01" ]
    [[ ${lines[2]} =~ ^bloom\ +([0-9.]+)\ MiB\ +([0-9.]+)\ +7\ +1\ .*\ yes$ ]]
    [ "${BASH_REMATCH[1]}" = "$(printf %.2f "$(row bloom '.bytes / 1048576' -n 5M -p 1%)")" ]
    [ "${BASH_REMATCH[2]}" = "$(printf %.2f "$(row bloom .bits_per_key -n 5M -p 1%)")" ]
    [[ ${lines[3]} =~ ^compact\ +([0-9.]+)\ MiB\ +([0-9.]+)\ +7\ .*\ no$ ]]
    [ "${BASH_REMATCH[2]}" = "$(row compact '.bits_per_key * 100 | round / 100' -n 5M -p 1%)" ]
    [[ ${lines[4]} =~ ^counted\ .*\ yes$ ]]
    [[ ${lines[5]} == Theoretical\ minimum:\ * ]]
}

@test "the text speaks of compact only where it is in the table" {
    [ "$(seen plan -n 1000 | grep -c compact)" = 2 ]
    [ "$(seen plan -n 1000 -p 0.9 | grep -c compact)" = 0 ]
}

@test "1e-6 is the FPR where none is given" {
    run -0 seen plan -n 1M -p 1e-6
    [ "$(seen plan -n 1M)" = "$output" ]
    run -0 seen plan -s 1M -p 1e-6
    [ "$(seen plan -s 1M)" = "$output" ]
}

@test "a size gives n or p, and the file is no larger" {
    n=$(seen plan --json -s 64M -p 1e-4 | jq .n_design)
    [ "$(row bloom '.bytes <= 67108864 and .bytes > 67000000' -s 64M -p 1e-4)" = true ]
    # one key more in a thousand does not fit
    [ "$(row bloom '.bytes <= 67108864' --fixed -n "$n" -p 1e-4)" = true ]
    [ "$(row bloom '.bytes <= 67108864' --fixed -n $((n + n / 1000)) -p 1e-4)" = false ]

    p=$(seen plan --json -s 64M -n 20M | jq .fpr_design)
    equal "$(row bloom .bytes -s 64M -n 20M)" "$(row bloom .bytes --fixed -n 20M -p "$p")"
    equal "$(row bloom .k -s 64M -n 20M)" "$(row bloom .k --fixed -n 20M -p "$p")"
}

@test "create makes a file of the planned size" {
    for wish in '-n 100000 -p 1e-4' '-n 1' '-n 250k -p 0.1' '--fixed -n 250k' '-s 1M -n 300000' '-s 100K -p 1e-6'; do
        # shellcheck disable=SC2086 # several options
        quiet seen create --empty --force $wish a.seen
        # shellcheck disable=SC2086
        equal "$(size a.seen)" "$(row bloom .bytes $wish)"
    done
}

@test "create --dry-run prints the plan and writes nothing" {
    for wish in '-n 100000 -p 1e-4' '-s 1M -n 300000'; do
        # shellcheck disable=SC2086 # several options
        run -0 --separate-stderr seen create --empty --dry-run $wish a.seen
        # shellcheck disable=SC2086
        [ "$output" = "$(seen plan $wish)" ]
        # shellcheck disable=SC2086
        equal "$(seen create --empty --dry-run --json $wish a.seen)" "$(seen plan --json $wish)"
    done
    [ ! -e a.seen ]
}

@test "what no filter can do is refused with what it would take" {
    local allowed="counted filters allow 5.43e-20 times the number of keys, compact ones 2.33e-10, bloom filters 1e-09"
    refuses 'seen: 1.00 MiB is too small for 1.8e+19 keys' seen plan -n 18e18 --size 1M
    refuses "seen: an FPR of 5e-10 is too small for a bloom filter: $allowed" \
        seen create --empty -n 1k -p 5e-10 a.seen
    refuses "seen: an FPR of 5e-10 is too small for a bloom filter: $allowed" \
        seen plan -s 1M -p 5e-10
    refuses "seen: an FPR of 1e-10 is too small for a compact filter: $allowed" \
        seen create --compact --empty -p 1e-10 a.seen
    refuses "seen: an FPR of 1e-17 is too small for 1000 keys: 64-bit hashes allow 5.43e-17 or more" \
        seen plan -n 1k -p 1e-17
    refuses "seen: a size of 10240 bytes is too small: the smallest filter takes 24576" \
        seen plan -s 10K
    refuses "seen: 1.00 MiB is too small for 1000000000 keys: for an FPR of 0.5 it takes \
173 MiB" seen plan -s 1M -n 1e9
    refuses "seen: an FPR of 1e-09 is too small for 1000000000000 keys: 64-bit hashes allow 5.43e-07 \
or more" seen plan -n 1e12 -p 1e-9
    refuses "seen: 1e+19 keys are more than 64-bit hashes can tell apart" seen plan -n 1e19
    refuses "seen: 1e+17 keys at an FPR of 0.1 need a file larger than 16.0 PiB" \
        seen plan -n 1e17 -p 0.1
    refuses "seen: 1e+18 keys are more than 64-bit hashes can tell apart" seen plan --generations 3 -n 1e18
    refuses "seen: 1e+18 keys are more than 64-bit hashes can tell apart" seen plan -n 1e18 -p 0.01 -s 1G
    refuses "seen: an FPR of 1e-30 is too small for a bloom filter: $allowed" \
        seen plan --generations 3 -p 1e-30 -n 100
    refuses "seen: Guava cannot make a filter of more than 137438953408 bits" seen plan --layout guava -n 1e18
}

@test "rates that only counted sets have are planned" {
    run -0 seen plan --json -n 1k -p 1e-10
    [ "$output" = "$(seen create --counted --empty -n 1k -p 1e-10 --dry-run --json a.seen)" ]
    [ "$(jq -r '.kinds[].kind' <<<"$output" | xargs)" = counted ]
    jq -e '.kinds[0] | .mutable and .k == 44' <<<"$output"
    # A compact filter reaches this rate only with fewer keys.
    run -0 seen plan --json -n 1000 -p 5e-10
    [ "$(jq -r '.kinds[].kind' <<<"$output" | xargs)" = 'compact counted' ]
    run -0 seen plan --json -n 1e9 -p 5e-10
    [ "$(jq -r '.kinds[].kind' <<<"$output" | xargs)" = counted ]
    run -0 seen plan -n 1k -p 1e-10
    [ "$(grep '^.create' <<<"$output")" = \
        "'create --counted' makes counted, from which keys can be removed." ]
}

@test "a rate that only other programs reach: their filters alone are planned" {
    run -0 seen plan -n 1000 -p 1e-25 --layout gozero
    [[ $output == 'layout '* && ${lines[1]} == 'gozero  847738 '* ]]
    [[ $output == *'is that of the formula for the capacity.'* ]]
    run -0 seen plan --json -n 1000 -p 1e-25 --layout gozero
    jq -e '.kinds == [] and .bound_bits_per_key == null and .layouts[0].m == 847738' <<<"$output"
    # Where there are filters of both, they are apart.
    run -0 seen plan -n 1000 --layout gozero
    [[ $output == $'1000 keys '*$'\n\nlayout '* ]]
}

@test "-p 0 plans whole hashes" {
    seq 1000 >keys
    run -0 seen plan --json -n 1000 -p 0
    [ "$(jq -r '.kinds[].kind' <<<"$output" | xargs)" = counted ]
    [ "$output" = "$(seen create --counted -p 0 --dry-run --json a.seen keys)" ]
    jq -e '.kinds[0].k == 64 and .fpr_design == 5.421010862427522e-17' <<<"$output"
    for options in '-s 1M' '-n 1k -s 1M' '-n 1k --layout guava'; do
        # shellcheck disable=SC2086 # several options
        refuses 'seen: an FPR of 0 needs a capacity (-n), and cannot go with --size or --layout' \
            seen plan -p 0 $options
    done
}

@test "wishes that contradict each other, or none" {
    refuses "seen: --capacity, --fpr and --size cannot all be given: 1 keys at 0.1 take 24.0 KiB" \
        seen plan -n 1 -p 0.1 -s 1M
    refuses "seen: give a capacity (-n) or a size (-s)" seen plan
    refuses "seen: give a capacity (-n)" seen plan --layout gozero
    for options in --grow '-n 9 --generations 2'; do
        # shellcheck disable=SC2086 # several options
        refuses 'seen: an FPR of 0 is for counted sets, which neither grow nor have generations' seen plan -p 0 $options
    done
    refuses "seen: give a capacity (-n) or a size (-s)" seen plan -p 0.1
    refuses "seen: option '--capacity' must be more than 0" seen plan -n 0
    refuses "seen: option '--size' must be more than 0" seen plan -s 0
    refuses "seen: unexpected operand 'f': plan reads no files" seen plan -n 1 f
    for p in 0.0 1 2 -1 100% x; do
        run -2 --separate-stderr seen plan -n 1k -p "$p"
        [ -z "$output" ]
    done
}

# Rows of a report: label and value.
rows() { sed -E 's/ +exact$//; s/  +/:/'; }

@test "filters that grow or have generations: plan, a dry run and the file agree" {
    local options
    seq 5000 >keys
    while IFS='|' read -r options wanted; do
        # shellcheck disable=SC2086 # words
        run -0 --separate-stderr seen plan $options
        equal "$(rows <<<"$output")$stderr" "${wanted//_/$'\n'}"
        # shellcheck disable=SC2086
        equal "$(seen create --dry-run --empty $options f)" "$output"
        # shellcheck disable=SC2086
        seen create --dry-run --json $options f keys >planned
        [ ! -e f ]
        # shellcheck disable=SC2086
        seen create --force --json $options f keys >made
        jq -se '.[0].bytes == .[1].bytes and .[0].layers == .[1].layers and
            .[0].n_design == .[1].n_design and .[0].fpr_design == .[1].fpr_design' planned made
        jq -e --argjson size "$(stat -c %s f)" '.bytes == $size' planned
        rm f
    done <<'END'
-n 50k --generations 4|design capacity:50000_design FPR:1e-06_grows:no_generations:4_kind:bloom_layers:5_keys of a layer:12500_file size:332 KiB_cache lines:10
-n 50k --generations 1 -p 0.1|design capacity:50000_design FPR:0.1_grows:no_generations:1_kind:bloom_layers:2_keys of a layer:50000_file size:108 KiB_cache lines:2
END
    wanted=$'design FPR:1e-06\ngrows:yes\nkind:bloom\nlayers:1\nkeys of a layer:1048576\nfile size:4.38 MiB\ncache lines:2'
    equal "$(seen plan --grow | rows)" "$wanted"
    equal "$(seen create --dry-run --empty f | rows)" "$wanted"
    equal "$(seen plan -n 50k)" "$(seen plan --grow -n 50k)"
    [ "$(seen plan -n 50k | grep -c 'which grows when it is full')" = 1 ]
    [ "$(seen plan --fixed -n 50k | grep -c 'which grows when it is full')" = 0 ]
    refuses 'seen: --generations needs --capacity' seen plan --generations 3
    refuses 'seen: an FPR of 0 is for counted sets, which neither grow nor have generations' seen plan --grow -p 0
}
