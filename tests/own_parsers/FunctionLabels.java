// What Java's own compiler tells of files: the outermost methods, with labels counted over its tree. Texts in, each
// ended by a NUL; a line of JSON a text out, `null` for one that it refuses.
// Run with --add-exports jdk.compiler/com.sun.tools.javac.{parser,tree,util,code,api}=ALL-UNNAMED.

import com.sun.source.tree.*;
import com.sun.source.util.*;
import com.sun.tools.javac.api.BasicJavacTask;
import com.sun.tools.javac.code.Flags;
import com.sun.tools.javac.parser.Scanner;
import com.sun.tools.javac.parser.ScannerFactory;
import com.sun.tools.javac.parser.Tokens.Token;
import com.sun.tools.javac.parser.Tokens.TokenKind;
import com.sun.tools.javac.tree.JCTree;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.function.Predicate;
import javax.tools.*;

public class FunctionLabels {
  static final Set<Tree.Kind> LOOPS = EnumSet.of(
      Tree.Kind.FOR_LOOP, Tree.Kind.ENHANCED_FOR_LOOP, Tree.Kind.WHILE_LOOP, Tree.Kind.DO_WHILE_LOOP);

  public static void main(String[] given) throws Exception {
    String[] texts = new String(System.in.readAllBytes(), StandardCharsets.UTF_8).split("\0", -1);
    JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    StringBuilder said = new StringBuilder();
    for (int i = 0; i < texts.length - 1; i++) {
      String text = texts[i];
      DiagnosticCollector<JavaFileObject> problems = new DiagnosticCollector<>();
      URI place = URI.create("string:///" + (text.contains("\nmodule ") ? "module-info.java" : "A.java"));
      JavaFileObject file = new SimpleJavaFileObject(place, JavaFileObject.Kind.SOURCE) {
        public CharSequence getCharContent(boolean ignore) { return text; }
      };
      // Literals that are added stay apart, as they are written.
      List<String> options = List.of("-XDallowStringFolding=false", "-proc:none");
      JavacTask task = (JavacTask) compiler.getTask(null, null, problems, options, null, List.of(file));
      List<CompilationUnitTree> units = new ArrayList<>();
      for (CompilationUnitTree unit : task.parse()) units.add(unit);
      boolean refused = problems.getDiagnostics().stream().anyMatch(one -> one.getKind() == Diagnostic.Kind.ERROR);
      said.append(refused ? "null" : new FunctionLabels(task, units.get(0), text).answer()).append('\n');
    }
    System.out.write(said.toString().getBytes(StandardCharsets.UTF_8));
    System.out.flush();
  }

  final CompilationUnitTree unit;
  final SourcePositions positions;
  final String text;
  final List<Token> tokens = new ArrayList<>();
  final List<String> functions = new ArrayList<>();

  FunctionLabels(JavacTask task, CompilationUnitTree unit, String text) {
    this.unit = unit;
    this.text = text;
    positions = Trees.instance(task).getSourcePositions();
    Scanner scanner = ScannerFactory.instance(((BasicJavacTask) task).getContext()).newScanner(text, false);
    for (scanner.nextToken(); scanner.token().kind != TokenKind.EOF; scanner.nextToken()) tokens.add(scanner.token());
  }

  String answer() {
    new TreeScanner<Void, String>() {
      @Override public Void visitClass(ClassTree node, String around) {
        return super.visitClass(node, node.getSimpleName().toString());
      }
      @Override public Void visitMethod(MethodTree node, String around) {
        if (node.getBody() != null) functions.add(function(node, around));
        return null;
      }
      // What stands in a lambda belongs to it.
      @Override public Void visitLambdaExpression(LambdaExpressionTree node, String around) { return null; }
    }.scan(unit, "");
    return "{\"functions\": [" + String.join(", ", functions) + "], \"line\": \"first\", \"offsets\": \"characters\"}";
  }

  int start(Tree node) { return (int) positions.getStartPosition(unit, node); }
  int end(Tree node) { return (int) positions.getEndPosition(unit, node); }

  static List<Tree> children(Tree node) {
    List<Tree> found = new ArrayList<>();
    new TreeScanner<Void, Void>() {
      boolean inside;
      @Override public Void scan(Tree child, Void nothing) {
        if (child == null) return null;
        if (inside) { found.add(child); return null; }
        inside = true;
        super.scan(child, nothing);
        inside = false;
        return null;
      }
    }.scan(node, null);
    return found;
  }

