"""The literals that go into hashes, draws and seeds, read from source by what is called, not by its name.

A literal decides what is drawn; where it is written and what the function around it is called decide nothing.
So only literals are told, as often as they are hashed. A function that hands one of its parameters on to a
hash is one that hashes, too: what its callers write there counts as well.
"""

import ast
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

OUTSIDE = ("hashlib.", "numpy.random.", "random.", "torch.manual_seed", "torch.Generator", "zlib.crc32")
"""What hashes and draws beside sonde's own functions."""

_PACKAGE = ".__init__"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Module:
    """A module with what its names mean."""

    name: str
    tree: ast.Module
    names: dict[str, str] = field(default_factory=dict[str, str])


@dataclass
class Defined:
    """A function with its parameters, `self` left out."""

    name: str
    node: Function
    module: Module
    inside: str = ""

    @property
    def parameters(self) -> list[str]:
        """Those that are given by place, then those given by name and the rest."""
        listed = self.node.args
        given = [one.arg for one in (*listed.posonlyargs, *listed.args)]
        bound = self.inside and not any(
            ast.unparse(one) == "staticmethod" for one in self.node.decorator_list
        )
        rest = [one.arg for one in (listed.vararg,) if one] + [one.arg for one in listed.kwonlyargs]
        return [*(given[1:] if bound else given), *rest]


Called = tuple[Module, ast.Call, str, Defined | None]
"""A call with its module, what it calls, and the function that it stands in."""


