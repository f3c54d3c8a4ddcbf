#!/usr/bin/env bats
# Filters in Redis whose bitmaps are moved as a whole: --bulk, and by default where it is cheaper.
# shellcheck disable=SC2030,SC2031 # output and stderr, which run sets
# tags: slow

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

# config KEY: the configuration of a filter by Redisson for 100 keys.
config()
{
    redis a HSET "{$1}:config" size 958 hashIterations 7 expectedInsertions 100 \
        falseProbability 0.01
}

# Few and low bits: the usual functions make strings of 512 MiB.
PHP=php:functions=BKDRHash+ELFHash

SMALL=gozero:bits=20000
LARGE=gozero:bits=4000000 # 500 kB, for 20000 keys with an FPR of 1e-16

# wide FROM TO: records of 100 bytes each, so that few of them are a chunk of input.
wide() { seq "$1" "$2" | awk '{ printf "%d\t%092d\n", $1, 0 }'; }

# ask_and_add WAY OUT: all commands on the keys b, b:{0}, ...; what they print goes to OUT.
ask_and_add()
{
    local option=$1 out=$2 name
    redis a DEL b 'b:{0}' 'b:{1}' 'b:{2}' >/dev/null
    # shellcheck disable=SC2086 # no option, or one
    for name in "$one" ${three:+"$three"}; do
        redis a SETBIT b 0 0
        redis a SETBIT 'b:{0}' 0 0
        seen add $option "$name" before
        seen query -n $option "$name" asked || true
        seen dedup $option "$name" more
        bits b 'b:{0}' 'b:{1}' 'b:{2}'
        # shellcheck disable=SC2002 # a pipe
        cat asked | seen query -v $option "$name" || true
        # shellcheck disable=SC2002
        cat asked | seen add $option "$name"
        bits b 'b:{0}' 'b:{1}' 'b:{2}'
        # shellcheck disable=SC2002
        cat last | seen dedup $option "$name"
        bits b 'b:{0}' 'b:{1}' 'b:{2}'
    done >"$out" 2>&1
}

@test "by commands, by whole bitmaps and by default: the same records and the same bits" {
    seq 300 >before
    cat <(seq 250 2000) <(seq 1000 2500) >'more'
    seq 2400 2700 | tee asked >>'more'
    seq 200 3000 >last
    for spec in gozero:bits=400000 redisson:bits=400000,k=5 $PHP; do
        one=$(uri b "$spec")
        # Strings of 32 MiB: one of them is enough.
        three="$one&shards=3"
        [[ $spec != php:* || -n ${FULL-} ]] || three=
        for way in --live --bulk ''; do
            ask_and_add "$way" "out$way"
        done
        cmp out--live out--bulk
        cmp out--live out
        clean
    done
}

@test "records that end with NUL, and keys in hexadecimal" {
    local name
    printf 'a\nb\0c\0a\nb\0' >input
    printf '61\n6162\n' >hex
    for way in --live --bulk; do
        empty k
        name=$(uri k $SMALL)
        seen dedup -z $way "$name" input >"out$way"
        seen add -z $way "$name" input
        run -1 seen query -q -k a $way "$name"
        seen query -z $way "$name" input >>"out$way"
        bits k >>"out$way"
    done
    alike <(head -c 6 out--bulk) <(printf 'a\nb\0c\0')
    cmp out--live out--bulk
}

@test "--verbose tells which way keys went" {
    seq 5000 >keys
    empty k
    run -0 seen add --verbose --bulk "$(uri k $LARGE)" keys
    [[ $output == *$'\nseen: 0 keys sent by commands, 5000 in 1 step that moved bitmaps of '*' KiB' ]]
    run -0 seen add --verbose --live "$(uri k $LARGE)" keys
    [[ $output == *$'\nseen: 5000 keys sent by commands' ]]
    run -0 seen add --verbose "$(uri k $LARGE)" keys
    [[ $output == *'0 keys sent by commands, 5000 in 1 step'* ]]
    run -0 seen add --verbose "$(uri k $LARGE)" -k 1
    [[ $output == *$'\nseen: 1 key sent by commands' ]]
    run -0 seen query -c --verbose --bulk "$(uri k $LARGE)" keys
    [[ $output == *'0 keys sent by commands, 5000 asked of a copy of 488 KiB'* ]]
    run -0 seen query -c --verbose --live "$(uri k $LARGE)" keys
    [[ $output == *$'\nseen: 5000 keys sent by commands'* ]]
    run -0 --separate-stderr seen dedup --verbose --bulk "$(uri k $LARGE)" <(wide 1 30000)
    [[ $stderr =~ '0 keys sent by commands, 30000 in '[2-9]' steps' ]]
    refuses 'seen: --live and --bulk cannot go together' \
        seen query --live --bulk "$(uri k $LARGE)" keys
}

