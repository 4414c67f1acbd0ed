# SPDX-License-Identifier: BSD-2-Clause
# Seekmeter's front door: make JOB VARIABLE=value …    (make help lists the jobs and the variables)
#
# Here the words are only taken and handed on, and what is written in C is built. The jobs themselves are Python:
# collectors/ runs and records, analysis/ reads finished runs, workloads/ says what is run and on what.

# --- the words -----------------------------------------------------------------------------------
# Every variable given on make's command line, known or not, goes to the jobs in the environment: X as SEEKMETER_X,
# their names in SEEKMETER_WORDS. $(value X) hands over what was typed, so that `$`, quotes and parentheses in
# CMD= survive, and X itself is taken out of the environment because make would expand, and so run, what is in it.
# The origin keeps apart a DISK or an FS that happens to be in the user's environment.
# `override` throughout: a mistyped word must reach the job that names the right one, not change this file.
override GIVEN := $(strip $(foreach name,$(.VARIABLES),$(if $(filter command line,$(origin $(name))),$(name))))
override define HAND_ON
export SEEKMETER_$1 := $$(value $1)
unexport $1
endef
$(foreach name,$(GIVEN),$(eval $(call HAND_ON,$(name))))
override MAKEOVERRIDES :=
export SEEKMETER_WORDS := $(filter-out V,$(GIVEN))

override SHELL := /bin/bash
override .SHELLFLAGS := -euo pipefail -c
override MAKEFLAGS += --no-builtin-rules --no-builtin-variables --no-print-directory --jobs=$(shell nproc)
override PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin
override Q := $(if $(filter 1,$(if $(filter command line,$(origin V)),$(V))),,@)
# A job that runs make itself (CMD='make -C …') must not see this make's flags.
override CLEAN := env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL
override PYTHON := $(CLEAN) .venv/bin/python
# For the jobs that need no setup: any Python 3.11, nothing but its standard library.
override PLAIN_PYTHON = python=$$(collectors/front/setup.sh python) && exec $(CLEAN) PYTHONDONTWRITEBYTECODE=1 "$$python"
# A recording job prints its run directory on stdout, alone, as soon as all is recorded, and everything else on stderr.
# The report is made while the job still puts things back (freeing a disk file of some GB takes longer than the report).
# What the job left is reported even if it failed or was ended by ^C, which reaches it and not these shells; its exit
# code comes first. read returns more than 128 for a signal, which is no end of the job.
override THEN_REPORT = trap : INT; set +e; $(PYTHON) -m collectors $1 | { trap : INT; \
	until read -r run; got=$$?; [ $$got -le 128 ]; do :; done; \
	[ -z "$$run" ] || $(PYTHON) -m analysis report "$$run"; }; \
	codes=("$${PIPESTATUS[@]}"); exit $$(( codes[0] ? codes[0] : codes[1] ))
# What has to be installed: more where something is tested.
override SETUP := $(if $(filter setup check test test-all lint bench kernels,$(MAKECMDGOALS)),test,run) $(firstword $(MAKECMDGOALS))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: trace watch report movie compare import plan doctor list help check test test-all lint bench clean setup build kernels

# --- the jobs (a comment after ## is the job's line in `make help`) ------------------------------------
trace: build ## run a workload on a file system, or CMD in DIR, under the probes; then report
	$(Q)$(call THEN_REPORT,trace)

watch: build ## observe the block device DEV for SECS seconds, writing nothing to it; then report
	$(Q)$(call THEN_REPORT,watch)

report: | setup ## report a finished run again: RUN=runs/… (default runs/latest)
	$(Q)$(PYTHON) -m analysis report $${SEEKMETER_LOCKS:+--locks="$$SEEKMETER_LOCKS"} "$${SEEKMETER_RUN:-runs/latest}"

movie: | setup ## RUN/movie.html: the disk as a grid, requests lighting up in their time: RUN=runs/… (default runs/latest)
	$(Q)$(PYTHON) -m analysis movie "$${SEEKMETER_RUN:-runs/latest}"

compare: | setup ## one report of several finished runs, side by side: RUNS="runs/… runs/…"
	$(Q)$(PYTHON) -m analysis compare $${SEEKMETER_OUT:+--out="$$SEEKMETER_OUT"} --runs="$${SEEKMETER_RUNS-}"

import: build/import-blktrace build/text-to-blktrace | setup ## make a run directory of another tool's block trace, and report it: TRACE=FILE
	$(Q)$(PYTHON) -m analysis import $${SEEKMETER_OUT:+--out="$$SEEKMETER_OUT"} "$${SEEKMETER_TRACE-}"

plan: ## say what trace with these words would do: every command line, device, size, time
	$(Q)$(PLAIN_PYTHON) -m collectors plan

doctor: ## say what this kernel can be asked: per collector yes or no, why, and the remedy
	$(Q)$(PLAIN_PYTHON) -m collectors.doctor

