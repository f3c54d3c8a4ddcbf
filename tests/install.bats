#!/usr/bin/env bats
# Installing into an empty place, and taking everything out again.

setup()
{
    build=$(dirname "$SEEN")
    # What is installed is what is being tested: nothing is built here.
    make=(env -u MAKEFLAGS make --no-print-directory -C "$SOURCE" -o all BUILD="$build" DESTDIR="$BATS_TEST_TMPDIR"
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

@test "uninstall leaves no file behind" {
    for prefix in /usr /usr/local; do
        "${make[@]}" install PREFIX=$prefix
        "${make[@]}" uninstall PREFIX=$prefix
        [ -z "$(find "$BATS_TEST_TMPDIR" -path "$BATS_TEST_TMPDIR/bats*" -prune -o ! -type d -print)" ]
    done
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
    "$SEEN" --version | grep -qx 'license: MIT'
}

@test "completions can be left out" {
    "${make[@]}" install WITH_BASHCOMP=no WITH_ZSHCOMP=no WITH_FISHCOMP=no
    cd "$BATS_TEST_TMPDIR/usr"
    [ -x bin/seen ]
    [ -z "$(find . -type f -path '*completions*')" ]
    [ -z "$(find . -type f -path '*zsh*')" ]
}