@test "eight processes with --bulk print no record twice, and each that is new once" {
    local first
    wide 1 30000 >keys
    for first in --bulk --live; do
        empty k
        for i in {1..8}; do
            way=--bulk
            [ $((i % 2)) = 1 ] || way=$first
            shuffled keys "$i" | seen dedup $way -f 1 "$(uri k gozero:bits=8000000)" >"out$i" 3>&- &
        done
        finish
        alike <(sort out?) <(sort keys)
        clean
    done
}

@test "a time to live is kept, and none stays none" {
    local before after
    seq 300 >keys
    for command in add dedup; do
        empty k
        quiet seen $command --bulk "$(uri k $SMALL)" -k x >/dev/null || true
        [ "$(redis a PEXPIRETIME k)" = -1 ]
        redis a PEXPIRE k 10000000
        before=$(redis a PEXPIRETIME k)
        seen $command --bulk "$(uri k $SMALL)" keys >/dev/null
        after=$(redis a PEXPIRETIME k)
        # The server reads its clock twice.
        [ $((after - before)) -ge -1000 ]
        [ $((after - before)) -le 1000 ]
    done
}

@test "a configuration without a bitmap is an empty filter" {
    seq 1000 >keys
    seen create --layout redisson -n 1000 -p 0.01 f.seen keys
    for command in add dedup; do
        redis a DEL r '{r}:config'
        redis a HSET '{r}:config' size 9585 hashIterations 7 expectedInsertions 1000 \
            falseProbability 0.01
        seen $command --bulk "$(uri r redisson)" keys >out
        alike <(redis a --raw GET r | head -c -1) <(seen export f.seen -o -)
    done
    redis a DEL r
    [ "$(seen query -c --bulk "$(uri r redisson)" keys || true)" = 0 ]
}

@test "adding stops before the limit of the false-positive rate" {
    seq 3000 >keys
    for command in add dedup; do
        empty k
        run -2 --separate-stderr seen $command --bulk --max-fpr 0.001 "$(uri k $SMALL)" keys
        [[ $stderr == *'would pass 0.001'* ]]
        [ $command = add ] || alike <(printf '%s\n' "$output") <(head -n "${#lines[@]}" keys)
        seen stats --json "$(uri k $SMALL)" |
            jq -e '.fpr_current <= 0.001 and .fpr_current > 0.00098'
    done
}

@test "near the limit, keys go by commands behind those that were gathered" {
    wide 1 45000 >keys
    for command in add dedup; do
        empty k
        run -2 --separate-stderr seen $command --verbose --bulk --max-fpr 0.001 -f 1 \
            "$(uri k gozero:bits=500000)" keys
        [[ $stderr == *'would pass 0.001'* ]]
        [[ $stderr == *' keys sent by commands, '*' in '* && $stderr != *' 0 keys sent'* ]]
        seen stats --json "$(uri k gozero:bits=500000)" |
            jq -e '.fpr_current <= 0.001 and .fpr_current > 0.00098'
        clean
    done
}

@test "a filter that becomes too full is warned of" {
    seq 6000 >keys
    for way in --live --bulk; do
        redis a DEL r
        redis a HSET '{r}:config' size 9585 hashIterations 7 expectedInsertions 1000 \
            falseProbability 0.01
        seen add $way "$(uri r redisson)" keys 2>"err$way"
        grep -q 'is fuller than it was made for: its .* false-positive rate is 0.91' "err$way"
    done
}

@test "new keys that are probably taken for known are estimated, in either way" {
    seq 3000 >keys
    for way in --live --bulk; do
        redis a DEL r
        redis a HSET '{r}:config' size 9585 hashIterations 7 expectedInsertions 1000 \
            falseProbability 0.01
        seen dedup $way --verbose --max-fpr 0.99 "$(uri r redisson)" keys >new 2>said
        # By the FPR that rises meanwhile; of 3000 keys some 600 are lost.
        awk -v lost=$((3000 - $(wc -l <new))) '/taken for known/ {
            for (i = 1; i < NF; i++)
                if ($i == "known:")
                    exit !($(i + 1) > 0.7 * lost && $(i + 1) < 1.3 * lost)
        }' said
        grep -q 'taken for known: [0-9]' said
    done
}

