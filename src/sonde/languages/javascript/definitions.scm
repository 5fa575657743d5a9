; A function is what has a name: declarations, methods of classes and objects, and functions that a name or a property
; is given. Functions without a name are often whole modules, so what stands in one is no less a function of the file.

(function_declaration name: (identifier) @name) @function
(generator_function_declaration name: (identifier) @name) @function

(method_definition name: [(property_identifier) (private_property_identifier) (number) (computed_property_name)] @name) @function
(method_definition name: (string (string_fragment) @name)) @function
(method_definition (decorator)) @function @span

(variable_declarator
  name: (identifier) @name value: [(function_expression !name) (generator_function !name) (arrow_function)]) @function
(variable_declarator
  name: (identifier) value: [(function_expression name: (_) @name) (generator_function name: (_) @name)]) @function
(lexical_declaration
  . _ . (variable_declarator
    name: (identifier) value: [(function_expression) (generator_function) (arrow_function)]) @function) @span
(variable_declaration
  . _ . (variable_declarator
    name: (identifier) value: [(function_expression) (generator_function) (arrow_function)]) @function) @span

(field_definition
  property: [
    (property_identifier) @name (private_property_identifier) @name (number) @name (computed_property_name) @name
    (string (string_fragment) @name)
  ]
  value: [(function_expression !name) (generator_function !name) (arrow_function)]) @function
(field_definition
  value: [(function_expression name: (_) @name) (generator_function name: (_) @name)]) @function

(pair
  key: [
    (property_identifier) @name (number) @name (computed_property_name) @name (string (string_fragment) @name)
  ]
  value: [(function_expression !name) (generator_function !name) (arrow_function)]) @function
(pair value: [(function_expression name: (_) @name) (generator_function name: (_) @name)]) @function
; The same, taken out of its object.
(labeled_statement
  label: (_) @name
  body: (expression_statement [(function_expression) (generator_function) (arrow_function)])) @function

; A property takes the name that the function has itself.
(assignment_expression
  left: [(identifier) @name (member_expression property: [(property_identifier) (private_property_identifier)] @name)]
  right: [(function_expression !name) (generator_function !name) (arrow_function)]) @function
(assignment_expression
  left: [(identifier) (member_expression)]
  right: [(function_expression name: (_) @name) (generator_function name: (_) @name)]) @function

(class_declaration name: (identifier) @name) @class
(class name: (identifier) @name) @class
(variable_declarator name: (identifier) @name value: (class !name) @class)
(assignment_expression
  left: [(identifier) @name (member_expression property: (property_identifier) @name)] right: (class !name) @class)

; What a property or an object belongs to.
((assignment_expression
  left: (member_expression object: _ @name) @_left
  right: [(function_expression) (generator_function) (arrow_function)]) @scope
  (#match? @name "^[A-Za-z0-9_$.]+$") (#not-eq? @_left "module.exports"))
(object) @scope
(variable_declarator name: (identifier) @name value: (object) @scope)
(pair key: (property_identifier) @name value: (object) @scope)
((assignment_expression left: [(identifier) (member_expression)] @name right: (object) @scope)
  (#match? @name "^[A-Za-z0-9_$.]+$") (#not-eq? @name "module.exports"))

; Comments above, which may stand before the statement that the function is part of.
((comment)+ @doc.lines . [(function_declaration) (generator_function_declaration) (method_definition)] @function)
((comment)+ @doc.lines . [
  (field_definition value: [(function_expression) (generator_function) (arrow_function)])
  (pair value: [(function_expression) (generator_function) (arrow_function)])
] @function)
((comment)+ @doc.lines . (export_statement
  declaration: [(function_declaration) (generator_function_declaration)] @function))
((comment)+ @doc.lines . (_ . _ . (variable_declarator
  name: (identifier) value: [(function_expression) (generator_function) (arrow_function)]) @function))
((comment)+ @doc.lines . (export_statement declaration: (_ . _ . (variable_declarator
  name: (identifier) value: [(function_expression) (generator_function) (arrow_function)]) @function)))
((comment)+ @doc.lines . (expression_statement (assignment_expression
  left: [(identifier) (member_expression)] right: [(function_expression) (generator_function) (arrow_function)]) @function))
