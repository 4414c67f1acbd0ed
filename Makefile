# SPDX-License-Identifier: BSD-2-Clause
# Seekmeter's front door: make JOB VARIABLE=value …    (make help lists jobs and variables)
#
# The Makefile passes variables on to the jobs and builds everything written in C. The jobs are Python: collectors/
# runs and records, analysis/ reads finished runs, workloads/ defines what runs on what.

# --- variables of the command line ---------------------------------------------------------------------
# A job gets each variable of make's command line, known or not, in its environment: X as SEEKMETER_X, and all names
# in SEEKMETER_WORDS. $(value X) passes X as typed, so `$`, quotes and parentheses in CMD= survive. X itself is not
# exported: make would expand X, and so run what is in it. $(origin X) leaves out variables of the user's environment.
# Every variable below is an `override`: a mistyped variable reaches the job, which names the right one, and cannot
# change this file.
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
# A job that runs make itself (CMD='make -C …') must not get the flags of this make.
override CLEAN := env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL
override PYTHON := $(CLEAN) .venv/bin/python
override PLAIN_PYTHON := $(CLEAN) collectors/front/python.sh
override RECORD := $(CLEAN) collectors/front/record.sh
# Packages to install: for runs, for runs on several machines, or for tests too.
override TEST_JOBS := setup check test test-all lint bench kernels
# ON= of watch is a command.
override ON_CLUSTER := $(filter worker,$(MAKECMDGOALS)) $(if $(filter watch,$(MAKECMDGOALS)),,$(filter ON,$(GIVEN)))
override SETUP := $(if $(filter $(TEST_JOBS),$(MAKECMDGOALS)),test,$(if $(strip $(ON_CLUSTER)),cluster,run)) \
	$(firstword $(MAKECMDGOALS))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: trace watch sweep study verify worker report movie export compare query import plan doctor list help check test test-all lint bench clean setup build bundle kernels install uninstall

# --- the jobs: collectors/front/help.py describes them -------------------------------------------------
trace watch sweep study verify: build
	$(Q)$(RECORD) $@

worker: build
	$(Q)$(PYTHON) -B -m collectors.cluster.worker

report: $(if $(filter MODEL,$(GIVEN)),build/drive-cost)
import: build/import-blktrace build/text-to-blktrace build/spill.so
report movie export compare query import: | setup
	$(Q)$(CLEAN) collectors/front/analyse.sh $@

plan:
	$(Q)$(PLAIN_PYTHON) -m collectors plan

doctor:
	$(Q)$(PLAIN_PYTHON) -m collectors.doctor

list help:
	$(Q)$(PLAIN_PYTHON) -m collectors.front.$@

check: build lint
	$(Q)$(PYTHON) -m tests $@

test test-all: build
	$(Q)$(PYTHON) -m tests $@

lint: | setup # .pre-commit-config.yaml has the same commands
	$(Q)$(PYTHON) -m ruff check && $(PYTHON) -m ruff format --check && $(PYTHON) -m mypy
	$(Q).venv/bin/clang-format --dry-run -Werror $(C_FILES)
	$(Q)shellcheck $(SHELL_FILES)

bench: build
	$(Q)$(PYTHON) -m tests.bench

kernels: build
	$(Q)$(PYTHON) -m collectors.vm.kernel_table

# In the build of a package the builder installs what it needs.
setup:
	$(Q)[ -n "$${SEEKMETER_NO_SETUP-}" ] || collectors/front/setup.sh $(SETUP)

install: build
install uninstall:
	$(if $(SEEKMETER_WORDS),$(Q)$(PLAIN_PYTHON) -m collectors.front.check $@)
	$(Q)$(CLEAN) collectors/front/install.sh $@

clean:
	$(if $(SEEKMETER_WORDS),$(Q)$(PLAIN_PYTHON) -m collectors.front.check $@)
	$(Q)rm -rf build

# Any other goal is no job: the check names the nearest one.
.DEFAULT:
	$(Q)$(PLAIN_PYTHON) -m collectors.front.check '$@'

