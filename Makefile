# Runs CMake and the scripts. `make help` lists the targets.
MAKEFLAGS += --no-print-directory
J ?= $(shell nproc 2>/dev/null || echo 2)
T ?= 15
SEEDS ?= 1..100
MINUTES ?= 10
PREFIX ?= /usr/local
sysconfdir ?= /etc

all: build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

build: ## build/photopool, release and hardened (also the default)
	@scripts/setup build
	@scripts/build build photopool
	@echo "build/photopool is ready: build/photopool up"

install: ## program, manual pages, completions, units into PREFIX (make install PREFIX=/usr/local DESTDIR=)
	@scripts/setup build pages
	@scripts/build build photopool pages -DCMAKE_INSTALL_PREFIX=$(PREFIX) -DCMAKE_INSTALL_SYSCONFDIR=$(sysconfdir)
	@DESTDIR=$(abspath $(DESTDIR)) cmake --install build --strip

deb: ## build/deb/photopool_VERSION_ARCH.deb, checked by lintian
	@scripts/setup build pages deb
	@packaging/deb

image: ## build/image/photopool_VERSION_ARCH.tar, a container image, tried in a container
	@scripts/setup build pages image
	@packaging/image

site: ## build/site: README.md and docs/ as static web pages, which load nothing from other hosts
	@scripts/setup site
	@scripts/site

demo: ## fetch real photographs from 40 hosts of all kinds, and look at the result
	@scripts/setup build demo
	@scripts/build build photopool origin
	@scripts/demo

fleet: ## MongoDB, Redis and the roles of photopool as processes on this machine, until Ctrl-C
	@scripts/setup build fleet mongo
	@scripts/build build photopool
	@scripts/fleet

test: ## lint, unit and contract tests, the main scenarios: 10 minutes on 2 cores
	@scripts/setup build test fleet mongo npm
	@J=$(J) tests/run short

test-long: ## everything else: sanitizers, fuzzing, chaos, all scenarios
	@scripts/setup build test fleet mongo npm
	@J=$(J) tests/run long

# each seed is a process with a heap of its own; in huge pages it takes a quarter less time
sim sim-check: export GLIBC_TUNABLES = glibc.malloc.hugetlb=1

sim: ## the simulator: a fleet under virtual time (make sim SEEDS=1..1000 MINUTES=10), and its speed by processor time
	@scripts/setup build test
	@scripts/build build sim -DPP_TESTS=ON
	@build/tests/sim --jobs $(J) --seeds $(SEEDS) --minutes $(MINUTES)

sim-check: ## the same seeds on builds of gcc and of clang, twice each: the same steps (make sim-check SEEDS=1..1000)
	@scripts/setup build test
	@CC=gcc scripts/build build-gcc sim -DPP_TESTS=ON
	@CC=clang scripts/build build-clang sim -DPP_TESTS=ON
	@tests/sim/check --jobs $(J) --seeds $(SEEDS) --minutes $(MINUTES)

bench: ## the headline figures
	@scripts/setup build fleet mongo bench
	@scripts/build build all -DPP_TESTS=OFF
	@loadtest/bench/run

lint: ## layers, format, clang-tidy, lengths and the rest of tests/lint
	@scripts/setup build test npm
	@J=$(J) tests/lint/run

format: ## clang-format all sources
	@scripts/setup test
	@git ls-files -z '*.c' '*.h' | xargs -0 clang-format-14 -i

fuzz: ## every fuzz target for T seconds (make fuzz T=600)
	@scripts/setup build test
	@J=$(J) tests/fuzz/run $(T)

clean: ## remove what was built
	rm -rf build build-*

.PHONY: all help build install deb image site demo fleet test test-long sim sim-check bench lint format fuzz clean
