#!/usr/bin/env bats
# query --ask: a key that is entered at a terminal, and is not left anywhere.
# tags: seeded

load ../lib/helpers

# at_terminal <<PYTHON: a script that uses tests/lib/terminal.py, with random numbers of a seed.
at_terminal()
{
    local seed=${SEED:-1}
    echo "seed $seed"
    { printf '%s\n' 'from terminal import *' 'import random' "random.seed($seed)"; cat; } >script.py
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$SOURCE/tests/lib timeout "$PATIENCE" python3 script.py
}

# Makes sha1.seen and ntlm.seen, of digests.
digest_filters()
{
    seen create -p 1e-9 --digest sha1 sha1.seen -k word &&
        seen create -p 1e-9 --digest ntlm -i ntlm.seen -k word
}

# The sanitizers' memory has copies of what they watch.
needs_memory()
{
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer keeps memory that was freed'
}

@test "it asks without echo and says whether the key is known" {
    seq 1000 | seen create f.seen
    at_terminal <<'END'
for key, status, answer in (("500", 0, "known: choose another\n"), ("xyz", 1, "not known\n")):
    t = Terminal(["seen", "query", "--ask", "f.seen"])
    t.expect_hidden("Key (not shown): ")
    t.type(key + "\n")
    assert t.expect(answer) == "\n"
    assert t.end() == status
    assert t.shown == "" and t.echoes()
END
}

@test "nothing of it is on stdout or stderr, and -q says nothing at all" {
    seq 1000 | seen create f.seen
    at_terminal <<'END'
for quiet, said in (("", "\nnot known\n"), ("-q", "\n")):
    t = Terminal(["sh", "-c", "seen query --ask %s f.seen >out 2>err; echo $?" % quiet])
    t.expect_hidden("shown): ")
    t.type("secret\n")
    assert t.expect("1\n") == said
    assert open("out").read() == open("err").read() == ""
END
}

@test "any bytes may be entered, and are prepared as the filter's keys" {
    printf '%s\n' 'Crème brûlée' ' spaced out ' | seen create f.seen
    printf 'a b\xff\n' | seen create -i --trim i.seen
    printf 'c0ffee\n' | seen create -x x.seen
    at_terminal <<'END'
for file, key, status in (("f", "Crème brûlée", 0), ("f", " spaced out ", 0), ("f", "spaced out", 1),
                          ("i", b"  A B\xff\t", 0), ("x", "C0FFEE", 0), ("x", "C0FFEF", 1)):
    t = Terminal(["seen", "query", "--ask", file + ".seen"])
    t.expect_hidden("shown): ")
    t.type(key)
    t.type("\n")
    assert t.end() == status, key
END
}

@test "a key that cannot be one is an error, which does not show it" {
    printf '%s\n' c0ffee c0 | seen create -x x.seen
    at_terminal <<'END'
for key, said in (("secret\n", "the key that was entered: not hexadecimal"),
                  ("\n", "nothing was entered"), ("\x04", "nothing was entered"),
                  ("a" * 4095 + "\n", "the line is longer than the 4094 bytes that a terminal")):
    t = Terminal(["seen", "query", "--ask", "--verbose", "x.seen"])
    t.expect_hidden("shown): ")
    t.type(key)
    assert t.expect("seen: " + said) == "\n"
    assert t.end() == 2 and t.echoes()
    assert "secret" not in t.shown
t = Terminal(["seen", "query", "--ask", "x.seen"])
t.expect_hidden("shown): ")
t.type("a" * 4094 + "\n")
t.expect("not known")
t = Terminal(["seen", "query", "--ask", "x.seen"])
t.expect_hidden("shown): ")
t.type("c0ff\x04")
t.type("ee\x04\x04")
t.expect("known: choose another")
END
}

@test "a filter with a secret is asked with it" {
    seen create --new-secret --secret site.secret f.seen -k 500 || skip 'no libsodium'
    at_terminal <<'END'
for how in "--secret site.secret", "":
    for key, status in ("500", 0), ("501", 1):
        t = Terminal(["seen", "query", "--ask", *how.split(), "f.seen"])
        t.expect_hidden("shown): ")
        t.type(key + "\n")
        assert t.end() == status
    os.environ["SEEN_SECRET"] = "site.secret"
END
    refuses "seen: 'f.seen' was made with a secret: --secret or SEEN_SECRET must name its file" \
        seen query --ask f.seen
}

