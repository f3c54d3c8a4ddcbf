#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Help, manual pages and completions say the same, and what they say works.
# tags: repeating slow

# Single quotes here hold other languages.
# shellcheck disable=SC2016
load ../lib/helpers

mapfile -t commands < <(seen help --commands | cut -f 1)
[ "${#commands[@]}" -gt 10 ] || exit 1

# "-n, --capacity N" for each option in a command's help.
options_of_help()
{
    seen help "$1" --all | sed -nE 's/^ {2,6}(-.*)/\1/p' | sed -E 's/  .*//' | sort
}

# A manual page as text, of the lines that the commands of awk print.
of_page() { awk "$2" "$SOURCE/man/$1" | sed -E 's/\\f[BIR]//g; s/\\-/-/g' | grep '^-' | sort; }

tags='/^\.TP/ { tag = 1; next } tag { print } { tag = 0 }'
lists='/^\.nf/ { list = 1 } /^\.fi/ { list = 0 } list && /^\\fB\\-/'

# The same from the tagged paragraphs of its manual page, and from the list of what seen-keys(7) describes.
options_of_page()
{
    of_page "$1.1" "$tags"
    of_page "$1.1" "$lists"
}

# Only the words: "-n", "--capacity".
words() { grep -oE '(^|[ ,])--?[[:alnum:]][[:alnum:]-]*' | tr -d ' ,' | sort; }

same()
{
    alike <(printf '%s\n' "$1") <(printf '%s\n' "$2")
}

@test "each command has a manual page, and each page a command" {
    listed=$(seen help --commands | cut -f 1 | sort)
    pages=$(cd "$SOURCE/man" && printf '%s\n' seen-*.1 | sed 's/^seen-//; s/\.1$//' | sort)
    same "$listed" "$pages"
    for command in "${commands[@]}"; do
        grep -q "^\.BR seen\\\\-$command (1)" "$SOURCE/man/seen.1"
    done
}

@test "the pages that the manual pages name are there" {
    cat "$SOURCE"/man/* | sed -nE 's/.*(seen\\-[a-z]+) ?\(([157])\).*/\1.\2/p; s/.*\\%(seen\\-[a-z]+)\(([157])\).*/\1.\2/p' |
        sed 's/\\//g' | sort -u >named
    [ "$(wc -l <named)" -gt 15 ]
    while read -r page; do
        [ -e "$SOURCE/man/$page" ] || { echo "there is no $page"; return 1; }
    done <named
}

@test "help and manual page have the same options" {
    for command in "${commands[@]}"; do
        help=$(options_of_help "$command")
        [ -n "$help" ]
        echo "seen-$command.1 (<: help, >: page)"
        same "$help" "$(options_of_page "seen-$command" | sort)"
    done
}

@test "the options that pages only list are described in another page" {
    described=$(of_page seen-keys.7 "$tags")
    { of_page seen-add.1 "$tags"; of_page seen-redis.7 "$tags"; } >elsewhere
    for command in create add remove query dedup; do
        of_page "seen-$command.1" "$lists" >listed
        same "$described" "$(grep -vxFf elsewhere listed)"
    done
    for command in import export; do
        of_page "seen-$command.1" "$lists" >listed
        run -1 grep -vxFf elsewhere listed
    done
}

@test "the synopsis is the usage line" {
    for command in "${commands[@]}"; do
        usage=$(seen help "$command" | sed -n '1s/^Usage: //p')
        synopsis=$(sed -n '/^\.SH SYNOPSIS/,/^\.SH DESC/{/^\.SH/!p}' "$SOURCE/man/seen-$command.1" |
            sed -E 's/^\.B //; s/\\f[BIR]//g; s/\\-/-/g' | tr '\n' ' ' | sed 's/ $//')
        same "$usage" "$synopsis"
    done
    usage=$(seen --help | sed -n '1s/^Usage: //p')
    same "$usage" "seen $(sed -n '/^\.B seen$/{n;s/\\f[BIR]//g;p;q}' "$SOURCE/man/seen.1")"
}