  static void collect(Tree node, Predicate<Tree> apart, List<Tree> found) {
    found.add(node);
    for (Tree child : children(node)) if (!apart.test(child)) collect(child, apart, found);
  }

  static List<Tree> all(Tree node) {
    List<Tree> found = new ArrayList<>();
    collect(node, one -> false, found);
    return found;
  }

  // All that counts with a method: no methods inside, and no initialisers of classes inside.
  static List<Tree> own(Tree body) {
    Set<Tree> apart = Collections.newSetFromMap(new IdentityHashMap<>());
    for (Tree node : all(body)) {
      if (node instanceof MethodTree) apart.add(node);
      if (node instanceof ClassTree type) for (Tree member : type.getMembers()) if (member instanceof BlockTree) apart.add(member);
    }
    List<Tree> found = new ArrayList<>();
    collect(body, apart::contains, found);
    return found;
  }

  static boolean isDecision(Tree node) {
    if (node instanceof CaseTree one) return !one.getExpressions().isEmpty();
    return LOOPS.contains(node.getKind()) || node instanceof IfTree || node instanceof CatchTree
        || node instanceof ConditionalExpressionTree
        || node.getKind() == Tree.Kind.CONDITIONAL_AND || node.getKind() == Tree.Kind.CONDITIONAL_OR;
  }

  static boolean isSwitch(Tree node) { return node instanceof SwitchTree || node instanceof SwitchExpressionTree; }

  // How deep blocks stand in each other; a semicolon alone is no statement in the place of a block.
  static int depth(Tree node) {
    Set<Tree> blocks = Collections.newSetFromMap(new IdentityHashMap<>());
    if (node instanceof IfTree one) {
      blocks.add(one.getThenStatement());
      if (!(one.getElseStatement() instanceof IfTree)) blocks.add(one.getElseStatement());
    }
    if (node instanceof ForLoopTree loop) blocks.add(loop.getStatement());
    if (node instanceof EnhancedForLoopTree loop) blocks.add(loop.getStatement());
    if (node instanceof WhileLoopTree loop) blocks.add(loop.getStatement());
    if (node instanceof DoWhileLoopTree loop) blocks.add(loop.getStatement());
    int deepest = isSwitch(node) || node instanceof ClassTree ? 1 : 0;
    for (Tree child : children(node)) {
      boolean block = child instanceof BlockTree || (blocks.contains(child) && !(child instanceof EmptyStatementTree));
      boolean between = (isSwitch(node) && child instanceof CaseTree)
          || (node instanceof ClassTree type && type.getMembers().contains(child));
      deepest = Math.max(deepest, depth(child) + (block ? 1 : 0) + (between ? 1 : 0));
    }
    return deepest;
  }

  List<String> signs(List<Tree> nodes) {
    List<String> found = new ArrayList<>();
    for (Tree node : nodes) {
      if (node instanceof BinaryTree || node instanceof CompoundAssignmentTree || node instanceof UnaryTree) {
        String sign = ((JCTree.JCOperatorExpression) node).getTag().name();
        // A sign is the same before one operand and between two.
        found.add(sign.replaceFirst("^(PRE|POST)", "").replace("NEG", "MINUS").replaceFirst("^POS$", "PLUS"));
      } else if (node instanceof AssignmentTree) {
        found.add("=");
      } else if (node instanceof VariableTree variable) {
        if (variable.getInitializer() != null && !isConstant(variable)) found.add("=");
      } else if (node instanceof InstanceOfTree || node instanceof LambdaExpressionTree || node instanceof ConditionalExpressionTree) {
        found.add(node.getKind().name());
      } else if (node instanceof LiteralTree && text.charAt(start(node)) == '-') {
        // A number with its sign is one literal to the compiler.
        found.add("MINUS");
      }
    }
    return found;
  }

  static boolean isConstant(VariableTree node) {
    return (((JCTree.JCVariableDecl) node).mods.flags & Flags.ENUM) != 0;
  }

  static boolean isNamed(VariableTree node) {
    return !isConstant(node) && !node.getName().contentEquals("this");
  }

  // Places of variables; a name means the innermost declaration that is seen there.
  static class Places extends TreeScanner<Void, Void> {
    final Deque<Set<String>> scopes = new ArrayDeque<>(List.of(new HashSet<>()));
    int count;

