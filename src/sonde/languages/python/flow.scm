; Which value goes into which variable; see `sonde.languages.engine.data_flow`.

(assignment left: (_) @parallel right: (_) @source)
(augmented_assignment left: (_) @target right: (_) @source)
(for_statement left: (_) @target right: (_) @source)
(for_in_clause left: (_) @target right: (_) @source)
(named_expression name: (_) @target value: (_) @source)
(with_item value: (as_pattern (_) @source alias: (as_pattern_target (_) @target)))
