#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# dedup: what is new, once, in order; by one process and by many.
# tags: threads

load ../lib/helpers

# links FIRST LAST: URLs, as a crawler finds them.
links()
{
    seq "$1" "$2" | awk '{ printf "https://host%d.example.org/path/%d?id=%d\n", $1 % 997, $1 % 31, $1 }'
}

# Of N records that awk prints, dedup may miss some by false positives: at most those at rate P with
# six standard deviations to spare.
allowed() { awk -v n="$1" -v p="$2" 'BEGIN { m = n * p; printf "%d\n", m + 6 * sqrt(m) + 1 }'; }

# no_repeats FILE
no_repeats() { [ -z "$(LC_ALL=C sort "$1" | uniq -d | head -n 1)" ]; }

# subset A B: every line of A is a line of B.
subset() { [ -z "$(LC_ALL=C comm -23 <(LC_ALL=C sort "$1") <(LC_ALL=C sort "$2"))" ]; }

@test "without a file: records of an input in a file say how large the filter in memory is to be" {
    need_strace
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer maps memory of its own'
    seq 2000000 >in
    layers() {
        strace -qq -e trace=mmap -o trace seen dedup -j1 -c "$@" <in
        awk '/MAP_ANONYMOUS/ && $2 + 0 > 7000000' trace | wc -l
    }
    [ "$(layers)" = $'2000000\n1' ]
    # Of keys that another filter may have, fewer are expected.
    seen create other.seen <<<a
    [ "$(layers --also other.seen | tail -n 1)" = 2 ]
}

@test "the pages of an empty filter are taken at once, not again for each batch that others have" {
    need_strace
    seq 100000 >in
    quiet seen create known.seen in
    quiet seen create --fixed -n 10k --empty f.seen
    strace -qq -f -e trace=madvise -o trace seen dedup -j1 -c f.seen --also known.seen in >out
    [ "$(cat out)" = 0 ]
    [ "$(grep -cE 'MADV_POPULATE|0x17' trace || true)" -le 2 ]
}

@test "a filter in memory begins smaller if there is no memory for what is expected" {
    need_preload
    seq 2000000 >in
    equal "$(failing mmap:1:ENOMEM seen dedup -j1 -c in)" 2000000
    # Not if the size was given.
    run -2 --separate-stderr failing mmap:1:ENOMEM seen dedup -n 2M -j1 -c in
    [[ $stderr == 'seen: cannot make a filter in memory of '*' MiB: Cannot allocate memory' ]]
}

@test "a list as the first operand: all are read into memory, as sort -u does" {
    printf 'b\na\nb' >one
    printf 'c\na\nd' >two
    : >empty
    gzip -k two
    sorted() { seen dedup "$@" | LC_ALL=C sort | cmp - <(LC_ALL=C sort -u one two); }
    [ "$(seen dedup one two)" = $'b\na\nc\nd' ]
    [ "$(seen dedup empty one two)" = $'b\na\nc\nd' ]
    [ "$(seen dedup two.gz one)" = $'c\na\nd\nb' ]
    [ "$(seen dedup - two <one)" = $'b\na\nc\nd' ]
    [ "$(seen dedup two - <one)" = $'c\na\nd\nb' ]
    [ "$(seen dedup <(cat one) <(cat two))" = $'b\na\nc\nd' ]
    sorted one two
    sorted -n 1 -p 0.0001 two one
    [ "$(seen dedup -v one two)" = $'b\na' ]
    [ "$(seen dedup one two -c)" = 4 ]
    # More files than may be open.
    # shellcheck disable=SC2046 # words
    [ "$(ulimit -n 50; seen dedup $(yes one | head -n 99) two)" = $'b\na\nc\nd' ]
    # shellcheck disable=SC2046 # words
    (ulimit -n 50; seen dedup --csv -f 1 $(yes one | head -n 99) >/dev/null)
    printf '1,x\n2,x\n' >table
    [ "$(seen dedup -d, -f 2 table)" = 1,x ]
    printf 'a\0b\0a\0' >nul
    seen dedup -0 nul | cmp - <(printf 'a\0b\0')
    # What is known to another filter is not new.
    seen create known.seen -k a
    [ "$(seen dedup --also known.seen one two)" = $'b\nc\nd' ]
    equal "$(ls)" "$(printf '%s\n' empty known.seen nul one table two two.gz)"
}

@test "what may be meant for FILTER is not taken for a list" {
    printf 'a\n' >one
    : >empty
    seen create f.seen -k a
    head -c 100 f.seen >short
    { printf x; tail -c +2 f.seen; } >damaged
    printf 'a\0b\0' >nul
    printf '%%PDF-1.7\n1\n2\n' >pdf
    gzip -k one
    refuses "seen: 'one.gz' is not a seen filter: it is gzip data; gzip -dc one.gz >NEW unpacks it" \
        seen dedup --no-gzip one.gz
    for name in empty short none . nul pdf; do
        run -2 --separate-stderr seen dedup "$name" <one
        [[ $stderr == "seen: "*"'$name'"* && $stderr != *"not a list"* && -z $output ]]
    done
    # Its second header tells that it is a filter.
    seen dedup damaged one >out
    [ ! -s out ]
    run -2 --separate-stderr seen dedup one f.seen
    [ "$stderr" = "seen: 'one' is not a seen filter, but 'f.seen' is: FILTER comes first" ]
    printf x | cmp - <(seen dedup f.seen <<<x | tr -d '\n')
}

