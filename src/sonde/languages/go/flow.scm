; Which value goes into which variable; see `sonde.languages.engine.data_flow`.

(short_var_declaration left: (_) @parallel right: (_) @source)
(assignment_statement left: (_) @parallel right: (_) @source)
(var_spec value: (_) @source) @parallel
(range_clause left: (_) @target right: (_) @source)
(receive_statement left: (_) @target right: (_) @source)
(type_switch_statement alias: (_) @target value: (_) @source)
