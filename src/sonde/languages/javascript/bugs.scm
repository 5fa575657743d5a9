[(string) (template_string) (regex)] @string

(binary_expression) @operation
