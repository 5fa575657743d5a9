<?php
// What PHP's tokenizer and its best known parser tell of files: the outermost functions, with labels counted over the
// parser's tree. A line of JSON a text in, one out, `null` for one that PHP refuses.

$path = stream_resolve_include_path('PhpParser/autoload.php');
if ($path === false || !extension_loaded('tokenizer')) {
    fwrite(STDERR, 'MODULE_NOT_FOUND');
    exit(1);
}
require $path;

use PhpParser\Node;
use PhpParser\Node\Expr;
use PhpParser\Node\Scalar;
use PhpParser\Node\Stmt;

const LOOPS = [Stmt\For_::class, Stmt\Foreach_::class, Stmt\While_::class, Stmt\Do_::class];
const LITERALS = ['true', 'false', 'null'];

/** The nodes directly below a node, in text order. */
function children(Node $node): array
{
    $found = [];
    foreach ($node->getSubNodeNames() as $name) {
        $waiting = [$node->$name];
        while ($waiting) {
            $one = array_shift($waiting);
            if ($one instanceof Node) {
                $found[] = $one;
            } elseif (is_array($one)) {
                array_unshift($waiting, ...$one);
            }
        }
    }
    return $found;
}

function all(Node $node, ?callable $apart = null): array
{
    $found = [$node];
    foreach (children($node) as $child) {
        if ($apart === null || !$apart($child)) {
            array_push($found, ...all($child, $apart));
        }
    }
    return $found;
}

function is_loop(Node $node): bool
{
    return in_array(get_class($node), LOOPS, true);
}

function is_if(Node $node): bool
{
    return $node instanceof Stmt\If_ || $node instanceof Stmt\ElseIf_;
}

/** Functions and classes without a name count apart from the function around them. */
function is_apart(Node $node): bool
{
    return $node instanceof Stmt\Function_ || $node instanceof Stmt\ClassMethod
        || ($node instanceof Stmt\Class_ && $node->name === null);
}

function is_decision(Node $node): bool
{
    return is_if($node) || is_loop($node) || $node instanceof Stmt\Catch_ || $node instanceof Expr\Ternary
        || ($node instanceof Stmt\Case_ && $node->cond !== null) || ($node instanceof Node\MatchArm && $node->conds !== null)
        || $node instanceof Expr\BinaryOp\BooleanAnd || $node instanceof Expr\BinaryOp\BooleanOr
        || $node instanceof Expr\BinaryOp\LogicalAnd || $node instanceof Expr\BinaryOp\LogicalOr;
}

/** How deep blocks stand in each other: braces, and what stands in the place of a block. */
function depth(Node $node, string $text): int
{
    $own = $node instanceof Stmt\Function_ || $node instanceof Stmt\ClassMethod || $node instanceof Expr\Closure
        || is_loop($node) || is_if($node) || $node instanceof Stmt\Switch_ || $node instanceof Expr\Match_
        || $node instanceof Stmt\TryCatch || $node instanceof Stmt\Catch_ || $node instanceof Stmt\Finally_
        || ($node instanceof Stmt\Class_ && $node->name === null)
        || ($node instanceof Stmt\Declare_ && $node->stmts !== null);
    if ($node instanceof Stmt\ClassMethod) {
        $own = $node->stmts !== null;
    }
    if ($own && is_loop($node) && !$node->stmts && $text[$node->getEndFilePos()] === ';') {
        // A semicolon alone is no statement in the place of a block.
        $own = false;
    }
    if ($node instanceof Stmt\Else_) {
        // `else if` goes no deeper; what an `else` with braces holds does.
        $own = !preg_match('/\Gelse\s+if\b/i', $text, $found, 0, $node->getStartFilePos());
    }
    // What stands in the head of a construct is in no block of it; its other branches are no deeper than itself.
    $inside = $own ? 1 : 0;
    $body = [];
    foreach (['stmts', 'cases', 'arms'] as $name) {
        if (isset($node->$name)) {
            foreach ($node->$name as $child) {
                $body[spl_object_id($child)] = true;
            }
        }
    }
    $deepest = $inside;
    foreach (children($node) as $child) {
        $deepest = max($deepest, depth($child, $text) + (isset($body[spl_object_id($child)]) ? $inside : 0));
    }
    return $deepest;
}