@test "without a terminal it is one error" {
    seen create f.seen -k x
    refuses "seen: cannot ask without a terminal: cannot open '/dev/tty': No such device or address" \
        setsid -w seen query --ask f.seen
}

@test "options that say how keys are read or printed do not go with it" {
    seen create f.seen -k x
    for option in -v -c -n --annotate --which '--confirm x' '-k x' -0 '-f 1' --crlf \
        --skip-bad --no-gzip '-j 1' --progress; do
        # shellcheck disable=SC2086 # words
        run -2 --separate-stderr seen query --ask $option f.seen
        [[ ${stderr_lines[0]} == 'seen: --ask takes one key from the terminal: not with -'* ]]
    done
    refuses 'seen: --ask takes one key from the terminal: not with KEYFILE' \
        seen query --ask f.seen keys
}

@test "the terminal is as it was after every signal" {
    seq 1000 | seen create f.seen
    at_terminal <<'END'
signals = {"\x03": signal.SIGINT, "\x1c": signal.SIGQUIT}
names = ["HUP", "INT", "QUIT", "TERM", "ALRM", "USR1", "PIPE", "RTMIN"]
if "SANITIZER" not in os.environ:
    names += ["SEGV", "ABRT"]  # which sanitizers take
for name in names:
    signals[name] = getattr(signal, "SIG" + name)
for how, number in signals.items():
    t = Terminal(["seen", "query", "--ask", "f.seen"], job="fg")
    t.expect("<job")
    job = int(t.expect(">"))
    t.expect_hidden("shown): ")
    t.type("half a sec")
    if len(how) == 1:
        t.type(how)
    else:
        os.kill(job, number)
    t.expect("<ended %d>" % -number)
    assert t.echoes(), how
    t.close()
END
}

@test "after a stop it asks again" {
    seq 1000 | seen create f.seen
    at_terminal <<'END'
for job in "fg", "bg":
    t = Terminal(["seen", "query", "--ask", "f.seen"], job=job)
    t.expect("<job")
    pid = int(t.expect(">"))
    if job == "fg":
        t.expect_hidden("shown): ")
        t.type("50\x1a")
        t.expect("<stopped %d>" % signal.SIGTSTP)
        assert t.echoes()
        os.kill(t.pid, signal.SIGUSR1)
        t.expect_hidden("shown): ")
        t.type("5")
        os.kill(pid, signal.SIGTSTP)
        t.expect("<stopped %d>" % signal.SIGTSTP)
        assert t.echoes()
    else:
        t.expect("<stopped %d>" % signal.SIGTTOU)
        assert t.echoes()
    os.kill(t.pid, signal.SIGUSR1)
    t.expect_hidden("shown): ")
    os.kill(pid, signal.SIGSTOP)
    t.expect("<stopped %d>" % signal.SIGSTOP)
    os.kill(t.pid, signal.SIGUSR1)
    t.expect_hidden("shown): ")
    t.type("500\n")
    t.expect("known: choose another")
    t.expect("<ended 0>")
    assert t.echoes()
END
}

@test "an ignored signal stays ignored" {
    seq 1000 | seen create f.seen
    at_terminal <<'END'
t = Terminal(["sh", "-c", "trap '' INT TSTP; exec seen query --ask f.seen"])
t.expect_hidden("shown): ")
os.kill(t.pid, signal.SIGINT)
os.kill(t.pid, signal.SIGTSTP)
t.type("500\n")
t.expect("known")
assert t.end() == 0
END
}

@test "its memory is not swapped, dumped or read by others" {
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer does not go with strace'
    seen create f.seen -k x
    at_terminal <<'END'
t = Terminal(["strace", "-o", "calls", "-e", "trace=prctl,setrlimit,prlimit64,mlock,madvise",
              "seen", "query", "--ask", "f.seen"])
t.expect_hidden("shown): ")
t.type("x\n")
t.expect("known")
t.end()
END
    cat calls
    grep -q 'PR_SET_DUMPABLE, SUID_DUMP_DISABLE' calls
    grep -q 'RLIMIT_CORE, {rlim_cur=0, rlim_max=0}' calls
    grep -q '^mlock(' calls
    grep -q 'MADV_DONTDUMP' calls
}

