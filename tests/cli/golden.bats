#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Files that version 1.0.0 made are read for ever: the golden files (tests/lib/golden.bash).
# tags: foreign

load ../lib/helpers
load ../lib/golden

# each COMMAND: runs it for each golden file, with its row in these variables, and the file as $name.seen here.
each()
{
    local name form options present others takes counts facts n=0
    while IFS=$'\t' read -r name form options present others takes counts facts; do
        if lacks_library "$name"; then
            continue
        elif [ -e "$GOLDEN/$name.seen.gz" ]; then
            gzip -dc "$GOLDEN/$name.seen.gz" >"$name.seen"
        else
            tar -xzf "$GOLDEN/$name.seen.tar.gz"
        fi
        echo "golden file: $name"
        "$1"
        rm "$name.seen"
        n=$((n + 1))
    done <"$GOLDEN/manifest.tsv"
    [ $n -ge 90 ]
}

# lacks_library NAME: is the filter of a digest or a secret, and the program was built without the library for it?
lacks_library()
{
    case $1 in
        digest* | input-digests | prepared) [[ $(seen --version) == *$'\ndigests: not available'* ]] ;;
        secret*) [[ $(seen --version) == *$'\nsecrets: not available'* ]] ;;
        *) return 1 ;;
    esac
}

# has_keys: the filter has the keys that it was made of.
has_keys()
{
    found "$PWD/$name.seen" "$form" "$options" >have
    head -n "$present" have | diff - <(seq "$present")
}

@test "golden files are what they were" {
    described()
    {
        seen stats --json "$name.seen" >>described
        printf '%s\t%s\n' "$name" "$facts" >>wanted
    }
    each described
    stored_facts <described | paste <(cut -f 1 wanted) - | diff - wanted
}

@test "golden files are sound" {
    sound()
    {
        if [[ $facts == *'"dirty"'* ]]; then
            run -2 seen verify "$name.seen"
            [[ $output == "seen: '$name.seen' is dirty "* ]]
        else
            run -0 seen verify "$name.seen"
            [ "$output" = "$name.seen: ok" ]
        fi
    }
    each sound
}

# answered: all that is asked is answered as it was, what is wrong by chance too.
answered()
{
    found "$PWD/$name.seen" "$form" "$options" >have
    seq "$present" >wanted
    [ "$others" = - ] || tr , '\n' <<<"$others" >>wanted
    diff have wanted
}

@test "golden files give the answers that they gave" {
    each answered
}

# keys_of_records: what seen hands to the preparation of keys.
keys_of_records()
{
    case $options in
        -0) tr '\0' '\n' ;;
        *-f2,3 | *-f2-) cut -d , -f 2- ;;
        *-d,* | --csv*) cut -d , -f 2 ;;
        -w*) awk '{ print $2 }' ;;
        --jsonl*) jq -r .id ;;
        --crlf) tr -d '\r' ;;
        *) cat ;;
    esac
}

# That reader is slow: it is asked for each fourth key, and not for the many pages of the PHP class.
@test "golden files are read by a program that was written from seen(5), with the same answers" {
    asked()
    {
        form "$form" 1 600 >records
        keys_of_records <records >"$name.keys"
        found "$PWD/$name.seen" "$form" "$options" | awk '$1 <= 600' >"$name.have"
        if [[ $facts == *'"counted"'* ]]; then
            local given=()
            [ "$options" = - ] || read -ra given <<<"$options"
            in_golden --show-counts "${given[@]}" "$PWD/$name.seen" "$PWD/records" | cut -f 1 |
                paste "$name.have" - >"$name.counts"
        fi
        ln "$name.seen" "$name.copy"
        echo "$name" >>names
    }
    each asked
    PYTHONDONTWRITEBYTECODE=1 python3 - "$SOURCE" "$GOLDEN/secret" <<'PYTHON'
import os, sys
sys.path.insert(0, sys.argv[1] + "/tests/lib")
from reader import Filter
secret = open(sys.argv[2], "rb").read()
wrong = 0
for name in open("names").read().split():
    seen = Filter(name + ".copy", secret)
    with open(name + ".keys", "rb") as keys, open(name + ".have") as have:
        keys = keys.read().split(b"\n")[:-1]
        have = [int(line) for line in have]
    have = [n for n in have if n % 4 == 0]
    if [n for n in range(4, len(keys) + 1, 4) if keys[n - 1] in seen] != have:
        print("other keys:", name)
        wrong = 1
    if os.path.exists(name + ".counts"):
        with open(name + ".counts") as counts:
            counts = dict(map(int, line.split()) for line in counts)
            if [seen.count(keys[n - 1]) for n in have] != [counts[n] for n in have]:
                print("other counts:", name)
                wrong = 1
    if name != "php":
        seen.verify()
sys.exit(wrong)
PYTHON
}

@test "golden files count" {
    count()
    {
        case $counts in
            -) return ;;
            all) seq "$present" | awk '{ print $1 % 3 + 1 "\t" $1 }' >wanted ;;
            once) seq "$present" | sed 's/^/1\t/' >wanted ;;
        esac
        seen query --show-counts "$name.seen" <(seq "$ASKED") >have
        diff have wanted
        # Its batches are remembered by their IDs.
        if [ "$counts" = all ]; then
            seen add --batch-id one "$name.seen" -k 1
            seen query --show-counts "$name.seen" <(seq "$ASKED") >have
            diff have wanted
        fi
        touch "counted-$counts"
    }
    each count
    [ "$(ls counted-*)" = $'counted-all\ncounted-once' ]
}

@test "golden files take keys, and keep those that they have" {
    take()
    {
        [ "$takes" = add ] || return 0
        local given=("$PWD/$name.seen")
        [ "$options" = - ] || read -ra given <<<"$options $PWD/$name.seen"
        form "$form" 5001 5030 >new
        (cd "$GOLDEN" && seen add "${given[@]}") <new
        (cd "$GOLDEN" && seen query "${given[@]}") <new >have
        diff have new
        has_keys
        run -0 seen verify "$name.seen"
    }
    each take
}

@test "golden files that an interrupted run left are repaired" {
    repair()
    {
        [[ $facts == *'"dirty"'* || $facts == *'"writing"'* ]] || return 0
        seen verify --repair "$name.seen"
        [ "$(state "$name.seen")" = clean ]
        has_keys
        touch "repaired-$name"
    }
    each repair
    printf 'repaired-%s\n' dirty half-grown half-rotated killed killed-profile unsynced | diff - <(ls -d repaired-*)
}

@test "there is a golden file of each kind, layout, policy and preparation" {
    local manifest=$GOLDEN/manifest.tsv word
    # Kinds and layouts, as plan and help list them.
    for word in bloom compact counted $(seen help --layouts | cut -f 1 | cut -d : -f 1 | sort -u); do
        grep -q "\"$word\"" "$manifest" || { echo "there is none of kind $word"; return 1; }
    done
    for word in $(seen help --layouts | grep -oE '^(guava|redisson):(funnel|codec)=[a-z0-9]+' | sed 's/:.*=/-/'); do
        grep -q "^$word"$'\t' "$manifest" || { echo "there is none of $word"; return 1; }
    done
}

@test "a golden file is not smaller than what is asked of it: a wrong answer is noticed" {
    name=fixed form=number options=- present=300
    seq 299 | seen create --fixed -n 400 -p 0.01 fixed.seen
    others=$(awk -F '\t' '$1 == "fixed" { print $5 }' "$GOLDEN/manifest.tsv")
    run -1 answered
}
