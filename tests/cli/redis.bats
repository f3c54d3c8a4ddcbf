#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Filters that live in Redis, on real servers.
# tags: threads slow

load ../lib/helpers
load ../lib/redis

setup()
{
    cd "$BATS_TEST_TMPDIR" || return
    need_redis
    redis_start a
}

teardown() { redis_stop; }

# uri KEY SPEC [SERVER]: the address of a filter.
uri() { echo "redis+unix://$REDIS_DIR/${3:-a}/socket?key=$1&layout=$2"; }

# Few and low bits: the usual functions make strings of 512 MiB.
PHP=php:functions=BKDRHash+ELFHash
# Where the bits have been compared before, their strings of 32 MiB are too much for each run.
MORE_PHP=${FULL:+$PHP}

# store FILE KEY: sets a key to a file filter's bitmap.
store() { seen export "$1" -o - | redis a -x SET "$2" >/dev/null; }

# same FILE KEY: are the bits those of a file filter?
same() { alike <(redis a --raw GET "$2" | head -c -1) <(seen export "$1" -o -); }

# empty KEY: a bitmap without a bit.
empty() { redis a SETBIT "$1" 0 0 >/dev/null; }

@test "query answers as the file does, with the same bits" {
    seq 900 >keys
    seq 500 3000 >asked
    for spec in gozero:bits=20000 redisson:bits=9585,k=7 $PHP; do
        quiet seen create --layout "$spec" f.seen keys --force
        store f.seen k
        for option in '' -v --annotate -n; do
            alike <(seen query $option "$(uri k "$spec")" asked) <(seen query $option f.seen asked)
        done
        run -1 seen query "$(uri k "$spec")" -k none
    done
}

@test "add and dedup set the bits that they set in a file" {
    seq 900 >keys
    seq 800 1500 >further
    for spec in gozero:bits=20000 redisson:bits=20000,k=3 $PHP; do
        quiet seen create --layout "$spec" f.seen keys --force
        redis a DEL k
        empty k
        seen add "$(uri k "$spec")" keys
        same f.seen k
        alike <(seen dedup "$(uri k "$spec")" further 2>/dev/null) <(seen dedup f.seen further 2>/dev/null)
        same f.seen k
    done
}

@test "of records with one key the first is printed, once" {
    empty k
    seq 3000 | awk '{ print $1 % 7 "\t" $1 }' >records
    alike <(seen dedup -f 1 "$(uri k gozero:bits=20000)" records) <(head -n 7 records)
    prints_nothing seen dedup -f 1 "$(uri k gozero:bits=20000)" records
}

@test "eight processes print no record twice, and each that is new once" {
    empty k
    seq 20000 >keys
    for i in {1..8}; do
        shuffled keys "$i" | seen dedup "$(uri k gozero:bits=4000000)" >"out$i" 3>&- &
    done
    finish
    alike <(sort out?) <(sort keys)
}

