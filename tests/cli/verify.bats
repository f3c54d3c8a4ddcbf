#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# seen verify, and what writers that die leave for it.
# tags: threads

load ../lib/helpers

SUMS=$((3 * 4096)) TOUCHED=$((4 * 4096)) DATA=$((5 * 4096)) # of a filter of a few pages

make_filter()
{
    seq 5000 >keys
    quiet seen create -n "${1:-20000}" -p 0.01 f.seen keys
}

epochs() { echo "$(peek f.seen 32 8)$(peek f.seen 4128 8)"; }
epoch_is_not() { [ "$(epochs)" != "$1" ]; }

# Starts `seen add f.seen` on a pipe, which is descriptor 9, and waits until it has marked the file.
start_writer()
{
    local epoch
    epoch=$(epochs)
    mkfifo pipe 2>/dev/null || true
    seen add f.seen <pipe 2>writer.err &
    writer=$!
    exec 9>pipe
    echo 'key of the writer' >&9
    await $writer epoch_is_not "$epoch"
}

stop_writer() # SIGNAL
{
    kill -"$1" "$writer"
    exec 9>&-
    wait "$writer" || true
}

@test "sound files are said to be ok, each by name" {
    make_filter
    seen create g.seen keys
    run -0 --separate-stderr seen verify f.seen g.seen
    [ "$output" = $'f.seen: ok\ng.seen: ok' ]
    [ -z "$stderr" ]
    seen add f.seen keys
    run -0 seen verify -j 1 f.seen
    [ "$output" = "f.seen: ok" ]
}

@test "one bad file of several makes the status 2" {
    make_filter
    cp f.seen g.seen
    poke f.seen $((DATA + 5000)) ff
    run -2 --separate-stderr seen verify f.seen none g.seen
    [ "$output" = "g.seen: ok" ]
    [ "${#stderr_lines[@]}" = 2 ]
    [[ "${stderr_lines[0]}" == "seen: 'f.seen' is damaged"* ]]
    [ "${stderr_lines[1]}" = "seen: cannot open 'none': No such file or directory" ]
}

@test "without a file, and with one that is not known, it is misuse" {
    run -2 --separate-stderr seen verify
    [[ "${stderr_lines[0]}" == "seen: "*"FILTER"* ]]
    run -2 seen verify --mend f.seen
}

@test "each part of the file is checked, and damage named by offset and meaning" {
    make_filter
    cp f.seen whole.seen
    local last=$(($(size f.seen) - 1)) at meaning
    while read -r at meaning; do
        cp whole.seen f.seen
        poke f.seen "$at" a5
        ! cmp -s whole.seen f.seen || poke f.seen "$at" 5a # it was a5 by chance
        refuses "seen: 'f.seen' is damaged at offset $meaning" seen verify f.seen
    done <<END
100 0: one of the two copies of the header is not valid
4095 0: one of the two copies of the header is not valid
4196 4096: one of the two copies of the header is not valid
8192 8192: the session page of a clean file is not zero
12287 12287: the session page of a clean file is not zero
$SUMS $DATA: page 0 of layer 0 does not match its checksum
$((SUMS + 4)) $((DATA + 4096)): page 1 of layer 0 does not match its checksum
$((TOUCHED - 1)) $((TOUCHED - 1)): padding is not zero
$TOUCHED $TOUCHED: a clean file has pages marked as touched
$((DATA - 1)) $((DATA - 1)): padding is not zero
$DATA $DATA: page 0 of layer 0 does not match its checksum
$last $((last / 4096 * 4096)): page $(((last - DATA) / 4096)) of layer 0 does not match its checksum
END
}

@test "the first of several damages is named, and the others are counted" {
    make_filter
    poke f.seen $((DATA + 4096 * 3)) a5
    poke f.seen $((DATA + 4096 * 2)) a5
    poke f.seen $((DATA + 4096 * 4)) a5
    poke f.seen $((DATA - 1)) a5
    refuses "seen: 'f.seen' is damaged at offset $((DATA - 1)): padding is not zero (and 3 more places)" \
        seen verify f.seen
    # It need not be the first that is found.
    seen create --grow --empty -n 1000 -p 0.01 g.seen
    echo more >>g.seen
    poke g.seen "$DATA" a5
    refuses "seen: 'g.seen' is damaged at offset $DATA: page 0 of layer 0 does not match its checksum (and 1 more place)" \
        seen verify g.seen
}

