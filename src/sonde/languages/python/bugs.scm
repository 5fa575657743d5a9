(identifier) @name

(string) @string

; Formal arguments, of functions and lambdas inside as well.
(parameters [
  (identifier) @defined
  (default_parameter name: (identifier) @defined)
  (typed_default_parameter name: (identifier) @defined)
  (typed_parameter . (identifier) @defined)
  (typed_parameter . (list_splat_pattern (identifier) @defined))
  (typed_parameter . (dictionary_splat_pattern (identifier) @defined))
  (list_splat_pattern (identifier) @defined)
  (dictionary_splat_pattern (identifier) @defined)
])
(lambda_parameters [
  (identifier) @defined
  (default_parameter name: (identifier) @defined)
  (list_splat_pattern (identifier) @defined)
  (dictionary_splat_pattern (identifier) @defined)
])

; Targets of assignments: every name that Python's own tree has in a store context.
(assignment left: (identifier) @defined)
(augmented_assignment left: (identifier) @defined)
(named_expression name: (identifier) @defined)
(for_statement left: (identifier) @defined)
(for_in_clause left: (identifier) @defined)
(pattern_list (identifier) @defined)
(tuple_pattern (identifier) @defined)
(list_pattern (identifier) @defined)
(pattern_list (list_splat_pattern (identifier) @defined))
(tuple_pattern (list_splat_pattern (identifier) @defined))
(list_pattern (list_splat_pattern (identifier) @defined))
(with_item value: (as_pattern alias: (as_pattern_target (identifier) @defined)))
(with_item value: (as_pattern alias: (as_pattern_target (tuple (identifier) @defined))))
(with_item value: (as_pattern alias: (as_pattern_target (list (identifier) @defined))))

(global_statement (identifier) @outer)
(nonlocal_statement (identifier) @outer)

(delete_statement (identifier) @written)
(delete_statement (expression_list (identifier) @written))

(attribute attribute: (identifier) @other)
(keyword_argument name: (identifier) @other)
(function_definition name: (identifier) @other)
(class_definition name: (identifier) @other)
(dotted_name (identifier) @other)
(aliased_import alias: (identifier) @other)
(keyword_pattern (identifier) @other)
(except_clause value: (as_pattern alias: (as_pattern_target (identifier) @other)))
(case_pattern (as_pattern (identifier) @other))
(splat_pattern (identifier) @other)
(type_parameter (type (identifier) @other))

(binary_operator) @operation
(boolean_operator) @operation
(comparison_operator) @operation

(except_clause value: (identifier) @caught)
(except_clause value: (tuple (identifier) @caught))
(except_clause value: (as_pattern . (identifier) @caught))
(except_clause value: (as_pattern . (tuple (identifier) @caught)))

(function_definition
  body: (block . (expression_statement . [(string) (concatenated_string)] .) @documentation))
