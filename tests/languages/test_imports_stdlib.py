"""Names of whole packages against Python's own symbol tables and syntax trees."""

import ast
import importlib.util
import symtable
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from sonde.languages import get_facet
from sonde.languages.engine.imports import ImportReader

LIBRARY = Path(ast.__file__).parent
PACKAGES = ("json", "http", "email", "unittest", "concurrent")


class Walk(ast.NodeVisitor):
    """Calls of one file, resolved by the compiler's symbol tables."""

    def __init__(self, text: str, package: str) -> None:
        self.package = package
        self.tree = ast.parse(text)
        self.table = self.top = symtable.symtable(text, "file", "exec")
        self.waiting: dict[tuple[int, str, int], list[symtable.SymbolTable]] = defaultdict(list)
        self.parent: dict[int, symtable.SymbolTable] = {}
        self.keep: list[symtable.SymbolTable] = []
        self._index(self.top)
        self.imports: dict[tuple[int, str], tuple[str, str]] = {}
        self.uses: list[tuple[symtable.SymbolTable, str, list[str]]] = []
        self.visit(self.tree)

    def _index(self, table: symtable.SymbolTable) -> None:
        self.keep.append(table)
        for child in table.get_children():
            self.waiting[table.get_id(), child.get_name(), child.get_lineno()].append(child)
            self.parent[child.get_id()] = table
            self._index(child)

    def calls(self) -> Iterator[tuple[str, str]]:
        """Qualified name and alias of every call through an import."""
        for table, root, rest in self.uses:
            home = self._home(table, root)
            if (home.get_id(), root) in self.imports:
                name, alias = self.imports[home.get_id(), root]
                yield ".".join([name, *rest]), alias

    def _home(self, table: symtable.SymbolTable, name: str) -> symtable.SymbolTable:
        symbol = table.lookup(name)
        if symbol.is_global() or table is self.top:
            return self.top
        while not symbol.is_local():
            table = self.parent[table.get_id()]
            while table.get_type() != "function" or name not in table.get_identifiers():
                table = self.parent[table.get_id()]
            symbol = table.lookup(name)
        return table

    def _inside(self, node: ast.AST, name: str, outer: list[ast.AST], inner: list[ast.AST]) -> None:
        for part in outer:
            self.visit(part)
        before = self.table
        self.table = self.waiting[before.get_id(), name, node.lineno].pop(0)  # type: ignore[attr-defined]
        for part in inner:
            self.visit(part)
        self.table = before

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        given = node.args
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        outer = [*node.decorator_list, *given.defaults, *(one for one in given.kw_defaults if one)]
        outer += [one.annotation for one in every if one and one.annotation]
        outer += [node.returns] if node.returns else []
        self._inside(node, node.name, outer, list(node.body))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        outer = [*node.args.defaults, *(one for one in node.args.kw_defaults if one)]
        self._inside(node, "lambda", outer, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside(node, node.name, [*node.decorator_list, *node.bases, *node.keywords], list(node.body))

    def _comprehension(self, node: ast.AST, name: str, results: list[ast.AST]) -> None:
        first, *others = node.generators  # type: ignore[attr-defined]
        inner = [first.target, *first.ifs, *others, *results]
        self._inside(node, name, [first.iter], inner)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._comprehension(node, "listcomp", [node.elt])

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._comprehension(node, "setcomp", [node.elt])

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._comprehension(node, "genexpr", [node.elt])

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehension(node, "dictcomp", [node.key, node.value])

    def visit_Import(self, node: ast.Import) -> None:
        for one in node.names:
            bound = one.asname or one.name.split(".")[0]
            self._bind(bound, one.name if one.asname else bound, one.asname or "")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module == "__future__":
            return
        module = importlib.util.resolve_name("." * node.level + (node.module or ""), self.package)
        for one in node.names:
            if one.name != "*":
                self._bind(one.asname or one.name, f"{module}.{one.name}", one.asname or "")

    def _bind(self, bound: str, name: str, alias: str) -> None:
        self.imports.setdefault((self._home(self.table, bound).get_id(), bound), (name, alias))

    def visit_Call(self, node: ast.Call) -> None:
        rest: list[str] = []
        at: ast.expr = node.func
        while isinstance(at, ast.Attribute):
            rest.insert(0, at.attr)
            at = at.value
        if isinstance(at, ast.Name):
            self.uses.append((self.table, at.id, rest))
        self.generic_visit(node)


def expected(package: str) -> tuple[Counter[str], dict[str, set[str]]]:
    calls: Counter[str] = Counter()
    aliases: dict[str, set[str]] = defaultdict(set)
    for file in sorted((LIBRARY / package).rglob("*.py")):
        parts = file.relative_to(LIBRARY).with_suffix("").parts
        for name, alias in Walk(file.read_text(encoding="utf-8"), ".".join(parts[:-1])).calls():
            calls[name] += 1
            if alias:
                aliases[name].add(alias)
    return calls, dict(aliases)


@pytest.mark.parametrize("package", PACKAGES)
def test_names_calls_and_aliases_equal_the_compilers(package: str) -> None:
    facet = get_facet("python", "imports", ImportReader)
    calls: Counter[str] = Counter()
    aliases: dict[str, set[str]] = defaultdict(set)
    for file in sorted((LIBRARY / package).rglob("*.py")):
        path = file.relative_to(LIBRARY).as_posix()
        for call in facet.read(file.read_text(encoding="utf-8"), path).calls:
            calls[call.name] += 1
            if call.imported.alias:
                aliases[call.name].add(call.imported.alias)
    names, aliased = expected(package)
    assert len(names) > 5
    assert calls == names
    assert dict(aliases) == aliased


def test_flat_tables_would_add_calls_in_unittest() -> None:
    facet = get_facet("python", "imports", ImportReader)
    file = LIBRARY / "unittest" / "suite.py"
    text = file.read_text(encoding="utf-8")
    # The parameter `result` of a method is not the module `unittest.result`.
    assert "result.startTest" in text or "result." in text
    assert not [
        c for c in facet.read(text, "unittest/suite.py").calls if c.name.startswith("unittest.result")
    ]
