#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# seen create: the file appears complete or not at all, and is the same however it came to be.
# tags: threads slow

load ../lib/helpers

setup_file()
{
    cd "$BATS_FILE_TMPDIR" || return
    # More than 4 MiB of --memory hold, which is what makes scratch necessary.
    seq 600000 >many
    seq 1000 >some
}

many() { cat "$BATS_FILE_TMPDIR/many"; }

@test "a filter is made for exactly the distinct keys" {
    seq 1000 >keys
    seq 500 >>keys
    quiet seen create f.seen keys
    seen stats --json f.seen | jq -e '.n_design == null and .layers[0].n_design == 1000 and .keys_added == 1000 and
        .records == 1500 and .fpr_design == 1e-6 and .fpr_current <= 1e-6 and .state == "clean"'
    run -0 seen query -c f.seen keys
    [ "$output" = 1500 ]
    run -0 seen verify f.seen
    only keys f.seen
}

@test "one repeat among many keys is noticed, wherever it is and at every rate" {
    seq 50000 >keys
    for p in 0.5 0.02 0.01 0.001 1e-6; do
        quiet seen create --force -p "$p" once.seen keys
        once=$(seen stats --json once.seen | jq -c '[.layers[0].n_design, .keys_added, .fpr_current, .bytes]')
        for i in 1 25000 50000; do
            { cat keys; echo "$i"; } | quiet seen create --force -p "$p" f.seen
            run -0 jq -c '[.layers[0].n_design, .keys_added, .fpr_current, .bytes]' <(seen stats --json f.seen)
            [ "$output" = "$once" ]
        done
    done
    seen stats --json f.seen | jq -e '.layers[0].n_design == 50000 and .records == 50001'
}

@test "impossible and absurd wishes are refused, and nothing is made" {
    seq 1000 >keys
    rejects "*--fpr 0 is possible only with --counted" seen create -p 0 f keys
    rejects "*'1' is not a probability between 0 and 1" seen create -p 1 f keys
    rejects "*'-0.1' is not a probability*" seen create -p -0.1 f keys
    rejects "*'nan' is not a probability*" seen create -p nan f keys
    rejects "*1e-10*compact*1e-09*" seen create -p 1e-10 f keys
    rejects "*1e-10*compact*1e-09*" seen create -p 1e-10 -n 100 --empty f
    rejects "*--capacity*more than 0" seen create -n 0 f keys
    rejects "*all be given: 1000000 keys at 0.01 take 1.20 MiB" \
        seen create -n 1M -p 0.01 -s 1M f keys
    rejects "*--size* more than 0" seen create -s 0 f keys
    rejects "*size of 100 bytes is too small: the smallest filter takes 24576" \
        seen create -s 100 f keys
    rejects "*the smallest filter takes 24576" seen create -s 24575 f keys
    # Larger than any hash could tell apart, than any file, than this disk.
    rejects "*'18446744073709551616' is not a count*" seen create -n 18446744073709551616 f keys
    rejects "*1.84e+19 keys*" seen create -n 18446744073709551615 f keys
    rejects "seen: cannot create 'f': 1945152266993664 bytes are needed, * are free" \
        seen create -p 0.001 --fixed --empty -n 1e15 f
    rejects "*--memory must be at least *" seen create --memory 1K f keys
    only keys
}

@test "a size that is too small for the keys is refused with the size that they need" {
    seq 100000 >keys
    for options in '' --dry-run '-n 100000' '-n 100000 --empty'; do
        keys=keys
        [[ $options != *--empty ]] || keys=
        # shellcheck disable=SC2086 # several, or none
        rejects "seen: *24.0 KiB is too small for 100000 keys*40.0 KiB*" \
            seen create -s 24576 $options f $keys
    done
    quiet seen create -s 40K f keys
    only f keys
}

