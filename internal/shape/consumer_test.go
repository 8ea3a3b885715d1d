package shape

import (
	"bytes"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// published is the environment of a go command that sees the workspace's modules as published ones: a proxy made of
// the tree, a module cache that is thrown away, no workspace.
var published []string

var proxyDir string

func TestMain(m *testing.M) {
	code, err := withProxy(m.Run)
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}

func withProxy(run func() int) (int, error) {
	tmp, err := os.MkdirTemp("", "shape")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(tmp)
	proxyDir = filepath.Join(tmp, "proxy")
	if err := WriteProxy(root, proxyDir); err != nil {
		return 0, err
	}
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		return 0, err
	}
	settings := strings.Fields(string(out))
	published = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -modcacherw", "GONOSUMDB=github.com/minfer-go",
		"GOMODCACHE="+filepath.Join(tmp, "mod"),
		"GOPROXY=file://"+proxyDir+",file://"+settings[0]+"/cache/download,"+settings[1])
	return run(), nil
}

// command runs a program in dir with the environment of a consumer and gives what it printed.
func command(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = published
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s: %s%s", strings.Join(args, " "), out, stderr.String())
	return string(out)
}

// A program outside the workspace that requires one module gets that module and its arrows, nothing else.
func TestConsumer(t *testing.T) {
	for _, name := range []string{"gguf", "graph"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			src, err := os.ReadFile(filepath.Join("testdata", "consumer-"+name, "main.go"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), src, 0o666))
			mod := "module example.com/consumer\n\ngo 1.26.0\n\nrequire " + Prefix + name + " " + Version + "\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o666))

			command(t, dir, "go", "build", "-o", "consumer", ".")
			assert.Equal(t, "ok\n", command(t, dir, "./consumer"))

			packages := strings.Fields(command(t, dir, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "."))
			for _, path := range packages {
				if path != "example.com/consumer" {
					ok, testsOnly := allowed(name, path)
					assert.True(t, ok && !testsOnly, "a consumer of %s links %s", name, path)
				}
			}
		})
	}
}

// go install of the program at a version works: no replace, no missing requirement.
func TestInstall(t *testing.T) {
	bin := t.TempDir()
	keep := published
	published = append(published[:len(published):len(published)], "GOBIN="+bin)
	defer func() { published = keep }()
	command(t, bin, "go", "install", Prefix+"cli/minfer-cli@"+Version)
	assert.Contains(t, command(t, bin, "./minfer-cli", "version"), "minfer-cli "+Version)
}

// Each module's go.mod and go.sum are what scripts/tidy would leave.
func TestTidy(t *testing.T) {
	for _, m := range modules(t) {
		t.Run(m.Name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "m")
			v := module.Version{Path: Prefix + m.Name, Version: Version}
			packed := filepath.Join(proxyDir, filepath.FromSlash(v.Path), "@v", Version+".zip")
			require.NoError(t, zip.Unzip(dir, v, packed))
			before := sums(t, dir)
			command(t, dir, "go", "mod", "tidy")
			after, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			require.NoError(t, err)
			committed, err := os.ReadFile(filepath.Join(m.Dir, "go.mod"))
			require.NoError(t, err)
			assert.Equal(t, string(committed), string(after), "run scripts/tidy %s", m.Name)
			assert.Equal(t, before, sums(t, dir), "run scripts/tidy %s", m.Name)
		})
	}
}

// sums are the lines of dir's go.sum but those of siblings, which scripts/tidy drops.
func sums(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if os.IsNotExist(err) {
		return ""
	}
	require.NoError(t, err)
	var kept strings.Builder
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "github.com/minfer-go/") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
