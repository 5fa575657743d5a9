(function_item name: (identifier) @name) @function
(function_signature_item name: (identifier) @name) @declaration
(struct_item name: (type_identifier) @name) @class
(enum_item name: (type_identifier) @name) @class
(trait_item name: (type_identifier) @name) @class
(impl_item type: (type_identifier) @name) @scope
(impl_item type: (generic_type type: (type_identifier) @name)) @scope
(closure_expression) @barrier
((line_comment) @doc . (function_item) @function)
