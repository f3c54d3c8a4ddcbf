#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Where keys come from and how they are cut from records: for create, add and query alike.

load ../lib/helpers

# takes OPTIONS INPUT KEY...: create, add and query, given these options and this input, take exactly
# these keys from it.
takes()
{
    local options=$1 input=$2 prepared=() option
    shift 2
    # What a key goes through belongs to the filter, so the filter to compare with has it too.
    for option in $options; do
        case $option in
            -x | --hex | -i | --ignore-case | --upper | --trim) prepared+=("$option") ;;
        esac
    done
    local plain=()
    for option; do
        plain+=(-k "$option")
    done
    rm -f want made added
    seen create -0 --reproducible -n 100 -p 1e-9 "${prepared[@]}" want "${plain[@]}"
    # shellcheck disable=SC2086 # several options
    seen create --reproducible -n 100 -p 1e-9 $options made "$input"
    seen create --empty -n 100 -p 1e-9 "${prepared[@]}" added
    # shellcheck disable=SC2086
    seen add $options added "$input"
    local data
    data=$(seen stats --json want | jq '.layers[0].bytes')
    alike <(tail -c "$data" want) <(tail -c "$data" made)
    alike <(tail -c "$data" want) <(tail -c "$data" added)
    # Every record is found, by its own key.
    # shellcheck disable=SC2086
    [ "$(seen query -vc $options want "$input")" = 0 ]
    # From a pipe too.
    # shellcheck disable=SC2086
    seen query $options want "$input" | cmp - <(seen query $options want - < <(cat "$input"))
}

@test "a key is the record without its terminator" {
    printf 'a\n b \n\nc\r\nlast' >input
    takes '' input a ' b ' '' $'c\r' last
    printf 'a\n\0b\0' >input
    for null in -0 -z --null; do
        takes $null input $'a\n' b
    done
    tr '\0' '\n' <input >other
    takes '' other a '' b
}

@test "fields are counted from the front or the back" {
    printf 'a\tb\tc\nd\te\t\n\tf\n' >input
    takes '-f 2' input b e f
    printf 'a\tb\tc\n\te\tg\n\tf\n' >input
    takes '-f 2' input b e f
    takes '-f -1' input c g f
    printf 'a\tb\tc\nd\te\t\n' >input
    takes '-f 1' input a d
    takes '-f -2' input b e
    printf 'a,b,c\nd,e,f\n' >input
    takes '-d , -f 3' input c f
    takes '-d, -f-3' input a d
    takes '-f 1' input a,b,c d,e,f
    # Any byte can part fields, and the whole record is printed.
    printf 'a\377b\n' >input
    takes $'-d \377 -f 2' input b
    printf 'k1:x:y\nk2:x:y\nk3:z\n' >input
    quiet seen create f -k k2
    run -0 seen query -d : -f 1 f input
    [ "$output" = k2:x:y ]
    # A key on the command line is no record: it has no fields.
    refuses 'seen: --field is for records of key files: not with --key' seen query -d : -f 1 f -k k2
    run -1 seen query f -k k2:x
}

@test "several fields are joined by the delimiter, in the order of the list" {
    printf 'a,b,c\n,e,f\n' >input
    takes '-d , -f 1,3' input a,c ,f
    takes '-d , -f 3,1' input c,a f,
    printf 'a,b,c\n,e,\n' >input
    takes '-d, -f-1,2,-3' input c,b,a ,e,
    printf 'k\t1\tX\n' >input
    takes '-f 3,1' input $'X\tk'
    # What a filter holds is asked about by files with other columns, as one key on the command line.
    printf '7,alice,x\n8,bob,x\n' >users.csv
    printf 'alice,x,7\nbob,x,9\n' >today.csv
    quiet seen create f -d, -f 2,1 users.csv
    run -0 seen query -d, -f 1,3 f today.csv
    [ "$output" = alice,x,7 ]
    run -0 seen query f -k alice,7
    # The same fields, but not the same key.
    run -1 seen query -c -d, -f 3,1 f today.csv
    tr , ';' <today.csv >other.csv
    run -1 seen query -c -d';' -f 1,3 f other.csv
    # One that is missing is an error, one that is empty beside another is not.
    printf 'a,b\na,\na\n' >input
    run -2 --separate-stderr seen dedup -d, -f 1,2 <input
    [ "$output" = $'a,b\na,' ]
    [ "$stderr" = 'seen: (standard input):3: has no field 2 (--skip-bad skips such records)' ]
    run -0 --separate-stderr seen dedup -d, -f 1,2 --skip-bad <input
    [ "$stderr" = 'seen: note: 1 of 3 records had no key and were skipped' ]
}

@test "a range of fields is all of them, as with cut" {
    printf '%s\n' a,b,c,d,e 1,2,3,4,5 >table
    quiet seen create -p 1e-9 -d, -f 2-4 f table
    run -0 seen query -c f -k b,c,d -k 2,3,4
    [ "$output" = 2 ]
    run -0 seen query -c -d, -f 2,3-4 f table
    [ "$output" = 2 ]
    quiet seen create -p 1e-9 --force -d, -f 3-3,-1,1-2 f table
    run -0 seen query -c f -k c,e,a,b -k 3,5,1,2
    [ "$output" = 2 ]
}

@test "a range without an end is a field and all that follow, as with cut" {
    printf '%s\n' a,b,c,d 1,2,,4, x,y,z >table
    for fields in 2- 3- 1,3-; do
        cut -d, -f "$fields" table >keys
        # shellcheck disable=SC2046 # one key a line
        takes "-d, -f $fields" table $(cat keys)
    done
    head -n 1 table >row
    takes '-d, -f -1,1-' row d,a,b,c,d
    # Words are joined by a blank, as in a list of them.
    printf '%s\n' ' a  b  \t c d' 'e f g  ' >words
    takes '-w -f 2-' words 'b \t c d' 'f g'
    tail -n 1 words >row
    takes '-w -f -1,2-' row 'g f g'
    printf 'a,b\r\n' >input
    takes '--crlf -d, -f 1-' input a,b
    run -2 --separate-stderr seen dedup -d, -f 4- <table
    [ "$stderr" = 'seen: (standard input):3: has no field 4 (--skip-bad skips such records)' ]
    for fields in 3-,1 4,2- 0,1 1,0 2-,3-; do
        rejects "seen: option '--field': *" seen dedup -f $fields <table
    done
    # 0 is the whole record.
    run -0 seen dedup -d, -f 0 < <(cat table table)
    [ "$output" = "$(cat table)" ]
    # A line of many words takes no time.
    seq 300000 | tr '\n' ' ' | quiet seen create --force -w -f 2- f
}

@test "an empty field is no key" {
    printf '%s\n' a,1 b, ,2 c,1 ' , ' >input
    for command in 'create h' 'add f' 'dedup' 'query f'; do
        quiet seen create --force --empty -n 100 f
        # shellcheck disable=SC2086 # command and filter
        run -2 --separate-stderr seen $command -d, -f 2 <input
        [ "$stderr" = 'seen: (standard input):2: field 2 is empty (--skip-bad skips such records)' ]
    done
    [ ! -e h ]
    run -0 --separate-stderr seen create --json -d, -f 2 --skip-bad h input
    [ "$stderr" = 'seen: note: 1 of 5 records had no key and were skipped' ]
    [ "$(jq -c '[.n, .bad_records]' <<<"$output")" = '[3,1]' ] || jq -c . <<<"$output"
    run -1 seen query -c h -k ''
    # A blank is a key, unless it is trimmed.
    run -0 --separate-stderr seen dedup --trim -d, -f 2 --skip-bad <input
    [ "$stderr" = 'seen: note: 2 of 5 records had no key and were skipped' ]
    printf ',\n' >none
    for fields in 1,2 1- -1,1; do
        run -2 --separate-stderr seen dedup -d, -f $fields <none
        [ "$stderr" = 'seen: (standard input):1: all fields of the key are empty (--skip-bad skips such records)' ]
    done
    run -2 --separate-stderr seen dedup -d, -f 1 -x <none
    [ "$stderr" = 'seen: (standard input):1: field 1 is empty (--skip-bad skips such records)' ]
}

