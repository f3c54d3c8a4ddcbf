#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --confirm: a prepared key is looked for in the list, whatever way it came.
# tags: threads

load ../lib/helpers

# listed FILTER LIST KEY... -- OPTION...: query finds each key in the list.
listed()
{
    local filter=$1 list=$2 keys=()
    shift 2
    while [ "$1" != -- ]; do
        keys+=(-k "$1")
        shift
    done
    shift
    run -0 seen query -c "$@" --confirm "$list" "$filter" "${keys[@]}"
    [ "$output" = $((${#keys[@]} / 2)) ] || { echo "query $*: $output"; return 1; }
}

@test "keys that are given with -k are looked for as they are prepared" {
    printf '%s\n' 'a b' abc >list
    quiet seen create f.seen list
    quiet seen create -i i.seen list
    quiet seen create --trim t.seen list
    quiet seen create -i --trim it.seen list
    listed i.seen list ABC 'A b' --
    listed t.seen list ' abc' $'a b\t' --
    listed it.seen list ' ABC' $'A b\t' --
    # CR is not for -k, but for the list.
    listed f.seen list abc 'a b' -- --crlf
    sed 's/$/\r/' list >crlf
    listed f.seen crlf abc 'a b' -- --crlf
    seen create -x x.seen -k 00ff -k abcd
    printf '%s\n' 00FF ABCD >upper
    listed x.seen upper 00Ff aBcd --
    # What is not listed is none of its pieces.
    seen create --force -p 0.5 -n 3 f.seen list
    run -1 seen query --confirm list f.seen -k abca -k abc' ' -k ' abc'
}

@test "with --crlf any line of the list may end in CR" {
    seq -w 100 | sed '9,$s/$/\r/' >list
    seq -w 100 >keys
    quiet seen create f.seen keys
    run -0 seen query -c --crlf --confirm list f.seen keys
    [ "$output" = 100 ]
    # Records that end in NUL, too.
    tr '\n' '\0' <list >list0
    tr '\n' '\0' <keys >keys0
    run -0 seen query -c -0 --crlf --confirm list0 f.seen keys0
    [ "$output" = 100 ]
}

@test "a long key in hexadecimal is looked for as well" {
    head -c 20000 /dev/zero | tr '\0' a >aa
    head -c 20000 /dev/zero | tr '\0' b >bb
    quiet seen create -x f.seen aa bb
    run -1 seen query -c --confirm aa f.seen bb
    [ "$output" = 0 ]
    tr a A <aa >upper
    for list in aa upper; do
        run -0 seen query -c --confirm $list f.seen aa
        [ "$output" = 1 ]
    done
}

@test "a list of keys that are not prepared is refused" {
    refused() {
        refuses "seen: a line of 'list' $1: keys are listed as the filter prepares them" \
            seen query "${@:2}" --confirm list f.seen -k 00
    }
    seen create -i f.seen -k 00
    { seq -w 500; echo A; seq -f 'a%03.0f' 500; } >list
    refused 'has capital letters'
    printf 'A\r\n' >list
    refused 'has capital letters' --crlf
    seen create --force --trim f.seen -k 00
    { echo ' 1'; seq -w 5; } >list
    refused 'has blanks around it'
    seen create --force -x f.seen -k 00
    printf '%s\n' 00 01:2 >list
    refused 'is not hexadecimal'
    printf '%s\n' 00 0Aa0 >list
    refused 'mixes upper and lower case'
    printf '%s\r\n' 00 01 >list
    refused 'is not hexadecimal'
    run -0 seen query -c --crlf --confirm list f.seen -k 00
    # DIGEST:COUNT is named, and nothing that comes near.
    seen create --force f.seen -k 00
    digest=$(printf 'ab%.0s' {1..16})
    echo "$digest:1905" >list
    refuses "seen: lines of 'list' look like DIGEST:COUNT; 'cut -d: -f1 FILE >LIST' makes a list of keys" \
        seen query --confirm list f.seen -k 00
    for line in "$digest" "$digest:" "$digest:1x" "$digest;1" "${digest#a}:1"; do
        echo "$line" >list
        run -1 --separate-stderr seen query --confirm list f.seen -k 01
        [ -z "$stderr" ]
    done
    # Of a long list the lines behind the samples are looked at.
    seen create --force f.seen -k 99
    seq 10000 99999 | sed '1{h;d};2G' >list
    refuses "seen: 'list' is not sorted as LC_ALL=C sort does it" seen query --confirm list f.seen -k 99
    # So is the last one.
    seq 10000 99999 | sed '$s/^9/0/' >list
    refuses "seen: 'list' is not sorted as LC_ALL=C sort does it" seen query --confirm list f.seen -k 99
    # A key may end in a CR that --crlf has left there, and then in a blank before it.
    printf '0 \r\r\n' >in
    printf '0 \r\n' >list
    quiet seen create --force --trim --crlf f.seen in
    run -0 seen query -c --crlf --confirm list f.seen in
}

@test "a list that is cut while it is in use ends it all with a message" {
    seq -w 200000 >list
    quiet seen create f.seen list
    for cut in 1 700000; do
        cp list cut
        mkfifo in
        seen query -c -j 2 --confirm cut f.seen in >out 2>err &
        pid=$!
        exec 7>in
        await $pid grep -q '/cut$' /proc/$pid/maps
        truncate -s $((1400000 - cut)) cut
        seq -w 200000 >&7 || true
        exec 7>&-
        status=0
        wait $pid || status=$?
        rm in
        [ $status = 2 ]
        # A whole page is missed at once, a piece of one at the end.
        [ $cut = 1 ] || grep -qx "seen: cannot read 'cut' at offset [0-9]*: it was truncated, .*" err
        [ $cut != 1 ] ||
            [ "$(cat err)" = "seen: cannot read 'cut': it was changed, or the disk failed" ]
    done
}
