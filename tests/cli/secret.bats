#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Filters with a secret: who has it is answered, who has another one or none is told so, and what
# needs none works without it.

load ../lib/helpers

setup()
{
    cd "$BATS_TEST_TMPDIR" || return
    [[ $(seen --version) != *'secrets: not available'* ]] || skip 'built without libsodium'
    umask 022
    unset SEEN_SECRET
    seq 1 2 2000 >keys
    seq 2000 >asked
}

# One filter and its secret.
make_filter()
{
    seen create --secret s --new-secret -p 1e-9 f.seen keys
}

# bytes N FILE: N zero bytes, for their owner alone.
bytes()
{
    head -c "$1" /dev/zero >"$2"
    chmod 600 "$2"
}

@test "who has read a secret leaves no core dump" {
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer does not go with strace'
    make_filter
    for command in query add dedup; do
        strace -o calls -e trace=prctl,openat seen $command --secret s f.seen -k 1 >/dev/null
        cat calls
        # From then on strace cannot read the names of files, unless it is root. Without the secret
        # there would have been no answer.
        grep -q 'PR_SET_DUMPABLE, SUID_DUMP_DISABLE' calls
        [ "$(sed '/PR_SET_DUMPABLE, SUID_DUMP_DISABLE/q' calls | grep -c 'openat(.*"s"')" = 0 ]
    done
    strace -o calls -e trace=prctl seen query f.seen -k 1 || [ $? = 2 ]
    [ "$(grep -c PR_SET_DUMPABLE calls)" = 0 ]
}

@test "what a secret needs of the system is lacking: one line says what" {
    need_preload
    make_filter
    refuses "seen: cannot look at the directory of secret 's': Permission denied" \
        failing stat:1:EACCES seen query -q --secret s f.seen -k 1
    quiet failing read:1:EINTR seen query -q --secret s f.seen -k 1
    run -0 failing getrandom:1:ENOSYS:from seen query -q --secret s f.seen -k 1
    declare -A reason=([ENOSYS]='Function not implemented' [EINTR]='Interrupted system call')
    for error in ENOSYS EINTR; do
        rm -f t g.seen
        refuses "seen: cannot get random numbers from the system: ${reason[$error]}" \
            failing "getrandom:1:$error:from" seen create -n 10 --secret t --new-secret g.seen -k 1
        [ ! -e t ]
        [ ! -e g.seen ]
    done
}

@test "a secret of another user, or that another user can replace, is refused" {
    mkdir -m 700 own
    seen create --secret own/s --new-secret f.seen keys
    ln -s own/s s
    quiet seen query -q --secret s f.seen -k 1
    local replaced="seen: other users can replace secret 's': its directory must be writable only for you"
    chmod 702 own
    refuses "$replaced" seen query -q --secret s f.seen -k 1
    chmod 770 own
    if [ "$(id -gn)" = "$(id -un)" ]; then # unnoticed: equal
        quiet seen query -q --secret s f.seen -k 1
    else
        refuses "$replaced" seen query -q --secret s f.seen -k 1
    fi
    # The group of another user, and one of this user's name with other members.
    if [ "$(id -u)" = 0 ]; then
        for group in 1 1234; do
            chgrp "$group" own
            refuses "$replaced" seen query -q --secret s f.seen -k 1
        done
        chgrp 0 own
        echo root:x:0: >group
        for members in '' root root,other other; do
            unshare -m mount --bind group /etc/group 2>/dev/null || break
            echo "root:x:0:$members" >group
            run --separate-stderr unshare -m bash -c 'mount --bind group /etc/group && exec "$@"' - \
                seen query -q --secret s f.seen -k 1
            case $members in
                *other) wanted="2 $replaced" ;;
                *) wanted='0 ' ;;
            esac
            equal "$status $stderr" "$wanted"
        done
    fi
    chmod 1777 own
    quiet seen query -q --secret s f.seen -k 1
    # A pipe has no name that matters.
    chmod 777 own
    seen query -q --secret <(cat s) f.seen -k 1
    # Nor has a file that was removed.
    cp own/s gone
    exec {secret}<gone
    rm gone
    quiet seen query -q --secret "/dev/fd/$secret" f.seen -k 1
    chmod 700 own
    [ "$(id -u)" = 0 ] || skip 'only root can give files away'
    chown 1234 s
    refuses "seen: secret 's' belongs to another user, who can read and change it" seen query -q --secret s f.seen -k 1
    chown 0 s
    chown 1234 own
    refuses "$replaced" seen query -q --secret s f.seen -k 1
}