@test "an empty line is an empty key, and create and add say how many there are" {
    says="empty, and an empty key is a key like others; sed '/^$/d' FILE | seen ... drops them"
    seen create --counted --empty -n 10k counted
    { seq 5000; echo; seq 3000; printf '\n\n'; } >lines
    for way in 'create --force f' 'create --force -i f' 'add f' 'add counted' 'create --force --layout guava g'; do
        for threads in 1 3; do
            # shellcheck disable=SC2086 # words
            run -0 --separate-stderr seen $way -j $threads lines
            [ "$stderr" = "seen: note: 3 records are $says" ]
        done
    done
    [ "$(seen query -c f -k '')" = 1 ]
    printf '\n' >one
    run -0 --separate-stderr seen add --create g one
    [ "$stderr" = "seen: note: 1 record is $says" ]
    printf 'a\0\0' >nul
    run -0 --separate-stderr seen create -0 --force f nul
    [ "$stderr" = "seen: note: 1 record is ${says/sed/sed -z}" ]
    # What is said to drop them does, whatever else there is.
    printf '\n\377\n\0\n\n ' >lines
    sed '/^$/d' lines | cmp - <(printf '\377\n\0\n ')
    quiet seen create --force f -k ''
    quiet seen create --force -j1 f <(yes x | head -n 1024)
    run --separate-stderr seen query -c f one
    [ -z "$stderr" ]
    run -0 --separate-stderr seen dedup <one
    [ -z "$stderr" ]
}

@test "comments are no records" {
    printf '%s\n' '# a list' a '#b' '' 'c # d' ' # e' >list
    run -0 --separate-stderr seen create --json --comments f list
    [ "$(jq -c '[.records, .bad_records]' <<<"$output")" = '[4,0]' ]
    run -1 seen query f list --comments -v
    [ -z "$output" ]
    run -0 seen query -v -n f list
    [ "$output" = $'1:# a list\n3:#b' ]
    run -0 seen query -c --comments f list
    [ "$output" = 4 ]
    # Numbers of records include them, coprocesses are told of them.
    run -0 seen query -n --comments f list
    [ "$output" = $'2:a\n4:\n5:c # d\n6: # e' ]
    run -0 seen query --annotate --comments f list
    [ "$output" = $'?\t# a list\n+\ta\n?\t#b\n+\t\n+\tc # d\n+\t # e' ]
    run -0 --separate-stderr seen dedup --comments < <(cat list list)
    [ "$output" = "$(sed '1d;3d' list)" ]
    [ -z "$stderr" ]
    run -0 --separate-stderr seen dedup --comments --keep-bad < <(cat list list)
    [ "$output" = "$(cat list; sed '2d;4,$d' list)" ]
    run -2 --separate-stderr seen dedup --comments -w -f 2 <list
    [ "$stderr" = 'seen: (standard input):2: has no field 2 (--skip-bad skips such records)' ]
    printf '#\0a\0' | seen dedup -0 --comments | cmp - <(printf 'a\0')
    rejects "seen: no keys*" seen create out --comments <(echo '#')
}

@test "the whole key is prepared, not each of its fields" {
    printf ' A , B \n' >input
    takes '--trim -i -d , -f 2,1' input 'b , a'
    # At either end a delimiter that is a blank is trimmed too.
    printf '\tb\nb\t\n' >input
    takes '--trim -f 1,2' input b
}

@test "joined keys are confirmed, and counted" {
    printf '1,a\n2,b\n' | quiet seen create -p 0.4 -d, -f 2,1 f
    printf 'a,1\nb,2\n' >list
    { printf '1,a\n2,b\n'; seq -f '%.0f,c' 100; } >input
    run -0 seen query --confirm list -d, -f 2,1 f input
    [ "$output" = $'1,a\n2,b' ]
    printf 'a;x;1\na;y;1\nb;x;2\n' >input
    quiet seen create --counted -d';' -f 1,-1 g input
    head -n 1 input | quiet seen add -d';' -f 1,3 g
    run -0 seen query --show-counts g -k 'a;1' -k 'b;2'
    [ "$output" = $'3\ta;1\n1\tb;2' ]
    head -n 1 input | seen remove -d';' -f -3,-1 g
    run -0 seen query --show-counts g -k 'a;1'
    [ "$output" = $'2\ta;1' ]
}

@test "fields between runs of blanks are those of awk" {
    printf 'a b\n \t c\t  d \t\ne\tf g\n' >input
    takes '-w -f 1' input a c e
    takes '--whitespace -f -1' input b d g
    takes '-wf2,1' input 'b a' 'd c' 'f e'
    awk '{ print $2 }' input >words
    takes '-w -f 2' input b d f
    seen create --reproducible --force -n 100 -p 1e-9 want words
    # All but the headers, which say how the keys were read.
    alike <(tail -c +12289 want) <(tail -c +12289 made)
    # A record of blanks has none. A CR is no blank.
    printf 'a\n \t \n\n b\r\n' >input
    run -0 --separate-stderr seen dedup -w -f 1 --crlf --skip-bad <input
    [ "$output" = $'a\n b\r' ]
    [ "$stderr" = 'seen: note: 2 of 4 records had no key and were skipped' ]
    run -2 --separate-stderr seen dedup -w -f -2 <<<$'x y\nz '
    [ "$stderr" = 'seen: (standard input):2: has no field -2 (--skip-bad skips such records)' ]
}

@test "a CR in one of several fields is noticed" {
    printf 'a,b\r\n' >input
    for fields in 2,1 1,2 2; do
        run -0 --separate-stderr seen create --force -d, -f $fields f input
        [[ $stderr == *'end in CR'* ]]
        quiet seen create --force --crlf -d, -f $fields f input
    done
    quiet seen create --force -d, -f 1 f input
}

@test "a record without the field is an error with its place, or is skipped" {
    printf 'a,1\nb\nc,3\nd\n' >one
    printf 'x,9\ny\n' >two
    quiet seen create --empty -n 100 -p 1e-9 f
    cp f g
    for command in 'create h' 'add f' 'query f'; do
        # shellcheck disable=SC2086 # command and filter
        run -2 --separate-stderr seen $command -d , -f 2 one
        [ "$stderr" = 'seen: one:2: has no field 2 (--skip-bad skips such records)' ]
        # shellcheck disable=SC2086
        run -2 --separate-stderr seen $command -d , -f -2 two
        [ "$stderr" = 'seen: two:2: has no field -2 (--skip-bad skips such records)' ]
        # shellcheck disable=SC2086
        run -2 --separate-stderr seen $command -d , -f 2 <one
        [ "$stderr" = 'seen: (standard input):2: has no field 2 (--skip-bad skips such records)' ]
    done
    [ ! -e h ]
    # add has taken those before.
    run -0 seen query -c f -k 1 -k 3 -k 9
    [ "$output" = 1 ]
    run -0 --separate-stderr seen create -d , -f 2 --skip-bad h one two
    [ -z "$output" ]
    [ "$stderr" = 'seen: note: 3 of 6 records had no key and were skipped' ]
    run -0 --separate-stderr seen query -d , -f 2 --skip-bad h one two
    [ "$output" = $'a,1\nc,3\nx,9' ]
    # They are neither present nor absent, but they have numbers.
    run -0 --separate-stderr seen query -n -d , -f 2 --skip-bad h one two
    [ "$output" = $'one:1:a,1\none:3:c,3\ntwo:1:x,9' ]
    run -1 --separate-stderr seen query -vc -d , -f 2 --skip-bad h one two
    [ "$output" = 0 ]
    run -0 --separate-stderr seen query --annotate -d , -f 2 --skip-bad h one two
    [ "$output" = $'+\ta,1\n?\tb\n+\tc,3\n?\td\n+\tx,9\n?\ty' ]
    run -0 --separate-stderr seen query -n --annotate -d , -f 2 --skip-bad h one
    [ "$output" = $'1:+\ta,1\n2:?\tb\n3:+\tc,3\n4:?\td' ]
    run -0 --separate-stderr seen add -d , -f 2 --skip-bad --verbose g one two
    [ "${stderr_lines[0]}" = 'seen: note: 3 of 6 records had no key and were skipped' ]
    [ "${stderr_lines[1]}" = 'seen: note: 3 records, 3 new keys' ]
}