@test "a server without BITFIELD_RO is refused" {
    redis_start old --rename-command BITFIELD_RO ''
    redis old SETBIT k 19999 0
    for command in query add dedup; do
        run -2 --separate-stderr seen $command "$(uri k gozero:bits=20000 old)" -k 1
        [[ ${#stderr_lines[@]} = 1 && $stderr == *"the server says 'ERR unknown command 'BITFIELD_RO'"* ]]
    done
    [ "$(redis old BITCOUNT k)" = 0 ]
}

@test "records that end with NUL" {
    empty k
    printf 'a\nb\0c\0a\nb\0' >input
    alike <(seen dedup -z "$(uri k gozero:bits=20000)" input) <(printf 'a\nb\0c\0')
    run -1 seen query -q -k a "$(uri k gozero:bits=20000)"
    alike <(seen query -z "$(uri k gozero:bits=20000)" input) input
}

@test "replicas are waited for by --wait where keys are added, not where they are asked for" {
    local name
    name=$(uri k gozero:bits=20000)
    empty k
    seq 3 | seen add "$name"
    seq 5 | seen dedup --wait 1 --also "$name" | cmp <(seq 4 5) -
}

@test "what comes by a pipe is added at once, and a query sees it" {
    local name adder asker
    name=$(uri k gozero:bits=20000)
    empty k
    mkfifo keys asked
    seen add "$name" <keys 3>&- &
    adder=$!
    exec 7>keys
    seen query -v "$name" <asked >out 3>&- 7>&- &
    asker=$!
    exec 8>asked
    echo x >&8
    await $asker has_lines out 1
    echo x >&7
    await $adder seen query -q "$name" -k x
    printf 'x\ny\n' >&8
    await $asker has_lines out 2
    exec 7>&- 8>&-
    wait $adder
    wait $asker
    equal "$(paste -sd ' ' out)" 'x y'
}

@test "a filter that becomes too full is warned of, once" {
    local command
    seq 3000 >keys
    for command in add dedup; do
        redis a DEL r
        config r 1000 0.01 9585 7
        seen $command --max-fpr 0.99 "$(uri r redisson)" keys 2>err >out
        grep 'is fuller than it was made for: its current false-positive rate is 0.0' err
        [ "$(wc -l <err)" = 1 ]
    done
}

@test "new keys that are probably mistaken for known are estimated" {
    seq 3000 >keys
    config r 1000 0.01 9585 7
    seen dedup --verbose --max-fpr 0.99 "$(uri r redisson)" keys >new 2>said
    # By the FPR that rises meanwhile; of 3000 keys some 600 are lost.
    awk -v lost=$((3000 - $(wc -l <new))) '/mistaken for known/ {
        for (i = 1; i < NF; i++)
            if ($i == "known:")
                exit !($(i + 1) > 0.7 * lost && $(i + 1) < 1.3 * lost)
    }' said
    grep -q 'mistaken for known: [0-9]' said
}

@test "for very many keys a copy is advised, and --bulk and --live are answered" {
    local command option name key
    name=$(uri k gozero:bits=20000)
    key=$(printf %01023d 0)
    head -c 33M < <(yes "$key") >many
    empty k
    seen add "$name" -k "$key"
    run -0 --separate-stderr seen query -m 1 "$name" many
    [ "$stderr" = "seen: note: with this number of keys a copy of the filter is faster: seen import 'URI' \
-o F; seen query F" ]
    run -0 --separate-stderr seen add "$name" many
    [ "$stderr" = "seen: note: with this number of keys a copy of the filter is faster: seen import 'URI' \
-o F; seen add F; seen export --merge F -o 'URI'" ]
    run -0 --separate-stderr seen dedup "$name" many
    [ "$stderr" = "seen: note: with this number of keys a copy of the filter is faster: seen import 'URI' \
-o F; seen query -v F | seen dedup 'URI'" ]
    # From a pipe their number is unknown. A filter that is larger is not copied sooner.
    prints_nothing seen query -q "$name" <(cat many)
    redis a SETBIT large 399999999 0
    prints_nothing seen query -q -v "$(uri large gozero:bits=400000000)" many
    seen create --layout gozero:bits=20000 f.seen -k "$key"
    prints_nothing seen query -q f.seen many
    for command in query add dedup; do
        for option in --bulk --live; do
            run -2 --separate-stderr seen $command $option "$name"
            [[ $stderr == "seen: unknown option '$option': keys are "* ]]
        done
    done
}

@test "stats tells what it tells of the file" {
    local fields='.n_estimate, .fpr_current, .bits_set, .fpr_design, .n_design, .layout'
    seq 900 >keys
    for spec in gozero:bits=20000 redisson:bits=9585,k=7 $MORE_PHP; do
        quiet seen create --layout "$spec" f.seen keys --force
        quiet seen export f.seen -o g --force
        quiet seen import --layout "$spec" g -o f.seen --force
        redis a -x SET k <g
        alike <(seen stats --json "$(uri k "$spec")" | jq "$fields") \
            <(seen stats --json f.seen | jq "$fields")
    done
}

@test "Redisson's configuration is read, and must fit" {
    local name
    seq 1000 >keys
    config r 1000 0.01 9585 7
    # Until the first key comes there is a configuration only.
    run -1 seen query "$(uri r redisson)" -k 1
    seen add "$(uri r redisson)" keys 2>/dev/null
    seen create --layout redisson -n 1000 -p 0.01 f.seen keys
    same f.seen r
    [ "$(fact "$(uri r redisson)" n_design)" = 1000 ]
    refuses "seen: cannot use '$(uri r redisson:bits=x)': layout redisson: bits is 'x', but must be a number from 1 to 4294967294" \
        seen query "$(uri r redisson:bits=x)" -k 1
    name=$(uri r redisson:k=8)
    refuses "seen: cannot use '$name': its configuration says bits=9585 and k=7" \
        seen query "$name" -k 1
    name=$(uri r redisson)
    redis a HSET '{r}:config' size 09585
    refuses "seen: cannot use '$name': its configuration says size='09585', which Redisson does \
not write" seen query "$name" -k 1
    redis a HSET '{r}:config' size 4294967295
    refuses "seen: cannot use '$name': its configuration says size='4294967295', which Redisson does \
not write" seen query "$name" -k 1
    redis a HSET '{r}:config' size 9585 hashIterations 0
    refuses "seen: cannot use '$name': its configuration says hashIterations='0', which Redisson does \
not write" seen query "$name" -k 1
    # Insertions and a rate that give another number of positions say nothing.
    redis a HSET '{r}:config' hashIterations 6
    equal "$(fact "$name" n_design)" 1107
    redis a HSET '{r}:config' hashIterations 7
    redis a HDEL '{r}:config' size
    refuses "seen: cannot use '$name': its configuration has no size" seen query "$name" -k 1
    # A name with a brace is left as it is.
    redis a HSET 'x{r}:config' size 9585 hashIterations 7
    run -1 seen query "$(uri 'x{r}' redisson)" -k 1
}

@test "adding stops before the limit of the false-positive rate" {
    empty k
    seq 1 3000 >keys
    run -2 --separate-stderr seen dedup --max-fpr 0.001 "$(uri k gozero:bits=20000)" keys
    [[ $stderr == *"would pass 0.001"* ]]
    # What is printed is in, and no more.
    alike <(printf '%s\n' "$output") <(head -n "${#lines[@]}" keys)
    seen create --layout gozero:bits=20000 f.seen <<<"$output"
    same f.seen k
    seen stats --json "$(uri k gozero:bits=20000)" |
        jq -e '.fpr_current <= 0.001 and .fpr_current > 0.00098'
    # Keys that are known pass, here or in another filter.
    echo "$output" >in
    prints_nothing seen dedup --max-fpr 0.001 "$(uri k gozero:bits=20000)" in
    seq 4000 4100 | seen create --layout gozero:bits=20000 other.seen
    prints_nothing seen dedup --max-fpr 0.001 --also other.seen "$(uri k gozero:bits=20000)" <(seq 4000 4100)
}

@test "a number of bits that the bitmap contradicts is refused" {
    local command name
    seq 100 | seen create --layout gozero:bits=20000 f.seen
    store f.seen k
    for command in query add dedup; do
        name=$(uri k gozero:bits=40000)
        refuses "seen: cannot use '$name': all $(redis a BITCOUNT k) set bits are among the first \
19992 of 40000: the filter was made with fewer bits" seen $command "$name" -k 1
    done
    # Few bits may all be low, and those of php are.
    redis a SETBIT few 7 1
    run -1 seen query "$(uri few gozero:bits=40000)" -k 1
    run -1 seen query "$(uri k $PHP)" -k 1
}

@test "what is not such a filter is refused in one line" {
    local name
    redis a RPUSH list 1
    redis a SETBIT long 20000 1
    redis a SETBIT end 20002 1
    for command in query add dedup; do
        name=$(uri list gozero:bits=20000)
        refuses "seen: cannot use '$name': the key holds a value of another type" \
            seen $command "$name" -k 1
        name=$(uri none gozero:bits=20000)
        refuses "seen: cannot use '$name': there is no key 'none'" seen $command "$name" -k 1
        name=$(uri none redisson)
        refuses "seen: cannot use '$name': there is no key 'none'" seen $command "$name" -k 1
        name="redis+unix://$REDIS_DIR/a/socket?key=list"
        refuses "seen: cannot use '$name': it does not say what the filter is: give ?layout=SPEC, with \
SPEC gozero:bits=M, redisson, redisbloom or php, as the program that made it; for a filter of your own, \
?layout=redisson, --create and --capacity" seen $command "$name" -k 1
        name=$(uri long gozero:bits=20000)
        refuses "seen: cannot use '$name': it is a string of 2501 bytes, but 20000 bits are 2500" \
            seen $command "$name" -k 1
        name=$(uri end gozero:bits=20002)
        refuses "seen: cannot use '$name': bits are set beyond the last: the filter is larger" \
            seen $command "$name" -k 1
        name=$(uri k guava)
        refuses "seen: cannot use '$name': filters of this layout are not bitmaps in Redis" \
            seen $command "$name" -k 1
        name=$(uri k nonsense)
        refuses "seen: cannot use '$name': no layout 'nonsense': there are guava, gozero, redisson, php, redisbloom, dcso, bitsandblooms, spark" \
            seen $command "$name" -k 1
    done
    seen create --layout guava f.seen -k 1
    refuses 'seen: filters of layout guava are not bitmaps in Redis' seen export f.seen -o "redis+unix://$REDIS_DIR/a/socket?key=none"
    run -1 seen query "$(uri end gozero:bits=20003)" -k 1
    [ "$(redis a EXISTS none)" = 0 ]
    refuses "seen: cannot connect to '$PWD/nothing': No such file or directory" \
        seen query "redis+unix://$PWD/nothing?key=k&layout=gozero:bits=1" -k 1
}

@test "a server that wants a password" {
    local name
    redis_start p --requirepass secret
    REDISCLI_AUTH=secret redis p SETBIT k 0 0
    name=$(uri k gozero:bits=20000 p)
    run -2 --separate-stderr seen query "$name" -k 1
    [[ ${#stderr_lines[@]} = 1 && $stderr == *'the server wants a password'* ]]
    REDISCLI_AUTH=wrong run -2 --separate-stderr seen query "$name&db=1" -k 1
    [[ ${#stderr_lines[@]} = 1 && $stderr == *'does not take this user or password' ]]
    REDISCLI_AUTH=secret run -1 seen query "$name" -k 1
    REDISCLI_AUTH=secret run -2 --separate-stderr seen query "$name&db=99" -k 1
    [[ ${#stderr_lines[@]} = 1 && $stderr == *"the server says 'ERR DB index is out of range'" ]]
    echo secret >file
    run -1 seen query --password-file file "$name" -k 1
    quiet seen add --password-file file "$name" -k 1
    prints_nothing seen dedup --password-file file "$name" -k 1
    seen stats --password-file file "$name"
    quiet seen import --password-file file "$name" -o f.seen
    quiet seen export --password-file file f.seen -o "$name"
}

# rights WORD: those that seen-redis(7) lists in the command that goes on with this word.
rights() { sed -n "/SETUSER crawler $1/,/^\.EE/p" "$SOURCE/man/seen-redis.7" | grep -o '+[a-z_|]*'; }

@test "the rights in the manual are enough" {
    local asks writes spec
    mapfile -t asks < <(rights on)
    mapfile -t writes < <(rights +)
    redis a ACL SETUSER asks on nopass '~k*' '~{k*' -@all "${asks[@]}"
    redis a ACL SETUSER writes on nopass '~k*' '~{k*' -@all "${asks[@]}" "${writes[@]}"
    seq 100 >keys
    for spec in gozero:bits=20003 redisson:bits=20003,k=7; do
        own() { echo "redis+unix://$1@$REDIS_DIR/a/socket?key=k&layout=$spec"; }
        redis a FLUSHALL
        quiet seen add --create "$(own writes)" keys
        prints_nothing seen dedup "$(own writes)" keys
        [ "$(seen query -c "$(own asks)" keys)" = 100 ]
        seen stats "$(own asks)"
        quiet seen import --force "$(own asks)" -o f.seen
        quiet seen export --expire 60 f.seen -o "$(own writes)"
        quiet seen export --merge f.seen -o "$(own writes)"
        quiet seen export f.seen -o "$(own writes)"
        run -2 seen add "$(own asks)" -k new
    done
}

# takes_none FILTER REASON: each way of writing is refused in one line, and reading is not.
takes_none()
{
    seq 100 | quiet seen create --layout gozero:bits=20000 f.seen --force
    for command in dedup add; do
        refuses "seen: cannot use '$1': $2" seen $command "$1" -k 1
        [ ${#stderr_lines[@]} = 1 ]
    done
    for option in '' --merge; do
        refuses "seen: cannot use '$1': $2" seen export $option f.seen -o "$1"
        [ ${#stderr_lines[@]} = 1 ]
    done
    run -1 seen query "$1" -k 1
}

@test "servers that take no writes" {
    redis_start full
    redis full SETBIT k 0 0
    redis full CONFIG SET maxmemory 1
    takes_none "$(uri k gozero:bits=20000 full)" 'the server is at its memory limit (maxmemory)'
    [ "$(redis full DBSIZE)" = 1 ]
    redis_start copy
    redis copy SETBIT k 0 0
    redis copy REPLICAOF 127.0.0.1 1
    redis copy CONFIG SET replica-read-only yes
    takes_none "$(uri k gozero:bits=20000 copy)" \
        'the server is a replica, which cannot be written: name its master'
}

@test "a server that is loading its data is waited for" {
    redis_start slow
    redis slow SETBIT k 19999 0
    redis slow CONFIG SET rdbcompression no
    redis slow DEBUG POPULATE 200 fill 2000
    redis slow SAVE
    redis_kill slow
    # 10 ms a key; clients are served after each.
    redis_start slow --key-load-delay 10000 --loading-process-events-interval-bytes 1024
    seen dedup "$(uri k gozero:bits=20000 slow)" <(seq 100) | cmp <(seq 100) -
    run -1 seen query -v "$(uri k gozero:bits=20000 slow)" <(seq 100)
}

# Gives 1000 keys, makes the file `halted` when all are in `out`, and waits for `go` with the rest.
halting()
{
    seq 1000
    eventually has_lines out 1000
    touch halted
    eventually test -e go
    seq 1001 2000
}

# What becomes of the bitmap k meanwhile.
deleted() { redis a DEL k; }
shorter() { redis a SET k short; }
expired() { redis a PEXPIRE k 1; eventually is_gone k; }
is_gone() { [ "$(redis a EXISTS "$1")" = 0 ]; }
no_bitmap() { redis a DEL k; redis a RPUSH k 1; }

@test "a bitmap that vanishes while keys are added or asked" {
    local reason spec=gozero:bits=400000
    seq 1000 | seen create --layout $spec f.seen
    for event in deleted shorter expired no_bitmap; do
        reason="cannot go on with '$(uri k $spec)': the bitmap was deleted or replaced by a \
shorter one"
        [ $event != no_bitmap ] ||
            reason="cannot use '$(uri k $spec)': the key holds a value of another type"
        for command in query dedup; do
            [ $command$event = dedupno_bitmap ] || [ $command = query ] || reason="cannot go on with \
'$(uri k $spec)': keys that were added are missing: the filter was deleted or replaced, or a failover \
has lost them"
            rm -f out halted go
            redis a DEL k
            if [ $command = query ]; then store f.seen k; else redis a SETBIT k 399999 0; fi
            halting | seen $command "$(uri k $spec)" >out 2>err 3>&- &
            await $! test -e halted
            $event
            touch go
            status=0
            wait $! || status=$?
            [ $status = 2 ]
            [ "$(<err)" = "seen: $reason" ]
            cmp out <(seq 1000)
        done
    done
}

# until_cut: keys 1 to 50000, the last ones when the file `cut` is there, so that nobody is through before.
until_cut()
{
    seq 40000
    eventually test -e cut
    seq 40001 50000
}

@test "a server that is killed: what was printed is in, nothing is printed twice" {
    redis_start b --appendonly yes --appendfsync no
    redis b SETBIT k 39999999 0
    seq 50000 >keys
    until_cut 3>&- | seen dedup "$(uri k redisson:bits=40000000,k=7 b)" >out 2>err 3>&- &
    await $! has_lines out 1001
    redis_kill b
    touch cut
    wait $! || [ $? = 2 ]
    redis_start b --appendonly yes --appendfsync no
    eventually has_loaded b
    run -1 seen query -v "$(uri k redisson:bits=40000000,k=7 b)" out
    seen dedup "$(uri k redisson:bits=40000000,k=7 b)" keys >>out
    [ -z "$(sort out | uniq -d)" ]
    # At most a batch of 1024 is lost, and what is taken for present.
    [ "$(wc -l <out)" -gt 48500 ]
}

# has_bits KEY N: are more than so many bits set?
has_bits() { [ "$(redis a BITCOUNT "$1")" -gt "$2" ]; }

@test "connections that are lost: dedup knows all that was new, or says that it does not" {
    redis a SETBIT k 39999999 0
    loses_connections "$(uri k redisson:bits=40000000,k=7)" 50000 48500
}

@test "a connection that is lost once does not stop add" {
    redis a SETBIT k 39999999 0
    seq 50000 >keys
    until_cut 3>&- | seen add "$(uri k redisson:bits=40000000,k=7)" 3>&- &
    await $! has_bits k 1000
    redis a CLIENT KILL TYPE normal
    touch cut
    wait $!
    run -1 seen query -v "$(uri k redisson:bits=40000000,k=7)" keys
}

@test "export and import: the bits of the file, there and back" {
    seq 900 >keys
    for spec in gozero:bits=20000 redisson:bits=9585,k=7 $MORE_PHP; do
        quiet seen create --layout "$spec" f.seen keys --force
        redis a FLUSHALL
        quiet seen export f.seen -o "$(uri k "$spec")"
        cmp <(seen query "$(uri k "$spec")" keys) keys
        quiet seen import "$(uri k "$spec")" -o g.seen --force
        alike <(seen export f.seen -o -) <(seen export g.seen -o -)
        [ "$(redis a TTL k)" = -1 ]
    done
    # Larger than a chunk.
    quiet seen create --layout gozero:bits=20000003 f.seen keys --force
    quiet seen export f.seen -o "$(uri k gozero)"
    [ "$(redis a STRLEN k)" = 2500001 ]
    quiet seen import "$(uri k gozero:bits=20000003)" -o g.seen --force
    alike <(seen export f.seen -o -) <(seen export g.seen -o -)
    # The last chunk has no bit.
    quiet seen create --layout gozero:bits=40000003 f.seen -k 5 --force
    [ "$(seen export f.seen -o - | wc -c)" -lt 4194304 ]
    quiet seen export f.seen -o "$(uri k gozero)"
    [ "$(redis a STRLEN k)" = 5000001 ]
    seen query "$(uri k gozero:bits=40000003)" -k 5
}

@test "of a bitmap that ends with its last byte that is not zero no more is exported" {
    seen create --layout php --empty -n 1000 f.seen
    quiet seen export f.seen -o "$(uri k php)"
    [ "$(redis a STRLEN k)" = 1 ]
}

@test "export replaces in one step, and keeps the time to live" {
    for i in 1 2; do
        seq $i$i$i | quiet seen create --layout gozero:bits=20000 $i.seen
    done
    quiet seen export 1.seen -o "$(uri k gozero:bits=20000)"
    redis a EXPIRE k 1000
    quiet seen export 2.seen -o "$(uri k gozero:bits=20000)"
    quiet seen import "$(uri k gozero:bits=20000)" -o g.seen
    alike <(seen export 2.seen -o -) <(seen export g.seen -o -)
    [ "$(redis a TTL k)" -gt 900 ]
    quiet seen export --expire 2000 2.seen -o "$(uri k gozero:bits=20000)"
    [ "$(redis a TTL k)" -gt 1900 ]
    [ "$(redis a DBSIZE)" = 1 ]
}

# lives KEY FROM TO: the time to live of the bitmap and that of its configuration, in seconds.
lives()
{
    local key life
    for key in "$1" "{$1}:config"; do
        life=$(redis a TTL "$key")
        ((life > $2 && life <= $3)) || { echo "$key: $life"; return 1; }
    done
}

@test "a bitmap and its configuration have one life" {
    local command
    seq 100 >keys
    seen create --layout redisson -n 1000 -p 0.01 f.seen keys
    for command in add dedup 'export f.seen -o' 'export --merge f.seen -o'; do
        redis a FLUSHALL
        config r 1000 0.01 9585 7
        redis a EXPIRE '{r}:config' 1000
        # shellcheck disable=SC2086 # words
        seen $command "$(uri r redisson)" >out <keys
        lives r 900 1000
        [ "$(seen query -c "$(uri r redisson)" keys)" = 100 ]
    done
    # One that is there keeps its own, and without any there is none.
    redis a EXPIRE r 3000
    seen add "$(uri r redisson)" keys
    [ "$(redis a TTL r)" -gt 2900 ]
    redis a FLUSHALL
    config r 1000 0.01 9585 7
    seen add "$(uri r redisson)" keys
    lives r -2 -1
    seen export --expire 5000 f.seen -o "$(uri r redisson)"
    lives r 4900 5000
    seen export --expire 5000 f.seen -o "$(uri new redisson)"
    lives new 4900 5000
    # A bitmap that cannot be given the life of its configuration is not made.
    redis a FLUSHALL
    config r 1000 0.01 9585 7
    redis a EXPIRE '{r}:config' 1000
    redis a ACL SETUSER default -pexpire
    run -2 --separate-stderr seen add "$(uri r redisson)" keys
    [[ ${#stderr_lines[@]} = 1 && $stderr == *pexpire* ]]
    [ "$(redis a EXISTS r)" = 0 ]
}

@test "a capacity that is larger than that of the filter is warned of" {
    local command name
    config r 1000 0.01 9585 7
    for command in add dedup; do
        name=$(uri r redisson)
        run -0 --separate-stderr seen $command --create -n 5000 "$name" -k $command
        [ "$stderr" = "seen: warning: '$name' is there already, with a capacity of 1000: --capacity has \
no effect" ]
        run -0 --separate-stderr seen $command --create -n 1000 "$name" -k $command.
        [ -z "$stderr" ]
    done
    seen add --create -n 3000 -p 0.01 "$(uri s redisson)&shards=3" -k a
    run -0 --separate-stderr seen add --create -n 3000 -p 0.01 "$(uri s redisson)&shards=3" -k a
    [ -z "$stderr" ]
}

@test "export --merge adds to what is there" {
    seq 500 | quiet seen create --layout gozero:bits=20000 1.seen
    seq 400 900 | quiet seen create --layout gozero:bits=20000 2.seen
    seen merge 1.seen 2.seen -o both.seen
    quiet seen export 1.seen -o "$(uri k gozero:bits=20000)"
    redis a EXPIRE k 1000
    quiet seen export --merge 2.seen -o "$(uri k gozero:bits=20000)"
    quiet seen import "$(uri k gozero:bits=20000)" -o g.seen
    alike <(seen export both.seen -o -) <(seen export g.seen -o -)
    [ "$(redis a TTL k)" -gt 900 ]
    [ "$(redis a DBSIZE)" = 1 ]
    quiet seen export --merge 2.seen -o "$(uri new gozero:bits=20000)"
}

@test "Redisson's configuration is pushed with the bits, or must fit" {
    seq 1000 | quiet seen create --layout redisson -n 1000 -p 0.01 f.seen
    quiet seen export f.seen -o "$(uri r redisson)"
    [ "$(redis a HMGET '{r}:config' size hashIterations expectedInsertions falseProbability |
        paste -sd ' ')" = '9585 7 1000 0.01' ]
    seq 1000 | cmp - <(seq 1000 | seen query "$(uri r redisson)")
    quiet seen export f.seen -o "$(uri r redisson)"
    config s 1000 0.001 14377 10
    name=$(uri s redisson)
    refuses "seen: cannot use '$name': its configuration says bits=14377 and k=10" \
        seen export f.seen -o "$name"
    [ "$(redis a DBSIZE)" = 3 ]
}

@test "options of files are refused at an address, and those of addresses at a file" {
    seq 9 | quiet seen create --layout gozero:bits=20000 f.seen
    refuses "seen: --pad is for files: not with an address in Redis" \
        seen export --pad f.seen -o redis://a/b
    refuses "seen: --merge needs an address in Redis" \
        seen export --merge f.seen -o x
    refuses "seen: --layout is for files, since an address says what is there (URI?layout=SPEC): \
not with an address in Redis" seen import --layout gozero redis://a/b -o x
    [ ! -e x ]
    empty k
    refuses "seen: '$(uri k gozero:bits=20000)' has no generations, so it cannot be rotated" \
        seen add --rotate-at-capacity "$(uri k gozero:bits=20000)" -k 1
}

@test "an export that fails leaves no key behind, and what was there" {
    seq 900 | quiet seen create --layout gozero:bits=20000 f.seen
    redis a RPUSH list 1
    redis a SETBIT long 20000 1
    name=$(uri list gozero)
    refuses "seen: cannot use '$name': the key holds a value of another type" \
        seen export f.seen -o "$name"
    name=$(uri long gozero)
    refuses "seen: cannot use '$name': what is there is a string of 2501 bytes, and this filter \
has 2500" seen export f.seen -o "$name"
    name=$(uri k gozero:bits=19999)
    refuses "seen: cannot use '$name': the filter to be exported is of layout gozero:bits=20000" \
        seen export f.seen -o "$name"
    refuses "seen: cannot connect to '$PWD/nothing': No such file or directory" \
        seen export f.seen -o "redis+unix://$PWD/nothing?key=k"
    redis a ACL SETUSER default -rename
    name=$(uri k gozero)
    run -2 --separate-stderr seen export f.seen -o "$name"
    [[ ${#stderr_lines[@]} = 1 && $stderr == *NOPERM* ]]
    [ "$(redis a DBSIZE)" = 2 ]
    seq 9 | quiet seen create own.seen
    refuses "seen: 'own.seen' does not have the layout of another program, so it cannot be exported; 'seen create --layout' makes one that can be, from the keys" \
        seen export own.seen -o "$name"
    [ ! -e g.seen ]
    run -2 seen import "$(uri none gozero:bits=20000)" -o g.seen
    [ ! -e g.seen ]
}

@test "without random numbers there is no name for a temporary key, and nothing is exported" {
    need_preload
    seq 900 | quiet seen create --layout gozero:bits=20000 f.seen
    refuses "seen: cannot get random numbers from the system: Function not implemented" \
        failing getrandom:1:ENOSYS:from seen export f.seen -o "$(uri k gozero)"
    [ "$(redis a DBSIZE)" = 0 ]
}

@test "commands for files say how a file is made of a filter in Redis" {
    for command in verify rotate; do
        refuses "seen: 'redis://a/b' is an address: 'seen import' makes a file of the filter there" \
            seen $command redis://a/b
    done
    refuses "seen: 'redis://a/b' is an address: 'seen export' writes a filter there" \
        seen create redis://a/b -n 5
}
