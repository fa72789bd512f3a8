# The front door: each target sets up what it needs, then hands over to Meson.
MESON ?= meson
T     ?= 60

.DEFAULT_GOAL := help
.PHONY: demo demo-cluster serve test e2e documents changed nightly avx2 anywhere browser browser-page browser-reports web web-dev debug asan tsan coverage neon sse41 edge bench bench-serve changes compat soak facts golden golden-report messages fmt lint install uninstall static clean help

# The first build of the program takes minutes: a terminal shows its progress.
program_release = quiet=--quiet; [ -x build/release/src/cli/lamina ] || { echo "compiling lamina (some minutes, once)"; [ ! -t 1 ] || quiet=; }; \
	ninja -C build/release $$quiet src/cli/lamina

PORT   ?= 8080
RANKS  ?= 4
PROMPT ?= What is the capital of Japan? Answer in one sentence.

demo: build/release/build.ninja                ## answer a prompt with a small real model
	@$(program_release)
	build/release/src/cli/lamina run --temp 0 -n 128 -p "$(PROMPT)"

demo-cluster: build/cluster/build.ninja          ## answer a prompt with the demo model, split over four processes (RANKS=N: others)
	@ninja -C build/cluster --quiet src/cli/lamina
	@scripts/ranks $(RANKS) build/cluster/src/cli/lamina run --temp 0 -n 128 -t 1 --split tp=$(RANKS) -p "$(PROMPT)"

serve: build/release/build.ninja               ## serve the demo model over HTTP at port 8080 (PORT=N: another)
	@$(program_release)
	build/release/src/cli/lamina serve --port $(PORT)

test: build/test/build.ninja                   ## build with warnings as errors, and run all but the server's requests and the inputs of fuzzers (make asan) and the pages' commands (make documents)
	@scripts/test build/test --no-suite server --no-suite fuzz --no-suite documents

e2e: build/test/build.ninja                    ## what runs the program end to end, the server too, on the plain build
	@scripts/test build/test --suite e2e --suite server

documents: build/test/build.ninja              ## every command of the pages, the checklist, the patches of docs/dev/adding-*.md
	@scripts/test build/test --suite documents

changed:                                       ## what .ci/run adds where its files have changed since BASE: documents, browser, static (none: all of them)
	@scripts/changed $(BASE)

nightly:                                       ## everything, on both builds: what a release must pass (an hour)
	@$(MAKE) build/test/build.ninja && scripts/test build/test
	@$(MAKE) changes browser static edge tsan
	@$(MAKE) build/asan/build.ninja && LAMINA_CPU=avx2 scripts/test build/asan --no-suite lint

avx2: build/test/build.ninja                   ## the suites that compute, once more without what the machine has beyond AVX2
	@grep -qwE 'avx512f|avx_vnni' /proc/cpuinfo || { echo "this processor has nothing beyond AVX2: make test has shown it"; exit 0; }; \
	 LAMINA_CPU=avx2 scripts/test build/test --suite unit --suite invariants --suite e2e --suite server

anywhere: build/test/build.ninja build/asan/build.ninja ## what other machines' conditions can break, under each of them, a table (hours; CONDITIONS="…": some of them; stopped, it goes on)
	@scripts/setup anywhere
	@scripts/anywhere build/test $(CONDITIONS)

web:                                           ## the page of `lamina serve` from web/src into web/dist, which the build embeds
	@scripts/setup browser
	@PATH="$$PATH:$(CURDIR)/build/browser/node/bin" scripts/web

web-dev: build/release/build.ninja             ## the page as it is edited, in front of a server at LAMINA_URL (http://127.0.0.1:8080: make serve)
	@scripts/setup browser
	@cd web && PATH="$$PATH:$(CURDIR)/build/browser/node/bin" node node_modules/vite/bin/vite.js

browser: browser-page browser-reports          ## the page of `lamina serve` and reports in Chromium, Mermaid sources in Mermaid's parser, OpenAI's client for Node

node = PATH="$$PATH:$(CURDIR)/build/browser/node/bin"
browser-page: build/test/build.ninja           ## the page alone: built again and compared, every flow in Chromium (WIDTH=390 or 1280: at one width), OpenAI's client
	@scripts/setup browser
	@ninja -C build/test --quiet src/cli/lamina
	@rm -rf build/browser/shots
	@$(node) scripts/web --check
	@LAMINA_CPU=avx2 $(node) node tools/browser/web.mjs $(WIDTH)
	@$(node) node tools/browser/clients.mjs