@test "the place is right in large files, whatever the threads" {
    { seq -f '%.0f,x' 100000; echo bad; seq -f '%.0f,x' 100000; echo worse; } >input
    for threads in 1 2 7; do
        run -2 --separate-stderr seen create -j $threads -d , -f 2 f input
        [ "$stderr" = 'seen: input:100001: has no field 2 (--skip-bad skips such records)' ]
        run -2 --separate-stderr seen create -j $threads -d , -f 2 f < <(cat input)
        [ "$stderr" = 'seen: (standard input):100001: has no field 2 (--skip-bad skips such records)' ]
    done
    [ ! -e f ]
}

@test "--hex, --ignore-case, --upper and --trim are applied to all keys ever after" {
    printf '00ff\nABcd\n\n' >input
    takes --hex input 00FF abCD ''
    printf 'aB\n\303\204z\n' >input
    takes -i input AB $'\303\204Z'
    takes --upper input Ab $'\303\204z'
    printf ' a\t\n\t b c \n' >input
    takes --trim input a 'b c'
    printf ' AB,\n\t0c\t,\n' >input
    takes '--trim -i -x -d , -f 1' input ab 0c
    # Without being told again.
    printf ' Key \n' | quiet seen create --trim -i f
    run -0 seen query f -k kEY
    [ "$output" = kEY ]
    printf '\tKEY\nkeys\n' >input
    run -0 seen query f input
    [ "$output" = $'\tKEY' ]
    quiet seen add f -k ' OTHER '
    run -0 seen query f -k other
    quiet seen query -q --trim f -k key
    # Only letters of ASCII are folded.
    printf '\303\204\n' | quiet seen add f
    run -1 seen query -c f -k $'\303\244'
}

@test "preparation that the filter was not made with is an error" {
    quiet seen create plain -k a
    quiet seen create --trim trimmed -k a
    for command in query add; do
        local whole=
        [ $command = add ] || whole=' (records are always compared whole, as with grep -x)'
        for option in --hex --ignore-case --upper --trim; do
            [ $option = --hex ] || whole=
            refuses "seen: 'plain' was made without $option, which cannot be added later$whole" \
                seen $command $option plain -k a
        done
        refuses "seen: 'trimmed' was made without --ignore-case, which cannot be added later" \
            seen $command --trim -i trimmed -k a
    done
}

@test "what is not hexadecimal is an error with its place" {
    for bad in 0 zz 0g '00 ' 0x00 000; do
        printf '00\n%s\n' "$bad" >input
        run -2 --separate-stderr seen create --hex f input
        [ "$stderr" = 'seen: input:2: not hexadecimal' ]
        run -2 --separate-stderr seen create --hex f -k "$bad"
        [ "$stderr" = "seen: --key '$bad': not hexadecimal" ]
        run -0 --separate-stderr seen create --hex --skip-bad --json f input
        [ "$stderr" = 'seen: note: 1 of 2 records had no key and were skipped' ]
        jq -e '.records == 2 and .bad_records == 1 and .keys_added == 1' <<<"$output"
        rm f
    done
}

@test "what cannot be encoded is an error with its place" {
    bad_of() {
        encoded f "$1"
        printf '1\n%b\n' "$2" >input
        run -2 --separate-stderr seen add f input
        [ "$stderr" = "seen: input:2: $3" ]
        run -1 --separate-stderr seen query f -k 2
        # The commands are the same for all.
        [[ -n ${FULL-} || $1 -le 4 ]] || return 0
        run -2 --separate-stderr seen dedup f -k "$(printf %b "$2")"
        [[ $stderr == *": $3" ]]
        run -0 --separate-stderr seen add --skip-bad f input
        [ "$stderr" = 'seen: note: 1 of 2 records had no key and were skipped' ]
        run -0 seen query f -k 1
    }
    for number in 1 2 7 8 11; do
        bad_of $number 'a\xff' 'not UTF-8'
    done
    for number in 3 6 10; do
        bad_of $number 2147483648 'not an integer of 32 bits'
    done
    for number in 4 5 9; do
        bad_of $number 1.5 'not an integer of 64 bits'
    done
}

@test "the encoding of keys is shown, and compared" {
    seen create --empty -n 1000 -p 1e-6 plain
    [ "$(seen stats --json plain | jq -r '.preparation, .encoding' | tr '\n' ' ')" = 'none none ' ]
    encoded f 9 --trim
    [ "$(seen stats --json f | jq -r '.preparation, .encoding' | tr '\n' ' ')" = '--trim kryo5long ' ]
    [[ $(seen stats f) == *'key encoding'*'kryo5long'* ]]
    encoded f 9
    encoded g 4
    for other in plain g; do
        refuses "seen: 'f' and '$other' cannot be merged: they differ in key encoding" \
            seen merge -o out f "$other"
    done
    seen create --empty --like f like
    [ "$(fact like encoding)" = kryo5long ]
}

@test "a list of hashes with counts, as password breaches come" {
    printf '%s\n' 5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8:9659365 \
        7C4A8D09CA3762AF61E59520943DC26494F8941B:42542807 \
        F7C3BC1D808E04732ADF679965CCC34CA7AE3441:9347000 >list
    sed 's/$/\r/' list >list.crlf
    quiet seen create -d : -f 1 --hex -p 1e-9 f list
    check() { run -0 seen query -c f -k 5baa61e4c9b93f3f0682250b6cf8331b7ee68fd8; }
    check
    run -0 seen query f - <<<"$(printf password | sha1sum | cut -d ' ' -f 1)"
    run -1 seen query f - <<<"$(printf passw0rd | sha1sum | cut -d ' ' -f 1)"
    run -0 seen query -c -d: -f1 f list
    [ "$output" = 3 ]
    # A CR that belongs to another field is not in the way.
    quiet seen create -d : -f 1 -x -p 1e-9 --force --crlf f list.crlf
    check
    quiet seen create -d : -f 1 -x -p 1e-9 --force f list.crlf
    check
    # In the last field it belongs to the key.
    run -0 --separate-stderr seen create -d : -f 2 --force g list.crlf
    [[ $stderr == *"end in CR, which is taken as part of the key"* ]]
    # The key's own is: not for a hash.
    cut -d : -f 1 list | sed 's/$/\r/' >hashes
    run -2 --separate-stderr seen create --force --hex f hashes
    [[ $stderr == *'hashes:1: not hexadecimal'* ]]
    quiet seen create --force --hex --crlf f hashes
    check
}

