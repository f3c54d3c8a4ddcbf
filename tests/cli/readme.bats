#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The README is true: its examples print what it says, and its links lead somewhere.
# tags: repeating

load ../lib/helpers

# The files that the examples use.
prepare()
{
    awk 'BEGIN { for (i = 1; i <= 500; i++) print "cannot open file " i % 412 ": Permission denied" }' >errors.log
    awk 'BEGIN { for (i = 1; i <= 40000; i++) print "http://www.example.org/" i }' >monday
    awk 'BEGIN { for (i = 30001; i <= 66481; i++) print "http://www.example.org/" (i < 66481 ? i : 40001) }' >tuesday
    python3 - /usr/share/dict/cracklib-small >pwned.txt <<'END'
import hashlib
import sys
with open(sys.argv[1], encoding="utf-8") as f:
    words = f.read().split()
digests = [hashlib.sha1(w.encode()).hexdigest().upper() for w in words]
for line in sorted("%s:%d" % (d, 1 + i % 97) for i, d in enumerate(digests)):
    print(line)
END
}

@test "the examples of the README print what it says" {
    [ -e /usr/share/dict/cracklib-small ] || skip 'cracklib-runtime is not installed'
    prepare
    export PYTHONDONTWRITEBYTECODE=1
    python3 "$SOURCE/tests/lib/examples.py" "$SOURCE/README.md" >out || { cat out; false; }
    [ "$(tail -n 1 out | cut -d ' ' -f 1)" -ge 12 ]
}

@test "the commands of the README print what those that people know print" {
    seq 3 9 >old
    printf '%s\n' 12 b,7 2 b,7 c,7 9 2 12 31 a,4 2 >f
    printf '%s\n' 4 40 9 90 x >new
    # alike LEFT RIGHT: LEFT stands in a row of the README before RIGHT. sort, uniq and comm print in order.
    alike() {
        grep -F -e "\`${1//|/\\|}\`" "$SOURCE/README.md" >row
        echo "$1"
        grep -qF -e "\`${2//|/\\|}\`" row
        bash -c "$1" >left
        bash -c "$2" >right
        [ -s left ]
        case $1 in
        sort* | comm*) sed 's/^ *\([0-9]*\) /\1\t/' left | sort | diff - <(sort right) ;;
        *) diff left right ;;
        esac
    }
    alike "awk '!a[\$0]++' f" 'seen dedup f'
    alike 'sort -u f' 'seen dedup f'
    sed -n '/,/p' f >fields
    mv f lines
    mv fields f
    alike "awk -F, '!a[\$2]++' f" 'seen dedup -d, -f 2 f'
    mv lines f
    alike 'grep -xFf old new' 'seen query --list old new'
    alike 'grep -vxFf old new' 'seen query -v --list old new'
    alike 'comm -13 <(sort old) <(sort new)' 'seen query -v --list old new'
    alike 'sort f | uniq -d' 'seen dedup -v f | seen dedup'
    seen create --counted c.seen f
    alike 'sort f | uniq -c' 'seen query --show-counts c.seen f | seen dedup'
    grep -F "\`sed -n 's/^1\\t//p'\`" "$SOURCE/README.md"
    seen query --show-counts c.seen f | sed -n 's/^1\t//p' | sort >right
    sort f | uniq -u | diff - right
}

@test "the links of the README lead to files" {
    grep -oE '\]\([^)]+\)' "$SOURCE/README.md" | sed 's/^](//; s/)$//' | grep -v : >links
    [ "$(wc -l <links)" -ge 10 ]
    while IFS= read -r link; do
        echo "$link"
        [ -e "$SOURCE/$link" ]
    done <links
}

@test "bits a key in README and seen-create(1) are those of seen plan, and the least is log2(1/p)" {
    seen plan -n 10M -p 1e-6 --json >sizes
    bits() { jq -r ".kinds[] | select(.kind == \"$1\") | .bits_per_key" sizes; }
    row() { grep -F -e "$1" "$SOURCE/README.md" | sed -E 's/.*\| ([0-9.]+) \|$/\1/'; }
    equal "$(row 'it grows |')" "$(printf %.1f "$(bits bloom)")"
    equal "$(row '--forget-after 7d')" \
        "$(seen plan -n 10M -p 1e-6 --generations 10 --json | jq '(.bytes * 8 / 1e6 | round) / 10')"
    equal "$(row 'create --compact` |')" "$(printf %.2f "$(bits compact)")"
    equal "$(row 'create --counted` |')" "$(printf %.2f "$(bits counted)")"
    seen plan -n 10M -p 1e-6 --fixed --json >sizes
    equal "$(row 'create --fixed')" "$(printf %.1f "$(bits bloom)")"
    grep -qF 'theoretical minimum is 19.93 bits' "$SOURCE/README.md"
    # seen-create(1) has them too, with one decimal.
    sed -n '/^which kind/,/^\.fi/p' "$SOURCE/man/seen-create.1" | sed -nE 's/.* ([0-9]+\.[0-9])$/\1/p' >page
    sed -nE 's/^\|.*\| ([0-9.]+) \|$/\1/p' "$SOURCE/README.md" | xargs printf '%.1f\n' | diff page -
}

@test "the README, its picture and seen-performance(7) have the figures of one run" {
    PYTHONDONTWRITEBYTECODE=1 python3 "$SOURCE/tests/bench/page.py" --check
}
