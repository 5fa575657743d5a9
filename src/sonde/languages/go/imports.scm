; Each package that a statement imports, with the name that it is given; calls, and composite literals of its types.

(import_declaration (import_spec
  name: [(package_identifier) (dot) (blank_identifier)]? @bound
  path: (_ [(interpreted_string_literal_content) (raw_string_literal_content)] @path))) @import
(import_declaration (import_spec_list (import_spec
  name: [(package_identifier) (dot) (blank_identifier)]? @bound
  path: (_ [(interpreted_string_literal_content) (raw_string_literal_content)] @path)))) @import

(call_expression function: (selector_expression operand: (identifier)) @call)
(composite_literal type: (qualified_type) @literal)
