<?php
// What PHP and its best known parser find in texts: one of them a line as JSON, and an answer a line. PHP ends at what
// it refuses beyond its grammar.

$parser = null;
if (is_file('/usr/share/php/PhpParser/autoload.php')) {
    require '/usr/share/php/PhpParser/autoload.php';
    $lexer = new PhpParser\Lexer(['usedAttributes' => ['startFilePos', 'endFilePos', 'comments']]);
    $parser = (new PhpParser\ParserFactory())->create(PhpParser\ParserFactory::PREFER_PHP7, $lexer);
}

/** Name, first byte and one past the last byte of what a visitor takes, in text order. */
function found(array $nodes, callable $take): array
{
    $finder = new PhpParser\NodeFinder();
    $rows = [];
    foreach ($finder->find($nodes, fn ($node) => $take($node) !== null) as $node) {
        $rows[] = [$take($node), $node->getStartFilePos(), $node->getEndFilePos() + 1];
    }
    return $rows;
}

function called(PhpParser\Node $node): ?string
{
    if ($node instanceof PhpParser\Node\Expr\FuncCall && $node->name instanceof PhpParser\Node\Name) {
        return $node->name->getLast();
    }
    if ($node instanceof PhpParser\Node\Expr\MethodCall || $node instanceof PhpParser\Node\Expr\NullsafeMethodCall
        || $node instanceof PhpParser\Node\Expr\StaticCall) {
        return $node->name instanceof PhpParser\Node\Identifier ? $node->name->toString() : null;
    }
    if ($node instanceof PhpParser\Node\Expr\New_ && $node->class instanceof PhpParser\Node\Name) {
        return $node->class->isSpecialClassName() ? null : $node->class->getLast();
    }
    return null;
}

function defined_in(PhpParser\Node $node): ?string
{
    $function = $node instanceof PhpParser\Node\Stmt\Function_ || $node instanceof PhpParser\Node\Stmt\ClassMethod;
    return $function && $node->stmts !== null ? $node->name->toString() : null;
}

/** The relations between the parts of constructs outside of strings: name, first byte of head and dependent. */
class Relations extends PhpParser\NodeVisitorAbstract
{
    public array $rows = [];
    private array $patterns = [];

    public function enterNode(PhpParser\Node $node)
    {
        $class = substr(get_class($node), strlen('PhpParser\\Node\\'));
        if ($class === 'Scalar\\Encapsed' || $class === 'Expr\\ShellExec') {
            return PhpParser\NodeTraverser::DONT_TRAVERSE_CHILDREN;
        }
        $pattern = $class === 'Stmt\\Foreach_' ? $node->valueVar : ($node instanceof PhpParser\Node\Expr\Assign ? $node->var : null);
        if ($pattern !== null) {
            foreach ((new PhpParser\NodeFinder())->findInstanceOf([$pattern], PhpParser\Node\Expr\ArrayItem::class) as $item) {
                $this->patterns[spl_object_id($item)] = true;
            }
        }
        if ($node instanceof PhpParser\Node\Expr\AssignOp) {
            $this->add('AugAssign:target->value', $node->var, $node->expr);
        } elseif ($node instanceof PhpParser\Node\Expr\BinaryOp) {
            $this->add('InfixExpr:left->right', $node->left, $node->right);
        }
        match ($class) {
            'Expr\\Assign', 'Expr\\AssignRef' => $this->add('Assign:target->value', $node->var, $node->expr),
            'Expr\\Instanceof_' => $this->add('InstanceofExpr:expr->type', $node->expr, $node->class),
            'Expr\\Ternary' => $this->ternary($node),
            'Expr\\ArrayDimFetch' => $this->add('Subscript:value->slice', $node->var, $node->dim),
            'Expr\\ArrayItem' => isset($this->patterns[spl_object_id($node)]) || $this->add('Dict:key->value', $node->key, $node->value),
            'Expr\\PropertyFetch', 'Expr\\NullsafePropertyFetch', 'Expr\\MethodCall', 'Expr\\NullsafeMethodCall'
                => $this->add('Attribute:value->attr', $node->var, $node->name),
            'Expr\\ClassConstFetch', 'Expr\\StaticCall', 'Expr\\StaticPropertyFetch'
                => $this->add('Attribute:value->attr', $node->class, $node->name),
            'Stmt\\While_' => $this->add('While:test->body', $node->cond, first($node->stmts)),
            'Stmt\\Do_' => $this->add('Do:body->test', first($node->stmts), $node->cond),
            'Stmt\\Foreach_' => $this->add('For:iter->body', $node->expr, first($node->stmts)),
            'Stmt\\Switch_' => $this->add('Switch:expr->statement', $node->cond, $node->cases[0] ?? null),
            'Expr\\Match_' => $this->add('Switch:expr->statement', $node->cond, $node->arms[0] ?? null),
            'Stmt\\TryCatch' => $this->add('Try:body->handler', first($node->stmts), $node->catches[0] ?? null),
            'Stmt\\ElseIf_' => $this->add('If:test->body', $node->cond, first($node->stmts)),
            'Stmt\\If_' => $this->branch($node),
            default => null,
        };
        if ($class === 'Stmt\\Foreach_' && ($node->keyVar !== null || !$node->byRef)) {
            $this->add('For:iter->target', $node->expr, $node->keyVar ?? $node->valueVar);
        }
        $name = $class === 'Expr\\FuncCall' || str_ends_with($class, 'Call') ? $node->name : null;
        $argument = $name === null ? null : ($node->args[0] ?? null);
        if ($argument instanceof PhpParser\Node\Arg && $argument->name === null && !$name instanceof PhpParser\Node\Expr) {
            $last = $name instanceof PhpParser\Node\Name ? strlen($name->getLast()) : strlen($name->toString());
            $this->rows[] = ['Call:func->args', $name->getEndFilePos() + 1 - $last, $argument->getStartFilePos()];
        }
        return null;
    }

