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

@test "each difference has its words, and a key that shows it" {
    made=
    while IFS='~' read -r keys asked says; do
        # shellcheck disable=SC2059 # the formats of 300 keys
        [ "$keys" = "$made" ] || printf "$keys\n" {1001..1300} | seen create -p 1e-9 --force f.seen 2>said
        made=$keys
        # shellcheck disable=SC2059
        run -1 --separate-stderr seen query f.seen < <(printf "$asked\n" {1001..1300})
        equal "$stderr" "seen: note: none of the first 256 keys is in 'f.seen'$says"
    done <<'TABLE'
x%d\r~x%d~, but 'x1016\r' is: its keys end in CR, these do not: make it again with --crlf
x%d~"a","x%d"~, but 'x1016' is: these are rows of CSV, its keys are not: --csv -f NAME takes a field
x%d~"x%d"~, but 'x1016' is: these are between quotes, its keys are not: --csv --no-header -f 1 drops them
x%d~{"a":"x%d"}~, but 'x1016' is: these are JSON, its keys are not: --jsonl -f .NAME takes a value
x%d~a\tx%d~, but 'x1016' is: these have TABs in them, its keys have not: -f 2 takes a field
x%d~a|x%d~, but 'x1016' is: these have '|' in them, its keys have not: -d'|' -f 2 takes a field
x%d~a;x%d~, but 'x1016' is: these have ';' in them, its keys have not: -d';' -f 2 takes a field
x%d~a,x%d~, but 'x1016' is: these have ',' in them, its keys have not: -d, -f 2 takes a field
x%d~7:x%d~, but 'x1016' is: these have ':' in them, its keys have not: -d: -f 2 takes a field
x%d~%040x~: these are digests, its keys are not: ask the filter that was made with --digest
x%d~2024-01-02 x%d~, but 'x1016' is: these have blanks in them, its keys have not: -w -f 2 takes a word
x%d~ x%d ~, but 'x1016' is: these have blanks around them, its keys have not: -w -f N takes a word
x%d~'x%d'~, but 'x1016' is: these are between ', its keys are not: tr -d \' <FILE | seen ...
x%d~a:x%d~, but 'x1016' is: these have ':' in them, its keys have not: -d: -f 2 takes a field
x%d~a  x%d~, but 'x1016' is: these have blanks in them, its keys have not: -w -f 2 takes a word
x%d~<x%d>~, but 'x1016' is: these begin with '<' or '>', its keys do not
x%d~a@x%d~, but 'x1016' is: these have '@' in them, its keys have not: -d@ -f 2 takes what follows it
x%d~a\\x%d~, but 'x1016' is: these have '\' in them, its keys have not
x%d~x%d.~, but 'x1016' is: these end in '.', its keys do not
x%d~%d~: these are numbers, its keys are not: is it another field (-f)?
x%d~a/x%d~, but 'x1016' is: these have '/' in them, its keys have not: -d/ -f -1 takes the name
x%d~a,b,c,x%d~, but 'x1016' is: these have ',' in them, its keys have not: -d, -f 4 takes a field
"a","x%d"~x%d~: its keys are rows of CSV, these are not: make it again with --csv -f NAME
{"a":"x%d"}~x%d~: its keys are JSON, these are not: make it again with --jsonl -f .NAME
%040x~%040x rest~, but '00000000000000000000000000000000000003f8' is: these begin with a digest and go on, its keys do not: -w -f 1, or -d: -f 1
%040x~%064x~: these have 64 hexadecimal digits, its keys 40: they are other digests
%040x~x%d~: its keys are digests, these are not: make it with --digest NAME --input-digests
%040x rest~%040x~: its keys begin with a digest and go on, these do not: make it again with -w -f 1, or -d: -f 1
a\tx%d~x%d~: its keys have TABs in them, these have not: the same -f for both
a;x%d~x%d~: its keys have ';' in them, these have not: the same -d and -f for both
7:x%d~x%d~: its keys begin with a number and ':', these do not: make it again with -d: -f 2
a0b1c2d3e4f5061728394a5b6c7d%04x~a0b1c2d3-e4f5-0617-2839-4a5b6c7d%04x~, but 'a0b1c2d3e4f5061728394a5b6c7d03f8' is: these are UUIDs with dashes, its keys are not: tr -d - <FILE | seen ...
2024-01-02 x%d~x%d~: its keys begin with a date, these do not: make it without the date
a%d.example~http://a%d.example/p~, but 'a1016.example' is: these begin with http:// or another scheme, its keys do not: -d/ -f 3 takes the host
a%d.example~www.a%d.example~, but 'a1016.example' is: these begin with www., its keys do not
http://a%d.example/p~a%d.example/p~, but 'http://a1016.example/p' is: its keys begin with http:// or another scheme, these do not
http://a%d.example~https://a%d.example~, but 'http://a1016.example' is: these begin with https, its keys do not
https://a%d.example~http://a%d.example~, but 'https://a1016.example' is: its keys begin with https, these do not
 x%d ~x%d~: its keys have blanks around them, these have not: make it again with --trim
www.a%d.example~a%d.example~, but 'www.a1016.example' is: its keys begin with www., these do not
http://www.a%d.example~http://a%d.example~, but 'http://www.a1016.example' is: its keys begin with www., these do not
a/x%d~a/x%d/~, but 'a/x1016' is: these end in '/', its keys do not
a/x%d~./a/x%d~, but 'a/x1016' is: these begin with ./, its keys do not: cut -c 3- FILE | seen ...
a/x%d~/a/x%d~, but 'a/x1016' is: these begin with '/', its keys do not
a/x%d~a\\x%d~, but 'a/x1016' is: these have '\' in them, its keys have not
a/x%d/~a/x%d~, but 'a/x1016/' is: its keys end in '/', these do not
./a/x%d~a/x%d~, but './a/x1016' is: its keys begin with ./, these do not
/a/x%d~a/x%d~, but '/a/x1016' is: its keys begin with '/', these do not
1555%d~+1555%d~, but '15551016' is: these begin with '+', its keys do not
001555%d~+1555%d~, but '0015551016' is: these begin with '+', its keys do not
+1555%d~1555%d~, but '+15551016' is: its keys begin with '+', these do not
+1555%d~001555%d~, but '+15551016' is: its keys begin with '+', these do not
e\xcc\x81%d~\xc3\xa9%d~: its keys are in decomposed form (NFD), these are not: uconv -x nfd FILE | seen ...
\xc3\xa9%d~e\xcc\x81%d~: these are in decomposed form (NFD), its keys are not: uconv -x nfc FILE | seen ...
\xc3\xa9%d~\xe9%d~: these are not UTF-8, its keys are: iconv -f latin1 -t utf-8 FILE | seen ...
x%d.~x%d~, but 'x1016.' is: its keys end in '.', these do not
abc%d~ABC%d~, but 'abc1016' is: these have capitals, its keys small letters: make it with --ignore-case
ABC%d~abc%d~, but 'ABC1016' is: these have small letters, its keys capitals: make it with --upper
%d~%07d~: these have zeros before them, its keys have not
%d~x%d~: its keys are numbers, these are not: is it another field (-f)?
%d~x@y%d~: these have '@' in them, its keys have not: -d@ -f 2 takes what follows it
y%d~7:x%d~: these begin with a number and ':', its keys do not: -d: -f 2 (grep without -n)
y%d~2024-01-02 x%d~: these begin with a date, its keys do not: -w -f N takes a word
ABCDEF0123456789ABCDEF01234567890123%04d~abcdef0123456789abcdef01234567890123%04d~, but 'ABCDEF0123456789ABCDEF012345678901231016' is: these digests have small letters, its keys capitals: make it with --upper
abcdef0123456789abcdef01234567890123%04d~ABCDEF0123456789ABCDEF01234567890123%04d~, but 'abcdef0123456789abcdef012345678901231016' is: these digests have capitals, its keys small letters: make it with --ignore-case
TABLE
}

