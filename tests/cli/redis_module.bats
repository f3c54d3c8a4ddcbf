#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Filters of the Bloom module of a Redis server; bloom.bash says on which.

load ../lib/helpers
load ../lib/redis
load ../lib/bloom

setup()
{
    cd "$BATS_TEST_TMPDIR" || return
    need_redis
    bloom_start a 10007
}

teardown()
{
    [ ! -s "$REDIS_DIR/a/log" ] || tail "$REDIS_DIR/a/log"
    redis_stop
}

# uri KEY [PARAMS [SERVER]]: the address of a filter.
uri() { echo "redis+unix://$REDIS_DIR/${3:-a}/socket?key=$1&layout=redisbloom${2:+:$2}"; }

# reserve KEY ERROR CAPACITY [OPTION...]
reserve() { redis a BF.RESERVE "$@" >/dev/null; }

# info KEY FIELD
info() { redis a BF.INFO "$1" | grep -A 1 "^$2\$" | tail -n 1; }

# same FILE KEY: has the module the very header and bits of that filter file?
same()
{
    quiet seen import "$(uri "$2")" -o pulled.seen --force
    quiet seen export pulled.seen -o pulled --force
    quiet seen export "$1" -o exported --force
    cmp pulled.header exported.header
    cmp pulled.data exported.data
    redis a --raw BF.SCANDUMP "$2" 0 | tail -n +2 | head -c -1 | cmp - exported.header
}

@test "dedup and add do what they do in a file" {
    seq 1200 | awk '{ print $1 % 1000 }' >keys
    seq 800 2000 >extra
    for options in '' ':expansion=3' ':scaling=no'; do
        redis a FLUSHALL
        n=2500
        case $options in
        *expansion*) reserve k 0.01 $n EXPANSION 3 ;;
        *scaling*) reserve k 0.01 $n NONSCALING ;;
        *) reserve k 0.01 $n ;;
        esac
        seen create --empty --force --layout "redisbloom$options" -n $n -p 0.01 f.seen
        alike <(seen dedup "$(uri k)" keys) <(seen dedup f.seen keys)
        quiet seen add "$(uri k)" extra
        quiet seen add f.seen extra
        [ "$(info k 'Number of items inserted')" -gt 1950 ]
        same f.seen k
        alike <(seen query "$(uri k)" keys extra) <(cat keys extra)
        seq 2001 3000 >absent
        alike <(seen query "$(uri k)" absent) <(seen query f.seen absent)
    done
}

@test "a batch of which another filter has every key is not sent" {
    need_strace
    reserve k 0.01 1000
    seq 100 >keys
    seen create --layout redisbloom -n 1000 f.seen keys
    strace -f -qq -s 9999 -o trace -e trace=write,sendto,sendmsg,writev "$SEEN" dedup --also f.seen "$(uri k)" keys >out
    [ ! -s out ]
    grep -q SCANDUMP trace
    run ! grep INSERT trace
}

@test "stats and dumps for which there is no memory are refused" {
    need_preload
    reserve k 0.01 100
    seq 100 | seen add "$(uri k)"
    seen stats --json "$(uri k)" >whole
    for command in 'stats --json' 'import --force -o f'; do
        for n in {1..16}; do
            status=0
            # shellcheck disable=SC2086
            failing malloc:$n:ENOMEM seen $command "$(uri k)" >out 2>err || status=$?
            [ $status = 0 ] || [[ $status = 2 && $(cat err) == 'seen: '*[Mm]emory* && $(wc -l <err) = 1 && ! -s out ]]
        done
    done
}

@test "keys are sent as they are prepared" {
    reserve k 1e-6 1000
    printf '1\tA b\n2\t\n3\tA b' >records
    equal "$(seen dedup -f 2 --skip-bad "$(uri k)" records 2>/dev/null)" "$(printf '1\tA b')"
    seen add "$(uri k)" <<<''
    redis a BF.MADD k '' 'A b' | cmp - <(printf '0\n0\n')
    printf 'a\0\xff\ncc\n' | quiet seen add -z "$(uri k)"
    [ "$(printf '\xff\ncc\n' | redis a -x BF.ADD k)" = 0 ]
    run -1 seen query "$(uri k)" -k 'a b'
    refuses "seen: '$(uri k)' was made without --ignore-case, which cannot be added later" \
        seen query -i "$(uri k)" -k a
    # What another filter has is not sent.
    seq 10 20 | seen create --layout redisbloom -n 100 -p 0.01 other.seen
    seq 12 22 | seen dedup --also other.seen "$(uri k)" | cmp - <(seq 21 22)
    redis a BF.MEXISTS k 20 21 | cmp - <(printf '0\n1\n')
    seq 9 30 | seen query --also "$(uri k)" other.seen | cmp - <(seq 10 22)
}

