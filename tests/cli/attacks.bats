#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Attacks by who can choose keys, and knows all but the secret: they succeed against the public hash
# function, in the numbers that seen(7) gives, and against a secret they are at chance.
#
# The secret is random in each run. Each bound says how seldom an honest run passes it.
# tags: seeded

load ../lib/helpers

setup()
{
    cd "$BATS_TEST_TMPDIR" || return
    [[ $(seen --version) != *'secrets: not available'* ]] || skip 'built without libsodium'
    unset SEEN_SECRET
    SEED=${SEED:-1}
    echo "seed $SEED"
}

attack() { PYTHONDONTWRITEBYTECODE=1 python3 "$SOURCE/tests/lib/attacks.py" "$@"; }

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
    seen create --fixed -x -n 20k -p 1e-3 public.seen keys
    seen create --fixed -x -n 20k -p 1e-3 --secret s --new-secret secret.seen keys
    before=$(figure public.seen .fpr_current)
    attack fill public.seen 2 "$SEED" >crafted
    n=$(wc -l <crafted)
    echo "crafted: $n"
    [ "$n" -lt 300 ]
    seen add public.seen crafted
    after=$(figure public.seen .fpr_current)
    hits=$(seq 1 200000 | xargs printf 'ff%08x\n' | seen query -c public.seen)
    echo "public: $before $after, hits $hits"
    is "$after > 3 * $before"
    # 200000 questions at 0.004 find 800, of deviation 28: a tenth is 2.8 of them, so a half is safe.
    is "$hits > 0.5 * 200000 * $after"
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

@test "stats shows keys that were chosen to set only new bits, and none under a secret" {
    make_keys 20000 >keys
    seen create -x -n 40k -p 1e-3 public.seen keys
    seen create -x -n 40k -p 1e-3 --secret s --new-secret secret.seen keys
    attack spread public.seen 5000 "$SEED" >all_new
    seen add public.seen all_new
    seen add --secret s secret.seen all_new
    # They look like more keys than were counted.
    run -0 --separate-stderr seen stats public.seen
    [[ $stderr == "seen: warning: 'public.seen': its bits hold "*' keys, but '*' were counted: '* ]]
    run -0 --separate-stderr seen stats secret.seen
    [ -z "$stderr" ]
}
