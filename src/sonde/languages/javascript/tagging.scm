(import_statement) @import
(lexical_declaration (variable_declarator value: (call_expression function: (identifier) @_f)) (#eq? @_f "require")) @import
(variable_declaration (variable_declarator value: (call_expression function: (identifier) @_f)) (#eq? @_f "require")) @import
