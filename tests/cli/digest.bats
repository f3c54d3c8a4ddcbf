#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --digest and --input-digests: filters of passwords, by their digests.

load ../lib/helpers

digests='sha1 sha256 md5 ntlm'

setup_file()
{
    export PYTHONDONTWRITEBYTECODE=1
}

needs_libmd()
{
    [[ $(seen --version) == *'digests: libmd'* ]] || skip 'built without libmd'
}

# digests_of NAME: the records of standard input, which end in NUL, as digests in hexadecimal; the
# reference is Python's, and for MD4 that of reader.py.
digests_of()
{
    python3 -c '
import hashlib, sys
sys.path.insert(0, sys.argv[1] + "/tests/lib")
from reader import md4
name = sys.argv[2]
for key in sys.stdin.buffer.read().split(b"\0")[:-1]:
    if name == "ntlm":
        print(md4(key.decode("utf-8").encode("utf-16-le")).hex())
    else:
        print(hashlib.new(name, key).hexdigest())
' "$SOURCE" "$1"
}

# Passwords of every length from 0 to 300 bytes, in ASCII, and in UTF-8 with characters of 1 to 4
# bytes.
make_passwords()
{
    python3 -c '
import random, sys
random.seed(1)
out = sys.stdout.buffer
alphabets = ["aZ09 \t\r\n~", "\u00e9\u07ff\u0080", "\u0800\u20ac\ud7ff\ue000\uffff\ufeff",
             "\U00010000\U0001f600\U0010ffff"]
for length in range(301):
    for alphabet in [alphabets[:1], alphabets]:
        key = b""
        while len(key) < length:
            c = random.choice(random.choice(alphabet)).encode("utf-8")
            key += c if len(key) + len(c) <= length else b"x"
        out.write(key + b"\0")
'
}

bits_of()
{
    tail -c "$(seen stats --json "$1" | jq '.layers[0].bytes')" "$1"
}

@test "digests that would be digested are refused by create, and noted by others" {
    local said="look like digests already: add --input-digests, or make the filter without --digest to store them as text"
    for key in a b c; do printf %s $key | sha1sum | cut -c 1-40; done >digests
    refuses "seen: records in 'digests' $said" seen create --digest sha1 f.seen digests
    sed 's/$/:7/' digests >counted
    [ ! -e f.seen ]
    quiet seen create --digest sha1 --input-digests f.seen digests
    run -0 --separate-stderr seen query f.seen <<<a
    [[ $output == a && -z $stderr ]]
    run -1 --separate-stderr seen query f.seen digests
    [ "$stderr" = "seen: note: records in 'digests' $said" ]
    # One is enough, however it is given: without its newline, with a NUL, on the command line.
    digest=$(head -n 1 digests)
    run -1 --separate-stderr seen query f.seen < <(printf %s "$digest")
    [ "$stderr" = "seen: note: records in '(standard input)' $said" ]
    run -1 --separate-stderr seen query -0 f.seen < <(printf '%s\0' "$digest")
    [ "$stderr" = "seen: note: records in '(standard input)' $said" ]
    run -1 --separate-stderr seen query f.seen -k "$digest"
    [ "$stderr" = "seen: note: keys $said" ]
    printf %s "$digest" >one
    refuses "seen: records in 'one' $said" seen create --digest sha1 g.seen one
    refuses "seen: records in '(standard input)' $said" seen create -0 --digest sha1 g.seen < <(printf '%s\0' "$digest")
    refuses "seen: keys $said" seen create --digest sha1 g.seen -k "$digest"
    refuses "seen: keys $said" seen create --trim --digest sha1 g.seen -k "$digest"
    quiet seen create --digest sha1 g.seen -k "${digest/%?/g}"
    rm g.seen
    # Those of another length, and those that are not alike, are passwords.
    sha256sum </dev/null | cut -c 1-64 | quiet seen create --digest sha1 g.seen
    { cat digests; echo x; } | quiet seen create --force --digest sha1 g.seen
    { seq 8; cat digests; } | quiet seen create --force --digest sha1 g.seen
}

