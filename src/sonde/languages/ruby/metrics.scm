; What counts in Ruby; see `sonde.languages.engine.metrics` for the names. Decisions are those of lizard, with `unless`
; and `in`, which it forgets, and without `ensure`, which decides nothing. A block counts with the method around it.

(method) @function
(singleton_method) @function
(class) @apart
(module) @apart
(singleton_class) @apart

[(if) (unless) (elsif) (if_modifier) (unless_modifier) (if_guard) (unless_guard)] @decision
[(while) (until) (for) (while_modifier) (until_modifier)] @decision
[(when) (in_clause)] @decision
[(rescue) (rescue_modifier)] @decision
(conditional) @decision
(binary operator: ["&&" "||" "and" "or"]) @decision
(operator_assignment operator: ["&&=" "||="]) @decision

[(if) (unless) (elsif) (if_modifier) (unless_modifier)] @structure.if
[(while) (until) (for) (while_modifier) (until_modifier)] @structure.loop
; Loops that are methods; one that gives a new collection is an expression.
((call method: (identifier) @_method block: (_)) @structure.loop
  (#any-of? @_method
    "loop" "each" "each_with_index" "each_with_object" "each_pair" "each_key" "each_value" "each_line" "each_char"
    "each_byte" "each_slice" "each_cons" "each_entry" "reverse_each" "times" "upto" "downto" "step" "cycle"))
[(case) (case_match)] @structure.switch
(begin (rescue)) @structure.try
(body_statement (rescue)) @structure.try

[(method) (singleton_method) (class) (module) (singleton_class)] @block
[(then) (do) (do_block) (block) (begin)] @block
(if alternative: (else) @block)
(unless alternative: (else) @block)
(elsif alternative: (else) @block)
(case (else) @block)
(case_match (else) @block)

(return) @return

(call !receiver method: (_) @called)
(call receiver: (self) method: (_) @called)
; Without arguments, a name that means no variable.
(identifier) @called.unbound
