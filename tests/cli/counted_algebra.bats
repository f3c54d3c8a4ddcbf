#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Counted sets: merge, compare, and other filters made from them.

# Single quotes here hold other languages.
# shellcheck disable=SC2016
load ../lib/helpers

counted() { quiet seen create --counted "$@"; }

@test "algebra of sets with whole hashes is that of Python's Counter" {
    cat >model.py <<'END'
import collections, json, random, subprocess, sys

seen = sys.argv[1]
draw = random.Random(20260401)
sets = {}

def run(*args, stdin=None):
    done = subprocess.run([seen, *args], input=stdin, capture_output=True, text=True)
    assert done.returncode <= (args[0] == "query"), (args, done.stderr)
    return done.stdout

def check(name, want):
    keys = "".join(f"{i}\n" for i in range(900))
    got = collections.Counter()
    for line in run("query", "--show-counts", name, stdin=keys).splitlines():
        count, key = line.split("\t")
        got[int(key)] = int(count)
    assert got == want, name
    sets[name] = want

# Sets that have some keys several times are merged from sets.
for i in range(4):
    total = collections.Counter()
    parts = []
    for part in range(3):
        keys = draw.sample(range(600), draw.choice([5, 100, 400]))
        name = f"part{i}{part}"
        run("create", "--counted", "-p", "0", name, stdin="".join(f"{k}\n" for k in keys))
        total += collections.Counter(keys)
        parts.append(name)
    run("merge", "-o", f"set{i}", *parts)
    check(f"set{i}", total)

def combined(op, all):
    first, rest = all[0], all[1:]
    if op == "merge": return sum(all, collections.Counter())
    if op == "max":
        for c in rest: first = first | c
        return first
    if op == "distinct": return collections.Counter({k: 1 for c in all for k in c})
    if op == "intersect":
        for c in rest: first = first & c
        return first
    if op == "subtract": return first - sum(rest, collections.Counter())
    return collections.Counter({k: n for k, n in first.items() if not any(k in c for c in rest)})

options = {"merge": ["merge"], "max": ["merge", "--max"], "distinct": ["merge", "--distinct"],
           "intersect": ["merge", "--intersect"], "subtract": ["merge", "--subtract"],
           "except": ["merge", "--except"]}
for step in range(18):
    op = list(options)[step % 6]
    names = draw.sample(list(sets), draw.choice([2, 2, 3]))
    out = f"out{step}"
    run(*options[op], "-o", out, *names)
    check(out, combined(op, [sets[n] for n in names]))
    a, b = (sets[n] for n in names[:2])
    c = json.loads(run("compare", "--json", *names[:2]))
    assert (c["a"], c["b"], c["intersection"], c["union"]) == (
        len(a), len(b), len(a.keys() & b.keys()), len(a.keys() | b.keys()))
    assert c["counts_smaller"] == sum((a & b).values()) and c["counts_a"] == sum(a.values())
END
    run -0 python3 model.py "$SEEN"
}

@test "merge of what was made in parts is what would have been made at once" {
    seq 30000 | counted -p 0 --reproducible all
    seq 20000 | counted -p 0 --reproducible a
    seq 20001 30000 | counted -p 0 --reproducible b
    for threads in 1 5; do
        run -0 seen merge --verbose --reproducible --force -j $threads -o out b a
        [[ $stderr$output == *"keys: 30000, sum of counts: 30000" ]]
        alike <(data out) <(data all)
    done
    run -0 seen merge --subtract --reproducible -o a2 out b
    alike <(data a2) <(data a)
    run -0 seen verify out a2
    # An input may be what is replaced.
    run -0 seen merge --subtract --reproducible --force -o out out b
    alike <(data out) <(data a)
}

@test "fingerprints of different widths: the narrowest counts" {
    seq 20000 | counted -p 1e-6 wide
    seq 10001 30000 | counted -p 1e-4 narrow
    seq 10001 30000 | counted -p 0 whole
    run -0 --separate-stderr seen merge --max-fpr 0.001 --json -o union wide narrow
    [ "$(jq .fingerprint_bits <<<"$output")" = 28 ]
    [ "$(jq .counts_total <<<"$output")" = 40000 ]
    [[ $stderr == "seen: note: 'wide' has fingerprints of 35 bits, but others have fewer, so 'union' has 28" ]]
    [ "$(seq 30000 | seen query -c union)" = 30000 ]
    run -0 --separate-stderr seen merge --subtract --json -o left whole wide
    [ "$(jq .fingerprint_bits <<<"$output")" = 35 ]
    [ "$(seq 20001 30000 | seen query -c left)" -ge 9990 ]
    [ "$(seq 10001 20000 | seen query -c left)" -le 10 ]
}

