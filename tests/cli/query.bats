#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# seen query: what grep -Fx would print, in order and byte for byte.
# tags: threads slow

load ../lib/helpers

setup_file()
{
    cd "$BATS_FILE_TMPDIR" || return
    # Records of many lengths, a third of them keys, most of them more than once. At a rate of 1e-9
    # none of the others is taken for one.
    seq 1 3 20000 | awk '{ printf "%s%*s\n", $1, $1 % 90, "x" }' >keys
    seq 20000 | awk '{ printf "%s%*s\n", $1, $1 % 90, "x" }' >half
    cat half half | shuf --random-source=half >input
    "${SEEN:-$BATS_TEST_DIRNAME/../../build/seen}" create -p 1e-9 f.seen keys
}

# The files above, here.
take() { ln -s "$BATS_FILE_TMPDIR"/{keys,input,f.seen} .; }

# like_grep OPTIONS [SEEN-OPTIONS]: both print the same and end alike.
like_grep()
{
    local status=0 ours=0
    # shellcheck disable=SC2086 # several options
    LC_ALL=C grep -aFxf keys $1 input >grep.out || status=$?
    # shellcheck disable=SC2086
    seen query $1 ${2-} f.seen input >out 2>err || ours=$?
    cmp out grep.out
    [ $ours = $status ]
    [ ! -s err ]
    # From a pipe it is all the same.
    # shellcheck disable=SC2086
    cmp <(seen query $1 ${2-} f.seen < <(cat input)) grep.out
}

@test "it prints what grep prints" {
    take
    for options in '' -v -c -vc -n -vn -q -vq -cn -m1 -vm7 '-m 900' -nvm3000 -cm4 -vcm99999 -m0 -ql \
        '--max-count=2' --line-buffered; do
        like_grep "$options"
    done
}

@test "the order is the input's, however many threads there are" {
    take
    for threads in 1 2 3 8; do
        like_grep '' "-j$threads"
        like_grep -vn "-j $threads"
    done
}

@test "with -0 records end in NUL, on output too" {
    take
    for name in keys input; do
        tr '\n' '\0' <"$BATS_FILE_TMPDIR/$name" >"$name.0"
        rm $name
        mv $name.0 $name
    done
    LC_ALL=C grep -zaFxf <(tr '\0' '\n' <keys) input >grep.out
    for null in -0 -z --null --null-data; do
        seen query $null f.seen input | cmp - grep.out
    done
    LC_ALL=C grep -zanFxvf <(tr '\0' '\n' <keys) input >grep.out
    seen query -0vn f.seen input | cmp - grep.out
    # Newlines are bytes like any other then.
    printf 'a\nb\0c\0' | quiet seen create -0 g
    # This record has its newline, and no NUL behind it.
    run -1 seen query -c0 g <<<$'a\nb'
    [ "$(printf 'a\nb\0x\0c' | seen query -0 g | tr '\0' ';')" = $'a\nb;c;' ]
}

@test "exit statuses are grep's" {
    printf 'a\nb\n' >keys
    quiet seen create f keys
    run -0 --separate-stderr seen query f keys
    run -1 --separate-stderr seen query f -k x
    [ -z "$output$stderr" ]
    run -1 --separate-stderr seen query f /dev/null
    [ -z "$output$stderr" ]
    run -1 seen query -c f -k x
    [ "$output" = 0 ]
    run -1 seen query -v f keys
    run -0 seen query -v f -k x
    [ "$output" = x ]
    run -1 seen query -vc f keys
    [ "$output" = 0 ]
    run -1 seen query -c f /dev/null
    [ "$output" = 0 ]
    run -2 --separate-stderr seen query f missing
    [ "$stderr" = "seen: cannot open 'missing': No such file or directory (-k gives a key)" ]
    refuses "seen: cannot open 'missing': No such file or directory" seen query missing keys
    refuses "seen: 'keys' is not a seen filter" seen query keys f ||
        [[ ${stderr_lines[0]} == "seen: 'keys' is not a seen filter"* ]]
    refuses "seen: '.' is not a regular file" seen query . keys ||
        [[ ${stderr_lines[0]} == "seen: cannot open '.': Is a directory" ]]
    mkfifo fifo
    refuses "seen: 'fifo' is not a regular file" seen query fifo keys
}

