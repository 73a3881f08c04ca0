# Two commands: `make chat` runs the app, `make test` checks everything. Paths are relative, so spaces do no harm.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
BUILT_IN := smollm2-135m-instruct-q4_1

# llama.cpp's AMX kernels crash when GCC before 13 builds them (see backends/llamacpp/library.py); no other kernel needs them.
WITHOUT_AMX := $(shell cc -mno-amx-tile -mno-amx-int8 -mno-amx-bf16 -E -x c /dev/null >/dev/null 2>&1 && echo -mno-amx-tile -mno-amx-int8 -mno-amx-bf16)
PIP_INSTALL := CFLAGS="$(CFLAGS) $(WITHOUT_AMX)" CXXFLAGS="$(CXXFLAGS) $(WITHOUT_AMX)" $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: chat test lint types contracts unit bench clean
.DELETE_ON_ERROR:

chat: $(VENV)/.installed
	@$(BIN)/pardec-chat models pull $(BUILT_IN) --quiet
	@$(BIN)/pardec-chat

test: lint types contracts unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The link gives the folders their installed import root; mypy does not follow an editable install's import hook.
types: $(VENV)/.dev
	@mkdir -p build/types && ln -sfn ../.. build/types/pardec_chat
	MYPYPATH=build/types $(BIN)/mypy -p pardec_chat.app -p pardec_chat.backends -p pardec_chat.kernels -p pardec_chat.tests

contracts: $(VENV)/.dev
	$(BIN)/lint-imports

# Two at once; the screens' tests, which watch the clock, apart from those that keep all cores busy.
unit: $(VENV)/.dev
	$(BIN)/pardec-chat models pull $(BUILT_IN) --quiet
	$(BIN)/python -m pytest --ignore=tests/ui --numprocesses=2
	$(BIN)/python -m pytest tests/ui --numprocesses=2

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null 2>&1 && py=$(PYTHON) || py=python3; \
	$$py -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "pardec-chat needs Python 3.11 or newer" >&2; exit 1; }; \
	command -v cc >/dev/null && command -v c++ >/dev/null || { echo "llama.cpp needs a C/C++ compiler: on Debian, apt-get install build-essential" >&2; exit 1; }; \
	$$py -m venv $(VENV) || { rm -rf $(VENV); echo "could not make a virtual environment: on Debian, apt-get install python3-venv" >&2; exit 1; }

SOURCES := pyproject.toml setup.py $(wildcard kernels/*.h kernels/*/*.h kernels/*/*.cpp backends/llamacpp/accelerator/*.h backends/llamacpp/accelerator/*.cpp)

$(VENV)/.installed: $(SOURCES) | $(VENV)/bin/python
	@echo "installing pardec-chat; the first time llama.cpp is compiled, which takes some minutes"
	@$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/.dev: $(SOURCES) | $(VENV)/bin/python
	@echo "installing pardec-chat and its test tools; the first time llama.cpp is compiled, which takes some minutes"
	@$(PIP_INSTALL) 'torch==2.13.0'
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.installed

clean:
	rm -f kernels/quant_matmul/_native*.so backends/llamacpp/accelerator/_plugin*.so
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache *.egg-info
