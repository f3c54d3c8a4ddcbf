#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# seen(5) is enough: a reader written from that page alone agrees with the program.
# tags: repeating slow

load ../lib/helpers

# agree FILTER FILE: reader and program select the same records of FILE, some but not all, and the reader finds
# nothing wrong. The reader is asked behind the test, about all filters as they are now, for it takes long to begin.
agree()
{
    agreed=$((agreed + 1))
    seen query "$1" "$2" >ours
    [ "$(wc -l <ours)" -gt 0 ]
    [ "$(wc -l <ours)" -lt "$(wc -l <"$2")" ]
    cp "$1" "agreed.$agreed"
    cp "$2" "asked.$agreed"
    cp ours "ours.$agreed"
}

agreed=0

teardown()
{
    cd "$BATS_TEST_TMPDIR" || return
    PYTHONDONTWRITEBYTECODE=1 python3 - "$SOURCE" "$agreed" <<'PYTHON'
import sys
sys.path.insert(0, sys.argv[1] + "/tests/lib")
from reader import Filter
for n in range(1, int(sys.argv[2]) + 1):
    seen = Filter("agreed.%d" % n)
    with open("asked.%d" % n, "rb") as asked, open("ours.%d" % n, "rb") as ours:
        theirs = [record for record in asked if record.removesuffix(b"\n") in seen]
        assert theirs == ours.readlines(), "filter %d of agree" % n
    seen.verify()
PYTHON
}

# Keys of every length up to 300 bytes, for each way in which the hash treats a length, twice over:
# every other one goes into the filter.
keys_of_all_lengths()
{
    awk 'BEGIN { for (i = 1; i <= 300; i++) {
        s = ""
        for (j = 0; j < i; j++)
            s = s sprintf("%c", 33 + (i * 7 + j * j * 13) % 94)
        print s; print substr(s, 2) "~" } }'
}

# undump NAME: makes the file that seen(5) shows under that name.
undump()
{
    sed -n "/vectors: $1/,/^\.EE/p" "$SOURCE/man/seen.5" | grep -v '^\.' >dump
    # A line with an asterisk stands for lines like the one before; slot B, like A, is left out.
    python3 - "$1" <<'PYTHON'
import sys
out, repeat, last = b"", False, b""
for line in open("dump"):
    if line == "*\n":
        repeat = True
        continue
    at, *row = line.split()
    if at == "002000" and len(out) == 0x1000:
        out += out
    while repeat and len(out) < int(at, 16):
        out += last
    assert len(out) == int(at, 16), line
    repeat, last = False, bytes.fromhex("".join(row))
    out += last
open(sys.argv[1], "wb").write(out)
PYTHON
}

@test "the files that seen(5) shows are read as the page says" {
    undump fruit.seen
    [ "$(size fruit.seen)" = 24576 ]
    printf '%s\n' apple apples banana '' cherry date >asked
    reader verify fruit.seen
    reader query fruit.seen <asked >got
    printf '%s\n' apple banana cherry | diff - got
    seen query fruit.seen asked | diff - got

    undump numbers.seen
    seq 1000 >asked
    reader verify numbers.seen
    reader query numbers.seen <asked >got
    seq 20 | diff - <(head -n 20 got)
    # At 1 % there should be 10 others among 980; more than 30 is 7 standard deviations away.
    [ "$(wc -l <got)" -lt 50 ]
    seen query numbers.seen asked | diff - got
}

@test "the lines and probes that seen(5) gives are those the reader finds" {
    sed -n '/^\.SS Lines and probes/,/^\.EE/p' "$SOURCE/man/seen.5" >vector
    grep -q '^h  ' vector
    PYTHONDONTWRITEBYTECODE=1 python3 - "$SOURCE" <<'PYTHON'
import re, sys
sys.path.insert(0, sys.argv[1] + "/tests/lib")
from reader import Bloom, xxh3
text = open("vector").read()
class Shape:
    geometry, length = (1000, 8, 2, 0), 4096000
h = xxh3(b"apple", 0)
page, bits = Bloom(Shape, False).where(h)
assert int(re.search(r"\nh +0x(\w+)", text)[1], 16) == h
assert int(re.search(r"\npage +(\d+)", text)[1]) == page
got = " ".join(str(bit) for line, bit in bits[:4]) + " in line %d, " % bits[0][0]
got += " ".join(str(bit) for line, bit in bits[4:]) + " in line %d" % bits[7][0]
assert len({line for line, bit in bits[:4]}) == len({line for line, bit in bits[4:]}) == 1
assert re.search(r"\nprobes +(.*)", text)[1] == got, got
PYTHON
}

