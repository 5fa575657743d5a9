; What counts in Python; see `sonde.languages.engine.metrics` for the names. Cyclomatic complexity is radon's: all
; cases of a match count, one that takes everything excepted, and an assert is one decision, whatever it says.

(function_definition) @function
(class_definition) @apart

(if_statement) @decision
(elif_clause) @decision
(conditional_expression) @decision
(for_statement) @decision
(for_statement (else_clause) @decision)
(while_statement) @decision
(while_statement (else_clause) @decision)
(for_in_clause) @decision
; The `if` of a comprehension; the guard of a case is none of its own.
(list_comprehension (if_clause) @decision)
(set_comprehension (if_clause) @decision)
(dictionary_comprehension (if_clause) @decision)
(generator_expression (if_clause) @decision)
(except_clause) @decision
(try_statement (else_clause) @decision)
(case_clause) @decision
(boolean_operator) @decision
(assert_statement) @decision @decision.whole
((case_clause . (case_pattern [(dotted_name) "_"])) @default
  (#match? @default "^case\\s+\\w+\\s*(:|if\\b)"))

(if_statement) @structure.if
(elif_clause) @structure.if
(for_statement) @structure.loop
(while_statement) @structure.loop
(match_statement) @structure.switch
(try_statement) @structure.try

(block) @block

(return_statement) @return

; A bare name means no method. One that stands by itself is known by its decorator or its first parameter.
(class_definition body: (block [
  (function_definition) @method
  (decorated_definition definition: (function_definition) @method)
]))
((decorated_definition (decorator (identifier) @_kind) definition: (function_definition) @method)
  (#any-of? @_kind "staticmethod" "classmethod" "property"))
((function_definition
  parameters: (parameters . [(identifier) @_first (typed_parameter . (identifier) @_first)])) @method
  (#any-of? @_first "self" "cls" "mcs"))
(call function: (identifier) @called.bare)
((call function: (attribute object: (identifier) @_own attribute: (identifier) @called.own))
  (#any-of? @_own "self" "cls" "mcs"))

(if_statement) @path
(elif_clause) @path
(for_statement) @path
(while_statement) @path
(try_statement) @path
(except_clause) @path
(match_statement) @path
(case_clause) @path
(conditional_expression) @path
(return_statement) @path

(boolean_operator) @boolean
