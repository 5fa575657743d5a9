(method_declaration name: (identifier) @name body: (_)) @function

(method_declaration name: (identifier) @name !body) @declaration

(constructor_declaration name: (identifier) @name) @function

(compact_constructor_declaration name: (identifier) @name) @function

(annotation_type_element_declaration name: (identifier) @name) @declaration

(class_declaration name: (identifier) @name) @class

(interface_declaration name: (identifier) @name) @class

(enum_declaration name: (identifier) @name) @class

(record_declaration name: (identifier) @name) @class

(annotation_type_declaration name: (identifier) @name) @class

; A constant with a body is an anonymous class; its methods are reached through its name.
(enum_constant name: (identifier) @name body: (class_body)) @scope

(object_creation_expression (class_body) @scope)

(lambda_expression body: (_) @barrier)

((block_comment) @doc . (line_comment)* .
  [(method_declaration body: (_)) (constructor_declaration) (compact_constructor_declaration)] @function)
