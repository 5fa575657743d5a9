; Spans by label; the labels mean the same in every language.

(function_definition) @function
(class_definition) @class
(parameters) @parameters
(lambda_parameters) @parameters

(function_definition body: (_) @body)
(class_definition body: (_) @body)
(for_statement body: (_) @body)
(while_statement body: (_) @body)
(with_statement body: (_) @body)
(try_statement body: (_) @body)
(except_clause (block) @body)
(finally_clause (block) @body)
(if_statement consequence: (_) @body)
(elif_clause consequence: (_) @body)
(else_clause body: (_) @body)
(case_clause consequence: (_) @body)

((module . (comment)* . (expression_statement . (string) @docstring .)) (#not-match? @docstring "^[a-zA-Z]*[bBfF]"))
(function_definition
  body: (block . (expression_statement . (string) @docstring .))
  (#not-match? @docstring "^[a-zA-Z]*[bBfF]"))
(class_definition
  body: (block . (expression_statement . (string) @docstring .))
  (#not-match? @docstring "^[a-zA-Z]*[bBfF]"))

(comment) @comment

(call) @call
(call arguments: (_) @arguments)

(if_statement condition: (_) @condition)
(elif_clause condition: (_) @condition)
(while_statement condition: (_) @condition)
(conditional_expression (_) . "if" . (_) @condition)
(if_clause (_) @condition)

(for_statement) @loop
(while_statement) @loop

(if_statement) @branch
(elif_clause) @branch
(if_statement (else_clause) @branch)
(conditional_expression) @branch
(match_statement) @branch
(case_clause) @branch

(try_statement) @exception_handling
(except_clause) @exception_handling
(finally_clause) @exception_handling

(return_statement) @return
(yield) @yield
(raise_statement) @raise
(assert_statement) @assertion
(break_statement) @jump
(continue_statement) @jump

(assignment) @assignment
(augmented_assignment) @assignment
(named_expression) @assignment

(import_statement) @import
(import_from_statement) @import
(future_import_statement) @import

(with_statement) @resource

(list_comprehension) @comprehension
(set_comprehension) @comprehension
(dictionary_comprehension) @comprehension
(generator_expression) @comprehension
(lambda) @lambda

(subscript) @subscript
(attribute) @attribute_access

(string) @string
(integer) @number
(float) @number

(binary_operator) @operator_expression
(boolean_operator) @operator_expression
(comparison_operator) @operator_expression
(not_operator) @operator_expression
(unary_operator) @operator_expression

(decorator) @annotation
(type) @type

(list) @collection
(set) @collection
(dictionary) @collection
(tuple) @collection

(ERROR) @error
