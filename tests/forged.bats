#!/usr/bin/env bats
# Files that someone forged: any field or page has any value, and the checksums are right.

# `run` sets stderr.
# shellcheck disable=SC2154
load helpers

forge() { PYTHONDONTWRITEBYTECODE=1 python3 "$SOURCE/tests/forge.py" "$@"; }

@test "a page whose contents are not valid is told from one that does not match its checksum" {
    seq 20000 | seen create --compact c.seen
    page=$((($(seen stats --json c.seen | jq '.layers[0].bytes') - 1) / 4096))
    forge c.seen entry.0.segments0=65537
    wanted="matches its checksum, but entry 0 of its directory is not valid"
    run -2 --separate-stderr seen verify c.seen
    [[ $stderr == "seen: 'c.seen' is damaged at offset "*": page $page of layer 0 $wanted" ]]
    run -2 --separate-stderr seen query c.seen -k 1
    [[ $stderr == "seen: 'c.seen' is damaged: page $page of layer 0 (offset "*") $wanted" ]]
    # Behind the header, 392 bytes, which ends with its checksum, and 4096 bytes of data.
    poke c.seen $((392 + 4096)) a5
    refuses "seen: 'c.seen' is damaged at offset $((392 + 4096)): page 1 of layer 0 does not match \
its checksum (and 1 more place)" seen verify c.seen
}
