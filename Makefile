# SPDX-License-Identifier: MIT
# seen: build, test, install. `make help` lists the targets.
#
# Variables for the caller: CC, CFLAGS, CPPFLAGS, LDFLAGS (appended, so they win), PREFIX, DESTDIR,
# BUILD (where everything made goes), V=1 (show commands), WERROR=1 (warnings are errors; CI sets it),
# PKG_CONFIG (default: that of CC's machine, as arm-linux-gnueabihf-pkg-config of arm-linux-gnueabihf-gcc),
# WITH_HIREDIS=no (do without Redis; default: yes if pkg-config knows hiredis),
# WITH_FOREIGN=no (do without the filters of other programs, and so without Redis; default: yes),
# WITH_OPENSSL=no (do without rediss://; default: yes if pkg-config knows openssl),
# WITH_LIBMD=no (do without --digest; default: yes if pkg-config knows libmd),
# WITH_SODIUM=no (do without secrets; default: yes if pkg-config knows libsodium),
# JOBS (processes at once in tests),
# TESTS (only these: `make check TESTS=tests/cli/query.bats`, or a unit test's source),
# CHANGED (only what a change since this revision can break: `make check CHANGED=HEAD`),
# SEEN=/usr/bin/seen (test this program, not the one in BUILD: `make bats SEEN=/usr/bin/seen`),
# ONLY (of these, what has this in its name: `make check TESTS=tests/cli/query.bats ONLY='empty lines'`),
# FAIL_FAST=1 (stop at the first failure).

BUILD   ?= build
PREFIX  ?= /usr/local
# Not every shell expands `make install PREFIX=~/.local`.
override PREFIX := $(patsubst ~/%,$(HOME)/%,$(PREFIX))
export ONLY FAIL_FAST
CFLAGS  ?= -O2 -g
VERSION := 1.0.0
# Of the sources: in a tarball, git archive has written it into that file. "-dirty" if they were changed since.
REVISION := $(filter-out $$Format%,$(shell cut -c 1-12 tests/package/revision))
ifeq ($(REVISION),)
REVISION := $(if $(wildcard .git),$(shell git rev-parse --short=12 HEAD 2>/dev/null)$(if \
    $(shell git --no-optional-locks status --porcelain -uno 2>/dev/null),-dirty))
endif

# i386: without SSE2, doubles are computed with digits that they do not have, and files would differ.
MACHINE := $(shell $(CC) -dumpmachine 2>/dev/null)
ARCH := $(firstword $(subst -, ,$(MACHINE)))
SSE2 := $(if $(filter i386 i486 i586 i686,$(ARCH)),-msse2 -mfpmath=sse)
# With _XOPEN_SOURCE alone, macOS and NetBSD hide parts of POSIX, too.
STD  := $(SSE2) -std=c11 -D_XOPEN_SOURCE=700 -D_DARWIN_C_SOURCE -D_NETBSD_SOURCE -D_FILE_OFFSET_BITS=64 -pthread \
        -ffp-contract=off -fno-strict-aliasing
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
        -Wold-style-definition -Wpointer-arith -Wcast-qual -Wwrite-strings -Wvla -Wundef \
        -Wformat=2 -Wimplicit-fallthrough -Wnull-dereference -Wno-enum-float-conversion
