#!/usr/bin/env bats
# Random records and options, compared with a model in Python.
# tags: repeating seeded

load ../lib/helpers

@test "create, add, query and dedup do what a set does, whatever the options" {
    # Prints its seed; `tests/lib/model.py SEED 1` in an empty directory runs one case again.
    local cases=25 # 1000 in `make soak`
    [ -z "${FULL-}" ] || cases=60
    python3 "$SOURCE/tests/lib/model.py" "${SEED:-1}" "${CASES:-$cases}"
}
