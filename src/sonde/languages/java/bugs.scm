(string_literal) @string

(binary_expression) @operation
