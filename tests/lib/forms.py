#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lists of keys in several forms, to find out what the notes about keys that are not there say.

    forms.py other N     the same keys in another form: 20 asked, and one: the difference is named
    forms.py same N      N times, other keys of the same form: hardly ever a note
    forms.py absent N    N single keys, rightly absent: hardly ever a note
    forms.py refused N   records added with another field: refused if they fit, and only then

Runs the `seen` of $SEEN in the current folder. Prints the seed and what went wrong; exits 1 beyond the
bounds, which are those for any seed: three standard deviations below what was measured.
"""

import hashlib
import os
import random
import shutil
import subprocess
import sys
import unicodedata
import uuid

SEEN = os.environ.get("SEEN", "seen")
SEED = int(os.environ.get("SEED", random.randrange(10**6)))
R = random.Random(SEED)
START = ("b c d f g h k l m n p r s t v w st tr pl gr".split())
WORDS = ["".join(R.choice(START) + R.choice("aeiou") + R.choice(["", "", "n", "r", "s"])
                 for _ in range(R.randint(1, 4))) for _ in range(8000)]
NAMES = ["Björn", "Chloé", "Łukasz", "José", "Núria", "İnci", "Müge", "Anna", "Émile"]


def word():
    return R.choice(WORDS)


def phrase(low, high):
    return " ".join(word() for _ in range(R.randint(low, high)))


def host():
    return ".".join(word() for _ in range(R.randint(1, 2))) + R.choice([".com", ".org", ".example"])


def url():
    return (R.choice(["https://", "https://www."]) + host() + "/" +
            "/".join(word() for _ in range(R.randint(1, 3))) +
            R.choice(["", ".html", "?id=%d" % R.randint(1, 99999), "/"]))


def mail():
    return word() + R.choice(["", ".", "_"]) + word() + "@" + host()


def path():
    return "/srv/" + "/".join(word() for _ in range(R.randint(2, 5))) + R.choice(["", ".txt", ".c"])


def digest(name):
    return hashlib.new(name, R.randbytes(8)).hexdigest()


def password():
    return R.choice([word(), word() + str(R.randint(1, 2030)), word().capitalize() + "!",
                     "".join(R.choice("abcdefgABCDEFG123456789!#$%&/=?-_.,;:+*@") for _ in range(9)),
                     word() + R.choice(".-_ @") + word()])


def stamp():
    return "2026-%02d-%02d %02d:%02d" % (R.randint(1, 12), R.randint(1, 28), R.randint(0, 23),
                                         R.randint(0, 59))


FORMS = {
    "url": url, "mail": mail, "path": path, "word": word, "password": password,
    "host": host, "sha1": lambda: digest("sha1"), "sha256": lambda: digest("sha256"),
    "NTLM": lambda: digest("md5").upper(), "number": lambda: str(R.randint(1, 10**7)),
    "padded": lambda: "%010d" % R.randint(1, 10**8), "uuid": lambda: str(uuid.UUID(int=R.getrandbits(128))),
    "name": lambda: R.choice(NAMES) + " " + word().capitalize() + " %d" % R.randint(1, 9999),
    "phone": lambda: "+49%d" % R.randint(10**9, 10**11), "address": lambda: ".".join(str(R.randint(1, 254)) for _ in "1234"),
    "message": lambda: phrase(3, 9) + R.choice(["", ": error %d" % R.randint(1, 99), ", retrying"]),
    "log": lambda: stamp() + " host%d " % R.randint(1, 9) + phrase(2, 6),
    "csv": lambda: "%d,%s,%s" % (R.randint(1000, 10**6), url(), word()),
    "quoted": lambda: '"%d","%s","%s"' % (R.randint(1000, 10**6), phrase(2, 2), mail()),
    "tsv": lambda: "%d\t%s\t%s" % (R.randint(1000, 10**6), mail(), phrase(2, 4)),
    "semicolons": lambda: "%s;%s;%d" % (word(), mail(), R.randint(1, 10**6)),
    "json": lambda: '{"id":%d,"url":"%s"}' % (R.randint(1, 10**7), url()),
    "sums": lambda: digest("sha1") + "  " + path(), "counted": lambda: digest("sha1").upper() + ":%d" % R.randint(1, 10**5),
    "passwd": lambda: "%s:x:%d:100::/home/%s:/bin/sh" % (word() + str(R.randint(1, 9999)), R.randint(1000, 99999), word()),
}


def keys_of(form, n):
    return list(dict.fromkeys(FORMS[form]() for _ in range(n)))


def same(key):
    return key


# A list, what is done to the keys of the filter and to those that are asked, options of both, and what a note may say.
OTHER = [
    ("url", same, lambda k: k + "\r", "", "", "CR"),
    ("sha1", lambda k: k + "\r", same, "", "", "CR"),
    ("sha1", same, str.upper, "", "", "capitals"),
    ("NTLM", same, str.lower, "", "", "capitals"),
    ("host", same, str.upper, "", "", "capitals"),
    ("sha1", same, lambda k: '"%s"' % k, "", "", "quotes"),
    ("mail", lambda k: '"%s"' % k, same, "", "", "quotes"),
    ("mail", same, lambda k: "'%s'" % k, "", "", "between '"),
    ("sums", same, same, "-w -f1", "", "digest"),
    ("sums", same, same, "", "-w -f1", "digest"),
    ("counted", same, same, "--trim -d: -f1", "", "digest COUNT"),
    ("csv", same, same, "-d, -f2", "", "','"),
    ("csv", same, same, "", "-d, -f2", "','"),
    ("csv", same, same, "-d, -f2", "-d, -f1", "numbers http"),
    ("tsv", same, same, "-f2", "", "TAB"),
    ("tsv", same, same, "", "-f2", "TAB"),
    ("tsv", same, same, "-f3", "-f2", "'@' blank"),
    ("semicolons", same, same, "-d; -f2", "", "';'"),
    ("semicolons", same, same, "-d; -f2", "-d, -f1", "';'"),
    ("passwd", same, same, "-d: -f1", "", "':'"),
    ("passwd", same, same, "", "-d: -f1", "':'"),
    ("quoted", lambda k: k.split('","')[2][:-1], same, "", "", "CSV"),
    ("quoted", same, lambda k: k.split('","')[2][:-1], "", "", "CSV"),
    ("json", lambda k: k.split('"')[-2], same, "", "", "JSON"),
    ("json", same, lambda k: k.split('"')[-2], "", "", "JSON"),
    ("log", lambda k: k[17:], same, "", "", "date"),
    ("log", same, lambda k: k[17:], "", "", "date"),
    ("url", lambda k: k.split("//")[1], same, "", "", "http"),
    ("url", same, lambda k: k.split("//")[1], "", "", "http"),
    ("url", lambda k: k.split("/")[2], same, "", "", "http '/'"),
    ("host", lambda k: "https://" + k, lambda k: "https://" + k + "/", "", "", "end in '/'"),
    ("host", lambda k: "http://" + k, lambda k: "https://" + k, "", "", "http"),
    ("host", same, lambda k: "www." + k, "", "", "www"),
    ("host", same, lambda k: k + ".", "", "", "'.'"),
    ("path", same, lambda k: k[1:], "", "", "'/'"),
    ("path", lambda k: k[1:], lambda k: "." + k, "", "", "./"),
    ("path", same, lambda k: k.replace("/", "\\"), "", "", "'\\\\' '/'"),
    ("path", lambda k: k.split("/")[-1], same, "", "", "'/'"),
    ("mail", same, lambda k: k.split("@")[1], "", "", "'@'"),
    ("mail", same, lambda k: "Bob <%s>" % k, "", "", "blank '<'"),
    ("word", same, lambda k: k + "  ", "", "", "blank"),
    ("word", lambda k: "    " + k, same, "", "", "blank"),
    ("word", same, lambda k: "%7d %s" % (len(k), k), "", "", "blank"),
    ("word", lambda k: hashlib.sha1(k.encode()).hexdigest(), same, "", "", "digests"),
    ("word", same, lambda k: hashlib.sha1(k.encode()).hexdigest(), "", "", "digests"),
    ("sha1", same, lambda k: k[:32], "", "", "hexadecimal"),
    ("uuid", same, lambda k: k.replace("-", ""), "", "", "UUID"),
    ("number", same, lambda k: "%010d" % int(k), "", "", "zeros"),
    ("padded", same, lambda k: str(int(k)), "", "", "zeros"),
    ("phone", same, lambda k: "00" + k[1:], "", "", "'+'"),
    ("address", same, lambda k: k + ":443", "", "", "':'"),
    ("address", same, lambda k: k + "/32", "", "", "'/'"),
    ("message", same, lambda k: "%d:%s" % (len(k), k), "", "", "number"),
    ("name", same, lambda k: unicodedata.normalize("NFD", k), "", "", "NFD"),
    ("name", same, lambda k: k.replace("İ", "I").replace("Ł", "L").encode("latin-1"), "", "", "UTF-8"),
]


def write(name, keys):
    with open(name, "wb") as out:
        for key in keys:
            out.write((key if isinstance(key, bytes) else key.encode()) + b"\n")


def make(keys, options=""):
    write("keys", keys)
    subprocess.run([SEEN, "create", "--force", *options.split(), "f", "keys"], check=True,
                   stderr=subprocess.DEVNULL)


def said(command, keys, options=""):
    """The exit status, and the note or the error."""
    write("asked", keys)
    got = subprocess.run([SEEN, *command, *options.split(), "f", "asked"], stderr=subprocess.PIPE,
                         stdout=subprocess.DEVNULL, check=False)
    return got.returncode, got.stderr.decode(errors="replace")


def other(n):
    hits = {1: 0, 20: 0}
    wrong = 0
    chosen = OTHER if n >= len(OTHER) else R.sample(OTHER, n)
    for form, of_filter, of_asked, made, read, words in chosen:
        keys = keys_of(form, 3000)
        make(map(of_filter, keys), made)
        for asked in hits:
            picked = R.sample(keys, asked)
            if form == "name": # those without such letters are the same in both forms
                picked = [k for k in keys if not k.isascii() and k[0] not in "İŁ"][:asked]
            note = said(["query"], map(of_asked, picked), read)[1]
            named = "' is: " in note or "COUNT" in note or any(w in note for w in words.split())
            hits[asked] += named
            wrong += asked == 20 and note != "" and not named
            if not named and asked == 20:
                print("%s, %s, %s: %s" % (form, made, read, note or "silence"))
    print("%d pairs: 20 asked: %d named, %d another; one asked: %d named" %
          (len(chosen), hits[20], wrong, hits[1]))
    return hits[20] >= 0.9 * len(chosen) and hits[1] >= (0.5 if n > 50 else 0.3) * len(chosen)


def same_form(n):
    notes = 0
    for _ in range(n):
        form = R.choice(list(FORMS))
        keys = keys_of(form, R.choice([200, 1000, 3000]))
        if R.random() < 0.5:
            keys.sort()
        cut = len(keys) * R.choice([1, 2, 3]) // 4
        make(keys[:cut], "--trim" if form == "counted" else "") # it is refused otherwise
        asked = R.sample(keys[cut:], min(len(keys) - cut, R.choice([1, 2, 5, 20, 200])))
        note = [line for line in said(["query"], asked)[1].splitlines() if " in 'f'" in line]
        notes += bool(note)
        if note:
            print("%s, %d asked of %d: %s" % (form, len(asked), cut, note[0]))
    print("%d pairs of the same form: %d notes" % (n, notes))
    return notes <= 0.01 * n + 3 * (0.01 * n) ** 0.5


def absent(n):
    notes = 0
    for form, asked in (("word", password), ("password", password), ("word", lambda: phrase(4, 4)),
                        ("password", lambda: phrase(4, 4)), ("url", url), ("mail", mail),
                        ("sha1", lambda: digest("sha1")), ("number", FORMS["number"])):
        keys = set(keys_of(form, 3000))
        make(keys)
        for _ in range(n // 8):
            key = asked()
            note = "" if key in keys else said(["query"], [key])[1]
            notes += note != ""
            if note:
                print("%s in %s: %s" % (key, form, note))
    print("%d single keys: %d notes" % (n // 8 * 8, notes))
    return notes <= 1 + 5 * n / 20000


def refused(n):
    right = wrong = rights = wrongs = 0
    cuts = [p for p in OTHER if p[3] and not p[4] and p[1] is same is p[2]]
    for form, _, _, made, _, _ in cuts if n > len(cuts) else R.sample(cuts, n):
        make(keys_of(form, 2000), made)
        shutil.copy("f", "made")
        status, note = said(["add"], keys_of(form, 300))
        rights += 1
        right += status == 2 and "nothing was added" in note
        for others in R.sample(list(FORMS), min(n, len(FORMS))):
            if others != form:
                wrongs += 1
                shutil.copy("made", "f")
                status, note = said(["dedup"], keys_of(others, 300))
                wrong += status == 2
                if status == 2:
                    print("%s of %s %s: %s" % (others, form, made, note))
    print("%d of %d lists refused that were cut otherwise, %d of %d others" %
          (right, rights, wrong, wrongs))
    return right >= 0.8 * rights and wrong <= 0.03 * wrongs + 2


if __name__ == "__main__":
    print("seed %d" % SEED)
    WHAT = {"other": other, "same": same_form, "absent": absent, "refused": refused}
    sys.exit(not WHAT[sys.argv[1]](int(sys.argv[2])))
