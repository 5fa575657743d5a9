; Spans by label; the labels mean the same in every language.

(method_declaration) @function
(constructor_declaration) @function
(compact_constructor_declaration) @function
(class_declaration) @class
(interface_declaration) @class
(enum_declaration) @class
(record_declaration) @class
(annotation_type_declaration) @class
(formal_parameters) @parameters
(inferred_parameters) @parameters

(method_declaration body: (_) @body)
(constructor_declaration body: (_) @body)
(compact_constructor_declaration body: (_) @body)
(class_declaration body: (_) @body)
(interface_declaration body: (_) @body)
(enum_declaration body: (_) @body)
(record_declaration body: (_) @body)
(annotation_type_declaration body: (_) @body)
(for_statement body: (_) @body)
(enhanced_for_statement body: (_) @body)
(while_statement body: (_) @body)
(do_statement body: (_) @body)
(try_statement body: (_) @body)
(try_with_resources_statement body: (_) @body)
(catch_clause body: (_) @body)
(finally_clause (block) @body)
(if_statement consequence: (_) @body)
(if_statement alternative: (block) @body)

((block_comment) @docstring (#match? @docstring "^/\\*\\*[^/]"))

(line_comment) @comment
(block_comment) @comment

(method_invocation) @call
(object_creation_expression) @call
(explicit_constructor_invocation) @call
(argument_list) @arguments

(if_statement condition: (_) @condition)
(while_statement condition: (_) @condition)
(do_statement condition: (_) @condition)
(for_statement condition: (_) @condition)
(ternary_expression condition: (_) @condition)

(for_statement) @loop
(enhanced_for_statement) @loop
(while_statement) @loop
(do_statement) @loop

(if_statement) @branch
(if_statement alternative: (block) @branch)
(ternary_expression) @branch
(switch_expression) @branch
(switch_block_statement_group) @branch
(switch_rule) @branch

(try_statement) @exception_handling
(try_with_resources_statement) @exception_handling
(catch_clause) @exception_handling
(finally_clause) @exception_handling

(return_statement) @return
(yield_statement) @yield
(throw_statement) @raise
(assert_statement) @assertion
(break_statement) @jump
(continue_statement) @jump

(assignment_expression) @assignment
(update_expression) @assignment
(variable_declarator value: (_)) @assignment

(import_declaration) @import

(try_with_resources_statement) @resource

(lambda_expression) @lambda

(array_access) @subscript
(field_access) @attribute_access

(string_literal) @string
(decimal_integer_literal) @number
(hex_integer_literal) @number
(octal_integer_literal) @number
(binary_integer_literal) @number
(decimal_floating_point_literal) @number
(hex_floating_point_literal) @number

(binary_expression) @operator_expression
(unary_expression) @operator_expression
(instanceof_expression) @operator_expression

(marker_annotation) @annotation
(annotation) @annotation

[
  (type_identifier) (generic_type) (array_type) (scoped_type_identifier) (annotated_type)
  (integral_type) (floating_point_type) (boolean_type) (void_type)
] @type

(array_initializer) @collection

(ERROR) @error