# sums: sha1sum's lines for 200 files, one with a backslash in its name and one with a newline.
sums()
{
    mkdir fs
    for i in {1..198}; do echo "$i" >"fs/$i"; done
    echo b >'fs/a\b'
    echo n >$'fs/a\nb'
    sha1sum fs/* >sums
}

@test "GNU's backslash before a digest is noted, wherever it is, and -z has none" {
    sums
    says="sha1sum and its like put a backslash before the digest of a file whose name has one, or a newline; \
sha1sum -z ... | seen ... -0 has none"
    for i in fs/*; do sha1sum <"$i"; done | cut -c -40 | seen create -p 1e-9 bad.seen
    first=$(grep -n '^[\]' sums | sed 's/:.*//;q')
    run -0 --separate-stderr seen query -c -w -f 1 bad.seen sums
    [ "$output" = 198 ]
    [ "$stderr" = "seen: note: sums:$first: $says" ]
    for way in 'add bad.seen' 'create --force -w -f 1 f' 'dedup'; do
        # shellcheck disable=SC2086 # words
        run -0 --separate-stderr seen $way <sums
        [ "$stderr" = "seen: note: (standard input):$first: $says" ]
    done
    grep -m 1 '^[\]' sums | cut -c -41 >list
    run -0 --separate-stderr seen dedup list
    [ "$stderr" = "seen: note: list:1: $says" ]
    # It comes before the error where digits are needed.
    seen create --force --hex f.seen < <(cut -c -40 sums | grep -v '^[\]')
    run -2 --separate-stderr seen query -w -f 1 f.seen sums
    [ "${stderr_lines[0]}" = "seen: note: sums:$first: $says" ]
    [[ ${stderr_lines[1]} == "seen: sums:$first: not hexadecimal"* ]]
    sha1sum -z fs/* >sums0
    run -0 --separate-stderr seen query -0 -c -w -f 1 bad.seen sums0
    [[ $output == 200 && -z $stderr ]]
    for length in 32 128; do
        printf '\\%0*d\n' $length 7 >list
        run -0 --separate-stderr seen dedup list
        [ "$stderr" = "seen: note: list:1: $says" ]
    done
    # Passwords with a backslash first.
    printf '%s\n' '\5f4dcc3b5aa765d61d8327deb882cf9' '\5f4dcc3b5aa765d61d8327deb882cf990' | quiet seen create --force f
}

@test "digests with names behind them: the field is told, and proved" {
    sums
    cut -c -40 sums | tr -d "\\\\" | seen create -p 1e-9 known.seen
    says="these begin with a digest and go on, its keys do not: -w -f 1, or -d: -f 1"
    run -1 --separate-stderr seen query known.seen <(grep -v '^[\]' sums)
    [[ $stderr == "seen: note: none of these 198 keys is in 'known.seen', but '"*"' is: $says" ]]
    run -1 --separate-stderr seen query known.seen <(head -n 1 sums)
    [[ $stderr == "seen: note: this key is not in 'known.seen', but '"*"' is: $says" ]]
    # Without a last newline, of few keys, and of --binary.
    head -n 9 sums | cut -c -40 | seen create --force -p 1e-9 known.seen
    run -1 --separate-stderr seen query known.seen < <(head -n 1 sums | tr -d '\n')
    [[ $stderr == *"' is: $says" ]]
    run -1 --separate-stderr seen query known.seen < <(sed 's/  / */;q' sums)
    [[ $stderr == *"' is: $says" ]]
    run -1 --separate-stderr seen query known.seen -k "$(head -n 1 sums)"
    [[ $stderr == *"' is: $says" ]]
}

