#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Answers of Redis that no server should give: redis_answers.py.

load ../lib/helpers
load ../lib/redis
load ../lib/bloom

setup()
{
    cd "$BATS_TEST_TMPDIR" || return
    need_redis
}

teardown() { redis_stop; }

# lies PART: each wrong answer of that part is refused.
lies() { PYTHONDONTWRITEBYTECODE=1 python3 "$SOURCE/tests/lib/redis_answers.py" "$REDIS_DIR/a/socket" "$1"; }

@test "wrong answers about bitmaps" {
    redis_start a
    lies bitmaps
}

@test "wrong answers of the Bloom module" {
    bloom_start a
    lies module
}

@test "wrong answers of valkey-bloom" {
    valkey_start a
    lies valkey
}

@test "wrong maps of a cluster, and wrong redirections" {
    redis_start a
    lies cluster
}
