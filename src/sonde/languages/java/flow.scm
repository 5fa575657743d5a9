; Which value goes into which variable; see `sonde.languages.engine.data_flow`.

(variable_declarator name: (identifier) @target value: (_) @source)
(assignment_expression left: (_) @target right: (_) @source)
(enhanced_for_statement name: (identifier) @target value: (_) @source)
(resource name: (identifier) @target value: (_) @source)
(instanceof_expression left: (_) @source name: (identifier) @target)