# The files that the examples of help speak of.
example_files()
{
    seq 1 20 >urls.txt
    seq 11 30 >new.txt
    seq 21 40 >more.txt
    seq 1 15 >old.txt
    gzip <urls.txt >urls.gz
    printf '%s\n' Apple pear >words.txt
    printf '1,a\n2,b\n' >table.csv
    printf '%s\n' a b a >log.txt
    printf '%s\n' '10.0.0.1 GET /' '10.0.0.1 GET /b' >access.log
    seen create urls.seen urls.txt
    seen create --counted counts.seen urls.txt old.txt -n 100
    seen add counts.seen <<<pear
    seen create -n 100 mon.seen urls.txt
    seen create --like mon.seen tue.seen new.txt
    seen create week.seen old.txt
    seen create --layout dcso -n 100 feed.seen urls.txt
    seen export feed.seen -o feed.bloom
    seen create --layout guava -n 100 guava.seen urls.txt
    seen export guava.seen -o ids.guava
    seen create --layout gozero:bits=20000 bitmap.seen urls.txt
    seen export bitmap.seen -o ids.bits
}

@test "the three examples of each help run" {
    local command line n out_file example='^  ([^ ]+( [^ ]+)*)  +[^ ]' out=' -o ([^ ]+)'
    mkdir there
    (cd there && example_files) >/dev/null
    for command in "${commands[@]}"; do
        seen help "$command" | sed -n '5,/^$/{/^$/d;p}' >examples
        n=0
        while IFS= read -r line; do
            [[ $line =~ $example ]]
            line=${BASH_REMATCH[1]}
            echo "$line"
            # Those of rotate are one story, and follow each other.
            if [[ $command != rotate || $n = 0 ]]; then
                rm -rf here
                cp -r there here
                [[ $line != 'seen create '* ]] || rm -f here/urls.seen here/week.seen
            fi
            [[ $command = rotate || "$line " == "seen $command "* ]]
            out_file=
            [[ ! $line =~ $out ]] || out_file=here/${BASH_REMATCH[1]}
            [[ -z $out_file || $line == *--force* ]] || rm -f "$out_file"
            run -0 --separate-stderr bash -c "cd here && $line"
            [[ -z $stderr || $stderr == "seen: note: "* ]]
            [[ -z $out_file || -s $out_file ]]
            n=$((n + 1))
        done <examples
        [ "$n" = 3 ]
    done
}

@test "completion lists the options of help" {
    for command in "${commands[@]}"; do
        same "$(options_of_help "$command" | words)" \
            "$(seen help --options "$command" | cut -f 1,2 | tr '\t' ' ' | words | uniq)"
    done
}

