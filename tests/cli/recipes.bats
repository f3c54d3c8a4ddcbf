#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The recipes of seen(7) for other programs do what they say.
# tags: repeating slow

load ../lib/helpers
load ../lib/redis

vectors=$SOURCE/tests/vectors

# on_server TITLE N: the same with the server of the tests in place of the one that it names, and
# with small bitmaps.
on_server()
{
    local socket=redis+unix://$REDIS_DIR/a/socket
    recipe "$1" "$2" "s#redis://[a-z.]+/([a-z:]+)\?#$socket?key=\1\&#
        s#redis://[a-z.]+/([a-z:]+)#$socket?key=\1#
        s/bits=20000000/bits=20000/
        s,^cd /srv$,cd .,"
}

# The programs in bin come before those of the machine.
own_bin()
{
    mkdir bin
    PATH=$PWD/bin:$PATH
}

start_server()
{
    need_redis
    redis_start a
    own_bin
}

teardown() { redis_stop; }

@test "feeding xargs: each name once, and work that failed comes again" {
    own_bin
    # shellcheck disable=SC2016 # for another shell
    printf '#!/bin/sh\nprintf "%%s\\n" "$@"\n' >bin/thumbnail
    # shellcheck disable=SC2016 # for another shell
    printf '#!/bin/sh\n[ "$1" != "$(cat failing)" ]\n' >bin/work
    chmod +x bin/thumbnail bin/work
    mkdir srv
    touch srv/a.jpg srv/b.png 'srv/two words.jpg' $'srv/two\nlines.jpg'
    recipe 'Feeding xargs' 1 's,/srv,srv,' 2>note | sort >got
    printf '%s\n' srv/a.jpg 'srv/two words.jpg' srv/two lines.jpg | sort | cmp got -
    recipe 'Feeding xargs' 1 's,/srv,srv,' >got
    [ ! -s got ]
    rm done.seen
    seq 5 >todo.txt
    echo 3 >failing
    recipe 'Feeding xargs' 2
    [ "$(seen query -v done.seen todo.txt)" = 3 ]
    echo none >failing
    recipe 'Feeding xargs' 2
    [ "$(seen query -c done.seen todo.txt)" = 5 ]
    # A job that reads has nothing to read.
    rm done.seen
    printf '#!/bin/sh\ncat >>eaten\n' >bin/work
    recipe 'Feeding xargs' 2
    [ ! -s eaten ]
    [ "$(seen query -c done.seen todo.txt)" = 5 ]
}

@test "tables with quotes" {
    local title='Tables with quotes'
    # The export has all that quotes are for, other columns each day, and a row of two spellings.
    printf '\xef\xbb\xbfid,name,city\r\n1,"Doe, Jane","a ""b"""\r\n2,"two\nlines",x\r\n\r\n3,Ann,"p,q"\n"1",Jo,\n' >today.csv
    recipe "$title" 1
    printf '\xef\xbb\xbfid,name,city\r\n1,"Doe, Jane","a ""b"""\r\n2,"two\nlines",x\r\n3,Ann,"p,q"\n' | cmp new.csv -
    printf 'city;id' >today.csv
    run ! recipe "$title" 1
    printf 'city,id\r\nx,"2"\r\n"y\n",4\r\nz,"1"' >today.csv
    recipe "$title" 1
    printf 'city,id\r\n"y\n",4\r\n' | cmp new.csv -
    # Values that are one only if they are joined without quotes differ.
    printf 'price,product,shop\n1,"a,b",c\n2,b,"c,a"\n3,"b","c,a"\n4,"a","b,c"\n5,,\n' >offers.csv
    run ! recipe "$title" 2
    sed -i '$d' offers.csv
    recipe "$title" 2
    printf 'price,product,shop\n1,"a,b",c\n2,b,"c,a"\n4,"a","b,c"\n' | cmp first.csv -
    printf 'order,customer\n7,x"y\n' >orders.csv
    cp offers.csv customers.csv
    run ! recipe "$title" 3
    printf 'order,customer\n7,"x""y"\n8,"two\r\nlines"\n9,07\n' >orders.csv
    printf 'name,id\nJo,"x""y"\n"An,n","two\r\nlines"\nMo,7\nMe,"07"\n' >customers.csv
    recipe "$title" 3
    sed /Mo/d customers.csv | cmp with-orders.csv -
}