    void inside(Runnable body) {
      scopes.push(new HashSet<>());
      body.run();
      scopes.pop();
    }
    @Override public Void visitBlock(BlockTree node, Void nothing) { inside(() -> super.visitBlock(node, null)); return null; }
    @Override public Void visitForLoop(ForLoopTree node, Void nothing) { inside(() -> super.visitForLoop(node, null)); return null; }
    @Override public Void visitEnhancedForLoop(EnhancedForLoopTree node, Void nothing) {
      // Its variable is not seen where its values come from.
      scan(node.getExpression(), null);
      inside(() -> { scan(node.getVariable(), null); scan(node.getStatement(), null); });
      return null;
    }
    @Override public Void visitCatch(CatchTree node, Void nothing) { inside(() -> super.visitCatch(node, null)); return null; }
    @Override public Void visitTry(TryTree node, Void nothing) {
      inside(() -> { scan(node.getResources(), null); scan(node.getBlock(), null); });
      scan(node.getCatches(), null);
      scan(node.getFinallyBlock(), null);
      return null;
    }
    @Override public Void visitLambdaExpression(LambdaExpressionTree node, Void nothing) { inside(() -> super.visitLambdaExpression(node, null)); return null; }
    @Override public Void visitMethod(MethodTree node, Void nothing) { inside(() -> super.visitMethod(node, null)); return null; }
    @Override public Void visitSwitch(SwitchTree node, Void nothing) { inside(() -> super.visitSwitch(node, null)); return null; }
    @Override public Void visitSwitchExpression(SwitchExpressionTree node, Void nothing) { inside(() -> super.visitSwitchExpression(node, null)); return null; }
    @Override public Void visitClass(ClassTree node, Void nothing) {
      inside(() -> {
        for (Tree member : node.getMembers()) {
          if (member instanceof VariableTree field && isNamed(field)) scopes.peek().add(field.getName().toString());
        }
        super.visitClass(node, null);
      });
      return null;
    }
    @Override public Void visitVariable(VariableTree node, Void nothing) {
      if (isNamed(node)) {
        scopes.peek().add(node.getName().toString());
        count++;
      }
      return super.visitVariable(node, null);
    }
    @Override public Void visitMethodInvocation(MethodInvocationTree node, Void nothing) {
      scan(node.getTypeArguments(), null);
      if (!(node.getMethodSelect() instanceof IdentifierTree)) scan(node.getMethodSelect(), null);
      return scan(node.getArguments(), null);
    }
    @Override public Void visitAnnotation(AnnotationTree node, Void nothing) {
      for (ExpressionTree argument : node.getArguments()) {
        scan(argument instanceof AssignmentTree pair ? pair.getExpression() : argument, null);
      }
      return null;
    }
    @Override public Void visitIdentifier(IdentifierTree node, Void nothing) {
      if (scopes.stream().anyMatch(scope -> scope.contains(node.getName().toString()))) count++;
      return null;
    }
  }

  static int recursion(MethodTree method, String name, List<Tree> nodes) {
    int count = 0;
    for (Tree node : nodes) {
      if (!(node instanceof MethodInvocationTree call)) continue;
      ExpressionTree called = call.getMethodSelect();
      boolean own = called instanceof IdentifierTree one && one.getName().contentEquals(name);
      own |= called instanceof MemberSelectTree one && one.getIdentifier().contentEquals(name)
          && one.getExpression() instanceof IdentifierTree through && through.getName().contentEquals("this");
      if (own && !hasNamesake(nodes, call, name)) count++;
    }
    return count;
  }

  // A class inside that has a method of the name itself.
  static boolean hasNamesake(List<Tree> nodes, Tree call, String name) {
    for (Tree node : nodes) {
      if (!(node instanceof ClassTree type) || all(type).stream().noneMatch(one -> one == call)) continue;
      for (Tree member : type.getMembers()) {
        if (member instanceof MethodTree one && one.getName().contentEquals(name)) return true;
      }
    }
    return false;
  }

