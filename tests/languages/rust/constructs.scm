(function_item) @function
(struct_item) @class
(enum_item) @class
(trait_item) @class
(parameters) @parameters
(closure_parameters) @parameters
(function_item body: (_) @body)
(line_comment) @comment
(block_comment) @comment
(call_expression) @call
(macro_invocation) @call
(arguments) @arguments
(if_expression condition: (_) @condition)
(while_expression condition: (_) @condition)
(for_expression) @loop
(while_expression) @loop
(loop_expression) @loop
(if_expression) @branch
(match_expression) @branch
(match_arm) @branch
(return_expression) @return
(break_expression) @jump
(continue_expression) @jump
(assignment_expression) @assignment
(compound_assignment_expr) @assignment
(let_declaration value: (_)) @assignment
(use_declaration) @import
(closure_expression) @lambda
(index_expression) @subscript
(field_expression) @attribute_access
(string_literal) @string
(integer_literal) @number
(float_literal) @number
(binary_expression) @operator_expression
(unary_expression) @operator_expression
(array_expression) @collection
(ERROR) @error