@test "options that contradict each other are refused" {
    seq 10 >keys
    rejects "*--empty needs *--capacity*" seen create --empty --fixed f
    rejects "*--empty reads no keys*" seen create --empty -n 5 f keys
    rejects "*--empty reads no keys*" seen create --empty -n 5 f -k a
    rejects "*--empty reads no keys: not with --min-keys*" seen create --empty -n 5 --min-keys 1 f
    rejects "*--empty reads no keys: not with --min-ratio*" seen create --force --empty -n 5 --min-ratio 0.9 f
    rejects "*--key*KEYFILE*" seen create f -k a keys
    quiet seen create like.seen keys
    rejects "*--like takes*--capacity" seen create --like like.seen -n 5 f keys
    rejects "*--like takes*" seen create --like like.seen -p 0.1 f keys
    rejects "*--like takes*" seen create --like like.seen -s 1M f keys
    for option in --grow --compact --counted --like=like.seen --layout=guava; do
        rejects "*--fixed*${option%=*}*" seen create --fixed "$option" f keys
    done
    rejects "*--fixed*--generations*" seen create --fixed --generations 2 -n 9 f keys
    rejects "*--grow and --size cannot*" seen create --grow -s 1M f keys
    rejects "*no FILTER*" seen create
    only keys like.seen
}

@test "an input that cannot be read is named, and nothing is made" {
    seq 10 >keys
    mkdir dir
    rejects "seen: cannot open 'missing': No such file or directory (-k gives a key)" seen create f keys missing
    rejects "seen: cannot read 'dir': Is a directory" seen create f keys dir
    rejects "seen: '-' is given twice" seen create f - keys - </dev/null
    only keys dir
    quiet seen create f keys
    for command in create\ --force add query; do
        # shellcheck disable=SC2086 # command and option
        rejects "seen: 'f' is the filter itself" seen $command f f
        # shellcheck disable=SC2086,SC2094
        rejects "seen: '(standard input)' is the filter itself" seen $command f <f
    done
    ln f link
    rejects "seen: 'link' is the filter itself" seen create --force f link
    only keys dir f link
}

@test "without keys no filter is made, unless --empty says so" {
    : >nothing
    gzip -c nothing >nothing.gz
    for input in nothing nothing.gz /dev/null; do
        rejects "seen: no keys*--empty*" seen create f $input
        # shellcheck disable=SC2094
        rejects "seen: no keys*--empty*" seen create f <$input
        rejects "seen: no keys*--empty*" seen create -n 10 f nothing $input
    done
    printf 'a\nb\n' >unfit
    rejects "seen: no keys*" seen create -f 2 --skip-bad f unfit
    only nothing nothing.gz unfit
    quiet seen create --empty -n 1000 f
    seen verify f
    run -1 --separate-stderr seen query f -k a -k ''
    [ -z "$output$stderr" ]
    # One empty record is a key.
    echo | seen create one
    run -0 seen query -c one -k ''
    run -1 seen query -c one -k a
}

@test "an existing file is touched only with --force, and only if it is a filter" {
    seq 10 >keys
    quiet seen create f keys
    old=$(digest f)
    refuses "seen: 'f' exists (--force replaces it); 'seen add' adds keys to it" seen create f <keys
    [ "$(digest f)" = "$old" ]
    echo hello >foreign
    mkfifo fifo
    mkdir dir
    for force in '' --force; do
        refuses "seen: 'fifo' exists and is not a regular file" seen create $force fifo keys
        refuses "seen: 'dir' exists and is not a regular file" seen create $force dir keys
        refuses "seen: 'foreign' exists and is not a seen filter: not replaced; FILTER comes \
first, then the files of keys" seen create $force foreign keys
    done
    [ "$(cat foreign)" = hello ]
    refuses "seen: cannot create 'gone/f': No such file or directory" seen create gone/f keys
    refuses "seen: cannot create 'gone/': Is a directory" seen create gone/ keys
    refuses "seen: cannot create '': No such file or directory" seen create '' keys
    : >empty
    quiet seen create --force empty keys
    run -0 seen query -c empty keys
    only keys f foreign fifo dir empty
}

@test "an existing file without a byte is taken, and keeps its mode" {
    seq 10 >keys
    for command in create 'add --create' 'dedup --create'; do
        (umask 077 && : >empty)
        # shellcheck disable=SC2086 # several words
        seen $command empty keys >out
        [ "$(stat -c %a empty)" = 600 ]
        [ "$(seen query -c empty keys)" = 10 ]
        rm empty
    done
    : >empty
    ln -s empty link
    quiet seen create link keys
    [ -L link ]
    [ "$(seen query -c empty keys)" = 10 ]
    : >secret
    run -2 --separate-stderr seen create --secret secret --new-secret none keys
    [[ $stderr == *"it has 0 bytes, not 32" ]] || [[ $stderr == *libsodium* ]]
    : >bits
    run -2 --separate-stderr seen export --layout guava link -o bits
    [ ! -s bits ]
}

