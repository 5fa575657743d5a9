; Parts of the constructs that are related, and how nodes stand in the tree, see `_relation_query`.

(if_statement "if" @If.if condition: (_) @If.test consequence: _ @If.body) @If
(if_statement "else" @If.else alternative: _ @If.orelse) @If

; One statement has the loops of the other languages: with three parts, over a range, with a condition alone.
(for_statement "for" @For.for [(for_clause) (range_clause)] body: (_) @For.body) @For
(for_statement . "for" @For.for . body: (_) @For.body) @For
(for_statement (for_clause initializer: (_) @For.initializers)) @For
(for_statement (for_clause condition: (_) @For.test)) @For
(for_statement (for_clause update: (_) @For.updaters)) @For
(for_statement (range_clause left: (_) @For.target)) @For
(for_statement (range_clause right: (_) @For.iter)) @For
(for_statement . "for" @While.while . (_expression) @While.test body: (_) @While.body) @While

(expression_switch_statement "switch" @Switch.switch) @Switch
(expression_switch_statement value: (_) @Switch.expr) @Switch
(expression_switch_statement [(expression_case) (default_case)] @Switch.statement) @Switch
(type_switch_statement "switch" @Switch.switch value: (_) @Switch.expr) @Switch
(type_switch_statement [(type_case) (default_case)] @Switch.statement) @Switch
(select_statement "select" @Select.select [(communication_case) (default_case)] @Select.statement) @Select

(labeled_statement label: (_) @LabeledStatement.label ":" _ @LabeledStatement.body) @LabeledStatement

(short_var_declaration left: (_) @Assign.target right: (_) @Assign.value) @Assign
(assignment_statement left: (_) @Assign.target operator: "=" right: (_) @Assign.value) @Assign
(assignment_statement left: (_) @AugAssign.target operator: [
  "+=" "-=" "*=" "/=" "%=" "&=" "|=" "^=" "<<=" ">>=" "&^="
] right: (_) @AugAssign.value) @AugAssign

(call_expression function: (_) @Call.func.last) @Call
(call_expression arguments: (argument_list (_) @Call.args)) @Call
(selector_expression operand: (_) @Attribute.value field: (_) @Attribute.attr) @Attribute
(index_expression operand: (_) @Subscript.value index: (_) @Subscript.slice) @Subscript
(slice_expression start: (_) @Slice.lower end: (_) @Slice.upper) @Slice
(binary_expression left: (_) @InfixExpr.left right: (_) @InfixExpr.right) @InfixExpr
(keyed_element key: (_) @Dict.key value: (_) @Dict.value) @Dict
(type_assertion_expression operand: (_) @TypeAssert.expr type: (_) @TypeAssert.type) @TypeAssert
(send_statement channel: (_) @Send.channel value: (_) @Send.value) @Send
(go_statement "go" @Go.go (_) @Go.call) @Go
(defer_statement "defer" @Defer.defer (_) @Defer.call) @Defer

[
  (parameter_list) (type_parameter_list) (type_arguments) (argument_list) (expression_list) (statement_list)
  (expression_statement) (literal_value) (literal_element) (var_spec_list) (import_spec_list)
  (field_declaration_list) (for_clause) (range_clause) (type_constraint) (type_elem)
] @through