ifdef WERROR
WARN += -Werror
endif
WITH_FOREIGN ?= yes
ifeq ($(WITH_FOREIGN),yes)
FOREIGN_CFLAGS := -DSEEN_FOREIGN
else
override WITH_HIREDIS := no
endif
# Libraries of this machine are of no use to a compiler for another one.
PKG_CONFIG ?= $(filter %-,$(patsubst %gcc,%,$(patsubst %clang,%,$(notdir $(lastword $(CC))))))pkg-config
known = $(shell $(PKG_CONFIG) --exists $(1) 2>/dev/null && echo yes || echo no)
# As system headers, or their own warnings would be shown.
included = $(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags $(1)))
WITH_HIREDIS ?= $(call known,hiredis)
ifeq ($(WITH_HIREDIS),yes)
HIREDIS_CFLAGS := -DSEEN_HIREDIS $(call included,hiredis)
HIREDIS_LIBS := $(shell $(PKG_CONFIG) --libs hiredis)
endif
# Its headers only: rediss:// loads it when it is first used (redis/tls.c).
WITH_OPENSSL ?= $(if $(filter yes,$(WITH_HIREDIS)),$(call known,openssl),no)
ifeq ($(WITH_OPENSSL),yes)
OPENSSL_CFLAGS := -DSEEN_OPENSSL $(call included,openssl)
OPENSSL_LIBS := $(if $(findstring -linux,$(MACHINE)),-ldl)
endif
WITH_LIBMD ?= $(call known,libmd)
ifeq ($(WITH_LIBMD),yes)
LIBMD_CFLAGS := -DSEEN_LIBMD $(call included,libmd)
LIBMD_LIBS := $(shell $(PKG_CONFIG) --libs libmd)
endif
WITH_SODIUM ?= $(call known,libsodium)
ifeq ($(WITH_SODIUM),yes)
SODIUM_CFLAGS := -DSEEN_SODIUM $(call included,libsodium)
SODIUM_LIBS := $(shell $(PKG_CONFIG) --libs libsodium)
endif
# What the program is built without, shown when it is linked.
LACKS := $(strip $(if $(filter yes,$(WITH_FOREIGN)),,'filters of other programs') \
    $(if $(filter yes,$(WITH_HIREDIS)),,'Redis, which needs hiredis') \
    $(if $(filter yes,$(WITH_OPENSSL)),,'rediss://, which needs OpenSSL') \
    $(if $(filter yes,$(WITH_LIBMD)),,'digests, which need libmd') \
    $(if $(filter yes,$(WITH_SODIUM)),,'secrets, which need libsodium') \
    $(if $(shell command -v $(PKG_CONFIG) 2>/dev/null),,'$(PKG_CONFIG), which finds the libraries'))
OPTIONAL_CFLAGS := $(FOREIGN_CFLAGS) $(HIREDIS_CFLAGS) $(OPENSSL_CFLAGS) $(LIBMD_CFLAGS) $(SODIUM_CFLAGS)
ALL_CFLAGS := $(STD) $(WARN) -DSEEN_VERSION='"$(VERSION)"' -Isrc $(OPTIONAL_CFLAGS) $(CPPFLAGS) $(CFLAGS)
# The sources are POSIX and C11, but those in src/port; tests are not, and take 64 bits for sizes.
TEST_CFLAGS := $(ALL_CFLAGS) -D_GNU_SOURCE $(if $(SSE2),-Wno-conversion)
LIBS := $(HIREDIS_LIBS) $(OPENSSL_LIBS) $(LIBMD_LIBS) $(SODIUM_LIBS) -lz -lm

# Symbols are bound at the start. Bound at the first call, each would save all vector registers on the
# stack, and with them what memcpy left there of a secret.
BIND_NOW := -Wl,-z,relro,-z,now

Q := $(if $(V),,@)
say = $(if $(V),,@echo '  $(1)	$(2)')
# Many tests wait for servers, locks and processes, so there are more of them than processors.
JOBS ?= $(shell expr 2 \* `getconf _NPROCESSORS_ONLN`)
SUBMAKE := $(MAKE) --no-print-directory
# The jobserver of a parallel make is shared; else the parts of a build run side by side anyway.
PARALLEL = $(SUBMAKE) $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS))

# $(call tagged,TAG,FILES): the tests among them with this tag in the line "tags:" of their heads:
#     slow         begins before others; or it would end last
#     redis        needs hiredis
#     foreign      needs the filters of other programs
#     repeating    runs of the program what others run, too: texts, examples, statistics, options by the thousand,
#                  many processes at once. Not under AddressSanitizer
#     threads      threads meet in it: under ThreadSanitizer
#     computing    neither owns memory nor parses anything: not under valgrind
#     portable     formats, hashes, kernels, readers: another machine or compiler may make them differ
#     seeded       takes another SEED, and more CASES
tagged = $(shell grep -lE '^[/ *\#]*tags:.* $(1)( |$$)' /dev/null $(2))

