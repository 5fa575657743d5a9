# What Ruby's own parser finds in files, which are parsed and never run: paths on stdin, a line of JSON a file.
require "json"
require "ripper"

# Names of outermost methods, and of calls with whether there is a receiver; each with its line and its byte there.
class Walk
  attr_reader :functions, :calls

  def initialize
    @functions, @calls, @inside = [], [], 0
  end

  def node(one)
    return unless one.is_a?(Array)
    return one.each { |child| node(child) } unless one[0].is_a?(Symbol)
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

STDIN.each_line(chomp: true) do |path|
  text = File.binread(path).force_encoding("UTF-8")
  tree = Ripper.sexp(text)
  walk = Walk.new
  walk.node(tree)
  before = nil
  tokens = Ripper.lex(text).map do |(line, column), kind, spelling, _|
    found = [kind, line, column, spelling, before]
    before = kind
    found
  end
  puts JSON.generate(valid: !tree.nil?, functions: walk.functions, calls: walk.calls, tokens: tokens)
end
