(if_expression "if" @If.if condition: (_) @If.test consequence: (_) @If.body) @If
(if_expression alternative: (else_clause "else" @If.else [(block) (if_expression)] @If.orelse)) @If
(while_expression "while" @While.while condition: (_) @While.test body: (_) @While.body) @While
(for_expression "for" @For.for pattern: (_) @For.target value: (_) @For.iter body: (_) @For.body) @For
(match_expression "match" @Match.match value: (_) @Match.expr body: (match_block (match_arm) @Match.arm)) @Match
(let_declaration pattern: (_) @Let.target value: (_) @Let.value) @Let
(assignment_expression left: (_) @Assign.target right: (_) @Assign.value) @Assign
(compound_assignment_expr left: (_) @Assign.target right: (_) @Assign.value) @Assign
(call_expression function: (_) @Call.func.last arguments: (arguments (_) @Call.args)) @Call
(field_expression value: (_) @Attribute.value field: (_) @Attribute.attr) @Attribute
(binary_expression left: (_) @BinOp.left right: (_) @BinOp.right) @BinOp
(index_expression . (_) @Subscript.value (_) @Subscript.slice .) @Subscript

(block) @through
(arguments) @through
(parameters) @through
(expression_statement) @through
(parenthesized_expression) @through
(else_clause) @through
(match_block) @through