@test "a replaced file keeps its mode, and who reads it keeps the old one" {
    seq 10 >keys
    seq 20 | quiet seen create f
    chmod 640 f
    exec 7<f
    old=$(digest f)
    (umask 077 && seen create --force f keys)
    [ "$(stat -c %a f)" = 640 ]
    [ "$(sha256sum <&7 | cut -d ' ' -f 1)" = "$old" ]
    exec 7<&-
    [ "$(digest f)" != "$old" ]
    run -0 seen query -c f keys
    only keys f
}

@test "other hard links of a replaced file lead to the old one" {
    seq 100 >keys
    quiet seen create --foldable -n 100k bloom keys
    quiet seen create --counted -n 1000 counted keys
    for words in 'create --force bloom keys' 'shrink bloom' 'add counted -k new' 'remove counted -k 1'; do
        [[ $words == *counted* ]] && file=counted || file=bloom
        cp "$file" copy
        ln -f copy link
        # shellcheck disable=SC2086 # words are meant to be split
        quiet seen ${words/$file/copy}
        run -1 cmp -s copy link
        cmp link "$file"
    done
}

@test "a new file has mode 0666 less the umask" {
    for mask in 022 077 027; do
        rm -f f
        (umask $mask && seen create f -k a)
        equal "$(stat -c %a f)" "$(printf %o $((0666 & ~mask)))"
    done
}

@test "a symbolic link is followed, not replaced" {
    mkdir dir
    ln -s dir/target link
    ln -s link link2
    quiet seen create link2 -k a
    [ -L link2 ]
    [ -L link ]
    [ -f dir/target ]
    quiet seen create --force link2 -k b
    [ -L link2 ]
    [ -L link ]
    run -1 seen query dir/target -k a
    run -0 seen query dir/target -k b
    ln -s loop loop
    rejects "seen: cannot create 'loop': Too many levels of symbolic links" \
        seen create loop -k a
    only dir dir/target link link2 loop
    # From the root, too, and back into this directory.
    ln -s "$PWD/here" dir/far
    quiet seen create dir/far -k c
    quiet seen query -q here -k c
    # As many links as Linux follows.
    for i in {1..41}; do ln -s "$((i - 1))" "dir/$i"; done
    quiet seen create dir/40 -k a
    quiet seen query -q dir/0 -k a
    rejects "seen: cannot create 'dir/41': Too many levels of symbolic links" seen create --force dir/41 -k b
}

@test "more keys than the capacity are refused with the capacity that they need" {
    seq 20000 >keys
    rejects "seen: 20000 distinct keys are more than the 10000 *--capacity 20000" \
        seen create --fixed -n 10000 f keys
    rejects "*--capacity 20000" seen create --fixed -n 10000 f <keys
    seen create --fixed --empty -n 10000 like.seen
    rejects "*; a filter for them, and others like it, need --capacity 20000" seen create --like like.seen f keys
    rejects "seen: 20000 distinct keys are more than the 10000 that a generation of the filter is for: *; \
it needs --capacity 80000" seen create --generations 4 -n 40000 f keys
    only keys like.seen
    # Repeats do not count.
    cat keys keys | quiet seen create --fixed -n 20000 f
    # Within the hundredth that the spread of bits may cost.
    quiet seen create --fixed -n 19990 --force f keys
    # A size fixes it, too; without either it grows.
    rejects "*; it needs a larger size" seen create -s 24K -p 1e-3 --force f keys
    rejects "*; it needs a larger size" seen create -s 24K -n 1000 --force f keys
    quiet seen create -n 10000 --force f keys
    seen stats --json f | jq -e '.layers[0].n_design == 20000 and .policy == "grows" and .fpr_current <= 1e-3'
}

