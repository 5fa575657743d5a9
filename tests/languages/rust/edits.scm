(identifier) @name
(field_identifier) @name

(primitive_type) @type

(binary_expression operator: ["==" "!=" "<=" ">=" "<" ">"] @relational)
(assignment_expression "=" @assignment)
(let_declaration "=" @assignment)
(compound_assignment_expr operator: _ @assignment)

(block (_) @statement)
(block) @body
(let_declaration pattern: (identifier) @bound)
(assignment_expression left: (identifier) @bound)
(compound_assignment_expr left: (identifier) @bound)
(for_expression pattern: (identifier) @bound)

(function_item body: (block . (field_expression) .)) @accessor
