; What counts in Go; see `sonde.languages.engine.metrics` for the names. A function literal counts with the function
; around it, as gocyclo has it.

(function_declaration) @function
(method_declaration) @function

(if_statement) @decision
(for_statement) @decision
(expression_case) @decision
(type_case) @decision
(communication_case) @decision
(binary_expression operator: ["&&" "||"]) @decision

(if_statement) @structure.if
(for_statement) @structure.loop
(expression_switch_statement) @structure.switch
(type_switch_statement) @structure.switch
(select_statement) @structure.switch

(block) @block
; The braces of these are no node of their own.
(expression_switch_statement) @block
(type_switch_statement) @block
(select_statement) @block
(field_declaration_list) @block
(interface_type) @block

(return_statement) @return

; A bare name means no method. A method is called through a value, whose type a query knows of the receiver alone.
(method_declaration) @method
(method_declaration receiver: (parameter_list (parameter_declaration name: (identifier) @receiver)))
(call_expression function: [
  (identifier) @called.bare
  (index_expression operand: (identifier) @called.bare)
  (selector_expression operand: (identifier) field: (field_identifier) @called.receiver)
])
; `f[int](n)` looks like a conversion.
(type_conversion_expression type: (generic_type type: (type_identifier) @called.bare))
