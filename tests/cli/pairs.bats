# SPDX-License-Identifier: MIT
# hold_lock sets holder.
# shellcheck disable=SC2154
load ../lib/helpers
# tags: repeating

# Two commands at once on one file.

# start_stopped CALL FILE COMMAND...: starts it, and returns when it has stopped behind its first
# system call of that name on the file, or on any if FILE is -. go_on lets it go on, and waits for
# its end.
start_stopped()
{
    local call=$1 file=$2
    shift 2
    local only=(-P "$PWD/$file")
    [ "$file" != - ] || only=()
    rm -f trace process
    # shellcheck disable=SC2016 # for the inner shell
    strace -qq -o trace "${only[@]}" -e "trace=$call" -e "inject=$call:signal=STOP:when=1" \
        sh -c 'echo $$ >process; exec "$@"' - "$@" 3>&- &
    tracer=$!
    await $tracer grep -qs 'stopped by SIGSTOP' trace
}

go_on()
{
    kill -CONT "$(cat process)"
    wait $tracer
}

can_stop()
{
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer does not go with strace'
    strace -qq -o /dev/null true 2>/dev/null || skip 'strace cannot be used here'
}

# quiet_verify FILE: it is clean, and nothing is said but that.
# shellcheck disable=SC2154 # set by run
quiet_verify() { run -0 --separate-stderr seen verify "$1"; [[ $output == "$1: ok" && -z $stderr ]]; }

# unharmed FILE COMMAND: the shell command fails because FILE is its output, too, and changes nothing.
unharmed()
{
    local before
    before=$(digest "$1")
    run -2 --separate-stderr timeout "$PATIENCE" bash -c "$2"
    [[ -z $output && $stderr == "seen: '$1' is also standard output" ]] ||
        { echo "$2: $output$stderr"; return 1; }
    [ "$(digest "$1")" = "$before" ] || { echo "$2 changed $1"; return 1; }
}

@test "a file is not read for a command that replaces it while somebody adds to it" {
    seq 1000 >old
    quiet seen create -n 1M --foldable f old
    quiet seen create --like f g -k g
    quiet seen create --compact c old
    ln f hard
    ln -s f soft
    local command victim
    for command in 'merge --force -o f f g' 'merge --force -o hard g f' 'merge --force -o f g soft' \
        'shrink f' 'shrink --force -o soft f' 'shrink --force -o hard f' \
        'shrink -p 0.1 --force -o c c'; do
        file=f
        [[ $command != *" c" ]] || file=c
        [[ $command != *hard* ]] || { ln -f f hard; file=hard; }
        hold_lock $file
        # shellcheck disable=SC2086 # words
        seen $command 2>err 3>&- &
        victim=$!
        until_waiting $file $victim
        # It waits before it reads: nothing is in the new file, which has no name yet.
        new=$(find "/proc/$victim/fd" -lname '*/#* (deleted)' -o -lname '*.seen-tmp')
        [ "$(stat -L -c %s "$new")" = 0 ] || { echo "$command"; false; }
        echo >release
        wait $victim
        wait "$holder"
        run -0 seen query -c $file old
        [ "$output" = 1000 ]
    done
}

@test "merging into another file locks that only for the rename" {
    quiet seen create -n 1000 f -k f
    quiet seen create --like f g -k g
    quiet seen create --like f out -k out
    can_stop
    start_stopped fallocate - seen merge --force -o out f g
    quiet timeout "$PATIENCE" seen add out -k more
    go_on
    run -0 seen query out -k f -k g
}

@test "a filter that another process makes first is used only as it was made" {
    can_stop
    local status=0
    start_stopped fallocate - seen add --create --trim f -k new 2>err
    quiet seen create f -k old
    go_on || status=$?
    [ $status = 2 ]
    equal "seen: 'f' was made without --trim, which cannot be added later" "$(cat err)"
    run -0 seen query f -k old -k new
    [ "$output" = old ]
}