/** The operators outside of strings, each of which is one token. */
function signs(Node $node): array
{
    if ($node instanceof Scalar\Encapsed || $node instanceof Expr\ShellExec) {
        return [];
    }
    $found = match (true) {
        $node instanceof Expr\BinaryOp => [$node->getOperatorSigil()],
        $node instanceof Expr\AssignOp => [(new ReflectionClass($node))->getShortName() . '='],
        $node instanceof Expr\Assign, $node instanceof Expr\AssignRef => ['='],
        $node instanceof Expr\BooleanNot => ['!'],
        $node instanceof Expr\BitwiseNot => ['~'],
        // A sign is the same before one operand and between two.
        $node instanceof Expr\UnaryMinus => ['-'],
        $node instanceof Expr\UnaryPlus => ['+'],
        $node instanceof Expr\PreInc, $node instanceof Expr\PostInc => ['++'],
        $node instanceof Expr\PreDec, $node instanceof Expr\PostDec => ['--'],
        $node instanceof Expr\Ternary => ['?:'],
        $node instanceof Expr\ErrorSuppress => ['@'],
        $node instanceof Expr\Instanceof_ => ['instanceof'],
        $node instanceof Stmt\StaticVar, $node instanceof Stmt\PropertyProperty => $node->default !== null ? ['='] : [],
        $node instanceof Node\Const_ => ['='],
        default => [],
    };
    foreach (children($node) as $child) {
        array_push($found, ...signs($child));
    }
    return $found;
}

/** Where variables stand by the function that they belong to; closures take what they use along. */
class Variables
{
    public array $places = [];
    private array $bound = [];
    private array $mentions = [];
    private int $scopes = 0;

    public function __construct(Node $function)
    {
        $this->inside($function, 0, []);
        foreach ($this->mentions as [$scope, $name]) {
            $owner = $scope;
            while ($owner > 0 && !isset($this->bound[$owner][$name])) {
                // An arrow function sees all around it, a closure what it uses.
                $owner = ($this->seen[$owner][$name] ?? $this->seen[$owner]['*'] ?? false) ? $this->around[$owner] : 0;
            }
            if ($owner > 0 && $this->bound[$owner][$name] !== 'global') {
                $this->places[$name] = ($this->places[$name] ?? 0) + 1;
            }
        }
    }

    private array $around = [];
    private array $seen = [];

    private function inside(Node $function, int $around, array $seen): void
    {
        $scope = ++$this->scopes;
        $this->around[$scope] = $around;
        $this->seen[$scope] = $seen;
        $this->bound[$scope] = [];
        foreach (children($function) as $child) {
            if (!$child instanceof Expr\ClosureUse) {
                $this->walk($child, $scope);
            }
        }
    }

    private function walk(Node $node, int $scope): void
    {
        if ($node instanceof Expr\Closure) {
            $seen = [];
            foreach ($node->uses as $use) {
                $this->mention($use->var, $scope);
                $seen[$use->var->name] = true;
            }
            $this->inside($node, $scope, $seen);
            return;
        }
        if ($node instanceof Expr\ArrowFunction) {
            $this->inside($node, $scope, ['*' => true]);
            return;
        }
        if ($node instanceof Stmt\Function_ || $node instanceof Stmt\ClassMethod) {
            $this->inside($node, $scope, []);
            return;
        }
        match (true) {
            $node instanceof Node\Param => $this->bind($node->var, $scope),
            $node instanceof Stmt\StaticVar => $this->bind($node->var, $scope),
            $node instanceof Expr\Assign, $node instanceof Expr\AssignRef => $this->bind($node->var, $scope),
            $node instanceof Stmt\Foreach_ => [$this->bind($node->keyVar, $scope), $this->bind($node->valueVar, $scope)],
            $node instanceof Stmt\Catch_ => $this->bind($node->var, $scope),
            $node instanceof Stmt\Global_ => array_map(fn ($one) => $this->bind($one, $scope, 'global'), $node->vars),
            default => null,
        };
        if ($node instanceof Expr\Variable) {
            $this->mention($node, $scope);
        }
        foreach (children($node) as $child) {
            $this->walk($child, $scope);
        }
    }

