# SPDX-License-Identifier: MIT
load ../lib/helpers

# Every option of every command, where it can have an effect, where it repeats what is in force,
# where it says something else, and where it can have no effect. The options are those that the
# program lists, so that a new one needs lines here.

# A line of the table: COMMAND OPTION MARK [ARGUMENTS [# PATTERN]]. `keys` stands for all commands
# that read keys, and F for a filter that the command takes.
#     =  done without a word on stderr
#     +  done, and stderr may have something, which --verbose and --progress are for
#     ~  done, with a warning like PATTERN, which names what is in force
#     !  exit status 2, a message that names the option, or is like PATTERN, and no new file
#     always     nothing makes it ineffective
#     hint       about time, memory or output: accepted where it makes no difference
#     elsewhere  not run here: it takes a terminal, a server, or a library
table()
{
    cat <<'TABLE'
keys --key = F -k 1
keys --key ! F -k 1 lines
keys --null = -0 F nul
keys --null hint
keys --null-data = -z F nul
keys --null-data hint
keys --delimiter = -d, -f2 F csv
keys --delimiter ! -d, F lines
keys --delimiter ! -d, -w -f1 F lines
keys --whitespace = -w -f1 F lines
keys --whitespace ! -w F lines
keys --field = -f1 F lines
keys --field = -f0 F lines
keys --field = -w -f1- F lines
keys --field ! -f1 F -k 1
keys --header = --header 1 F lines
keys --header ! --header 1 F -k 1
keys --csv = --csv -f 2 F csv
keys --csv ! --csv F -k 1
keys --csv ! --csv -0 F nul
keys --no-header = --csv --no-header -f 2 F csv
keys --no-header ! --no-header F lines
keys --jsonl = --jsonl --skip-bad F lines
keys --jsonl ! --jsonl F -k 1
keys --jsonl ! --jsonl --csv F lines
keys --comments = --comments F lines
keys --comments ! --comments F -k 1
keys --crlf = --crlf F lines
keys --crlf hint
keys --input-digests ! --input-digests F lines
keys --skip-bad = --skip-bad F lines
keys --skip-bad = --skip-bad F -k 1
keys --skip-bad hint
keys --no-gzip = --no-gzip F lines
keys --no-gzip ! --no-gzip F -k 1
keys --threads = -j1 F -k 1
keys --threads hint
keys --memory = --memory 64M F lines
keys --memory ! --memory 1000K F lines
keys --memory hint
keys --progress + --progress F -k 1
keys --progress hint

create --null ! -0 --empty -n 9 new
create --field ! -f1 --empty -n 9 new
create --csv ! --csv --empty -n 9 new # *--empty reads no keys: not with --csv
create --csv ! --csv --from exact new # *--from takes the keys of its FILTER: not with --csv
create --jsonl ! --jsonl --empty -n 9 new # *--empty reads no keys: not with --jsonl
create --jsonl ! --jsonl --from exact new # *--from takes the keys of its FILTER: not with --jsonl
create --header ! --header 1 --empty -n 9 new # *--empty reads no keys: not with --header
create --skip-bad ! --skip-bad --from exact new # *--from takes the keys of its FILTER: not with --skip-bad
create --input-digests = --digest sha1 --input-digests new hex
create --secret elsewhere
create --secret ! --layout guava --secret s new lines
create --trim = --trim new lines
create --trim ! --trim --like f new lines
create --ignore-case = -i new lines
create --ignore-case ! -i --like f new lines
create --upper = --upper new lines
create --upper ! --upper --like f new lines
create --upper ! --upper -i new lines
create --hex = -x new hex
create --hex ! -x --like f new hex
create --digest = --digest sha1 --input-digests new hex
create --digest ! --digest sha1 -x new lines
create --capacity = -n 100 new lines
create --capacity ! -n 100 --like f new lines
create --capacity ! -n 100 --compact new lines
create --fpr = -p 0.001 new lines
create --fpr ! -p 0.1 --like f new lines
create --size = -s 64K new lines
create --size ! -s 64K --like f new lines
create --size ! -s 64K --counted new lines
create --compact = --compact new lines
create --compact ! --compact --like f new lines
create --compact ! --compact --counted new lines
create --counted = --counted new lines
create --counted ! --counted --layout guava new lines
create --once = --counted --once new lines
create --once ! --once new lines
create --once ! --counted --once --each new lines
create --each = --counted --each new lines
create --each ! --each new lines
create --each ! --counted --each --empty -n 9 new
create --like = --like f new lines
create --like ! --like f -n 9 new lines
create --from = --from exact new
create --from ! --from exact new lines
create --from ! --from exact new -k 1
create --layout = --layout guava new lines
create --layout ! --layout guava --compact new lines
create --fixed = --fixed new lines
create --fixed = --fixed -s 1M new lines
create --fixed ! --fixed --grow new lines
create --fixed ! --fixed --compact new lines
create --fixed ! --fixed --like f new lines
create --grow = --grow new lines
create --grow ! --grow --like f new lines
create --generations = --generations 2 -n 100 new lines
create --generations ! --generations 2 -n 100 --grow new lines
create --generations ! --generations 2 -n 100 --fixed new lines
create --generations ! --generations 2 new lines
create --generations ! --generations 2 -n 100 --counted new lines
create --forget-after = --forget-after 30d -n 100 new lines
create --forget-after ! --forget-after 30d new lines
create --forget-after ! --forget-after 30d -n 100 --generations 2 new lines
create --forget-after ! --forget-after 30d -n 100 --fixed new lines
create --foldable = --foldable new lines
create --foldable ! --foldable --like f new lines
create --foldable = --foldable --grow new lines
create --grow = --grow --dry-run new lines
create --grow ! --grow -s 1M new lines
create --empty = --empty -n 9 new
create --empty ! --empty -n 9 new lines
create --empty ! --empty -n 9 new -k 1
create --force = --force f lines
create --force = --force new lines
create --force hint
create --min-keys = --min-keys 10 new lines
create --min-keys ! --min-keys 10 --empty -n 9 new
create --min-ratio = --force --min-ratio 1 f lines
create --min-ratio = --force --min-ratio 1 new lines
create --min-ratio ! --min-ratio 1 new lines
create --min-ratio ! --force --min-ratio 1 --empty -n 9 f
create --tmpdir = --tmpdir . new lines
create --tmpdir hint
create --new-secret elsewhere
create --new-secret ! --new-secret new lines
create --new-secret ! --new-secret --secret s --dry-run new lines
create --dry-run = --dry-run new lines
create --dry-run always
create --reproducible = --reproducible new lines
create --reproducible always
create --no-profile = --no-profile new lines
create --no-profile always
create --json = --json new lines
create --json always

add --max-fpr = --max-fpr 0.1 f lines
add --max-fpr always
add --rotate-at-capacity = --rotate-at-capacity ring lines
add --rotate-at-capacity ! --rotate-at-capacity f lines # *'f' has no generations*
add --rotate-at-capacity ! --rotate-at-capacity counted lines # *'counted' has no generations*
add --rotate-at-capacity ! --create --rotate-at-capacity out lines # *'out' has no generations*
add --rotate-at-capacity = --create --rotate-at-capacity --generations 2 -n 20 out lines
add --no-sync = --no-sync f lines
add --no-sync hint
add --once = --once counted lines
add --once ! --once f lines
add --each = --each counted lines
add --each ! --each f lines
add --verbose + --verbose f lines
add --verbose always
add --batch-id = --batch-id 1 counted lines
add --batch-id ! --batch-id 1 f lines
add --tmpdir = --tmpdir . counted lines
add --tmpdir hint
add --create = --create f lines
add --create = --create new lines
add --create always
add --capacity = --create -n 1000 f lines
add --capacity = --create -n 1000 counted lines
add --capacity ~ --create -n 9 f lines # *capacity of 1000: --capacity has no effect
add --capacity ~ --create -n 9 counted lines # *capacity of 1000: --capacity has no effect
add --capacity ~ --create -n 9 grows lines # *grows: --capacity has no effect
add --capacity ! -n 1000 f lines
add --fpr = --create -p 1e-6 f lines
add --fpr = --create -p 1e-6 counted lines
add --fpr ~ --create -p 0.1 f lines # *rate of 1e-06: --fpr has no effect
add --fpr ~ --create -p 0.1 counted lines # *rate of 1e-06: --fpr has no effect
add --fpr ! -p 0.001 f lines
add --fixed = --create --fixed -n 1000 f lines
add --fixed = --create --fixed -n 1000 new lines
add --fixed ~ --create --fixed -n 16384 grows lines # *'grows' is there already, and grows: --fixed has no effect*
add --fixed ! --create --fixed new lines
add --fixed ! --fixed f lines
add --generations = --create --generations 2 -n 1000 ring lines
add --generations = --create --generations 2 -n 100 new lines
add --generations ! --create --generations 2 new lines
add --generations ~ --create --generations 3 -n 1000 ring lines # *with 2 generations: --generations has no effect
add --generations ~ --create --generations 3 -n 1000 f lines # *without generations: --generations has no effect
add --generations ~ --create --generations 3 -n 1000 counted lines # *without generations: --generations has no effect
add --generations ! --generations 2 ring lines
add --forget-after = --create --forget-after 30d -n 100 new lines
add --forget-after ! --create --forget-after 30d new lines
add --forget-after ! --create --forget-after 30d -n 100 --generations 2 new lines
add --forget-after ~ --create --forget-after 30d -n 1000 ring lines # *does not forget by time: --forget-after has no effect
add --forget-after ~ --create --forget-after 30d -n 1000 f lines # *does not forget by time: --forget-after has no effect
add --forget-after ~ --create --forget-after 30d -n 1000 counted lines # *does not forget by time: --forget-after has no effect
add --forget-after ! --forget-after 30d ring lines
add --no-profile = --create --no-profile new lines
add --no-profile ~ --create --no-profile f lines # *keeps a profile of its keys: --no-profile has no effect
add --no-profile ! --no-profile f lines

remove --all = --all counted lines
remove --all ! --all --once counted lines
remove --all ! --all --each counted lines
remove --skip-absent = --skip-absent counted lines
remove --skip-absent always
remove --once = --once counted lines
remove --once ! --once --each counted lines
remove --each = --each counted lines
remove --each always
remove --no-sync = --no-sync counted lines
remove --no-sync hint
remove --verbose + --verbose counted lines
remove --verbose always
remove --batch-id = --batch-id 1 counted lines
remove --batch-id always
remove --tmpdir = --tmpdir . counted lines
remove --tmpdir hint

query --invert-match = -v f lines
query --invert-match ! -v --which f lines
query --count = -cn f lines
query --count hint
query --quiet = -qcn f lines
query --quiet hint
query --max-count = -m1 f lines
query --max-count ! -m1 --annotate f lines
query --files-with-matches = -lc f lines
query --files-with-matches ! -l f -k 1
query --files-with-matches ! -lL f lines
query --files-without-match = -L f lines
query --files-without-match ! -L f -k 1
query --no-messages = -s f lines
query --no-messages ! -s f -k 1
query --line-buffered = --line-buffered f lines
query --line-buffered hint
query --number = -n f lines
query --number hint
query --annotate = --annotate f lines
query --annotate ! --annotate -c f lines
query --annotate ! --annotate -q f lines
query --annotate ! --annotate -l f lines
query --show-counts = --show-counts counted lines
query --show-counts ! --show-counts f lines # *'f' does not count its keys*
query --show-counts ! --show-counts --also g counted lines
query --show-counts ! --show-counts -c counted lines
query --verbose + --verbose f lines
query --verbose always
query --also = --also g f lines
query --also always
query --which = --which f lines
query --which ! --which -v f lines
query --which ! --which -c f lines
query --which ! --which -q f lines
query --at-least = --at-least 1 counted lines
query --at-least ! --at-least 1 f lines # *'f' does not count its keys*
query --at-least ! --at-least 1 --also g counted lines
query --list = --list lines lines
query --list ! --list lines --show-counts lines
query --list ! --list lines --at-least 2 lines
query --list ! --list lines --secret lines lines
query --layout = --layout gozero:bits=20000 bits lines
query --layout ! --layout gozero:bits=20000 f lines
query --list ! --list lines --layout guava lines # *not with --layout
query --confirm = --confirm sorted f lines
query --confirm always

dedup --invert-match = -v f lines
dedup --invert-match ! -v --annotate f lines
dedup --count = -c f lines
dedup --count ! -c --annotate f lines
dedup --quiet = -qc f lines
dedup --quiet ! -q --annotate f lines
dedup --annotate = --annotate f lines
dedup --annotate ! --annotate -v f lines
dedup --line-buffered = --line-buffered f lines
dedup --line-buffered hint
dedup --keep-bad = --keep-bad f lines
dedup --keep-bad ! --keep-bad -v f lines
dedup --keep-bad ! --keep-bad --annotate f lines
dedup --keep-bad ! --keep-bad --skip-bad f lines
dedup --verbose + --verbose f lines
dedup --verbose always
dedup --also = --also g f lines
dedup --also always
dedup --create = --create f lines
dedup --create ! --create
dedup --capacity = --create -n 1000 f lines
dedup --capacity = -n 100
dedup --capacity ~ --create -n 9 f lines # *capacity of 1000: --capacity has no effect
dedup --capacity ~ --create -n 9 grows lines # *grows: --capacity has no effect
dedup --capacity ! -n 1000 f lines
dedup --fpr = --create -p 1e-6 f lines
dedup --fpr = -p 0.001
dedup --fpr ~ --create -p 0.1 f lines # *rate of 1e-06: --fpr has no effect
dedup --fpr ! -p 0.001 f lines
dedup --fixed = --create --fixed -n 1000 f lines
dedup --fixed = --create --fixed -n 100 -p 0.001 new lines
dedup --fixed ~ --create --fixed -n 16384 grows lines # *'grows' is there already, and grows: --fixed has no effect*
dedup --fixed ! --create --fixed new lines
dedup --fixed ! --fixed f lines
dedup --generations = --create --generations 2 -n 1000 ring lines
dedup --generations = --create -n 100 -p 0.001 --generations 2 new lines
dedup --generations ~ --create --generations 3 -n 1000 ring lines # *with 2 generations: --generations has no effect
dedup --generations ~ --create --generations 3 -n 1000 f lines # *without generations: --generations has no effect
dedup --generations ! --generations 2 ring lines
dedup --forget-after = --create -n 100 -p 0.001 --forget-after 30d new lines
dedup --forget-after ~ --create --forget-after 30d -n 1000 ring lines # *does not forget by time: --forget-after has no effect
dedup --forget-after ~ --create --forget-after 30d -n 1000 f lines # *does not forget by time: --forget-after has no effect
dedup --forget-after ! --forget-after 30d ring lines
dedup --no-profile + --create -n 100 -p 0.001 --no-profile new lines
dedup --no-profile ~ --create --no-profile f lines # *keeps a profile of its keys: --no-profile has no effect
dedup --no-profile ! --no-profile f lines
dedup --max-fpr = --max-fpr 0.1 f lines
dedup --max-fpr ! --max-fpr 0.1
dedup --rotate-at-capacity = --rotate-at-capacity ring lines
dedup --rotate-at-capacity ! --rotate-at-capacity f lines # *'f' has no generations*
dedup --rotate-at-capacity ! --create --rotate-at-capacity out lines # *'out' has no generations*
dedup --rotate-at-capacity ! --rotate-at-capacity
dedup --sync-every = --sync-every 1 f lines
dedup --sync-every ! --sync-every 1
dedup --no-sync = --no-sync f lines
dedup --no-sync ! --no-sync

stats --all = --all f
stats --all = --all --json f
stats --all hint
stats --layout = --layout gozero:bits=20000 bits
stats --layout ! --layout gozero:bits=20000 f
stats --json = --json f
stats --json ! --json --prometheus f
stats --prometheus = --prometheus f
stats --prometheus ! --prometheus --json f
stats --secret elsewhere
stats --secret ! --secret s f
stats --threads = -j1 f
stats --threads hint

rotate --verbose + --verbose ring
rotate --verbose always
rotate --now = --now ring
rotate --now always
rotate --threads = -j1 ring
rotate --threads hint

shrink --output = -o new fold
shrink --output always
shrink --fpr = -p 0.1 -o new fold
shrink --fpr ! -p 1e-60 f # *has a false-positive rate of *, more than 1e-60
shrink --force = --force -o g fold
shrink --force = --force fold
shrink --force hint
shrink --reproducible = --reproducible fold
shrink --reproducible always
shrink --verbose + --verbose fold
shrink --verbose always
shrink --json = --json fold
shrink --json always
shrink --threads = -j1 fold
shrink --threads hint

merge --intersect = --intersect -o new f g
merge --intersect ! --intersect --max -o new f g
merge --layout = --layout gozero:bits=20000 -o new bits
merge --layout ! --layout gozero:bits=20000 -o new f g
merge --max = --max -o new exact other
merge --max ! --max -o new f g
merge --max ! --max --subtract -o new exact other
merge --distinct = --distinct -o new exact other
merge --distinct ! --distinct -o new f g
merge --subtract = --subtract -o new exact other
merge --subtract ! --subtract -o new f g # *keys cannot be removed*
merge --subtract ! --subtract -o new exact # *two filters are needed
merge --except = --except -o new exact other
merge --except ! --except -o new f g # *keys cannot be removed*
merge --output = -o new f g
merge --output always
merge --max-fpr = --max-fpr 0.1 -o new f g
merge --max-fpr always
merge --force = --force -o new f g
merge --force hint
merge --reproducible = --reproducible -o new f g
merge --reproducible always
merge --verbose + --verbose -o new f g
merge --verbose always
merge --json = --json -o new f g
merge --json always
merge --threads = -j1 -o new f g
merge --threads hint

verify --repair = --repair f
verify --repair hint
verify --threads = -j1 f
verify --threads hint
verify --progress + --progress f
verify --progress hint

plan --capacity = -n 1000
plan --capacity ! -n 1000 -s 1M -p 0.1 # *--capacity, --fpr and --size cannot all be given*
plan --fpr = -n 1000 -p 0.001
plan --fpr always
plan --size = -s 1M
plan --size ! -s 1M --layout guava
plan --layout = --layout guava -n 1000
plan --layout ! --layout guava -s 1M
plan --fixed = --fixed -n 1000
plan --fixed = --fixed -s 1M
plan --fixed ! --fixed --grow
plan --grow = --grow
plan --grow ! --grow -s 1M
plan --generations = --generations 3 -n 1000
plan --generations ! --generations 3
plan --json = --json -n 1000
plan --json always

compare --layout = --layout gozero:bits=20000 bits bits
compare --layout ! --layout gozero:bits=20000 f g
compare --json = --json f g
compare --json always
compare --threads = -j1 f g
compare --threads hint

import --layout = --layout gozero:bits=20000 foreign -o new
import --layout ! --layout gozero redis://h/k -o new
import --base64 = --base64 --layout gozero:bits=20000 foreign.b64 -o new
import --base64 ! --base64 redis://h/k -o new
import --output = --layout gozero:bits=20000 foreign -o new
import --output always
import --capacity = -n 9 --layout gozero:bits=20000 foreign -o new
import --capacity ! -n 9 redis://h/k -o new
import --fpr = -p 0.1 --layout gozero:bits=20000 foreign -o new
import --fpr ! -p 0.1 redis://h/k -o new
import --force = --force --layout gozero:bits=20000 foreign -o new
import --force hint
import --reproducible = --reproducible --layout gozero:bits=20000 foreign -o new
import --reproducible always
import --json = --json --layout gozero:bits=20000 foreign -o new
import --json always
import --threads = -j1 --layout gozero:bits=20000 foreign -o new
import --threads hint
import --trim = --trim --layout gozero:bits=20000 foreign -o new
import --trim always
import --ignore-case = -i --layout gozero:bits=20000 foreign -o new
import --ignore-case always
import --upper = --upper --layout gozero:bits=20000 foreign -o new
import --upper always
import --hex = -x --layout gozero:bits=20000 foreign -o new
import --hex always
import --digest elsewhere
import --digest ! --digest sha1 -x --layout gozero:bits=20000 foreign -o new

export --output = gozero -o new
export --output always
export --pad = --pad gozero -o new
export --pad ! --pad gozero -o redis://h/k
export --force = --force gozero -o new
export --force ! --force gozero -o redis://h/k
export --merge elsewhere
export --merge ! --merge gozero -o new
export --expire elsewhere
export --expire ! --expire 9 gozero -o new
TABLE
    local command
    for command in add remove query dedup; do
        cat <<TABLE
$command --input-digests = --input-digests D hex
$command --secret elsewhere
$command --secret ! --secret s F lines
$command --trim = --trim P lines
$command --trim ! --trim F lines
$command --ignore-case = -i P lines
$command --ignore-case ! -i F lines
$command --upper = --upper U lines
$command --upper ! --upper F lines
$command --hex = -x X hex
$command --hex ! -x F hex
$command --digest = --digest sha1 --input-digests D hex
$command --digest ! --digest sha1 F lines
TABLE
    done
    for command in add query dedup; do
        cat <<TABLE
$command --password-file elsewhere
$command --password-file ! --password-file lines F lines
$command --timeout elsewhere
$command --timeout ! --timeout 5 F lines
$command --tls-ca elsewhere
$command --tls-ca ! --tls-ca lines F lines
$command --tls-cert elsewhere
$command --tls-cert ! --tls-cert lines F lines
$command --tls-name elsewhere
$command --tls-name ! --tls-name h F lines
$command --tls-key elsewhere
$command --tls-key ! --tls-key lines F lines
TABLE
    done
    cat <<'TABLE'
add --wait elsewhere
add --wait ! --wait 1 f lines
dedup --wait elsewhere
dedup --wait ! --wait 1 f lines
stats --password-file elsewhere
stats --password-file ! --password-file lines f
stats --timeout elsewhere
stats --timeout ! --timeout 5 f
stats --tls-ca elsewhere
stats --tls-ca ! --tls-ca lines f
stats --tls-cert elsewhere
stats --tls-cert ! --tls-cert lines f
stats --tls-name elsewhere
stats --tls-name ! --tls-name h f
stats --tls-key elsewhere
stats --tls-key ! --tls-key lines f
import --password-file elsewhere
import --password-file ! --password-file lines --layout gozero:bits=20000 foreign -o new
import --timeout elsewhere
import --timeout ! --timeout 5 --layout gozero:bits=20000 foreign -o new
import --tls-ca elsewhere
import --tls-ca ! --tls-ca lines --layout gozero:bits=20000 foreign -o new
import --tls-cert elsewhere
import --tls-cert ! --tls-cert lines --layout gozero:bits=20000 foreign -o new
import --tls-name elsewhere
import --tls-name ! --tls-name h --layout gozero:bits=20000 foreign -o new
import --tls-key elsewhere
import --tls-key ! --tls-key lines --layout gozero:bits=20000 foreign -o new
export --password-file elsewhere
export --password-file ! --password-file lines gozero -o new
export --timeout elsewhere
export --timeout ! --timeout 5 gozero -o new
export --tls-ca elsewhere
export --tls-ca ! --tls-ca lines gozero -o new
export --tls-cert elsewhere
export --tls-cert ! --tls-cert lines gozero -o new
export --tls-name elsewhere
export --tls-name ! --tls-name h gozero -o new
export --tls-key elsewhere
export --tls-key ! --tls-key lines gozero -o new
export --wait elsewhere
export --wait ! --wait 1 gozero -o new
TABLE
}

