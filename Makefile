PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test soak check package bench docs schemas clean

# Installed once, and again when what is needed changed.
.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' -c constraints.txt
	touch $@

demo: .venv/installed
	@mkdir -p demo-out
	@$(BIN)/transcript-normalizer repair fixtures/demo/session.jsonl -o demo-out/session.repaired.json \
	  --report demo-out/report.json --debug-log demo-out/left-behind.jsonl --force
	@echo
	@$(BIN)/transcript-normalizer show fixtures/demo/session.jsonl

# Two workers, and the tests of a file in one of them; `pytest` alone does the same, one after the other.
test: .venv/installed
	$(BIN)/python -m pytest -q -n 2 --dist loadfile

soak: .venv/installed
	$(BIN)/python -m pytest -q -m soak

check: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m normalizer.devtools.schema_files --check
	$(BIN)/python -m normalizer.devtools.rulebook_page --check
	$(BIN)/python -m normalizer.devtools.hand_over_page --check

package: .venv/installed
	$(BIN)/python .ci/package.py

bench: .venv/installed
	for each in benchmarks/*.py; do $(BIN)/python "$$each" || exit 1; done

docs: .venv/installed
	$(BIN)/python -m normalizer.devtools.rulebook_page
	$(BIN)/python -m normalizer.devtools.hand_over_page

schemas: .venv/installed
	$(BIN)/python -m normalizer.devtools.schema_files

clean:
	rm -rf demo-out build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
