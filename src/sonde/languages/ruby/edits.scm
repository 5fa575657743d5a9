; Names that may stand for one another.
[(identifier) (constant) (instance_variable) (class_variable) (global_variable)] @name

; Ruby has no primitive types: the names of the classes of its literals.
((constant) @type
  (#any-of? @type "Array" "Complex" "FalseClass" "Float" "Hash" "Integer" "NilClass" "Numeric" "Object" "Proc" "Range"
    "Rational" "Regexp" "String" "Symbol" "TrueClass"))
(scope_resolution name: (constant) @no.type)
(class name: (constant) @no.type)
(call !receiver method: (constant) @no.type)

(binary operator: ["==" "!=" "<=" ">=" "<" ">"] @relational)

(assignment "=" @assignment)
(operator_assignment operator: _ @assignment)

[
  (body_statement (_statement) @statement) (block_body (_statement) @statement) (then (_statement) @statement)
  (do (_statement) @statement) (else (_statement) @statement) (ensure (_statement) @statement)
  (begin (_statement) @statement)
]
[(body_statement) (block_body) (then)] @body

(assignment left: (_) @bound)
(operator_assignment left: (_) @bound)
(for pattern: (_) @bound)
(exception_variable (_) @bound)

; A getter gives a field or a constant, a setter sets one field.
(method body: (body_statement . [
  (instance_variable) (class_variable) (constant) (nil) (true) (false) (string) (simple_symbol) (integer) (float)
] .)) @accessor
(method "=" body: [
  (instance_variable) (class_variable) (constant) (nil) (true) (false) (string) (simple_symbol) (integer) (float)
]) @accessor
(method body: (body_statement . (assignment
  left: [(instance_variable) (class_variable)] right: (identifier)) .)) @accessor

; Statements behind which nothing of their block is reached; what leaves a loop has to stand in one.
[(return) (break) (next) (redo) (retry)] @jump
((call !receiver method: (identifier) @_raise) @jump (#eq? @_raise "raise"))
((identifier) @jump (#eq? @jump "raise"))
[(break) (next) (redo)] @loose.loop
(retry) @loose.retry
[(while) (until) (for) (while_modifier) (until_modifier) (do_block) (block) (lambda)] @around.loop
(rescue) @around.retry
[(method) (singleton_method)] @barrier

; The grammar takes reserved words for names of methods, and a jump for a value.
([(identifier) (constant)] @refused
  (#any-of? @refused
    "BEGIN" "END" "alias" "and" "begin" "break" "case" "class" "def" "defined?" "do" "else" "elsif" "end"
    "ensure" "false" "for" "if" "in" "module" "next" "nil" "not" "or" "redo" "rescue" "retry" "return" "self"
    "super" "then" "true" "undef" "unless" "until" "when" "while" "yield"))
(call receiver: (_) method: [(identifier) (constant)] @no.refused)
(method name: [(identifier) (constant)] @no.refused)
(singleton_method name: [(identifier) (constant)] @no.refused)
(method name: (setter (identifier) @no.refused))
(singleton_method name: (setter (identifier) @no.refused))
(alias (identifier) @no.refused)
(undef (identifier) @no.refused)
(keyword_parameter name: (identifier) @no.refused)
(assignment right: [(return) (break) (next) (redo) (retry)] @refused)
(operator_assignment right: [(return) (break) (next) (redo) (retry)] @refused)
(argument_list [(return) (break) (next) (redo) (retry)] @refused)
(array [(return) (break) (next) (redo) (retry)] @refused)
(pair value: [(return) (break) (next) (redo) (retry)] @refused)
(optional_parameter value: [(return) (break) (next) (redo) (retry)] @refused)
(_ condition: [(return) (break) (next) (redo) (retry)] @refused)
(element_reference object: [(return) (break) (next) (redo) (retry)] @refused)
(call receiver: [(return) (break) (next) (redo) (retry)] @refused)
(binary left: [(return) (break) (next) (redo) (retry)] @refused)
(binary
  operator: ["<<" ">>" "==" "!=" "===" "=~" "!~" "<=>" "+" "-" "*" "/" "%" "**" "<" ">" "<=" ">=" "&" "|" "^"]
  right: [(return) (break) (next) (redo) (retry)] @refused)
(call method: (self) @refused)
; An `else` goes with a `rescue`.
(body_statement (else) @refused)
(body_statement (rescue) (else) @no.refused)
(begin (else) @refused)
(begin (rescue) (else) @no.refused)
(_ condition: [(if_modifier) (unless_modifier) (while_modifier) (until_modifier)] @refused)
