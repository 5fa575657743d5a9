; What binds a name, where it is seen, and what refers; see `sonde.languages.engine.names` for the captures.

(function_definition) @local.scope.function
(lambda) @local.scope.function
(class_definition) @local.scope.class
[(list_comprehension) (set_comprehension) (dictionary_comprehension) (generator_expression)] @local.scope.comprehension

; Evaluated in the scope around the definition that holds it; a comprehension's first iterable too.
(function_definition name: (identifier) @local.outside)
(function_definition return_type: (_) @local.outside)
(class_definition name: (identifier) @local.outside)
(class_definition superclasses: (_) @local.outside)
(default_parameter value: (_) @local.outside)
(typed_parameter type: (_) @local.outside)
(typed_default_parameter type: (_) @local.outside)
(typed_default_parameter value: (_) @local.outside)
(list_comprehension . body: (_) . (for_in_clause right: (_) @local.outside))
(set_comprehension . body: (_) . (for_in_clause right: (_) @local.outside))
(dictionary_comprehension . body: (_) . (for_in_clause right: (_) @local.outside))
(generator_expression . body: (_) . (for_in_clause right: (_) @local.outside))

(parameters (identifier) @local.definition.parameter)
(lambda_parameters (identifier) @local.definition.parameter)
(default_parameter name: (identifier) @local.definition.parameter)
(typed_default_parameter name: (identifier) @local.definition.parameter)
(typed_parameter . (identifier) @local.definition.parameter)
(parameters (list_splat_pattern (identifier) @local.definition.parameter))
(parameters (dictionary_splat_pattern (identifier) @local.definition.parameter))
(lambda_parameters (list_splat_pattern (identifier) @local.definition.parameter))
(lambda_parameters (dictionary_splat_pattern (identifier) @local.definition.parameter))
(typed_parameter . (list_splat_pattern (identifier) @local.definition.parameter))
(typed_parameter . (dictionary_splat_pattern (identifier) @local.definition.parameter))

(assignment left: (identifier) @local.definition.variable)
(for_statement left: (identifier) @local.definition.variable)
(for_in_clause left: (identifier) @local.definition.variable)
(pattern_list [(identifier) @local.definition.variable (list_splat_pattern (identifier) @local.definition.variable)])
(tuple_pattern [(identifier) @local.definition.variable (list_splat_pattern (identifier) @local.definition.variable)])
(list_pattern [(identifier) @local.definition.variable (list_splat_pattern (identifier) @local.definition.variable)])
; The grammar takes the target of a `with` for an expression; a list in a list in a list is the deepest looked at.
(as_pattern_target (identifier) @local.definition.variable)
(as_pattern_target (parenthesized_expression (identifier) @local.definition.variable))
(as_pattern_target [
  (tuple [(identifier) @local.definition.variable (list_splat (identifier) @local.definition.variable)])
  (list [(identifier) @local.definition.variable (list_splat (identifier) @local.definition.variable)])
])
(as_pattern_target (_ [
  (tuple [(identifier) @local.definition.variable (list_splat (identifier) @local.definition.variable)])
  (list [(identifier) @local.definition.variable (list_splat (identifier) @local.definition.variable)])
]))
(as_pattern_target (_ (_ [
  (tuple [(identifier) @local.definition.variable (list_splat (identifier) @local.definition.variable)])
  (list [(identifier) @local.definition.variable (list_splat (identifier) @local.definition.variable)])
])))
(except_clause value: (as_pattern alias: (as_pattern_target (identifier) @local.definition.exception)))
(named_expression name: (identifier) @local.definition.expression)
(augmented_assignment left: (identifier) @local.definition.again)
(delete_statement (identifier) @local.definition.deleted)
(delete_statement (expression_list (identifier) @local.definition.deleted))
(delete_statement (_ [(tuple (identifier) @local.definition.deleted) (list (identifier) @local.definition.deleted)]))

; A bare name in a case takes whatever is there; with dots it is a value, and first in a class pattern the class.
(case_pattern (dotted_name . (identifier) @local.definition.pattern .))
(keyword_pattern (dotted_name . (identifier) @local.definition.pattern .))
(case_pattern (as_pattern (identifier) @local.definition.pattern .))
(splat_pattern (identifier) @local.definition.pattern)

(function_definition name: (identifier) @local.definition.function)
(class_definition name: (identifier) @local.definition.type)
; Not every type_parameter binds: that of `List[T]` is a use.
(_ type_parameters: (type_parameter (type (identifier) @local.definition.type)))
(_ type_parameters: (type_parameter (type (constrained_type . (type (identifier) @local.definition.type)))))
(type_alias_statement left: (type (identifier) @local.definition.type))
(type_alias_statement left: (type (generic_type . (identifier) @local.definition.type)))

(global_statement (identifier) @local.global)
(nonlocal_statement (identifier) @local.nonlocal)

(identifier) @local.reference

; Identifiers that are no variables. Imports bind as their statements say, see imports.py.
(attribute attribute: (identifier) @local.member)
(keyword_argument name: (identifier) @local.member)
(keyword_pattern . (identifier) @local.member)
(class_pattern (dotted_name (identifier) @local.member))
(import_statement (dotted_name (identifier) @local.member))
(import_from_statement (dotted_name (identifier) @local.member))
(aliased_import (_) @local.member)
(aliased_import (dotted_name (identifier) @local.member))
