package shape

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

func modules(t *testing.T) []Module {
	t.Helper()
	mods, err := Modules(root)
	require.NoError(t, err)
	require.NotEmpty(t, mods)
	return mods
}

// allowed says whether module m may depend on path, and whether only its tests may.
func allowed(m, path string) (ok, testsOnly bool) {
	if name, sibling := strings.CutPrefix(path, Prefix); sibling {
		return name == m || slices.Contains(Siblings[m], name), false
	}
	for _, d := range ThirdParty {
		if d.Path == path && (d.In == nil || slices.Contains(d.In, m)) {
			return true, d.Tests
		}
	}
	return false, false
}

func TestEveryDependencyHasAReason(t *testing.T) {
	for _, d := range ThirdParty {
		assert.NotEmpty(t, d.Reason, d.Path)
	}
	for _, m := range modules(t) {
		assert.Contains(t, Siblings, m.Name, "a module without a row in Siblings")
	}
}

func TestGoModRequiresOnlyWhatIsAllowed(t *testing.T) {
	for _, m := range modules(t) {
		assert.Empty(t, m.File.Replace, "%s: dependents ignore a replace, and go install refuses it", m.Name)
		for _, r := range m.File.Require {
			ok, _ := allowed(m.Name, r.Mod.Path)
			assert.True(t, ok, "%s requires %s, which allow.go doesn't grant it", m.Name, r.Mod.Path)
			if strings.HasPrefix(r.Mod.Path, Prefix) {
				assert.Equal(t, Version, r.Mod.Version, "%s: %s", m.Name, r.Mod.Path)
			}
		}
	}
}

// list runs go list in a module's folder, inside the workspace, and gives its words, sorted and each once.
func list(t *testing.T, m Module, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = m.Dir
	cmd.Env = append(os.Environ(), "GOWORK=")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s: go list: %s", m.Name, stderr.String())
	words := strings.Fields(string(out))
	slices.Sort(words)
	return slices.Compact(words)
}

// imports gives the modules whose packages the given packages import, directly or not.
func imports(t *testing.T, m Module, packages ...string) []string {
	t.Helper()
	if len(packages) == 0 {
		return nil
	}
	return list(t, m, append([]string{"-deps", "-f", "{{with .Module}}{{.Path}}{{end}}"}, packages...)...)
}

// production lists a module's packages but those that exist for tests, such as graph/graphtest.
func production(t *testing.T, m Module) []string {
	t.Helper()
	return slices.DeleteFunc(list(t, m, "./..."), func(p string) bool { return strings.HasSuffix(p, "test") })
}

func TestImportsFollowTheArrows(t *testing.T) {
	for _, m := range modules(t) {
		for _, path := range imports(t, m, production(t, m)...) {
			ok, testsOnly := allowed(m.Name, path)
			assert.True(t, ok, "%s imports %s, which allow.go doesn't grant it", m.Name, path)
			assert.False(t, testsOnly, "%s imports %s outside tests", m.Name, path)
		}
		for _, path := range imports(t, m, "-test", "./...") {
			ok, _ := allowed(m.Name, path)
			assert.True(t, ok, "a test of %s imports %s, which allow.go doesn't grant it", m.Name, path)
		}
	}
}

// Environment gates stand in one table, so that `minfer-cli env` can print them all.
func TestOnlyTheTableReadsTheEnvironment(t *testing.T) {
	table := filepath.Join("cli", "internal", "env", "env.go")
	for _, m := range modules(t) {
		for _, name := range goFiles(t, m.Dir) {
			rel, err := filepath.Rel(root, name)
			require.NoError(t, err)
			if rel == table || strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, call := range environmentCalls(t, name) {
				assert.Fail(t, "environment read outside "+table, "%s calls os.%s", rel, call)
			}
		}
	}
}

func goFiles(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && filepath.Ext(path) == ".go" {
			names = append(names, path)
		}
		return err
	}))
	return names
}

func environmentCalls(t *testing.T, name string) (calls []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "os" {
				switch sel.Sel.Name {
				case "Getenv", "LookupEnv", "Environ", "ExpandEnv":
					calls = append(calls, sel.Sel.Name)
				}
			}
		}
		return true
	})
	return calls
}