@test "shrink: keys are counted by the bits when some came while it read" {
    can_stop
    seq 100 >keys
    quiet seen create -n 1M --foldable f -k x
    start_stopped mmap f seen shrink -o small f
    quiet seen add f keys
    go_on
    [ "$(size small)" -lt "$(size f)" ]
    quiet_verify small
    seen stats --json small | jq -e '.sources.keys_added == "estimated" and .n_estimate > 90 and .n_estimate < 111'
    run -0 seen query -c small keys
    [ "$output" = 100 ]
    # And kept when none came.
    quiet seen shrink -o calm f
    seen stats --json calm | jq -e '.keys_added >= 100 and .consistent'
    # More than the smaller layer can take, whose size was chosen before.
    local status=0
    start_stopped fallocate - seen shrink -o late f 2>err
    quiet seen add f <(seq 5000)
    go_on || status=$?
    equal "$status $(cat err)" "2 seen: 'f' was changed while it was read: run this again"
    [ ! -e late ]
}

@test "stats: counters and bits are of one moment" {
    can_stop
    seq 1000 >keys
    quiet seen create -n 10000 f -k x
    start_stopped mmap f seen stats --json f >out 2>err
    quiet seen add f keys
    go_on
    [ ! -s err ] || { cat err; false; }
    jq -e '.state == "clean" and .records == 1001 and .consistent' out
    # In a ring, a generation is emptied meanwhile.
    quiet seen create -p 0.001 --generations 2 -n 1000 r keys
    start_stopped mmap r seen stats --json r >out 2>err
    for _ in 1 2 3; do
        quiet seen rotate r
    done
    quiet seen add r -k y
    go_on
    [ ! -s err ] || { cat err; false; }
    jq -e '.state == "clean" and .n_estimate < 1.5 and .pages_damaged == 0' out
}

@test "standard output must not be a file that is in use" {
    seq 1000 >keys
    quiet seen create f keys
    quiet seen create --like f g -k g
    quiet seen create --compact c keys
    LC_ALL=C sort keys >list
    for options in '' -c -q -v --annotate; do
        unharmed f "seen query $options f keys >>f"
    done
    unharmed f 'seen query g --also f keys >>f'
    unharmed f 'seen dedup f <<<new >>f'
    unharmed f 'seen dedup g --also f <<<new >>f'
    unharmed f 'seen stats f >>f'
    unharmed f 'seen stats --json f >>f'
    unharmed f 'seen verify f >>f'
    # Not even by what is printed before it is read.
    unharmed f 'seen stats --json g f >>f'
    unharmed f 'seen stats --prometheus f >>f'
    unharmed f 'seen verify f g >>f'
    unharmed f 'seen add f -k new >>f'
    unharmed f 'seen create --json --force f keys >>f'
    unharmed f 'seen merge --json --force -o f g >>f'
    unharmed g 'seen merge --json -o h f g >>g'
    unharmed c 'seen shrink --json --force -p 0.1 -o c c >>c'
    unharmed list 'seen query --confirm list f keys >>list'
    [ ! -e h ]
    # By another name.
    ln f hard
    ln -s f soft
    unharmed hard 'seen dedup hard <<<new >>f'
    unharmed soft 'seen dedup soft <<<new >>f'
    # Input, where records are printed from it.
    unharmed keys 'seen query f keys >>keys'
    unharmed keys 'seen dedup g keys >>keys'
    unharmed keys 'seen dedup list keys >>keys'
    unharmed keys 'seen query -v g list keys >>keys'
    run -2 --separate-stderr bash -c 'seen query f <keys >>keys'
    [ "$stderr" = "seen: '(standard input)' is also standard output" ]
    [ "$(wc -l <keys)" = 1000 ]
    # shellcheck disable=SC2094 # that is what is tested
    seen query -c f keys >>keys
    [ "$(tail -n 1 keys)" = 1000 ]
    # Standard error: nothing can be said.
    before=$(digest f)
    for command in 'seen dedup f -k new 2>>f' 'seen dedup f -k new >>f 2>&1' 'seen add f nowhere 2>>f'; do
        run -2 bash -c "$command"
        [ "$(digest f)" = "$before" ]
    done
    # Files that are no files are nobody's.
    quiet bash -c 'seen add f - </dev/null >/dev/null'
}

@test "dedup: FILTER is none of the others" {
    quiet seen create f -k a
    refuses "seen: 'f' is the filter itself: --also is for others" seen dedup f --also f -k b
    ln -s f link
    refuses "seen: 'link' is the filter itself: --also is for others" seen dedup f --also link -k b
    refuses "seen: 'link' is a filter, not a sorted list" seen query f --confirm link -k b
}

