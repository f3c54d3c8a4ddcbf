#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The recipes of seen-passwords(7) do what they say.

# Single quotes here hold other languages.
# shellcheck disable=SC2016
load ../lib/helpers

# shellcheck disable=SC2034 # for recipe_script
PAGE=seen-passwords.7

setup()
{
    [[ $(seen --version) == *'digests: libmd'* ]] || skip 'built without libmd'
    cd "$BATS_TEST_TMPDIR" || return
    mkdir bin
    PATH=$PWD/bin:$PATH
}

# here TITLE N [SED]: makes `script` of a recipe, with its files in the current directory and lists
# that may be short.
here() { recipe_script "$1" "$2" "s#/srv/##; s#cd /srv\$#:#; s/--min-keys 800M/--min-keys 3/
    s/--compact --min/--reproducible &/; ${3-}"; }

# list_of DIGEST PASSWORD...: a list as it is published, sorted.
list_of()
{
    python3 - "$SOURCE" "$@" <<'PYTHON'
import hashlib, sys
sys.path.insert(0, sys.argv[1] + "/tests/lib")
sys.dont_write_bytecode = True
from reader import md4
for line in sorted("%s:%d" % ((hashlib.sha1(word.encode()).hexdigest() if sys.argv[2] == "sha1"
                               else md4(word.encode("utf-16-le")).hex()).upper(), len(word))
                   for word in sys.argv[3:]):
    print(line)
PYTHON
}

# make_filter PASSWORD...: replaces pwned.seen.
make_filter()
{
    list_of sha1 "$@" |
        seen create --compact --force -p 1e-9 --digest sha1 --input-digests -d: -f1 pwned.seen
}

# In place of the downloader: it copies `published`.
make_downloader()
{
    cat >bin/haveibeenpwned-downloader <<'END'
#!/bin/sh
for name; do :; done
[ "$*" = "$name" ] || echo "$*" >>options
cp published "$name.txt"
END
    chmod +x bin/haveibeenpwned-downloader
}

# spoil FILTER: a page that is not what its checksum says.
spoil() { poke "$1" $(($(size "$1") - 40)) "$(printf 'a5%.0s' {1..40})"; }

known() { printf '%s\n' dragon letmein 'pass wörd' 'correct horse' | seen query "$1"; }

@test "from the list to the filter" {
    local title='From the list to the filter' word=$'dragon\nletmein\npass wörd'
    make_downloader
    list_of sha1 dragon letmein 'pass wörd' 123456 >published
    here "$title" 2
    bash script
    [ "$(known pwned.seen)" = "$word" ]
    mv pwned.seen first
    # A list that is cut short.
    head -n 2 published >short
    mv published whole
    mv short published
    run -2 bash script
    [ ! -e pwned.seen ]
    # In a file for each prefix, some of them named otherwise.
    mkdir hashes 'hashes/a b'
    while IFS= read -r line; do
        printf '%s\r\n' "${line:5}" >"hashes/${line:0:5}.txt"
    done <whole
    for file in hashes/[0-9]*; do
        mv "$file" "hashes/a b/$(basename "$file" .txt)"
    done
    here "$title" 3
    bash script
    cmp pwned.seen first
    # The example of a line is one.
    recipe_script "$title" 1
    seen create -p 1e-6 --digest sha1 --input-digests -d: -f1 line.seen script
}

@test "updates from cron" {
    make_downloader
    list_of sha1 dragon letmein >published
    make_filter dragon
    here 'Updates from cron' 1
    sed -i 's,--min-keys 500M,--min-keys 2,' script
    bash script
    [ "$(cat options)" = '-o list' ]
    [ "$(known pwned.seen)" = $'dragon\nletmein' ]
    [ ! -e list.txt ]
    cp pwned.seen old
    for fault in 'list_of sha1 dragon' 'echo no digest' 'list_of sha1 a b c | cut -c 2-' true; do
        eval "$fault" >published
        run -2 bash script
        cmp pwned.seen old
    done
    rm published
    run ! bash script
    cmp pwned.seen old
}

@test "NTLM, for Active Directory" {
    local title='NTLM, for Active Directory'
    make_downloader
    list_of ntlm dragon letmein 'pass wörd' >published
    here "$title" 1
    bash script
    [ "$(cat options)" = '-n list_ntlm' ]
    [ "$(known ntlm.seen)" = $'dragon\nletmein\npass wörd' ]
    # Account, number, LM digest, NTLM digest: as audit tools print them, in small letters.
    while read -r name word; do
        echo "EXAMPLE\\$name:1001:aad3b435b51404eeaad3b435b51404ee:$(list_of ntlm "$word" |
            cut -d : -f 1 | tr A-F a-f):::"
    done <<<$'alice pass wörd\nbob correct horse\neve dragon' >accounts.txt
    here "$title" 2
    [ "$(bash script)" = $'EXAMPLE\\alice\nEXAMPLE\\eve' ]
}

