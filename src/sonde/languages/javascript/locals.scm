; What binds a name, where it is seen, and what refers; see `sonde.languages.engine.names` for the captures. A `var` belongs
; to the nearest function and to no block: blocks are scopes that such a definition passes, as an assignment
; expression of Python passes a comprehension.

[
  (function_declaration) (generator_function_declaration) (function_expression) (generator_function)
  (arrow_function) (method_definition) (class_static_block)
] @local.scope.function
[
  (statement_block) (for_statement) (for_in_statement) (catch_clause) (switch_body) (class)
] @local.scope.comprehension

; The name of a declaration belongs to the scope around it, that of an expression is seen in it alone.
(function_declaration name: (identifier) @local.outside)
(generator_function_declaration name: (identifier) @local.outside)

; `let`, `const` and `using`, and the names in patterns.
(_ ["let" "const" "using"] (variable_declarator name: (identifier) @local.definition.variable))
(for_in_statement kind: _ left: (identifier) @local.definition.variable)
(catch_clause parameter: (identifier) @local.definition.variable)
(array_pattern (identifier) @local.definition.variable)
(shorthand_property_identifier_pattern) @local.definition.variable
(assignment_pattern left: (identifier) @local.definition.variable)
(pair_pattern value: (identifier) @local.definition.variable)
(rest_pattern (identifier) @local.definition.variable)

; `var`; of a pattern inside a pattern the names are taken for those of `let`, as for parameters.
(variable_declaration (variable_declarator name: (identifier) @local.definition.expression))
(variable_declaration (variable_declarator name: (_ [
  [(identifier) (shorthand_property_identifier_pattern)] @local.definition.expression
  (_ left: [(identifier) (shorthand_property_identifier_pattern)] @local.definition.expression)
  (pair_pattern value: (identifier) @local.definition.expression)
  (rest_pattern (identifier) @local.definition.expression)
])))
(for_in_statement kind: "var" left: (identifier) @local.definition.expression)

(arrow_function parameter: (identifier) @local.definition.parameter)
(formal_parameters [
  (identifier) @local.definition.parameter
  (assignment_pattern left: (identifier) @local.definition.parameter)
  (rest_pattern (identifier) @local.definition.parameter)
])
(formal_parameters [
  (array_pattern (identifier) @local.definition.parameter)
  (object_pattern [
    (shorthand_property_identifier_pattern) @local.definition.parameter
    (object_assignment_pattern left: (_) @local.definition.parameter)
    (pair_pattern value: [
      (identifier) @local.definition.parameter
      (assignment_pattern left: (identifier) @local.definition.parameter)
    ])
    (rest_pattern (identifier) @local.definition.parameter)
  ])
  (assignment_pattern left: (object_pattern [
    (shorthand_property_identifier_pattern) @local.definition.parameter
    (object_assignment_pattern left: (_) @local.definition.parameter)
    (pair_pattern value: (identifier) @local.definition.parameter)
    (rest_pattern (identifier) @local.definition.parameter)
  ]))
])

; What a pattern assigns is there already.
(assignment_expression left: [
  (array_pattern (identifier) @local.definition.again)
  (object_pattern (shorthand_property_identifier_pattern) @local.definition.again)
])

(assignment_expression left: (identifier) @local.written)
(augmented_assignment_expression left: (identifier) @local.written)
(update_expression argument: (identifier) @local.written)
(for_in_statement !kind left: (identifier) @local.written)

(_ name: (identifier) @local.definition.function parameters: (_))
(variable_declarator
  name: (identifier) @local.definition.function
  value: [(function_expression) (generator_function) (arrow_function)
    (parenthesized_expression [(function_expression) (generator_function) (arrow_function)])])
(_ name: (identifier) @local.definition.type body: (class_body))
(import_clause (identifier) @local.definition.constant)
(namespace_import (identifier) @local.definition.constant)
(import_specifier name: (identifier) @local.definition.constant !alias)
(import_specifier alias: (identifier) @local.definition.constant)

(identifier) @local.reference
; Another name in these would be another property, and a tag is written twice.
(shorthand_property_identifier) @local.reference @local.reference.fixed
(shorthand_property_identifier_pattern) @local.reference @local.reference.fixed
(jsx_element (_ name: (identifier) @local.reference.fixed))
(jsx_self_closing_element name: (identifier) @local.reference.fixed)

; Identifiers that are no variables.
(import_specifier name: (identifier) @local.member alias: (_))
(export_specifier alias: (identifier) @local.member)
((identifier) @local.member (#eq? @local.member "arguments"))
((jsx_element (_ name: (identifier) @local.member)) (#match? @local.member "^[a-z]"))
((jsx_self_closing_element name: (identifier) @local.member) (#match? @local.member "^[a-z]"))
