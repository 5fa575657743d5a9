; Scopes, bindings, imports and calls; see imports.py for what each capture means.

(function_definition) @scope.function
(lambda) @scope.function
(class_definition) @scope.class
[(list_comprehension) (set_comprehension) (dictionary_comprehension) (generator_expression)] @scope.comprehension

; Evaluated in the scope around the definition that holds them.
(function_definition name: (identifier) @outside)
(function_definition return_type: (_) @outside)
(class_definition name: (identifier) @outside)
(class_definition superclasses: (_) @outside)
(default_parameter value: (_) @outside)
(typed_parameter type: (_) @outside)
(typed_default_parameter type: (_) @outside)
(typed_default_parameter value: (_) @outside)

(function_definition name: (identifier) @bind)
(class_definition name: (identifier) @bind)
; Not every type_parameter binds: that of `List[T]` is a use.
(_ type_parameters: (type_parameter (type (identifier) @bind)))
(_ type_parameters: (type_parameter (type (constrained_type . (type (identifier) @bind)))))
(type_alias_statement left: (type (identifier) @bind))
(type_alias_statement left: (type (generic_type . (identifier) @bind)))

(parameters (identifier) @bind)
(lambda_parameters (identifier) @bind)
(default_parameter name: (identifier) @bind)
(typed_parameter . (identifier) @bind)
(typed_default_parameter name: (identifier) @bind)
(list_splat_pattern (identifier) @bind)
(dictionary_splat_pattern (identifier) @bind)

(assignment left: (identifier) @bind)
(augmented_assignment left: (identifier) @bind)
(for_statement left: (identifier) @bind)
(for_in_clause left: (identifier) @bind)
(pattern_list (identifier) @bind)
(tuple_pattern (identifier) @bind)
(list_pattern (identifier) @bind)
(as_pattern_target (identifier) @bind)
(as_pattern_target [(tuple (identifier) @bind) (list (identifier) @bind)])
(delete_statement (identifier) @bind)
(delete_statement (expression_list (identifier) @bind))
(delete_statement (_ [(tuple (identifier) @bind) (list (identifier) @bind)]))

(named_expression name: (identifier) @bind.past)

; A name alone is a capture pattern; with dots it is a value, and first in a class pattern it is the class.
(case_pattern . (dotted_name . (identifier) @bind .) .)
(as_pattern (case_pattern) (identifier) @bind)
(splat_pattern (identifier) @bind)
(keyword_pattern (identifier) (dotted_name . (identifier) @bind .))

(global_statement (identifier) @global)
(nonlocal_statement (identifier) @nonlocal)

(import_statement) @import
(import_from_statement) @import

(call function: (identifier) @called)
(call function: (attribute) @called)

(assignment left: (identifier) @assigned right: (call function: [(identifier) (attribute)]))