@test "keys that are long or many" {
    reserve k 1e-6 5000
    # Batches end by bytes and by number.
    seq 3000 | awk '{ printf "%d", $1; if ($1 % 100 == 0) for (i = 0; i < 30000; i++) printf "long"
                      print "" }' >keys
    seen dedup "$(uri k)" keys | cmp - keys
    [ "$(seen query -c "$(uri k)" keys)" = 3000 ]
    [ "$(info k 'Number of items inserted')" = 3000 ]
    prints_nothing seen dedup "$(uri k)" keys
}

@test "eight processes print no record twice, and each that is new once" {
    reserve k 1e-9 500
    # Not from 1 on: the second hash of 342 is a multiple of a large power of two. All its k bits are
    # few, so that it is found in some orders of the keys before it comes.
    seq 2001 3500 >keys
    for i in {1..8}; do
        shuffled keys "$i" | seen dedup "$(uri k)" >"out$i" 3>&- &
    done
    finish
    alike <(sort out?) <(sort keys)
}

@test "a filter that does not scale is full: what was added is printed, and no more" {
    reserve k 1e-6 1000 NONSCALING
    seq 900 | quiet seen add "$(uri k)"
    seq 1100 >keys
    name=$(uri k)
    run -2 --separate-stderr seen dedup "$name" keys
    [ "$stderr" = "seen: keys:1001: not added: '$name' is full: it was made for 1000 keys" ]
    alike <(echo "$output") <(seq 901 1000)
    [ "$(info k 'Number of items inserted')" = 1000 ]
    # Keys that are in it change nothing.
    seq 1000 | quiet seen dedup "$name"
    run -2 seen add "$name" keys
}

@test "stats tells what it tells of the file" {
    local fields='.n_estimate, .fpr_current, .bits_set, .fpr_design, .n_design, .layout,
        .keys_added, [.layers[] | .fpr, .n_estimate, .bits_set, .keys]'
    for scaling in yes no; do
        seq 2500 | quiet seen create --force --layout redisbloom:scaling=$scaling -n 3000 -p 0.01 \
            f.seen
        quiet seen export f.seen -o "$(uri k)"
        if [ $scaling = yes ]; then
            seq 2501 9000 | quiet seen add "$(uri k)"
            quiet seen import "$(uri k)" -o f.seen --force
            [ "$(seen stats --json f.seen | jq '.layers | length')" -gt 1 ]
        fi
        alike <(seen stats --json "$(uri k)" | jq "$fields") <(seen stats --json f.seen | jq "$fields")
    done
    says '^current FPR +[0-9.]+ +exact' seen stats "$(uri k)"
}

@test "verbose tells how many keys were probably dropped" {
    reserve k 0.1 2000 NONSCALING
    seq 2000 | seen dedup --verbose "$(uri k)" 2>err | wc -l >n
    equal "$(info k 'Number of items inserted')" "$(cat n)"
    grep -Eq "^seen: note: 2000 records, $(cat n) new; new ones probably mistaken for known: [0-9.]+$" err
    awk -v n="$(cat n)" '{ lost = $NF; if (lost < (2000 - n) / 3 || lost > (2000 - n) * 3) exit 1 }' err
}

