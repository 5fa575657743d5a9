; The grammar takes `await (..)` for a call where it does not see that the function is asynchronous.
((call_expression function: (identifier) @bare arguments: (arguments) @arguments) (#not-eq? @bare "await"))

(call_expression
  function: (member_expression property: [(property_identifier) (private_property_identifier)] @method)
  arguments: (arguments) @arguments)

; `new A()` calls A by name; of a dotted name the last part is called.
(new_expression constructor: (identifier) @bare arguments: (arguments) @arguments)

(new_expression
  constructor: (member_expression property: (property_identifier) @bare) arguments: (arguments) @arguments)
