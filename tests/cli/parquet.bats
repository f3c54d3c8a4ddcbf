#!/usr/bin/env bats
# Parquet's split-block filters: folding and merging. test_parquet.c has the rest.
# tags: threads

load ../lib/helpers

setup()
{
    cd "$BATS_TEST_TMPDIR" || exit
    vectors=$BATS_TEST_DIRNAME/../vectors
}

# filled NAME BYTES FIRST LAST: NAME.seen of so many bytes with these lines of the keys
filled()
{
    head -c "$2" /dev/zero >"$1.bits"
    seen import --layout parquet:header=no "$1.bits" -o "$1.seen"
    sed -n "$3,$4p" "$vectors/keys/keys.txt" | seen add "$1.seen" -
}

@test "shrink folds to the bits that Arrow makes of that size" {
    filled a 4096 1 1000
    seen shrink -p 0.05 a.seen
    seen verify a.seen
    seen export a.seen -o a.out
    cmp a.out <(tail -c 1024 "$vectors/parquet/pq_str_4096_fold2.sbbf")
    refuses "seen: 'a.seen' has a false-positive rate of 0.0297 already, more than 0.001" \
        seen shrink -p 0.001 a.seen
}

@test "merge folds the larger to the smaller, if that has room for all keys" {
    filled all 4096 1 1000
    filled a 4096 1 600
    filled b 65536 501 1000
    seen merge -o both.seen a.seen b.seen
    seen export both.seen -o both.out
    seen export all.seen -o all.out
    cmp both.out all.out
    filled small 1024 1 600
    seen merge -o both.seen --force small.seen b.seen
    refuses "seen: 'both.seen' has several layers, which are no chain of its layout, so it cannot be exported; 'seen create --layout' makes one that can be, from the keys" \
        seen export both.seen -o both.out
}

@test "several pages, several threads" {
    filled a $((32 * 40000)) 1 1000
    filled b $((32 * 40000)) 500 1000
    seen merge -j 3 -o both.seen a.seen b.seen
    seen verify both.seen
    seen export both.seen -o both.out
    seen export a.seen -o a.out
    cmp both.out a.out
    seen merge --intersect -j 2 -o common.seen a.seen b.seen
    seen verify common.seen
    seen export common.seen -o common.out
    seen export b.seen -o b.out
    cmp common.out b.out
    # 40000 is 64 times 625: five pages at least.
    seen shrink -p 0.01 a.seen
    seen verify a.seen
    [ "$(seen export a.seen -o - | wc -c)" -eq $((32 * 625)) ]
    seen query a.seen "$vectors/keys/keys.txt" | cmp - "$vectors/keys/keys.txt"
}
