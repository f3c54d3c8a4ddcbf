#!/usr/bin/env bats
# The recipes of seen(7) for other programs do what they say.

load helpers

vectors=$SOURCE/tests/vectors

# recipe TITLE N: example number N of that section of seen(7).
recipe()
{
    awk -v title=".SS $1" -v n="$2" '
        /^\.S[SH]/ { here = $0 == title }
        /^\.EE/ { inside = 0 }
        inside { print }
        here && /^\.EX/ { inside = ++count == n }' "$SOURCE/man/seen.7" |
        sed -E "s/\\\\\(aq/'/g; s/\\\\-/-/g; s/\\\\e/\\\\/g" >script
    [ -s script ]
    bash script
}

# A redis-server, and a redis-cli that talks to it.
start_redis()
{
    command -v redis-server >/dev/null || skip 'redis-server is not installed'
    real=$(command -v redis-cli) || skip 'redis-cli is not installed'
    redis-server --port 0 --unixsocket "$PWD/socket" --save '' --appendonly no --dir "$PWD" \
        >/dev/null 3>&- &
    server=$!
    await "$server" test -S socket
    mkdir bin
    printf '#!/bin/sh\nexec "%s" -s "%s/socket" "$@"\n' "$real" "$PWD" >bin/redis-cli
    chmod +x bin/redis-cli
    PATH=$PWD/bin:$PATH
    redis-cli --help 2>&1 | grep -q -- ' -D ' || skip 'redis-cli is older than 7.0'
}

teardown()
{
    [ -z "${server-}" ] || { kill "$server"; wait "$server" || true; }
}

@test "leave Guava" {
    cp "$vectors/guava/g64_bytes_n1000_p01.guava" links.guava
    chmod u+w links.guava
    printf '%s\n' http://www.example.com/ http://new.example.com/ >today.txt
    recipe 'Leave Guava' 1
    [ "$(cat new.txt)" = http://new.example.com/ ]
    seen import --layout guava links.guava -o again.seen
    seen query -q again.seen today.txt
    [ "$(seen query -c again.seen today.txt)" = 2 ]
}

@test "fill a go-zero filter by cron" {
    start_redis
    printf '#!/bin/sh\ncat ids.gz\n' >bin/curl
    chmod +x bin/curl
    seq 1000 | gzip >ids.gz
    recipe 'Fill a go\\-zero filter by cron' 1
    redis-cli -D '' --raw GET shop:seen >got
    seen import --layout gozero:bits=20000000 got -o got.seen
    [ "$(seq 2000 | seen query -c got.seen)" = 1000 ]
    [ "$(redis-cli EXISTS shop:new)" = 0 ]
    # A list that is too short changes nothing.
    seq 10 | gzip >ids.gz
    run -2 recipe 'Fill a go\\-zero filter by cron' 1
    redis-cli -D '' --raw GET shop:seen | cmp - got
}

@test "extend the bitmap of the PHP class" {
    start_redis
    sed 's/.*/SETBIT bloom:phones & 1/' "$vectors/php/ph_dek.bits" |
        head -n 100 | redis-cli >/dev/null
    seq 1000 1010 >phones.txt
    recipe 'Extend the bitmap of the PHP class' 1
    redis-cli -D '' --raw GET bloom:phones >got
    seen import --layout php got -o got.seen
    [ "$(seen query -c got.seen phones.txt)" = 11 ]
    seen export got.seen -o got.bits
    head -n 100 "$vectors/php/ph_dek.bits" | LC_ALL=C sort | LC_ALL=C comm -23 - \
        <(LC_ALL=C sort got.bits) | { ! grep -q .; }
    cmp got.bits new.bits
}

# In place of the module: its replies, cut at its links and within them.
@test "audit a RedisBloom dump, and load it" {
    cp "$vectors/redisbloom/rb_scale_e05_n100.header" dump.header
    cp "$vectors/redisbloom/rb_scale_e05_n100.data" dump.data
    mkdir bin
    cat >bin/redis-cli <<'PYTHON'
#!/usr/bin/env python3
import os, re, sys
words = " ".join(sys.argv[1:])
ends = [96, 200, 328, 864, 1000, 2072]
if "BF.SCANDUMP" in words:
    at = int(sys.argv[-1])
    end = next((end for end in ends if end > at - 1), None)
    if re.search(r"\[1\]\" ?|\)\[1\]", words):
        reply = b"1" if at == 0 else b"%d" % (end + 1 if end else 0)
    else:
        data = open("dump.header" if at == 0 else "dump.data", "rb").read()
        reply = data if at == 0 else data[at - 1:end] if end else b""
    sys.stdout.buffer.write(reply)
elif "BF.LOADCHUNK" in words:
    after, data = int(sys.argv[-1]), sys.stdin.buffer.read()
    name = "loaded.header" if after == 1 else "loaded.data"
    open(name, "ab").write(data)
    assert after == 1 or os.path.getsize(name) == after - 1
PYTHON
    chmod +x bin/redis-cli
    PATH=$PWD/bin:$PATH
    recipe 'Audit a RedisBloom dump' 1
    cmp visits.header dump.header
    cmp visits.data dump.data
    recipe 'Audit a RedisBloom dump' 2 >stats
    grep -q '^measured FPR' stats
    recipe 'Audit a RedisBloom dump' 3
    cmp loaded.header dump.header
    cmp loaded.data dump.data
}

@test "read a list that is distributed as a bloom file" {
    cp "$vectors/dcso/dc_n1000_p01.bloom.gz" feed.bloom.gz
    printf '%s\n' 'a b c d e f http://www.example.com/ h' 'a b c d e f g h' >access.log
    [ "$(recipe "Read a list that is distributed as a bloom file" 1)" = http://www.example.com/ ]
}

@test "a Bloom filter for a Parquet column" {
    printf '%s\n' shanghai beijing >values.txt
    recipe 'A Bloom filter for a Parquet column' 1
    { printf PAR1; cat column.sbbf; printf rest; } >data.parquet
    rm column.seen
    offset=4 length=$(size column.sbbf)
    export offset length
    [ "$(recipe 'A Bloom filter for a Parquet column' 2)" = shanghai ]
}