@test "the same bytes from a file, a pipe, gzip, several files and any number of threads" {
    many >keys
    gzip -c keys >keys.gz
    head -n 100000 keys >one
    tail -n +100001 keys >two
    quiet seen create --reproducible -j 1 f keys
    run -0 seen query -c f keys
    [ "$output" = 600000 ]
    same=$(digest f)
    try() { quiet seen create --reproducible --force g "$@" && [ "$(digest g)" = "$same" ]; }
    for threads in 2 3 8; do
        try -j $threads keys
    done
    try - <keys
    try < <(cat keys)
    try keys.gz
    try - < <(cat keys.gz)
    try one two
    try two one
    try two - <one
    try two - < <(cat one)
    try < <(shuf --random-source=keys keys)
    only f g keys keys.gz one two
}

@test "SOURCE_DATE_EPOCH does what --reproducible does" {
    seq 3000 >keys
    quiet seen create --layout gozero a keys
    quiet seen export a -o foreign
    # make NAME [OPTION]: a filter by each of the four commands.
    make()
    {
        quiet seen create "${@:2}" "$1-create" keys
        quiet seen merge "${@:2}" -o "$1-merge" "$1-create" "$1-create"
        quiet seen shrink -p 0.1 "${@:2}" -o "$1-shrink" "$1-create"
        quiet seen import --layout gozero:bits="$(($(size foreign) * 8))" foreign "${@:2}" -o "$1-import"
    }
    make wanted --reproducible
    SOURCE_DATE_EPOCH=1700000000 make given
    SOURCE_DATE_EPOCH='' make empty
    for command in create merge shrink import; do
        cmp wanted-$command given-$command
        run -1 cmp -s wanted-$command empty-$command
    done
}

@test "the same bytes whatever the memory, and scratch goes where it should" {
    many >keys
    quiet seen create --reproducible f keys
    same=$(digest f)
    # There is scratch with little memory, and none with the default. It is larger than the filter.
    limited() { (ulimit -f $(($(size f) / 1024 + 64)) && exec "$SEEN" create --reproducible "$@"); }
    quiet limited --force g keys
    [ "$(digest g)" = "$same" ]
    rejects "seen: cannot write 'scratch file': File too large" limited --memory 4M h keys
    rejects "seen: *'/nonexistent'*No such file or directory" \
        seen create --reproducible --tmpdir /nonexistent --memory 4M h keys
    refuses "seen: cannot put scratch into 'keys': Not a directory" seen create --tmpdir keys h keys
    mkdir tmp
    for memory in 4M 6M 16M; do
        quiet seen create --reproducible --memory $memory --force g keys
        [ "$(digest g)" = "$same" ]
        quiet seen create --reproducible --memory $memory --tmpdir tmp --force g -j 1 <keys
        [ "$(digest g)" = "$same" ]
    done
    # Repeats change the count of records only.
    cat keys keys | quiet seen create --memory 4M twice
    alike <(data f) <(data twice)
    seen stats --json twice | jq -e '.keys_added == 600000 and .records == 1200000'
    only f g keys tmp twice
}

@test "the same bytes when there are too many keys to count beside a given capacity" {
    # 3 million hashes are kept in memory; beyond that they go straight into the filter's bits.
    seq 3300000 >keys
    quiet seen create --fixed --reproducible -n 3300000 -p 0.05 -j 1 f keys
    same=$(digest f)
    run -0 seen query -c f keys
    [ "$output" = 3300000 ]
    seen stats --json f |
        jq -e '.sources.keys_added == "estimated" and (.n_estimate / 3300000 - 1 | fabs) < 0.002'
    quiet seen create --fixed --reproducible -n 3300000 -p 0.05 -j 3 --force g keys
    [ "$(digest g)" = "$same" ]
    quiet seen create --fixed --reproducible -n 3300000 -p 0.05 --memory 8M --force g <keys
    [ "$(digest g)" = "$same" ]
    rejects "*more than the 3000000 that*" seen create --fixed -n 3000000 -p 0.05 h keys
    # Made for the very keys it is the same filter; only what it knows about them differs.
    quiet seen create --fixed --reproducible -p 0.05 --force g keys
    alike <(data f) <(data g)
    only f g keys
}

