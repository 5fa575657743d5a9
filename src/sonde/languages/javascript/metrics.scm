; What counts in JavaScript; see `sonde.languages.engine.metrics` for the names. Every function inside another counts apart,
; whether or not it has a name, as ESLint and lizard have it.

[
  (function_declaration) (generator_function_declaration) (function_expression) (generator_function)
  (arrow_function) (method_definition)
] @function
(_ name: [
  (identifier) @function.bare
  [(property_identifier) (private_property_identifier)] @function.member
] parameters: (_))
(variable_declarator
  name: (identifier) @function.bare value: [(function_expression) (generator_function) (arrow_function)
    (parenthesized_expression [(function_expression) (generator_function) (arrow_function)])])
(field_definition property: (_) @function.member value: [(function_expression) (generator_function) (arrow_function)
    (parenthesized_expression [(function_expression) (generator_function) (arrow_function)])])
(pair key: (_) @function.member value: [(function_expression) (generator_function) (arrow_function)
    (parenthesized_expression [(function_expression) (generator_function) (arrow_function)])])
(assignment_expression
  left: [(identifier) @function.bare (member_expression property: _ @function.member)]
  right: [(function_expression) (generator_function) (arrow_function)
    (parenthesized_expression [(function_expression) (generator_function) (arrow_function)])])
; A property, taken out of its object.
(labeled_statement
  label: (_) @function.member
  body: (expression_statement [(function_expression) (generator_function) (arrow_function)]))
(class_static_block) @apart
(field_definition) @apart

[
  (if_statement) (for_statement) (for_in_statement) (while_statement) (do_statement) (switch_case) (catch_clause)
  (ternary_expression)
] @decision
(binary_expression operator: ["&&" "||" "??"]) @decision

(if_statement) @structure.if
[(for_statement) (for_in_statement) (while_statement) (do_statement)] @structure.loop
(switch_statement) @structure.switch
(try_statement) @structure.try

; Blocks, and statements that stand alone where a block could stand.
[(statement_block) (class_body) (switch_body)] @block
(arrow_function body: (_) @block)
(if_statement consequence: (_) @block)
(else_clause (statement) @block.else)
(for_statement body: (_) @block)
(for_in_statement body: (_) @block)
(while_statement body: (_) @block)
(do_statement body: (_) @block)

(return_statement) @return

(call_expression function: (identifier) @called.bare)
(call_expression function: (member_expression object: (this) property: (_) @called.own))
