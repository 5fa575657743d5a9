; Names that may stand for one another.
(identifier) @name
(property_identifier) @name

; JavaScript has no primitive types: the names of its builtin types, where they are names of their own.
((identifier) @type
  (#any-of? @type "Array" "BigInt" "Boolean" "Date" "Error" "Function" "Map" "Number" "Object" "Promise" "RegExp" "Set"
    "String" "Symbol"))

; Where an assignment could stand as well: its left side takes a value, and no operator around binds closer.
(binary_expression
  left: [(identifier) (member_expression !optional_chain) (subscript_expression !optional_chain)]
  operator: ["==" "!=" "===" "!==" "<=" ">=" "<" ">"] @relational)
(binary_expression (binary_expression operator: _ @no.relational))

(assignment_expression "=" @assignment)
(augmented_assignment_expression operator: _ @assignment)
(variable_declarator "=" @assignment)

(statement_block (_) @statement)
(statement_block) @body

(variable_declarator name: (_) @bound)
(assignment_expression left: (_) @bound)
(augmented_assignment_expression left: (_) @bound)
(for_in_statement left: (_) @bound)
(catch_clause parameter: (_) @bound)
(update_expression argument: (identifier) @bound)

; A getter gives a field or a constant, a setter sets one field; of an arrow the value alone.
(_ name: (_)? body: (statement_block . (return_statement [
    (identifier) (member_expression) (null) (undefined) (true) (false) (string) (number)
  ]) .)) @accessor
(_ name: (_)? body: (statement_block . (expression_statement
    (assignment_expression left: (member_expression) right: (identifier))) .)) @accessor

; Statements behind which nothing of their block is reached; what leaves a loop has to stand in one.
[(return_statement) (throw_statement) (break_statement) (continue_statement)] @jump
((break_statement !label) @loose.break)
((continue_statement !label) @loose.continue)
[(for_statement) (for_in_statement) (while_statement) (do_statement)] @around.break @around.continue
(switch_statement) @around.break
[
  (function_declaration) (generator_function_declaration) (function_expression) (generator_function)
  (arrow_function) (method_definition) (class_static_block)
] @barrier

; A constant has a value, an attempt is caught, and nothing is given to what an operator stands before.
(lexical_declaration "const" (variable_declarator !value) @refused)
(try_statement !handler !finalizer) @refused
(binary_expression right: (assignment_expression) @refused)
(unary_expression argument: (assignment_expression) @refused)
