#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What a filter's keys look like (keys/profile.h), and what is said when keys are asked that look different.

load ../lib/helpers

# forms MODE N FULL-N: tests/lib/forms.py, with more pairs if FULL is set.
forms() { python3 "$BATS_TEST_DIRNAME/../lib/forms.py" "$1" "$([ -n "${FULL-}" ] && echo "$3" || echo "$2")"; }

# looks FILTER TEXT: stats says this.
looks() { equal "$(fact "$1" keys_look_like)" "$2"; }

@test "keys in another form: what differs is named" {
    forms other 12 1000
}

@test "other keys of the same form: hardly a note" {
    forms same 40 5000
}

@test "single keys that are rightly absent: hardly a note" {
    forms absent 80 20000
}

@test "records that fit if they are cut as the filter's keys were are refused, and others are not" {
    forms refused 3 100
}

@test "a profile is kept by what adds keys, and by merges" {
    seq 999 >numbers
    sed 's/^/x@/' numbers >mails
    seen create f.seen numbers
    looks f.seen '1 to 3 digits'
    seen create -j3 --reproducible g.seen <(sort -R numbers) numbers
    seen create -j1 --reproducible h.seen numbers numbers
    cmp g.seen h.seen
    quiet seen add -f 0 f.seen mails
    looks f.seen '1 to 5 bytes'
    seen create --compact c.seen numbers
    looks c.seen '1 to 3 digits'
    seen create --counted n.seen numbers
    quiet seen add n.seen numbers
    looks n.seen '1 to 3 digits'
    seen merge -o m.seen c.seen c.seen
    looks m.seen '1 to 3 digits'
    seen merge -o mm.seen g.seen f.seen
    looks mm.seen '1 to 5 bytes'
    seen shrink -p 0.01 -o s.seen g.seen
    looks s.seen '1 to 3 digits'
    seen dedup --create d.seen mails 2>said >out
    looks d.seen "3 to 5 bytes, '@', small letters"
    # Too few tell too much; so do some kinds. What is left out stays out.
    seen create few.seen <(head -n 63 numbers)
    seen create --secret secret --new-secret secret.seen numbers
    seen create --digest sha1 digest.seen numbers
    seen create --hex hex.seen <(seq 1000 1999)
    seen create --no-profile no.seen numbers
    seen add no.seen <(seq 5000)
    seen create --no-profile --empty -n 10000 empty.seen
    seen add empty.seen numbers
    seen merge -o both.seen g.seen no.seen
    seen merge --intersect -o same.seen h.seen h.seen
    for name in few secret digest hex no empty both same; do
        looks $name.seen null
        [ $name = secret ] || reader verify $name.seen
    done
}

@test "add and dedup refuse another field before anything is added; -f 0 insists" {
    seq 1000 | sed 's|.*|&,http://h&.example/p|' >rows
    # shellcheck disable=SC2238 # a file of that name
    seq 1001 1300 | sed 's|.*|&,http://h&.example/p|' >more
    seen create -d, -f2 f.seen rows
    cp f.seen before
    for command in add dedup; do
        refuses "seen: nothing was added: none of the first 256 keys is in 'f.seen'; its keys were taken with -d, \
-f 2, which fits these records too (-f 0 takes them whole)" seen $command f.seen more
        [ "$(seen query -c -f 0 f.seen more)$(seen query -c -d, -f 2 f.seen more 2>/dev/null)" = 00 ]
    done
    quiet seen add -d, -f 2 f.seen more
    run -0 --separate-stderr seen dedup -f 0 f.seen more
    [ "${#lines[@]}" = 300 ]
    [ -z "$stderr" ]
    # Another feed is none of these. (A pipe might give fewer than 256 keys at first.)
    cp before f.seen
    seq 300 | sed 's/.*/key & of another feed/' >feed
    run -0 --separate-stderr seen add f.seen feed
    [[ $stderr == "seen: note: none of the first 256 keys is in 'f.seen'"* ]]
}

