; Variables of Python; see `sonde.languages._flow` for the names.

(function_definition) @scope.function
(lambda) @scope.function
(class_definition) @scope.class
(list_comprehension) @scope
(set_comprehension) @scope
(dictionary_comprehension) @scope
(generator_expression) @scope

(parameters [
  (identifier) @declare.parameter
  (default_parameter name: (identifier) @declare.parameter)
  (typed_default_parameter name: (identifier) @declare.parameter)
  (typed_parameter . (identifier) @declare.parameter)
  (typed_parameter . (list_splat_pattern (identifier) @declare.parameter))
  (typed_parameter . (dictionary_splat_pattern (identifier) @declare.parameter))
  (list_splat_pattern (identifier) @declare.parameter)
  (dictionary_splat_pattern (identifier) @declare.parameter)
])
(lambda_parameters [
  (identifier) @declare.parameter
  (default_parameter name: (identifier) @declare.parameter)
  (list_splat_pattern (identifier) @declare.parameter)
  (dictionary_splat_pattern (identifier) @declare.parameter)
])

(assignment left: (identifier) @declare.local)
(for_statement left: (identifier) @declare.local)
(for_in_clause left: (identifier) @declare.local)
(assignment left: [
  (pattern_list [(identifier) @declare.local (list_splat_pattern (identifier) @declare.local)])
  (tuple_pattern [(identifier) @declare.local (list_splat_pattern (identifier) @declare.local)])
  (list_pattern [(identifier) @declare.local (list_splat_pattern (identifier) @declare.local)])
])
(for_statement left: [
  (pattern_list [(identifier) @declare.local (list_splat_pattern (identifier) @declare.local)])
  (tuple_pattern [(identifier) @declare.local (list_splat_pattern (identifier) @declare.local)])
])
(for_in_clause left: [
  (pattern_list [(identifier) @declare.local (list_splat_pattern (identifier) @declare.local)])
  (tuple_pattern [(identifier) @declare.local (list_splat_pattern (identifier) @declare.local)])
])
; Patterns inside patterns.
(pattern_list [
  (tuple_pattern [(identifier) @declare.local (list_splat_pattern (identifier) @declare.local)])
  (list_pattern [(identifier) @declare.local (list_splat_pattern (identifier) @declare.local)])
])
(tuple_pattern [
  (tuple_pattern [(identifier) @declare.local (list_splat_pattern (identifier) @declare.local)])
  (list_pattern [(identifier) @declare.local (list_splat_pattern (identifier) @declare.local)])
])

(named_expression name: (identifier) @declare.function)
(as_pattern alias: (as_pattern_target (identifier) @declare.local))
(as_pattern alias: (as_pattern_target (tuple (identifier) @declare.local)))
; A bare name in a case takes whatever is there.
(case_pattern (dotted_name . (identifier) @declare.local .))
(keyword_pattern (dotted_name . (identifier) @declare.local .))
(case_pattern (as_pattern (identifier) @declare.local .))
(splat_pattern (identifier) @declare.local)

(global_statement (identifier) @elsewhere)
(nonlocal_statement (identifier) @elsewhere)

; Read where the function or the class is defined, and a comprehension's first iterable where that stands.
(default_parameter value: (_) @before)
(typed_default_parameter type: (_) @before value: (_) @before)
(typed_parameter type: (_) @before)
(function_definition return_type: (_) @before)
(class_definition superclasses: (_) @before)
(list_comprehension . body: (_) . (for_in_clause right: (_) @before))
(set_comprehension . body: (_) . (for_in_clause right: (_) @before))
(dictionary_comprehension . body: (_) . (for_in_clause right: (_) @before))
(generator_expression . body: (_) . (for_in_clause right: (_) @before))

(identifier) @name

(function_definition name: (identifier) @never)
(class_definition name: (identifier) @never)
(attribute attribute: (identifier) @never)
(keyword_argument name: (identifier) @never)
(keyword_pattern . (identifier) @never)
(class_pattern (dotted_name (identifier) @never))
(import_statement (dotted_name (identifier) @never))
(import_from_statement (dotted_name (identifier) @never))
(aliased_import (_) @never)
(aliased_import (dotted_name (identifier) @never))

(assignment left: (_) @target right: (_) @source)
(augmented_assignment left: (_) @target right: (_) @source)
(for_statement left: (_) @target right: (_) @source)
(for_in_clause left: (_) @target right: (_) @source)
(named_expression name: (_) @target value: (_) @source)
(with_item value: (as_pattern (_) @source alias: (as_pattern_target (_) @target)))
