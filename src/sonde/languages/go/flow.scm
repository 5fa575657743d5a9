; Which value goes into which variable; see `sonde.languages._flow`.

(short_var_declaration left: (_) @target right: (_) @source)
(assignment_statement left: (_) @target right: (_) @source)
(var_spec name: (_) @target value: (_) @source)
(range_clause left: (_) @target right: (_) @source)
(receive_statement left: (_) @target right: (_) @source)
(type_switch_statement alias: (_) @target value: (_) @source)
