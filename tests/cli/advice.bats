#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Advice is code: the commands of recipes and messages lose no record of wild input, and join none.
# tags: slow

load ../lib/helpers

# Records that break commands which were tried with words alone. The last one lacks its newline.
wild()
{
    printf '%s\n' plain '"quoted, twice"' "it's" 'back\slash \n' '  blanks  ' $'tab\ttab' 9223372036854775808 \
        9007199254740993 9007199254740992 -x a=b "\$HOME \`id\` *" '' plain
    printf 'carriage\r\nn\0l\nlast'
}

# python EXPRESSION <INPUT: its value, for `lines`, the records of the input: one on each line.
python()
{
    python3 -c 'import sys
data = sys.stdin.buffer.read()
lines = data[:-1 if data.endswith(b"\n") else None].split(b"\n") if data else []
def first(key, lines):
    found = {}
    return [found.setdefault(key(x), x) for x in lines if key(x) not in found]
sys.stdout.buffer.write(b"".join(x + b"\n" for x in eval(sys.argv[1])))' "$1"
}

# The programs in bin come before those of the machine.
own_bin()
{
    mkdir bin
    PATH=$PWD/bin:$PATH
}

# keeps TITLE N INPUT EXPRESSION: recipe N prints these of the wild lines, as python has them; none of an empty file.
keeps()
{
    echo "recipe: $1"
    rm -f ./*.seen
    wild | sed '/^$/d' >"$3"
    recipe "$1" "$2" >got
    python "$4" <"$3" | cmp - got
    rm -f ./*.seen
    : >"$3"
    [ "$3" = names.txt ] || recipe "$1" "$2" >got || [ $? = 1 ]
    [ "$3" = names.txt ] || [ ! -s got ]
}

@test "recipes keep all records of wild input" {
    keeps 'The last line of each key' 1 prices.csv 'first(lambda x: x.split(b",")[0], lines[::-1])[::-1]'
    keeps 'Lines that occur once' 1 names.txt '[x for x in lines if lines.count(x) == 1]'
    keeps 'One URL in several spellings' 1 found 'first(lambda x: x, lines)'
    keeps 'JSON Lines' 1 events.jsonl lines
    own_bin
    printf '#!/bin/sh\ncat links\n' >bin/links
    chmod +x bin/links
    keeps 'A sliding week' 4 links 'first(lambda x: x, lines)'
}

@test "a recipe of jobs: each record is one argument" {
    own_bin
    # shellcheck disable=SC2016 # for another shell
    printf '#!/bin/sh\nprintf "%%s\\n" "$#" "$1" >>jobs\n' >bin/work
    chmod +x bin/work
    wild | tr -d '\0' >todo.txt
    recipe 'Feeding xargs' 2
    python 'sum(([b"1", x] for x in lines), [])' <todo.txt | cmp - jobs
    run -1 seen query -v done.seen todo.txt
}

@test "no records lost to false positives: of wild records either" {
    own_bin
    printf '#!/bin/sh\ncat all\n' >bin/links
    chmod +x bin/links
    wild >all
    printf 'plain\n  blanks  ' >known.txt
    seen create -p 0.3 -n 100 urls.seen known.txt
    recipe 'No records lost to false positives' 1
    LC_ALL=C sort -u known.txt | cmp - <(python 'sorted(set(lines))' <all)
    python 'sorted(set(lines) - {b"plain", b"  blanks  "})' <all | cmp - new.txt
}

@test "FASTQ: names with tabs, quality with quotes, no last newline" {
    printf '%s\n' $'@1\ttag' ACGT + "'\"\\,#" @2 ACGT $'+2\ttag' '####' @3 ACGA + '@   ' $'@4' TTT + >reads.fastq
    printf '\\"#' >>reads.fastq
    gzip reads.fastq
    recipe FASTQ 1 >got
    gzip -dc reads.fastq.gz | python 'lines[:4] + lines[8:]' | cmp - got
    # A producer that breaks off is told from the end.
    head -c 50 reads.fastq.gz >start
    mv start reads.fastq.gz
    run ! recipe FASTQ 1
}

@test "files that are not known as good: any name, digests in either case" {
    mkdir srv
    wild >srv/-x
    for name in -y 'two  blanks' 'back\slash' "quo'te\"s" good Good; do
        echo "$name" >"srv/$name"
    done
    printf x >$'srv/new\nline'
    : >srv/empty
    sha1sum srv/good | cut -c -40 >good.txt
    sha1sum srv/Good | cut -c -40 | tr 'a-f' 'A-F' >>good.txt
    sha1sum srv/empty | cut -c -40 | tr -d '\n' >>good.txt
    recipe 'Files that are not known as good' 1 's,/srv,srv,' |
        sed 's/^[0-9a-f]\{40\}  //' | LC_ALL=C sort >got
    printf '%s\n' srv/-x srv/-y 'srv/two  blanks' 'srv/back\slash' "srv/quo'te\"s" $'srv/new\nline' |
        LC_ALL=C sort | cmp - got
}

# advised FILE: runs the command by which a message says that `FILE | seen ...` reads this file.
advised()
{
    rm -rf DIR NEW
    run -2 --separate-stderr seen create f.seen "$1"
    echo "$stderr" >&2
    command=$(sed -n 's/^.*: \(.*\) | seen \.\.\..*/\1/p' <<<"$stderr")
    [ -n "$command" ]
    sh -c "${command//FILE/$1}"
}

