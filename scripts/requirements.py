"""Count the rows of docs/requirements.md that something shows; with areas or rows as arguments, list them."""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROW = re.compile(r"^\| ([A-Z]+-\d+) \| (.*) \| (.*) \|$")
ROW_ID = re.compile(r"\b[A-Z]{2,}-\d+\b")
RUST_MARK = re.compile(r"^\s*// covers: (.*)$")
DOCUMENT_MARK = re.compile(r"<!-- shows: (.*?) -->")
RESULT_MARK = re.compile(r"^Shows: (.*)$", re.MULTILINE)
SKIPPED = {"target", ".venv", "node_modules"}


@dataclass
class Ledger:
    """Rows, what shows each, and what is wrong with the evidence."""

    rows: dict[str, str]
    """Row id → what is seen when it works."""
    evidence: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    faults: list[str] = field(default_factory=list)

    def add(self, ids: list[str], place: str) -> None:
        """Record evidence; an id without a row is a fault."""
        for row in ids:
            if row in self.rows:
                self.evidence[row].append(place)
            else:
                self.faults.append(f"{place}: {row} is not a row of docs/requirements.md")


def _files(root: Path, *suffixes: str) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if path.suffix in suffixes and not SKIPPED & set(path.relative_to(ROOT).parts):
            yield path


def _place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def _scan_python(ledger: Ledger) -> None:
    for path in _files(ROOT / "tests", ".py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr != "covers":
                continue
            ids = [
                arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
            ]
            place = _place(path, node.lineno)
            if len(ids) != len(node.args):
                ledger.faults.append(f"{place}: covers() takes row ids as string literals")
            ledger.add(ids, place)


def _scan_rust(ledger: Ledger) -> None:
    for top in ("frontend-rs", "bindings"):
        for path in _files(ROOT / top, ".rs"):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                mark = RUST_MARK.match(line)
                if not mark:
                    continue
                place = _place(path, number)
                ids = ROW_ID.findall(mark.group(1))
                if not ids:
                    ledger.faults.append(f"{place}: a covers comment names rows")
                ledger.add(ids, place)


def _scan_documents(ledger: Ledger) -> None:
    documents = [*ROOT.glob("*.md"), *_files(ROOT / "docs", ".md")]
    for path in documents:
        if path.name == "requirements.md":
            continue
        for mark in DOCUMENT_MARK.finditer(path.read_text(encoding="utf-8")):
            ledger.add(ROW_ID.findall(mark.group(1)), str(path.relative_to(ROOT)))


def _scan_results(ledger: Ledger) -> None:
    for path in _files(ROOT / "benchmarks" / "results", ".md"):
        text = path.read_text(encoding="utf-8")
        marks = RESULT_MARK.findall(text)
        place = str(path.relative_to(ROOT))
        if marks and not (re.search(r"^CPU: \S", text, re.M) and re.search(r"^Commit: \S", text, re.M)):
            ledger.faults.append(
                f"{place}: a result that shows rows has the lines `CPU: ...` and `Commit: ...`"
            )
        for mark in marks:
            ledger.add(ROW_ID.findall(mark), place)


def read_ledger() -> Ledger:
    """Read the rows and everything that shows them."""
    rows = {}
    for line in (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8").splitlines():
        if match := ROW.match(line):
            rows[match.group(1)] = match.group(3)
    ledger = Ledger(rows)
    _scan_python(ledger)
    _scan_rust(ledger)
    _scan_documents(ledger)
    _scan_results(ledger)
    return ledger


def _print_summary(ledger: Ledger) -> None:
    areas: dict[str, list[str]] = defaultdict(list)
    for row in ledger.rows:
        areas[row.split("-")[0]].append(row)
    print(f"{'area':8} shown  open")
    for area, rows in areas.items():
        shown = sum(row in ledger.evidence for row in rows)
        print(f"{area:8} {shown:5} {len(rows) - shown:5}")
    print(f"{'all':8} {len(ledger.evidence):5} {len(ledger.rows) - len(ledger.evidence):5}")


def _print_rows(ledger: Ledger, names: list[str]) -> int:
    wanted = [row for row in ledger.rows if row in names or row.split("-")[0] in names]
    for row in wanted:
        shown = ledger.evidence.get(row, [])
        print(f"{row:10} {'shown' if shown else 'open '}  {ledger.rows[row]}")
        for place in shown:
            print(f"{'':18}{place}")
    return 0 if wanted else 1


def main(names: list[str]) -> int:
    """Print the summary, or the rows named; the exit status is 1 when the evidence has faults."""
    ledger = read_ledger()
    for fault in ledger.faults:
        print(fault, file=sys.stderr)
    if names:
        return _print_rows(ledger, names) or bool(ledger.faults)
    _print_summary(ledger)
    return 1 if ledger.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
