(function_declaration name: (identifier) @name body: (_)) @function

(function_declaration name: (identifier) @name !body) @declaration

(method_declaration name: (field_identifier) @name body: (_)) @function

(method_declaration name: (field_identifier) @name !body) @declaration

(method_elem name: (field_identifier) @name) @declaration

(type_spec name: (type_identifier) @name) @class

(type_alias name: (type_identifier) @name) @class

; A method stands outside of its type: the type of its receiver is what it belongs to.
(method_declaration receiver: (parameter_list (parameter_declaration type: [
  (type_identifier) @name
  (generic_type type: (type_identifier) @name)
  (pointer_type [(type_identifier) @name (generic_type type: (type_identifier) @name)])
  (parenthesized_type (pointer_type (type_identifier) @name))
]))) @scope

(func_literal) @barrier

((comment)+ @doc.lines . [(function_declaration) (method_declaration)] @function)
