#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What all commands have in common: help, options, numbers, messages, standard streams.

# `run` sets stderr_lines; and single quotes here hold other languages.
# shellcheck disable=SC2154,SC2016
load ../lib/helpers

mapfile -t commands < <(seen help --commands | cut -f 1)
[ "${#commands[@]}" -gt 10 ] || exit 1

# try COMMAND: the second and last line of the message that `refuses` saw says where help is.
try() { [[ ${stderr_lines[1]} == "Try 'seen $1--help'." && ${#stderr_lines[@]} -eq 2 ]]; }

@test "seen alone prints its help on stderr and fails" {
    run -2 --separate-stderr seen
    [ -z "$output" ]
    [[ ${stderr_lines[0]} == 'Usage: seen COMMAND '* ]]
}

@test "help that is asked for goes to stdout and succeeds" {
    for ask in --help -h help 'help help' 'help --help'; do
        # shellcheck disable=SC2086 # one word or two
        run -0 --separate-stderr seen $ask
        [ -z "$stderr" ]
        [[ ${lines[0]} == 'Usage: seen COMMAND '* ]]
        for command in "${commands[@]}"; do
            [[ $output == *$'\n'"  $command "* ]]
        done
    done
}

@test "help for a command is the same however it is asked for" {
    for command in "${commands[@]}"; do
        run -0 --separate-stderr seen help "$command"
        [ -z "$stderr" ]
        [[ ${lines[0]} == "Usage: seen $command "* ]]
        summary=$(seen help --commands | sed -n "s/^$command\t.*\t//p")
        [ "${lines[1]}" = "${summary^}." ]
        help=$output
        for ask in --help -h --hel; do
            run -0 --separate-stderr seen "$command" $ask
            [ "$output" = "$help" ]
        done
    done
}

@test "help fits 80 columns and holds no tabs" {
    for command in "${commands[@]}"; do
        for all in '' --all; do
            # shellcheck disable=SC2086 # or nothing
            run -0 seen help "$command" $all
            run -1 grep -nE $'^.{81,}|\t| $' <<<"$output"
        done
    done
    run -0 seen --help
    run -1 grep -nE $'^.{81,}|\t| $' <<<"$output"
}

@test "help shows the options of every day, and all with --all" {
    for command in "${commands[@]}"; do
        seen help "$command" >some
        seen help "$command" --all >every
        seen "$command" --help --all | cmp - every
        seen "$command" --help | cmp - some
        grep -q '^[A-Z].*:$' some
        case $command in
            create | add | query | dedup | remove | import | merge | shrink)
                [ "$(wc -l <some)" -le 48 ]
                grep -qF "'seen $command --help --all' lists the other options too" some
                # Each name that stands for every day is that of an option.
                sed -n '/\.everyday/{:a;p;/",$/q;n;ba}' "$SOURCE/src/cmd/$command.c" | grep -oE '[a-z][a-z-]+' |
                    grep -vx everyday | sed 's/^/--/' | { cat; echo --help; } | sort >named
                [ "$(wc -l <named)" -ge 6 ]
                seen help --options "$command" | cut -f 2 | { cat; echo --help; } | sort >all
                [ -z "$(comm -23 named all)" ]
                ;;
            *) cmp some every ;;
        esac
    done
}

@test "help of create has the options that people look for, and names of layouts and digests" {
    # php is for one small class; seen help --layouts has it.
    seen help create >some
    for word in --counted --min-keys sha1 sha256 md5 ntlm \
        $(seen help --layouts | cut -f 1 | grep -v : | grep -vx php); do
        grep -qwe "$word" some || { echo "$word"; false; }
    done
    # Of a parameter that takes any value, what it is.
    seen help --layouts | grep $'^gozero:bits=\t.'
}

@test "help has each command once, in parts that the manual page has too" {
    seen --help >help
    [ "$(sed -nE 's/^  ([a-z]+)  .*/\1/p' help | xargs)" = "${commands[*]}" ]
    sed -nE '/^(Usage|Exit)/d; s/^([A-Z].*):$/\1/p' help >parts
    [ "$(wc -l <parts)" = 5 ]
    sed -n '/^\.SH COMMANDS/,/^\.SH OPTIONS/s/^\.SS //p' "$SOURCE/man/seen.1" | diff - parts
}

@test "help behind operands is help, behind -- it is an operand" {
    run -0 seen query missing.seen --help
    [[ ${lines[0]} == 'Usage: seen query '* ]]
    run -2 seen query -- --help
    [[ $output == *"'--help'"* ]]
}

@test "version tells the features" {
    run -0 --separate-stderr seen --version
    [ -z "$stderr" ]
    [[ ${lines[0]} =~ ^seen\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
    [[ ${lines[1]} =~ ^revision:\ ([0-9a-f]{12,}(-dirty)?|unknown)$ ]]
    [[ $output == *xxHash* && $output == *zlib* && $output == *Redis:* ]]
    [[ $output == *$'\nfilters of other programs: '*$'\nbloom filters: '[a-z]*$'\ncounted filters: '[a-z]* ]]
    run -0 seen -V
    [[ ${lines[0]} == 'seen '* ]]
}

@test "an unknown command is named, with the nearest one" {
    refuses "seen: 'qurey' is not a command; did you mean 'query'?" seen qurey f
    try ''
    refuses "seen: 'create2' is not a command; did you mean 'create'?" seen create2
    refuses "seen: 'QUERY' is not a command; did you mean 'query'?" seen QUERY f
    echo a >lines
    quiet seen create f lines
    refuses "seen: 'lines' is a file, not a command; to print each of its lines once: seen dedup <lines; \
to make a filter of them: seen create FILTER lines" seen lines
    refuses "seen: 'f' is a filter, not a command, which comes first; to see what it holds: seen stats f" \
        seen f query
    refuses "seen: cannot open 'apple': No such file or directory, but 'f' is a filter; \
-k gives a key: seen query f -k apple" seen query apple f
    refuses "seen: unknown option '-fpr'; did you mean '--fpr'?" seen create -fpr 0.1 g
    while read -r word meant; do
        refuses "seen: '$word' is not a command; did you mean '$meant'?" seen "$word"
    done <<END
check verify
size stats
intersect merge --intersect
insert add
info stats
rm remove
delete remove
removee remove
union merge
END
    # Each of them has another name than the commands, and means one.
    sed -n 's/.*{"\(.*\)", \(MEANS\|IS_NOW\)("\(.*\)")}.*/\1 \3/p' "$SOURCE/src/seen.c" >synonyms
    [ "$(wc -l <synonyms)" -gt 20 ]
    while read -r word meant; do
        [[ " ${commands[*]} help " == *" ${meant%% *} "* && " ${commands[*]} " != *" $word "* ]]
    done <synonyms
    while IFS=: read -r word now; do
        refuses "seen: '$word' is now 'seen $now'" seen "$word" -p 0.1 -o x y
        try ''
        refuses "seen: '$word' is now 'seen $now'" seen help "$word"
    done <<END
compact:shrink --fpr P IN -o OUT
pull:import URI -o FILTER
push:export FILTER -o URI
subtract:merge --subtract -o OUT A B...
END
    refuses "seen: 'frobnicate' is not a command" seen frobnicate
    refuses "seen: 'x' is not a command" seen x
    refuses "seen: '' is not a command" seen ''
    refuses "seen: 'frobnicate' is not a command" seen help frobnicate
    refuses "seen: 'frobnicate' is not a command" seen help --options frobnicate
    refuses "seen: unknown option '--frobnicate': a command comes first" seen --frobnicate
    refuses "seen: 'Query' is not a command; did you mean 'query'?" seen Query
    refuses "seen: 'seen help' takes the name of one command" seen help add query
}

@test "what other programs have is answered with what does it here" {
    while IFS='|' read -r command says; do
        # shellcheck disable=SC2086 # words
        refuses "seen: $says" seen $command
    done <<'END'
version|'version' is not a command; did you mean '--version'?
ad f|'ad' is not a command; did you mean 'add'?
st f|'st' is not a command; did you mean 'stats'?
r f|'r' is not a command
merge --union f f|unknown option '--union': it is what merge makes without an option
merge --difference f f|unknown option '--difference': --except keeps the keys of the first that no other has, for sets made with 'seen create --counted'
merge -f f f|unknown option '-f'; did you mean '--force'?
remove --ignore-missing f|unknown option '--ignore-missing'; did you mean '--skip-absent'?
create --type bloom f|unknown option '--type': --compact, --counted, --generations and --layout make other filters than one that grows
dedup -s 64M|unknown option '-s': -n gives the number of keys; 'seen create -s' makes a filter of a size
dedup --read-only f|unknown option '--read-only': 'seen query -v FILTER | seen dedup' prints new records, and adds nothing
dedup --create --counted f|unknown option '--counted': dedup needs no counts; 'seen create --counted' makes a set that has them, and 'seen add' adds to it
query -H f|unknown option '-H': -n prints the number of a record, and the file of each if there are several
query -u f|unknown option '-u': 'seen query ... | seen dedup' prints each of them once
query --top f|unknown option '--top': 'The ten most frequent keys' in seen(7) shows how they are found
plan -k 7|unknown option '-k': k, the number of hashes, follows from --fpr, and is in the table
update|'update' is not a command; did you mean 'add'?
sort|'sort' is not a command: 'seen dedup' drops repeats, and keeps the order
top|'top' is not a command: 'The ten most frequent keys' in seen(7) shows how they are found
-v|unknown option '-v'; did you mean '--version'?
--verison|unknown option '--verison'; did you mean '--version'?
--json stats f|option '--json' goes after the command: seen stats --json ...
-n 1000 create f|option '-n' goes after the command: seen create -n ...
UNION f|'UNION' is not a command; did you mean 'merge'?
create --bits 9 f|unknown option '--bits': --capacity and --fpr give the size; the numbers of bits and hashes follow
create -v f|unknown option '-v': --json prints a summary
create --md5 f|unknown option '--md5': --digest takes the digests of keys: sha1, sha256, md5 or ntlm
create --column 2 f|unknown option '--column'; did you mean '--field'?
create --append f|unknown option '--append': 'seen add' adds keys to a filter
add --force f|unknown option '--force': nothing is replaced
query --not f|unknown option '--not'; did you mean '--invert-match'?
query -A1 f|unknown option '-A': records are printed alone, without those around them
dedup -o out f|unknown option '-o': what is printed goes to standard output
stats -k a f|unknown option '-k': 'seen query FILTER -k KEY' asks for a key
shrink --compact f|unknown option '--compact': 'seen create --compact' makes such a filter from all its keys
verify --fix f|unknown option '--fix'; did you mean '--repair'?
add -e x f|unknown option '-e': -k KEY gives one key
query -t, f|unknown option '-t': -d gives the delimiter of the fields of -f; TAB is the default
query -F, f|unknown option '-F': keys are always compared byte for byte; -d gives the delimiter of the fields of -f
create -F, f|unknown option '-F': -d gives the delimiter of the fields of -f
create --exact f|unknown option '--exact': 'seen create --counted --fpr 0' keeps whole hashes
dedup --ttl 7d f|unknown option '--ttl': a filter made with --forget-after 30d forgets keys after that time
plan 1e9 1e-6|unexpected operand '1e9'; did you mean -n 1e9 -p 1e-6?
plan 1e9|unexpected operand '1e9'; did you mean -n 1e9?
import f -o g|--layout is missing: it names the layout of FOREIGN; '--layout auto' recognises a file by its content
END
    seq 3 | seen create --digest SHA1 f
    [ "$(seq 5 | seen query -c f)" = 3 ]
}

@test "an unknown option is named" {
    for command in "${commands[@]}"; do
        refuses "seen: unknown option '--frobnicate'" seen "$command" --frobnicate
        try "$command "
        refuses "seen: unknown option '--frobnicate'" seen "$command" --frobnicate=7
        refuses "seen: unknown option '-Q'" seen "$command" -Q
        refuses "seen: option '--help' takes no argument" seen "$command" --help=1
    done
    refuses "seen: unknown option '-Q'" seen query -cQ f.seen
    refuses "seen: unknown option '-Q'" seen query --count -Qc f.seen
}

@test "the nearest option is named" {
    refuses "seen: unknown option '--capcity'; did you mean '--capacity'?" seen create --capcity 3 f
    refuses "seen: unknown option '--capcity'; did you mean '--capacity'?" seen create --capcity=3 f
    try 'create '
    refuses "seen: unknown option '--rotate-at-capasity'; did you mean '--rotate-at-capacity'?" \
        seen add --rotate-at-capasity f
    refuses "seen: unknown option '--hepl'; did you mean '--help'?" seen query --hepl
    refuses "seen: unknown option '--x'" seen query --x
    refuses "seen: unknown option '--$(printf '%0100d' 0)'" seen query "--$(printf '%0100d' 0)"
}

@test "options of other programs are answered with those of the same meaning" {
    refuses "seen: unknown option '--fprate'; did you mean '--fpr'?" seen create --fprate 0.1 f
    try 'create '
    refuses "seen: unknown option '--header-lines'; did you mean '--header'?" seen query --header-lines=1 f
    refuses "seen: unknown option '--error-rate'; did you mean '--fpr'?" seen dedup --error-rate 0.1
    refuses "seen: unknown option '--jobs'; did you mean '--threads'?" seen add --jobs=3 f
    refuses "seen: unknown option '-u': each new record is printed, once; -v prints the others" seen dedup -u
    refuses "seen: unknown option '--json': --jsonl -f .NAME reads lines of JSON" seen dedup --json
    refuses "seen: unknown option '-v': --verbose says how many keys were new" seen add -v f
    refuses "seen: unknown option '--count': -n gives the number of keys, --counted makes a set that counts them" \
        seen create --count 1000 f
    # Only where there is such an option.
    refuses "seen: unknown option '--error-rate'" seen stats --error-rate 0.1
    refuses "seen: unknown option '-e': -k KEY asks for one key" seen query -e key f
    try 'query '
    refuses "seen: unknown option '-e': -k KEY asks for one key" seen query -ve key f
    refuses "seen: unknown option '--regexp': -k KEY asks for one key" seen query --regexp=key f
    refuses "seen: unknown option '-F': keys are always compared byte for byte; -d gives the delimiter of the fields of -f" seen query -F f
    refuses "seen: unknown option '-o': FILTER is the first operand" seen create -o f
    refuses "seen: unknown option '-e': -p gives the false-positive rate, -k a key" seen create -e 0.01 f
}

@test "options that look like those of other programs do not do something else" {
    printf 'apple\npear\n1\n' >lines
    quiet seen create f.seen lines
    # A value behind its letter has no '='.
    refuses "seen: '-k=' would give a value with the '=': did you mean -k apple, or --key='=apple'?" \
        seen query f.seen -k=apple
    refuses "seen: '-d=' would give a value with the '=': did you mean -d ,, or --delimiter='=,'?" \
        seen query f.seen -d=,
    refuses "seen: '-k=' would give a value with the '=': did you mean -k '', or --key='='?" seen query f.seen -k=
    refuses "seen: '-o=' would give a value with the '=': did you mean -o g, or --output='=g'?" seen merge -o=g f.seen f.seen
    run -1 seen query f.seen --key==apple -k =pear
    run -0 seen query -d= -f1 f.seen <<<apple=1
    # sort's -k, which never reads the input.
    for key in 1 2,2 1,2n 3.1,3.2 2nr; do
        refuses "seen: -k gives a key, -f chooses a field: did you mean -f ${key%%[!0-9]*}? (the key: -k $key)" \
            seen dedup -k$key <lines
        refuses "seen: -k gives a key, -f chooses a field: did you mean -f ${key%%[!0-9]*}? (the key: -k $key)" \
            seen dedup f.seen -vk$key
        refuses "seen: -k gives a key, -f chooses a field: did you mean -f ${key%%[!0-9]*}?" seen dedup -k $key <lines
    done
    for key in a ,2 1x 2,x; do
        run -0 seen dedup -k$key
        [ "$output" = "$key" ]
    done
    run -0 seen dedup -v f.seen -k 1 --key=1
    [ "$output" = $'1\n1' ]
    run -0 seen query -k1 f.seen
    # One hyphen is missing.
    refuses "seen: unknown option '-create'; did you mean '--create'?" seen dedup -create g <lines
    refuses "seen: unknown option '-output'; did you mean '--output'?" seen merge -output=g f.seen f.seen
    refuses "seen: unknown option '-key'; did you mean '--key'?" seen query -key apple f.seen
    run -0 seen query f.seen -kapple
    refuses "seen: option '--threads': 'f.seen' is not a whole number from 1 to 1024; did you mean '--json'?" \
        seen stats -j f.seen
    refuses "seen: option '--threads': 'x' is not a whole number from 1 to 1024" seen stats -j x f.seen
    refuses "seen: option '--threads': 'lines' is not a whole number from 1 to 1024" seen query -j lines f.seen
    refuses "seen: there is no file 'pear'; each key has its own -k: -k pear" seen query f.seen -k apple pear
    refuses "seen: there is no file 'pear'; each key has its own -k: -k pear" seen query f.seen -k apple pear lines
    refuses "seen: --key gives the keys, and -f chooses fields of records: not with KEYFILE" \
        seen query f.seen -k apple lines
    refuses "seen: cannot open 'https://x.example/l?a&b': No such file or directory (-k gives a key; curl -sSf 'URL' | seen ... reads a list)" \
        seen create g 'https://x.example/l?a&b'
    only f.seen lines
    quiet seen dedup --line-buffered f.seen lines
}

@test "seen help opens manual pages, too" {
    mkdir bin
    # shellcheck disable=SC2016 # for the script
    printf '%s\n' '#!/bin/sh' 'echo "$@"' >bin/man
    chmod +x bin/man
    for page in keys passwords redis layouts internals news performance; do
        [ -e "$SOURCE/man/seen-$page.7" ]
        [ "$(PATH=$PWD/bin:$PATH seen help $page)" = "7 seen-$page" ]
    done
    seen=$(command -v seen)
    refuses "seen: cannot run 'man 7 seen-keys': No such file or directory" env PATH=/nowhere "$seen" help keys
    [ "${#stderr_lines[@]}" = 1 ]
    refuses "seen: 'page' is not a command" seen help page
}

@test "what no filter can do is told with what it can do" {
    for word in list ls cat dump keys print; do
        refuses "seen: '$word' is not a command: a filter cannot list its keys; 'seen query' says which of the given keys it has, 'seen stats' how many it has" \
            seen "$word" f
        try ''
    done
}

@test "an abbreviation stands for the only option that begins so" {
    refuses "seen: option '--capacity': 'x' is not a count (such as 1000, 250k, 1M or 1e9)" \
        seen create --cap=x
    refuses "seen: option '--min' is ambiguous: --min-keys, --min-ratio" seen create --min 3
    refuses "seen: unknown option '--'" seen create --=3
    try 'create '
}

@test "an option that lacks its argument is named, and one that has too much" {
    refuses "seen: option '--capacity' needs an argument" seen create -n
    refuses "seen: option '--capacity' needs an argument" seen create f.seen --capacity
    refuses "seen: option '--empty' takes no argument" seen create --empty=yes f.seen
    refuses "seen: option '--empty' takes no argument" seen create --emp=yes f.seen
}

@test "a text of an option is not empty, as one of an unset variable is" {
    local command option operands
    seq 9 | tee keys | seen create --counted f
    # Without the check, scratch went into the root directory, and a filter was made without a secret.
    while read -r command option operands; do
        # shellcheck disable=SC2086 # words
        refuses "seen: option '$option' is empty" seen "$command" "$option" '' $operands
        [ ! -e new ]
    done <<'END'
create --secret new keys
create --tmpdir new keys
create --like new keys
create --from new
add --tmpdir f keys
add --batch-id f keys
remove --tmpdir f keys
query --confirm f keys
merge --output f f
shrink --output f
stats --secret f
END
    SEEN_SECRET='' quiet seen create new keys
}

@test "a single-valued option given twice is an error, by whatever name" {
    refuses "seen: option '--capacity' is given twice" seen create -n 1 -n 1 f.seen
    refuses "seen: option '--capacity' is given twice" seen create -n 1 --capacity=2 f.seen
    refuses "seen: option '--fpr' is given twice" seen create --fpr 0.1 f.seen -p 0.1
    refuses "seen: option '--output' is given twice" seen merge -o a -o b c
    refuses "seen: option '--threads' is given twice" seen stats -j 1 -j 2 c
    [ ! -e f.seen ]
}

@test "a flag may be repeated, -k too" {
    quiet seen create --empty --empty -n 100 f.seen
    run -0 seen query -c -c -k a -k b --key=c -vvv f.seen
    [ "$output" = 3 ]
}

@test "options may stand before and behind operands, POSIXLY_CORRECT or not" {
    quiet seen create f.seen -k a -k b
    printf '%s\n' a z >keys
    for posix in '' 1; do
        if [ -n "$posix" ]; then export POSIXLY_CORRECT=1; else unset POSIXLY_CORRECT; fi
        run -0 seen query f.seen keys -v -n
        [ "$output" = 2:z ]
        run -0 seen query -v f.seen -n keys
        [ "$output" = 2:z ]
        run -0 seen query -vn -- f.seen keys
        [ "$output" = 2:z ]
        run -0 seen query f.seen - -vn <keys
        [ "$output" = 2:z ]
        run -0 seen query f.seen - -v -n -- <keys
        [ "$output" = 2:z ]
    done
    unset POSIXLY_CORRECT
}

@test "behind -- all are operands, even -- and what looks like an option" {
    quiet seen create f.seen -k a
    printf 'a\n' >-v
    printf 'a\n' >--
    run -0 seen query f.seen -- -v --
    [ "$output" = $'a\na' ]
}

@test "numbers are read strictly, and the option is named" {
    count='is not a count (such as 1000, 250k, 1M or 1e9)'
    for n in '' x 1x 1.5 -1 +1 ' 1' '1 ' 0x10 1e 1e99 nan inf 18446744073709551616 1,000; do
        refuses "seen: option '--capacity': '$n' $count" seen create -n "$n" --empty f.seen
    done
    try 'create '
    for p in '' 1 0.0 1.0 2 -0.1 +0.1 nan inf 0x1p-3 1/0 0/1 3/2 100% % '0.1 ' ' 0.1' 0,1 \
        1e-999; do
        refuses "seen: option '--fpr': '$p' is not a probability between 0 and 1" \
            seen create -n 10 -p "$p" --empty f.seen
    done
    for s in '' x 1KB 1.5 -1 20000P 64MB; do
        refuses "seen: option '--size': '$s' is not a size (such as 4096, 512K, 64M or 1.5G)" \
            seen create -s "$s" --empty f.seen
    done
    for j in 0 -1 x 1.5 99999999999999999999; do
        run -2 seen create -j "$j" f.seen -k a
        [[ $output == "seen: option '--threads': '$j' is not a whole number from 1 to "* ]]
    done
    [ ! -e f.seen ]
}

@test "numbers are printed and read with a point whatever the locale" {
    LC_ALL=de_DE.UTF-8 quiet seen create -n 1.5k -p 0.01 --empty f.seen
    LC_ALL=de_DE.UTF-8 run -0 seen stats --json f.seen
    [[ $output == *'"fpr_design":0.01,'* ]]
}

@test "control characters in names are made visible" {
    # U+009B is one, U+00C4 and U+00A7 are not.
    name=$'a\e[31m\n\tb\x7f\xc2\x9b\xff\xc3\x84\xc2\xa7'
    refuses "seen: '"'a\x1b[31m\n\tb\x7f\xc2\x9b\xffÄ§'"' is not a command" seen "$name"
    run -2 --separate-stderr seen query "$name" -k a
    [[ $stderr == *'a\x1b[31m\n\tb\x7f\xc2\x9b\xffÄ§'* ]]
    [ "${#stderr_lines[@]}" -eq 1 ]
    run -2 --separate-stderr seen create $'--a\nb'
    [ "${stderr_lines[0]}" = "seen: unknown option '--a\\nb'" ]
}

@test "control characters in names are made visible on standard output, too" {
    name=$'a\e[31m\nb\xc2\x9b\xff\xc3\xa4'
    shown='a\x1b[31m\nb\xc2\x9b\xffä'
    quiet seen create "$name" -k key
    run -0 seen verify "$name"
    [ "$output" = "$shown: ok" ]
    run -0 seen stats "$name"
    [[ ${lines[0]} == "file  "*" $shown "*exact ]]
    for offset in 4096 4200; do
        poke "$name" $offset ff
    done
    run -0 --separate-stderr seen verify --repair "$name"
    [ "${lines[0]}" = "$shown: repaired: a damaged copy of the header" ]
    # Data stays as it is.
    run -0 seen query --which "$name" -k key
    [ "$output" = "$name:key" ]
}

@test "a message is written in one piece" {
    command -v strace >/dev/null || skip 'strace is not installed'
    strace -s 200 -o trace -e trace=write seen frobnicate 2>/dev/null || true
    grep -q '^write(2, "seen: .frobnicate. is not a command\\n"' trace
}

@test "a very long name is cut, not overrun" {
    name=$(printf 'a%.0s' {1..100000})
    run -2 --separate-stderr seen "$name"
    [[ ${stderr_lines[0]} == "seen: 'aaa"* ]]
    run -2 --separate-stderr seen create "--$name"
    [[ ${stderr_lines[0]} == "seen: unknown option '--aaa"* ]]
}

@test "a full output device is an error" {
    [ -w /dev/full ] || skip 'there is no /dev/full'
    quiet seen create f.seen -k a
    printf 'a\n' >keys
    for words in '--help' '--version' 'query --help' 'help add' 'query f.seen keys' \
        'query -c f.seen keys' 'stats f.seen' 'stats --json f.seen' 'plan -n 1M'; do
        # shellcheck disable=SC2086 # words are meant to be split
        refuses 'seen: cannot write standard output: No space left on device' \
            to /dev/full seen $words
    done
}

to()
{
    local file=$1
    shift
    "$@" >"$file"
}

@test "output that is lost on the way is an error, with the reason where there is one" {
    need_strace
    local lost='seen: cannot write standard output'
    # Only the writes that follow one that failed tell its reason.
    refuses "$lost" traced write:error=EIO:when=1 seen create --help --all
    refuses "$lost: No space left on device" traced write:error=ENOSPC:when=1..3 seen create --help --all
    refuses "$lost: Input/output error" traced close:error=EIO seen --version
}

# traced CALL:HOW COMMAND...: what it does with `out` fails, as strace(1) says.
traced()
{
    rm -f out
    strace -qq -o trace -e "trace=${1%%:*}" -e "inject=$1" -P "$PWD/out" "${@:2}" >out
}

@test "a closed output is an error, and no file takes its place" {
    quiet seen create f.seen -k a
    printf 'a\n' >keys
    before=$(digest f.seen)
    for words in '--help' 'query f.seen keys' 'stats f.seen'; do
        # shellcheck disable=SC2086
        refuses 'seen: cannot write standard output: Bad file descriptor' closed seen $words
    done
    # With nothing to write there is nothing to fail; and messages go nowhere else.
    quiet closed seen create g.seen -k a
    quiet closed seen add f.seen -k a
    run -2 bash -c 'seen add f.seen missing.txt <&- >&- 2>&-'
    run -2 bash -c 'seen query f.seen keys 0<&- 1>&- 2>&-'
    if [ -z "${SANITIZER-}" ] && need_preload; then
        refuses "seen: cannot open '/dev/null': No such file or directory" \
            closed failing open:1:ENOENT seen add f.seen -k b
    fi
    run -0 seen verify f.seen g.seen
    run -0 seen query -q f.seen -k a
    [ "$(size f.seen)" -gt 0 ]
    [ -n "$before" ]
}

closed() { "$@" >&-; }

@test "a closed input is an error, not an empty one" {
    quiet seen create f.seen -k a
    run -2 --separate-stderr bash -c 'seen query f.seen <&-'
    [[ $stderr == seen:*': Bad file descriptor' ]]
    run -2 bash -c 'seen create g.seen <&-'
    [ ! -e g.seen ]
}

@test "a reader that goes away ends the program quietly" {
    quiet seen create f.seen -k a
    run --separate-stderr bash -c \
        'yes a | head -n 2000000 | { seen query f.seen; echo $? >status; } | head -n 1'
    [ "$output" = a ]
    [ -z "$stderr" ]
    [ "$(cat status)" -ne 0 ]
    # With the signal ignored, too.
    run --separate-stderr bash -c 'trap "" PIPE
        { yes a | head -n 2000000; } 2>/dev/null |
            { seen query f.seen; echo $? >status; } | head -n 1'
    [ "$output" = a ]
    [ -z "$stderr" ]
    [ "$(cat status)" -ne 0 ]
}

@test "nothing is written to stderr when all is well" {
    seq 1000 >keys
    quiet seen create -n 2000 f.seen keys
    quiet seen add f.seen keys
    quiet seen query -q f.seen keys
    run -0 --separate-stderr seen verify f.seen
    [ -z "$stderr" ]
}

@test "--progress shows lines on what is no terminal" {
    seq 1000 >keys
    run -0 --separate-stderr seen create -p 0.001 --progress f.seen keys
    [ -z "$output" ]
    [[ $stderr == seen:*keys* ]]
    [[ $stderr != *$'\r'* ]]
    for kind in '' --compact --counted '-n 1000'; do
        # shellcheck disable=SC2086
        run -0 --separate-stderr seen create --progress --force $kind g.seen keys keys
        [[ ${stderr_lines[0]} == 'seen: reading keys: '* ]]
        [ "${stderr_lines[-2]}" = 'seen: counting keys: 100 %' ]
        [ "${stderr_lines[-1]}" = 'seen: making the filter: 100 %' ]
    done
    run -0 --separate-stderr seen verify --progress f.seen
    [ "$output" = 'f.seen: ok' ]
    [ "$stderr" = 'seen: checking: 4.00 KiB of 4.00 KiB (100 %)' ]
}

@test "progress does not get between what is typed or printed at a terminal" {
    seq 1000 | seen create f.seen
    cat >script.py <<'END'
from terminal import *

def shown(command):
    t = Terminal(["sh", "-c", command])
    t.end()
    return t.shown

# Longer than it takes for progress to be shown.
slowly = "{ echo 1; sleep 1.5; echo 2; sleep 0.5; echo 3; }"
assert shown(slowly + " | seen query f.seen") == "1\n2\n3\n"
assert shown(slowly + " | seen dedup") == "1\n2\n3\n"
# On request in lines of its own.
forced = shown("seq 3 | seen query --progress f.seen")
assert "\r" not in forced and "1\n2\n3\n" in forced and "seen: " in forced, forced
# With output elsewhere it may be shown, and is gone at the end.
there = shown(slowly + " | seen query f.seen >out; echo end")
assert re.search(r"^(\r.* keys.*\r *\r)?end\n$", there), there
# Not in the background.
behind = shown("set -m; " + slowly + " | seen query f.seen >out & wait; echo end")
assert "keys" not in behind and "end\n" in behind, behind
# Ctrl-C ends its line. The terminal may print ^C after the program has seen the signal.
t = Terminal(["sh", "-c", "trap : INT; yes | seen create g.seen; echo end; read line"])
t.expect("keys")
t.type("\x03")
line = t.expect("end\n")
assert re.search(r"[^\n]\n(\^C)?$", line), line
t.type("\n")
t.end()
# Keys that are typed.
t = Terminal(["seen", "add", "f.seen"])
t.expect("ends them\n")
t.type("a\n")
time.sleep(1.2)
t.type("b\n\x04")
t.end()
assert t.shown == "a\nb\n", t.shown
END
    sed -i '1i import re' script.py
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$SOURCE/tests/lib timeout "$PATIENCE" python3 script.py
}

@test "the list for completion scripts has five columns" {
    for command in "${commands[@]}"; do
        run -0 seen help --options "$command"
        run -0 awk -F '\t' '
            NF != 5 || ($1 == "" && $2 == "") || $5 == "" { bad = 1 }
            $1 != "" && $1 !~ /^-[[:alnum:]]$/ { bad = 1 }
            $2 != "" && $2 !~ /^--[a-z][a-z0-9-]+$/ { bad = 1 }
            END { exit bad || NR < 2 }' <<<"$output"
    done
    run -0 seen help --commands
    [ "$(cut -f 1 <<<"$output" | tr '\n' ' ')" = "${commands[*]} " ]
}

@test "a missing key file that may be a key: -k is named" {
    seen create f -k a
    seen create --counted c -k a
    local command
    for command in 'create g' 'add f' 'query f' 'dedup f' 'dedup --create new' 'remove c'; do
        # shellcheck disable=SC2086
        refuses "seen: cannot open '1.2.3.4': No such file or directory (-k gives a key)" \
            seen $command 1.2.3.4
    done
    refuses "seen: cannot open 'http://a/b': No such file or directory (-k gives a key; curl -sSf 'URL' | seen ... reads a list)" \
        seen query f http://a/b
    refuses "seen: cannot open './none': No such file or directory" seen query f ./none
    refuses "seen: cannot open '/none/a': No such file or directory" seen query f /none/a
    refuses "seen: cannot open 'f/a': Not a directory" seen query f f/a
    # Not where no key can be given.
    refuses "seen: cannot open 'none': No such file or directory" seen query none a
    [ ! -e g ]
    [ ! -e new ]
}

@test "dedup of a list as FILTER, with an option that is for one: how it goes without one" {
    seq 9 >list
    for option in --create '--max-fpr 0.1' --rotate-at-capacity --no-sync '--sync-every 1'; do
        # shellcheck disable=SC2086
        refuses "seen: 'list' is not a seen filter; without FILTER: seen dedup list" \
            seen dedup $option list </dev/null
        # shellcheck disable=SC2086
        refuses "seen: 'list' is not a seen filter; without FILTER: seen dedup list FILE..." \
            seen dedup $option list list
    done
    seen dedup list | cmp - list
    # Keys were given, or no lines are there.
    refuses "seen: 'list' is not a seen filter; -k gives a key, -f chooses a field: seen dedup -f N list" \
        seen dedup list -k 2
    refuses "seen: a filter is a file, and cannot come from standard input; without FILTER: seen dedup -" \
        seen dedup --no-sync - <list
    refuses "seen: a filter is a file, and cannot come from standard input" seen query - list
    : >empty
    refuses "seen: 'empty' is not a seen filter: it is empty" seen dedup empty </dev/null
    seen create f -k a
    head -c 100 f >short
    run -2 --separate-stderr seen dedup short </dev/null
    [[ $stderr != *'without FILTER'* ]]
}

@test "a list and a filter in the wrong order: FILTER comes first" {
    seq 9 >list
    seen create f list
    for command in query add remove dedup 'add --create'; do
        # shellcheck disable=SC2086
        refuses "seen: 'list' is not a seen filter, but 'f' is: FILTER comes first" seen $command list f
        # shellcheck disable=SC2086
        refuses "seen: 'list' is not a seen filter, but 'f' is: FILTER comes first" seen $command list list f
    done
    seq 9 | cmp - list
    for command in add remove; do
        refuses "seen: 'list' is not a seen filter; to make one of its lines: seen create FILTER list" \
            seen $command list list
    done
    refuses "seen: 'list' is not a seen filter; to ask its lines: seen query --list list; to make one of them: seen create FILTER list" \
        seen query list list
    for command in stats verify 'verify --repair' 'merge -o new f'; do
        # shellcheck disable=SC2086
        refuses "seen: 'list' is not a seen filter; to make one of its lines: seen create FILTER list" \
            seen $command list
    done
    [ ! -e new ]
}

@test "names that no file can have count as missing" {
    local long name
    long=$(printf 'n%.0s' {1..300})
    seen create f -k a
    for name in no/x f/x "$long"; do
        refuses "seen: there is no file '$name'; each key has its own -k: -k $name" seen query f -k a "$name"
        refuses "seen: no output file given; did you mean -o $name?" seen merge f "$name"
        refuses "seen: did you mean f -o $name? ('f' is a filter, and there is no '$name')" seen shrink -o f "$name"
    done
    refuses "seen: cannot open 'none': No such file or directory (-k gives a key)" seen query f none
    refuses "seen: cannot open '$long': File name too long (-k gives a key)" seen query f "$long"
    # None can be made there.
    refuses "seen: cannot open 'f/x': Not a directory" seen add f/x -k a
    refuses "seen: cannot open '$long': File name too long" seen add "$long" -k a
    # An address, too.
    name="redis://a/b?key=$long"
    refuses "seen: '$name' is an address: 'seen import' makes a file of the filter there" seen verify "$name"
    refuses "seen: '$name' is an address: 'seen export' writes a filter there" seen create "$name" -k a
    touch redis:
    refuses "seen: 'redis://a/b' is an address: 'seen import' makes a file of the filter there" seen verify redis://a/b
}

@test "the output without -o, or in the place of the input: what is meant" {
    seq 9 >list
    seen create f list
    seen create g list
    cp f f.then
    cp g g.then
    for command in 'merge f g new' 'merge new f g' 'shrink f new' 'shrink new f' 'export f new' 'import --layout guava f new'; do
        # shellcheck disable=SC2086
        refuses 'seen: no output file given; did you mean -o new?' seen $command
    done
    refuses 'seen: no output file given; did you mean -o new?' seen import --layout redisbloom rb new
    for command in merge shrink export; do
        refuses "seen: did you mean f -o new? ('f' is a filter, and there is no 'new')" \
            seen $command -o f new
    done
    # It cannot be found out whether it is there.
    ln -s loop loop
    refuses "seen: cannot open 'loop': Too many levels of symbolic links" seen shrink --force -o f loop
    refuses 'seen: more than one FILTER given; the name of the output goes after -o' seen shrink f g
    refuses 'seen: more than one FILTER given' seen shrink f g -o new
    refuses "seen: cannot open 'new': No such file or directory" seen import --force --layout dcso new -o f
    refuses 'seen: two filters are needed: A and B' seen compare f g f
    refuses "seen: 'f' exists (--force replaces it); to keep its keys: seen merge --force -o f f g" \
        seen merge -o f g
    # That one would not help here.
    refuses "seen: 'f' exists (--force replaces it)" seen merge -o f list
    refuses "seen: 'f' exists (--force replaces it)" seen merge -o f g g
    refuses "seen: 'list' exists and is not a seen filter: not replaced" seen merge -o list g
    refuses "seen: 'list' is not a seen filter; to make one of its lines: seen create FILTER list" \
        seen merge --force -o f list
    head -c 5000 g >torn
    run -2 --separate-stderr seen merge --force -o f torn
    [[ $stderr == "seen: 'torn' is truncated"* && $stderr != *'its keys'* ]]
    cmp f f.then
    cmp g g.then
    [ ! -e new ]
}

@test "a time as a number of generations: how long one is" {
    for command in 'create --empty' 'dedup --create' plan; do
        # shellcheck disable=SC2086
        refuses "seen: option '--generations': '7d' is not a number: a generation lasts until 'seen rotate' \
is run; --forget-after keeps keys for a time" seen $command -n 99 --generations 7d
    done
}

@test "a filter is not made under the name -, which stands for standard output elsewhere" {
    local says="seen: a filter cannot go to standard output; './-' is a file of the name '-'"
    local pipe="seen: a filter cannot go to standard output; give the name of a file"
    for name in /dev/stdout /dev/fd/1; do
        refuses "$pipe" seen create $name -k a
        run -2 bash -c "seen create --force $name -k a 2>&1 >file"
        [ "$output" = "$pipe" ]
        [ ! -s file ]
    done
    run -2 --separate-stderr seen create >(cat) -k a
    [[ $stderr == "seen: '/dev/fd/"*"' exists and is not a regular file" ]]
    seq 9 >list
    seen create -n 1000 f list
    seen create --counted -p 0 c list
    gzip -dc "$SOURCE/tests/vectors/guava/g64_bytes_n50000_p0001.guava.gz" >guava
    refuses "$says" seen create - list
    refuses "$says" seen create --force --empty -n 9 -
    refuses "$says" seen create --from c -
    refuses "$says" seen dedup --create - list
    refuses "$says" seen merge -o - f f
    refuses "$says" seen shrink -p 0.01 -o - c
    refuses "$says" seen shrink -o - f
    refuses "$says" seen merge --subtract -o - c c
    refuses "$says" seen import --layout guava -n 50000 -p 0.001 guava -o -
    [ ! -e - ]
    quiet seen create ./- list
    [ "$(seen query -c ./- list)" = 9 ]
}

@test "create: a filter that is there and gets no keys is left as it was" {
    seen create f -k a
    before=$(digest f)
    refuses "seen: no keys, so 'f' is left as it was (--empty makes an empty filter)" \
        seen create --force f </dev/null
    [ "$(digest f)" = "$before" ]
    refuses "seen: no keys, so 'g' is not made (--empty makes an empty filter)" seen create g </dev/null
    seen create --counted --empty -p 0 none
    refuses "seen: 'none' has no keys, so 'f' is left as it was" seen create --force --from none f
    [ "$(digest f)" = "$before" ]
}

@test "plan 1e6: the option is named" {
    refuses "seen: unexpected operand '1e6'; did you mean -n 1e6?" seen plan 1e6
    refuses "seen: unexpected operand '250k'; did you mean -n 250k?" seen plan 250k
    refuses "seen: unexpected operand 'list': plan reads no files" seen plan list
}

@test "no message repeats a password that stands in a URI" {
    local uri='redis://user:geheim@127.0.0.1:1/k' shown='redis://user:*@127.0.0.1:1/k'
    seen create -n 10 f -k a
    for args in "query $uri -k a" "query f $uri" "add $uri -k a" "stats $uri" "verify $uri" \
        "merge -o g f $uri" "merge -o $uri f f" "create $uri -k a" "create g $uri" \
        "import $uri -o g" "query --also $uri f -k a" "compare f $uri"; do
        # shellcheck disable=SC2086 # words
        run -2 --separate-stderr seen $args
        [[ $stderr == *"$shown"* ]]
        [[ $stderr != *geheim* ]]
    done
    for uri in 'redis://h/k?db=0&Password=geheim' 'redis://user%3Ageheim@h/k' 'redis+unix:///s?password=geheim&key=k'; do
        for args in "query $uri -k a" "verify $uri" "import $uri -o g" "create $uri -k a"; do
            # shellcheck disable=SC2086 # words
            run -2 --separate-stderr seen $args
            [[ $stderr == *'*'* && $stderr != *geheim* ]]
        done
    done
    # Nothing else is changed.
    refuses "seen: cannot open 'a://b:@c': No such file or directory (-k gives a key)" seen query f a://b:@c
    refuses "seen: cannot open 'a://b:c/d@e': No such file or directory (-k gives a key)" seen query f a://b:c/d@e
    refuses "seen: cannot open 'a://b@c': No such file or directory (-k gives a key)" seen query f a://b@c
}

@test "options that were renamed before 1.0.0 are refused with their new names" {
    refuses "seen: unknown option '--counts': --show-counts prints how often each key was given" seen query --counts c
    refuses "seen: unknown option '--min-count': --at-least N takes only keys that were given N times or more" \
        seen query --min-count=2 c
    refuses "seen: unknown option '--digested': --input-digests says that input lines are digests already" \
        seen query --digested d
    refuses "seen: unknown option '--counts'" seen add --counts c
}
