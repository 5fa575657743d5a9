; What binds a name, where it is seen, and what refers; see `sonde.languages.engine.names` for the captures.

(function_declaration) @local.scope.function
(method_declaration) @local.scope.function
(func_literal) @local.scope
; Names of parameters in a type are seen nowhere.
(function_type) @local.scope
(method_elem) @local.scope
(block) @local.scope
(if_statement) @local.scope
(for_statement) @local.scope
(expression_switch_statement) @local.scope
(type_switch_statement) @local.scope
(expression_case) @local.scope
(type_case) @local.scope
(communication_case) @local.scope
(default_case) @local.scope

; The name of a declaration belongs to the scope around it.
(function_declaration name: (identifier) @local.outside)

((parameter_declaration name: (identifier) @local.definition.parameter)
  (#not-eq? @local.definition.parameter "_"))
(variadic_parameter_declaration name: (identifier) @local.definition.parameter)

((short_var_declaration left: (expression_list (identifier) @local.definition.variable))
  (#not-eq? @local.definition.variable "_"))
((range_clause left: (expression_list (identifier) @local.definition.variable) ":=")
  (#not-eq? @local.definition.variable "_"))
((receive_statement left: (expression_list (identifier) @local.definition.variable) ":=")
  (#not-eq? @local.definition.variable "_"))
(type_switch_statement alias: (expression_list (identifier) @local.definition.variable))
((var_spec name: (identifier) @local.definition.variable) (#not-eq? @local.definition.variable "_"))
(const_spec name: (identifier) @local.definition.constant)

; A variable is seen behind its declaration: in `x := f(x)` the second is another one.
(short_var_declaration right: (_) @local.late)
(var_spec value: (_) @local.late)
(range_clause right: (_) @local.late)
(receive_statement right: (_) @local.late)
(type_switch_statement alias: (_) value: (_) @local.late)

(assignment_statement left: (expression_list (identifier) @local.written))
(range_clause left: (expression_list (identifier) @local.written) "=")
(receive_statement left: (expression_list (identifier) @local.written) "=")
(inc_statement (identifier) @local.written)
(dec_statement (identifier) @local.written)

(function_declaration name: (identifier) @local.definition.function)
(type_spec name: (type_identifier) @local.definition.type)
(type_alias name: (type_identifier) @local.definition.type)
(type_parameter_declaration name: (identifier) @local.definition.type)

(identifier) @local.reference

; Identifiers that are no variables: the blank, and the fields of a literal, which in a literal without a type of
; its own are taken for the fields of a structure.
((identifier) @local.member (#eq? @local.member "_"))
(type_parameter_declaration name: (identifier) @local.member)
(composite_literal
  type: [(type_identifier) (qualified_type) (generic_type) (struct_type)]
  body: (literal_value (keyed_element key: (literal_element (identifier) @local.member))))
(literal_element (literal_value (keyed_element key: (literal_element (identifier) @local.member))))
