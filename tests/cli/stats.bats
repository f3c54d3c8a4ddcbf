#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# seen stats: what it prints is there, is true, and is the same in both forms.
# tags: threads

# `run` sets stderr_lines.
# shellcheck disable=SC2154
load ../lib/helpers

# text LABEL: the value beside that label in $output.
text() { sed -n "s/^$1   *\([^ ].*[^ ]\)   *[a-z][a-z]*\( (95 %)\)\{0,1\}\$/\1/p" <<<"$output"; }

# edit FILE OFFSET FORMAT VALUE: changes a field of the header, which keeps a valid checksum. FORMAT
# is python's, of the struct module.
edit()
{
    PYTHONPATH=$SOURCE/tests/lib PYTHONDONTWRITEBYTECODE=1 python3 - "$@" <<'END'
import struct, sys
from reader import xxh3
name, offset, form, value = sys.argv[1:]
value = float(value) if form == 'd' else int(value)
with open(name, 'r+b') as f:
    for slot in 0, 4096:
        f.seek(slot)
        header = bytearray(f.read(4096))
        if header[1:5] == b'seen':
            struct.pack_into('<' + form, header, int(offset), value)
            struct.pack_into('<Q', header, 4088, xxh3(bytes(header[:4088]), 0))
            f.seek(slot)
            f.write(header)
END
}

@test "all keys are there, and null where nothing is known" {
    seq 10000 | quiet seen create --fixed -p 1e-4 a.seen
    seen stats --json a.seen | jq -e 'keys == ["bits_per_key", "bits_set", "bytes", "changed", "consistent", "created",
        "dropped_at_least", "dropped_estimate", "encoding", "epoch", "file", "format_version", "fpr_at_capacity",
        "fpr_current", "fpr_design", "fpr_hash", "generations", "hash", "keys_added", "keys_from", "keys_left",
        "keys_look_like", "kind", "layers", "line_max", "line_min", "lines_full", "load", "n_design", "n_estimate",
        "n_high", "n_low", "overhead", "pages_damaged", "policy", "preparation", "records", "secret", "secret_id",
        "seed", "sources", "state"] and (.layers[0] | keys) == ["age_seconds", "bytes", "fpr_current", "fpr_design",
        "generation", "k", "kind", "lines", "load", "n_design", "n_estimate", "pages"]'
    seen stats --json a.seen | jq -e '(keys - (.sources | keys)) == ["layers", "n_high", "n_low", "sources"]'
    seen stats --json a.seen | jq -e '
        .file == "a.seen" and .kind == "bloom" and .hash == "xxh3-64" and .format_version == 1 and
        .state == "clean" and .n_design == 10000 and .fpr_design == 1e-4 and
        .keys_added == 10000 and .dropped_estimate == 0 and .consistent and .pages_damaged == 0'
    seen stats --json a.seen | jq -e ".bytes == $(size a.seen)"
    seen stats --json a.seen | jq -e '.layers | length == 1 and
        .[0].kind == "bloom" and .[0].pages == 7 and .[0].lines == 2 and .[0].k == 8 and .[0].fpr_design == 1e-4'
    seen stats --json a.seen | jq -e '[.sources[]] | unique - ["exact", "estimated", "recorded",
        "unknown"] == []'

    quiet seen create --compact compact.seen -k a
    seen stats --json compact.seen | jq -e 'has("line_min") | not'

    quiet seen create --empty -n 1000 empty.seen
    seen stats --json empty.seen | jq -e '.bits_per_key == null and .overhead == null and
        .n_estimate == 0 and .n_low == 0 and .n_high == 0 and .fpr_current == 0 and
        .sources.bits_per_key == "unknown"'
}

# Each sets 6 bits, of which some are the same: without the half key, 11 of 90 intervals end below 10.
@test "the interval of a few keys has whole ends" {
    for i in {10..99}; do
        quiet seen create -n 3000 -p 0.01 "$i.seen" <(seq "${i}00001" "${i}00010")
    done
    seen stats --json [1-9]?.seen >stats.json
    jq -es 'length == 90 and all(.[]; .n_low <= 10 and .n_high >= 10)' stats.json
}

