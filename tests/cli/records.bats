#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --csv and --jsonl: what the key is, what is printed, and what is refused.
# shellcheck disable=SC2094 # cmp reads what is expected

load ../lib/helpers

@test "the key of CSV is a value, and the record's own bytes are printed below the names" {
    printf '\xef\xbb\xbfid,url,"the note"\r\n1,http://a,"x, ""y"""\r\n2,"http://b","two\nlines"\n\n3,http://c,z' >a.csv
    printf 'url,id\n"http://b",9\nhttp://d,10\n' >b.csv
    seen create --csv -f url f a.csv
    seen query --csv -f url f a.csv | cmp - <(grep -v '^$' a.csv)
    equal "$(seen query --csv -f url f b.csv)" $'url,id\n"http://b",9'
    equal "$(seen query -v --csv -f url f b.csv)" $'url,id\nhttp://d,10'
    equal "$(seen query -c --csv -f url f a.csv b.csv)" 4
    quiet seen query -q --csv -f url f b.csv
    equal "$(seen query --annotate --csv -f url f b.csv)" $'#\turl,id\n+\t"http://b",9\n-\thttp://d,10'
    equal "$(printf 'url\n\nhttp://a\n' | seen query -n --annotate --csv f)" $'#\turl\n2:?\t\n3:+\thttp://a'
    # A mark alone is no name.
    printf '\xef\xbb\xbf\nurl\nhttp://a\n' >marked.csv
    refuses "seen: 'marked.csv' begins with a byte order mark on a line of its own: leave out that line" \
        seen create --csv g marked.csv
    # The names alone, if nothing is found.
    run -1 seen query --csv -f id f b.csv
    equal "$output" url,id
    seen query -c f -k http://a
    [[ $(seen stats --all f) == *'records of CSV, -f url '* ]]
    reader verify f
    # Several columns are one record: these differ.
    printf 'a,b\n"x,y",z\nx,"y,z"\n"x,y","z"\n' | seen dedup --csv -f a,b | cmp - <(printf 'a,b\n"x,y",z\nx,"y,z"\n')
    printf 'a,b\n1,2\n1,3\n"1",2\n' | seen dedup --csv -f 0 | cmp - <(printf 'a,b\n1,2\n1,3\n')
    # They are joined by the delimiter, as fields of lines are.
    seen create g -k b,c -k c,a
    printf '1,2,3\na,b,c\n' | seen query --csv -f 2,3 g | cmp - <(printf '1,2,3\na,b,c\n')
    printf '1,2,3\na,b,c\n' | seen query --csv -f 3,1 g | cmp - <(printf '1,2,3\na,b,c\n')
    # A single one is its value, also where -f does not name it.
    printf 'name\n"Doe, J"\n' >list.csv
    printf 'id,name\n1,"Doe, J"\n' >table.csv
    seen create --csv h list.csv
    seen query --csv -f name h table.csv | cmp - table.csv
    seen query --csv -f 2- h table.csv | cmp - table.csv
    printf 'a;b\n1;2\n1;"2"\n' | seen dedup --csv -d';' | cmp - <(printf 'a;b\n1;2\n')
    printf '1,2\n1,3\n2,3\n' | seen dedup --csv --no-header -f 1 | cmp - <(printf '1,2\n2,3\n')
    printf ',2\n,2\n1,3\n' | seen dedup --csv --no-header -f 2 | cmp - <(printf ',2\n1,3\n')
    printf 'a,2024\n1,2\n' | seen dedup --csv -f '"2024"' | cmp - <(printf 'a,2024\n1,2\n')
}

@test "names of columns that are written wrong are refused" {
    while IFS='|' read -r list message; do
        refuses "seen: option '--field': '$list': $message" seen dedup --csv -f "$list" </dev/null
    done <<'TABLE'
"a"b|a quote is not closed
"a|a quote is not closed
"|a quote is not closed
TABLE
    refuses "seen: option '--field': with --no-header, columns have numbers only, not the name 'b'" \
        seen dedup --csv --no-header -f 1,b
    refuses "seen: option '--delimiter': no quote and no line's end can separate fields of CSV" seen dedup --csv -d '"'
}

