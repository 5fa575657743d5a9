; Roles of names. A capture is a role; where several match, the one that first stands later in this file wins.
; `within.ROLE` is for names inside the node that have no other role. All other names are variables.

(argument_list (identifier) @argument)

(attribute attribute: (identifier) @attribute)

(call function: (identifier) @call)
(call function: (attribute attribute: (identifier) @call))
(call function: (list_splat (identifier) @call))

(keyword_argument name: (identifier) @keyword_argument)
(keyword_pattern . (identifier) @keyword_argument)

(parameters [
  (identifier) @parameter
  (default_parameter name: (identifier) @parameter)
  (typed_default_parameter name: (identifier) @parameter)
  (typed_parameter . (identifier) @parameter)
  (typed_parameter . (list_splat_pattern (identifier) @parameter))
  (typed_parameter . (dictionary_splat_pattern (identifier) @parameter))
  (list_splat_pattern (identifier) @parameter)
  (dictionary_splat_pattern (identifier) @parameter)
])
(lambda_parameters [
  (identifier) @parameter
  (default_parameter name: (identifier) @parameter)
  (list_splat_pattern (identifier) @parameter)
  (dictionary_splat_pattern (identifier) @parameter)
])

(decorator (identifier) @decorator)
(decorator (attribute attribute: (identifier) @decorator))
(decorator (call function: (identifier) @decorator))
(decorator (call function: (attribute attribute: (identifier) @decorator)))

(function_definition name: (identifier) @function)

(class_definition name: (identifier) @class)

(import_statement) @within.module
(import_from_statement) @within.module
(future_import_statement) @within.module

(class_definition superclasses: (argument_list (identifier) @type))

(type) @within.type
