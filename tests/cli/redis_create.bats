#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Filters in Redis that are made by --create, and filters of several shards.
# tags: slow

load ../lib/helpers
load ../lib/redis
load ../lib/bloom

setup()
{
    cd "$BATS_TEST_TMPDIR" || return
    need_redis
    redis_start a
}

teardown() { redis_stop; }

# uri KEY SPEC: the address of a filter.
uri() { echo "redis+unix://$REDIS_DIR/a/socket?key=$1&layout=$2"; }

# same FILE KEY: are the bits those of a file filter?
same() { alike <(redis a -D '' --raw GET "$2") <(seen export --pad "$1" -o -); }

keys_of_server() { redis a KEYS '*' | sort | paste -sd ' '; }

# shard_of I S: of the records, those whose key is of shard I of S.
shard_of()
{
    python3 -c 'import sys, zlib
i, s = map(int, sys.argv[1:])
for line in sys.stdin.buffer:
    if zlib.crc32(line[:-1]) % s == i:
        sys.stdout.buffer.write(line)' "$1" "$2"
}

@test "--create makes an empty bitmap of the size in the address" {
    local name
    name=$(uri k gozero:bits=20003)
    seen create --empty -n 1 --layout gozero:bits=20003 f.seen
    quiet seen add --create "$name" /dev/null
    same f.seen k
    redis a DEL k
    seq 100 >keys
    for command in add dedup; do
        seen create --force --layout gozero:bits=20003 f.seen keys
        run -0 --separate-stderr seen $command --create "$name" keys
        [ -z "$stderr" ]
        same f.seen k
        redis a DEL k
    done
    # Of few bits in many, no more than is needed.
    quiet seen add --create "$(uri k php)" /dev/null
    [ "$(redis a STRLEN k)" = 1 ]
    [ "$(keys_of_server)" = k ]
}