@test "CRs belong to keys unless --crlf drops them, which is hinted at once" {
    seq 100000 | sed 's/$/\r/' >input
    for threads in 1 3; do
        run -0 --separate-stderr seen create -p 1e-9 --force -j $threads f input input
        [ -z "$output" ]
        [ "$stderr" = "seen: note: records in 'input' end in CR, which is taken as part of the key; --crlf drops it" ]
    done
    run -0 seen query -c f -k $'17\r'
    run -1 seen query -c f -k 17
    run -0 --separate-stderr seen query -c f input
    [ "${#stderr_lines[@]}" = 1 ]
    quiet seen create -p 1e-9 --force --crlf f input
    run -0 seen query -c f -k 17
    run -1 seen query -c f -k $'17\r'
    # What is printed still has it.
    [ "$(seen query --crlf f <<<$'17\r' | od -An -c | tr -d ' ')" = '17\r\n' ]
    # A last line without its newline has one, too. One of many is a key.
    run -1 --separate-stderr seen query f < <(printf '17\r')
    [[ $stderr == *'end in CR'* ]]
    { seq 20; printf 'x\r\n'; seq 20; } | quiet seen create -p 1e-9 --force f
    quiet seen create -p 1e-9 --force --crlf f input
    # One, before the terminator, and no other.
    printf 'a\r\r\n\rb\r\nc\r' >input
    takes --crlf input $'a\r' $'\rb' $'c\r'
    # No hint where records end in NUL.
    printf 'a\r\0' >input
    quiet seen create --force -0 f input
}

@test "records that end in CR are hinted at, wherever in the first 64 KiB they begin to" {
    says="seen: note: records in '(standard input)' end in CR, which is taken as part of the key; --crlf drops it"
    for at in 1 9 300 8000; do
        seq 100000 | sed "$at,\$s/\$/\r/" >keys
        for way in 'create --force f' 'create --force -i f' 'create --force -w -f1 f' 'query -c f' 'add f'; do
            # shellcheck disable=SC2086 # words
            run -0 --separate-stderr seen $way <keys
            [ "$stderr" = "$says" ]
            # From a pipe, in two pieces.
            # shellcheck disable=SC2086 # words
            run -0 --separate-stderr seen $way < <(head -c 100 keys; tail -c +101 keys)
            [ "$stderr" = "$says" ]
        done
    done
    quiet seen create --force --crlf f keys
}

@test "CSV is noted, with the record and what reads it: -d does not understand its quotes" {
    says="there is a delimiter between quotes: --csv understands quotes"
    { seq -f '%g,"http://a/",z' 1000; printf '%s\n' '1001,"http://a/x,y"' '1002,"http://a/x,z"'; } >rows
    for way in '-d, -f2' '-d, -f3' '-d, -f-1' '-d, -f2,1' '-d, -f-2 --header 7'; do
        # shellcheck disable=SC2086 # words
        run -0 --separate-stderr seen dedup $way <rows
        [ "$stderr" = "seen: note: (standard input):1001: $says" ]
    done
    # Where no field is torn, and where fields behind the key are.
    head -n 1000 rows | quiet seen create -d, -f2 f
    quiet seen create --force -d, -f1 f rows
    printf '%s\n' '1,6"' '2,a "b"' '4,""' | quiet seen create --force -d, -f2 f
}

@test "\$HEX[...] is noted wherever it is" {
    says="seen: note: records in 'list' are like \$HEX[6b6579], which is taken as it is; \
perl -pe 's/^\\\$HEX\\[(.*)]\$/pack \"H*\", \$1/e' writes the bytes that are meant"
    # shellcheck disable=SC2016 # no variable
    { seq 3; echo '$HEX[6b6579]'; seq 1000; } >list
    for way in 'create f' 'add f' 'create --force --digest sha1 f'; do
        # shellcheck disable=SC2086 # words
        run -0 --separate-stderr seen $way list
        [ "$stderr" = "$says" ]
    done
    [ "$(perl -pe 's/^\$HEX\[(.*)]$/pack "H*", $1/e' list | sed -n 4p)" = key ]
    # shellcheck disable=SC2016
    printf '%s\n' '$HEX' '$HEX[' '$HEX[]x' 'a$HEX[6b]' | quiet seen create --force f
}

@test "comments and quotes around all keys are noted by create" {
    { printf '# one\n#\n'; seq 20; } >list
    run -0 --separate-stderr seen create f list
    [ "$stderr" = "seen: note: records in 'list' begin with #, and are keys as others; --comments leaves them out" ]
    quiet seen create --force --comments f list
    quiet seen add f list
    # Among the first 8.
    { seq 6; printf '# one\n#\n'; } >list
    run -0 --separate-stderr seen create --force f list
    [[ $stderr == *'; --comments leaves them out' ]]
    { seq 7; printf '# one\n#\n'; } | quiet seen create --force f
    # Words with # before them, and a heading.
    printf '#%s\n' a b c | quiet seen create --force f
    printf '# %s\n' 1 | quiet seen create --force f
    seq -f '"%g"' 20 >list
    run -0 --separate-stderr seen create --force f list
    [ "$stderr" = "seen: note: records in 'list' are between quotes, which are taken as part of the key; \
--csv --no-header -f 1 drops them" ]
    quiet seen create --force --csv --no-header -f 1 f list
    [ "$(seq 30 | seen query -c f)" = 20 ]
    { cat list; echo x; } | sed 's/"7"/7/' | quiet seen create --force f
    sed 's/.*/&,&/' list | quiet seen create --force f
}

# hints TEXT COMMAND...: the command says this of `input`, once, and succeeds.
hints()
{
    local text=$1
    shift
    run -0 --separate-stderr "$@"
    [ "$stderr" = "seen: note: records in 'input' $text" ]
}

@test "input that makes a useless filter is hinted at" {
    local nul="end in NUL, not in newlines, so that all of them are one key; -0 separates them"
    local apart="end in newlines, not in NUL, so that all of them are one key; without -0 they are separate"
    local mark="begin with a byte order mark, which is taken as part of the first key; 'tail -c +4' drops it"
    quiet seen create -n 1M --empty g
    printf '%s\0' 1 $'2\t' 3 >input
    for way in 'create --force f' 'add g' 'dedup --create -p 0.001 h' 'dedup -j2 h'; do
        # shellcheck disable=SC2086
        hints "$nul" seen $way input
    done
    # However many threads and files there are, once.
    hints "$nul" seen create --force f input input
    run -0 --separate-stderr bash -c "seen query -c g <input"
    [ "$stderr" = "seen: note: records in '(standard input)' $nul" ]
    quiet seen create --force -0 f input
    seq 50000 | tr '\n' '\0' >input
    says="records in 'input' end in NUL, not in newlines: -0 separates them"
    for way in 'create --force f' 'add g' 'dedup -j2 h' 'query g'; do
        # shellcheck disable=SC2086
        refuses "seen: $says" seen $way input
    done
    hints "$nul" seen create --force --no-gzip f input
    quiet seen create --force -0 f input
    seq 200000 >input
    hints "$apart" seen create --force -0 f input
    hints "$apart" seen query -v -j4 -0 g input input
    # Neither where a newline comes late.
    { head -c 70000 /dev/zero | tr '\0' a; printf '\nb\0'; } >input
    quiet seen create --force --no-gzip f input
    # A record with newlines in it is a key, and so is a last one without its NUL.
    printf 'a\nb' >input
    quiet seen create --force -0 f input
    printf 'a\n\0b\n' >input
    quiet seen create --force -0 f input
    printf 'a\0\nb\0\n' >input
    quiet seen create --force f input
    printf 'a\0b' >input
    quiet seen create --force f input
    { printf '\ufeff'; seq 200000; } >input
    hints "$mark" seen create --force -j3 f input
    hints "$mark" seen query -c f input
    [ "$output" = 200000 ]
    [ "$(seen query -c f -k $'\ufeff1')" = 1 ]
    hints "$mark" seen create --force -d x -f 1 f input
    tail -c +4 input | cmp <(seq 200000) -
    # The mark is before a header or a field that is not the key, or in front of no file.
    quiet seen create --force --header 1 f input
    quiet seen create --force -w -f 2 f <(sed 's/$/ x/' input)
    { echo 0; cat input; } >other
    quiet seen create --force f other
    quiet seen create --force f -k $'\ufeff1'
    # The hint stands before the error.
    run -2 --separate-stderr seen create --force --hex f input
    [ "${stderr_lines[0]}" = "seen: note: records in 'input' $mark" ]
    [ "${stderr_lines[1]}" = "seen: input:1: not hexadecimal" ]
}

