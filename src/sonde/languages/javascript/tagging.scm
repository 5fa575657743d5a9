(import_statement) @import
((_ (variable_declarator value: (call_expression function: (identifier) @_called))) @import
  (#eq? @_called "require"))
