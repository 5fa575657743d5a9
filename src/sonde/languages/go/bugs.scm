(interpreted_string_literal) @string
(raw_string_literal) @string

(binary_expression) @operation
