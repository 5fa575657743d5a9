; Definitions, and the messages that say that one is deprecated; see deprecations.py.

(function_definition) @definition
(class_definition) @definition
(call function: [(identifier) (attribute)]) @call
(raise_statement (call) @raised)
(decorator (call) @decorated)
(assignment left: (identifier) right: [(string) (concatenated_string) (parenthesized_expression)]) @assigned
