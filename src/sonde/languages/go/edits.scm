; Names that may stand for one another.
(identifier) @name
(field_identifier) @name

; The predeclared types, which are names to the grammar.
((type_identifier) @type
  (#any-of? @type "bool" "byte" "complex64" "complex128" "float32" "float64" "int" "int8" "int16" "int32" "int64"
    "rune" "string" "uint" "uint8" "uint16" "uint32" "uint64" "uintptr"))

(binary_expression operator: ["==" "!=" "<=" ">=" "<" ">"] @relational)

(assignment_statement operator: _ @assignment)
(short_var_declaration ":=" @assignment)
(var_spec "=" @assignment)

(statement_list (_) @statement)
(block) @body

(short_var_declaration left: (expression_list (identifier) @bound))
(assignment_statement left: (expression_list (_) @bound))
(var_spec name: (identifier) @bound)
(range_clause left: (expression_list (identifier) @bound))
(inc_statement (identifier) @bound)
(dec_statement (identifier) @bound)

; A getter gives a field or a constant, a setter sets one field.
(method_declaration body: (block . (statement_list . (return_statement (expression_list . [
    (identifier) (selector_expression) (nil) (true) (false) (interpreted_string_literal) (int_literal)
  ] .)) .) .)) @accessor
(method_declaration body: (block . (statement_list . (assignment_statement
    left: (expression_list . (selector_expression) .) right: (expression_list . (identifier) .)) .) .)) @accessor

; Statements behind which nothing of their block is reached; what leaves a loop has to stand in one.
[(return_statement) (break_statement) (continue_statement) (goto_statement) (fallthrough_statement)] @jump
((expression_statement (call_expression function: (identifier) @_panic)) @jump (#eq? @_panic "panic"))
((break_statement) @loose.break (#eq? @loose.break "break"))
((continue_statement) @loose.continue (#eq? @loose.continue "continue"))
(fallthrough_statement) @loose.fallthrough
(for_statement) @around.break @around.continue
[(expression_switch_statement) (type_switch_statement) (select_statement)] @around.break
(expression_switch_statement) @around.fallthrough
[(function_declaration) (method_declaration) (func_literal)] @barrier

; What is deferred or started is a call; a constant has a value; behind the last of several lines of a literal stands
; a comma, so that no block is taken for one.
(defer_statement (_) @refused)
(defer_statement (call_expression) @no.refused)
(go_statement (_) @refused)
(go_statement (call_expression) @no.refused)
(const_declaration . "const" . (const_spec !value) @refused)
((literal_value) @refused (#match? @refused "\\n[^\\n/]*[^,\\s{/][ \\t]*\\n\\s*\\}$"))