@test "manual pages have no faults" {
    command -v mandoc >/dev/null || skip 'mandoc is not installed'
    run -0 mandoc -Tlint -W warning "$SOURCE"/man/*.[157]
    [ -z "$output" ]
}

@test "manual pages name no option that is not there" {
    for command in "${commands[@]}"; do
        seen help --options "$command" | cut -f 1,2 | tr '\t' '\n' | grep .
    done | sort -u >known
    printf '%s\n' --help --version -V >>known
    # Long options anywhere in the text; those of other programs are in the examples.
    sed -E '/^\.EX/,/^\.EE/d; s/\\f[BIR]//g; s/\\-/-/g' "$SOURCE"/man/seen*.1 |
        grep -oE -- '--[a-z][a-z0-9-]+' | sort -u | grep -vxFf known >unknown || true
    cat unknown
    [ ! -s unknown ]
}

@test "the examples in the manual pages are parsed by the program" {
    # Each `seen COMMAND ...` of an example, up to a pipe or the like.
    for page in "$SOURCE"/man/seen*.[17]; do
        sed -n '/^\.EX/,/^\.EE/p' "$page"
    done | sed -E 's/\\\(aq/'\''/g; s/\\-/-/g; s/\\e/\\/g' |
        grep -oE "\bseen ($(IFS='|'; echo "${commands[*]}")) [^|&;>]*" >examples
    [ "$(wc -l <examples)" -ge 15 ]
    url=x p=0.1 us=, soh=,
    export url p us soh
    while IFS= read -r line; do
        echo "$line"
        # The example stands at the front, so each of its options is parsed before --help answers.
        run -0 bash -c "$line --help"
        [[ ${lines[0]} == 'Usage: '* ]]
    done <examples
}

@test "the examples of seen-layouts(7) print what the page says" {
    v=$SOURCE/tests/vectors
    cp "$v/keys/keys.txt" .
    cp "$v/guava/g64_bytes_n1000_p01.guava" links.guava
    cp "$v/guava/g64_long_n1000_p02.guava" ids.guava
    cp "$v/gozero/gz_bits13007.bitmap" shop.bitmap
    cp "$v/redisson/rs_kryo5_n1000_p05.bitmap" users.bitmap
    cp "$v/redisson/rs_kryo5_n1000_p05.config" users.config
    cp "$v/redisbloom/rb_scale_e05_n100.header" visits.header
    cp "$v/redisbloom/rb_scale_e05_n100.data" visits.data
    cp "$v/php/ph_3.bits" phones.bits
    cp "$v/dcso/dc_data.bloom" feed.bloom
    cp "$v/keys2/keys.txt" others.txt
    cp "$v/bitsandblooms/bb_json_n1000_p1.json" crawled.json
    cp "$v/spark/sp2_str_n1000_p03.spark" joined.bloom
    chmod u+w ./*
    export PYTHONDONTWRITEBYTECODE=1
    python3 "$SOURCE/tests/lib/examples.py" "$SOURCE/man/seen-layouts.7" >out || { cat out; false; }
    [ "$(tail -n 1 out | cut -d ' ' -f 1)" -ge 30 ]
}

@test "the examples of other pages print what the pages say" {
    seq 40000 >ours.txt
    seq 25001 70000 >theirs.txt
    seq 100000 | seen create list.seen
    for page in plan compare verify; do
        PYTHONDONTWRITEBYTECODE=1 python3 "$SOURCE/tests/lib/examples.py" "$SOURCE/man/seen-$page.1" >out ||
            { cat out; false; }
        run -1 grep '^0 ' out
    done
}

@test "speeds by version: a run is added to the earlier ones" {
    history() { PYTHONDONTWRITEBYTECODE=1 python3 "$SOURCE/tests/bench/history.py" "$@"; }
    history "$SOURCE/tests/bench/history.jsonl" >earlier
    [ "$(wc -l <earlier)" -ge 3 ]
    # A run is added at the end, in place of one of the same version, commit and processor.
    run_of()
    {
        printf '{"date": "%s", "commit": "%s", "machine": {"seen": "seen 9", "cpu": "x-1", "cpus": 4},
            "kinds": {"urls": [{"job": "query -j2", "cpu_ns_per_record": %s, "ratio": 1.234}]}}' "$@"
    }
    run_of 2030-01-01 abc 12.34 >first
    run_of 2030-01-02 def 56.78 >second
    run_of 2030-01-03 abc 90.12 >third
    cp "$SOURCE/tests/bench/history.jsonl" runs
    chmod u+w runs
    history runs first >table
    history runs second >table
    history runs third >table
    { cat earlier; printf '%s\n' '2030-01-02, seen 9 (def), 4 CPUs, x-1:' \
        '                56.8 (1.23)' '2030-01-03, seen 9 (abc), 4 CPUs, x-1:' \
        '                90.1 (1.23)'; } | diff - table
}

@test "seen-stats(1) has exactly the members that --json prints" {
    seq 100 >keys
    seen create -n 1000 f.seen keys
    seen create --compact c.seen keys
    # What only filters of other programs have. The members that those programs name, like Redisson's
    # "size", are not in the page.
    seen import --layout php "$SOURCE/tests/vectors/php/ph_3.bits" -o php.seen
    seen create --layout redisson -p 0.01 rs.seen keys
    seen create --forget-after 30d -n 1000 --empty ring.seen
    seen create --counted counted.seen keys
    seen create --hex hex.seen -k 00ff
    seen stats --json f.seen c.seen php.seen rs.seen ring.seen counted.seen hex.seen | grep -oE '"[a-z_]+":' |
        tr -d '":' | grep -vx size | sort -u >printed
    # In the page: the tags of the section, and within the text of `layers`, every bold word.
    sed -n '/^\.SH OUTPUT/,/^\.SS Prometheus/p' "$SOURCE/man/seen-stats.1" |
        awk '/^\.TP/ { tag = 1; next }
            tag { print; layers = /layers/ }
            !tag && layers && /^\.BR? / { print }
            { tag = 0 }' |
        grep -oE '[a-z_]{4,}|\b[km]\b' | sort -u >documented
    diff printed documented
}

@test "no recipe takes an error of query for an answer" {
    # `if seen query`, or && or || behind it.
    run -1 grep -nE '(if|while|until|!) +seen query|seen query[^|]*(&&|\|\|)' \
        "$SOURCE/README.md" "$SOURCE"/man/*.[17]
    echo '0a0a' >keys
    seen create --hex urls.seen keys
    for key in 0a0a 0b0b 0c; do PAGE=seen-query.1 recipe EXAMPLES 2 "s/[$]url/$key/"; done >out
    diff out - <<<$'known\nnew\nno answer'
}

# complete_bash WORD...: what bash offers for the last word.
complete_bash()
{
    bash -c 'source "$SOURCE/completions/seen.bash" || exit
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _seen seen
        ((${#COMPREPLY[@]} == 0)) || printf "%s\n" "${COMPREPLY[@]}"' bash "$@" | sort -u
}

@test "bash: commands, options and files" {
    touch a.seen b.txt
    mkdir dir
    same "$(complete_bash seen '')" \
        "$(printf '%s\n' "${commands[@]}" help --help --version | sort)"
    same "$(complete_bash seen qu)" query
    same "$(complete_bash seen help ver)" verify
    for command in "${commands[@]}"; do
        same "$(complete_bash seen "$command" -)" "$(options_of_help "$command" | words)"
    done
    same "$(complete_bash seen create --capac)" --capacity
    same "$(complete_bash seen create '')" $'a.seen\ndir'
    same "$(complete_bash seen create -n '')" ''
    same "$(complete_bash seen create -n 5 '')" $'a.seen\ndir'
    same "$(complete_bash seen create --fpr = 0.1 a.seen '')" $'a.seen\nb.txt\ndir'
    same "$(complete_bash seen create a.seen b)" b.txt
    same "$(complete_bash seen query --list a.seen b)" b.txt
    same "$(complete_bash seen create --like = '')" $'a.seen\ndir'
    same "$(complete_bash seen create --like =)" $'a.seen\ndir'
    same "$(complete_bash seen create --tmpdir '')" dir
    same "$(complete_bash seen verify a.seen '')" $'a.seen\ndir'
    same "$(complete_bash seen plan '')" ''
    same "$(complete_bash seen add -- -)" ''
    same "$(complete_bash seen import '')" $'a.seen\nb.txt\ndir'
    same "$(complete_bash seen import b.txt -o '')" $'a.seen\ndir'
    same "$(complete_bash seen export '')" $'a.seen\ndir'
    same "$(complete_bash seen export a.seen -o b)" b.txt
    same "$(complete_bash seen import --layout = gu | grep -v :)" guava
    same "$(complete_bash seen import --layout guava : fun | head -n 2)" $'funnel=bytes\nfunnel=int'
    same "$(complete_bash seen import --layout guava : funnel = u)" $'utf16\nutf8'
    same "$(complete_bash seen import --layout guava : funnel = utf8 b)" b.txt
    same "$(complete_bash seen import --layout gozero : bits = 5 b.txt '')" ''
    same "$(complete_bash seen import --layout au)" auto
    same "$(complete_bash seen create --layout au)" ''
    rm a.seen
    same "$(complete_bash seen query '')" $'b.txt\ndir'
}

@test "bash: the script registers itself" {
    run -0 bash -c 'source "$SOURCE/completions/seen.bash"; complete -p seen'
    [ "$output" = 'complete -F _seen seen' ]
}

# offers LINE OFFERED: what the shell in question has to offer at the end of that line.
offers()
{
    typed+=("$1")
    printf '%s\n' "> $1" ${2:+"$2"} >>"$BATS_TEST_TMPDIR.wanted"
}

# are_offered COMMAND...: given the lines, it prints each behind "> ", and what is offered there, sorted.
are_offered()
{
    [ "${#typed[@]}" -ge 25 ]
    "$@" "${typed[@]}" | diff "$BATS_TEST_TMPDIR.wanted" -
}

complete_fish()
{
    fish --no-config -c 'source "$SOURCE/completions/seen.fish"
        for line in $argv
            echo "> $line"
            complete -C "$line" | cut -f 1 | sort
        end' -- "$@"
}

@test "fish: commands, options and files" {
    command -v fish >/dev/null || skip 'fish is not installed'
    export HOME=$PWD XDG_CONFIG_HOME=$PWD XDG_DATA_HOME=$PWD
    mkdir -p work/dir
    cd work
    touch a.seen b.txt
    offers 'seen ' \
        "$(printf '%s\n' "${commands[@]}" help | sort)"
    offers 'seen qu' query
    offers 'seen help ver' verify
    for command in "${commands[@]}"; do
        offers "seen $command -" \
            "$(options_of_help "$command" | words)"
    done
    offers 'seen create ' $'a.seen\nb.txt\ndir/'
    offers 'seen create a.seen b' b.txt
    offers 'seen create -n ' ''
    offers 'seen create --tmpdir ' dir/
    offers 'seen create --like a' a.seen
    offers 'seen plan ' ''
    offers 'seen import b' b.txt
    offers 'seen import b.txt -o a' a.seen
    offers 'seen import --layout guava:funnel=u' \
        $'guava:funnel=utf16\nguava:funnel=utf8'
    offers 'seen import --layout au' auto
    are_offered complete_fish
}

# complete_zsh LINE...: what an interactive zsh makes of each line and one tab.
complete_zsh()
{
    timeout "$PATIENCE" zsh -f "$SOURCE/tests/lib/complete.zsh" "$@"
}

@test "zsh: commands, options and files" {
    command -v zsh >/dev/null || skip 'zsh is not installed'
    touch a.seen b.txt
    mkdir dir
    offers 'seen ' "$(printf '%s\n' "${commands[@]}" help | sort)"
    offers 'seen qu' query
    offers 'seen help ver' verify
    for command in "${commands[@]}"; do
        offers "seen $command -" "$(options_of_help "$command" | words)"
    done
    offers 'seen create --capac' --capacity
    offers 'seen create ' $'a.seen\ndir'
    offers 'seen create a.seen b' b.txt
    offers 'seen create -n 5 a.seen b' b.txt
    offers 'seen create -n ' ''
    offers 'seen create --like=a' a.seen
    offers 'seen verify a.seen a' a.seen
    offers 'seen import b' b.txt
    offers 'seen export ' $'a.seen\ndir'
    offers 'seen import --layout guava:funnel=u' \
        $'guava:funnel=utf16\nguava:funnel=utf8'
    offers 'seen import --layout=au' auto
    are_offered complete_zsh
}