@test "a ring that is replaced by another filter while a command waits to rotate it: that one is not touched" {
    local how command pid status
    for command in 'rotate f.seen' 'add --rotate-at-capacity f.seen -k x'; do
        for how in --fixed --grow; do
            seq 100 | quiet seen create "$how" -n 1000 -p 1e-9 new.seen
            cp new.seen before.seen
            seen create --force --generations 2 -n 1000 --empty f.seen
            hold_lock f.seen
            # shellcheck disable=SC2086 # words
            seen $command 2>err 3>&- &
            pid=$!
            until_waiting f.seen $pid
            mv new.seen f.seen
            echo >release
            status=0
            wait $pid || status=$?
            [ $status = 2 ]
            wait "$holder"
            equal "seen: 'f.seen' was replaced while keys were added: run this again" "$(cat err)"
            cmp f.seen before.seen
        done
    done
}

@test "a ring that a merge takes for one that grows is not rotated any more" {
    mkfifo fifo
    seen create --generations 2 -n 1000 ring -k old
    quiet seen create --generations 2 -n 1000 other -k other
    seen add --rotate-at-capacity ring fifo 2>err 3>&- &
    local pid=$! status=0
    exec 7>fifo
    echo new >&7
    until_present ring new $pid
    quiet seen merge --force -o ring ring other
    echo more >&7
    exec 7>&-
    wait $pid || status=$?
    [ $status = 2 ]
    equal "seen: 'ring' has no generations, so it cannot be rotated" "$(cat err)"
    run -0 seen query -c ring -k old -k other -k new
    [ "$output" = 3 ]
    quiet_verify ring
}

@test "a writer that has had no turn goes on with a merged file after another writer has left the old one" {
    can_stop
    quiet seen create f -k old
    quiet seen create g -k g
    mkfifo in
    strace -qq -f -o synced -e trace=fsync,fdatasync,msync seen add f <in &
    local writer=$! before
    exec 7>in
    echo first >&7
    until_present f first $writer
    start_stopped mmap f seen add f -k second 7>&-
    seen merge --force -o f f g 7>&-
    before=$(wc -l <synced)
    exec 7>&-
    wait $writer
    # A crash of the machine may bring the old file back under the name.
    [ "$(wc -l <synced)" -gt "$before" ]
    go_on
    [ "$(seen query -c f -k old -k g -k first -k second)" = 4 ]
    quiet_verify f
    # An old file that has another name is put in order there.
    ln f other
    mkfifo again
    seen add f <again &
    writer=$!
    exec 7>again
    echo third >&7
    until_present f third $writer
    seen merge --force -o f f g 7>&-
    exec 7>&-
    wait $writer
    quiet_verify other
    quiet seen add other -k fourth
}

@test "a writer whose file was not synced, and then merged, says so" {
    local more writer status
    quiet seen create g -k g
    mkfifo in
    for more in '' second; do
        quiet seen create --force f -k old
        seen add f <in 2>err &
        writer=$!
        exec 7>in
        echo first >&7
        until_present f first $writer
        poke f $((2 * 4096 + 32)) 01 # the mark of a failed sync, see session.c
        seen merge --force -o f f g 7>&-
        [ -z "$more" ] || echo $more >&7
        exec 7>&-
        status=0
        wait $writer || status=$?
        [ $status = 2 ]
        [ "$(cat err)" = "seen: 'f' could not be synced" ]
    done
}

@test "waiting for another writer can be interrupted" {
    [ "${SANITIZER-}" != thread ] || skip 'ThreadSanitizer holds signals back from who waits for a lock'
    quiet seen create --generations 2 -n 1000 f -k old
    hold_lock f
    local command signal status
    for command in 'seen dedup f -k new' 'seen add f -k new' 'seen rotate f'; do
        for signal in INT TERM; do
            # shellcheck disable=SC2086 # words
            env --default-signal=INT,TERM $command >out 2>err 3>&- &
            until_waiting f $!
            kill -$signal $!
            status=0
            wait $! || status=$?
            [ $status = $((128 + $(kill -l $signal))) ] || { echo "$command: $status"; false; }
            [[ ! -s out && ! -s err ]]
        done
    done
    echo >release
    wait "$holder"
    run -1 seen query f -k new
    quiet_verify f
}

# In a shell of its own: bats traces every step.
@test "each pair of commands at once on one file" {
    bash "$SOURCE/tests/lib/pairs.bash" pairs
}

@test "each command beside a rotation, and beside growth" {
    bash "$SOURCE/tests/lib/pairs.bash" changes
}
