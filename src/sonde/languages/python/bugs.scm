(string) @string

(binary_operator) @operation
(boolean_operator) @operation
(comparison_operator) @operation

(except_clause value: (identifier) @caught)
(except_clause value: (tuple (identifier) @caught))
(except_clause value: (as_pattern . (identifier) @caught))
(except_clause value: (as_pattern . (tuple (identifier) @caught)))

(function_definition
  body: (block . (expression_statement . [(string) (concatenated_string)] .) @documentation))
