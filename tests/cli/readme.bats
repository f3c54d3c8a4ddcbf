#!/usr/bin/env bats
# The README is true: its examples print what it says, and its links lead somewhere.
# tags: repeating

load ../lib/helpers

# The files that the examples use, and commands that stand in for those of a machine: `find` lists
# as many names, of as many bytes, as the README says.
prepare()
{
    awk 'BEGIN { for (i = 1; i <= 40000; i++) print "http://www.example.org/" i }' >monday
    awk 'BEGIN { for (i = 30001; i <= 66481; i++) print "http://www.example.org/" (i < 66481 ? i : 40001) }' >tuesday
    python3 - /usr/share/dict/cracklib-small >pwned.txt <<'END'
import hashlib
import sys
with open(sys.argv[1], encoding="utf-8") as f:
    words = f.read().split()
digests = [hashlib.sha1(w.encode()).hexdigest().upper() for w in words]
for line in sorted("%s:%d" % (d, 1 + i % 97) for i, d in enumerate(digests)):
    print(line)
END
    echo dragon >password
    mkdir bin
    cat >bin/find <<'END'
#!/bin/sh
cat installed 2>/dev/null
awk -v n=165634 -v bytes=11232573 'BEGIN {
    for (i = 1; i <= n; i++)
        printf "/usr/%0*d\n", int(bytes * i / n) - int(bytes * (i - 1) / n) - 6, i }'
END
    cat >bin/apt-get <<'END'
#!/bin/sh
d=/usr/share/doc/hello
printf '%s\n' $d $d/copyright $d/changelog.Debian.gz /usr/bin/hello >installed
END
    chmod +x bin/*
}

@test "the examples of the README print what it says" {
    [ -e /usr/share/dict/cracklib-small ] || skip 'cracklib-runtime is not installed'
    prepare
    export PATH="$PWD/bin:$PATH" PYTHONDONTWRITEBYTECODE=1
    python3 "$SOURCE/tests/lib/examples.py" "$SOURCE/README.md" >out || { cat out; false; }
    [ "$(tail -n 1 out | cut -d ' ' -f 1)" -ge 12 ]
}

@test "the links of the README lead to files" {
    grep -oE '\]\([^)]+\)' "$SOURCE/README.md" | sed 's/^](//; s/)$//' | grep -v : >links
    [ "$(wc -l <links)" -ge 10 ]
    while IFS= read -r link; do
        echo "$link"
        [ -e "$SOURCE/$link" ]
    done <links
}

@test "the README's bits a key are those of seen plan, and its least is log2(1/p)" {
    seen plan -n 10M -p 0.001 --json >sizes
    bits() { jq -r ".kinds[] | select(.kind == \"$1\") | .bits_per_key" sizes; }
    paragraph=$(sed -n '/^A filter takes .* bits a key/,/^$/p' "$SOURCE/README.md" | tr '\n' ' ')
    bloom=$(printf %.1f "$(bits bloom)") compact=$(printf %.2f "$(bits compact)")
    [[ $paragraph == "A filter takes $bloom bits a key at an FPR of 0.001. With \`--compact\` it takes \
$compact; the least possible is 9.97."* ]]
}
