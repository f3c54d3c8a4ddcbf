#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Random records and options, compared with a model in Python.
# tags: repeating seeded

load ../lib/helpers

@test "create, add, query and dedup do what a set does, whatever the options" {
    # Prints its seed; `tests/lib/model.py SEED 1` in an empty directory runs one case again.
    local cases=25 # 1000 in `make soak`
    [ -z "${FULL-}" ] || cases=60
    python3 "$SOURCE/tests/lib/model.py" "${SEED:-1}" "${CASES:-$cases}"
}

@test "no filter is worse than it promises, whatever is done to it" {
    # Prints its seed; `tests/lib/promised.py SEED 1` in an empty directory runs one plan again.
    local plans=8
    [ -z "${FULL-}" ] || plans=100
    python3 "$SOURCE/tests/lib/promised.py" "${SEED:-1}" "${PLANS:-$plans}"
}

@test "a filter lives through a hundred rounds of each command, and through plans of sixty steps" {
    # Prints its seed; `tests/lib/years.py SEED ROUNDS PLANS` in an empty directory runs it again.
    local rounds=100 plans=1
    [ -z "${SANITIZER-}" ] || rounds=45
    [ -z "${FULL-}" ] || plans=10
    python3 "$SOURCE/tests/lib/years.py" "${SEED:-1}" "${ROUNDS:-$rounds}" "${PLANS:-$plans}"
}