# reads FILE [EXPRESSION]: so it has these of the wild records, packed with gzip too.
reads()
{
    local file
    gzip -kf "$1"
    for file in "$1" "$1.gz"; do
        advised "$file" | LC_ALL=C sort >got
        python "sorted(${2:-lines})" <list | cmp - got
    done
}

@test "the commands of messages about other files read all their records" {
    wild >list
    gzip -c <list | gzip >twice
    advised twice | cmp - list
    for name in xz zstd bzip2 lz4; do
        command -v $name >/dev/null || continue
        $name -c <list >packed
        reads packed
    done
    tr -d '\0' <list | tr '\r' '!' >text
    mv text list
    for name in UTF-16 UTF-16LE UTF-16BE UTF-32; do
        seq 1000 | cat list - | iconv -t $name >wide
        seq 1000 | cat list - >whole
        mv list kept
        mv whole list
        reads wide
        mv kept list
    done
    if command -v sqlite3 >/dev/null; then
        python3 -c 'import sqlite3, sys
db = sqlite3.connect("db")
db.execute("create table t (c text)")
db.executemany("insert into t values (?)", [(x,) for x in sys.stdin.read().split("\n")])
db.commit()' <list
        run -2 --separate-stderr seen create f.seen db
        [[ $stderr == *": sqlite3 FILE 'SELECT column FROM table' | seen ..." ]]
        sqlite3 db 'SELECT c FROM t' | LC_ALL=C sort | cmp - <(python 'sorted(lines)' <list)
    fi
}

