; Variables of Java; see `sonde.languages._flow` for the names.

(method_declaration) @scope.function
(constructor_declaration) @scope.function
(compact_constructor_declaration) @scope.function
(lambda_expression) @scope
(block) @scope
(constructor_body) @scope
(for_statement) @scope
(enhanced_for_statement) @scope
(catch_clause) @scope
(try_with_resources_statement) @scope
(switch_block) @scope
(class_body) @scope

(formal_parameter name: (identifier) @declare.parameter)
(spread_parameter (variable_declarator name: (identifier) @declare.parameter))
(catch_formal_parameter name: (identifier) @declare.parameter)
(lambda_expression parameters: (identifier) @declare.parameter)
(inferred_parameters (identifier) @declare.parameter)

(local_variable_declaration declarator: (variable_declarator name: (identifier) @declare.local))
(enhanced_for_statement name: (identifier) @declare.local)
(resource name: (identifier) @declare.local)
(instanceof_expression name: (identifier) @declare.local)
(type_pattern (identifier) @declare.local)
(record_pattern_component (identifier) @declare.local)
(field_declaration declarator: (variable_declarator name: (identifier) @declare.field))

(identifier) @name

(method_declaration name: (identifier) @never)
(constructor_declaration name: (identifier) @never)
(compact_constructor_declaration name: (identifier) @never)
(class_declaration name: (identifier) @never)
(method_invocation name: (identifier) @never)
(field_access field: (identifier) @never)
(method_reference (_) "::" (identifier) @never)
(labeled_statement . (identifier) @never)
(break_statement (identifier) @never)
(continue_statement (identifier) @never)
(element_value_pair key: (identifier) @never)
(marker_annotation name: (identifier) @never)
(annotation name: (identifier) @never)
(scoped_identifier (identifier) @never)

(variable_declarator name: (identifier) @target value: (_) @source)
(assignment_expression left: (_) @target right: (_) @source)
(enhanced_for_statement name: (identifier) @target value: (_) @source)
(resource name: (identifier) @target value: (_) @source)
(instanceof_expression left: (_) @source name: (identifier) @target)