    private function bind(?Node $target, int $scope, string $kind = 'variable'): void
    {
        if ($target instanceof Expr\Array_ || $target instanceof Expr\List_) {
            foreach ($target->items as $item) {
                $this->bind($item?->value, $scope);
            }
        } elseif ($target instanceof Expr\Variable && is_string($target->name) && $target->name !== 'this') {
            if ($kind === 'global' || ($this->bound[$scope][$target->name] ?? '') !== 'global') {
                $this->bound[$scope][$target->name] = $kind;
            }
        }
    }

    private function mention(Node $node, int $scope): void
    {
        if (is_string($node->name) && $node->name !== 'this') {
            $this->mentions[] = [$scope, $node->name];
        }
    }
}

function is_special(Node\Name $name): bool
{
    return $name->isSpecialClassName();
}

/** Calls by the bare name, which means no method, and through the object or its class; names have no case. */
function recursion(Node $function, array $nodes): int
{
    $own = strtolower($function->name->toString());
    $inner = array_filter($nodes, fn ($one) => $one !== $function
        && ($one instanceof Stmt\Function_ || $one instanceof Stmt\ClassMethod) && strtolower($one->name->toString()) === $own);
    $count = 0;
    foreach ($nodes as $node) {
        $called = null;
        if ($node instanceof Expr\FuncCall && $node->name instanceof Node\Name && $function instanceof Stmt\Function_) {
            $called = $node->name->isUnqualified() && !array_filter($inner, fn ($one) => $one instanceof Stmt\Function_)
                ? $node->name->toString() : null;
        } elseif ($node instanceof Expr\MethodCall || $node instanceof Expr\NullsafeMethodCall) {
            $through = $node->var instanceof Expr\Variable && $node->var->name === 'this';
            $called = $through && $node->name instanceof Node\Identifier ? $node->name->toString() : null;
        } elseif ($node instanceof Expr\StaticCall && $node->class instanceof Node\Name) {
            $through = in_array(strtolower($node->class->toString()), ['self', 'static'], true);
            $called = $through && $node->name instanceof Node\Identifier ? $node->name->toString() : null;
        }
        if ($called !== null && strtolower($called) === $own) {
            $class = array_filter($nodes, fn ($one) => $one instanceof Stmt\Class_ && array_intersect_key(
                array_flip(array_map('spl_object_id', $one->stmts)), array_flip(array_map('spl_object_id', $inner)))
                && $one->getStartFilePos() <= $node->getStartFilePos() && $node->getEndFilePos() <= $one->getEndFilePos());
            $count += $class ? 0 : 1;
        }
    }
    return $count;
}

