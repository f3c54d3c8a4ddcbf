# SPDX-License-Identifier: MIT
# Shared by the bats files (`load ../lib/helpers`). Each test runs in an empty directory of its own.
# tests/run sets SEEN and SOURCE; by hand, the build in build/ is tested.

bats_require_minimum_version 1.5.0
# What fails on the left of a pipe fails the test.
set -o pipefail
SOURCE=${SOURCE:-$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}
SEEN=${SEEN:-$SOURCE/build/seen}
PATH=${SEEN%/*}:$PATH
# Seconds, for what would hang for ever else: far more than anything takes.
PATIENCE=300
export SOURCE SEEN PATH PATIENCE

setup()
{
    cd "$BATS_TEST_TMPDIR" || return
}

# Before each command bats notes where it is, which takes longer than most commands: it is noted where one fails.
bats_debug_trap() { trap - DEBUG; }
bats_error_trap()
{
    bats_check_status_from_trap
    # It is called in bats's own code where the test itself returns.
    [ "${FUNCNAME[1]-}" = bats_perform_test ] || bats_capture_stack_trace
    # shellcheck disable=SC2034 # for bats
    BATS_DEBUG_LAST_STACK_TRACE_IS_VALID=1
}

# run [-STATUS | !] [--separate-stderr] COMMAND...: as bats has it, in a fifth of the time; and a command that is not
# there fails the test, if no status is named. The command sees the variables here, so their names are long.
run()
{
    local run_wants='' run_apart=''
    while [[ ${1-} == [-!]* ]]; do
        case $1 in
            --separate-stderr) run_apart=${BATS_TEST_TMPDIR:-$BATS_FILE_TMPDIR}.stderr-$BASHPID ;;
            -[0-9]*) run_wants=${1#-} ;;
            !) run_wants=other ;;
            *) echo "run: no such option: $1"; return 1 ;;
        esac
        shift
    done
    local -
    set +eET
    status=0
    if [ -n "$run_apart" ]; then
        output=$("$@" 2>"$run_apart") || status=$?
        read -d '' -r stderr <"$run_apart"
        run_lines stderr_lines "$stderr"
    else
        output=$("$@" 2>&1) || status=$?
    fi
    run_lines lines "$output"
    case $run_wants in
        '') [ "$status" != 127 ] ;;
        other) [ "$status" != 0 ] ;;
        *) [ "$status" = "$run_wants" ] ;;
    esac && return
    # shellcheck disable=SC2034 # for bats
    BATS_ERROR_SUFFIX=", exit status $status"
    return 1
}

# run_lines ARRAY TEXT: its lines, without those that are empty.
run_lines()
{
    local - IFS=$'\n'
    local -n run_array=$1
    set -f
    # shellcheck disable=SC2034,SC2206 # they are words of this IFS
    run_array=($2)
}

# need_strace: does it work here?
need_strace()
{
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer does not go with strace'
    strace -qq -o /dev/null true 2>/dev/null || skip 'strace is not installed, or may not trace'
}

# need_preload: can calls be made to fail here?
need_preload()
{
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer has its own library'
    [ -e "${SEEN%/*}/preload.so" ] || skip 'make check builds preload.so'
}

# failing CALL:N:HOW COMMAND...: runs it while that call fails, as tests/preload/calls.c says.
failing() { LD_PRELOAD=${SEEN%/*}/preload.so INJECT=$1 "${@:2}"; }

# refuses MESSAGE COMMAND...: exit status 2, nothing on stdout, this as the first line on stderr.
refuses()
{
    local message=$1
    shift
    run -2 --separate-stderr "$@"
    # shellcheck disable=SC2154 # set by run
    if [[ -n $output || ${stderr_lines[0]} != "$message" ]]; then
        echo "command: $*"
        echo "stdout:  $output"
        echo "stderr:  $stderr"
        echo "wanted:  $message"
        return 1
    fi
}

# rejects PATTERN COMMAND...: exit status 2, nothing on stdout, no file "out", and one line like this on
# stderr, behind which a usage error has one about --help.
rejects()
{
    local pattern=$1
    shift
    run -2 --separate-stderr "$@"
    # shellcheck disable=SC2053 # a pattern
    if [[ -n $output || -e out || ${stderr_lines[0]} != $pattern ||
        ${stderr_lines[*]:1} != ?("Try 'seen "*) ]]; then
        printf '%s\n' "command: $*" "stdout:  $output" "stderr:  $stderr" "wanted:  $pattern"
        return 1
    fi
}

# quiet COMMAND...: exit status 0, and not a word on stdout or stderr.
quiet()
{
    run -0 --separate-stderr "$@"
    [[ -z $output && -z $stderr ]] || { echo "$*: $output$stderr"; return 1; }
}

# says PATTERN COMMAND...: exit status 0, and a line on stdout like this extended expression.
says()
{
    local pattern=$1 line
    shift
    run -0 --separate-stderr "$@"
    for line in "${lines[@]}"; do
        [[ ! $line =~ $pattern ]] || return 0
    done
    printf '%s\n' "command: $*" "stdout:  $output" "wanted:  $pattern"
    return 1
}

# equal A B: they are, and there is something to compare: what fails prints nothing.
equal()
{
    [[ -n $1 && $1 == "$2" ]] || { printf '%s\n' "is:     $1" "wanted: $2"; return 1; }
}

# alike FILE FILE: as cmp, for what commands print: both may have failed.
alike()
{
    cat -- "$1" >"$BATS_TEST_TMPDIR.first"
    [ -s "$BATS_TEST_TMPDIR.first" ] || { echo 'nothing to compare'; return 1; }
    cmp "$BATS_TEST_TMPDIR.first" "$2"
}

# finish: waits for all processes in the background; fails if one of them met trouble.
finish()
{
    local process status
    for process in $(jobs -p); do
        status=0
        wait "$process" || status=$?
        [ $status -le 1 ] || { echo "a process in the background: exit status $status"; return 1; }
    done
}

# prints_nothing COMMAND...: exit status 0, and not a word on stdout.
prints_nothing()
{
    run -0 --separate-stderr "$@"
    [ -z "$output" ]
}

# only NAME...: there is nothing else in this directory, hidden files included.
only()
{
    local names
    names=$(find . -mindepth 1 -printf '%P\n' | sort)
    [[ $names == "$(printf '%s\n' "$@" | sort)" ]] || { echo "here: $names"; return 1; }
}

# poke FILE OFFSET HEX: overwrites bytes of a file in place.
poke()
{
    local i
    for ((i = 0; i < ${#3}; i += 2)); do
        printf '%b' "\\x${3:i:2}"
    done | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# peek FILE OFFSET LENGTH: bytes of a file in hexadecimal.
peek()
{
    od -An -v -tx1 -j "$2" -N "$3" "$1" | tr -d ' \n'
}

# shuffled FILE [SEED]: its lines in another order, the same in each run.
shuffled() { shuf --random-source=<(seq "${2:-1}" 9999999) "$1"; }

# has_lines FILE N: so many or more?
has_lines() { [ -e "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]; }

size() { stat -c %s -- "$1"; }

digest() { sha256sum <"$1" | cut -d ' ' -f 1; }

# fact FILTER NAME: what `seen stats --json` says of it: a number, true, false, null, or a text without quotes in it.
# It stands for `jq -r .NAME`, which takes ten times as long as `seen`.
fact()
{
    local json pattern="\"$2\":(\"([^\"]*)\"|[^,]*),"
    json=$(seen stats --json "$1") || return
    [[ ${json%%,\"layers\":*}, =~ $pattern ]] || { echo "$1 has no $2" && return 1; }
    echo "${BASH_REMATCH[2]:-${BASH_REMATCH[1]}}"
}

# state FILE: "clean", "writing" or "dirty".
state() { fact "$1" state; }

# data FILE: the bits of its one layer, without headers and checksums, which are bound to file ids.
data()
{
    local bytes
    bytes=$(seen stats --json "$1" | jq '.layers | if length == 1 then .[0].bytes else error end')
    tail -c "$bytes" "$1"
}

# reader verify|query FILE: what the reader that was written from seen(5) alone says.
reader() { PYTHONDONTWRITEBYTECODE=1 python3 "$SOURCE/tests/lib/reader.py" "$@"; }

# forge FILE FIELD=VALUE...: changes a filter, and makes its checksums right.
forge() { PYTHONDONTWRITEBYTECODE=1 python3 "$SOURCE/tests/lib/forge.py" "$@"; }

# encoded FILTER NUMBER [OPTION...]: makes a filter whose keys have that encoding (seen(5)).
encoded()
{
    local filter=$1 number=$2
    shift 2
    seen create --force --empty -n 1000 -p 1e-6 "$@" "$filter"
    forge "$filter" "preparation=u32(forged.data, 72) | $number << 8"
}

# eventually COMMAND...: waits until it succeeds; fails if it does not.
eventually() { await $$ "$@"; }

# await PROCESS COMMAND...: the same; fails also if the process ends before.
await()
{
    local process=$1 end=$((SECONDS + PATIENCE))
    shift
    until "$@"; do
        # What has ended meanwhile may have done it.
        kill -0 "$process" || { "$@"; return; }
        [ "$SECONDS" -lt "$end" ] || { echo "in vain: $*"; return 1; }
        sleep 0.01
    done
}

# until_present FILTER KEY PROCESS: until that process has added it.
until_present() { await "$3" seen query -q "$1" -k "$2" 2>/dev/null; }

has_open() { [ -n "$(find "/proc/$1/fd" -lname "$(realpath "$2")" 2>/dev/null)" ]; }

# until_open FILE PROCESS: until that process has it open.
until_open() { await "$2" has_open "$2" "$1"; }

# hold_lock FILE: a process that holds its turn lock, which is a byte at 2^62 (see session.c), until
# fifo `release` is written to. Returns when it has it.
hold_lock()
{
    rm -f release locked
    mkfifo release locked
    timeout "$PATIENCE" python3 - "$1" 3>&- <<'END' &
import fcntl, os, struct, sys
f = os.open(sys.argv[1], os.O_RDWR)
lock = struct.pack('hhqqi4x', fcntl.F_WRLCK, os.SEEK_SET, 1 << 62, 1, 0)
fcntl.fcntl(f, 37, lock)  # F_OFD_SETLK
open('locked', 'w').close()
open('release').read()
END
    # shellcheck disable=SC2034 # for the caller, which waits for it
    holder=$!
    cat locked
}

# until_waiting FILE PROCESS: until that process waits for a lock on the file.
until_waiting()
{
    local inode
    inode=$(stat -c %i "$1")
    await "$2" grep -q -- "-> .*:$inode " /proc/locks
}

PAGE=seen.7

# recipe_script TITLE N [SED]: makes `script` of example number N of that section of $PAGE, edited by
# a sed script.
recipe_script()
{
    awk -v title="$1" -v n="$2" '
        /^\.S[SH]/ { here = substr($0, 5) == title }
        /^\.EE/ { inside = 0 }
        inside { print }
        here && /^\.EX/ { inside = ++count == n }' "$SOURCE/man/$PAGE" |
        sed -E "s/\\\\\(aq/'/g; s/\\\\-/-/g; s/\\\\e/\\\\/g" >script
    [ -s script ] && sed -E -i "${3-}" script
}

# recipe TITLE N [SED]: runs it.
recipe()
{
    recipe_script "$@" && bash script
}