class Sources:
    """The modules of a package, by dotted name (a package as its ``__init__``), and what is found in them."""

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self._packages = {name.removesuffix(_PACKAGE) for name in trees if name.endswith(_PACKAGE)}
        named = {name.removesuffix(_PACKAGE): tree for name, tree in trees.items()}
        self.modules = {name: Module(name, tree) for name, tree in named.items()}
        self._constants: dict[str, ast.expr] = {}
        self._functions: dict[str, Defined] = {}
        self._written: list[tuple[Module, ast.Call, str, str]] = []
        for module in self.modules.values():
            self._read(module)
        self._methods: dict[str, list[Defined]] = {}
        for one in self._functions.values():
            if one.inside:
                self._methods.setdefault(one.node.name, []).append(one)
        self._calls: list[Called] = []
        for module, call, inside, around in self._written:
            given = {one.arg for one in call.keywords if one.arg}
            if meaning := self.meaning(module, call.func, inside, given):
                self._calls.append((module, call, meaning, self._functions.get(around)))

    def _read(self, module: Module) -> None:
        self._walk(module, module.tree, "", "")
        for node in module.tree.body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if isinstance(target, ast.Name) and isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
                module.names[target.id] = f"{module.name}.{target.id}"
                self._constants[f"{module.name}.{target.id}"] = node.value
            elif isinstance(node, Function):
                self._define(module, node, "")
            elif isinstance(node, ast.ClassDef):
                module.names[node.name] = f"{module.name}.{node.name}"
                for method in node.body:
                    if isinstance(method, Function):
                        self._define(module, method, node.name)

    def _define(self, module: Module, node: Function, inside: str) -> None:
        name = ".".join(filter(None, (module.name, inside, node.name)))
        if not inside:
            module.names[node.name] = name
        self._functions[name] = Defined(name, node, module, inside)

    def _from(self, module: Module, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = module.name.split(".")
        kept = parts[: len(parts) - node.level + (module.name in self._packages)]
        return ".".join([*kept, *([node.module] if node.module else [])])

    def meaning(
        self, module: Module, expression: ast.expr, inside: str = "", given: Iterable[str] = ()
    ) -> str:
        """The full name of what is called; empty where only running it would tell.

        A method of an object is known by its name, where one class alone has it, or so with these keywords.
        """
        alone = self._method(expression.attr, given) if isinstance(expression, ast.Attribute) else ""
        parts: list[str] = []
        while isinstance(expression, ast.Attribute):
            parts.insert(0, expression.attr)
            expression = expression.value
        if not isinstance(expression, ast.Name):
            return alone
        if expression.id in ("self", "cls") and inside:
            name = ".".join([module.name, inside, *parts])
        elif expression.id in module.names:
            name = ".".join([module.names[expression.id], *parts])
        else:
            return alone
        return self._followed(name)

    def _method(self, name: str, given: Iterable[str]) -> str:
        """The one method that a call of an object can mean; empty where there are several or none."""
        able = [one.name for one in self._methods.get(name, ()) if {*given} <= {*one.parameters}]
        return able[0] if len(able) == 1 else ""

    def _followed(self, name: str) -> str:
        """A name through the modules that hand it on, and a class as what makes it."""
        for _ in range(10):
            home, _, last = name.rpartition(".")
            if home not in self.modules or (onward := self.modules[home].names.get(last, name)) == name:
                break
            name = onward
        return f"{name}.__init__" if f"{name}.__init__" in self._functions else name

    def _walk(self, module: Module, node: ast.AST, around: str, inside: str) -> None:
        """Note what is imported, and every call that has arguments with the function that it stands in."""
        for child in children(node):
            within, of = around, inside
            match child:
                case ast.Import():
                    for one in child.names:
                        target = one.name if one.asname else one.name.partition(".")[0]
                        module.names[one.asname or target] = target
                case ast.ImportFrom():
                    for one in child.names:
                        module.names[one.asname or one.name] = f"{self._from(module, child)}.{one.name}"
                case ast.ClassDef():
                    of = child.name
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    within = around or ".".join(filter(None, (module.name, inside, child.name)))
                case ast.Call() if child.args or child.keywords:
                    self._written.append((module, child, inside, around))
                case _:
                    pass
            self._walk(module, child, within, of)

    def literals(self, module: Module, value: ast.expr, deep: int = 3) -> Iterator[object]:
        """The literals in an argument, and those that its constants stand for; not those of calls in it."""
        match value:
            case ast.Constant():
                yield repr(value.value) if isinstance(value.value, bytes) else value.value
            case ast.Name() | ast.Attribute():
                name = self.meaning(module, value)
                if deep and name in self._constants:
                    home = self.modules[name.rpartition(".")[0]]
                    yield from self.literals(home, self._constants[name], deep - 1)
            case ast.FormattedValue():
                yield from self.literals(module, value.value, deep)
            case (
                ast.Tuple() | ast.List() | ast.Set() | ast.Dict() | ast.Starred() | ast.BinOp() | ast.BoolOp()
                | ast.IfExp() | ast.JoinedStr() | ast.UnaryOp()
            ):  # fmt: skip
                for child in ast.iter_child_nodes(value):
                    if isinstance(child, ast.expr):
                        yield from self.literals(module, child, deep)
            case _:
                pass

    def hashing(self, begin: Set[str]) -> dict[str, set[str] | None]:
        """What hashes: by full name the parameters that are hashed; None for all of them."""
        found: dict[str, set[str] | None] = dict.fromkeys(begin)
        grown = True
        while grown:
            grown = False
            for _, call, meaning, around in self._calls:
                if around is None or around.name in begin or not self._hashes(meaning, found):
                    continue
                own, known = set(around.parameters), found.get(around.name) or set[str]()
                names = {one.id for given in self._given(call, meaning, found) for one in _names(given)}
                if added := (names & own) - known:
                    found[around.name] = known | added
                    grown = True
        return found

    def _hashes(self, meaning: str, found: Mapping[str, set[str] | None]) -> bool:
        return bool(meaning) and (meaning in found or meaning.startswith(OUTSIDE))

    def _given(
        self, call: ast.Call, meaning: str, found: Mapping[str, set[str] | None]
    ) -> Iterator[ast.expr]:
        """The arguments of a call that are hashed."""
        wanted = found.get(meaning)
        if wanted is None:
            yield from (*call.args, *(one.value for one in call.keywords))
            return
        defined = self._functions[meaning]
        variable = defined.node.args.vararg
        for place, one in enumerate(call.args):
            name = defined.parameters[place] if place < len(defined.parameters) else ""
            if variable and variable.arg in defined.parameters:
                name = variable.arg if place >= defined.parameters.index(variable.arg) else name
            if name in wanted:
                yield one
        yield from (one.value for one in call.keywords if one.arg in wanted)

    def hashed(self, begin: Set[str]) -> dict[str, int]:
        """How often each row of literals is hashed, by the row as JSON; calls without literals are left out.

        Args:
            begin: Full names of the functions that hash by themselves.
        """
        found = self.hashing(begin)
        rows: Counter[str] = Counter()
        for module, call, meaning, _ in self._calls:
            if not self._hashes(meaning, found):
                continue
            row = [one for given in self._given(call, meaning, found) for one in self.literals(module, given)]
            outside = "" if meaning in found else f"{meaning} "
            if row:
                rows[f"{outside}{json.dumps(row)}"] += 1
        return dict(rows)


def children(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one, but for those that say whether a name is read or written: half of all."""
    for name in node._fields:
        if name != "ctx":
            value = getattr(node, name)
            if isinstance(value, ast.AST):
                yield value
            elif isinstance(value, list):
                yield from (one for one in value if isinstance(one, ast.AST))


def descend(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting.extend(children(one))


def _names(value: ast.expr) -> Iterator[ast.Name]:
    """The names in an argument that are hashed themselves, not what is asked of them."""
    if isinstance(value, ast.Name):
        yield value
    elif isinstance(
        value, ast.Tuple | ast.List | ast.Starred | ast.IfExp | ast.JoinedStr | ast.FormattedValue
    ):
        for child in ast.iter_child_nodes(value):
            if isinstance(child, ast.expr):
                yield from _names(child)
