#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# DCSO's bloom: joining filters as the program does. test_dcso.c has the rest.

load ../lib/helpers

setup()
{
    cd "$BATS_TEST_TMPDIR" || exit
    vectors=$BATS_TEST_DIRNAME/../vectors
}

# An empty filter of the size that dc_join.bloom has, with "$1" behind its bits.
empty()
{
    head -c 40 "$vectors/dcso/dc_join.bloom"
    head -c 928 /dev/zero
    printf '%s' "$1"
}

# filled NAME FIRST LAST [DATA]: NAME.seen with these lines of the keys
filled()
{
    empty "$4" >"$1.bloom"
    seen import --layout dcso "$1.bloom" -o "$1.seen"
    sed -n "$2,$3p" "$vectors/keys/keys.txt" | seen add "$1.seen" -
}

@test "merge joins filters as the program does: N is the sum" {
    filled a 1 600
    filled b 501 1000
    seen merge -o both.seen a.seen b.seen
    seen export both.seen -o both.bloom
    cmp both.bloom "$vectors/dcso/dc_join.bloom"
    # N goes on from there.
    seq 20 | sed 's/^/new /' | seen add both.seen -
    seen export both.seen -o more.bloom
    [ "$(od -An -tu8 -j40 -N8 more.bloom | tr -d ' ')" -gt 1100 ]
}

@test "merge keeps the first one's data, however much there is" {
    filled a 1 600 first
    filled b 501 1000 'the second'
    seen merge -o both.seen a.seen b.seen
    seen verify both.seen
    seen export both.seen -o both.bloom
    cmp both.bloom <(cat "$vectors/dcso/dc_join.bloom"; printf first)
    seen merge --intersect -o common.seen b.seen a.seen
    seen export common.seen -o common.bloom
    [ "$(tail -c 10 common.bloom)" = 'the second' ]
    seen query common.seen <(sed -n 501,600p "$vectors/keys/keys.txt") >common
    [ "$(wc -l <common)" -eq 100 ]
}

@test "import --json has the numbers of stats" {
    seen import --json --layout dcso "$vectors/dcso/dc_n1000_p01.bloom" -o f.seen | jq -c '[.fpr_current, .n_estimate]' >made
    seen stats --json f.seen | jq -c '[.fpr_current, .n_estimate]' | cmp - made
}

@test "a damaged page that has data of its user is not repaired" {
    seq 40000 | seen create --layout dcso -n 40000 -p 0.01 f.seen
    seen export f.seen -o f.bloom
    printf 'of its user' >>f.bloom
    seen import --layout dcso f.bloom -o g.seen
    poke g.seen $(($(size g.seen) - 5)) ff
    before=$(digest g.seen)
    run -2 --separate-stderr seen verify --repair g.seen
    [[ $stderr == "seen: 'g.seen' is damaged: page "*" does not match its checksum, which cannot be repaired: make it again" ]]
    equal "$(digest g.seen)" "$before"
}

@test "merge puts filters of another capacity beside, which no file of the program holds" {
    filled a 1 600
    seen import --layout dcso "$vectors/dcso/dc_data.bloom" -o b.seen
    seen merge --max-fpr 0.1 -o both.seen a.seen b.seen
    refuses "seen: 'both.seen' has several layers, which do not form a valid chain of its layout, so it cannot be exported; 'seen create --layout' makes one that can be, from the keys" \
        seen export both.seen -o both.bloom
}

@test "numbered keys, which FNV-1 spreads unevenly, are no damage" {
    seq -f '%.0f@mail.example' 1000000 | quiet seen create --layout dcso -p 0.01 a.seen
    [ "$(seen verify a.seen)" = 'a.seen: ok' ]
    quiet seen add a.seen -k more
    seen stats a.seen | grep '^note .*FNV-1'
}

@test "a capacity of 0 is unknown: another is assumed, and 0 written back" {
    seq 100 | seen create --layout dcso -n 1000 -p 0.01 f.seen
    seen export f.seen -o known
    cp known unknown
    poke unknown 8 0000000000000000
    quiet seen import --layout dcso unknown -o g.seen
    # So many set half of the bits.
    says '^design capacity +949 +assumed$' seen stats g.seen
    quiet seen import --force --layout dcso -n 777 unknown -o g.seen
    says '^design capacity +777 +assumed$' seen stats g.seen
    seen export g.seen -o - | cmp - unknown
    refuses "seen: cannot import 'known' as dcso: its capacity is 1000, not 777" \
        seen import --force --layout dcso -n 777 known -o g.seen
}

@test "a rate of 0 or 1 is none" {
    local rate
    for rate in '\0\0:0' '\xf0\x3f:1'; do
        empty '' >none.bloom
        printf '%b' "\0\0\0\0\0\0${rate%:*}" | dd of=none.bloom bs=1 seek=16 conv=notrunc status=none
        refuses "seen: cannot import 'none.bloom' as dcso: its FPR is ${rate#*:}, not between 0 and 1" \
            seen import --layout dcso none.bloom -o none.seen
    done
}