@test "the positions that seen(5) gives are those the reader finds" {
    sed -n '/vectors: positions/,/^\.EE/p' "$SOURCE/man/seen.5" | grep -E '^ ' >vector
    PYTHONDONTWRITEBYTECODE=1 python3 - "$SOURCE" <<'PYTHON'
import re, struct, sys
sys.path.insert(0, sys.argv[1] + "/tests/lib")
from reader import HASHES, KINDS
rows = [line.split() for line in re.sub("\n {8}", " ", open("vector").read()).splitlines()]
assert {int(row[0]) for row in rows} == set(KINDS) - {1, 2, 3}
for kind, function, seed, m, k, v, *wanted in rows:
    kind, m, k, v = KINDS[int(kind)], int(m), int(k), int(v)
    class Shape:
        geometry, length = (m, k | v << 16, 0, 0), (m + 63) // 64 * 8
    if kind is KINDS[20]:
        Shape.geometry = Shape.geometry[:3] + struct.unpack("<Q", struct.pack("<d", 6.0))
    lanes = HASHES[int(function)][1](b"apple", int(seed, 16))
    got = kind(Shape, False).positions(lanes)
    assert [int(w) for w in wanted] == list(got), (kind, got)
PYTHON
}

# imported SPEC FILE [KEYS ABSENT]: of tests/vectors. Its filter is read by both.
imported()
{
    local vectors=$SOURCE/tests/vectors
    seen import --force --layout "$1" "$vectors/$2" -o f.seen
    cat "$vectors/keys/${3-keys}.txt" "$vectors/keys/${4-absent}.txt" >asked
    agree f.seen asked
}

@test "filters of other programs" {
    imported guava:funnel=bytes guava/g64_bytes_n1000_p01.guava
    imported guava:funnel=bytes guava/g32_bytes_n1000_p01.guava
    imported guava:funnel=utf16 guava/g64_utf16_n1000_p05.guava
    imported guava:funnel=long guava/g64_long_n1000_p02.guava longs longs_absent
    imported guava guavaser/gj_utf8_n1000_p02.ser ../keys2/keys ../keys2/absent
    imported gozero:bits=13007 gozero/gz_bits13007.bitmap
    imported redisson:bits=9585,k=7 redisson/rs_string_n1000_p01.bitmap
    imported redisson:codec=kryo5,bits=6235,k=4 redisson/rs_kryo5_n1000_p05.bitmap
    imported dcso dcso/dc_n1000_p01.bloom
    imported dcso dcso/dc_n1000_p01.bloom.gz
    imported dcso dcso/dc_data.bloom
    imported bitsandblooms bitsandblooms/bb_json_n1000_p1.json ../keys2/keys ../keys2/absent
    imported bitsandblooms bitsandblooms/bb_fromwithm_m9001_k5.bloom ../keys2/keys ../keys2/absent
    imported spark spark/sp1_str_n1000_p03.spark ../keys2/keys ../keys2/absent
    imported spark:type=long spark/sp1_long_n1000_p05.spark ../keys2/longs ../keys2/longs_absent
    imported spark spark/sp2_str_n1000_p03.spark ../keys2/keys ../keys2/absent
}

@test "chains of RedisBloom of every form" {
    for name in rb_scale_e05_n100 rb_ns_e01_n1000 rb_pow2_force64 rb_pow2_hash32 \
        rb_noround_hash32 rb_entsbits_force64 rb_old203_e02_n150 rb_old224_e02_n150; do
        imported redisbloom "redisbloom/$name"
    done
}

# Its pages are too many for this reader to check them all.
@test "filters of the PHP class, with all of its functions" {
    functions=BKDRHash+SDBMHash+JSHash+PJWHash+ELFHash+DJBHash+DEKHash+FNVHash
    seen import --layout php:functions=$functions "$SOURCE/tests/vectors/php/ph_8.bits" -o f.seen
    head -n 300 "$SOURCE/tests/vectors/keys/keys.txt" >asked
    seq 100 >>asked
    seen query f.seen asked >ours
    [ "$(wc -l <ours)" -ge 300 ]
    [ "$(wc -l <ours)" -lt 310 ]
    reader query f.seen <asked | cmp - ours
}

@test "one line a key and two, few probes and many" {
    seq 1 4000 >asked
    seq 1 2 4000 >keys
    for p in 0.5 0.01 1e-3 9e-4 1e-6 1e-9; do
        rm -f f.seen
        seen create -p "$p" f.seen keys
        agree f.seen asked
    done
}

