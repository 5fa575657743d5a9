; Which value goes into which variable; see `sonde.languages.engine.data_flow`.

(assignment_expression left: (_) @parallel right: (_) @source)
(reference_assignment_expression left: (_) @target right: (_) @source)
(augmented_assignment_expression left: (_) @target right: (_) @source)
(static_variable_declaration name: (_) @target value: (_) @source)
(foreach_statement "(" . (_) @source "as" . (_) @target)