    private function add(string $name, ?PhpParser\Node $head, ?PhpParser\Node $dependent): bool
    {
        if ($head !== null && $dependent !== null) {
            $this->rows[] = [$name, $head->getStartFilePos(), $dependent->getStartFilePos()];
        }
        return true;
    }

    private function ternary(PhpParser\Node $node): void
    {
        $this->add('IfExp:test->body', $node->cond, $node->if);
        $this->add('IfExp:body->orelse', $node->if, $node->else);
        $this->add('IfExp:test->orelse', $node->cond, $node->else);
    }

    private function branch(PhpParser\Node $node): void
    {
        $this->add('If:test->body', $node->cond, first($node->stmts));
        foreach ([$node, ...$node->elseifs] as $place => $one) {
            $this->add('If:test->orelse', $one->cond, $node->elseifs[$place] ?? first($node->else->stmts ?? []));
        }
    }
}

/** The first statement that is code. */
function first(array $statements): ?PhpParser\Node
{
    foreach ($statements as $statement) {
        if (!$statement instanceof PhpParser\Node\Stmt\Nop) {
            return $statement;
        }
    }
    return null;
}

function related(array $nodes): array
{
    $traverser = new PhpParser\NodeTraverser();
    $traverser->addVisitor($relations = new Relations());
    $traverser->traverse($nodes);
    return $relations->rows;
}

function parses(string $text): bool
{
    try {
        PhpToken::tokenize($text, TOKEN_PARSE);
    } catch (ParseError $error) {
        return false;
    }
    return true;
}

while (($line = fgets(STDIN)) !== false) {
    $text = json_decode($line);
    $tokens = [];
    foreach (PhpToken::tokenize($text) as $token) {
        $tokens[] = [$token->getTokenName() ?? '', $token->text];
    }
    $answer = ['tokens' => $tokens, 'parses' => parses($text)];
    if ($parser !== null) {
        try {
            $nodes = $parser->parse($text);
            $answer['relations'] = related($nodes);
            $answer += ['calls' => found($nodes, 'called'), 'functions' => found($nodes, 'defined_in')];
        } catch (PhpParser\Error $error) {
            $answer['error'] = $error->getMessage();
        }
    }
    echo json_encode($answer, JSON_INVALID_UTF8_SUBSTITUTE), "\n";
}
