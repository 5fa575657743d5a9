; Names that may stand for one another.
(identifier) @name
(type_identifier) @name

(integral_type) @type
(floating_point_type) @type
(boolean_type) @type

(binary_expression operator: ["==" "!=" "<=" ">=" "<" ">"] @relational)

(assignment_expression operator: _ @assignment)
(variable_declarator "=" @assignment)

(block (_) @statement)
(constructor_body (_) @statement)
(block) @body

(variable_declarator name: (_) @bound)
(assignment_expression left: (_) @bound)
(enhanced_for_statement name: (_) @bound)
(catch_formal_parameter name: (_) @bound)
(update_expression (identifier) @bound)

; A getter gives a field or a constant, a setter sets one field.
(method_declaration body: (block
  . (return_statement [
      (identifier) (field_access) (null_literal) (true) (false) (string_literal) (decimal_integer_literal)
    ]) .)) @accessor
(method_declaration body: (block
  . (expression_statement (assignment_expression left: [(identifier) (field_access)] right: (identifier)))
  . (return_statement (this))? .)) @accessor

; Statements behind which nothing of their block is reached; what leaves a loop has to stand in one.
[(return_statement) (throw_statement) (break_statement) (continue_statement) (yield_statement)] @jump
((break_statement) @loose.break (#match? @loose.break "^break\\s*;"))
((continue_statement) @loose.continue (#match? @loose.continue "^continue\\s*;"))
[(for_statement) (enhanced_for_statement) (while_statement) (do_statement)] @around.break @around.continue
(switch_expression) @around.break
[(method_declaration) (lambda_expression) (class_body)] @barrier

; The grammar takes reserved words for names.
([(identifier) (type_identifier)] @refused
  (#any-of? @refused
    "abstract" "assert" "boolean" "break" "byte" "case" "catch" "char" "class" "const" "continue" "default" "do"
    "double" "else" "enum" "extends" "false" "final" "finally" "float" "for" "goto" "if" "implements" "import"
    "instanceof" "int" "interface" "long" "native" "new" "null" "package" "private" "protected" "public"
    "return" "short" "static" "strictfp" "super" "switch" "synchronized" "this" "throw" "throws" "transient"
    "true" "try" "void" "volatile" "while"))
; A statement does something.
(expression_statement (_) @refused)
(expression_statement [
  (assignment_expression) (update_expression) (method_invocation) (object_creation_expression) (switch_expression)
] @no.refused)
; A rule of a switch gives a value, too.
(switch_rule (expression_statement (_) @no.refused))