@test "a file that cannot be read does not keep the others from being searched" {
    printf 'a\nb\n' >keys
    quiet seen create f keys
    mkdir dir
    run -2 --separate-stderr seen query f keys missing dir keys
    [ "$output" = $'a\nb\na\nb' ]
    [ "${stderr_lines[0]}" = "seen: cannot open 'missing': No such file or directory (-k gives a key)" ]
    [ "${stderr_lines[1]}" = "seen: cannot read 'dir': Is a directory" ]
    [ "${#stderr_lines[@]}" = 2 ]
    run -2 --separate-stderr seen query -c f missing keys
    [ "$output" = 2 ]
    # An error wins over "none selected", too.
    run -2 --separate-stderr seen query -v f keys missing
    [ -z "$output" ]
}

@test "-m leaves standard input behind the last record that it selected, as grep does" {
    seq 200000 >keys
    grep -v 5 keys >in
    quiet seen create -n 200k -p 1e-9 f in
    printf '1\n2\n3' >short
    # What is printed, and what the next program reads: grep selects by what has a 5.
    for options in -m1 -m4 -m5 -m70000 -m200000 -m0 -cm3 -nm9 -vm1 -vm2 -vm40000; do
        same=${options/v/}
        [[ $options == *v* ]] || same=-v${options#-}
        for file in keys short; do
            { grep "$same" 5 || [ $? = 1 ]; cat; } <$file >wanted
            for threads in 1 4; do
                { seen query "$options" -j $threads f || [ $? = 1 ]; cat; } <$file >got
                cmp wanted got || { echo "$options $file, $threads threads"; false; }
            done
        done
    done
    tr '\n' '\0' <keys >nul
    { seen query -zm2 f; cat; } <nul >got
    cmp nul got
    # From where it stands; as one of several files; with a header.
    run -0 bash -c '{ read -r x; seen query -m2 f; head -n 1; } <keys'
    [ "$output" = $'2\n3\n4' ]
    run -0 bash -c '{ seen query -m1 f in - in; head -n 1; } <keys'
    [ "$output" = $'1\n1\n1\n2' ]
    run -0 bash -c '{ seen query -m2 f in; head -n 1; } <keys'
    [ "$output" = $'1\n2\n1' ]
    run -0 bash -c '{ seen query --header 2 -m1 f; head -n 1; } <keys'
    [ "$output" = $'1\n2\n3\n4' ]
    run -0 bash -c '{ seen query -m2 f - <keys; } | tail -n 1'
    [ "$output" = 2 ]
}

@test "-m ends behind a record, not at a newline within it" {
    { printf '%s\n' id,note; for i in {1..9}; do printf '%s,"a\n\nb"\n' "$i"; done; } >in.csv
    quiet seen create --csv -f id f in.csv
    for options in '' -n; do
        seen query --csv -f id $options f in.csv >all
        for m in 1 2 8 9 10; do
            seen query --csv -f id $options -m $m f in.csv >got
            head -n $((3 * m + 1)) all | cmp got - || { echo "-m $m $options"; false; }
        done
    done
}

@test "-q stops at the first hit, which wins over errors" {
    printf 'a\nb\n' >keys
    quiet seen create f keys
    quiet seen query -q f keys
    quiet seen query -qv f -k x
    run -1 --separate-stderr seen query -q f -k x
    [ -z "$output$stderr" ]
    quiet seen query -q f keys missing
    run -0 --separate-stderr seen query -q f missing keys
    [ -z "$output" ]
    quiet seen query -qcnv f -k x
    run -2 --separate-stderr seen query -q f missing -
    [ -z "$output" ]
    # The same for keys on the command line.
    printf '0a\n' | quiet seen create --hex h
    quiet seen query -q h -k 0a -k zz
    run -2 --separate-stderr seen query -q h -k zz -k 0a
    [ "$stderr" = "seen: --key 'zz': not hexadecimal" ]
    run -2 --separate-stderr seen query h -k 0A -k zz
    [ "$output" = 0A ]
}

@test "several files are searched as grep searches them" {
    take
    # Large files come in many chunks; of "late", only the last record is a key.
    seq -f '%.0f x' 200000 275000 >none
    { cat none; head -n 1 keys; } >late
    : >empty
    echo a >one
    for options in -l -L -hm1 -hm2 -hvm3 -hs -lv -Lv -sl -sL -lc -Lcm1 '-l -m 1' -lvn; do
        seen_options=${options//h/}
        for files in 'input none late empty keys' 'none empty one' 'input missing late keys' \
            'missing none' input none; do
            # shellcheck disable=SC2086
            LC_ALL=C grep -aFxf keys $options $files >grep.out 2>grep.err && status=0 || status=$?
            # shellcheck disable=SC2086
            seen query $seen_options f.seen $files >out 2>err && ours=0 || ours=$?
            echo "$options $files: $status, $ours"
            cmp out grep.out
            [ "$ours" = "$status" ]
            mapfile -t said <err
            mapfile -t grep_said <grep.err
            equal ${#said[@]} ${#grep_said[@]}
        done
    done
    run -0 seen query -l f.seen - keys <late
    [ "$output" = $'(standard input)\nkeys' ]
    run -1 seen query -L f.seen <none
    [ "$output" = '(standard input)' ]
    run -0 --separate-stderr seen query --verbose -m 1 f.seen keys
    [[ $stderr == *' of '*' keys present; '* ]]
    # Names are records: they end in NUL.
    run -0 bash -c "seen query -0l f.seen <(tr '\n' '\0' <keys) | tail -c 1 | od -An -c"
    [ "${output// /}" = '\0' ]
    refuses "seen: --files-with-matches prints names of key files: not with --files-without-match" \
        seen query -lL f.seen
    refuses "seen: --files-without-match prints names of key files: not with --key" \
        seen query -L f.seen -k a
    refuses "seen: --annotate prints every record: not with --max-count" \
        seen query -m1 --annotate f.seen
    refuses "seen: --annotate prints every record: not with --files-with-matches" \
        seen query -l --annotate f.seen
    refuses "seen: 'f.seen' was made without --hex, which cannot be added later (records are always compared whole, as with grep -x)" \
        seen query -x f.seen -k a
}

@test "--list: the lines of a file instead of a filter, as grep -f has them" {
    seq 3 3 300000 | shuf --random-source=<(yes) >old
    seq 100000 >new
    for threads in 1 3; do
        seen query -j $threads --list old new | cmp - <(seq 3 3 100000)
        seen query -j $threads -v --list=old new | cmp - <(seq 100000 | awk 'NR % 3')
    done
    [ "$(seen query -c --list old new)" = 33333 ]
    # Either may be standard input, or not end in a newline.
    printf 'a\nb' >few
    [ "$(seen query --list - few <<<b)" = b ]
    [ "$(seen query -v --list few <<<b; printf 'c\na' | seen query -n --list few)" = 2:a ]
    run -1 seen query --list few -k a -v
    [ "$(seen query --list few -k a -k c -v)" = c ]
    gzip -c old >old.gz
    [ "$(seen query -c --list old.gz new)" = 33333 ]
    : >empty
    run -1 seen query --list empty few
    [ "$(seen query -vc --list empty few)" = 2 ]
    # Cut and prepared like what is asked.
    printf '1,B\n2,C\n' >fields
    [ "$(printf 'x,b\ny,d\n' | seen query -i -d, -f 2 --list fields)" = x,b ]
    printf 'id,url\n1,"a,b"\n' >old.csv
    printf 'url,n\nc,1\n"a,b",2\n' >new.csv
    seen query --csv -f url --list old.csv new.csv | cmp - <(printf 'url,n\n"a,b",2\n')
    [ "$(seen query --jsonl -f .u --list <(echo '{"u":"a"}') <<<'{"v":1,"u":"a"}')" = '{"v":1,"u":"a"}' ]
    printf 'a\0b\nc\0' >nul
    [ "$(seen query -0 -c --list nul nul)" = 2 ]
    run -2 --separate-stderr seen query -d, -f 2 --list few few
    [ "$stderr" = "seen: few:1: has no field 2 (--skip-bad skips such records)" ]
    run -2 --separate-stderr seen query --memory 1K --list few few
    [ "$stderr" = $'seen: --memory must be at least 1.00 MiB\nTry \'seen query --help\'.' ]
    # With filters.
    seen create f.seen -k q
    [ "$(printf 'a\nq\n' | seen query --which --list few --also f.seen)" = $'few:a\nf.seen:q' ]
    [ "$(seen query --annotate --list few <<<q)" = $'-\tq' ]
    refuses "seen: 'f.seen' is a filter, not a list: it is given without --list" seen query --list f.seen few
    refuses 'seen: standard input is the list: KEYFILE or -k gives the keys' seen query --list -
    refuses 'seen: standard input is the list: KEYFILE or -k gives the keys' seen query --list - few -
    refuses 'seen: no FILTER given' seen query
    # Each has a number of 16 bits.
    mapfile -t others < <(yes -- --also=none | head -n 65535)
    refuses 'seen: too many filters' seen query "${others[@]}" f.seen few
    refuses "seen: cannot open 'none': No such file or directory" seen query "${others[@]:1}" f.seen few
    refuses "seen: cannot open 'none': No such file or directory" seen query --list none few
    refuses "seen: cannot open 'none': No such file or directory" seen query --list few --also none few
    run -2 --separate-stderr seen query -f x --list few few
    [[ "$stderr" == "seen: option '--field': 'x' is not a whole number "* && ${#stderr_lines[@]} = 2 ]]
    for option in '--secret few' --show-counts '--at-least 2'; do
        # shellcheck disable=SC2086
        refuses "seen: --list asks keys in memory: not with ${option% *}" seen query $option --list few
    done
    refuses 'seen: --key gives the keys, and -f chooses fields of records: not with KEYFILE' \
        seen query --list few -k a few
}

@test "a signal ends query while it reads the list, and after it" {
    printf 'a\n' >list
    mkfifo fifo
    for options in '--list fifo list' '--list list fifo'; do
        # shellcheck disable=SC2086
        seen query $options >out &
        pid=$!
        exec 7>fifo
        kill -TERM "$pid"
        wait "$pid" && status=0 || status=$?
        exec 7>&-
        [ "$status" = 143 ]
    done
}

@test "-m and -l do not wait for the end of their input, nor read the rest of a file" {
    quiet seen create f -k a
    mkfifo fifo
    printf 'a\nb\na\n' >records
    for options in -m2 -l; do
        timeout "$PATIENCE" seen query $options f fifo >out &
        exec 7>fifo
        # In one write, as the printf of bash makes one for each line: -l leaves after the first.
        cat records >&7
        wait $!
        exec 7>&-
        [ -s out ]
    done
    # What follows in the first file would be an error.
    { printf '0a\n%.0s' {1..300000}; echo zz; } >long
    quiet seen create --hex h -k 0a
    run -0 --separate-stderr seen query -j1 -m1 h long
    [ "$output$stderr" = 0a ]
    echo 0a >after
    run -0 --separate-stderr seen query -j1 -l h long after
    [ "$output$stderr" = $'long\nafter' ]
}

@test "-q does not wait for the end of its input" {
    quiet seen create f -k a
    mkfifo fifo
    for threads in 1 2 8; do
        # Whoever holds the other end open: a query that waits for its end would hang here.
        timeout "$PATIENCE" seen query -q -j $threads f fifo &
        exec 7>fifo
        echo a >&7
        wait $!
        exec 7>&-
    done
}

@test "answers come before the next question is asked" {
    quiet seen create f -k a -k b
    for threads in 1 3; do
        coproc timeout "$PATIENCE" seen query -j $threads --annotate f
        for record in a x b ''; do
            echo "$record" >&"${COPROC[1]}"
            IFS= read -r -u "${COPROC[0]}" answer
            [[ $record == [ab] ]] && sign=+ || sign=-
            [ "$answer" = "$sign"$'\t'"$record" ]
        done
        pid=$COPROC_PID
        eval "exec ${COPROC[1]}>&-"
        wait "$pid"
    done
}

@test "-n numbers the records of each file" {
    printf 'a\nx\na\n' >one
    cp one third
    printf 'x\na' >two
    quiet seen create -p 1e-9 f -k a
    quiet seen create -p 1e-9 g -k b
    run -0 seen query -n f one two
    [ "$output" = $'one:1:a\none:3:a\ntwo:2:a' ]
    run -0 seen query -nv f one two - <third
    [ "$output" = $'one:2:x\ntwo:1:x\n(standard input):2:x' ]
    run -0 seen query -n --annotate f one two
    [ "$output" = $'one:1:+\ta\none:2:-\tx\none:3:+\ta\ntwo:1:-\tx\ntwo:2:+\ta' ]
    run -0 seen query -n --which --also g f one two
    [ "${lines[0]}" = f:one:1:a ]
    run -0 seen query -n f one
    [ "$output" = $'1:a\n3:a' ]
    run -0 seen query -n f - <one
    [ "$output" = $'1:a\n3:a' ]
    run -0 seen query -n f -k x -k a
    [ "$output" = 2:a ]
    seq 100000 >many
    echo a >>many
    run -0 seen query -n -j 3 f many
    [ "$output" = 100001:a ]
}

@test "a label belongs to a record, also to one with a newline in it" {
    keys=(-k $'a\nb' -k x -k c -k $'\n' -k '')
    quiet seen create -0 -p 1e-9 f -k $'a\nb' -k c -k $'\n' -k ''
    seen query -0 -n f "${keys[@]}" | cmp - <(printf '%s\0' $'1:a\nb' 3:c $'4:\n' 5:)
    seen query -0 -n --annotate f "${keys[@]}" |
        cmp - <(printf '%s\0' $'1:+\ta\nb' $'2:-\tx' $'3:+\tc' $'4:+\t\n' $'5:+\t')
    seen query -0 --which f "${keys[@]}" | cmp - <(printf '%s\0' $'f:a\nb' f:c $'f:\n' f:)
    # Without -0, a newline ends the record, of -k too.
    refuses "seen: --key 'a\\nb': a newline ends a key; with -0 a key can have one" \
        seen query f "${keys[@]}"
    seen query -n f <(printf 'c\nx\nc') | cmp - <(printf '1:c\n3:c\n')
    seen query -n --annotate f <(printf 'c\nx') | cmp - <(printf '1:+\tc\n2:-\tx\n')
}

@test "--annotate prints every record with its sign" {
    printf 'a\nx\n\nlast' >keys
    quiet seen create f -k a -k last
    run -0 seen query --annotate f keys
    [ "$output" = $'+\ta\n-\tx\n-\t\n+\tlast' ]
    run -0 seen query --annotate -n f keys
    [ "$output" = $'1:+\ta\n2:-\tx\n3:-\t\n4:+\tlast' ]
    # -v turns round what counts as selected, and the signs stay.
    run -1 seen query --annotate -v f -k a
    [ "$output" = $'+\ta' ]
    run -1 seen query --annotate f -k x
    [ "$output" = $'-\tx' ]
    [ "$(printf 'a\0x' | seen query --annotate -0 f | od -An -c | tr -d ' ')" = '+\ta\0-\tx\0' ]
    refuses 'seen: --annotate prints every record: not with --count' seen query --annotate -c f keys
}

@test "keys may hold any byte, and are printed as they are" {
    # Records of one to three bytes with every value but the newline's.
    LC_ALL=C awk 'BEGIN { for (i = 0; i < 256; i++) if (i != 10)
        for (j = 1; j <= 3; j++) { for (n = 0; n < j; n++) printf "%c", i; printf "\n" } }' >keys
    [ "$(wc -l <keys)" = 765 ]
    quiet seen create -p 1e-9 f keys
    seen query f keys | cmp - keys
    run -0 seen query -c f keys
    [ "$output" = 765 ]
    # Blanks, CR, case and NUL all tell keys apart.
    printf 'a\n' | quiet seen create g
    printf ' a\na \nA\na\0\n\0a\na\r\n\taa\n' >others
    run -1 --separate-stderr seen query g others
    [ -z "$output" ]
}

@test "an empty record is an empty key, and a missing last newline is added" {
    printf 'a\n\nb' >keys
    seen create f keys
    seen stats --json f | jq -e '.keys_added == 3'
    [ "$(seen query f keys | od -An -c | tr -d ' ')" = 'a\n\nb\n' ]
    run -0 seen query -c f -k ''
    [ "$output" = 1 ]
    quiet seen create g -k a
    [ "$(printf '\n\nx' | seen query -v g | od -An -c | tr -d ' ')" = '\n\nx\n' ]
    # An empty file has no record, one with a newline alone has one.
    run -1 seen query -vc g /dev/null
    [ "$output" = 0 ]
    run -0 seen query -vc g <<<''
    [ "$output" = 1 ]
}

@test "a record of 100 MB is one key" {
    [ -z "${SANITIZER-}" ] || skip 'takes long under a sanitizer'
    head -c 100000000 /dev/zero | tr '\0' a >long
    { echo x; cat long; echo; } | quiet seen create f
    seen stats --json f | jq -e '.keys_added == 2'
    { cat long; printf '\nx\ny\n'; cat long; } | seen query f | cmp - <(cat long <(printf '\nx\n') long <(echo))
    # One byte less is another key.
    run -1 seen query -c f <(tail -c +2 long)
    [ "$output" = 0 ]
}

@test "it ends quietly when its reader has gone" {
    quiet seen create f -k y
    run -141 bash -o pipefail -c 'seen query f 2>err < <(yes 2>/dev/null) | head -n 1 >out'
    [ "$(cat out)" = y ]
    [ ! -s err ]
    # With SIGPIPE ignored, as under some daemons, it can only fail; and it must end.
    run -2 bash -o pipefail -c 'trap "" PIPE; seen query f 2>err < <(yes 2>/dev/null) | head -n 1 >out'
    [ "$(cat out)" = y ]
    [ ! -s err ]
}

@test "a full or closed stdout is told once" {
    quiet seen create f -k a
    for options in '' -c --annotate '-n -j1'; do
        # shellcheck disable=SC2086
        run -2 --separate-stderr bash -c 'seen query "$@" f -k a >/dev/full' - $options
        [ "$stderr" = 'seen: cannot write standard output: No space left on device' ]
        # shellcheck disable=SC2086
        run -2 --separate-stderr bash -c 'seen query "$@" f -k a >&-' - $options
        [ "$stderr" = 'seen: cannot write standard output: Bad file descriptor' ]
    done
    run -2 --separate-stderr bash -c 'seen query -L f /dev/null /dev/null >/dev/full'
    [ "$stderr" = 'seen: cannot write standard output: No space left on device' ]
    quiet bash -c 'seen query -q f -k a >&-'
    quiet bash -c 'seen query -q f -k a >/dev/full'
}

@test "--verbose says how many hits there were and how many may be false" {
    # One byte for a thousand keys: half of what is asked for is present by mistake.
    seq 100000 | quiet seen create -p 0.1 f
    seq 1 200000 >input
    run -0 --separate-stderr seen query --verbose -c f input
    hits=$output
    [[ $stderr =~ ^seen:\ note:\ $hits\ of\ 200000\ keys\ present\;\ probable\ false\ positives:\ about\ ([0-9.e+]+)\ \(current\ FPR\ (0\.0[0-9]+)\)$ ]]
    # True hits are 100000. The error of the count of false ones is its root: 5 times that.
    awk -v false=$((hits - 100000)) -v expected="${BASH_REMATCH[1]}" \
        'BEGIN { d = false - expected; exit !(d * d < 25 * false) }'
    run -0 --separate-stderr seen query -c f input
    [ -z "$stderr" ]
    # What the list confirms is not false.
    LC_ALL=C sort input >sorted
    run -0 --separate-stderr seen query --verbose -c --confirm sorted f input
    [[ $stderr == *' probable false positives: about 0 (current FPR 0.0'* ]]
    # Of two filters at half of all absent keys, a quarter is absent from both.
    for name in a b; do
        seq 100000 | sed "s/^/$name/" | seen create --fixed -n 100000 -p 0.5 "$name"
    done
    run -0 --separate-stderr seen query --verbose -c --also b a input
    [[ $stderr =~ 'current FPR '(0\.[0-9]+)\)$ ]]
    jq -se --argjson both "${BASH_REMATCH[1]}" 'map(.fpr_current) | (1 - (1 - .[0]) * (1 - .[1]) - $both) | fabs < 0.001' \
        < <(seen stats --json a b)
}

@test "a filter that is being written, or was left dirty, still answers" {
    seq 1000 >keys
    quiet seen create -n 5000 f keys
    mkfifo fifo
    seen add f fifo &
    pid=$!
    exec 7>fifo
    seq 2000 3000 >&7
    until_present f 3000 $pid
    [ "$(state f)" = writing ]
    run -0 --separate-stderr seen query -c f keys
    [ "$output" = 1000 ]
    [ -z "$stderr" ]
    kill -9 $pid
    wait $pid || true
    exec 7>&-
    run -0 --separate-stderr seen query -c f keys
    [ "$output" = 1000 ]
    [ -z "$stderr" ]
}

@test "a filter that is useless is warned of once" {
    seq 10000 >keys
    while IFS=: read -r kind remedy; do
        # shellcheck disable=SC2086 # several words
        seen create -p 0.001 --force --empty -n 2000 $kind f.seen
        seen add f.seen <(seq 1500) 2>/dev/null
        run -0 --separate-stderr seen query -c f.seen keys
        [ "$stderr" = '' ]
        seen add --max-fpr 0.99 f.seen keys 2>/dev/null
        run -0 --separate-stderr seen query -c f.seen keys keys
        [ "$output" = 20000 ]
        [ "${#stderr_lines[@]}" = 1 ]
        [[ $stderr == "seen: warning: 'f.seen' has far more keys than it was made for: its false-positive rate is 0."*", its design rate 0.001; $remedy" ]]
    done <<'END'
--fixed:make one with a larger --capacity, or one that grows (without --fixed)
--generations 2:make room with 'seen rotate' or --rotate-at-capacity
--forget-after 20d:make one with a larger --capacity
--layout guava:make one with a larger --capacity
END
    # What rate another program had in mind is not known.
    seen create --layout gozero:bits=1024 --empty -n 10 foreign.seen
    seen export foreign.seen -o bits
    seen import --layout gozero:bits=1024 bits -o assumed.seen
    seen add assumed.seen keys 2>/dev/null
    run -0 --separate-stderr seen query -c assumed.seen keys
    [ "$stderr" = '' ]
    seen create --grow -n 100 grown.seen keys
    run -0 --separate-stderr seen query -c grown.seen keys
    [ "$stderr" = '' ]
}

@test "digests in the other case are found out, of a filter without a profile too" {
    seq 1000 | while read -r i; do printf '%039xa\n' $((i * 0xabcdef123457)); done >small
    tr a-f A-F <small >capitals
    sed 's/.*/x,&/' small >fields
    upper="these digests have small letters, its keys capitals: make it with --upper"
    lower="these digests have capitals, its keys small letters: make it with --ignore-case"
    takes() # takes KEYS WORDS QUERY...: this note, and no other
    {
        run --separate-stderr seen query "${@:3}"
        [[ $stderr == "seen: note: $1 in 'f.seen', but '"*"' is: $2" ]]
    }
    for profile in '' --no-profile; do
        # shellcheck disable=SC2086 # an option or none
        seen create --force -p 1e-9 $profile f.seen capitals
        takes 'none of the first 256 keys is' "$upper" -c f.seen small
        takes 'none of these 20 keys is' "$upper" f.seen <(head -n 20 small)
        takes 'this key is not' "$upper" f.seen -k "$(head -n 1 small)"
        takes 'none of the first 256 keys is' "$upper" -c -d, -f2 f.seen <fields
        run -1 --separate-stderr seen query f.seen <(seq -f '%040.0f' 1000)
        [[ $stderr != *case* && $stderr != *upper* ]]
        # shellcheck disable=SC2086
        seen create --force -p 1e-9 $profile f.seen small
        takes 'none of the first 256 keys is' "$lower" -c f.seen capitals
    done
    run -1 --separate-stderr seen query f.seen <(sed 's/.*/&0A/' capitals)
    [ -z "$stderr" ]
    # A few are found: perhaps by chance.
    seen create --force -p 1e-9 f.seen capitals <(sed -n '10p;20p' small)
    takes 'only 2 of the first 256 keys are' "$upper" -c f.seen small
    run -0 --separate-stderr seen query -c f.seen <(head -n 100 small)
    [ -z "$stderr" ]
    seen create --force --upper -p 1e-9 f.seen small
    [ "$(seen query -c f.seen small capitals)" = 2000 ]
    # As with the filters of CIRCL.
    seen create --layout dcso -p 1e-9 made.seen capitals
    seen export made.seen -o dcso
    seen import --layout auto --ignore-case dcso -o f.seen --force 2>/dev/null
    takes 'none of the first 256 keys is' "$upper" -c f.seen capitals
    seen import --layout auto --upper dcso -o f.seen --force 2>/dev/null
    [ "$(seen query -c f.seen small capitals)" = 2000 ]
}

# notes TEXT: of keys on standard input, none of which is in f.seen, exactly this is said.
notes()
{
    run -1 --separate-stderr seen query f.seen
    equal "$stderr" "seen: note: none of $1"
}

@test "what is proposed fits keys that are long, have many fields, or lack what the others have" {
    local says length
    seq 1000 | seen create -p 1e-9 f.seen
    says="these 100 keys is in 'f.seen', but '16' is: these have ';' in them, its keys have not: -d';' -f"
    notes "$says -1 takes a field" < <(seq 100 | sed 's/.*/a;b;c;d;e;f;g;h;i;&/')
    notes "$says 8 takes a field" < <(seq 100 | sed 's/.*/a;b;c;d;e;f;g;&;h;i/')
    notes "these 100 keys is in 'f.seen', but '16' is: these are between quotes, its keys are not: --csv --no-header -f 1 drops them" \
        < <(seq 100 | sed 's/.*/"&"/; 1s/.*/""/')
    notes "the first 256 keys is in 'f.seen', but '16' is: these begin with http:// or another scheme, its keys do not: \
-d/ -f 3 takes the host" < <(seq 1000 | sed 's,.*,http://&,; 1s,.*,x,')
    seq -f 'az%g' 1000 | seen create --force -p 1e-9 f.seen
    notes "these 100 keys is in 'f.seen', but 'az16' is: these have capitals, its keys small letters: \
make it with --ignore-case" < <(seq -f 'AZ%g' 100)
    # An example has at most 79 bytes.
    for length in 79 80; do
        seq -f "%0$length.0f" 1000 | tr 0-9 a-j | seen create --force -p 1e-9 f.seen
        says=", but '$(seq -f "%0$length.0f" 16 16 | tr 0-9 a-j)' is"
        [ $length = 79 ] || says=
        notes "these 100 keys is in 'f.seen'$says: these end in '/', its keys do not" < <(seq -f "%0$length.0f/" 100 | tr 0-9 a-j)
    done
}

@test "a filter tells how its keys were cut from records" {
    local options made file
    seq 1000 | sed $'s/.*/&,x;y\t& z/' >records
    # In the same way: silence, whatever is found.
    while IFS='|' read -r options made; do
        # shellcheck disable=SC2086 # words
        quiet seen create --force -p 1e-9 $options f.seen records
        # shellcheck disable=SC2086
        quiet seen query $options f.seen records --count --quiet
        says "^keys from +$made  " seen stats --all f.seen
        [ "$(fact f.seen keys_from)" = "$made" ]
        # shellcheck disable=SC2086
        run -1 --separate-stderr seen query $options f.seen <(sed -E 's/[0-9]+/0&/g' records)
        [ -z "$stderr" ]
    done <<'END'
-d, -f1|field 1 of lines, separated by ','
-f2,-1 -d;|fields 2,-1 of lines, separated by ';'
-f1|field 1 of lines
-wf1|field 1 of lines, separated by blanks
-d, -f1-|fields 1- of lines, separated by ','
-f1,2- -d;|fields 1,2- of lines, separated by ';'
--comments|whole lines without comments
-f0|whole lines
|whole lines
END
    # Comments make no other keys of the rest.
    seen create --force --comments -d, -f1 f.seen records
    run -1 --separate-stderr seen query -d, -f1 f.seen <(sed 's/^/x@/' records)
    [[ $stderr == *"-d@ -f 2 takes what follows it" ]]
    seen create --force -0 f.seen <(tr '\n' '\0' <records)
    [ "$(fact f.seen keys_from)" = 'whole NUL-terminated records' ]
    while IFS='|' read -r options made; do
        printf 'u;v\a?\n1;2\a3\n' | eval "seen create --force $options f.seen"
        equal "$(fact f.seen keys_from)" "$made"
    done <<'END'
-d $'\a' -f 2|field 2 of lines, separated by byte 0x07
-d ' ' -f 1|field 1 of lines, separated by byte 0x20
--csv -d $'\a' -f 2|records of CSV, -f 2, separated by byte 0x07
--csv -d ' ' -f 1|records of CSV, -f 1, separated by byte 0x20
--csv -d '~' -f 1|records of CSV, -f 1, separated by '~'
-d '~' -f 1|field 1 of lines, separated by '~'
--csv -d ';' -f u|records of CSV, -f u, separated by ';'
END
    # The highest numbers of fields.
    { echo -n a; head -c 999999 /dev/zero | tr '\0' ,; echo b; } >records
    for number in 1000000 -1000000; do
        quiet seen create --force -d, -f $number f.seen records
        equal "$(fact f.seen keys_from)" "field $number of lines, separated by ','"
    done
    # As many fields, and names as long, as the header has room for; and more.
    for i in {1..300}; do
        seq $((100 * i)) $((100 * i + 40)) | paste -sd,
    done >records
    numbers=$(seq 15 | paste -sd,)
    seen create --force -d, -f "$numbers" f.seen records
    [ "$(fact f.seen keys_from)" = "fields $numbers of lines, separated by ','" ]
    run -1 --separate-stderr seen query -d, -f16 f.seen records
    [[ $stderr == *"-d, -f $numbers"* ]] || { echo "$stderr"; false; }
    seen create --force -d, -f "$numbers,16" f.seen records
    [ "$(fact f.seen keys_from)" = null ]
    name=$(printf 'x%.0s' {1..59})
    for name in "$name" "${name}y"; do
        printf '%s\n1\n' "$name" | seen create --force --csv -f "$name" f.seen
        equal "$(fact f.seen keys_from)" "$([ ${#name} = 60 ] && echo null || echo "records of CSV, -f $name")"
    done
    seq 1000 | sed $'s/.*/&,x;y\t& z/' >records
    seq 1000 | sed 's/.*/&,x,&/' >lines
    seen create --force -d, -f3 f.seen lines
    # Unknown: made empty, from keys of the command line; united with another.
    seen create --force --empty -n 1000 e.seen
    seen create --force -k 5 k.seen
    seen create --counted -p 0 -d, -f3 c.seen lines
    seen create --from c.seen d.seen
    seen create w.seen lines
    seen merge -o m.seen f.seen w.seen
    for file in e k m; do
        equal "$(fact $file.seen keys_from)" null
    done
    seen merge --force -o m.seen f.seen f.seen
    seen shrink --force m.seen
    for file in m c d; do
        [ "$(fact $file.seen keys_from)" = "field 3 of lines, separated by ','" ]
    done
}

@test "forged accounts of how keys were read" {
    for change in reading=2 reading=8 reading=9 reading=129 reading=97 reading=67 \
        'reading=33 field1=97' field0=1 reading=5 'reading=0x2c05 field0=1' 'reading=1 field0=1000001' 'reading=1 field1=1' 'reading=1 field14=2**32-1'; do
        quiet seen create --force f.seen -k a
        # shellcheck disable=SC2086
        forge f.seen $change
        refuses "seen: 'f.seen' is damaged: its header has no valid account of how keys were read" \
            seen query f.seen -k a
        run -2 reader query f.seen <(echo a)
    done
}
