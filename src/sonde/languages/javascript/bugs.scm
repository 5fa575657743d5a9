(string) @string
(template_string) @string
(regex) @string

(binary_expression) @operation