@test "--create makes a bitmap for so many keys, and says what it has made" {
    local name spec=gozero:bits=20032
    name=$(uri k gozero)
    seq 500 >keys
    seen create --layout gozero -n 1000 -p 1e-4 f.seen keys
    spec=$(fact f.seen layout)
    run -0 --separate-stderr seen dedup --create -n 1000 -p 1e-4 "$name" keys
    [ "$stderr" = "seen: note: made '$name' with layout=$spec" ]
    cmp <(echo "$output") keys
    same f.seen k
    # The same options open it; others do not fit.
    quiet seen dedup --create -n 1000 -p 1e-4 "$name" keys
    quiet seen add --create -n 1000 -p 1e-4 "$name" keys
    seen create --empty --layout gozero -n 2000 -p 1e-4 large.seen
    refuses "seen: cannot use '$name': what is there is a string of $(redis a STRLEN k) bytes, and \
one of this size has $(seen export --pad large.seen -o - | wc -c)" \
        seen add --create -n 2000 -p 1e-4 "$name" keys
    [ "$(seen query -c "$(uri k "$spec")" keys)" = 500 ]
    same f.seen k
    refuses "seen: cannot use '$name': its size is unknown: give it in layout=, or --capacity" \
        seen dedup --create "$name" keys
    name=$(uri new redisson)
    refuses "seen: cannot use '$name': there is no key 'new', and to make it the size is needed: give \
--capacity, or the size in layout=" \
        seen dedup --create "$name" keys
    name=$(uri new redisson:k=3)
    run -2 --separate-stderr seen add --create "$name" keys
    [[ ${#stderr_lines[@]} = 1 && $stderr == *'give bits=M and k=K, or -n and -p'* ]]
    name=$(uri new gozero:bits=1000)
    run -2 --separate-stderr seen add --create -n 1000 -p 1e-4 "$name" keys
    [[ ${#stderr_lines[@]} = 1 && $stderr == *'which is more than 0.0001' ]]
    [ "$(keys_of_server)" = k ]
}

@test "--create writes the configuration that Redisson writes" {
    local config n p
    # The vectors are Redisson's own.
    for config in "$SOURCE"/tests/vectors/redisson/*.config; do
        n=$(sed -n 's/^expectedInsertions\t//p' "$config")
        p=$(sed -n 's/^falseProbability\t//p' "$config")
        quiet seen add --create -n "$n" -p "$p" "$(uri r redisson)" /dev/null
        alike <(redis a HGETALL '{r}:config' | paste - - | grep . | sort) <(grep . "$config" | sort)
        # As with Redisson, the bitmap comes with the first key.
        [ "$(keys_of_server)" = '{r}:config' ]
        redis a DEL '{r}:config'
    done
    quiet seen add --create "$(uri r redisson:bits=9585,k=7)" /dev/null
    [ "$(redis a HGETALL '{r}:config' | paste -sd ' ')" = 'size 9585 hashIterations 7' ]
}

@test "--create keeps what is there" {
    local name
    seq 1000 >keys
    quiet seen add --create -n 1000 -p 0.001 "$(uri r redisson)" -k 1
    redis a HGETALL '{r}:config' >before
    seen add --create -n 5000 -p 0.01 "$(uri r redisson)" -k 2 2>err
    grep 'with a capacity of 1000: --capacity has no effect' err
    [ "$(seen dedup --create -n 5 "$(uri r redisson)" -k 1 -k 3)" = 3 ]
    cmp before <(redis a HGETALL '{r}:config')
    name=$(uri r redisson:k=8)
    refuses "seen: cannot use '$name': its configuration says bits=14377 and k=10" \
        seen add --create -n 5000 "$name" keys
    seen create --layout gozero:bits=20000 f.seen keys
    quiet seen export f.seen -o "$(uri k gozero)"
    prints_nothing seen dedup --create -n 5 "$(uri k gozero:bits=20000)" keys
    same f.seen k
    redis a RPUSH list 1
    for spec in gozero:bits=1000 php redisson:bits=1000,k=1; do
        name=$(uri list $spec)
        refuses "seen: cannot use '$name': the key holds a value of another type" \
            seen add --create "$name" keys
    done
    [ "$(keys_of_server)" = 'k list r {r}:config' ]
}

@test "where --create is of no use" {
    local name
    refuses 'seen: --capacity and --fpr are for a new filter: they need --create' \
        seen add -n 10 "$(uri k gozero)" -k 1
    [ ! -e f.seen ]
    name=$(uri k guava)
    refuses "seen: cannot use '$name': filters of this layout are not bitmaps in Redis" \
        seen add --create -n 10 "$name" -k 1
    [ -z "$(keys_of_server)" ]
}

@test "nothing is made if the keys or another filter cannot be opened" {
    local name
    name=$(uri k gozero:bits=20000)
    for command in add dedup; do
        refuses "seen: cannot open 'none': No such file or directory (-k gives a key)" \
            seen $command --create "$name" none
    done
    refuses "seen: cannot open 'none.seen': No such file or directory" \
        seen dedup --create --also none.seen "$name" -k 1
    # What has other hashes cannot be asked with it.
    seq 9 | seen create own.seen
    run -2 seen dedup --create --also own.seen "$name" -k 1
    [ -z "$(keys_of_server)" ]
    seq 9 | seen create --layout gozero other.seen
    alike <(seq 5 20 | seen dedup --create --also other.seen "$name") <(seq 10 20)
}

# race SPEC N...: runs dedup at once, once for each N; keys into out*, stderr into err*.
race()
{
    local spec=$1 n
    shift
    rm -f out* err*
    for n; do
        seen dedup --create -n "$n" -p 1e-7 "$(uri k "$spec")" keys >"out$n" 2>"err$n" 3>&- &
    done
    wait # unnoticed: wait, some come too late
}

@test "eight processes that make one filter at once print each record once" {
    seq 2000 >keys
    for spec in gozero redisson 'gozero&shards=3' 'redisson&shards=3'; do
        redis a FLUSHALL >/dev/null
        rm -f out*
        for i in {1..8}; do
            seen dedup --create -n 2000 -p 1e-7 "$(uri k "$spec")" keys >"out$i" 2>"err$i" 3>&- &
        done
        finish
        alike <(sort out?) <(sort keys)
    done
}

@test "of processes with different options one makes the filter, whole" {
    local n won
    seq 2000 >keys
    for shards in 1 3; do
        # What a configuration tells goes for all; of bitmaps the others do not fit.
        redis a FLUSHALL >/dev/null
        race "redisson&shards=$shards" 2000 4000 8000 16000
        alike <(sort out*) <(sort keys)
        run -1 grep -hv -- '--capacity has no effect' err*
        [ "$(redis a KEYS '*config' | grep -c .)" = "$shards" ]
        for key in $(redis a KEYS '*config'); do redis a HGETALL "$key" | paste -sd ' '; done |
            sort -u >configs
        [ "$(wc -l <configs)" = 1 ]
    done
    redis a FLUSHALL >/dev/null
    race gozero 2000 4000 8000 16000
    [ "$(grep -l 'made ' err* | wc -l)" = 1 ]
    won=$(grep -l 'made ' err*)
    cmp "out${won#err}" keys
    for n in 2000 4000 8000 16000; do
        # Before or behind the winner: two messages, and both tell the length that is there.
        [ "err$n" != "$won" ] || continue
        [ ! -s "out$n" ]
        grep 'is a string of [0-9]* bytes' "err$n"
    done
    [ "$(redis a DBSIZE)" = 1 ]
}

@test "a server that refuses: nothing is made" {
    local name spec
    redis_start b --rename-command RENAMENX ''
    name() { echo "redis+unix://$REDIS_DIR/b/socket?key=k&layout=$1&shards=3"; }
    for spec in gozero:bits=1000 redisson:bits=1000,k=3; do
        run -2 --separate-stderr seen add --create "$(name $spec)" -k 1
        [[ ${#stderr_lines[@]} = 1 && $stderr == *unknown\ command* ]]
        [ "$(redis b DBSIZE)" = 0 ]
    done
    redis b CONFIG SET maxmemory 1
    name=$(name gozero:bits=1000)
    refuses "seen: cannot use '$name': the server is at its memory limit (maxmemory)" \
        seen dedup --create "$name" -k 1
    redis b CONFIG SET maxmemory 0
    redis b REPLICAOF 127.0.0.1 1
    refuses "seen: cannot use '$name': the server is a replica, which cannot be written: name its \
master" seen dedup --create "$name" -k 1
    [ "$(redis b DBSIZE)" = 0 ]
}

@test "shards: each is a filter of the keys that are its own" {
    local i spec name
    seq 2000 >keys
    seq 1500 2500 >further
    # compare: are the bits of each shard those of a file filter?
    compare()
    {
        for i in 0 1 2; do
            seen export --force "$i.seen" -o bits
            # Without the zero bytes at the end.
            cmp <(redis a -D '' --raw GET "k:{$i}" | head -c "$(size bits)") bits
        done
    }
    # Three strings of 32 MiB are too much for each run.
    for spec in gozero:bits=20003 redisson:bits=20003,k=5 ${FULL:+php:functions=BKDRHash+ELFHash}; do
        redis a FLUSHALL >/dev/null
        name="$(uri k "$spec")&shards=3"
        cmp <(seen dedup --create "$name" keys 2>/dev/null) keys
        for i in 0 1 2; do
            shard_of $i 3 <keys | seen create --force --layout "$spec" "$i.seen" 2>/dev/null
        done
        compare
        seen add "$name" further 2>/dev/null
        for i in 0 1 2; do
            shard_of $i 3 <further | seen add "$i.seen" 2>/dev/null
            # A shard is a filter of its own.
            shard_of $i 3 <keys >own
            cmp <(seen query "$(uri "k:{$i}" "$spec")" own) own
        done
        compare
        alike <(seq 5000 | seen query "$name") \
            <(for i in 0 1 2; do seq 5000 | shard_of $i 3 | seen query $i.seen; done | sort -n)
        prints_nothing seen dedup "$name" keys
    done
}

@test "shards: capacity, and what stats tells" {
    local name
    name="$(uri k gozero)&shards=3"
    seq 3000 >keys
    # 3001 keys are 1001 a shard at most.
    run -0 --separate-stderr seen add --create -n 3001 -p 1e-5 "$name" keys
    spec=$(seen create --empty --layout gozero -n 1001 -p 1e-5 f.seen &&
        seen stats --json f.seen | jq -r .layout)
    [ "$stderr" = "seen: note: made '$name' with layout=$spec" ]
    name="$(uri k "$spec")&shards=3"
    seen stats --json "$name" >sum
    [ "$(jq .shards sum)" = 3 ]
    for i in 0 1 2; do seen stats --json "$(uri "k:{$i}" "$spec")"; done >each
    # Sums, and means of equal parts; all to the digits that are printed.
    jq -se --slurpfile all sum 'def near(a; b): (a - b | fabs) <= 1e-3 * b; $all[0] as $all |
        near($all.n_estimate; map(.n_estimate) | add) and
        near($all.fpr_current; (map(.fpr_current) | add) / 3) and
        near($all.bits_set; (map(.bits_set) | add) / 3) and
        near($all.n_design; (map(.n_design) | add)) and .[0].shards == null' each
    says '^shards +3 +exact$' seen stats "$name"
}

@test "shards: only those that have a key of a batch are asked with it" {
    local lengths name
    name="$(uri k gozero:bits=20003)&shards=100"
    seq 3000 | seen add --create "$name"
    redis a CONFIG RESETSTAT
    seen query "$name" -k 7
    lengths=$(redis a INFO commandstats | sed -n 's/^cmdstat_strlen:calls=\([0-9]*\),.*/\1/p')
    [ "$lengths" = 101 ] # all to open the filter, and one for the key
}

@test "shards that are missing: --create completes the filter" {
    local name
    seq 3000 >keys
    for spec in gozero redisson; do
        redis a FLUSHALL >/dev/null
        name="$(uri k $spec)&shards=3"
        seen add --create -n 9000 -p 1e-7 "$name" keys 2>/dev/null
        for i in 0 2; do
            redis a --raw DUMP "k:{$i}" >"before$i"
        done
        [ $spec = gozero ] || redis a HGETALL 'k:{0}:config' >config
        redis a DEL 'k:{1}' 'k:{1}:config'
        shard_of 1 3 <keys >lost
        cmp <(seen dedup --create -n 9000 -p 1e-7 "$name" keys 2>/dev/null) lost
        for i in 0 2; do
            cmp <(redis a --raw DUMP "k:{$i}") "before$i"
        done
        [ $spec = gozero ] || cmp config <(redis a HGETALL 'k:{1}:config')
    done
    # Redisson's configuration goes before the options.
    redis a DEL 'k:{1}' 'k:{1}:config'
    seen add --create -n 10 "$name" keys
    cmp config <(redis a HGETALL 'k:{1}:config')
    # Nothing is made beside a configuration that does not fit.
    redis a DEL 'k:{2}' 'k:{2}:config'
    redis a HSET 'k:{1}:config' size x
    run -2 --separate-stderr seen add --create -n 10 "$name" keys
    [[ ${#stderr_lines[@]} = 1 && $stderr == "seen: cannot use '$name': its "* ]] || { echo "$stderr"; false; }
    [ "$(redis a EXISTS 'k:{2}' 'k:{2}:config')" = 0 ]
    # A bitmap of another size is no shard of this filter.
    redis a DEL 'g:{1}'
    redis a SETBIT 'g:{1}' 20000 1
    name="$(uri g gozero:bits=20000)&shards=3"
    refuses "seen: cannot use '$name': what is there is a string of 2501 bytes, and one of this size \
has 2500" seen add --create "$name" keys
    [ "$(redis a EXISTS 'g:{0}')" = 0 ]
}

@test "shards: what is refused" {
    local name
    seen create --layout gozero:bits=20000 f.seen -k 1
    for key in 'a{b}' 'a{' '{'; do
        name="$(uri "$key" gozero:bits=20000)&shards=3"
        for command in add query dedup; do
            refuses "seen: cannot use '$name': a key with a brace cannot have shards: all of them \
would be in one slot" seen $command "$name" -k 1
        done
    done
    name="$(uri k gozero:bits=20000)&shards=3"
    run -2 --separate-stderr seen export f.seen -o "$name"
    [[ ${#stderr_lines[@]} = 1 && $stderr == *'give the key of'* ]]
    seen add --create "$name" -k 1
    run -2 --separate-stderr seen import "$name" -o g.seen
    [[ ${#stderr_lines[@]} = 1 && $stderr == *'give the key of'* ]]
    [ ! -e g.seen ]
    # One of them is as any filter.
    quiet seen export f.seen -o "$(uri 'k:{2}' gozero:bits=20000)"
    same f.seen 'k:{2}'
    quiet seen import "$(uri 'k:{2}' gozero:bits=20000)" -o g.seen
    alike <(seen export f.seen -o -) <(seen export g.seen -o -)
    [ "$(seen query -c "$name" -k 1)" = 1 ]
}

@test "a cluster: shards on all nodes, made and filled at once" {
    local name i
    redis_cluster
    seq 3000 >keys
    for spec in gozero redisson; do
        name="redis://127.0.0.1:${REDIS_PORTS[0]}/$spec?layout=$spec&shards=12"
        for i in 1 2 3; do
            seen dedup --create -n 3000 -p 1e-7 "$name" keys >"out$i" 2>"err$i" 3>&- &
        done
        finish
        alike <(sort out?) <(sort keys)
    done
    for i in 0 1 2; do
        redis c$i KEYS '*'
    done | grep . | sort >there
    for i in {0..11}; do
        printf '%s\n' "gozero:{$i}" "redisson:{$i}" "redisson:{$i}:config"
    done | sort | cmp there
    # A key with braces in odd places.
    for key in 'a}b' 'x{r}'; do
        quiet seen add --create -n 10 \
            "redis://127.0.0.1:${REDIS_PORTS[0]}/$key?layout=redisson" -k 1
    done
    for key in 'a{b' '{}x'; do
        name="redis://127.0.0.1:${REDIS_PORTS[0]}/$key?layout=redisson"
        refuses "seen: cannot use '$name': no temporary key can share its slot, because of the braces in \
its name" seen add --create -n 10 "$name" -k 1
    done
}

@test "--create makes a filter of the Bloom module" {
    local name="redis+unix://$REDIS_DIR/m/socket?key=k&layout=redisbloom"
    bloom_start m
    seq 2000 >keys
    for i in {1..8}; do
        seen dedup --create -n 2000 -p 1e-7 "$name" keys >"out$i" 2>"err$i" 3>&- &
    done
    finish
    alike <(sort out?) <(sort keys)
    [ -z "$(cat err?)" ]
    # Another process takes it as it is.
    prints_nothing seen dedup --create -n 5 "$name" keys
    prints_nothing seen dedup --create "$name" keys
    # The bytes do not depend on who makes it, but for the order of the keys.
    name=${name/key=k/key=one}
    quiet seen add --create -n 2000 -p 1e-7 "$name" keys
    quiet seen import "$name" -o pulled.seen
    seen create --layout redisbloom -n 2000 -p 1e-7 f.seen keys
    quiet seen export pulled.seen -o pulled
    quiet seen export f.seen -o made
    cmp pulled.data made.data
    cmp pulled.header made.header
    name=${name/key=one/key=none}
    refuses "seen: cannot use '$name': there is no key 'none', and to make it the size is needed: give \
--capacity, or the size in layout=" \
        seen add --create "$name" keys
    refuses "seen: cannot use '$name&shards=2': filters of the Bloom module have no shards" \
        seen add --create -n 10 "$name&shards=2" keys
    [ -z "${SEEN_REDISBLOOM-}" ] || skip 'the real module does nothing in between'
    # Another process makes another one just before: it gets no keys.
    redis m AFTER 1 BF.SCANDUMP BF.RESERVE none 0.01 100 EXPANSION 3
    name+=:expansion=2
    refuses "seen: cannot use '$name': its expansion is 3" seen add --create -n 100 "$name" keys
    [ "$(redis m BF.INFO none | grep -A 1 inserted | tail -n 1)" = 0 ]
}
