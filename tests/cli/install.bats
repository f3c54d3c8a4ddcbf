#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Installing into a place, and taking everything out again.
# tags: repeating

bats_require_minimum_version 1.5.0

set -o pipefail

setup()
{
    cd "$BATS_TEST_TMPDIR" || return
    build=$(dirname "$SEEN")
    # What is installed is what is being tested: nothing is built here.
    make=(env -u MAKEFLAGS make --no-print-directory -C "$SOURCE" -o all BUILD="$build" DESTDIR="$BATS_TEST_TMPDIR"
        MADE="$BATS_TEST_TMPDIR/said.made"
        PREFIX=/usr WITH_BASHCOMP=yes WITH_ZSHCOMP=yes WITH_FISHCOMP=yes)
}

@test "install puts program, manual pages and completions where they belong" {
    "${make[@]}" install
    cd "$BATS_TEST_TMPDIR/usr"
    [ -x bin/seen ]
    [ -f share/man/man1/seen.1 ]
    [ -f share/man/man5/seen.5 ]
    [ -f share/man/man7/seen.7 ]
    [ -f share/man/man7/seen-passwords.7 ]
    [ -f share/bash-completion/completions/seen ]
    [ -f share/zsh/site-functions/_seen ]
    [ -f share/fish/vendor_completions.d/seen.fish ]
}

@test "install names each file, and what zsh needs in a folder where it does not look" {
    "${make[@]}" install >said
    find usr -type f | sed "s|^|  $BATS_TEST_TMPDIR/|" | sort >files
    sort said | diff - files
    "${make[@]}" install PREFIX=/home/me/.local >said
    # shellcheck disable=SC2088 # as it is shown
    grep -q "~/.zshrc, before compinit: fpath+=(/home/me/.local/share/zsh/site-functions)\$" said
    [ -f home/me/.local/share/bash-completion/completions/seen ]
    [ -f home/me/.local/share/fish/vendor_completions.d/seen.fish ]
}

@test "install without the right to write names a place where it is not needed" {
    mkdir -m 555 readonly
    [ ! -w readonly ] || skip 'root may write everywhere'
    run -2 --separate-stderr "${make[@]}" install DESTDIR="$PWD/readonly"
    [[ $stderr == *"no right to write to '$PWD/readonly/usr': be root, or install for"*"'make install PREFIX=\$HOME/.local'"* ]]
    [ -z "$(ls readonly)" ]
}

@test "install for oneself names what PATH lacks" {
    local own=("${make[@]}" DESTDIR= PREFIX="$PWD/own" WITH_BASHCOMP=no WITH_ZSHCOMP=no WITH_FISHCOMP=no)
    "${own[@]}" install >said
    grep -Fqx "the shell finds seen with this line in ~/.profile: PATH=$PWD/own/bin:\$PATH" said
    PATH=$PATH:$PWD/own/bin "${own[@]}" install >said
    run -1 grep profile said
    # As a shell gives it that does not expand the home directory.
    # shellcheck disable=SC2088
    HOME=$PWD/home "${own[@]}" install PREFIX='~/.local'
    [ -x home/.local/bin/seen ]
}

# present: what there is in the place that is installed into, with modes.
present() { find . -mindepth 1 ! -path './said*' ! -name before -printf '%p %m\n' | sort; }

@test "uninstall leaves what was there, empty directories too, and install leaves its modes" {
    mkdir -p usr/bin usr/share/man/man5 usr/local/share/zsh home/me/.local/share/fish home/me/.local/bin opt
    touch usr/bin/other home/me/.local/share/fish/mine
    chmod 700 home/me/.local/bin
    chmod 775 opt
    chmod 711 usr/share/man/man5
    umask 077
    present >before
    for prefix in /usr /usr/local /home/me/.local /opt/seen /opt/a/seen; do
        "${make[@]}" install PREFIX=$prefix >said
        present | grep -F "${prefix#/}/share/man/man1 " >said.new
        [ "$(sed 's/.* //' said.new)" = 755 ]
        present >said.now
        run -1 grep -Fvxf said.now before
        "${make[@]}" uninstall PREFIX=$prefix >said
        present | diff before -
        [ ! -s said.made ]
    done
}