list: ## list the file systems, workloads and disks
	$(Q)$(PLAIN_PYTHON) -m collectors.front.list

help: ## this
	@collectors/front/help.sh

check: build lint ## run lint and the tests that need neither root nor this kernel: 3 minutes; ARGS= goes to pytest
	$(Q)$(PYTHON) -m tests check

test: build ## run the tests that prove all of it on this kernel, as root: 12 minutes; ARGS= goes to pytest
	$(Q)$(PYTHON) -m tests test

test-all: build ## run every test, other kernels in virtual machines too: an hour; ARGS= goes to pytest
	$(Q)$(PYTHON) -m tests test-all

lint: | setup ## check types, style and format of all code
	$(Q)$(PYTHON) -m ruff check
	$(Q)$(PYTHON) -m ruff format --check
	$(Q)$(PYTHON) -m mypy
	$(Q).venv/bin/clang-format --dry-run -Werror $(C_FILES)
	$(Q)shellcheck $(SHELL_FILES)

bench: build ## measure what the tracing costs, and how fast a report is
	$(Q)$(PYTHON) -m tests.bench

kernels: build ## boot each of Debian's kernels, ask doctor inside, write the table in docs/KERNELS.md
	$(Q)$(PYTHON) -m collectors.vm.kernel_table

setup: ## install what is missing for all of this, saying what first
	$(Q)collectors/front/setup.sh $(SETUP)


clean: ## remove build/ (never runs/)
	$(if $(SEEKMETER_WORDS),$(Q)$(subst exec,,$(PLAIN_PYTHON)) -m collectors.front.check $@)
	$(Q)rm -rf build

build: ## compile the BPF programs, the recorder and the workload generators

# A word that is no job: the job parser names the nearest one.
.DEFAULT:
	$(Q)$(PLAIN_PYTHON) -m collectors.front.check '$@'

# --- the build: whatever lies in these folders, no list to edit -----------------------------------------
override ARCH := $(shell uname -m | sed 's/x86_64/x86/; s/aarch64/arm64/; s/ppc64le/powerpc/; s/riscv64/riscv/; s/s390x/s390/')
override CC := gcc
override CFLAGS := -std=c11 -O2 -g -Wall -Wextra -Werror -D_GNU_SOURCE
override BPF_CFLAGS := -g -O2 -Wall -Werror -target bpf -mcpu=v3 -D__TARGET_ARCH_$(ARCH) -I bpf
override BPF_SOURCES := $(wildcard bpf/*/*.bpf.c)
override BPF_OBJECTS := $(BPF_SOURCES:%.c=build/%.o)
override SKELETONS := $(BPF_OBJECTS:.bpf.o=.skel.h)
override RECORDER_SOURCES := $(filter-out collectors/blktrace/%,$(wildcard collectors/*/*.c collectors/*/*/*.c))
override RECORDER_OBJECTS := $(RECORDER_SOURCES:%.c=build/objects/%.o)
override GENERATORS := $(patsubst workloads/generators/%.c,build/generators/%,$(wildcard workloads/generators/*.c))
override COMMON_OBJECTS := $(patsubst workloads/generators/%.c,build/objects/generators/%.o,$(wildcard workloads/generators/common/*/*.c))
override IMPORTER_SOURCES := $(wildcard analysis/importers/blktrace_reader/*.c)
override TEXT_OBJECTS := $(patsubst analysis/importers/text_reader/%.c,build/objects/text/%.o,$(wildcard analysis/importers/text_reader/*.c))
override BLKTRACE_OBJECTS := $(patsubst collectors/blktrace/native/%.c,build/objects/blktrace/%.o,$(wildcard collectors/blktrace/native/*.c))
override C_FILES = $(shell find analysis bpf collectors workloads tests -name '*.[ch]')
override SHELL_FILES = .ci/run $(shell find collectors workloads tests -name '*.sh')

# What is compiled is said file by file by `make build`; other jobs say once that it takes a moment, the first recipe
# that can make the link. On stderr: stdout is the job's.
override SAY = $(if $(filter build,$(MAKECMDGOALS)),echo '  $1' >&2,mkdir -p build; \
	! ln -s said build/.said.$$PPID 2>/dev/null || echo 'seekmeter: compiling, which takes half a minute the first time' >&2)

# Each file is made aside and renamed: two makes at once, or one that is killed, leave no half of it to the other.
override ASIDE = new=$@.$$$$; trap 'rm -f "$$new" "$$new.d"' EXIT;
override DEPENDS = -MMD -MP -MF "$$new.d" -MT $@
override RENAME = && mv -f "$$new" $@
override RENAME_OBJECT = && mv -f "$$new.d" $(@:.o=.d) $(RENAME)

build: $(if $(RECORDER_OBJECTS),build/recorder) $(GENERATORS) build/guest-init build/import-blktrace build/text-to-blktrace build/blk-tracer
	@rm -f build/.said.*

build/bpf/%.bpf.o: bpf/%.bpf.c Makefile | setup
	@$(call SAY,BPF   $(@F)); mkdir -p $(@D)
	$(Q)$(ASIDE) clang $(BPF_CFLAGS) $(DEPENDS) -c $< -o "$$new" $(RENAME_OBJECT)

build/bpf/%.skel.h: build/bpf/%.bpf.o
	@$(call SAY,SKEL  $(@F))
	$(Q)$(ASIDE) bpftool gen skeleton $< name $(*F)_bpf > "$$new" $(RENAME)

# The skeletons come first: which of them a file includes is known only after its first compilation.
build/objects/collectors/%.o: collectors/%.c Makefile | $(SKELETONS) setup
	@$(call SAY,CC    $(@F)); mkdir -p $(@D)
	$(Q)$(ASIDE) $(CC) $(CFLAGS) $(addprefix -I,$(sort $(dir $(SKELETONS)))) -I bpf -I collectors $(DEPENDS) -c $< -o "$$new" $(RENAME_OBJECT)

build/recorder: $(RECORDER_OBJECTS)
	@$(call SAY,LINK  $(@F))
	$(Q)$(ASIDE) $(CC) $^ -lbpf -lelf -lz -lm -pthread -o "$$new" $(RENAME)

build/objects/generators/%.o: workloads/generators/%.c Makefile | setup
	@$(call SAY,CC    $(@F)); mkdir -p $(@D)
	$(Q)$(ASIDE) $(CC) $(CFLAGS) -I workloads/generators $(DEPENDS) -c $< -o "$$new" $(RENAME_OBJECT)

# A larger one has the rest of it in a folder of its name.
.SECONDEXPANSION:
$(GENERATORS): build/generators/%: build/objects/generators/%.o \
		$$(subst .c,.o,$$(subst workloads/,build/objects/,$$(wildcard workloads/generators/$$*/*.c))) $(COMMON_OBJECTS)
	@$(call SAY,LINK  $(@F)); mkdir -p $(@D)
	$(Q)$(ASIDE) $(CC) $^ -Wl,--as-needed -ljansson -lz -lm -pthread -o "$$new" $(RENAME)

