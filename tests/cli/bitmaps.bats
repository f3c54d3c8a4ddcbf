#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Filters that are plain bitmaps in Redis: go-zero's, Redisson's, and those of the PHP class.

load ../lib/helpers

# blocks FILE: kilobytes that it takes on disk.
blocks() { du -k "$1" | cut -f 1; }

# Does reading a hole leave it a hole? On tmpfs it does not.
need_holes()
{
    [ "$(stat -f -c %T .)" != tmpfs ] || skip 'on tmpfs, reading a hole fills it'
    truncate -s 1M hole
    [ "$(blocks hole)" -lt 1024 ] || skip 'the file system has no holes'
}

@test "a bitmap ends with its last byte that is not zero, or with the last there is" {
    printf '\0\1\0\0\0' >f
    for spec in gozero:bits=61 redisson:bits=61,k=3; do
        quiet seen import --layout $spec f -o f.seen --force
        quiet seen export f.seen -o g --force
        cmp g <(printf '\0\1')
    done
    quiet seen import --layout gozero:bits=61 f -o f.seen --force
    quiet seen export --pad f.seen -o g --force
    cmp g <(printf '\0\1\0\0\0\0\0\0')
    # Bit 15 is the lowest of the second byte.
    refuses "seen: cannot import 'f' as gozero: bit 15 is set, but there are 15 bits" \
        seen import --layout gozero:bits=15 f -o g.seen
    quiet seen import --layout gozero:bits=16 f -o g.seen
}

@test "an empty file is an empty filter" {
    : >f
    for spec in gozero:bits=20000 redisson:bits=9585,k=7; do
        quiet seen import --layout $spec f -o f.seen --force
        run -1 seen query f.seen -k a
        quiet seen add f.seen -k a
        seen query f.seen -k a
        quiet seen import --layout $spec f -o f.seen --force
        quiet seen export f.seen -o g --force
        [ "$(size g)" = 0 ]
    done
}

@test "what a bitmap does not say must be given" {
    : >f
    refuses "seen: cannot import 'f' as gozero: its bytes do not say how many bits there are: \
give gozero:bits=M" seen import --layout gozero f -o g
    for given in redisson redisson:bits=9585 redisson:k=7; do
        refuses "seen: cannot import 'f' as redisson: its size is unknown: give bits=M and k=K, or \
-n and -p, as in its configuration" seen import --layout $given f -o g
    done
    refuses "seen: cannot import 'f' as redisson: -n and -p give bits=9585 and k=7, not what the \
spec says" seen import --layout redisson:k=8 -n 1000 -p 0.01 f -o g
    refuses "seen: the layout of 'f' cannot be recognised by its content: give --layout" \
        seen import --layout auto f -o g
    refuses "seen: cannot open 'none': No such file or directory" \
        seen import --layout auto none -o g
    [ ! -e g ]
}

@test "positions of the PHP class: a list or the string, by the name" {
    printf '%s\n' 4294967295 20 0 9 20 >a.bits
    quiet seen import --layout php:functions=JSHash a.bits -o f.seen
    quiet seen export f.seen -o b.bits
    printf '%s\n' 0 9 20 4294967295 | cmp - b.bits
    seen export f.seen -o string
    [ "$(size string)" = $((1 << 29)) ]
    [ "$(peek string 0 4) $(peek string $(((1 << 29) - 2)) 2)" = '80400800 0001' ]
    quiet seen import --layout php:functions=JSHash string -o g.seen
    quiet seen export g.seen -o c.bits
    cmp b.bits c.bits
    echo x >>a.bits
    refuses "seen: cannot import 'a.bits' as php: a.bits:6: not a number from 0 to 4294967295" \
        seen import --layout php a.bits -o h.seen
}

@test "a filter of the PHP class takes the disk space of its set bits, repaired and merged too" {
    [ -z "${SANITIZER-}" ] || skip '512 MiB are read many times'
    need_holes
    : >e.bits
    quiet seen import --layout php e.bits -o f.seen
    [ "$(blocks f.seen)" -lt 1000 ]
    mkfifo held
    seen add f.seen held &
    writer=$!
    exec {hold}>held
    echo first >&"$hold"
    until_present f.seen first "$writer"
    kill -9 "$writer"
    exec {hold}>&-
    wait "$writer" || true
    [ "$(state f.seen)" = writing ]
    seen verify --repair f.seen
    seen merge f.seen f.seen -o g.seen
    quiet seen export g.seen -o g
    [ "$(size g)" -gt 1000 ]
    # Through a mapping, the kernel may fill up to 2 MiB of a hole for a bit.
    [ "$(blocks f.seen)" -lt 10000 ]
    [ "$(blocks g.seen)" -lt 1000 ]
    seen verify f.seen g.seen
    for file in f.seen g.seen; do
        seen query $file -k first
    done
}