@test "the number of keys is estimated from the bits" {
    # The keys are fixed, so this cannot fail by chance. 2.5 times the interval is 5 sigma.
    for n in 1 30 1000 50000; do
        seq $n | quiet seen create --fixed -n 50000 -p 0.01 --force a.seen
        seen stats --json a.seen |
            jq -e "(.n_estimate - $n | fabs) <= 1 + 2.5 * (.n_high - .n_estimate)"
        seen stats --json a.seen | jq -e '.n_low <= .n_estimate and .n_estimate <= .n_high and
            .load == .n_estimate / 50000 and (.bits_per_key - 8 * .bytes / .n_estimate | fabs) < 1e-9'
    done
}

@test "text and JSON say the same" {
    seq 3000 | quiet seen create --fixed -n 4000 -p 0.01 a.seen
    run -0 --separate-stderr seen stats --all a.seen
    [ -z "$stderr" ]
    json=$(seen stats --json a.seen)
    [ "$(text 'file')" = a.seen ]
    [ "$(text 'state')" = clean ]
    [ "$(text 'design FPR')" = 0.01 ]
    equal "$(text 'current FPR')" "$(printf %.3g "$(jq .fpr_current <<<"$json")")"
    equal "$(text 'distinct keys')" \
        "$(jq -r '"\(.n_estimate | round) (\(.n_low | round) to \(.n_high | round))"' <<<"$json")"
    [ "$(text 'records given')" = 3000 ]
    equal "$(text 'keys new when added')" "$(jq .keys_added <<<"$json")"
    equal "$(text 'bits a key')" "$(printf %.2f "$(jq .bits_per_key <<<"$json")")"
    # the layers are a table, with a column for what is known of any
    [ "$(tail -n 2 <<<"$output" | head -n 1 | xargs)" = 'kind size k lines capacity design FPR keys load FPR' ]
    [[ ${lines[-1]} == 'layer 0  bloom  '* ]]
    ((${#lines[-1]} < 80))
    # every figure says where it comes from
    [ "$(grep -vcE '(exact|estimated|estimated \(95 %\)|recorded|unknown)$|^layer|^ ' <<<"$output")" -eq 0 ]
}

# labels FILTER: those of the rows that stats prints, one a line.
labels() { seen stats "$1" | sed 's/  .*//'; }

@test "without --all there are at most 12 lines, the usual ones and those that say what is unusual" {
    local usual=$'file\nkind\ndistinct keys\ndesign capacity\nload\ncurrent FPR\ndesign FPR\nfile size'
    seq 1000 >keys
    seen create --fixed -n 2000 a.seen keys
    seen create --counted counted.seen keys
    seen create --compact compact.seen keys
    for file in a counted compact; do
        [ "$(labels $file.seen)" = "$usual" ]
    done
    says '^load +[0-9.]+ %, FPR rises when full +estimated$' seen stats a.seen
    says '^load +100 %, takes no more keys ' seen stats compact.seen
    # Each row is one of --all, with the same value; the load and the size have more words.
    for row in 'kind' 'distinct keys' 'design capacity' 'current FPR' 'design FPR'; do
        alike <(seen stats a.seen | grep "^$row " | xargs) <(seen stats --all a.seen | grep "^$row " | xargs)
    done
    says '^file size +[0-9.]+ KiB, [0-9.]+ bits a key +exact$' seen stats a.seen
    seen create --grow -n 300 grows.seen keys
    says '^load +[0-9.]+ %, grows when full +estimated$' seen stats grows.seen
    seen add grows.seen <(seq 1001 3000)
    says '^load +[0-9.]+ % of the newest layer, grows when full +estimated$' seen stats grows.seen
    says '^load +[0-9.]+ % +estimated$' seen stats --all grows.seen
    seen stats --json grows.seen | jq -e '.load > 0 and .load == .layers[-1].load and .n_design == null'
    seen create --generations 2 -n 3000 ring.seen keys
    says '^load +[0-9.]+ % of the newest generation +estimated$' seen stats ring.seen
    equal "$(labels ring.seen)" "${usual/keys/$'keys\ngenerations'}"
    seen create --forget-after 30d -n 30000 ring.seen --force keys
    equal "$(labels ring.seen)" "${usual/keys/$'keys\nforgets after'}"$'\nhas keys until'
    seen create --fixed --trim -i --secret secret --new-secret private.seen keys
    equal "$(labels private.seen)" "$usual"$'\nkey preparation\nsecret'
    seen create --layout guava guava.seen keys
    equal "$(labels guava.seen)" "${usual/kind/layout}"$'\nkey encoding'
    # While a process adds keys.
    mkfifo in
    seen add a.seen <in &
    exec 8>in
    echo x >&8
    until_present a.seen x $!
    equal "$(labels a.seen)" "$usual"$'\nstate'
    exec 8>&-
    finish
    seen create --empty -n 1000 --trim -i --digest sha1 --secret secret most.seen
    [ "$(seen stats most.seen | wc -l)" -le 12 ]
}

@test "several filters: an object a line; one that is missing spoils the status only" {
    seq 10 | quiet seen create a.seen
    seq 20 | quiet seen create b.seen
    run -2 --separate-stderr seen stats --json a.seen none.seen b.seen
    [ "${#lines[@]}" -eq 2 ]
    [ "$(jq -r .file <<<"${lines[0]}")" = a.seen ]
    [ "$(jq -r .file <<<"${lines[1]}")" = b.seen ]
    [ "$stderr" = "seen: cannot open 'none.seen': No such file or directory" ]
    # As text, an empty line stands between two that are there.
    for files in 'a.seen none.seen' 'none.seen a.seen'; do
        # shellcheck disable=SC2086 # words
        equal "$(seen stats $files 2>/dev/null; echo .)" "$(seen stats a.seen; echo .)"
    done
    equal "$(seen stats a.seen none.seen b.seen 2>/dev/null)" "$(seen stats a.seen; echo; seen stats b.seen)"
}

@test "the number of threads changes nothing" {
    # Its age may.
    counted() { seen stats --json "$@" a.seen | jq 'del(.layers[].age_seconds)'; }
    seq 200000 | quiet seen create -p 1e-6 a.seen
    one=$(counted -j 1)
    equal "$(counted -j 2)" "$one"
    equal "$(counted -j 7)" "$one"
}

@test "the current FPR is that of other keys" {
    # 5 sigma, one false alarm in a million inputs.
    for n in 20000 70000 100000; do
        seq $n | quiet seen create -n 100000 -p 0.01 --force a.seen
        hits=$(seq 1000001 2000000 | seen query -c a.seen)
        seen stats --json a.seen | jq -e --argjson hits "$hits" '($hits - 1e6 * .fpr_current | fabs) <
            5 * (1e6 * .fpr_current * (1 - .fpr_current) | sqrt)'
    done
}

@test "damage is said, and is an error" {
    seq 50000 | quiet seen create -p 0.01 a.seen
    poke a.seen $(($(size a.seen) - 100)) ffffffffffffffffffffff
    run -2 --separate-stderr seen stats --json a.seen
    jq -e '.pages_damaged == 1' <<<"$output"
    [[ $stderr == "seen: 'a.seen' is damaged: 1 page"* ]]
}

@test "an alarm when counters and bits disagree" {
    # The deviation is 0.06 % here, so five of them are 300 keys.
    for n in 99750 100250; do
        seq 100000 | quiet seen create -p 0.001 --fixed --force a.seen
        edit a.seen 128 Q $n
        run -0 --separate-stderr seen stats --json a.seen
        [ -z "$stderr" ]
        jq -e .consistent <<<"$output"
    done
    for n in 0 99500 100500; do
        seq 100000 | quiet seen create -p 0.001 --fixed --force a.seen
        edit a.seen 128 Q $n
        run -0 --separate-stderr seen stats --json a.seen
        jq -e '.consistent == false' <<<"$output"
        [[ $stderr == "seen: warning: 'a.seen': its bits hold 100"*" keys, but ${n%?}"?" were counted: "* ]]
    done
}

@test "a file left by a crash: counters are unknown, and there is no alarm" {
    seq 100000 | quiet seen create a.seen
    edit a.seen 136 d 1
    edit a.seen 40 I 2
    run -0 --separate-stderr seen stats --json a.seen
    jq -e '.state == "dirty" and .records == null and .keys_added == null and
        .dropped_estimate == null and .consistent == null and .pages_damaged == null and
        .sources.keys_added == "unknown" and .n_estimate > 99500' <<<"$output"
    [ "${#stderr_lines[@]}" -eq 1 ]
    [[ $stderr == "seen: warning: 'a.seen'"*'seen verify --repair'* ]]
}

@test "control characters in names do not reach the terminal" {
    seq 10 | quiet seen create $'a\e[31m.seen'
    run -0 --separate-stderr seen stats $'a\e[31m.seen'
    [[ ${lines[0]} == 'file '*'a\x1b[31m.seen'* ]]
}

@test "percentages have three digits, or two after the point" {
    local keys shown
    seen create --counted -p 0 -n 100k --empty empty.seen
    while read -r keys shown; do
        cp empty.seen f.seen
        seen add f.seen <(seq "$keys")
        says "^load +$shown %, FPR rises when full  exact$" seen stats f.seen
        # An exact number has no interval.
        says "^distinct keys +$keys +exact$" seen stats f.seen
    done <<'END'
0 0\.00
9 0\.009
10 0\.01
9994 9\.99
9996 10\.0
99949 99\.9
99951 100
END
}

@test "forged times: what no calendar has is told in seconds, and the future has no age" {
    seen create a.seen -k x
    forge a.seen made=2**62
    says '^created +4611686018427387904 s after 1970 +recorded$' seen stats --all a.seen
    # Nor has what begins in the future an age.
    seen create --generations 2 -n 100 ring.seen -k x
    [ "$(seen stats --json ring.seen | jq .layers[2].age_seconds)" -lt 1000 ]
    forge ring.seen layer.2.since=2**40
    [ "$(seen stats --json ring.seen 2>said | jq .layers[2].age_seconds)" = null ]
}

@test "wrong use" {
    seq 10 | quiet seen create a.seen
    refuses "seen: no FILTER given" seen stats
}

@test "what becomes of a full filter, and the load of a ring" {
    seen create --compact c.seen <(seq 100)
    seen stats --json c.seen | jq -e '.policy == "immutable" and .keys_left == null'
    seen create --fixed f.seen <(seq 100)
    seen stats --json f.seen | jq -e '.policy == "FPR rises"'
    # Each of 4 generations has 2500 of 10000 keys, and there is a fifth.
    seen create --generations 4 -n 10000 --empty r.seen
    for i in 0 1 2 3 4; do
        seen rotate r.seen
        seen add r.seen <(seq $((2500 * i + 1)) $((2500 * i + 2500)))
    done
    seen stats --json r.seen | jq -e '.policy == "rotates" and .n_design == 10000 and
        .load_all > 0.95 and .load_all < 1.05 and
        .load == .layers[4].load and .load > 0.95 and .load < 1.05'
    seen rotate r.seen
    seen stats --json r.seen | jq -e '.load == 0 and .load_all < 0.85'
}

@test "a ring whose keys all came in one generation is full" {
    seen create -p 0.001 --generations 7 -n 70000 --empty r.seen
    seq 35000 | seen dedup --max-fpr 0.9 r.seen >new 2>warning
    grep -q 'fuller than it was made for' warning
    seen stats --json r.seen | jq -e '.load > 3 and .load < 3.7 and .load_all < 0.5 and
        .keys_left == 0 and .fpr_current > 0.01'
    says '^keys left  +0 ' seen stats --all r.seen
    says '^keys wrongly dropped  +[0-9.]+ +estimated$' seen stats --all r.seen
    # A rotation makes room in the newest, but not in the promise.
    seen rotate r.seen
    seen stats --json r.seen | jq -e '.load == 0 and .keys_left == 0'
}

@test "the keys that are left bring a ring to its design FPR" {
    seen create --generations 4 -n 40000 -p 0.01 --empty r.seen
    seen add r.seen <(seq 10000)
    seen rotate r.seen
    seen add r.seen <(seq 10001 15000)
    left=$(seen stats --json r.seen | jq '.keys_left | floor')
    seen add r.seen <(seq 20001 $((20000 + left)))
    seen stats --json r.seen | jq -e '.fpr_current > 0.0095 and .fpr_current < 0.0105 and
        .keys_left < 200'
}

@test "the recipe for a filter that has more keys than it was made for" {
    seen create --fixed exact.seen <(seq 1000)
    seen create --compact compact.seen <(seq 1000)
    seen create -p 0.001 --fixed --empty -n 1000 full.seen
    seen add full.seen <(seq 1500) 2>warning
    seen create --generations 7 -n 70000 --empty ring.seen
    seq 9800 | seen add ring.seen
    seen create --grow grows.seen <(seq 10)
    PAGE=seen-stats.1 run -0 --separate-stderr recipe EXAMPLES 1
    [ "$output" = './full.seen is too full' ]
    [ -z "$stderr" ]
    touch broken.seen
    PAGE=seen-stats.1 run --separate-stderr recipe EXAMPLES 1
    [[ $stderr == *broken.seen* ]]
}

@test "--prometheus: the names, and what they say, by --json" {
    local quoted=$'a "b\\c\n\xff\xc3\xa9.seen'
    seq 1000 | seen create --fixed -n 2000 f.seen
    seq 50 | seen create --counted c.seen
    seq 1000 | seen create --compact "$quoted"
    seen create --forget-after 30d -n 20k --empty ring.seen
    seq 2000 | seen add ring.seen
    run -0 --separate-stderr seen stats --prometheus f.seen c.seen "$quoted" ring.seen
    [ -z "$stderr" ]
    printf '%s\n' "$output" >metrics
    # Each metric begins with its help and its type, and its samples follow, one a filter.
    awk '/^# HELP / { name = $3; next }
        /^# TYPE / { if ($3 != name || NF != 4 || name in seen) exit 1; seen[name] = 1; next }
        index($0, name "{file=\"") != 1 || !/} [0-9.e+-]+$/ { exit 1 }' metrics
    equal "$(grep -c '^# HELP' metrics)" "$(grep -c '^# TYPE' metrics)"
    grep -qF 'seen_filter_readable{file="a \"b\\c\\n\\xffé.seen"} 1' metrics
    # The table of the manual page is complete, and the values are those of --json.
    sed -n '/^seen_filter/p' "$SOURCE/man/seen-stats.1" >table
    sed -nE 's/^# TYPE (.*) .*/\1/p' metrics | grep -vE 'readable|clean' | sort |
        diff - <(cut -d ' ' -f 1 table | sort)
    for file in f.seen c.seen ring.seen; do
        seen stats --json "$file" >json
        while read -r metric member; do
            if [[ $member =~ generations|forget|until && $file != ring.seen && $member != keys_* ]]; then
                jq -e ".$member == null" json
                ! grep -q "^$metric{file=\"$file\"}" metrics || return 1
                continue
            fi
            equal "$(sed -n "s/^$metric{file=\"$file\"} //p" metrics | jq 'tostring | .[:10]')" \
                "$(jq ".$member | values | tostring | .[:10]" json)" || { echo "$file $metric"; return 1; }
        done <table
        grep -q "^seen_filter_clean{file=\"$file\"} 1" metrics
    done
    awk '/^# TYPE/ && ($3 ~ /_total$/) != ($4 == "counter") { exit 1 }' metrics
}

@test "--prometheus: a parser of Prometheus takes it" {
    local python=
    for python in python3 /usr/bin/python3 ''; do
        [ -z "$python" ] || $python -c 'import prometheus_client' 2>/dev/null && break
    done
    [ -n "$python" ] || skip 'python3-prometheus-client is not installed'
    local quoted=$'a "b\\c\n\xff\xc3\xa9.seen'
    seq 1000 | seen create -n 2000 f.seen
    seq 1000 | seen create --compact "$quoted"
    run -2 --separate-stderr seen stats --prometheus f.seen "$quoted" none.seen
    printf '%s\n' "$output" >metrics
    $python - metrics <<'END'
import sys
from prometheus_client.parser import text_fd_to_metric_families
seen = {}
for family in text_fd_to_metric_families(open(sys.argv[1])):
    assert family.documentation and family.type in ('gauge', 'counter'), family
    for sample in family.samples:
        assert list(sample.labels) == ['file'], sample
        key = sample.name, sample.labels['file']
        assert key not in seen, key
        seen[key] = sample.value
assert seen['seen_filter_readable', 'a "b\\c\\n\\xffé.seen'] == 1, seen
assert seen['seen_filter_readable', 'none.seen'] == 0
assert seen['seen_filter_records_total', 'f.seen'] == 1000
assert seen['seen_filter_design_false_positive_ratio', 'f.seen'] == 1e-06
assert len([key for key in seen if key[1] == 'none.seen']) == 1
assert len(seen) > 25
END
}

@test "--prometheus: what cannot be read or is damaged" {
    seq 1000 | seen create -n 2000 f.seen
    poke f.seen $(($(size f.seen) - 100)) "$(printf '%02x' $((0x$(peek f.seen $(($(size f.seen) - 100)) 1) ^ 1)))"
    run -2 --separate-stderr seen stats --prometheus f.seen none.seen
    [[ $output == *'seen_filter_damaged_pages{file="f.seen"} 1'* ]]
    [[ $output == *'seen_filter_readable{file="f.seen"} 1'*'seen_filter_readable{file="none.seen"} 0'* ]]
    [ "$(grep -c none.seen <<<"$output")" = 1 ]
    run -2 --separate-stderr seen stats f.seen
    [ "$stderr" = "seen: 'f.seen' is damaged: 1 page does not match the checksum, so figures from its bits are \
unreliable; 'seen verify' names the pages" ]
    refuses "seen: 'f.seen' is given twice" seen stats --prometheus f.seen none.seen f.seen
    refuses 'seen: --prometheus and --json cannot go together' seen stats --json --prometheus f.seen
}

@test "of several layers there is no FPR at a design capacity" {
    seen create --empty -n 100 a.seen
    seen create --empty -n 100k b.seen
    seen merge -o both.seen a.seen b.seen
    seen stats --json both.seen | jq -e '(.layers | length) == 2 and .fpr_at_capacity == null'
    seen stats --json a.seen | jq -e '.fpr_at_capacity > 0'
}

@test "counters and bits are compared where they should agree, and nowhere else" {
    seq 1000 >keys
    seen create a.seen keys
    seen merge --intersect -o same.seen a.seen a.seen
    seen create --compact c.seen keys
    seen merge -o joined.seen c.seen c.seen
    seen create --generations 2 -n 2000 ring.seen keys
    seen rotate ring.seen
    seen add ring.seen keys
    seen create --layout dcso -n 1000 -p 0.01 dcso.seen keys
    for file in same joined ring dcso; do
        equal "$(fact $file.seen consistent)" null
    done
    for file in a c; do
        equal "$(fact $file.seen consistent)" true
    done
    # Nor is the number of keys known where layers share them: from that of the largest to the sum.
    seen stats --json joined.seen | jq -e '[.n_estimate, .load, .n_low, .n_high] == [null, null, 1000, 2000]'
}

@test "set bits, and those of the emptiest and fullest lines, are of all layers" {
    seq 1000 | seen create --grow -n 100 f.seen
    # The emptiest line is in the last layer first, then in the first one.
    for last in 5200 9000; do
        seq "$last" | seen add f.seen
        seen stats --json f.seen >stats.json
        PYTHONPATH=$SOURCE/tests/lib PYTHONDONTWRITEBYTECODE=1 python3 - f.seen <<'END'
import json, sys
from forge import Forged
stats = json.load(open('stats.json'))
with open(sys.argv[1], 'rb') as f:
    forged = Forged(f.read())
lines = []
for i in range(len(stats['layers'])):
    at = forged.place(i)[0]
    data = forged.data[at:at + forged.layer(i, 'length')]
    lines += [bin(int.from_bytes(data[j:j + 64], 'little')).count('1') for j in range(0, len(data), 64)]
assert len(stats['layers']) > 2
is_ = [stats['line_min'], stats['line_max'], stats['lines_full'], round(stats['bits_set'], 9)]
wanted = [min(lines), max(lines), 0, round(sum(lines) / len(lines) / 512, 9)]
assert is_ == wanted, (is_, wanted)
END
    done
}
