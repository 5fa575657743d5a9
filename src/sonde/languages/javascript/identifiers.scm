; Roles of names. A capture is a role; where several match, the one that first stands later in this file wins.
; `within.ROLE` is for names inside the node that have no other role. All other names are variables.

(arguments (identifier) @argument)

(member_expression property: _ @attribute)
(field_definition property: [(property_identifier) (private_property_identifier)] @attribute)

(class_heritage (identifier) @type)
((jsx_element (_ name: (identifier) @type)) (#match? @type "^[A-Z]"))
((jsx_self_closing_element name: (identifier) @type) (#match? @type "^[A-Z]"))

(call_expression function: [(identifier) @call (member_expression property: _ @call)] arguments: (arguments))
(new_expression constructor: [(identifier) @call (member_expression property: _ @call)])

(pair key: (property_identifier) @keyword_argument)
(pair_pattern key: (property_identifier) @keyword_argument)
(object (shorthand_property_identifier) @keyword_argument)
(jsx_attribute (property_identifier) @keyword_argument)

(formal_parameters [
  (identifier) @parameter
  (assignment_pattern left: (identifier) @parameter)
  (rest_pattern (identifier) @parameter)
  [(object_pattern) (array_pattern)] @within.parameter
  (assignment_pattern left: [(object_pattern) (array_pattern)] @within.parameter)
])
(arrow_function parameter: (identifier) @parameter)
(catch_clause parameter: (identifier) @parameter)

(decorator [(identifier) @decorator (call_expression function: (identifier) @decorator)])

(_ name: [(identifier) (property_identifier) (private_property_identifier)] @function parameters: (_))
(_
  [name: (identifier) @function key: (property_identifier) @function property: (_) @function]
  value: [(function_expression) (generator_function) (arrow_function)
    (parenthesized_expression [(function_expression) (generator_function) (arrow_function)])])
(assignment_expression
  left: [(identifier) @function (member_expression property: _ @function)]
  right: [(function_expression) (generator_function) (arrow_function)
    (parenthesized_expression [(function_expression) (generator_function) (arrow_function)])])

(_ name: (identifier) @class body: (class_body))

(namespace_import (identifier) @module)
((variable_declarator name: (identifier) @module value: (call_expression function: (identifier) @call))
  (#eq? @call "require"))
