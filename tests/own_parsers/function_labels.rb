# What Ruby's own parser tells of files: the outermost methods, with labels counted over its tree. A line of JSON a
# text in, one out, `null` for one that it refuses. Texts are parsed and never run.
require "json"
require "ripper"

$VERBOSE = nil

LOOPS = %i[while until for while_mod until_mod]
# Methods that are loops where they have a block, as the tasks have it.
LOOP_METHODS = %w[
  loop each each_with_index each_with_object each_pair each_key each_value each_line each_char each_byte each_slice
  each_cons each_entry reverse_each times upto downto step cycle
]
IFS = %i[if unless elsif if_mod unless_mod]
DECISIONS = IFS + LOOPS + %i[when rescue rescue_mod ifop]
APART = %i[def defs class module sclass]
STRING_BEGINS = {
  on_tstring_beg: :on_tstring_end, on_backtick: :on_tstring_end, on_regexp_beg: :on_regexp_end,
  on_qwords_beg: :on_tstring_end, on_words_beg: :on_tstring_end, on_symbols_beg: :on_tstring_end,
  on_qsymbols_beg: :on_tstring_end, on_embexpr_beg: :on_embexpr_end,
}
LAYOUT = %i[on_sp on_nl on_ignored_nl on_comment on_embdoc on_embdoc_beg on_embdoc_end on_ignored_sp]

def node?(one)
  one.is_a?(Array) && one[0].is_a?(Symbol) && !one[0].to_s.start_with?("@")
end

def token?(one)
  one.is_a?(Array) && one[0].is_a?(Symbol) && one[0].to_s.start_with?("@")
end

# The nodes directly below a node or a list, in text order; tokens are none.
def children(one)
  one.grep(Array).flat_map { |child| node?(child) ? [child] : token?(child) ? [] : children(child) }
end

def all(one, &apart)
  [one] + children(one).reject { |child| apart&.call(child) }.flat_map { |child| all(child, &apart) }
end

def called(node)
  node = node[1] while %i[method_add_arg method_add_block].include?(node[0])
  name = { call: node[3], command_call: node[3], fcall: node[1], command: node[1], vcall: node[1] }[node[0]]
  token?(name) ? name : nil
end

def loop?(node)
  return true if LOOPS.include?(node[0])
  return false unless node[0] == :method_add_block
  name = called(node)
  !name.nil? && name[0] == :@ident && LOOP_METHODS.include?(name[1])
end

# What a loop repeats; the value that a method is called on is there before.
def repeated(node)
  node[0] == :method_add_block ? node[2] : node
end

# `a => pattern` and `a in pattern` are no case.
def case?(node)
  node[0] == :case && (node[2][0] == :when || !node[2][2].nil?)
end

def ins(nodes)
  nodes.select { |node| case?(node) && node[2][0] == :in }.flat_map do |node|
    found, clause = [], node[2]
    while clause && clause[0] == :in
      found << clause
      clause = clause[3]
    end
    found
  end
end

# The condition behind a pattern, which is no statement.
def guards(nodes)
  ins(nodes).map { |clause| clause[1] }.select { |pattern| node?(pattern) && %i[if_mod unless_mod].include?(pattern[0]) }
end

def decision?(node)
  case node[0]
  when :binary then %i[&& || and or].include?(node[2])
  when :opassign then %w[&&= ||=].include?(node[2][1])
  else DECISIONS.include?(node[0])
  end
end

def statements(list)
  list.is_a?(Array) ? list.reject { |one| one == [:void_stmt] } : []
end

# How deep blocks stand in each other: bodies of methods, branches, loops, blocks and `begin`.
def depth(node)
  below = ->(one) { one.is_a?(Array) ? (node?(one) ? [one] : children(one)).map { |child| depth(child) }.max.to_i : 0 }
  # A branch without a statement has no block.
  block = ->(list) { statements(list).empty? ? 0 : 1 + below[list] }
  case node[0]
  when :def, :defs
    [1, 1 + node.drop(1).map { |one| below[one] }.max].max
  when :class, :module, :sclass
    1 + node.drop(1).map { |one| below[one] }.max
  when :if, :unless, :elsif
    [below[node[1]], block[node[2]], below[node[3]]].max
  when :else
    1 + below[node[1]]
  when :while, :until
    [below[node[1]], 1 + below[node[2]]].max
  when :for
    [below[node[1]], below[node[2]], 1 + below[node[3]]].max
  when :when, :in
    [below[node[1]], block[node[2]], below[node[3]]].max
  when :rescue
    [below[node[1]], below[node[2]], block[node[3]], below[node[4]]].max
  when :bodystmt
    # The `else` of a rescue is no branch of its own here.
    other = node[3].is_a?(Array) && node[3][0] == :else ? node[3][1] : node[3]
    [below[node[1]], below[node[2]], below[other], below[node[4]]].max
  when :begin, :brace_block, :do_block
    1 + node.drop(1).map { |one| below[one] }.max.to_i
  when :lambda
    [below[node[1]], 1 + below[node[2]]].max
  else
    node.drop(1).map { |one| below[one] }.max.to_i
  end
