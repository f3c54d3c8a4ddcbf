#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Filters in Redis that are deleted or replaced in mid-run, servers that fall silent or are killed, and
# connections and clients that end: at chosen commands, by redis_proxy.py.
# tags: slow
# shellcheck disable=SC2030,SC2031 # output and stderr, which run sets

load ../lib/helpers
load ../lib/redis

setup()
{
    cd "$BATS_TEST_TMPDIR" || return
    need_redis
    proxy_pid=
    redis_start a
}

teardown()
{
    [ -z "${proxy_pid-}" ] || kill "$proxy_pid" 2>/dev/null || true
    redis_stop
}

# uri KEY SPEC [SOCKET]: the address of a filter.
uri() { echo "redis+unix://$REDIS_DIR/a/${3:-socket}?key=$1&layout=$2"; }

# proxy WORD COUNT ACTION [COMMAND]: stands before the server, at the socket `proxy`; see
# redis_proxy.py. One at a time.
proxy()
{
    [ -z "$proxy_pid" ] || kill "$proxy_pid"
    rm -f "$REDIS_DIR/a/proxy"
    setpriv --pdeathsig KILL python3 "$SOURCE/tests/lib/redis_proxy.py" "$REDIS_DIR/a/proxy" \
        "$REDIS_DIR/a/socket" "$@" 2>proxy.err 3>&- &
    proxy_pid=$!
    disown "$proxy_pid"
    await "$proxy_pid" test -S "$REDIS_DIR/a/proxy"
}

# cli COMMAND...: redis-cli at the server, as a line of shell.
cli() { echo "redis-cli -s '$REDIS_DIR/a/socket' $* >/dev/null"; }

# empty KEY [BYTES]: a bitmap without a bit.
empty()
{
    redis a DEL "$1" >/dev/null
    redis a SETRANGE "$1" "$((${2:-1} - 1))" $'\0' >/dev/null 2>&1
    redis a SETBIT "$1" "$((${2:-1} * 8 - 1))" 0 >/dev/null
}

# bits KEY...: digests of the values.
bits() { redis a DEBUG DIGEST-VALUE "$@"; }

# No temporary key is left.
clean() { [ -z "$(redis a --scan --pattern '*seen-tmp*')" ]; }