@test "a difference says how many keys it lost to equal fingerprints" {
    seq 20000 | counted -p 0.05 a
    seq 20001 40000 | counted -p 0.05 b
    run -0 --separate-stderr seen merge --subtract -o out --json a b
    [[ $stderr == "seen: warning: up to "*" keys were taken from 'a' although no other filter has them, because of equal fingerprints" ]]
    lost=$(jq .lost_estimate <<<"$output")
    missing=$((20000 - $(seq 20000 | seen query -c out)))
    # 20000 * 20000 / 2^19 = 763, deviation 28: five of these are exceeded once in 10^6 hashes.
    awk "BEGIN { exit !(($lost - $missing)^2 < 140^2 && $lost > 500) }"
    # The keys that both have are rightly gone; of two others that share keys, only a bound is told.
    seq 10001 30000 | counted -p 0.3 d
    cp d e
    seq 20000 | counted -p 0.3 c
    for others in d 'd e'; do
        # shellcheck disable=SC2086 # two
        run -0 --separate-stderr seen merge --force --except -o out --json c $others
        # Of 10000 keys, 1 - exp(-20000 / 2^17) = 14 % are lost.
        missing=$((10000 - $(seq 10000 | seen query -c out)))
        if [ "$others" = d ]; then
            [[ $stderr == "seen: warning: about "* ]]
            jq -e "(.lost_estimate - $missing | fabs) < 200 and .lost_estimate > 1000 and
                .lost_at_most == false" <<<"$output"
        else
            [[ $stderr == "seen: warning: up to "* ]]
            jq -e ".lost_estimate > $missing and .lost_at_most" <<<"$output"
        fi
        # shellcheck disable=SC2086
        run -0 --separate-stderr seen merge --force --subtract -o out --json c $others
        missing=$((10000 - $(seq 10000 | seen query -c out)))
        jq -e ".lost_estimate > $missing - 200 and .lost_at_most" <<<"$output"
    done
}

@test "of an intersection of fingerprints, and of what is made of it, an upper bound of the keys is told" {
    seq 20000 | counted -p 0.05 a
    seq 19001 40000 | counted -p 0.05 b
    run -0 --separate-stderr seen merge --intersect --verbose --json -o i a b
    # 1000 keys are common, and 19000 * 20000 / 2^19 = 725 pairs of others share a fingerprint.
    [[ $stderr == *', keys: at most 1'[78]*', sum of counts: at most 1'[78]* ]]
    bounds='.n_estimate == null and .n_low == 0 and .n_high > 1600 and .n_high < 2000'
    jq -e "$bounds" <<<"$output"
    seen stats --json i | jq -e "$bounds and .load == null and .bits_per_key == null"
    says '^distinct keys +at most [0-9]+ +estimated' seen stats i
    run -0 seen verify i
    run -0 seen merge --force -o u i b
    seen shrink --json --force -p 0.5 -o s i | jq -e '.n_estimate == null'
    quiet seen add i -k new
    for f in u s i; do
        seen stats --json $f | jq -e '.n_estimate == null and .n_low == 0 and .n_high > 1600'
    done
    run -2 seen compare i a
    # Of full sets there is no upper bound.
    for f in v w; do
        run -0 seen create --counted -n 100 -p 0.3 --empty $f
        run -0 --separate-stderr seen add $f <(seq 20000)
    done
    run -0 --separate-stderr seen merge --force --intersect --verbose -o i v w
    [[ $stderr == *', keys: unknown, sum of counts: at most '* ]]
    # Whole hashes are counted. Of one set alone, the intersection is a copy.
    seq 20000 | counted --force -p 0 a
    seq 19001 40000 | counted --force -p 0 b
    seen merge --force --intersect --json -o i a b | jq -e '.n_estimate == 1000 and has("n_high") == false'
    seen stats --json i | jq -e '.n_estimate == 1000 and .n_low == 1000'
    seq 20000 | counted -p 0.05 c
    run -0 seen merge --force --intersect -o i c
    seen stats --json i | jq -e '.n_low <= 20000 and .n_high >= 20000'
}