@test "uninstall removes only directories that install made, and as long as nothing else is in them" {
    "${make[@]}" install >said
    touch usr/share/man/man1/other.1
    "${make[@]}" uninstall >said
    [ "$(find usr | sort)" = $'usr\nusr/share\nusr/share/man\nusr/share/man/man1\nusr/share/man/man1/other.1' ]
    rm usr/share/man/man1/other.1
    "${make[@]}" MADE="$PWD/none" install >said
    rm none
    "${make[@]}" MADE="$PWD/none" uninstall >said
    [ -d usr/bin ]
    [ -z "$(find usr -type f)" ]
}

@test "blanks in PREFIX or DESTDIR are refused before anything is changed" {
    mkdir -m 700 a
    touch a/b seen
    for goal in install uninstall; do
        for place in 'PREFIX=/a b' 'DESTDIR=a b' "DESTDIR=$PWD/a " $'PREFIX=/a\tb' 'ZSHDIR=/a b'; do
            run -2 "${make[@]}" "$place" $goal
            [[ $output == *'DESTDIR and PREFIX must not have blanks'* ]]
        done
    done
    [ "$(find . -mindepth 1 ! -path './said*' -printf '%p %m\n' | sort | head -n 1)" = './a 700' ]
    [ "$(find . -mindepth 1 | sort | tr '\n' ' ')" = './a ./a/b ./seen ' ]
}

@test "fish finds what is installed in /usr/local, whatever the environment" {
    "${make[@]}" install PREFIX=/usr/local
    [ -f "$BATS_TEST_TMPDIR/etc/fish/completions/seen.fish" ]
    [ ! -e "$BATS_TEST_TMPDIR/usr/local/share/fish" ]
    command -v fish >/dev/null || skip 'fish is not installed'
    # shellcheck disable=SC2016 # fish is to expand it
    env -i HOME="$BATS_TEST_TMPDIR" PATH="$PATH" fish -c 'contains /etc/fish/completions $fish_complete_path'
}

@test "the license is at the top, and the program names it" {
    [ "$(head -n 1 "$SOURCE/LICENSE")" = 'MIT License' ]
    "$SEEN" --version | grep -x 'license: MIT'
}

@test "completions can be left out" {
    "${make[@]}" install WITH_BASHCOMP=no WITH_ZSHCOMP=no WITH_FISHCOMP=no
    cd "$BATS_TEST_TMPDIR/usr"
    [ -x bin/seen ]
    [ -z "$(find . -type f -path '*completions*')" ]
    [ -z "$(find . -type f -path '*zsh*')" ]
}

# would ARGUMENT...: what make would do, in one line a command.
would() { "${make[@]}" -n "$@" | sed ':a; /\\$/ { N; s/\\\n//; ba }'; }

@test "a package has the completions of all shells" {
    "${make[@]}" install WITH_BASHCOMP= WITH_ZSHCOMP= WITH_FISHCOMP= >said
    run -1 grep -c completions said
    make=("${make[@]/WITH_*COMP=yes/WITH_NOTHING=}")
    "${make[@]}" install >said
    [ "$(grep -cE 'completions/seen$|/_seen$|seen.fish$' said)" = 3 ]
}