@test "alone it is the awk idiom" {
    { links 1 3000; links 2000 5000; printf '\n\nlast'; } >in
    awk '!seen[$0]++' in >want
    seen dedup <in >got
    cmp want got
    seen dedup -j 1 <in | cmp want -
    awk 'seen[$0]++' in | cmp - <(seen dedup -v <in)
    equal "$(seen dedup -c <in)" "$(wc -l <want)"
    quiet seen dedup </dev/null
}

@test "it prints what is new and adds it" {
    seen create --empty -n 100k -p 1e-6 f.seen
    links 1 1000 >monday
    links 501 1500 >tuesday
    seen dedup f.seen monday | cmp monday -
    seen dedup f.seen tuesday | cmp <(links 1001 1500) -
    quiet seen dedup f.seen monday tuesday
    seen dedup -v f.seen monday | cmp monday -
    [ "$(links 1400 1600 | seen dedup -c f.seen)" = 100 ]
    [ "$(seen query -c f.seen <(links 1 1600))" = 1600 ]
    seen verify f.seen
    says '^keys new when added +1600 ' seen stats --all f.seen
}

@test "--create is silent, and the default rate is one in a million" {
    run -0 --separate-stderr seen dedup --create f.seen -k a
    [ "$output$stderr" = a ]
    quiet seen add --create g.seen -k a
    quiet seen create h.seen -k a
    for filter in f g h; do
        seen stats --json $filter.seen | jq -e '.fpr_design == 1e-6'
    done
}

@test "fields, NUL, bad records and keys on the command line" {
    seen create --empty -n 1k -p 1e-6 --ignore-case f.seen
    printf '1\tA\n2\ta\n3\n4\tb\n5\tB\n' >in
    run -0 --separate-stderr seen dedup -f 2 --skip-bad f.seen in
    [ "$output" = $'1\tA\n4\tb' ]
    run -0 --separate-stderr seen dedup -v -f 2 --skip-bad f.seen in
    [ "$output" = $'1\tA\n2\ta\n4\tb\n5\tB' ]
    run -2 --separate-stderr seen dedup -f 2 f.seen <(printf '6\tc\n7\n8\td\n')
    [ "$output" = $'6\tc' ]
    [[ $stderr == *':2: has no field 2 (--skip-bad skips such records)' ]]
    # Kept, they are printed as they are, each time, and not remembered.
    printf '%s\n' 7 $'8\tg' $'9\t' 7 $'10\tG' >in
    run -0 --separate-stderr seen dedup -f 2 --keep-bad f.seen in
    [ "$output" = $'7\n8\tg\n9\t\n7' ]
    [ "$stderr" = 'seen: note: 3 of 5 records had no key and were printed as they are' ]
    run -0 --separate-stderr seen dedup -f 2 --keep-bad f.seen in
    [ "$output" = $'7\n9\t\n7' ]
    [ "$(seen dedup -c -f 2 --keep-bad f.seen in 2>/dev/null)" = 3 ]
    [ "$(seen query -c f.seen -k 7 -k 9 -k '')" = 0 ]
    run -1 seen dedup -q -f 2 --keep-bad f.seen <(printf '11\tg\n')
    printf 'x\0y\0x' | seen dedup -0 f.seen | cmp - <(printf 'x\0y\0')
    run -0 seen dedup -k new -k NEW -k x -k other f.seen
    [ "$output" = $'new\nother' ]
}

# with_signs: the records on stdin, each with the sign that --annotate gives it in a new filter.
with_signs() { awk '{ print (seen[$0]++ ? "-" : "+") "\t" $0 }'; }

@test "--annotate prints every record and says which are new" {
    { seq 30000; seq 20000 40000; } | shuf --random-source=<(yes) >in
    seen dedup --create --annotate -p 1e-9 f.seen <in >out
    with_signs <in | cmp - out
    # The last record has no newline; others know some of the keys.
    printf 'a\nb\na\n7' | seen dedup --annotate --also f.seen >out
    printf '+\ta\n+\tb\n-\ta\n-\t7\n' | cmp - out
    run -0 --separate-stderr seen dedup --annotate --skip-bad -d , -f 2 g.seen --create < <(printf 'a,1\nx\nb,1\n')
    [ "$output" = $'+\ta,1\n?\tx\n-\tb,1' ]
    for option in -v -c -q; do
        run -2 --separate-stderr seen dedup --annotate $option f.seen </dev/null
        [[ $stderr == "seen: --annotate prints every record: not with --"* ]]
    done
}

