#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What only root can set up: files of others, and file systems of a few blocks. The other tests are run
# by an ordinary user, for whom these are skipped (those of file systems only where the kernel does not
# let users have name spaces); as root: make check TESTS=tests/cli/root.bats

load ../lib/helpers

need_root() { [ "$(id -u)" = 0 ] || skip 'needs root'; }

# need_mount: can a file system be mounted on `disk`, which only this process sees?
need_mount()
{
    unshare -rm mount -t tmpfs none disk 2>/dev/null || skip 'needs root, or name spaces of a user'
}

@test "files of others are told apart from files that are not there" {
    need_root
    setpriv --reuid=65534 --regid=65534 --clear-groups true || skip 'cannot be somebody else here'
    seq 10 >keys
    seq 10 >secret
    mkdir -m 777 open
    chmod 755 .
    chmod 600 secret
    nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
    nobody cat keys >/dev/null || skip 'this directory cannot be entered by others'
    rejects "seen: cannot open 'secret': Permission denied" nobody "$SEEN" create open/f secret
    rejects "seen: cannot create 'f': Permission denied" nobody "$SEEN" create f keys
    quiet seen create f keys
    chmod 600 f
    rejects "seen: cannot open 'f': Permission denied" nobody "$SEEN" query f keys
    chmod 644 f
    run -0 nobody "$SEEN" query -c f keys
    [ "$output" = 10 ]
    rejects "seen: cannot open 'f': Permission denied" nobody "$SEEN" add f keys
    only keys secret f open
}

@test "a secret of another user is refused" {
    need_root
    seen create --secret s --new-secret f -k 1
    chown 1234 s
    refuses "seen: secret 's' belongs to another user, who can read and change it" seen query -q --secret s f -k 1
    chown 0 s
    quiet seen query -q --secret s f -k 1
}

@test "a secret in a directory that a group of others can write to is refused" {
    need_root
    mkdir -m 700 own
    seen create --secret own/s --new-secret f -k 1
    chown :1234 own
    chmod 770 own
    refuses "seen: other users can replace secret 'own/s': its directory must be writable only for you" \
        seen query -q --secret own/s f -k 1
}

@test "keys are added below a directory that may not be searched" {
    need_root
    setpriv --reuid=65534 --regid=65534 --clear-groups true || skip 'cannot be somebody else here'
    nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
    mkdir -p closed/open
    chmod 777 closed/open
    chmod 700 closed
    cp "$SEEN" closed/open/seen
    cd closed/open
    run -0 --separate-stderr nobody ./seen create --fixed -n 1000 --empty f
    run -0 --separate-stderr nobody ./seen add f -k a
    [ -z "$stderr" ]
    run -0 --separate-stderr nobody ./seen dedup f -k b
    [ -z "$stderr" ]
    run -0 nobody ./seen verify --repair f
    run -0 nobody ./seen create --force --fixed f -k a
}

@test "another user's link in a directory like /tmp is followed only where the kernel would" {
    need_root
    [ "$(cat /proc/sys/fs/protected_symlinks)" = 1 ] || skip 'the kernel follows such links'
    setpriv --reuid=65534 --regid=65534 --clear-groups true || skip 'cannot be somebody else here'
    mkdir -m 1777 shared
    chmod 1777 shared
    quiet seen create f -k a
    chmod 755 .
    setpriv --reuid=65534 --regid=65534 --clear-groups ln -s ../f shared/link
    cp f before
    refuses "seen: cannot create 'shared/link': Permission denied" seen create --force shared/link -k b
    cmp before f
    ln -s ../f shared/own
    quiet seen create --force shared/own -k b
}

@test "a replaced file keeps its owner" {
    need_root
    seq 10 >keys
    seq 20 | quiet seen create f
    chmod 640 f
    chown 12345:23456 f
    quiet seen create --force f keys
    [ "$(stat -c '%a %u %g' f)" = '640 12345 23456' ]
    run -0 seen query -c f keys
    [ "$output" = 10 ]
}

@test "a full disk leaves nothing behind, and the old file as it was" {
    mkdir disk
    need_mount
    cat >script <<'END'
set -e
mount -t tmpfs -o size=2m none disk
seen create disk/f -k a
before=$(sha256sum disk/f)
status=0
seq 2000000 | seen create --force disk/f || status=$?
[ $status = 2 ]
[ "$(sha256sum disk/f)" = "$before" ]
[ "$(ls -A disk)" = f ]
# No room for scratch.
status=0
seq 2000000 | seen create --memory 4M --tmpdir disk g || status=$?
[ $status = 2 ]
[ "$(ls -A disk)" = f ]
[ ! -e g ]
# A disk that is full to the last byte.
status=0
head -c 4m /dev/zero >disk/filler 2>/dev/null || status=$?
[ $status != 0 ]
status=0
seen create --force disk/f -k b || status=$?
[ $status = 2 ]
[ "$(sha256sum disk/f)" = "$before" ]
seen query disk/f -k a
END
    run -0 --separate-stderr unshare -rm bash script
    [ "$output" = a ]
    [[ ${stderr_lines[0]} == "seen: cannot create 'disk/f': "*" bytes are needed, "*" are free" ]]
    [[ ${stderr_lines[1]} == 'seen: cannot write scratch in '*' bytes are needed, '*' are free' ]]
    [[ ${stderr_lines[2]} == *'disk/f'* ]]
    [ "${#stderr_lines[@]}" = 3 ]
}

