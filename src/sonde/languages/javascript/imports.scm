; What imports bind, a match a name: @bound, the module, and the @member that it stands for; and calls.

(import_statement
  (import_clause [
    (identifier) @bound
    (namespace_import (identifier) @bound)
    (named_imports (import_specifier name: (identifier) @member @bound !alias))
    (named_imports (import_specifier name: (identifier) @member alias: (identifier) @bound))
  ])
  source: (string (string_fragment) @module)) @import
((variable_declarator
  name: [
    (identifier) @bound
    (object_pattern (shorthand_property_identifier_pattern) @bound @member)
    (object_pattern (pair_pattern key: (_) @member value: (identifier) @bound))
  ]
  value: (call_expression
    function: (identifier) @_called arguments: (arguments . (string (string_fragment) @module)))) @import
  (#eq? @_called "require"))
((variable_declarator
  name: (identifier) @bound
  value: (member_expression
    object: (call_expression
      function: (identifier) @_called arguments: (arguments . (string (string_fragment) @module)))
    property: (_) @member)) @import
  (#eq? @_called "require"))

(call_expression function: [(identifier) (member_expression)] @call arguments: (arguments))
(new_expression constructor: [(identifier) (member_expression)] @new)
