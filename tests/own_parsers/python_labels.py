"""Labels of Python's functions by its own parser and tokenizer; nothing of `sonde` is in it.

Definitions are those that the tasks document. Where these leave Python's tree on purpose a comment says so.
"""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
import warnings
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from tests.languages.test_metrics_referees import Npath, blocks
from tests.languages.test_python_against_ast import Outer

Definition = ast.FunctionDef | ast.AsyncFunctionDef
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_TRIES = (ast.Try, getattr(ast, "TryStar", ast.Try))
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LAYOUT = {"NL", "NEWLINE", "INDENT", "DEDENT", "COMMENT", "ENDMARKER"}
_STRINGS = {"STRING", "FSTRING_START"}


def label_python(text: str) -> list[dict[str, Any]] | None:
    """Return the labels of the outermost functions of a file, None where Python refuses it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # Compiled for what its parser leaves to the compiler, such as a `break` outside of a loop.
            compile(text, "", "exec", dont_inherit=True)
            module = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            return None
    outer = _Functions()
    outer.visit(module)
    lines = _Lines(text)
    tokens = [*tokenize.generate_tokens(io.StringIO(text).readline)]
    return [_label(name, node, lines, tokens) for name, node in outer.nodes]


class _Functions(Outer):
    """The outermost functions with their nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[tuple[str, Definition]] = []

    def visit_FunctionDef(self, node: Definition) -> None:
        super().visit_FunctionDef(node)
        self.nodes.append((self.found[-1][0], node))


class _Lines:
    """From lines and bytes in them to characters of a text."""

    def __init__(self, text: str) -> None:
        self.lines = io.StringIO(text).readlines()
        self._starts = [0, *accumulate(map(len, self.lines))]

    def byte_to_character(self, line: int, byte: int) -> int:
        return self._starts[line - 1] + len(self.lines[line - 1].encode()[:byte].decode())


def _label(name: str, node: Definition, lines: _Lines, tokens: list[tokenize.TokenInfo]) -> dict[str, Any]:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    loops = [inner for inner in ast.walk(node) if isinstance(inner, _LOOPS)]
    ifs = [inner for inner in ast.walk(node) if isinstance(inner, ast.If)]
    looped = [inner for loop in loops for inner in ast.walk(loop) if inner is not loop]
    within = {id(inner) for inner in looped}
    kinds = Counter(type(inner).__name__ for inner in ast.walk(node))
    own = _own_tokens(node, first, lines, tokens)
    names = [token for token in own if token.type == tokenize.NAME]
    # Constants are literals, and not keywords, to tasks.
    reserved = [token for token in names if keyword.iskeyword(token.string)]
    literals = [token for token in reserved if token.string in ("True", "False", "None")]
    soft = kinds["Match"] + kinds["match_case"]
    signs = [*_signs(node)]
    scopes = _Scopes(node)
    labels = {
        "cpx": 1 + sum(map(_decisions, node.body)),
        "nms": len(ifs),
        "nml": len(loops),
        "csc": len(ifs) + len(loops) + kinds["Match"] + kinds["Try"] + kinds["TryStar"],
        "nested_loop": sum(id(loop) in within for loop in loops),
        "if_in_loop": sum(id(one) in within for one in ifs),
        "early_return": sum(inner is not node.body[-1] for inner in _own_returns(node.body)),
        "recursion": _recursion(node, scopes, method="." in name),
        "mxn": blocks(node),
        "len": len(own),
        "oct": len(signs),
        "ocu": len(set(signs)),
        "tan": len(names) - soft - len(reserved) - (len(reserved) - len(literals) + soft),
        "vcu": len({variable for _, variable in scopes.places}),
        "vct": sum(map(len, scopes.places.values())),
        "strings": sum(tokenize.tok_name[token.type] in _STRINGS for token in own),
        "numbers": sum(token.type == tokenize.NUMBER for token in own),
    }
    if not kinds["Match"]:
        labels["npt"] = Npath().row(node.body)
    return {
        "name": node.name,
        "line": first,
        "labels": labels,
        "names": [list(one) for one in _names(node, lines)],
    }


def _own_tokens(
    node: Definition, first: int, lines: _Lines, tokens: list[tokenize.TokenInfo]
) -> list[tokenize.TokenInfo]:
    # The sign before a decorator is in no node of the tree.
    start = (first, 0) if node.decorator_list else (node.lineno, node.col_offset)
    last = node.end_lineno or 0
    column = len(lines.lines[last - 1].encode()[: node.end_col_offset or 0].decode())
    begin = bisect_left(tokens, start, key=lambda token: token.start)
    found, opened = list[tokenize.TokenInfo](), 0
    for token in tokens[begin:]:
        # A semicolon that ends the line belongs to the function's last statement.
        if token.start >= (last, column) and token.string != ";":
            break
        kind = tokenize.tok_name[token.type]
        # Pythons from 3.12 on take f-strings apart; one is one token here.
        if kind not in _LAYOUT and not opened:
            found.append(token)
        opened += (kind == "FSTRING_START") - (kind == "FSTRING_END")
    return found


