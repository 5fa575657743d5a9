; Spans by label; the labels mean the same in every language.

[(function_definition) (method_declaration)] @function
[(class_declaration) (interface_declaration) (trait_declaration) (enum_declaration) (anonymous_class)] @class
(formal_parameters) @parameters

(_ body: [(compound_statement) (colon_block) (declaration_list) (enum_declaration_list)] @body)
([
  (while_statement body: (_) @body) (foreach_statement body: (_) @body) (for_statement body: (_) @body)
  (do_statement body: (_) @body) (if_statement body: (_) @body) (else_if_clause body: (_) @body)
  (else_clause body: (_) @body)
])

((comment) @docstring (#match? @docstring "^/\\*\\*[^/]"))
(comment) @comment
(attribute_group) @annotation

[
  (function_call_expression) (member_call_expression) (nullsafe_member_call_expression) (scoped_call_expression)
  (object_creation_expression)
] @call
(arguments) @arguments

([
  (if_statement condition: (_) @condition) (else_if_clause condition: (_) @condition)
  (while_statement condition: (_) @condition) (do_statement condition: (_) @condition)
  (for_statement condition: (_) @condition) (conditional_expression condition: (_) @condition)
])

[(for_statement) (foreach_statement) (while_statement) (do_statement)] @loop

[
  (if_statement) (else_if_clause) (else_clause) (conditional_expression) (switch_statement) (case_statement)
  (default_statement) (match_expression) (match_conditional_expression) (match_default_expression)
] @branch

[(try_statement) (catch_clause) (finally_clause)] @exception_handling

(return_statement) @return
(yield_expression) @yield
(throw_expression) @raise
[(break_statement) (continue_statement) (goto_statement) (exit_statement)] @jump
((function_call_expression function: (name)) @assertion (#match? @assertion "^assert\\s*\\("))

[
  (assignment_expression) (reference_assignment_expression) (augmented_assignment_expression) (update_expression)
  (static_variable_declaration value: (_))
] @assignment

[
  (namespace_use_declaration) (include_expression) (include_once_expression) (require_expression)
  (require_once_expression)
] @import

[(anonymous_function) (arrow_function)] @lambda

(subscript_expression) @subscript
[
  (member_access_expression) (nullsafe_member_access_expression) (scoped_property_access_expression)
  (class_constant_access_expression)
] @attribute_access

[(string) (encapsed_string) (heredoc) (nowdoc)] @string
[(integer) (float)] @number
[(binary_expression) (unary_op_expression)] @operator_expression

[
  (primitive_type) (named_type) (optional_type) (union_type) (intersection_type) (disjunctive_normal_form_type)
  (bottom_type) (cast_type)
] @type

(array_creation_expression) @collection

(ERROR) @error
