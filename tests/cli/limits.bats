#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Limits: every number that an option takes, at its ends and beyond; and that what a refusal names
# is accepted.
# tags: repeating

# `run` sets stderr.
# shellcheck disable=SC2154
load ../lib/helpers

@test "numbers of all options: accepted, or refused with one reason, and nothing is made" {
    seq 1000 >keys
    quiet seen create fixed.seen keys
    quiet seen create --compact compact.seen keys
    quiet seen create --foldable -n 100000 foldable.seen keys
    quiet seen create -p 0.001 --generations 3 -n 1000 ring.seen keys
    python3 - <<'PYTHON'
import os, subprocess, sys

patience = int(os.environ["PATIENCE"])
two = [2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64]
anything = ["", " ", "0", "1", "2", "-1", "-0", "+1", "00", "007", "1e0", "1e1", "0e0", "1e", "1e+",
            "e1", ".", ".5", "5.", "1.5", "-.5", "0x10", "0x1p3", "nan", "NaN", "-nan", "inf",
            "-inf", "infinity", "1e-1", "1e-400", "1e400", "1e999", "1e1000", "1e-1000", "1e99999",
            "1k", "1K", "1kk", "1Ki", "1KiB", "1 KiB", "1  KiB", "1 K", "1kB", "1B", "1 B", "1M",
            "1E", "1P", "16383P", "16384P", "16777216P", "99999999T", "1 ", " 1", "1\n", "1\t",
            "1,5", "1_000", "\u0661", "1/0", "0/1", "1/3", "3/1", "1/", "/1", "1/1/1", "-1/3",
            "1/nan",
            "100%", "0%", "50%", "1%%", "%", "99.999999999999999999%", "0.99999999999999999999",
            "9" * 60, "9" * 1000, "1" + "0" * 1000, "0" * 100000 + "1",
            "0." + "0" * 1000 + "1", "0." + "9" * 1000, "1e" + "0" * 1000 + "1"]
anything += [str(n) for n in two]
whole = ["1", "2", "1000", "1024", "1025", "1000000", "1000001", "-1000000", "-1000001"]

# What they do with a number that they take is done on a few keys, and nothing is kept.
options = """
plan -n V
plan -n 1000 -p V
plan -s V
plan -n 1e9 -s V
plan -p 0.5 -s V
create --dry-run --empty -n V new
create --dry-run --empty -n 1000 -p V new
create --dry-run --empty -s V new
create --dry-run --compact --empty -p V new
create --dry-run --min-keys V new keys
create --dry-run --min-ratio V fixed.seen --force keys
create --dry-run --memory V new keys
create --dry-run --compact --memory V new keys
create --dry-run -n 1000 --memory V new keys
create --dry-run -j V new keys
create --dry-run -d: -f V new keys
create --generations V --empty -n 1000 new
query -j V fixed.seen keys
query -d: -f V fixed.seen keys
stats -j V fixed.seen
verify -j V fixed.seen
shrink --fpr V -o new compact.seen
shrink --fpr 0.01 -j V -o new compact.seen
shrink --fpr V -o new foldable.seen
shrink -j V -o new foldable.seen
merge --max-fpr V -o new fixed.seen fixed.seen
merge -j V -o new fixed.seen fixed.seen
add --max-fpr V fixed.seen -k 1
add -j V fixed.seen -k 1
dedup --max-fpr V fixed.seen keys
dedup --sync-every V fixed.seen keys
dedup -j V fixed.seen keys
dedup -p V
rotate -j V ring.seen
"""

def run(command):
    return subprocess.run([os.environ["SEEN"]] + command, capture_output=True, timeout=patience,
                          stdin=subprocess.DEVNULL)

bad = tried = 0
names = sorted(os.listdir("."))
for number, line in enumerate(options.strip().splitlines()):
    accepted = 0
    # The same few functions read the numbers of all options: each number is tried with every second one.
    values = (anything if os.environ.get("FULL") else anything[number % 2::2]) + whole
    for value in values:
        command = [value if word == "V" else word for word in line.split()]
        got = run(command)
        lines = got.stderr.decode(errors="replace").splitlines()
        ok = got.returncode in (0, 1) and \
            all(l.startswith(("seen: warning: ", "seen: 'new': ")) for l in lines)
        accepted += ok
        if got.returncode == 2:
            hint = len(lines) == 2 and lines[1].startswith("Try 'seen ")
            ok = not got.stdout and lines and lines[0].startswith("seen: ") and \
                (len(lines) == 1 or hint)
            ok = ok and sorted(os.listdir(".")) == names
        if os.path.exists("new"):
            os.remove("new")
        tried += 1
        if not ok:
            bad += 1
            shown = [word if len(word) < 80 else word[:20] + "..." for word in command]
            print(shown, got.returncode, got.stdout[:200], got.stderr[:400])
    if not 0 < accepted < len(values):
        bad += 1
        print(line, "takes", accepted, "of", len(values))
print(tried, "tried,", bad, "of them end as they must not")
sys.exit(bad != 0)
PYTHON
}

