(call receiver: (_) method: [(identifier) (constant) (operator)] @method !arguments)
(call receiver: (_) method: [(identifier) (constant) (operator)] @method arguments: (_) @arguments)
(call !receiver method: [(identifier) (constant)] @bare !arguments)
(call !receiver method: [(identifier) (constant)] @bare arguments: (_) @arguments)

; A name that is no variable is a call.
(identifier) @unbound

; What is given a value is called by another name: `a.b = 1` calls `b=`.
(assignment left: (call method: (_) @not))
(operator_assignment left: (call method: (_) @not))
(left_assignment_list (call method: (_) @not))
(destructured_left_assignment (call method: (_) @not))
(rest_assignment (call method: (_) @not))
(exception_variable (call method: (_) @not))
(for pattern: (call method: (_) @not))
