(function_definition name: (name) @name) @function

(method_declaration name: (name) @name body: (_)) @function

(method_declaration name: (name) @name !body) @declaration

(class_declaration name: (name) @name) @class

(interface_declaration name: (name) @name) @class

(trait_declaration name: (name) @name) @class

(enum_declaration name: (name) @name) @class

(anonymous_class) @scope

(anonymous_function) @barrier

(arrow_function) @barrier

((comment) @doc . (comment)* . [(function_definition) (method_declaration body: (_))] @function
  (#match? @doc "^/\\*\\*"))