@test "export and import: the dump of the file, there and back" {
    for vector in rb_e01_n1000 rb_scale_e05_n100 rb_scale_e10_n50_x4 rb_ns_e0001_n20000 \
        rb_pow2_force64 rb_noround_hash32 rb_entsbits_force64; do
        golden=$SOURCE/tests/vectors/redisbloom/$vector
        quiet seen import --layout redisbloom "$golden" -o f.seen --force
        redis a DEL k
        quiet seen export f.seen -o "$(uri k)"
        quiet seen import "$(uri k)" -o g.seen --force
        quiet seen export g.seen -o g --force
        cmp g.header "$golden.header"
        cmp g.data "$golden.data"
        # The answers that the module gave.
        absent=$SOURCE/tests/vectors/keys/absent.txt
        seen query "$(uri k)" "$absent" >yes || [ $? = 1 ]
        cmp yes <(paste "$golden.absent" "$absent" | sed -n 's/^1\t//p')
        [ "$(redis a DBSIZE)" = 1 ]
    done
    # Many pieces, most of them zero, and none.
    for n in 3 20000; do
        seq $n | quiet seen create --layout redisbloom -n 4000000 -p 0.01 f.seen --force
        quiet seen export f.seen -o "$(uri k)"
        same f.seen k
    done
}

@test "export replaces in one step, and keeps the time to live" {
    for i in 1 2; do
        seq $i$i$i | quiet seen create --layout redisbloom -n 1000 -p 0.01 $i.seen
    done
    quiet seen export 1.seen -o "$(uri k)"
    [ "$(redis a TTL k)" = -1 ]
    redis a EXPIRE k 1000
    quiet seen export 2.seen -o "$(uri k)"
    same 2.seen k
    [ "$(redis a TTL k)" -gt 900 ]
    quiet seen export --expire 2000 2.seen -o "$(uri k)"
    [ "$(redis a TTL k)" -gt 1900 ]
    quiet seen export 2.seen -o "redis+unix://$REDIS_DIR/a/socket?key=new"
    same 2.seen new
    [ "$(redis a DBSIZE)" = 2 ]
}

