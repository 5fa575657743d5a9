(identifier) @name

(string_literal) @string

; Formal arguments, of methods and lambdas inside as well.
(formal_parameter name: (identifier) @defined)
(spread_parameter (variable_declarator name: (identifier) @defined))
(lambda_expression parameters: (identifier) @defined)
(inferred_parameters (identifier) @defined)
(catch_formal_parameter name: (identifier) @defined)

; What is declared and what is assigned to: a declaration without a value is a variable too.
(local_variable_declaration declarator: (variable_declarator name: (identifier) @defined))
(enhanced_for_statement name: (identifier) @defined)
(resource name: (identifier) @defined)
(instanceof_expression name: (identifier) @defined)
(assignment_expression left: (identifier) @written)
(update_expression (identifier) @written)

(method_declaration name: (identifier) @other)
(constructor_declaration name: (identifier) @other)
(class_declaration name: (identifier) @other)
(interface_declaration name: (identifier) @other)
(enum_declaration name: (identifier) @other)
(record_declaration name: (identifier) @other)
(field_declaration declarator: (variable_declarator name: (identifier) @other))
(field_access field: (identifier) @other)
(method_invocation name: (identifier) @other)
(method_reference (_) (identifier) @other)
(labeled_statement . (identifier) @other)
(break_statement (identifier) @other)
(continue_statement (identifier) @other)
(annotation name: (identifier) @other)
(marker_annotation name: (identifier) @other)
(element_value_pair key: (identifier) @other)
(switch_label (identifier) @other)
(scoped_identifier (identifier) @other)

(binary_expression) @operation