build/objects/blktrace/%.o: collectors/blktrace/native/%.c Makefile | setup
	@$(call SAY,CC    $(@F)); mkdir -p $(@D)
	$(Q)$(ASIDE) $(CC) $(CFLAGS) $(DEPENDS) -c $< -o "$$new" $(RENAME_OBJECT)

build/blk-tracer: $(BLKTRACE_OBJECTS)
	@$(call SAY,LINK  $(@F))
	$(Q)$(ASIDE) $(CC) $^ -lbpf -lelf -lz -o "$$new" $(RENAME)

# Hundreds of millions of events go through it, each through functions of several files. No objects that two makes at
# once would share: what is left to the linker has a name of its own in each, and the linker reads it twice.
build/import-blktrace: $(IMPORTER_SOURCES) $(wildcard analysis/importers/blktrace_reader/*.h bpf/*/*.h) Makefile | setup
	@$(call SAY,CC    $(@F)); mkdir -p $(@D)
	$(Q)$(ASIDE) $(CC) $(CFLAGS) -O3 -flto=auto -I bpf $(IMPORTER_SOURCES) -o "$$new" $(RENAME)

build/objects/text/%.o: analysis/importers/text_reader/%.c Makefile | setup
	@$(call SAY,CC    $(@F)); mkdir -p $(@D)
	$(Q)$(ASIDE) $(CC) $(CFLAGS) $(DEPENDS) -c $< -o "$$new" $(RENAME_OBJECT)

build/text-to-blktrace: $(TEXT_OBJECTS)
	@$(call SAY,LINK  $(@F))
	$(Q)$(ASIDE) $(CC) $(CFLAGS) $^ -o "$$new" $(RENAME)

# Static: what it needs of the guest's root comes over 9p, each file of a dynamic one too.
build/guest-init: workloads/machines/init.c Makefile | setup
	@$(call SAY,CC    $(@F)); mkdir -p $(@D)
	$(Q)$(ASIDE) $(CC) $(CFLAGS) -static $< -o "$$new" $(RENAME)

.SECONDARY:
Makefile: ;
# Of today's sources only: what a moved or removed file left in build/ must not ask for that file.
override COMPILED := $(BPF_OBJECTS) $(RECORDER_OBJECTS) $(BLKTRACE_OBJECTS) $(TEXT_OBJECTS) $(COMMON_OBJECTS) \
	$(patsubst workloads/%.c,build/objects/%.o,$(wildcard workloads/generators/*.c workloads/generators/*/*.c))
-include $(wildcard $(COMPILED:.o=.d))
