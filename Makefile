PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RIVALS := $(VENV)/.rivals
SITE := $(VENV)/.site
KERNELS := $(VENV)/.kernels

.PHONY: demo test lint suite engines-test verify bench docs schema clean

demo: $(READY)
	$(BIN)/pramana demo --force

test: $(READY)
	$(MAKE) --no-print-directory -j 2 lint suite

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

suite: $(READY) $(KERNELS)
	PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal --durations 10 -m "not verify and not engines"

engines-test: $(READY)
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group engines
	$(BIN)/python -m pytest -m "engines and not verify" -rs tests

verify: $(READY)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/verify.py -n auto --dist worksteal

bench: $(RIVALS)
	$(BIN)/python -m benchmarks.resampling
	$(BIN)/python -m benchmarks.perturbing
	$(BIN)/python -m benchmarks.likelihood
	$(BIN)/python -m benchmarks.multinomial
	$(BIN)/python -m benchmarks.many_columns
	$(BIN)/python -m benchmarks.noise
	$(BIN)/python -m benchmarks.stabilized
	$(BIN)/python -m benchmarks.in_memory
	$(BIN)/python -m benchmarks.streaming
	$(BIN)/python -m benchmarks.engines
	$(BIN)/python -m benchmarks.growth

docs: $(SITE)
	$(BIN)/python -m sphinx -q -W --keep-going -c docs/site . build/site
	$(BIN)/python docs/site/check_links.py build/site
	@echo "build/site/index.html"

schema: $(READY)
	$(BIN)/python -c "from pramana.mechanism.description.document import SCHEMA, schema_text; SCHEMA.write_text(schema_text(), encoding='utf-8')"

clean:
	rm -rf $(VENV) build/site docs/site/generated .mypy_cache .ruff_cache .pytest_cache

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all]' --group dev
	touch $(READY)

# Once, before several processes would each compile them.
$(KERNELS): $(READY) $(wildcard src/pramana/kernels/compiled*.py) src/pramana/mechanism/draws/compiled.py
	PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -k compiled tests/identity/test_products.py tests/identity/test_noisy_products.py tests/unit/mechanism/test_drawing.py tests/unit/studies/test_simulation.py
	touch $(KERNELS)

$(RIVALS): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group bench
	touch $(RIVALS)

$(SITE): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group docs
	touch $(SITE)
