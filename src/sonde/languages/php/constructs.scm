; Spans by label; the labels mean the same in every language.

(function_definition) @function
(method_declaration) @function
(class_declaration) @class
(interface_declaration) @class
(trait_declaration) @class
(enum_declaration) @class
(anonymous_class) @class
(formal_parameters) @parameters

(_ body: (compound_statement) @body)
(_ body: (colon_block) @body)
(_ body: (declaration_list) @body)
(_ body: (enum_declaration_list) @body)
(while_statement body: (_) @body)
(foreach_statement body: (_) @body)
(for_statement body: (_) @body)
(do_statement body: (_) @body)
(if_statement body: (_) @body)
(else_if_clause body: (_) @body)
(else_clause body: (_) @body)

((comment) @docstring (#match? @docstring "^/\\*\\*[^/]"))

(comment) @comment

(attribute_group) @annotation

(function_call_expression) @call
(member_call_expression) @call
(nullsafe_member_call_expression) @call
(scoped_call_expression) @call
(object_creation_expression) @call
(arguments) @arguments

(if_statement condition: (_) @condition)
(else_if_clause condition: (_) @condition)
(while_statement condition: (_) @condition)
(do_statement condition: (_) @condition)
(for_statement condition: (_) @condition)
(conditional_expression condition: (_) @condition)

(for_statement) @loop
(foreach_statement) @loop
(while_statement) @loop
(do_statement) @loop

(if_statement) @branch
(else_if_clause) @branch
(else_clause) @branch
(conditional_expression) @branch
(switch_statement) @branch
(case_statement) @branch
(default_statement) @branch
(match_expression) @branch
(match_conditional_expression) @branch
(match_default_expression) @branch

(try_statement) @exception_handling
(catch_clause) @exception_handling
(finally_clause) @exception_handling

(return_statement) @return
(yield_expression) @yield
(throw_expression) @raise
(break_statement) @jump
(continue_statement) @jump
(goto_statement) @jump
(exit_statement) @jump

((function_call_expression function: (name)) @assertion (#match? @assertion "^assert\\s*\\("))

(assignment_expression) @assignment
(reference_assignment_expression) @assignment
(augmented_assignment_expression) @assignment
(update_expression) @assignment
(static_variable_declaration value: (_)) @assignment

(namespace_use_declaration) @import
(include_expression) @import
(include_once_expression) @import
(require_expression) @import
(require_once_expression) @import

(anonymous_function) @lambda
(arrow_function) @lambda

(subscript_expression) @subscript
(member_access_expression) @attribute_access
(nullsafe_member_access_expression) @attribute_access
(scoped_property_access_expression) @attribute_access
(class_constant_access_expression) @attribute_access

[(string) (encapsed_string) (heredoc) (nowdoc)] @string
[(integer) (float)] @number

(binary_expression) @operator_expression
(unary_op_expression) @operator_expression

[
  (primitive_type) (named_type) (optional_type) (union_type) (intersection_type) (disjunctive_normal_form_type)
  (bottom_type) (cast_type)
] @type

(array_creation_expression) @collection

(ERROR) @error
