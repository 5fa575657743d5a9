; Parts of the constructs that are related, and how nodes stand in the tree, see `_relation_query`.

(if_statement
  "if" @If.if condition: (parenthesized_expression (_) @If.test) @through consequence: _ @If.body) @If
(if_statement alternative: (else_clause "else" @If.else (statement) @If.orelse)) @If
(while_statement
  "while" @While.while condition: (parenthesized_expression (_) @While.test) @through body: _ @While.body) @While
(do_statement
  "do" @Do.do body: _ @Do.body condition: (parenthesized_expression (_) @Do.test) @through) @Do

(for_statement "for" @For.for body: _ @For.body) @For
(for_statement initializer: [(variable_declaration) (lexical_declaration) (expression)] @For.initializers) @For
(for_statement initializer: (_ ";" @outside))
(for_statement condition: (expression) @For.test) @For
(for_statement increment: (_) @For.updaters) @For
(for_in_statement "for" @For.for left: (_) @For.target right: (_) @For.iter body: _ @For.body) @For

(switch_statement
  "switch" @Switch.switch value: (parenthesized_expression (_) @Switch.expr) @through
  body: (switch_body [(switch_case) (switch_default)] @Switch.statement)) @Switch

(try_statement body: (_) @Try.body handler: (_) @Try.handler) @Try
(try_statement body: (_) @Try.body finalizer: (finally_clause body: (_) @Try.finalbody)) @Try

(labeled_statement label: (_) @LabeledStatement.label ":" body: _ @LabeledStatement.body) @LabeledStatement
; A function that is a property, taken out of its object.
(labeled_statement body: (expression_statement [(function_expression) (generator_function) (arrow_function)])) @other

(variable_declarator name: (_) @Assign.target value: (_) @Assign.value) @Assign
(assignment_expression left: (_) @Assign.target right: (_) @Assign.value) @Assign
(augmented_assignment_expression left: (_) @AugAssign.target right: (_) @AugAssign.value) @AugAssign

(call_expression function: (_) @Call.func.last arguments: (arguments)) @Call
(call_expression arguments: (arguments [(expression) (spread_element)] @Call.args)) @Call
(member_expression object: (_) @Attribute.value property: (_) @Attribute.attr) @Attribute
(subscript_expression object: (_) @Subscript.value index: (_) @Subscript.slice) @Subscript
(new_expression "new" @New.new constructor: (_) @New.type.last) @New
(new_expression arguments: (arguments [(expression) (spread_element)] @New.args)) @New
(ternary_expression
  condition: (_) @IfExp.test consequence: (_) @IfExp.body alternative: (_) @IfExp.orelse) @IfExp
(binary_expression left: (_) @InfixExpr.left operator: [
  "+" "-" "*" "/" "%" "**" "<<" ">>" ">>>" "&" "|" "^" "&&" "||" "??" "<" ">" "<=" ">=" "==" "!=" "===" "!==" "in"
] right: (_) @InfixExpr.right) @InfixExpr
(binary_expression left: (_) @InstanceofExpr.expr "instanceof" right: (_) @InstanceofExpr.type) @InstanceofExpr
(object (pair key: (_) @Dict.key value: (_) @Dict.value) @Dict)
(arrow_function [parameter: (_) parameters: (_)] @Arrow.params body: (_) @Arrow.body) @Arrow
(await_expression "await" @Await.await (_) @Await.value) @Await
(yield_expression "yield" @Yield.yield (_) @Yield.value) @Yield
(throw_statement "throw" @Throw.throw (_) @Throw.exc) @Throw

[
  (formal_parameters) (arguments) (expression_statement) (else_clause) (finally_clause) (switch_body) (class_body)
  (class_heritage) (variable_declarator) (pair) (import_clause) (named_imports) (export_clause) (jsx_expression)
] @through
