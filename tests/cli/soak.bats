#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A slice of `make soak`, which turns with the commits: signals and errors at system calls, commands beside each other,
# writers on a file that is replaced, and the intervals that are printed.
# tags: repeating slow

load ../lib/helpers

soak()
{
    echo "seen from $SEEN"
    # Each commit tries other cases.
    local seed=${SEED:-$(git -C "$SOURCE" rev-list --count HEAD 2>/dev/null)}
    python3 "$SOURCE/tests/soak/soak" --short --jobs 2 ${seed:+--seed "$seed"} "$@"
}

# slice N [FEW]: prints how many cases to try: N with FULL=1, else FEW or fewer. Under a sanitizer processes start
# slowly, and it is a fifth. `make soak` tries all cases.
slice()
{
    if [ -n "${FULL-}" ]; then
        echo "$1"
    elif [ -n "${SANITIZER-}" ]; then
        echo $(($1 / 5))
    else
        echo "${2-$((($1 * 2 + 14) / 15))}"
    fi
}

needs_strace()
{
    command -v strace >/dev/null || skip 'strace is not installed'
    [ "${SANITIZER-}" != thread ] || skip 'ThreadSanitizer does not run under strace'
    strace -o /dev/null true || skip 'strace may not trace here'
}

@test "a signal or an error at a system call loses nothing, and leaves nothing behind" {
    needs_strace
    soak --cases "$(slice 300)" calls
}

@test "a command that is stopped at a system call, and another one meanwhile, lose nothing" {
    needs_strace
    soak --cases "$(slice 100)" pairs
}

# Cases of pairs that were once wrong: they are few, and a slice of all may miss them.
@test "verify beside a writer that comes and goes finds nothing; add beside merge goes on" {
    needs_strace
    soak --only 'fixed:verify:add:*' pairs
    soak --only 'fixed:add:merge:newfstatat:*' pairs
}

@test "counted sets are what a model of them is, after long random sequences of commands" {
    soak --cases "$(slice 5)" counted
}

@test "eight writers on a file that is replaced under them lose nothing" {
    soak --cases "$(slice 20)" chaos
}

@test "writers that are killed, and random damage: no wrong answer, and no repair after a kill" {
    soak --cases "$(slice 10)" damage
}

# For one other SEED in 10,000 an interval is false too often by chance.
@test "intervals and rates that are printed are true, however a file was made" {
    soak --cases "$(slice 75 6)" intervals
}

# The seed is fixed: how far an estimate is off depends on the case.
@test "the rate that stats prints is what absent keys find" {
    SEED=20260404 soak --cases "$(slice 120 10)" rates
}