  String function(MethodTree method, String around) {
    boolean constructor = method.getName().contentEquals("<init>");
    String name = constructor ? around : method.getName().toString();
    int start = start(method), end = end(method);
    List<Tree> nodes = all(method), own = own(method.getBody());
    Set<Tree> looped = Collections.newSetFromMap(new IdentityHashMap<>());
    List<Tree> loops = nodes.stream().filter(one -> LOOPS.contains(one.getKind())).toList();
    List<Tree> ifs = nodes.stream().filter(one -> one instanceof IfTree).toList();
    for (Tree loop : loops) for (Tree child : children(loop)) looped.addAll(all(child));
    List<? extends StatementTree> statements = method.getBody().getStatements();
    Tree last = statements.isEmpty() ? null : statements.get(statements.size() - 1);
    long others = nodes.stream().filter(one -> isSwitch(one) || one instanceof TryTree).count();

    Set<Integer> operators = new HashSet<>();
    Set<String> variables = new TreeSet<>();
    StringBuilder names = new StringBuilder("[[" + ((JCTree.JCMethodDecl) method).pos + ", \"" + (constructor ? "IDC" : "IDM") + "\"]");
    long yields = 0;
    for (Tree node : nodes) {
      if (node instanceof BinaryTree) operators.add(((JCTree) node).pos);
      if (node instanceof YieldTree && text.startsWith("yield", start(node))) yields++;
      if (node instanceof VariableTree one && isNamed(one)) {
        variables.add(one.getName().toString());
        names.append(", [" + ((JCTree.JCVariableDecl) node).pos + ", \"IDV\"]");
      }
      if (node instanceof MethodTree one && one != method && !one.getName().contentEquals("<init>")) {
        names.append(", [" + ((JCTree.JCMethodDecl) node).pos + ", \"IDM\"]");
      }
      if (node instanceof MethodInvocationTree call) {
        ExpressionTree called = call.getMethodSelect();
        if (called instanceof MemberSelectTree one && !one.getIdentifier().contentEquals("super") && !one.getIdentifier().contentEquals("this")) {
          names.append(", [" + (end(called) - one.getIdentifier().length()) + ", \"IDM\"]");
        } else if (called instanceof IdentifierTree one && !one.getName().contentEquals("super") && !one.getName().contentEquals("this")) {
          names.append(", [" + start(called) + ", \"IDM\"]");
        }
      }
      if (node instanceof NewClassTree made && made.getIdentifier() instanceof IdentifierTree && start(made) >= 0
          && text.startsWith("new", start(made))) {
        names.append(", [" + start(made.getIdentifier()) + ", \"IDC\"]");
      }
    }
    names.append("]");

    long length = 0, words = 0, reserved = 0, strings = 0, numbers = 0;
    for (Token token : tokens) {
      if (token.pos < start || token.endPos > end) continue;
      length++;
      switch (token.kind) {
        case IDENTIFIER, UNDERSCORE -> words++;
        case STRINGLITERAL, CHARLITERAL -> strings++;
        case INTLITERAL, LONGLITERAL, FLOATLITERAL, DOUBLELITERAL -> numbers++;
        case TRUE, FALSE, NULL -> { }
        // Where types end there are as many brackets.
        case GTGT -> length += operators.contains(token.pos) ? 0 : 1;
        case GTGTGT -> length += operators.contains(token.pos) ? 0 : 2;
        default -> reserved += Character.isLetter(token.kind.toString().charAt(token.kind.toString().startsWith("'") ? 1 : 0)) ? 1 : 0;
      }
    }
    List<String> signs = signs(nodes);
    Places places = new Places();
    places.scan(method, null);
    Map<String, Long> labels = new LinkedHashMap<>();
    labels.put("cpx", 1 + own.stream().filter(FunctionLabels::isDecision).count());
    labels.put("nms", (long) ifs.size());
    labels.put("nml", (long) loops.size());
    labels.put("csc", ifs.size() + loops.size() + others);
    labels.put("nested_loop", loops.stream().filter(looped::contains).count());
    labels.put("if_in_loop", ifs.stream().filter(looped::contains).count());
    labels.put("early_return", own.stream().filter(one -> one instanceof ReturnTree && one != last).count());
    labels.put("recursion", (long) recursion(method, name, nodes));
    labels.put("mxn", (long) depth(method));
    labels.put("len", length);
    labels.put("oct", (long) signs.size());
    labels.put("ocu", (long) new HashSet<>(signs).size());
    labels.put("tan", words - yields - (reserved + yields));
    labels.put("vcu", (long) variables.size());
    labels.put("vct", (long) places.count);
    labels.put("strings", strings);
    labels.put("numbers", numbers);
    StringJoiner written = new StringJoiner(", ", "{", "}");
    labels.forEach((label, value) -> written.add("\"" + label + "\": " + value));
    long line = unit.getLineMap().getLineNumber(start);
    return "{\"name\": \"" + name + "\", \"line\": " + line + ", \"labels\": " + written + ", \"names\": " + names + "}";
  }
}
