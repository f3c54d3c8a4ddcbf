#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --header: the first records of a file that are no keys.

load ../lib/helpers

setup_file()
{
    cd "$BATS_FILE_TMPDIR" || return
    printf 'id,name\n1,a\n2,b\n3,c\n' >one
    printf 'ID,NAME\n4,d\n2,b\n' >two
    : >none
    seen create -p 1e-9 f.seen -k 2 -k 4 -k id
}

setup()
{
    cd "$BATS_TEST_TMPDIR" || return
    cp "$BATS_FILE_TMPDIR"/* .
    chmod u+w ./*
}

# prints OPTIONS FILES TEXT: what a query with these options prints, of files and of a pipe.
prints()
{
    # shellcheck disable=SC2086 # words
    run seen query --header 1 -d, -f1 $1 f.seen $2
    [ "$output" = "$3" ] || { echo "seen query $1 $2: $output"; return 1; }
}

@test "query prints the header as it is, with and without -v" {
    prints '' one $'id,name\n2,b'
    prints -v one $'id,name\n1,a\n3,c'
    prints '' 'one two' $'id,name\n2,b\n4,d\n2,b'
    prints '' 'two one' $'ID,NAME\n4,d\n2,b\n2,b'
    # It is printed where nothing is selected, and does not change the status.
    run -1 seen query --header 1 -d, -f2 f.seen one
    [ "$output" = id,name ]
}

@test "the header is not asked for, counted or numbered" {
    prints -c 'one two' 3
    prints -vc 'one two' 2
    prints -q one ''
    prints -n one $'id,name\n3:2,b'
    prints '-n -v' 'one two' $'id,name\none:2:1,a\none:4:3,c'
    prints --which 'one two' $'id,name\nf.seen:2,b\nf.seen:4,d\nf.seen:2,b'
    prints --annotate one $'#\tid,name\n-\t1,a\n+\t2,b\n-\t3,c'
    seen create --counted c.seen -k 2
    run -0 seen query --show-counts --header 1 -d, -f1 c.seen one
    [ "$output" = $'id,name\n1\t2,b' ]
    printf '2\n4\n' >list
    prints '--confirm list' one $'id,name\n2,b'
    run -0 --separate-stderr seen query --verbose -c --header 1 -d, -f1 f.seen one two
    [[ $stderr == 'seen: note: 3 of 5 keys present; '* ]]
}

@test "a header may be longer than the file, or none" {
    run -1 seen query --header 9 -d, -f1 f.seen one
    [ "$output" = "$(cat one)" ]
    run -1 seen query --header 3 f.seen <one
    [ "$output" = $'id,name\n1,a\n2,b' ]
    run -0 seen query --header 0 -d, -f1 f.seen one
    [ "$output" = $'id,name\n2,b' ]
    # The first file that has a header gives it, and a terminator that it lacks is added.
    printf only >short
    prints '' 'none short one' $'only\n2,b'
    run -1 seen query --header 1 f.seen none
    [ -z "$output" ]
    printf 'a\nb\0002\0003\0' >zeros
    seen query -0 --header 1 f.seen zeros | cmp - <(printf 'a\nb\0002\0')
    refuses "seen: option '--header': 'x' is not a count (such as 1000, 250k, 1M or 1e9)" \
        seen query --header x f.seen one
}

@test "from a pipe and out of gzip it is the same, with any number of threads" {
    { echo head 1; echo head 2; seq -f 'a record, number %.0f' 40000; } >keys
    gzip -1 <keys >keys.gz
    cp keys same
    quiet seen create -p 1e-9 --header 2 k.seen keys
    run -0 seen query -c k.seen keys
    [ "$output" = 40000 ]
    for threads in 1 3; do
        seen query -j $threads --header 2 k.seen keys | cmp - keys
        seen query -j $threads --header 2 k.seen keys.gz | cmp - keys
        seen query -j $threads --header 2 k.seen < <(cat keys) | cmp - keys
        seen query -j $threads --header 2 k.seen < <(cat keys.gz) | cmp - keys
        seen dedup -j $threads --header 2 <keys | cmp - same
        # Many records, longer than a chunk.
        run -0 seen query -j $threads -c --header 30k k.seen keys
        [ "$output" = 10002 ]
        seen query -j $threads --header 30k k.seen <keys | cmp - same
    done
}

@test "--annotate marks each record of a header" {
    run -0 seen query --annotate --header 2 -d, -f1 f.seen one two
    [ "$output" = $'#\tid,name\n#\t1,a\n+\t2,b\n-\t3,c\n+\t2,b' ]
    run -0 seen dedup --annotate --header 2 -d, -f1 one two
    [ "$output" = $'#\tid,name\n#\t1,a\n+\t2,b\n+\t3,c\n-\t2,b' ]
    printf 'a\n\0b' | seen dedup --annotate -0 --header 9 | cmp - <(printf '#\ta\n\0#\tb\0')
    printf '"a\nb",c\n1,2' | seen dedup --annotate --csv | cmp - <(printf '#\t"a\nb",c\n+\t1,2\n')
}

@test "dedup prints the header of the first file" {
    run -0 --separate-stderr seen dedup --header 1 -d, -f1 <one
    [ "$output" = "$(cat one)" ]
    [ -z "$stderr" ]
    for option in '' -v; do
        cp f.seen g.seen
        # shellcheck disable=SC2086
        run -0 seen dedup $option --header 1 -d, -f1 g.seen none one two
        case $option in
            -v) [ "$output" = $'id,name\n2,b\n4,d\n2,b' ] ;;
            *) [ "$output" = $'id,name\n1,a\n3,c' ] ;;
        esac
    done
    run -1 seen query g.seen -k ID -k name
    run -0 seen dedup -c --header 1 -d, -f1 <one
    [ "$output" = 3 ]
    run -0 seen dedup -q --header 1 -d, -f1 <one
    [ -z "$output" ]
    run -1 seen dedup -q --header 4 <one
    run -0 seen dedup --header 1 -d, -f1 f.seen one
    [ "$output" = $'id,name\n1,a\n3,c' ]
    printf 'no newline' | seen dedup --header 1 | cmp - <(echo no newline)
    for command in 'dedup --header 9' 'query --header 9 f.seen'; do
        # shellcheck disable=SC2086
        run -2 bash -c "seen $command <one >/dev/full"
        [[ $output == 'seen: '*'No space left on device' ]]
    done
}

@test "add, create, remove and stats leave headers out" {
    quiet seen create -p 1e-9 --header 1 -d, -f1 g.seen one two
    run -0 seen query -c g.seen -k 1 -k 2 -k 3 -k 4 -k id -k ID
    [ "$output" = 4 ]
    quiet seen create --empty -n 100 -p 1e-9 a.seen
    run -0 --separate-stderr seen add --verbose --header 1 -d, -f1 a.seen one two
    [ "$stderr" = 'seen: note: 5 records, 4 new keys' ]
    run -1 seen query a.seen -k id -k ID
    seen create --counted c.seen -k id -k 1 -k 2 -k 3
    quiet seen remove --header 1 -d, -f1 c.seen one
    run -0 seen query c.seen -k id -k 1 -k 2
    [ "$output" = id ]
    # A header alone gives no key.
    refuses "seen: no keys, so 'h.seen' is not made (--empty makes an empty filter)" \
        seen create --header 4 h.seen one
}

@test "the place of a bad record counts the header" {
    printf 'x\nid,name\n1\n' >bad
    refuses 'seen: bad:3: has no field 2 (--skip-bad skips such records)' seen add --header 2 -d, -f2 f.seen bad
    refuses 'seen: (standard input):3: has no field 2 (--skip-bad skips such records)' seen add --header 2 -d, -f2 f.seen < <(cat bad)
    run -2 --separate-stderr seen query --header 2 -d, -f2 f.seen one bad
    [ "$stderr" = 'seen: bad:3: has no field 2 (--skip-bad skips such records)' ]
    # No field is looked for in the header itself.
    quiet seen add --header 3 -d, -f2 f.seen bad
    run -0 --separate-stderr seen add --header 1 --skip-bad -d, -f2 f.seen bad
    [ "$stderr" = 'seen: note: 1 of 2 records had no key and were skipped' ]
}

@test "a header that cannot be read is an error" {
    gzip -c one | head -c 20 >cut.gz
    for file in cut.gz gone .; do
        run -2 --separate-stderr seen query --header 2 f.seen $file
        [[ $stderr == "seen: "*"'$file'"* ]]
        [ "${#stderr_lines[@]}" = 1 ]
    done
    printf 'BZh91AY&SY\n2\n' >packed
    says="is bzip2 data, not a list of keys: bzip2 -dc FILE | seen ..."
    refuses "seen: 'packed' $says" seen query --header 1 f.seen packed
    refuses "seen: '(standard input)' $says" seen query --header 1 f.seen < <(cat packed)
    # Behind the header it is keys.
    printf 'head\nBZh91AY&SY\n' >plain
    seen query -v --header 1 f.seen < <(cat plain) | cmp - plain
}

@test "keys given with -k have no header" {
    refuses 'seen: --header is for records of key files: not with --key' \
        seen query --header 1 f.seen -k 2 -k 4
}

@test "the header is printed as soon as it is there" {
    mkfifo questions
    timeout "$PATIENCE" seen query --annotate --header 1 f.seen <questions >answers &
    exec 7>questions
    echo 'a header' >&7
    printf '#\ta header\n' >first
    printf '#\ta header\n+\t2\n' >both
    await $! cmp -s answers first
    echo 2 >&7
    await $! cmp -s answers both
    exec 7>&-
    wait $!
}

@test "a disk that fails in the header or behind it is told of" {
    need_preload
    seq 3000 >keys
    # The first look, at what the file is, may fail.
    for call in read:1 pread:1 pread:2 pread:3; do
        rm -f f.seen
        run --separate-stderr failing "$call:EIO" seen create --header 1 f.seen keys
        if [ "$status" = 0 ]; then
            [[ $call == pread:1 ]]
            [ "$(seq 2 3000 | seen query -c f.seen)" = 2999 ]
        else
            [ "$status" = 2 ]
            [[ $stderr == *"seen: cannot read 'keys': Input/output error" ]]
            [ ! -e f.seen ]
        fi
    done
}