@test "of a difference of nearly full sets, and of what is made of it, a lower bound of the keys is told" {
    seq 20000 | counted -p 0.3 a
    seq 10001 30000 | counted -p 0.3 b
    for op in --subtract --except; do
        run -0 --separate-stderr seen merge --force "$op" --verbose --json -o d a b
        [[ $stderr == *', keys: at least '*', sum of counts: '* ]]
        held=$(seq 10000 | seen query -c d)
        bound=".n_low > 0.9 * $held and .n_low <= $held and .n_estimate == .n_low and .n_high == null"
        jq -e "$bound" <<<"$output"
        seen stats --json d | jq -e "$bound and .layers[0].n_estimate == null"
        says '^distinct keys +at least [0-9]+ +estimated' seen stats d
        run -0 seen verify d
        run -0 --separate-stderr seen merge --force --json -o u d b
        jq -e '.n_high == null and .n_low > 20000' <<<"$output"
        run -2 seen compare d a
        [[ $output == "seen: 'd' is a difference, whose fingerprints do not tell how many keys two sets share; \
compare the sets that it was made of" ]]
    done
    # Of less full sets they are estimated.
    seq 20000 | counted --force -p 0.001 a
    seq 10001 30000 | counted --force -p 0.001 b
    run -0 --separate-stderr seen merge --force --subtract --json -o d a b
    held=$(seq 10000 | seen query -c d)
    seen stats --json d | jq -e ".n_low < .n_estimate and .n_high > .n_estimate and
        (.n_estimate - $held | fabs) < 2.6 * (.n_high - .n_estimate)"
    run -0 seen compare d a
    # Of 20000 keys, 376 pairs share one of 2^19 fingerprints, and the interval's half is 38 keys. A tenth of that is in
    # doubt where 1 % of the fingerprints are taken away: 5300.
    seq 20000 | counted --force -p 0.05 a
    while read -r others p high; do
        seq 20001 $((20000 + others)) | counted --force -p "$p" b
        run -0 --separate-stderr seen merge --force --subtract -o d a b
        seen stats --json d | jq -e ".fingerprint_bits == 19 and (.n_high $high null)"
    done <<'END'
4000 0.01 !=
7000 0.0175 ==
END
}

@test "a result with a higher FPR than its inputs were made for is refused" {
    seq 100000 | counted -p 1e-6 many
    seq 3 | counted -p 1e-2 few
    local rate="seen: the result would have a current false-positive rate of *"
    rejects "$rate, above 0.0101; make the sets with a --capacity for the keys of all; --max-fpr or --force accept it" \
        seen merge -o out many few
    rejects "$rate, above 1e-05; make the sets with a --capacity for the keys of all" \
        seen merge --force --max-fpr 1e-5 -o out many few
    seq 3 | counted -n 100003 -p 1e-2 wider
    run -0 seen merge -o out1 many wider
    rm out1
    run -0 seen merge --max-fpr 1 -o out1 many few || run -0 seen merge --force -o out1 many few
}

@test "compare: intervals, and the ratios that follow" {
    seq 30000 | counted -p 0.001 a
    seq 20001 50000 | counted -p 0.01 b
    run -0 --separate-stderr seen compare --json a b
    # Each interval fails once in 20 inputs; with these it holds.
    jq -e '.a_low <= 30000 and 30000 <= .a_high and .union_low <= 50000 and 50000 <= .union_high
        and .intersection_low <= 10000 and 10000 <= .intersection_high
        and .jaccard == .intersection / .union and .a_in_b == .intersection / .a and .b_in_a == .intersection / .b
        and .sources.a == "estimated" and .counts_a == 30000' <<<"$output"
    run -0 seen compare a b
    [[ ${lines[4]} == "keys in A "*" ("*" to "*")"*"  estimated (95 %)" ]]
    seq 30000 | quiet seen create -n 30000 ba
    seq 20001 50000 | quiet seen create --like ba bb
    run -0 --separate-stderr seen compare --json -j 3 ba bb
    jq -e '.intersection_low <= 10000 and 10000 <= .intersection_high and .kind == "bloom" and
        (.jaccard - 0.2 | fabs) < 0.01 and .counts_a == null' <<<"$output"
    first=$output
    run -0 --separate-stderr seen compare --json -j 1 ba bb
    [ "$output" = "$first" ]
    # Another program's bits.
    seq 30000 | quiet seen create --layout guava -n 30000 ga
    seq 20001 50000 | quiet seen create --layout guava -n 30000 gb
    run -0 --separate-stderr seen compare --json ga gb
    jq -e '.intersection_low <= 10000 and 10000 <= .intersection_high' <<<"$output"
}