@test "compact filters: one table and several, one partition and many, of any rate" {
    for n in 1 30 3000; do
        seq 1 2 "$((2 * n))" >keys
        seq 1 "$((n < 1000 ? 1000 : 2 * n))" >asked
        for p in 0.3 0.01 1e-6 1e-9; do
            rm -f f.seen
            seen create --compact -p "$p" f.seen keys
            agree f.seen asked
        done
    done
    rm f.seen
    # Above 2^19 keys there are two partitions or more.
    seq 600000 | seen create --compact -p 0.01 f.seen
    seq 599001 601000 >asked
    seen query f.seen asked >ours
    reader query f.seen <asked | cmp - ours
    [ "$(wc -l <ours)" -ge 1000 ]
    [ "$(wc -l <ours)" -lt 1100 ]
}

@test "counted sets: of one block and of many, of any rate" {
    for n in 1 30 3000; do
        seq 1 2 "$((2 * n))" >keys
        seq 1 "$((n < 1000 ? 1000 : 2 * n))" >asked
        for p in 0.3 0.01 1e-6 0; do
            [[ $n != 3000 || $p == 0.01 || -n ${FULL-} ]] || continue
            rm -f f.seen
            seen create --counted -p "$p" f.seen keys
            agree f.seen asked
            seen query --show-counts f.seen asked | diff - <(reader counts f.seen <asked)
        done
    done
}

@test "filters of several layers: growing ones and rings" {
    seq 1 5000 >asked
    seq 1 2 5000 | seen dedup --create -p 1e-3 grown.seen >printed
    [ "$(wc -l <printed)" -gt 2400 ]
    agree grown.seen asked
    seen create --generations 3 -n 900 --empty ring.seen
    for start in 1 501 1001 1501 2001; do
        seq "$start" "$((start + 299))" | seen add ring.seen
        agree ring.seen asked
        seen rotate ring.seen
    done
    # The oldest have been forgotten.
    [ "$(reader query ring.seen < <(seq 300) | wc -l)" -lt 20 ]
}

@test "keys of every length" {
    keys_of_all_lengths >asked
    [ "$(wc -l <asked)" = 600 ]
    sed -n 'n;p' asked | seen create -p 1e-6 f.seen
    agree f.seen asked
    [ "$(wc -l <ours)" -ge 300 ]
}

@test "many pages, and keys added later" {
    seq 1 20000 | seen create -n 60k -p 1e-3 f.seen
    seq 20001 2 24000 | seen add f.seen
    seq 19001 26000 >asked
    agree f.seen asked
}

@test "trimmed, folded and hexadecimal keys" {
    printf '%s\n' 'Abc' $' \tdef' 'GHI ' $'x y\t' 'ÄÖ' >keys
    printf '%s\n' abc ABC def '  DEF' ghi 'X Y' 'x  y' xy 'äö' 'ÄÖ' nothing >asked
    for prep in '--trim' '-i' '--trim -i'; do
        rm -f f.seen
        # shellcheck disable=SC2086 # options
        seen create -p 1e-6 $prep f.seen keys
        agree f.seen asked
    done
    printf '%s\n' 00ff ABCDEF 12345678 >keys
    printf '%s\n' 00FF 00fe abcdef AbCdEf 1234567a ' 12345678' >asked
    seen create -p 1e-6 --trim --hex h.seen keys
    agree h.seen asked
    [ "$(wc -l <ours)" = 4 ]
}

@test "encoded keys" {
    long=$(printf 'abcdefgh%.0s' {1..8})
    printf '%s\n' '' a é 😀 ab aé "${long:0:32}" "${long:0:33}" "${long:0:62}" "${long:0:63}" \
        "${long:0:30}😀é" "$(keys_of_all_lengths | tail -n 1)😀" \
        $'\b\t\f\r"\\/\x01\x1f\x7f' $'\U10ffff\uffff' >text
    printf '%s\n' 0 +7 -8 0063 64 -65 8191 8192 2147483647 -2147483648 >int32
    printf '%s\n' -0 2147483648 -2147483649 9223372036854775807 -9223372036854775808 \
        4611686018427387904 -36028797018963969 | cat int32 - >int64
    for number in {1..11}; do
        case $number in
            3 | 6 | 10) of=int32 other=$'12\n-1234567' ;;
            4 | 5 | 9) of=int64 other=$'12\n-1234567' ;;
            *) of=text other=$'b\nÄ' ;;
        esac
        encoded f.seen "$number"
        seen add f.seen "$of"
        { cat "$of"; echo "$other"; } >asked
        agree f.seen asked
        cmp "$of" ours
    done
    # After all other preparation.
    encoded f.seen 2 --trim -i
    seen add f.seen -k ' AÉ' -k b
    printf '%s\n' aÉ "AÉ " aé B >asked
    agree f.seen asked
    encoded f.seen 5 --hex
    seen add f.seen -k 2b30
    printf '%s\n' 30 2d3030 2B30 31 >asked
    agree f.seen asked
}