@test "any flipped byte is found" {
    make_filter
    local at
    for at in $(seq 0 211 $(($(size f.seen) - 1))); do
        cp f.seen g.seen
        poke g.seen "$at" "$(printf '%02x' $((0x$(peek f.seen "$at" 1) ^ 0x40)))"
        run -2 seen verify g.seen
        [ "${#lines[@]}" = 1 ]
    done
}

@test "bytes behind the last layer of a growing filter are named, unless a new layer may have been begun" {
    seen create --grow --empty -n 1000 -p 0.01 f.seen
    seen add f.seen <(seq 500)
    local end
    end=$(size f.seen)
    for rest in 'echo more' 'cat f.seen' 'head -c 40960 /dev/urandom'; do
        cp f.seen g.seen
        $rest >>g.seen
        run -2 --separate-stderr seen verify g.seen
        [[ $stderr == "seen: 'g.seen' is damaged at offset "*": bytes follow the last layer"* ]]
        [ "$(seen query -c g.seen <(seq 500))" = 500 ]
    done
    # Growth that was killed leaves zeros behind checksums.
    cp f.seen g.seen
    head -c 1000 /dev/urandom | dd of=g.seen bs=1 seek="$end" status=none
    truncate -s $((end + 7 * 4096)) g.seen
    run -0 seen verify g.seen
    seen add g.seen <(seq 5000)
    run -0 seen verify g.seen
    seen create --fixed -n 1000 h.seen --empty
    echo more >>h.seen
    run -2 seen verify h.seen
}

@test "bytes behind the last layer of a growing filter that cannot be read are named" {
    need_preload
    seen create --grow --empty -n 1000 -p 0.01 f.seen
    truncate -s +28672 f.seen
    run -0 seen verify f.seen
    refuses "seen: 'f.seen' is damaged at offset 28672: cannot be read: Input/output error" \
        failing pread:2:EIO seen verify f.seen
}

@test "counters that disagree with the bits or each other are found" {
    make_filter
    cp f.seen whole.seen
    forge f.seen added=5000
    run -0 seen verify f.seen
    forge f.seen records=6000 added=6000
    # Chosen keys do this to a sound file, so it is no damage.
    run -0 --separate-stderr seen verify f.seen
    [ "$output" = 'f.seen: ok' ]
    [[ $stderr == "seen: warning: 'f.seen': its bits hold "*" keys, but 6000 were counted: keys were chosen "* ]]
    [ "${#stderr_lines[@]}" = 1 ]
    reader verify f.seen
    cp whole.seen f.seen
    forge f.seen records=4999
    refuses "seen: 'f.seen' is damaged at offset 4096: the counters in the header contradict each other" \
        seen verify f.seen
}

@test "a file that is being written is ok, and repaired beside its writer" {
    make_filter
    start_writer
    run -0 --separate-stderr seen verify f.seen
    local ok='^f\.seen: ok(, except [1-9][0-9]* pages? being written)?$'
    [[ $output =~ $ok ]]
    [ -z "$stderr" ]
    run -0 --separate-stderr seen verify --repair f.seen
    [[ $output =~ $ok ]]
    [ "$(seen query -c f.seen keys)" = 5000 ]
    stop_writer TERM
    run -0 seen verify f.seen
    [ "$output" = "f.seen: ok" ]
    # A writer to which all keys are known has changed no page.
    rm f.seen
    make_filter 60000
    coproc known { exec seen dedup --annotate f.seen; }
    head -n 1 keys >&"${known[1]}"
    read -r -u "${known[0]}"
    [[ $REPLY == -* ]]
    run -0 seen verify f.seen
    [ "$output" = "f.seen: ok" ]
    # What is damaged beside it has to wait.
    poke f.seen "$(seen stats --json f.seen | jq '.bytes - 100')" a5
    run -2 --separate-stderr seen verify --repair f.seen
    [ "$stderr" = "seen: keys are being added to 'f.seen': run this again when that has ended" ]
    eval "exec ${known[1]}>&-"
}

@test "what a killed writer leaves is put in order by the next one, or by a repair" {
    for next in add repair; do
        rm -f f.seen pipe
        make_filter
        start_writer
        until_present f.seen 'key of the writer' "$writer"
        stop_writer KILL
        run -0 --separate-stderr seen verify f.seen
        [ "$output" = "f.seen: ok" ]
        [ -z "$stderr" ]
        run -0 --separate-stderr seen query f.seen keys
        [ "$(cat keys)" = "$output" ]
        [ -z "$stderr" ]
        if [ $next = add ]; then
            run -0 --separate-stderr seen add -k later f.seen
            [ "$stderr" = "seen: warning: 'f.seen': a process was killed, or the machine crashed, while keys were added; the last of them may be missing" ]
            quiet seen add -k again f.seen
        else
            run -0 seen verify --repair f.seen
            [ "${lines[0]}" = "f.seen: repaired: a process was killed, or the machine crashed, while keys were added; add the keys of that run again" ]
            [ "${lines[1]}" = "f.seen: ok" ]
        fi
        run -0 seen verify f.seen
        [ "$output" = "f.seen: ok" ]
        [ "$(seen query -c f.seen keys)" = 5000 ]
        quiet seen query -q -k 'key of the writer' f.seen
    done
}

