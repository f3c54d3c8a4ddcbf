#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The file format as users meet it: what the manual says, damage, truncation, newer versions.

load ../lib/helpers

DATA=$((5 * 4096)) # of a filter of at most 1024 pages: 3 pages of header, 1 of sums, 1 touched

make_filter()
{
    seq 100 >keys
    quiet seen create -n 20000 -p 0.01 f.seen keys
}

# Damages copies of f.seen and asks each for the 100 keys. The only endings allowed: one line on
# stderr that names the file, nothing on stdout and status 2; or all 100 found and status 0, with no
# more than warnings on stderr. The last argument is a Python expression for the list of damages; a
# damage is what to do with `data`, the bytes of the file.
each_damage()
{
    python3 - "$@" <<'PYTHON'
import os, subprocess, sys
whole, keys = open("f.seen", "rb").read(), open("keys", "rb").read()
allowed, damages = sys.argv[1].split(), eval(sys.argv[2])

def flip(data, *offsets):
    for at in offsets:
        data[at] ^= 0x55
    return data

# A process each, which takes long under a sanitizer.
if os.environ.get("SANITIZER") and not os.environ.get("FULL"):
    damages = damages[::5]
bad = 0
for damage in damages:
    data = bytearray(whole)
    data = data[:damage] if isinstance(damage, int) else flip(data, *damage)
    with open("damaged.seen", "wb") as out:
        out.write(data)
    run = subprocess.run([os.environ["SEEN"], "query", "damaged.seen", "keys"],
                         capture_output=True, timeout=int(os.environ["PATIENCE"]))
    lines = run.stderr.decode(errors="replace").splitlines()
    if run.returncode == 0:
        how = "answered" if run.stdout == keys else "wrong"
        if any(not line.startswith("seen: warning: ") for line in lines):
            how = "wrong"
    elif run.returncode == 2 and not run.stdout and len(lines) == 1 and "'damaged.seen'" in lines[0]:
        how = "refused"
    else:
        how = "wrong"
    if how not in allowed:
        bad += 1
        if bad <= 3:
            print(damage, how, run.returncode, run.stdout, run.stderr)
if not damages or bad:
    print(len(damages), "damages,", bad, "of them end as they must not")
    sys.exit(1)
PYTHON
}

@test "the file in seen(5) is, byte for byte, the one that is made" {
    printf 'apple\ncherry\nbanana\n' |
        seen create --fixed --reproducible -n 1500 -p 1e-4 fruit.seen
    # Slot B equals slot A, and the page leaves it out.
    alike <(head -c 4096 fruit.seen) <(tail -c +4097 fruit.seen | head -c 4096)
    od -A x -t x4 --endian=big fruit.seen | sed '/^001000/,/^001ff0/d' >made
    sed -n '/vectors: fruit.seen/,/^\.EE/p' "$SOURCE/man/seen.5" | grep -v '^\.' >manual
    [ -s manual ]
    diff -u manual made
}

@test "so is the compact one" {
    seq 20 | seen create --compact --reproducible -p 0.01 numbers.seen
    od -A x -t x4 --endian=big numbers.seen >made
    sed -n '/vectors: numbers.seen/,/^\.EE/p' "$SOURCE/man/seen.5" | grep -v '^\.' >manual
    [ -s manual ]
    diff -u manual made
}

@test "so is the counted one" {
    seq 20 | seen create --counted --reproducible -p 0.01 twenty.seen
    od -A x -t x4 --endian=big twenty.seen >made
    sed -n '/vectors: twenty.seen/,/^\.EE/p' "$SOURCE/man/seen.5" | grep -v '^\.' >manual
    [ -s manual ]
    diff -u manual made
}

