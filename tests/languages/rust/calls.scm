(call_expression function: (identifier) @bare arguments: (_) @arguments)
(call_expression function: (field_expression field: (field_identifier) @method) arguments: (_) @arguments)
(call_expression function: (scoped_identifier name: (identifier) @bare) arguments: (_) @arguments)