@test "the sizes are those of seen plan" {
    run -0 env PYTHONDONTWRITEBYTECODE=1 \
        python3 "$SOURCE/tests/lib/examples.py" "$SOURCE/man/seen-passwords.7"
    [ "$output" = '1 commands' ]
}

@test "in a script, at a terminal" {
    make_filter dragon ' two\ words'
    here 'In a script' 1
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$SOURCE/tests/lib timeout "$PATIENCE" python3 - <<'END'
from terminal import *
known, new = "known: choose another\n", "not known\n"
for word, said in ("dragon", known), (" two\\ words", known), ("two\\ words", new), ("-n", new), ("", new):
    t = Terminal(["bash", "script"])
    t.expect_hidden("shown): ")
    t.type(word + "\n")
    assert t.expect(said) == "\n", word
    t.end()
END
    mv pwned.seen moved
    [[ $(echo dragon | bash script 2>said) == *'no answer' ]]
    grep -q "cannot open 'pwned.seen'" said
    cp moved pwned.seen
    spoil pwned.seen
    [[ $(echo dragon | bash script 2>said) == *'no answer' ]]
    grep -q "'pwned.seen' is damaged" said
}

@test "in short" {
    make_filter dragon ' two
lines%s\n'
    here DESCRIPTION 1 '/seen create/d'
    password=dragon run -0 sh script
    password=$' two\nlines%s\\n' run -0 sh script
    for password in '' -n ' two' 'lines%s\n' $'dragon\n' 'BZh91AY&SYx' $'\x1f\x8b\x08x'; do
        export password
        run -1 sh script
    done
}

# start_form COMMAND...: the coprocess `form`; its messages are in the file `said`.
start_form()
{
    # shellcheck disable=SC2034 # for ask
    coproc form { PATH=$PWD/form:$PATH exec timeout "$PATIENCE" "$@" 2>>said 3>&-; }
}

# ask QUESTION: sets answer to the line that comes back.
ask()
{
    printf '%s\n' "$1" >&"${form[1]}"
    IFS= read -r -u "${form[0]}" answer
}

# is WORD QUESTION...: so are they answered.
is()
{
    local question word=$1
    shift
    for question; do
        ask "$question"
        [[ $answer == *"$word"* ]] || { echo "$question: $answer, not $word"; return 1; }
    done
}

until_is() { until is "$@" >/dev/null; do sleep 0.05; done; }

end_form()
{
    # shellcheck disable=SC2154 # set by coproc
    local pid=$form_PID
    eval "exec ${form[1]}>&-"
    wait "$pid"
}

# kill_seen: ends the form's process.
kill_seen()
{
    local pid
    pid=$(cat pid)
    kill "$pid"
    while [ -e "/proc/$pid/exe" ]; do sleep 0.01; done
}

# a_night STOLEN FINE UNKNOWN: a filter that is replaced, one that is missing, one that is
# damaged, and its repair, while the form runs. Its answers have these words in them.
a_night()
{
    local stolen=$1 fine=$2 unknown=$3
    is "$stolen" dragon 'pass wörd' dragon
    is "$fine" letmein '' -n 'dragon ' Dragon
    make_filter letmein 'pass wörd'
    until_is "$stolen" letmein
    is "$fine" dragon
    kill_seen
    is "$stolen" letmein
    mv pwned.seen moved
    kill_seen
    is "$unknown" letmein dragon
    grep -q "cannot open 'pwned.seen'" said
    cp moved pwned.seen
    spoil pwned.seen
    is "$unknown" letmein dragon
    grep -q 'is damaged' said
    cp moved pwned.seen
    is "$stolen" letmein
    is "$fine" dragon
    end_form
}

