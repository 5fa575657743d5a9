[(string) (encapsed_string) (heredoc) (nowdoc) (shell_command_expression)] @string

(binary_expression) @operation

(catch_clause type: (type_list (named_type (name) @caught)))
(catch_clause type: (type_list (named_type (qualified_name (name) @caught .))))
