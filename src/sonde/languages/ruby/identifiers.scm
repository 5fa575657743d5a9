; Roles of names. A capture is a role; where several match, the one that first stands later in this file wins.
; All other names are variables.

(argument_list [(identifier) (constant)] @argument)

; A name that is no variable is a call.
(identifier) @unbound.call

(call receiver: (_) method: (_) @attribute !arguments !block)
(scope_resolution name: (constant) @attribute)

; A constant is a class by its place, unless it is written as a value, and a module where it is a name space.
((call receiver: (constant) @type) (#match? @type "[a-z]|^[A-Z0-9]+$"))
(superclass (constant) @type)
(superclass (scope_resolution name: (constant) @type))
(exceptions (constant) @type)
(exceptions (scope_resolution name: (constant) @type))
((pattern (constant) @type) (#match? @type "[a-z]"))
(array_pattern class: (constant) @type)
(hash_pattern class: (constant) @type)
(find_pattern class: (constant) @type)
(in_clause pattern: (constant) @type)
(as_pattern value: (constant) @type)
(keyword_pattern value: (constant) @type)
(array_pattern (constant) @type)
(alternative_pattern (constant) @type)

(call !receiver method: (_) @call)
(call method: (_) @call arguments: (_))
(call method: (_) @call block: (_))

(pair key: (hash_key_symbol) @keyword_argument)
(keyword_pattern key: (hash_key_symbol) @keyword_argument)

(_ parameters: (_ (identifier) @parameter))
(destructured_parameter (identifier) @parameter)
(splat_parameter name: (identifier) @parameter)
(hash_splat_parameter name: (identifier) @parameter)
(block_parameter name: (identifier) @parameter)
(keyword_parameter name: (identifier) @parameter)
(optional_parameter name: (identifier) @parameter)

; The rest of a pattern is no parameter.
(array_pattern (splat_parameter name: (identifier) @variable))
(find_pattern (splat_parameter name: (identifier) @variable))
(hash_pattern (hash_splat_parameter name: (identifier) @variable))

(method name: (_) @function)
(singleton_method name: (_) @function)
(setter "=" @function)
(alias (identifier) @function)
(undef (identifier) @function)

(class name: (constant) @class)
(class name: (scope_resolution name: (constant) @class))

(scope_resolution scope: (constant) @module)
(scope_resolution scope: (scope_resolution name: (constant) @module))
(module name: (constant) @module)
(module name: (scope_resolution name: (constant) @module))
