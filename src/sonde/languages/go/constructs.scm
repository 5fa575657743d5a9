; Spans by label; the labels mean the same in every language.

(function_declaration) @function
(method_declaration) @function
(type_spec type: (struct_type)) @class
(type_spec type: (interface_type)) @class
(function_declaration parameters: (_) @parameters)
(method_declaration parameters: (_) @parameters)
(func_literal parameters: (_) @parameters)

(function_declaration body: (_) @body)
(method_declaration body: (_) @body)
(func_literal body: (_) @body)
(for_statement body: (_) @body)
(if_statement consequence: (_) @body)
(if_statement alternative: (block) @body)
(type_spec type: (struct_type (field_declaration_list) @body))

((comment) @docstring . [(function_declaration) (method_declaration)])
(comment) @comment

(call_expression) @call
(type_conversion_expression) @call
(argument_list) @arguments

(if_statement condition: (_) @condition)
(for_clause condition: (_) @condition)
(for_statement . (_expression) @condition)

(for_statement) @loop

(if_statement) @branch
(if_statement alternative: (block) @branch)
(expression_switch_statement) @branch
(type_switch_statement) @branch
(select_statement) @branch
(expression_case) @branch
(type_case) @branch
(communication_case) @branch
(default_case) @branch

(return_statement) @return
(break_statement) @jump
(continue_statement) @jump
(goto_statement) @jump
(fallthrough_statement) @jump
(defer_statement) @resource

; Go raises by a call.
((call_expression function: (identifier)) @raise (#match? @raise "^panic\\("))

(assignment_statement) @assignment
(short_var_declaration) @assignment
(inc_statement) @assignment
(dec_statement) @assignment
(var_spec value: (_)) @assignment
(const_spec value: (_)) @assignment

(import_declaration) @import

(func_literal) @lambda

(index_expression) @subscript
(slice_expression) @subscript
(selector_expression) @attribute_access

(interpreted_string_literal) @string
(raw_string_literal) @string
(int_literal) @number
(float_literal) @number
(imaginary_literal) @number

(binary_expression) @operator_expression
(unary_expression) @operator_expression

[
  (type_identifier) (generic_type) (qualified_type) (pointer_type) (array_type) (slice_type) (map_type)
  (channel_type) (function_type) (struct_type) (interface_type) (implicit_length_array_type)
] @type

(composite_literal) @collection

(ERROR) @error
