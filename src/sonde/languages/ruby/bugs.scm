[(string) (subshell) (regex) (string_array) (symbol_array) (delimited_symbol) (heredoc_body)] @string

(binary) @operation
