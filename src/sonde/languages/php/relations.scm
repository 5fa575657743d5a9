; Parts of the constructs that are related, and how nodes stand in the tree, see `_relation_query`. A body is a
; statement, or what stands between a colon and its closing word.

(if_statement "if" @If.if condition: (parenthesized_expression (_) @If.test) @through) @If
(if_statement body: (statement) @If.body) @If
(if_statement body: (colon_block (_) @If.body)) @If
(else_if_clause "elseif" @If.if condition: (parenthesized_expression (_) @If.test) @through) @If
(else_if_clause body: (statement) @If.body) @If
(else_if_clause body: (colon_block (_) @If.body)) @If
(if_statement alternative: (else_if_clause "elseif" @If.else) @If.orelse @If.nested) @If
(if_statement alternative: (else_clause "else" @If.else body: (statement) @If.orelse)) @If
(if_statement alternative: (else_clause "else" @If.else body: (colon_block (_) @If.orelse))) @If

(while_statement "while" @While.while condition: (parenthesized_expression (_) @While.test) @through) @While
(while_statement body: (statement) @While.body) @While
(while_statement body: (colon_block (_) @While.body)) @While
(do_statement
  "do" @Do.do body: _ @Do.body condition: (parenthesized_expression (_) @Do.test) @through) @Do

(for_statement "for" @For.for) @For
(for_statement initialize: (_) @For.initializers) @For
(for_statement condition: (_) @For.test) @For
(for_statement update: (_) @For.updaters) @For
(for_statement body: (statement) @For.body) @For
(foreach_statement "foreach" @For.for "(" . (_) @For.iter "as" . (_) @For.target) @For
(foreach_statement body: (statement) @For.body) @For
(foreach_statement body: (colon_block (_) @For.body)) @For

; A match is the switch that gives a value.
(switch_statement "switch" @Switch.switch condition: (parenthesized_expression (_) @Switch.expr) @through) @Switch
(switch_statement body: (switch_block [(case_statement) (default_statement)] @Switch.statement)) @Switch
(match_expression "match" @Switch.switch condition: (parenthesized_expression (_) @Switch.expr) @through) @Switch
(match_expression
  body: (match_block [(match_conditional_expression) (match_default_expression)] @Switch.statement)) @Switch

(try_statement body: (_) @Try.body (catch_clause) @Try.handler) @Try
(try_statement body: (_) @Try.body (finally_clause body: (_) @Try.finalbody)) @Try

(assignment_expression left: (_) @Assign.target right: (_) @Assign.value) @Assign
(reference_assignment_expression left: (_) @Assign.target right: (_) @Assign.value) @Assign
(augmented_assignment_expression left: (_) @AugAssign.target right: (_) @AugAssign.value) @AugAssign

(conditional_expression condition: (_) @IfExp.test alternative: (_) @IfExp.orelse) @IfExp
(conditional_expression body: (_) @IfExp.body) @IfExp
(subscript_expression . (_) @Subscript.value "[" . (_) @Subscript.slice) @Subscript

(function_call_expression function: (_) @Call.func.last) @Call
(member_call_expression name: (_) @Call.func) @Call
(nullsafe_member_call_expression name: (_) @Call.func) @Call
(scoped_call_expression name: (_) @Call.func) @Call
(_ arguments: (arguments (argument !name) @Call.args)) @Call
(_ arguments: (arguments (argument name: (_)) @Call.keywords)) @Call

(member_access_expression object: (_) @Attribute.value name: (_) @Attribute.attr) @Attribute
(nullsafe_member_access_expression object: (_) @Attribute.value name: (_) @Attribute.attr) @Attribute
(member_call_expression object: (_) @Attribute.value name: (_) @Attribute.attr) @Attribute
(nullsafe_member_call_expression object: (_) @Attribute.value name: (_) @Attribute.attr) @Attribute
(scoped_call_expression scope: (_) @Attribute.value name: (_) @Attribute.attr) @Attribute
(scoped_property_access_expression scope: (_) @Attribute.value name: (_) @Attribute.attr) @Attribute
(class_constant_access_expression . (_) @Attribute.value (name) @Attribute.attr .) @Attribute

((binary_expression left: (_) @InfixExpr.left operator: _ @_sign right: (_) @InfixExpr.right) @InfixExpr
  (#not-match? @_sign "^[iI]"))
(binary_expression
  left: (_) @InstanceofExpr.expr operator: "instanceof" right: (_) @InstanceofExpr.type) @InstanceofExpr

(array_creation_expression (array_element_initializer . (_) @Dict.key "=>" (_) @Dict.value) @Dict)

[
  (formal_parameters) (arguments) (expression_statement) (colon_block) (base_clause) (else_clause)
  (class_interface_clause) (declaration_list) (enum_declaration_list) (switch_block) (match_block)
  (match_condition_list) (array_element_initializer) (type_list) (attribute_list) (sequence_expression)
  (anonymous_function_use_clause) (namespace_use_group) (use_list) (finally_clause) (heredoc_body)
] @through
(argument !name) @through
(argument name: (_) @own)
