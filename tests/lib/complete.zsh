# SPDX-License-Identifier: MIT
# zsh -f complete.zsh LINE...: for each line prints "> LINE", and, sorted, what an interactive zsh offers at
# its end. The shell under test runs on a pseudo-terminal, and says through a fifo when it is ready and
# what it found. SOURCE is the top of the source tree.

if [[ $1 != --child ]]; then
    zmodload zsh/zpty || exit
    export FIFO=$(mktemp -u)
    mkfifo $FIFO || exit
    # For reading and writing: it does not end when a writer goes.
    exec {said}<>$FIFO
    zpty child "PS1= zsh -f -i"
    zpty -w child "source ${(q)0:A} --child"
    read -r -u $said ready
    for line; do
        # Control-U takes the line before away.
        zpty -w -n child $'\x15'"$line"$'\t'
        found=()
        while read -r -u $said one && [[ $one != . ]]; do
            found+=($one)
        done
        print -r -- "> $line"
        print -rl -- $found | sort -u | grep .
    done
    zpty -d child
    rm $FIFO
    exit 0
fi

fpath=($SOURCE/completions $fpath)
autoload -Uz compinit
compinit -D -u

# Every candidate goes through compadd; those calls that only fill arrays of the caller do not count.
typeset -ga offered
compadd()
{
    local -a found
    if [[ ${@[1,(i)(-|--)]} != *-[OAD]\ * ]]; then
        builtin compadd -A found "$@"
        offered+=("${found[@]}")
    fi
    builtin compadd "$@"
}

capture()
{
    offered=()
    _main_complete
    compstate[list]= compstate[insert]= # nor does it ask whether to list so many
    print -rl -- "${offered[@]}" . >$FIFO
}
zle -C capture complete-word capture
bindkey '^I' capture
bindkey '^U' kill-whole-line

zle-line-init()
{
    zle -D zle-line-init
    print ready >$FIFO
}
zle -N zle-line-init
