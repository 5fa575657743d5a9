; Roles of names. A capture is a role; where several match, the one that first stands later in this file wins.
; All other names are variables.

(argument_list (identifier) @argument)

(selector_expression field: (field_identifier) @attribute)

(type_identifier) @type

(call_expression function: (identifier) @call)
(call_expression function: (selector_expression field: (field_identifier) @call))

(keyed_element key: (literal_element (identifier) @keyword_argument))

(parameter_declaration name: (identifier) @parameter)
(variadic_parameter_declaration name: (identifier) @parameter)

(function_declaration name: (identifier) @function)
(method_declaration name: (field_identifier) @function)
(method_elem name: (field_identifier) @function)

(type_spec name: (type_identifier) @class)
(type_alias name: (type_identifier) @class)
(type_parameter_declaration name: (identifier) @class)

(package_identifier) @module
