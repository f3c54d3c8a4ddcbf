#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Files that someone forged: any field or page has any value, and the checksums are right.
# tags: seeded

# `run` sets stderr.
# shellcheck disable=SC2154
load ../lib/helpers

@test "a page whose contents are not valid is told from one that does not match its checksum" {
    seq 20000 | seen create --compact --no-profile c.seen
    page=$((($(seen stats --json c.seen | jq '.layers[0].bytes') - 1) / 4096))
    # A rate that its columns do not keep adds none.
    cp c.seen f.seen
    forge f.seen layer.0.fpr=1e-13
    quiet seen shrink --fpr 0.1 f.seen -o out.seen
    equal "$(seen query -c out.seen <(seq 20000))" 20000
    seen verify out.seen
    seq 20000 | seen create --counted n.seen
    while read -r filter page change place; do
        cp "$filter.seen" f.seen
        forge f.seen "$change"
        wanted="matches its checksum, but $place of its directory is not valid"
        run -2 --separate-stderr seen verify f.seen
        [[ $stderr == "seen: 'f.seen' is damaged at offset "*": page $page of layer 0 $wanted" ]]
        run -2 --separate-stderr seen query f.seen -k 1
        [[ $stderr == "seen: 'f.seen' is damaged: page $page of layer 0 (offset "*") $wanted" ]]
    done <<<"n 0 line.0.entries=0 line 0
c $page entry.0.zeroes=1 entry 0
c $page entry.0.segments0=65537 entry 0"
    # Behind the header, 352 bytes, which ends with its checksum, and 4096 bytes of data.
    poke f.seen $((352 + 4096)) a5
    refuses "seen: 'f.seen' is damaged at offset $((352 + 4096)): page 1 of layer 0 does not match \
its checksum (and 1 more place)" seen verify f.seen
    # The first page tells of each key in which table it is.
    poke c.seen 352 a5
    for key in 1 2 3 4; do
        refuses "seen: 'c.seen' is damaged: page 0 of layer 0 (offset 352) does not match its checksum" \
            seen query c.seen -k $key
    done
}

@test "a layer that is added has a generation and a size that the file can have" {
    seq 5000 >keys
    seq 5001 30000 >later
    seen create --grow -n 1000 whole.seen keys
    newest=$(($(seen stats --json whole.seen | jq '.layers | length') - 1))
    # No generation is left.
    cp whole.seen f.seen
    forge f.seen "layer.$newest.generation=2**32-1"
    run -2 --separate-stderr seen add f.seen later
    [ "$stderr" = "seen: 'f.seen' has used up its epochs: it can be read only" ]
    run -0 seen query -c f.seen keys
    [ "$output" = 5000 ]
    # The newest layer takes no keys.
    seen create --compact compact.seen keys
    seen create -n 1000 --fixed --empty bloom.seen
    seen merge --force -o f.seen compact.seen bloom.seen
    forge f.seen policy=1 layer.0.generation=2 layer.1.generation=1
    run -2 --separate-stderr seen add f.seen later
    [ "$stderr" = "seen: 'f.seen' is immutable: no keys can be added to it" ]
    seen create --generations 3 -n 1000 --empty ring.seen
    forge ring.seen layer.3.generation=2**32-1
    refuses "seen: 'ring.seen' has used up its epochs: it can be read only" seen rotate ring.seen
    seen query -c ring.seen keys || [ "$?" = 1 ]
    # What the header says of a layer does not decide how long the file becomes.
    for capacity in 2**63 2**64-1 2**30 0; do
        cp whole.seen f.seen
        forge f.seen "layer.$newest.capacity=$capacity"
        run seen add f.seen later
        [[ $status == [02] ]]
        [ "$(size f.seen)" -lt 1000000 ]
        run -0 --separate-stderr seen query -c f.seen keys
        [ "$output" = 5000 ]
    done
}

@test "a filter of another program's layout grows only where that program makes it grow" {
    seq 1000 >keys
    for kind in guava gozero redisson dcso; do
        seen create --layout $kind -n 1000 -p 0.01 f.seen keys
        forge f.seen policy=1 layer.0.generation=1
        refuses "seen: 'f.seen' is damaged: its layers do not fit its policy" seen add f.seen -k more
        rm f.seen
    done
}

@test "what is made of filters with absurd rates can be read" {
    seq 100 | seen create --compact whole.seen
    for rate in 5e-324 1e-300 1-2**-53; do
        cp whole.seen f.seen
        forge f.seen "layer.0.fpr=$rate"
        seen merge --force -o g.seen f.seen f.seen
        seen query -q g.seen -k 7
        seen create --force --foldable --empty -n 100000 f.seen
        forge f.seen "layer.0.fpr=$rate" "fpr=0.5"
        if seen shrink --force -o g.seen f.seen; then seen stats --json g.seen >/dev/null; fi
    done
}

@test "headers and directories at their extremes, with every command" {
    mkdir work
    cd work
    # To start a process takes long under a sanitizer.
    local cases=60
    [[ -z ${SANITIZER-} || -n ${FULL-} ]] || cases=15
    PYTHONDONTWRITEBYTECODE=1 python3 "$SOURCE/tests/lib/forged.py" "${FORGED:-$cases}" "${SEED:-1}"
}

@test "no number of keys that a file claims makes it grow by more than one layer" {
    ulimit -f 1048576 # KiB, if it fails
    seq 10001 10030 >later
    seq 100 | seen create --layout redisbloom -n 100 -p 0.01 whole.seen
    for forged in added=2**63 added=2**64-1 "added=2**62 layer.0.keys_before=2**64-1" \
        "added=2**63 layer.0.capacity=2**40" "added=2**63 layer.0.capacity=2**63"; do
        cp whole.seen f.seen
        # shellcheck disable=SC2086 # several
        forge f.seen $forged
        run seen add f.seen <later
        [[ $status == [02] ]]
        [ "$(size f.seen)" -le "$((2 * $(size whole.seen)))" ]
        [ "$(seen stats --json f.seen | jq '.layers | length')" -le 2 ]
        [ "$(seq 100 | seen query -c f.seen)" = 100 ]
    done
    # Nor do the counters of a filter of another kind.
    seq 5000 | seen create --force --grow -n 1000 whole.seen
    for forged in added=2**63 "added=2**62 layer.0.keys_before=2**61" "held=2**64-1 added=2**64-1"; do
        cp whole.seen f.seen
        # shellcheck disable=SC2086 # several
        forge f.seen $forged
        run seen add f.seen <later
        [[ $status == [02] ]]
        [ "$(size f.seen)" -le "$((20 * $(size whole.seen)))" ]
        [ "$(seq 5000 | seen query -c f.seen)" = 5000 ]
    done
    # And what is made like a file has its size.
    seen create --force --empty -n 1000 whole.seen
    cp whole.seen f.seen
    forge f.seen layer.0.capacity=2**63 capacity=2**63
    seen create --empty --like f.seen g.seen
    equal "$(size g.seen)" "$(size whole.seen)"
}