@test "two that make a secret at once use the same one" {
    for round in {1..10}; do
        rm -f s ./*.seen
        pids=()
        for i in {1..8}; do
            seen create --secret s --new-secret "$i.seen" keys &
            pids+=($!)
        done
        for pid in "${pids[@]}"; do
            wait "$pid"
        done
        for i in {1..8}; do
            seen query -q --secret s "$i.seen" -k 1 || { echo "round $round"; false; }
        done
    done
}

@test "a filter is asked with its secret, by --secret or by SEEN_SECRET" {
    make_filter
    [ "$(stat -c '%a %s' s)" = '600 32' ]
    run -0 --separate-stderr seen query --secret s f.seen asked
    diff <(printf '%s\n' "$output") keys
    [ -z "$stderr" ]
    SEEN_SECRET=s seen query f.seen asked | diff - keys
    # The option wins.
    SEEN_SECRET=nothing seen query --secret s f.seen asked | diff - keys
    # It may come from a program.
    seen query --secret <(cat s) f.seen asked | diff - keys
}

@test "wrong, missing, short, long and unreadable secrets are told apart, and none is an answer" {
    make_filter
    bytes 32 other
    printf '\1' | dd of=other conv=notrunc status=none
    for command in 'query' 'add' 'dedup' 'create --like'; do
        set -- f.seen
        case $command in
            'create --like') set -- f.seen g.seen ;;
        esac
        before=$(digest f.seen)
        # shellcheck disable=SC2086 # words
        refuses "seen: 'f.seen' was made with a secret: --secret or SEEN_SECRET must name its file" \
            seen $command "$@"
        # shellcheck disable=SC2086
        run -2 --separate-stderr seen $command "$@" --secret other
        [[ -z $output ]]
        [[ $stderr == "seen: 'other' is not the secret of 'f.seen': its identifier is "* ]]
        [ "$before" = "$(digest f.seen)" ]
        [ ! -e g.seen ]
    done
    refuses "seen: cannot open secret 'none': No such file or directory" \
        seen query --secret none f.seen -k 1
    refuses "seen: cannot open secret 'none': No such file or directory" \
        env SEEN_SECRET=none seen query f.seen -k 1
    refuses "seen: 'f.seen' was made with a secret: --secret or SEEN_SECRET must name its file" \
        env SEEN_SECRET= seen query f.seen -k 1
    refuses "seen: cannot open secret 'none': No such file or directory" seen dedup --secret none </dev/null
    refuses "seen: cannot read secret '.': Is a directory" seen query --secret . f.seen -k 1
    bytes 31 short
    bytes 33 long
    refuses "seen: 'short' is not a valid secret: it has 31 bytes, not 32" \
        seen query --secret short f.seen -k 1
    refuses "seen: 'long' is not a valid secret: it is longer than 32 bytes" \
        seen query --secret long f.seen -k 1
    head -c 32 /dev/zero >zeros
    printf '%.32s' 'correct horse battery staple and more' >text
    for weak in zeros text; do
        run -2 --separate-stderr seen create --secret $weak -n 10 g.seen -k 1
        [[ ${#stderr_lines[@]} = 1 && $stderr == "seen: '$weak' is not a valid secret: it is "*", which can be guessed; \
--new-secret makes one" ]]
    done
    [ ! -e g.seen ]
    if [ "$(id -u)" != 0 ]; then
        chmod 000 s
        refuses "seen: cannot open secret 's': Permission denied" seen query --secret s f.seen -k 1
    fi
}

@test "a secret for a filter without one is refused; in the environment it is left alone" {
    seen create f.seen keys
    bytes 32 s
    refuses "seen: 'f.seen' was made without a secret, so --secret cannot be given for it" \
        seen query --secret s f.seen -k 1
    [ "$(SEEN_SECRET=s seen query -c f.seen keys)" = 1000 ]
    refuses "seen: --layout makes what the other program would: not with --secret" seen create --layout guava --secret s g.seen keys
    SEEN_SECRET=gone seen create --layout guava g.seen keys
    seen query -q g.seen -k 1
    seen create --counted -p 0 c.seen keys
    SEEN_SECRET=gone seen create --from c.seen h.seen
    seen query -q h.seen -k 1
    printf '%s\n' a b a | SEEN_SECRET=gone seen dedup | diff - <(printf '%s\n' a b)
}

@test "SEEN_SECRET makes filters with a secret, as --secret does" {
    refuses 'seen: --new-secret needs --secret or SEEN_SECRET' seen create --new-secret f.seen keys
    SEEN_SECRET=new seen create --new-secret f.seen keys
    [ "$(stat -c %a%s new)" = 60032 ]
    cp new s
    SEEN_SECRET=s seen create g.seen keys
    seq 5 | SEEN_SECRET=s seen dedup --create d.seen | diff - <(seq 5)
    seq 5 | SEEN_SECRET=s seen add --create a.seen
    for f in g d a; do
        refuses "seen: '$f.seen' was made with a secret: --secret or SEEN_SECRET must name its file" \
            seen query $f.seen -k 1
        seen query -q --secret s $f.seen -k 1
    done
    refuses "seen: cannot open secret 'gone': No such file or directory (--new-secret makes the file)" \
        env SEEN_SECRET=gone seen create h.seen keys
    for command in add dedup; do
        refuses "seen: cannot open secret 'gone': No such file or directory" \
            env SEEN_SECRET=gone seen $command --create h.seen keys
    done
    [ ! -e h.seen ]
}

@test "a secret that others can read or change is warned of" {
    make_filter
    chmod 640 s
    warning="seen: warning: other users can read or change the secret in 's'; 'chmod 600' prevents it"
    for command in query add dedup; do
        run --separate-stderr seen "$command" --secret s f.seen keys
        [ "${stderr_lines[0]}" = "$warning" ]
        [ "${#stderr_lines[@]}" = 1 ]
    done
    chmod 400 s
    run -0 --separate-stderr seen query -c --secret s f.seen keys
    [ -z "$stderr" ]
}

@test "--new-secret makes what is missing, and overwrites nothing" {
    refuses 'seen: --new-secret needs --secret or SEEN_SECRET' \
        seen create --new-secret f.seen keys
    refuses 'seen: --new-secret makes the file of --secret: not with --dry-run' \
        seen create --dry-run --secret s --new-secret f.seen keys
    refuses 'seen: 1e+18 keys are more than 64-bit hashes can tell apart' \
        seen create --secret s --new-secret --fixed -n 1e18 f.seen keys
    [ ! -e s ]
    refuses "seen: cannot open secret 's': No such file or directory (--new-secret makes the file)" \
        seen create --secret s f.seen keys
    [ ! -e f.seen ]
    make_filter
    before=$(digest s)
    seen create --secret s --new-secret -p 1e-9 g.seen keys
    [ "$before" = "$(digest s)" ]
    seen query --secret s g.seen asked | diff - keys
    # What is there and no secret stays, too.
    echo precious >file
    run -2 seen create --secret file --new-secret h.seen keys
    [ "$(cat file)" = precious ]
    run -2 --separate-stderr seen create --secret none/s --new-secret h.seen keys
    [ "$stderr" = "seen: cannot create 'none/s': No such file or directory" ]
    # Each secret is another, and so are the bits.
    seen create --secret s2 --new-secret -p 1e-9 i.seen keys
    run -1 cmp -s s s2
    run -1 cmp -s <(data g.seen) <(data i.seen)
    # The same secret makes the same bits.
    alike <(data f.seen) <(data g.seen)
}

@test "the secret stands in no filter and in no message" {
    make_filter
    seen create --compact --secret s c.seen keys
    seen query --secret s f.seen -k 1 --verbose >out 2>&1
    seen stats f.seen >>out
    seen stats --json --secret s f.seen >>out
    PYTHONDONTWRITEBYTECODE=1 python3 - "$SOURCE" <<'PYTHON'
import struct, sys
sys.path.insert(0, sys.argv[1] + "/tests/lib")
from reader import derive
secret = open("s", "rb").read()
key = derive(secret, b"seen siphash-2-4", struct.pack("<Q", 0))
for name in ("f.seen", "c.seen", "out"):
    data = open(name, "rb").read()
    for hidden in (secret, key):
        for at in range(0, len(hidden), 8):
            part = hidden[at:at + 8]
            assert part not in data and part.hex().encode() not in data.lower(), name
PYTHON
}

@test "add, dedup, --also, --confirm, --like, generations and growth" {
    make_filter
    export SEEN_SECRET=s
    seq 10 | seen create --like f.seen g.seen
    seq 3001 3100 | seen add --secret s f.seen
    run -1 seen query -v f.seen < <(seq 3001 3100)
    [ -z "$output" ]
    seq 3051 3150 | seen dedup f.seen | diff - <(seq 3101 3150)
    seq 3001 3160 | seen dedup --also f.seen | diff - <(seq 3151 3160)
    sort <keys >sorted
    seen query --confirm sorted f.seen asked | diff - keys
    seen merge --max-fpr 1e-3 -o fg.seen f.seen g.seen
    [ "$(seen query -c fg.seen < <(seq 2 2 10))" = 5 ]
    unset SEEN_SECRET
    # A filter in memory has one as well, if it is asked for.
    printf '%s\n' a b a | seen dedup --secret s | diff - <(printf '%s\n' a b)
    # Made by dedup, from a secret that can be read only once; and grown.
    seq 500 | seen dedup --create --secret <(cat s) -p 1e-9 made.seen | diff - <(seq 500)
    seq 490 510 | seen dedup --create --secret s made.seen | diff - <(seq 501 510)
    seen create --grow --empty -n 100 -p 1e-9 --secret s grown.seen
    seq 500 | seen add --secret s grown.seen
    [ "$(seen stats --json grown.seen | jq '.layers | length')" -gt 1 ]
    seq 510 | seen query --secret s grown.seen | diff - <(seq 500)
    seen create --secret s --generations 3 -n 900 -p 1e-9 --empty ring.seen
    seq 1 100 | seen add --secret s ring.seen
    for _ in 1 2 3 4; do
        seen rotate ring.seen
        seq 101 200 | seen add --secret s ring.seen
    done
    [ "$(seq 200 | seen query --secret s ring.seen | head -n 1)" = 101 ]
}

@test "beside digests and counts" {
    printf '%s\n' a b c >list
    seen create --counted -p 0 --secret s --new-secret c.seen list
    printf '%s\n' b d | reader counts c.seen s | diff - <(printf '1\tb\n')
    [ "$(printf '%s\n' b d | seen query --secret s --show-counts c.seen | cut -f 2)" = b ]
    run -2 seen query c.seen -k a
    refuses "seen: 'c.seen' was made with a secret: --secret or SEEN_SECRET must name its file" \
        seen create --from c.seen g.seen
    seen create --from c.seen --secret s g.seen
    [ "$(seen query --secret s -c g.seen list)" = 3 ]
    seen create --compact --secret s -p 1e-9 --from c.seen h.seen
    [ "$(seen query --secret s -c h.seen list)" = 3 ]
    seen remove --secret s c.seen -k a
    [ "$(printf '%s\n' a c | seen query --secret s c.seen)" = c ]
    run -2 seen remove c.seen -k c
    [[ $(seen --version) == *'digests: libmd'* ]] || return 0
    seen create --digest sha1 --secret s d.seen list
    printf '%s' b | sha1sum | cut -d ' ' -f 1 | seen query --input-digests -c --secret s d.seen
    [ "$(printf '%s\n' b x | seen query --secret s d.seen)" = b ]
    # The digest is a part of what the proof covers.
    forge d.seen preparation=0
    run -2 --separate-stderr seen query --secret s d.seen -k b
    [[ $stderr == *'the filter is forged' ]]
}

@test "what hashes no keys needs no secret, and keeps it" {
    seen create --secret s --new-secret --foldable -p 1e-4 -n 50k f.seen keys
    seen create --compact -p 1e-9 --secret s c.seen keys
    id=$(fact f.seen secret_id)
    [[ $id =~ ^[0-9a-f]{32}$ ]]
    seen verify f.seen c.seen
    seen shrink -p 1e-3 -o small.seen f.seen
    seen shrink -p 1e-3 -o less.seen c.seen
    seen merge -o both.seen f.seen c.seen
    for f in small less both; do
        seen verify $f.seen
        [ "$(fact $f.seen secret_id)" = "$id" ]
        [ "$(seen query -c --secret s $f.seen keys)" = 1000 ]
        run -2 seen query $f.seen -k 1
    done
    seen create g.seen keys
    [ "$(seen stats --json g.seen | jq -c '[.secret, .secret_id]')" = '[false,null]' ]
    run -2 --separate-stderr seen merge -o no.seen f.seen g.seen
    [ "$stderr" = "seen: 'f.seen' and 'g.seen' cannot be merged: they differ in hash function, \
secret" ]
    seen create --secret t --new-secret --foldable -p 1e-4 -n 50k h.seen keys
    run -2 --separate-stderr seen merge -o no.seen f.seen h.seen
    [ "$stderr" = "seen: 'f.seen' and 'h.seen' cannot be merged: they differ in secret" ]
    run -2 --separate-stderr seen query --secret s --also h.seen f.seen -k 1
    [ "$stderr" = "seen: 'f.seen' and 'h.seen' cannot be queried together: they differ in secret" ]
    refuses "seen: 'f.seen' has a secret, which other programs do not know, so it cannot be exported; 'seen create --layout' \
makes one that can be, from the keys" seen export f.seen -o out
    [ ! -e out ]
}

@test "forged headers: another's identifier, another preparation, no secret where there is one" {
    make_filter
    seen create --secret t --new-secret -p 1e-9 other.seen asked
    forged="seen: 's' is the secret that 'g.seen' names, but its header was not signed \
with it: the filter is forged"
    # The identifier alone.
    cp other.seen g.seen
    forge g.seen "secret=0x$(peek f.seen 160 8 | fold -w 2 | tac | tr -d '\n')"
    forge g.seen "secret2=0x$(peek f.seen 168 8 | fold -w 2 | tac | tr -d '\n')"
    equal "$(peek g.seen 160 16)" "$(peek f.seen 160 16)"
    refuses "$forged" seen query --secret s g.seen -k 1
    refuses "$forged" seen stats --secret s g.seen
    # What the proof covers.
    for change in preparation=2 seed=1; do
        cp f.seen g.seen
        forge g.seen "$change"
        refuses "$forged" seen query --secret s g.seen -k 1
        run -2 reader query g.seen s <keys
        [[ $output == *'made without the secret' ]]
    done
    # Half a secret.
    for change in hash=1 incompat=0; do
        cp f.seen g.seen
        forge g.seen "$change"
        run -2 --separate-stderr seen query --secret s g.seen -k 1
        [[ $stderr == "seen: 'g.seen' is damaged: "*secret* ]]
        run -2 reader query g.seen s <keys
    done
    seen create --force g.seen keys
    forge g.seen secret=1
    run -2 seen verify g.seen
    forge g.seen secret=0
    seen verify g.seen
    cp f.seen g.seen
    forge g.seen unused=1
    run -2 seen verify g.seen
}

@test "a filter that is replaced by one with another secret is not written to" {
    make_filter
    seen create --secret t --new-secret -p 1e-9 g.seen keys
    mkfifo in
    seen add --secret s f.seen <in 2>err &
    adding=$!
    exec 4>in
    echo 5000 >&4
    # Its /proc/PID/fd is hidden from other users, and so from this one.
    await "$adding" seen query -q --secret s f.seen -k 5000
    mv g.seen f.seen
    echo 5001 >&4
    exec 4>&-
    wait "$adding" && status=0 || status=$?
    [ "$status" = 2 ]
    [ "$(cat err)" = "seen: 'f.seen' was replaced while keys were added: run this again" ]
    run -1 seen query -q --secret t f.seen -k 5001
}

@test "the independent reader agrees, for every kind and length of keys" {
    awk 'BEGIN { for (i = 1; i <= 100; i++) {
        s = ""
        for (j = 0; j < i; j++)
            s = s sprintf("%c", 33 + (i * 7 + j * j * 13) % 94)
        print s; print substr(s, 2) "~" } }' >asked
    sed -n 'n;p' asked >keys
    for how in '' '--compact' '-p 1e-9' '-i --trim'; do
        # shellcheck disable=SC2086 # options
        seen create --force --secret s --new-secret $how f.seen keys
        seen query --secret s f.seen asked >ours
        reader query f.seen s <asked | cmp - ours
        [ "$(wc -l <ours)" -ge 100 ]
        [ "$(wc -l <ours)" -lt 200 ]
        reader verify f.seen
    done
    bytes 32 other
    run -2 reader query f.seen other <keys
    run -2 reader query f.seen <keys
}