@test "the fewer keys are asked, or known of the filter, the clearer they must differ" {
    local keys held asked noted
    # That keys are JSON is told by one, a sign in them by 20, and three signs by 5.
    while read -r keys held asked noted; do
        # shellcheck disable=SC2059 # a format
        printf "$keys\n" $(seq 1000 $((999 + held))) | seen create --force f.seen
        run -1 --separate-stderr seen query f.seen < <(seq -f 'x%g' "$asked")
        echo "$keys, $held, $asked: $stderr"
        [ "${stderr:+a note}" = "$noted" ]
    done <<'END'
{"a":"%d"} 250 1 a note
{"a":"%d"} 249 4
{"a":"%d"} 249 5 a note
{"a":"%d"} 64 5 a note
{"a":"%d"} 63 100
a@b:%d 250 19
a@b:%d 250 20 a note
a@b:%d 249 100
a@b,c:%d 250 4
a@b,c:%d 250 5 a note
a@b,c:%d 249 100
|a|b%d 250 4
|a|b%d 250 5 a note
|a|b%d 249 4
|a|b%d 249 5 a note
END
    # Without a profile nothing is claimed.
    seq 63 | seen create --force f.seen
    run -1 --separate-stderr seen query f.seen < <(seq -f '"x%g"' 100)
    [ -z "$stderr" ]
    # A sign that separates fields is told by one if keys were cut in another way.
    seq -f 'k%g' 250 >keys
    seen create --force f.seen keys
    run -1 --separate-stderr seen query f.seen <<<x,y
    [ -z "$stderr" ]
    sed 's/$/,/' keys | seen create --force -d, -f 1 f.seen
    run -1 --separate-stderr seen query f.seen <<<x,y
    equal "$stderr" "seen: note: this key is not in 'f.seen': these have ',' in them, its keys have not: -d, -f N takes \
a field; its keys were taken with -d, -f 1"
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

@test "a profile that a killed writer left in the session page half written is none" {
    local profile=$((2 * 4096 + 48)) torn
    torn=$(printf 'ff%.0s' {1..64})
    seen create f.seen <(seq 999)
    mkfifo held
    for round in 1 2; do
        seen add f.seen held &
        writer=$!
        exec {hold}>held
        echo "${round}0000" >&"$hold"
        until_present f.seen "${round}0000" $writer
        poke f.seen $profile "$torn"
        if [ $round = 1 ]; then
            # Nobody else has left one.
            kill -9 $writer
            wait $writer || true
            seen verify --repair f.seen
            looks f.seen '1 to 3 digits'
        else
            seen add f.seen <(seq 2000 2999)
        fi
        exec {hold}>&-
    done
    wait "$writer"
    looks f.seen '1 to 5 digits'
    seen verify f.seen
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
    # An add of 64 keys or more begins a profile, if the filter has no more keys than that.
    while read -r before more wanted; do
        cp few.seen begun.seen
        seen add begun.seen <(seq 64 "$before")
        seen add begun.seen <(seq $((before + 1)) $((before + more)))
        looks begun.seen "$wanted"
    done <<<'63 63 null
63 64 2 to 3 digits
64 64 2 to 3 digits
65 64 null'
    # A profile of the last keys is none of the others.
    cp few.seen slow.seen
    for i in 1 2 3 4 5; do
        quiet seen add slow.seen <(seq ${i}000 ${i}059)
    done
    quiet seen add slow.seen <(seq 9000 9099)
    seen create --secret secret --new-secret secret.seen numbers
    seen create --digest sha1 digest.seen numbers
    seen create --hex hex.seen <(seq 1000 1999)
    seen create --no-profile no.seen numbers
    seen add no.seen <(seq 5000)
    seen create --no-profile --empty -n 10000 empty.seen
    seen add empty.seen numbers
    seen merge -o both.seen g.seen no.seen
    seen merge --intersect -o same.seen h.seen h.seen
    seen merge --intersect -o counts.seen n.seen n.seen
    for name in few slow secret digest hex no empty both same counts; do
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
    # However few there are, and if one is there twice.
    for some in 1p 1,2p 1p\;1,20p; do
        run -2 --separate-stderr seen add f.seen <(sed -n "$some" more)
        [[ $stderr == "seen: nothing was added: "* ]]
    done
    quiet seen add -d, -f 2 f.seen more
    run -0 --separate-stderr seen dedup -f 0 f.seen more
    [ "${#lines[@]}" = 300 ]
    [ -z "$stderr" ]
    # Up to a tenth of the records may lack the field.
    sed 's/,/,a,/' rows | seen create -d, -f3 third.seen
    for every in 12 7; do
        head -n 256 more | sed "s/,/,a,/; 1~${every}s/,a//" >some
        run --separate-stderr seen add third.seen some
        echo "$every: $stderr"
        [[ $every,$stderr == 12,'seen: nothing was added: '* || $every,$stderr == 7,'seen: note: '* ]]
    done
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
for name, delimiter in ("comma", ","), ("tab", "\t"), ("semi", ";"), ("bell", "\a"), ("blank", " "):
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
    seen create --force -p 1e-9 -d ' ' -f 2 f.seen blank
    run -1 --separate-stderr seen query -w -f 1 f.seen blank
    [[ $stderr == *"; its keys were taken with -d \"\$(printf '\\040')\" -f 2" ]]
    seen create --force -p 1e-9 -w -f 2 f.seen blank
    run -1 --separate-stderr seen query -d ' ' -f 1 f.seen blank
    [[ $stderr == *"; its keys were taken with -w -f 2" ]]
    # All columns of a table.
    { echo name; seq -f 'x%g' 300; } | seen create --force --csv f.seen
    run -1 --separate-stderr seen query f.seen < <(seq -f 'a;y%g' 300)
    equal "$stderr" "seen: note: none of the first 256 keys is in 'f.seen': these have ';' in them, its keys have not: \
-d';' -f N takes a field; its keys were taken with --csv"
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
    # Plain names stand without quotes.
    seen create --force --csv -f id,2 f.seen comma
    run -1 --separate-stderr seen query f.seen jsonl
    [[ $stderr == *'; its keys were taken with --csv -f id,2' ]]
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

@test "one of 16 keys that is there hides no note" {
    seq 1000 | sed 's|.*|http://a.example/&|' >urls
    { cat urls; echo 7; } | seen create -p 1e-9 f.seen
    run -0 --separate-stderr seen query f.seen < <(seq 1 16)
    [[ $output == 7 && $stderr == "seen: note: only 1 of these 16 keys is in 'f.seen': its keys begin with http:// or "* ]]
    run -0 --separate-stderr seen query f.seen < <(seq 1 15)
    [[ $output == 7 && -z $stderr ]]
    # Of 128 and more, one in 64.
    { cat urls; seq 5; } | seen create --force -p 1e-9 f.seen
    run -0 --separate-stderr seen query -c f.seen < <(seq 2 257)
    [[ $stderr == "seen: note: only 4 of the first 256 keys are in 'f.seen': its keys begin with http:// or "* ]]
    run -0 --separate-stderr seen query -c f.seen < <(seq 256)
    [[ $output == 5 && -z $stderr ]]
    run -0 --separate-stderr seen query -c f.seen < <(seq 4 131)
    [[ $output == 2 && $stderr == "seen: note: only 2 of these 128 keys are in 'f.seen': "* ]]
    # Of several filters, the first that differs.
    seen create g.seen <(seq 1000 2000)
    for filters in 'f.seen --also g.seen' 'g.seen --also f.seen'; do
        # shellcheck disable=SC2086 # words
        run -1 --separate-stderr seen query $filters < <(seq 5001 5300)
        [[ $stderr == "seen: note: none of the first 256 keys is in 'f.seen': its keys begin with http:// or "* ]]
    done
    # Once, however many chunks of records there are.
    run -0 --separate-stderr seen query -c f.seen < <(seq 2 500000)
    equal "${#stderr_lines[@]}" 1
}

@test "no remedy is tried that leaves nothing of a key" {
    { seq 100000 100050; echo; } | seen create -p 1e-9 f.seen
    run -1 --separate-stderr seen query f.seen < <(yes '""' | head -n 60)
    [[ -z $output && $stderr != *"between quotes"* ]]
}
