(function_item) @function
(impl_item) @apart

(if_expression) @decision
(for_expression) @decision
(while_expression) @decision
(loop_expression) @decision
(match_arm) @decision
(try_expression) @decision
(binary_expression operator: ["&&" "||"]) @decision

(if_expression) @structure.if
(for_expression) @structure.loop
(while_expression) @structure.loop
(loop_expression) @structure.loop
(match_expression) @structure.switch

(block) @block
(match_block) @block

(return_expression) @return
(call_expression function: (identifier) @called)
(call_expression function: (field_expression value: (self) field: (field_identifier) @called))