@test "JSON Lines" {
    # An id may be any text; lines that have none are kept, and numbers are their digits.
    printf '%s\n' '{"id":"a\tb","n":1}' '{"id":"a\\tb"}' '{"n":2,"id":"\u0061\tb"}' '{}' '{"id":1234567890123456788}' \
        '{"id":null}' '{"id":1234567890123456789}' '{"id":1234567890123456788}' '{"id' '{"id":{"x":1}}' >events.jsonl
    recipe 'JSON Lines' 1 >new.json
    sed '3d;8d' events.jsonl | cmp new.json -
    recipe 'JSON Lines' 1 >new.json
    sed -n '4p;6p;9,$p' events.jsonl | cmp new.json -
    rm events.jsonl
    run ! recipe 'JSON Lines' 1
}

@test "one URL in several spellings" {
    printf '%s\n' http://Example.org HTTP://example.org:80/ http://example.org/#top http://example.org/a \
        https://example.org:443/a http://example.org:443/a http://example.org/A 'http://[bad' '' x \
        https://Me:Secret@Example.org/ https://Me:Secret@example.org https://me:secret@example.org/ >found
    recipe 'One URL in several spellings' 1 >new
    sed '2d;3d;12d' found | cmp new -
    recipe 'One URL in several spellings' 1 >new
    [ ! -s new ]
}

@test "a host and the domains above it" {
    printf '%s\n' example.org ads.example.com net >domains.txt
    printf '%s\n' example.org www.Example.org myexample.org example.com ads.example.com a.b.ads.example.com '' x.net \
        org . example.org. a..net .. >hosts.txt
    recipe 'A host and the domains above it' 1 >listed
    sed -n '1,2p;5,6p;8p;11,12p' hosts.txt | cmp listed -
}

@test "the ten most frequent keys" {
    # Key i occurs 1000 / i times.
    seq 2000 | awk '{ for (n = int(1000 / $1); n > 0; n--) print "k" $1 }' | shuf >urls.txt
    recipe 'The ten most frequent keys' 1 >got
    sort urls.txt | uniq -c | sort -rn | awk 'NR <= 10 { print $1 "\t" $2 }' | cmp got -
}

@test "the table of recipes names each once, in order" {
    sed -n '/^You have /,/^\.fi/s/^.\{44\}//p' "$SOURCE/man/seen.7" | tail -n +2 >named
    sed -nE 's/^\.SS //p' "$SOURCE/man/seen.7" | grep -Fxf named >there
    cmp named there
    [ "$(wc -l <named)" -ge 21 ]
}

@test "extend the bitmap of the PHP class" {
    start_server
    head -n 100 "$vectors/php/ph_dek.bits" >old.bits
    sed 's/.*/SETBIT bloom:phones & 1/' old.bits | redis a >/dev/null
    seq 1000 1010 >phones.txt
    local uri="redis+unix://$REDIS_DIR/a/socket?key=bloom:phones&layout=php"
    seen add "$uri" phones.txt
    [ "$(seen query -c "$uri" phones.txt)" = 11 ]
    # The bits of before are there.
    [ "$(sed 's/.*/GETBIT bloom:phones &/' old.bits | redis a | sort -u)" = 1 ]
}