# peak COMMAND...: runs it, prints the most memory that it took, in KiB, programs and libraries too.
peak()
{
    python3 -c 'import os, sys
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss)
sys.exit(status != 0)' "$@"
}

@test "scratch that cannot be written or read ends a run, a dry one too" {
    need_preload
    for what in --dry-run '--layout guava' '--layout guava -n 700k'; do
        # shellcheck disable=SC2086 # words
        run -2 failing pwritev:1:ENOSPC seen create --memory 4M $what f < <(many)
        [[ $output =~ ^'seen: '('(standard input):'[0-9]+': ')?"cannot write 'scratch file': No space left on device"$ ]]
    done
    for what in --dry-run '--layout guava'; do
        # shellcheck disable=SC2086
        refuses 'seen: cannot read scratch file: Input/output error' \
            failing pread:1:EIO seen create --memory 4M $what f < <(many)
    done
    only
}

@test "no more memory is taken than is given, whatever the number of threads" {
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer takes memory itself'
    local programs=5000
    seq 12000000 >keys
    for threads in 1 ${FULL:+4} 16; do
        # shellcheck disable=SC2002 # a file would be mapped
        run -0 peak seen create --force --memory 64M -j "$threads" f < <(cat keys)
        [ "$output" -le $((64 * 1024 + programs)) ]
    done
    head -n 5000000 keys >some
    for threads in 16 ${FULL:+24 32} 256; do
        run -0 peak seen create --fixed --force -n 5000000 -j "$threads" f < <(cat some)
        [ "$output" -le $(($(size f) / 1024 + 64 * 1024 + programs)) ]
        run -0 peak seen create --fixed --force -n 12000000 -j "$threads" f keys
        [ "$output" -le $(($(size f) / 1024 + 64 * 1024 + programs)) ]
    done
}

@test "what was read of a mapped file is given back" {
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer takes memory itself'
    # Written in large pieces, so that the page cache has it in large ones.
    seq 12000000 | dd of=keys bs=4M iflag=fullblock status=none
    [ "$(size keys)" -gt 90000000 ]
    for threads in 1 2; do
        run -0 peak seen create --fixed --force -n 12M -j $threads f keys
        [ "$output" -le $(($(size f) / 1024 + 64 * 1024 + 5000)) ]
    done
}

@test "bits for which there is not memory enough are made from scratch" {
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer takes addresses by the terabyte'
    seq 3300000 >keys
    quiet seen create --reproducible -j 1 -n 60M f keys
    # Not for the bits, and not for anything beside them.
    for kib in 80000 120000; do
        run -0 --separate-stderr bash -c "ulimit -v $kib &&
            exec seen create --reproducible --force -j 1 -n 60M --memory 50M g keys"
        cmp f g
    done
}

@test "files differ in times and id, unless --reproducible leaves these out" {
    quiet seen create a -k x
    quiet seen create b -k x
    run ! cmp -s a b
    alike <(data a) <(data b)
    quiet seen create --reproducible --force a -k x
    quiet seen create --reproducible --force b -k x
    cmp a b
    seen stats --json a | jq -e '.created == null and .changed == null'
}

@test "--like makes filters that can be merged exactly" {
    seq 5000 | quiet seen create -p 1e-4 --ignore-case --trim like.seen
    seq 10 | quiet seen create --like like.seen a.seen
    geometry() { seen stats --json "$1" | jq -c '[.n_design, .fpr_design, .bytes, .preparation,
        .seed, (.layers[] | .pages, .k, .lines)]'; }
    equal "$(geometry a.seen)" "$(geometry like.seen)"
    quiet seen create --like like.seen --empty b.seen
    equal "$(geometry b.seen)" "$(geometry like.seen)"
    seq 5000 | quiet seen create --like like.seen --force like.seen
    run -0 seen query -c -k ' 7 ' a.seen
    [ "$output" = 1 ]
    rejects "*'like.seen' was made without --hex*" seen create --like like.seen --hex c.seen -k a
    rejects "seen: cannot open 'nope': No such file or directory" \
        seen create --like nope c.seen -k a
    seq 40000 60000 | quiet seen create other.seen --trim -i
    run -0 seen merge -o both.seen like.seen other.seen
    rejects "*'both.seen'*" seen create --like both.seen c.seen -k a
    [ ! -e c.seen ]
}