# --- the build: every source file in these folders, no list to edit ------------------------------------
override ARCH := $(shell uname -m | sed 's/x86_64/x86/; s/aarch64/arm64/; s/ppc64le/powerpc/; s/riscv64/riscv/; s/s390x/s390/')
override CC := gcc
override DEFINES :=
override CFLAGS := -std=c11 -O2 -g -Wall -Wextra -Werror -D_GNU_SOURCE
override BPF_CFLAGS := -g -O2 -Wall -Werror -target bpf -mcpu=v3 -D__TARGET_ARCH_$(ARCH) -I bpf -ffile-prefix-map="$(CURDIR)"=.
override objects_of = $(patsubst %.c,build/objects/%.o,$(wildcard $1))
override BPF_OBJECTS := $(patsubst %.c,build/%.o,$(wildcard bpf/*/*.bpf.c))
override SKELETONS := $(BPF_OBJECTS:.bpf.o=.skel.h)
override BLKTRACE_OBJECTS := $(call objects_of,collectors/blktrace/native/*.c)
override RECORDER_OBJECTS := $(filter-out $(BLKTRACE_OBJECTS),$(call objects_of,collectors/*/*.c collectors/*/*/*.c))
override GENERATORS := $(patsubst workloads/generators/%.c,build/generators/%,$(wildcard workloads/generators/*.c))
override COMMON_OBJECTS := $(call objects_of,workloads/generators/common/*/*.c)
override IMPORTER_SOURCES := $(wildcard analysis/importers/blktrace_reader/*.c)
override TEXT_OBJECTS := $(call objects_of,analysis/importers/text_reader/*.c)
override DRIVE_OBJECTS := $(call objects_of,workloads/drives/native/model/*.c)
override DRIVE_SERVER_OBJECTS := $(call objects_of,workloads/drives/native/server/*.c)
override DRIVE_COST_OBJECTS := $(call objects_of,workloads/drives/native/cost/*.c)
override C_FILES = $(shell find analysis bpf collectors workloads tests -name '*.[ch]')
override SHELL_FILES = .ci/run collectors/front/seekmeter $(shell find collectors workloads tests -name '*.sh')

# `make build` names each file on stderr (stdout is the job's). For other jobs the first recipe that can make the link
# says once that compiling takes a moment.
override SAY = $(if $(filter build,$(MAKECMDGOALS)),echo '  $1' >&2,mkdir -p build; \
	! ln -s said build/.said.$$PPID 2>/dev/null || echo 'seekmeter: compiling, which takes half a minute the first time' >&2)

# Each file is written under another name and renamed: two makes at once, or a killed make, leave no half file.
override ASIDE = new=$@.$$$$; trap 'rm -f "$$new" "$$new.d"' EXIT;
override DEPENDS = -MMD -MP -MF "$$new.d" -MT $@
override RENAME = && mv -f "$$new" $@
override RENAME_OBJECT = && mv -f "$$new.d" $(@:.o=.d) $(RENAME)

build: build/recorder $(GENERATORS) build/guest-init build/import-blktrace build/text-to-blktrace build/blk-tracer \
	build/drive-server build/drive-cost build/spill.so
	@rm -f build/.said.*

build/bpf/%.bpf.o: bpf/%.bpf.c Makefile | setup
	@$(call SAY,BPF   $(@F)); mkdir -p $(@D)
	$(Q)$(ASIDE) clang $(BPF_CFLAGS) $(DEPENDS) -c $< -o "$$new" $(RENAME_OBJECT)

build/bpf/%.skel.h: build/bpf/%.bpf.o
	@$(call SAY,SKEL  $(@F))
	$(Q)$(ASIDE) bpftool gen skeleton $< name $(*F)_bpf > "$$new" $(RENAME)

build/objects/%.o: %.c Makefile | setup
	@$(call SAY,CC    $(@F)); mkdir -p $(@D)
	$(Q)$(ASIDE) $(CC) $(CFLAGS) $(DEFINES) $(DEPENDS) -c $< -o "$$new" $(RENAME_OBJECT)

# Skeletons first: which ones a file includes is known only after its first compilation.
$(RECORDER_OBJECTS): override CFLAGS += $(addprefix -I,$(sort $(dir $(SKELETONS)))) -I bpf -I collectors
$(RECORDER_OBJECTS): | $(SKELETONS)

# The version is compiled in: an import elsewhere must know what recorded.
build/objects/collectors/alone/version.o: $(wildcard pyproject.toml)
build/objects/collectors/alone/version.o: override DEFINES = \
	-DSEEKMETER_VERSION='"$(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)"'

build/recorder: $(RECORDER_OBJECTS)
	@$(call SAY,LINK  $(@F))
	$(Q)$(ASIDE) $(CC) $^ -lbpf -lelf -lz -lzstd -lm -pthread -o "$$new" $(RENAME)

build/objects/workloads/%.o: override CFLAGS += -I workloads/generators

# A large generator has more files in a folder of its name.
$(GENERATORS): build/generators/%: build/objects/workloads/generators/%.o $(COMMON_OBJECTS)
	@$(call SAY,LINK  $(@F)); mkdir -p $(@D)
	$(Q)$(ASIDE) $(CC) $^ -Wl,--as-needed -ljansson -lz -lm -pthread -o "$$new" $(RENAME)
$(foreach program,$(GENERATORS),$(eval $(program): $(call objects_of,workloads/generators/$(notdir $(program))/*.c)))

build/blk-tracer: $(BLKTRACE_OBJECTS)
	@$(call SAY,LINK  $(@F))
	$(Q)$(ASIDE) $(CC) $^ -lbpf -lelf -lz -o "$$new" $(RENAME)

# Hundreds of millions of events pass through functions of several files: one compilation with -flto. Objects for the
# linker would be shared by two makes at once, and the linker reads such objects twice.
build/import-blktrace: $(IMPORTER_SOURCES) $(wildcard analysis/importers/blktrace_reader/*.h bpf/*/*.h) Makefile | setup
	@$(call SAY,CC    $(@F)); mkdir -p $(@D)
	$(Q)$(ASIDE) $(CC) $(CFLAGS) -O3 -flto=auto -I bpf $(IMPORTER_SOURCES) -o "$$new" $(RENAME)

# Python loads it: large arrays of a report are in files.
build/spill.so: analysis/spill/spill.c Makefile | setup
	@$(call SAY,CC    $(@F)); mkdir -p $(@D)
	$(Q)$(ASIDE) $(CC) $(CFLAGS) -fPIC -shared -pthread $< -o "$$new" $(RENAME)

build/text-to-blktrace: $(TEXT_OBJECTS)
	@$(call SAY,LINK  $(@F))
	$(Q)$(ASIDE) $(CC) $^ -o "$$new" $(RENAME)

build/objects/workloads/drives/native/%.o: override CFLAGS += -I workloads/drives/native

# Static: the server may not load anything while it stands for a disk, and the guest runs it too.
build/drive-server: $(DRIVE_SERVER_OBJECTS) $(DRIVE_OBJECTS)
	@$(call SAY,LINK  $(@F))
	$(Q)$(ASIDE) $(CC) -static $^ -lm -pthread -o "$$new" $(RENAME)

build/drive-cost: $(DRIVE_COST_OBJECTS) $(DRIVE_OBJECTS)
	@$(call SAY,LINK  $(@F))
	$(Q)$(ASIDE) $(CC) $^ -lm -o "$$new" $(RENAME)

# Static: the guest reads each library of a dynamic program over 9p.
build/guest-init: workloads/machines/init.c Makefile | setup
	@$(call SAY,CC    $(@F)); mkdir -p $(@D)
	$(Q)$(ASIDE) $(CC) $(CFLAGS) -static $< -o "$$new" $(RENAME)

.SECONDARY:
Makefile: ;
# Dependencies of today's sources only: what a removed file left in build/ must not ask for that file.
override GENERATOR_OBJECTS := $(call objects_of,workloads/generators/*.c workloads/generators/*/*.c)
override COMPILED := $(BPF_OBJECTS) $(RECORDER_OBJECTS) $(BLKTRACE_OBJECTS) $(TEXT_OBJECTS) $(COMMON_OBJECTS) $(GENERATOR_OBJECTS) \
	$(DRIVE_OBJECTS) $(DRIVE_SERVER_OBJECTS) $(DRIVE_COST_OBJECTS)
# One archive that records where nothing can be installed. Its programs are linked from the same objects.
override CROSS := $(filter-out $(ARCH),$(filter arm64,$(SEEKMETER_ARCH)))
bundle: $(if $(CROSS),,$(filter-out $(BPF_OBJECTS) $(TEXT_OBJECTS),$(COMPILED))) | setup
	$(if $(SEEKMETER_WORDS),$(Q)$(PLAIN_PYTHON) -m collectors.front.check $@)
	$(if $(CROSS),$(Q)ARCH=arm64 CFLAGS="$(CFLAGS)" \
		BPF_CFLAGS='$(subst __TARGET_ARCH_$(ARCH),__TARGET_ARCH_arm64,$(BPF_CFLAGS))' collectors/bundle/cross.sh,\
	$(Q)ARCH=$(patsubst aarch64,arm64,$(shell uname -m)) CC=$(CC) TOOLS= RECORDER="$(RECORDER_OBJECTS)" TRACER="$(BLKTRACE_OBJECTS)" COMMON="$(COMMON_OBJECTS)" \
		DRIVE_SERVER="$(DRIVE_SERVER_OBJECTS) $(DRIVE_OBJECTS)" GENERATORS="$(GENERATORS:build/%=build/objects/workloads/%.o)" \
		collectors/bundle/bundle.sh)

-include $(wildcard $(COMPILED:.o=.d))