def _decisions(node: ast.AST) -> int:
    """Count branchings as radon does, those of definitions inside left out."""
    if isinstance(node, (*_DEFINITIONS, ast.ClassDef)):
        return sum(map(_decisions, node.decorator_list))
    # An assert is one decision, whatever it says.
    if isinstance(node, ast.Assert):
        return 1
    count = sum(map(_decisions, ast.iter_child_nodes(node)))
    match node:
        case ast.If() | ast.IfExp() | ast.ExceptHandler():
            count += 1
        case ast.For() | ast.AsyncFor() | ast.While():
            count += 1 + bool(node.orelse)
        case ast.comprehension():
            count += 1 + len(node.ifs)
        case ast.BoolOp():
            count += len(node.values) - 1
        case ast.Match():
            # One that takes everything is no decision.
            count += len(node.cases) - any(
                isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None for case in node.cases
            )
        case _ if isinstance(node, _TRIES):
            count += bool(node.orelse)
        case _:
            pass
    return count


def _own_returns(nodes: list[Any]) -> Iterator[ast.Return]:
    for node in nodes:
        if isinstance(node, ast.Return):
            yield node
        elif not isinstance(node, (*_DEFINITIONS, ast.ClassDef, ast.expr)):
            yield from _own_returns([*ast.iter_child_nodes(node)])


def _signs(node: ast.AST) -> Iterator[str]:
    """Yield the operators outside of strings, which are one token each."""
    match node:
        case ast.JoinedStr():
            return
        case ast.Assign():
            yield from ["="] * len(node.targets)
        case ast.AnnAssign() if node.value is not None:
            yield "="
        case ast.AugAssign():
            yield f"{type(node.op).__name__}="
        case ast.NamedExpr():
            yield ":="
        case ast.BinOp():
            # A minus is one sign, whether it stands before one operand or between two.
            yield type(node.op).__name__
        case ast.UnaryOp():
            yield type(node.op).__name__.removeprefix("U")
        case ast.BoolOp():
            yield from [type(node.op).__name__] * (len(node.values) - 1)
        case ast.Compare():
            yield from (type(one).__name__ for one in node.ops)
        case ast.IfExp():
            yield "if else"
        case ast.MatchOr():
            yield from ["BitOr"] * (len(node.patterns) - 1)
        case _:
            pass
    for child in ast.iter_child_nodes(node):
        yield from _signs(child)


@dataclass(eq=False)
class _Scope:
    kind: str
    around: _Scope | None
    variables: set[str] = field(default_factory=set[str])
    defined: set[str] = field(default_factory=set[str])
    elsewhere: dict[str, str] = field(default_factory=dict[str, str])

    def seen(self, name: str) -> Iterator[_Scope]:
        """Yield the scopes that a name is looked up in, as Python's reference tells."""
        here: _Scope | None = self
        if self.elsewhere.get(name) == "global":
            while here is not None and here.around is not None:
                here = here.around
        elif name in self.elsewhere:
            here = self.around
        first = here
        while here is not None:
            if here.kind != "class" or here is first is self:
                yield here
            here = here.around