@test "digests in the other case: one is enough, in any way" {
    seq 2000 | while read -r i; do printf 'abcd%036x\n' $((i * 0xabcdef0123)); done >small
    tr a-f A-F <small >capitals
    seen create -p 1e-6 up.seen capitals
    seen create -p 1e-6 low.seen small
    up="these digests have small letters, its keys capitals: make it with --upper"
    low="these digests have capitals, its keys small letters: make it with --ignore-case"
    for n in 1 20 2000; do
        run -1 --separate-stderr seen query up.seen < <(head -n $n small)
        [[ $stderr == "seen: note: "*" in 'up.seen', but '"*"' is: $up" ]]
        run -1 --separate-stderr seen query low.seen < <(head -n $n capitals)
        [[ $stderr == "seen: note: "*" in 'low.seen', but '"*"' is: $low" ]]
    done
    run -1 --separate-stderr seen query up.seen -k "$(head -n 1 small)"
    [[ $stderr == *"' is: $up" ]]
    run -1 --separate-stderr seen query -0 up.seen < <(head -n 1 small | tr '\n' '\0')
    [[ $stderr == *"' is: $up" ]]
    run -1 --separate-stderr seen query up.seen < <(printf %s "$(head -n 1 small)")
    [[ $stderr == *"' is: $up" ]]
    run -0 --separate-stderr seen add up.seen < <(head -n 30 small)
    [[ $stderr == *"' is: $up" ]]
    # With the option, or bytes in place of digits, there is no case.
    for option in --upper --ignore-case --hex; do
        quiet seen create --force $option -p 1e-6 up.seen capitals
        run -0 --separate-stderr seen query -c up.seen small
        [[ $output == 2000 && -z $stderr ]]
    done
}

