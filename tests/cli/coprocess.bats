#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# query --annotate as a coprocess: it answers every question, and takes up filters that are replaced.
# tags: threads

load ../lib/helpers

# start_asked OPTION...: the coprocess `asked`; its messages are in the file `said`.
start_asked()
{
    # shellcheck disable=SC2034 # for ask
    coproc asked { exec timeout "$PATIENCE" seen query --annotate "$@" 2>said; }
}

# ask KEY: sets answer to the sign.
ask()
{
    echo "$1" >&"${asked[1]}" || return
    IFS= read -r -u "${asked[0]}" answer || return
    [ "${answer#??}" = "$1" ] || return
    answer=${answer%%$'\t'*}
}

# answers KEY SIGN
answers()
{
    ask "$1" || return
    equal "$answer" "$2"
}

# finish_asked: closes its input and sets `status`.
finish_asked()
{
    local pid=$asked_PID
    eval "exec ${asked[1]}>&-"
    status=0
    wait "$pid" || status=$?
}

# memory_after OPTION... FILTER: by how many KiB a coprocess grows that is asked a line of 32 MiB, and
# then short ones.
memory_after()
{
    python3 - "$@" <<'PYTHON'
import subprocess, sys
p = subprocess.Popen(["seen", "query", "--annotate"] + sys.argv[1:], stdin=subprocess.PIPE,
                     stdout=subprocess.PIPE)
def ask(key):
    p.stdin.write(key + b"\n")
    p.stdin.flush()
    assert p.stdout.readline()[2:] == key + b"\n"
def anonymous():
    with open("/proc/%d/smaps_rollup" % p.pid) as rollup:
        return next(int(line.split()[1]) for line in rollup if line.startswith("Anonymous"))
ask(b"1")
before = anonymous()
ask(b"x" * (32 << 20))
for i in range(50): # each thread's buffers
    ask(b"1")
print(anonymous() - before)
PYTHON
}

