# Everything a person or CI does with the source tree. `make help` lists it.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

CARGO  ?= cargo
PREFIX ?= /usr/local
STRIP  ?= strip
# Where systemd looks for units of the administrator; empty on machines without it.
UNITDIR ?= $(shell test -d /etc/systemd/system && echo /etc/systemd/system)
TARGET := $(or $(CARGO_TARGET_DIR),target)
export CARGO

.PHONY: help demo test test-vm soak check conformance build deps install install-lab uninstall clean

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

demo: deps ## Show a TCP transfer that survives the death of its ISP (root for the real thing).
	@$(CARGO) build --release --locked -p moorlined -p moorline-lab
	@$(TARGET)/release/moorline-lab demo

test: deps ## Run every test and say what ran (root for those with namespaces and BPF).
	@scripts/test.sh

# Not a part of `make test`: it takes long, and downloads a kernel the first time. KERNEL=6.1 or a package.
test-vm: deps ## Try it on another kernel, in a virtual machine (Debian 12's; KERNEL=... for others).
	@scripts/vm/test.sh $(KERNEL)

# Not a part of `make test`, which has two minutes of it: its limits are those of a clock. HOURS=8, SEED=... as in a
# report, SOAK=--ilnp and other options.
soak: deps ## Send random messages of both protocols to a daemon, for an hour or HOURS=... (root).
	@$(CARGO) build --release --locked -p moorlined -p moorline-lab
	@$(TARGET)/release/moorline-lab soak --seconds $$(( $(or $(HOURS),1) * 3600 )) $(addprefix --seed ,$(SEED)) $(SOAK)

check: deps ## Check format, lints, documentation, shell scripts and the list of dependencies.
	@scripts/check.sh

conformance: ## Write docs/conformance.md anew from the markers in code and tests.
	@$(CARGO) run --quiet --locked -p moorline-conformance

build: deps ## Build the binaries to install.
	@$(CARGO) build --profile dist --locked -p moorline -p moorlined -p moorline-lab

deps: ## Install what building needs from the distribution's packages.
	@command -v $(firstword $(CARGO)) >/dev/null || \
		{ echo "No cargo here: install Rust from https://rustup.rs, then try again." >&2; exit 1; }
	@scripts/install-deps.sh

# No build here: `sudo make install` must not run cargo as root with the user's files.
install: ## Install what `make build` built: moorline, moorlined, and the systemd unit where there is systemd.
	@test -x $(TARGET)/dist/moorlined || { echo "Run make build first." >&2; exit 1; }
	install -D -s --strip-program="$(STRIP)" -m 755 -t "$(DESTDIR)$(PREFIX)/bin" $(TARGET)/dist/moorline $(TARGET)/dist/moorlined
ifneq ($(UNITDIR),)
	install -d "$(DESTDIR)$(UNITDIR)"
	sed 's|@PREFIX@|$(PREFIX)|' packaging/moorlined.service > "$(DESTDIR)$(UNITDIR)/moorlined.service"
endif

install-lab: ## Install demo, simulator and experiments: moorline-lab.
	@test -x $(TARGET)/dist/moorline-lab || { echo "Run make build first." >&2; exit 1; }
	install -D -s --strip-program="$(STRIP)" -m 755 -t "$(DESTDIR)$(PREFIX)/bin" $(TARGET)/dist/moorline-lab

uninstall: ## End Moorline on this host, and remove what `make install` installed.
	@test -n "$(DESTDIR)" || ! test -x $(PREFIX)/bin/moorline || $(PREFIX)/bin/moorline down
	rm -f $(foreach program,moorline moorlined moorline-lab,"$(DESTDIR)$(PREFIX)/bin/$(program)")
ifneq ($(UNITDIR),)
	rm -f "$(DESTDIR)$(UNITDIR)/moorlined.service"
endif

clean: ## Remove what was built.
	$(CARGO) clean