# The table, with `keys` and the filters replaced.
lines_of_table()
{
    table | awk 'NF == 0 { next }
        $1 != "keys" { print; next }
        { for (i = split("create add remove query dedup", c); i > 0; i--) { $1 = c[i]; print } }' |
        sed -E '/^create / s/ F( |$)/ new\1/; /^remove / { s/ F( |$)/ counted\1/
            s/ ([PUXD])( |$)/ counted\1\2/ }; s/ F( |$)/ f\1/; s/ ([PUXD])( |$)/ bloom\1\2/'
}

make_filters()
{
    mkdir there
    cd there || return
    seq 10 >lines
    seq 10 | tr '\n' '\0' >nul
    printf '%s,%s\n' a 1 b 2 >csv
    LC_ALL=C sort lines >sorted
    printf '%040d\n' 1 2 3 >hex
    seen create --fixed -n 1000 f lines
    seen create --like f g lines
    seen create -n 1000 --foldable fold lines
    seen create --counted -n 1000 counted lines
    seen create --counted -p 0 exact lines
    seen create --counted -p 0 other -k 1
    seen create --generations 2 -n 1000 ring lines
    seen create --grow grows lines
    seen create --layout gozero:bits=20000 gozero lines
    seen export gozero -o bits
    seen export gozero -o foreign
    base64 foreign >foreign.b64
    local kind how
    for kind in bloom counted; do
        how=()
        [ $kind = bloom ] || how=(--counted)
        seen create "${how[@]}" -n 1000 --trim -i ${kind}P lines
        seen create "${how[@]}" -n 1000 --upper ${kind}U lines
        seen create "${how[@]}" -n 1000 -x ${kind}X hex
        seen create "${how[@]}" -n 1000 --digest sha1 --input-digests ${kind}D hex
    done
    cd .. || return
}

