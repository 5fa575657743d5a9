; Names that may stand for one another.
(variable_name) @name
(name) @name
(variable_name (name) @no.name)

(primitive_type) @type
(cast_type) @type

(binary_expression operator: ["==" "===" "!=" "!==" "<>" "<=" ">=" "<" ">"] @relational)

(assignment_expression "=" @assignment)
(augmented_assignment_expression operator: _ @assignment)
(static_variable_declaration "=" @assignment)

(compound_statement (_) @statement)
(compound_statement) @body

(assignment_expression left: (_) @bound)
(reference_assignment_expression left: (_) @bound)
(augmented_assignment_expression left: (_) @bound)
(foreach_statement "as" . (_) @bound)
(catch_clause name: (_) @bound)
(update_expression argument: (variable_name) @bound)

; A getter gives a property or a constant, a setter sets one property and may give its object.
(_ body: (compound_statement . (return_statement [
    (variable_name) (member_access_expression) (scoped_property_access_expression) (class_constant_access_expression)
    (null) (boolean) (integer) (float) (string) (encapsed_string) (name)
  ]) .)) @accessor
(_ body: (compound_statement
  . (expression_statement (assignment_expression
      left: [(member_access_expression) (scoped_property_access_expression)] right: (variable_name)))
  . (return_statement (variable_name))? .)) @accessor
