"""What import-linter, mypy and ruff cannot see: sizes, and what an import really loads."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRODUCT = sorted(path for package in ("kcl_core", "kcl_dagster") for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
LONGEST_FILE = 400
LONGEST_FUNCTION = 50
MOST_PARAMETERS = 8
HEAVY = ("boto3", "botocore", "pyspark", "dagster", "moto", "pyarrow", "deltalake", "pandas")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions_of(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", PRODUCT, ids=name_of)
def test_files_and_functions_have_one_subject(path: Path) -> None:
    """A file or a function that grows beyond this has two: split it."""
    assert len(path.read_text().splitlines()) <= LONGEST_FILE
    for function in functions_of(path):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        assert length <= LONGEST_FUNCTION, f"{function.name} has {length} lines"
        if function.name == "__init__":
            taken = len([*function.args.args, *function.args.kwonlyargs]) - 1
            assert taken <= MOST_PARAMETERS, f"a constructor in line {function.lineno} takes {taken} parameters"


@pytest.mark.parametrize("path", PRODUCT, ids=name_of)
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", PRODUCT, ids=name_of)
def test_annotations_are_evaluated_where_they_stand(path: Path) -> None:
    """Dagster and pydantic read them at run time."""
    assert "from __future__ import annotations" not in path.read_text()


@pytest.mark.parametrize("path", TESTS, ids=name_of)
def test_no_test_sleeps(path: Path) -> None:
    """A test moves a clock, or polls with a deadline."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    called = [
        call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "") for call in calls
    ]
    assert "sleep" not in called


def loaded_by(module: str) -> set[str]:
    """Return the top-level packages that a fresh interpreter has after importing ``module``."""
    script = f"import {module}, sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return set(ended.stdout.split())


@pytest.mark.parametrize("module", ["kcl_core", "kcl_dagster", "kcl_core.leases.model", "kcl_core.testing.fixtures"])
def test_a_package_loads_nothing_heavy_before_it_is_used(module: str) -> None:
    assert loaded_by(module).isdisjoint(HEAVY)


@pytest.mark.parametrize("module", ["kcl_dagster.spark.fetch", "kcl_dagster.spark.source"])
def test_what_runs_on_executors_loads_no_dagster(module: str) -> None:
    """It would cost each of Spark's Python workers a second and 57 MB."""
    assert "dagster" not in loaded_by(module)


def test_the_library_loads_neither_spark_nor_dagster() -> None:
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in PRODUCT
        if path.is_relative_to(ROOT / "kcl_core") and path.name not in ("__init__.py", "__main__.py")
    ]
    assert loaded_by(", ".join(modules)).isdisjoint({"pyspark", "dagster", "deltalake"})


@pytest.mark.parametrize("package", ["kcl_core", "kcl_dagster"])
def test_at_run_time_too_no_layer_loads_one_above_it(package: str) -> None:
    """Layer by layer from the bottom, in one interpreter; import-linter does not see what is imported by name."""
    (layers,) = (c["layers"] for c in CONTRACTS if c.get("containers") == [package])
    groups = [[name.strip() for name in layer.split("|")] for layer in reversed(layers)]
    script = (
        "import importlib, pkgutil, sys\n"
        f"groups = {groups!r}\n"
        "for height, names in enumerate(groups):\n"
        "    for name in names:\n"
        f"        module = importlib.import_module(f'{package}.{{name}}')\n"
        "        for found in pkgutil.walk_packages(getattr(module, '__path__', []), module.__name__ + '.'):\n"
        "            if not found.name.endswith('__main__'):\n"
        "                importlib.import_module(found.name)\n"
        "    for above in sum(groups[height + 1:], []):\n"
        f"        if f'{package}.{{above}}' in sys.modules:\n"
        "            sys.exit(f'{names} loads {above}')\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_what_the_documents_link_to_exists(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", document.read_text())
    missing = [link for link in links if "://" not in link and not (document.parent / link).exists()]
    assert not missing


def test_both_packages_are_typed() -> None:
    assert (ROOT / "kcl_core" / "py.typed").is_file()
    assert (ROOT / "kcl_dagster" / "py.typed").is_file()