# tried LINE COMMAND OPTION MARK ARGUMENTS PATTERN: what a line of the table says is so.
tried()
{
    local said status=0 line=$1 command=$2 option=$3 mark=$4 args=$5 pattern=$6
    rm -rf here
    cp -r there here
    # shellcheck disable=SC2086 # words
    said=$(cd here && seen "$command" $args 2>&1 >/dev/null </dev/null) || status=$?
    # shellcheck disable=SC2053 # patterns
    case $mark in
    =) [[ $status -le 1 && -z $said ]] ;;
    +) [[ $status -le 1 ]] ;;
    '~') [[ $status = 0 && $said == "seen: warning: "$pattern ]] ;;
    '!') [[ $status = 2 && ${said%%$'\n'*} == ${pattern:-*$option*} ]] && equal "$(ls -A here)" "$(ls -A there)" ;;
    esac || { echo "$line: exit status $status, $said"; return 1; }
}

@test "each option: in force anyway, something else, or without effect" {
    make_filters
    lines_of_table >table
    local failed=0 line command option mark rest
    while read -r line; do
        read -r command option mark rest <<<"$line"
        echo "$command $option $mark" >>marks
        [[ $mark == [=+~!] ]] || continue
        local pattern=
        [[ $rest != *' # '* ]] || pattern=${rest#* # }
        tried "$line" "$command" "$option" "$mark" "${rest%% # *}" "$pattern" || failed=1
    done <table
    [ $failed = 0 ]
}

@test "the table of options has each of them" {
    lines_of_table | awk '{ print $1, $2, $3 }' | sort -u >marks
    seen help --commands | cut -f 1 >commands
    while read -r command; do
        seen help --options "$command" | awk -F '\t' -v c="$command" '
            $2 != "--help" && !seen[$2]++ { print c, $2 }'
    done <commands | sort -u >options
    [ "$(wc -l <options)" -gt 150 ]
    cut -d ' ' -f 1,2 marks | sort -u | diff - options
    # Each is run, or said to be elsewhere; and each is refused somewhere, or said not to be.
    awk '$3 ~ /^([=+]|elsewhere)$/ { run[$1 " " $2] } $3 ~ /^(!|always|hint)$/ { limit[$1 " " $2] }
        { all[$1 " " $2] }
        END { for (o in all) if (!(o in run) || !(o in limit)) { print o; bad = 1 } exit bad }' marks
}