@test "libraries are those that PKG_CONFIG knows; what is left out for want of them is said" {
    would BUILD="$PWD/none" PKG_CONFIG=/bin/false "$PWD/none/seen" >said
    run -1 grep -E 'DSEEN_(HIREDIS|LIBMD|SODIUM)|-l(hiredis|md|sodium)' said
    grep -q "without %s.* 'Redis, which needs hiredis' 'rediss://, which needs OpenSSL' 'digests, which need libmd' 'secrets, which need libsodium'\$" said
    would BUILD="$PWD/none" CC=/opt/odd-linux-gcc "$PWD/none/seen" >said
    run -1 grep -E 'DSEEN_(HIREDIS|LIBMD|SODIUM)|-l(hiredis|md|sodium)' said
    grep -q "'odd-linux-pkg-config, which finds the libraries'\$" said
    cat >pkg-config <<'END'
#!/bin/sh
case $* in
    '--exists libmd' | '--cflags libmd') ;;
    '--libs libmd') echo -lmd-of-ours ;;
    *) exit 1 ;;
esac
END
    chmod +x pkg-config
    would BUILD="$PWD/none" PKG_CONFIG="$PWD/pkg-config" "$PWD/none/seen" >said
    grep -q -- '-DSEEN_LIBMD .* -lmd-of-ours ' said
    run -1 grep -E 'DSEEN_(HIREDIS|SODIUM)|-l(hiredis|sodium)' said
}

@test "other flags, or another revision, rebuild what depends on them" {
    for flags in -O1 -O0; do
        env -u MAKEFLAGS make -s -C "$SOURCE" BUILD="$PWD/none" CFLAGS=$flags REVISION="one$flags" "$PWD"/none/{flags,revision}
        grep -q -- " $flags " none/flags
        [ "$(cat none/revision)" = "one$flags" ]
    done
}

@test "the program is linked in the same order in every locale" {
    for locale in C de_DE.UTF-8 C.UTF-8; do
        LC_ALL=$locale would BUILD="$PWD/none" "$PWD/none/seen" 2>/dev/null | grep -- "-o $PWD/none/seen " >"said.$locale"
        diff said.C "said.$locale"
    done
    tr ' ' '\n' <said.C | grep '\.o$' >said
    [ "$(wc -l <said)" -gt 100 ]
    LC_ALL=C sort -c said
}

@test "the tests of Redis are skipped if one of the programs that they need is missing" {
    mkdir here
    for program in redis-server redis-cli setpriv; do
        : >here/$program
        chmod +x here/$program
    done
    # shellcheck disable=SC2016 # for another shell
    lacks() { PATH=$PWD/here "$BASH" -c '. "$SOURCE/tests/lib/redis.bash"; redis_lacks'; }
    run -1 lacks
    for program in redis-server redis-cli setpriv; do
        mv here/$program gone
        [ "$(lacks)" = "no $program" ]
        mv gone here/$program
    done
}

@test "an installed program is tested where it is" {
    mkdir bin
    cat >bin/seen <<'END'
#!/bin/sh
echo 'seen 7'
END
    cat >which <<'END'
#!/bin/sh
[ "$(seen --version)" = 'seen 7' ] && [ "$SEEN" = "$(dirname "$0")/bin/seen" ] && printf "ok 1\n1..1\n"
END
    chmod +x bin/seen which
    env -u MAKEFLAGS make --no-print-directory -C "$SOURCE" check BUILD="$PWD/none" SEEN="$PWD/bin/seen" TESTS="$PWD/which" >said
    [ "$(tail -n 1 said)" = '1 passed, 0 failed' ]
    [ "$(ls none)" = tap ]
    run -1 --separate-stderr env SEEN="$PWD/gone/seen" "$SOURCE/tests/run" none which
    [ "$stderr" = 'tests/run: there is no program of this path, or it is not called seen' ]
}