@test "CSV that breaks its rule, or has not these columns, is refused" {
    while IFS='|' read -r text message; do
        run -2 --separate-stderr seen dedup --csv -f url <<<"$(printf '%b' "$text")"
        equal "$stderr" "seen: $message"
    done <<'TABLE'
id,url\n1,5" pipe|(standard input):2: a quote stands in column 2, which does not begin with one (without --csv, -d and -f take quotes as text)
id,url\n1,"a"b\n|(standard input):2: text follows the closing quote of column 2 (without --csv, -d and -f take quotes as text)
id,url\n1,"a\n2,b\n|(standard input):2: the quote that opens column 2 is never closed (without --csv, -d and -f take quotes as text)
"i\nd",url\n1,"a"b\n|(standard input):3: text follows the closing quote of column 2 (without --csv, -d and -f take quotes as text)
id,url\n1,"a\n2,b\n3,"y"\n|(standard input):2: the quote that opens column 2 meets, 2 lines below, one that closes no field (without --csv, -d and -f take quotes as text)
url,a,b\nx,y,"z\nx,y,z\n|(standard input):2: the quote that opens column 3 is never closed (without --csv, -d and -f take quotes as text)
url,a,b\nx,y,z\nx,y,"z\nx,"y",z\n|(standard input):3: the quote that opens column 3 meets, 1 line below, one that closes no field (without --csv, -d and -f take quotes as text)
id,url\n1,2\n3\n4\n5,6\n|(standard input):3: has 1 column, not 2 (--skip-bad skips such records)
id,url\n1,a\rb\n|(standard input):2: a CR that no newline follows stands in column 2
id,url\n1,"a"\rb\n|(standard input):2: a CR that no newline follows stands in column 2
id,url\n1,"a\nb"\rc\n|(standard input):2: the quote that opens column 2 meets, 1 line below, one that closes no field (without --csv, -d and -f take quotes as text)
id,url\n"1\n2",x\n3\n|(standard input):4: has 1 column, not 2 (--skip-bad skips such records)
id,url\n1,\n|(standard input):2: the columns of the key are empty (--skip-bad skips such records)
id,link\n1,2\n|'(standard input)' has no column 'url'; its columns are 'id', 'link'
url,url\n1,2\n|'(standard input)' has two columns 'url', 1 and 2 (-f 1 takes the first)
url,"a" "b"\n1,2\n|'(standard input)' has a quote at a wrong place in its first record (without --csv, -d and -f take quotes as text)
url,"a\n1,2\n|'(standard input)' has a quote at a wrong place in its first record (without --csv, -d and -f take quotes as text)
url,id\r1,2\r|'(standard input)' has CRs alone in its first record: tr '\r' '\n' <FILE | seen ... makes lines of it
id;url\n1;2\n|'(standard input)' has no column 'url'; its columns are 'id;url'; is it separated by ';' (-d';')?
id\turl\n1\t2\n|'(standard input)' has no column 'url'; its columns are 'id\turl'; is it separated by TABs (-d$'\t')?
"id";"the\nurl"\n1;2\n|'(standard input)' is separated by ';', it seems (-d';')
"id"\t"url"\n|'(standard input)' is separated by TABs, it seems (-d$'\t')
TABLE
    refuses 'seen: (standard input):3: is longer than half of --memory (4.00 MiB): is a quote not closed?' \
        seen create --memory 8M --csv -f url f < <(printf 'url\n1\n"' && head -c 5000000 /dev/zero | tr "\\0" x)
    run -2 --separate-stderr seen dedup --csv -f 2 <<<'id;url'
    equal "$stderr" "seen: '(standard input)' has 1 column, no column 2; is it separated by ';' (-d';')?"
    # The first record may be as short as the blank lines that are passed over.
    run -2 --separate-stderr seen dedup --csv --no-header -f 1 < <(printf '\n\r\nx\na,b\n')
    equal "$output" x
    equal "$stderr" "seen: (standard input):4: has 2 columns, not 1 (--skip-bad skips such records)"
    printf 'id\turl\n1\t2\n' | seen dedup --csv -f url -d$'\t' | cmp - <(printf 'id\turl\n1\t2\n')
    printf 'id,url\n1,2\n' >a.csv
    printf 'url,id\n2,3\n' >b.csv
    seen create f -k 2
    run -2 --separate-stderr seen query --csv -f url f a.csv b.csv
    equal "$stderr" "seen: the columns of 'b.csv' are not those of 'a.csv', under whose names records are printed"
    printf 'id,url,n\n1,2,3\n' >c.csv
    run -2 --separate-stderr seen query --csv -f url f c.csv a.csv
    equal "$stderr" "seen: the columns of 'a.csv' are not those of 'c.csv', under whose names records are printed"
    # What follows a wrong quote is not cut, however much it is.
    (printf 'id,url\n1,2\n"x"y,3\n'; seq -f '%g,z' 9999) >d.csv
    run -2 --separate-stderr seen dedup --csv -f id d.csv
    equal "$output" $'id,url\n1,2'
}

