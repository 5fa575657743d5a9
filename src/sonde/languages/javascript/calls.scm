(call_expression function: (identifier) @bare arguments: (arguments) @arguments)

(call_expression
  function: (member_expression property: [(property_identifier) (private_property_identifier)] @method)
  arguments: (arguments) @arguments)

; `new A()` calls A by name; of a dotted name the last part is called.
(new_expression constructor: (identifier) @bare arguments: (arguments) @arguments)

(new_expression
  constructor: (member_expression property: (property_identifier) @bare) arguments: (arguments) @arguments)