@test "dist: the same tarball each time; what is built from it knows its revision without git" {
    git -C "$SOURCE" rev-parse -q --verify HEAD >revision 2>/dev/null || skip 'this is not a git repository'
    pack() { env -u MAKEFLAGS "$@" make -s --no-print-directory -C "$SOURCE" dist BUILD="$PWD/build" >said 2>&1; }
    (umask 077 && pack TZ=Asia/Tokyo LC_ALL=C)
    mv build/dist/*.tar.gz one.tar.gz
    (umask 000 && pack TZ=America/Lima LC_ALL=C.UTF-8)
    cmp one.tar.gz build/dist/*.tar.gz
    tar -xzf one.tar.gz
    diff seen-*/tests/package/revision revision
    env -u MAKEFLAGS make -s -C seen-* "$PWD/build/seen.o" BUILD="$PWD/build"
    grep -q "$(cut -c 1-12 revision)" build/seen.o
    run -1 grep -q "$(cut -c 1-12 revision)-dirty" build/seen.o
}

@test "make deps: what the tests need only with the tests" {
    would deps demo >without
    would deps check >with
    grep -q '^tests/deps gcc ' without
    run -1 grep -qE 'tests/deps.* (bats|jq|zsh) ' without
    # In one line, so that who may not install is told once.
    grep -qE '^tests/deps gcc .* bats .* jq .* zsh ' with
}

@test "make deps install, and deps demo: a make that knows the new libraries compiles side by side" {
    for goal in install demo; do
        env -u MAKEFLAGS make --no-print-directory -C "$SOURCE" BUILD="$PWD/none" JOBS=7 DESTDIR="$PWD" -n deps $goal |
            grep -oE '^tests/deps|-j7 all$| -c -o ' >said
        [ "$(head -n 3 said)" = $'tests/deps\n-j7 all\n -c -o ' ]
    done
}

# stub NAME: a command of that name, of the lines on stdin.
stub() { { echo '#!/bin/sh'; cat; } >"stubs/$1" && chmod +x "stubs/$1"; }

@test "tests/deps: quiet if all is there; who may not install is told what to type" {
    cd "$BATS_TEST_TMPDIR"
    mkdir stubs
    stub dpkg-query <<'END'
for package; do :; done
[ "$package" != here ] || printf installed
END
    stub id <<<'echo 1000'
    stub sudo <<<'exit 1'
    stub apt-get <<<'echo "$*" >>ran'
    PATH=$PWD/stubs:$PATH run -0 "$SOURCE/tests/deps" here here
    [ -z "$output" ]
    PATH=$PWD/stubs:$PATH run -1 --separate-stderr "$SOURCE/tests/deps" here gone here lost </dev/null
    [ -z "$output" ]
    [ "$stderr" = 'make deps: packages are missing; as root, type:
apt-get install --no-install-recommends gone lost' ]
    [ ! -e ran ]
    # shellcheck disable=SC2016 # the stub is to expand it
    stub sudo <<<'[ "$1" != -n ] || shift; exec "$@"'
    PATH=$PWD/stubs:$PATH run -0 "$SOURCE/tests/deps" here gone lost </dev/null
    [ "$(cat ran)" = 'install -y -q --no-install-recommends gone lost' ]
}

@test "the demo: what it shows, and the commands that it names at its end" {
    [ -e /usr/share/dict/cracklib-small ] || skip 'cracklib-runtime is not installed'
    mkdir build
    ln -s "$SEEN" build/seen
    BUILD=build bash "$SOURCE/tests/demo" >out
    # The last screen has statistics.
    for row in 'file size' 'distinct keys' 'design FPR' 'current FPR'; do
        [ "$(sed -n '/^--- In short/,$p' out | grep -c "^$row ")" = 1 ]
    done
    for file in weak.seen urls.seen words urls monday tuesday; do
        [ -s build/demo/$file ]
    done
    # Each job has its time, and the size of what it made.
    [ "$(grep -Ec '^[a-z].* +[0-9]+ ms(  [0-9.]+[KM]iB)?$' out)" = 4 ]
    grep -q '^choose another$' out
    sed -n '/^Try them:/,$s/^  //p' out >commands
    [ "$(wc -l <commands)" = 4 ]
    bash -e commands >tried
    [ "$(head -n 1 tried)" = Password ]
    grep -q '^distinct keys ' tried
}
