#!/usr/bin/env bats
# Attacks by who can choose keys, and knows all but the secret: they succeed against the public hash
# function, in the numbers that seen(7) gives, and against a secret they are at chance.
#
# The secret is random in each run. Each bound says how seldom an honest run passes it.

load helpers

setup()
{
    cd "$BATS_TEST_TMPDIR" || return
    [[ $(seen --version) != *'secrets: not available'* ]] || skip 'built without libsodium'
    unset SEEN_SECRET
    SEED=${SEED:-1}
    echo "seed $SEED"
}

attack() { PYTHONDONTWRITEBYTECODE=1 python3 "$SOURCE/tests/attacks.py" "$@"; }

# figure FILTER JQ: a number that stats gives.
figure() { seen stats --json "$1" 2>/dev/null | jq "$2"; }

# is CONDITION: of numbers.
is() { awk "BEGIN { exit !($1) }" || { echo "not: $1"; return 1; }; }

# make_keys N: hexadecimal digits of 4 bytes, other keys than those of 8 that attackers make; and
# one of 1 byte, so that the filter takes keys of any length.
make_keys() { seq 2 "$1" | xargs printf '%08x\n'; echo 01; }

@test "a false positive can be made of each key that is known, but not under a secret" {
    make_keys 2000 >keys
    attack twins keys >second
    [ "$(sort -u second | wc -l)" = 2000 ]
    for how in '-p 1e-6' '--compact -p 1e-6'; do
        # shellcheck disable=SC2086 # options
        seen create --force -x $how public.seen keys
        # shellcheck disable=SC2086
        seen create --force -x $how --secret s --new-secret secret.seen keys
        [ "$(seen query -c public.seen second)" = 2000 ]
        # 0.002 are expected; three have a chance of 1e-9.
        [ "$(seen query -c --secret s secret.seen second || true)" -lt 3 ]
    done
}

@test "records can be kept from being new, by keys that come first, but not under a secret" {
    make_keys 2000 >keys
    attack twins keys >second
    seen create --empty -x -n 10k -p 1e-6 public.seen
    seen create --empty -x -n 10k -p 1e-6 --secret s --new-secret secret.seen
    seen add public.seen second
    seen add --secret s secret.seen second
    [ "$(seen dedup -c public.seen keys)" = 0 ]
    # As above.
    [ "$(seen dedup -c --secret s secret.seen keys)" -gt 1997 ]
}

@test "few keys fill two lines and more than double the FPR, but not under a secret" {
    make_keys 20000 >keys
    seen create -x -n 20k -p 1e-3 public.seen keys
    seen create -x -n 20k -p 1e-3 --secret s --new-secret secret.seen keys
    before=$(figure public.seen .fpr_current)
    attack fill public.seen 2 "$SEED" >crafted
    n=$(wc -l <crafted)
    echo "crafted: $n"
    [ "$n" -lt 300 ]
    seen add public.seen crafted
    after=$(figure public.seen .fpr_current)
    measured=$(seen stats --json --measure 200000 public.seen 2>/dev/null | jq .fpr_measured)
    echo "public: $before $after, measured $measured"
    is "$after > 3 * $before"
    # 200000 questions at 0.004 find 800, of deviation 28: a tenth is 2.8 of them, so a half is safe.
    is "$measured > 0.5 * $after"
    # Of 512.
    is "$(figure public.seen .line_max) > 490"

    # Random keys would raise it by a factor of 1 + 8 * 300 / 20000 at most, as these do now: no run
    # in 1e9 comes to 1.3, since single keys weigh less than a hundredth of the FPR.
    before=$(figure secret.seen .fpr_current)
    seen add --secret s secret.seen crafted
    after=$(figure secret.seen .fpr_current)
    echo "secret: $before $after"
    is "$after < 1.3 * $before"
    is "$(figure secret.seen .line_max) < 490"
}

# p is below 1e-6 for one honest filter in a million.
@test "stats shows chosen keys in a filter, and finds none under a secret" {
    make_keys 20000 >keys
    seen create -x -n 40k -p 1e-3 public.seen keys
    seen create -x -n 40k -p 1e-3 --secret s --new-secret secret.seen keys
    for f in public secret; do
        run -0 --separate-stderr seen stats $f.seen
        [ -z "$stderr" ]
        is "$(figure $f.seen .lines_p) >= 1e-6 && $(figure $f.seen .line_max_p) >= 1e-6"
    done
    attack spread public.seen 5000 "$SEED" >all_new
    attack fill public.seen 1 "$SEED" >one_line
    for kind in all_new one_line; do
        cp public.seen p.seen
        cp secret.seen q.seen
        seen add p.seen $kind
        seen add --secret s q.seen $kind
        p=$(figure p.seen .lines_p) max=$(figure p.seen .line_max_p)
        echo "$kind: p $p, of the fullest line $max"
        is "$p < 1e-6 || $max < 1e-6"
        run -0 --separate-stderr seen stats p.seen
        # Bits that are all new look like more keys than were counted.
        [[ $stderr == "seen: warning: 'p.seen': its bits hold "*' keys, but '*' were counted: '* ||
            $stderr == "seen: warning: 'p.seen': random keys fill its lines like this with a \
probability of "*': keys were chosen to fill it, or bits were set or cleared by other means' ]]
        run -0 --separate-stderr seen stats q.seen
        [ -z "$stderr" ]
        is "$(figure q.seen .lines_p) >= 1e-6 && $(figure q.seen .line_max_p) >= 1e-6"
    done
}

@test "honest filters of every form are free of suspicion" {
    make_keys 30000 >keys
    seen create -x keys.seen keys
    seen create -x -p 1e-6 --foldable -n 60k fold.seen keys
    seen shrink -p 1e-2 -o small.seen fold.seen
    seen create -x --grow --empty -n 1000 grown.seen
    seen add grown.seen keys
    seen create -x --like keys.seen half.seen < <(head -n 15000 keys)
    seen merge -o both.seen keys.seen half.seen
    seen create -x --generations 3 -n 30k --empty ring.seen
    for _ in 1 2 3 4 5; do
        seen add ring.seen < <(head -n 9000 keys)
        seen rotate ring.seen
    done
    for f in keys fold small grown half both ring; do
        p=$(figure $f.seen .lines_p) max=$(figure $f.seen .line_max_p)
        echo "$f: $p, of the fullest line $max"
        is "$p >= 1e-6 && $max >= 1e-6"
    done
}
