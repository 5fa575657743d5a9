; Which value goes into which variable; see `sonde.languages.engine.data_flow`.

(variable_declarator name: (_) @parallel value: (_) @source)
(assignment_expression left: (_) @parallel right: (_) @source)
(augmented_assignment_expression left: (_) @target right: (_) @source)
(for_in_statement left: (_) @target right: (_) @source)
(assignment_pattern left: (_) @target right: (_) @source)
(object_assignment_pattern left: (_) @target right: (_) @source)
