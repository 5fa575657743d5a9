// What go/parser tells of files: the functions, with labels counted over its tree. Texts in, each ended by a NUL; a
// line of JSON a text out, `null` for one that it refuses.
package main

import (
	"bufio"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"strings"
)

type named struct {
	offset int
	kind   string
}

func (n named) MarshalJSON() ([]byte, error) { return json.Marshal([]interface{}{n.offset, n.kind}) }

type function struct {
	Name   string         `json:"name"`
	Line   int            `json:"line"`
	Labels map[string]int `json:"labels"`
	Names  []named        `json:"names"`
}

type answer struct {
	Functions []function `json:"functions"`
	Line      string     `json:"line"`
	Offsets   string     `json:"offsets"`
}

func main() {
	given, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	texts := strings.Split(string(given), "\x00")
	for _, text := range texts[:len(texts)-1] {
		said, err := json.Marshal(tell(text))
		if err != nil {
			panic(err)
		}
		out.Write(append(said, '\n'))
	}
}

type word struct {
	pos token.Pos
	tok token.Token
	lit string
}

func tell(text string) *answer {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "a.go", text, 0)
	if err != nil {
		return nil
	}
	base := files.File(file.Pos())
	var words []word
	var scan scanner.Scanner
	again := token.NewFileSet()
	scan.Init(again.AddFile("a.go", base.Base(), len(text)), []byte(text), nil, 0)
	for {
		pos, tok, lit := scan.Scan()
		if tok == token.EOF {
			break
		}
		// A semicolon that nobody wrote ends a line.
		if tok != token.SEMICOLON || lit == ";" {
			words = append(words, word{pos, tok, lit})
		}
	}
	told := &answer{Functions: []function{}, Line: "first", Offsets: "bytes"}
	for _, declared := range file.Decls {
		if one, ok := declared.(*ast.FuncDecl); ok && one.Body != nil {
			told.Functions = append(told.Functions, label(files, one, words))
		}
	}
	return told
}

func isLoop(node ast.Node) bool {
	switch node.(type) {
	case *ast.ForStmt, *ast.RangeStmt:
		return true
	}
	return false
}

// How deep blocks stand in each other: braces of statements and of types; those of a switch are one.
func depth(node ast.Node) int {
	deepest := 0
	ast.Inspect(node, func(child ast.Node) bool {
		if child == nil || child == node {
			return child == node
		}
		here := depth(child)
		switch child.(type) {
		case *ast.BlockStmt, *ast.StructType, *ast.InterfaceType:
			here++
		}
		if here > deepest {
			deepest = here
		}
		return false
	})
	return deepest
}

func signs(node ast.Node, found *[]string) {
	types := map[ast.Node]bool{}
	ast.Inspect(node, func(child ast.Node) bool {
		switch one := child.(type) {
		case *ast.BinaryExpr:
			// What a type parameter may be is no operation.
			if types[one] {
				markType(types, one.X)
				markType(types, one.Y)
			} else {
				*found = append(*found, one.Op.String())
			}
		case *ast.UnaryExpr:
			// The grammar has `~` for a part of the type, and so has no operator there.
			if types[one] {
				markType(types, one.X)
			} else {
				*found = append(*found, one.Op.String())
			}
		case *ast.AssignStmt:
			// `switch x := y.(type)` assigns as well.
			*found = append(*found, one.Tok.String())
		case *ast.IncDecStmt:
			*found = append(*found, one.Tok.String())
		case *ast.SendStmt:
			*found = append(*found, "<-")
		case *ast.RangeStmt:
			if one.Tok != token.ILLEGAL {
				*found = append(*found, one.Tok.String())
			}
		case *ast.ValueSpec:
			markType(types, one.Type)
			if len(one.Values) > 0 {
				*found = append(*found, "=")
			}
		case *ast.Field:
			markType(types, one.Type)
		case *ast.TypeSpec:
			markType(types, one.Type)
		case *ast.CompositeLit:
			markType(types, one.Type)
		case *ast.TypeAssertExpr:
			markType(types, one.Type)
		case *ast.ArrayType:
			markType(types, one.Elt)
		case *ast.MapType:
			markType(types, one.Key)
			markType(types, one.Value)
		case *ast.ChanType:
			markType(types, one.Value)
		case *ast.Ellipsis:
			markType(types, one.Elt)
		case *ast.IndexExpr:
			if types[one] {
				markType(types, one.Index)
			}
		case *ast.IndexListExpr:
			for _, index := range one.Indices {
				markType(types, index)
			}
		case *ast.CaseClause:
			for _, choice := range one.List {
				if types[one] {
					markType(types, choice)
				}
			}
		case *ast.TypeSwitchStmt:
			for _, clause := range one.Body.List {
				types[clause] = true
			}
		case *ast.CallExpr:
			// Without types nothing tells `(*T)(x)` from a call of what a pointer points to, which the grammar takes it for.
			if isType(one.Fun) {
				markType(types, unwrapped(one.Fun))
			}
			if builtin, ok := one.Fun.(*ast.Ident); ok && (builtin.Name == "new" || builtin.Name == "make") && len(one.Args) > 0 {
				markType(types, one.Args[0])
			}
		case *ast.StarExpr:
			if types[one] {
				markType(types, one.X)
			} else {
				*found = append(*found, "*")
			}
		}
		return true
	})
}

