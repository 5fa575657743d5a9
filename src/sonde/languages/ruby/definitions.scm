(method name: (_) @name) @function
(singleton_method name: (_) @name) @function

(class name: (constant) @name) @class
(class name: (scope_resolution name: (constant) @name)) @class
(module name: (constant) @name) @class
(module name: (scope_resolution name: (constant) @name)) @class

; `class A::B` stands in A; `class << self` holds methods and has no name.
(class name: (scope_resolution scope: (_) @name)) @scope
(module name: (scope_resolution scope: (_) @name)) @scope
(singleton_class) @scope

; Comments before the first method of a body stand before the body; `private def m` is a call with a definition.
((comment)+ @doc.lines . [(method) (singleton_method)] @function)
(_ (comment)+ @doc.lines . (body_statement . [(method) (singleton_method)] @function))
((comment)+ @doc.lines . (call arguments: (argument_list . [(method) (singleton_method)] @function)))
(_ (comment)+ @doc.lines
  . (body_statement . (call arguments: (argument_list . [(method) (singleton_method)] @function))))
