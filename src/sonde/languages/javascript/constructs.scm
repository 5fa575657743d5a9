; Spans by label; the labels mean the same in every language.

[
  (function_declaration) (generator_function_declaration) (method_definition)
  (function_expression name: (_)) (generator_function name: (_))
] @function
[(class_declaration) (class)] @class
(formal_parameters) @parameters
(arrow_function parameter: (_) @parameters)

[
  (function_declaration body: (_) @body) (generator_function_declaration body: (_) @body)
  (method_definition body: (_) @body) (function_expression body: (_) @body) (generator_function body: (_) @body)
  (arrow_function body: (_) @body) (class_declaration body: (_) @body) (class body: (_) @body)
  (class_static_block body: (_) @body) (for_statement body: (_) @body) (for_in_statement body: (_) @body)
  (while_statement body: (_) @body) (do_statement body: (_) @body) (try_statement body: (_) @body)
  (catch_clause body: (_) @body) (finally_clause body: (_) @body) (if_statement consequence: (_) @body)
  (else_clause (statement_block) @body)
]

((comment) @docstring (#match? @docstring "^/\\*\\*[^/]"))
[(comment) (html_comment)] @comment

[(call_expression) (new_expression)] @call
(arguments) @arguments

[
  (if_statement condition: (_) @condition) (while_statement condition: (_) @condition)
  (do_statement condition: (_) @condition) (for_statement condition: (expression) @condition)
  (ternary_expression condition: (_) @condition)
]

[(for_statement) (for_in_statement) (while_statement) (do_statement)] @loop

[(if_statement) (ternary_expression) (switch_statement) (switch_case) (switch_default)] @branch
(else_clause (statement_block) @branch)

[(try_statement) (catch_clause) (finally_clause)] @exception_handling

(return_statement) @return
(yield_expression) @yield
(throw_statement) @raise
[(break_statement) (continue_statement)] @jump
(using_declaration) @resource

[(assignment_expression) (augmented_assignment_expression) (update_expression)] @assignment
(variable_declarator value: (_)) @assignment
(field_definition value: (_)) @assignment

(import_statement) @import
((call_expression function: [(identifier) (import)]) @import (#match? @import "^(require|import)\\s*\\("))

[(arrow_function) (function_expression !name) (generator_function !name)] @lambda

(subscript_expression) @subscript
(member_expression) @attribute_access

[(string) (template_string) (regex)] @string
(number) @number

[(binary_expression) (unary_expression)] @operator_expression

(decorator) @annotation

[(array) (object)] @collection

(ERROR) @error