# refused_as WHAT READER: `packed`, from a file and from a pipe; xz data, or all with FULL=1, by every command that
# reads keys.
refused_as()
{
    local way says="is $1, not a list of keys: $2"
    rm -f h
    for way in 'create h' 'add g' 'query g' 'query --annotate g' 'dedup g' 'remove c'; do
        # shellcheck disable=SC2086
        refuses "seen: 'packed' $says" seen $way packed || return
        # shellcheck disable=SC2086
        refuses "seen: '(standard input)' $says" seen $way <packed || return
        [ "$way" != 'query --annotate g' ] || continue # a pipe gives it questions
        # In pieces, as a slow pipe gives it.
        # shellcheck disable=SC2086
        refuses "seen: '(standard input)' $says" seen $way < <(dd if=packed bs=1 status=none) ||
            return
        [[ -n ${FULL-} || $1 = 'xz data' ]] || break
    done
    [ ! -e h ] && run -1 seen query -q g packed --no-gzip
}

@test "what is no list of keys is refused with the command that reads it" {
    seen create -n 1000 g -k key
    seen create --counted -n 1000 c -k key
    cp g before
    for name in xz zstd bzip2 lz4; do
        command -v $name >/dev/null || continue
        seq 10 | $name -c >packed
        refused_as "$name data" "$name -dc FILE | seen ..."
        $name -dc packed | cmp - <(seq 10)
    done
    # What other programs write.
    while IFS='|' read -r start what reader; do
        printf '%b\n1\n2\n' "$start" >packed
        refused_as "$what" "$reader | seen ..."
    done <<'END'
\0375\067zXZ\0|xz data|xz -dc FILE
\0050\0265\0057\0375|zstd data|zstd -dc FILE
BZh91AY&SY|bzip2 data|bzip2 -dc FILE
\0004\0042\0115\0030|lz4 data|lz4 -dc FILE
PK\0003\0004|a zip archive|unzip -qd DIR FILE && find DIR -type f -exec awk 1 {} +
LZIP\0001|lzip data|lzip -dc FILE
\0037\0235|data of compress|gzip -dc FILE
7z\0274\0257\0047\0034|a 7-Zip archive|7z x -oDIR FILE >&2 && find DIR -type f -exec awk 1 {} +
Rar!\0032\0007|a RAR archive|unrar x -inul FILE DIR/ && find DIR -type f -exec awk 1 {} +
%PDF-1.7|a PDF document|pdftotext FILE -
SQLite format 3\0|an SQLite database|sqlite3 FILE 'SELECT column FROM table'
END
    # A pipe that stops within them: no answer is due before the first record has ended.
    refuses "seen: '(standard input)' is xz data, not a list of keys: xz -dc FILE | seen ..." \
        seen dedup g < <(printf '\3757z'; sleep 0.5; printf 'XZ\0\n1\n2\n')
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 5\n' 7 >packed
    refused_as 'a pointer of Git LFS' "'git lfs pull' puts the file itself in its place"
    cp g packed
    says="is a filter, not a list of keys: 'seen merge' unites filters, 'seen query --also' asks several"
    refuses "seen: '(standard input)' $says" seen create h <packed
    refuses "seen: 'packed' $says" seen dedup g packed
    refuses "seen: 'packed' $says" seen query g packed
    seq 10 >list
    tar -cf packed list
    refused_as 'a tar archive' "tar -xf FILE --to-command='awk 1' | seen ..."
    tar -cf - list | gzip >packed
    refused_as 'a tar archive in gzip data' "gzip -dc FILE >NEW && tar -xf NEW --to-command='awk 1' | seen ..."
    gzip -c g >packed
    refused_as 'a filter in gzip data' "'seen merge' unites filters, 'seen query --also' asks several"
    gzip -c list | gzip >packed
    refused_as 'gzip data in gzip data' 'gzip -dc FILE >NEW && gzip -dc NEW | seen ...'
    alike <(data g) <(data before)
    # A file that cannot be used does not keep query from the others.
    echo key >plain
    run -2 --separate-stderr seen query g packed plain
    [ "$output" = key ]
}

# too_long PLACE COMMAND...: exit 2, and the message names the record and the bytes read so far.
too_long()
{
    local place=$1
    shift
    run -2 --separate-stderr "$@"
    [[ $stderr =~ ^"seen: $place: is longer than half of --memory (16.0 MiB): "([0-9]+)" bytes so far"$ ]] &&
        [ "${BASH_REMATCH[1]}" -gt 16777216 ] && [ "${BASH_REMATCH[1]}" -lt 18000000 ]
}

@test "a record longer than half of --memory ends every command, with its place" {
    seq 3 >list
    quiet seen create --counted -p 0 counted list
    quiet seen create f list
    { cat list; head -c 20000000 /dev/zero | tr '\0' a; echo; seq 100000; } >long
    gzip -1 -c long >long.gz
    for way in 'create --force g' 'add f' 'add counted' 'remove counted' 'query f' 'dedup f' dedup 'dedup --create -p 0.01 h' \
        'create --force --counted g' 'query -j1 -c f'; do
        # shellcheck disable=SC2086
        {
            [ "$way" = dedup ] || too_long long:4 seen $way --memory 32M long
            [ "$way" = dedup ] || too_long long.gz:4 seen $way --memory 32M long.gz
            too_long '(standard input):4' seen $way --memory 32M <long
            too_long '(standard input):4' seen $way --memory 32M < <(cat long.gz)
            too_long '(standard input):4' seen $way --memory 32M < <(cat long)
        }
    done
    [ ! -e g ]
    equal "$(seen query --show-counts counted list)" $'1\t1\n1\t2\n1\t3'
    # What comes before it is answered; none is skipped. A header ends there too.
    run -2 --separate-stderr seen query --skip-bad --memory 32M f long
    [ "$output" = "$(cat list)" ]
    too_long long:4 seen query --memory 32M --header 4 f long
    too_long long.gz:4 seen query --memory 32M --header 9 f long.gz
    # The message names the first record without a key.
    { printf '1,x\nbad\n'; tail -n +4 long; } >fields
    refuses 'seen: fields:2: has no field 2 (--skip-bad skips such records)' seen create --memory 32M -d, -f 2 g fields
    # Half is not too long, whether its newline comes or not.
    { head -c 16777216 /dev/zero | tr '\0' a; printf '\nb'; } >half
    quiet seen create --force --memory 32M g half
    quiet seen create --force --memory 32M g < <(head -c 16777216 half)
    { printf a; cat half; } | too_long '(standard input):1' seen create --force --memory 32M g
    refuses 'seen: (standard input):1: is longer than half of --memory (16.0 MiB): is a quote not closed?' \
        seen create --csv -f a --force --memory 32M g < <(head -c 20000000 half | tr '\n' a)
    # Without --memory, 128 MiB.
    run -2 --separate-stderr seen query f < <(head -c 200000000 /dev/zero | tr '\0' a)
    [[ $stderr == 'seen: (standard input):1: is longer than half of --memory (128 MiB): 13'*' bytes so far' ]]
}