# taken COMMAND...: its note ends with options; with these, query finds all 300 records of $input.
taken()
{
    local options
    run --separate-stderr seen "$@"
    echo "$* $stderr" >&2
    [[ $stderr == "seen: note: none of the first 256 keys is in 'f.seen'"*"; its keys were taken with "* ]]
    options=${stderr##*; its keys were taken with }
    [ "$(eval "seen query -c $options made.seen $input")" -ge 300 ] # or with the names
}

@test "CSV and JSON Lines: a note has the options that the filter's keys were taken with" {
    python3 - <<'PYTHON'
import json
for name, delimiter in ("comma", ","), ("tab", "\t"), ("semi", ";"), ("bell", "\a"):
    with open(name, "w", encoding="utf-8") as out:
        for row in [("id", "the url", "o'clock")] + [(i, "http://a.example/%d" % i, "x") for i in range(300)]:
            out.write(delimiter.join(map(str, row)) + "\n")
with open("jsonl", "w", encoding="utf-8") as out:
    for i in range(300):
        print(json.dumps({"id": i, "the url": ["http://a.example/%d" % i], "o'clock": "http://b.example/%d" % i}), file=out)
PYTHON
    while IFS='|' read -r input made other; do
        eval "seen create --force -p 1e-9 made.seen $made $input"
        for command in query add dedup; do
            cp made.seen f.seen
            # shellcheck disable=SC2086 # words
            taken $command $other f.seen $input
        done
    done <<'END'
comma|--csv -f 'the url'|--csv -f id
comma|--csv -f 2,1|--csv -f 1
comma|--csv -f 2-|-d, -f 1
tab|--csv -d "$(printf '\t')" -f 2|-f 1
semi|--csv -d';' -f 'the url'|-d; -f 1
bell|--csv -d "$(printf '\007')" -f "the url"|-w -f 1
jsonl|--jsonl -f '."the url"[0]'|--jsonl -f .id
jsonl|--jsonl -f ".\"o'clock\""|--jsonl -f .id
comma|-d, -f 2|--csv -f id
END
    # What the filter's keys are is not told where theirs are whole lines, or where the same records were taken.
    tail -n +2 comma | cut -d, -f 2 >urls
    seen create --force f.seen urls
    run -1 --separate-stderr seen query --csv -f id f.seen comma
    [ "$stderr" = "seen: note: none of the first 256 keys is in 'f.seen': its keys begin with http:// or another scheme, these do not" ]
    seen create --force --csv -f 'the url' f.seen comma
    run -1 --separate-stderr seen query f.seen jsonl
    [[ $stderr == *"' is: these are JSON, its keys are not: --jsonl -f .NAME takes a value; its keys were taken with --csv -f 'the url'" ]]
    run -0 --separate-stderr seen query --csv -f 'the url' f.seen comma
    [ -z "$stderr" ]
}

@test "records whose field is hardly different fit no filter: they are another feed" {
    seq 1000 | sed 's/.*/name&:x:&/' | seen create -d: -f 1 f.seen
    seq 300 | sed 's|.*|https://a.example/&|' >urls
    run -0 --separate-stderr seen add f.seen urls
    [[ $stderr == "seen: note: none of the first 256 keys is in 'f.seen': "* ]]
    seq 2001 2300 | sed 's/.*/name&:y:&/' >names
    run -2 --separate-stderr seen add f.seen names
    [[ $stderr == "seen: nothing was added: "*" is in 'f.seen'; its keys were taken with -d: -f 1, which fits"* ]]
}

@test "one of 20 keys that is there hides no note" {
    seq 1000 | sed 's|.*|http://a.example/&|' >urls
    { cat urls; echo 7; } | seen create -p 1e-9 f.seen
    run -0 --separate-stderr seen query f.seen < <(seq 1 20)
    [[ $output == 7 && $stderr == "seen: note: only 1 of these 20 keys is in 'f.seen': its keys begin with http:// or "* ]]
    run -0 --separate-stderr seen query f.seen < <(seq 1 15)
    [[ $output == 7 && -z $stderr ]]
}
