; What binds a name, where it is seen, and what refers; see `sonde.languages.engine.names` for the captures.

; A method and the body of a class see no variable around them; a block does.
[(method) (singleton_method)] @local.scope.closed
(class body: (body_statement) @local.scope.closed)
(module body: (body_statement) @local.scope.closed)
(singleton_class body: (body_statement) @local.scope.closed)
[(block) (do_block) (lambda)] @local.scope

(singleton_method object: (_) @local.outside)

(_ parameters: (_ (identifier) @local.definition.parameter))
(destructured_parameter (identifier) @local.definition.parameter)
(splat_parameter name: (identifier) @local.definition.parameter)
(hash_splat_parameter name: (identifier) @local.definition.parameter)
(block_parameter name: (identifier) @local.definition.parameter)
(keyword_parameter name: (identifier) @local.definition.parameter)
(optional_parameter name: (identifier) @local.definition.parameter)
(block_parameters locals: (identifier) @local.definition.variable)

(assignment left: (identifier) @local.definition.assigned)
(operator_assignment left: (identifier) @local.definition.assigned)
(left_assignment_list (identifier) @local.definition.assigned)
(destructured_left_assignment (identifier) @local.definition.assigned)
(rest_assignment (identifier) @local.definition.assigned)
(for pattern: (identifier) @local.definition.assigned)
(exception_variable (identifier) @local.definition.assigned)

; A bare name in a pattern takes whatever is there.
(in_clause pattern: (identifier) @local.definition.assigned)
(match_pattern pattern: (identifier) @local.definition.assigned)
(test_pattern pattern: (identifier) @local.definition.assigned)
(as_pattern name: (identifier) @local.definition.assigned)
(array_pattern (identifier) @local.definition.assigned)
(find_pattern (identifier) @local.definition.assigned)
(alternative_pattern (identifier) @local.definition.assigned)
(parenthesized_pattern (identifier) @local.definition.assigned)
(keyword_pattern value: (identifier) @local.definition.assigned)
(keyword_pattern key: (hash_key_symbol) @local.definition.assigned !value)
(array_pattern (splat_parameter name: (identifier) @local.definition.assigned))
(find_pattern (splat_parameter name: (identifier) @local.definition.assigned))
(hash_pattern (hash_splat_parameter name: (identifier) @local.definition.assigned))

(identifier) @local.reference
; `{a:}` stands for `{a: a}`.
(pair key: (hash_key_symbol) @local.reference !value)
(keyword_pattern key: (hash_key_symbol) @local.reference !value)

; Identifiers that are no variables.
(call method: (identifier) @local.member)
(method name: (identifier) @local.member)
(singleton_method name: (identifier) @local.member)
(setter (identifier) @local.member)
(alias (identifier) @local.member)
(undef (identifier) @local.member)
((identifier) @local.member (#match? @local.member "^(_[1-9]|__(FILE|LINE|ENCODING)__)$"))
