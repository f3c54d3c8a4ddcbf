#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Filters of other programs, held against the files in tests/vectors, which those programs wrote.
# `make interop` runs the programs themselves.
# tags: slow

load ../lib/helpers

vectors() { PYTHONDONTWRITEBYTECODE=1 python3 "$SOURCE/tests/lib/vectors.py" "$@"; }

# golden LAYOUT/FILE: a file of tests/vectors.
golden() { cat "$SOURCE/tests/vectors/$1"; }

# declined COMMAND...: exit status 2, nothing on stdout, one line on stderr, and no f.seen.
declined()
{
    run -2 --separate-stderr "$@"
    [[ -z $output && ${#stderr_lines[@]} == 1 && ! -e f.seen ]] || { echo "$*: $output$stderr"; return 1; }
}

@test "guava: an imported filter answers as the program did, and is exported as it was" { vectors answers guava; }
@test "guava: create and add make the program's bytes" { vectors create guava; }
@test "guava: keys of 0 to 64 bytes of any value" { vectors tails guava; }
@test "guava: broken files" { vectors malformed guava; }
@test "guava: sizes" { vectors sizing guava; }

@test "guava: a header alone, and a part of one" {
    printf '\1\7\0\0\0\0' >header
    refuses "seen: cannot import 'header' as guava: its number of words is 0" seen import --layout guava header -o f.seen
    rejects "seen: no layout 'guave': there are guava, *" seen import --layout guave header -o f.seen
    printf '\1\7\0\0\0' >part
    refuses "seen: cannot import 'part' as guava: it ends within its header" seen import --layout guava part -o f.seen
}

@test "guava, serialized: an imported filter answers as the program did, and is exported as it was" { vectors answers guavaser; }
@test "guava, serialized: create and add make the program's bytes" { vectors create guavaser; }

@test "guava, serialized: export writes either form, and only a filter alone is read" {
    local v=$SOURCE/tests/vectors/guavaser
    golden guavaser/gj_utf8_n1000_p02.ser >it
    run -0 --separate-stderr seen import --layout auto it -o f.seen
    [ "$stderr" = "seen: note: 'it' is taken for guava:funnel=utf8,strategy=64,serialized=yes" ]
    quiet seen import --layout guava:serialized=no it -o plain.seen
    seen export plain.seen -o plain
    [ "$(size plain)" = 1030 ]
    quiet seen import --layout guava:serialized=yes plain -o again.seen
    seen export again.seen -o - | cmp it -
    quiet seen import --layout guava - -o pipe.seen < <(cat it)
    seen export pipe.seen -o - | cmp it -
    [ "$(seen query -c it "$SOURCE/tests/vectors/keys2/keys.txt")" = 1000 ]
    rm f.seen
    refuses "seen: cannot import 'it' as guava: its funnel is not long" seen import --layout guava:funnel=long it -o f.seen
    refuses "seen: cannot import 'it' as guava: its strategy is MURMUR128_MITZ_64" seen import --layout guava:strategy=32 it -o f.seen
    LC_ALL=C sed 's/MITZ_64/MITZ_32/' it >other
    refuses "seen: cannot import 'other' as guava: its strategy is MURMUR128_MITZ_32" \
        seen import --layout guava:strategy=64 other -o f.seen
    head -c 1000 it >part
    rejects "seen: cannot import 'part' as guava: it is cut short: 128 words need 1250 bytes" seen import --layout guava part -o f.seen
    head -c 1400 it >part
    refuses "seen: cannot import 'part' as guava: it does not end in its strategy, as a filter alone does" \
        seen import --layout guava part -o f.seen
    printf x | cat it - >longer
    refuses "seen: cannot import 'longer' as guava: it does not end in its strategy, as a filter alone does" \
        seen import --layout guava longer -o f.seen
    refuses "seen: '$v/other_object.ser' is a serialized Java object: if it has a BloomFilter of Guava, its writeTo() writes what 'seen import --layout guava' reads" \
        seen import --layout guava "$v/other_object.ser" -o f.seen
    # A funnel of the program's own has any name, and stays.
    LC_ALL=C sed 's/Funnels.StringCharset/Funnels.WidgetCharset/' it >own
    refuses "seen: cannot import 'own' as guava: its funnel is none of Guava's: give funnel=bytes, and as keys the bytes that it makes" \
        seen import --layout guava own -o f.seen
    quiet seen import --layout guava:funnel=bytes own -o f.seen
    seen export f.seen -o - | cmp own -
    [ "$(seen query -c f.seen "$SOURCE/tests/vectors/keys2/keys.txt")" = 1000 ]
    quiet seen import --layout guava:funnel=bytes,serialized=no own -o bare.seen
    seen export bare.seen -o - | cmp plain -
    quiet seen create --like f.seen like.seen -k a
    seen export like.seen -o like
    [ "$(size like)" = 1030 ]
    quiet seen merge -o both.seen f.seen like.seen
    seen export both.seen -o both
    equal "$(size both)" "$(size own)"
}

@test "gozero: an imported filter answers as the program did, and is exported as it was" { vectors answers gozero; }
@test "gozero: create and add make the program's bytes" { vectors create gozero; }

@test "redisson: an imported filter answers as the program did, and is exported as it was" { vectors answers redisson; }
@test "redisson: create and add make the program's bytes" { vectors create redisson; }
@test "redisson: keys of 0 to 64 bytes of any value" { vectors tails redisson; }
@test "redisson: sizes" { vectors sizing redisson; }

@test "redisbloom: an imported filter answers as the program did, and is exported as it was" { vectors answers redisbloom; }
@test "redisbloom: create and add make the program's bytes" { vectors create redisbloom; }
@test "redisbloom: keys of 0 to 64 bytes of any value" { vectors tails redisbloom; }
@test "redisbloom: broken files" { vectors malformed redisbloom; }
@test "redisbloom: sizes" { vectors sizing redisbloom; }

@test "php: an imported filter answers as the program did, and is exported as it was" { vectors answers php; }
@test "php: create and add make the program's bytes" { vectors create php; }
@test "php: keys of 0 to 64 bytes of any value" { vectors tails php; }

@test "dcso: an imported filter answers as the program did, and is exported as it was" { vectors answers dcso; }
@test "dcso: create and add make the program's bytes" { vectors create dcso; }
@test "dcso: add makes an older file the newer one" { vectors extend dcso; }
@test "dcso: keys of 0 to 64 bytes of any value" { vectors tails dcso; }
@test "dcso: broken files" { vectors malformed dcso; }
@test "dcso: sizes" { vectors sizing dcso; }

@test "bitsandblooms: an imported filter answers as the program did, and is exported as it was" { vectors answers bitsandblooms; }
@test "bitsandblooms: create and add make the program's bytes" { vectors create bitsandblooms; }
@test "bitsandblooms: keys of 0 to 64 bytes of any value" { vectors tails bitsandblooms; }
@test "bitsandblooms: sizes" { vectors sizing bitsandblooms; }

@test "spark: an imported filter answers as the program did, and is exported as it was" { vectors answers spark; }
@test "spark: create and add make the program's bytes" { vectors create spark; }
@test "spark: keys of 0 to 64 bytes of any value" { vectors tails spark; }
@test "spark: sizes" { vectors sizing spark; }

@test "bitsandblooms and spark: known by their content, and what is cut, longer or forged is refused" {
    local bb=$SOURCE/tests/vectors/bitsandblooms spark=$SOURCE/tests/vectors/spark file spec text
    while read -r file spec; do
        run -0 --separate-stderr seen import --layout auto "$file" -o f.seen --force
        [ "$stderr" = "seen: note: '$file' is taken for $spec" ]
        [[ $(seen stats f.seen) == *"layout           $spec "* ]]
        rm f.seen
        head -c -1 "$file" >part
        cat "$file" - <<<'' >longer
        for text in part longer; do
            # An encoder of Go ends JSON with a newline.
            if [[ $text == longer && $file == *.json ]]; then
                quiet seen import --layout bitsandblooms longer -o f.seen
                seen export f.seen -o out --force
                cmp longer out
                rm f.seen
            else
                declined seen import --layout "${spec%%:*}" $text -o f.seen
            fi
        done
        # From a pipe it is the same.
        quiet seen import --layout "${spec%%:*}" - -o f.seen < <(cat "$file")
        seen export f.seen -o - | cmp "$file" -
        rm f.seen
    done <<END
$bb/bb_n1000_p01.bloom bitsandblooms:bits=9586,k=7,json=no
$bb/bb_json_n1000_p1.json bitsandblooms:bits=4793,k=4,json=yes
$spark/sp1_str_n1000_p03.spark spark:type=string,version=1
$spark/sp2_str_n1000_p03.spark spark:type=string,version=2
END
    while IFS='|' read -r spec text file; do
        printf %b "$file" >forged
        refuses "seen: cannot import 'forged' as ${spec%%:*}: $text" seen import --layout "$spec" forged -o f.seen
        refuses "seen: cannot import '-' as ${spec%%:*}: $text" \
            seen import --layout "$spec" - -o f.seen < <(cat forged)
    done <<'END'
bitsandblooms|it ends within its header|\0\0
bitsandblooms|its number of positions is 0, not from 1 to 4096|\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0
bitsandblooms|it is not JSON as the program writes it|{"m":64,"k":1,"b":"AAAA
bitsandblooms|it is not JSON as the program writes it|{"m":064,"k":1,"b":"AAAAAAAAAEAAAAAAAAAAAA=="}
bitsandblooms|its number of bits is 0, not from 1 to 2^45|{"m":0,"k":1,"b":"AAAAAAAAAAAAAA"}
bitsandblooms|its number of positions is 0, not from 1 to 4096|{"m":64,"k":0,"b":"AAAAAAAAAAAAAA"}
bitsandblooms|its set has 0 bits, for positions below 64|{"m":64,"k":1,"b":"AAAAAAAAAAAAAA"}
bitsandblooms|it has 44 bytes, but a set of 64 bits makes 45|{"m":64,"k":1,"b":"AAAAAAAAAEAAAAAAAAAAAA="}
bitsandblooms|it is not JSON as the program writes it|{"m":64,"k":1,"b":"AAAAAAAAAEAAAAAAAAAAAA=="]
bitsandblooms|it is not base64 as the program writes it|{"m":64,"k":1,"b":"AAAAAAAAAEAAAAAAAAAAAB=="}
bitsandblooms|it is not base64 as the program writes it|{"m":64,"k":1,"b":"AAAAAAAAAEAAAA+AAAAAAA=="}
bitsandblooms|it is not base64 as the program writes it|{"m":64,"k":1,"b":"AAAAAAAAAEAAAAAAAAAAAAA="}
bitsandblooms|bit 63 is set, but there are 60 bits|{"m":60,"k":1,"b":"AAAAAAAAAECAAAAAAAAAAA=="}
bitsandblooms:bits=60|it has bits=64 and k=1: leave both out|{"m":64,"k":1,"b":"AAAAAAAAAEAAAAAAAAAAAA=="}
bitsandblooms:json=no|it is JSON: leave out json=|{"m":64,"k":1,"b":"AAAAAAAAAEAAAAAAAAAAAA=="}
spark|it ends within its header|\0\0\0\1\0\0\0\1
spark|its version is 3; known are 1 and 2|\0\0\0\3\0\0\0\1\0\0\0\1\0\0\0\1
spark|its number of words is 0|\0\0\0\1\0\0\0\1\0\0\0\0
spark|its number of words is -1|\0\0\0\1\0\0\0\1\377\377\377\377
spark|its number of positions is 0, not from 1 to 4096|\0\0\0\1\0\0\0\0\0\0\0\1
spark|it has 13 bytes, but 64 bits make 20|\0\0\0\1\0\0\0\1\0\0\0\1a
spark:version=2|its version is 1: leave out version=|\0\0\0\1\0\0\0\1\0\0\0\1abcdefgh
spark:seed=5|its seed is -1: leave out seed=|\0\0\0\2\0\0\0\1\377\377\377\377\0\0\0\1abcdefgh
END
    seen create --layout redisbloom -n 10 -p 0.01 f.seen -k a
    seen export f.seen -o r
    echo >it
    refuses "seen: cannot read 'r' as redisbloom: layout redisbloom: expansion is '99999999999', but must be a number from 1 to 4294967295" \
        seen query --layout redisbloom:expansion=99999999999 r -k a
    refuses "seen: cannot read 'it' as gozero: layout gozero: bits is '4294967297', but must be a number from 1 to 4294967296" \
        seen query --layout gozero:bits=4294967297 it -k a
    refuses "seen: cannot import 'it' as redisson: Redisson cannot make a filter of more than 4294967294 bits" \
        seen import --layout redisson -n 1e12 -p 0.01 it -o g.seen
    refuses "seen: layout spark: seed is 'x', but must be an integer of 32 bits" seen create --layout spark:version=2,seed=x -k a f.seen
    refuses "seen: layout spark: seed is '-2147483649', but must be an integer of 32 bits" \
        seen create --layout spark:version=2,seed=-2147483649 -k a f.seen
    refuses "seen: layout spark: seed=S needs version=2" seen create --layout spark:seed=7 -k a f.seen
    refuses "seen: layout bitsandblooms: bits is 'x', but must be a number from 1 to 35184372088832" seen create --layout bitsandblooms:bits=x -k a f.seen
    refuses "seen: layout bitsandblooms: give both or none of bits=M and k=K" seen create --layout bitsandblooms:bits=64 -k a f.seen
}

@test "a filter of another program is asked as it is" {
    local vectors=$SOURCE/tests/vectors file folder spec keys=keys
    while read -r file folder spec keys; do
        cp "$vectors/$file" it
        chmod u+w it
        cp it before
        absent=$vectors/${folder:?}/absent.txt
        [[ $keys != longs ]] || absent=$vectors/$folder/longs_absent.txt
        given=()
        [[ $spec == auto ]] || given=(--layout "$spec")
        seen import --layout "$spec" it -o f.seen --force
        cat "$vectors/$folder/$keys.txt" "$absent" >asked
        seen query -n f.seen asked >want
        seen stats it "${given[@]}" >/dev/null 2>said
        [ ! -s said ]
        seen query -n "${given[@]}" it asked | cmp want -
        cmp it before
        # What a command makes of it is what it makes of an import.
        seen merge --max-fpr 0.9 --reproducible "${given[@]}" -o a it
        seen merge --max-fpr 0.9 --reproducible -o b f.seen
        equal "$(seen query -c a asked)" "$(wc -l <want)"
        seen compare "${given[@]}" f.seen it >/dev/null
        rm a b
    done <<END
guava/g64_utf8_n500_p03_over.guava keys auto keys
guava/g64_long_n1000_p02.guava keys guava:funnel=long longs
guavaser/gj_utf16_n800_p1.ser keys2 auto keys
guavaser/gj_long_n900_p07.ser keys2 auto longs
dcso/dc_n1000_p01.bloom keys auto keys
dcso/dc_n1000_p01.bloom.gz keys auto keys
bitsandblooms/bb_n1000_p01.bloom keys2 auto keys
bitsandblooms/bb_json_n1000_p1.json keys2 auto keys
spark/sp1_str_n1000_p03.spark keys2 auto keys
spark/sp2_str_n1000_p03.spark keys2 auto keys
spark/sp1_long_n1000_p05.spark keys2 spark:type=long longs
gozero/gz_bits13007.bitmap keys gozero:bits=13007 keys
redisson/rs_string_n1000_p01.bitmap keys redisson:bits=9585,k=7 keys
END
}

@test "a filter as it is: two files, notes, its copy, and what is refused" {
    local keys=$SOURCE/tests/vectors/keys/keys.txt file
    golden redisbloom/rb_scale_e05_n100.header >visits.header
    golden redisbloom/rb_scale_e05_n100.data >visits.data
    for file in visits visits.header visits.data; do
        [ "$(seen query -c $file "$keys")" = 1000 ]
    done
    refuses "seen: cannot open '-.header': No such file or directory" \
        seen import --layout redisbloom - -o f.seen </dev/null
    refuses "seen: cannot import 'visits' as redisbloom: it was made with scaling=yes" \
        seen import --layout redisbloom:scaling=no visits -o f.seen
    # Any other two files with these suffixes are none.
    : >none.header
    cp visits.data none.data
    refuses "seen: cannot open 'none': No such file or directory" seen stats none
    refuses "seen: cannot open 'none': No such file or directory" seen query none -k 1
    golden dcso/dc_n1000_p01.bloom >it
    run -0 --separate-stderr seen query --verbose -q it "$keys"
    [[ ${stderr_lines[0]} == "seen: note: 'it' is taken for dcso:gzip=no" ]]
    run -0 --separate-stderr seen merge --verbose -o m.seen it it
    [ "$(grep -c "is taken for dcso" <<<"$stderr")" = 2 ]
    quiet seen merge -o chains.seen visits visits
    [ "$(seen query -c chains.seen "$keys")" = 1000 ]
    refuses "seen: 'chains.seen' exists (--force replaces it)" seen merge -o chains.seen visits visits
    refuses 'seen: no output file given (-o OUT)' seen merge visits visits
    seen import --layout dcso it -o f.seen
    [ "$(seen query --also it -c f.seen "$keys")" = 1000 ]
    equal "$(seq 9 | seen dedup --also it f.seen)" "$(seq 9 | seen query -v it)"
    seen create --like it like.seen -k a
    [[ $(seen stats like.seen) == *'dcso:gzip=no'* ]]
    # Keys may be prepared, as an import may say.
    golden guava/g64_bytes_n1000_p01.guava >bytes
    [ "$(head -n 1 "$keys" | tr -d '\n' | od -An -tx1 | tr -d ' \n' |
        seen query --hex --layout guava:funnel=bytes bytes -c -)" = 1 ]
    # A file that is neither, and what --layout is not for.
    golden gozero/gz_bits13007.bitmap >bitmap
    rejects "seen: 'bitmap' is not a seen filter*" seen query bitmap -k a
    refuses "seen: cannot read 'bitmap' as gozero: bit 12001 is set, but there are 12000 bits" \
        seen query --layout gozero:bits=12000 bitmap -k a
    refuses "seen: 'it' looks like one of dcso, not of guava" seen stats --layout guava it
    refuses "seen: 'like.seen' is a filter of seen, not of layout guava: --layout is for other programs' files" \
        seen query --layout guava like.seen -k a
    quiet seen query --layout dcso -q like.seen -k a
    rejects "seen: no layout 'guave': *" seen stats --layout guave it
    refuses 'seen: a filter is a file, and cannot come from standard input' seen stats --layout dcso - <it
    head -c 1000 it >part
    rejects "seen: 'part' is not a seen filter*" seen query part -k a
}

@test "a filter as it is: stats has the size of its own files" {
    local file
    golden redisbloom/rb_scale_e05_n100.header >chain.header
    golden redisbloom/rb_scale_e05_n100.data >chain.data
    for file in guava/g64_utf8_n500_p03_over.guava guavaser/gj_utf8_n1000_p02.ser dcso/dc_n1000_p01.bloom \
        dcso/dc_n1000_p01.bloom.gz bitsandblooms/bb_json_n1000_p1.json spark/sp2_str_n1000_p03.spark; do
        golden $file >it
        seen stats --json it | jq -e ".bytes == $(size it) and
            (.bits_per_key - 8 * .bytes / .n_estimate | fabs) < 1e-6"
    done
    seen stats --json chain | jq -e ".bytes == $(($(size chain.header) + $(size chain.data)))"
    equal "$(seen stats --prometheus it | grep '^seen_filter_size_bytes')" \
        "seen_filter_size_bytes{file=\"it\"} $(size it)"
    says '^file size +936 B, 7.47 bits a key +exact$' seen stats it
}

@test "a filter is recognised by its whole content, however long" {
    local command
    seq 9000 >keys
    seen create --layout bitsandblooms:json=yes -p 0.01 f.seen keys
    seen export f.seen -o long.json
    [ "$(size long.json)" -gt 9000 ]
    [ "$(seen query -c long.json keys)" = 9000 ]
    for command in 'verify F' 'add F keys' 'dedup F -k a' 'export F -o out'; do
        # shellcheck disable=SC2086
        run -2 --separate-stderr seen ${command/F/long.json}
        [[ $stderr == *": it looks like one of bitsandblooms; "*"seen import --layout bitsandblooms long.json -o FILTER" ]]
    done
    golden spark/sp1_str_n1000_p03.spark >it
    refuses "seen: 'it' is not a seen filter: it looks like one of spark; its own program adds to it, or seen import \
--layout spark it -o FILTER" seen add it keys
}

@test "import --base64: a column of text" {
    local file
    golden spark/sp2_str_n1000_p03.spark >it
    base64 it >lines
    base64 -w 0 it >one
    sed 's/$/\r/' lines >crlf
    sed G lines >spaced
    base64 -w 4 it | head -c -1 >even
    for file in lines one crlf spaced even; do
        quiet seen import --force --base64 --layout spark $file -o f.seen
        seen export f.seen -o - | cmp - it
        run -0 --separate-stderr seen import --force --base64 --layout auto $file -o f.seen
        [ "$stderr" = "seen: note: '$file' is taken for spark:type=string,version=2" ]
    done
    # It is undone for any layout, and for both files of one.
    base64 "$SOURCE/tests/vectors/redisbloom/rb_e01_n1000.header" >chain.header
    base64 "$SOURCE/tests/vectors/redisbloom/rb_e01_n1000.data" >chain.data
    quiet seen import --base64 --layout redisbloom chain -o g.seen
    seen export g.seen -o out
    cmp out.data "$SOURCE/tests/vectors/redisbloom/rb_e01_n1000.data"
    rm f.seen
    (printf 'QQ==\n'; cat one) >two
    (cat one; printf '\0') >nul
    (cat one; echo A) >odd
    for file in two nul odd it; do
        refuses "seen: '$file' is not one filter in base64 with padding (RFC 4648); 'sed -n 1p' takes the first of several lines" \
            seen import --base64 --layout spark $file -o f.seen
    done
    refuses "seen: cannot read '.': Is a directory" seen import --base64 --layout spark . -o f.seen
    head -c 700 one >part
    rejects "seen: cannot import 'part' as spark: it has 525 bytes, *" \
        seen import --base64 --layout spark part -o f.seen
    printf ' \n' >blank
    refuses "seen: cannot import 'blank' as spark: it ends within its header" \
        seen import --base64 --layout spark blank -o f.seen
    refuses "seen: --base64 needs a file with text: 'base64 -d' decodes what a pipe has" \
        seen import --base64 --layout spark - -o f.seen < <(cat one)
    refuses "seen: cannot import 'one' as spark: it is base64, which 'seen import --base64' reads" \
        seen import --layout spark one -o f.seen
    refuses "seen: cannot read 'one' as spark: it is base64, which 'seen import --base64' reads" \
        seen stats --layout spark one
    # Two rows of a column, without padding: a filter of dcso may have bytes behind it.
    golden dcso/dc_n1000_p01.bloom >bloom
    base64 bloom >lines
    (base64 -w 0 bloom; echo) >one
    wide=", or of one on lines of over 76 characters: give one, on one line"
    sed 's/$/\r/' one >crlf
    for file in lines one crlf; do
        cat $file $file >rows
        refuses "seen: 'rows' is the base64 of several filters$wide" \
            seen import --base64 --layout dcso rows -o f.seen
    done
    cat one lines >rows
    refuses "seen: 'rows' is the base64 of several filters$wide" \
        seen import --base64 --layout dcso rows -o f.seen
    # A short row, and one that ends the file.
    seen create --layout dcso -n 4 -p 0.5 tiny.seen -k a
    (seen export tiny.seen -o -; printf u) >tiny
    [ "$(stat -c %s tiny)" = 57 ]
    (base64 -w 0 tiny; echo; cat one) >rows
    refuses "seen: 'rows' is the base64 of several filters$wide" \
        seen import --base64 --layout dcso rows -o f.seen
    base64 -w 100 bloom >rows
    refuses "seen: 'rows' is the base64 of several filters$wide" \
        seen import --base64 --layout dcso rows -o f.seen
    # What a text stands for is named, with what can be done to the text.
    gzip -c bloom | base64 -w 0 >packed
    for layout in dcso auto; do
        refuses "seen: 'packed' is gzip data in base64: 'base64 -d' decodes it" \
            seen import --base64 --layout $layout packed -o f.seen
    done
    [ ! -e f.seen ]
    base64 -d packed | quiet seen import --layout dcso - -o f.seen
}

@test "spark: a seed is kept, and -5 is 4294967291" {
    seq 1000 >keys
    seen create --layout spark:version=2,seed=-5 -p 0.01 f.seen keys
    seen export f.seen -o out
    [ "$(od -An -tx1 -N16 out | tr -d ' ')" = 0000000200000007fffffffb00000096 ]
    run -0 --separate-stderr seen import --layout auto out -o g.seen
    [ "$stderr" = "seen: note: 'out' is taken for spark:type=string,version=2,seed=4294967291" ]
    [ "$(seen query -c g.seen keys)" = 1000 ]
    quiet seen import --layout spark:seed=4294967291 out -o h.seen
}

@test "a file of which a part cannot be written is none" {
    need_preload
    local spec file n to
    printf '%s\n' 1 2 3 >positions.bits
    golden dcso/dc_data.bloom >noted
    golden guavaser/gj_utf8_n1000_p02.ser | LC_ALL=C sed 's/Funnels.StringCharset/Funnels.WidgetCharset/' >own
    golden bitsandblooms/bb_fromwithm_m9001_k5.bloom >longer
    golden redisbloom/rb_scale_e05_n100.header >chain.header
    golden redisbloom/rb_scale_e05_n100.data >chain.data
    for spec in guava guava:serialized=yes bitsandblooms:json=no bitsandblooms:json=yes spark:version=1 \
        spark:version=2 dcso:gzip=yes redisbloom guava:funnel=bytes+own bitsandblooms+longer redisbloom+chain \
        dcso+noted php+positions.bits; do
        if [[ $spec == *+* ]]; then
            quiet seen import --force --layout "${spec%+*}" "${spec#*+}" -o f.seen
        else
            seq 1000 | seen create --force --layout "$spec" -p 0.01 f.seen
        fi
        to=out
        [[ $spec != *.bits ]] || to+=.bits # a list of positions
        quiet seen export --force f.seen -o "whole${to#out}"
        for ((n = 1; n < 20; n++)); do
            rm -f out*
            status=0
            failing pwritev:$n:ENOSPC seen export f.seen -o $to 2>err || status=$?
            [ $status != 0 ] || break
            [ $status = 2 ]
            grep -q 'No space left on device' err
            [ ! -e $to ]
            [ ! -e out.header ]
        done
        [ $n -gt 1 ]
        for file in out*; do
            cmp "$file" "whole${file#out}"
        done
    done
}

@test "a file that may have changed while it was read is not imported" {
    need_preload
    local option n file
    option=()
    seq 100 | seen create --layout guava -n 100 -p 0.01 f.seen
    seen export f.seen -o plain
    base64 -w 0 plain >text
    for file in plain text; do
        [ $file = plain ] || option=(--base64)
        for ((n = 1; n < 20; n++)); do
            failing fstat:$n:EIO seen import "${option[@]}" --layout guava $file -o $file.$n 2>>err ||
                [ ! -e $file.$n ]
        done
        grep -qx "seen: '$file' was changed while it was read, or the disk failed" err
        [ "$(grep -cx "seen: cannot read '$file': Input/output error" err)" = 2 ]
    done
}

@test "bitsandblooms: what FromWithM has beyond m stays" {
    golden bitsandblooms/bb_fromwithm_m9001_k5.bloom >longer
    seen import --layout bitsandblooms longer -o f.seen
    seq 100 | seen add f.seen
    seen export f.seen -o out
    cmp -n 24 longer out
    equal "$(size out)" "$(size longer)"
    seq 10 | seen create --layout bitsandblooms:bits=9001,k=5 g.seen
    seen merge -o h.seen f.seen g.seen
    seen export h.seen -o out --force
    cmp -n 24 longer out
    seen verify h.seen
}

@test "gozero: the number of bits must be given, and bits behind it are refused" {
    golden gozero/gz_bits13007.bitmap >bitmap
    declined seen import --layout gozero bitmap -o f.seen
    declined seen import --layout gozero:bits=12000 bitmap -o f.seen
    refuses "seen: cannot import 'bitmap' as gozero: all 8610 set bits are among the first 13008 of 20000: \
the filter was made with fewer bits ('seen import --force' imports it)" \
        seen import --layout gozero:bits=20000 bitmap -o f.seen
    (cat bitmap; printf '\0') >longer
    quiet seen import --layout gozero:bits=13007 longer -o f.seen
    seen export f.seen -o - | cmp bitmap -
    quiet seen import --layout gozero:bits=13020 bitmap -o f.seen --force
    quiet seen import --force --layout gozero:bits=20000 bitmap -o f.seen
    quiet seen export f.seen -o out
    cmp bitmap out
}

@test "redisson: bits and k, or -n and -p, must be given" {
    golden redisson/rs_string_n1000_p01.bitmap >bitmap
    declined seen import --layout redisson bitmap -o f.seen
    declined seen import --layout redisson:bits=9000,k=7 bitmap -o f.seen
    rejects "seen: *: the filter was made with fewer bits ('seen import --force' imports it)" \
        seen import --layout redisson -n 2000 -p 0.01 bitmap -o f.seen
    quiet seen import --layout redisson -n 1000 -p 0.01 bitmap -o f.seen
    [ "$(seen query -c f.seen "$SOURCE/tests/vectors/keys/keys.txt")" = 1000 ]
    quiet seen export f.seen -o out
    cmp bitmap out
}

@test "a bitmap that is empty is an empty filter, and --pad writes all bytes" {
    : >bitmap
    quiet seen import --layout gozero:bits=13007 bitmap -o f.seen
    [ "$(seen query -k a -c f.seen || true)" = 0 ]
    quiet seen export f.seen -o out
    [ "$(size out)" = 0 ]
    quiet seen export --pad f.seen -o out --force
    [ "$(size out)" = 1626 ]
    cmp -n 1626 out /dev/zero
}

@test "dcso: gzip is told by the content" {
    golden dcso/dc_n1000_p01.bloom.gz >packed
    quiet seen import --layout dcso packed -o f.seen
    quiet seen export f.seen -o out
    gzip -dc out | cmp - "$SOURCE/tests/vectors/dcso/dc_n1000_p01.bloom"
    # Of a large one the beginning is enough.
    golden dcso/dc_n50000_p0001.bloom.gz >large
    run -0 --separate-stderr seen import --layout auto large -o g.seen
    [ "$stderr" = "seen: note: 'large' is taken for dcso:gzip=yes" ]
}

@test "a Parquet file is named, with the tools that ask it" {
    printf 'PAR1\25some pagesPAR1' >data.parquet
    for layout in auto gozero:bits=1000 guava; do
        refuses "seen: 'data.parquet' is a Parquet file: DuckDB and parquet-cli ask its Bloom filters" \
            seen import --layout $layout data.parquet -o f.seen
    done
    refuses "seen: 'data.parquet' is not a seen filter: it is a Parquet file; duckdb -list -noheader -c \"SELECT column FROM 'FILE'\" | seen ...; DuckDB also asks the Bloom filters in such files" \
        seen query data.parquet -k a
    # A bitmap may begin so.
    printf PAR1 >bitmap
    printf 'PAR1\1' >>bitmap
    quiet seen import --layout gozero:bits=72 bitmap -o f.seen
}

@test "a filter of another program, or of an older one, is named with the command that takes it over" {
    local command file layout others
    seq 9 >keys
    seen create f.seen keys
    for layout in guava dcso redisbloom; do
        seen create --layout $layout $layout.seen keys
        seen export $layout.seen -o $layout
    done
    for command in 'verify F' 'export F -o out' 'add F keys' 'dedup F keys'; do
        for file in guava dcso redisbloom.header; do
            layout=${file%.header}
            others=
            [[ $command != *keys ]] || others="its own program adds to it, or "
            # shellcheck disable=SC2086
            refuses "seen: '$file' is not a seen filter: it looks like one of $layout; ${others}seen import --layout \
$layout $file -o FILTER" seen ${command/F/$file}
        done
    done
    # Either name of the two, or none.
    for command in verify add 'dedup -k 1' 'export -o out'; do
        others="its own program adds to it, or "
        case $command in verify | export*) others= ;; esac
        # shellcheck disable=SC2086
        refuses "seen: there is no 'redisbloom', but 'redisbloom.header': ${others}seen import --layout redisbloom \
redisbloom -o FILTER" seen $command redisbloom
    done
    # What an import would not help is said at once.
    gzip -k dcso
    for file in guava dcso.gz redisbloom; do
        layout=${file%.gz}
        refuses "seen: '$file' is of kind $layout, which cannot be folded" seen shrink $file -o out
        [ $file != redisbloom ] || refuses "seen: '$file' is of kind $layout, which cannot be folded" seen shrink $file
        refuses "seen: '$file' is of kind $layout, which has not kept the hashes of its keys; 'seen create --counted --fpr 0' makes a set that does" \
            seen create --from $file out
        refuses "seen: '$file' has no generations, so it cannot be rotated; 'seen create --generations' makes filters that can be" \
            seen rotate $file
        refuses "seen: '$file' is not a counted set: its keys share bits, so none can be removed without others; 'seen create --counted' makes sets from which keys can be removed" \
            seen remove $file -k 1
    done
    for command in verify 'export -o out' add; do
        # shellcheck disable=SC2086
        refuses "seen: 'dcso.gz' is not a seen filter: it is gzip data; gzip -dc dcso.gz >NEW unpacks it" \
            seen $command dcso.gz
    done
    gzip -dc dcso.gz | cmp - dcso
    # Nor are they lists.
    seen create --layout bitsandblooms:json=yes json.seen keys
    seen export json.seen -o json
    refuses "seen: 'json' is a BloomFilter of bits-and-blooms, not a list of keys: 'seen import --layout bitsandblooms' reads it" \
        seen create out json
    quiet seen create --jsonl -f .b new - <<<'{"m":1,"k":2,"b":"x"}'
    refuses "seen: 'redisbloom.header' is binary data, not lines: -0 if its records end in NUL, --no-gzip to take it as it is" \
        seen create out redisbloom.header
    for file in redisbloom.header redisbloom.data redisbloom; do
        quiet seen import --force --layout redisbloom $file -o new
    done
    # Their headers begin as those of poppy do: with a 2.
    for n in 2 258; do
        seq $n | quiet seen create --force --layout redisbloom few
        quiet seen export --force few -o few
        for layout in auto redisbloom; do
            run -0 seen import --force --layout $layout few -o new
        done
    done
    python3 - <<'END'
import struct
open('poppy', 'wb').write(struct.pack('<BBHIQdQ', 2, 1, 0, 0, 10000, 0.01, 7) + bytes(4000))
open('old', 'wb').write(struct.pack('<IdIII', 10000, 0.01, 7, 95850, 5) + bytes(95850 // 64 * 8 + 8))
END
    poppy="a filter of poppy, version 2%s 'poppy create --version 1' makes what 'seen import --layout dcso' reads"
    # shellcheck disable=SC2059 # the format is one of ours
    for layout in auto guava dcso; do
        refuses "seen: 'poppy' is $(printf "$poppy" :)" seen import --layout $layout poppy -o out
    done
    # shellcheck disable=SC2059
    refuses "seen: 'poppy' is not a seen filter: it is $(printf "$poppy" ';')" seen query poppy keys
    # shellcheck disable=SC2059
    refuses "seen: 'poppy' is $(printf "$poppy" ', not a list of keys:')" seen create out poppy
    refuses "seen: cannot import 'old' as dcso: its first byte is 16, not 1; files of releases before 0.2.2 have another hash function and must be made again" \
        seen import --layout dcso old -o out
    refuses "seen: the layout of 'old' cannot be recognised by its content: give --layout" seen import --layout auto old -o out
    for layout in auto gozero:bits=1000000 guava; do
        refuses "seen: 'f.seen' is a seen filter already; 'seen export' writes another program's" \
            seen import --layout $layout f.seen -o out
    done
    gzip -c f.seen >f.gz
    refuses "seen: 'f.gz' is not a seen filter: it is gzip data; gzip -dc f.gz >NEW unpacks it" seen query f.gz keys
    cp keys text.header
    cp keys text.data
    refuses "seen: cannot import 'text' as redisbloom: its header is not what BF.SCANDUMP gives for the \
iterator 0: seen(7) has the commands that write one" seen import --layout redisbloom text -o out
}

@test "bytes behind a filter: how they are dropped" {
    golden gozero/gz_bits13007.bitmap >bitmap
    echo >>bitmap
    refuses "seen: cannot import 'bitmap' as gozero: redis-cli wrote a newline after it: 'head -c 1626' drops that" \
        seen import --layout gozero:bits=13007 bitmap -o f.seen
    quiet seen import --layout gozero:bits=13007 - -o f.seen < <(head -c 1626 bitmap)
    seen create --layout guava -n 1000 g.seen -k a
    seen export g.seen -o guava
    echo >>guava
    refuses "seen: cannot import 'guava' as guava: 1 bytes follow its bits: 'head -c 926' drops them" \
        seen import --layout guava guava -o h.seen
    refuses "seen: 'standard input' has more than 926 bytes, the length of such a filter: 'head -c 926' drops what follows" \
        seen import --layout guava - -o h.seen < <(cat guava)
    quiet seen import --layout guava - -o h.seen < <(head -c 926 guava)
    seen export --force h.seen -o guava
}

@test "a content that contradicts the layout is refused, but for a bitmap with --force" {
    local layout file
    for layout in guava dcso; do
        seq 1000 | seen create --layout $layout $layout.seen
        seen export $layout.seen -o $layout
    done
    for layout in php gozero:bits=20000 redisson:bits=20000,k=4 gozero; do
        refuses "seen: 'guava' looks like one of guava, not of ${layout%:*} ('seen import --force' imports it)" \
            seen import --layout $layout guava -o i.seen
    done
    # merge has another --force.
    refuses "seen: 'guava' looks like one of guava, not of php ('seen import --force' imports it)" \
        seen merge --force --layout php guava -o i.seen
    refuses "seen: 'standard input' looks like one of dcso, not of php ('seen import --force' imports it)" \
        seen import --layout php - -o i.seen <dcso
    refuses "seen: 'guava' looks like one of guava, not of dcso" seen import --layout dcso guava -o i.seen
    gzip -k guava
    refuses "seen: 'guava.gz' is gzip data: gzip -dc FILE | seen ... ('seen import --force' imports it)" \
        seen import --layout php guava.gz -o i.seen
    refuses "seen: 'guava.gz' is gzip data: gzip -dc FILE | seen ..." \
        seen import --layout guava guava.gz -o i.seen
    [ ! -e i.seen ]
    quiet seen import --layout php --force guava -o i.seen
    seen export i.seen -o out
    cmp guava out
    # What no other layout has is a bitmap.
    seq 1000 | seen create --layout gozero:bits=20000 g.seen
    seen export g.seen -o bits
    quiet seen import --layout gozero:bits=20000 bits -o i2.seen
}

# java CLASS: the beginning of what Java serializes.
java() { printf '\254\355\0\5sr\0%b%s\1\2\3' "\\0$(printf %o ${#1})" "$1"; }

@test "filters that Java serialized are named with a way out" {
    java org.apache.spark.util.sketch.BloomFilterImpl >java1
    java java.util.BitSet >java3
    while IFS='|' read -r file what way; do
        refuses "seen: '$file' is $what: $way" seen import --layout guava "$file" -o i.seen
        refuses "seen: '$file' is $what: $way" seen import --layout auto "$file" -o i.seen
        refuses "seen: '$file' is $what: $way ('seen import --force' imports it)" seen import --layout php "$file" -o i.seen
        refuses "seen: '$file' is $what, not a list of keys: $way" seen create i.seen "$file"
        refuses "seen: '$file' is not a seen filter: it is $what; $way" seen query "$file" -k a
    done <<END
java1|a BloomFilter of Spark in Java's serialization|its writeTo() writes what 'seen import --layout spark' reads
java3|a serialized Java object|if it has a BloomFilter of Guava, its writeTo() writes what 'seen import --layout guava' reads
END
}

@test "dcso: gzip data must be whole and alone; members follow each other" {
    golden dcso/dc_n1000_p01.bloom.gz >packed
    for len in 4 20 60 600 $(($(size packed) - 1)); do
        head -c "$len" packed >part
        refuses "seen: 'part' is truncated gzip data" seen import --layout dcso part -o f.seen
    done
    (cat packed; printf x) >longer
    refuses "seen: 'longer' has other data after its gzip data" seen import --layout dcso longer -o f.seen
    refuses "seen: 'standard input' has other data after its gzip data" \
        seen import --layout dcso - -o f.seen < <(cat longer)
    cp packed damaged
    poke damaged $(($(size packed) - 8)) 00
    refuses "seen: 'damaged' is damaged gzip data: incorrect data check" \
        seen import --layout dcso damaged -o f.seen
    [ ! -e f.seen ]
    # Go's reader, too, goes on with a second member.
    bloom=$SOURCE/tests/vectors/dcso/dc_n1000_p01.bloom
    (head -c 100 "$bloom" | gzip; tail -c +101 "$bloom" | gzip) >members
    quiet seen import --layout dcso --reproducible members -o f.seen
    seen import --layout auto --reproducible members -o g.seen
    seen export f.seen -o - | gzip -dc | cmp - "$bloom"
    cmp f.seen g.seen
}

@test "dcso: inflating stops where the header says, and 16 MiB of user data later" {
    python3 - <<'END'
import gzip, struct
head = struct.pack('<QQdQQQ', 1, 100, 0.01, 7, 1000, 0) + bytes(128)
for name, more in ('most', 16 << 20), ('bomb', (16 << 20) + 1):
    open(name, 'wb').write(gzip.compress(head + bytes(more), 1))
# Blocks with no byte in them.
open('blocks', 'wb').write(gzip.compress(b'')[:10] + b'\0\0\0\xff\xff' * 100000)
END
    quiet seen import --layout dcso most -o f.seen
    most=$((48 + 128 + (16 << 20)))
    refuses "seen: 'bomb' has more than $most bytes, the length of such a filter: 'head -c $most' drops what follows" \
        seen import --layout dcso bomb -o g.seen
    refuses "seen: 'standard input' has more than $most bytes, the length of such a filter: 'head -c $most' drops what follows" \
        seen import --layout dcso - -o g.seen < <(cat most bomb)
    refuses "seen: 'blocks' goes on after 139264 bytes, more than its contents take" \
        seen import --layout dcso blocks -o g.seen
    # Padding without an end. The limit is for a program that goes on.
    (
        ulimit -t 20
        run -2 --separate-stderr seen import --layout dcso - -o g.seen < <(cat most - </dev/zero)
        [[ $stderr == "seen: 'standard input' goes on after "*" bytes, more than its contents take" ]]
    )
    [ ! -e g.seen ]
}

@test "dcso: a large compressed filter takes no memory" {
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer needs more memory'
    seen create --empty --layout dcso:gzip=yes -n 100M -p 0.01 f.seen
    seen export f.seen -o foreign
    [ "$(size foreign)" -lt $((1 << 20)) ]
    (
        ulimit -d 65536 # KiB
        quiet seen import -j1 --layout dcso foreign -o g.seen
    )
    [ "$(size g.seen)" -gt $((100 << 20)) ]
}

@test "a pipe without an end, and bytes behind the bits" {
    refuses "seen: 'standard input' has more than 128 bytes, the length of such a filter: 'head -c 128' drops what follows" \
        seen import --layout gozero:bits=1000 - -o f.seen </dev/zero
    head -c 129 /dev/zero >long
    refuses "seen: cannot import 'long' as gozero: it has 129 bytes, more than 1000 bits take" \
        seen import --layout gozero:bits=1000 long -o f.seen
    [ ! -e f.seen ]
    # Where the header tells the length.
    for layout in guava dcso; do
        seq 100000 | quiet seen create --force --layout $layout -n 100k f.seen
        seen export --force f.seen -o foreign
        most=$(size foreign)
        if [ $layout = dcso ]; then most=$((most + (16 << 20))); fi # what a user may append
        refuses "seen: 'standard input' has more than $most bytes, the length of such a filter: 'head -c $most' drops what follows" \
            seen import --layout $layout - -o g.seen < <(cat foreign /dev/zero)
        quiet seen import --force --layout $layout - -o g.seen < <(cat foreign)
        seen export g.seen -o - | cmp - foreign
        rm g.seen
    done
    # Where it is not valid.
    for layout in guava dcso; do
        run -2 --separate-stderr seen import --layout $layout - -o g.seen </dev/zero
        [[ $stderr == "seen: cannot import '-' as $layout: "* ]]
    done
    [ ! -e g.seen ]
}

@test "bytes behind a filter whose header tells its length" {
    seq 100 | quiet seen create --layout guava -n 100 f.seen
    seen export f.seen -o foreign
    # A pipe that never ends is read as far as the header claims. The limit is for a program that goes on.
    (
        ulimit -f 100000
        refuses "seen: 'standard input' has more than $(size foreign) bytes, the length of such a filter: 'head -c $(size foreign)' drops what follows" \
            seen import --layout guava - -o g.seen < <(cat foreign - </dev/zero)
    )
    printf junk >>foreign
    refuses "seen: cannot import 'foreign' as guava: 4 bytes follow its bits: 'head -c $(($(size foreign) - 4))' drops them" \
        seen import --layout guava foreign -o g.seen
}

@test "a large filter from a pipe takes no memory" {
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer needs more memory'
    seen create --empty --layout guava -n 100M -p 0.01 f.seen
    seen export f.seen -o foreign
    [ "$(size foreign)" -gt $((100 << 20)) ]
    (
        ulimit -d 65536 # KiB
        quiet seen import -j1 --layout guava - -o g.seen < <(cat foreign)
    )
    seen export g.seen -o - | cmp - foreign
}
