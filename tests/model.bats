#!/usr/bin/env bats
# Random records and options, compared with a model in Python.

load helpers

@test "create, add, query and dedup do what a set does, whatever the options" {
    # Prints its seed; `tests/model.py SEED 1` in an empty directory runs one case again.
    python3 "$SOURCE/tests/model.py" "${SEED:-1}" "${CASES:-60}"
}
