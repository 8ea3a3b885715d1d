package shape

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// WriteProxy packs every module of the workspace in root, as its files stand, into a file-system module proxy (the
// GOPROXY protocol's layout) under out. A go command with GOPROXY=file://OUT,… then sees the siblings as published.
func WriteProxy(root, out string) error {
	mods, err := Modules(root)
	if err != nil {
		return err
	}
	for _, m := range mods {
		if err := writeModule(m, out); err != nil {
			return fmt.Errorf("shape: packing %s: %w", m.Name, err)
		}
	}
	return nil
}

func writeModule(m Module, out string) error {
	v := module.Version{Path: Prefix + m.Name, Version: Version}
	dir := filepath.Join(out, filepath.FromSlash(v.Path), "@v") // paths have no capitals, so need no escaping
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(m.Dir, "go.mod"))
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"list":            Version + "\n",
		Version + ".info": fmt.Sprintf(`{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, Version),
		Version + ".mod":  string(mod),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(dir, Version+".zip"))
	if err != nil {
		return err
	}
	if err := zip.CreateFromDir(f, v, m.Dir); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