# said REGEX: the one line of stderr.
said()
{
    [[ ${#stderr_lines[@]} = 1 && $stderr =~ $1 ]] || { echo "stderr: $stderr"; return 1; }
}

SMALL=gozero:bits=20000
LARGE=gozero:bits=4000000 # 500 kB, for 20000 keys with an FPR of 1e-16

@test "a signal ends a command that waits for a silent server, in seconds" {
    seq 1000 >keys
    config r 100 0.01 958 7
    for command in 'add keys' 'dedup keys' 'import -o f'; do
        [ "$command" = 'import -o f' ] && at=STRLEN || at=BITCOUNT
        proxy "$at" 1 run "kill -STOP ${REDIS_PIDS[a]}; until [ -s pid ]; do sleep 0.01; done; kill -TERM \$(cat pid)"
        : >pid
        # shellcheck disable=SC2086 # words
        seen ${command/ / "$(uri r redisson proxy)" } >out 2>err 3>&- &
        echo $! >pid
        timeout 25 tail --pid=$! -f /dev/null # of 30 s and more without the signal
        wait $! && status=0 || status=$?
        kill -CONT "${REDIS_PIDS[a]}"
        [ "$status" = 143 ] || { echo "$command: $status"; cat err; false; }
        [ ! -s err ]
    done
}

LOST='keys that were added are missing: the filter was deleted or replaced, or a failover has lost them'

@test "a filter that is deleted before the first key comes takes none, and is not made anew" {
    local command
    seq 100 >keys
    for command in add dedup; do
        empty k 2500
        proxy BITCOUNT 1 run "$(cli DEL k)"
        run -2 --separate-stderr seen $command "$(uri k $SMALL proxy)" keys
        said 'the bitmap was deleted or replaced by a shorter one'
        [ "$output" = '' ]
        [ "$(redis a EXISTS k)" = 0 ]
    done
}

@test "a filter that another client deletes, and that is made anew, ends the batch: nothing is printed twice" {
    local command again at wanted
    again="$(cli DEL k); $(cli SETBIT k 3999999 0)"
    # All batches have the same keys: each of them would be new again.
    for _ in 1 2 3; do seq 1024; done >keys
    for command in add dedup; do
        # Within the first batch, just before the second one, and within that: the first key is not added
        # a second time.
        for at in 500 1025 1500; do
            empty k 500000
            proxy BITFIELD $at run "$again"
            run -2 --separate-stderr seen $command "$(uri k $LARGE proxy)" keys
            said "$LOST"
            wanted=$(seq $((at < 1024 ? 0 : 1024)))
            [ $command = add ] || [ "$output" = "$wanted" ]
        done
        # Behind the last batch, which asked for the first key, as the second one did. Both have it.
        empty k 500000
        proxy BITFIELD_RO 7 run "$again"
        run -2 --separate-stderr seen $command "$(uri k $LARGE proxy)" keys
        said "$LOST"
    done
}

# The witness, which would show it, stands behind the keys: it is not asked, or refused.
@test "a filter is made anew before a batch that the server does not answer in full: nothing is printed twice" {
    local reason status
    for reason in 'carried out or not' 'another type'; do
        empty k 500000
        if [ "$reason" = 'another type' ]; then
            proxy BITFIELD 1500 run "$(cli LPUSH list x); $(cli RENAME list k)"
        else
            proxy BITFIELD 1500 before
        fi
        rm -f in
        mkfifo in
        seen dedup "$(uri k $LARGE proxy)" in >out 2>err 3>&- &
        exec 4>in
        seq 1000 >&4
        await $! has_lines out 1000
        empty k 500000
        seq 1000 >&4
        exec 4>&-
        status=0
        wait $! || status=$?
        cmp out <(seq 1000)
        [ "$status" = 2 ]
        grep "$reason" err
        [ "$(wc -l <err)" = 1 ]
    done
}

@test "a configured filter that is emptied, or loses its configuration, is noticed" {
    local command gone config='{k}:config'
    seq 3000 >keys
    for command in add dedup; do
        for gone in k "'$config'"; do
            redis a DEL k "$config"
            redis a HSET "$config" size 4000000 hashIterations 20 expectedInsertions 20000 \
                falseProbability 1e-6
            proxy BITFIELD 500 run "$(cli DEL "$gone")"
            run -2 --separate-stderr seen $command "$(uri k redisson:bits=4000000,k=20 proxy)" keys
            said "$LOST"
        done
    done
}

@test "a bitmap that vanishes while it is copied" {
    empty k 5000000
    proxy GETRANGE 3 run "$(cli DEL k)"
    run -2 --separate-stderr seen import -o f "$(uri k gozero:bits=40000000 proxy)"
    said 'the bitmap was deleted or replaced by a shorter one'
    [ ! -e f ]
    # Rates of samples need the bits that were counted; they are counted again behind it.
    config r 100 0.01 958 7
    empty r 120
    seen add "$(uri r redisson)" <(seq 100)
    proxy GETRANGE 2 run "$(cli DEL r)"
    run -2 --separate-stderr timeout "$PATIENCE" seen stats "$(uri r redisson proxy)"
    said "$LOST"
}

@test "a temporary key that the server loses is missed" {
    local lose
    seq 300 >keys
    seen create --layout $SMALL f.seen keys
    lose="redis-cli -s '$REDIS_DIR/a/socket' --scan --pattern '*seen-tmp*' | \
xargs redis-cli -s '$REDIS_DIR/a/socket' DEL >/dev/null"
    for option in --merge ''; do
        empty k
        proxy PTTL 1 run "$lose"
        run -2 --separate-stderr seen export $option f.seen -o "$(uri k $SMALL proxy)"
        said 'the server has lost a temporary key'
        [ "$(redis a BITCOUNT k)" = 0 ]
    done
}

@test "a server that is killed: what it has of a temporary key expires" {
    local life
    redis_kill a
    redis_start a --appendonly yes --appendfsync always
    seq 300 | quiet seen create --layout $SMALL f.seen
    empty k
    proxy BITOP 1 before "kill -KILL ${REDIS_PIDS[a]}"
    run -2 --separate-stderr seen export --merge f.seen -o "$(uri k $SMALL proxy)"
    [ "${#stderr_lines[@]}" = 1 ]
    redis_kill a || true
    redis_start a --appendonly yes --appendfsync always
    eventually has_loaded a
    life=$(redis a PTTL "$(redis a --scan --pattern '*seen-tmp*')")
    [ "$life" -gt 0 ]
    [ "$life" -le 600000 ]
}

@test "a client that is ended while it uploads leaves nothing behind" {
    local signal name
    seq 20000 | quiet seen create --layout gozero:bits=40000000 f.seen
    name=$(uri k gozero:bits=40000000 proxy)
    for signal in INT TERM; do
        empty k 5000000
        proxy SETRANGE 2 run "kill -$signal \$(cat pid)"
        # shellcheck disable=SC2016 # for that shell
        run -$((128 + $(kill -l $signal))) --separate-stderr \
            sh -c 'echo $$ >pid; exec seen "$@"' sh export --merge f.seen -o "$name"
        [ -z "$output$stderr" ]
        [ "$(redis a BITCOUNT k)" = 0 ]
        clean
    done
}

# killed WORD ARGUMENT...: seen ARGUMENT... is killed when it has sent all before that word, and leaves
# no temporary key that stays, and no other key but k.
killed()
{
    proxy "$1" 1 before "kill -KILL \$(cat pid)"
    shift
    # shellcheck disable=SC2016 # for that shell
    run sh -c 'echo $$ >pid; exec seen "$@"' sh "$@"
    [ "$status" = 137 ] || { echo "$status: $output"; return 1; }
    eventually alone
    local key
    for key in $(redis a --scan); do
        [ "$key" = k ] || [ "$(redis a PTTL "$key")" -gt 0 ] || { echo "$key stays"; return 1; }
    done
}

# The server has read all that its clients have sent.
alone() { [ "$(redis a CLIENT LIST | grep -c .)" = 1 ]; }

@test "a client that is killed leaves no temporary key that stays" {
    local word
    seq 300 >keys
    quiet seen create --layout $SMALL f.seen keys
    for word in PEXPIRE RENAME; do
        killed $word export f.seen -o "$(uri k $SMALL proxy)"
        [ "$(redis a EXISTS k)" = 0 ]
    done
    empty k
    for word in PEXPIRE BITOP; do
        killed $word export --merge f.seen -o "$(uri k $SMALL proxy)"
        [ "$(redis a BITCOUNT k)" = 0 ]
    done
}

@test "export --merge repeats what a lost connection leaves open" {
    local action
    seq 20000 | quiet seen create --layout gozero:bits=40000000 f.seen
    quiet seen export f.seen -o "$(uri whole gozero:bits=40000000)"
    for action in 'SETRANGE 2 before' 'EXEC 3 after' 'EXEC 6 after' 'EXEC 7 before' 'EXEC 7 after' \
        'UNLINK 1 before'; do
        empty k 5000000
        # shellcheck disable=SC2086 # words
        proxy $action
        quiet seen export --merge f.seen -o "$(uri k gozero:bits=40000000 proxy)"
        equal "$(bits k)" "$(bits whole)"
        clean
    done
}

@test "add repeats a batch whose answers are lost; dedup tells of it, and prints nothing twice" {
    local command action
    seq 3000 >keys
    for action in 'BITFIELD 1 before' 'BITFIELD 500 before' 'BITFIELD 1500 after'; do
        empty k 500000
        # shellcheck disable=SC2086 # words
        proxy $action
        quiet seen add "$(uri k $LARGE proxy)" keys
        run -1 seen query -v "$(uri k $LARGE)" keys
        empty k 500000
        # shellcheck disable=SC2086 # words
        proxy $action
        run -2 --separate-stderr seen dedup "$(uri k $LARGE proxy)" keys
        said 'may have been carried out or not'
        printf '%s' "${output:+$output$'\n'}" >first
        cmp first <(head -n "$(wc -l <first)" keys)
        seen dedup "$(uri k $LARGE)" keys >second
        [ -z "$(sort first second | uniq -d)" ]
        run -1 seen query -v "$(uri k $LARGE)" keys
        # One batch at most is in, but was not printed.
        [ "$(cat first second | wc -l)" -ge $((3000 - 1024)) ]
    done
}

@test "an error in sending is told" {
    need_strace
    empty k
    run -2 --separate-stderr strace -f -qq -o trace -e trace=sendto -e inject=sendto:error=ENOBUFS \
        seen query "$(uri k $SMALL)" -k x
    said ': No buffer space available$'
}

@test "a server that refuses to count the bits again ends the run" {
    empty k 50000
    proxy BITCOUNT 2 run "$(cli ACL SETUSER default -bitcount)"
    run -2 --separate-stderr seen dedup "$(uri k gozero:bits=400000 proxy)" < <(seq 3000)
    said bitcount
    [ "$(wc -l <<<"$output")" -lt 3000 ]
}