# silent STATUS WORD COUNT ARGUMENT...: seen ARGUMENT... ends so while the server, from that command on,
# takes connections and answers nothing. Time-outs of half a minute are too long.
silent()
{
    local wanted=$1
    proxy "$2" "$3" run "kill -STOP ${REDIS_PIDS[a]}"
    shift 3
    run --separate-stderr timeout 25 seen "$@"
    kill -CONT "${REDIS_PIDS[a]}"
    [ "$status" = "$wanted" ] || { echo "status $status: $stderr"; return 1; }
}

@test "a server that falls silent when it has acknowledged all keys" {
    local unknown="is unknown: no answer from '$REDIS_DIR/a/proxy' within 5 s"
    seq 1000 >keys
    # The count behind the only batch, and the final one.
    for count in 2 3; do
        redis a FLUSHALL
        config r
        silent 0 BITCOUNT $count add --live "$(uri r redisson proxy)" keys
        [[ ${#stderr_lines[@]} = $((count - 1)) && ${stderr_lines[-1]} == *"has acknowledged all keys, \
but its final false-positive rate $unknown" ]]
        [ "$(seen query -c "$(uri r redisson)" keys)" = 1000 ]
    done
    # The key that is left expires.
    empty k 2500
    silent 0 UNLINK 1 add --bulk "$(uri k $SMALL proxy)" -k 1
    [ -z "$stderr" ]
    config s
    config t
    silent 0 BITCOUNT 2 dedup --live --verbose --also "$(uri t redisson proxy)" \
        "$(uri s redisson proxy)" -k x -k y
    [ "$output" = $'x\ny' ]
    [[ $stderr == *"warning: the false-positive rate of '$(uri t redisson proxy)' $unknown"* ]]
    [[ $stderr == *'2 records, 2 new; new ones probably taken for known: unknown'* ]]
    silent 2 BITCOUNT 1 query -c --verbose "$(uri r redisson proxy)" keys
    [[ $output = 1000 && ${#stderr_lines[@]} = 1 ]]
}

@test "a signal ends a command that waits for a silent server, in seconds" {
    seq 1000 >keys
    config r
    for command in 'add --live' 'add --bulk' 'dedup --live'; do
        proxy BITCOUNT 1 run "kill -STOP ${REDIS_PIDS[a]}; until [ -s pid ]; do sleep 0.01; done; kill -TERM \$(cat pid)"
        : >pid
        # shellcheck disable=SC2086 # words
        seen $command "$(uri r redisson proxy)" keys >out 2>err 3>&- &
        echo $! >pid
        timeout 25 tail --pid=$! -f /dev/null # of 30 s and more without the signal
        wait $! && status=0 || status=$?
        kill -CONT "${REDIS_PIDS[a]}"
        [ "$status" = 143 ] || { echo "$command: $status"; cat err; false; }
        [ ! -s err ]
    done
}

# stops COMMAND REGEX: add or dedup through the proxy ends with status 2 and one line, prints
# nothing, and leaves no temporary key.
stops()
{
    run -2 --separate-stderr seen "$1" --bulk "$(uri k $SMALL proxy)" keys
    said "$2"
    [ -z "$output" ]
    clean
}

@test "a bitmap that is replaced by something else before the step" {
    seq 300 >keys
    for command in add dedup; do
        empty k 2500
        proxy SETRANGE 1 run "$(cli DEL k); $(cli RPUSH k 1)"
        stops $command 'the key holds a value of another type'
        [ "$(redis a TYPE k)" = list ]
        empty k 2500
        proxy SETRANGE 1 run "$(cli DEL k)"
        stops $command 'the bitmap was deleted or replaced by a shorter one'
        empty k 2500
        proxy SETRANGE 1 run "$(cli SET k short)"
        stops $command 'the bitmap was deleted or replaced by a shorter one'
    done
}

@test "a bitmap that is replaced by a newer one before the step gets the new keys alone" {
    seq 300 >keys
    seen create --layout $SMALL f.seen keys
    for command in add dedup; do
        empty k 2500
        seen add --live "$(uri k $SMALL)" <(seq 5000 6000)
        proxy SETRANGE 1 run "$(cli SETRANGE n 2499 '""'); $(cli SETBIT n 19999 0); \
$(cli RENAME n k)"
        seen $command --bulk "$(uri k $SMALL proxy)" keys >out
        alike <(redis a --raw GET k | head -c -1) <(seen export f.seen -o -)
    done
}

LOST='keys that were added are missing: the filter was deleted or replaced, or a failover has lost them'

@test "a filter that another client deletes, and that is made anew, is noticed" {
    local command again
    again="$(cli DEL k); $(cli SETBIT k 3999999 0)"
    seq 3000 >keys
    wide 1 15000 >many
    for command in add dedup; do
        # Within a batch, between two batches, and between two steps.
        for at in 500 1500; do
            empty k 500000
            proxy BITFIELD $at run "$again"
            run -2 --separate-stderr seen $command --live "$(uri k $LARGE proxy)" keys
            said "$LOST"
        done
        # Just before a batch, all of whose keys then go into the new bitmap: it asks for its length first.
        empty k 500000
        proxy STRLEN 6 run "$again"
        run -2 --separate-stderr seen $command --live "$(uri k $LARGE proxy)" keys
        said "$LOST"
        empty k 500000
        proxy BITOP 2 run "$again"
        run -2 --separate-stderr seen $command -f 1 --bulk "$(uri k $LARGE proxy)" many
        said "$LOST"
    done
}

@test "a configured filter that is emptied, or loses its configuration, is noticed" {
    local command way config='{k}:config' spec=redisson:bits=4000000,k=20
    seq 3000 >keys
    wide 1 15000 >many
    for command in add dedup; do
        for gone in k "'$config'"; do
            for way in '--live BITFIELD 500 keys' '--bulk BITOP 2 many'; do
                # shellcheck disable=SC2086 # words
                set -- $way
                redis a DEL k "$config"
                redis a HSET "$config" size 4000000 hashIterations 20 expectedInsertions 20000 \
                    falseProbability 1e-6
                proxy "$2" "$3" run "$(cli DEL "$gone")"
                run -2 --separate-stderr seen $command -f 1 "$1" "$(uri k $spec proxy)" "$4"
                said "$LOST"
            done
        done
    done
}

@test "a bitmap that vanishes while it is copied" {
    empty k 5000000
    for command in 'query --bulk -k 1' 'import -o f'; do
        empty k 5000000
        proxy GETRANGE 3 run "$(cli DEL k)"
        # shellcheck disable=SC2086 # options
        run -2 --separate-stderr seen $command "$(uri k gozero:bits=40000000 proxy)"
        said 'the bitmap was deleted or replaced by a shorter one'
        [ -z "$output" ]
        [ ! -e f ]
    done
    # Rates of samples need the bits that were counted.
    config r
    empty r 120
    seen add --live "$(uri r redisson)" <(seq 100)
    proxy GETRANGE 2 run "$(cli DEL r)"
    run -2 --separate-stderr timeout "$PATIENCE" seen stats "$(uri r redisson proxy)"
    said 'the bitmap was deleted or replaced'
}

@test "a server at its memory limit" {
    seq 300 >keys
    for command in add dedup; do
        for word in SETRANGE PTTL; do
            empty k
            proxy $word 1 run "$(cli CONFIG SET maxmemory 1)"
            stops $command 'the server is at its memory limit'
            redis a CONFIG SET maxmemory 0
            [ "$(redis a BITCOUNT k)" = 0 ]
        done
    done
}

@test "a temporary key that the server loses is missed" {
    local lose
    seq 300 >keys
    seen create --layout $SMALL f.seen keys
    lose="redis-cli -s '$REDIS_DIR/a/socket' --scan --pattern '*seen-tmp*' | \
xargs redis-cli -s '$REDIS_DIR/a/socket' DEL >/dev/null"
    for command in add dedup; do
        empty k
        proxy EXEC 3 run "$lose"
        stops $command 'the server has lost a temporary key'
    done
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
    seq 300 >keys
    for command in add dedup; do
        empty k
        proxy EXEC 3 run "kill -KILL ${REDIS_PIDS[a]}"
        run -2 --separate-stderr seen $command --bulk "$(uri k $SMALL proxy)" keys
        [ -z "$output" ]
        [ "${#stderr_lines[@]}" = 1 ]
        redis_kill a || true
        redis_start a --appendonly yes --appendfsync always
        eventually has_loaded a
        life=$(redis a PTTL "$(redis a --scan --pattern '*seen-tmp*')")
        [ "$life" -gt 0 ]
        [ "$life" -le 600000 ]
        redis a FLUSHALL
    done
}

@test "a client that is ended while it uploads leaves nothing behind" {
    local name
    seq 20000 >keys
    for signal in INT TERM; do
        for command in add dedup; do
            # Before anything is read, and at the upload's second chunk.
            for word in 'BITCOUNT 1' 'SETRANGE 2'; do
                empty k 5000000
                # shellcheck disable=SC2086 # words
                proxy $word run "kill -$signal \$(cat pid)"
                name=$(uri k gozero:bits=40000000 proxy)
                # shellcheck disable=SC2016 # for that shell
                run -$((128 + $(kill -l $signal))) --separate-stderr \
                    sh -c 'echo $$ >pid; exec seen "$@"' sh $command --bulk "$name" keys
                [ -z "$output$stderr" ]
                [ "$(redis a BITCOUNT k)" = 0 ]
                clean
            done
        done
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
        killed $word add --bulk "$(uri k $SMALL proxy)" keys
        [ "$(redis a BITCOUNT k)" = 0 ]
    done
}

@test "add repeats what a lost connection leaves open" {
    local action
    seq 20000 >keys
    empty live 5000000
    seen add --live "$(uri live gozero:bits=40000000)" keys
    for action in 'GETRANGE 2 before' 'SETRANGE 2 before' 'EXEC 3 after' 'EXEC 6 after' \
        'EXEC 7 before' 'EXEC 7 after' 'UNLINK 1 before'; do
        empty k 5000000
        # shellcheck disable=SC2086 # words
        proxy $action
        quiet seen add --bulk "$(uri k gozero:bits=40000000 proxy)" keys
        equal "$(bits k)" "$(bits live)"
        clean
    done
}

@test "dedup tells of a lost connection in a step, and prints nothing twice" {
    local action
    wide 1 15000 >keys
    for action in 'SETRANGE 2 before' 'EXEC 2 after' 'UNLINK 1 before'; do
        empty k
        # shellcheck disable=SC2086 # words
        proxy $action
        seen dedup -f 1 --bulk "$(uri k $LARGE proxy)" keys >out
        cmp out keys
        clean
    done
    # In the first step and in the second: before they are carried out, and after.
    for action in 'EXEC 3 before' 'EXEC 3 after' 'EXEC 6 before' 'EXEC 6 after'; do
        empty k
        # shellcheck disable=SC2086 # words
        proxy $action
        run -2 --separate-stderr seen dedup -f 1 --bulk "$(uri k $LARGE proxy)" keys
        said 'may have been carried out or not'
        clean
        [ -z "$output" ] || printf '%s\n' "$output" >first
        [ -n "$output" ] || : >first
        cmp first <(head -n "$(wc -l <first)" keys)
        seen dedup -f 1 --bulk "$(uri k $LARGE)" keys >second
        case $action in
        *before) cmp <(cat first second) keys ;;
        *after) [ -z "$(sort first second | uniq -d)" ] && [ -n "$(cat first second)" ] ||
            [ "$action" = 'EXEC 3 after' ] ;;
        esac
        run -1 seen query -v "$(uri k $LARGE)" -f 1 keys
    done
}

# asking OPTION...: seen query -v on the fifo `in`, which is descriptor 7; its process is $asker.
asking()
{
    rm -f in
    mkfifo in
    seen query -v "$@" <in >out 2>err 3>&- 7>&- &
    asker=$!
    exec 7>in
}

# ask KEY LINES: gives a key, and waits until so many lines have been printed.
ask()
{
    echo "$1" >&7
    await "$asker" has_lines out "$2"
}

@test "query by commands sees what is added meanwhile; the copy is of the beginning" {
    for way in --live --bulk; do
        empty k
        asking $way "$(uri k $SMALL)"
        ask x 1
        quiet seen add "$(uri k $SMALL)" -k x
        echo x >&7
        ask y "$([ $way = --live ] && echo 2 || echo 3)"
        exec 7>&-
        wait $asker
        equal "$(paste -sd ' ' out)" "$([ $way = --live ] && echo x y || echo x x y)"
    done
}

@test "query begins with commands and goes on with a copy" {
    empty k
    asking --verbose "$(uri k gozero:bits=400000)"
    ask x 1
    seq 3000 >&7
    exec 7>&-
    wait $asker
    [ "$(wc -l <out)" = 3001 ]
    grep -q 'seen: 1 key sent by commands, 3000 asked of a copy of 48.8 KiB' err
}

@test "what comes by a pipe is added at once; --bulk waits for more" {
    empty k
    mkfifo in
    seen add "$(uri k $SMALL)" <in 3>&- 7>&- &
    exec 7>in
    seq 2000 >&7
    await $! seen query -q "$(uri k $SMALL)" -k 2000
    exec 7>&-
    wait $!
    seq 2000 | seen add --verbose --bulk "$(uri k $SMALL)" 2>err
    grep -q ' 0 keys sent by commands, 2000 in 1 step' err
}

# peak COMMAND...: runs it, prints the most memory that it took, in KiB.
peak()
{
    python3 -c 'import os, sys
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ,
    file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss)
sys.exit(status != 0)' "$@"
}

@test "memory: three bitmaps at most, and 64 MiB" {
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer takes memory itself'
    seq 100000 >keys
    empty k $((64 << 20))
    for command in dedup add 'query -c'; do
        # shellcheck disable=SC2086 # options
        run -0 peak seen $command --bulk "$(uri k gozero:bits=$((64 << 23)))" keys
        [ "$output" -le $(((3 * 64 + 64) << 10)) ]
    done
}

# node KEY: the name of the server that has the slot of a key of the cluster.
node()
{
    local i port
    port=$(redis c0 GET "$1" | sed -n 's/^MOVED.*://p')
    for i in 0 1 2 3 4 5; do
        [ "${REDIS_PORTS[i]}" != "${port:-${REDIS_PORTS[0]}}" ] || echo "c$i"
    done
}

id() { redis "$1" CLUSTER MYID; }

# blocks SERVER: how many MULTI it has got.
blocks() { redis "$1" INFO commandstats | sed -n 's/^cmdstat_multi:calls=\([0-9]*\).*/\1/p'; }

more_blocks() { [ "$(blocks "$1")" -gt "$2" ]; }

@test "a cluster: shards on several nodes, and a slot that moves between the steps of one batch" {
    local name from to slot i begun
    redis_cluster
    seq 2000 >keys
    name="redis://127.0.0.1:${REDIS_PORTS[0]}"
    for i in 0 1 2; do
        redis-cli -c -p "${REDIS_PORTS[0]}" SETBIT "s:{$i}" 0 0
    done
    for i in 1 2; do
        seen dedup --bulk "$name/s?layout=$LARGE&shards=3" keys >out$i 3>&- &
    done
    finish
    alike <(sort out1 out2) <(sort keys)
    [ "$(seen query -c --bulk "$name/s?layout=$LARGE&shards=3" keys)" = 2000 ]
    seen add --bulk "$name/s?layout=$LARGE&shards=3" <(seq 3000)
    [ "$(seen query -c --live "$name/s?layout=$LARGE&shards=3" <(seq 3000))" = 3000 ]

    # While a slot moves, its keys are on two nodes, and a block on both must wait.
    for command in add dedup; do
        redis-cli -c -p "${REDIS_PORTS[0]}" DEL k
        redis-cli -c -p "${REDIS_PORTS[0]}" SETBIT k 0 0
        slot=$(redis c0 CLUSTER KEYSLOT k)
        from=$(node k)
        to=c0
        [ "$from" != c0 ] || to=c1
        redis "$to" CLUSTER SETSLOT "$slot" IMPORTING "$(id "$from")"
        redis "$from" CLUSTER SETSLOT "$slot" MIGRATING "$(id "$to")"
        begun=$(blocks "$from")
        seen $command --bulk "$name/k?layout=$SMALL" <(seq 300) >out 3>&- &
        await $! more_blocks "$from" $((begun + 3))
        redis "$from" MIGRATE 127.0.0.1 "${REDIS_PORTS[${to#c}]}" k 0 5000
        redis "$to" CLUSTER SETSLOT "$slot" NODE "$(id "$to")"
        redis "$from" CLUSTER SETSLOT "$slot" NODE "$(id "$to")"
        wait $!
        [ $command = add ] || cmp out <(seq 300)
        [ "$(seen query -c --live "$name/k?layout=$SMALL" <(seq 300))" = 300 ]
        [ -z "$(redis "$from" KEYS '*seen-tmp*')$(redis "$to" KEYS '*seen-tmp*')" ]
    done
}