@test "--size solves for what is not given" {
    seq 10000 >keys
    quiet seen create -s 64K f keys
    [ "$(size f)" -le 65536 ]
    [ "$(size f)" -gt $((65536 - 4096)) ]
    seen stats --json f | jq -e '.n_design == 10000 and .fpr_design < 1e-4 and .fpr_current < 1e-4'
    quiet seen create -s 64K -p 0.01 --force f keys
    [ "$(size f)" -le 65536 ]
    seen stats --json f | jq -e '.fpr_design == 0.01 and .n_design > 30000'
    n=$(fact f n_design)
    # That capacity is what fits: one in a hundred more would not.
    quiet seen create --fixed --empty -n "$n" -p 0.01 --force g
    [ "$(size g)" -le 65536 ]
    quiet seen create --fixed --empty -n $((n + n / 100 + 2000)) -p 0.01 --force g
    [ "$(size g)" -gt 65536 ]
    quiet seen create --empty -s 64K -n 12345 --force f
    [ "$(size f)" -le 65536 ]
    seen stats --json f | jq -e '.n_design == 12345 and .fpr_design < 1e-3'
    quiet seen create --empty -s 64K --force f
    seen stats --json f | jq -e '.fpr_design == 1e-6'
}

@test "--min-ratio counts a key of the old filter once, in however many layers it is" {
    seq 1000 >keys
    seq 800 >few
    seen create --generations 3 -n 3k ring keys
    for i in 1 2; do
        seen rotate ring
        seen add ring keys
    done
    seen create -n 1k small keys
    seen create -n 5k large keys
    seen merge -o joined small large
    seen create --compact compact1 keys
    seen create --compact compact2 keys
    seen merge -o compact compact1 compact2
    for old in ring joined compact; do
        cp $old f
        rejects "*--min-ratio asks for*" seen create --force --min-ratio 0.9 f few
        quiet seen create --force --min-ratio 0.9 f keys
    done
}

@test "too few keys leave the old file in place" {
    seq 1000 | quiet seen create f
    old=$(digest f)
    seq 899 >few
    cat few few few >repeated
    kept() { [ "$(digest f)" = "$old" ]; }
    rejects "seen: only 899 distinct keys, --min-keys is 900*" \
        seen create --force --min-keys 900 f repeated
    kept
    rejects "seen: only 899 distinct keys, --min-ratio asks for 900*" \
        seen create --force --min-ratio 0.9 f repeated
    kept
    rejects "*" seen create --force --min-ratio 90% --min-keys 10 f few
    rejects "*" seen create --force --min-ratio 0.1 --min-keys 900 f few
    rejects "seen: no keys*" seen create --force --min-keys 0 f /dev/null
    # Of a damaged file the number of keys is not known.
    head -c -1 f >torn
    rejects "seen: --min-ratio: 'torn' is truncated: *" seen create --force --min-ratio 0.1 torn few
    head -c -1 f | cmp - torn
    rm torn
    kept
    rejects "*--min-keys is 1000*" seen create --min-keys 1k new few
    rejects "seen: only 1 distinct key, --min-keys is 2;*" seen create --min-keys 2 new -k a
    # The number is exact above 2^21 keys, too.
    rejects "seen: only 2200000 distinct keys, --min-keys is 2200001;*" seen create --min-keys 2200001 new <(seq 2200000)
    seen create --min-keys 2200000 new <(seq 2200000)
    rm new
    only f few repeated
    # Just enough; and where there is no old file there is nothing to compare with.
    quiet seen create --force --min-ratio 0.9 --min-keys 899 new few
    quiet seen create --force --min-ratio 0.899 --min-keys 899 f few
    run ! kept
    quiet seen create --force --min-ratio 2 g few
}

