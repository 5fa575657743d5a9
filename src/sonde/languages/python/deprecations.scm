; Definitions, and the messages that say that one is deprecated; see `_deprecated` for the names.

(function_definition name: (_) @name) @definition
(class_definition name: (_) @name) @definition @class
(function_definition parameters: (parameters [
  (identifier) @parameter
  (_ . (identifier) @parameter)
  (_ . (_ . (identifier) @parameter))
])) @definition

; A warning whose category says it, an error that says "removed", a decorator, the beginning of a body.
((call function: [(identifier) @_called (attribute attribute: (_) @_called)]
  arguments: (argument_list (_) (_) @_category) @arguments) @given
  (#eq? @_called "warn")
  (#match? @_category "\\b(Pending)?(Deprecation|Future)Warning\\b"))
((raise_statement (call arguments: (argument_list . (_) @_said) @arguments) @given)
  (#match? @_said "removed"))
((decorated_definition
  (decorator (call function: [(identifier) @_called (attribute attribute: (_) @_called)] arguments: (_) @arguments))
  definition: (_) @decorated)
  (#eq? @_called "deprecated"))
(function_definition body: (block . (expression_statement . (_) @documentation))) @definition
(class_definition body: (block . (expression_statement . (_) @documentation))) @definition

(assignment
  left: (identifier) @variable
  right: [(string) (concatenated_string) (parenthesized_expression)] @value)

[
  (if_statement) (elif_clause) (else_clause) (for_statement) (while_statement) (except_clause)
  (match_statement) (conditional_expression)
] @branch
