# The commands of the project. `make run` and `make test` each set up what they need.

export CARGO ?= cargo
QUICKSTART := examples/quickstart
FUZZ_SECONDS ?= 60
TORTURE_ROUNDS ?= 1000
SOAK_SECONDS ?= 600

# scripts/setup installs a newer node there if the machine's own is too old for the peers.
export PATH := $(CURDIR)/.cache/bin:$(PATH)

# Targets run one after the other even under -j: cargo already uses every core.
.NOTPARALLEL:
.PHONY: help run test quick verify setup check fmt lint doctest unit msrv tidy fuzz torture soak bench clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The first server of the quickstart is `toolcrib` itself, so the new binary comes first in the path.
run: export PATH := $(abspath $(or $(CARGO_TARGET_DIR),target))/release:$(PATH)
run: ## build Toolcrib, say what to paste into your client, and serve the quickstart workspace
	@scripts/setup build
	$(CARGO) build -q --release --locked -p toolcrib-cli
	@echo "Paste one of these, or let \`toolcrib connect CLIENT --http\` write it (with --undo):"
	@for client in claude-code cursor vscode codex; do \
		echo; toolcrib connect $$client --http --print --root $(QUICKSTART); \
	done; echo
	toolcrib serve --root $(QUICKSTART)

# The unit tests come last so that their summary is the last thing on the screen.
test: setup fmt lint doctest unit ## install what the tests need, then run everything

# The crates whose tests need neither Docker nor Node nor Python peers nor root; toolcrib-e2e has the others.
quick: fmt ## the inner loop: format, lints and the tests that need nothing installed
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) nextest run --workspace --exclude toolcrib-e2e --exclude toolcrib-cli --locked

verify: test ## everything, also what takes long: run it before something is called done
	$(MAKE) torture TORTURE_ROUNDS=$(TORTURE_ROUNDS)
	$(MAKE) soak SOAK_SECONDS=$(SOAK_SECONDS)
	$(MAKE) fuzz FUZZ_SECONDS=$(FUZZ_SECONDS)

msrv: ## check that everything compiles with the oldest supported Rust
	$(CARGO) check --workspace --all-targets --locked

setup: ## install what the tests need (fast when it is there)
	@scripts/setup

check: fmt lint ## format and lints

fmt:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) fmt --manifest-path bench/Cargo.toml --check
	$(CARGO) fmt --manifest-path tests/peers/rmcp/Cargo.toml --check

# Fuzzing and benchmarks are workspaces of their own. Both are linted, so that they keep compiling. They share a target
# folder, so that common dependencies are compiled once.
ASIDE := $(abspath $(or $(CARGO_TARGET_DIR),target))/aside
lint:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy --manifest-path fuzz/Cargo.toml --target-dir $(ASIDE) --lib --bins --locked -- -D warnings
	$(CARGO) clippy --manifest-path bench/Cargo.toml --target-dir $(ASIDE) --locked -- -D warnings

doctest:
	$(CARGO) test --workspace --doc --locked

# Includes tidy and the dependency directions, which are tests of toolcrib-testkit.
unit:
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
		set -x; $(CARGO) nextest run --workspace --locked; \
	else \
		echo "cargo-nextest is not installed: running the same tests under cargo test"; \
		set -x; $(CARGO) test --workspace --lib --bins --tests --examples --no-fail-fast --locked; \
	fi

tidy: ## the hygiene checks alone, with the list of what was checked
	$(CARGO) test -q -p toolcrib-testkit --test tidy --test dependencies -- --nocapture

fuzz: ## every fuzz target for FUZZ_SECONDS (60); findings stay in fuzz/artifacts
	scripts/fuzz all $(FUZZ_SECONDS)

torture: ## kill a host with twenty servers TORTURE_ROUNDS (1000) times; nothing may be left
	TORTURE_ROUNDS=$(TORTURE_ROUNDS) $(CARGO) test -p toolcrib-e2e --locked --test it --example torture_host -- torture::

soak: ## five hundred clients for SOAK_SECONDS (600), while servers are killed and files rewritten
	SOAK_SECONDS=$(SOAK_SECONDS) $(CARGO) test --release -p toolcrib-cli --locked --test it -- soak:: --nocapture

bench: ## benchmarks: configuration, registry, a call beside the Rust SDK, the gateway beside others
	@scripts/setup bench
	$(CARGO) bench -p toolcrib-config -p toolcrib
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml
	$(CARGO) build --profile dist --locked -p toolcrib-cli
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml -- gateway

clean: ## remove everything that was built or installed here
	$(CARGO) clean
	$(CARGO) clean --manifest-path fuzz/Cargo.toml
	$(CARGO) clean --manifest-path bench/Cargo.toml
	rm -rf .cache tests/peers/node_modules tests/peers/conformance/node_modules tests/peers/inspector/node_modules tests/peers/provider/node_modules tests/peers/.venv-*
