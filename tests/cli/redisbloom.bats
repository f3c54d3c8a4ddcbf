#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Chains of RedisBloom: the last link takes keys until it is full to the key, and a killed writer
# leaves them sound.

load ../lib/helpers

# dump NAME N ERROR OPTIONS GROWTH: a chain of one empty link for N keys, as BF.SCANDUMP gives it.
dump()
{
    python3 - "$@" <<'END'
import math, struct, sys
name, n, error, options, growth = sys.argv[1], *map(float, sys.argv[2:])
bpe = abs(math.log(error) / 0.480453013918201)
size = (max(1, int(n * bpe)) + 63) // 64 * 8
with open(name + ".header", "wb") as f:
    f.write(struct.pack("<QIII", 0, 1, int(options), int(growth)))
    f.write(struct.pack("<QQQddIQB", size, 8 * size, 0, error, bpe,
                        math.ceil(0.693147180559945 * bpe), int(n), 0))
with open(name + ".data", "wb") as f:
    f.write(bytes(size))
END
}

# chain FILTER N ERROR [OPTIONS [GROWTH]]: such a filter.
chain()
{
    dump "$1.dump" "$2" "$3" "${4:-5}" "${5:-2}"
    seen import --layout redisbloom "$1.dump" -o "$1"
}

# links FILTER: number of keys and capacity of each link; the header's number comes first.
links()
{
    seen export "$1" -o exported --force
    python3 - exported.header <<'END'
import struct, sys
data = open(sys.argv[1], "rb").read()
print(struct.unpack_from("<Q", data)[0])
for at in range(20, len(data), 53):
    print(*(struct.unpack_from("<Q", data, at + i)[0] for i in (16, 44)))
END
}

# sound FILTER: each link but the last has as many keys as it was made for, that not more, and the
# header says how many there are in all.
sound()
{
    links "$1" | awk 'NR == 1 { all = $1; next }
        { if (NR > 2 && last != room) exit 1; last = $1; room = $2; sum += $1 }
        END { exit !(NR > 1 && last <= room && sum == all) }' || { links "$1"; return 1; }
}

@test "a filter that does not scale is full, and the first key that is not in it is named" {
    chain f.seen 1000 1e-6 13
    seq 900 | quiet seen add f.seen
    seq 1100 >keys
    refuses "seen: keys:1001: not added: 'f.seen' is full: it was made for 1000 keys" \
        seen add f.seen keys
    equal "$(links f.seen)" "$(printf '1000\n1000 1000')"
    seen stats --json f.seen | jq -e '.policy == "refuses keys"'
    # Keys that are in it change nothing.
    head -n 1000 keys | quiet seen add f.seen
    [ "$(seen query -c f.seen keys)" = 1000 ]
    seen verify f.seen
    # What dedup prints is in it.
    seq 1100 | cat - <(seq 5) >again
    run -2 --separate-stderr seen dedup f.seen again
    [[ -z $output && $stderr == "seen: again:1001: not added: 'f.seen' is full: "* ]]
}

@test "a filter that scales takes as many keys as its last link, and more in the program that made it" {
    seen import --layout auto "$SOURCE/tests/vectors/redisbloom/rb_scale_e05_n100" -o f.seen
    equal "$(seen stats --json f.seen | jq -c '[.layers[].n_design]')" '[100,200,400,800]'
    seq 2000 >keys
    run -2 --separate-stderr seen add f.seen keys
    [[ -z $output && $stderr == "seen: keys:"*": not added: 'f.seen' is full: its last layer was made \
for 800 keys; it grows only in the program that it comes from" ]]
    taken=$(($(cut -d : -f 3 <<<"$stderr") - 1))
    sound f.seen
    # Half of which bits would be set, of several layers?
    seen stats --json f.seen | jq -e '.policy == "grows only in Redis" and (has("keys_until_half") | not)'
    [ "$(links f.seen | wc -l)" = 5 ]
    [ "$(links f.seen | head -n 1)" = 1500 ]
    seen import --layout auto exported -o g.seen
    head -n "$taken" keys | seen query -v g.seen || [ $? = 1 ]
}

@test "--max-fpr holds in a chain" {
    chain f.seen 1000 0.01
    seq 100000 >keys
    run -2 --separate-stderr seen add --max-fpr 0.005 f.seen keys
    [[ $stderr == "seen: keys:"*": not added: the false-positive rate of 'f.seen' would pass 0.005" ]]
    seen stats --json f.seen | jq -e '.fpr_current > 0.0047 and .fpr_current <= 0.0051'
    sound f.seen
}

