; Parts of the constructs that are related, and how nodes stand in the tree, see `_relation_query`.

(if "if" @If.if condition: (_) @If.test) @If
(if consequence: (then (_statement) @If.body)) @If
(if alternative: (else "else" @If.else (_statement) @If.orelse)) @If
(if alternative: (elsif "elsif" @If.else) @If.orelse) @If
(elsif "elsif" @If.if condition: (_) @If.test) @If
(elsif consequence: (then (_statement) @If.body)) @If
(elsif alternative: (else "else" @If.else (_statement) @If.orelse)) @If
(elsif alternative: (elsif "elsif" @If.else) @If.orelse) @If
(unless "unless" @Unless.unless condition: (_) @Unless.test) @Unless
(unless consequence: (then (_statement) @Unless.body)) @Unless
(unless alternative: (else "else" @Unless.else (_statement) @Unless.orelse)) @Unless

(if_modifier body: (_) @IfModifier.body condition: (_) @IfModifier.test) @IfModifier
(unless_modifier body: (_) @UnlessModifier.body condition: (_) @UnlessModifier.test) @UnlessModifier
(while_modifier body: (_) @WhileModifier.body condition: (_) @WhileModifier.test) @WhileModifier
(until_modifier body: (_) @UntilModifier.body condition: (_) @UntilModifier.test) @UntilModifier
(rescue_modifier body: (_) @RescueModifier.body handler: (_) @RescueModifier.handler) @RescueModifier

(while "while" @While.while condition: (_) @While.test) @While
(while body: (do (_statement) @While.body)) @While
(until "until" @Until.until condition: (_) @Until.test) @Until
(until body: (do (_statement) @Until.body)) @Until
(for "for" @For.for pattern: (_) @For.target value: (in (_) @For.iter)) @For
(for body: (do (_statement) @For.body)) @For

(case "case" @Switch.switch value: (_) @Switch.expr) @Switch
(case "case" @Switch.switch [(when) (else)] @Switch.statement) @Switch
(case_match "case" @Switch.switch value: (_) @Switch.expr) @Switch
(case_match "case" @Switch.switch [(in_clause) (else)] @Switch.statement) @Switch

(begin (_statement) @Try.body) @Try
(begin (rescue) @Try.handler) @Try
(begin (else (_statement) @Try.orelse)) @Try
(begin (ensure (_statement) @Try.finalbody)) @Try
; A method and a block may have handlers of their own.
(body_statement (_statement) @Try.body) @Try
(body_statement (rescue) @Try.handler) @Try
(body_statement (else (_statement) @Try.orelse)) @Try
(body_statement (ensure (_statement) @Try.finalbody)) @Try

(conditional condition: (_) @IfExp.test consequence: (_) @IfExp.body alternative: (_) @IfExp.orelse) @IfExp

(assignment left: (_) @Assign.target right: (_) @Assign.value) @Assign
(operator_assignment left: (_) @AugAssign.target right: (_) @AugAssign.value) @AugAssign

(call method: (_) @Call.func) @Call
(call arguments: (argument_list
  [(_expression) (splat_argument) (forward_argument)] @Call.args)) @Call
(call arguments: (argument_list [(pair) (hash_splat_argument)] @Call.keywords)) @Call
(call arguments: (argument_list (block_argument) @Call.block)) @Call
(call block: (_) @Call.block) @Call
(call receiver: (_) @Attribute.value method: (_) @Attribute.attr) @Attribute
(scope_resolution scope: (_) @Attribute.value name: (_) @Attribute.attr) @Attribute
(element_reference object: (_) @Subscript.value (_) @Subscript.slice) @Subscript
(binary left: (_) @InfixExpr.left right: (_) @InfixExpr.right) @InfixExpr
(range begin: (_) @Range.lower end: (_) @Range.upper) @Range
(pair key: (_) @Dict.key value: (_) @Dict.value) @Dict

(block parameters: (_) @Block.params body: (_ (_statement) @Block.body)) @Block
(do_block parameters: (_) @Block.params body: (_ (_statement) @Block.body)) @Block
(lambda parameters: (_) @Lambda.params body: (_ body: (_ (_statement) @Lambda.body))) @Lambda

[
  (body_statement) (block_body) (then) (do) (else) (method_parameters) (block_parameters) (lambda_parameters)
  (argument_list) (left_assignment_list) (right_assignment_list) (parenthesized_statements) (exceptions) (pattern) (in)
  (superclass) (exception_variable)
] @through
(lambda body: (_) @through)
(heredoc_body) @apart
; What is inside a string is no word of its own.
(interpolation) @outside