browser-reports: build/test/build.ninja        ## reports and traces alone, in Chromium; Mermaid sources
	@scripts/setup browser
	@ninja -C build/test --quiet src/cli/lamina
	@$(node) node tools/browser/report.mjs
	@$(node) node tools/browser/trace.mjs
	@$(node) node tools/browser/mermaid.mjs

debug: build/debug/build.ninja                 ## build/debug: no optimisation, all symbols
	@ninja -C build/debug

asan: build/asan/build.ninja                   ## units, malformed files, the server, and what reads files of others end to end, under AddressSanitizer and UBSan
	@scripts/test build/asan --suite unit --suite bad --suite fuzz --suite server --suite strangers

tsan: build/tsan/build.ninja                   ## the suites that use threads, under ThreadSanitizer
	@scripts/test build/tsan --suite threads

coverage: build/coverage/build.ninja           ## lines that the suites reach, by file
	@scripts/test build/coverage --no-suite lint
	@scripts/coverage build/coverage

neon: build/neon/build.ninja                   ## the kernels and golden models of 64-bit ARM, under qemu
	@scripts/test build/neon --timeout-multiplier 10 kernels kernels/batches goldens

sse41: build/test/build.ninja                  ## the kernels and golden models as on processors without AVX2, and on the first with it, under qemu (minutes)
	@scripts/setup qemu
	@for cpu in Nehalem SandyBridge Haswell; do \
	   echo "$$cpu:"; \
	   LAMINA_CACHE=build/test/qemu qemu-x86_64 -cpu $$cpu build/test/src/cli/lamina doctor --fresh -t 1 | grep ' using ' || exit 1; \
	   scripts/test build/test --timeout-multiplier 10 --wrapper "qemu-x86_64 -cpu $$cpu" kernels kernels/batches goldens || exit 1; \
	 done

edge: build/edge/build.ninja                   ## run and chat without explain, reports and their texts: built, and its suites
	@scripts/test build/edge

bench: build/bench/build.ninja                 ## kernels, and every model beside llama.cpp: the tables of docs/dev/performance.md (hours; QUICK=1: minutes; stopped, it goes on)
	@scripts/setup peers
	@ninja -C build/bench --quiet
	@$(MESON) test -C build/bench --benchmark --verbose
	@bench/tables $(if $(QUICK),--quick)

bench-serve: build/bench/build.ninja           ## lamina serve beside llama-server, one client, rounds interleaved: build/bench/serve.md (an hour; QUICK=1: minutes)
	@scripts/setup demo peers
	@ninja -C build/bench --quiet src/cli/lamina
	@bench/serve $(if $(QUICK),--quick)

compat: build/test/build.ninja                 ## llama-server's own tests against lamina serve: the table of their cases, build/compat/compatibility.md
	@scripts/setup compat
	@ninja -C build/test --quiet src/cli/lamina
	@build/compat/bin/python tools/peers/compatibility

changes:                                       ## the changes that docs/dev/adding-*.md describe, made in a copy of the tree, built, and run
	@scripts/setup test
	@scripts/changes

soak: build/test/build.ninja                   ## the server under load and under attack, every writer under failures, at length: the figures of docs/dev/reliability.md (some 40 minutes)
	@ninja -C build/test --quiet src/cli/lamina
	@rm -f build/soak.jsonl
	@LAMINA_SOAK=$(CURDIR)/build/soak.jsonl LAMINA_BUILD=$(CURDIR)/build/test LAMINA_SOURCE=$(CURDIR) build/venv/bin/python -m pytest -q -s -p no:cacheprovider tests/e2e/serve/test_serve_proofs.py
	@LAMINA_SOAK=$(CURDIR)/build/soak.jsonl LAMINA_BUILD=$(CURDIR)/build/test LAMINA_SOURCE=$(CURDIR) build/venv/bin/python -m pytest -q -p no:cacheprovider tests/e2e/weights/test_failures.py tests/e2e/weights/test_pull.py
	@cat build/soak.jsonl

facts: build/test/build.ninja                  ## what documents say about models, each statement against the program
	@ninja -C build/test --quiet src/cli/lamina
	@LAMINA_BUILD=$(CURDIR)/build/test LAMINA_SOURCE=$(CURDIR) build/venv/bin/python -m pytest -q -s -p no:cacheprovider tests/e2e/study/test_facts.py

golden:                                        ## remake the golden data with PyTorch (slow; review the diff)
	@scripts/setup test oracle peers
	@tools/oracle/all

listings: build/test/build.ninja               ## the programs of `explain --code`, run by PyTorch and NumPy on every golden model: tests/golden/listings.tsv
	@scripts/setup test oracle
	@ninja -C build/test --quiet src/cli/lamina
	@build/oracle/bin/python tools/oracle/listings.py --lamina build/test/src/cli/lamina

