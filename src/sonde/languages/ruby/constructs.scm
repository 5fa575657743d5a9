; Spans by label; the labels mean the same in every language.

[(method) (singleton_method)] @function
[(class) (module) (singleton_class)] @class
[(method_parameters) (block_parameters) (lambda_parameters)] @parameters

[(body_statement) (block_body)] @body
(method "=" body: (_) @body)
(singleton_method "=" body: (_) @body)
[(if consequence: (_) @body) (unless consequence: (_) @body) (elsif consequence: (_) @body)]
[(else (_)) (do (_)) (ensure (_))] @body
[(when body: (_) @body) (in_clause body: (_) @body) (rescue body: (_) @body)]
[(if_modifier body: (_) @body) (unless_modifier body: (_) @body)]
[(while_modifier body: (_) @body) (until_modifier body: (_) @body)]

((comment) @docstring . [(method) (singleton_method)])
(_ (comment) @docstring . (body_statement . [(method) (singleton_method)]))
(comment) @comment

(call) @call
(argument_list) @arguments

(_ condition: (_) @condition)

[(while) (until) (for) (while_modifier) (until_modifier)] @loop

[(if) (unless) (elsif) (if_modifier) (unless_modifier) (conditional)] @branch
(_ alternative: (else) @branch)
[(case) (case_match) (when) (in_clause)] @branch

(return) @return
(yield) @yield
[(break) (next) (redo) (retry)] @jump

; Ruby raises and imports by calls.
((call !receiver method: (identifier)) @raise (#match? @raise "^(raise|fail)\\b"))
((identifier) @raise (#any-of? @raise "raise" "fail"))
((call !receiver method: (identifier)) @import (#match? @import "^(require|require_relative|load|autoload)\\b"))

(begin (rescue)) @exception_handling
(begin (ensure)) @exception_handling
[(rescue) (ensure) (rescue_modifier)] @exception_handling

[(assignment) (operator_assignment)] @assignment

[(lambda) (block) (do_block)] @lambda

(element_reference) @subscript
(call receiver: (_) !arguments !block) @attribute_access
(scope_resolution) @attribute_access

[(string) (subshell) (regex) (heredoc_body) (character)] @string
[(integer) (float) (complex) (rational)] @number

[(binary) (unary)] @operator_expression

[(array) (hash) (string_array) (symbol_array)] @collection

(ERROR) @error
