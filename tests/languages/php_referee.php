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
            $answer += ['calls' => found($nodes, 'called'), 'functions' => found($nodes, 'defined_in')];
        } catch (PhpParser\Error $error) {
            $answer['error'] = $error->getMessage();
        }
    }
    echo json_encode($answer, JSON_INVALID_UTF8_SUBSTITUTE), "\n";
}