@test "map and reduce" {
    local title='Map and reduce'
    mkdir parts
    seq 30000 >all.txt
    split -n l/5 all.txt parts/urls.
    gzip parts/urls.*
    recipe "$title" 1 's/-n 100M/-n 30k/' 2>message
    cp all.seen first.seen
    [ "$(cd parts && echo ./*.seen | wc -w)" = 5 ]
    # One run over all has the same bits.
    seen create -n 30k -p 1e-4 one.seen all.txt
    alike <(data all.seen) <(data one.seen)
    # So have groups, in another order, and with a filter twice.
    seen merge --reproducible -o a.seen parts/*.a[a-b].*seen
    seen merge --reproducible -o b.seen parts/*.a[b-e].*seen
    seen merge --reproducible -o all.seen --force b.seen a.seen
    alike <(data all.seen) <(data one.seen)
    # Steps that run again write the same bytes.
    rm parts/urls.ab*.seen
    recipe "$title" 1 's/-n 100M/-n 30k/' 2>message
    cmp all.seen first.seen
    # A step that fails fails the whole.
    printf x >>parts/urls.ac.gz
    run ! recipe "$title" 1 's/-n 100M/-n 30k/'
    cmp all.seen first.seen
}

# on_cluster TITLE N: with the cluster of the tests, fewer shards, and a list that ends.
on_cluster()
{
    recipe "$1" "$2" "s#redis://[a-z0-9.]+/#redis://127.0.0.1:${REDIS_PORTS[0]}/#
        s/shards=48/shards=4/
        s/-n 1e9/-n 20k/
        s/tail -n \+1 -f/cat/"
}

@test "a crawl fleet on a cluster" {
    local title='A crawl fleet on a Cluster' host
    start_server
    redis_cluster
    printf '#!/bin/sh\ncat >got\n' >bin/fetch
    chmod +x bin/fetch
    seq -f 'http://www.example.com/%.0f' 5000 >links
    for host in {1..4}; do
        mkdir "$host"
        shuffled links "$host" >"$host/found"
        (cd "$host" && on_cluster "$title" 1 || touch failed) 2>"$host/err" 3>&- &
    done
    finish
    cat ./?/err
    [ -z "$(find . -name failed)" ]
    alike <(sort ./?/got) <(sort links)
    (cat links; echo unknown) >seeds.txt
    on_cluster "$title" 2 >out
    cat out
    [ "$(head -n 1 out)" = 1 ]
    grep -Eq '^distinct keys +(49|50)' out
    # Each link is in the shard that seen-redis(7) says.
    for shard in {0..3}; do
        seen import "redis://127.0.0.1:${REDIS_PORTS[0]}/urls:{$shard}?layout=redisson" -o "urls.$shard.seen"
    done
    python3 -c 'import sys, zlib
files = [open("links.%d" % i, "wb") for i in range(4)]
for line in sys.stdin.buffer:
    files[zlib.crc32(line[:-1]) % 4].write(line)' <links
    for shard in {0..3}; do
        run -1 seen query -v "urls.$shard.seen" "links.$shard"
    done
}

@test "a nightly rebuild under a service" {
    local title='A nightly rebuild under a service'
    start_server
    printf '#!/bin/sh\n[ -e ids.gz ]\n' >bin/curl
    chmod +x bin/curl
    redis a SETBIT shop:seen 7 1
    redis a EXPIRE shop:seen 10000
    seq 1000 | gzip >ids.gz
    on_server "$title" 1
    redis a -D '' --raw GET shop:seen >got
    seen import --layout gozero:bits=20000 got -o got.seen
    [ "$(seq 2000 | seen query -c got.seen)" = 1000 ]
    seq 1000 | seen create --layout gozero:bits=20000 own.seen
    alike <(data got.seen) <(data own.seen)
    [ "$(redis a TTL shop:seen)" -gt 9000 ]
    # A list that is too short changes nothing.
    seq 10 | gzip >ids.gz
    run -2 on_server "$title" 1
    redis a -D '' --raw GET shop:seen | cmp - got
    # Nor does one that is not there.
    rm ids.gz
    run -1 on_server "$title" 1
    redis a -D '' --raw GET shop:seen | cmp - got
    [ "$(redis a DBSIZE)" = 1 ]
}

# reads, writes URI: all commands that do so.
reads()
{
    seen query "$1" keys >/dev/null && seen stats "$1" >/dev/null && seen import --force "$1" -o pulled.seen
}

writes()
{
    seen add "$1" keys && seen dedup "$1" keys && seen export --merge f.seen -o "$1" &&
        seen export f.seen -o "$1" && seen export --expire 1000 f.seen -o "$1"
}

@test "the commands that seen-redis(7) says a user of Redis needs" {
    local PAGE=seen-redis.7 title='PASSWORDS AND RIGHTS' of gozero redisson command
    start_server
    of="redis+unix://crawler@$REDIS_DIR/a/socket?db=1&key=urls"
    gozero="$of:g&layout=gozero:bits=20000"
    redisson="$of:r&layout=redisson"
    seq 100 >keys
    seen create --layout gozero:bits=20000 f.seen keys
    seen export f.seen -o "${gozero/crawler@/}"
    seen create --layout redisson -n 1000 r.seen keys
    seen export r.seen -o "${redisson/crawler@/}"
    export REDISCLI_AUTH=secret
    recipe "$title" 1 "s#^redis-cli#env -u REDISCLI_AUTH redis-cli -s $REDIS_DIR/a/socket#"
    reads "$gozero"
    reads "$redisson"
    for command in add dedup; do
        run -2 seen $command "$gozero" -k new
    done
    run -2 seen export f.seen -o "$gozero"
    recipe "$title" 2 "s#^redis-cli#env -u REDISCLI_AUTH redis-cli -s $REDIS_DIR/a/socket#"
    writes "$gozero"
    seen add --create "${gozero/urls:g/urls:m}" keys
    seen add --create -n 1000 "${redisson/urls:r/urls:m}&shards=2" keys
    cp r.seen f.seen
    writes "$redisson"
    seen export r.seen -o "${redisson/urls:r/urls:new}"
    # What is listed is what the sources send. AUTH needs no right; ASKING and WAIT are sent as text.
    sed -n "/^\.SH $title/,/^\.SH [^P]/p" "$SOURCE/man/$PAGE" | grep -oE '\+[a-z_]+(\.[a-z]+)?' |
        tr -d + | grep -vxE 'asking|wait' | sort >listed
    grep -rhoE '(requests_begin|_command|temporary)\(.*"[A-Z_.]{3,}".*' "$SOURCE"/src/{redis,store} |
        grep -oE '"[A-Z_.]{3,}"' | tr -d '"' | grep -vx AUTH | tr '[:upper:]' '[:lower:]' |
        sort -u >sent
    diff listed sent
}

@test "filters in Redis that forget" {
    local PAGE=seen-redis.7 title='FILTERS THAT FORGET' edit
    start_server
    edit="s#redis://[a-z.]+/([a-z:\$]+)\?#redis+unix://$REDIS_DIR/a/socket?key=\1\&#g; s/-n 100M/-n 1000/"
    # The days of the test: today is the first, and then the second of May.
    # shellcheck disable=SC2016 # for another shell
    printf '#!/bin/sh\n[ "$3" = yesterday ] && set -- "$(($(cat now) - 1))" || set -- "$(cat now)"\necho 2026-05-0$1\n' >bin/date
    chmod +x bin/date
    echo 1 >now
    printf '%s\n' a b >links
    recipe "$title" 1 "$edit" | cmp - links
    recipe "$title" 1 "$edit" >got
    [ ! -s got ]
    [ "$(redis a TTL urls:2026-05-01)" -gt 172700 ]
    echo 2 >now
    printf '%s\n' b c >links
    [ "$(recipe "$title" 1 "$edit")" = c ]
    echo 3 >now
    printf '%s\n' a b c >links
    [ "$(recipe "$title" 1 "$edit")" = $'a\nb' ]
    [ "$(redis a DBSIZE)" = 8 ] # four days, each with its configuration
}

# on_port COMMAND...: runs it with $port, one that is free. Ports lie below those that the kernel hands out.
on_port()
{
    for _ in {1..20}; do
        port=$((10000 + RANDOM % 9000))
        ! "$@" || return 0
    done
    return 1
}

on_tcp() { redis_start "$@" --port "$port" --bind 127.0.0.1; }
has_replica() { [[ $(redis one INFO replication) == *state=online* ]]; }
watches() { [[ $(redis-cli -p "$port" SENTINEL master mymaster) =~ num-slaves[[:space:]]1 ]]; }

start_sentinel()
{
    setpriv --pdeathsig KILL redis-server "$PWD/sentinel.conf" --sentinel --port "$port" >sentinel.log 2>&1 3>&- </dev/null &
    sentinel=$!
    disown "$sentinel"
    until [[ $(redis-cli -p "$port" PING 2>&1) = PONG ]]; do
        kill -0 "$sentinel" 2>/dev/null || return 1
        sleep 0.02
    done
}

@test "a sentinel names the master, before and after it fails" {
    local PAGE=seen-redis.7 title=SENTINEL port master sentinel at
    start_server
    on_port on_tcp one
    master=$port
    on_port on_tcp two --replicaof "127.0.0.1 $master" --repl-diskless-sync-delay 0
    eventually has_replica
    printf 'sentinel %s\n' "monitor mymaster 127.0.0.1 $master 1" 'down-after-milliseconds mymaster 300' \
        'failover-timeout mymaster 3000' >sentinel.conf
    on_port start_sentinel
    eventually watches
    at="s/-h [a-z.]+ -p 26379/-h 127.0.0.1 -p $port/"
    seq 100 >links
    recipe "$title" 1 "$at; s#dedup#dedup --create -n 1000 --wait 1#" | cmp - links
    redis_kill one
    seq 101 >links
    eventually recipe "$title" 1 "$at; s#links#links >>got#"
    [ "$(cat got)" = 101 ]
    kill "$sentinel"
}

# Each shard is a bitmap as go-zero makes it.
@test "the shards of seen-redis(7): its examples, and where its test vectors go" {
    local key shard other
    start_server
    PYTHONDONTWRITEBYTECODE=1 python3 "$SOURCE/tests/lib/examples.py" "$SOURCE/man/seen-redis.7"
    for other in {0..11}; do
        redis a SETBIT "urls:{$other}" 19999 0 >/dev/null
    done
    while read -r key shard; do
        [ "$key" != - ] || key=
        grep -qF -- "shard $shard" "$SOURCE/man/seen-redis.7"
        seen create --force --layout gozero:bits=20000 f.seen -k "$key"
        seen export --pad f.seen -o bits --force
        seen add "redis+unix://$REDIS_DIR/a/socket?key=urls&layout=gozero:bits=20000&shards=12" \
            -k "$key"
        cmp <(redis a -D '' --raw GET "urls:{$shard}") bits
        redis a DEL "urls:{$shard}" >/dev/null
        redis a SETBIT "urls:{$shard}" 19999 0 >/dev/null
        for other in {0..11}; do
            [ "$(redis a BITCOUNT "urls:{$other}")" = 0 ]
        done
    done <<'END'
123456789 2
http://www.example.com/ 7
- 0
END
}

# In place of the module: its replies, cut at its links and within them.
@test "a RedisBloom dump" {
    cp "$vectors/redisbloom/rb_scale_e05_n100.header" dump.header
    cp "$vectors/redisbloom/rb_scale_e05_n100.data" dump.data
    own_bin
    cat >bin/redis-cli <<'PYTHON'
#!/usr/bin/env python3
import re, sys
words = " ".join(sys.argv[1:])
ends = [96, 200, 328, 864, 1000, 2072]
assert "BF.SCANDUMP" in words
at = int(sys.argv[-1])
end = next((end for end in ends if end > at - 1), None)
if re.search(r"\[1\]\" ?|\)\[1\]", words):
    reply = b"1" if at == 0 else b"%d" % (end + 1 if end else 0)
else:
    data = open("dump.header" if at == 0 else "dump.data", "rb").read()
    reply = data if at == 0 else data[at - 1:end] if end else b""
sys.stdout.buffer.write(reply)
PYTHON
    chmod +x bin/redis-cli
    recipe 'A RedisBloom dump' 1
    cmp visits.header dump.header
    cmp visits.data dump.data
}

@test "no records lost to false positives" {
    seq 1 5000 >known.txt
    seen create -n 5000 -p 0.3 urls.seen known.txt
    links() { shuffled <(seq 4001 7000; seq 6001 6500); }
    export -f links shuffled
    recipe 'No records lost to false positives' 1
    alike <(sort new.txt) <(seq 5001 7000 | sort)
    cmp known.txt <(seq 7000 | LC_ALL=C sort)
    [ "$(seen query -c urls.seen known.txt)" = 7000 ]
}

# crontabs FILE: the crontab lines of the README or of a manual page, with those that set variables.
crontabs()
{
    sed -E "s/\\\\\(aq/'/g; s/\\\\-/-/g; s/\\\\e/\\\\/g" "$1" | grep -E '^(PATH=|[0-9*]+( [0-9*]+){4} )'
}

# as_cron FILE: runs each job of a crontab as cron does: by sh, with the variables that are set above
# it and nothing else. /usr/local/bin, /srv and /var/lib/prometheus are directories here.
as_cron()
{
    local line path=/usr/bin:/bin
    # In one go: this directory may itself be below one of them.
    while IFS= read -r line; do
        line=${line/--min-keys 1M/--min-keys 900} # as many as the lists here have
        case $line in
            PATH=*) path=${line#PATH=} ;;
            *) env -i HOME="$PWD" LOGNAME=me SHELL=/bin/sh PATH="$path" sh -c "${line#* * * * * }" ||
                return ;;
        esac
    done < <(sed -E "s,/(usr/local/(bin)|(srv)|var/lib/(prometheus))\\b,$PWD/\\2\\3\\4,g" "$1")
}

# cron_place: those directories; seen and curl in bin, and curl alone in srv/curl.
cron_place()
{
    mkdir -p bin srv/curl prometheus/node-exporter
    ln -s "$SEEN" bin/seen
    # Ends with the status of a transfer that broke off, if asked to.
    # shellcheck disable=SC2016 # for another shell
    printf '#!/bin/sh\nseq ${LIST:-1000} | gzip >list.gz; exit $BROKEN\n' >bin/curl
    chmod +x bin/curl
    ln -s ../../bin/curl srv/curl/curl
}

@test "a job of cron fails where its PATH lacks the directory of seen" {
    [ ! -x /usr/bin/seen ] || skip 'cron finds /usr/bin/seen, which a package has installed'
    cron_place
    for page in README.md man/seen.7 man/seen-create.1; do
        crontabs "$SOURCE/$page" >tab
        run -127 as_cron <(echo "PATH=/srv/curl:/usr/bin:/bin"; grep -m 1 -E '\*  seen|curl' tab)
    done
}

@test "crontab lines run with the environment that cron gives" {
    cron_place
    for page in README.md man/seen.7 man/seen-create.1; do
        echo "$page"
        rm -rf srv/*
        seen create --generations 7 -n 7000 --empty srv/week.seen
        crontabs "$SOURCE/$page" >tab
        if grep -q blocked/job tab; then
            mkdir -p "srv/blocked/done"
            seq 100 >srv/blocked/20.remove
            seq 200 | seen create --counted -p 0 srv/blocked/master.seen
            recipe_script 'A block list that changes every hour' 2 "s,/srv,$PWD/srv,"
            install script srv/blocked/job
        fi
        cat tab
        grep -q ' seen ' tab
        # Each page says where seen is before it uses it.
        [[ $(head -n 1 tab) == PATH=* ]]
        as_cron tab
        if grep -q rotate tab; then
            seen stats --json srv/week.seen | jq -e '[.layers[].generation] | max == 9'
        fi
        if grep -q prometheus tab; then
            grep -q '^seen_filter_readable{file=".*/week.seen"} 1$' prometheus/node-exporter/seen.prom
        fi
        if grep -q ship.seen tab; then
            equal "$(seq 200 | seen query srv/blocked/ship.seen)" "$(seq 101 200)"
        fi
        if grep -q list.seen tab; then
            [ "$(seq 1000 | seen query -c srv/list.seen)" = 1000 ]
            cp srv/list.seen before
            { grep ^PATH tab; echo "0 4 * * *  export LIST=1010 BROKEN=18; $(grep -m 1 curl tab | cut -d ' ' -f 7-)"; } >broken
            run -18 as_cron broken
            cmp srv/list.seen before
        fi
    done
}

