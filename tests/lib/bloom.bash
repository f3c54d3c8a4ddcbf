# SPDX-License-Identifier: MIT
# Servers with the Bloom module, for tests that have sourced redis.bash.
#
# No package has the module, so bloom_server.py stands in for redis-server and the module. With
# SEEN_REDISBLOOM=/path/of/redisbloom.so the tests run on redis-server and that one.
#
#     bloom_start NAME [BYTES]    as redis_start; the stand-in gives out BYTES of a filter at once
#     valkey_start NAME           the stand-in for a server with valkey-bloom

bloom_start()
{
    if [ -n "${SEEN_REDISBLOOM-}" ]; then
        redis_start "$1" --loadmodule "$SEEN_REDISBLOOM"
    else
        stand_in "$@"
    fi
}

valkey_start() { stand_in "$1" valkey; }

stand_in()
{
    redis_directory
    mkdir -p "$REDIS_DIR/$1"
    PYTHONDONTWRITEBYTECODE=1 setpriv --pdeathsig KILL \
        python3 "${SOURCE:-.}/tests/lib/bloom_server.py" "$REDIS_DIR/$1/socket" "${@:2}" \
        >>"$REDIS_DIR/$1/log" 2>&1 3>&- </dev/null &
    REDIS_PIDS[$1]=$!
    disown $!
    until redis_answers "$1"; do
        kill -0 "${REDIS_PIDS[$1]}" 2>/dev/null || return
        sleep 0.02
    done
}
