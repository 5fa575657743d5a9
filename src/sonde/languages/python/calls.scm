(call function: (identifier) @bare arguments: (_) @arguments)

(call function: (attribute attribute: (identifier) @method) arguments: (_) @arguments)

; The grammar takes the star of `[*f(x)]` into the called name.
(call function: (list_splat (identifier) @bare) arguments: (_) @arguments)

; The grammar reads `type(x).a = y` and `type(x)[0] = y` as type aliases.
(type_alias_statement "type" @bare
  left: (type [
    (attribute object: (parenthesized_expression) @arguments)
    (subscript value: (parenthesized_expression) @arguments)
  ]))
