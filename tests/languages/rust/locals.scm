(function_item) @local.scope.function
(closure_expression) @local.scope
(block) @local.scope
(for_expression) @local.scope
(match_arm) @local.scope
(if_expression) @local.scope
(while_expression) @local.scope
(impl_item) @local.scope

(function_item name: (identifier) @local.outside)

(parameter pattern: (identifier) @local.definition.parameter)
(parameter pattern: (_ (identifier) @local.definition.parameter))
(closure_parameters (identifier) @local.definition.parameter)
(let_declaration pattern: (identifier) @local.definition.variable)
(tuple_pattern (identifier) @local.definition.variable)
(for_expression pattern: (identifier) @local.definition.variable)
(tuple_struct_pattern type: (_) (identifier) @local.definition.variable)
(match_pattern . (identifier) @local.definition.variable)
(captured_pattern . (identifier) @local.definition.variable)
(field_pattern name: (shorthand_field_identifier) @local.definition.variable)
(parameter pattern: (tuple_pattern (identifier) @local.definition.parameter))
(assignment_expression left: (identifier) @local.written)
(compound_assignment_expr left: (identifier) @local.written)

(function_item name: (identifier) @local.definition.function)
(const_item name: (identifier) @local.definition.constant)
(static_item name: (identifier) @local.definition.constant)
(mod_item name: (identifier) @local.definition.type)

(identifier) @local.reference
(shorthand_field_identifier) @local.reference

(scoped_identifier (identifier) @local.member)
(use_declaration (identifier) @local.member)
(call_expression function: (identifier) @local.member)
(tuple_struct_pattern type: (identifier) @local.member)
(macro_invocation macro: (identifier) @local.member)
