; What counts in PHP; see `sonde.languages.engine.metrics` for the names. A closure counts with the function around it.
; Each arm of a match is a decision, as a case is, but for the one that takes everything.

(function_definition) @function
(method_declaration) @function
(anonymous_class) @apart

(if_statement) @decision
(else_if_clause) @decision
(for_statement) @decision
(foreach_statement) @decision
(while_statement) @decision
(do_statement) @decision
(case_statement) @decision
(match_conditional_expression) @decision
(catch_clause) @decision
(conditional_expression) @decision
(binary_expression operator: ["&&" "||" "and" "or"]) @decision

(if_statement) @structure.if
(else_if_clause) @structure.if
(for_statement) @structure.loop
(foreach_statement) @structure.loop
(while_statement) @structure.loop
(do_statement) @structure.loop
(switch_statement) @structure.switch
(match_expression) @structure.switch
(try_statement) @structure.try

; Blocks, and statements that stand alone where a block could stand.
(compound_statement) @block
(anonymous_class body: (_) @block)
(switch_block) @block
(match_block) @block
(if_statement body: (_) @block)
(else_if_clause body: (_) @block)
(else_clause body: (_) @block.else)
(for_statement body: (_) @block)
(foreach_statement body: (_) @block)
(while_statement body: (_) @block)
(do_statement body: (_) @block)

(return_statement) @return

; A bare name means no method.
(method_declaration) @method
(function_call_expression function: (name) @called.bare)
([
  (member_call_expression object: (variable_name) @_own name: (name) @called.own)
  (nullsafe_member_call_expression object: (variable_name) @_own name: (name) @called.own)
] (#eq? @_own "$this"))
(scoped_call_expression scope: (relative_scope ["self" "static"]) name: (name) @called.own)