@test "an export that fails leaves no key behind, and what was there" {
    seq 900 | quiet seen create --layout redisbloom:expansion=4 -n 1000 -p 0.01 f.seen
    redis a SET text 1
    name=$(uri text)
    refuses "seen: cannot use '$name': the key holds a value of another type" \
        seen export f.seen -o "$name"
    name=$(uri k)
    refuses "seen: cannot use '$name': the Bloom module cannot unite filters, as --merge wants" \
        seen export --merge f.seen -o "$name"
    name=$(uri k expansion=3)
    refuses "seen: cannot use '$name': the filter to be exported does not fit: its expansion is 4" \
        seen export f.seen -o "$name"
    name="redis+unix://$REDIS_DIR/a/socket?key=k&layout=gozero:bits=100"
    refuses "seen: cannot use '$name': the filter to be exported is of layout redisbloom:expansion=4,scaling=yes" \
        seen export f.seen -o "$name"
    quiet seen import --layout redisbloom "$SOURCE/tests/vectors/redisbloom/rb_old203_e02_n150" \
        -o old.seen
    name=$(uri k)
    run -2 --separate-stderr seen export old.seen -o "$name"
    [[ ${#stderr_lines[@]} = 1 && $stderr == *'received bad data'* ]]
    redis a ACL SETUSER default -rename
    run -2 --separate-stderr seen export f.seen -o "$name"
    [[ ${#stderr_lines[@]} = 1 && $stderr == *NOPERM* ]]
    [ "$(redis a DBSIZE)" = 1 ]
}

# proxy WORD HOW COMMAND: a proxy, which runs COMMAND at the client's first WORD (HOW: see redis_proxy.py)
proxy()
{
    rm -f "$REDIS_DIR/a/proxy"
    python3 "$SOURCE/tests/lib/redis_proxy.py" "$REDIS_DIR/a/proxy" "$REDIS_DIR/a/socket" "$1" 1 "$2" "$3" 3>&- &
    proxy_pid=$!
    disown "$proxy_pid"
    await "$proxy_pid" test -S "$REDIS_DIR/a/proxy"
}

# Exports f.seen to key k through the proxy; the client's process is in `pid`.
upload()
{
    # shellcheck disable=SC2016 # for that shell
    sh -c 'echo $$ >pid; exec seen "$@"' sh export f.seen -o "redis+unix://$REDIS_DIR/a/proxy?key=k&layout=redisbloom"
}

@test "a client that is ended while it uploads leaves nothing behind" {
    seq 100 | quiet seen create --layout redisbloom -n 100 -p 0.01 f.seen
    # shellcheck disable=SC2016 # for the proxy
    proxy BF.LOADCHUNK run 'kill -INT $(cat pid)'
    run -130 upload
    kill "$proxy_pid"
    [ -z "$output" ]
    [ "$(redis a DBSIZE)" = 0 ]
}

# The server has read all that its clients have sent.
alone() { [ "$(redis a CLIENT LIST | grep -c client)" = 1 ]; }

@test "a client that is killed leaves no temporary key that stays" {
    local word
    seq 100 | quiet seen create --layout redisbloom -n 100 -p 0.01 f.seen
    for word in PEXPIRE RENAME; do
        # shellcheck disable=SC2016 # for the proxy
        proxy $word before 'kill -KILL $(cat pid)'
        run -137 upload
        kill "$proxy_pid"
        eventually alone
        for key in $(redis a --scan); do
            [ "$(redis a PTTL "$key")" -gt 0 ]
        done
        [ "$(redis a EXISTS k)" = 0 ]
        redis a FLUSHALL
    done
}

@test "what is not such a filter is refused in one line" {
    local name
    redis a SET text 1
    reserve k 0.01 1000
    for command in 'query -k 1' 'add -k 1' 'dedup -k 1' stats 'import -o g.seen'; do
        read -ra words <<<"$command"
        name=$(uri text)
        refuses "seen: cannot use '$name': the key holds a value of another type" \
            seen "${words[@]}" "$name"
        name=$(uri none)
        refuses "seen: cannot use '$name': there is no key 'none'" seen "${words[@]}" "$name"
        name=$(uri k expansion=3)
        refuses "seen: cannot use '$name': its expansion is 2" seen "${words[@]}" "$name"
        name="$(uri k)&shards=2"
        refuses "seen: cannot use '$name': filters of the Bloom module have no shards" \
            seen "${words[@]}" "$name"
    done
    [ "$(redis a DBSIZE)" = 2 ]
    [ ! -e g.seen ]
    name=$(uri k)
    refuses "seen: --max-fpr cannot be used with '$name': the Bloom module keeps to the rate that \
it was told when the filter was made" seen add --max-fpr 0.1 "$name" -k 1
    refuses "seen: '$name' has no generations, so it cannot be rotated" \
        seen dedup --rotate-at-capacity "$name" -k 1
}

@test "a server without the module" {
    redis_start plain
    for key in none k; do
        name=$(uri $key '' plain)
        refuses "seen: cannot use '$name': the server has no Bloom module" seen query "$name" -k 1
        redis plain SETBIT k 0 0
    done
    seq 9 | seen create --layout redisbloom -n 100 -p 0.01 f.seen
    refuses "seen: cannot use '$name': the server has no Bloom module" seen export f.seen -o "$name"
    [ "$(redis plain DBSIZE)" = 1 ]
}

@test "valkey-bloom: query, add, dedup and stats" {
    local name n
    valkey_start v
    for options in 'EXPANSION 3' NONSCALING; do
        redis v FLUSHALL
        # shellcheck disable=SC2086 # words
        redis v BF.RESERVE k 0.01 5000 $options
        name=$(uri k '' v)
        seq 4000 | seen dedup "$name" >new
        n=$(wc -l <new)
        [ "$n" -gt 3950 ]
        equal "$(redis v BF.INFO k | grep -A 1 inserted | tail -n 1)" "$n"
        prints_nothing seen dedup "$name" <(seq 4000)
        seq 4000 | cmp - <(seq 9000 | seen query "$name" | head -n 4000)
        [ "$(seq 10001 20000 | seen query -c "$name")" -lt 150 ]
        seen stats --json "$name" >figures
        jq -e --argjson n "$n" '.n_low <= 4000 and 4000 <= .n_high and .n_high < 4100 and
            .keys_added == $n and .bytes == 5991 and .hash == null and .seed == null and
            .sources.fpr_current == "estimated" and .fpr_current > 0.003 and .fpr_current < 0.0055 and
            .layers[0].n_design == 5000 and .layers[0].m == 47928 and .layers[0].k == 7' figures
        says '^current FPR +[0-9.]+ +estimated' seen stats "$name"
    done
    seen dedup "$name" <(seq 20000) >new 2>err || [ $? = 2 ]
    grep -q ": not added: '$name' is full: it was made for 5000 keys$" err
    [ "$(redis v BF.INFO k | grep -A 1 inserted | tail -n 1)" = 5000 ]
}

@test "valkey-bloom: a filter that grows, and one that is made by --create" {
    valkey_start v
    redis v BF.RESERVE k 0.001 1000 EXPANSION 2
    quiet seen add "$(uri k '' v)" <(seq 6000)
    seen stats --json "$(uri k '' v)" | jq -e '[.layers[].n_design] == [1000, 2000, 4000] and
        [.layers[].n_estimate][0:2] == [1000, 2000] and .n_low <= 6000 and 6000 <= .n_high and
        .fpr_design == 0.002 and .layout == "redisbloom:expansion=2,scaling=yes"'
    says '^load .* of the newest layer, grows only in Redis when full +estimated$' \
        seen stats "$(uri k '' v)"
    # The rate of all links together is the one that was asked for.
    seq 500 | quiet seen add --create -n 1000 -p 0.001 "$(uri new '' v)"
    equal "$(redis v BF.INFO new | grep -A 1 'Error rate' | tail -n 1)" 0.00050000000000000001
    seen stats --json "$(uri new '' v)" | jq -e '.fpr_design == 0.001'
    seq 500 | quiet seen add --create -n 1000 -p 0.001 "$(uri one scaling=no v)"
    seen stats --json "$(uri one scaling=no v)" | jq -e '.fpr_design == 0.001 and .n_design == 1000'
}

@test "valkey-bloom: what it cannot do is said" {
    local name
    valkey_start v
    name=$(uri k '' v)
    for command in 'query -k 1' 'add -k 1' stats 'import -o g.seen'; do
        read -ra words <<<"$command"
        refuses "seen: cannot use '$name': there is no key 'k'" seen "${words[@]}" "$name"
    done
    seq 9 | seen create --layout redisbloom -n 100 -p 0.01 f.seen
    local why="valkey-bloom has no BF.SCANDUMP and BF.LOADCHUNK, so its filters cannot be imported \
or exported; query, add, dedup and stats work"
    refuses "seen: cannot use '$name': $why" seen export f.seen -o "$name"
    redis v BF.RESERVE k 0.01 100
    refuses "seen: cannot use '$name': $why" seen export f.seen -o "$name"
    refuses "seen: cannot use '$name': $why" seen import "$name" -o g.seen
    name=$(uri k expansion=3 v)
    refuses "seen: cannot use '$name': its expansion is 2" seen query "$name" -k 1
    redis v BF.RESERVE long 0.5 1 EXPANSION 1
    redis v BF.MADD long {1..200} >/dev/null
    n=$(redis v BF.INFO long | grep -A 1 filters | tail -n 1)
    [ "$n" -gt 42 ]
    refuses "seen: cannot use '$(uri long '' v)': it has $n links; a filter file holds 42" \
        seen query "$(uri long '' v)" -k 1
    redis v DEL long
    redis v SET text 1
    name=$(uri text '' v)
    refuses "seen: cannot use '$name': the key holds a value of another type" seen query "$name" -k 1
    [ "$(redis v DBSIZE)" = 2 ]
    [ ! -e g.seen ]
}

@test "a filter that vanishes while keys are added or asked is not made anew" {
    for command in dedup query; do
        redis a DEL k
        reserve k 1e-6 5000
        [ $command = dedup ] || seq 2000 | quiet seen add "$(uri k)"
        mkfifo in
        seen $command "$(uri k)" in >out 2>err 3>&- &
        exec 4>in
        seq 1000 >&4
        await $! has_lines out 1000
        redis a DEL k
        # It may end before it has read all of them.
        seq 1001 2000 >&4 || true
        exec 4>&-
        status=0
        wait $! || status=$?
        [ $status = 2 ]
        [ "$(cat err)" = "seen: cannot go on with '$(uri k)': the filter was deleted or replaced" ]
        cmp out <(seq 1000)
        [ "$(redis a EXISTS k)" = 0 ]
        rm in
    done
    [ -z "${SEEN_REDISBLOOM-}" ] || skip 'the real module does nothing in between'
    reserve k 1e-6 5000
    redis a AFTER 1 BF.INSERT DEL k
    refuses "seen: cannot use '$(uri k)': there is no key 'k'" seen add "$(uri k)" <(seq 1000)
}

@test "a filter that is deleted and made anew while keys are added" {
    local command when made
    [ -z "${SEEN_REDISBLOOM-}" ] || skip 'the real module does nothing in between'
    seq 3000 >keys
    for command in add dedup; do
        # Behind the keys of a batch; between two batches; behind the last one. It is made anew as it
        # was, or for other keys, of which it has more than there were, or is full soon.
        for when in '2 BF.INSERT 1024' '3 BF.SCANDUMP 2048' '4 BF.SCANDUMP 3000'; do
            for made in '1e-6 5000' '1e-4 9000' '0.01 100 NONSCALING'; do
                redis a FLUSHALL
                reserve k 1e-6 5000
                # shellcheck disable=SC2086 # words
                reserve new $made
                [ "$made" != '1e-4 9000' ] || seq 4000 8000 | quiet seen add "$(uri new)"
                # shellcheck disable=SC2086 # words
                redis a AFTER ${when% *} RENAME new k
                run -2 --separate-stderr seen $command "$(uri k)" keys
                [ $command = add ] || equal "$output" "$(seq "${when##* }")"
                [ "$stderr" = "seen: cannot go on with '$(uri k)': keys that were added are \
missing: the filter was deleted or replaced, or a failover has lost them" ]
            done
        done
    done
}

@test "a filter that is deleted or replaced while it is pulled" {
    [ -z "${SEEN_REDISBLOOM-}" ] || skip 'the real module gives this filter away in one piece'
    seq 9000 | seen create --layout redisbloom -n 20000 -p 0.01 f.seen
    seq 8000 | seen create --layout redisbloom -n 20000 -p 0.01 fewer.seen
    seq 9000 | seen create --layout redisbloom -n 10000 -p 0.01 smaller.seen
    for change in 'UNLINK k' 'RENAME fewer k' 'RENAME smaller k' 'SET k text'; do
        for filter in k fewer smaller; do
            quiet seen export "${filter/#k/f}.seen" -o "$(uri "$filter")"
        done
        # One for the header, and two of three for the bits.
        read -ra words <<<"$change"
        redis a AFTER 3 BF.SCANDUMP "${words[@]}"
        run -2 --separate-stderr seen import "$(uri k)" -o g.seen
        if [[ $change == SET* ]]; then
            [ "$stderr" = "seen: cannot use '$(uri k)': the key holds a value of another type" ]
        else
            [ "$stderr" = "seen: cannot go on with '$(uri k)': the filter was deleted or replaced" ]
        fi
        [ ! -e g.seen ]
        redis a FLUSHALL
    done
    quiet seen export f.seen -o "$(uri k)"
    redis a AFTER 3 BF.SCANDUMP UNLINK k
    refuses "seen: cannot go on with '$(uri k)': the filter was deleted or replaced" seen stats "$(uri k)"
    # Keys that are added meanwhile do no harm, nor does a further link.
    seq 4000 | seen create --layout redisbloom -n 4000 -p 1e-9 f.seen --force
    quiet seen export f.seen -o "$(uri k)"
    redis a AFTER 2 BF.SCANDUMP BF.MADD k x y z
    quiet seen import "$(uri k)" -o g.seen
    [ "$(info k 'Number of filters')" = 2 ]
    seq 4000 | cmp - <(seq 4000 | seen query g.seen)
}

@test "connections that are lost: dedup knows all that was new, or says that it does not" {
    reserve k 1e-6 10000
    # At most a batch of 1024 is lost, and what is taken for present.
    loses_connections "$(uri k)" 10000 8950
}

@test "the rate is as promised" {
    reserve k 0.05 1000 NONSCALING
    seq 1000 | quiet seen add "$(uri k)"
    # 5 sigma of 4000 trials at 0.05 are 0.017, and the bits differ by less than 0.01.
    hits=$(seq 2001 6000 | seen query -c "$(uri k)")
    [ "$hits" -gt 92 ]
    [ "$hits" -lt 308 ]
}