@test "the counts in seen(5) are read by a second implementation" {
    PYTHONDONTWRITEBYTECODE=1 python3 - "$SOURCE" <<'PYTHON'
import re, sys, types
sys.path.insert(0, sys.argv[1] + "/tests/lib")
from reader import Bits, Counted
text = open(sys.argv[1] + "/man/seen.5").read()
rows = re.search(r"vectors: counts\n.*\n((?:.*\n)+?)\.EE", text).group(1).splitlines()
marks = bytes.fromhex("f4f6" + 14 * "ff" + "7f")
assert len(rows) >= 4
for row in rows:
    counts, k, line, rest = re.split(r"  +", row)
    counts = [int(count) for count in counts.split()]
    data = bytes.fromhex(line) + marks + bytes.fromhex(rest) + bytes(16)
    layer = types.SimpleNamespace(length=len(data), geometry=(10, 7, 5, sum(counts)))
    kind = Counted(layer, True)
    def read(at, length):
        return data[at:at + length]
    kind.verify(read)
    assert kind.block(0, read) == dict(zip((3, 4, 130, 700, 999), counts)), row
    if k != r"\-":
        bits = Bits(data[8:])
        bits.at = 128 + 5 + 5 * 7
        assert bits.take(8) == int(k), row
PYTHON
}

@test "the hashes in seen(5) are those of a second implementation" {
    PYTHONDONTWRITEBYTECODE=1 python3 - "$SOURCE" <<'PYTHON'
import re, struct, sys
sys.path.insert(0, sys.argv[1] + "/tests/lib")
from reader import derive, murmur3_lanes, siphash, xxh3
text = open(sys.argv[1] + "/man/seen.5").read()

def vectors(of):
    rows = re.search(r"vectors: %s\n.*\n((?:.*\n)+?)\.EE" % of, text).group(1).splitlines()
    for row in rows:
        what, length, *hashes = re.fullmatch(r"(.*?) +(\d+)  (\w{16})  (\w{16})", row).groups()
        if what == "(none)":
            key = b""
        elif what[0] == '"':
            key = what[1:-1].encode()
        else:
            first, last = (what.split(" to ") * 2)[0], what.split(" to ")[-1]
            key = bytes(range(int(first, 16), int(last, 16) + 1))
        assert len(key) == int(length), row
        yield key, tuple(int(h, 16) for h in hashes)

seed = 0x123456789abcdef0
of_xxh3 = list(vectors("XXH3"))
assert len(of_xxh3) >= 14
for key, hashes in of_xxh3:
    assert hashes == (xxh3(key, 0), xxh3(key, seed)), key
plain, seeded = list(vectors("MurmurHash3, seed 0")), list(vectors("MurmurHash3, seed %#x" % seed))
assert len(plain) >= 8 and len(seeded) >= 2
for key, lanes in plain:
    assert lanes == murmur3_lanes(key, 0), key
for key, lanes in seeded:
    assert lanes == murmur3_lanes(key, seed), key
secret = bytes(range(32))
keys = [derive(secret, b"seen siphash-2-4", n.to_bytes(8, "little")) for n in (0, seed)]
sip = list(vectors("SipHash"))
assert len(sip) == 4
for key, hashes in sip:
    assert hashes == tuple(siphash(key, k) for k in keys), key
assert siphash(bytes(range(15)), bytes(range(16))) == 0xa129ca6149be45e5
proof = [derive(secret, b"seen header", struct.pack("<IIQ", 10, prep, 0)) for prep in (0, 3)]
derived = [derive(secret, b"seen secret id", b""), *proof, *keys]
rows = re.search(r"vectors: secret\n((?:.*\n)+?)\.EE", text).group(1).splitlines()
assert [row.split()[-1] for row in rows] == [value.hex() for value in derived]
PYTHON
}

@test "a flipped byte anywhere in one slot of the header does no harm" {
    make_filter
    each_damage answered '[(at + slot,) for slot in (0, 4096)
                           for at in (*range(0, 160), *range(160, 4088, 61), *range(4088, 4096))]'
}

@test "a flipped byte anywhere in both slots of the header is refused" {
    make_filter
    each_damage refused '[(at, at + 4096)
                          for at in (*range(0, 400), *range(400, 4088, 61), *range(4088, 4096))]'
}

