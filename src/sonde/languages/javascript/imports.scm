; Imports and calls; see imports.py for what each capture means.

(import_statement) @import
((variable_declarator value: [
    (call_expression function: (identifier) @_called)
    (member_expression object: (call_expression function: (identifier) @_called))
  ]) @import
  (#eq? @_called "require"))

(call_expression function: [(identifier) (member_expression)] @call arguments: (arguments))
(new_expression constructor: [(identifier) (member_expression)] @new)
