// What acorn sees in texts, for test_javascript_referees.py: reads a JSON list of texts, writes a JSON list of answers.
// With `labels` as its argument, for tests/own_parsers: the labels of the outermost functions, see functionLabels.
const acorn = require('acorn');
const Parser = acorn.Parser.extend(require('acorn-jsx')());

const FUNCTIONS = ['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression'];
const DECISIONS = [
  'IfStatement', 'ForStatement', 'ForInStatement', 'ForOfStatement', 'WhileStatement', 'DoWhileStatement',
  'CatchClause', 'ConditionalExpression', 'LogicalExpression',
];

function parse(text) {
  for (const sourceType of ['module', 'script']) {
    const tokens = [];
    try {
      const tree = Parser.parse(text, {
        ecmaVersion: 'latest', sourceType, allowReturnOutsideFunction: true, allowHashBang: true, onToken: tokens, ranges: true,
        allowSuperOutsideMethod: true, checkPrivateFields: false, allowAwaitOutsideFunction: sourceType === 'module',
      });
      return { tree, tokens, sourceType };
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
  }
  return null;
}

// The name that a property's key gives, as it is written.
function keyName(text, key, computed) {
  if (computed) return '[' + text.slice(key.start, key.end) + ']';
  if (key.type === 'Literal') return typeof key.value === 'string' ? key.raw.slice(1, -1) : key.raw;
  return key.type === 'PrivateIdentifier' ? '#' + key.name : key.name;
}

// The name that a node gives the function that it holds, and that function.
function named(text, node) {
  const own = (value, name) =>
    value && FUNCTIONS.includes(value.type) ? [value.id ? value.id.name : name, value] : [null, null];
  switch (node.type) {
    case 'FunctionDeclaration':
      return [node.id && node.id.name, node];
    case 'MethodDefinition':
    case 'PropertyDefinition':
    case 'Property':
      return own(node.value, keyName(text, node.key, node.computed));
    case 'VariableDeclarator':
      return own(node.init, node.id.name);
    case 'AssignmentExpression':
      if (node.operator !== '=') return [null, null];
      if (node.left.type === 'MemberExpression') {
        return node.left.computed ? [null, null] : own(node.right, keyName(text, node.left.property, false));
      }
      return own(node.right, node.left.name);
    default:
      return [null, null];
  }
}

// The end of what holds a function, brackets around it included; a semicolon behind a field is none of it.
function endOf(node, held) {
  return node.type === 'PropertyDefinition' ? held.end : node.end;
}

// Decisions of a function, those of functions inside it left out.
function decisions(node) {
  if (Array.isArray(node)) return node.reduce((sum, one) => sum + decisions(one), 0);
  if (!node || typeof node.type !== 'string') return 0;
  if (FUNCTIONS.includes(node.type) || ['PropertyDefinition', 'StaticBlock'].includes(node.type)) return 0;
  const counts = DECISIONS.includes(node.type) || (node.type === 'SwitchCase' && node.test !== null);
  return Object.keys(node).reduce((sum, key) => sum + decisions(node[key]), counts ? 1 : 0);
}

function walk(text, node, inside, found) {
  if (Array.isArray(node)) {
    for (const one of node) walk(text, one, inside, found);
    return;
  }
  if (!node || typeof node.type !== 'string') return;
  const [name, held] = named(text, node);
  if (name && held) {
    if (!inside) found.functions.push([name, endOf(node, held), 1 + decisions(held.body)]);
    inside = true;
  }
  // `new A` without brackets has no arguments to stand anywhere.
  if (node.type === 'CallExpression' || (node.type === 'NewExpression' && node.end > node.callee.end)) {
    const callee = node.callee;
    if (callee.type === 'Identifier') found.calls.push([callee.name, callee.start]);
    if (callee.type === 'MemberExpression' && !callee.computed) {
      found.calls.push([keyName(text, callee.property, false), callee.property.start]);
    }
  }
  for (const key of Object.keys(node)) {
    if (key !== 'type') walk(text, node[key], inside, found);
  }
}

// Tokens as first character, one past the last and kind; a template with all that stands in it is one.
function listTokens(tokens) {
  const listed = [];
  let depth = 0;
  let open = null;
  const braces = [];
  for (const token of tokens) {
    const label = token.type.label;
    if (label === '`' && (depth === 0 || braces[braces.length - 1] > 0)) {
      if (depth === 0) open = token.start;
      depth += 1;
      braces.push(0);
    } else if (label === '`') {
      depth -= 1;
      braces.pop();
      if (depth === 0) listed.push([open, token.end, 'string']);
    } else if (depth > 0) {
      if (label === '${' || label === '{') braces[braces.length - 1] += 1;
      if (label === '}') braces[braces.length - 1] -= 1;
    } else if (label !== 'eof' && token.end > token.start) {
      listed.push([token.start, token.end, token.type.keyword || label === 'name' ? 'word' : label]);
    }
  }
  return listed;
}

const LOOPS = ['ForStatement', 'ForInStatement', 'ForOfStatement', 'WhileStatement', 'DoWhileStatement'];

function isNode(value) {
  return value !== null && typeof value === 'object' && typeof value.type === 'string';
}

function children(node) {
  return Object.keys(node).flatMap((key) => node[key]).filter(isNode);
}

function descendants(node) {
  return [node, ...children(node).flatMap(descendants)];
}

// Whether a node holds what counts apart from the function around it, see metrics.scm.
function isApart(node) {
  return FUNCTIONS.includes(node.type) || ['PropertyDefinition', 'StaticBlock'].includes(node.type);
}

function ownReturns(node) {
  if (isApart(node)) return [];
  return node.type === 'ReturnStatement' ? [node] : children(node).flatMap(ownReturns);
}

// How deep blocks stand in each other: braces, and whatever stands where braces could.
function depthOf(node) {
  const blocks = new Set();
  if (FUNCTIONS.includes(node.type) || LOOPS.includes(node.type)) blocks.add(node.body);
  if (node.type === 'IfStatement') {
    blocks.add(node.consequent);
    if (node.alternate && node.alternate.type !== 'IfStatement') blocks.add(node.alternate);
  }
  const deepest = (child) => {
    const braces = ['BlockStatement', 'ClassBody', 'StaticBlock'].includes(child.type);
    // What stands between the braces of a switch is its own block, and its head none.
    return depthOf(child) + (blocks.has(child) || braces || (node.type === 'SwitchStatement' && child.type === 'SwitchCase') ? 1 : 0);
  };
  const own = node.type === 'SwitchStatement' ? 1 : 0;
  return Math.max(own, 0, ...children(node).map(deepest));
}

// The operators outside of templates, each of which is one token.
function signs(node) {
  if (node.type === 'TemplateLiteral') return [];
  const found = children(node).flatMap(signs);
  switch (node.type) {
    case 'BinaryExpression':
    case 'LogicalExpression':
    case 'AssignmentExpression':
    case 'UnaryExpression':
    case 'UpdateExpression':
      return [...found, node.operator];
    case 'ConditionalExpression':
      return [...found, '?:'];
    case 'VariableDeclarator':
      return node.init ? [...found, '='] : found;
    case 'PropertyDefinition':
      return node.value ? [...found, '='] : found;
    default:
      return found;
  }
}

// Words that name something; those of `new.target` and the like are keywords.
function identifiers(node) {
  if (node.type === 'MetaProperty' || node.type === 'TemplateLiteral') return [];
  const own = ['Identifier', 'PrivateIdentifier'].includes(node.type) ? [node] : [];
  return [...own, ...children(node).flatMap(identifiers)];
}

function isFunction(node) {
  return Boolean(node) && FUNCTIONS.includes(node.type);
}

// Where names are defined that are no matter of convention. What `require` gives is a module by IDN.
function definedNames(node) {
  if (node.type === 'TemplateLiteral') return [];
  return [...namesOf(node), ...children(node).flatMap(definedNames)];
}

function namesOf(node) {
  const isVariable = (one) => one.type === 'Identifier';
  switch (node.type) {
    case 'FunctionDeclaration':
    case 'FunctionExpression':
    case 'ArrowFunctionExpression':
      return [...(node.id ? [[node.id.start, 'IDM']] : []), ...node.params.filter(isVariable).map((one) => [one.start, 'IDV'])];
    case 'ClassDeclaration':
    case 'ClassExpression':
      return node.id ? [[node.id.start, 'IDC']] : [];
    case 'MethodDefinition':
      return !node.computed && node.key.type === 'Identifier' ? [[node.key.start, 'IDM']] : [];
    case 'VariableDeclarator':
      return isVariable(node.id) && !isFunction(node.init) && !/^Class|^Call/.test(node.init ? node.init.type : '')
        ? [[node.id.start, 'IDV']] : [];
    case 'CatchClause':
      return node.param && isVariable(node.param) ? [[node.param.start, 'IDV']] : [];
    default:
      return [];
  }
}

// Variables by scope: declarations with uses. A variable that is given a function is a function to VCU.
function variableLabels(manager, held) {
  const waiting = manager.scopes.filter((scope) => scope.block === held);
  const scopes = new Set();
  while (waiting.length) {
    const scope = waiting.pop();
    if (!scopes.has(scope)) {
      scopes.add(scope);
      waiting.push(...scope.childScopes);
    }
  }
  const names = new Set();
  let places = 0;
  for (const variable of [...scopes].flatMap((scope) => scope.variables)) {
    const kinds = variable.defs.filter((one) => ['Variable', 'Parameter', 'CatchClause'].includes(one.type));
    if (!kinds.length || kinds.every((one) => one.type === 'Variable' && isFunction(one.node.init) && one.node.id === one.name)) continue;
    names.add(variable.name);
    const starts = [...variable.identifiers, ...variable.references.map((one) => one.identifier)].map((one) => one.start);
    places += new Set(starts).size;
  }
  return { names: names.size, places, scopes };
}

// Calls of the function by one of its names: bare, where nothing inside binds it, or through `this`.
function selfCalls(text, outer, held, scopes, manager) {
  const bare = new Set();
  const member = new Set();
  if (held.id) bare.add(held.id.name);
  if (outer.type === 'VariableDeclarator') bare.add(outer.id.name);
  if (['Property', 'MethodDefinition', 'PropertyDefinition'].includes(outer.type)) member.add(keyName(text, outer.key, outer.computed));
  if (outer.type === 'AssignmentExpression') {
    if (outer.left.type === 'Identifier') bare.add(outer.left.name);
    else member.add(keyName(text, outer.left.property, false));
  }
  const inside = new Set();
  for (const scope of scopes) {
    if (scope.type === 'function-expression-name' && scope.block === held) continue;
    for (const variable of scope.variables) {
      if (variable.defs.length) for (const one of variable.references) inside.add(one.identifier);
    }
  }
  const classes = descendants(held).filter((node) => node.type === 'ClassBody');
  const hasNamesake = (call, name) => classes.some((body) => body.start <= call.start && call.end <= body.end
    && body.body.some((one) => one.type === 'MethodDefinition' && keyName(text, one.key, one.computed) === name));
  return descendants(held).filter((node) => node.type === 'CallExpression').filter((call) => {
    const callee = call.callee;
    if (callee.type === 'Identifier') return bare.has(callee.name) && !inside.has(callee);
    if (callee.type !== 'MemberExpression' || callee.computed || callee.object.type !== 'ThisExpression') return false;
    const name = keyName(text, callee.property, false);
    return member.has(name) && !hasNamesake(call, name);
  }).length;
}

function functionLabels(text, outer, start, held, tokens, manager) {
  const nodes = descendants(held);
  const loops = nodes.filter((node) => LOOPS.includes(node.type));
  const ifs = nodes.filter((node) => node.type === 'IfStatement');
  const count = (kind) => nodes.filter((node) => node.type === kind).length;
  const within = new Set(loops.flatMap((loop) => descendants(loop).slice(1)));
  const inside = tokens.filter((token) => start <= token[0] && token[1] <= endOf(outer, held));
  const words = inside.filter((token) => token[2] === 'word');
  const named = new Set(identifiers(outer).map((node) => node.start));
  const literal = (token) => ['true', 'false', 'null', 'undefined'].includes(text.slice(token[0], token[1]));
  const reserved = words.filter((token) => !named.has(token[0]) && !literal(token)).length;
  const naming = inside.filter((token) => named.has(token[0]) && text.slice(token[0], token[1]) !== 'undefined').length;
  const found = signs(outer);
  const labels = {
    cpx: 1 + decisions(held.body),
    nms: ifs.length,
    nml: loops.length,
    csc: ifs.length + loops.length + count('SwitchStatement') + count('TryStatement'),
    nested_loop: loops.filter((loop) => within.has(loop)).length,
    if_in_loop: ifs.filter((one) => within.has(one)).length,
    early_return: held.body.type === 'BlockStatement'
      ? children(held.body).flatMap(ownReturns).filter((one) => one !== held.body.body.at(-1)).length : 0,
    mxn: depthOf(outer),
    len: inside.length,
    oct: found.length,
    ocu: new Set(found).size,
    tan: naming - reserved,
    strings: inside.filter((token) => ['string', 'regexp', 'jsxText'].includes(token[2])).length,
    numbers: inside.filter((token) => token[2] === 'num').length,
  };
  if (manager) {
    const variables = variableLabels(manager, held);
    labels.vcu = variables.names;
    labels.vct = variables.places;
    labels.recursion = selfCalls(text, outer, held, variables.scopes);
  }
  return { labels, names: definedNames(held) };
}

function label(text, node, keyword, tokens, manager, found) {
  const [name, held] = named(text, node);
  if (name && held) {
    const first = keyword === null ? node.start : keyword;
    const line = text.slice(0, endOf(node, held)).split('\n').length;
    found.push({ name, line, ...functionLabels(text, node, first, held, tokens, manager) });
    return;
  }
  for (const child of children(node)) {
    // The word that declares variables belongs to the first of them.
    const declares = node.type === 'VariableDeclaration' && child === node.declarations[0];
    label(text, child, declares ? node.start : null, tokens, manager, found);
  }
}

function answerLabels(text) {
  const read = parse(text);
  if (!read) return null;
  let manager = null;
  try {
    manager = require('eslint-scope').analyze(read.tree, { ecmaVersion: 2022, sourceType: read.sourceType, ignoreEval: true });
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
  }
  const functions = [];
  label(text, read.tree, null, listTokens(read.tokens), manager, functions);
  return { functions, line: 'end', offsets: 'characters' };
}

const texts = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const answers = process.argv[2] === 'labels' ? texts.map(answerLabels) : texts.map((text) => {
  const read = parse(text);
  if (!read) return null;
  const found = { functions: [], calls: [], tokens: listTokens(read.tokens).map((token) => token.slice(0, 2)) };
  walk(text, read.tree, false, found);
  return found;
});
process.stdout.write(JSON.stringify(answers));