class _Scopes(ast.NodeVisitor):
    """Where the variables of a function stand, by the scopes of comprehensions and functions."""

    def __init__(self, function: Definition) -> None:
        self.scope = _Scope("module", None)
        self.mentions: list[tuple[_Scope, str]] = []
        self.calls: list[tuple[_Scope, ast.Call]] = []
        self.visit(function)
        self.places: dict[tuple[int, str], list[_Scope]] = {}
        for scope, name in self.mentions:
            found = next(
                (one for one in scope.seen(name) if name in one.variables or name in one.defined), None
            )
            if found is not None and name in found.variables and found.kind != "module":
                self.places.setdefault((id(found), name), []).append(scope)
        # A name is one variable in however many scopes.
        self.places = {
            (0, name): [
                scope for (_, other), found in self.places.items() if other == name for scope in found
            ]
            for _, name in self.places
        }

    def bind(self, name: str, scope: _Scope) -> None:
        if name not in scope.elsewhere:
            scope.variables.add(name)

    def mention(self, name: str) -> None:
        self.mentions.append((self.scope, name))

    def inside(self, kind: str, nodes: list[Any]) -> None:
        around, self.scope = self.scope, _Scope(kind, self.scope)
        for node in nodes:
            self.visit(node)
        self.scope = around

    def visit_FunctionDef(self, node: Any) -> None:
        self.scope.defined.add(node.name)
        arguments = node.args
        listed = [
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        ]
        named = [one for one in listed if one is not None]
        outside = [*node.decorator_list, node.returns, *(one.annotation for one in named)]
        for one in [*outside, *arguments.defaults, *arguments.kw_defaults]:
            if one is not None:
                self.visit(one)
        self.inside("function", [*(ast.arg(one.arg) for one in named), *_declared(node.body), *node.body])

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        arguments = node.args
        for one in [*arguments.defaults, *arguments.kw_defaults]:
            if one is not None:
                self.visit(one)
        listed = [
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        ]
        self.inside("function", [*(ast.arg(one.arg) for one in listed if one is not None), node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.scope.defined.add(node.name)
        for one in [*node.decorator_list, *node.bases, *node.keywords]:
            self.visit(one)
        self.inside("class", [*_declared(node.body), *node.body])

    def visit(self, node: ast.AST) -> None:
        """Visit a node; the four kinds of comprehensions alike."""
        if isinstance(node, _COMPREHENSIONS):
            self._visit_comprehension(node)
        else:
            super().visit(node)

    def _visit_comprehension(self, node: Any) -> None:
        first, *others = node.generators
        self.visit(first.iter)
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        rest = [part for one in others for part in (one.target, one.iter, *one.ifs)]
        self.inside("comprehension", [first.target, *first.ifs, *rest, *results])

    def visit_arg(self, node: ast.arg) -> None:
        self.bind(node.arg, self.scope)
        self.mention(node.arg)

    def visit_Declared(self, node: Any) -> None:
        self.scope.elsewhere |= node.names

    def visit_Nonlocal(self, node: ast.Nonlocal | ast.Global) -> None:
        for name in node.names:
            self.mention(name)

    def visit_Global(self, node: ast.Global) -> None:
        self.visit_Nonlocal(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        scope = self.scope
        while scope.kind == "comprehension" and scope.around is not None:
            scope = scope.around
        self.bind(node.target.id, scope)
        self.mention(node.target.id)
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        # It gives a new value to what is a variable already.
        if isinstance(node.target, ast.Name):
            self.mention(node.target.id)
        else:
            self.visit(node.target)
        self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.bind(node.id, self.scope)
        self.mention(node.id)

    def visit_Call(self, node: ast.Call) -> None:
        self.calls.append((self.scope, node))
        self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> None:
        # Imports bind no variable and hide none, as VCU has it.
        return

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._captured(node, node.name)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self._captured(node, node.name)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self._captured(node, node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self._captured(node, node.rest)

    def _captured(self, node: ast.AST, name: str | None) -> None:
        if name is not None:
            self.bind(name, self.scope)
            self.mention(name)
        self.generic_visit(node)


class Declared(ast.AST):
    """The names that a scope takes from outside, which hold in all of it."""

    names: dict[str, str]


def _declared(body: list[ast.stmt]) -> list[ast.AST]:
    node = Declared()
    node.names = {}
    waiting: list[ast.AST] = [*body]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, ast.Global | ast.Nonlocal):
            node.names |= dict.fromkeys(inner.names, type(inner).__name__.lower())
        if not isinstance(inner, (*_DEFINITIONS, ast.ClassDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(inner)
    return [node]


def _recursion(node: Definition, scopes: _Scopes, *, method: bool) -> int:
    count = 0
    first = [*node.args.posonlyargs, *node.args.args][:1]
    kinds = {one.id for one in node.decorator_list if isinstance(one, ast.Name)}
    # A function that stands alone is a method by its decorator or its first parameter.
    method = method or bool(kinds & {"staticmethod", "classmethod", "property"})
    method = method or any(one.arg in ("self", "cls", "mcs") for one in first)
    for scope, call in scopes.calls:
        called = call.func
        if isinstance(called, ast.Name) and called.id == node.name and not method:
            # Hidden where a scope inside the function binds the name.
            inside = [one for one in scope.seen(called.id) if one.around is not None]
            count += not any(called.id in one.variables | one.defined for one in inside)
        elif isinstance(called, ast.Attribute) and called.attr == node.name:
            own = isinstance(called.value, ast.Name) and called.value.id in ("self", "cls")
            count += own and not _has_namesake(node, call)
    return count


def _has_namesake(node: Definition, call: ast.Call) -> bool:
    """Return whether a call stands in a class inside that has a method of the function's name itself."""
    return any(
        isinstance(one, _DEFINITIONS) and one.name == node.name
        for inner in ast.walk(node)
        if isinstance(inner, ast.ClassDef) and any(part is call for part in ast.walk(inner))
        for one in inner.body
    )


def _names(node: ast.AST, lines: _Lines) -> Iterator[tuple[int, str]]:
    """Yield where names are defined that the tree itself tells the kind of, and which."""
    # What stands in a string is a part of it.
    strings = [inner for inner in ast.walk(node) if isinstance(inner, ast.JoinedStr)]
    within = {id(inner) for string in strings for inner in ast.walk(string)}
    for inner in ast.walk(node):
        if id(inner) in within:
            continue
        if isinstance(inner, ast.arg) or (isinstance(inner, ast.keyword) and inner.arg is not None):
            yield lines.byte_to_character(inner.lineno, inner.col_offset), "IDV"
        elif isinstance(inner, (*_DEFINITIONS, ast.ClassDef)):
            head = lines.lines[inner.lineno - 1]
            at = head.find(inner.name, len(head.encode()[: inner.col_offset].decode()) + len("def "))
            if at >= 0:
                kind = "IDC" if isinstance(inner, ast.ClassDef) else "IDM"
                yield lines.byte_to_character(inner.lineno, 0) + at, kind