@test "compare: a set and itself, and empty ones" {
    seq 1000 | counted -p 0 a
    counted -p 0 --empty none
    run -0 --separate-stderr seen compare --json a a
    jq -e '.jaccard == 1 and .a_in_b == 1 and .sources.jaccard == "exact"' <<<"$output"
    run -0 --separate-stderr seen compare --json a none
    jq -e '.jaccard == 0 and .b_in_a == null and .intersection == 0 and .b == 0' <<<"$output"
    run -0 --separate-stderr seen compare --json none none
    jq -e '.jaccard == null and .union == 0' <<<"$output"
}

@test "what cannot be compared, merged or subtracted is refused with the reason" {
    seq 1000 | counted -p 0 a
    seq 1000 | counted -p 0 -i folded
    seq 1000 | quiet seen create bloom
    seq 5000 | quiet seen create -p 1e-6 other
    seq 1000 | quiet seen create --compact compact
    quiet seen create --empty -n 1000 --grow growing
    seq 200000 | quiet seen add growing
    quiet seen create --fixed -n 100 --empty full
    seq 100000 | run -0 seen add --max-fpr 0.999999999999 full
    rejects "seen: 'a' and 'folded' cannot be compared: they differ in --ignore-case (of 'folded')" \
        seen compare a folded
    rejects "seen: 'a' and 'folded' cannot be subtracted: they differ in --ignore-case (of 'folded')" \
        seen merge --subtract -o out a folded
    for both in 'growing bloom' 'bloom growing'; do
        # shellcheck disable=SC2086 # two
        rejects "seen: 'growing' cannot be compared: it has "*" layers; make it again from its keys" seen compare $both
    done
    rejects "seen: 'a' is of kind counted and 'bloom' of kind bloom; filters of two kinds cannot be compared" \
        seen compare a bloom
    rejects "seen: 'bloom' and 'other' differ in size or number of probes, so they cannot be compared; make them with --like one of them" \
        seen compare bloom other
    rejects "seen: 'compact' is of kind compact, whose bits do not tell how many keys two filters share; counted sets do: 'seen create --counted'" \
        seen compare compact compact
    rejects "seen: 'full' and 'full' are too full to be compared" seen compare full full
    rejects "seen: counted sets cannot be merged with filters of other kinds,"* \
        seen merge -o out a bloom
    rejects "seen: --max is for counted sets; 'bloom' is of kind bloom, which has no counts" \
        seen merge --max -o out bloom bloom
    rejects "seen: 'bloom' is of kind bloom, from which keys cannot be removed; 'seen create --counted' makes a set from which they can" \
        seen merge --subtract -o out a bloom
    run -2 seen merge --max --distinct -o out a a
    run -2 seen merge --subtract -o out a
    run -2 seen compare a
    [ ! -e out ]
}

@test "filters made from a set are those made from its keys" {
    { seq 30000; seq 100; } >keys
    counted -p 0 --reproducible -i set keys
    for options in '-p 0.01' '--compact -p 1e-6' '--compact -p 0.3' '-n 100k' '--grow' '-s 128K' \
        '--generations 3 -n 100k' '--foldable -p 1e-4'; do
        # shellcheck disable=SC2086 # several
        quiet seen create $options -i --reproducible --force want keys
        for how in '-j 1' '-j 4' '--memory 64M'; do
            # shellcheck disable=SC2086 # several
            quiet seen create $options $how --reproducible --force --from set got
            cmp got want
        done
    done
    quiet seen create --compact -p 1e-6 -i --reproducible --force want keys
    run -0 --separate-stderr seen create --json --from set --force got
    [ "$(jq -c '[.records, .keys_added]' <<<"$output")" = '[30100,30000]' ]
    # The set itself can be replaced.
    run -0 seen create --compact -p 1e-6 --reproducible --force --from set set
    cmp set want
    counted -p 0 -i --force set keys
    quiet seen create -i --force want keys
    quiet seen create --like want --from set like
    alike <(data like) <(data want)
    # What the set tells of its keys stays behind if that is wanted.
    quiet seen create --force --from set got
    [ "$(fact got keys_look_like)" != null ]
    quiet seen create --force --no-profile --from set got
    [ "$(fact got keys_look_like)" = null ]
}

