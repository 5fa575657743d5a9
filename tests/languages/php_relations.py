"""PHP's relations by hand: functions, and every edge in them but those of nodes to their children.

An edge is a head and the words of its dependent, which ends before the brackets that close it.
"""

CASES = [
    ("function f() {}", []),
    ("function f() { g(1, $x); }", ["Call:func->args g: 1 , $x"]),
    ("function f() { return g(h(1)); }", ["Call:func->args g: h ( 1", "Call:func->args h: 1"]),
    ("function f() { g(...$xs); }", ["Call:func->args g: ... $xs"]),
    ("function f() { \\a\\g(1); }", ["Call:func->args g: 1"]),
    ("function f() { $g(1); }", ["Call:func->args $g: 1"]),
    (
        "public function f() { $this->a->g(1); }",
        ["Attribute:value->attr $this: a", "Attribute:value->attr $this: g", "Call:func->args g: 1"],
    ),
    ("static fn() => $a?->b?->c();", ["Attribute:value->attr $a: b", "Attribute:value->attr $a: c"]),
    (
        "protected static function f() { A::g(self::$b, static::C); }",
        [
            *(
                "Attribute:value->attr A: g",
                "Attribute:value->attr self: $b",
                "Attribute:value->attr static: C",
            ),
            "Call:func->args g: self :: $b , static :: C",
        ],
    ),
    (
        "function f() { g(1, x: $y, z: 2); }",
        [
            "Call:func->args g: 1",
            "Call:func->keywords g: x : $y , z : 2",
            "Call:args->keywords 1: x : $y , z : 2",
        ],
    ),
    ("function f() { new A(1); }", []),
    ("function f() { $x = 1; }", ["Assign:target->value $x: 1"]),
    ("function f() { $x = &$y; }", ["Assign:target->value $x: $y"]),
    ("function f() { $x = $y = 1; }", ["Assign:target->value $x: $y = 1", "Assign:target->value $y: 1"]),
    ("function f() { [$a, 'k' => $b] = $c; }", ["Assign:target->value $a: $c"]),
    (
        "function f() { $x .= 2; $y ??= g(); }",
        ["AugAssign:target->value $x: 2", "AugAssign:target->value $y: g ("],
    ),
    ("function f() { $x++; static $y = 2; echo $x, $y; }", []),
    (
        "function f() { return $a + $b * $c; }",
        ["InfixExpr:left->right $a: $b * $c", "InfixExpr:left->right $b: $c"],
    ),
    (
        "function f() { return $a . 'x' . $b; }",
        ["InfixExpr:left->right $a: 'x'", "InfixExpr:left->right $a: $b"],
    ),
    (
        "function f() { return !$a && ($b ?? 1); }",
        ["InfixExpr:left->right !: $b ?? 1", "InfixExpr:left->right $b: 1"],
    ),
    ("function f() { return $a instanceof \\B; }", ["InstanceofExpr:expr->type $a: \\ B"]),
    ("function f() { return $m[$k]; }", ["Subscript:value->slice $m: $k"]),
    ("function f() { $m[] = 1; }", ["Assign:target->value $m: 1"]),
    (
        "function f() { return ['a' => 1, $b, ...$c, 'd' => [2 => 3]]; }",
        ["Dict:key->value 'a': 1", "Dict:key->value 'd': 2 => 3", "Dict:key->value 2: 3"],
    ),
    (
        "function f() { return $a ? $b : $c; }",
        ["IfExp:test->body $a: $b", "IfExp:test->orelse $a: $c", "IfExp:body->orelse $b: $c"],
    ),
    ("function f() { return $a ?: $c; }", ["IfExp:test->orelse $a: $c"]),
    (
        'function f() { return "a $b {$c->d}" . <<<X\n  $e[0]\n  X; }',
        ['InfixExpr:left->right "a $b {$c->d}": <<<X\n  $e[0]\n  X'],
    ),
    (
        "function f() { if ($x) { g(1); } }",
        [
            "If:if->test if: $x",
            "If:if->body if: g ( 1 ) ;",
            "If:test->body $x: g ( 1 ) ;",
            "Call:func->args g: 1",
        ],
    ),
    (
        "function f() { if ($x) $y++; else $z--; }",
        [
            *(
                "If:if->test if: $x",
                "If:if->body if: $y ++ ;",
                "If:test->body $x: $y ++ ;",
                "If:if->else if: else",
            ),
            *("If:body->orelse $y: $z -- ;", "If:test->orelse $x: $z -- ;"),
        ],
    ),
    (
        "function f() { if ($x) { g(); } elseif ($y) { h(); } else { k(); } }",
        [
            *("If:if->test if: $x", "If:if->body if: g ( ) ;", "If:test->body $x: g ( ) ;"),
            *("If:if->else if: elseif", "If:body->orelse g: elseif ( $y ) { h ( ) ; } else { k ( ) ;"),
            *("If:test->orelse $x: elseif ( $y ) { h ( ) ; } else { k ( ) ;", "If:if->test elseif: $y"),
            *("If:if->body elseif: h ( ) ;", "If:test->body $y: h ( ) ;", "If:if->else elseif: else"),
            *("If:body->orelse h: k ( ) ;", "If:test->orelse $y: k ( ) ;"),
        ],
    ),
    (
        "function f() { if ($x): g(); h(); else: k(); endif; }",
        [
            *("If:if->test if: $x", "If:if->body if: g ( ) ; h ( ) ;", "If:test->body $x: g ( ) ; h ( ) ;"),
            *("If:if->else if: else", "If:body->orelse g: k ( ) ;", "If:test->orelse $x: k ( ) ;"),
        ],
    ),
    (
        "function f() { if ($x) return; else if ($y) return 1; }",
        [
            *(
                "If:if->test if: $x",
                "If:if->body if: return ;",
                "If:test->body $x: return ;",
                "If:if->else if: else",
            ),
            *("If:body->orelse return: if ( $y ) return 1 ;", "If:test->orelse $x: if ( $y ) return 1 ;"),
            *("If:if->test if: $y", "If:if->body if: return 1 ;", "If:test->body $y: return 1 ;"),
        ],
    ),
    (
        "function f() { for ($i = 0; $i < $n; $i++) { g(); } }",
        [
            *(
                "For:for->initializers for: $i = 0",
                "For:for->test for: $i < $n",
                "For:for->updaters for: $i ++",
            ),
            *("For:for->body for: g ( ) ;", "For:initializers->test $i: $i < $n"),
            *("For:initializers->updaters $i: $i ++", "For:initializers->body $i: g ( ) ;"),
            *("For:test->updaters $i: $i ++", "For:test->body $i: g ( ) ;", "For:updaters->body $i: g ( ) ;"),
            *("Assign:target->value $i: 0", "InfixExpr:left->right $i: $n"),
        ],
    ),
    ("function f() { for (;;) break; }", ["For:for->body for: break ;"]),
    (
        "function f() { foreach ($xs as $k => $v) { g(); } }",
        [
            *(
                "For:for->iter foreach: $xs",
                "For:for->target foreach: $k => $v",
                "For:for->body foreach: g ( ) ;",
            ),
            *(
                "For:iter->target $xs: $k => $v",
                "For:iter->body $xs: g ( ) ;",
                "For:target->body $k: g ( ) ;",
            ),
        ],
    ),
    (
        "function f() { foreach (g() as [$a, $b]): h(); endforeach; }",
        [
            *(
                "For:for->iter foreach: g (",
                "For:for->target foreach: $a , $b",
                "For:for->body foreach: h ( ) ;",
            ),
            *("For:iter->target g: $a , $b", "For:iter->body g: h ( ) ;", "For:target->body $a: h ( ) ;"),
        ],
    ),
    (
        "function f() { while ($x): g(); h(); endwhile; }",
        [
            *("While:while->test while: $x", "While:while->body while: g ( ) ; h ( ) ;"),
            "While:test->body $x: g ( ) ; h ( ) ;",
        ],
    ),
    (
        "function f() { do { g(); } while ($x); }",
        ["Do:do->body do: g ( ) ;", "Do:do->test do: $x", "Do:body->test g: $x"],
    ),
    (
        "function f() { switch ($x) { case 1: g(); default: h(); } }",
        [
            *(
                "Switch:switch->expr switch: $x",
                "Switch:switch->statement switch: case 1 : g ( ) ; default : h ( ) ;",
            ),
            "Switch:expr->statement $x: case 1 : g ( ) ; default : h ( ) ;",
        ],
    ),
    (
        "function f() { return match (true) { $a, $b => 1, default => throw $e }; }",
        [
            *(
                "Switch:switch->expr match: true",
                "Switch:switch->statement match: $a , $b => 1 , default => throw $e",
            ),
            "Switch:expr->statement true: $a , $b => 1 , default => throw $e",
        ],
    ),
    (
        "function f() { try { g(); } catch (A | B $e) { h(); } finally { k(); } }",
        [
            *("Try:body->handler g: catch ( A | B $e ) { h ( ) ;", "Try:body->finalbody g: k ( ) ;"),
            "Try:handler->finalbody catch: k ( ) ;",
        ],
    ),
    (
        "function f() { g(function ($x) use ($y) { h($x); }, fn($z) => $z); }",
        [
            "Call:func->args g: function ( $x ) use ( $y ) { h ( $x ) ; } , fn ( $z ) => $z",
            "Call:func->args h: $x",
        ],
    ),
    ("#[A(1)] private ?int $x;", []),
]
"""Each a function with its edges, a relation and head before the colon."""

CHILDREN = [
    ("function f() { return $a + $b; }", ["return: $a + $b", "$a: $b"]),
    ("function f() { g(1, x: 2); }", ["g: 1", "g: x : 2", "x: 2"]),
    (
        "final public function f(int $a = 1): ?A { if ($a) { g(); h(); } }",
        ["int: $a", "int: 1", "?: A", "if: $a", "if: g ( ) ; h ( ) ;", "g: h ("],
    ),
    ("fn($x) => [$x->y, ...$x];", ["$x: y", "$x: ... $x", "...: $x"]),
]
"""Functions with all edges of nodes to their children, those of the first word left out."""