@test "a record of a gigabyte in a megabyte of gzip takes no more memory than --memory" {
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer takes memory of its own'
    python3 - "$SEEN" <<'PYTHON'
import resource, subprocess, sys, zlib

pack = zlib.compressobj(1, zlib.DEFLATED, 31)
with open("bomb.gz", "wb") as bomb:
    for i in range(64):
        bomb.write(pack.compress(b"a" * (1 << 24)))
    bomb.write(pack.flush())
for data in [["bomb.gz"], []]:
    got = subprocess.run([sys.argv[1], "create", "--memory", "32M", "f"] + data, stdin=open("bomb.gz"),
                         capture_output=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    print(got.stderr, peak)
    if got.returncode != 2 or b":1: is longer than half of --memory (16.0 MiB)" not in got.stderr or peak > 48 << 20:
        sys.exit(1)
PYTHON
}

@test "an endless record that is no text ends at once, and says which option is missing" {
    quiet seen create f -k 1
    says='end in NUL, not in newlines: -0 separates them'
    for way in 'create g' 'add f' 'dedup f' 'query -v f' 'create --header 1 g'; do
        # shellcheck disable=SC2086
        {
            refuses "seen: records in '/dev/zero' $says" seen $way /dev/zero
            refuses "seen: records in '(standard input)' $says" seen $way </dev/zero
            refuses "seen: records in '(standard input)' $says" seen $way < <(cat /dev/zero)
        }
    done
    # Where input is not looked at before.
    run -2 --separate-stderr seen query --no-gzip --memory 2M f /dev/zero
    [[ $stderr == *' bytes so far; -0 separates records that end in NUL' ]]
    run -2 --separate-stderr seen query -0 --memory 2M f < <(yes)
    [[ $stderr == *' bytes so far; without -0, newlines separate records' ]]
}

@test "key files that are filters: the command that unites them is named" {
    seq 100 | seen create a
    seq 101 200 | seen create -p 1e-9 b
    says="'a' is a filter, not a list of keys: 'seen merge' unites filters, 'seen query --also' asks several"
    refuses "seen: $says" seen create all a b
    [ ! -e all ]
    refuses "seen: $says" seen add b a
    [ "$(seq 200 | seen query -c b)" = 100 ]
    seen create --counted -p 0 c -k x
    refuses "seen: $says" seen add c a
}

# binary FILE: is it refused, whatever reads it, but for a query that is asked key by key?
binary()
{
    says="is binary data, not lines: -0 if its records end in NUL, --no-gzip to take it as it is"
    # shellcheck disable=SC2002 # a pipe is wanted
    rm -f f && refuses "seen: '$1' $says" seen create f "$1" &&
        refuses "seen: '(standard input)' $says" seen add g <"$1" &&
        refuses "seen: '(standard input)' $says" seen dedup < <(cat "$1") &&
        quiet seen create --force --no-gzip f "$1" && seen query -q --no-gzip f "$1" &&
        cat "$1" | seen query --annotate f >out && seen create --force -0 f <"$1"
}

@test "binary data is no list of lines, but a few control characters are part of keys" {
    seen create -n 1000 g -k key
    # As random bytes are: a tenth are control characters.
    LC_ALL=C awk 'BEGIN { for (i = 0; i < 3000; i++) printf "%c", (i * 7919 + i * i * 31) % 256 }' >data
    binary data
    { head -c 1000 /dev/zero; seq 100; } >zeroes
    binary zeroes
    # In text.
    for sep in '\001' '\t' '\033' '\034' '\037'; do
        seq 1000 | sed "s/\$/$(printf '%b' "$sep")x/" >list
        quiet seen create --force f list
        [ "$(seen query -c f list)" = 1000 ]
    done
    printf 'a\0b\nc\n' >list
    quiet seen create --force f list
    [ "$(seen query -c f list)" = 2 ]
    printf 'Gr\303\266\303\237e\nna\357ve\n\343\201\202\n' >list
    quiet seen create --force f list
}

@test "lines that end in CR alone are noted, and --csv refuses them" {
    says="records in '(standard input)' end in CR alone, so that all of them are one key; tr '\r' '\n' <FILE | seen ... separates them"
    for end in '' '\n'; do
        # shellcheck disable=SC2059 # escapes
        printf "a\rb\rc\r$end" >list
        seen create --force f -k 1
        seen create --force --counted -n 100 g -k 1
        for way in 'query -v f' 'query -v --annotate f' 'add f' 'dedup f' 'add g' 'remove g' \
            'create --force f' 'create --force --crlf f'; do
            # shellcheck disable=SC2086 # words
            run -0 --separate-stderr seen $way <list
            [ "$stderr" = "seen: note: $says" ]
        done
    done
    seq 100000 | tr '\n' '\r' >list
    run -0 --separate-stderr seen create --force f <list
    [ "$stderr" = "seen: note: $says" ]
    printf 'a\rb' | quiet seen create --force f
    printf '\rab' | quiet seen create --force f
    printf 'a\r\nb\r\n' | quiet seen create --force --crlf f
    printf 'a\rb\rc\nd\n' | quiet seen create --force f
    printf 'a\rb\r' | quiet seen create --force -0 f
    for way in '-f a' '--no-header -f 1'; do
        # shellcheck disable=SC2086
        refuses "seen: '(standard input)' has CRs alone in its first record: tr '\r' '\n' <FILE | seen ... makes lines of it" \
            seen create --force --csv $way f < <(printf 'a,b\r1,x\r')
    done
}

@test "a web page is refused by create, and noted by others" {
    says="are lines of a web page or of XML; 'curl -f' fails where a server answers with an error page"
    seen create f -k key
    cp f before
    for start in '<!DOCTYPE html>' '<!doctype HTML PUBLIC' '\n <html>' '<html lang="en">' '<?xml version="1.0"?>'; do
        # shellcheck disable=SC2059 # escapes
        printf "$start\n<title>404</title>\n" >page
        refuses "seen: records in 'page' $says" seen create --force f page
        cmp f before
        run -1 --separate-stderr seen query f page
        [ "$stderr" = "seen: note: records in 'page' $says" ]
    done
    run -0 --separate-stderr seen dedup f page
    [ "$stderr" = "seen: note: records in 'page' $says" ]
    run -0 --separate-stderr seen create --force --trim f page
    [ "$stderr" = "seen: note: records in 'page' $says" ]
    printf '<p>\n<html>\n' | quiet seen create --force f
}

@test "an array of JSON is noted, on one line or on several" {
    says="seen: note: records in 'list' are one array of JSON; python3 -c 'import json,sys; \
[print(json.dumps(x)) for x in json.load(sys.stdin)]' <FILE | seen ... --jsonl takes its elements"
    for list in '["a","b"]' '[{"a":1},\t{"a":2}]\r\n' ' [ ["x"], 7]\n' '[\n  {\n    "a": 1\n  }\n]\n' '[\r\n"a",\r\n"b"\r\n]'; do
        # shellcheck disable=SC2059 # escapes
        printf "$list" >list
        for way in 'create --force f' 'query -v f' 'dedup --create -p 0.001 g'; do
            rm -f g
            seen create --force -n 1000 f -k 1
            # shellcheck disable=SC2086 # words
            run -0 --separate-stderr seen $way list
            [ "$stderr" = "$says" ]
        done
    done
    for list in '["a"]' '[1,2]' '[' '["a","b"' '["a","b"]\n["c","d"]' '[\n1\n2' '{"a":1,"b":2}' '[abc],[def]'; do
        # shellcheck disable=SC2059
        printf "$list" | quiet seen create --force f
    done
    # Of a filter of such records, arrays are questions.
    seq -f '["a","%g"]' 100 | seen create --force f
    run -1 --separate-stderr seen query f <<<'["a","b"]'
    [ -z "$stderr" ]
    refuses 'seen: (standard input):1: has no such member: it is an array (--skip-bad skips such records)' \
        seen create --force --jsonl -f .a f <<<'[{"a":1}]'
    refuses 'seen: (standard input):1: is not JSON: it ends too early (column 2); each value must be on one line (--skip-bad skips such records)' \
        seen create --force --jsonl -f .a f < <(printf '[\n{"a":1}\n]\n')
}

@test "compressed data behind text is refused, wherever it is" {
    # shellcheck disable=SC2016 # of the user's shell
    apart='for f in FILE...; do gzip -cdf <"$f" | awk 1; done | seen ...'
    seq 2000 | gzip >packed
    for last in 1 1000 8000 200000 300000; do
        { seq $last; cat packed; } >list
        says="seen: 'list' has compressed data behind text: $apart"
        rm -f f
        refuses "$says" seen create f list
        refuses "${says/list/(standard input)}" seen create f < <(cat list)
        [ ! -e f ]
        quiet seen create --no-gzip f list
    done
    # Nothing of the first 64 KiB is added.
    { printf 'a\nb'; cat packed; } >list
    seen create --force -n 10 f -k 1
    cp f before
    for way in 'add f' 'dedup f' 'query f'; do
        # shellcheck disable=SC2086 # words
        refuses "seen: 'list' has compressed data behind text: $apart" seen $way list
    done
    [ "$(seen query -c f -k 1 -k a)" = 1 ]
    # Other compressed data, behind more than a chunk.
    seq 100000 | python3 -c 'import lzma, sys; sys.stdout.buffer.write(lzma.compress(sys.stdin.buffer.read()))' >packed
    refuses "seen: '(standard input)' has compressed data behind text: $apart" seen create g < <(seq 200000 | cat - packed)
    # Keys of any bytes, and letters of any alphabet.
    seq 200000 | cat - packed | run -0 seen create -0 g
    python3 -c 'print("".join(chr(0x430 + i % 32) + "\n" * (i % 9 == 0) for i in range(900000)))' >list
    quiet seen create --force g list
    iconv -f UTF-8 -t KOI8-R list | quiet seen create --force g
}

@test "UTF-16 is refused with the command that converts it, without a byte order mark too" {
    seq 1000 >list
    for name in UTF-16LE UTF-16BE; do
        iconv -f UTF-8 -t $name list >wide
        says="is UTF-16 text, and keys are taken byte for byte: iconv -f $name -t UTF-8 FILE | seen ..."
        rm -f f
        refuses "seen: 'wide' $says" seen create f wide
        refuses "seen: '(standard input)' $says" seen dedup < <(cat wide)
        quiet seen create --force --no-gzip f wide
    done
    rm f
    # With a mark, a short one too.
    for name in UTF-16LE UTF-16BE; do
        for last in 1000 1; do
            { printf '\ufeff'; seq $last; } | iconv -f UTF-8 -t $name >wide
            refuses "seen: 'wide' is UTF-16 text, and keys are taken byte for byte: iconv -f UTF-16 -t UTF-8 FILE | seen ..." \
                seen create f wide
            iconv -f UTF-16 -t UTF-8 wide | cmp <(seq $last) -
        done
    done
}

@test "what a coprocess is asked is never taken for compressed data" {
    for start in '\xfd7zXZ' '\x28\xb5\x2f\xfd' 'BZh91AY&SY' '\x04\x22\x4d\x18' 'PK\3\4' '\x1f\x8b\x08'; do
        printf '%bx\n' "$start" >question
        seen create --force --no-gzip -n 10 f question
        # shellcheck disable=SC2002 # a pipe is wanted
    equal "$(cat question | seen query --annotate f)" "$(printf '+\t'; cat question)"
    done
    # A file is decompressed.
    printf 'x\ny\n' | gzip >list.gz
    seen create --force -n 10 f -k x
    [ "$(seen query --annotate f list.gz)" = $'+\tx\n-\ty' ]
    [ "$(seen query --annotate f <list.gz)" = $'+\tx\n-\ty' ]
}

@test "with --no-gzip, and where it is not the input's first bytes, other compressors' data is keys" {
    seen create -n 1000 g -k key
    for start in '\xfd7zXZ\0' '\x28\xb5\x2f\xfd' 'BZh91AY&SY' '\x04\x22\x4d\x18' 'PK\3\4'; do
        printf '%b\n1\n' "$start" >packed
        run -1 seen query -q g packed --no-gzip
        [ -z "$output" ]
        seen create --force --no-gzip f packed
        [ "$(seen query -c --no-gzip f packed)" = 2 ]
        { echo key; cat packed; } | quiet seen create --force f
        # All but the last of the bytes that tell.
        printf '%b' "$start" | head -c -1 >part
        quiet seen create --force f part
    done
    printf 'BZhelium\nPKZIP\n' >like
    quiet seen create --force f like
}

@test "gzip is recognised by what is in it" {
    seq 50000 >plain
    gzip -c plain >packed
    quiet seen create -p 1e-9 f plain
    for file in packed -; do
        run -0 seen query -c f $file <packed
        [ "$output" = 50000 ]
        run -0 seen query -c f $file < <(cat packed)
        [ "$output" = 50000 ]
    done
    # What is printed are the records.
    seen query f packed | cmp - plain
    # Several members, stored ones, empty ones, with names, cut in the middle of a record.
    { head -c 100 plain | gzip -9; gzip </dev/null; tail -c +101 plain | gzip -1; } >members
    seen query f members | cmp - plain
    [ "$(seen query -c f packed plain members)" = 150000 ]
    # One whose first 1, 2 or 3 bytes are the last of 128 KiB, as a comment of that length puts them.
    python3 - <<'PYTHON'
import struct, zlib
def member(flags, comment, data):
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (b"\x1f\x8b\x08" + bytes([flags]) + bytes(6) + comment + packed.compress(data) + packed.flush() +
            struct.pack("<II", zlib.crc32(data), len(data)))
for n in 1, 2, 3:
    length = (128 << 10) - n - len(member(0, b"", b"1\n"))
    with open("split%d" % n, "wb") as out:
        out.write(member(16, b"c" * (length - 1) + b"\0", b"1\n") + member(0, b"", b"2\n"))
PYTHON
    for n in 1 2 3; do
        seen query f split$n | cmp - <(seq 2)
    done
    # A name says nothing.
    mv packed plain.txt
    mv plain plain.gz
    [ "$(seen query -c f plain.txt plain.gz)" = 100000 ]
}

@test "gzip that is truncated, damaged or followed by something else is an error" {
    seq 50000 >plain
    gzip -c plain >packed
    len=$(size packed)
    quiet seen create -p 1e-9 f plain
    refused() {
        local command
        rm -f g h
        seen create --empty -n 100000 g
        for command in 'create h' 'add g' 'query -c f'; do
            # shellcheck disable=SC2086
            run -2 --separate-stderr seen $command bad
            [[ ${stderr_lines[0]} == "seen: "*"'bad'"*$1* ]] ||
                { echo "$command: $stderr"; return 1; }
            [ "${#stderr_lines[@]}" = 1 ]
            # shellcheck disable=SC2086
            run -2 --separate-stderr seen $command < <(cat bad)
            [[ $stderr == "seen: "*"'(standard input)'"* ]]
        done
        [ ! -e h ]
    }
    for cut in 10 100 $((len / 2)) $((len - 8)) $((len - 1)); do
        head -c "$cut" packed >bad
        refused ''
    done
    # In the data, in the checksum, in the length.
    for offset in $((len / 2)) $((len - 6)) $((len - 2)); do
        cp packed bad
        poke bad $offset "$(printf %02x $((0x$(peek bad $offset 1) ^ 4)))"
        refused ''
    done
    { cat packed; echo junk; } >bad
    refused ''
    { cat packed; head -c 20 packed; } >bad
    refused ''
}

@test "the three bytes that gzip begins with are truncated gzip data" {
    printf '\037\213\010' >bad
    refuses "seen: 'bad' is truncated gzip data" seen create f bad
    refuses "seen: '(standard input)' is truncated gzip data" seen create f <bad
    refuses "seen: '(standard input)' is truncated gzip data" seen create f < <(cat bad)
    [ ! -e f ]
    takes --no-gzip bad $'\037\213\010'
    printf '\037\213' >like
    takes '' like $'\037\213'
}

@test "a file that is shorter than it says, as in /sys, is read to its end" {
    for file in /sys/class/net/lo/mtu /sys/kernel/mm/transparent_hugepage/enabled; do
        [ -r "$file" ] && [ "$(size $file)" -gt "$(wc -c < <(cat "$file"))" ] && break
        file=
    done
    [ -n "$file" ] || skip 'there is no such file here'
    cat "$file" >contents
    for threads in 1 3; do
        rm -f f g
        quiet seen create -j "$threads" f "$file"
        seen query -j "$threads" f contents | cmp contents -
        seen query -j "$threads" f "$file" | cmp contents -
        seen query -j "$threads" f <"$file" | cmp contents -
        seen dedup -j "$threads" --create g contents "$file" | cmp contents -
    done
}

@test "with --no-gzip, and for what only begins like gzip, bytes are bytes" {
    printf '\037\213\010\340 no gzip: a reserved flag\nb\n' >like
    takes '' like $'\037\213\010\340 no gzip: a reserved flag' b
    printf '\037\213\nb\n' >like
    takes '' like $'\037\213' b
    printf '\037' >like
    takes '' like $'\037'
    gzip -nc <<<key >packed
    quiet seen create -p 1e-9 f -k key
    run -0 seen query -c f packed
    run -1 seen query -c --no-gzip f packed
    quiet seen create --force --no-gzip -p 1e-9 f packed
    run -1 seen query -c f -k key
    seen query --no-gzip f packed | cmp - <(cat packed; [ "$(tail -c 1 packed | od -An -c | tr -d ' ')" = '\n' ] || echo)
}

@test "-k is used instead of files, as often as it is given" {
    quiet seen create -n 2000 f -k a --key=b --key c
    run -0 seen query f -k c -k x -k a
    [ "$output" = $'c\na' ]
    run -0 seen query -c f -k a -k a
    [ "$output" = 2 ]
    keys=()
    for key in $(seq 1000); do
        keys+=(-k "$key")
    done
    quiet seen add f "${keys[@]}"
    run -0 seen query -c f "${keys[@]}"
    [ "$output" = 1000 ]
    echo a >input
    for command in 'create g' 'add f' 'query f'; do
        # shellcheck disable=SC2086
        refuses 'seen: --key gives the keys, and -f chooses fields of records: not with KEYFILE' seen $command -k a input
    done
    # Standard input is left alone.
    [ "$(echo rest | { seen query -q f -k a; cat; })" = rest ]
}

@test "standard input is read where it says -, once, and by default" {
    echo a >one
    echo c >three
    quiet seen create f one - three <<<b
    run -0 seen query f three - one <<<b
    [ "$output" = $'c\nb\na' ]
    run -0 seen query f <<<b
    [ "$output" = b ]
    refuses "seen: '-' is given twice" seen query f - -
    refuses "seen: '-' is given twice" seen add f - one -
    # Reading begins where the one before has ended.
    { read -r _; run -0 seen query f; } < <(printf 'a\nb\n')
    [ "$output" = b ]
    printf 'x\na\n' >two
    [ "$({ read -r _; seen query f; } <two)" = a ]
}

@test "what is read of a file does not wait for the stream behind it" {
    need_strace
    mkfifo late
    seq 1000 >first
    quiet seen create --empty -n 10k f
    # One thread is held up in reading the file, until the other waits for the stream.
    timeout "$PATIENCE" strace -f -qq -o /dev/null \
        -e trace=pread64 -e inject=pread64:delay_exit=200000 seen dedup -j2 f first late >out &
    exec 7>late
    await $! cmp -s first out
    exec 7>&-
    wait $!
}

@test "options for keys that make no sense are refused" {
    quiet seen create f -k a
    for command in 'create g' 'add f' 'query f'; do
        for bad in '-f 0,1' '-f 2-,1' '-f -2-' '-f x' '-f 1.5' '-f 1,' '-f ,1' '-f 3-1' '-f 1,0' '-f 00000000000000001' \
            '-d ab' '-j 0' '-j x' '-j -1'; do
            # shellcheck disable=SC2086
            run -2 --separate-stderr seen $command $bad /dev/null
            [ -z "$output" ]
            [[ ${stderr_lines[0]} == "seen: option '--"*"': "* ]]
        done
        # shellcheck disable=SC2086
        run -2 --separate-stderr seen $command -d '' -k a
        [[ ${stderr_lines[0]} == "seen: option '--delimiter': "* ]]
    done
    [ ! -e g ]
    refuses "seen: option '--field': field -1 is named twice" seen query -f -1,2,-1 f
    local what="is not a whole number from -1000000 to 1000000, or a range of fields, such as 1-3 or 3-; fields have no names"
    for field in two 2-1 0-2 0- -1- 1-2-3 a-2 -3--1 123456789012345-123456789012346; do
        refuses "seen: option '--field': '$field' $what" seen query -f "3,$field,4" f
    done
    echo a >list
    refuses "seen: option '--field' chooses fields of records by their numbers; 'list' is a file, and key files are operands" \
        seen create -f list g
    refuses "seen: option '--field': field 2 is named twice" seen query -f 2,1-3 f
    refuses "seen: option '--field': more than 16 fields" seen query -f 1-17 f
    refuses "seen: option '--delimiter': '\\t' is not a single byte; \$'\\t' is a TAB" \
        seen query -d '\t' -f 1 f
    refuses "seen: option '--field': more than 16 fields" seen query -f "$(seq -s , 17)" f
}

@test "a delimiter needs fields" {
    seen create --counted f -k a
    for command in create add query dedup remove; do
        for option in '-d,' '-d ,' '--delimiter ,' '-d , --crlf'; do
            # shellcheck disable=SC2086 # words
            refuses 'seen: --delimiter is for fields: it needs --field or --csv' \
                seen $command $option f
        done
        # shellcheck disable=SC2086
        refuses 'seen: --whitespace is for fields: it needs --field' \
            seen $command -w f
        # shellcheck disable=SC2086
        refuses 'seen: --delimiter is for fields: not with --whitespace' seen $command -d, -w -f1 f
    done
}