@test "a filter from a set: what is refused" {
    seq 1000 | counted -p 1e-6 narrow
    seq 1000 | counted -p 0 set
    counted -p 0 --empty none
    seq 1000 | quiet seen create -i bloom
    rejects "seen: 'narrow' has fingerprints of 30 bits, not whole hashes, so other filters cannot be made from it; 'seen create --counted --fpr 0' keeps whole hashes" \
        seen create --from narrow out
    rejects "seen: 'bloom' is of kind bloom, which has not kept the hashes of its keys; 'seen create --counted --fpr 0' makes a set that does" \
        seen create --from bloom out
    rejects "seen: 'none' has no keys, so 'out' is not made" seen create --from none out
    # A forged number of records takes no key away.
    cp set forged
    forge forged records=0
    quiet seen create --from forged whole
    equal "$(seen query -c whole <(seq 1000))" 1000
    rejects "seen: 'out' cannot be made like 'bloom' from 'set': they differ in --ignore-case" \
        seen create --like bloom --from set out
    rejects "seen: 'set' was made without --hex, which cannot be added later" \
        seen create --hex --from set out
    rejects "seen: cannot open 'gone': No such file or directory" seen create --from gone out
    for options in '--counted' '--layout guava' '--empty -n 5' '-k 1'; do
        # shellcheck disable=SC2086 # several
        run -2 seen create $options --from set out
        [[ ${lines[0]} == "seen: --from "* ]]
    done
    [ ! -e out ]
}

@test "shrink drops bits of fingerprints" {
    seq 20000 | counted -p 0 --reproducible set
    seq 20000 | counted -p 0.001 --reproducible want
    run -0 --separate-stderr seen shrink -p 0.001 -o out --reproducible --verbose set
    [[ $stderr == "seen: note: 'out': "*" instead of "*", current false-positive rate 0.000596" ]]
    alike <(data out) <(data want)
    [ "$(seq 20000 | seen query -c out)" = 20000 ]
    run -0 seen shrink -p 1e-6 set
    [ "$(seen stats --json set | jq '.fpr_current <= 1e-6')" = true ]
    # With many equal fingerprints, the counters stand for the keys that there are likely to be.
    run -0 seen shrink -p 0.05 -o few set
    run -0 seen verify set out few
    # Batches that were applied are remembered by the file that is replaced.
    run -0 seen add --batch-id one -k new set
    run -0 seen shrink -p 1e-5 set
    run -0 seen shrink -p 1e-3 --force -o set ./set
    run -0 seen add --batch-id one -k new set
    [ "$(seen query --show-counts -k new set)" = $'1\tnew' ]
    run -2 --separate-stderr seen shrink -p 1e-9 out
    [[ $stderr == "seen: 'out' has a false-positive rate of 0.000596 already, more than 1e-09" ]]
}

@test "a result that replaces an input remembers its batches, another does not" {
    seq 100 | counted -p 0 a
    seq 50 | counted -p 0 b
    run -0 seen add --batch-id one -k new a
    run -0 seen add --batch-id two -k other b
    run -0 seen merge --force -o a b a
    run -0 seen merge --subtract --force -o a a b
    run -0 seen add --batch-id one -k new a
    [ "$(seen query --show-counts -k new a)" = $'1\tnew' ]
    # The batch `two` is one of b's, and was never applied to a.
    run -0 seen add --batch-id two -k other a
    [ "$(seen query --show-counts -k other a)" = $'1\tother' ]
    run -0 seen merge -o c a b
    run -0 seen add --batch-id one -k new c
    [ "$(seen query --show-counts -k new c)" = $'2\tnew' ]
}

@test "merge is silent, unless --verbose asks" {
    seq 100 | counted -p 0 a
    seq 40 | counted -p 0 b
    for option in --max --subtract; do
        quiet seen merge $option --force -o out a b
        run -0 --separate-stderr seen merge $option --verbose --force -o out a b
        [[ -z $output && $stderr == "seen: note: 'out': current false-positive rate "*", keys: "*", sum of counts: "* ]]
        run -0 --separate-stderr seen merge $option --verbose --json --force -o out a b
        [[ $output == "{"* && $stderr == "seen: note: 'out': "* ]]
    done
}
