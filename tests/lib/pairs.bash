#!/bin/bash
# SPDX-License-Identifier: MIT
# Every pair of commands at once on one file, each a few times. What ended well holds: keys stay, and
# nobody is told of damage. A part of a pair is a function do_NAME TAG, whose words on stderr are
# all looked at.
#
#     tests/lib/pairs.bash pairs|changes          (by pairs.bats, in an empty directory)
#     tests/lib/pairs.bash together 'OPTIONS OF CREATE' COMMAND COMMAND

set -u
ROUNDS=2
[ -z "${FULL-}" ] || ROUNDS=4

# The keys that are in as of now, which others may add to.
present() { cat acknowledged.* 2>/dev/null; }

do_add()
{
    local i
    for ((i = 0; i < ROUNDS; i++)); do
        seq -f "$1-$i-%.0f" 200 >"keys.$1"
        if seen add f "keys.$1"; then cat "keys.$1" >>"acknowledged.$1"; fi
    done
}

do_dedup()
{
    local i
    for ((i = 0; i < ROUNDS; i++)); do
        if seq -f "$1-$i-%.0f" 200 | seen dedup f >"out.$1"; then cat "out.$1" >>"acknowledged.$1"; fi
    done
    # Nothing comes out twice.
    [ ! -e "acknowledged.$1" ] || [ -z "$(sort "acknowledged.$1" | uniq -d)" ] || echo "printed twice" >&2
}

do_query()
{
    local i
    for ((i = 0; i < ROUNDS; i++)); do
        present >"asked.$1"
        seen query -v f "asked.$1" >"absent.$1"
        [ $? = 1 ] || echo "absent: $(head -n 3 "absent.$1")" >&2
    done
}

do_stats() { for _ in $(seq $ROUNDS); do seen stats --json f >/dev/null || echo "stats: $?" >&2; done; }
do_verify() { for _ in $(seq $ROUNDS); do seen verify f >/dev/null || echo "verify: $?" >&2; done; }
do_repair() { for _ in $(seq $ROUNDS); do seen verify --repair f >/dev/null || true; done; }
do_merge() { for _ in $(seq $ROUNDS); do seen merge --json --force -o f f other >/dev/null; done; }
do_shrink() { for _ in $(seq $ROUNDS); do seen shrink f; done; }
do_copy()
{
    local i
    for ((i = 0; i < ROUNDS; i++)); do
        if seen shrink --force -o "copy.$1" f; then seen verify "copy.$1" >/dev/null; fi
    done
}

do_rotate() { for _ in $(seq $ROUNDS); do seen rotate f; done; }
do_create() { for _ in $(seq $ROUNDS); do seen create --no-profile --force --foldable -n 100k f keys; done; }

# What may be said on stderr while all is well.
expected="^seen: (warning: 'f' was replaced while other processes were adding keys; they stop, .*\
|'f' was replaced while keys were added: run this again\
|'f' was changed while it was read: run this again)\$"

# together OPTIONS A B: both at once on a file that was made with these options.
together()
{
    rm -f f acknowledged.* err.*
    # shellcheck disable=SC2086 # words
    seen create --no-profile $1 f keys
    cp keys acknowledged.base
    "do_$2" a 2>err.a &
    "do_$3" b 2>err.b &
    wait # unnoticed: wait (what they say is looked at)
    local said absent
    said=$(grep -hvE "$expected" err.a err.b)
    [ -z "$said" ] || { echo "$2 and $3: $said"; return 1; }
    # Keys that were added to a file that create replaced are gone with it.
    [[ "$2 $3" != *create* ]] || { rm -f acknowledged.a acknowledged.b; }
    present >all
    absent=$(seen query -vc f all)
    [ "$absent" = 0 ] || { echo "$2 and $3 lost $absent of $(wc -l <all)"; return 1; }
    [ "$(seen verify f 2>&1)" = 'f: ok' ] || { echo "$2 and $3: $(seen verify f 2>&1)"; return 1; }
}

pairs()
{
    local commands=(add dedup query stats verify repair merge shrink copy create) i j
    for ((i = 0; i < ${#commands[@]}; i++)); do
        for ((j = i; j < ${#commands[@]}; j++)); do
            together '--foldable -n 100k' "${commands[i]}" "${commands[j]}" || return
        done
    done
}

changes()
{
    local command
    # As many rotations as it has generations would drop the keys.
    for command in add dedup query stats verify repair rotate; do
        together '--generations 12 -n 100k' $command rotate || return
    done
    # A first layer for 1000 keys is full at once.
    for command in add dedup query stats verify repair copy shrink; do
        together '--grow -n 1000' add $command || return
    done
}

seq 1000 >keys
seen create --force --foldable -n 100k other -k other
"$@"

