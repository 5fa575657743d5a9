; Parts of the constructs that CodeSyntax relates, and how nodes stand in the tree, see `_relation_query`.

(if_statement
  "if" @If.if condition: (parenthesized_expression (_) @If.test) @through consequence: _ @If.body) @If
(if_statement "else" @If.else alternative: _ @If.orelse) @If
(while_statement
  "while" @While.while condition: (parenthesized_expression (_) @While.test) @through body: _ @While.body) @While
(do_statement
  "do" @Do.do body: _ @Do.body condition: (parenthesized_expression (_) @Do.test) @through) @Do

(for_statement "for" @For.for body: _ @For.body) @For
(for_statement init: (_) @For.initializers) @For
(for_statement condition: (_) @For.test) @For
(for_statement update: (_) @For.updaters) @For
(for_statement init: (local_variable_declaration ";" @outside))

(switch_expression
  "switch" @Switch.switch condition: (parenthesized_expression (_) @Switch.expr) @through
  body: (switch_block [(switch_block_statement_group) (switch_rule)] @Switch.statement)) @Switch

(try_statement body: (_) @Try.body (catch_clause) @Try.handler) @Try
(try_statement body: (_) @Try.body (finally_clause (block) @Try.finalbody)) @Try
(try_with_resources_statement body: (_) @Try.body (catch_clause) @Try.handler) @Try
(try_with_resources_statement body: (_) @Try.body (finally_clause (block) @Try.finalbody)) @Try

(labeled_statement . (identifier) @LabeledStatement.label ":" _ @LabeledStatement.body) @LabeledStatement

(assignment_expression left: (_) @Assign.target right: (_) @Assign.value) @Assign
(ternary_expression
  condition: (_) @IfExp.test consequence: (_) @IfExp.body alternative: (_) @IfExp.orelse) @IfExp
(array_access array: (_) @Subscript.value index: (_) @Subscript.slice) @Subscript
(instanceof_expression left: (_) @InstanceofExpr.expr right: (_) @InstanceofExpr.type) @InstanceofExpr
(instanceof_expression left: (_) @InstanceofExpr.expr pattern: (_) @InstanceofExpr.type) @InstanceofExpr

(method_invocation name: (_) @Call.func) @Call
(method_invocation arguments: (argument_list (expression) @Call.args)) @Call
(method_invocation object: (_) @Attribute.value name: (_) @Attribute.attr) @Attribute
(method_invocation (super)) @other

; `a + b + c` is one construct of three operands, of which the first two are related.
(binary_expression left: (_) @InfixExpr.left right: (_) @InfixExpr.right) @InfixExpr
((binary_expression
  left: (binary_expression
    operator: _ @_first
    right: [(primary_expression) (unary_expression) (cast_expression) (update_expression)])
  operator: _ @_second) @other
  (#eq? @_first @_second)
  (#not-eq? @_second "==")
  (#not-eq? @_second "!="))

[
  (modifiers) (formal_parameters) (inferred_parameters) (argument_list) (type_arguments) (type_parameters)
  (type_bound) (throws) (superclass) (super_interfaces) (extends_interfaces) (type_list) (permits)
  (interface_body) (annotation_type_body) (enum_body) (enum_body_declarations) (annotation_argument_list)
  (switch_block) (switch_rule) (switch_block_statement_group) (finally_clause) (resource_specification)
  (record_pattern_body) (pattern) (guard) (dimensions_expr)
] @through
(class_declaration body: (class_body) @through)
(record_declaration body: (class_body) @through)
(synchronized_statement (parenthesized_expression) @through)
(switch_expression condition: (parenthesized_expression) @through)
(spread_parameter (variable_declarator) @through)
(catch_type . (_) .) @through

; What a loop over a collection declares, the type of an array with its sizes, a label with its sign.
(enhanced_for_statement (modifiers)? @together type: (_) @together name: (_) @together)
(array_creation_expression
  type: (_) @together dimensions: [(dimensions_expr "]" @together) (dimensions "]" @together)])
(switch_block_statement_group (switch_label) @together . ":" @together)
(switch_rule (switch_label) @together . "->" @together)
(resource name: (_) @together value: (_) @together)

; Modifiers behind the first one.
(modifiers . _ @children.parent [
  "public" "protected" "private" "abstract" "static" "final" "strictfp" "default" "synchronized" "native"
  "transient" "volatile" "sealed" "non-sealed"
] @children.child @children)

(super) @own
(dimensions) @own
(receiver_parameter) @own
(field_access field: (this) @own)
(explicit_constructor_invocation constructor: (_) @own)
