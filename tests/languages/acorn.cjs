// What acorn sees in texts, for test_javascript_referees.py: reads a JSON list of texts, writes a JSON list of answers.
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
        ecmaVersion: 'latest', sourceType, allowReturnOutsideFunction: true, allowHashBang: true, onToken: tokens,
        allowSuperOutsideMethod: true, checkPrivateFields: false, allowAwaitOutsideFunction: sourceType === 'module',
      });
      return { tree, tokens };
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
    if (!inside) found.functions.push([name, held.end, 1 + decisions(held.body)]);
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

// Token spans; a template with all that stands in it is one.
function spans(tokens) {
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
      if (depth === 0) listed.push([open, token.end]);
    } else if (depth > 0) {
      if (label === '${' || label === '{') braces[braces.length - 1] += 1;
      if (label === '}') braces[braces.length - 1] -= 1;
    } else if (label !== 'eof' && token.end > token.start) {
      listed.push([token.start, token.end]);
    }
  }
  return listed;
}

const texts = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const answers = texts.map((text) => {
  const read = parse(text);
  if (!read) return null;
  const found = { functions: [], calls: [], tokens: spans(read.tokens) };
  walk(text, read.tree, false, found);
  return found;
});
process.stdout.write(JSON.stringify(answers));