@test "in a copy made while keys were added, pages that match are as good as ever" {
    make_filter 100000
    start_writer
    until_present f.seen 'key of the writer' "$writer"
    cp f.seen copy.seen
    cp f.seen torn.seen
    stop_writer TERM
    run -0 --separate-stderr seen verify copy.seen
    [ "$output" = "copy.seen: ok" ]
    [ "$(state copy.seen)" = writing ]
    run -0 --separate-stderr seen add -k later copy.seen
    [ "$stderr" = "seen: warning: 'copy.seen': a process was killed, or the machine crashed, while keys were added; the last of them may be missing" ]
    run -0 seen verify copy.seen
    [ "$output" = "copy.seen: ok" ]
    # A page that was copied before its mark, and one that is damaged, look the same.
    local last=$((DATA + $(seen stats --json f.seen | jq '.layers[0].bytes') - 100))
    poke torn.seen $last ffffffff
    run -2 --separate-stderr seen stats torn.seen
    [[ $output == *'state '*' dirty '* ]]
    [ "${stderr_lines[0]}" = "seen: 'torn.seen' is damaged: 1 page does not match the checksum, so figures from its bits \
are unreliable; 'seen verify' names the pages" ]
    for _ in 1 2; do
        run -2 --separate-stderr seen verify torn.seen
        [[ $stderr == "seen: 'torn.seen' is dirty since a crash of the machine or a failed sync, or was copied while keys were added: 1 page does not match, the first at offset "*"; --repair makes a sound file of it" ]]
        run -2 --separate-stderr seen query -c torn.seen keys
        [[ "${stderr_lines[-1]}" == "seen: 'torn.seen' is damaged: page "* ]]
        refuses "seen: 'torn.seen' is dirty since a crash of the machine or a failed sync: 'seen verify --repair' makes a sound file of it" \
            seen add -k later torn.seen
    done
    run -0 --separate-stderr seen verify --repair torn.seen
    equal "torn.seen: repaired: the file was dirty; add the keys of the interrupted run again" "${lines[0]}"
    [[ ${lines[1]} == "torn.seen: repaired: 1 of "*" pages were damaged; every key of such a page is now reported present, and the current FPR is 0."* ]]
    run -0 seen query -c torn.seen keys
    [ "$output" = 5000 ]
    quiet seen add -k later torn.seen
}

@test "a copy that is restored in place, under the same inode number, is no other case" {
    make_filter
    cp f.seen was.seen
    start_writer
    until_present f.seen 'key of the writer' "$writer"
    cp f.seen copy.seen
    stop_writer TERM
    quiet seen add f.seen <(seq 100000 100500)
    # A copy of which one part is older than the rest, over the file itself.
    dd if=was.seen of=copy.seen bs=4096 skip=$((DATA / 4096 + 1)) seek=$((DATA / 4096 + 1)) \
        count=1 conv=notrunc status=none
    cat copy.seen >f.seen
    local status=0
    seen add -k later f.seen 2>said || status=$?
    if [ $status = 2 ]; then
        [[ $(cat said) == "seen: 'f.seen' is dirty since "* ]]
        quiet seen query -c f.seen keys >/dev/null || true
        run -0 seen verify --repair f.seen
    fi
    seen verify f.seen
    [ "$(seen query -c f.seen keys)" = 5000 ]
}

@test "what is damaged is not exported, not the source of a filter, and not asked beside another" {
    make_filter
    local page="page 0 of layer 0 (offset $DATA) does not match its checksum" to
    poke f.seen $((DATA + 9)) 55aa
    seen create -n 10000 g.seen -k 5001
    refuses "seen: 'f.seen' is damaged: $page" seen dedup --also f.seen g.seen keys
    seen create --counted -p 0 c.seen keys
    to=$(stat -c %s c.seen)
    poke c.seen $((to - 300)) 55aa
    refuses "seen: 'c.seen' is damaged in 1 page; 'seen verify' names it" seen create --from c.seen h.seen
    refuses "seen: 'c.seen' is damaged in 1 page; 'seen verify' names it" seen remove c.seen -k 7
    refuses "seen: 'c.seen' is damaged in 1 page; 'seen verify' names it" seen compare c.seen c.seen
    rejects "seen: 'c.seen' is damaged: page * of layer 0 (offset *) does not match its checksum" \
        seen remove c.seen keys
    seen create --layout guava -n 100k l.seen keys
    poke l.seen 40000 55aa
    refuses "seen: 'l.seen' is damaged in 1 page; 'seen verify' names it" seen export l.seen -o l
    [ "$(echo *)" = "c.seen f.seen g.seen keys l.seen" ]
}