// A star before a type makes one; what stands in brackets around it is a type too.
func markType(types map[ast.Node]bool, node ast.Expr) {
	if paren, ok := node.(*ast.ParenExpr); ok {
		markType(types, paren.X)
	}
	if node != nil {
		types[node] = true
	}
}

// Whether what is called can only be a type.
func isType(node ast.Expr) bool {
	switch one := node.(type) {
	case *ast.ParenExpr:
		return isType(one.X)
	case *ast.StarExpr:
		return isType(one.X)
	case *ast.ArrayType, *ast.MapType, *ast.ChanType, *ast.FuncType, *ast.StructType, *ast.InterfaceType:
		return true
	}
	return false
}

func unwrapped(node ast.Expr) ast.Expr {
	if paren, ok := node.(*ast.ParenExpr); ok {
		return unwrapped(paren.X)
	}
	return node
}

func label(files *token.FileSet, declared *ast.FuncDecl, words []word) function {
	var loops, ifs, choices, looped, ifsLooped int
	returns, decisions := 0, 0
	var last ast.Stmt
	if count := len(declared.Body.List); count > 0 {
		last = declared.Body.List[count-1]
	}
	var around []bool
	inLoop := 0
	ast.Inspect(declared, func(node ast.Node) bool {
		if node == nil {
			if around[len(around)-1] {
				inLoop--
			}
			around = around[:len(around)-1]
			return true
		}
		switch one := node.(type) {
		case *ast.IfStmt:
			ifs++
			decisions++
			if inLoop > 0 {
				ifsLooped++
			}
		case *ast.ForStmt, *ast.RangeStmt:
			loops++
			decisions++
			if inLoop > 0 {
				looped++
			}
		case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			choices++
		case *ast.CaseClause:
			if one.List != nil {
				decisions++
			}
		case *ast.CommClause:
			if one.Comm != nil {
				decisions++
			}
		case *ast.BinaryExpr:
			if one.Op == token.LAND || one.Op == token.LOR {
				decisions++
			}
		case *ast.ReturnStmt:
			if ast.Stmt(one) != last {
				returns++
			}
		}
		around = append(around, isLoop(node))
		if isLoop(node) {
			inLoop++
		}
		return true
	})
	var found []string
	signs(declared, &found)
	distinct := map[string]bool{}
	for _, sign := range found {
		distinct[sign] = true
	}
	variables, places, names := variablesOf(files, declared)
	// Predeclared constants, unless something else has the name.
	constants := map[token.Pos]bool{}
	fields := map[*ast.Ident]bool{}
	ast.Inspect(declared, func(node ast.Node) bool {
		switch one := node.(type) {
		case *ast.SelectorExpr:
			fields[one.Sel] = true
		case *ast.Ident:
			switch one.Name {
			case "true", "false", "nil", "iota":
				constants[one.Pos()] = one.Obj == nil && !fields[one]
			}
		}
		return true
	})
	length, naming, reserved, texts, numbers := 0, 0, 0, 0, 0
	for _, one := range words {
		if one.pos < declared.Pos() || one.pos >= declared.End() {
			continue
		}
		length++
		switch {
		case one.tok == token.IDENT && !constants[one.pos]:
			naming++
		case one.tok == token.STRING || one.tok == token.CHAR:
			texts++
		case one.tok == token.INT || one.tok == token.FLOAT || one.tok == token.IMAG:
			numbers++
		case one.tok.IsKeyword():
			reserved++
		}
	}
	return function{declared.Name.Name, files.PositionFor(declared.Pos(), false).Line, map[string]int{
		"cpx": 1 + decisions, "nms": ifs, "nml": loops, "csc": ifs + loops + choices, "nested_loop": looped,
		"if_in_loop": ifsLooped, "early_return": returns, "recursion": recursion(declared), "mxn": depth(declared),
		"len": length, "oct": len(found), "ocu": len(distinct), "tan": naming - reserved, "vcu": variables,
		"vct": places, "strings": texts, "numbers": numbers,
	}, names}
}

