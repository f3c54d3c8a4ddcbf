#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Filters that create makes for other programs; and what plan says of them. layouts.bats holds their
# bytes against files of these programs.

# `run` sets stderr_lines.
# shellcheck disable=SC2154
load ../lib/helpers

KEYS=$SOURCE/tests/vectors/keys/keys.txt

layouts() { seen help --layouts | cut -f 1 | grep -v :; }

# has_all FILTER KEYFILE: are all keys in?
has_all() { equal "$(seen query --count "$1" "$2")" "$(wc -l <"$2")"; }

# make OUT SPEC OPTION...: creates a filter of the keys on standard input and exports it to OUT.*.
make()
{
    local out=$1 spec=$2
    shift 2
    seen create --force --reproducible --layout "$spec" "$@" f.seen || return
    mkdir -p "$out"
    rm -f "$out"/*
    case $spec in
        php*) seen export --force f.seen -o "$out/f.bits" ;;
        *) seen export --force f.seen -o "$out/f" ;;
    esac
}

@test "a filter of each layout has its keys, and is sound" {
    for layout in $(layouts); do
        quiet seen create --force --layout "$layout" -n 2000 -p 0.01 f.seen "$KEYS"
        [ "$(fact f.seen kind)" = "$layout" ]
        run -0 seen verify f.seen
        has_all f.seen "$KEYS"
    done
}

@test "threads and memory make no difference" {
    seq 300000 >keys
    for layout in guava gozero $(layouts | grep -xE 'dcso|redisbloom'); do
        for size in '-p 0.01' '-n 300000 -p 0.01'; do
            # shellcheck disable=SC2086 # an option and its value
            make one "$layout" $size -j 1 <keys
            cp f.seen one.seen
            # shellcheck disable=SC2086
            make two "$layout" $size -j 4 --memory 8M <keys
            diff -r one two
            cmp one.seen f.seen
        done
    done
}

@test "without -n, a filter is made for the distinct keys" {
    seq 1000 >keys
    for layout in $(layouts | grep -vx php); do
        seen create --force --reproducible --layout "$layout" -p 0.01 a.seen keys keys
        seen create --force --reproducible --layout "$layout" -p 0.01 -n 1000 b.seen keys
        equal "$(fact a.seen n_design)" "$(fact b.seen n_design)"
        has_all a.seen keys
    done
    # A layout in which order does not matter has the same bytes.
    make a guava -p 0.01 < <(cat keys keys)
    make b guava -p 0.01 -n 1000 <keys
    diff -r a b
}

@test "a program's own FPR is taken where none is given" {
    m() { seen plan --json --layout "$@" | jq ".layouts[0].m"; }
    equal "$(m guava -n 1000)" "$(m guava -n 1000 -p 0.03)"
    [ "$(m gozero -n 1000)" = 20000 ]
    equal "$(m redisson -n 1000)" "$(m redisson -n 1000 -p 0.001)"
}

@test "a number of bits decides alone, and too many keys are warned of" {
    seq 1000 >keys
    quiet seen create --layout gozero:bits=40000 f.seen keys
    [ "$(fact f.seen n_design)" = 1980 ] # 40000 ln 2 / 14
    quiet seen create --force --empty --layout gozero:bits=40000 f.seen
    # What go-zero recommends, 20 bits a key, is a little more than half full.
    quiet seen create --force --layout gozero:bits=20000 f.seen keys
    quiet seen create --force --empty --layout gozero:bits=20000 f.seen
    quiet seen add f.seen keys
    run -0 --separate-stderr seen create --force --layout gozero:bits=8000 f.seen keys
    [[ ${#stderr_lines[@]} == 1 && $stderr == *"more than half full"* ]]
    refuses "seen: 8000 bits with 14 positions a key have an FPR of 0.0691 for 1000 keys, which is more than 0.01" \
        seen create --force --layout gozero:bits=8000 -p 0.01 f.seen keys
    # With a number of positions, too; only a capacity that is given must give both by the rule.
    refuses "seen: 9000 bits with 7 positions a key have an FPR of 0.0135 for 1000 keys, which is more than 0.01" \
        seen create --force --layout redisson:bits=9000,k=7 -p 0.01 f.seen keys
    refuses "seen: 9000 bits with 7 positions a key have an FPR of 0.0135 for 1000 keys, which is more than 0.01" \
        seen create --force --layout bitsandblooms:bits=9000,k=7 -p 0.01 f.seen keys
    quiet seen create --force --layout redisson:bits=9000,k=7 -p 0.02 f.seen keys
    [ "$(fact f.seen n_design)" = 1000 ]
    quiet seen create --force --layout redisson:bits=9585,k=7 -n 1000 -p 0.01 f.seen keys
    quiet seen create --force --layout redisson:bits=9585,k=7 -n 1000 f.seen keys
    [[ $(fact f.seen fpr_design) == 0.0100* ]]
    refuses 'seen: -n and -p give bits=9585 and k=7, not what the spec says' \
        seen create --force --layout redisson:bits=9000,k=7 -n 1000 -p 0.01 f.seen keys
}

@test "more keys than -n allows are refused, but not for the program's rounding" {
    seq 1000 >keys
    # k = 1 for 1.4 bits a key: the formula gives 0.5034 for 0.5.
    quiet seen create --layout guava -n 1000 -p 0.5 f.seen keys
    seq 2000 >keys
    run -2 --separate-stderr seen create --layout guava -n 1000 -p 0.01 g.seen keys
    [[ $stderr == "seen: 2000 distinct keys are more than the 1000 that the filter is for:"*"it needs --capacity 2000" ]]
    [ ! -e g.seen ]
    rejects "*; it needs a larger size" seen create --layout gozero:bits=8000 -n 500 g.seen keys
}

@test "--like copies size, hash and encoding; the filters unite" {
    seq 1000 >a
    seq 501 1500 >b
    seen create --layout guava:funnel=long,strategy=32 -n 2000 -p 0.01 a.seen a
    quiet seen create --like a.seen b.seen b
    alike <(seen stats --json a.seen | jq '.layout, .n_design, .bytes') \
        <(seen stats --json b.seen | jq '.layout, .n_design, .bytes')
    run -0 seen merge -o ab.seen a.seen b.seen
    seen export ab.seen -o united
    sort -nu a b | make all guava:funnel=long,strategy=32 -n 2000 -p 0.01
    cmp united all/f
}

@test "--like takes no data that a user put behind the bits" {
    seen import --layout dcso "$SOURCE/tests/vectors/dcso/dc_data.bloom" -o data.seen
    seq 100 >keys
    run -0 --separate-stderr seen create --like data.seen f.seen keys
    seen export data.seen -o data
    seen export f.seen -o out
    more=$(($(size data) - $(size out)))
    [ "$more" -gt 20 ] # two lines
    seen merge -o both.seen data.seen f.seen 2>/dev/null
    seen export both.seen -o both
    alike <(tail -c "$more" both) <(tail -c "$more" data)
}

@test "--empty, then add: the same bytes as create" {
    seq 1000 >keys
    for layout in $(layouts | grep -vx php); do
        make created "$layout" -n 1000 -p 0.01 <keys
        seen create --force --layout "$layout" --empty -n 1000 -p 0.01 f.seen
        seen add f.seen keys
        mkdir -p added
        rm -f added/*
        seen export f.seen -o added/f
        diff -r created added
    done
    run -2 --separate-stderr seen create --force --layout guava --empty f.seen
    [[ $stderr == *"--empty needs --capacity"* ]]
}

@test "keys added in several runs: every page has its checksum, and none is missed" {
    seq 100000 >keys
    seen create --layout guava --empty -n 100000 -p 0.001 f.seen # 44 pages
    seen add f.seen <(head -n 3 keys)
    run -0 seen verify f.seen
    seen add -j 1 f.seen <(sed -n 4,60000p keys)
    seen add f.seen <(tail -n 40000 keys)
    run -0 seen verify f.seen
    seen export f.seen -o added
    make created guava -n 100000 -p 0.001 <keys
    cmp added created/f
}

@test "keys are prepared as for other filters" {
    printf '%s\n' 41 '  4a4B ' >hex
    printf '%s\n' A JK >plain
    make a guava:funnel=bytes -n 10 -p 0.01 --trim --hex --ignore-case <hex
    make b guava:funnel=bytes -n 10 -p 0.01 <plain
    cmp a/f b/f
    # The encoding makes other lengths of equal ones.
    seen create --layout guava --hex h.seen -k 4142
    run -1 seen query h.seen -k 313233
    printf '%s\n' 7 seven >bad
    run -2 --separate-stderr seen create --force --layout guava:funnel=long -n 10 f.seen bad
    [[ $stderr == *"bad:2: "* ]]
    run -0 --separate-stderr seen create --json --force --skip-bad --layout guava:funnel=long -n 10 g.seen bad
    [ "$(jq -c '[.records, .bad_records, .keys_added]' <<<"$output")" = '[2,1,1]' ]
    [ "$(jq -r .layout <<<"$output")" = guava:funnel=long,strategy=64 ]
    # Wherever in a batch of keys they are.
    seq 1000 | sed 's/.*[05]$/none/; s/^[1-9]/,&/' >bad
    seen create --force --skip-bad -d, -f 2 --layout guava g.seen bad
    [ "$(grep -v none bad | tr -d , | seen query -vc g.seen)" = 0 ]
}

@test "what does not go with --layout is refused" {
    for option in --compact --size=1M --grow --generations=2 --foldable --like=f.seen; do
        run -2 --separate-stderr seen create --layout guava "$option" f.seen "$KEYS"
        [[ ${stderr_lines[0]} == "seen: --layout makes what the other program would: not with ${option%=*}" ]]
    done
    refuses "seen: layout guava: funnel is 'x', but can be utf8, utf16, bytes, int, long" \
        seen create --layout guava:funnel=x -n 10 f.seen "$KEYS"
    refuses "seen: Guava cannot make a filter for so few keys at an FPR of 0.9" \
        seen create --layout guava -n 1 -p 0.9 f.seen "$KEYS"
    refuses "seen: Guava cannot make a filter for so few keys at an FPR of 0.9" \
        seen create --layout guava -p 0.9 f.seen -k one
    refuses "seen: --layout takes a capacity: not with --size" \
        seen plan --layout guava -s 1M
    [ ! -e f.seen ]
}

@test "--min-keys, --min-ratio and --dry-run" {
    seq 1000 >keys
    run -2 --separate-stderr seen create --layout guava --min-keys 1001 f.seen keys
    [[ $stderr == *"only 1000 distinct keys"* && ! -e f.seen ]]
    quiet seen create --layout guava --min-keys 1000 f.seen keys
    seq 10 >few
    run -2 --separate-stderr seen create --force --layout guava --min-ratio 0.5 f.seen few
    [ "$(fact f.seen n_design)" = 1000 ]
    run -0 --separate-stderr seen create --dry-run --json --layout guava -p 0.01 g.seen keys
    [ "$(jq -c '.layouts[0] | [.m, .k]' <<<"$output")" = '[9600,7]' ]
    # Where the layout fixes the size, it is full when half of the bits are set.
    run -0 --separate-stderr seen create --dry-run --json --layout gozero:bits=20000 g.seen </dev/null
    [ "$(jq -c '.layouts[0] | [.n_design, .m]' <<<"$output")" = '[990,20000]' ]
    run -0 --separate-stderr seen create --dry-run --layout gozero:bits=20000 g.seen </dev/null
    [[ $output == *'is that of the formula for a half-full filter.'* ]]
    [ ! -e g.seen ]
}

@test "a filter that the address space does not hold is refused" {
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer takes addresses by the terabyte'
    ulimit -v 1000000
    refuses "seen: cannot make a filter in memory: 1.68 GiB are needed" \
        seen create --layout guava -n 1e9 -p 1e-3 f.seen "$KEYS"
    [ ! -e f.seen ]
}

@test "plan: what every layout would make, and create makes it" {
    seen plan --json --layout all -n 1000 -p 0.01 >table
    alike <(jq -r '.layouts[].layout' table) <(layouts)
    jq -e '.kinds | map(.kind) | index("bloom") != null' table
    for layout in $(layouts | grep -vx php); do
        seen create --force --layout "$layout" -n 1000 -p 0.01 --empty f.seen
        mkdir -p out
        rm -f out/*
        seen export --pad f.seen -o out/f
        equal "$(jq ".layouts[] | select(.layout == \"$layout\") | .layout_bytes" table)" \
            "$(cat out/* | wc -c)"
        equal "$(jq ".layouts[] | select(.layout == \"$layout\") | .bytes" table)" "$(size f.seen)"
    done
    for layout in guava:serialized=yes bitsandblooms:json=yes dcso:gzip=no; do
        seen create --force --layout "$layout" -n 1000 -p 0.01 --empty f.seen
        equal "$(seen plan --json --layout "$layout" -n 1000 -p 0.01 | jq '.layouts[].layout_bytes')" \
            "$(seen export f.seen -o - | wc -c)"
    done
    # The FPR is that of the bits, not the one that was asked for: 0.009968 by the formula, and what
    # dependent positions add.
    jq -e '.layouts[] | select(.layout == "redisson") | .fpr > 0.011 and .fpr_factor == 4' table
    jq -e '.layouts[] | select(.layout == "gozero") | .fpr_factor == null' table
    jq -e '.layouts[] | select(.layout == "guava") | .fpr > 0.00997 and .fpr < 0.0101 and .fpr != 0.01' table
}

@test "plan: a layout that cannot be made says why" {
    run -0 seen plan --layout all -n 2e9 -p 0.01
    [[ $output == *"php "*"992348157 keys"* || $output == *"php "*"FPR"* ]]
    refuses "seen: Redisson cannot make a filter of more than 4294967294 bits" \
        seen plan --layout redisson -n 2e9 -p 0.01
    says '^redisson +Redisson cannot make a filter of more than 4294967294 bits$' seen plan --layout all -n 2e9 -p 0.01
    jq -e '.layouts[] | select(.layout == "redisson") | .refused | startswith("Redisson cannot make a filter")' \
        <(seen plan --json --layout all -n 2e9 -p 0.01)
}

@test "redisbloom: a filter that no program could make is refused" {
    refuses "seen: a link for 1e+19 keys at an error rate of 0.005 is too large" \
        seen create --layout redisbloom -n 1e19 --empty f.seen
    [ ! -e f.seen ]
}

@test "of more keys than the bits can tell, a lower bound is told" {
    seq 1000000 >many
    run -0 --separate-stderr seen create --json --layout gozero:bits=8000 f.seen many
    jq -e '.n_at_least and .n_estimate > 1000 and .n_estimate < 1000000' <<<"$output"
    run -0 seen create --force --json --layout gozero:bits=8000 f.seen -k a
    jq -e '.n_at_least == false and .n_estimate == 1' <<<"$output"
    rejects "seen: at least [1-9]* distinct keys are more than the 100 that the filter is for: *; \
it needs --capacity [1-9]* or more" seen create --layout guava -n 100 g.seen many
    # Where it decides, they are counted.
    rejects "seen: only 1000000 distinct keys, --min-keys is 1000001; 'f.seen' is left as it was" \
        seen create --force --min-keys 1000001 --layout gozero:bits=8000 f.seen many
    seen create --force --min-keys 1000000 --layout gozero:bits=8000 f.seen many
}

@test "more keys than a layer of RedisBloom has room for: the message names the file" {
    run --separate-stderr -2 seen create --layout redisbloom -n 3333 rb.seen < <(seq 9999)
    [[ $stderr =~ ^"seen: (standard input):"33[0-9]+": not added: 'rb.seen' is full: it was made for 3333 keys; it grows only in the program that it comes from"$ ]]
    [ ! -e rb.seen ]
}

@test "a rate that the layout does not reach: one design rate in create, query, add and stats" {
    local reached
    run -0 --separate-stderr seen create --layout guava -n 1000 -p 1e-9 g.seen <(seq 1000)
    [ "$stderr" = "seen: warning: 'g.seen' has a false-positive rate of 3.12e-06 at its capacity of 1000: its layout does \
not reach the 1e-09 that was asked for" ]
    reached=$(fact g.seen fpr_design)
    awk -v p="$reached" 'BEGIN { exit !(p > 3.11e-6 && p < 3.13e-6) }'
    run -1 --separate-stderr seen query g.seen -k x
    [[ $stderr == "seen: warning: 'g.seen' has a false-positive rate of 3.1"*"e-06: its layout does not reach the \
1e-09 that was asked for" ]]
    run -0 --separate-stderr seen add g.seen <(seq 1001 1100)
    [[ $stderr == *"its current false-positive rate is "*", its design rate 3.12e-06" ]]
    run -2 --separate-stderr seen add g.seen <(seq 2000 9000)
    [[ $stderr == *"would pass 3.12e-05, 10 times its design rate"* ]]
    # One that is reached, but for rounding, is as it was asked for.
    quiet seen create --layout guava -n 1M -p 1e-6 --empty h.seen
    seen stats --json h.seen | jq -e '.fpr_design == 1e-6'
    run -1 --separate-stderr seen query h.seen -k x
    [ -z "$stderr" ]
}

@test "a file that may be meant for the other program is called one of seen" {
    local name
    for name in x.bin dir.d/x.guava; do
        mkdir -p dir.d
        run -0 --separate-stderr seen create --layout guava "$name" -k a
        [ "$stderr" = "seen: note: '$name' is a file of seen: 'seen export FILTER -o FILE' writes one of guava from it" ]
        seen export "$name" -o out --force
        seen import --layout guava out -o again.seen --force
    done
    for name in x.seen x dir.d/x; do
        quiet seen create --layout guava "$name" -k a
    done
}

@test "the FPR in a summary is that of stats, which takes a sample" {
    fpr_of() { jq .fpr_current "$@"; }
    seq 3000 | seen create --layout redisson -n 3000 -p 0.001 --json f.seen >made
    equal "$(fpr_of made)" "$(seen stats --json f.seen | fpr_of)"
    seq 3001 4000 | seen create --like f.seen --json g.seen >made
    equal "$(fpr_of made)" "$(seen stats --json g.seen | fpr_of)"
    run -0 seen merge --max-fpr 0.5 --verbose --json -o both.seen f.seen g.seen
    equal "$(fpr_of <<<"${lines[1]}")" "$(seen stats --json both.seen | fpr_of)"
    [[ ${lines[0]} == *"current false-positive rate $(seen stats both.seen | awk '/^current/ { print $3 }'), "* ]]
    awk -v p="$(fpr_of made)" 'BEGIN { exit !(p > 0) }'
}
