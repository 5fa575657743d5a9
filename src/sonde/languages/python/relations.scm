; Parts of the constructs that CodeSyntax relates, and how nodes stand in the tree, see `_relation_query`.

(if_statement "if" @If.if condition: (_) @If.test consequence: (_) @If.body) @If
(elif_clause "elif" @If.if condition: (_) @If.test consequence: (_) @If.body) @If
(if_statement alternative: (elif_clause "elif" @If.else) @If.orelse @If.nested) @If
(if_statement alternative: (else_clause "else" @If.else body: (_) @If.orelse)) @If

(while_statement "while" @While.while condition: (_) @While.test body: (_) @While.body) @While
; What begins with `async` is another construct, and so are `except*` and the second `=` of `a = b = c`.
(for_statement "for" @For.for left: (_) @For.target right: (_) @For.iter body: (_) @For.body) @For
(with_statement (with_clause . (with_item) @With.item) body: (_) @With.body) @With
(with_statement (with_clause . "(" . (with_item) @With.item) body: (_) @With.body) @With

(try_statement body: (_) @Try.body (except_clause) @Try.handler) @Try
(try_statement body: (_) @Try.body (else_clause body: (_) @Try.orelse)) @Try
(try_statement body: (_) @Try.body (finally_clause (block) @Try.finalbody)) @Try
(for_statement "async") @other
(with_statement "async") @other
(try_statement (except_clause "*")) @other

(assignment
  left: (_) @Assign.target !type
  right: [(expression) (expression_list) (pattern_list) (yield) (augmented_assignment)] @Assign.value) @Assign
(assignment left: (_) @Assign.target right: (assignment
  right: [(expression) (expression_list) (pattern_list) (yield) (augmented_assignment)] @Assign.value)) @Assign
(assignment left: (_) @Assign.target right: (assignment right: (assignment
  right: [(expression) (expression_list) (pattern_list) (yield) (augmented_assignment)] @Assign.value))) @Assign
(assignment right: (assignment) @other @through)
(augmented_assignment left: (_) @AugAssign.target right: (_) @AugAssign.value) @AugAssign

(call function: (_) @Call.func.last) @Call
(call arguments: (argument_list [(expression) (list_splat) (parenthesized_expression)] @Call.args.last)) @Call
(call arguments: (generator_expression) @Call.args.last) @Call
(call arguments: (argument_list [(keyword_argument) (dictionary_splat)] @Call.keywords)) @Call

(attribute object: (_) @Attribute.value attribute: (_) @Attribute.attr @own) @Attribute
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
  left: [(primary_expression) (not_operator) (comparison_operator)] @BoolOp.value
  right: (_) @BoolOp.value) @BoolOp
(boolean_operator left: (boolean_operator "or") @BoolOp.value "and" right: (_) @BoolOp.value) @BoolOp
(boolean_operator left: (boolean_operator "and") @BoolOp.value "or" right: (_) @BoolOp.value) @BoolOp

; Several subscripts are one tuple, to which a last comma belongs.
(subscript value: (_) @Subscript.value subscript: (_) @Subscript.slice) @Subscript
(subscript "," @Subscript.slice) @Subscript
(subscript subscript: (_) @together . "," @together)
(subscript "," @together . subscript: (_) @together)
(generic_type . (_) @Subscript.value (type_parameter (type) @Subscript.slice)) @Subscript
(generic_type (type_parameter "," @Subscript.slice)) @Subscript
(type_parameter (type) @together . "," @together)
(type_parameter "," @together . (type) @together)
(slice . (expression) @Slice.lower . ":" . (expression) @Slice.upper) @Slice
(slice . (expression) . ":" . ":") @other
(slice . ":") @other

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

(block) @body

; What is not looked at: a function's head, and what is inside a string.
(function_definition parameters: (_) @outside)
(function_definition return_type: (_) @outside)
(function_definition type_parameters: (_) @outside)
(decorated_definition (decorator) @outside definition: (function_definition))
(interpolation) @outside

[
  (block) (else_clause) (finally_clause) (argument_list) (parenthesized_expression) (pair) (decorated_definition)
  (type) (type_parameter) (case_pattern) (keyword_pattern)
] @through
[(block) (parenthesized_expression) (decorated_definition)] @bare
(decorator) @before
(delete_statement (expression_list) @through)
(dictionary (dictionary_splat) @through)
(except_clause (as_pattern) @through)
(dict_pattern (splat_pattern) @through)

[
  (function_definition) (with_clause) (with_item) (for_in_clause) (if_clause) (case_clause) (decorator)
  (lambda_parameters (_) @apart) (default_parameter) (as_pattern_target)
] @apart

(keyword_argument name: (_) @own)
(class_definition name: (_) @own)
(class_definition type_parameters: (_) @own)
(import_from_statement module_name: (_) @own)
(dotted_name (identifier) @own)
(aliased_import (_) @own)
(global_statement (identifier) @own)
(nonlocal_statement (identifier) @own)
(splat_pattern (_) @own)
(concatenated_string (string) @own)
(keyword_pattern . (identifier) @own)
(as_pattern (_) . (identifier) @own)