/** Tokens as their first byte, their kind and their text: strings are one, casts and names with a namespace several. */
function tokens(string $text): array
{
    $found = [];
    $stack = [];
    $opened = null;
    foreach (PhpToken::tokenize($text, TOKEN_PARSE) as $token) {
        $kind = $token->getTokenName() ?? '';
        if ($opened !== null) {
            if (in_array($kind, ['T_CURLY_OPEN', 'T_DOLLAR_OPEN_CURLY_BRACES', '{'], true)) {
                $stack[] = '}';
            } elseif ($kind === end($stack)) {
                array_pop($stack);
            } elseif (in_array($kind, ['"', '`', 'T_START_HEREDOC'], true)) {
                $stack[] = $kind === 'T_START_HEREDOC' ? 'T_END_HEREDOC' : $kind;
            }
            if (!$stack) {
                $found[] = [$opened, 'string', ''];
                $opened = null;
            }
        } elseif (in_array($kind, ['"', '`', 'T_START_HEREDOC'], true)) {
            $opened = $token->pos;
            $stack = [$kind === 'T_START_HEREDOC' ? 'T_END_HEREDOC' : $kind];
        } elseif (str_starts_with($kind, 'T_NAME_') || str_ends_with($kind, '_CAST')) {
            preg_match_all('/\w+|[\\\\()]/', $token->text, $parts, PREG_OFFSET_CAPTURE);
            foreach ($parts[0] as [$part, $offset]) {
                $word = preg_match('/\w/', $part) ? (str_ends_with($kind, '_CAST') ? 'keyword' : 'name') : 'sign';
                $found[] = [$token->pos + $offset, $word, $part];
            }
        } elseif (!in_array($kind, ['T_WHITESPACE', 'T_COMMENT', 'T_DOC_COMMENT'], true)) {
            $found[] = [$token->pos, match (true) {
                $kind === 'T_CONSTANT_ENCAPSED_STRING' => 'string',
                $kind === 'T_LNUMBER' || $kind === 'T_DNUMBER' => 'number',
                $kind === 'T_STRING' || $kind === 'T_VARIABLE' => 'name',
                // What looks like a call or a constant is a name to the grammar.
                in_array($kind, ['T_ISSET', 'T_EMPTY', 'T_EVAL', 'T_HALT_COMPILER'], true) => 'name',
                $kind === 'T_EXIT' && strtolower($token->text) === 'die' => 'name',
                (bool) preg_match('/^__\w+__$/', $token->text) => 'name',
                (bool) preg_match('/^[a-z]/i', $token->text) => 'keyword',
                default => 'sign',
            }, $token->text];
        }
    }
    return $found;
}

function defined_names(array $nodes): array
{
    $found = [];
    foreach ($nodes as $node) {
        $at = match (true) {
            $node instanceof Node\Param, $node instanceof Stmt\Catch_, $node instanceof Stmt\StaticVar
                => $node->var !== null ? [$node->var, 'IDV'] : null,
            $node instanceof Stmt\Function_, $node instanceof Stmt\ClassMethod => [$node->name, 'IDM'],
            $node instanceof Expr\MethodCall, $node instanceof Expr\NullsafeMethodCall, $node instanceof Expr\StaticCall
                => $node->name instanceof Node\Identifier ? [$node->name, 'IDM'] : null,
            $node instanceof Expr\FuncCall
                => $node->name instanceof Node\Name && $node->name->isUnqualified() ? [$node->name, 'IDM'] : null,
            $node instanceof Expr\New_
                => $node->class instanceof Node\Name && $node->class->isUnqualified() && !is_special($node->class) ? [$node->class, 'IDC'] : null,
            $node instanceof Expr\Assign
                => $node->var instanceof Expr\Variable && is_string($node->var->name) && $node->var->name !== 'this' ? [$node->var, 'IDV'] : null,
            default => null,
        };
        if ($at !== null) {
            $found[] = [$at[0]->getStartFilePos(), $at[1]];
        }
    }
    return $found;
}

