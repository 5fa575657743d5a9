(call function: (identifier) @bare arguments: (_) @arguments)

(call function: (attribute attribute: (identifier) @method) arguments: (_) @arguments)
