; What binds a name, where it is seen, and what refers; see `sonde.languages.engine.names` for the captures.

(method_declaration) @local.scope.function
(constructor_declaration) @local.scope.function
(compact_constructor_declaration) @local.scope.function
(lambda_expression) @local.scope
(block) @local.scope
(constructor_body) @local.scope
(for_statement) @local.scope
(enhanced_for_statement) @local.scope
(catch_clause) @local.scope
(try_with_resources_statement) @local.scope
(switch_block) @local.scope
; Methods see the names of the classes around them.
(class_body) @local.scope
(interface_body) @local.scope
(enum_body) @local.scope
(annotation_type_body) @local.scope
(class_declaration) @local.scope
(interface_declaration) @local.scope
(record_declaration) @local.scope

; The name of a declaration belongs to the scope around it.
(method_declaration name: (identifier) @local.outside)
(class_declaration name: (identifier) @local.outside)
(interface_declaration name: (identifier) @local.outside)
(record_declaration name: (identifier) @local.outside)

(formal_parameter name: (identifier) @local.definition.parameter)
(spread_parameter (variable_declarator name: (identifier) @local.definition.parameter))
(catch_formal_parameter name: (identifier) @local.definition.parameter)
(lambda_expression parameters: (identifier) @local.definition.parameter)
(inferred_parameters (identifier) @local.definition.parameter)

(local_variable_declaration declarator: (variable_declarator name: (identifier) @local.definition.variable))
(enhanced_for_statement name: (identifier) @local.definition.variable)
(resource name: (identifier) @local.definition.variable)
(instanceof_expression name: (identifier) @local.definition.variable)
(type_pattern (identifier) @local.definition.pattern)
(record_pattern_component (identifier) @local.definition.pattern)
(assignment_expression left: (identifier) @local.written)
(update_expression (identifier) @local.written)
(field_declaration declarator: (variable_declarator name: (identifier) @local.definition.field))
(constant_declaration declarator: (variable_declarator name: (identifier) @local.definition.constant))
(enum_constant name: (identifier) @local.definition.constant)

(class_declaration name: (identifier) @local.definition.type)
(interface_declaration name: (identifier) @local.definition.type)
(enum_declaration name: (identifier) @local.definition.type)
(record_declaration name: (identifier) @local.definition.type)
(annotation_type_declaration name: (identifier) @local.definition.type)
(type_parameter . (type_identifier) @local.definition.type)
; Methods have names of their own: a variable `max` does not hide a method `max`.
(method_declaration name: (identifier) @local.definition.method)

(identifier) @local.reference

; Identifiers that are no variables.
(constructor_declaration name: (identifier) @local.member)
(compact_constructor_declaration name: (identifier) @local.member)
(method_invocation name: (identifier) @local.member)
(field_access field: (identifier) @local.member)
(method_reference (_) "::" (identifier) @local.member)
(labeled_statement . (identifier) @local.member)
(break_statement (identifier) @local.member)
(continue_statement (identifier) @local.member)
(element_value_pair key: (identifier) @local.member)
(marker_annotation name: (identifier) @local.member)
(annotation name: (identifier) @local.member)
(scoped_identifier (identifier) @local.member)
; Read there, and never the place of a misuse: the receiver of a method reference, the label of a case.
(method_reference . (identifier) @local.reference.fixed)
(switch_label (identifier) @local.reference.fixed)