@test "--annotate as a coprocess answers each record at once, and what it says is new it has added" {
    coproc asked { exec timeout "$PATIENCE" seen dedup --create --annotate f.seen; }
    local pid=$asked_PID
    for key in x y x BZh91AY $'\x1f\x8b' y; do
        echo "$key" >&"${asked[1]}"
        IFS= read -r -u "${asked[0]}" answer
        echo "$answer" >>out
        seen query -q f.seen -k "$key"
    done
    eval "exec ${asked[1]}>&-"
    wait "$pid"
    cmp out <(printf '+\tx\n+\ty\n-\tx\n+\tBZh91AY\n+\t\x1f\x8b\n-\ty\n')
}

@test "what would be new is printed by a query, which the refusal of --dry-run says" {
    seen create -n 1k -p 1e-6 f.seen <(seq 10)
    printf '%s\n' 9 10 11 12 11 | seen query -v f.seen | seen dedup | cmp <(printf '%s\n' 11 12) -
    refuses "seen: unknown option '--dry-run': 'seen query -v FILTER | seen dedup' prints new records, and adds nothing" \
        seen dedup --dry-run f.seen
}

@test "keys that FILTER would not take are skipped, whatever --also has" {
    printf '%s\n' ff | seen create -x -n 1k f.seen
    printf '%s\n' abcd ef | seen create -x -n 1k two.seen
    printf '%s\n' ff 01 abcd 0123 ef 02 >in
    run -0 --separate-stderr seen dedup --skip-bad --also two.seen f.seen in
    [ "$output" = $'01\n02' ]
    [ "$stderr" = 'seen: note: 2 of 6 records had no key and were skipped' ]
}

@test "--create makes a filter that grows, or one of a given size" {
    seq 100 | seen dedup --create a.seen | cmp <(seq 100) -
    seq 90 110 | seen dedup --create a.seen | cmp <(seq 101 110) -
    says '^when full  *grows' seen stats --all a.seen
    seq 100 | seen dedup --create --fixed -n 5k -p 1e-4 b.seen >/dev/null
    says '^design capacity +5000 ' seen stats b.seen
    says '^design FPR +0.0001 ' seen stats b.seen
    refuses "seen: cannot open 'c.seen': No such file or directory (--create makes it)" seen dedup c.seen /dev/null
    refuses "seen: cannot create 'none/c.seen': No such file or directory" seen dedup --create none/c.seen /dev/null
    refuses 'seen: 1e+18 keys are more than 64-bit hashes can tell apart' seen dedup --create -n 1e18 c.seen /dev/null
    refuses 'seen: 1e+18 keys are more than 64-bit hashes can tell apart' seen dedup -n 1e18
    refuses "seen: --capacity and --fpr are for a new filter: they need --create" \
        seen dedup -n 5 b.seen /dev/null
    refuses "seen: option '--capacity' must be more than 0" seen dedup -n 0
    run -2 --separate-stderr seen dedup -n 1e13 -p 0.01
    [[ $stderr =~ ^'seen: cannot make a filter in memory: '[0-9.]+' '[TP]'iB are needed'$ ]]
    seen verify a.seen b.seen
}

