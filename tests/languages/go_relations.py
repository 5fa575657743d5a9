"""Go's relations by hand: functions, and every edge in them but those of nodes to their children.

An edge is a head and the words of its dependent, which ends before the brackets that close it.
"""

CASES = [
    ("func f() {}", []),
    ("func f() { g(1, x) }", ["Call:func->args g: 1 , x"]),
    ("func f() { a.b.g() }", ["Attribute:value->attr a: b", "Attribute:value->attr a: g"]),
    ("func f() { g(h(1)) }", ["Call:func->args g: h ( 1", "Call:func->args h: 1"]),
    ("func f() { g(xs...) }", ["Call:func->args g: xs ..."]),
    ("func f() { x = 1 }", ["Assign:target->value x: 1"]),
    ("func f() { x := y + 1 }", ["Assign:target->value x: y + 1", "InfixExpr:left->right y: 1"]),
    ("func f() { a, b = b, a }", ["Assign:target->value a: b , a"]),
    ("func f() { x += 2 }", ["AugAssign:target->value x: 2"]),
    ("func f() { x &^= m }", ["AugAssign:target->value x: m"]),
    ("func f() { var x = 1; const y = 2 }", []),
    ("func f() { x++ }", []),
    ("func f() { return a + b*c }", ["InfixExpr:left->right a: b * c", "InfixExpr:left->right b: c"]),
    ("func f() { return a - b - c }", ["InfixExpr:left->right a: b", "InfixExpr:left->right a: c"]),
    ("func f() { return !ok && n < 3 }", ["InfixExpr:left->right !: n < 3", "InfixExpr:left->right n: 3"]),
    ("func f() { return m[k] }", ["Subscript:value->slice m: k"]),
    ("func f() { return s[1:n] }", ["Slice:lower->upper 1: n"]),
    ("func f() { return s[:n] }", []),
    ("func f() { return x.(int) }", ["TypeAssert:expr->type x: int"]),
    ("func f() { return T{A: 1} }", ["Dict:key->value A: 1"]),
    (
        "func f() { return map[string]int{k: v, `l`: 2} }",
        ["Dict:key->value k: v", "Dict:key->value `l`: 2"],
    ),
    ("func f() { ch <- 1 }", ["Send:channel->value ch: 1"]),
    ("func f() { x := <-ch }", ["Assign:target->value x: <- ch"]),
    ("func f() { go g(1) }", ["Go:go->call go: g ( 1", "Call:func->args g: 1"]),
    (
        "func f() { defer mu.Unlock() }",
        ["Defer:defer->call defer: mu . Unlock (", "Attribute:value->attr mu: Unlock"],
    ),
    (
        "func f() { if x { g(1) } }",
        ["If:if->test if: x", "If:if->body if: g ( 1", "If:test->body x: g ( 1", "Call:func->args g: 1"],
    ),
    (
        "func f() { if x { y++ } else { z-- } }",
        [
            *("If:if->test if: x", "If:if->body if: y ++", "If:test->body x: y ++", "If:if->else if: else"),
            *("If:body->orelse y: z --", "If:test->orelse x: z --"),
        ],
    ),
    (
        "func f() { if x { y++ } else if w { z-- } }",
        [
            *("If:if->test if: x", "If:if->body if: y ++", "If:test->body x: y ++", "If:if->else if: else"),
            *("If:body->orelse y: if w { z --", "If:test->orelse x: if w { z --"),
            *("If:if->test if: w", "If:if->body if: z --", "If:test->body w: z --"),
        ],
    ),
    (
        "func f() { if v := g(); v > 0 { return } }",
        [
            *("Assign:target->value v: g (", "If:if->test if: v > 0", "If:if->body if: return"),
            *("If:test->body v: return", "InfixExpr:left->right v: 0"),
        ],
    ),
    (
        "func f() { for i := 0; i < n; i++ { g() } }",
        [
            *("For:for->initializers for: i := 0", "For:for->test for: i < n", "For:for->updaters for: i ++"),
            *(
                "For:for->body for: g (",
                "For:initializers->test i: i < n",
                "For:initializers->updaters i: i ++",
            ),
            *("For:initializers->body i: g (", "For:test->updaters i: i ++", "For:test->body i: g ("),
            *("For:updaters->body i: g (", "Assign:target->value i: 0", "InfixExpr:left->right i: n"),
        ],
    ),
    (
        "func f() { for k, v := range xs { g() } }",
        [
            *("For:for->target for: k , v", "For:for->iter for: xs", "For:for->body for: g ("),
            *("For:target->iter k: xs", "For:target->body k: g (", "For:iter->body xs: g ("),
        ],
    ),
    (
        "func f() { for range ch { g() } }",
        ["For:for->iter for: ch", "For:for->body for: g (", "For:iter->body ch: g ("],
    ),
    (
        "func f() { for x < 3 { x++ } }",
        [
            *("While:while->test for: x < 3", "While:while->body for: x ++", "While:test->body x: x ++"),
            "InfixExpr:left->right x: 3",
        ],
    ),
    ("func f() { for { break } }", ["For:for->body for: break"]),
    (
        "func f() { switch x { case 1: g(); case 2: h() } }",
        [
            "Switch:switch->expr switch: x",
            "Switch:switch->statement switch: case 1 : g ( ) ; case 2 : h (",
            "Switch:expr->statement x: case 1 : g ( ) ; case 2 : h (",
        ],
    ),
    ("func f() { switch { default: g() } }", ["Switch:switch->statement switch: default : g ("]),
    (
        "func f() { switch t := v.(type) { case int: g() } }",
        [
            *("Switch:switch->expr switch: v", "Switch:switch->statement switch: case int : g ("),
            "Switch:expr->statement v: case int : g (",
        ],
    ),
    (
        "func f() { select { case <-a: g(); default: } }",
        ["Select:select->statement select: case <- a : g ( ) ; default :"],
    ),
    (
        "func f() { L: for { goto L } }",
        ["LabeledStatement:label->body L: for { goto L", "For:for->body for: goto L"],
    ),
    (
        "func (s *T[K]) f() int { return s.n }",
        ["Attribute:value->attr s: n"],
    ),
    (
        "func f() { g(func(x int) { h(x) }) }",
        ["Call:func->args g: func ( x int ) { h ( x", "Call:func->args h: x"],
    ),
]
"""Each a function with its edges, a relation and head before the colon."""

CHILDREN = [
    ("func f() { return a + b }", ["return: a + b", "a: b"]),
    ("func f() { g(1, 2) }", ["g: 1", "g: 2"]),
    ("func f(a int) { if a { g() } }", ["a: int", "if: a", "if: g ("]),
]
"""Functions with all edges of nodes to their children, those of the first word left out."""
