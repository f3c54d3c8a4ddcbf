# Shared by the bats files (`load helpers`). Each test runs in an empty directory of its own.
# tests/run sets SEEN and SOURCE; by hand, the build in build/ is tested.

bats_require_minimum_version 1.5.0
SOURCE=${SOURCE:-$(cd "$BATS_TEST_DIRNAME/.." && pwd)}
SEEN=${SEEN:-$SOURCE/build/seen}
PATH=$(dirname "$SEEN"):$PATH
export SOURCE SEEN PATH

setup()
{
    cd "$BATS_TEST_TMPDIR" || return
}

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

# quiet COMMAND...: exit status 0, and not a word on stdout or stderr.
quiet()
{
    run -0 --separate-stderr "$@"
    [[ -z $output && -z $stderr ]] || { echo "$*: $output$stderr"; return 1; }
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

size() { stat -c %s -- "$1"; }

digest() { sha256sum <"$1" | cut -d ' ' -f 1; }
