"""JavaScript's relations by hand: functions, and every edge in them but those of nodes to their children.

An edge is a head and the words of its dependent, without the brackets around it. The first word of all heads
none.
"""

CASES = [
    ("function f() {}", []),
    ("function f() { g(1, x); }", ["Call:func->args g: 1 , x"]),
    ("function f() { a.b.g() }", ["Attribute:value->attr a: b", "Attribute:value->attr a: g"]),
    ("function f() { a?.b?.(1) }", ["Attribute:value->attr a: b", "Call:func->args b: 1"]),
    ("function f() { g(h(1)) }", ["Call:func->args g: h ( 1", "Call:func->args h: 1"]),
    ("function f() { g(...xs) }", ["Call:func->args g: ... xs"]),
    ("function f() { const x = y + 1 }", ["Assign:target->value x: y + 1", "InfixExpr:left->right y: 1"]),
    (
        "function f() { let {a, b: [c = 1]} = o, z }",
        ["Assign:target->value a: o"],
    ),
    ("function f() { [a, b] = [b, a] }", ["Assign:target->value a: b , a"]),
    ("function f() { x = y = z }", ["Assign:target->value x: y = z", "Assign:target->value y: z"]),
    ("function f() { x += 2; y ??= 3 }", ["AugAssign:target->value x: 2", "AugAssign:target->value y: 3"]),
    ("function f() { x++; --y }", []),
    ("function f() { return a + b*c }", ["InfixExpr:left->right a: b * c", "InfixExpr:left->right b: c"]),
    ("function f() { return a - b - c }", ["InfixExpr:left->right a: b", "InfixExpr:left->right a: c"]),
    (
        "function f() { return !ok && n in m }",
        ["InfixExpr:left->right !: n in m", "InfixExpr:left->right n: m"],
    ),
    (
        "function f() { return x instanceof A.B }",
        ["InstanceofExpr:expr->type x: A . B", "Attribute:value->attr A: B"],
    ),
    ("function f() { return m[k][1] }", ["Subscript:value->slice m: k", "Subscript:value->slice m: 1"]),
    (
        "function f() { return a ? b : c }",
        ["IfExp:test->body a: b", "IfExp:test->orelse a: c", "IfExp:body->orelse b: c"],
    ),
    (
        "function f() { return {a: 1, b, [c]: d, ...e, m() { return 1 }} }",
        ["Dict:key->value a: 1", "Dict:key->value c: d"],
    ),
    (
        "function f() { return new A.B(1, 2) }",
        ["New:new->type new: A . B", "New:type->args B: 1 , 2", "Attribute:value->attr A: B"],
    ),
    (
        "function f() { throw new Error(`no ${x.y}`) }",
        [
            "Throw:throw->exc throw: new Error ( `no ${x.y}`",
            "New:new->type new: Error",
            "New:type->args Error: `no ${x.y}`",
        ],
    ),
    (
        "function* g() { yield a; yield* b; yield }",
        ["Yield:yield->value yield: a", "Yield:yield->value yield: b"],
    ),
    (
        "const f = (a, b) => a + b",
        [
            "Assign:target->value f: a , b ) => a + b",
            "Arrow:params->body a: a + b",
            "InfixExpr:left->right a: b",
        ],
    ),
    (
        "const f = async x => await x",
        [
            "Assign:target->value f: async x => await x",
            "Arrow:params->body x: await x",
            "Await:await->value await: x",
        ],
    ),
    (
        "async load(x) { await this.g(x) }",
        ["Await:await->value await: this . g ( x", "Attribute:value->attr this: g", "Call:func->args g: x"],
    ),
    ("static get n() { return this.#n }", ["Attribute:value->attr this: #n"]),
    ("key: function (a) { return a[0] }", ["Subscript:value->slice a: 0"]),
    (
        "A.prototype.f = function () { return super.x }",
        [
            "Attribute:value->attr super: x",
        ],
    ),
    (
        "function f() { if (x) { g(1) } }",
        ["If:if->test if: x", "If:if->body if: g ( 1", "If:test->body x: g ( 1", "Call:func->args g: 1"],
    ),
    (
        "function f() { if (x) y++; else if (w) { z-- } else h() }",
        [
            *(
                "If:if->test if: x",
                "If:if->body if: y ++ ;",
                "If:test->body x: y ++ ;",
                "If:if->else if: else",
            ),
            *(
                "If:body->orelse y: if ( w ) { z -- } else h (",
                "If:test->orelse x: if ( w ) { z -- } else h (",
            ),
            *("If:if->test if: w", "If:if->body if: z --", "If:test->body w: z --", "If:if->else if: else"),
            *("If:body->orelse z: h (", "If:test->orelse w: h ("),
        ],
    ),
    (
        "function f() { for (let i = 0; i < n; i++) { g() } }",
        [
            *(
                "For:for->initializers for: let i = 0",
                "For:for->test for: i < n",
                "For:for->updaters for: i ++",
            ),
            *("For:for->body for: g (", "For:initializers->test let: i < n"),
            *("For:initializers->updaters let: i ++", "For:initializers->body let: g ("),
            *("For:test->updaters i: i ++", "For:test->body i: g (", "For:updaters->body i: g ("),
            *("Assign:target->value i: 0", "InfixExpr:left->right i: n"),
        ],
    ),
    (
        "function f() { for (const [k, v] of m) g(k) }",
        [
            *("For:for->target for: k , v", "For:for->iter for: m", "For:for->body for: g ( k"),
            *("For:target->iter k: m", "For:target->body k: g ( k", "For:iter->body m: g ( k"),
            "Call:func->args g: k",
        ],
    ),
    (
        "function f() { for (k in o) { continue } }",
        [
            *("For:for->target for: k", "For:for->iter for: o", "For:for->body for: continue"),
            *("For:target->iter k: o", "For:target->body k: continue", "For:iter->body o: continue"),
        ],
    ),
    ("function f() { for (;;) { break } }", ["For:for->body for: break"]),
    (
        "function f() { while (x < 3) { x++ } }",
        [
            *("While:while->test while: x < 3", "While:while->body while: x ++", "While:test->body x: x ++"),
            "InfixExpr:left->right x: 3",
        ],
    ),
    (
        "function f() { do { x++ } while (y) }",
        ["Do:do->body do: x ++", "Do:do->test do: y", "Do:body->test x: y"],
    ),
    (
        "function f() { switch (x) { case 1: g(); break; default: h() } }",
        [
            "Switch:switch->expr switch: x",
            "Switch:switch->statement switch: case 1 : g ( ) ; break ; default : h (",
            "Switch:expr->statement x: case 1 : g ( ) ; break ; default : h (",
        ],
    ),
    (
        "function f() { try { a() } catch (e) { b() } finally { c() } }",
        [
            *("Try:body->handler a: catch ( e ) { b (", "Try:body->finalbody a: c ("),
            "Try:handler->finalbody catch: c (",
        ],
    ),
    (
        "function f() { outer: for (;;) { break outer } }",
        ["LabeledStatement:label->body outer: for ( ; ; ) { break outer", "For:for->body for: break outer"],
    ),
    (
        "function f() { return <A b={c.d} e='1'>{g(x)}</A> }",
        ["Attribute:value->attr c: d", "Call:func->args g: x"],
    ),
]
"""Each a function with its edges, a relation and head before the colon."""

CHILDREN = [
    ("function f() { return a + b }", ["return: a + b", "a: b"]),
    ("function f() { g(1, 2) }", ["g: 1", "g: 2"]),
    ("function f(a) { if (a) { g() } }", ["if: a", "if: g ("]),
    ("get(a) { return a }", ["return: a"]),
]
"""Functions with all edges of nodes to their children, those of the first word left out."""
