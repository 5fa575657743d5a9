; Which value goes into which variable; see `sonde.languages.engine.data_flow`.

(assignment left: (_) @parallel right: (_) @source)
(operator_assignment left: (_) @target right: (_) @source)
(for pattern: (_) @target value: (_) @source)
(match_pattern value: (_) @source pattern: (_) @target)
(test_pattern value: (_) @source pattern: (_) @target)
; A block is given what its call makes of the receiver.
(call receiver: (_) @source block: (_ parameters: (block_parameters) @target))