# Without hiredis, no store in Redis can be opened (redis/servers.c), without WITH_FOREIGN no layout of another program
# is known (foreign/list.c).
ifneq ($(WITH_HIREDIS),yes)
ABSENT := $(filter-out %/servers.c %/messages.c %/password.c %/uri.c,$(wildcard src/redis/*.c)) \
    $(call tagged,redis,$(wildcard tests/unit/*.c))
endif
ifneq ($(WITH_FOREIGN),yes)
ABSENT += $(filter-out %/list.c %/foreign.c %/layout.c %/files.c,$(wildcard src/foreign/*.c)) \
    $(call tagged,foreign,$(wildcard tests/unit/*.c))
endif
ABSENT += $(if $(filter yes,$(WITH_OPENSSL)),%/tls_none.c,%/tls.c)
# Sorted, or the program would depend on the locale.
SRC   := $(sort $(filter-out $(ABSENT),$(wildcard src/*.c src/*/*.c src/*/*/*.c)))
OBJ   := $(SRC:src/%.c=$(BUILD)/%.o)
# All but the program itself; tests are linked with it.
LIB   := $(filter-out $(BUILD)/seen.o,$(OBJ))
UNIT_SRC := $(filter-out $(ABSENT),$(wildcard tests/unit/*.c))
UNIT  := $(UNIT_SRC:tests/unit/%.c=$(BUILD)/unit/%)
BATS  := $(wildcard tests/cli/*.bats)
FUZZ  := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
REPLAY := $(FUZZ:%=$(BUILD)/replay/%)
# Under no sanitizer.
POWER := tests/power/replay.py tests/faults/faults.py
PRELOADED := $(BUILD)/preload.so

.PHONY: all help deps deps-check deps-ci demo check unit bats fuzz fuzz-replay asan tsan valgrind lint \
        check-compilers portable emulated trixie interop soak nightly bench figures profile plot growth threads dist \
        deb static packages musl plain systems install uninstall clean tests FORCE
## all: build the program (the default)
ifneq ($(filter deps%,$(MAKECMDGOALS)),)
# `make -j deps check` must not build before the compiler is there, nor `make deps install` without the libraries.
.NOTPARALLEL:
all:
	+$(Q)$(PARALLEL) all
else
all: $(BUILD)/seen
endif

## help: this list
help:
	@awk -F ': ' '/^## [a-z-]+: / { printf "  %-18s%s\n", substr($$1, 4), substr($$0, length($$1) + 3) }' \
	    $(firstword $(MAKEFILE_LIST))

$(BUILD)/seen: $(OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(BIND_NOW) $(LDFLAGS) -o $@ $(OBJ) $(LIBS)
	$(if $(LACKS),@printf '  without %s\n' $(LACKS))

$(BUILD)/%.o: src/%.c $(BUILD)/flags
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(if $(filter $(BUILD)/seen.o,$@),$(NAME_REVISION)) -MMD -MP -c -o $@ $<

# Made with q, not r: files of two folders may have one name.
$(BUILD)/libseen.a: $(LIB)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) qcs $@ $(LIB)

$(BUILD)/unit/%: tests/unit/%.c tests/unit/check.h $(BUILD)/libseen.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_CFLAGS) -MMD -MP -Itests/unit -DVECTORS='"$(CURDIR)/tests/vectors"' \
	    $(LDFLAGS) -o $@ $< $(BUILD)/libseen.a $(LIBS)

# A fuzz target with a main() of ours, which feeds it the files of its corpus.
$(BUILD)/replay/%: tests/fuzz/%.c tests/fuzz/replay.c $(wildcard tests/fuzz/*.h) $(BUILD)/libseen.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_CFLAGS) -DCORPUS='"$(CURDIR)/tests/fuzz/corpus/$*"' $(LDFLAGS) -o $@ \
	    $< tests/fuzz/replay.c $(BUILD)/libseen.a $(LIBS)

# Preloaded, and so not under a sanitizer, which wants to come first.
$(PRELOADED): $(wildcard tests/preload/*) $(BUILD)/flags
	$(call say,LD,$@)
	$(Q)$(CC) $(TEST_CFLAGS) -shared -fPIC $(LDFLAGS) -o $@ $(filter %.c,$^) -ldl

# $(call keep,TEXT): writes it into the target, unless it is there already.
keep = mkdir -p $(@D) && { echo '$(1)' | cmp -s - $@ || echo '$(1)' >$@; }

# A change of compiler or flags rebuilds everything: objects of two kinds are never linked together.
$(BUILD)/flags: FORCE
	$(Q)$(call keep,$(CC) $(ALL_CFLAGS) $(BIND_NOW) $(LDFLAGS))

# `seen --version` alone names the revision.
NAME_REVISION := -DSEEN_REVISION='"$(or $(REVISION),unknown)"'
$(BUILD)/seen.o: $(BUILD)/revision
$(BUILD)/revision: FORCE
	$(Q)$(call keep,$(REVISION))

## deps: install what is needed to build and for the demo (Debian); with check, for the tests too
PACKAGES := gcc libc6-dev make zlib1g-dev libxxhash-dev pkg-config libhiredis-dev libssl-dev libmd-dev libsodium-dev
TESTING := check unit bats fuzz-replay asan tsan
TEST_PACKAGES := bats python3 jq openssl strace mandoc zsh fish redis-server miller python3-prometheus-client
deps:
	$(Q)tests/deps $(PACKAGES) cracklib-runtime $(if $(filter $(TESTING),$(MAKECMDGOALS)),$(TEST_PACKAGES))

## deps-check: install what the tests need besides
deps-check:
	$(Q)tests/deps $(TEST_PACKAGES)

## deps-ci: install what the heavier checks below need
deps-ci:
	$(Q)tests/deps git clang clang-format clang-tidy libclang-rt-dev valgrind libc6-dbg shellcheck \
	    gcc-s390x-linux-gnu libc6-dev-s390x-cross gcc-aarch64-linux-gnu \
	    libc6-dev-arm64-cross gcc-i686-linux-gnu libc6-dev-i386-cross qemu-user-static \
	    openjdk-17-jdk-headless libguava-java golang-github-dcso-bloom-cli php-cli php-redis redis-server \
	    musl-tools build-essential dpkg-dev debhelper fakeroot lintian locales ruby nix-bin mmdebstrap

## demo: a weak-password filter and a URL filter from data that is on this machine
demo:
	+$(Q)$(PARALLEL) all
	$(Q)BUILD=$(BUILD) tests/demo

# ---- tests: all print TAP; tests/run runs them side by side and sums up

tests: $(BUILD)/seen $(UNIT) $(REPLAY) $(if $(SANITIZER),,$(PRELOADED) $(BUILD)/bench/least)

# By name (a unit test by its source, too), or by what changed since a revision (tests/map), or all.
NAMED = $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(patsubst tests/fuzz/%.c,$(BUILD)/replay/%,$(TESTS)))
CHOSEN = $(or $(NAMED),$(if $(CHANGED), \
    $(or $(shell tests/lib/changed $(CHANGED) $(BUILD)),$(error no test is concerned)), \
    $(BATS) $(if $(SEEN),,$(UNIT) $(REPLAY) $(if $(SANITIZER),,$(POWER)))))

## check: build and run all tests; TESTS='FILE...' ONLY='NAME' some, CHANGED=REV what a change concerns, FAIL_FAST=1
check:
	+$(Q)$(if $(SEEN),:,$(PARALLEL) $(if $(NAMED)$(CHANGED), \
	    all $(filter $(BUILD)/%,$(CHOSEN)) $(if $(SANITIZER),,$(PRELOADED)),tests))
	$(Q)JOBS=$(JOBS) tests/run $(BUILD) $(CHOSEN)

## unit: only the unit tests
unit:
	+$(Q)$(PARALLEL) $(UNIT)
	$(Q)JOBS=$(JOBS) tests/run $(BUILD) $(UNIT)

## bats: only the command line's tests; SEEN=/usr/bin/seen tests that program, and builds nothing
bats:
	+$(Q)$(if $(SEEN),:,$(PARALLEL) all)
	$(Q)JOBS=$(JOBS) tests/run $(BUILD) $(BATS)

## fuzz-replay: only the replay of the corpora
fuzz-replay:
	+$(Q)$(PARALLEL) $(REPLAY)
	$(Q)JOBS=$(JOBS) tests/run $(BUILD) $(REPLAY)

## fuzz: look for new trouble with libFuzzer, FUZZ_SECONDS=60 for each target
FUZZ_SECONDS ?= 60
FUZZ_FLAGS := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
$(BUILD)/fuzz/fuzz_%: tests/fuzz/fuzz_%.c $(wildcard tests/fuzz/*.h) $(BUILD)/libseen.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_CFLAGS) -fsanitize=fuzzer -o $@ $< $(BUILD)/libseen.a $(LIBS)

.PRECIOUS: $(BUILD)/fuzz/fuzz_%
fuzz-one-%: $(BUILD)/fuzz/fuzz_%
	$(Q)mkdir -p $(BUILD)/corpus/fuzz_$*
	$< -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=$(BUILD)/ -verbosity=0 -print_final_stats=1 \
	    $(BUILD)/corpus/fuzz_$* $(wildcard tests/fuzz/corpus/fuzz_$*)

fuzz:
	+$(Q)$(SUBMAKE) -j$(JOBS) -Otarget BUILD=$(BUILD)/clang-fuzz CC=clang CFLAGS='$(FUZZ_FLAGS)' \
	    $(FUZZ:fuzz_%=fuzz-one-%)

## asan: tests under AddressSanitizer and UndefinedBehaviorSanitizer, but those that run the same code again
asan:
	+$(Q)SANITIZER=address exec $(SUBMAKE) BUILD=$(BUILD)/asan check \
	    $(if $(FULL),,BATS='$(filter-out $(call tagged,repeating,$(BATS)),$(BATS))') CFLAGS='-O1 -g \
	    -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer'

## tsan: tests of threads under ThreadSanitizer (which does not know fences: gcc warns of that)
tsan:
	+$(Q)SANITIZER=thread exec $(SUBMAKE) BUILD=$(BUILD)/tsan check CC=gcc \
	    $(if $(FULL),,BATS='$(call tagged,threads,$(BATS))' REPLAY= \
	    UNIT='$(patsubst tests/unit/%.c,$(BUILD)/tsan/unit/%,$(call tagged,threads,$(UNIT_SRC)))') \
	    CFLAGS='-O1 -g -fsanitize=thread -Wno-tsan'

COMPUTING = $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(call tagged,computing,$(UNIT_SRC)))
MINDED = $(if $(FULL),$(UNIT),$(filter-out $(COMPUTING),$(UNIT)))

## valgrind: the unit tests that own memory or parse, under valgrind
valgrind:
	+$(Q)$(PARALLEL) $(MINDED)
	$(Q)JOBS=$(JOBS) SANITIZER=valgrind UNDER='valgrind -q --error-exitcode=99 --leak-check=full' \
	    tests/run $(BUILD) $(MINDED)

## lint: static checks of sources, headers, scripts and manual pages, at zero warnings, and of the session protocol
lint:
	+$(Q)$(PARALLEL) all
	$(Q)WARN='$(WARN)' OPTIONAL='$(OPTIONAL_CFLAGS)' JOBS=$(JOBS) tests/run $(BUILD) \
	    tests/lint tests/power/model.py

## check-compilers: gcc and clang, both with -Werror, each running the unit tests
check-compilers:
	+$(Q)$(SUBMAKE) BUILD=$(BUILD)/gcc CC=gcc WERROR=1 unit
	+$(Q)$(SUBMAKE) BUILD=$(BUILD)/clang CC=clang WERROR=1 unit

PORTABLE = $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(call tagged,portable,$(UNIT_SRC)))

## portable: the unit tests of formats, hashes, kernels and readers, for another compiler: CC=clang BUILD=build/clang
portable:
	+$(Q)$(PARALLEL) all $(PORTABLE)
	$(Q)JOBS=$(JOBS) tests/run $(BUILD) $(PORTABLE)

## emulated: unit tests on, and files exchanged with, other machines: s390x, aarch64, i686
EMULATED := s390x aarch64 i686
emulated:
	+$(Q)$(PARALLEL) all
	$(Q)JOBS=$(JOBS) UNITS='$(patsubst $(BUILD)/unit/test_%,%,$(if $(FULL),$(UNIT),$(PORTABLE)))' \
	    tests/run $(BUILD) $(EMULATED:%='tests/emulated %')

## trixie: build on Debian 13 and run, there, the portable tests and some of the command line's (as root)
TRIXIE_BATS := digest format golden redis_tls secret
trixie:
	$(Q)JOBS=$(JOBS) PACKAGES='$(PACKAGES) bats jq openssl python3 redis-server strace' tests/trixie $(BUILD)/trixie \
	    $(call tagged,portable,$(UNIT_SRC)) $(TRIXIE_BATS:%=tests/cli/%.bats)

## systems: compile and link for macOS and the BSDs (npm fetches the compiler), and run what only OpenBSD would do
systems:
	+$(Q)$(PARALLEL) all
	$(Q)JOBS=$(JOBS) tests/run $(BUILD) tests/systems tests/apart

## interop: filters exchanged with Guava, DCSO's bloom, PHP, clients of Redis (packages: deps-ci)
INTEROP := guava dcso php redis clients second
interop:
	+$(Q)$(PARALLEL) all
	$(Q)JOBS=$(JOBS) tests/run $(BUILD) $(INTEROP:%='tests/interop/interop %')

## nightly: what CI has no time for: all tests under all checkers, in full size; long fuzzing; soak
nightly:
	$(Q).ci/run nightly

## soak: attacks that last longer than a test may; SEED=3 repeats one; SOAK='--seconds 600 calls', SOAK=--help
soak: SEED := $(or $(SEED),$(shell od -An -N3 -tu4 /dev/urandom | tr -d ' '))
soak:
	+$(Q)$(PARALLEL) all $(PRELOADED)
	$(Q)SEEN=$(abspath $(BUILD))/seen tests/soak/soak --seed $(SEED) $(SOAK)
	$(Q)tests/power/model.py --long
	$(Q)SEEN=$(abspath $(BUILD))/seen POWER_SEED=$(SEED) POWER_IMAGES=0 POWER_RANDOM=100 tests/power/replay.py
	$(Q)SEEN=$(abspath $(BUILD))/seen tests/faults/faults.py --all
	@echo '# seed $(SEED)'
	$(Q)SEEN=$(abspath $(BUILD))/seen SEED=$(SEED) FORGED=0 CASES=1000 bats $(call tagged,seeded,$(BATS))

## bench: speed and size beside other tools (BENCH_N records, BENCH_JOBS names; see bench.py)
bench:
	+$(Q)$(PARALLEL) all $(BUILD)/bench/least CFLAGS='-O2 -g'
	$(Q)python3 tests/bench/bench.py $(BUILD)

$(BUILD)/bench/least: tests/bench/least.c $(BUILD)/libseen.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_CFLAGS) $(LDFLAGS) -o $@ $< $(BUILD)/libseen.a $(LIBS)

## profile: where the time goes, by stage (PROFILE_N records; needs perf)
profile:
	+$(Q)$(PARALLEL) all CFLAGS='-O2 -g'
	$(Q)python3 tests/bench/profile.py $(BUILD)

## plot: draw the sizes of filters for the README, from what `seen plan` says
plot:
	+$(Q)$(PARALLEL) all
	$(Q)python3 tests/bench/sizes.py $(BUILD) >tests/bench/sizes.svg

## figures: measure anew, and draw, all that README and seen-performance(7) say of speed and size (idle machine)
figures: plot
	+$(Q)$(SUBMAKE) bench BENCH_PAGE=1 BENCH_REDIS_N=0 BENCH_DIGESTS=0

## growth: measure what growth costs in space and time at 81 sizes, and draw it (some minutes)
growth:
	+$(Q)$(PARALLEL) all
	$(Q)python3 tests/bench/growth.py $(BUILD) >$(BUILD)/growth.svg

## threads: what 1, 2, 4, ... threads bring, up to the CPUs of this machine (THREADS_N keys; see threads.py)
threads:
	+$(Q)$(PARALLEL) all
	$(Q)python3 tests/bench/threads.py $(BUILD)

# ---- packages

## dist: the sources of the last commit as a tarball: always the same bytes
DIST := $(BUILD)/dist/seen-$(VERSION).tar
dist:
	$(Q)mkdir -p $(BUILD)/dist
	$(if $(findstring dirty,$(REVISION)),@echo 'make dist: what is not committed is left out')
	$(Q)git -c tar.umask=0022 -c core.autocrlf=false archive --format=tar --prefix=seen-$(VERSION)/ -o $(DIST) HEAD
	$(Q)gzip -9nf $(DIST)
	$(call say,TAR,$(DIST).gz)

## deb: a Debian package of the last commit, in BUILD/deb (packages: deps-ci); DEB_BUILD_OPTIONS=nocheck: not tested
DEB := $(BUILD)/deb
deb: dist
	$(Q)rm -rf $(DEB) && mkdir -p $(DEB)
	$(Q)cp $(DIST).gz $(DEB)/seen_$(VERSION).orig.tar.gz && tar -xzf $(DIST).gz -C $(DEB)
	$(Q)cp -r $(DEB)/seen-$(VERSION)/tests/package/debian $(DEB)/seen-$(VERSION)/
	$(Q)cd $(DEB)/seen-$(VERSION) && env -u MAKEFLAGS -u BUILD dpkg-buildpackage -us -uc

## static: one program that runs on any Linux, in BUILD/static: with musl, and without Redis (packages: deps-ci)
# musl-gcc is given the headers of the other libraries, not the C library's, and their archives by name. These want no
# function that musl lacks, or it would not link, but one: libsodium's explicit_bzero is the one that checks bounds.
# On a system of musl, CC makes it, with all its libraries.
STATIC := $(BUILD)/static
STATIC_HEADERS := zlib.h zconf.h xxhash.h xxh3.h md4.h md5.h sha1.h sha2.h sodium.h sodium
ifeq ($(findstring musl,$(MACHINE)),)
STATIC_LIBS = $(if $(LIBMD_LIBS),md) $(if $(SODIUM_LIBS),sodium) z
STATIC_WITH = CC=musl-gcc PKG_CONFIG='$(PKG_CONFIG)' WITH_HIREDIS=no \
    CPPFLAGS='-isystem $(abspath $(STATIC))/include $(CPPFLAGS)' \
    LIBS='$(foreach lib,$(STATIC_LIBS),$(shell $(CC) -print-file-name=lib$(lib).a)) -lm' \
    LDFLAGS='-static -s -Wl,--defsym=__explicit_bzero_chk=explicit_bzero $(LDFLAGS)'
else
STATIC_WITH = PKG_CONFIG='$(PKG_CONFIG) --static' LDFLAGS='-static -s $(LDFLAGS)'
endif
static:
	$(Q)mkdir -p $(STATIC)/include
	$(Q)ln -sf $(wildcard $(STATIC_HEADERS:%=/usr/include/%)) $(STATIC)/include
	+$(Q)$(PARALLEL) BUILD=$(STATIC) CFLAGS='-O2' $(STATIC_WITH) all

## packages: build the packages, and check them and the recipes for others (packages: deps-ci)
packages:
	+$(Q)$(PARALLEL) all static
	$(Q)JOBS=$(JOBS) tests/run $(BUILD) \
	    'tests/package/check static' 'tests/package/check deb' 'tests/package/check recipes'

## musl: the unit tests, and some of the command line's, with musl (packages: deps-ci)
MUSL_BATS := add confirm counted dedup grow input limits merge query rotate stats verify
musl: static
	+$(Q)$(PARALLEL) BUILD=$(STATIC) CFLAGS='-O2' $(STATIC_WITH) check PRELOADED= REPLAY= POWER= \
	    BATS='$(MUSL_BATS:%=tests/cli/%.bats)'

## plain: the same, and power cuts, with what src/port has for systems that are not known, and with POSIX locks
plain:
	+$(Q)$(PARALLEL) BUILD=$(BUILD)/plain CPPFLAGS='-DPORT_PLAIN $(CPPFLAGS)' check REPLAY= \
	    POWER="tests/power/replay.py 'tests/soak/soak --seed 1 --seconds 20 workers'" \
	    BATS='tests/cli/add.bats tests/cli/grow.bats tests/cli/rotate.bats'

# ---- installation

BINDIR  := $(DESTDIR)$(PREFIX)/bin
MANDIR  := $(DESTDIR)$(PREFIX)/share/man
BASHDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR  ?= $(PREFIX)/share/zsh/site-functions
# fish looks below /usr/local/share only where XDG_DATA_DIRS is set.
FISHDIR ?= $(if $(filter /usr/local,$(PREFIX)),/etc/fish/completions,$(PREFIX)/share/fish/vendor_completions.d)
# Completions go where that shell is set up, or into a package; WITH_BASHCOMP=yes or =no (and so on) decides otherwise.
WITH_BASHCOMP ?= $(if $(DESTDIR)$(wildcard /usr/share/bash-completion),yes,no)
WITH_ZSHCOMP  ?= $(if $(DESTDIR)$(wildcard /usr/share/zsh),yes,no)
WITH_FISHCOMP ?= $(if $(DESTDIR)$(wildcard /usr/share/fish),yes,no)
MAN1 := $(wildcard man/*.1)
MAN5 := $(wildcard man/*.5)
MAN7 := $(wildcard man/*.7)

# The directories that install made: uninstall removes no others.
MADE ?= $(BUILD)/directories
# $(call put,MODE,FROM,TO): installs one file and names it. Directories that are there keep their modes.
put = make() { [ -d "$$1" ] || { make "$$(dirname "$$1")" && mkdir -m 755 "$$1" && echo "$$1" >>$(MADE); }; }; \
    make $(patsubst %/,%,$(dir $(3))) && install -m $(1) $(2) $(3) && echo '  $(3)'
# Words of make and of the shell end at blanks.
no_blanks = $(if $(word 2,x$(DESTDIR)$(PREFIX)$(BASHDIR)$(ZSHDIR)$(FISHDIR)x), \
    $(error DESTDIR and PREFIX must not have blanks))
# True if the part of PREFIX that exists can be written to.
WRITABLE = d='$(DESTDIR)$(PREFIX)'; until [ -e "$$d" ]; do d=$$(dirname "$$d"); done; [ -w "$$d" ]
# zsh looks only there by itself.
ZSH_LOOKS := /usr/share/zsh/site-functions /usr/local/share/zsh/site-functions

## install: into PREFIX (/usr/local; for yourself: PREFIX=$HOME/.local) below DESTDIR
install: all
	$(no_blanks)@$(WRITABLE) || { echo "make install: no right to write to '$(DESTDIR)$(PREFIX)': be root, or" \
	    "install for yourself with 'make install PREFIX=\$$HOME/.local'" >&2; exit 1; }
	@$(call put,755,$(BUILD)/seen,$(BINDIR)/seen)
	@$(foreach page,$(MAN1) $(MAN5) $(MAN7),\
	    $(call put,644,$(page),$(MANDIR)/man$(patsubst .%,%,$(suffix $(page)))/$(notdir $(page))) &&) :
ifeq ($(WITH_BASHCOMP),yes)
	@$(call put,644,completions/seen.bash,$(DESTDIR)$(BASHDIR)/seen)
endif
ifeq ($(WITH_ZSHCOMP),yes)
	@$(call put,644,completions/_seen,$(DESTDIR)$(ZSHDIR)/_seen)
ifeq ($(filter $(ZSH_LOOKS),$(ZSHDIR)),)
	@echo "zsh finds its completions with this line in ~/.zshrc, before compinit: fpath+=($(ZSHDIR))"
endif
endif
ifeq ($(WITH_FISHCOMP),yes)
	@$(call put,644,completions/seen.fish,$(DESTDIR)$(FISHDIR)/seen.fish)
endif
ifeq ($(DESTDIR),)
	@case ":$$PATH:" in *:$(PREFIX)/bin:*) ;; *) echo "the shell finds seen with this line in ~/.profile:" \
	    'PATH=$(PREFIX)/bin:$$PATH';; esac
endif

INSTALLED := $(BINDIR)/seen \
    $(MAN1:man/%=$(MANDIR)/man1/%) $(MAN5:man/%=$(MANDIR)/man5/%) $(MAN7:man/%=$(MANDIR)/man7/%) \
    $(DESTDIR)$(BASHDIR)/seen $(DESTDIR)$(ZSHDIR)/_seen $(DESTDIR)$(FISHDIR)/seen.fish

## uninstall: remove what install put there, and the directories that it made (from the same BUILD), if they are empty
uninstall:
	$(no_blanks)rm -f $(INSTALLED)
	@for d in $(sort $(patsubst %/,%,$(dir $(INSTALLED)))); do \
	    while grep -Fqsx "$$d" $(MADE) && rmdir "$$d" 2>/dev/null; do \
	        grep -Fvx "$$d" $(MADE) >$(MADE).new; mv $(MADE).new $(MADE); d=$$(dirname "$$d"); \
	    done; \
	done

## clean: remove what was built
clean:
	rm -rf $(BUILD)

-include $(OBJ:.o=.d) $(UNIT:=.d)