# before_night: a filter, and a seen that writes its process id to `pid`.
before_night()
{
    make_filter dragon 'pass wörd'
    mkdir form
    printf '#!/bin/sh\necho $$ >pid\nexec "$SEEN" "$@"\n' >form/seen
    chmod +x form/seen
}

@test "a sign-up form in Python" {
    here 'A sign\\-up form in Python' 1
    mv script form.py
    cat >driver.py <<'END'
import io, sys
from urllib.parse import quote
import form

def sign_up(body):
    said = []
    environ = {"CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body.encode())}
    text = b"".join(form.form(environ, lambda status, headers: said.append(status)))
    return said[0] + " " + text.decode()

for line in sys.stdin.buffer:
    print(sign_up("name=joe&password=" + quote(line[:-1])), flush=True)
END
    before_night
    PYTHONDONTWRITEBYTECODE=1 start_form python3 driver.py
    a_night '400 Bad Request This password has been stolen' '200 OK Welcome' \
        '503 Service Unavailable Passwords cannot be'
    make_filter dragon $'\ndra\ngon' "$(printf 'long%.0s' {1..20000})"
    PYTHONDONTWRITEBYTECODE=1 timeout "$PATIENCE" python3 - <<'END'
import threading
from form import Stolen, form, passwords
passwords = Stolen("pwned.seen")
for password, stolen in (("dragon", True), ("\ndra\ngon", True), ("long" * 20000, True),
                         ("dragon\0", None), ("\0dragon\0x", None), ("dragon\nx", False),
                         ("", False), ("\ud800", False), ("long" * 200000, False),
                         ("dragon", True)):
    assert passwords.ask(password) is stolen, password[:20]

wrong = []
def ask_many(own):
    for i in range(100):
        if passwords.ask("dragon") is not True or passwords.ask("%s%d" % (own, i)) is not False:
            wrong.append(i)
threads = [threading.Thread(target=ask_many, args=("x%d" % i,)) for i in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong
END
}

@test "a sign-up form in PHP" {
    command -v php >/dev/null || skip 'php is not installed'
    here 'A sign\\-up form in PHP' 1
    cat >driver.php <<'END'
<?php
ob_start();
include 'script';
ob_end_clean();
while (($line = fgets(STDIN)) !== false) {
    echo var_export($passwords->ask(stripcslashes(rtrim($line, "\n"))), true), "\n";
}
END
    before_night
    start_form php driver.php
    a_night true false NULL
    # One request after the other, each in a process.
    for request in 'dragon This' 'letmein Welcome.' '%0A Welcome.' '%00 Passwords'; do
        make_filter dragon
        run -0 php -r 'parse_str($argv[1], $_POST); include "script";' "password=${request% *}"
        [ "${output%% *}" = "${request#* }" ]
    done
    run -0 php -r 'parse_str("password[]=dragon", $_POST); include "script";'
    [[ $output == 'Passwords cannot be checked now'* ]]
    rm pwned.seen
    run -0 php -r '$_POST["password"] = "dragon"; include "script";'
    [[ ${lines[-1]} == 'Passwords cannot be checked now'* ]]
    # Passwords that are not lines.
    make_filter dragon $'\ndra\ngon' "$(printf 'long%.0s' {1..20000})"
    start_form php driver.php
    is true dragon '\ndra\ngon' "$(printf 'long%.0s' {1..20000})"
    is NULL 'dragon\0' '\0'
    is false 'dragon\nx' '' '\xff\xfe'
    is true dragon
    end_form
}

# The script of the recipe for PAM, with PATH as the tests need it, and a logger.
make_refuse_stolen()
{
    here PAM 1 "s#^PATH=.*#PATH=$PATH; cd '$PWD'#"
    chmod +x script
    printf '#!/bin/sh\necho "$*" >>logged\n' >bin/logger
    chmod +x bin/logger
}

@test "PAM: what the script answers" {
    make_refuse_stolen
    make_filter dragon 'pass wörd'
    for word in dragon 'pass wörd'; do
        run -1 sh script < <(printf '%s\0' "$word")
        [[ $output == 'This password has been stolen before'* ]]
        run -1 sh script < <(printf '%s' "$word")
    done
    for word in letmein 'dragon ' $'dragon\nx' '\0'; do
        run -0 sh script < <(printf '%s\0' "$word")
        [ -z "$output" ]
        run -0 sh script < <(printf '%s' "$word")
    done
    # None at all, as programs for new passwords get from old versions of PAM.
    run -1 sh script </dev/null
    [ ! -e logged ]
    mv pwned.seen moved
    run -0 sh script < <(printf 'dragon\0')
    [ -z "$output" ]
    grep -q "^-p auth.err -t refuse-stolen -- seen: cannot open 'pwned.seen': No such file" logged
    cp moved pwned.seen
    spoil pwned.seen
    run -0 sh script < <(printf 'letmein\0')
    grep -q "seen: 'pwned.seen' is damaged" logged
    run ! grep -q letmein logged
    # Closed.
    sed -i 's/exit 0 ;; #/exit 1 ;; #/' script
    run -1 sh script < <(printf 'letmein\0')
    mv moved pwned.seen
    run -0 sh script < <(printf 'letmein\0')
}

# With the pam_exec of this machine, and a configuration of its own.
@test "PAM: pam_exec gives passwords to the script" {
    python3 -c 'import ctypes
ctypes.CDLL("libpam.so.0").pam_start_confdir' 2>/dev/null ||
        skip 'no libpam that can read another directory'
    [ -n "$(find /lib/*/security /usr/lib*/security -name pam_exec.so 2>/dev/null)" ] ||
        skip 'no pam_exec'
    make_refuse_stolen
    make_filter dragon 'pass wörd'
    # The lines of the page for pam_exec; a password is stored or checked by pam_permit.
    for i in 2 3; do
        recipe_script PAM $i "s#/usr/local/sbin/refuse-stolen#$PWD/refuse-stolen#
            s/^auth +optional/auth required/; s/^(password.*)pam_pwquality.so/\1pam_permit.so/
            s/pam_unix.so.*/pam_permit.so/"
        cat script >>service
    done
    echo 'auth required pam_permit.so' >>service
    here PAM 1 "s#^PATH=.*#PATH=$PATH; cd '$PWD'#"
    mv script refuse-stolen
    chmod +x refuse-stolen
    timeout "$PATIENCE" python3 - <<'END'
import ctypes

libc, pam = ctypes.CDLL(None), ctypes.CDLL("libpam.so.0")
libc.calloc.restype = libc.strdup.restype = ctypes.c_void_p
PROMPT_HIDDEN, INFO, SUCCESS = 1, 4, 0


class Message(ctypes.Structure):
    _fields_ = [("style", ctypes.c_int), ("text", ctypes.c_char_p)]


class Response(ctypes.Structure):
    _fields_ = [("text", ctypes.c_void_p), ("code", ctypes.c_int)]


TALK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.POINTER(Message)),
                        ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)


class Conversation(ctypes.Structure):
    _fields_ = [("talk", TALK), ("data", ctypes.c_void_p)]


def run(how, password):
    """Whether it succeeded, what it showed, and whether it asked."""
    shown, asked = [], []

    def talk(count, messages, responses, _):
        answers = libc.calloc(count, ctypes.sizeof(Response))
        for i in range(count):
            message = messages[i].contents
            if message.style == PROMPT_HIDDEN:
                asked.append(message.text)
                ctypes.cast(answers, ctypes.POINTER(Response))[i].text = libc.strdup(password)
            else:
                shown.append(message.text)
        responses[0] = answers
        return SUCCESS

    conversation = Conversation(TALK(talk), None)
    handle = ctypes.c_void_p()
    assert pam.pam_start_confdir(b"service", b"root", ctypes.byref(conversation), b".",
                                 ctypes.byref(handle)) == SUCCESS
    status = how(handle, 0)
    pam.pam_end(handle, status)
    return status == SUCCESS, b"".join(shown), bool(asked)


for password in b"dragon", "pass wörd".encode(), b"letmein", b"", b"x" * 400:
    stolen = password in (b"dragon", "pass wörd".encode())
    refused = stolen or password == b""
    ok, shown, asked = run(pam.pam_authenticate, password)
    assert asked and ok != refused, (password, shown)
    assert refused == (b"stolen before" in shown), shown
    # Before Linux-PAM 1.6.0 no new password arrives.
    ok, shown, asked = run(pam.pam_chauthtok, password)
    assert ok != (refused or not asked), (password, shown)
END
}
