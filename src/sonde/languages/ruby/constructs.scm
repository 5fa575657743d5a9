; Spans by label; the labels mean the same in every language.

(method) @function
(singleton_method) @function
(class) @class
(module) @class
(singleton_class) @class
(method_parameters) @parameters
(block_parameters) @parameters
(lambda_parameters) @parameters

(body_statement) @body
(block_body) @body
(method "=" body: (_) @body)
(singleton_method "=" body: (_) @body)
(if consequence: (_) @body)
(unless consequence: (_) @body)
(elsif consequence: (_) @body)
(else (_)) @body
(do (_)) @body
(when body: (_) @body)
(in_clause body: (_) @body)
(rescue body: (_) @body)
(ensure (_)) @body
(if_modifier body: (_) @body)
(unless_modifier body: (_) @body)
(while_modifier body: (_) @body)
(until_modifier body: (_) @body)

((comment) @docstring . [(method) (singleton_method)])
(_ (comment) @docstring . (body_statement . [(method) (singleton_method)]))
(comment) @comment

(call) @call
(argument_list) @arguments

(_ condition: (_) @condition)

(while) @loop
(until) @loop
(for) @loop
(while_modifier) @loop
(until_modifier) @loop

(if) @branch
(unless) @branch
(elsif) @branch
(_ alternative: (else) @branch)
(if_modifier) @branch
(unless_modifier) @branch
(conditional) @branch
(case) @branch
(case_match) @branch
(when) @branch
(in_clause) @branch

(return) @return
(yield) @yield
[(break) (next) (redo) (retry)] @jump

; Ruby raises and imports by calls.
((call !receiver method: (identifier)) @raise (#match? @raise "^(raise|fail)\\b"))
((identifier) @raise (#any-of? @raise "raise" "fail"))
((call !receiver method: (identifier)) @import (#match? @import "^(require|require_relative|load|autoload)\\b"))

(begin (rescue)) @exception_handling
(begin (ensure)) @exception_handling
(rescue) @exception_handling
(ensure) @exception_handling
(rescue_modifier) @exception_handling

(assignment) @assignment
(operator_assignment) @assignment

(lambda) @lambda
(block) @lambda
(do_block) @lambda

(element_reference) @subscript
(call receiver: (_) !arguments !block) @attribute_access
(scope_resolution) @attribute_access

[(string) (subshell) (regex) (heredoc_body) (character)] @string
[(integer) (float) (complex) (rational)] @number

(binary) @operator_expression
(unary) @operator_expression

[(array) (hash) (string_array) (symbol_array)] @collection

(ERROR) @error
