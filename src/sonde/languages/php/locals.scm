; What binds a name, where it is seen, and what refers; see `sonde.languages.engine.names` for the captures. A variable
; belongs to its whole function.

(function_definition) @local.scope.function
(method_declaration) @local.scope.function
(anonymous_function) @local.scope.function
; What is bound inside an arrow function is seen in it alone.
(arrow_function) @local.scope.function

; What a closure takes along, and the default of a parameter, is evaluated in the scope around.
(anonymous_function_use_clause) @local.outside
(simple_parameter default_value: (_) @local.outside)

(simple_parameter name: (variable_name) @local.definition.parameter)
(variadic_parameter name: (variable_name) @local.definition.parameter)
(property_promotion_parameter name: (variable_name) @local.definition.parameter)

(assignment_expression left: (variable_name) @local.definition.variable)
(reference_assignment_expression left: (variable_name) @local.definition.variable)
; Of `[$key => $x]` the key is a value.
(list_literal (variable_name) @local.definition.variable . ["," "]" ")"])
(list_literal (by_ref (variable_name) @local.definition.variable))
(foreach_statement "as" . (variable_name) @local.definition.variable)
(foreach_statement "as" . (by_ref (variable_name) @local.definition.variable))
(foreach_statement (pair (variable_name) @local.definition.variable))
(foreach_statement (pair (by_ref (variable_name) @local.definition.variable)))
(static_variable_declaration name: (variable_name) @local.definition.variable)
(catch_clause name: (variable_name) @local.definition.exception)
(augmented_assignment_expression left: (variable_name) @local.definition.again)
(unset_statement (variable_name) @local.definition.deleted)
(update_expression argument: (variable_name) @local.written)

(global_declaration (variable_name) @local.global)

(function_definition name: (name) @local.definition.function)

(variable_name) @local.reference

; No variables: the object itself, and properties.
((variable_name) @local.member (#eq? @local.member "$this"))
(scoped_property_access_expression name: (variable_name) @local.member)
(property_element name: (variable_name) @local.member)