@test "keys by their digests" {
    [[ $(seen --version) == *'digests: libmd'* ]] || skip 'built without libmd'
    printf '%s\n' '' password ' Letmein' 'pass wörd' 😀 "$(printf 'é%.0s' {1..200})" \
        "$(keys_of_all_lengths | tail -n 1)" >keys
    { cat keys; printf '%s\n' PASSWORD letmein 'pass word' 😁; } >asked
    for digest in sha1 sha256 md5 ntlm; do
        for prep in '' '--trim -i'; do
            # shellcheck disable=SC2086 # options
            seen create --force -p 1e-6 --digest $digest $prep f.seen keys
            agree f.seen asked
        done
    done
}

@test "in a file that is not clean, only marked pages are read without their checksums" {
    seq 1 2 1000 | seen create f.seen
    seq 1 1000 >asked
    for mark in 1 0; do
        cp f.seen "$mark.seen"
        PYTHONDONTWRITEBYTECODE=1 python3 - "$SOURCE" "$mark" <<'PYTHON'
import struct, sys
sys.path.insert(0, sys.argv[1] + "/tests/lib")
from reader import PAGE, xxh3
path = sys.argv[2] + ".seen"
data = bytearray(open(path, "rb").read())
for slot in (0, PAGE):
    struct.pack_into("<I", data, slot + 40, 2)
    struct.pack_into("<Q", data, slot + PAGE - 8, xxh3(bytes(data[slot:slot + PAGE - 8]), 0))
data[3 * PAGE] ^= 1
data[4 * PAGE] = int(sys.argv[2])
data[2 * PAGE + 12] = 1
open(path, "wb").write(data)
PYTHON
    done
    seen query 1.seen asked >ours 2>warning
    grep -q "'1.seen'" warning
    reader query 1.seen <asked | cmp - ours
    [ "$(wc -l <ours)" -ge 500 ]
    run -2 seen query 0.seen asked
    [[ $output == *"'0.seen' is damaged: page 0 of layer 0"* ]]
    run -2 reader query 0.seen <asked
}

@test "the reader notices damage" {
    seq 1 1000 | seen create -p 0.001 f.seen
    data=$(($(size f.seen) - 4096))
    reader verify f.seen
    for at in 4096 "$data" $((data - 8192)); do
        cp f.seen g.seen
        poke g.seen "$at" "$(printf %02x $((0x$(peek f.seen "$at" 1) ^ 0x10)))"
        if [ "$at" = 4096 ]; then
            # The other slot of the header does.
            reader verify g.seen
            continue
        fi
        run -2 reader verify g.seen
        [[ $output == *checksum* ]]
        run -2 seen verify g.seen
    done
    head -c 20000 f.seen >g.seen
    run -2 reader verify g.seen
}

@test "the header says which hash function a filter has, and every command follows it" {
    keys_of_all_lengths >keys
    awk 'NR % 2' keys >half
    seen create --empty -n 2000 f.seen
    forge f.seen hash=2 seed=0x123456789abcdef0
    seen add f.seen half
    agree f.seen keys
    run -1 seen query -v f.seen half
    [ -z "$output" ]
    seen verify f.seen
    [ "$(seen stats f.seen --json | jq -r .hash)" = murmur3-128 ]
    [ "$(seq -f 'other %.0f' 100000 | seen query -c f.seen || true)" -lt 1000 ]
    seen dedup f.seen keys >new
    awk 'NR % 2 == 0' keys | diff - new
    run -1 seen query -v f.seen keys
    [ -z "$output" ]
    # Other filters of that function: made at once, united, and together with one that has none.
    seen create --like f.seen g.seen half
    agree g.seen keys
    seen merge -o both.seen f.seen g.seen
    { cat keys; seq 1000; } >asked
    agree both.seen asked
    seen create --like f.seen --empty h.seen
    forge h.seen hash=1
    run -2 --separate-stderr seen merge -o both.seen f.seen h.seen --force
    [[ $stderr == *"hash function"* ]]
}