end

# The operators outside of strings, each of which is one token.
def signs(node)
  return [] if %i[string_embexpr string_dvar].include?(node[0])
  found = children(node).flat_map { |child| signs(child) }
  own = case node[0]
        when :binary then node[2].to_s
        when :unary then node[1].to_s.sub(/(?<=[-+~!])@$/, "")
        when :assign, :massign then "="
        when :opassign then node[2][1]
        when :dot2 then ".."
        when :dot3 then "..."
        when :ifop then "?:"
        when :defined then "defined?"
        end
  own ? found + [own] : found
end

# Places of variables: where they are bound, and what the parser itself takes for a variable.
def variables(one, found = [], bound = [])
  return [found, bound] unless one.is_a?(Array)
  case one[0]
  when :var_field
    bound << one[1] if token?(one[1]) && one[1][0] == :@ident
    return [found, bound]
  when :var_ref
    found << one[1] if one[1][0] == :@ident && one[1][1] !~ /\A_[1-9]\z/
    return [found, bound]
  when :params
    _, required, optional, rest, post, named, others, block = one
    listed = [*required, *post, *optional.to_a.map(&:first), *named.to_a.map(&:first)]
    listed += [rest, others, block].grep(Array).map { |each| token?(each) ? each : each[1] }
    listed.each { |each| parameters(each, bound) }
    (optional.to_a + named.to_a).each { |_, value| variables(value, found, bound) }
    return [found, bound]
  when :block_var
    variables(one[1], found, bound)
    (one[2] || []).each { |each| bound << each } if one[2]
    return [found, bound]
  when :mlhs, :mrhs_new_from_args
    one.drop(1).each { |each| token?(each) && each[0] == :@ident ? bound << each : variables(each, found, bound) }
    return [found, bound]
  when :massign
    [*one[1]].each { |each| token?(each) && each[0] == :@ident ? bound << each : variables(each, found, bound) }
    variables(one[2], found, bound)
    return [found, bound]
  end
  one.each { |each| variables(each, found, bound) }
  [found, bound]
end

def parameters(one, bound)
  return unless one.is_a?(Array)
  return bound << one if %i[@ident @label].include?(one[0])
  one.each { |each| parameters(each, bound) }
end

def recursion(nodes, name)
  nodes.count do |node|
    case node[0]
    when :fcall, :command, :vcall then node[1][1] == name
    when :call, :command_call then node[1] == [:var_ref, node[1][1]] && node[1][1][1] == "self" && token?(node[3]) && node[3][1] == name
    end
  end
end

# Tokens as place, kind and text; strings, symbols and lists of words are one token each.
def tokens(text)
  found, stack, documents, before, named = [], [], [], nil, nil
  Ripper.lex(text).each do |(line, column), kind, spelling, _|
    place = [line, column]
    if kind == :on_heredoc_beg && stack.empty?
      found << [place, :string, spelling]
      documents << place
    elsif stack.empty? && before == :on_symbeg
      # The name behind the colon.
    elsif stack.empty? && documents.any? && line > documents[0][0] && (kind == :on_heredoc_end || kind == :on_tstring_content || kind == :on_embexpr_beg || kind == :on_embvar)
      found << [place, :string, ""]
      documents.shift
      stack << :on_heredoc_end unless kind == :on_heredoc_end
      stack << :on_embexpr_end if kind == :on_embexpr_beg
    elsif stack.any?
      if kind == stack.last || (kind == :on_label_end && stack.last == :on_tstring_end)
        stack.pop
        found << [place, :sign, ":"] if kind == :on_label_end && stack.empty?
      elsif STRING_BEGINS[kind]
        stack << STRING_BEGINS[kind]
      elsif kind == :on_symbeg && spelling.size > 1
        stack << :on_tstring_end
      end
    elsif kind == :on_symbeg
      found << [place, :string, spelling]
      stack << :on_tstring_end if spelling.size > 1
    elsif STRING_BEGINS[kind]
      found << [place, :string, spelling]
      stack << STRING_BEGINS[kind]
    elsif kind == :on_label
      found << [place, :name, spelling] << [[line, column + spelling.bytesize - 1], :sign, ":"]
    elsif !LAYOUT.include?(kind)
      # A reserved word or a sign may be the name of a method.
      defines = ["def", ".", "&.", "alias", "undef"].include?(named)
      found << [place, case kind
                       when :on_ident, :on_const, :on_ivar, :on_cvar, :on_gvar, :on_backref then :name
                       when :on_kw then defines && spelling != "self" ? :name : %w[nil true false].include?(spelling) ? :constant : :keyword
                       when :on_int, :on_float, :on_rational, :on_imaginary then :number
                       when :on_CHAR then :string
                       when :on_op then defines ? :name : :sign
                       else :sign
                       end, spelling]
    end
    before = kind
    named = spelling unless kind == :on_sp
  end
  found
