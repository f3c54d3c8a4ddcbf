# SPDX-License-Identifier: MIT
# The golden files: filters that version 1.0.0 of seen made, of everything that its format can hold, in
# tests/vectors/seen. tests/vectors/seen/make made them; tests/cli/golden.bats reads them.
#
# A row of manifest.tsv is a filter: its name; the form of its records; the options that a query needs, or -; how many
# records were added, those from 1 on; which of the other records, up to ASKED, it has by chance, or -; what takes keys: add,
# or -; its numbers of occurrences: once, all or -; and what stats says of it.
# shellcheck disable=SC2034 # for those who load this
GOLDEN=$SOURCE/tests/vectors/seen
ASKED=2300

# form FORM FIRST LAST: these records.
form()
{
    case $1 in
        number) seq "$2" "$3" ;;
        word) seq -f 'Key-%.0f' "$2" "$3" ;;
        loud) seq -f 'KEY-%.0f' "$2" "$3" ;;
        spaced) seq -f "$(printf ' \tKey-%%.0f ')" "$2" "$3" ;;
        hex) seq "$2" "$3" | xargs printf 'aB%06x\n' ;;
        nul) seq "$2" "$3" | tr '\n' '\0' ;;
        csv) seq -f 'x,%.0f,y' "$2" "$3" ;;
        table) seq -f ' x   %.0f  y' "$2" "$3" ;;
        json) seq -f '{"n": 7, "id": "Key-%.0f"}' "$2" "$3" ;;
        # Those that other programs added, and others.
        vector) vector keys "$2" "$3" ;;
        vector2) vector keys2 "$2" "$3" ;;
        crlf) seq "$2" "$3" | sed 's/$/\r/' ;;
        *) return 1 ;;
    esac
}

# vector FOLDER FIRST LAST: these of the records of a folder of tests/vectors.
vector()
{
    { cat "$SOURCE/tests/vectors/$1"/{keys,absent}.txt && seq -f 'Key-%.0f' 2001 "$3"; } | sed -n "$2,$3p"
}

# found FILTER FORM OPTIONS: the numbers of the records that it has, of all that are asked.
found()
{
    local options=()
    [ "$3" = - ] || read -ra options <<<"$3"
    form "$2" 1 "$ASKED" | in_golden "${options[@]}" -n "$1" | tr '\0' '\n' | cut -d : -f 1
}

# in_golden ARGUMENT...: a query beside the secret of the golden files, which may find nothing.
in_golden()
{
    (cd "$GOLDEN" || exit; seen query "$@" || [ $? = 1 ])
}

# facts FILTER: what stats says that is stored in the file.
facts() { seen stats --json "$1" | stored_facts; }

# stored_facts: of each filter that stats --json described, a line with what is stored in the file.
stored_facts()
{
    jq -c '[.format_version, .kind, .hash, .preparation, .keys_from, .encoding, .secret, .state, .epoch,
        .policy, .generations, .n_design, .fpr_design, .records, .keys_added, .bytes,
        (.layers[] | [.kind, .bytes, .n_design, .fpr_design, .generation])]
        | walk(if type == "number" then . + 0 else . end) # jq 1.7 prints a number as it was read'
}

# occurrences FIRST LAST: the numbers, each once, twice or three times.
occurrences() { seq "$1" "$2" | awk '{ for (i = 0; i <= $1 % 3; i++) print }'; }
