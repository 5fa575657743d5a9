<?php
// What PHP and its best known parser find in texts; it reads a list of them as JSON and writes one answer each.

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

$answers = [];
foreach (json_decode(file_get_contents('php://stdin'), true) as $text) {
    $tokens = [];
    foreach (PhpToken::tokenize($text) as $token) {
        $tokens[] = [$token->getTokenName() ?? '', $token->text];
    }
    $answer = ['tokens' => $tokens];
    if ($parser !== null) {
        try {
            $nodes = $parser->parse($text);
            $answer += ['calls' => found($nodes, 'called'), 'functions' => found($nodes, 'defined_in')];
        } catch (PhpParser\Error $error) {
            $answer['error'] = $error->getMessage();
        }
    }
    $answers[] = $answer;
}
echo json_encode($answers, JSON_INVALID_UTF8_SUBSTITUTE);