golden-report: build/test/build.ninja          ## every golden model: container, goldens, largest error
	@ninja -C build/test --quiet tests/invariants/golden_report
	@LAMINA_TESTS=tests build/test/tests/invariants/golden_report

messages:                                      ## collect the texts that readers see into po/, for translators
	@scripts/setup test
	@scripts/messages

fuzz-%: build/fuzz/build.ninja                 ## fuzz-NAME T=60: fuzz one reader for T seconds
	@scripts/fuzz build/fuzz $* $(T)

fmt:                                           ## lay out function bodies; aligned columns and line breaks stay
	@scripts/setup test
	@python3 tests/lint/format.py --write

lint:                                          ## the house rules, as tests
	@scripts/setup test
	@python3 tests/lint/rules.py
	@python3 tests/lint/format.py
	@python3 tests/lint/words.py

install:                                       ## build and copy into PREFIX (/usr/local); DESTDIR is honoured
	@[ -f build/release/build.ninja ] || $(MESON) setup $(options_release) build/release
	@$(MESON) configure build/release -Dprefix="$(PREFIX)"
	@ninja -C build/release --quiet build.ninja >/dev/null || true
	@ninja -C build/release --quiet
	@$(MESON) install -C build/release --no-rebuild --quiet
	@[ -n "$(DESTDIR)" ] || scripts/installed build/release

uninstall:                                     ## remove from PREFIX what install put there
	@[ -f "$(DESTDIR)$(PREFIX)/share/lamina/uninstall" ] || { echo "error: $(DESTDIR)$(PREFIX)/share/lamina/uninstall: not there; PREFIX is the one of make install" >&2; exit 1; }
	@sh "$(DESTDIR)$(PREFIX)/share/lamina/uninstall"

static: build/static/build.ninja               ## build/static/lamina: the program in one file that needs no other
	@ninja -C build/static --quiet src/cli/lamina
	@strip -o build/static/lamina build/static/src/cli/lamina
	@scripts/static build/static/lamina

clean:                                         ## remove what was built; downloads stay
	rm -rf build/release build/static build/bench build/test build/debug build/asan build/tsan build/coverage build/fuzz build/neon build/edge build/cluster build/changes

help:                                          ## this list
	@awk -F ' *## *' '/^[a-z0-9%-]+:.*##/ { split($$1, t, ":"); sub("%", "NAME", t[1]); printf "  make %-15s %s\n", t[1], $$2 }' Makefile

PREFIX ?= /usr/local

# ---- build folders: one per purpose, configured once ----
# Functions and lines for stack traces. Variables too would take a quarter more time to compile.
lines            = -Ddebug=false -Dc_args=-g1
# For build/static after build/test (scripts/changed): as build/test is compiled, so that ccache has what both compile.
as_test          =
options_release  = -Doptimization=2 -Ddebug=false -Dtests=disabled
options_cluster  = $(options_release) -Dmpi=enabled
options_bench    = -Doptimization=2 -Ddebug=false -Dtests=enabled
options_static   = $(as_test) -Doptimization=2 -Ddebug=false -Dtests=disabled -Dserver=disabled -Dmpi=disabled -Dprefer_static=true -Dc_link_args=-static
options_test     = --werror -Dtests=enabled -Doptimization=2 $(lines)
options_debug    = --buildtype=debug
options_edge     = --werror -Dtests=enabled -Dstudy=disabled -Dserver=disabled -Dmpi=disabled
options_asan     = -Db_sanitize=address,undefined -Doptimization=1 $(lines)
options_tsan     = -Dmpi=disabled -Db_sanitize=thread -Doptimization=1 $(lines)
options_coverage = -Db_coverage=true -Doptimization=0
options_neon     = --cross-file build/arm64/cross.ini -Dserver=disabled -Dmpi=disabled -Doptimization=2 -Ddebug=false -Dtests=enabled
options_fuzz     = -Dmpi=disabled -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false

build/release/build.ninja: parts = demo
build/static/build.ninja:  parts = static
build/cluster/build.ninja: parts = mpi
build/fuzz/build.ninja:    parts = fuzz
build/fuzz/build.ninja:    export CC = clang-14
build/neon/build.ninja:    parts = neon

# Setup is asked every time: when all is there it answers in a third of a second.
build/%/build.ninja: always
	@scripts/setup $(or $(parts),demo test)
	@[ -f $@ ] || $(MESON) setup $(options_$*) build/$* >build/.setup/meson-$*.log || { cat build/.setup/meson-$*.log; exit 1; }
always:
.PHONY: always