@test "--create on a disk that is too small for the capacity that is asked for ends, and makes nothing" {
    mkdir disk
    need_mount
    cat >script <<'END'
mount -t tmpfs -o size=8m none disk || exit 9
for command in 'dedup --create' 'add --create'; do
    for target in f empty; do
        : >disk/empty
        seq 10 | seen $command -n 10M disk/$target
        [ $? = 2 ] || exit 8
        [ "$(ls -A disk) $(stat -c %s disk/empty)" = 'empty 0' ] || exit 7
    done
done
rm disk/empty
# Without a capacity, the file needs no more than its keys.
{ seq 300000; yes 7 | head -n 4000000; } >keys
seen dedup --create disk/f keys | wc -l
END
    run -0 --separate-stderr unshare -rm bash script
    [ "$output" -ge 299000 ]
    for i in 0 1 2 3; do
        [[ ${stderr_lines[i]} == "seen: cannot create 'disk/"[fe]*"': "*" bytes are needed, "*" are free" ]]
    done
}

@test "a query on an overlay gives no answer from the file that was copied up" {
    mkdir disk
    need_mount
    unshare -rm bash -ec 'mount -t tmpfs none disk; mkdir disk/{low,up,work,m}; mount -t overlay none \
        -o lowerdir=disk/low,upperdir=disk/up,workdir=disk/work disk/m' || skip 'needs overlays'
    cat >script <<'END'
set -e
mount -t tmpfs none disk
mkdir disk/low disk/up disk/work m
seen create --empty -n 1000 -p 1e-6 disk/low/f.seen
mount -t overlay none -o lowerdir=disk/low,upperdir=disk/up,workdir=disk/work m
cd m
mkfifo ../in
seen query --annotate f.seen <../in >../out &
exec 3>../in
seq 20000 >&3
until [ "$(wc -l <../out)" = 20000 ]; do kill -0 $!; sleep 0.01; done
seen add f.seen -k late
echo late >&3
exec 3>&-
wait $!
END
    run -2 --separate-stderr unshare -rm bash script
    equal "seen: 'f.seen' was copied by its overlay file system when a writer opened it: run this again" "$stderr"
    [ "$(wc -l <out)" = 20000 ]
}

@test "a file that is a mount of its own is not replaced, and that is said before keys are read" {
    mkdir disk
    need_mount
    seq 10 >keys
    cat >script <<'END'
touch disk/f
seen create --counted -n 100 f keys
mount --bind f disk/f
for command in "create --force disk/f missing" "add disk/f keys" "remove disk/f keys" "shrink disk/f"; do
    seen $command
    echo $?
done
END
    run --separate-stderr unshare -rm bash script
    [ "$output" = $'2\n2\n2\n2' ]
    [ "${#stderr_lines[@]}" = 4 ]
    for line in "${stderr_lines[@]}"; do
        [ "$line" = "seen: 'disk/f' is a mount point, which cannot be replaced: mount its directory" ]
    done
}

@test "scratch goes where no blocks are counted" {
    need_root
    mkdir disk
    unshare -m mount -t ramfs none disk 2>/dev/null || skip 'cannot mount'
    # shellcheck disable=SC2016 # for the inner shell
    run -0 unshare -m bash -euc '
        mount -t ramfs none disk
        seq 3000000 | seen create --memory 4M disk/f
        [ "$(ls -A disk)" = f ]
        [ "$(seq 3000000 | seen query -c disk/f)" = 3000000 ]'
}

@test "a counted set on a full disk is as before" {
    mkdir disk
    need_mount
    seq 400000 | seen create --counted -p 1e-3 f.seen
    # shellcheck disable=SC2016 # for the inner shell
    run -0 unshare -rm bash -euc '
        mount -t tmpfs -o size=1M none disk
        cp f.seen disk/f.seen
        ! seen remove --tmpdir . disk/f.seen -k 7 2>err
        cmp f.seen disk/f.seen
        [ "$(ls -A disk)" = f.seen ]'
    grep -q 'No space left on device$' err
}

@test "a hole in a file on a full disk: no space is left" {
    mkdir disk
    need_mount
    seq 10000 >keys
    quiet seen create --empty -n 300k f
    cat >fill <<'END'
mount -t tmpfs -o size=1M none disk
cp --sparse=always f disk/f
cat /dev/zero >disk/zero 2>/dev/null
seen add disk/f keys
END
    run -2 --separate-stderr unshare -rm sh fill
    # The header is in the file; what it lies beside may be a hole.
    [[ $stderr == "seen: cannot write 'disk/f' at offset "*": No space left on device" ]]
}
