; A call with explicit type arguments, `Max[int](1)`, is written as one of an element and has no name here.
(call_expression function: (identifier) @bare arguments: (_) @arguments)

(call_expression function: (selector_expression field: (field_identifier) @method) arguments: (_) @arguments)