@test "a sliding week: a file for each day" {
    own_bin
    printf '#!/bin/sh\ncat links\n' >bin/links
    chmod +x bin/links
    seq 100 >links
    recipe 'A sliding week' 4 | cmp - links
    recipe 'A sliding week' 4 | cmp - /dev/null
    # The days before are asked, but for those that are more than a week old.
    mv "day-$(date +%F).seen" day-2000-01-01.seen
    touch -d '6 days ago' day-2000-01-01.seen
    seq 90 110 >links
    recipe 'A sliding week' 4 | cmp - <(seq 101 110)
    touch -d '9 days ago' day-2000-01-01.seen
    recipe 'A sliding week' 4 | cmp - <(seq 90 100)
    [ ! -e day-2000-01-01.seen ]
}

@test "a crawler: the step before it, beside a writer, after a kill, and when nothing is to be done" {
    local step='A crawler'
    quiet recipe "$step" 2
    mkfifo found
    seen dedup --create urls.seen <found >got 3>&- &
    writer=$!
    exec 8>found
    echo http://example.org/ >&8
    until_present urls.seen http://example.org/ $writer
    # Beside a process that writes, it disturbs nothing.
    run -0 recipe "$step" 2
    kill -KILL $writer
    exec 8>&-
    wait $writer || status=$?
    [ "$status" = 137 ]
    # Without it, too, the next run goes on, says once that keys may be missing, and the file is clean.
    echo http://example.com/ | seen dedup urls.seen >got 2>warning
    grep -q 'a process was killed' warning
    [ "$(state urls.seen)" = clean ]
    echo http://example.net/ | quiet seen dedup -q urls.seen
    quiet seen query -q urls.seen -k http://example.org/
    quiet seen query -q urls.seen -k http://example.com/
    before=$(digest urls.seen)
    recipe "$step" 2
    [ "$(digest urls.seen)" = "$before" ]
}
