((call !receiver method: (identifier)) @import (#match? @import "^(require|require_relative|load|autoload)\\b"))