end

# First and last places of methods, from Ruby's other tree of itself.
def spans(node, found = [])
  return found unless node.is_a?(RubyVM::AbstractSyntaxTree::Node)
  if %i[DEFN DEFS].include?(node.type)
    found << [[node.first_lineno, node.first_column], [node.last_lineno, node.last_column]]
  end
  node.children.each { |child| spans(child, found) }
  found
end

def outermost(node)
  return [node] if %i[def defs].include?(node[0])
  children(node).flat_map { |child| outermost(child) }
end

def definition(node)
  node[0] == :def ? [node[1], node[2], node[3]] : [node[3], node[4], node[5]]
end

def label(node, places, listed, at)
  name, _, body = definition(node)
  first, last = places.select { |start, _| (start <=> name[2]) <= 0 }.max_by(&:first)
  nodes = all(node)
  own = all([:body, body]) { |child| APART.include?(child[0]) }
  guards = guards(nodes)
  count_guards = guards.map(&:object_id)
  loops = nodes.select { |one| loop?(one) }
  ifs = nodes.select { |one| IFS.include?(one[0]) && !count_guards.include?(one.object_id) }
  looped = loops.flat_map { |one| repeated(one).equal?(one) ? all(one).drop(1) : all(repeated(one)) }.map(&:object_id).uniq
  last_statement = body && body[0] == :bodystmt && body[2..4].none? ? statements(body[1]).last : nil
  inside = listed.select { |place, _, _| (first <=> place) <= 0 && (place <=> last) < 0 }
  kinds = inside.map { |token| token[1] }.tally
  kinds.default = 0
  found = signs(node)
  # What a method belongs to is a variable of the code around it.
  uses, bound = variables(definition(node).drop(1))
  names = bound.map { |_, spelling, _| spelling.delete_suffix(":") }.uniq
  tries = nodes.count { |one| one[0] == :bodystmt && one[2] }
  # Strings are whole.
  outside = all(node) { |child| %i[string_embexpr string_dvar].include?(child[0]) }
  texts = ->(token) { listed.bsearch { |place, _, _| (place <=> token[2]) >= 0 }&.first == token[2] }
  defined = [[name[2], "IDM"]] + bound.select(&texts).map { |token| [token[2], "IDV"] }
  outside.each do |one|
    token = %i[call command_call fcall command].include?(one[0]) ? called(one) : nil
    defined << [token[2], "IDM"] if token && token[0] == :@ident
  end
  {
    name: name[1],
    line: first[0],
    labels: {
      cpx: 1 + own.count { |one| decision?(one) } + ins(own).size,
      nms: ifs.size,
      nml: loops.size,
      csc: ifs.size + loops.size + nodes.count { |one| case?(one) } + tries,
      nested_loop: loops.count { |one| looped.include?(one.object_id) },
      if_in_loop: ifs.count { |one| looped.include?(one.object_id) },
      early_return: own.count { |one| %i[return return0].include?(one[0]) && !one.equal?(last_statement) },
      recursion: recursion(nodes, name[1]),
      mxn: depth(node),
      len: inside.size,
      oct: found.size,
      ocu: found.uniq.size,
      tan: kinds[:name] - kinds[:keyword],
      vcu: names.size,
      vct: uses.size + bound.size,
      strings: kinds[:string],
      numbers: kinds[:number],
    },
    names: defined.map { |place, kind| [at[place], kind] },
  }
end

STDIN.set_encoding("UTF-8")
STDIN.each_line do |line|
  text = JSON.parse(line)
  tree = Ripper.sexp(text)
  begin
    places = spans(RubyVM::AbstractSyntaxTree.parse(text))
  rescue SyntaxError
    tree = nil
  end
  if tree.nil?
    puts "null"
    next
  end
  starts = text.b.lines.reduce([0]) { |sums, one| sums << sums.last + one.size }
  at = ->((row, column)) { starts[row - 1] + column }
  listed = tokens(text)
  functions = outermost(tree).map { |node| label(node, places, listed, at) }
  puts JSON.generate({ functions: functions, line: "first", offsets: "bytes" })
end
