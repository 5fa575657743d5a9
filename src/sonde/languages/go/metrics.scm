; What counts in Go; see `sonde.languages._metrics` for the names. A function literal counts with the function
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

; A method is called through a value, whose type a query does not know: its recursion is not seen.
(call_expression function: (identifier) @called)
