; What counts in Java; see `sonde.languages.engine.metrics` for the names.

(method_declaration) @function
(constructor_declaration) @function
(compact_constructor_declaration) @function
(static_initializer) @apart
(class_body (block) @apart)

(if_statement) @decision
(for_statement) @decision
(enhanced_for_statement) @decision
(while_statement) @decision
(do_statement) @decision
(switch_label "case") @decision
(catch_clause) @decision
(ternary_expression) @decision
(binary_expression operator: ["&&" "||"]) @decision

(if_statement) @structure.if
(for_statement) @structure.loop
(enhanced_for_statement) @structure.loop
(while_statement) @structure.loop
(do_statement) @structure.loop
(switch_expression) @structure.switch
(try_statement) @structure.try
(try_with_resources_statement) @structure.try

; Blocks, and statements that stand alone where a block could stand.
(block) @block
(constructor_body) @block
(class_body) @block
(interface_body) @block
(enum_body) @block
(annotation_type_body) @block
(switch_block) @block
(if_statement consequence: (_) @block)
(if_statement alternative: (_) @block.else)
(for_statement body: (_) @block)
(enhanced_for_statement body: (_) @block)
(while_statement body: (_) @block)
(do_statement body: (_) @block)

(return_statement) @return

(method_invocation !object name: (identifier) @called)
(method_invocation object: (this) name: (identifier) @called)

(if_statement) @path
(for_statement) @path
(enhanced_for_statement) @path
(while_statement) @path
(do_statement) @path
(switch_expression) @path
(switch_block_statement_group) @path
(switch_rule) @path
(try_statement) @path
(try_with_resources_statement) @path
(catch_clause) @path
(ternary_expression) @path
(return_statement) @path

(binary_expression operator: ["&&" "||"]) @boolean