# That the search finds what is there is checked too: at some system call it must have found it.
@test "after the answer the key is nowhere in memory" {
    needs_memory
    # A random key is taken for known with a probability of 1e-9.
    printf '%s\n' word | seen create -p 1e-9 f.seen
    printf '%s\n' word | seen create -p 1e-9 -i --trim i.seen
    printf '%s\n' ff ffff | seen create -p 1e-9 -x x.seen
    filters='"f.seen", "i.seen", "x.seen"'
    if digest_filters; then
        filters+=', "sha1.seen", "ntlm.seen"'
    fi
    at_terminal <<END
for length in 8, 16, 40, 130, 300, 4000:
    secret = bytes(random.choice(b"0123456789ABCDEF") for _ in range(length))
    for filter in $filters:
        assert searched(["seen", "query", "--ask", filter], secret, ["shown): "], "not known") == 1
secret = b"The Secret of " + bytes(str(random.getrandbits(64)), "ascii")
searched(["seen", "query", "--ask", "--verbose", "--also", "f.seen", "f.seen"], secret,
         ["shown): "], "not known")
assert searched(["seen", "query", "--ask", "x.seen"], secret, ["shown): "], "not hexadecimal") == 2
END
}

# What is printed is read by us, not by the process.
@test "a filter of digests forgets what it was asked on standard input" {
    needs_memory
    digest_filters || skip 'no libmd'
    at_terminal <<'END'
import itertools
letters = b"0123456789abcdefGHIJKLMNOPQRSTUVWXYZ"
for how, options, filter in itertools.product(
        ("pipe", "file"), (["-q", "-j1"], ["--annotate", "-n", "-j3"]), ("sha1.seen", "ntlm.seen")):
    secret = bytes(random.choice(letters) for _ in range(random.choice((20, 70))))
    data = b"".join(b"%d\n" % i for i in range(3000)) + secret + b"\nend\n"
    if how == "pipe":
        stdin, end = os.pipe()
        os.write(end, data)
        os.close(end)
    else:
        with open("passwords", "wb") as f:
            f.write(data)
        stdin = os.open("passwords", os.O_RDONLY)
    with open("answers", "wb") as f:
        status = searched(["seen", "query", *options, filter], secret, stdin=stdin,
                          stdout=f.fileno())
    os.close(stdin)
    assert status == 1, status
    with open("answers", "rb") as f:
        assert (secret in f.read()) == ("-q" not in options)
END
}

@test "so does a coprocess, before the next question" {
    needs_memory
    digest_filters || skip 'no libmd'
    printf '%s\n' word | seen create -p 1e-9 --secret s --new-secret secret.seen
    at_terminal <<'END'
digested = ["--digested", "--skip-bad", "sha1.seen"]
for options, lengths in ((["-j1", "sha1.seen"], (16, 1500, 30)), (["-n", "-j3", "ntlm.seen"], (16, 1500, 30)),
                         (digested, (40, 40)), (["--secret", "s", "secret.seen"], (16, 1500))):
    stdin, questions = os.pipe()
    answers, stdout = os.pipe()
    t = Terminal(["seen", "query", "--annotate", *options], secret=b"", stdin=stdin, stdout=stdout)
    os.close(stdin)
    os.close(stdout)

    def answered(question):
        t.until(lambda: select.select([answers], [], [], 0)[0], "answer")
        return question in os.read(answers, 65536)

    for length in lengths:
        t.memory.secret = secret = b"%0*x" % (length, random.getrandbits(4 * length))
        os.write(questions, b"before\n" + secret)
        assert answered(b"before")
        t.until(t.memory.search, "secret in memory")
        os.write(questions, b"\n")
        assert answered(secret)
        t.until(lambda: not t.memory.search(), "memory without the secret")
    os.close(questions)
    os.close(answers)
    assert t.end() == 1 and not t.memory.left
END
}
