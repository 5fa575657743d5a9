(function_definition name: (identifier) @name) @function

(class_definition name: (identifier) @name) @class

(decorated_definition definition: (function_definition) @function) @span

(function_definition
  body: (block . (expression_statement . [(string) (concatenated_string)] @doc .))) @function