@test "--dry-run prints what would be made and writes nothing" {
    seq 10000 >keys
    run -0 --separate-stderr seen create --dry-run --json f keys
    [ -z "$stderr" ]
    plan=$output
    only keys
    quiet seen create f keys
    jq -e --argjson size "$(size f)" '.. | objects | select(.kind? == "bloom") |
        (.bytes // .file_bytes // .file_size) == $size' <<<"$plan"
    run -0 --separate-stderr seen create --dry-run --empty --compact --json g
    jq -e ".fpr_design == 1e-6" <<<"$output"
    run -0 --separate-stderr seen create --dry-run --empty -n 1e9 g
    [[ $output == *'1000000000 keys'* ]]
    only keys f
}

@test "--dry-run fails where the real run would" {
    seq 5000 >keys
    seq 4999 >fewer
    seen create f keys
    seen create --counted -p 0 c keys
    local wrong
    for wrong in 'f keys' 'none/f keys' '--min-keys 5001 g keys' '--force --min-ratio 1 f fewer' \
        '--fixed -n 500 g keys' '--fixed -n 500 --min-keys 1 g -' '-n 9000 --min-keys 5001 g keys' \
        '--fixed -n 9000 --min-keys 5001 g' '--force --fixed -n 9000 --min-ratio 2 f' '--hex --fixed -n 9 g -k x' \
        '--fixed -n 500 --from c g' \
        '--force --like f --min-ratio 2 f keys' '-n 10 g /dev/null' '-n 10 none/g' '-n 10 f' \
        '--compact --min-keys 5001 g keys' '--empty -n 5 f'; do
        # shellcheck disable=SC2086 # words
        run -2 --separate-stderr seen create $wrong <keys
        [ -z "$output" ]
        message=$stderr
        # shellcheck disable=SC2086
        run -2 --separate-stderr seen create --dry-run $wrong <keys
        [ -z "$output" ]
        # The rate is not the same to the last digit.
        [ "${stderr%% is for: *}" = "${message%% is for: *}" ]
    done
    only c f keys fewer
    for wrong in '--force f keys' '--min-keys 5000 g keys' '--force --min-ratio 1 f keys' \
        '-n 5000 g keys' '-n 5000 --min-keys 5000 g' '--like f g keys' '--compact g keys'; do
        # shellcheck disable=SC2086
        run -0 --separate-stderr seen create --dry-run $wrong <keys
        [[ -z $stderr && $output == '5000 keys'* ]]
    done
    only c f keys fewer
}

@test "--json says what was made" {
    seq 1000 >keys
    echo "no field" >>keys
    seq 5 >>keys
    run -0 --separate-stderr seen create --json -p 0.01 f keys
    [ -z "$stderr" ]
    jq -e --argjson size "$(size f)" '.file == "f" and .kind == "bloom" and .bytes == $size and
        .n_design == null and .fpr_design == 0.01 and .records == 1006 and .bad_records == 0 and
        .keys_added == 1001 and .fpr_current > 0 and .fpr_current < 0.01' <<<"$output"
    run -0 --separate-stderr seen create --json --skip-bad -d ' ' -f 2 -n 10 g keys
    jq -e '.records == 1006 and .bad_records == 1005 and .keys_added == 1' <<<"$output"
    # Bits for each key that it has, not for each that it has room for.
    for command in 'create made keys' 'create --fixed -n 5000 made keys' 'create --compact made keys' \
        'create --generations 2 -n 5000 made keys' 'create --counted made keys' 'merge -o made f f' \
        'create --layout spark -n 5000 made keys' 'shrink -o made f'; do
        # shellcheck disable=SC2086 # several words
        seen $command --json | jq -e '.bits_per_key == 8 * .bytes / .n_estimate'
        rm made
    done
    jq -e 'keys == ["bad_records", "bits_per_key", "bytes", "file", "fpr_current", "fpr_design", "keys_added", "kind",
        "layers", "n_at_least", "n_design", "n_estimate", "records"]' <<<"$output"
    seen create --json --empty made | jq -e '.n_estimate == 0 and .bits_per_key == null'
}

