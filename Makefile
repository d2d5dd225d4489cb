# Every target sets up .venv first, once: nothing but git, make and Python 3.11 needs to be there.
#
#   make test ARGS='-k protocol -x'      arguments for pytest
#   make test ARGS='-n 0 -s'             one test after the other, in pytest's own process
#   make demo PYTHON=python3.13          another Python than python3

PYTHON ?=
VENV   ?= .venv
ARGS   ?=

# Tests mostly wait: three workers take half of the time of one process, or less. A worker that ends
# on its own, as a test that hangs makes it, ends the run.
workers := -n 3 --dist worksteal --max-worker-restart 0

made := $(VENV)/.made
bin  := $(VENV)/bin

.PHONY: help demo test bench check again
.DEFAULT_GOAL := help

help:
	@echo 'make demo    see it work: an env file in, a tool call out, the watch switched off'
	@echo 'make test    run the tests'
	@echo 'make check   lint, formatting, types, and drift of what is generated'
	@echo 'make bench   measure the relay against a bare inotify program'

# A Python that was asked for replaces an environment made with another one.
$(made): pyproject.toml .ci/venv $(if $(PYTHON),again)
	@sh .ci/venv '$(VENV)' '$(PYTHON)'

demo: $(made)
	@$(bin)/relay demo $(ARGS)

test: $(made)
	@$(bin)/python -m pytest -q $(workers) $(ARGS)

bench: $(made)
	@$(bin)/relay bench $(ARGS)

check: $(made)
	@$(bin)/ruff check --quiet .
	@$(bin)/ruff format --check --quiet .
	@$(bin)/mypy --no-error-summary
	@$(bin)/relayconf generate --check