@test "a list of DIGEST:COUNT is refused by --confirm, with the command that makes a list of keys" {
    seq 300 | while read -r i; do printf '%040X\n' $((i * 0xabcdef0123)); done >digests
    for end in '' '\r'; do
        sed "s/\$/:7$end/" digests >counted
        for way in '' --hex '--digest sha1 --input-digests'; do
            # shellcheck disable=SC2086 # words
            seen create --force -p 1e-6 $way f.seen digests
            option=${way#--digest sha1 }
            # shellcheck disable=SC2086
            refuses "seen: lines of 'counted' look like DIGEST:COUNT; 'cut -d: -f1 FILE >LIST' makes a list of keys" \
                seen query ${option#--hex} --confirm counted f.seen digests
            cut -d: -f1 counted >list
            # shellcheck disable=SC2086
            run -0 --separate-stderr seen query -c ${option#--hex} --confirm list f.seen digests
            [[ $output == 300 && -z $stderr ]]
        done
    done
    # Where such lines are the keys.
    sed 's/$/:7/' digests >counted
    run -0 seen create --force --trim -p 1e-6 f.seen counted
    run -0 --separate-stderr seen query -c --confirm counted f.seen counted
    [ "$output" = 300 ]
}

@test "the reference for MD4 agrees with RFC 1320" {
    python3 - "$SOURCE" <<'PYTHON'
import sys
sys.path.insert(0, sys.argv[1] + "/tests/lib")
from reader import md4
for text, digest in {
    "": "31d6cfe0d16ae931b73c59d7e0c089c0",
    "a": "bde52cb31de33e46245e05fbdbd6fb24",
    "abc": "a448017aaf21d8525fc10ae87aa6729d",
    "message digest": "d9130a8164549fe818874806e1c7014b",
    "abcdefghijklmnopqrstuvwxyz": "d79e1c308aa5bbcdeea8ed63df412da9",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789":
        "043f8582f241db351ce627e153e7f0e4",
    "1234567890" * 8: "e33b4ddc9c38f2199c3e7b164fcc0536",
}.items():
    assert md4(text.encode()).hex() == digest, text
PYTHON
}

@test "passwords of every length have the digests that others compute" {
    needs_libmd
    make_passwords >passwords
    for digest in $digests; do
        digests_of "$digest" <passwords >digests
        tr a-f A-F <digests >upper
        seen create --reproducible -0 -n 1000 -p 1e-9 --digest "$digest" asked passwords
        seen create --reproducible -n 1000 -p 1e-9 --digest "$digest" --input-digests listed digests
        alike <(bits_of asked) <(bits_of listed)
        gzip -c upper |
            seen create --force --reproducible -n 1000 -p 1e-9 --digest "$digest" --input-digests listed
        alike <(bits_of asked) <(bits_of listed)
        # The same bits as of the digests themselves, but another preparation.
        seen create -n 1000 -p 1e-9 --hex hex digests
        alike <(bits_of hex) <(bits_of asked)
        [ "$(seen query -0 -c asked passwords)" = 602 ]
        [ "$(seen query -c --input-digests asked digests)" = 602 ]
        [ "$(seen query -c --input-digests asked upper)" = 602 ]
        seen query hex digests | cmp - digests
        rm asked listed hex
    done
}

@test "the digests in seen(5)" {
    needs_libmd
    sed -n '/vectors: digests/,/^\.EE/p' "$SOURCE/man/seen.5" | grep -v '^\.' >table
    [ "$(wc -l <table)" = 5 ]
    key=dragon
    while read -r name digest; do
        seen create --force --digest "$name" -p 1e-9 f.seen -k $key
        seen query -q --input-digests f.seen -k "$digest"
        ! grep -q '^ntlm' <<<"$name" || key=$'\xc3\xa9\xf0\x9f\x98\x80'
    done <table
}

@test "what every command does with passwords and with digests" {
    needs_libmd
    printf '%s\n' password letmein 'pass wörd' 😀 >known
    printf '%s\n' dragon 'Password' >unknown
    for digest in $digests; do
        digests_of "$digest" < <(tr '\n' '\0' <known) >known.hex
        digests_of "$digest" < <(tr '\n' '\0' <unknown) | tr a-f A-F >unknown.hex
        rm -f f.seen g.seen
        seen create -p 1e-9 -n 100 --digest "$digest" --input-digests -d: -f1 f.seen \
            <(sed 's/$/:17/' known.hex)
        [ "$(fact f.seen preparation)" = "--digest $digest" ]
        cat known unknown >asked
        seen query f.seen asked | cmp - known
        seen query --digest "$digest" f.seen asked | cmp - known
        cat known.hex unknown.hex >asked.hex
        seen query --input-digests f.seen asked.hex | cmp - known.hex
        run -0 seen query f.seen -k password
        [ "$output" = password ]
        run -1 seen query f.seen -k dragon
        run -0 seen query -q --input-digests f.seen -k "$(head -n 1 known.hex)"
        run -0 seen query --annotate f.seen -k password -k dragon
        [ "$output" = $'+\tpassword\n-\tdragon' ]
        # Lists that confirm are of digests.
        LC_ALL=C sort known.hex | head -n 2 >list
        [ "$(seen query -c --confirm list f.seen known)" = 2 ]
        tr a-f A-F <list >list.upper
        [ "$(seen query -c --confirm list.upper --input-digests f.seen known.hex)" = 2 ]
        seen add f.seen -k dragon
        equal "$(seen query --input-digests f.seen unknown.hex)" "$(head -n 1 unknown.hex)"
        seen dedup --input-digests f.seen unknown.hex | cmp - <(tail -n 1 unknown.hex)
        [ "$(seen query -c f.seen unknown)" = 2 ]
        # One that is made by dedup, and a run without a filter.
        seen dedup --create --digest "$digest" g.seen known | cmp - known
        [ "$(seen dedup -c --input-digests g.seen known.hex)" = 0 ]
        equal "$(cat known known | seen dedup --digest "$digest")" "$(cat known)"
        # In all kinds of files.
        seen create --compact -p 1e-9 --digest "$digest" c.seen known
        seen query c.seen asked | cmp - known
        seen create --like f.seen l.seen known
        seen merge -o h.seen f.seen l.seen
        [ "$(seen query -c h.seen known)" = 4 ]
        [ "$(seen query -c --input-digests l.seen known.hex)" = 4 ]
        seen verify l.seen
        rm -f ./*.seen
    done
}

@test "a record that is no digest is an error with its place" {
    for digest in 'sha1 SHA-1 a 40' 'sha256 SHA-256 a 64' 'md5 MD5 an 32' 'ntlm NTLM an 32'; do
        read -r name title article digits <<<"$digest"
        good=$(printf "%0${digits}d" 7)
        seen create --empty -n 10 -p 1e-9 --digest "$name" --input-digests f.seen
        for bad in '' 0 "${good}0" "${good}00" "${good%7}" "${good%7}g" "${good%7} " "$good "; do
            printf '%s\n%s\n' "$good" "$bad" >input
            for command in 'create --digest '"$name g.seen" 'add f.seen' 'query f.seen' \
                'dedup f.seen'; do
                # shellcheck disable=SC2086 # several words
                run -2 --separate-stderr seen $command --input-digests input
                [ "$stderr" = "seen: input:2: is not $article $title digest ($digits hexadecimal digits)" ]
            done
            [ ! -e g.seen ]
            run -0 --separate-stderr seen query -c --input-digests --skip-bad f.seen input
            [ "$output" = 1 ]
            [ "$stderr" = 'seen: note: 1 of 2 records had no key and were skipped' ]
        done
        printf '%s:1\n%s:2\n' "$good" "${good}0" >input
        run -2 --separate-stderr seen query --input-digests -d: -f1 f.seen input
        [[ $stderr == 'seen: input:2: '* ]]
        rm f.seen
    done
}

@test "--input-digests without --digest is an error, whatever else is given" {
    printf '%s\n' a,b c,d >input
    for options in '' --crlf --hex --ignore-case --trim '-d, -f1' --csv; do
        for command in 'dedup input' 'dedup -' 'query --list input input' 'create new.seen input' \
            'add --create new.seen input' 'dedup --create new.seen input'; do
            # shellcheck disable=SC2086 # several words
            run -2 --separate-stderr seen $command --input-digests $options <input
            equal "$stderr" "seen: --input-digests is for filters made with 'seen create --digest'"
            [ ! -e new.seen ]
        done
    done
}

@test "ntlm takes nothing but UTF-8" {
    needs_libmd
    seen create --empty -n 10 -p 1e-9 --digest ntlm f.seen
    # Bytes that are no character, overlong forms, surrogates, behind U+10FFFF, cut short.
    for bad in '\x80' '\xff' '\xfe\xff' 'a\xc3' '\xc0\x80' '\xc1\xbf' '\xe0\x80\x80' '\xe0\x9f\xbf' \
        '\xf0\x80\x80\x80' '\xf0\x8f\xbf\xbf' '\xed\xa0\x80' '\xed\xbf\xbf' \
        '\xed\xa0\xbd\xed\xb8\x80' '\xf4\x90\x80\x80' '\xf5\x80\x80\x80' '\xe2\x82' '\xf0\x9f\x98' \
        'a longer one \xe2\x82 with its fault inside'; do
        printf 'fine\n%b\n' "$bad" >input
        run -2 --separate-stderr seen query f.seen input
        [ "$stderr" = 'seen: input:2: not UTF-8' ]
        run -0 --separate-stderr seen add --skip-bad f.seen input
        [ "$stderr" = 'seen: note: 1 of 2 records had no key and were skipped' ]
    done
    [ "$(fact f.seen keys_added)" = 1 ]
    # The other digests are of bytes.
    printf '\xff\xc0\x80\n' >input
    seen create --digest md5 -p 1e-9 g.seen input
    [ "$(seen query -c g.seen input)" = 1 ]
}

@test "keys are trimmed and folded before they are digested" {
    needs_libmd
    printf 'letmein' | sha1sum | cut -c 1-40 >digest
    seen create --digest sha1 --trim -i --crlf -d, -f2 -p 1e-9 f.seen \
        <(printf 'x, \tLetMeIn ,y\r\n')
    [ "$(fact f.seen preparation)" = '--trim --ignore-case --digest sha1' ]
    seen query -q --input-digests f.seen digest
    # Blanks around digests go too; their case does not matter.
    seen query -q --input-digests f.seen -k " $(tr a-f A-F <digest)"
    run -0 seen query f.seen -k LETMEIN
    run -1 seen query f.seen -k 'let mein'
    # Without --trim, the digits stand alone.
    seen create --digest sha1 -p 1e-9 g.seen -k letmein
    run -2 seen query --input-digests g.seen -k " $(cat digest)"
}

@test "other digests than the filter's are refused" {
    seen create --empty -n 10 plain
    seen create --empty -n 10 --hex hex
    seen create --empty -n 10 --digest sha1 --input-digests sha1
    seen create --empty -n 10 --digest sha256 --input-digests sha256
    digest=$(printf %040d 0)
    for command in query add dedup; do
        for file in plain hex; do
            refuses "seen: '$file' was made without --digest, which cannot be added later" \
                seen $command --digest sha1 "$file" -k "$digest"
            refuses "seen: --input-digests is for filters made with 'seen create --digest'" \
                seen $command --input-digests "$file" -k "$digest"
        done
        refuses "seen: 'sha1' was made with --digest sha1, not md5" \
            seen $command --digest md5 sha1 -k "$digest"
        run -2 seen $command --hex sha1 -k "$digest"
        [[ $output == "seen: 'sha1' was made without --hex, which cannot be added later"* ]]
        refuses "seen: option '--digest': 'SHA-1' is not sha1, sha256, md5 or ntlm" \
            seen $command --digest SHA-1 sha1 -k a
    done
    for both in '--hex --digest md5' '--digest md5 -x'; do
        # shellcheck disable=SC2086 # several options
        refuses 'seen: --digest computes digests (--input-digests reads them): not with --hex' \
            seen create $both new -k a
    done
    refuses "seen: --input-digests is for filters made with 'seen create --digest'" seen create --input-digests new -k 00
    refuses "seen: --input-digests is for filters made with 'seen create --digest'" seen dedup --input-digests -k aa
    refuses "seen: --input-digests is for filters made with 'seen create --digest'" \
        seen dedup --create --input-digests new -k 00
    [ ! -e new ]
    refuses "seen: 'sha1' was made with --digest sha1, not md5" \
        seen create --like sha1 --digest md5 --input-digests new -k "$digest"
    refuses "seen: 'sha1' and 'hex' cannot be merged: they differ in --hex (of 'hex'), --digest (of 'sha1')" \
        seen merge -o new sha1 hex
    refuses "seen: 'sha1' and 'sha256' cannot be merged: they differ in --digest" \
        seen merge -o new sha1 sha256
    refuses "seen: 'sha1' and 'sha256' cannot be queried together: they differ in --digest" \
        seen query --input-digests sha1 --also sha256 -k "$digest"
    if [[ $(seen --version) == *'digests: libmd'* ]]; then
        refuses "seen: 'plain' and 'sha1' cannot be queried together: they differ in --digest (of 'sha1')" \
            seen query plain --also sha1 -k "$digest"
    fi
    seen create --force -p 1e-6 --digest sha1 --input-digests sha1 -k "$digest"
    for line in "${digest%0}" "$digest:x" "0$digest"; do
        echo "$line" >list
        run -2 --separate-stderr seen query --input-digests --confirm list sha1 -k "$digest"
        [[ $stderr == "seen: a line of 'list' is not "*': keys are listed as the filter prepares them' ]]
    done
}

@test "filters of other programs take digests where their keys are bytes" {
    digest=$(printf %040d 7)
    for layout in guava:funnel=bytes dcso redisbloom gozero; do
        seen create --layout "$layout" -n 100 -p 1e-3 --digest sha1 --input-digests f.seen -k "$digest" ||
            { seen help --layouts; false; }
        run -0 seen query --input-digests f.seen -k "$digest"
        run -1 seen query --input-digests f.seen -k "${digest%7}8"
        # As the other program has them, they are keys of 20 bytes.
        seen create --layout "$layout" -n 100 -p 1e-3 --hex g.seen -k "$digest"
        alike <(bits_of f.seen) <(bits_of g.seen)
        rm f.seen g.seen
    done
    refuses 'seen: --digest: the layout takes keys of encoding utf16, which digests cannot be' \
        seen create --layout guava:funnel=utf16 -n 100 -p 1e-3 --digest sha1 --input-digests f.seen \
        -k "$digest"
    cp "$SOURCE/tests/vectors/guava/g64_utf8_n500_p03_over.guava" foreign
    refuses 'seen: --digest: the layout takes keys of encoding utf8, which digests cannot be' \
        seen import --layout guava:funnel=utf8 --digest md5 foreign -o f.seen
    refuses 'seen: --digest: the layout takes keys of encoding utf8, which digests cannot be' \
        seen query --layout guava:funnel=utf8 --digest md5 foreign -k "$digest"
    cp "$SOURCE/tests/vectors/guava/g64_bytes_n1000_p01.guava" foreign
    seen import --layout guava:funnel=bytes --digest md5 foreign -o f.seen
    [ "$(fact f.seen preparation)" = '--digest md5' ]
    [ ! -e g.seen ]
}

@test "headers with digests that are not known, or that exclude the rest, are refused" {
    seen create -n 10 --digest md5 --input-digests good -k "$(printf %032d 1)"
    forged() {
        cp good f
        forge f preparation="$1"
    }
    forged $((3 << 16))
    seen query -q --input-digests f -k "$(printf %032d 1)"
    forged $((255 << 16))
    refuses "seen: 'f' was written by a newer version of seen (key digest 255)" seen stats f
    forged $((1 << 24))
    refuses "seen: 'f' was written by a newer version of seen (key preparation 24)" seen stats f
    for preparation in $((3 << 16 | 4)) $((3 << 16 | 1 << 8)); do
        forged $preparation
        refuses "seen: 'f' is damaged: its header has no valid key preparation" seen stats f
    done
}

@test "what a program without libmd says" {
    if [[ $(seen --version) == *'digests: libmd'* ]]; then
        skip 'built with libmd'
    fi
    why='this program was built without libmd (on Debian, install libmd-dev and build it again)'
    digest=$(printf 'dragon' | sha1sum | cut -c 1-40)
    for command in 'create f.seen' 'dedup --create f.seen' dedup; do
        # shellcheck disable=SC2086 # several words
        refuses "seen: cannot compute sha1 digests, only read them (--input-digests): $why" \
            seen $command --digest sha1 -k dragon
    done
    [ ! -e f.seen ]
    seen create --digest sha1 --input-digests f.seen -k "$digest"
    seen query -q --input-digests f.seen -k "$digest"
    for command in query add dedup; do
        refuses "seen: cannot compute sha1 digests, only read them (--input-digests): $why" \
            seen $command f.seen -k dragon
    done
}

@test "--hex: a key of another length is an error, wherever all were of one length" {
    local i wrong="is not 40 hexadecimal digits, as the keys of the filter are"
    for i in 1 2 3; do printf '%s' $i | sha1sum; done | cut -d ' ' -f 1 >sha1
    for i in 1 2 3; do printf '%s' $i | md5sum; done | cut -d ' ' -f 1 >md5
    for options in '' '-n 100' --compact --counted '--grow -j1' '--generations 2 -n 100'; do
        # shellcheck disable=SC2086 # words
        quiet seen create --force --hex $options f sha1
        seen stats --json f | jq -e '.key_bytes == 20'
        [ "$(seen query -c f sha1)" = 3 ]
        refuses "seen: md5:1: $wrong" seen query f md5
        refuses "seen: --key '00ff': $wrong" seen query f -k 00ff
        [ "$(seen query --annotate --skip-bad f md5 | cut -c 1 | tr -d '\n')" = '???' ]
        reader verify f
    done
    refuses "seen: md5:1: $wrong" seen add f md5
    refuses "seen: md5:1: $wrong" seen dedup f md5
    # What is made of a filter has keys of the same length; a merge may have several.
    quiet seen create --counted -p 0 --hex c sha1
    seen shrink --fpr 0.01 -o small c
    refuses "seen: md5:1: $wrong" seen query small md5
    quiet seen create --from c again
    refuses "seen: md5:1: $wrong" seen query again md5
    quiet seen create --hex -n 100 a sha1
    quiet seen create --hex -n 100 b md5
    [ "$(seen query -c --also b a md5)" = 3 ]
    refuses "seen: --key '00ff': $wrong" seen dedup --also b a -k 00ff
    cat sha1 md5 | seen dedup --also a --also b >new
    [ ! -s new ]
    seen merge -o both a b
    [ "$(seen query -c both sha1)$(seen query -c both md5)" = 33 ]
    seen merge -o same a a
    refuses "seen: md5:1: $wrong" seen query same md5
    quiet seen create --counted -p 0 --hex d md5
    seen merge -o counted c d
    [ "$(seen query -c counted md5)" = 3 ]
    # Keys of several lengths, or of none, ask for nothing; a filter made empty neither.
    cat sha1 md5 >mixed
    quiet seen create --hex --force -j3 f mixed
    [ "$(seen query -c f md5)" = 3 ]
    run -1 seen query f -k 00ff
    quiet seen create --hex --force f -k ''
    run -1 seen query f -k 00ff
    quiet seen create --hex --force --empty -n 10 f
    seen stats --json f | jq -e '.key_bytes == null'
    seen add f md5 sha1
    # 255 bytes can be recorded, 256 not.
    for i in 510 512; do
        printf "%0${i}d\n" 7 | quiet seen create --hex --force f
        seen stats --json f | jq -e ".key_bytes == (if $i == 510 then 255 else null end)"
    done
}

@test "a list like DIGEST:COUNT is refused by create, with the command that takes it" {
    for name in sha1 sha256 md5 sha512; do
        for i in 1 2 3; do printf '%s' $i | ${name}sum; done | sed 's/ .*/:1/' >$name
    done
    while read -r file take; do
        refuses "seen: records in '$file' look like DIGEST:COUNT; this takes their digests: seen create \
$take -d: -f1 FILTER $file (--trim takes records as they are)" seen create f "$file"
    done <<'END'
sha1 --digest sha1 --input-digests
sha256 --digest sha256 --input-digests
md5 --digest ntlm --input-digests
sha512 --hex
END
    says="look like DIGEST:COUNT; this takes their digests: seen create --digest sha1 --input-digests -d: -f1 FILTER"
    for options in '--digest sha1' '-d: -f1' '--digest sha1 -d: -f1'; do
        # shellcheck disable=SC2086 # words
        refuses "seen: records in 'sha1' $says sha1 (--trim takes records as they are)" \
            seen create $options f sha1
    done
    refuses "seen: records in '(standard input)' $says <FILE (--trim takes records as they are)" seen create f <sha1
    [ ! -e f ]
    quiet seen create --digest sha1 --input-digests -d: -f1 f sha1
    [ "$(seq 9 | seen query -c f)" = 3 ]
    # Text, as its preparation says.
    quiet seen create --force -i -d: -f1 f sha1
    quiet seen query -q f sha1 -d: -f1
    # As in range files.
    cut -c 6- sha1 >range
    says="lack the first 5 of 40 digits, which are in the names of range files: seen-passwords(7) has the command that joins them"
    refuses "seen: records in 'range' $says" seen create --force --digest sha1 f range
    refuses "seen: records in 'range' $says" seen create --force -d: -f1 f range
}

@test "a list like DIGEST:COUNT is noted by others, unless its digests are the keys" {
    local text
    for i in 1 2 3; do printf '%s' $i | sha1sum; done | sed 's/ .*/:1905/' >list
    text="seen: note: records in 'list' look like DIGEST:COUNT; to take only the digests as keys, give -d: -f1 \
and --hex, or --input-digests if the filter has --digest"
    seen create --digest sha1 --empty -n 100 s
    seen create -n 100 f -k x
    for command in 'query f' 'dedup --create u' 'add f' 'add s' 'create --trim --force g'; do
        # shellcheck disable=SC2086 # words
        run --separate-stderr seen $command list list
        echo "$command: $stderr"
        [ "$(grep -cxF "$text" <<<"$stderr")" = 1 ]
    done
    sed -i 's/$/\r/' list
    run --separate-stderr seen add f list
    grep -qxF "$text" <<<"$stderr"
    quiet seen create --force --crlf -d: -f1 --hex f list
    quiet seen add --crlf --input-digests -d: -f1 s list
    # Neither a short number, nor what is no digest, nor a digest without a count.
    printf '%s\n' 12:34 00112233445566778899aabbccddeef:1 00112233445566778899aabbccddeeff \
        00112233445566778899aabbccddeeff:x 00112233445566778899aabbccddeeff: \
        00112233445566778899aabbccddeeff:1.5 00112233445566778899aabbccddeeff:1/2 \
        00112233445566778899aabbccddeeff:1:2 >list
    quiet seen create --force f list
}
