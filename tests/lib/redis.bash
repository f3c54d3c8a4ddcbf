# SPDX-License-Identifier: MIT
# Redis servers for tests: sourced by bats files (`load ../lib/redis`) and by unit tests (redis_servers.h).
#
#     redis_start NAME [OPTION...]    a server at the socket $REDIS_DIR/NAME/socket; no TCP port
#     redis_cluster                   three masters and three replicas, NAMEs c0 to c5, ports in
#                                     REDIS_PORTS
#     redis NAME COMMAND...           asks one of them, by redis-cli
#     redis_kill NAME                 SIGKILL, and waits for the end; start it again by the same name
#     redis_stop                      ends all of them and removes $REDIS_DIR
#     redis_share                     in setup_file: lets the tests of a file use the servers, after
#     redis_shared                    in setup
#
# A server ends with the shell that started it, even if that is killed; so start none in a subshell
# or by `run`.

REDIS_DIR=
declare -gA REDIS_PIDS=() # global: bats loads this file in a function
REDIS_PORTS=()

# redis_lacks: names the first program that is missing; true if there is one.
redis_lacks()
{
    local program
    for program in redis-server redis-cli setpriv; do
        command -v "$program" >/dev/null || { echo "no $program"; return 0; }
    done
    return 1
}
redis_is_here() { ! redis_lacks >/dev/null; }

# need_redis: skips a test that cannot run here.
need_redis()
{
    local lack
    lack=$(redis_lacks) && skip "$lack"
    # shellcheck disable=SC2251 # not a check
    [[ $(seen --version) != *'built without hiredis'* ]] || skip 'built without hiredis'
}

# A short path: that of a socket has at most 107 bytes.
redis_directory()
{
    [ -n "$REDIS_DIR" ] || REDIS_DIR=$(mktemp -d /tmp/seen-redis.XXXXXX)
}

redis()
{
    local name=$1
    shift
    redis-cli -s "$REDIS_DIR/$name/socket" "$@"
}

# Is it there, does it answer? "LOADING" is an answer.
redis_answers() { [[ $(redis "$1" PING 2>&1) =~ PONG|LOADING|NOAUTH ]]; }

redis_start()
{
    local name=$1 pid
    shift
    redis_directory
    mkdir -p "$REDIS_DIR/$name"
    # Nothing but what the test asks for: no configuration file, no snapshots.
    setpriv --pdeathsig KILL redis-server --port 0 --save '' --dir "$REDIS_DIR/$name" \
        --unixsocket "$REDIS_DIR/$name/socket" --enable-debug-command yes "$@" \
        >>"$REDIS_DIR/$name/log" 2>&1 3>&- </dev/null &
    pid=$!
    disown "$pid"
    REDIS_PIDS[$name]=$pid
    until redis_answers "$name"; do
        kill -0 "$pid" 2>/dev/null || return 1
        sleep 0.02
    done
}

# has_loaded NAME: does it serve data, after a start with some?
has_loaded() { [[ $(redis "$1" GETBIT k 1) != *LOADING* ]]; }

# redis_cut NAME PROCESS FILE: while the process runs, the server closes its connections each time
# when the process has printed more into the file: it has a connection then.
redis_cut()
{
    local had=0 has
    while kill -0 "$2" 2>/dev/null; do
        has=$(stat -c %s "$3" 2>/dev/null || echo 0)
        if [ "$has" -gt "$had" ]; then
            had=$has
            redis "$1" CLIENT KILL TYPE normal >/dev/null || true
        fi
        sleep 0.01
    done
}

# loses_connections URI N LEAST: dedup of so many keys, while connections are closed, and then again, prints none
# twice, and so many at least.
loses_connections()
{
    local status=0
    seq "$2" >keys
    seen dedup "$1" keys >out 2>err 3>&- &
    redis_cut a $! out
    wait $! || status=$?
    case $status in
    0) cmp out keys ;;
    2)
        [ "$(wc -l <err)" = 1 ]
        grep 'may have been carried out or not' err
        ;;
    *) false ;;
    esac
    seen dedup "$1" keys >>out
    [ -z "$(sort out | uniq -d)" ]
    [ "$(wc -l <out)" -gt "$3" ]
}

# config KEY N P M K: Redisson's configuration of a filter.
config()
{
    redis a HSET "{$1}:config" size "$4" hashIterations "$5" expectedInsertions "$2" \
        falseProbability "$3" >/dev/null
}

redis_kill()
{
    local pid=${REDIS_PIDS[$1]}
    unset "REDIS_PIDS[$1]"
    kill -KILL "$pid" 2>/dev/null
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.01
    done
    rm -f "$REDIS_DIR/$1/socket"
}

redis_stop()
{
    local name
    for name in "${!REDIS_PIDS[@]}"; do
        redis_kill "$name"
    done
    [ -z "$REDIS_DIR" ] || rm -rf "$REDIS_DIR"
    REDIS_DIR=
}

# Arrays cannot be exported.
redis_share()
{
    declare -p REDIS_DIR REDIS_PIDS REDIS_PORTS | sed 's/^declare -[-]*/declare -g/' \
        >"$BATS_FILE_TMPDIR/servers"
}

redis_shared()
{
    # shellcheck disable=SC1091 # is there at run time
    . "$BATS_FILE_TMPDIR/servers"
}

# Six servers on neighbouring ports from $1 on; their bus is 10000 above. Fails if a port is taken.
redis_six()
{
    local i
    REDIS_PORTS=()
    for i in 0 1 2 3 4 5; do
        REDIS_PORTS+=($(($1 + i)))
        redis_start "c$i" --port $(($1 + i)) --bind 127.0.0.1 --cluster-enabled yes \
            --cluster-node-timeout 1000 --cluster-config-file nodes.conf \
            --repl-diskless-sync-delay 0 || return
    done
}

# A replica that has not yet copied its master would not take its place.
redis_all_agree()
{
    local i
    for i in 0 1 2 3 4 5; do
        [[ $(redis "c$i" INFO replication) != *master_link_status:down* ]] || return
        [[ $(redis "c$i" CLUSTER INFO) == *cluster_state:ok* ]] || return
        [ "$(redis "c$i" CLUSTER NODES | grep -c slave)" = 3 ] || return
    done
}

redis_cluster()
{
    local i try
    for try in {1..20}; do
        # Both ports lie below those that the kernel hands out.
        redis_six $((10000 + RANDOM % 9000)) && break
        for i in 0 1 2 3 4 5; do
            [ -z "${REDIS_PIDS[c$i]-}" ] || redis_kill "c$i"
            rm -rf "${REDIS_DIR:?}/c$i"
        done
        [ "$try" != 20 ] || return 1
    done
    redis-cli --cluster create "${REDIS_PORTS[@]/#/127.0.0.1:}" --cluster-replicas 1 \
        --cluster-yes >"$REDIS_DIR/create.log" || return
    local end=$((SECONDS + 300)) # far more than it takes
    until redis_all_agree; do
        [ "$SECONDS" -lt "$end" ] || return
        sleep 0.05
    done
}