@test "a filter of any other length is refused" {
    make_filter
    each_damage refused '[*range(0, 20), *range(248, 272), *range(4088, 4104), *range(8184, 8200),
                          *range(0, len(whole), 1009), *range(len(whole) - 8, len(whole))]'
}

@test "a flipped byte of data or checksums is found, or not needed" {
    make_filter
    each_damage 'answered refused' '[(at,) for at in range(8192, len(whole), 137)]'
    # A page that is needed: each of the 6 or so has some of the 100 keys.
    each_damage refused "[(at,) for at in range($DATA, len(whole), 1021)]"
}

@test "a damaged page is named, with its offset" {
    make_filter
    poke f.seen $((DATA + 4096 + 100)) ff
    refuses "seen: 'f.seen' is damaged: page 1 of layer 0 (offset $((DATA + 4096))) does not match its checksum" \
        seen query f.seen keys
    # So does a page that is not where it belongs.
    rm f.seen
    make_filter
    dd if=f.seen of=f.seen bs=4096 skip=6 seek=5 count=1 conv=notrunc status=none
    run -2 seen query f.seen keys
    [[ $output == *"page 0 of layer 0 (offset $DATA) does not match"* ]]
}

@test "a filter from a newer version is refused, and said to be so" {
    make_filter
    poke f.seen 8 02
    poke f.seen 4104 02
    refuses "seen: 'f.seen' was written by a newer version of seen (format 2)" \
        seen query f.seen keys
}

@test "what is no filter is refused by each command" {
    echo some text that is long enough >text
    : >empty
    mkfifo fifo
    mkdir dir
    printf '\x89seen\r\n\x1a' >stub
    local command
    for command in query stats verify add; do
        local key=()
        [[ $command == query || $command == add ]] && key=(-k x)
        rejects "seen: 'text' is not a seen filter*" seen $command "${key[@]}" text
        refuses "seen: 'empty' is not a seen filter: it is empty" seen $command "${key[@]}" empty
        refuses "seen: 'fifo' is not a regular file" timeout "$PATIENCE" seen $command "${key[@]}" fifo
        run -2 seen $command "${key[@]}" dir
        [ "${#lines[@]}" = 1 ]
        refuses "seen: 'stub' is truncated: it ends within its header" seen $command "${key[@]}" stub
        local more=
        [ $command != add ] || more=' (--create makes it)'
        refuses "seen: cannot open 'none': No such file or directory$more" seen $command "${key[@]}" none
    done
}

@test "the same keys and options make the same bytes" {
    seq 200000 >keys
    seq 200000 -1 1 >yek
    quiet seen create --reproducible -j 1 a.seen keys
    quiet seen create --reproducible -j 3 b.seen keys
    quiet seen create --reproducible -j 2 --memory 4M -n 200000 c.seen yek
    cmp a.seen b.seen
    # Given capacity, and the records in another order.
    cmp a.seen c.seen
    [ "$(peek a.seen 56 16)" = 00000000000000000000000000000000 ]
    quiet seen create d.seen keys
    [ "$(peek d.seen 56 16)" != 00000000000000000000000000000000 ]
}

@test "a damaged slot is warned about, and healed by the next writer" {
    make_filter
    poke f.seen 100 ff
    run -0 --separate-stderr seen query -c f.seen keys
    [ "$output" = 100 ]
    [[ "$stderr" == "seen: warning: "*"'f.seen'"* ]]
    seen add -k one f.seen
    seen add -k two f.seen
    run -0 seen verify f.seen
    [ "$output" = "f.seen: ok" ]
}

@test "two headers of different files are not one" {
    seen create --empty -n 1000 f.seen
    seen create --empty -n 1000 g.seen
    dd if=g.seen of=f.seen bs=4096 skip=1 seek=1 count=1 conv=notrunc status=none
    for command in verify stats 'query -k a' 'add -k a'; do
        # shellcheck disable=SC2086
        refuses "seen: 'f.seen' is damaged: its two headers belong to different files" seen $command f.seen
    done
}
