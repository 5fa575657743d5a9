; Parts of the constructs that CodeSyntax relates: @Construct is the construct, @Construct.part one of its
; parts. Matches about one construct are merged, so that a part may be many nodes; it goes from the first to
; the last of them. Which parts are related, the names of the relations say.

(if_statement "if" @If.if condition: (_) @If.test consequence: (_) @If.body) @If
(elif_clause "elif" @If.if condition: (_) @If.test consequence: (_) @If.body) @If
; What follows each branch is told from their order.
(if_statement alternative: (_)) @branches

(while_statement "while" @While.while condition: (_) @While.test body: (_) @While.body) @While
(for_statement "for" @For.for left: (_) @For.target right: (_) @For.iter body: (_) @For.body) @For
(with_statement (with_clause . (with_item) @With.item) body: (_) @With.body) @With
(with_statement (with_clause . "(" . (with_item) @With.item) body: (_) @With.body) @With

(try_statement body: (_) @Try.body (except_clause) @Try.handler) @Try
(try_statement body: (_) @Try.body (else_clause body: (_) @Try.orelse)) @Try
(try_statement body: (_) @Try.body (finally_clause (block) @Try.finalbody)) @Try

; `async` and `except*` make other constructs, and so does the second `=` of `a = b = c`.
(for_statement "async") @other
(with_statement "async") @other
(try_statement (except_clause "*")) @other
(assignment right: (assignment) @other)

(assignment left: (_) @Assign.target !type right: (_) @Assign.value) @Assign
(augmented_assignment left: (_) @AugAssign.target right: (_) @AugAssign.value) @AugAssign

(call function: (_) @Call.func) @Call
(call arguments: (argument_list [(expression) (list_splat) (parenthesized_expression)] @Call.args)) @Call
(call arguments: (generator_expression) @Call.args) @Call
(call arguments: (argument_list [(keyword_argument) (dictionary_splat)] @Call.keywords)) @Call

(attribute object: (_) @Attribute.value attribute: (_) @Attribute.attr) @Attribute
(case_pattern
  (dotted_name . (identifier) @Attribute.value (identifier) @Attribute.attr @Attribute))
(class_pattern
  (dotted_name . (identifier) @Attribute.value (identifier) @Attribute.attr @Attribute))
(keyword_pattern
  (dotted_name . (identifier) @Attribute.value (identifier) @Attribute.attr @Attribute))

(binary_operator left: (_) @BinOp.left right: (_) @BinOp.right) @BinOp
(union_type . (type) @BinOp.left (type) @BinOp.right) @BinOp
(comparison_operator . (primary_expression) @Compare.left (primary_expression) @Compare.comparator) @Compare
(conditional_expression
  (expression) @IfExp.body "if" (expression) @IfExp.test "else" (expression) @IfExp.orelse) @IfExp
; `a and b and c` is one construct of three values, of which the first two are related.
(boolean_operator
  left: [(primary_expression) (not_operator) (comparison_operator)] @BoolOp.left
  right: (_) @BoolOp.right) @BoolOp
(boolean_operator left: (boolean_operator "or") @BoolOp.left "and" right: (_) @BoolOp.right) @BoolOp
(boolean_operator left: (boolean_operator "and") @BoolOp.left "or" right: (_) @BoolOp.right) @BoolOp

; Several subscripts are one tuple, to which a last comma belongs.
(subscript value: (_) @Subscript.value subscript: (_) @Subscript.slice) @Subscript
(subscript "," @Subscript.slice) @Subscript
(generic_type . (_) @Subscript.value (type_parameter (type) @Subscript.slice)) @Subscript
(generic_type (type_parameter "," @Subscript.slice)) @Subscript
(slice (expression) @Slice.bound ":" @Slice.colon) @Slice
(slice ":" @Slice.colon (expression) @Slice.bound) @Slice

(dictionary (pair key: (_) @Dict.key value: (_) @Dict.value) @Dict)
(dictionary_comprehension body: (pair key: (_) @DictComp.key value: (_) @DictComp.value)) @DictComp
(dictionary_comprehension
  (for_in_clause left: (_) @DictComp.generator right: (_) @DictComp.generator)) @DictComp
(list_comprehension body: (_) @ListComp.elt) @ListComp
(list_comprehension (for_in_clause left: (_) @ListComp.generator right: (_) @ListComp.generator)) @ListComp
(set_comprehension body: (_) @SetComp.elt) @SetComp
(set_comprehension (for_in_clause left: (_) @SetComp.generator right: (_) @SetComp.generator)) @SetComp
(generator_expression body: (_) @GeneratorExp.elt) @GeneratorExp
(generator_expression
  (for_in_clause left: (_) @GeneratorExp.generator right: (_) @GeneratorExp.generator)) @GeneratorExp
(for_in_clause left: (_) @comprehension.target right: (_) @comprehension.iter) @comprehension

; The grammar takes a block without a statement, Python does not.
(block) @block

; What is not looked at: a function's head, and what is inside a word.
(function_definition parameters: (_) @outside)
(function_definition return_type: (_) @outside)
(function_definition type_parameters: (_) @outside)
(decorated_definition (decorator) @outside definition: (function_definition))
(string) @outside