@test "repair mends a damaged slot, and leaves a sound file alone" {
    make_filter
    local before
    before=$(digest f.seen)
    run -0 seen verify --repair f.seen
    [ "$output" = "f.seen: ok" ]
    [ "$(digest f.seen)" = "$before" ]
    poke f.seen 100 ff
    run -0 seen verify --repair f.seen
    [ "$output" = $'f.seen: repaired: a damaged copy of the header\nf.seen: ok' ]
}

@test "repair answers 'present' for all keys of damaged pages, or refuses if they are many" {
    make_filter 200000
    local pages
    pages=$(seen stats --json f.seen | jq .layers[0].pages)
    head -c $((4096 * (pages / 10))) /dev/zero >zeros
    # After no death, and after that of a writer.
    for death in none KILL; do
        rm -f f.seen pipe
        make_filter 200000
        if [ $death = KILL ]; then
            start_writer
            until_present f.seen 'key of the writer' "$writer"
            stop_writer KILL
        fi
        dd if=zeros of=f.seen bs=4096 seek=$((DATA / 4096 + 7)) conv=notrunc status=none
        run -2 seen query -c f.seen keys
        cp f.seen g.seen
        run -0 --separate-stderr seen verify --repair f.seen
        [[ $output == *"f.seen: repaired: $((pages / 10)) of $pages pages were damaged; "*"the current FPR is 0."*$'\nf.seen: ok' ]]
        [[ $stderr == "seen: warning: 'f.seen': its bits hold "*", a repair set bits, "* ]]
        run -0 seen query -c f.seen keys <<<'key of the writer'
        [ "$output" = 5000 ]
        seen stats --json f.seen | jq -e '.fpr_current > 0.09 and .fpr_current < 0.12 and .state == "clean"'
        poke g.seen $DATA ffffffff
        [ $death = none ] || run -2 seen add g.seen -k more
        local before
        before=$(digest g.seen)
        refuses "seen: 'g.seen' is damaged in $((pages / 10 + 1)) of the $pages pages of layer 0, which is too much to repair: make it again" \
            seen verify --repair g.seen
        [ "$(digest g.seen)" = "$before" ]
    done
}

@test "repair counts the keys anew, and leaves a generation alone that is being emptied" {
    seen create --fixed -n 2000 f.seen <(seq 1000)
    forge f.seen state=2 epoch=6 added=10 records=10 held=10
    seen verify --repair f.seen
    [ "$(fact f.seen keys_added)" -gt 980 ]
    [ "$(fact f.seen epoch)" = 1 ]
    # Its bits and checksums may be of different times.
    seen create --generations 2 -n 2000 --empty r.seen
    forge r.seen layer.0.generation=0 state=2
    poke r.seen "$DATA" 5a
    says ": repaired: the file was dirty" seen verify --repair r.seen
    [[ $output != *pages* ]]
    [ "$(seen query -c r.seen <(seq 1000) || true)" = 0 ]
    # Who waits for the file goes on with the repaired one.
    forge f.seen state=2
    ln f.seen dirty
    seen verify --repair f.seen
    mv f.seen repaired
    mv dirty f.seen
    hold_lock f.seen
    seen add f.seen -k new &
    writer=$!
    until_waiting f.seen $writer
    mv repaired f.seen
    echo >release
    wait "$holder" $writer
    seen query f.seen -k new
}

@test "repair leaves a compact filter as it is, and says whether it is sound" {
    seen create --compact c.seen <(seq 5000)
    local before
    before=$(digest c.seen)
    run -0 --separate-stderr seen verify --repair c.seen
    [ "$output" = "c.seen: ok" ]
    [ -z "$stderr" ]
    chmod a-w c.seen
    run -0 seen verify --repair c.seen
    chmod u+w c.seen
    [ "$(digest c.seen)" = "$before" ]
    poke c.seen 6000 ffffffff
    before=$(digest c.seen)
    run -2 --separate-stderr seen verify --repair c.seen
    [[ $stderr == "seen: 'c.seen' is damaged at offset "* ]]
    [ "$(digest c.seen)" = "$before" ]
}
