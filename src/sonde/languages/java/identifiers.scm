; Roles of names. A capture is a role; where several match, the one that first stands later in this file wins.
; `within.ROLE` is for names inside the node that have no other role. All other names are variables.

(argument_list (identifier) @argument)

(field_access field: (identifier) @attribute)

(type_identifier) @type

(method_invocation name: (identifier) @call)
(object_creation_expression type: (type_identifier) @call)
(object_creation_expression type: (generic_type . (type_identifier) @call))
(object_creation_expression type: (scoped_type_identifier (type_identifier) @call .))
(object_creation_expression type: (generic_type . (scoped_type_identifier (type_identifier) @call .)))

(element_value_pair key: (identifier) @keyword_argument)

(formal_parameter name: (identifier) @parameter)
(spread_parameter (variable_declarator name: (identifier) @parameter))
(catch_formal_parameter name: (identifier) @parameter)
(lambda_expression parameters: (identifier) @parameter)
(inferred_parameters (identifier) @parameter)

(marker_annotation name: (identifier) @decorator)
(marker_annotation name: (scoped_identifier name: (identifier) @decorator))
(annotation name: (identifier) @decorator)
(annotation name: (scoped_identifier name: (identifier) @decorator))

(method_declaration name: (identifier) @function)
(constructor_declaration name: (identifier) @function)
(compact_constructor_declaration name: (identifier) @function)
(annotation_type_element_declaration name: (identifier) @function)

(class_declaration name: (identifier) @class)
(interface_declaration name: (identifier) @class)
(enum_declaration name: (identifier) @class)
(record_declaration name: (identifier) @class)
(annotation_type_declaration name: (identifier) @class)
(type_parameter (type_identifier) @class)

(package_declaration) @within.module
(import_declaration) @within.module