# named COMMAND...: the last number with or without a unit that its refusal names.
named()
{
    run -2 --separate-stderr "$@"
    [[ $stderr =~ .*\ ([0-9.]+(e-[0-9]+)?( [KMGTP]iB)?) ]]
    printf '%s\n' "${BASH_REMATCH[1]}"
}

@test "a size or a rate that a refusal names is accepted" {
    seq 1000003 >keys
    least=$(named seen plan -s 1)
    quiet seen create --empty -s "$least" f
    # Of many lengths, so that some would be rounded down.
    for n in 131071 250000 777777 1000003; do
        least=$(named seen plan -n $n -s 30K)
        seen plan -n $n -s "$least"
        seen plan -n $n -s "${least// }"
        head -n $n keys >some
        least=$(named seen create --compact -s 1K f some --force)
        seen create --force --compact -s "$least" f some
        least=$(named seen create -s 30K f some --force)
        seen create --force -s "$least" f some
    done
    for n in 1e12 123456789012 3e13 5e17; do
        least=$(named seen plan -n $n -p 1e-9)
        run seen plan -n $n -p "$least"
        [[ $status = 0 || $output == *"need a file larger than 16.0 PiB" ]]
    done
    least=$(named seen plan -n 1000 -p 1e-18)
    seen plan -n 1000 -p "$least"
    seen create --counted --empty -n 1000 -p "$least" counted
    least=$(named seen create --compact --empty -p 1e-10 compact)
    seen create --compact --empty -p "$least" compact
}

@test "the least --memory that is named is enough" {
    seq 1000 >keys
    for kind in '' --compact --grow '-n 1000' '--generations 3 -n 10000'; do
        # shellcheck disable=SC2086 # several, or none
        least=$(named seen create --force --memory 1K $kind f keys | head -n 1)
        # shellcheck disable=SC2086
        quiet seen create --force --memory "$least" $kind f keys
        # shellcheck disable=SC2086
        quiet seen create --force --memory "${least// }" $kind f keys
    done
}

@test "more memory than there is, or threads than there is room for, is an upper bound" {
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer takes addresses by the terabyte'
    seq 300000 >keys
    quiet seen create --reproducible f keys
    quiet seen create --reproducible --compact g keys
    for memory in 100G 20T 16383P 18446744073709551615; do
        quiet seen create --reproducible --force --memory $memory -j 64 h keys
        cmp f h
        quiet seen create --reproducible --force --compact --memory $memory -j 64 h keys
        cmp g h
    done
    # As on a 32-bit machine, and with less.
    quiet seen create --reproducible --force -n 300000 h keys
    mv h i
    for kib in 3000000 1000000 400000 200000; do
        for threads in 1 64 1024; do
            limited() { (ulimit -v "$kib" && seen create --reproducible --force "$@" h keys); }
            quiet limited -j $threads
            cmp f h
            quiet limited -j $threads --memory 10G
            cmp f h
            quiet limited -j $threads -n 300000
            cmp i h
            quiet limited -j $threads --compact
            cmp g h
        done
    done
}

@test "plan: no number overflows where hashes end" {
    refuses "seen: 1.8e+18 keys are more than 64-bit hashes can tell apart" seen plan -n 1.8e18
    refuses "seen: 9.3e+17 keys are more than 64-bit hashes can tell apart" \
        seen plan -n 9.3e17 -p 0.99999
    refuses "seen: 1.84e+19 keys are more than 64-bit hashes can tell apart" seen plan -n 18446744073709551615 -p 0
    # The size gives no more keys than hashes keep apart.
    seen plan --json -s 15P -p 0.001 | jq -e '.n_design / pow(2; 64) * 10 | . > 0.000999 and . <= 0.001'
    seen plan --json -s 15P -p 1e-9 | jq -e '.n_design < 1844674408'
}

@test "a stack of 512 KiB is enough, a smaller one is refused" {
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer needs more'
    seq 20000 >keys
    for stack in 64 511; do
        run -2 --separate-stderr bash -c "ulimit -s $stack && exec seen create f.seen keys"
        [ "$stderr" = "seen: a stack of $stack KiB is too small: set 'ulimit -s' to 512" ]
    done
    [ ! -e f.seen ]
    seen() { (ulimit -s 512 && exec "$SEEN" "$@"); }
    seen create f.seen keys
    seq 30000 | seen add f.seen
    [ "$(seq 40000 | seen dedup f.seen | wc -l)" -ge 9900 ]
    [ "$(seen query -c f.seen keys)" = 20000 ]
    seen stats f.seen >/dev/null
    seen merge f.seen f.seen -o all.seen
    seen verify f.seen all.seen
    seen shrink -o less.seen all.seen
    seen plan -n 10M >/dev/null
    seen create --counted c.seen keys
    seen remove c.seen <(seq 100)
    seen create --compact k.seen keys
    [ "$(seen query -c k.seen keys)" = 20000 ]
    [[ $(seen --version) == *'without filters of other programs'* ]] || {
        seen create --layout guava -n 20000 g.seen keys
        seen export g.seen -o bits
    }
}
