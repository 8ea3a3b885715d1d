package cudatest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	gocmd "os/exec"
	"path/filepath"
	"strings"
)

const module = "github.com/minfer-go/minfer/cudart"

// UnreadResults finds, in the packages at and below dir (without their tests), calls of the driver whose result nobody
// reads: calls that give a sys.Result, or an error from a function or method of package cudart, as a statement, after
// go or defer, or with that result assigned to _ and no comment on that line saying why. Each comes as "file:line: call".
// It runs the go command and compiles what the packages import.
func UnreadResults(dir string) ([]string, error) {
	packages, exports, err := list(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range packages {
		found, err := unread(p, exports)
		if err != nil {
			return nil, fmt.Errorf("cudatest: %s: %w", p.ImportPath, err)
		}
		out = append(out, found...)
	}
	return out, nil
}

type listed struct {
	ImportPath, Dir, Export string
	GoFiles, CgoFiles       []string
	DepOnly                 bool
	Error                   *struct{ Err string }
}

// list asks the go command for the packages and where the types of what they import lie.
func list(dir string) (packages []listed, exports map[string]string, err error) {
	cmd := gocmd.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,CgoFiles,DepOnly,Error", "./...")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("cudatest: go list in %s: %w: %s", dir, err, stderr.String())
	}
	exports = map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, fmt.Errorf("cudatest: go list in %s: %w", dir, err)
		}
		if p.Error != nil {
			return nil, nil, fmt.Errorf("cudatest: go list in %s: %s", dir, p.Error.Err)
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly {
			packages = append(packages, p)
		}
	}
	return packages, exports, nil
}

// unread looks through one package.
func unread(p listed, exports map[string]string) ([]string, error) {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range append(append([]string{}, p.GoFiles...), p.CgoFiles...) {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return nil, nil
	}
	lookup := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no types of %q are known", path)
		}
		return os.Open(exports[path])
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup), FakeImportC: true}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	if _, err := conf.Check(p.ImportPath, fset, files, info); err != nil {
		return nil, err
	}
	l := lint{fset: fset, info: info}
	for _, file := range files {
		l.comments = map[int]bool{}
		for _, group := range file.Comments {
			for _, c := range group.List {
				l.comments[fset.Position(c.Pos()).Line] = true
			}
		}
		ast.Inspect(file, l.node)
	}
	return l.found, nil
}

type lint struct {
	fset     *token.FileSet
	info     *types.Info
	comments map[int]bool // lines of the file that have one
	found    []string
}

func (l *lint) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ExprStmt:
		l.dropped(n.X)
	case *ast.GoStmt:
		l.dropped(n.Call)
	case *ast.DeferStmt:
		l.dropped(n.Call)
	case *ast.AssignStmt:
		l.assigned(n)
	case *ast.ValueSpec:
		if len(n.Values) == 1 && n.Names[len(n.Names)-1].Name == "_" {
			l.blank(n.Values[0])
		}
	}
	return true
}

// assigned looks for calls whose result goes to _.
func (l *lint) assigned(n *ast.AssignStmt) {
	isBlank := func(e ast.Expr) bool {
		id, ok := e.(*ast.Ident)
		return ok && id.Name == "_"
	}
	if len(n.Rhs) == 1 {
		if isBlank(n.Lhs[len(n.Lhs)-1]) {
			l.blank(n.Rhs[0])
		}
		return
	}
	for i, e := range n.Rhs {
		if isBlank(n.Lhs[i]) {
			l.blank(e)
		}
	}
}

func (l *lint) blank(e ast.Expr) {
	if !l.comments[l.fset.Position(e.End()).Line] {
		l.dropped(e)
	}
}

func (l *lint) dropped(e ast.Expr) {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok || !l.matters(call) {
		return
	}
	at := l.fset.Position(call.Pos())
	l.found = append(l.found, fmt.Sprintf("%s:%d: the result of %s is not read", at.Filename, at.Line, types.ExprString(call.Fun)))
}

// matters says whether a call's last result is a sys.Result, or an error from package cudart.
func (l *lint) matters(call *ast.CallExpr) bool {
	sig, ok := l.info.Types[call.Fun].Type.(*types.Signature)
	if !ok || sig.Results().Len() == 0 {
		return false
	}
	last := sig.Results().At(sig.Results().Len() - 1).Type()
	if named, ok := types.Unalias(last).(*types.Named); ok {
		o := named.Obj()
		if o.Name() == "Result" && o.Pkg() != nil && o.Pkg().Path() == module+"/sys" {
			return true
		}
		if o.Name() == "error" && o.Pkg() == nil {
			return l.ours(call.Fun)
		}
	}
	return false
}

// ours says whether what is called is a function, method or field of package cudart.
func (l *lint) ours(fun ast.Expr) bool {
	var id *ast.Ident
	switch f := ast.Unparen(fun).(type) {
	case *ast.Ident:
		id = f
	case *ast.SelectorExpr:
		id = f.Sel
	default:
		return false
	}
	o := l.info.Uses[id]
	return o != nil && o.Pkg() != nil && (o.Pkg().Path() == module || strings.HasPrefix(o.Pkg().Path(), module+"/"))
}