@test "files of an archive stay apart from each other" {
    mkdir in
    (cd in && wild >-x && printf 'no newline' >'two words' && : >empty && wild >z)
    (cd in && awk 1 ./*) >list
    tar -cf tar -C in .
    reads tar
    python3 -m zipfile -c zip in/*
    ! command -v unzip >/dev/null || reads zip
}

@test "the commands of messages about several files keep them apart" {
    printf 'a\nb' >one
    printf 'c\nd' >-x
    : >empty
    printf '=' >name=1 # an assignment, as an operand of awk
    printf 'one\0-x\0empty\0name=1\0' >names
    run -2 --separate-stderr seen create --files0-from names f.seen
    command=$(sed -n "s/.*: \(xargs .*\) | seen \.\.\. reads the files/\1/p" <<<"${stderr_lines[0]}")
    sh -c "${command//NAMES/names}" | cmp - <(printf 'a\nb\nc\nd\n=\n')
    sh -c "${command//NAMES/empty}" 2>&1 | cmp - empty
    run -2 --separate-stderr seen dedup --no-sync one empty
    command=$(sed -n 's/.*; without FILTER: //p' <<<"$stderr")
    sh -c "${command//FILE.../empty -- -x}" | cmp - <(printf 'a\nb\nc\nd\n')
}

# propose PATTERN COMMAND...: the command that the message of a refused one proposes, PATTERN as for sed.
propose()
{
    run -2 --separate-stderr "${@:2}" </dev/null
    echo "$stderr" >&2
    command=$(sed -n "s/.*$1.*/\\1/p" <<<"${stderr_lines[0]}")
    [ -n "$command" ]
}

@test "the commands of messages name files as a shell reads them" {
    local command dir name
    # As many as fit into a name, with a suffix.
    quotes=$(printf "'%.0s" {1..247})
    # shellcheck disable=SC2016 # it is a name
    for name in plain "-x it's" $'line\nof \\ it\'s' '$HOME `id` "*"' $'\xff' '=ä;b' "$quotes"; do
        dir=$(mktemp -d -p "$BATS_TEST_TMPDIR")
        cd "$dir"
        wild | tr -d '\0\r' | sed '/^$/d' >"$dir/$name.list"
        seen create "$dir/f" "$dir/$name.list"
        cp f "$dir/$name.seen"
        seen create --layout dcso d "./$name.list"
        seen export d -o "$dir/$name.dcso"
        gzip -k -- "$name.dcso"
        # Each of them reads the list, and finds or prints each record once.
        propose 'its lines: \(seen query .*\); to make' seen query -- "$name.list"
        bash -c "$command -k plain"
        propose 'one of them: \(seen create .*\)' seen query -- "$name.list"
        bash -c "${command/FILTER/g}"
        equal "$(fact f keys_added)" "$(fact g keys_added)"
        propose 'its lines: \(seen create .*\)' seen stats -- "$name.list"
        bash -c "${command/FILTER/h}"
        propose 'without FILTER: \(seen .*\)' seen dedup --no-sync -- "$name.list"
        seen dedup <"$name.list" | cmp - <(bash -c "$command")
        propose 'field: \(seen .*\)' seen dedup -k 1 -- "$name.list"
        seen dedup <"$name.list" | cmp - <(bash -c "${command/ N / 1 }")
        propose 'lines once: \(seen .*\); to make' seen "./$name.list"
        seen dedup <"$name.list" | cmp - <(bash -c "$command")
        propose 'filter of them: \(seen .*\)' seen "./$name.list"
        bash -c "${command/FILTER/l}"
        # Filters, and what is meant of two names.
        propose 'it holds: \(seen stats.*\)' seen "./$name.seen"
        bash -c "$command"
        propose 'gives a key: \(seen .*\)' seen query -- "$name" "$name.seen"
        bash -c "$command -0" || [ $? = 1 ] # a key may have a newline
        propose 'mean -k \(.*\), or ' seen query f "-k=$name"
        printf '%s\0' "$name" | cmp - <(bash -c "seen dedup -0 -k $command")
        propose 'mean \(-o .*\)?' seen merge -- "$name.seen" "$name.new"
        bash -c "seen merge f f $command"
        [ -e "$name.new" ]
        rm -- "$name.new"
        propose 'mean \(.* -o .*\)? (' seen shrink -o "$name.seen" -- "$name.new"
        bash -c "seen shrink $command"
        [ -e "$name.new" ]
        propose 'its keys: \(seen .*\)' seen merge -o "$name.seen" -- "$name.new"
        bash -c "$command"
        propose 'its own -k: \(.*\)' seen query f -k a -- "$name"
        printf '%s\0' "$name" | cmp - <(bash -c "seen dedup -0 $command")
        printf '%032d:1\n' {1..9} >"$dir/$name.digests"
        propose 'their digests: \(seen .*\) (--trim' seen create k -- "$name.digests"
        bash -c "${command/FILTER/k}"
        [ "$(seen query --input-digests -d: -f1 -c k "$dir/$name.digests")" = 9 ]
        # Files of another program.
        propose '; \(seen import .*\)' seen verify -- "$name.dcso"
        bash -c "${command/FILTER/i}"
        seen verify i
        propose '; \(gzip .*\) unpacks it' seen verify -- "$name.dcso.gz"
        bash -c "${command/NEW/j}"
        cmp j "$dir/$name.dcso"
        seen create --layout redisbloom r "$dir/$name.list"
        seen export r -o "./$name"
        propose '.header.: \(seen import .*\)' seen verify -- "$name"
        bash -c "${command/FILTER/p}"
        run -1 seen query -v p "$dir/$name.list"
    done
}

@test "a command has a long name as a whole, or what no shell runs, or is left out" {
    local command dir name quotes said shell word
    quotes=$(printf "'%.0s" {1..255})
    name=$(printf 'n%.0s' {1..255})
    seen create f -k a
    # 255 quotes are the longest word of quotes, and one more is none; of other bytes it is four times as many.
    propose '-k: -k \(.*\)' seen query f -k a -- "$quotes"
    equal "$(bash -c "printf %s $command")" "$quotes"
    propose '-k: -k \(.*\)' seen query f -k a -- "$quotes''"
    equal "$command" '(...)'
    propose '-k: -k \(.*\)' seen query f -k a -- "-$name$name$name$name"
    equal "$command" "-$name$name$name$name"
    propose '-k: -k \(.*\)' seen query f -k a -- "$name$name$name$name$name"
    equal "$command" '(...)'
    # A value that is named twice.
    for word in "${name:1}$name$name$name" "${quotes:1}" "$name$name$name$name"; do
        propose ', or --key=\(.*\)?' seen query f -k="$word"
        [ ${#word} = 1020 ] || equal "$(bash -c "printf %s $command")" "=$word"
        [ ${#word} != 1020 ] || equal "$command" '(...)'
    done
    run -0 seen dedup "-k2,$(printf '2%.0s' {1..5000})"
    # Files at paths of any length.
    for dir in "$quotes/$quotes" "$name/$quotes/$name" "$name/$name/$name/$name" \
        "$name/$name/$name/$name/$name/$name/$name/$name" "$quotes/$quotes/$quotes/$quotes/$quotes/$quotes/$quotes"; do
        for word in "" "/$quotes" "/$name" "/$name/$quotes" "/$name/$name/$name/$name"; do
            mkdir -p "$dir$word"
            printf 'a\nb\n' >"$dir$word/x"
            run -2 --separate-stderr seen query "$dir$word/x"
            said=${stderr_lines[0]}
            case ${said##*/x\' is not a seen filter} in
                '; to ask its lines: seen query --list (...); to make one of them: seen create FILTER (...)') ;;
                *)
                    command=${said##*FILTER }
                    equal "$(bash -c "cat $command")" $'a\nb'
                    ;;
            esac
        done
    done
    # The two files of a filter, whose name the message has three times.
    seen create --layout redisbloom r -k a
    dir=.
    for _ in {1..9}; do
        dir=$dir/$name
        mkdir -p "$dir"
        seen export r -o "$dir/r"
        run -2 --separate-stderr seen verify "$dir/r"
        command=${stderr_lines[0]#*: seen import }
        case $command in
            seen:*) [ ${#dir} -gt 2048 ] ;; # no room for a command
            *'(...)'*) equal "$command" '--layout redisbloom (...) -o FILTER' ;;
            *) equal "$command" "--layout redisbloom $dir/r -o FILTER" ;;
        esac
    done
    # What does not fit into the message is no command either.
    dir=$(printf "$name/%.0s" {1..15})
    word=$name/$name/$name/${name:50}
    mkdir -p "$dir" "${word%/*}"
    cp f "$dir/f"
    cp f "$word"
    propose 'its keys: \(seen .*\)' seen merge -o "$dir/f" f
    equal "$command" 'seen merge --force -o (...) (...) f'
    for shell in sh bash; do
        run ! $shell -n -c "$command"
    done
    refuses "seen: '$dir/f' exists (--force replaces it)" seen merge -o "$dir/f" "$word"
}

@test "commands that messages about other kinds of files show" {
    wild | tr '\r' '!' >list
    tr '\n' '\r' <list >cr
    run -0 --separate-stderr seen create f.seen cr
    command=$(sed -n 's/.*; \(tr .*\) | seen \.\.\. separates them/\1/p' <<<"$stderr")
    sh -c "${command//FILE/cr}" | cmp - list
    # Files that cat joins, which may lack their last newline.
    wild >-x
    wild | gzip >-y.gz
    : >empty
    cat -- -x -y.gz >joined
    run -2 --separate-stderr seen create g.seen joined
    command=$(sed -n 's/.*: \(for .*\) | seen \.\.\./\1/p' <<<"$stderr")
    sh -c "${command//FILE.../-x empty -y.gz}" | cmp - <(awk 1 ./-x ./-x)
    # The elements of an array are lines of JSON.
    python3 -c 'import json, sys
lines = sys.stdin.read().split("\n")
json.dump([{"id": n, "text": x} for n, x in enumerate(lines, 2**63 - 3)], sys.stdout)' < <(tr -d '\0' <list) >array
    run -0 --separate-stderr seen create h.seen array
    command=$(sed -n 's/.*; \(python3 .*\) | seen .*/\1/p' <<<"$stderr")
    sh -c "${command//FILE/array}" >got
    seen create -p 1e-9 i.seen < <(tr -d '\0' <list | awk 1)
    equal "$(seen query -c --jsonl -f .text --skip-bad i.seen got)" "$(grep -vc '"text": ""' got)"
    seen create -p 1e-9 j.seen < <(for i in 5 6 7 8 9; do echo 922337203685477580$i; done)
    [ "$(seen query -c --jsonl -f .id j.seen got)" = 5 ]
}

@test "no other command is in a message" {
    grep -ohE '"[a-z0-9]+ (x )?(-[a-zA-Z]|FILE)' "$SOURCE"/src/keys/content.c | tr -d '"' | cut -d ' ' -f 1 | sort -u >there
    printf '%s\n' 7z bzip2 duckdb gzip iconv lz4 lzip pdftotext sqlite3 tar unrar unzip xz zstd | diff - there
    # Files whose records meet are never joined as they are.
    run ! grep -rnE '\bcat [^"]*FILE\.|\bcat .%s|xargs -0 cat|tar -xO|unzip -p|7z x -so|unrar p' "$SOURCE"/src "$SOURCE"/man "$SOURCE"/README.md
}