@test "--create on a filter that is there: a size that is in force is no news, another is a warning" {
    for command in add dedup; do
        rm -f grows.seen fixed.seen
        for _ in 1 2; do
            seen $command --create -p 1e-6 grows.seen <(seq 20000) >out 2>err
            seen $command --create --fixed -p 1/1000 -n 1000 fixed.seen <(seq 900) >out 2>>err
            [ ! -s err ]
        done
        run -0 --separate-stderr seen $command --create -p 1e-9 -n 1M grows.seen <(seq 3)
        [ "$stderr" = "\
seen: warning: 'grows.seen' is there already, with a false-positive rate of 1e-06: --fpr has no effect
seen: warning: 'grows.seen' is there already, and grows: --capacity has no effect" ]
        run -0 --separate-stderr seen $command --create --fixed -n 16384 grows.seen <(seq 3)
        [ "$stderr" = "seen: warning: 'grows.seen' is there already, and grows: --fixed has no effect
seen: warning: 'grows.seen' is there already, and grows: --capacity has no effect" ]
        quiet seen $command --create -n 20000 grows.seen <(seq 3)
        run -0 --separate-stderr seen $command --create -p 1e-9 -n 1001 fixed.seen <(seq 3)
        [ "$stderr" = "\
seen: warning: 'fixed.seen' is there already, with a false-positive rate of 0.001: --fpr has no effect
seen: warning: 'fixed.seen' is there already, with a capacity of 1000: --capacity has no effect" ]
    done
}

@test "many processes may create one filter at once" {
    links 1 2000 >in
    for i in 1 2 3 4 5 6 7 8; do
        seen dedup --create -p 1e-6 f.seen in >out.$i &
    done
    finish
    cat out.* >all
    no_repeats all
    LC_ALL=C sort all | cmp <(LC_ALL=C sort in) -
    seen verify f.seen
}

@test "what other filters have is known too" {
    seen create -p 1e-6 archive.seen <(seq 1 50)
    seen create -p 1e-6 block.seen <(seq 40 60)
    seen create --empty -n 1k -p 1e-6 f.seen
    seq 30 70 | seen dedup --also archive.seen --also block.seen f.seen | cmp <(seq 61 70) -
    # These were not added.
    run -1 seen query -c f.seen <(seq 30 60)
    [ "$output" = 0 ]
    seq 30 70 | seen dedup -v --also archive.seen --also block.seen f.seen | cmp <(seq 30 70) -
    seq 30 70 | seen dedup --also archive.seen | cmp <(seq 51 70) -
    seen create -p 1e-6 -i other.seen <(seq 5)
    run -2 seen dedup --also other.seen f.seen /dev/null
    [[ $output == *'differ in --ignore-case'* ]]
}

@test "another filter may grow and be replaced while its keys are known" {
    seen create --grow -n 100 -p 1e-6 other.seen <(seq 100)
    seen create -p 1e-6 -i folded.seen <(seq 5)
    mkfifo in
    seen dedup -p 1e-9 --create --also other.seen f.seen <in >out 2>err &
    local status=0 process=$!
    exec 9>in
    seq 99 101 >&9
    await $process has_lines out 1
    # It grows: key 900 is in a layer that was not there before.
    seq 200 1000 | seen add other.seen
    printf '%s\n' 900 b >&9
    await $process has_lines out 2
    # Another file takes its place, as it may at the end of the run that made it.
    seen create --force -p 1e-6 other.seen <(seq 5000 6000)
    printf '%s\n' 5500 900 c >&9
    await $process has_lines out 4
    mv folded.seen other.seen
    echo d >&9
    exec 9>&-
    wait $process || status=$?
    [ $status = 2 ]
    cmp <(printf '%s\n' 101 b 900 c) out
    grep -qxF "seen: 'other.seen' was replaced by a filter that differs in --ignore-case" err
    [ "$(seen query -c f.seen out)" = 4 ]
}

@test "--max-fpr stops, and what was added is printed" {
    seen create --fixed --empty -n 1000 -p 0.01 f.seen
    links 1 5000 >in
    run -2 --separate-stderr seen dedup --max-fpr 0.01 f.seen in
    [[ $stderr =~ ^"seen: in:"([0-9]+)": not added: the false-positive rate of 'f.seen' would pass 0.01"$ ]]
    stop=${BASH_REMATCH[1]}
    printf '%s\n' "$output" >got
    subset got <(head -n $((stop - 1)) in)
    equal "$(seen query -c f.seen got)" "$(wc -l <got)"
    [ "$(wc -l <got)" -gt 800 ]
}

@test "a filter that does not grow takes no key beyond 10 times its design rate, unless told so" {
    local full="not added: the false-positive rate of 'f.seen' would pass 0.01, 10 times its design rate; "
    seq 20000 >in
    seen create --fixed --empty -n 1000 -p 0.001 f.seen
    run -2 --separate-stderr seen dedup f.seen in
    [[ $stderr == *"seen: in:"*": ${full}make one with a larger --capacity, or one that grows (without --fixed), or "* ]]
    printf '%s\n' "$output" >got
    # Of those before it, hardly one was dropped: the sum of the rates is below 2 % of them.
    [[ $stderr =~ "in:"([0-9]+)": " ]]
    [ "$(wc -l <got)" -ge $(((BASH_REMATCH[1] - 1) * 98 / 100)) ]
    # All known: nothing is refused.
    run -0 --separate-stderr seen dedup f.seen got
    # What another program reads cannot grow.
    seen create --layout guava --empty -n 100 guava.seen
    run -2 seen dedup -c guava.seen in
    [[ $output == *"; make one with a larger --capacity, or set another limit with --max-fpr"* ]]
    seen dedup --max-fpr 0.9 f.seen in >out 2>err
    # What grows, and what is emptied.
    seen create --empty -n 1000 -p 0.001 grown.seen
    seen dedup grown.seen in >out 2>err
    [ ! -s err ]
    seen create --empty --generations 2 -n 1000 ring.seen
    run -2 --separate-stderr seen dedup ring.seen in
    [[ $stderr == *"10 times its design rate; make room with 'seen rotate' or --rotate-at-capacity, or "* ]]
    seen dedup --rotate-at-capacity ring.seen in >out
}

@test "a filter that is too full is warned of, and what that may have cost is said at the end" {
    seen create --fixed --empty -n 1000 -p 0.001 f.seen
    seen add f.seen <(seq 1300) 2>/dev/null
    run -0 --separate-stderr seen dedup f.seen <(echo one more)
    [ "$output" = 'one more' ]
    [ "${#stderr_lines[@]}" = 2 ]
    [[ ${stderr_lines[0]} == "seen: warning: 'f.seen' is fuller than it was made for: its current"* ]]
    [[ ${stderr_lines[1]} =~ ^"seen: note: new ones probably mistaken for known: "[0-9.e-]+" since 'f.seen' was made"$ ]]
    # With its last record, one line that has this number.
    run -0 --separate-stderr seen dedup --verbose f.seen <(echo two more)
    [ "${#stderr_lines[@]}" = 2 ]
    [[ ${stderr_lines[1]} == "seen: note: 1 records, 1 new; new ones probably mistaken for known: "* ]]
    # It is warned of once, in whatever number of chunks the records come.
    seen create --empty --generations 1 -n 1000 -p 0.001 ring.seen
    run -0 --separate-stderr seen dedup ring.seen <(seq -f %01500.0f 2000)
    [ "${#stderr_lines[@]}" = 2 ]
    [[ ${stderr_lines[0]} == "seen: warning: 'ring.seen' is fuller than it was made for: its current"* ]]
    # The rate is that of all layers, as stats says.
    seen create --empty --generations 1 -n 1000 -p 0.001 --force ring.seen
    seen add ring.seen <(seq 1000)
    seen rotate ring.seen
    seen add ring.seen <(seq 1001 2900) 2>said
    run -0 --separate-stderr seen add ring.seen -k 1
    [[ $stderr =~ 'its current false-positive rate is '([0-9.]+), ]]
    seen stats --json ring.seen | jq -e "${BASH_REMATCH[1]} / .fpr_current | . > 0.97 and . < 1.03"
}

@test "eight processes on one file: nothing twice, nothing missing" {
    p=1e-4
    links 1 160000 >all
    for i in 1 2 3 4 5 6 7 8; do
        links $((i * 15000)) $((i * 15000 + 40000)) | shuf --random-source=all >in.$i
    done
    cat in.* | awk '!seen[$0]++' >want
    seen create --empty -n 200k -p $p f.seen
    for i in 1 2 3 4 5 6 7 8; do
        seen dedup f.seen <in.$i >out.$i &
    done
    finish
    cat out.* >got
    no_repeats got
    subset got want
    missing=$(($(wc -l <want) - $(wc -l <got)))
    echo "missing: $missing"
    [ "$missing" -le "$(allowed "$(wc -l <want)" $p)" ]
    # Each kept the order of its input.
    for i in 1 2 3 4 5 6 7 8; do
        awk 'NR == FNR { printed[$0] = 1; next } $0 in printed' out.$i in.$i | cmp - out.$i
    done
    seen verify f.seen
}

# slowly <IN: copies 30 MB a second at most.
slowly()
{
    local part
    while IFS= read -r -N 300000 part || [ -n "$part" ]; do
        printf %s "$part"
        sleep 0.01
    done
}

@test "killed workers: nothing twice, at most one batch a kill not printed" {
    links 1 400000 >in
    seen create --empty -n 500k -p 1e-6 f.seen
    mkfifo pipe
    kills=12
    for ((i = 0; i < kills; i++)); do
        # Both have the other end too, until they have opened theirs: whoever dies first, nobody
        # waits for it.
        exec 8<>pipe
        # The reader is slow, so that workers die while they write.
        slowly <pipe 8>&- >out.$i &
        reader=$!
        seen dedup f.seen in >pipe 8>&- &
        victim=$!
        exec 8>&-
        sleep 0.0$((RANDOM % 9))
        kill -9 "$victim" 2>/dev/null || true
        wait "$victim" 2>/dev/null || true
        wait $reader
    done
    seen dedup f.seen in >out.last 2>/dev/null
    # A record may be cut off in the middle by the kill: that one was not printed.
    for ((i = 0; i < kills; i++)); do
        [ ! -s out.$i ] || [ -z "$(tail -c 1 out.$i)" ] || sed -i '$d' out.$i
    done
    cat out.* >got
    no_repeats got
    subset got in
    # A batch: at most 2 MiB of input.
    lost=$(LC_ALL=C comm -13 <(LC_ALL=C sort got) <(LC_ALL=C sort in) | wc -c)
    echo "lost: $lost bytes in $kills kills"
    [ "$lost" -le $((kills * (2 << 20))) ]
    seen query -q -v f.seen in && return 1
    seen verify --repair f.seen
}

@test "output does not wait for more input" {
    seen create --empty -n 1k f.seen
    mkfifo in out
    seen dedup f.seen <in >out &
    exec 8>in 9<out
    for i in 1 2 3; do
        echo "line $i" >&8
        read -r -t "$PATIENCE" line <&9
        [ "$line" = "line $i" ]
    done
    exec 8>&-
    wait $!
    exec 9<&-
}

@test "a reader that goes away: synced, counted, ended" {
    links 1 200000 >in
    seen create --empty -n 300k -p 1e-6 f.seen
    { seen dedup f.seen in 2>said || echo $? >status; } | head -n 10 >got
    [ "$(cat status)" = 141 ]
    [[ $(cat said) =~ ^"seen: warning: standard output was closed: "([0-9]+)" records added to 'f.seen' were not printed"$ ]]
    [ "${BASH_REMATCH[1]}" -gt 0 ]
    cmp got <(head -n 10 in)
    seen verify f.seen
    # A chunk that was added while the one before it was printed is told of, too. A pipe holds 64 KiB: some 1,500 of
    # these records.
    local all status=0
    mkfifo pipe
    seen create --empty -n 300k -p 1e-6 two.seen
    seen dedup --threads 2 two.seen in >pipe 2>said &
    exec 7<pipe
    until_present two.seen "$(sed -n 20000p in)" $!
    exec 7<&-
    wait $! || status=$?
    [ $status = 141 ]
    all=$(seen query -c two.seen in)
    [[ $(cat said) =~ " closed: "([0-9]+)" records added to 'two.seen' were not printed"$ ]]
    [[ ${BASH_REMATCH[1]} -le $all && ${BASH_REMATCH[1]} -gt $((all - 3000)) ]]
    refuses "seen: cannot write standard output: No space left on device" \
        bash -c 'seen dedup f.seen <<<http://x.example/ >/dev/full'
    [ "${stderr_lines[1]}" = "seen: warning: 1 records added to 'f.seen' were not printed" ]
    run -2 --separate-stderr bash -c 'seen dedup --annotate f.seen -k http://y.example/ >/dev/full'
    [ "${stderr_lines[1]}" = "seen: warning: 1 records given to 'f.seen' were not printed" ]
}

@test "a reader that goes away: what was added meanwhile is counted, too" {
    local process
    [ "$(nproc)" -gt 1 ] || skip 'needs two threads'
    seen create --empty -n 100 f.seen
    mkfifo in pipe
    seen dedup -j 2 f.seen in >pipe 2>said &
    process=$!
    exec 7<pipe 8>in
    echo first >&8
    read -r line <&7
    [ "$line" = first ]
    # The next record is added, and waits to be printed, while the last one is added.
    dd if=/dev/zero of=pipe bs=4096 oflag=nonblock 2>full || true
    echo second >&8
    until_present f.seen second $process
    echo third >&8
    until_present f.seen third $process
    exec 7<&-
    wait $process && status=0 || status=$?
    exec 8>&-
    [ "$status" = 141 ]
    equal "$(cat said)" "seen: warning: standard output was closed: 2 records added to 'f.seen' were not printed"
}

@test "a signal: the batch is finished, printed and synced" {
    # ThreadSanitizer holds signals back from a thread that waits for a lock, as one of two would.
    local threads=2
    [ "${SANITIZER-}" != thread ] || threads=1
    seen create --empty -n 1k -p 1e-6 f.seen
    mkfifo in
    seen dedup -j $threads f.seen <in >out &
    exec 8>in
    seq 10 >want
    cat want >&8
    await $! cmp -s out want
    kill -TERM $!
    wait $! && status=0 || status=$?
    exec 8>&-
    [ $status = 143 ]
    cmp out want
    seen verify f.seen
}

@test "a second signal ends it at once, but not the same one sent twice" {
    [ "${SANITIZER-}" != thread ] || skip 'ThreadSanitizer holds signals back from who waits'
    seen create --empty -n 2M -p 1e-6 f.seen
    seq 1000000 >in
    mkfifo out
    # Within a second, the two are taken for one.
    for wait in 0 1.2; do
        # Nobody reads on, so it cannot end by itself.
        env --default-signal=INT seen dedup f.seen in >out &
        victim=$!
        exec 9<out
        IFS= read -r line <&9
        if [ $wait = 0 ]; then
            # Both wait for it when it goes on, so that no time is between them.
            kill -STOP $victim
            kill -TERM $victim
            kill -INT $victim
            kill -CONT $victim
            cat <&9 >got
            wait $victim && status=0 || status=$?
            # Which of two comes first when both wait is the kernel's choice.
            [ $status = 143 ] || [ $status = 130 ]
            [ "$(state f.seen)" = clean ]
            [ "$(fact f.seen keys_added)" = $(($(wc -l <got) + 1)) ]
            quiet seen create --force --empty -n 2M -p 1e-6 f.seen
        else
            kill -TERM $victim
            sleep $wait
            kill -INT $victim
            wait $victim && status=0 || status=$?
            [ $status = 130 ]
            [ "$(state f.seen)" = writing ]
        fi
        exec 9<&-
    done
}

@test "--verbose tells how many may have been dropped, --sync-every syncs" {
    seen create --empty -n 1000 -p 0.1 f.seen
    run -0 --separate-stderr seen dedup --verbose --sync-every 10 f.seen <(seq 1000)
    [[ $stderr =~ ^'seen: note: 1000 records, '([0-9]+)' new; new ones probably mistaken for known: '([0-9.]+)" since 'f.seen' was made"$ ]]
    # About 3 % over a run from empty to full; six standard deviations of a Poisson law.
    dropped=$((1000 - BASH_REMATCH[1]))
    awk -v is=$dropped -v want="${BASH_REMATCH[2]}" 'BEGIN {
        d = is - want; exit !(want > 10 && d * d < 36 * want) }'
    run -0 --separate-stderr seen dedup --verbose <(seq 10)
    [ "$stderr" = 'seen: note: 10 records, 10 new; new ones probably mistaken for known: 0' ]
}

@test "new ones that other filters took for known are not counted" {
    quiet seen create -n 10000 -p 0.1 a.seen <(seq 30001 40000)
    seen create --empty -n 20000 -p 0.001 f.seen
    run -0 --separate-stderr seen dedup --verbose --also a.seen f.seen <(seq 10001 20000)
    [[ $stderr =~ known:\ ([0-9.e-]+)\ since ]]
    awk -v said="${BASH_REMATCH[1]}" 'BEGIN { exit !(said < 10) }'
}

@test "a filter that was made much too small is said at the end to have lost much" {
    run -0 --separate-stderr seen dedup --create --fixed -n 1000 -p 0.001 --max-fpr 0.99999999 f.seen <(seq 20000)
    new=$(wc -l <<<"$output")
    [ "${#stderr_lines[@]}" = 2 ]
    [[ ${stderr_lines[0]} == "seen: warning: 'f.seen' is fuller than it was made for: its current "* ]]
    [[ ${stderr_lines[1]} =~ ^"seen: note: new ones probably mistaken for known: at least "([0-9]+)" since 'f.seen' was made"$ ]]
    echo "$new printed; $stderr"
    [ "${BASH_REMATCH[1]}" -le $((20000 - new)) ]
    [ "${BASH_REMATCH[1]}" -ge $(((20000 - new) * 9 / 10)) ]
}

@test "of what a saturated filter has lost, a lower bound is told" {
    # Where nearly all bits are set, they tell less and less.
    for parts in 60000:0.9 160000:0.8 300000:0.35; do
        n=${parts%:*}
        quiet seen create -p 0.001 --fixed --force --empty -n 10000 f.seen
        run -0 --separate-stderr seen dedup --verbose --max-fpr 0.999999999999 f.seen <(seq "$n")
        lost=$((n - ${#lines[@]}))
        [[ ${stderr_lines[1]} =~ ': at least '([0-9]+)' since ' ]]
        echo "$n: $lost lost; ${stderr_lines[1]}"
        [ "${BASH_REMATCH[1]}" -le $lost ]
        says "^keys wrongly dropped +at least ${BASH_REMATCH[1]}\.[0-9]+ +estimated \(95 %\)$" \
            seen stats --all f.seen
        seen stats --json f.seen | jq -e ".dropped_at_least and .dropped_estimate <= $lost and
            .dropped_estimate > ${parts#*:} * $lost"
    done
    seen create -p 0.001 --fixed --force --empty -n 10000 f.seen
    seen dedup --max-fpr 0.99 f.seen <(seq 30000) >out
    seen stats --json f.seen | jq -e '.dropped_at_least == false'
}

@test "nothing is made when something else cannot be opened" {
    quiet seen create -p 1e-6 -i folded.seen <(seq 5)
    seq 10 >in
    refuses "seen: cannot open 'none': No such file or directory" \
        seen dedup --create --also none f.seen in
    refuses "seen: 'f.seen' and 'folded.seen' cannot be queried together: they differ in --ignore-case (of 'folded.seen')" \
        seen dedup --create --also folded.seen f.seen in
    refuses "seen: cannot open 'none': No such file or directory (-k gives a key)" seen dedup --create f.seen none
    [ ! -e f.seen ]
    # The option is that of FILTER, and nobody gave one.
    seen create -p 1e-6 -i own.seen <(seq 5)
    seen create -p 1e-6 plain.seen <(seq 5)
    refuses "seen: 'own.seen' and 'plain.seen' cannot be queried together: they differ in --ignore-case (of 'own.seen')" \
        seen dedup --also plain.seen own.seen in
    run -0 --separate-stderr seen dedup -i --create --also folded.seen f.seen in
    [ "$output" = "$(seq 6 10)" ]
    seen verify f.seen
}

@test "records that a file has room for are not counted among those that were not printed" {
    seq 1000001 1130000 >in
    # 1000 KiB: 128000 records of 8 bytes, or 102400 with their signs.
    for options in '' --annotate; do
        # What is known divides the last records that find room.
        seen create --force --empty -n 200k -p 1e-6 f.seen
        quiet seen add f.seen -k 1100000
        # shellcheck disable=SC2086 # an option or none
        run -2 --separate-stderr bash -c 'ulimit -f 1000; seen dedup "$@" >out' - $options f.seen in
        [ "${stderr_lines[0]}" = 'seen: cannot write standard output: File too large' ]
        left="$(($(fact f.seen keys_added) - 128001)) records added to"
        [ -z "$options" ] || left="$(($(fact f.seen records) - 102401)) records given to"
        [ "${stderr_lines[1]}" = "seen: warning: $left 'f.seen' were not printed" ]
    done
}

@test "records with newlines in them are counted right when they are not printed" {
    quiet seen create --empty -n 1000 -p 1e-9 f.seen
    keys=()
    for i in $(seq 50); do
        keys+=(-k "$(printf '\n\n%s' "$i")")
    done
    run -2 --separate-stderr bash -c 'seen dedup -0 f.seen "$@" >/dev/full' - "${keys[@]}"
    [ "${stderr_lines[1]}" = "seen: warning: 50 records added to 'f.seen' were not printed" ]
    # A part of them fits into a pipe that nobody reads on.
    quiet seen create --force --empty -n 1000 -p 1e-9 f.seen
    keys=()
    long=$(head -c 20000 /dev/zero | tr '\0' '\n'; echo x)
    for i in $(seq 10); do
        keys+=(-k "$long$i")
    done
    mkfifo pipe
    seen dedup -0 f.seen "${keys[@]}" >pipe 2>said &
    pid=$!
    exec 7<pipe
    read -r -n 1 _ <&7
    exec 7<&-
    status=0
    wait $pid || status=$?
    [ $status = 141 ]
    [[ $(cat said) =~ ^"seen: warning: standard output was closed: "([0-9]+)" records added to 'f.seen' were not printed"$ ]]
    [ "${BASH_REMATCH[1]}" -ge 5 ]
    [ "${BASH_REMATCH[1]}" -le 10 ]
}

@test "-q says by the exit status whether a key was new" {
    run -0 --separate-stderr seen dedup -q --create f -k a
    [[ -z $output && -z $stderr ]]
    run -1 --separate-stderr seen dedup -q f -k a
    [[ -z $output && -z $stderr ]]
    run -0 seen dedup -q f -k a -k b
    # All records are read and added, whatever came first; -v turns the question around.
    seq 100000 >keys
    run -0 seen dedup -qc f keys
    [ -z "$output" ]
    [ "$(seen query -c f keys)" = 100000 ]
    run -1 seen dedup -q f keys
    run -0 seen dedup -qv f keys
    run -1 seen dedup -qv f -k new
    run -1 seen dedup -q f /dev/null
    run -2 seen dedup -q f none
    run -2 seen dedup -q none -k a
}

@test "-q: of many that ask with a new key, one is told that it is new" {
    seen dedup --create f </dev/null
    for i in 1 2 3 4 5 6 7 8; do
        (for key in 1 2 3 4 5; do
            if seen dedup -q f -k $key; then echo $key; fi
        done) >told.$i &
    done
    finish
    alike <(sort told.*) <(seq 5)
}

@test "the recipe for one key at a time" {
    export alert=fire
    # shellcheck disable=SC2016 # for the script
    printf '#!/bin/sh\necho sent "$1"\n' >send
    chmod +x send
    PATH=$PWD:$PATH
    [ "$(PAGE=seen-dedup.1 recipe EXAMPLES 1)" = 'sent fire' ]
    [ -z "$(PAGE=seen-dedup.1 recipe EXAMPLES 1)" ]
    echo damaged >sent.seen
    [ "$(PAGE=seen-dedup.1 recipe EXAMPLES 1 2>/dev/null)" = 'sent fire' ]
}

@test "the totals are right where a limit ends the run" {
    seen create -p 0.001 --fixed --empty -n 1000 f.seen
    for command in dedup add; do
        seq 100000 >input
        run -2 --separate-stderr seen $command --verbose --max-fpr 0.0015 f.seen input
        [[ ${stderr_lines[0]} =~ ^'seen: input:'([0-9]+)': ' ]]
        before=$((BASH_REMATCH[1] - 1))
        grep -q "^seen: note: $before records, " <<<"$stderr"
        [ "$before" -gt 900 ]
        seen create -p 0.001 --force --fixed --empty -n 1000 f.seen
    done
}

@test "a filter that another process makes meanwhile must fit those of --also" {
    need_strace
    seq 10 >keys
    seen create -n 1000 other.seen keys
    # It stops when it has opened the other filter, before it makes its own.
    strace -f -o trace -P other.seen -e trace=?open,openat -e inject=?open,openat:signal=STOP:when=1 \
        seen dedup --create --also other.seen f.seen keys >out 2>err &
    local maker=$! status=0
    await $maker grep -qs 'stopped by SIGSTOP' trace
    quiet seen create --empty -n 1000 -i f.seen
    cp f.seen before.seen
    kill -CONT "$(pgrep -P $maker)"
    wait $maker || status=$?
    [ $status = 2 ]
    [ "$(grep -v '^strace: ' err)" = "seen: 'f.seen' and 'other.seen' cannot be queried together: they differ in \
--ignore-case (of 'f.seen')" ]
    [ ! -s out ]
    cmp before.seen f.seen
}