function label(Node $function, string $text, array $tokens): array
{
    $nodes = all($function);
    $own = all($function, fn ($one) => is_apart($one));
    $body = [];
    foreach ($function->stmts as $statement) {
        array_push($body, ...(is_apart($statement) ? [] : all($statement, fn ($one) => is_apart($one))));
    }
    $loops = array_filter($nodes, 'is_loop');
    $ifs = array_filter($nodes, 'is_if');
    $looped = [];
    foreach ($loops as $loop) {
        foreach (array_slice(all($loop), 1) as $one) {
            $looped[spl_object_id($one)] = true;
        }
    }
    $count = fn (array $some, callable $take) => count(array_filter($some, $take));
    $within = fn ($one) => isset($looped[spl_object_id($one)]);
    $statements = array_values(array_filter($function->stmts, fn ($one) => !$one instanceof Stmt\Nop));
    $last = end($statements);
    [$start, $end] = [$function->getStartFilePos(), $function->getEndFilePos()];
    $inside = array_filter($tokens, fn ($token) => $start <= $token[0] && $token[0] <= $end);
    // Types that PHP itself has are words of it where they stand as types, and so are the special names of classes.
    $types = [];
    foreach ($nodes as $node) {
        $type = $node->returnType ?? $node->type ?? null;
        $listed = $type instanceof Node\NullableType ? [$type->type] : ($type instanceof Node\UnionType || $type instanceof Node\IntersectionType ? $type->types : [$type]);
        foreach ($listed as $one) {
            if ($one instanceof Node\Identifier) {
                $types[$one->getStartFilePos()] = true;
            }
        }
        if ($node instanceof Node\Name && in_array($node->toLowerString(), ['self', 'parent'], true)) {
            $types[$node->getStartFilePos()] = true;
        }
        if ($node instanceof Expr\ConstFetch && in_array($node->name->toLowerString(), LITERALS, true)) {
            $types[$node->getStartFilePos()] = false;
        }
    }
    $naming = $reserved = 0;
    foreach ($inside as [$at, $kind, $word]) {
        if ($kind === 'name') {
            $naming += isset($types[$at]) ? 0 : 1;
            $reserved += ($types[$at] ?? false) ? 1 : 0;
        } elseif ($kind === 'keyword') {
            $reserved += 1;
        }
    }
    $signs = signs($function);
    $variables = new Variables($function);
    return [
        'name' => $function->name->toString(),
        'line' => $function->getStartLine(),
        'labels' => [
            'cpx' => 1 + $count($body, 'is_decision'),
            'nms' => count($ifs),
            'nml' => count($loops),
            'csc' => count($ifs) + count($loops) + $count($nodes, fn ($one) => $one instanceof Stmt\Switch_
                || $one instanceof Expr\Match_ || $one instanceof Stmt\TryCatch),
            'nested_loop' => $count($loops, $within),
            'if_in_loop' => $count($ifs, $within),
            'early_return' => $count($body, fn ($one) => $one instanceof Stmt\Return_ && $one !== $last),
            'recursion' => recursion($function, $nodes),
            'mxn' => depth($function, $text),
            'len' => count($inside),
            'oct' => count($signs),
            'ocu' => count(array_unique($signs)),
            'tan' => $naming - $reserved,
            'vcu' => count($variables->places),
            'vct' => array_sum($variables->places),
            'strings' => $count($inside, fn ($token) => $token[1] === 'string'),
            'numbers' => $count($inside, fn ($token) => $token[1] === 'number'),
        ],
        // Strings are whole.
        'names' => defined_names(all($function, fn ($one) => $one instanceof Scalar\Encapsed || $one instanceof Expr\ShellExec)),
    ];
}

/** The functions with a body that stand in no function. */
function outermost(Node $node): array
{
    if ($node instanceof Stmt\Function_ || $node instanceof Stmt\ClassMethod) {
        return $node->stmts !== null ? [$node] : [];
    }
    if ($node instanceof Expr\Closure || $node instanceof Expr\ArrowFunction) {
        return [];
    }
    return array_merge([], ...array_map('outermost', children($node)));
}

$lexer = new PhpParser\Lexer(['usedAttributes' => ['startFilePos', 'endFilePos', 'startLine', 'endLine', 'comments']]);
$parser = (new PhpParser\ParserFactory())->create(PhpParser\ParserFactory::PREFER_PHP7, $lexer);
while (($line = fgets(STDIN)) !== false) {
    $text = json_decode($line);
    try {
        $tokens = tokens($text);
        $functions = array_merge([], ...array_map('outermost', $parser->parse($text)));
        $answer = ['functions' => array_map(fn ($one) => label($one, $text, $tokens), $functions), 'line' => 'first', 'offsets' => 'bytes'];
    } catch (ParseError | PhpParser\Error $error) {
        $answer = null;
    }
    echo json_encode($answer, JSON_INVALID_UTF8_SUBSTITUTE), "\n";
}
