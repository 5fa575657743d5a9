; Roles of names. A capture is a role; where several match, the one that first stands later in this file wins.
; All other names are variables.

(argument [(variable_name) (name)] @argument)

(member_access_expression name: (name) @attribute)
(nullsafe_member_access_expression name: (name) @attribute)
(class_constant_access_expression (name) @attribute .)
(scoped_property_access_expression name: (variable_name) @attribute)
(property_element name: (variable_name) @attribute)
(const_element (name) @attribute)
(enum_case name: (name) @attribute)

(named_type [(name) @type (qualified_name (name) @type .)])
(base_clause [(name) @type (qualified_name (name) @type .)])
(class_interface_clause [(name) @type (qualified_name (name) @type .)])
(use_declaration [(name) @type (qualified_name (name) @type .)])
(binary_expression operator: "instanceof" right: [(name) @type (qualified_name (name) @type .)])
(scoped_call_expression scope: [(name) @type (qualified_name (name) @type .)])
(scoped_property_access_expression scope: [(name) @type (qualified_name (name) @type .)])
(class_constant_access_expression . [(name) @type (qualified_name (name) @type .)])

(function_call_expression
  function: [(name) @call (qualified_name (name) @call .) (relative_name (name) @call .)])
(member_call_expression name: (name) @call)
(nullsafe_member_call_expression name: (name) @call)
(scoped_call_expression name: (name) @call)
(object_creation_expression [(name) @call (qualified_name (name) @call .)])

(argument name: (name) @keyword_argument)

(simple_parameter name: (variable_name) @parameter)
(variadic_parameter name: (variable_name) @parameter)
(property_promotion_parameter name: (variable_name) @parameter)
(catch_clause name: (variable_name) @parameter)

(attribute . [(name) @decorator (qualified_name (name) @decorator .)])

[(function_definition name: (name) @function) (method_declaration name: (name) @function)]

(class_declaration name: (name) @class)
(interface_declaration name: (name) @class)
(trait_declaration name: (name) @class)
(enum_declaration name: (name) @class)

(namespace_name (name) @module)
(namespace_use_clause [(name) @type (qualified_name (name) @type .)])
; In a list the word stands before the first name only.
(namespace_use_clause type: "function" [(name) @call (qualified_name (name) @call .)])
(namespace_use_declaration (namespace_use_clause type: "function")
  (namespace_use_clause [(name) @call (qualified_name (name) @call .)]))
(namespace_use_declaration type: "function" body: (namespace_use_group
  (namespace_use_clause [(name) @call (qualified_name (name) @call .)])))
(namespace_use_clause type: "const" [(name) @variable (qualified_name (name) @variable .)])
(namespace_use_declaration (namespace_use_clause type: "const")
  (namespace_use_clause [(name) @variable (qualified_name (name) @variable .)]))
(namespace_use_declaration type: "const" body: (namespace_use_group
  (namespace_use_clause [(name) @variable (qualified_name (name) @variable .)])))
