# What Ruby's own parser finds in texts, which are parsed and never run: a line of JSON in and one out for each.
require "json"
require "ripper"

# Names of outermost methods, and of calls with whether there is a receiver, each with its line and its byte there;
# and how many constructs there are that no literal holds.
class Walk
  LITERALS = %i[string_literal xstring_literal regexp_literal dyna_symbol array]
  attr_reader :functions, :calls, :counts

  def initialize
    @functions, @calls, @counts, @inside, @literals = [], [], Hash.new(0), 0, 0
  end

  def node(one)
    return unless one.is_a?(Array)
    return one.each { |child| node(child) } unless one[0].is_a?(Symbol)
    held = LITERALS.include?(one[0]) && (one[0] != :array || words?(one[1]))
    @literals += 1 if held
    # What `a.(1)` calls has no name.
    @counts[one[0]] += 1 if @literals.zero? && one[3] != :call
    @counts["#{one[0]}_whole"] += 1 if @literals.zero? && one[1] && one[2]
    inside(one)
    @literals -= 1 if held
  end

  # Whether an array is written as `%w` or `%i`.
  def words?(held)
    held.is_a?(Array) && held[0].is_a?(Array) && %i[word_add @tstring_content].include?(held[0][0])
  end

  def inside(one)
    case one[0]
    when :def, :defs
      name = one[0] == :def ? one[1] : one[3]
      @functions << [name[1], *name[2]] if @inside.zero?
      @inside += 1
      one.drop(1).each { |child| node(child) }
      @inside -= 1
      return
    when :call, :command_call
      called(one[3], true)
    when :fcall, :vcall, :command
      called(one[1], false)
    end
    one.drop(1).each { |child| node(child) }
  end

  def called(name, method)
    @calls << [name[1], *name[2], method] if name.is_a?(Array)
  end
end

STDIN.set_encoding("UTF-8")
STDIN.each_line do |line|
  text = JSON.parse(line)
  tree = Ripper.sexp(text)
  walk = Walk.new
  walk.node(tree)
  tokens = Ripper.lex(text).map { |(row, column), kind, spelling, _| [kind, row, column, spelling] }
  found = { functions: walk.functions, calls: walk.calls, counts: walk.counts, tokens: tokens }
  puts JSON.generate({ valid: !tree.nil?, **found })
end
