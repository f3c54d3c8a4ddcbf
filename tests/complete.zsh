# zsh -f complete.zsh LINE: prints, sorted, what an interactive zsh offers at the end of the line.
# The shell under test runs on a pseudo-terminal, and says through fifos when it is ready and what
# it found. SOURCE is the top of the source tree.

if [[ $1 != --child ]]; then
    zmodload zsh/zpty || exit
    # Two of them: a reader that comes back too soon would meet the first writer, on its way out.
    export FIFOS=$(mktemp -d)
    mkfifo $FIFOS/ready $FIFOS/found || exit
    zpty child "PS1= zsh -f -i"
    zpty -w child "source ${(q)0:A} --child"
    read -r ready <$FIFOS/ready
    zpty -w -n child "$1"$'\t'
    sort -u <$FIFOS/found | grep .
    zpty -d child
    rm -r $FIFOS
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
    _main_complete
    print -rl -- "${offered[@]}" >$FIFOS/found
}
zle -C capture complete-word capture
bindkey '^I' capture

zle-line-init()
{
    zle -D zle-line-init
    print ready >$FIFOS/ready
}
zle -N zle-line-init
