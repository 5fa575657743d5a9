; A function is what has a name: declarations, methods of classes and objects, and functions that a name or a property
; is given. Functions without a name are often whole modules, so what stands in one is no less a function of the file.

[(function_declaration name: (_) @name) (generator_function_declaration name: (_) @name)] @function
(method_definition
  name: [(property_identifier) (private_property_identifier) (number) (computed_property_name)] @name) @function
(method_definition name: (string (string_fragment) @name)) @function
(method_definition (decorator)) @function @span

; Variables, fields and properties; a function that has a name itself takes that. Brackets
; around one change nothing.
(variable_declarator
  name: (identifier) @name value: [(function_expression !name) (generator_function !name) (arrow_function)
    (parenthesized_expression [(function_expression !name) (generator_function !name) (arrow_function)])]) @function
(field_definition
  property: [(property_identifier) (private_property_identifier) (number) (computed_property_name)] @name
  value: [(function_expression !name) (generator_function !name) (arrow_function)
    (parenthesized_expression [(function_expression !name) (generator_function !name) (arrow_function)])]) @function
(pair
  key: [(property_identifier) (number) (computed_property_name)] @name
  value: [(function_expression !name) (generator_function !name) (arrow_function)
    (parenthesized_expression [(function_expression !name) (generator_function !name) (arrow_function)])]) @function
(_
  [property: (string (string_fragment) @name) key: (string (string_fragment) @name)]
  value: [(function_expression !name) (generator_function !name) (arrow_function)
    (parenthesized_expression [(function_expression !name) (generator_function !name) (arrow_function)])]) @function
(_ value: [
  [(function_expression name: (_) @name) (generator_function name: (_) @name)]
  (parenthesized_expression [(function_expression name: (_) @name) (generator_function name: (_) @name)])
]) @function
(_ . ["var" "let" "const"] . (variable_declarator
  name: (identifier) value: [(function_expression) (generator_function) (arrow_function)
    (parenthesized_expression [(function_expression) (generator_function) (arrow_function)])]) @function) @span
(assignment_expression
  left: [(identifier) @name (member_expression property: _ @name)]
  right: [(function_expression !name) (generator_function !name) (arrow_function)
    (parenthesized_expression [(function_expression !name) (generator_function !name) (arrow_function)])]) @function
(assignment_expression
  left: [(identifier) (member_expression)]
  right: [
    [(function_expression name: (_) @name) (generator_function name: (_) @name)]
    (parenthesized_expression [(function_expression name: (_) @name) (generator_function name: (_) @name)])
  ]) @function
; A property, taken out of its object.
(labeled_statement
  label: (_) @name
  body: (expression_statement [(function_expression) (generator_function) (arrow_function)])) @function

[(class_declaration name: (_) @name) (class name: (_) @name)] @class
(variable_declarator name: (identifier) @name value: (class !name) @class)

; What a property or an object belongs to.
((assignment_expression
  left: (member_expression object: _ @name) @_left
  right: [(function_expression) (generator_function) (arrow_function)
    (parenthesized_expression [(function_expression) (generator_function) (arrow_function)])]) @scope
  (#match? @name "^[A-Za-z0-9_$.]+$") (#not-eq? @_left "module.exports"))
(object) @scope
(variable_declarator name: (identifier) @name value: (object) @scope)
(pair key: (property_identifier) @name value: (object) @scope)
((assignment_expression left: [(identifier) (member_expression)] @name right: (object) @scope)
  (#match? @name "^[A-Za-z0-9_$.]+$") (#not-eq? @name "module.exports"))

; Comments above, which may stand before the statement that the function is part of.
((comment)+ @doc.lines . [(function_declaration) (generator_function_declaration) (method_definition)] @function)
((comment)+ @doc.lines . [
  (field_definition value: [(function_expression) (generator_function) (arrow_function)
    (parenthesized_expression [(function_expression) (generator_function) (arrow_function)])])
  (pair value: [(function_expression) (generator_function) (arrow_function)
    (parenthesized_expression [(function_expression) (generator_function) (arrow_function)])])
] @function)
((comment)+ @doc.lines . (_ . ["var" "let" "const"] . (variable_declarator
  name: (identifier) value: [(function_expression) (generator_function) (arrow_function)
    (parenthesized_expression [(function_expression) (generator_function) (arrow_function)])]) @function))
((comment)+ @doc.lines . (export_statement declaration: [
  [(function_declaration) (generator_function_declaration)] @function
  (_ . ["var" "let" "const"] . (variable_declarator
    name: (identifier) value: [(function_expression) (generator_function) (arrow_function)
    (parenthesized_expression [(function_expression) (generator_function) (arrow_function)])]) @function)
]))
((comment)+ @doc.lines . (expression_statement (assignment_expression
  left: [(identifier) (member_expression)]
  right: [(function_expression) (generator_function) (arrow_function)
    (parenthesized_expression [(function_expression) (generator_function) (arrow_function)])]) @function))