@test "a full or closed stdout is told, and the file is there" {
    run -2 --separate-stderr bash -c 'seen create --json f -k a >/dev/full'
    [ "$stderr" = "seen: 'f' was made, but standard output could not be written: No space left on device" ]
    run -2 --separate-stderr bash -c 'seen create --json g -k a >&-'
    [ "$stderr" = "seen: 'g' was made, but standard output could not be written: Bad file descriptor" ]
    run -2 --separate-stderr bash -c 'seen create --json --force -n 9 g -k b >/dev/full'
    [[ $stderr == "seen: 'g' was made, but "* ]]
    run -0 seen query -c g -k b
    seen create --force g -k a
    # Where nothing was made, nobody says so.
    run -2 --separate-stderr bash -c 'seen create --dry-run i -k a >/dev/full'
    [ "$stderr" = "seen: cannot write standard output: No space left on device" ]
    run -0 seen query -c f -k a
    run -0 seen query -c g -k a
    quiet bash -c 'seen create h -k a >&-'
    seen create --foldable -n 10000 foldable -k a
    seen create --layout guava -n 10 guava.seen -k a
    seen export guava.seen -o guava
    for words in 'shrink --json -o made foldable' 'import --json --layout guava guava -o made'; do
        rm -f made
        # shellcheck disable=SC2016 # for the inner bash
        run -2 --separate-stderr bash -c 'seen $1 >/dev/full' - "$words"
        [ "$stderr" = "seen: 'made' was made, but standard output could not be written: No space left on device" ]
        run -0 seen query -c made -k a
    done
}

@test "input that is closed is an error" {
    run -2 --separate-stderr bash -c 'seen create f <&-'
    [[ $stderr == *'Bad file descriptor'* ]]
    only
}

@test "a signal leaves nothing behind, and the old file as it was" {
    mkfifo keys
    seq 10 | quiet seen create f
    old=$(digest f)
    ulimit -c 0
    for target in f new; do
        for signal in TERM INT HUP ALRM PIPE QUIT USR1 XCPU KILL; do
            # In the background of a shell without job control SIGINT is ignored, but not below this env.
            env --default-signal=INT,HUP,TERM,PIPE,QUIT seen create --force --memory 4M $target keys &
            pid=$!
            exec 7>keys
            many >&7
            until_open keys $pid
            kill -$signal $pid
            exec 7>&-
            status=0
            wait $pid || status=$?
            [ $status = $((128 + $(kill -l $signal))) ]
            # Nobody can remove what a killed process leaves but the next command that writes the file.
            if [ $signal = KILL ]; then
                compgen -G ".$target.??????.seen-tmp" >left
                rm left
                run -2 seen create --force $target </dev/null
            fi
            only f keys
            [ "$(digest f)" = "$old" ]
        done
    done
}

@test "what a killed process left is removed by the next command that writes the file" {
    quiet seen create f -k a
    touch f.seen-tmp .f.abcdef.seen-tmp .g.abcdef.seen-tmp
    ln -s f link
    seen query -q f -k a
    [ -e .f.abcdef.seen-tmp ]
    for command in 'add f -k b' 'add link -k b' 'dedup f -k c' 'verify --repair f'; do
        touch .f.abcdef.seen-tmp
        # shellcheck disable=SC2086 # several words
        seen $command >/dev/null
        only f f.seen-tmp .g.abcdef.seen-tmp link
    done
}

@test "advice can be followed" {
    seq 1000 >keys
    seq 5000 >five
    quiet seen create a keys
    run -2 --separate-stderr seen create --like a b five
    [[ $stderr == *"; a filter for them, and others like it, need --capacity 5000" ]]
    run -2 --separate-stderr seen create --fixed -n 1000 b five
    [[ $stderr == *"; it needs --capacity 5000" ]]
    refuses "seen: only 1000 distinct keys, --min-keys is 5000; 'b' is not made" \
        seen create --min-keys 5000 b keys
    refuses "seen: only 1000 distinct keys, --min-keys is 5000; 'a' is left as it was" \
        seen create --force --min-keys 5000 a keys
    refuses "seen: cannot put scratch into 'nowhere': No such file or directory" \
        seen create --tmpdir nowhere b keys
    refuses "seen: cannot put scratch into 'keys': Not a directory" \
        seen create --tmpdir keys b keys
    if [ "$(id -u)" != 0 ]; then # root may write anywhere
        mkdir -m 500 locked
        refuses "seen: cannot put scratch into 'locked': Permission denied" \
            seen create --tmpdir locked b keys
    fi
    [ ! -e b ]
}
