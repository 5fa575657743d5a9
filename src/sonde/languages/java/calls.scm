(method_invocation !object name: (identifier) @bare arguments: (_) @arguments)

(method_invocation object: (_) name: (identifier) @method arguments: (_) @arguments)

; `new A()` calls A by name; of a qualified type the last name is called.
(object_creation_expression type: (type_identifier) @bare arguments: (_) @arguments)

(object_creation_expression type: (generic_type . (type_identifier) @bare) arguments: (_) @arguments)

(object_creation_expression type: (scoped_type_identifier (type_identifier) @bare .) arguments: (_) @arguments)

(object_creation_expression
  type: (generic_type . (scoped_type_identifier (type_identifier) @bare .)) arguments: (_) @arguments)
