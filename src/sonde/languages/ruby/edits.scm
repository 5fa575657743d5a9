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