# held_after N OPTION... FILTER LIST: how many descriptors and mappings of FILTER and LIST a coprocess has, after one and
# after N more replacements of both by files with another key.
held_after()
{
    python3 - "$@" <<'PYTHON'
import os, subprocess, sys
n, options, (filter, keys) = int(sys.argv[1]), sys.argv[2:-2], sys.argv[-2:]
p = subprocess.Popen(["seen", "query", "--annotate", "--confirm", keys, filter] + options,
                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def held():
    with open("/proc/%d/maps" % p.pid) as maps:
        mapped = [line for line in maps if filter in line or keys in line]
    return len(os.listdir("/proc/%d/fd" % p.pid)), len(mapped)
def replace(key):
    with open("next", "w") as other:
        other.write(key + "\n")
    os.rename("next", keys)
    subprocess.run(["seen", "create", "--force", "-n", "10", filter, keys], check=True)
    p.stdin.write(b"%s\n" % key.encode())
    p.stdin.flush()
    assert p.stdout.readline() == b"+\t%s\n" % key.encode()
replace("first")
before = held()
for i in range(n):
    replace("key %d" % i)
print(before == held() and min(before) > 0)
PYTHON
}

@test "the files that were replaced are closed, the list of --confirm, too" {
    seen create -n 10 held.seen -k 0
    echo 0 >listed
    for threads in 1 2; do
        equal "$(held_after 6 -j$threads held.seen listed)" True
    done
}

@test "a filter that grows is mapped once, by what adds and by what asks" {
    seen create --grow -n 1000 grows.seen -k 0
    run -0 python3 - <<'PYTHON'
import subprocess
def start(command):
    return subprocess.Popen(["seen", command, "--annotate", "grows.seen"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def ask(p, keys):
    p.stdin.write("".join(key + "\n" for key in keys).encode())
    p.stdin.flush()
    return [p.stdout.readline()[:1] for key in keys]
def mapped(p):
    with open("/proc/%d/maps" % p.pid) as maps:
        return sum("grows.seen" in line and int(line.split()[2], 16) == 0 for line in maps) # the beginnings
adds, asks = start("dedup"), start("query")
for i in range(4):
    ask(adds, ["key %d" % (10 ** i * 9 + j) for j in range(10 ** i * 9)])
    print(ask(asks, ["key %d" % (10 ** i * 9)]), mapped(adds), mapped(asks))
PYTHON
    equal "$output" "$(yes "[b'+'] 1 1" | head -n 4)"
    [ "$(seen stats --json grows.seen | jq ".layers | length")" -gt 2 ]
}

@test "the memory of a very long line is given back" {
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer keeps memory that was freed'
    seen create --trim -n 10 long.seen -k 1
    for threads in 1 2; do
        [ "$(memory_after -j$threads long.seen)" -lt 4096 ]
    done
}

@test "a question without a key is answered, too" {
    printf '%s\n' 00 11 | seen create -x f.seen
    start_asked --skip-bad f.seen
    for key in 00:+ zz:? 22:- 1:? 11:+; do
        ask "${key%:*}"
        [ "$answer" = "${key#*:}" ]
    done
    finish_asked
    [ "$status" = 0 ]
    [ "$(cat said)" = 'seen: note: 2 of 5 records had no key and were skipped' ]
}

@test "a filter that is replaced answers at once, whatever its size and kind" {
    seen create f.seen -k one
    start_asked f.seen
    answers one +
    answers two -
    seq 100000 | seen create --force --compact f.seen - <(echo two)
    answers two +
    answers one -
    seen create --generations 3 -n 100 --force f.seen -k three
    answers three +
    seen add f.seen -k four
    answers four +
    answers two -
    [ ! -s said ]
    # What a filter is warned of when it is opened, it is warned of then.
    cp f.seen next
    poke next $((4096 + 100)) 55aa
    mv next f.seen
    answers four +
    finish_asked
    [ $status = 0 ]
    equal "$(cat said)" "seen: warning: 'f.seen': one of its two headers is damaged; 'seen verify' says more"
}

@test "and so does one of hexadecimal keys of another length" {
    seen create -x f.seen -k aabb
    start_asked --skip-bad f.seen
    answers aabb +
    answers aabbcc '?'
    seen create -x --force f.seen -k aabbcc
    answers aabbcc +
    answers aabb '?'
    finish_asked
    [ "$status" = 0 ]
}

@test "so do those of --also, and those behind symbolic links" {
    seen create a.seen -k one
    seen create --like a.seen b.seen -k two
    seen create --like a.seen c.seen -k three
    ln -s b.seen link
    start_asked --also link a.seen
    answers one +
    answers two +
    answers three -
    ln -sf c.seen link
    answers three +
    answers one +
    answers two -
    finish_asked
    [[ $status = 0 && ! -s said ]]
}

@test "one that cannot take its place ends the run; without a file, the old one answers on" {
    for new in none trimmed; do
        rm -f f.seen
        seen create f.seen -k one
        seen create --force --trim trimmed -k two
        echo no filter >none
        start_piped seen query --annotate f.seen
        gives one $'+\tone'
        mv f.seen old
        gives one $'+\tone'
        mv $new f.seen
        echo two >&7
        ends_with 2
        if [ $new = none ]; then
            [[ $(cat said) == "seen: 'f.seen' is not a seen filter"* ]]
        else
            equal "seen: 'f.seen' was replaced by a filter that differs in --trim" "$(cat said)"
        fi
    done
}

@test "counts are asked only of filters that have them, also of one that was replaced" {
    seen create --counted -n 1000 f.seen -k one
    seen create new -k one
    start_piped seen query --annotate --show-counts f.seen
    gives one $'+\t1\tone'
    mv new f.seen
    echo one >&7
    ends_with 2
    equal "seen: 'f.seen' does not count its keys: 'seen create --counted' makes a filter that does" "$(cat said)"
}

@test "a secret that was read is kept if its file changes" {
    [[ $(seen --version) != *'secrets: not available'* ]] || skip 'built without libsodium'
    seen create --secret s --new-secret -n 100 -p 1e-6 f.seen -k old
    seen create --secret s -n 100 -p 1e-6 g.seen -k new
    start_asked --secret s f.seen
    answers old +
    answers new -
    seen create --secret t --new-secret -n 100 h.seen -k old
    mv t s
    answers old +
    mv g.seen f.seen
    answers new +
    answers old -
    finish_asked
    [ "$status" = 0 ]
}

@test "without --annotate the filter that was opened answers to the end" {
    seen create f.seen -k one
    mkfifo questions
    timeout "$PATIENCE" seen query -j 1 f.seen questions >answers &
    local process=$!
    exec 7>questions
    echo one >&7
    await $process test -s answers
    # One with --annotate has seen the new one by now.
    start_asked f.seen
    answers two -
    seen create --force f.seen -k two
    answers two +
    finish_asked
    echo two >&7
    echo one >&7
    exec 7>&-
    wait $process
    [ "$(cat answers)" = $'one\none' ]
}

# It prints 0 for known, 1 for not known, 2 for no answer.
@test "the recipe for bash" {
    recipe_script 'A program that keeps asking' 1
    # The last key is asked when the coprocess is gone.
    seen create -p 1e-9 known.seen -k alice -k 'b o b' -k ''
    want=$'alice 0\nb o b 0\neve 1\n 0\n-n 1'
    [ "$(printf '%s\n' alice 'b o b' eve '' -n | bash script)" = "$want" ]
    echo damage >known.seen
    [ "$(printf '%s\n' alice eve | bash script 2>said)" = $'alice 2\neve 2' ]
    rm known.seen
    printf '%s\n' aa | seen create -x known.seen
    [ "$(printf '%s\n' aa xy AA bb | bash script)" = $'aa 0\nxy 2\nAA 0\nbb 1' ]
}

# ask_all SIGN KEY...
ask_all()
{
    local sign=$1 key
    shift
    for key; do
        ask "$key" && [ "$answer" = "$sign" ] || return 1
    done
}

# start_piped COMMAND...: it reads what is written to 7, and its output is read from 8; sets pid. Unlike
# a coprocess, it may end before it is waited for.
start_piped()
{
    rm -f to from
    mkfifo to from
    "$@" <to >from 2>said &
    pid=$!
    exec 7>to 8<from
}

# gives LINE ANSWER: to the line, this is the answer.
gives()
{
    echo "$1" >&7
    IFS= read -r -u 8 answer
    [ "$answer" = "$2" ] || { echo "$1: $answer"; return 1; }
}

# ends_with STATUS: without an answer.
ends_with()
{
    if IFS= read -r -u 8 answer; then
        echo "an answer: $answer"
        return 1
    fi
    exec 7>&- 8<&-
    status=0
    wait "$pid" || status=$?
    [ "$status" = "$1" ]
}

# What cp, scp, rsync --inplace and curl -o do: the file keeps its inode.
@test "a filter that is overwritten in place gives no answer, whatever its kind and size" {
    seq 1 40000 >old
    seq 20001 120000 >new
    for kind in '' --compact --counted --reproducible; do
        for size in small large; do
            # shellcheck disable=SC2086
            seen create $kind --force old.seen old
            # shellcheck disable=SC2086
            { [ $size = small ] && seq 20001 20100 || cat new; } | seen create $kind --force new.seen
            cp old.seen live.seen
            start_piped seen query --annotate live.seen
            for key in 1 20001 20050 20100 40000; do gives $key $'+\t'$key; done
            cp new.seen live.seen
            echo 20001 >&7
            ends_with 2
            equal "seen: 'live.seen' was overwritten while it was in use" "$(cat said)"
            seen query -q live.seen -k 20001
        done
    done
}

@test "half a file, a truncated one and none give no wrong answer" {
    seq 1 60000 | seen create old.seen
    seq 30001 200000 | seen create new.seen
    half=$(($(size new.seen) / 2))
    for damage in "head -c $half new.seen" 'head -c 5000 new.seen' 'true'; do
        cp old.seen live.seen
        start_piped seen query --annotate live.seen
        gives 30001 $'+\t30001'
        gives 60000 $'+\t60000'
        $damage >live.seen
        echo 30001 >&7
        ends_with 2
        equal "seen: 'live.seen' was overwritten while it was in use" "$(cat said)"
    done
    cp old.seen live.seen
    start_asked live.seen
    ask_all + 30001 60000
    rm live.seen
    ask_all + 30001 60000
    ask_all - 0
    finish_asked
    [[ $status = 0 && ! -s said ]]
}

@test "a page of which the end was cut off is not taken for one without keys" {
    seq 1 60000 | seen create live.seen
    start_piped seen query --annotate live.seen
    for key in $(seq 1 200 60000); do
        gives "$key" $'+\t'"$key"
    done
    truncate -s $(($(size live.seen) - 2000)) live.seen
    echo 1 >&7
    ends_with 2
    equal "seen: 'live.seen' was overwritten while it was in use" "$(cat said)"
}

@test "a filter that grew, and of which the new layer is cut off, is told from one that grew" {
    local length wanted
    for wanted in 'was overwritten while it was in use' 'is truncated: '; do
        seq 100 | seen create --force --grow -n 100 live.seen
        length=$(size live.seen)
        start_piped seen query --annotate live.seen
        gives 1 $'+\t1'
        quiet seen add live.seen <(seq 101 1000)
        gives 1000 $'+\t1000'
        # Of what it had then, nothing is lacking.
        [[ $wanted != *truncated* ]] || length=$(size live.seen)
        seq 1001 9000 | quiet seen add live.seen
        truncate -s "$length" live.seen
        echo 9000 >&7
        ends_with 2
        [[ $(cat said) == "seen: 'live.seen' $wanted"* ]]
    done
}

@test "a count comes from one file: if it is overwritten meanwhile, there is none" {
    seq 1 40000 | seen create live.seen
    seq 1 50000 | seen create new.seen
    start_piped seen query -c live.seen
    await $pid grep -q '/live.seen$' /proc/$pid/maps
    cp new.seen live.seen
    seq 1 40000 >&7 2>seq.err || true
    exec 7>&-
    ends_with 2
    [ "$(cat said)" = "seen: 'live.seen' was overwritten while it was in use" ]
}

# two: files of --reproducible with the same header and time, as a reproducible build makes them
two()
{
    seen create --reproducible --force old.seen <(seq 1 40000)
    seen create --reproducible --force new.seen <(seq 40001 80000)
    cmp -n 256 old.seen new.seen
    touch -d @1000000000 old.seen new.seen
    rm -f live.seen
    cp -p old.seen live.seen
}

@test "files that differ in neither header nor time of modification are told apart" {
    two
    start_piped seen query -c live.seen
    await $pid grep -q '/live.seen$' /proc/$pid/maps
    cp -p new.seen live.seen
    seq 1 80000 >&7 2>seq.err || true
    exec 7>&-
    ends_with 2
    [ "$(cat said)" = "seen: 'live.seen' was overwritten while it was in use" ]
}

# Its contents are what they were; what was read of it meanwhile counts for nothing.
@test "a file that is overwritten by another, and by itself again, is no other file" {
    seen create new.seen <(seq 30001 80000)
    seen create old.seen <(seq 1 40000)
    cp -p old.seen live.seen
    start_piped seen query --annotate live.seen
    for key in $(seq 1 100 40000); do gives "$key" $'+\t'"$key"; done
    cp -p new.seen live.seen
    cp -p old.seen live.seen
    for key in $(seq 1 100 40000); do gives "$key" $'+\t'"$key"; done
    truncate -s 0 live.seen
    cat old.seen >live.seen
    for key in $(seq 1 100 40000); do gives "$key" $'+\t'"$key"; done
    exec 7>&-
    wait $pid
    [ ! -s said ]
    # With a damaged page it is another.
    start_piped seen query --annotate live.seen
    gives 1 $'+\t1'
    cp -p old.seen bad.seen
    head -c $(($(size bad.seen) - 3 * 4096)) /dev/zero |
        dd of=bad.seen bs=4096 seek=3 conv=notrunc status=none
    cp -p bad.seen live.seen
    echo 1 >&7
    ends_with 2
    [[ $(cat said) == "seen: 'live.seen' is damaged: page "* ]]
}

@test "times, links and names that change end no query, dedup or count" {
    seq 1 100000 >keys
    for kind in '--fixed -n 100k' --compact --counted '--generations 3 -n 300k'; do
        # shellcheck disable=SC2086
        seen create $kind --force live.seen keys
        for change in 'touch live.seen' "chown -R $(id -u) ." 'chmod -R u+rw .' 'touch -d @1000000000 live.seen' \
            'ln live.seen link; rm link' 'mv live.seen moved; mv moved live.seen'; do
            start_piped seen query --annotate live.seen
            for key in 5 50 500 5000 50000; do
                gives $key $'+\t'$key
                eval "$change"
                gives $((key + 1)) $'+\t'$((key + 1))
                eval "$change"
                gives x$key $'-\tx'$key
            done
            exec 7>&-
            wait $pid
            [ ! -s said ]
        done
        rm -f own.seen
        seen create --empty --grow own.seen
        start_piped seen dedup -j1 --also live.seen own.seen
        gives x x
        touch live.seen
        echo 7 >&7
        gives y y
        exec 7>&-
        wait $pid
        [ ! -s said ]
    done
}

@test "a link, a new name, mode or owner, or another file of its name, is no change of a file" {
    local owners=('chown 1234 live.seen' 'chgrp 1234 live.seen')
    [ "$(id -u)" = 0 ] || owners=()
    for change in 'chmod a-w live.seen' 'ln live.seen link' 'mv live.seen moved' 'mv new.seen live.seen' \
        'rm live.seen' "${owners[@]}"; do
        two
        start_piped seen query -c live.seen
        await $pid grep -q '/live.seen$' /proc/$pid/maps
        $change
        seq 1 40000 >&7
        exec 7>&-
        IFS= read -r -u 8 answer
        exec 8<&-
        wait $pid
        [[ $answer = 40000 && ! -s said ]] || { echo "$change: $answer $(cat said)"; return 1; }
        rm -f link moved
    done
}

@test "dedup prints no known key as new if the filter of --also is overwritten" {
    seq 1 60000 | seen create old.seen
    seq 1 90000 | seen create new.seen
    cp old.seen live.seen
    seen create --empty --grow own.seen
    start_piped seen dedup -j1 --also live.seen own.seen
    gives unknown unknown
    cp new.seen live.seen
    seq 1 60000 >&7 2>seq.err || true
    ends_with 2
    [ "$(cat said)" = "seen: 'live.seen' was overwritten while it was in use" ]
}

@test "a writer whose file is overwritten says so" {
    seq 1 40000 | seen create live.seen
    cp live.seen backup.seen
    seq 1 50000 | seen create new.seen
    for other in new.seen backup.seen; do
        cp backup.seen live.seen
        seen add live.seen -k more
        start_piped seen dedup --sync-every 1 live.seen
        gives first first
        cp $other live.seen
        echo second >&7
        ends_with 2
        [ "$(cat said)" = "seen: 'live.seen' was overwritten while it was in use" ]
    done
}

# stopped COMMAND...: while it runs, live.seen is overwritten at the moment when room for the new file
# is reserved: after the input was checked.
stopped()
{
    strace -f -o trace -e trace=fallocate -e inject=fallocate:signal=STOP:when=1 "$@" 2>said &
    pid=$!
    await $pid grep -qs 'stopped by SIGSTOP' trace
    cp new.seen live.seen
    kill -CONT "$(pgrep -P $pid)"
    status=0
    wait $pid || status=$?
}

@test "nothing is made of a filter that is overwritten while it is read" {
    need_strace
    for kind in --grow --compact; do
        for command in 'merge -o out' 'shrink -p 0.3 -o out'; do
            rm -f trace
            seq 1 40000 | seen create $kind --force live.seen
            seq 1 90000 | seen create $kind --force new.seen
            # shellcheck disable=SC2086
            stopped "$SEEN" $command live.seen
            [[ $status = 2 && ! -e out && -s said ]]
        done
    done
}