// Names of variables that a function declares, their places by the parser's own scopes, and names with their kind.
func variablesOf(files *token.FileSet, declared *ast.FuncDecl) (int, int, []named) {
	distinct := map[string]bool{}
	names := []named{{files.Position(declared.Name.Pos()).Offset, "IDM"}}
	places := 0
	fields := map[*ast.Ident]bool{}
	ast.Inspect(declared, func(node ast.Node) bool {
		switch one := node.(type) {
		case *ast.CompositeLit:
			// Without types a key may be the name of a field; in a literal with no type of its own it is taken for one.
			_, array := one.Type.(*ast.ArrayType)
			_, table := one.Type.(*ast.MapType)
			for _, element := range one.Elts {
				if pair, ok := element.(*ast.KeyValueExpr); ok && !array && !table {
					if key, ok := pair.Key.(*ast.Ident); ok {
						fields[key] = true
					}
				}
			}
		case *ast.TypeSpec:
			names = append(names, named{files.Position(one.Name.Pos()).Offset, "IDC"})
		case *ast.Ident:
			if fields[one] || one.Name == "_" || one.Obj == nil || one.Obj.Kind != ast.Var {
				return true
			}
			if one.Obj.Pos() < declared.Pos() || one.Obj.Pos() >= declared.End() {
				return true
			}
			// A field of a structure is no variable.
			if field, ok := one.Obj.Decl.(*ast.Field); ok && inStructure(declared, field) {
				return true
			}
			distinct[one.Name] = true
			places++
			if one.Obj.Pos() == one.Pos() {
				names = append(names, named{files.Position(one.Pos()).Offset, "IDV"})
			}
		}
		return true
	})
	return len(distinct), places, names
}

func inStructure(declared *ast.FuncDecl, field *ast.Field) bool {
	found := false
	ast.Inspect(declared, func(node ast.Node) bool {
		if one, ok := node.(*ast.StructType); ok {
			for _, other := range one.Fields.List {
				found = found || other == field
			}
		}
		return !found
	})
	return found
}

// Calls by the bare name where it means the function, and of a method through its receiver.
func recursion(declared *ast.FuncDecl) int {
	receiver := ""
	if declared.Recv != nil && len(declared.Recv.List) > 0 && len(declared.Recv.List[0].Names) > 0 {
		receiver = declared.Recv.List[0].Names[0].Name
	}
	count := 0
	ast.Inspect(declared.Body, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		called := call.Fun
		switch one := called.(type) {
		case *ast.IndexExpr:
			called = one.X
		case *ast.IndexListExpr:
			called = one.X
		}
		switch one := called.(type) {
		case *ast.Ident:
			outside := one.Obj == nil || one.Obj.Pos() < declared.Body.Pos() || one.Obj.Pos() >= declared.End()
			parameter := one.Obj != nil && one.Obj.Kind == ast.Var
			if declared.Recv == nil && one.Name == declared.Name.Name && outside && !parameter {
				count++
			}
		case *ast.SelectorExpr:
			through, ok := one.X.(*ast.Ident)
			if ok && receiver != "" && through.Name == receiver && one.Sel.Name == declared.Name.Name {
				count++
			}
		}
		return true
	})
	return count
}