@test "several writers: none of them goes beyond what a link takes" {
    chain f.seen 5000 0.001
    for i in 0 1 2 3; do
        seq $((i * 2000)) $((i * 2000 + 2999)) | seen add f.seen 2>"err$i" &
        writers[i]=$!
    done
    for writer in "${writers[@]}"; do
        wait "$writer" || [ $? = 2 ]
    done
    grep -q "'f.seen' is full: it was made for 5000 keys" err?
    sound f.seen
    [ "$(links f.seen | head -n 1)" = 5000 ]
    seen verify f.seen
}

@test "a writer that is killed loses no key, and its chain goes on" {
    chain f.seen 20 0.001
    chain g.seen 5000000 0.001
    for i in 1 3 5 7; do
        for filter in f.seen g.seen; do
            seq $((i * 100)) 9999999 | seen dedup "$filter" >"out$filter$i" 2>/dev/null &
            writer=$!
            sleep "0.0$i"
            # The last one has printed something, however slow the machine is. (f.seen may be full.)
            [ "$i$filter" != 7g.seen ] || await $writer test -s "out$filter$i"
            kill -KILL $writer || true
            wait $writer || true
            seen verify --repair "$filter" >/dev/null
            sound "$filter"
            # What was printed is in the filter.
            sed -s '$d' "out$filter"* >printed
            [ ! -s printed ] || equal "$(seen query -c "$filter" printed)" "$(wc -l <printed)"
        done
    done
    [ -s printed ]
}

has_all() { [ "$(seen query -c f.seen <(seq 500))" = 500 ]; }

@test "export tells when keys may not have been counted" {
    chain f.seen 1000 0.01
    mkfifo keys
    seen add f.seen <keys &
    writer=$!
    exec 8>keys
    seq 500 >&8
    await $writer has_all
    kill -KILL $writer
    wait $writer || true
    exec 8>&-
    seen export f.seen -o out 2>warnings
    grep -qx "seen: warning: 'f.seen': the number of its keys is an estimate, from its bits" warnings
    seen import --layout redisbloom out -o g.seen
    # Ten deviations: the estimate is good to 1 %.
    links g.seen | awk 'NR == 1 { exit !($1 > 450 && $1 < 550) }'
    seen verify --repair f.seen
    links f.seen | awk 'NR == 1 { exit !($1 > 450 && $1 < 550) }'
    quiet seen export f.seen -o out --force
}

@test "old dumps are asked and exported, and take no keys" {
    cp "$SOURCE"/tests/vectors/redisbloom/rb_old203_e02_n150.{header,data} .
    seen import --layout auto rb_old203_e02_n150 -o f.seen
    refuses "seen: no keys can be added to 'f.seen': it was written by a module before 2.2.1, which adds keys differently" \
        seen add f.seen <(echo x)
    seen export f.seen -o out
    cmp out.header rb_old203_e02_n150.header
    cmp out.data rb_old203_e02_n150.data
}

@test "merged chains are no chain any more" {
    chain a.seen 100 0.01
    chain b.seen 300 0.01
    seq 100 | seen add a.seen
    seq 101 400 | seen add b.seen
    seen merge a.seen b.seen -o c.seen --force
    [ "$(seen query -c c.seen <(seq 400))" = 400 ]
    refuses "seen: 'c.seen' has several layers, which do not form a valid chain of its layout, so it cannot be exported; 'seen create --layout' makes one that can be, from the keys" \
        seen export c.seen -o out
    seq 401 500 | seen add c.seen 2>/dev/null # it is fuller than it was made for
    [ "$(seen query -c c.seen <(seq 500))" = 500 ]
}

@test "capacity and rate that are given must be those of the dump" {
    # A first link for 0.005 is that of a chain for 0.01.
    dump d 1000 0.005 5 2
    seen import --layout redisbloom -n 1000 -p 0.01 d -o f.seen
    seen stats --json f.seen | jq -e '.fpr_design == 0.01 and .layers[0].n_design == 1000'
    refuses "seen: cannot import 'd' as redisbloom: its capacity is 1000, not 999" \
        seen import --layout redisbloom -n 999 d -o g.seen
    refuses "seen: cannot import 'd' as redisbloom: its FPR is 0.01, not 0.005" \
        seen import --layout redisbloom -p 0.005 d -o g.seen
}

@test "links of different chains are not exported as one" {
    seen import --layout auto "$SOURCE/tests/vectors/redisbloom/rb_scale_e05_n100" -o f.seen
    variant=$(od -An -v -t u8 -j $((256 + 88 + 40)) -N 8 f.seen)
    # The expansion of the second link, its options, its form.
    for other in $((1 << 48)) $((1 << 23)) $((3 << 26)); do
        forge f.seen layer.1.geometry1=$((variant ^ other))
        run -0 seen verify f.seen
        refuses "seen: 'f.seen' cannot be exported: layers 0 and 1 are of different chains" \
            seen export f.seen -o chain
    done
}