@test "columns and all behind another" {
    printf 'a,b,c,d,e\n1,2,3,"4",5\n1,9,3,4,5\n' | seen dedup --csv -f 3,1,4- | cmp - <(printf 'a,b,c,d,e\n1,2,3,"4",5\n')
    seen create --csv -f 3,1,4- f <<<$'a,b,c,d,e\n1,2,3,"4",5'
    [ "$(seen query -c f -k 3,1,4,5)" = 1 ]
}

@test "the key of a line of JSON is a value in it" {
    printf '%s\n' '{"id":1,"u":{"n":"\u0041"}}' '{"id":1.0}' '{"u":{"n":"A"}}' '' '{"id":1}' '["id"]' >lines
    seen dedup --jsonl -f .id --skip-bad <lines | cmp - <(head -n 2 lines)
    seen create --jsonl -f .u.n --skip-bad f lines
    [ "$(seen query -c f -k A)" = 1 ]
    equal "$(printf '{"a":"A"}\n\n{"a":"A"}' | seen query -n --annotate --jsonl -f .a f)" $'1:+\t{"a":"A"}\n2:?\t\n3:+\t{"a":"A"}'
    [[ $(seen stats --all f) == *'lines of JSON, -f .u.n '* ]]
    reader verify f
    # A byte order mark stands before the first line alone.
    printf '\xef\xbb\xbf{"a":1}\n{"a":1}\n' | seen dedup --jsonl -f .a | cmp - <(printf '\xef\xbb\xbf{"a":1}\n')
    run -2 --separate-stderr seen dedup --jsonl -f .a < <(printf '{"a":1}\n\xef\xbb\xbf{"a":2}\n')
    equal "$stderr" "seen: (standard input):2: is not JSON (column 1) (--skip-bad skips such records)"
    printf '%s\n' '{"a":"x,y","b":"z"}' '{"a":"x","b":"y,z"}' '{"b":"z","a":"x,y"}' >pairs
    seen dedup --jsonl -f .a,.b <pairs | cmp - <(head -n 2 pairs)
    seen create --jsonl -f .a,.b g <<<'{"a":"x\"","b":"y,z"}'
    [ "$(seen query -c g -k '"x""","y,z"')" = 1 ]
    seen create --jsonl -f .a,.b g --force <<<'{"a":"x\ry","b":"y\nz"}'
    [ "$(printf '"x\ry","y\nz"\0' | seen query -0 -c g)" = 1 ]
    # What is decoded stands behind the keys before it.
    printf '%s\n' '{"a":"one","b":"two"}' '{"a":"\u0074hree","b":"4"}' | seen create --jsonl -f .a,.b g --force
    [ "$(seen query -c g -k one,two -k three,4)" = 2 ]
    printf '%s\n' '{"a":"","b":"z"}' '{"a":"","b":""}' '{"b":"z","a":""}' '{"a":"","b":""}' >pairs
    seen dedup --jsonl -f .a,.b --skip-bad <pairs | cmp - <(head -n 1 pairs)
    seen dedup --jsonl -f .a,.b --keep-bad <pairs | cmp - <(sed 3d pairs)
    # Blanks are nothing with --trim.
    printf '%s\n' '{"id":" "}' '{"id":"a"}' '{"id":"  "}' >blank
    seen dedup --jsonl -f .id --trim --skip-bad <blank | cmp - <(sed -n 2p blank)
    printf '%s\n' id,n ' ,1' a,2 '"  ",3' >blank
    seen dedup --csv -f id --trim --skip-bad <blank | cmp - <(sed -n '1p;3p' blank)
    while IFS='|' read -r line message; do
        run -2 --separate-stderr seen dedup --jsonl -f .id <<<"$line"
        equal "$stderr" "seen: (standard input):1: $message (--skip-bad skips such records)"
    done <<'TABLE'
{"id":NaN}|is not JSON: NaN and Infinity are no numbers there (column 7)
{"id":1|is not JSON: it ends too early (column 8)
{"id":null}|has null there
{"id":""}|the values of the key are empty
{"id":{}}|has an object or an array there
{"x":1}|has no such member
TABLE
    refuses "seen: option '--field': a path is named twice" seen dedup --jsonl -f .a,.b,.a
    refuses "seen: option '--field': a path is named twice" seen dedup --jsonl -f '.a[1],.a[2],.a[1]'
    for paths in '.a[1],.a[2]' .ab,.ac .a,.ab '.a[0],.a.b' '.a.b,.a[0]'; do
        quiet seen dedup --jsonl -f "$paths" </dev/null
    done
    refuses "seen: option '--field': more than 16 paths" seen dedup --jsonl -f "$(printf '.a%d,' {1..16}).b"
    while IFS='|' read -r path message; do
        refuses "seen: option '--field': '$path' is no path to a value in JSON: $message; it is .NAME.NAME[NUMBER], with \
other names in quotes, as .\"a b\"; for more, use jq(1)" seen dedup --jsonl -f "$path"
    done <<'TABLE'
a|it does not begin with a dot (column 1)
.a.|a name or a number is missing (column 3)
.a b|a dot or [ is missing (column 3)
."a|this is no string of JSON (column 2)
.a[1|] is missing (column 5)
TABLE
}

@test "bad records are skipped or kept, and wrong quotes end all" {
    printf 'id,n\n1,a\n2\n,b\n"1",c\n3,d,e\n4,f' >t.csv
    run -2 --separate-stderr seen dedup --csv -f id t.csv
    equal "$output" $'id,n\n1,a'
    equal "$stderr" "seen: t.csv:3: has 1 column, not 2 (--skip-bad skips such records)"
    run --separate-stderr seen dedup --csv -f id --skip-bad t.csv
    equal "$output" $'id,n\n1,a\n4,f'
    equal "$stderr" 'seen: note: 3 of 6 records had no key and were skipped'
    run --separate-stderr seen dedup --csv -f id --keep-bad t.csv
    equal "$output" $'id,n\n1,a\n2\n,b\n3,d,e\n4,f'
    equal "$stderr" 'seen: note: 3 of 6 records had no key and were printed as they are'
    printf '{"id":1}\n[]\n{"id":\n{"id":1}\n{"id":2}' >t.jsonl
    seen dedup --jsonl -f .id --skip-bad t.jsonl | cmp - <(sed -n '1p;$p' t.jsonl; echo)
    seen dedup --jsonl -f .id --keep-bad t.jsonl | cmp - <(sed 4d t.jsonl; echo)
    printf '\n5,"g"x\n6,h\n' >>t.csv
    for way in --skip-bad --keep-bad; do
        run -2 --separate-stderr seen dedup --csv -f id $way t.csv
        [[ $stderr == 'seen: t.csv:8: text follows the closing quote of column 2 '* ]]
    done
}

@test "one thread or sixteen read the same records" {
    awk 'BEGIN { print "id,text"; for (i = 0; i < 60000; i++)
        printf "%d,\"a %s, %d\"\n", i * 7919 % 50000, i % 9 ? "line" : "\n\"\"two\"\"\nlines", i }' >t.csv
    awk 'BEGIN { for (i = 0; i < 60000; i++)
        printf "{\"text\":\"%d \\u0041\",\"id\":\"k\\u00%d\"}\n", i, 30 + i % 10 }' >t.jsonl
    for j in 1 2 5 16; do
        seen create -j$j --csv -f id csv$j t.csv
        seen dedup -j$j --csv -f id t.csv >csv$j.got
        seen query -j$j --csv -f id csv1 t.csv | cmp - t.csv
        # From a pipe, in chunks of any length.
        seen query -n -j$j --csv -f id csv1 < <(cat t.csv) | sed -n 's/^\([0-9]*\):.*/\1/p' | cmp - <(seq 2 60001)
        alike <(data csv$j) <(data csv1)
        cmp csv$j.got csv1.got
        seen dedup -j$j --jsonl -f .id t.jsonl | cmp - <(head -n 10 t.jsonl)
    done
    [ "$(grep -c '^[0-9]*,"a' csv1.got)" = 50000 ]
    echo bad >>t.csv
    refuses "seen: t.csv:$(wc -l <t.csv): has 1 column, not 2 (--skip-bad skips such records)" \
        seen create -j2 --csv -f id csv t.csv
}

@test "Python reads the same records" {
    seed=${SEED:-$RANDOM}
    "$SOURCE/tests/lib/records.py" csv "$seed" "${CASES:-60}"
    "$SOURCE/tests/lib/records.py" jsonl "$seed" "${CASES:-20}"
}
