"""What each language's own parser refuses of a function, or tree-sitter where the machine has none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from sonde.languages import get_facet
from sonde.languages.engine.edits import Edits

_AROUND = {
    "java": [
        ("class A { ", "\n}"),
        ("interface A { ", "\n}"),
        ("enum A { ; ", "\n}"),
        ("record A() { ", "\n}"),
    ],
    "go": [("package p\n", "\n")],
    "javascript": [("", ""), ("class A extends B { ", "\n}"), ("({ ", "\n})"), ("async () => { ", "\n}")],
    "php": [("<?php ", "\n"), ("<?php class A extends B { ", "\n}"), ("<?php interface A { ", "\n}")],
    "ruby": [("", "")],
}
"""What may stand around a function; it is refused where it is with each of them."""

_TOOLS = {"java": "javac", "go": "gofmt", "javascript": "node", "php": "php", "ruby": "ruby"}

_NODE = """
const vm = require("vm"), texts = JSON.parse(require("fs").readFileSync(0, "utf8"));
const refused = text => {
  try { new vm.Script(text); return false } catch (e) { return e instanceof SyntaxError }
};
console.log(JSON.stringify(texts.map(refused)));
"""
_RUBY = """
$VERBOSE = nil
texts = STDIN.read.force_encoding("UTF-8").split("\\0", -1)[0...-1]
puts texts.map { |text|
  begin
    RubyVM::InstructionSequence.compile(text); 0
  rescue SyntaxError
    1
  end
}.join(" ")
"""
_JAVA = """
import java.net.URI; import java.nio.file.*; import java.util.*; import javax.tools.*;
public class Refused {
  public static void main(String[] given) throws Exception {
    String[] texts = Files.readString(Path.of(given[0])).split("\\0", -1);
    JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    StringBuilder said = new StringBuilder();
    for (int i = 0; i < texts.length - 1; i++) {
      String text = texts[i];
      DiagnosticCollector<JavaFileObject> found = new DiagnosticCollector<>();
      URI place = URI.create("string:///A.java");
      JavaFileObject file = new SimpleJavaFileObject(place, JavaFileObject.Kind.SOURCE) {
        public CharSequence getCharContent(boolean ignore) { return text; }
      };
      JavaCompiler.CompilationTask task = compiler.getTask(null, null, found, null, null, List.of(file));
      for (Object unit : ((com.sun.source.util.JavacTask) task).parse()) { }
      boolean refused = false;
      for (Diagnostic<?> one : found.getDiagnostics()) refused |= one.getKind() == Diagnostic.Kind.ERROR;
      said.append(refused ? "1 " : "0 ");
    }
    System.out.println(said);
  }
}
"""


def has_parser(language: str) -> bool:
    """Whether the machine has the language's own parser."""
    tools = {
        "python": "python3",
        "java": "javac",
        "go": "gofmt",
        "javascript": "node",
        "php": "php",
        "ruby": "ruby",
    }
    return language == "python" or shutil.which(tools[language]) is not None


def refused(codes: Sequence[str], language: str) -> np.ndarray:
    """Return for each code whether the language's own parser refuses it, 1 for what it does."""
    if not has_parser(language):
        edits = get_facet(language, "edits", Edits)
        return np.array([not edits.parses(code) for code in codes], np.float64)
    if language == "python":
        return np.array([_python(code) for code in codes], np.float64)
    ask = _ASK[language]
    found = np.ones(len(codes), bool)
    for before, after in _AROUND[language]:
        left = np.flatnonzero(found)
        found[left] = ask([before + codes[place] + after for place in left])
    return found.astype(np.float64)


def _python(code: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(code, "", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError):
            return True
    return False


def _javascript(texts: Sequence[str]) -> list[bool]:
    said = subprocess.run(
        ["node", "-e", _NODE], input=json.dumps(list(texts)), capture_output=True, text=True, check=False
    )
    if said.returncode == os.EX_OK:
        return json.loads(said.stdout)
    # Some shuffled texts make the parser itself give up.
    half = len(texts) // 2
    return [*_javascript(texts[:half]), *_javascript(texts[half:])] if half else [True]


def _ruby(texts: Sequence[str]) -> list[bool]:
    given = "".join(f"{text}\0" for text in texts).encode()
    said = subprocess.run(["ruby", "-W0", "-e", _RUBY], input=given, capture_output=True, check=True)
    return [word == b"1" for word in said.stdout.split()]


def _java(texts: Sequence[str]) -> list[bool]:
    with tempfile.TemporaryDirectory() as folder:
        program, given = Path(folder, "Refused.java"), Path(folder, "texts")
        program.write_text(_JAVA, encoding="utf-8")
        given.write_text("".join(f"{text}\0" for text in texts), encoding="utf-8")
        said = subprocess.run(["java", str(program), str(given)], capture_output=True, text=True, check=True)
    return [word == "1" for word in said.stdout.split()]


def _go(texts: Sequence[str]) -> list[bool]:
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(texts):
            Path(folder, f"{number}.go").write_text(text, encoding="utf-8")
        said = subprocess.run(["gofmt", "-e", "-l", folder], capture_output=True, text=True, check=False)
    broken = {Path(line.partition(":")[0]).stem for line in said.stderr.splitlines()}
    return [str(number) in broken for number in range(len(texts))]


def _php(texts: Sequence[str]) -> list[bool]:
    found: list[bool] = []
    with tempfile.TemporaryDirectory() as folder:
        for text in texts:
            file = Path(folder, "a.php")
            file.write_text(text, encoding="utf-8")
            said = subprocess.run(["php", "-n", "-l", str(file)], capture_output=True, check=False)
            found.append(said.returncode != os.EX_OK)
    return found


_ASK: dict[str, Callable[[Sequence[str]], list[bool]]] = {
    "java": _java,
    "go": _go,
    "javascript": _javascript,
    "php": _php,
    "ruby": _ruby,
}
